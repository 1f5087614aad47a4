"""docs/extending.md is true: its code is that of the examples, its commands
build, its pipelines are understood, its tables name what the header has."""

import os
import re
import shlex
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


_HEADER = "server/operators/millrace_operator.h"
_EXAMPLES = "docs/example/operators/"


class Extending(unittest.TestCase):

    def setUp(self):
        self.document = _read("docs/extending.md")

    def blocks(self, language):
        found = re.findall(rf"^```{language}\n(.*?)^```$", self.document,
                           re.MULTILINE | re.DOTALL)
        self.assertTrue(found, language)
        return found

    def commands(self, program):
        found = re.findall(rf"^    ({re.escape(program)} .*)$", self.document, re.MULTILINE)
        self.assertTrue(found, program)
        return found

    def test_the_code_is_that_of_the_examples(self):
        examples = {name: _read(_EXAMPLES + name)
                    for name in ("cutout.c", "pnm.c", "cifar10.c")}
        used = set()
        for block in self.blocks("c"):
            names = [name for name, text in examples.items() if block in text]
            self.assertEqual(len(names), 1, block[:80])
            used.update(names)
        self.assertEqual(used, set(examples))
        self.assertIn(examples["cutout.c"], self.blocks("c"), "cutout.c stands there as a whole")

    def test_the_command_builds_each_example(self):
        (command,) = self.commands("cc")
        for name in ("cutout", "pnm", "cifar10"):
            with tempfile.TemporaryDirectory() as folder:
                library = os.path.join(folder, name + ".so")
                words = shlex.split(command.replace("cutout", name))
                words[words.index("-o") + 1] = library
                built = subprocess.run(words + ["-Wall", "-Werror"], cwd=_root(),
                                       capture_output=True, text=True, check=False)
                self.assertEqual(built.returncode, 0, built.stderr)
                symbols = subprocess.run(["nm", "-D", "--defined-only", library],
                                         capture_output=True, text=True, check=True).stdout
                self.assertIn("millrace_operators", symbols)

    def test_the_header_is_plain_c_and_cxx(self):
        for compiler in (["cc", "-std=c11", "-x", "c"], ["c++", "-std=c++11", "-x", "c++"]):
            checked = subprocess.run(
                compiler + ["-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-"],
                input=f'#include "{_HEADER}"\nint main(void) {{ return 0; }}\n',
                cwd=_root(), capture_output=True, text=True, check=False)
            self.assertEqual(checked.returncode, 0, checked.stderr)
        self.assertEqual(re.findall(r"#include <(.*)>", _read(_HEADER)),
                         ["stddef.h", "stdint.h", "stdio.h"])

    def test_the_pipelines_are_understood(self):
        for block in self.blocks("textproto"):
            with tempfile.NamedTemporaryFile("w", suffix=".textproto") as file:
                file.write(block)
                file.flush()
                checked = subprocess.run(
                    [_runfile("server/data_tool/millrace-data"), "check", file.name],
                    capture_output=True, text=True, check=False)
                self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)

    def test_the_flags_exist(self):
        for program, binary, command in (
                ("bin/millrace-server", "server/millrace-server", []),
                ("bin/millrace-data", "server/data_tool/millrace-data", ["pack"])):
            known = subprocess.run([_runfile(binary)] + command + ["--help"],
                                   capture_output=True, text=True, check=True).stdout
            for line in self.commands(program):
                for flag in re.findall(r" (--\w+)=", line):
                    self.assertIn(flag + "=", known, line)

    def test_the_names_are_those_of_the_header(self):
        header = _read(_HEADER)
        names = set(re.findall(r"\b(MILLRACE_\w+|millrace_\w+)\b", self.document))
        # The header itself, and what the examples call their own.
        names -= {"millrace_operator"}
        self.assertGreater(len(names), 20)
        for name in names:
            self.assertRegex(header, rf"\b{name}\b")
        version = re.search(r"#define MILLRACE_ABI_VERSION (\d+)", header).group(1)
        self.assertIn(f"`MILLRACE_ABI_VERSION` is {version}.", self.document)
        size = int(re.search(r"#define MILLRACE_ERROR_BYTES (\d+)", header).group(1))
        self.assertIn(f"at most {size - 1}\nbytes", self.document)


if __name__ == "__main__":
    unittest.main()
