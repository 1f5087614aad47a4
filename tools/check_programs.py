"""Checks the built programs as a user meets them; tools/test runs it.

    check_programs.py BIN_DIR             every check; exit code 1 when one fails
    check_programs.py BIN_DIR --check=NAME
    check_programs.py --list

runs-anywhere   a copy of the folder, started from / with an empty environment
thin            the libraries that each program loads are those of its side
packages        Debian libraries belong to the packages that deploy/ names
documented      flags and subcommands in the documents are in the programs' help
flags           flags in the programs' help are named in the documents
pipelines       the pipeline specs in the documents have no mistake
values          the command lines and values of the documents and of the help do what they say,
                on small data and with a data server of the check
definitions     no two objects that a program or library is linked from define one symbol
cpu             programs that load Arrow look at the CPU before any initialiser runs
"""

import os
import re
import shutil
import sys
import tempfile

sys.dont_write_bytecode = True

from document_checks import (check_documented, check_flags, check_pipelines,  # noqa: E402
                             check_values)
from programs import PROGRAMS, ROOT, bazel_folder, run  # noqa: E402

# Parts of library names that a program must not load.
_FORBIDDEN = {
    "millrace-server": ["torch", "c10", "cudart", "cairo", "hdf5"],
    "millrace-data": ["torch", "c10", "cudart", "cairo", "hdf5"],
    "millrace": ["torch", "c10", "lmdb", "arrow", "parquet", "jpeg", "png", "cairo"],
    "millrace-train": ["lmdb", "arrow", "parquet", "jpeg", "png", "cairo"],
}
# Opened when a picture is asked for.
_PICTURES = "lib/libmillrace_picture.so"
# Started when an HDF5 file is read.
_HDF5 = "lib/millrace-hdf5"
# Bazel's expression of the programs and libraries that are linked from objects.
_LINKED = "kind(cc_binary, //client/... + //common/... + //proto/... + //server/... + //trainer/...)"
# Which list of deploy/ must cover which programs and libraries.
_IMAGES = {
    "server.packages": ["millrace-server", "millrace-data", _PICTURES, _HDF5],
    "trainer.packages": ["millrace", "millrace-train", _PICTURES],
}


def libraries(program):
    """{name: path} of the libraries that the program loads."""
    result = run(["ldd", program])
    return dict(re.findall(r"^\s*(\S+) => (\S+)", result.stdout, re.MULTILINE))


def check_runs_anywhere(bin_dir):
    mistakes = []
    with tempfile.TemporaryDirectory() as folder:
        copy = os.path.join(folder, "a folder", "bin")
        # Links spare the time of copying libtorch; they resolve as copies do.
        shutil.copytree(bin_dir, copy, copy_function=_link_or_copy)
        for program in PROGRAMS:
            result = run([os.path.join(copy, program), "--version"], cwd="/",
                          env={"PATH": "/usr/bin:/bin"})
            if result.returncode != 0 or not re.search(r"\d+\.\d+\.\d+", result.stdout):
                mistakes.append(f"{program} --version, copied and started from /: exit code "
                                f"{result.returncode}: {result.stdout}{result.stderr}")
    return mistakes


def _link_or_copy(source, target):
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def check_thin(bin_dir):
    mistakes = []
    for program, forbidden in _FORBIDDEN.items():
        for name, path in libraries(os.path.join(bin_dir, program)).items():
            if any(part in name for part in forbidden):
                mistakes.append(f"{program} loads {name}")
            if path == "not":
                mistakes.append(f"{program} does not find {name}")
    return mistakes


def _depends(package):
    """Names of the packages that an installed package depends on."""
    result = run(["dpkg-query", "-W", "-f=${Depends}, ${Pre-Depends}", package])
    return re.findall(r"(?:^|[,|])\s*([a-z0-9][a-z0-9.+-]*)", result.stdout)


def _closure(packages):
    seen, todo = set(), list(packages)
    while todo:
        package = todo.pop()
        if package not in seen:
            seen.add(package)
            todo += _depends(package)
    return seen


def check_packages(bin_dir):
    mistakes = []
    for listing, programs in _IMAGES.items():
        with open(os.path.join(ROOT, "deploy", listing), encoding="utf-8") as file:
            named = [line.strip() for line in file if line.strip() and not line.startswith("#")]
        # libc and what every Debian has.
        covered = _closure(named + ["libc6", "libgcc-s1", "libstdc++6"])
        for program in programs:
            for name, path in libraries(os.path.join(bin_dir, program)).items():
                real = os.path.realpath(path)
                if real.startswith(os.path.realpath(bin_dir) + os.sep):
                    continue
                owner = None
                # /lib is a link to /usr/lib, and dpkg knows only one name.
                for candidate in (real, real.removeprefix("/usr"), path):
                    result = run(["dpkg-query", "-S", candidate])
                    if result.returncode == 0:
                        owner = result.stdout.split(":")[0]
                        break
                if owner not in covered:
                    mistakes.append(f"{program} loads {name} of the package {owner}, which "
                                    f"deploy/{listing} does not bring")
    return mistakes


def link_inputs(parameters, folder):
    """Paths of the objects and archives in a linker's parameter file."""
    with open(parameters, encoding="utf-8") as file:
        words = file.read().split("\n")
    return sorted({os.path.join(folder, w) for w in words if w.endswith((".o", ".a", ".lo"))
                   and not w.startswith("-")})


def defined_twice(files):
    """{symbol: the objects that define it} of strong symbols with more than one. A linker
    takes the first one that it meets in an archive, without a word."""
    # FILE[MEMBER]: NAME TYPE VALUE SIZE; upper-case types are global.
    result = run(["nm", "--print-file-name", "--extern-only", "--defined-only",
                   "--format=posix", "--no-sort"] + files)
    if result.returncode != 0:
        raise RuntimeError(f"nm: {result.stderr}")
    places = {}
    for line in result.stdout.splitlines():
        where, name, kind = re.match(r"(.*): (\S+) (\S)", line).groups()
        if kind in "ABCDGRST":
            places.setdefault(name, set()).add(where)
    return {name: sorted(where) for name, where in places.items() if len(where) > 1}


def check_definitions(_):
    bazel = {key: bazel_folder(key) for key in ("bazel-bin", "execution_root")}
    linked = run(["bazel", "query", "--noshow_progress", _LINKED], cwd=ROOT).stdout.split()
    if len(linked) < 8:
        return [f"only {len(linked)} programs and libraries were found: the search is broken"]
    mistakes = []
    for label in linked:
        program = label[2:].replace(":", "/")
        parameters = os.path.join(bazel["bazel-bin"], program + "-2.params")
        if not os.path.exists(parameters):
            mistakes.append(f"{program}: {parameters} is missing: run tools/test, or bazel "
                            f"build {label}")
            continue
        files = link_inputs(parameters, bazel["execution_root"])
        if not files:
            mistakes.append(f"{parameters} names no object: the search is broken")
            continue
        for name, where in defined_twice(files).items():
            plain = run(["c++filt", name]).stdout.strip()
            mistakes.append(f"{program}: {plain} is defined in {' and in '.join(where)}: rename "
                            "one, or put it into an anonymous namespace")
    return mistakes


def has_preinit(program):
    """Whether the program has functions that run before the initialisers of its libraries."""
    return "(PREINIT_ARRAY)" in run(["readelf", "--dynamic", "--wide", program]).stdout


def check_cpu(bin_dir):
    if os.uname().machine != "x86_64":
        return []
    mistakes, looked_at = [], 0
    for program in PROGRAMS:
        path = os.path.join(bin_dir, program)
        if not any("arrow" in name for name in libraries(path)):
            continue
        looked_at += 1
        # Nothing else puts a function there.
        if not has_preinit(path):
            mistakes.append(f"{program} loads Arrow, which is compiled for SSE4.2, and does not "
                            "check the CPU before: add MR_CHECK_CPU to its main.cc")
    if looked_at < 2:
        mistakes.append(f"only {looked_at} programs load Arrow: the search is broken")
    return mistakes


CHECKS = {
    "runs-anywhere": check_runs_anywhere,
    "thin": check_thin,
    "packages": check_packages,
    "documented": check_documented,
    "flags": check_flags,
    "values": check_values,
    "pipelines": check_pipelines,
    "definitions": check_definitions,
    "cpu": check_cpu,
}


def main(argv):
    if argv[1:] == ["--list"]:
        print("\n".join(CHECKS))
        return 0
    chosen = list(CHECKS)
    if len(argv) == 3 and argv[2].startswith("--check=") and argv[2][8:] in CHECKS:
        chosen = [argv[2][8:]]
    elif len(argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    missing = [p for p in PROGRAMS + [_PICTURES, _HDF5] if not libraries(os.path.join(argv[1], p))]
    if missing:
        print(f"{argv[1]} lacks {', '.join(missing)}: run tools/build", file=sys.stderr)
        return 1
    mistakes = []
    for name in chosen:
        try:
            mistakes += [f"{name}: {mistake}" for mistake in CHECKS[name](argv[1])]
        except RuntimeError as error:
            mistakes.append(f"{name}: {error}")
    for mistake in mistakes:
        print(mistake, file=sys.stderr)
    return 1 if mistakes else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
