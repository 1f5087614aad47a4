"""Wheels of Python as files, and what our wheels promise about the machine. Used by build_wheel.py.

    wheel = Wheel(path, "name", "1.0", "py3-none-any")
    wheel.add("name/__init__.py", b"...")
    wheel.finish(["Summary: ..."], description, licenses={"LICENSE": path})

The same input gives the same bytes.
"""

import base64
import glob
import hashlib
import os
import re
import subprocess
import zipfile

PLATFORM = "manylinux_2_35_x86_64"
# What machines of that tag have (auditwheel's policy manylinux_2_35).
_NEWEST = {"GLIBC": (2, 35), "GLIBCXX": (3, 4, 30), "CXXABI": (1, 3, 13)}
# The earliest time that a zip file can hold.
_TIME = (1980, 1, 1, 0, 0, 0)


class WheelError(Exception):
    """What failed, with the name of the file."""


def read_bytes(path):
    with open(path, "rb") as file:
        return file.read()


def check_levels(file, needed_versions):
    """Nothing newer than the wheel's tag promises."""
    for versions in needed_versions.values():
        for version in versions:
            family, _, number = version.rpartition("_")
            if family in _NEWEST and re.fullmatch(r"[\d.]+", number) and \
                    tuple(map(int, number.split("."))) > _NEWEST[family]:
                raise WheelError(f"{file} needs {version}, which {PLATFORM} does not have: build "
                                 "the wheel on Debian 12")


def strip_copy(source, folder):
    """Copies a file into the folder, without the symbols that only debuggers need."""
    os.makedirs(folder, exist_ok=True)
    copy = os.path.join(folder, os.path.basename(source))
    result = subprocess.run(["strip", "--strip-unneeded", "-o", copy, source], capture_output=True,
                            text=True, check=False)
    if result.returncode != 0:
        raise WheelError(f"strip failed: {result.stderr.strip()}")
    os.chmod(copy, 0o755)
    return copy


def _package_of_debian(path):
    # A package may name the folder that is now a link to the other.
    for candidate in (path, path.removeprefix("/usr")):
        result = subprocess.run(["dpkg-query", "-S", candidate], capture_output=True, text=True,
                                check=False)
        if result.returncode == 0:
            return result.stdout.split(":")[0]
    return None


def find_licenses(libraries):
    """{name in the wheel: file}: the copyright file of each library's Debian package, or the licences
    of the Python wheel that it lies in.

    Raises WheelError: a library has neither.
    """
    found = {}
    for path in libraries:
        package = _package_of_debian(path)
        if package:
            files = {f"debian/{package}/copyright": f"/usr/share/doc/{package}/copyright"}
        else:
            site = os.path.dirname(os.path.dirname(path))
            files = {f"{os.path.basename(os.path.dirname(path))}/{os.path.basename(file)}": file
                     for file in glob.glob(os.path.join(site, "*.dist-info", "licenses", "*"))}
        if not files or not all(os.path.isfile(file) for file in files.values()):
            raise WheelError(f"the licence of {path} was not found, and the wheel must hold it: "
                             f"looked for {', '.join(files.values()) or 'its Debian package'}")
        found.update(files)
    return dict(sorted(found.items()))


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
    raise WheelError(f"{path} is no wheel of Millrace")
