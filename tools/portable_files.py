"""Programs and libraries of ours for other machines: stripped, with the libraries that they need under
names of their own (graft_libraries.py), and with the licences of these. Used by build_wheel.py and
build_package.py.

    folder, licenses, report = portable_files.graft(["libmillrace.so.1"], work, "wheel", patchelf)
"""

import glob
import os
import re
import subprocess

import graft_libraries
from elf_file import ElfFile

# What the machines have that the files are for: glibc 2.35 and the libstdc++ of GCC 12
# (auditwheel's policy manylinux_2_35).
_NEWEST = {"GLIBC": (2, 35), "GLIBCXX": (3, 4, 30), "CXXABI": (1, 3, 13)}


class PortableError(Exception):
    """What failed, with the name of the file."""


def read_bytes(path):
    with open(path, "rb") as file:
        return file.read()


def read_version(header):
    """Of the release; `header` is common/version.h."""
    with open(header, encoding="utf-8") as file:
        found = re.search(r'kMillraceVersion\[\] = "([^"]+)"', file.read())
    if not found:
        raise PortableError(f"{header} has no kMillraceVersion")
    return found[1]


def check_levels(file, needed_versions):
    """Nothing newer than the machines have."""
    for versions in needed_versions.values():
        for version in versions:
            family, _, number = version.rpartition("_")
            if family in _NEWEST and re.fullmatch(r"[\d.]+", number) and \
                    tuple(map(int, number.split("."))) > _NEWEST[family]:
                raise PortableError(f"{file} needs {version}, which machines with glibc 2.35 do not "
                                    "have: build on Debian 12")


def strip_copy(source, folder):
    """Copies a file into the folder, without the symbols that only debuggers need."""
    os.makedirs(folder, exist_ok=True)
    copy = os.path.join(folder, os.path.basename(source))
    result = subprocess.run(["strip", "--strip-unneeded", "-o", copy, source], capture_output=True,
                            text=True, check=False)
    if result.returncode != 0:
        raise PortableError(f"strip failed: {result.stderr.strip()}")
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
    """{name in the package: file}: the copyright file of each library's Debian package, or the
    licences of the Python wheel that it lies in.

    Raises PortableError: a library has neither.
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
            raise PortableError(f"the licence of {path} was not found, and the package must hold it: "
                                f"looked for {', '.join(files.values()) or 'its Debian package'}")
        found.update(files)
    return dict(sorted(found.items()))


def graft(files, work, salt, patchelf):
    """(folder with the files and their libraries, licences of the libraries, lines of a report).
    `salt`: as graft_libraries.py has it, another one for each package. `work`: a folder."""
    libraries = [path for name, path in sorted(graft_libraries.find_libraries(files).items())
                 if not graft_libraries.BASE.match(name)]
    # Stripped copies lie elsewhere than where they find Arrow.
    os.environ["LD_LIBRARY_PATH"] = ":".join(sorted({
        os.path.dirname(path) for path in libraries if not path.startswith(("/lib", "/usr/lib"))}))
    copies = [strip_copy(file, os.path.join(work, "stripped")) for file in files]
    grafted = os.path.join(work, "grafted")
    report = graft_libraries.graft(copies, grafted, "millrace_*", salt, patchelf)
    for name in os.listdir(grafted):
        check_levels(name, ElfFile(os.path.join(grafted, name)).needed_versions)
    return (grafted, find_licenses(libraries),
            [line for line in report if not line.startswith("copied ")])
