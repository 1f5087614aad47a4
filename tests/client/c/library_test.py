"""libmillrace.so as programs get it: what it exports and needs, the program of
docs/client.md, and how processes with it end."""

import ctypes
import os
import re
import shlex
import struct
import subprocess
import tempfile
import unittest


def _runfile(path):
    return os.path.join(os.environ["TEST_SRCDIR"], os.environ["TEST_WORKSPACE"], path)


def _root():
    return os.path.dirname(os.path.realpath(_runfile("WORKSPACE")))


def _read(path):
    with open(os.path.join(_root(), path), encoding="utf-8") as file:
        return file.read()


_LIBRARY = _runfile("client/c/lib/libmillrace.so.1")

# Libraries of the system, and the dependencies that a package brings along.
_NEEDED = re.compile(
    r"lib(c|m|gcc_s|stdc\+\+|resolv|zstd|gpr|grpc|grpc\+\+|protobuf|absl_\w+)\.so[.\d]*"
    r"|ld-linux-x86-64\.so\.2")


def _output(*words):
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def _functions():
    return set(re.findall(r"\b(millrace_\w+)\(", re.sub(
        r"/\*.*?\*/", "", _read("client/c/millrace.h"), flags=re.DOTALL)))


class Library(unittest.TestCase):

    def test_it_exports_the_functions_of_the_header_and_nothing_else(self):
        exported = {line.split()[-1]
                    for line in _output("nm", "-D", "--defined-only", _LIBRARY).splitlines()}
        self.assertGreater(len(exported), 30)
        self.assertEqual(exported, _functions())

    def test_it_needs_the_expected_libraries(self):
        dynamic = _output("readelf", "-dW", _LIBRARY)
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
        self.assertIn("libgrpc++.so.1.51", needed)
        self.assertEqual([name for name in needed if not _NEEDED.fullmatch(name)], [])
        self.assertEqual(re.findall(r"\(SONAME\).*\[(.*)\]", dynamic), ["libmillrace.so.1"])
        # It must not be unloaded: its threads and deleters are in it.
        self.assertRegex(dynamic, r"FLAGS_1.*NODELETE")
        self.assertNotRegex(dynamic, r"\(R(UN)?PATH\)")

    def test_what_it_needs_is_in_these_libraries(self):
        undefined = {line.split()[-1].partition("@")[0]
                     for line in _output("nm", "-D", "--undefined-only", _LIBRARY).splitlines()}
        provided = {"__cxa_finalize", "_ITM_deregisterTMCloneTable", "_ITM_registerTMCloneTable",
                    "__gmon_start__"}
        for path in re.findall(r"(/\S+) \(", _output("ldd", _LIBRARY)):
            symbols = _output("nm", "-D", "--defined-only", path)
            provided |= {line.split()[-1].partition("@")[0] for line in symbols.splitlines()
                         if line.strip()}
        self.assertEqual(undefined - provided, set())

    def test_a_program_that_loads_it_late_can_call_it(self):
        library = ctypes.CDLL(_LIBRARY, mode=os.RTLD_LOCAL | os.RTLD_NOW)
        library.millrace_version.restype = ctypes.c_char_p
        self.assertEqual(library.millrace_interface_version(), 1)
        self.assertRegex(library.millrace_version().decode(), r"^\d+\.\d+\.\d+$")


class Programs(unittest.TestCase):
    """Against a server with 6 digits."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        work = cls.folder.name
        images = struct.pack(">4i", 2051, 6, 28, 28) + bytes(i % 256 for i in range(6 * 784))
        labels = struct.pack(">2i", 2049, 6) + bytes(range(6))
        for name, content in (("images-idx3", images), ("labels-idx1", labels)):
            with open(os.path.join(work, f"train-{name}-ubyte"), "wb") as file:
                file.write(content)
        subprocess.run([_runfile("server/data_tool/millrace-data"), "pack", "--format=idx",
                        "--split=train", f"--input={work}", f"--output=lmdb:{work}/digits.lmdb"],
                       check=True, capture_output=True)
        port_file = os.path.join(work, "port")
        # pylint: disable=consider-using-with
        cls.server = subprocess.Popen(
            [_runfile("server/millrace-server"), f"--dataset=digits=lmdb:{work}/digits.lmdb",
             "--listen=127.0.0.1:0", f"--port_file={port_file}"], stderr=subprocess.DEVNULL)
        while not os.path.exists(port_file) or not os.path.getsize(port_file):
            assert cls.server.poll() is None, "the server has ended"
        with open(port_file, encoding="utf-8") as file:
            cls.endpoint = "127.0.0.1:" + file.read().strip()

    @classmethod
    def tearDownClass(cls):
        cls.server.terminate()
        cls.server.wait()
        cls.folder.cleanup()

    def build(self, source, command):
        """Runs `command`, of a document, for `source`; the program."""
        program = os.path.join(self.folder.name, os.path.basename(source)[:-2])
        words = shlex.split(command.replace("$PWD/bazel-bin", "bazel-bin"))
        words = [word.replace("bazel-bin", os.path.realpath(_runfile(""))) for word in words]
        words[words.index("-o") + 1] = program
        words[[word.endswith(".c") for word in words].index(True)] = source
        built = subprocess.run(words + ["-std=c11", "-Wall", "-Wextra", "-pedantic", "-Werror"],
                               cwd=_root(), capture_output=True, text=True, check=False)
        self.assertEqual(built.returncode, 0, built.stderr)
        return program

    def command(self):
        (command,) = re.findall(r"^    (cc .*)$", _read("docs/client.md"), re.MULTILINE)
        return command

    def test_the_document_shows_the_example(self):
        blocks = re.findall(r"^```c\n(.*?)^```$", _read("docs/client.md"),
                            re.MULTILINE | re.DOTALL)
        self.assertIn(_read("docs/example/c/read_batches.c"), blocks)

    def test_the_example_prints_every_batch(self):
        program = self.build("docs/example/c/read_batches.c", self.command())
        ran = subprocess.run([program, self.endpoint, "digits", "2"], capture_output=True,
                             text=True, check=False, timeout=60)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertRegex(ran.stdout, r"^epoch 0 step 0: 2 samples\n"
                                     r"  image uint8 \[2, 28, 28, 1\], 1568 bytes at 0x")
        self.assertIn("  label ", ran.stdout)
        self.assertIn("  sample_index int64 [2], 16 bytes", ran.stdout)
        self.assertTrue(ran.stdout.endswith("epoch 0 step 1: 2 samples\n"
                                            "epoch 0 step 2: 2 samples\n"), ran.stdout)

    def test_the_example_says_what_is_wrong(self):
        program = self.build("docs/example/c/read_batches.c", self.command())
        for arguments, words in (
                ([self.endpoint, "letters", "2"], "NOT_FOUND: "),
                ([self.endpoint, "digits", "two"],
                 "INVALID_ARGUMENT: option batch_size=two: expected a whole number"),
                (["nowhere", "digits", "2"], "INVALID_ARGUMENT: endpoint `nowhere`: no port")):
            ran = subprocess.run([program] + arguments, capture_output=True, text=True,
                                 check=False, timeout=60)
            self.assertEqual(ran.returncode, 1)
            self.assertIn(words, ran.stderr)

    def test_a_process_ends_in_any_state(self):
        program = self.build("tests/client/c/exits.c", self.command() + " -I.")
        for mode in ("while_opening", "while_receiving", "tensor_last", "atexit",
                     "exit_of_a_child", "child_first"):
            with self.subTest(mode):
                for _ in range(3):
                    ran = subprocess.run([program, mode, self.endpoint, "digits"],
                                         capture_output=True, text=True, check=False, timeout=60)
                    self.assertEqual(ran.returncode, 0, ran.stderr)

    def test_the_cxx_header_needs_cxx17_and_the_c_header(self):
        for standard in ("c++17", "c++20"):
            checked = subprocess.run(
                ["c++", f"-std={standard}", "-x", "c++", "-fsyntax-only", "-Wall", "-Wextra",
                 "-Wpedantic", "-Wshadow", "-Werror", "-Iclient/c", "-"],
                input='#include "millrace.hpp"\nint main() { return 0; }\n', cwd=_root(),
                capture_output=True, text=True, check=False)
            self.assertEqual(checked.returncode, 0, checked.stderr)
        checked = subprocess.run(
            ["c++", "-std=c++14", "-x", "c++", "-fsyntax-only", "-Iclient/c", "-"],
            input='#include "millrace.hpp"\n', cwd=_root(), capture_output=True, text=True,
            check=False)
        self.assertIn("millrace.hpp needs C++17 or later", checked.stderr)
        self.assertEqual(re.findall(r'#include "(.*)"', _read("client/c/millrace.hpp")),
                         ["millrace.h"])

    def test_the_header_is_plain_c_and_cxx(self):
        for header in ("millrace.h", "millrace_dlpack.h"):
            for compiler in (["cc", "-std=c11", "-x", "c"], ["c++", "-std=c++11", "-x", "c++"]):
                checked = subprocess.run(
                    compiler + ["-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Werror",
                                "-Iclient/c", "-"],
                    input=f'#include "{header}"\nint main(void) {{ return 0; }}\n',
                    cwd=_root(), capture_output=True, text=True, check=False)
                self.assertEqual(checked.returncode, 0, checked.stderr)
            self.assertLessEqual(set(re.findall(r"#include <(.*)>", _read("client/c/" + header))),
                                 {"stddef.h", "stdint.h"})


if __name__ == "__main__":
    unittest.main()
