"""tools/elf_file.py reads what readelf reads, and finds symbols as the loader does."""

import re
import subprocess
import tempfile
import unittest

import elf_file


def _path_of(soname):
    for line in subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True,
                               check=True).stdout.splitlines():
        found = re.match(rf"\s*{re.escape(soname)} \(libc6,x86-64\) => (\S+)", line)
        if found:
            return found[1]
    raise AssertionError(f"ldconfig does not know {soname}")


class AsReadelf(unittest.TestCase):

    # C++ with GNU_UNIQUE symbols; C with versions of its own; many versions of glibc.
    LIBRARIES = ["libprotobuf.so.32", "libcrypto.so.3", "libstdc++.so.6"]

    def test_symbols(self):
        for soname in self.LIBRARIES:
            path = _path_of(soname)
            lines = subprocess.run(["readelf", "-W", "--dyn-syms", path], capture_output=True,
                                   text=True, check=True).stdout.splitlines()
            wanted = []
            for line in lines:
                words = line.split()
                if len(words) >= 8 and words[0].rstrip(":").isdigit() and words[7]:
                    name, _, version = words[7].replace("@@", "@").partition("@")
                    wanted.append((name, version, words[6] == "UND", words[4], int(words[1], 16)))
            got = [(s.name, s.version, s.undefined, elf_file.BINDINGS[s.binding], s.value)
                   for s in elf_file.ElfFile(path).symbols if s.name]
            # readelf names a version's own symbol without the version.
            absolute = {s.name for s in elf_file.ElfFile(path).symbols if s.absolute}
            self.assertEqual([g for g in got if g[0] not in absolute],
                             [w for w in wanted if w[0] not in absolute], soname)
            self.assertGreater(len(got), 1000)

    def test_names(self):
        for soname in self.LIBRARIES:
            file = elf_file.ElfFile(_path_of(soname))
            lines = subprocess.run(["readelf", "-dW", file.path], capture_output=True, text=True,
                                   check=True).stdout
            self.assertEqual(file.soname, soname)
            self.assertEqual(file.needed, re.findall(r"\(NEEDED\).*\[(.*)\]", lines))
            self.assertFalse(file.is_program)

    def test_the_hash_table_finds_every_symbol_and_nothing_else(self):
        file = elf_file.ElfFile(_path_of("libprotobuf.so.32"))
        for index, symbol in enumerate(file.symbols):
            self.assertEqual(index in file.lookup(symbol.name),
                             bool(symbol.name) and not symbol.undefined, symbol)
        self.assertEqual(file.lookup("millrace_no_such_symbol"), [])

    def test_a_program_is_one(self):
        self.assertTrue(elf_file.ElfFile("/bin/bash").is_program)

    def test_versions_that_are_needed(self):
        needed = elf_file.ElfFile(_path_of("libprotobuf.so.32")).needed_versions
        self.assertIn("GLIBC_2.2.5", needed["libc.so.6"])
        self.assertIn("GLIBCXX_3.4", needed["libstdc++.so.6"])


class Damage(unittest.TestCase):

    def _error_of(self, content):
        with tempfile.NamedTemporaryFile(suffix=".so") as file:
            file.write(content)
            file.flush()
            with self.assertRaises(elf_file.ElfError) as caught:
                elf_file.ElfFile(file.name)
            self.assertIn(file.name, str(caught.exception))
        return str(caught.exception)

    def test_no_elf_file(self):
        self.assertIn("no ELF file", self._error_of(b"#!/bin/sh\n"))
        self.assertIn("no ELF file", self._error_of(b""))

    def test_a_file_that_is_cut_short(self):
        with open(_path_of("libprotobuf.so.32"), "rb") as file:
            content = file.read()
        for size in (6, 40, 64, 200, 5000, len(content) // 2):
            self._error_of(content[:size])
