"""Wheels of Python as files. Used by build_wheel.py.

    wheel = Wheel(path, "name", "1.0", "py3-none-any")
    wheel.add("name/__init__.py", b"...")
    wheel.finish(["Summary: ..."], description, licenses={"LICENSE": path})

The same input gives the same bytes.
"""

import base64
import hashlib
import re
import zipfile

from portable_files import PortableError, read_bytes

# portable_files.py checks what it promises.
PLATFORM = "manylinux_2_35_x86_64"
# The earliest time that a zip file can hold.
_TIME = (1980, 1, 1, 0, 0, 0)


class Wheel:
    """A wheel that grows file by file, and its RECORD."""

    def __init__(self, path, package, version, tag):
        self._archive = zipfile.ZipFile(path, "w")
        self._package, self._version, self._tag = package, version, tag
        self._info = f"{package}-{version}.dist-info"
        self._record = []

    @staticmethod
    def file_name(package, version, tag):
        return f"{package}-{version}-{tag}.whl"

    def _write(self, name, data, mode):
        entry = zipfile.ZipInfo(name, _TIME)
        entry.external_attr = mode << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        self._archive.writestr(entry, data)

    def add(self, name, data, executable=False):
        self._write(name, data, 0o100755 if executable else 0o100644)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self._record.append(f"{name},sha256={digest},{len(data)}")

    def finish(self, lines, description, licenses, entry_points=""):
        """`lines` of METADATA besides name, version and licence files."""
        metadata = ["Metadata-Version: 2.4", f"Name: {self._package.replace('_', '-')}",
                    f"Version: {self._version}", *lines,
                    *(f"License-File: {name}" for name in licenses),
                    "Description-Content-Type: text/markdown", "", description]
        self.add(f"{self._info}/METADATA", "\n".join(metadata).encode())
        self.add(f"{self._info}/WHEEL", ("Wheel-Version: 1.0\nGenerator: millrace\n"
                                         f"Root-Is-Purelib: false\nTag: {self._tag}\n").encode())
        if entry_points:
            self.add(f"{self._info}/entry_points.txt", entry_points.encode())
        for name, path in licenses.items():
            self.add(f"{self._info}/licenses/{name}", read_bytes(path))
        name = f"{self._info}/RECORD"
        self._write(name, "".join(f"{line}\n" for line in [*self._record, f"{name},,"]), 0o100644)
        self._archive.close()


def name_of(path):
    """The file name that pip wants, of a wheel under any name."""
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            found = re.fullmatch(r"([^/-]+)-([^/-]+)\.dist-info/WHEEL", name)
            if found and found[1].startswith("millrace"):
                tag = re.search(r"^Tag: (\S+)$", archive.read(name).decode(), re.M)
                return Wheel.file_name(found[1], found[2], tag[1])
    raise PortableError(f"{path} is no wheel of Millrace")
