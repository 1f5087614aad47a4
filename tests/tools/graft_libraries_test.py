"""tools/graft_libraries.py: a client library with the libraries that it needs, in
one process with another protobuf that has the same files."""

import os
import re
import stat
import subprocess
import sys
import tempfile
import unittest

import elf_file
import graft_libraries
import worker

_CLIENT = "client/c/lib/libmillrace.so.1"
_PROTOBUF_USER = "tests/tools/protobuf_user"
_PATCHELF = os.path.abspath("external/patchelf/bin/patchelf")


def _run(*command, **options):
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          check=False, timeout=120, **options)


def _graft(output, *arguments, patchelf=_PATCHELF):
    return _run(sys.executable, "-B", graft_libraries.__file__, f"--output={output}",
                f"--patchelf={patchelf}", *arguments)


class Grafted(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.output = os.path.join(cls.folder.name, "grafted")
        result = _graft(cls.output, _CLIENT)
        if result.returncode != 0:
            raise AssertionError(result.stderr)
        cls.report = result.stdout
        cls.library = os.path.join(cls.output, os.path.basename(_CLIENT))
        cls.server = subprocess.Popen(
            ["server/millrace-server", "--synthetic_only", "--listen=127.0.0.1:0"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        cls.addClassCleanup(cls._stop)
        cls.endpoint = cls.server.stdout.readline().removeprefix("listening on ").strip()
        # Of the library as it is linked, in a process without another protobuf.
        cls.digest = cls._epoch_digest(_CLIENT)

    @classmethod
    def _stop(cls):
        cls.server.terminate()
        cls.server.wait()
        cls.server.stdout.close()

    @classmethod
    def _epoch_digest(cls, library):
        result = _run(sys.executable, "-B", worker.__file__, f"--library={os.path.abspath(library)}",
                      f"--endpoint={cls.endpoint}", "--seconds=0", "millrace")
        found = re.search(r"^epochs [1-9]\d* digest (\w{8})$", result.stdout, re.M)
        if result.returncode != 0 or not found:
            raise AssertionError(f"{library}: {result.stdout} {result.stderr}")
        return found[1]

    def _in_a_user_of_protobuf(self, library):
        return _run(_PROTOBUF_USER, os.path.abspath(library), self.endpoint, worker.SPEC)

    def test_without_a_graft_the_two_clash(self):
        result = self._in_a_user_of_protobuf(_CLIENT)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("File already exists in database", result.stderr)

    def test_grafted_each_has_a_protobuf_of_its_own(self):
        result = self._in_a_user_of_protobuf(self.library)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout, f"batches {worker.BATCHES} digest {self.digest}\n")

    def test_the_batches_are_the_same(self):
        self.assertEqual(self._epoch_digest(self.library), self.digest)

    def test_grafts_of_two_salts_live_in_one_process(self):
        other = os.path.join(self.folder.name, "salted")
        result = _graft(other, "--salt=other", _CLIENT)
        self.assertEqual(result.returncode, 0, result.stderr)
        code = ("import sys; sys.path.insert(0, sys.argv[1]); import worker\n"
                "loaders = [worker.Millrace(path, sys.argv[2], sys.argv[3]) for path in sys.argv[4:]]\n"
                "for loader in loaders * 2: loader()\n")
        result = _run(sys.executable, "-B", "-c", code, os.path.dirname(worker.__file__),
                      self.endpoint, self.digest, self.library,
                      os.path.join(other, os.path.basename(_CLIENT)))
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_the_library_exports_its_interface_alone(self):
        names = {s.name for s in elf_file.ElfFile(self.library).exports()}
        self.assertEqual(names, {s.name for s in elf_file.ElfFile(_CLIENT).exports()})
        self.assertIn("millrace_loader_open", names)
        self.assertEqual({name for name in names if not name.startswith("millrace_")}, set())

    def test_every_other_export_has_the_prefix(self):
        tag = re.search(r"hash (\w{8})$", self.report, re.M)[1]
        libraries = [name for name in os.listdir(self.output) if name != os.path.basename(_CLIENT)]
        self.assertIn(f"libprotobuf-{tag}.so.32", libraries)
        unique = 0
        for name in libraries:
            self.assertIn(f"-{tag}.so", name)
            file = elf_file.ElfFile(os.path.join(self.output, name))
            self.assertEqual(file.soname, name)
            for symbol in file.exports():
                if symbol.name not in ("_init", "_fini", "_edata", "_end", "__bss_start"):
                    self.assertTrue(symbol.name.startswith(f"mr{tag}_"), f"{name} exports {symbol.name}")
                    unique += elf_file.BINDINGS[symbol.binding] == "UNIQUE"
        self.assertGreater(unique, 100)  # the ones that RTLD_LOCAL does not keep apart

    def test_only_the_run_time_libraries_are_the_machine_s(self):
        for line in _run("ldd", self.library).stdout.splitlines():
            name, arrow, path = line.strip().partition(" => ")
            if arrow and not path.startswith(self.output):
                self.assertRegex(name, graft_libraries.BASE)

    def test_the_report_says_what_was_done(self):
        self.assertIn("copied libmillrace.so.1\n", self.report)
        self.assertRegex(self.report, r"renamed \d{5} symbols to mr\w{8}_NAME \(definitions: .*UNIQUE")
        self.assertRegex(self.report, r"needs CXXABI [\d.]+, GLIBC 2\.\d+, GLIBCXX 3\.4\.\d+\n$")

    def test_the_folder_must_be_empty(self):
        result = _graft(self.output, _CLIENT)
        self.assertEqual(result.returncode, 1)
        self.assertIn(f"{self.output} is not empty", result.stderr)


class Refused(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.output = os.path.join(self.folder, "grafted")
        # Needs only a few small libraries, and exports all it has.
        libraries = graft_libraries.find_libraries([_CLIENT])
        self.small = next(path for name, path in libraries.items() if name.startswith("libabsl_strings.so"))

    def _error_of(self, *arguments, **options):
        result = _graft(self.output, *arguments, **options)
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertRegex(result.stderr, r"^graft_libraries\.py: [^\n]+\n$")
        return result.stderr

    def _program(self, text):
        path = os.path.join(self.folder, "program")
        with open(path, "w", encoding="utf-8") as file:
            file.write("#!/bin/bash\n" + text)
        os.chmod(path, stat.S_IRWXU)
        return path

    def test_a_library_that_exports_more(self):
        error = self._error_of(self.small)
        self.assertIn("symbols besides millrace_*", error)
        self.assertIn("version script", error)
        self.assertFalse(os.path.exists(self.output))

    def test_the_small_library_passes_otherwise(self):
        self.assertEqual(_graft(self.output, "--exports=*", self.small).returncode, 0)

    def test_a_file_that_is_not_there(self):
        self.assertIn("/does/not/exist", self._error_of("/does/not/exist"))

    def test_a_file_that_is_no_library(self):
        path = self._program("")
        self.assertIn(path, self._error_of(path))

    def test_a_library_that_is_not_installed(self):
        ldd = self._program('echo "libmissing.so.1 => not found"')
        os.rename(ldd, os.path.join(self.folder, "ldd"))
        result = _run(sys.executable, "-B", graft_libraries.__file__, f"--output={self.output}",
                      f"--patchelf={_PATCHELF}", self.small,
                      env={**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}"})
        self.assertEqual(result.returncode, 1)
        self.assertIn("needs libmissing.so.1, which is not installed", result.stderr)

    def test_an_old_patchelf(self):
        for text in ('echo "patchelf 0.14.3"', 'echo "what?"'):
            error = self._error_of("--exports=*", self.small, patchelf=self._program(text))
            self.assertIn("cannot rename symbols; install a newer one", error)
        self.assertIn("--patchelf", self._error_of(self.small, patchelf="/does/not/exist"))

    def test_a_patchelf_that_fails(self):
        program = self._program(f'[[ "$1" == --version ]] && exec {_PATCHELF} --version\n'
                                'echo "no room" >&2; exit 1')
        self.assertIn("no room", self._error_of("--exports=*", self.small, patchelf=program))

    def test_a_patchelf_that_leaves_something_out(self):
        version = f'[[ "$1" == --version ]] && exec {_PATCHELF} --version\n'
        for what, rest, reason in [
                ("everything", "exit 0", "needs"),
                ("a symbol", f'sed -i "\\$d" "$2"; exec {_PATCHELF} "$@"', "a symbol that differs"),
                ("the search path", f'exec {_PATCHELF} "${{@//\\$ORIGIN//lib}}"', "looks for libraries in"),
        ]:
            with self.subTest(what):
                self.output = os.path.join(self.folder, what.replace(" ", "-"))
                error = self._error_of("--exports=*", self.small, patchelf=self._program(version + rest))
                self.assertIn(reason, error)

    def test_a_damaged_hash_table(self):
        # Zeroes the filter at its beginning, so that the loader finds no symbol.
        damage = ("import sys; sys.path.insert(0, sys.argv[1]); import elf_file\n"
                  "f = elf_file.ElfFile(sys.argv[2]); at = f._at(f._dynamic[0x6ffffef5][0])\n"
                  "words = int.from_bytes(f._bytes[at + 8:at + 12], 'little')\n"
                  "with open(sys.argv[2], 'r+b') as o: o.seek(at + 16); o.write(bytes(8 * words))\n")
        script = os.path.join(self.folder, "damage.py")
        with open(script, "w", encoding="utf-8") as file:
            file.write(damage)
        tools = os.path.dirname(os.path.abspath(elf_file.__file__))
        program = self._program(
            f'[[ "$1" == --version ]] && exec {_PATCHELF} --version\n{_PATCHELF} "$@" || exit 1\n'
            f'{sys.executable} -B {script} {tools} "${{@: -1}}"')
        self.assertIn("its hash table does not find",
                      self._error_of("--exports=*", self.small, patchelf=program))
