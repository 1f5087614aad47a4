#!/usr/bin/env python3
"""Writes the wheel `millrace` for Python: the package, its extension module, and the client library
with the libraries that it needs under names of their own (graft_libraries.py).

    build_wheel.py --output=FILE --version=HEADER --library=FILE --extension=FILE
                   --description=FILE --license=FILE [--patchelf=FILE] MODULE...

    --output       the wheel. Its name may be any; `--name_of=FILE` prints the right one
    --version      the header that has the version, common/version.h
    --library      libmillrace.so.1
    --extension    _millrace.abi3.so
    --description  text of the package's page
    MODULE         the package's files

The same input gives the same bytes. Exit code 1 and a sentence when something is not as it should
be: an extension or a library that needs more than the tag of the wheel promises.
"""

import argparse
import base64
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import graft_libraries  # noqa: E402  (the path is set above)
from elf_file import ElfError, ElfFile  # noqa: E402

_PACKAGE = "millrace"
_LIBRARIES = f"{_PACKAGE}/_libs"
_PYTHON = "cp311-abi3"
_PLATFORM = "manylinux_2_35_x86_64"
# What machines of that tag have (auditwheel's policy manylinux_2_35).
_NEWEST = {"GLIBC": (2, 35), "GLIBCXX": (3, 4, 30), "CXXABI": (1, 3, 13)}
# The earliest time that a zip file can hold.
_TIME = (1980, 1, 1, 0, 0, 0)


class WheelError(Exception):
    """What failed, with the name of the file."""


def read_version(header):
    with open(header, encoding="utf-8") as file:
        found = re.search(r'kMillraceVersion\[\] = "([^"]+)"', file.read())
    if not found:
        raise WheelError(f"{header} has no kMillraceVersion")
    return found[1]


def wheel_name(version):
    return f"{_PACKAGE}-{version}-{_PYTHON}-{_PLATFORM}.whl"


def name_of(wheel):
    """The file name that pip wants, of a wheel under any name."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            found = re.fullmatch(rf"{_PACKAGE}-([^/]+)\.dist-info/WHEEL", name)
            if found:
                return wheel_name(found[1])
    raise WheelError(f"{wheel} is no wheel of {_PACKAGE}")


def check_levels(file, needed_versions):
    """Nothing newer than the wheel's tag promises."""
    for versions in needed_versions.values():
        for version in versions:
            family, _, number = version.rpartition("_")
            if family in _NEWEST and re.fullmatch(r"[\d.]+", number) and \
                    tuple(map(int, number.split("."))) > _NEWEST[family]:
                raise WheelError(f"{file} needs {version}, which {_PLATFORM} does not have: build "
                                 "the wheel on Debian 12")


def check_extension(path):
    """It finds our library in its folder, and needs none of the machine but the run-time."""
    elf = ElfFile(path)
    check_levels(path, elf.needed_versions)
    for needed in elf.needed:
        if needed != "libmillrace.so.1" and not graft_libraries.BASE.match(needed):
            raise WheelError(f"{path} needs {needed}")
    if elf.search_path != "$ORIGIN/_libs":
        raise WheelError(f"{path} looks for libraries in '{elf.search_path}'")
    exported = sorted({symbol.name for symbol in elf.exports()})
    if exported != ["PyInit__millrace"]:
        raise WheelError(f"{path} exports {exported}")


def _stripped(source, folder):
    """A copy without the symbols that only debuggers need."""
    os.makedirs(folder, exist_ok=True)
    copy = os.path.join(folder, os.path.basename(source))
    shutil.copyfile(source, copy)
    os.chmod(copy, 0o755)
    result = subprocess.run(["strip", "--strip-unneeded", copy], capture_output=True, text=True,
                            check=False)
    if result.returncode != 0:
        raise WheelError(f"strip failed: {result.stderr.strip()}")
    return copy


def debian_licenses(libraries):
    """{Debian package: its copyright file} of the files."""
    found = {}
    for path in libraries:
        # A package may name the folder that is now a link to the other.
        candidates = [path, path.removeprefix("/usr")]
        for candidate in candidates:
            result = subprocess.run(["dpkg-query", "-S", candidate], capture_output=True, text=True,
                                    check=False)
            if result.returncode == 0:
                break
        else:
            raise WheelError(f"no Debian package has {path}, so its licence is not known")
        package = result.stdout.split(":")[0]
        text = f"/usr/share/doc/{package}/copyright"
        if not os.path.isfile(text):
            raise WheelError(f"{text} is missing: the wheel must hold the licence of {path}")
        found[package] = text
    return found


def metadata(version, description, license_files):
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {_PACKAGE}",
        f"Version: {version}",
        "Summary: Batches for training that data servers decode and augment",
        "License-Expression: Apache-2.0 AND BSD-3-Clause AND MIT AND Zlib",
        *[f"License-File: {name}" for name in license_files],
        "Classifier: Development Status :: 4 - Beta",
        "Classifier: Intended Audience :: Developers",
        "Classifier: Operating System :: POSIX :: Linux",
        "Classifier: Programming Language :: Python :: 3",
        "Classifier: Programming Language :: Python :: 3.11",
        "Classifier: Programming Language :: Python :: 3.12",
        "Classifier: Programming Language :: Python :: 3.13",
        "Classifier: Programming Language :: Python :: Implementation :: CPython",
        "Classifier: Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Classifier: Typing :: Typed",
        "Requires-Python: >=3.11",
        "Provides-Extra: numpy",
        "Requires-Dist: numpy>=1.24; extra == \"numpy\"",
        "Provides-Extra: torch",
        "Requires-Dist: torch>=2.1; extra == \"torch\"",
        "Description-Content-Type: text/markdown",
        "",
        description,
    ]
    return "\n".join(lines)


class _Writer:
    """A wheel that grows file by file, and its RECORD."""

    def __init__(self, path, info):
        self._archive = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9)
        self._info = info
        self._record = []

    def add(self, name, data, executable=False):
        entry = zipfile.ZipInfo(name, _TIME)
        entry.external_attr = (0o100755 if executable else 0o100644) << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        self._archive.writestr(entry, data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self._record.append(f"{name},sha256={digest},{len(data)}")

    def close(self):
        name = f"{self._info}/RECORD"
        entry = zipfile.ZipInfo(name, _TIME)
        entry.external_attr = 0o100644 << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        self._archive.writestr(entry, "".join(f"{line}\n" for line in [*self._record, f"{name},,"]))
        self._archive.close()


def _bytes(path):
    with open(path, "rb") as file:
        return file.read()


def build(arguments, work):
    """Returns the lines of the report."""
    version = read_version(arguments.version)
    extension = _stripped(arguments.extension, os.path.join(work, "extension"))
    check_extension(extension)
    library = _stripped(arguments.library, os.path.join(work, "library"))
    grafted = os.path.join(work, "grafted")
    report = graft_libraries.graft([library], grafted, "millrace_*", "wheel", arguments.patchelf)
    for name in os.listdir(grafted):
        check_levels(name, ElfFile(os.path.join(grafted, name)).needed_versions)
    originals = [path for name, path in graft_libraries.find_libraries([library]).items()
                 if not graft_libraries.BASE.match(name)]
    licenses = {"LICENSE": arguments.license}
    licenses.update({f"debian/{package}/copyright": path
                     for package, path in sorted(debian_licenses(originals).items())})

    info = f"{_PACKAGE}-{version}.dist-info"
    writer = _Writer(arguments.output, info)
    for module in sorted(arguments.modules):
        writer.add(f"{_PACKAGE}/{os.path.basename(module)}", _bytes(module))
    writer.add(f"{_PACKAGE}/_millrace.abi3.so", _bytes(extension), executable=True)
    for name in sorted(os.listdir(grafted)):
        writer.add(f"{_LIBRARIES}/{name}", _bytes(os.path.join(grafted, name)), executable=True)
    with open(arguments.description, encoding="utf-8") as file:
        description = file.read()
    writer.add(f"{info}/METADATA", metadata(version, description, licenses).encode())
    writer.add(f"{info}/WHEEL", (
        "Wheel-Version: 1.0\nGenerator: millrace\nRoot-Is-Purelib: false\n"
        f"Tag: {_PYTHON}-{_PLATFORM}\n").encode())
    for name, path in licenses.items():
        writer.add(f"{info}/licenses/{name}", _bytes(path))
    writer.close()
    size = os.path.getsize(arguments.output)
    return [line for line in report if not line.startswith("copied ")] + [
        f"{wheel_name(version)}: {size / 1e6:.1f} MB"]


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("output", "version", "library", "extension", "description", "license"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--patchelf", default="patchelf")
    parser.add_argument("--name_of", metavar="FILE", help="prints the file name of a wheel")
    parser.add_argument("modules", nargs="*", metavar="MODULE")
    arguments = parser.parse_args(argv[1:])
    try:
        if arguments.name_of:
            print(name_of(arguments.name_of))
            return 0
        for name in ("output", "version", "library", "extension", "description", "license"):
            if not getattr(arguments, name):
                raise WheelError(f"--{name} is missing; see --help")
        with tempfile.TemporaryDirectory() as work:
            for line in build(arguments, work):
                print(line)
    except (WheelError, graft_libraries.GraftError, ElfError, OSError,
            zipfile.BadZipFile) as error:
        print(f"build_wheel.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
