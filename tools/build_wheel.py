#!/usr/bin/env python3
"""Writes the wheels for Python: `millrace`, the client, and `millrace-server`, the programs. Both
contain the libraries that they need, under names of their own (graft_libraries.py).

    build_wheel.py client --output=FILE --version=HEADER --description=FILE --license=FILE
                          [--patchelf=FILE] --library=FILE --extension=FILE MODULE...
    build_wheel.py server (the same) --program=FILE... --helper=FILE... --static=NAME... MODULE...
    build_wheel.py name FILE

    client         the package `millrace`
    server         the package `millrace_server`
    name           prints the file name that pip wants
    --output       the wheel, under any name
    --version      the header that has the version, common/version.h
    --description  text of the package's page
    --library      libmillrace.so.1
    --extension    _millrace.abi3.so
    --program      a program, where Bazel has built it; several times
    --helper       a program that only the others start; several times
    --static       name of an archive that is linked into a program (libz.a), for its licence;
                   several times
    MODULE         the package's files

Exit code 1 and a sentence when something is not as it should be: a file that needs more than the
tag of the wheel promises, a library whose licence is not found.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import zipfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import graft_libraries  # noqa: E402  (the path is set above)
import portable_files  # noqa: E402
import wheel_file  # noqa: E402
from elf_file import ElfError, ElfFile  # noqa: E402
from portable_files import PortableError  # noqa: E402
from wheel_file import Wheel  # noqa: E402

_CLIENT_TAG = f"cp311-abi3-{wheel_file.PLATFORM}"
_SERVER_TAG = f"py3-none-{wheel_file.PLATFORM}"
_COMMON = [
    "Classifier: Development Status :: 4 - Beta",
    "Classifier: Intended Audience :: Developers",
    "Classifier: Operating System :: POSIX :: Linux",
    "Classifier: Programming Language :: Python :: 3",
    "Classifier: Topic :: Scientific/Engineering :: Artificial Intelligence",
]


def check_extension(path):
    """It finds our library in its folder, and needs none of the machine but the run-time."""
    elf = ElfFile(path)
    portable_files.check_levels(path, elf.needed_versions)
    for needed in elf.needed:
        if needed != "libmillrace.so.1" and not graft_libraries.BASE.match(needed):
            raise PortableError(f"{path} needs {needed}")
    if elf.search_path != "$ORIGIN/_libs":
        raise PortableError(f"{path} looks for libraries in '{elf.search_path}'")
    exported = sorted({symbol.name for symbol in elf.exports()})
    if exported != ["PyInit__millrace"]:
        raise PortableError(f"{path} exports {exported}")


def _add_folder(wheel, folder, place):
    for name in sorted(os.listdir(folder)):
        wheel.add(f"{place}/{name}", portable_files.read_bytes(os.path.join(folder, name)),
                  executable=True)


def _build_client(arguments, work, version, description):
    extension = portable_files.strip_copy(arguments.extension, os.path.join(work, "extension"))
    check_extension(extension)
    grafted, licenses, report = portable_files.graft([arguments.library], work, "wheel",
                                                     arguments.patchelf)
    wheel = Wheel(arguments.output, "millrace", version, _CLIENT_TAG)
    for module in sorted(arguments.modules):
        wheel.add(f"millrace/{os.path.basename(module)}", portable_files.read_bytes(module))
    wheel.add("millrace/_millrace.abi3.so", portable_files.read_bytes(extension), executable=True)
    _add_folder(wheel, grafted, "millrace/_libs")
    wheel.finish([
        "Summary: Batches for training that data servers decode and augment",
        "License-Expression: Apache-2.0 AND BSD-3-Clause AND MIT AND Zlib",
        *_COMMON,
        "Classifier: Programming Language :: Python :: 3.11",
        "Classifier: Programming Language :: Python :: 3.12",
        "Classifier: Programming Language :: Python :: 3.13",
        "Classifier: Programming Language :: Python :: Implementation :: CPython",
        "Classifier: Typing :: Typed",
        "Requires-Python: >=3.11",
        "Provides-Extra: numpy",
        "Requires-Dist: numpy>=1.24; extra == \"numpy\"",
        "Provides-Extra: server",
        f"Requires-Dist: millrace-server=={version}; extra == \"server\"",
        "Provides-Extra: torch",
        "Requires-Dist: torch>=2.1; extra == \"torch\"",
    ], description, {"LICENSE": arguments.license, **licenses})
    return report


def _find_archive(name):
    """The path of a static library, as the compiler finds it."""
    result = subprocess.run(["gcc", f"-print-file-name={name}"], capture_output=True, text=True,
                            check=False)
    path = os.path.realpath(result.stdout.strip())
    if result.returncode != 0 or not os.path.isfile(path):
        raise PortableError(f"the compiler does not find {name}: run tools/setup first")
    return path


def _build_server(arguments, work, version, description):
    programs = sorted(os.path.basename(path) for path in arguments.program)
    grafted, licenses, report = portable_files.graft(arguments.program + arguments.helper, work,
                                                     "server", arguments.patchelf)
    licenses.update(portable_files.find_licenses(map(_find_archive, arguments.static)))
    wheel = Wheel(arguments.output, "millrace_server", version, _SERVER_TAG)
    for module in sorted(arguments.modules):
        wheel.add(f"millrace_server/{os.path.basename(module)}", portable_files.read_bytes(module))
    _add_folder(wheel, grafted, "millrace_server/bin")
    wheel.finish([
        "Summary: Data servers that decode and augment training data, and their tools",
        "License-Expression: Apache-2.0 AND BSD-3-Clause AND BSD-2-Clause AND MIT AND Zlib AND IJG AND OLDAP-2.8 "
        "AND libpng-2.0",
        *_COMMON,
        "Requires-Python: >=3.8",
    ], description, {"LICENSE": arguments.license, **licenses}, "[console_scripts]\n" + "".join(
        f"{program} = millrace_server:run_{program.replace('-', '_')}\n" for program in programs))
    return report


def build(arguments, work):
    """Returns the lines of the report."""
    version = portable_files.read_version(arguments.version)
    with open(arguments.description, encoding="utf-8") as file:
        description = file.read()
    make = _build_client if arguments.what == "client" else _build_server
    report = make(arguments, work, version, description)
    size = os.path.getsize(arguments.output)
    return report + [f"{wheel_file.name_of(arguments.output)}: {size / 1e6:.1f} MB"]


def _parse(argv):
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    whats = parser.add_subparsers(dest="what", required=True)
    whats.add_parser("name").add_argument("file", metavar="FILE")
    for what, own in (("client", ("library", "extension")), ("server", ())):
        one = whats.add_parser(what, allow_abbrev=False)
        for name in ("output", "version", "description", "license", *own):
            one.add_argument(f"--{name}", required=True)
        if what == "server":
            one.add_argument("--program", action="append", required=True)
            one.add_argument("--helper", action="append", default=[])
            one.add_argument("--static", action="append", default=[])
        one.add_argument("--patchelf", default="patchelf")
        one.add_argument("modules", nargs="+", metavar="MODULE")
    return parser.parse_args(argv[1:])


def main(argv):
    arguments = _parse(argv)
    try:
        if arguments.what == "name":
            print(wheel_file.name_of(arguments.file))
            return 0
        with tempfile.TemporaryDirectory() as work:
            for line in build(arguments, work):
                print(line)
    except (PortableError, graft_libraries.GraftError, ElfError, OSError,
            zipfile.BadZipFile) as error:
        print(f"build_wheel.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
