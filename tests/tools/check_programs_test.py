"""Command lines are found in documents, and a flag that no program has is noticed."""

import os
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


if __name__ == "__main__":
    unittest.main()
