#!/usr/bin/env python3
"""Writes the package for C and C++ (docs/package.md): a folder, as a tar file, with headers, the
library and the libraries that it needs (graft_libraries.py), files for CMake, and licences. The
folder may lie anywhere.

    build_package.py --output=FILE --version=HEADER --license=FILE [--patchelf=FILE]
                     --library=FILE FILE...
    build_package.py name FILE

    name           prints the name of the folder in a package
    --output       the package, a .tar.gz, under any name
    --version      the header that has the version, common/version.h
    --library      libmillrace.so.1
    FILE           headers (.h, .hpp) and files for CMake (.cmake), in which @VERSION@ stands for the
                   version

The same input gives the same bytes. Exit code 1 and a sentence when something is not as it should be.
"""

import argparse
import gzip
import io
import os
import sys
import tarfile
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import graft_libraries  # noqa: E402  (the path is set above)
import portable_files  # noqa: E402
from elf_file import ElfError  # noqa: E402
from portable_files import PortableError  # noqa: E402

_LINK = "libmillrace.so"  # what programs are linked with; the library is its soname


def folder_name(version):
    return f"millrace-{version}-linux-x86_64"


class Package:
    """A tar file of one folder, that grows file by file."""

    def __init__(self, path, folder):
        self._folder = folder
        self._file = open(path, "wb")  # pylint: disable=consider-using-with
        # Without a name and a time of its own.
        self._zip = gzip.GzipFile("", "wb", 9, self._file, mtime=0)
        self._tar = tarfile.open(fileobj=self._zip, mode="w", format=tarfile.PAX_FORMAT)

    def _entry(self, name, mode):
        entry = tarfile.TarInfo(f"{self._folder}/{name}")
        entry.mode = mode
        return entry

    def add(self, name, data, executable=False):
        entry = self._entry(name, 0o755 if executable else 0o644)
        entry.size = len(data)
        self._tar.addfile(entry, io.BytesIO(data))

    def link(self, name, target):
        entry = self._entry(name, 0o777)
        entry.type, entry.linkname = tarfile.SYMTYPE, target
        self._tar.addfile(entry)

    def finish(self):
        for file in (self._tar, self._zip, self._file):
            file.close()


def place_of(file):
    """Where a header or a file for CMake lies in the folder."""
    name = os.path.basename(file)
    if name.endswith((".h", ".hpp")):
        return f"include/{name}"
    if name.endswith(".cmake"):
        return f"lib/cmake/Millrace/{name}"
    raise PortableError(f"{file} is neither a header nor a file for CMake")


def build(arguments, work):
    """Returns the lines of the report."""
    version = portable_files.read_version(arguments.version)
    grafted, licenses, report = portable_files.graft([arguments.library], work, "package",
                                                     arguments.patchelf)
    package = Package(arguments.output, folder_name(version))
    for file in sorted(arguments.files, key=place_of):
        data = portable_files.read_bytes(file)
        if file.endswith(".cmake"):
            data = data.replace(b"@VERSION@", version.encode())
        package.add(place_of(file), data)
    for name in sorted(os.listdir(grafted)):
        package.add(f"lib/{name}", portable_files.read_bytes(os.path.join(grafted, name)),
                    executable=True)
    package.link(f"lib/{_LINK}", os.path.basename(arguments.library))
    for name, path in {"LICENSE": arguments.license, **licenses}.items():
        package.add(f"share/doc/millrace/licenses/{name}", portable_files.read_bytes(path))
    package.finish()
    return report + [f"{folder_name(version)}: {os.path.getsize(arguments.output) / 1e6:.1f} MB"]


def name_of(path):
    """The folder in a package under any name."""
    try:
        with tarfile.open(path) as archive:
            first = archive.next()
    except tarfile.TarError:
        first = None
    if first is None or not first.name.startswith("millrace-"):
        raise PortableError(f"{path} is no package of Millrace")
    return first.name.split("/")[0]


def run(argv, description, add_arguments, build_file, name_of_file):
    """A script that writes a package, or prints the name of one: `SCRIPT name FILE`. Returns the exit code.

    Args:
      description: of the script.
      add_arguments: adds those of writing to a parser.
      build_file: writes; takes the arguments and an empty folder, returns the lines of the report.
      name_of_file: the name of a package in a file.
    """
    script = os.path.basename(argv[0])
    if argv[1:2] == ["name"]:
        parser = argparse.ArgumentParser(prog=f"{script} name")
        parser.add_argument("file", metavar="FILE")
        arguments = parser.parse_args(argv[2:])
    else:
        parser = argparse.ArgumentParser(description=description, allow_abbrev=False,
                                         formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("--output", required=True)
        add_arguments(parser)
        arguments = parser.parse_args(argv[1:])
    try:
        if argv[1:2] == ["name"]:
            print(name_of_file(arguments.file))
            return 0
        with tempfile.TemporaryDirectory() as work:
            for line in build_file(arguments, work):
                print(line)
    except (PortableError, graft_libraries.GraftError, ElfError, OSError) as error:
        print(f"{script}: {error}", file=sys.stderr)
        return 1
    return 0


def _add_arguments(parser):
    for name in ("version", "license", "library"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--patchelf", default="patchelf")
    parser.add_argument("files", nargs="+", metavar="FILE")


if __name__ == "__main__":
    sys.exit(run(sys.argv, __doc__, _add_arguments, build, name_of))
