"""The built programs: their names, their help, and Bazel's folders; for the checks of tools/."""

import os
import re
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROGRAMS = ["millrace-server", "millrace-data", "millrace", "millrace-train"]


def run(command, **kwargs):
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          check=False, **kwargs)


def help_of(program, subcommand=None):
    """What the program prints about itself."""
    result = run([program] + ([subcommand] if subcommand else []) + ["--help"])
    return result.stdout + result.stderr


def flags_of(usage):
    """Names of the flags that a program's help lists, each on a line of its own."""
    return re.findall(r"^\s+--([a-z0-9_]+)\b", usage, re.MULTILINE)


def subcommands_of(program, usage):
    """Names of the subcommands that a program's help lists; [None] where there are none."""
    found = re.findall(r"^  (?:" + re.escape(program) + r" )?([a-z]+)  +\S", usage, re.MULTILINE)
    return found or [None]


def name_of(program, subcommand):
    return f"{program} {subcommand}" if subcommand else program


def bazel_folder(key):
    """A folder of Bazel, such as bazel-bin."""
    return run(["bazel", "info", key], cwd=ROOT).stdout.strip()
