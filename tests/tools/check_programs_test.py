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

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        for program in check_programs.PROGRAMS:
            self.program(program)

    def program(self, name, flags="--a", refused="--no_such_flag"):
        """Writes a program whose help lists the flags; it exits with 2 where its arguments
        contain `refused`."""
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
            file.write('#!/bin/sh\ncase " $* " in\n'
                       + f'  *{refused}*) echo "not $*" >&2; exit 2 ;;\n'
                       + "  *--no_such_flag*) exit 2 ;;\n"
                       + "  *--help*) " + ";".join(f"echo '  {f}'" for f in flags.split())
                       + f" ;;\nesac\necho \"$*\" >> '{self.folder}/{name}.log'\n")
        os.chmod(os.path.join(self.folder, name), 0o755)

    def arguments(self, name):
        with open(os.path.join(self.folder, name + ".log"), encoding="utf-8") as file:
            return file.read()

    def mistakes(self, text, name="README.md"):
        document = os.path.join(self.folder, name)
        with open(document, "w", encoding="utf-8") as file:
            # Enough lines and values for check_values(), which expects some of each.
            file.write(text + "millrace-train --lr=1\nmillrace-train --lr=2\n"
                       "millrace-train --lr=3\n`--a=1` `--a=2` `--a=3`\n")
        real = check_programs.documents
        check_programs.documents = lambda: [document]
        try:
            return check_programs.check_values(self.folder)
        finally:
            check_programs.documents = real

    def test_values_of_sentences_are_found_and_places_to_fill_in_are_not(self):
        text = ("give `--threads=8` or --read_threads=0, --memory_budget=2GiB --send_timeout=10s\n"
                "--lr=0.1, `--last_batch=pad`.\n"
                "not --threads=N --listen=0.0.0.0:7001 --window=4,16 a--b=1 --x=12ab --y=f.so\n")
        self.assertEqual(check_programs.prose_values(text), {
            "--threads=8", "--read_threads=0", "--memory_budget=2GiB", "--send_timeout=10s",
            "--lr=0.1", "--last_batch=pad"})

    def test_command_lines_with_values(self):
        text = ("    millrace bench --endpoint=HOST:7001 --batch_size=8 \\\n"
                "        --sweep='window=4,16;loaders=1' --json   # measures\n"
                "millrace-server without --threads\n`millrace-train --model=cnn --epochs=N ...`\n")
        self.assertEqual(check_programs.command_values(text), [
            ("millrace", "bench", ["--batch_size=8", "--sweep=window=4,16;loaders=1", "--json"]),
            ("millrace-train", None, ["--model=cnn"])])

    def test_lists_of_a_yaml_file_belong_to_the_program_that_has_all_flags(self):
        text = ('command: ["--config=/etc/x"]\ncommand:\n  - --dataset=d\n  # --no=1\n'
                "  - --epochs=1\n")
        flags = {"server": ["--config", "--dataset"], "train": ["--dataset", "--epochs"]}
        self.assertEqual(
            check_programs.listed_values(text, ["server", "train"], lambda p, _, f: f in flags[p]),
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
        self.assertEqual(self.mistakes("`--threads=4` `--reads=9` `--unknown=1`\n"), [])
        mistakes = self.mistakes("`--threads=0`\n")
        self.assertEqual(len(mistakes), 1, mistakes)
        self.assertIn("no program takes --threads=0: exit code 2: not ", mistakes[0])

    def test_files_and_addresses_of_the_reader_are_not_touched(self):
        self.assertEqual(self.mistakes(
            "millrace-train --endpoint=data-1:7001 --dataset=d --audit_dir=/runs/7\n"), [])
        said = self.arguments("millrace-train")
        self.assertIn("--endpoint=127.0.0.1:1 --dataset=d --audit_dir=/", said)
        self.assertNotIn("--audit_dir=/runs", said)
        self.assertNotIn("data-1", said)

    def test_a_trial_that_cannot_fail_or_cannot_succeed_is_noticed(self):
        self.program("millrace-server", refused="--parse_config")
        self.assertIn("refuses the trial's own flags", self.mistakes("")[0])
        with open(os.path.join(self.folder, "millrace-server"), "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\nexit 1\n")
        self.assertIn("takes --no_such_flag=1", self.mistakes("")[0])


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

    def test_objects_of_a_parameter_file(self):
        path = os.path.join(self.folder, "x-2.params")
        with open(path, "w", encoding="utf-8") as file:
            file.write("-o\nout/x\n-Wl,--start-lib\nout/a.o\nout/a.o\n-lfoo.a\nout/b.a\n")
        self.assertEqual(check_programs.link_inputs(path, "/r"), ["/r/out/a.o", "/r/out/b.a"])


if __name__ == "__main__":
    unittest.main()
