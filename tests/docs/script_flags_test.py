"""The scripts of tools/ take the flags that the pages give them."""

import os
import re
import subprocess
import sys
import unittest


def _root():
    here = os.path.join(os.environ["TEST_SRCDIR"], os.environ["TEST_WORKSPACE"])
    return os.path.dirname(os.path.realpath(os.path.join(here, "WORKSPACE")))


ROOT = _root()
_COMMAND = re.compile(r"(?<![\w/.-])tools/([a-z_-]+(?:\.py)?)((?: [^\n`|()]*)?)")


def pages():
    """{path: text} of the README, the documents and what deploys."""
    found = {}
    for top in ("README.md", "docs", "deploy"):
        for parent, _, names in os.walk(os.path.join(ROOT, top)):
            for name in names:
                if name.endswith((".md", ".Dockerfile", ".yaml")):
                    path = os.path.join(parent, name)
                    with open(path, encoding="utf-8") as file:
                        found[os.path.relpath(path, ROOT)] = file.read()
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
        found["README.md"] = file.read()
    for name in sorted(os.listdir(os.path.join(ROOT, "tools"))):
        path = os.path.join(ROOT, "tools", name)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            found[f"tools/{name} --help"] = help_of(name)
    return found


def commands(text):
    """{(script, "--flag=value --flag")} of the command lines in a text."""
    text = re.sub(r"\\\n[\s#]*", " ", text)
    found = set()
    for script, rest in _COMMAND.findall(text):
        flags = re.findall(r"(?<!\S)--[a-z_]+(?:=\S*[^\s.,;:])?", rest)
        if flags:
            found.add((script, " ".join(flags)))
    return found


def sentences(text):
    """{(script, "--flag")} of the paragraphs that name one script, and flags in words."""
    found = set()
    # A row of a table and an item of a list are paragraphs.
    for paragraph in re.split(r"\n\s*\n|\n(?=\||- )", text):
        scripts = set(re.findall(r"tools/([a-z_-]+(?:\.py)?)\b", paragraph))
        if len(scripts) == 1:
            found |= {(*scripts, flag) for flag in re.findall(r"`(--[a-z_]+)", paragraph)}
    return found


def run(script, *arguments):
    """In a folder that may be written to: some scripts make the folder of --output at once."""
    program = [sys.executable, "-B"] if script.endswith(".py") else []
    return subprocess.run([*program, os.path.join(ROOT, "tools", script), *arguments],
                          cwd=os.environ.get("TEST_TMPDIR"), stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, check=False)


def help_of(script):
    result = run(script, "--help")
    return result.stdout + result.stderr


def flags_of_programs():
    """Names of flags in the sources of the programs."""
    names = set()
    for top in ("client", "common", "server", "trainer"):
        for parent, _, files in os.walk(os.path.join(ROOT, top)):
            for name in files:
                if name.endswith(".cc"):
                    with open(os.path.join(parent, name), encoding="utf-8") as file:
                        names |= set(re.findall(r'(?:Add|Flag)\(\s*"([a-z_]+)"', file.read()))
    return names


class ScriptFlags(unittest.TestCase):

    def test_each_script_has_the_flags_of_its_command_lines(self):
        found = {c: path for path, text in pages().items() for c in commands(text)}
        self.assertGreater(len(found), 10)
        for (script, line), path in found.items():
            with self.subTest(path=path, script=script, line=line):
                usage = help_of(script)
                for flag in line.split():
                    self.assertRegex(usage, re.escape(flag.partition("=")[0]) + r"\b")

    def test_each_script_takes_the_values_of_its_command_lines(self):
        found = {c: path for path, text in pages().items() for c in commands(text)}
        for (script, line), path in found.items():
            with self.subTest(path=path, script=script, line=line):
                # Nothing begins: the last argument is unknown, and the first one at fault. Folders of the
                # machine become relative: a script may make that of --output.
                values = [f.replace("=/", "=") for f in line.split() if not re.search("=[A-Z]", f)]
                result = run(script, *values, "frobnicate")
                self.assertNotEqual(result.returncode, 0)
                self.assertIn("frobnicate", result.stderr)

    def test_flags_in_words_are_of_the_script_or_of_a_program(self):
        found = {s: path for path, text in pages().items() for s in sentences(text)}
        self.assertGreater(len(found), 3)
        programs = flags_of_programs()
        self.assertIn("memory_budget", programs)
        for (script, flag), path in found.items():
            if flag[2:] not in programs and flag != "--help":
                with self.subTest(path=path, script=script, flag=flag):
                    self.assertRegex(help_of(script), re.escape(flag) + r"\b")

    def test_the_search_finds_lines_over_several_lines_and_rows(self):
        self.assertEqual(
            commands("    tools/chaos --minutes=10 \\\n        --servers=4.\n`tools/test --quick`\n"
                     "tools/build makes --all\n"),
            {("chaos", "--minutes=10 --servers=4"), ("test", "--quick"), ("build", "--all")})
        self.assertEqual(sentences("| tools/a | `--x=1` |\n| tools/b | |\n\n`--y`\n"),
                         {("a", "--x")})


if __name__ == "__main__":
    unittest.main()
