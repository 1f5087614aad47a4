#!/usr/bin/env python3
"""Writes the package for C and C++ (build_package.py) as a package of Debian: the same files below
/usr, with the Debian packages that they need.

    build_deb.py --output=FILE PACKAGE
    build_deb.py name FILE

    name      prints the file name of a .deb
    --output  the .deb, under any name
    PACKAGE   a .tar.gz of build_package.py

The same input gives the same bytes. Exit code 1 and a sentence when something is not as it should be.
"""

import hashlib
import os
import re
import subprocess
import sys
import tarfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import build_package  # noqa: E402  (the path is set above)
import graft_libraries  # noqa: E402
from elf_file import ElfFile  # noqa: E402
from portable_files import PortableError  # noqa: E402

_NAME = "libmillrace"
# Of the libraries that stay those of the machine (graft_libraries.BASE), with the releases that
# portable_files.py allows files to need.
_PACKAGES = {"libstdc++.so.6": "libstdc++6 (>= 12)", "libgcc_s.so.1": "libgcc-s1 (>= 12)"}
_LIBC = "libc6 (>= 2.35)"


def _dependencies(libraries):
    """What the libraries need of Debian, for the field Depends."""
    own = {name for name in os.listdir(libraries) if os.path.isfile(os.path.join(libraries, name))}
    found = set()
    for name in sorted(own):
        for needed in ElfFile(os.path.join(libraries, name)).needed:
            if needed in own:
                continue
            if not graft_libraries.BASE.match(needed):
                raise PortableError(f"{name} needs {needed}, which is not in the package")
            found.add(_PACKAGES.get(needed, _LIBC))
    return sorted(found)


def _files(folder):
    return sorted(os.path.join(parent, name)
                  for parent, _, names in os.walk(folder) for name in names)


def _write_control(root, version):
    usr = os.path.join(root, "usr")
    files = [file for file in _files(usr) if not os.path.islink(file)]
    kib = sum(-(-os.path.getsize(file) // 1024) for file in files)
    control = os.path.join(root, "DEBIAN")
    os.mkdir(control, 0o755)
    sums = []
    for file in files:
        with open(file, "rb") as content:
            digest = hashlib.md5(content.read(), usedforsecurity=False).hexdigest()
        sums.append(f"{digest}  {os.path.relpath(file, root)}\n")
    libraries = os.path.join(usr, "lib")
    text = {
        "control": "\n".join([
            f"Package: {_NAME}", f"Version: {version}", "Architecture: amd64", "Section: libdevel",
            "Priority: optional", "Maintainer: Millrace", f"Installed-Size: {kib}",
            f"Depends: {', '.join(_dependencies(libraries))}",
            "Description: batches for training that data servers decode and augment",
            " The client of Millrace for C and C++: headers, libmillrace.so with the libraries that it",
            " needs, and files for CMake's find_package(Millrace).", ""]),
        "md5sums": "".join(sums),
        # The cache of the loader has /usr/lib/libmillrace.so.1 from then on.
        "triggers": "activate-noawait ldconfig\n",
    }
    for name, content in text.items():
        path = os.path.join(control, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(content)
        os.chmod(path, 0o644)


def build(arguments, work):
    """Writes the .deb; there is nothing to report. `work`: an empty folder."""
    name = build_package.name_of(arguments.package)
    with tarfile.open(arguments.package) as archive:
        archive.extractall(work)
    root = os.path.join(work, "root")
    os.mkdir(root, 0o755)
    os.rename(os.path.join(work, name), os.path.join(root, "usr"))
    for parent, _, _ in os.walk(root):
        os.chmod(parent, 0o755)
    licenses = os.path.join(root, "usr/share/doc", _NAME)
    os.mkdir(licenses, 0o755)
    # Where Debian looks for it.
    os.symlink("../millrace/licenses/LICENSE", os.path.join(licenses, "copyright"))
    _write_control(root, name.split("-")[1])
    # Every file has the time 0, as in the tar. gzip: xz makes other bytes with another number of threads.
    result = subprocess.run(["dpkg-deb", "--root-owner-group", "-Zgzip", "--build", root, arguments.output],
                            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                            env={**os.environ, "SOURCE_DATE_EPOCH": "0"})
    if result.returncode != 0:
        raise PortableError(f"dpkg-deb failed: {(result.stderr or result.stdout).strip()}")
    return []


def name_of(path):
    """The file name that a .deb under any name should have."""
    result = subprocess.run(["dpkg-deb", "--showformat=${Package}_${Version}_${Architecture}",
                             "--show", path], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                            check=False)
    if result.returncode != 0 or not re.fullmatch(rf"{_NAME}_[\d.]+_amd64", result.stdout):
        raise PortableError(f"{path} is no Debian package of Millrace")
    return result.stdout + ".deb"


def _add_arguments(parser):
    parser.add_argument("package", metavar="PACKAGE")


if __name__ == "__main__":
    sys.exit(build_package.run(sys.argv, __doc__, _add_arguments, build, name_of))
