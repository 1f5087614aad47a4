"""Command lines are found in documents, and a flag that no program has is noticed."""

import contextlib
import os
import subprocess
import tempfile
import types
import unittest

import check_programs
import document_checks
import documents
import programs


class Commands(unittest.TestCase):

    def test_flags_over_several_lines(self):
        text = ("    bin/millrace-data pack --format=idx \\\n        --output=lmdb:/x\n"
                "#   millrace-server --listen=a \\\n#       --threads=1\n"
                "millrace is fast; use `millrace bench --endpoint=x`\n")
        self.assertEqual(documents.commands(text), [
            ("millrace-data", "pack", ["--format", "--output"]),
            ("millrace-server", None, ["--listen", "--threads"]),
            ("millrace", "bench", ["--endpoint"]),
        ])


class Documented(unittest.TestCase):

    def test_a_flag_without_a_program_is_noticed(self):
        with tempfile.TemporaryDirectory() as folder:
            for program in programs.PROGRAMS:
                path = os.path.join(folder, program)
                with open(path, "w", encoding="utf-8") as file:
                    file.write("#!/bin/sh\necho --listen --endpoint\n")
                os.chmod(path, 0o755)
            document = os.path.join(folder, "README.md")
            with open(document, "w", encoding="utf-8") as file:
                file.write("    millrace-server --listen=x --lisen=y\n" * 20)
            real = document_checks.documents
            document_checks.documents = lambda: [document]
            try:
                mistakes = document_checks.check_documented(folder)
            finally:
                document_checks.documents = real
        self.assertEqual(len(mistakes), 20)
        self.assertTrue(all("no --lisen" in m for m in mistakes), mistakes)


class Flags(unittest.TestCase):

    def test_flags_and_subcommands_are_found_in_help(self):
        self.assertEqual(programs.flags_of(
            "Flags:\n  --window=N  as --this one\n    --lr (Learning rate)\n--at_the_start\n"),
            ["window", "lr"])
        self.assertEqual(programs.subcommands_of(
            "millrace", "  millrace status   what they say\n  millrace bench    how fast\n"),
            ["status", "bench"])
        self.assertEqual(programs.subcommands_of(
            "millrace-data", "commands:\n  pack      pack files\n  check     check a file\n"),
            ["pack", "check"])

    def test_a_flag_that_no_document_names_is_noticed(self):
        with tempfile.TemporaryDirectory() as folder:
            for program in programs.PROGRAMS:
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
            real = document_checks.documents
            document_checks.documents = lambda: [document]
            try:
                mistakes = document_checks.check_flags(folder)
            finally:
                document_checks.documents = real
        self.assertEqual(sorted(mistakes), [
            "--send of millrace-server is named in no document",
            "--shards of millrace-data pack is named in no document"])


class Values(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        for program in programs.PROGRAMS:
            self.program(program)

    def program(self, name, flags="--a", refused="--no_such_flag", code=2):
        """Writes a program whose help lists the flags; it exits with `code` where its arguments
        contain `refused`."""
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
            file.write('#!/bin/sh\ncase " $* " in\n'
                       + f'  *{refused}*) echo "not $*" >&2; exit {code} ;;\n'
                       + "  *--no_such_flag*) exit 2 ;;\n"
                       + "  *--help*) " + ";".join(f"echo '  {f}'" for f in flags.split())
                       + f" ;;\nesac\necho \"$*\" >> '{self.folder}/{name}.log'\n")
        os.chmod(os.path.join(self.folder, name), 0o755)

    @contextlib.contextmanager
    def world(self, bin_dir):
        """A world without data and without a server."""
        runs = os.path.join(self.folder, "audited")
        os.makedirs(runs, exist_ok=True)
        with open(os.path.join(runs, "rank-0.mraudit"), "wb"):
            pass
        yield types.SimpleNamespace(
            bin_dir=bin_dir, folder=self.folder, built="/built", environment={},
            endpoint="127.0.0.1:9", summary="/run.json", runs=runs, uris={"few": "lmdb:/few"},
            uri=lambda value, operators: "lmdb:/there")

    def arguments(self, name):
        with open(os.path.join(self.folder, name + ".log"), encoding="utf-8") as file:
            return file.read()

    def mistakes(self, text, name="README.md"):
        document = os.path.join(self.folder, name)
        with open(document, "w", encoding="utf-8") as file:
            # Enough lines and values for check_values(), which expects some of each.
            file.write(text + "millrace-train --lr=1\nmillrace-train --lr=2\n"
                       "millrace-train --lr=3\n`--a=1` `--a=2` `--a=3`\n")
        real = document_checks.documents
        document_checks.documents = lambda: [document]
        try:
            return document_checks.check_values(self.folder, self.world)
        finally:
            document_checks.documents = real

    def test_values_of_sentences_are_found_and_places_to_fill_in_are_not(self):
        text = ("give `--threads=8` or --read_threads=0, --memory_budget=2GiB --send_timeout=10s\n"
                "--lr=0.1, `--last_batch=pad`.\n"
                "not --threads=N --listen=0.0.0.0:7001 --window=4,16 a--b=1 --x=12ab --y=f.so\n")
        self.assertEqual(documents.prose_values(text), {
            "--threads=8", "--read_threads=0", "--memory_budget=2GiB", "--send_timeout=10s",
            "--lr=0.1", "--last_batch=pad"})

    def test_command_lines_with_values(self):
        text = ("    millrace bench --endpoint=HOST:7001 --batch_size=8 \\\n"
                "        --sweep='window=4,16;loaders=1' --json   # measures\n"
                "millrace-server without --threads\n`millrace-train --model=cnn --epochs=N ...`\n")
        self.assertEqual(documents.command_values(text), [
            ("millrace", "bench", ["--endpoint=HOST:7001", "--batch_size=8",
                                   "--sweep=window=4,16;loaders=1", "--json"]),
            ("millrace-train", None, ["--model=cnn"])])

    def test_a_command_without_values_is_one_where_nothing_else_stands(self):
        text = ("`millrace status --json` has every number. millrace bench and --sweep do.\n"
                "    millrace doctor --compare before.json after.json\n")
        self.assertEqual(documents.command_values(text), [
            ("millrace", "status", ["--json"]), ("millrace", "doctor", ["--compare"])])

    def test_lists_of_a_yaml_file_belong_to_the_program_that_has_all_flags(self):
        text = ('command: ["--config=/etc/x"]\ncommand:\n  - --dataset=d\n  # --no=1\n'
                "  - --epochs=1\n")
        flags = {"server": ["--config", "--dataset"], "train": ["--dataset", "--epochs"]}
        self.assertEqual(
            documents.listed_values(text, ["server", "train"], lambda p, _, f: f in flags[p]),
            [("server", None, ["--config=/etc/x"]),
             ("train", None, ["--dataset=d", "--epochs=1"])])

    def test_a_refused_value_is_noticed_in_each_programs_command_line(self):
        for program, line in [("millrace-server", "millrace-server --size=1 --send=0"),
                              ("millrace-data", "millrace-data pack --split=x --send=0"),
                              ("millrace", "millrace status --send=0"),
                              ("millrace-train", "millrace-train --size=1 --send=0")]:
            self.program(program, refused="--send=0")
            mistakes = self.mistakes(f"    {line}\n")
            self.assertEqual(len(mistakes), 1, mistakes)
            self.assertRegex(mistakes[0],
                             f"README.md: {program}.* refuses .*--send=0: exit code 2: not ")
            self.program(program)

    def test_a_value_of_a_sentence_needs_a_program_that_takes_it(self):
        self.program("millrace-server", "--threads --reads", refused="--threads=0")
        self.program("millrace-train", "--reads --lr", refused="--reads=9")
        self.assertEqual(self.mistakes("`--threads=4` `--reads=9`\n"), [])
        self.assertRegex(self.mistakes("`--unknown=1`\n")[0], "README.md: neither a program nor a "
                         "script of tools/ has the flag of --unknown=1$")
        mistakes = self.mistakes("`--threads=0`\n")
        self.assertEqual(len(mistakes), 1, mistakes)
        self.assertIn("no program takes --threads=0: exit code 2: not ", mistakes[0])

    def test_an_exit_code_other_than_the_expected_one_is_a_refusal(self):
        # A server refuses a spec with 2, data that are not there end with 1.
        self.program("millrace", refused="--last=a", code=1)
        self.assertIn("refuses --last=a: exit code 1: not", self.mistakes(
            "    millrace bench --last=a\n")[0])
        self.assertRegex(self.mistakes("    millrace audit --files=DIR --expect_epochs=90\n")[0],
                         "audit refuses --files=DIR --expect_epochs=90: exit code 0: $")

    def test_files_and_addresses_of_the_reader_are_not_touched(self):
        self.assertEqual(self.mistakes(
            "millrace-train --endpoint=data-1:7001 --dataset=d --audit_dir=/runs/7\n"), [])
        said = self.arguments("millrace-train")
        self.assertIn("--endpoint=127.0.0.1:9 --dataset=d --audit_dir=/", said)
        self.assertNotIn("--audit_dir=/runs", said)
        self.assertNotIn("data-1", said)

    def test_a_trial_that_cannot_fail_or_cannot_succeed_is_noticed(self):
        self.program("millrace-server", refused="--check_config")
        self.assertIn("refuses the trial's own flags", self.mistakes("")[0])
        self.program("millrace-server")
        # A program that takes every field has asked no server.
        self.program("millrace", flags="--a --outputs")
        self.assertIn("millrace bench takes a field that the dataset does not have",
                      self.mistakes(""))
        self.program("millrace")
        with open(os.path.join(self.folder, "millrace-server"), "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\nexit 0\n")
        self.assertIn("takes --no_such_flag=1", self.mistakes("")[0])


class Pipelines(unittest.TestCase):

    def test_blocks_and_parts_of_sentences_are_found(self):
        text = ("Write:\n\n    seed: 1\n    sources { dataset: 'd' }\n\n    int main() {\n\n"
                "```textproto\nbad_samples { action: ZERO }\n```\n"
                "`subset { from: 0 }`, `sources { … }`, `{}`\n")
        self.assertEqual(documents.pipeline_blocks(text), [
            "    seed: 1\n    sources { dataset: 'd' }\n", "bad_samples { action: ZERO }\n"])
        self.assertEqual(documents.pipeline_spans(text), {"subset { from: 0 }"})

    def test_a_part_that_fits_nowhere_is_noticed(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "millrace-data"), "w", encoding="utf-8") as file:
                # Knows a field of sources only.
                file.write("#!/bin/sh\nfor f; do :; done\n"
                           "grep -q \"dataset: 'd' } *$\\|dataset: 'd' subset {\" $f || "
                           "{ echo wrong; exit 1; }\n")
            os.chmod(os.path.join(folder, "millrace-data"), 0o755)
            page = os.path.join(folder, "a.md")
            with open(page, "w", encoding="utf-8") as file:
                file.write("".join(f"`subset {{ from: {i} }}`" for i in range(12))
                           + "`subsets { from: 0 }`\n"
                           + "```textproto\nsources { dataset: 'd' }\n```\n" * 12)
            real = document_checks.documents
            document_checks.documents = lambda: [page]
            try:
                mistakes = document_checks.check_pipelines(folder)
            finally:
                document_checks.documents = real
        self.assertEqual(len(mistakes), 1, mistakes)
        self.assertIn("`subsets { from: 0 }` is no part of a pipeline: wrong", mistakes[0])


class Main(unittest.TestCase):

    def test_a_check_that_cannot_begin_is_a_mistake(self):
        def broken(_):
            raise RuntimeError("no charts")
        real = check_programs.CHECKS, check_programs.libraries
        with tempfile.TemporaryFile("w+") as said, contextlib.redirect_stderr(said):
            try:
                check_programs.CHECKS = {"values": broken}
                check_programs.libraries = lambda _: {"libc": "/libc"}
                code = check_programs.main(["", "/bin"])
            finally:
                check_programs.CHECKS, check_programs.libraries = real
            said.seek(0)
            self.assertEqual((code, said.read()), (1, "values: no charts\n"))


class Cpu(unittest.TestCase):

    def test_a_program_without_the_check_is_told_apart(self):
        with tempfile.TemporaryDirectory() as folder:
            def link(name, text):
                path = os.path.join(folder, name)
                subprocess.run(["cc", "-x", "c", "-", "-o", path], input=text, text=True,
                               check=True)
                return path
            entry = ("static void f(void) {} __attribute__((section(\".preinit_array\"), used)) "
                     "static void (*const p)(void) = f; ")
            main = "int main(void) { return 0; }"
            self.assertTrue(check_programs.has_preinit(link("with", entry + main)))
            self.assertFalse(check_programs.has_preinit(link("without", main)))


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

    def test_every_library_that_is_linked_is_looked_at(self):
        """libmillrace.so was not: a list named the files."""
        real = check_programs.run
        labels = "//client/c:libmillrace.so\n" + "".join(f"//a:p{i}\n" for i in range(7))
        try:
            check_programs.run = lambda *_, **__: types.SimpleNamespace(stdout=labels)
            mistakes = check_programs.check_definitions(None)
            check_programs.run = lambda *_, **__: types.SimpleNamespace(stdout="//a:p\n")
            few = check_programs.check_definitions(None)
        finally:
            check_programs.run = real
        self.assertIn("client/c/libmillrace.so", mistakes[0])
        self.assertEqual(few, ["only 1 programs and libraries were found: the search is broken"])

    def test_objects_of_a_parameter_file(self):
        path = os.path.join(self.folder, "x-2.params")
        with open(path, "w", encoding="utf-8") as file:
            file.write("-o\nout/x\n-Wl,--start-lib\nout/a.o\nout/a.o\n-lfoo.a\nout/b.a\n")
        self.assertEqual(check_programs.link_inputs(path, "/r"), ["/r/out/a.o", "/r/out/b.a"])


if __name__ == "__main__":
    unittest.main()
