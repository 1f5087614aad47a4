"""Command lines are found in documents, and a flag that no program has is noticed."""

import os
import subprocess
import tempfile
import unittest

import check_programs


class Commands(unittest.TestCase):

    def test_flags_over_several_lines(self):
        text = ("    bin/millrace-data pack --format=idx \\\n        --output=lmdb:/x\n"
                "#   millrace-server --listen=a \\\n#       --threads=1\n"
                "millrace is fast; use `millrace bench --endpoint=x`\n")
        self.assertEqual(check_programs.commands(text), [
            ("millrace-data", "pack", ["--format", "--output"]),
            ("millrace-server", None, ["--listen", "--threads"]),
            ("millrace", "bench", ["--endpoint"]),
        ])


class Documented(unittest.TestCase):

    def test_a_flag_without_a_program_is_noticed(self):
        with tempfile.TemporaryDirectory() as folder:
            for program in check_programs.PROGRAMS:
                path = os.path.join(folder, program)
                with open(path, "w", encoding="utf-8") as file:
                    file.write("#!/bin/sh\necho --listen --endpoint\n")
                os.chmod(path, 0o755)
            document = os.path.join(folder, "README.md")
            with open(document, "w", encoding="utf-8") as file:
                file.write("    millrace-server --listen=x --lisen=y\n" * 20)
            real = check_programs.documents
            check_programs.documents = lambda: [document]
            try:
                mistakes = check_programs.check_documented(folder)
            finally:
                check_programs.documents = real
        self.assertEqual(len(mistakes), 20)
        self.assertTrue(all("no --lisen" in m for m in mistakes), mistakes)


class Flags(unittest.TestCase):

    def test_flags_and_subcommands_are_found_in_help(self):
        self.assertEqual(check_programs.flags_of(
            "Flags:\n  --window=N  as --this one\n    --lr (Learning rate)\n--at_the_start\n"),
            ["window", "lr"])
        self.assertEqual(check_programs.subcommands_of(
            "millrace", "  millrace status   what they say\n  millrace bench    how fast\n"),
            ["status", "bench"])
        self.assertEqual(check_programs.subcommands_of(
            "millrace-data", "commands:\n  pack      pack files\n  check     check a file\n"),
            ["pack", "check"])

    def test_a_flag_that_no_document_names_is_noticed(self):
        with tempfile.TemporaryDirectory() as folder:
            for program in check_programs.PROGRAMS:
                path = os.path.join(folder, program)
                body = "".join(f"echo '  --known{i}=N  x'\n" for i in range(60))
                if program == "millrace-server":
                    body += "echo '  --send  x'\n"
                if program == "millrace-data":
                    body = ('case "$*" in "pack --help") echo "  --shards=N  x" ;; '
                            '*) echo "  pack  pack files" ;; esac')
                with open(path, "w", encoding="utf-8") as file:
                    file.write(f"#!/bin/sh\n{body}\n")
                os.chmod(path, 0o755)
            document = os.path.join(folder, "README.md")
            with open(document, "w", encoding="utf-8") as file:
                file.write("".join(f"`--known{i}=1`\n" for i in range(60)) + "--send_timeout\n")
            real = check_programs.documents
            check_programs.documents = lambda: [document]
            try:
                mistakes = check_programs.check_flags(folder)
            finally:
                check_programs.documents = real
        self.assertEqual(sorted(mistakes), [
            "--send of millrace-server is named in no document",
            "--shards of millrace-data pack is named in no document"])


class Values(unittest.TestCase):

    def test_plain_values_are_found_and_places_to_fill_in_are_not(self):
        text = ("give `--threads=8` or --read_threads=0, --memory_budget=2GiB --send_timeout=10s\n"
                "not --threads=N --listen=0.0.0.0:7001 --window=4,16 --lr=0.1 a--b=1 --x=12ab\n")
        self.assertEqual(check_programs.server_values(text), {
            "--threads=8", "--read_threads=0", "--memory_budget=2GiB", "--send_timeout=10s"})

    def test_a_value_that_the_server_refuses_is_noticed(self):
        with tempfile.TemporaryDirectory() as folder:
            for program in check_programs.PROGRAMS:
                path = os.path.join(folder, program)
                body = "echo --listen"
                if program == "millrace-server":
                    body = ('case "$*" in *--help*) echo --threads --reads ;; '
                            '*--threads=0*) echo "above 0" >&2; exit 2 ;; esac')
                with open(path, "w", encoding="utf-8") as file:
                    file.write(f"#!/bin/sh\n{body}\n")
                os.chmod(path, 0o755)
            document = os.path.join(folder, "README.md")
            with open(document, "w", encoding="utf-8") as file:
                file.write("`--threads=4`, `--threads=0`, `--reads=9`\n")
            real = check_programs.documents
            check_programs.documents = lambda: [document]
            try:
                mistakes = check_programs.check_values(folder)
            finally:
                check_programs.documents = real
        self.assertEqual(len(mistakes), 1, mistakes)
        self.assertIn("refuses --threads=0: above 0", mistakes[0])


class Definitions(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def compile(self, name, text):
        path = os.path.join(self.folder, name)
        subprocess.run(["c++", "-x", "c++", "-c", "-", "-o", path], input=text, text=True,
                       check=True)
        return path

    def test_two_bodies_under_one_name_are_noticed_in_objects_and_archives(self):
        one = self.compile("one.o", "void Tune() {} int value = 1;")
        two = self.compile("two.o", "void Tune() {} namespace { int value = 2; } "
                                    "int* Use() { return &value; }")
        archive = os.path.join(self.folder, "two.a")
        subprocess.run(["ar", "rc", archive, two], check=True)
        self.assertEqual(list(check_programs.defined_twice([one, archive])), ["_Z4Tunev"])

    def test_inline_functions_and_templates_may_be_in_many_objects(self):
        text = "inline int F() { return 1; } template <typename T> T G() { return T(); }\n"
        files = [self.compile(name + ".o", text + f"int {name}() {{ return F() + G<int>(); }}")
                 for name in ("one", "two")]
        self.assertEqual(check_programs.defined_twice(files), {})

    def test_objects_of_a_parameter_file(self):
        path = os.path.join(self.folder, "x-2.params")
        with open(path, "w", encoding="utf-8") as file:
            file.write("-o\nout/x\n-Wl,--start-lib\nout/a.o\nout/a.o\n-lfoo.a\nout/b.a\n")
        self.assertEqual(check_programs.link_inputs(path, "/r"), ["/r/out/a.o", "/r/out/b.a"])


if __name__ == "__main__":
    unittest.main()
