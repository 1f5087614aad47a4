"""Command lines, values and pipelines of the documents, which tools/check_programs.py tries."""

import os
import re
import shlex

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def documents():
    """Files that show command lines to users."""
    found = [os.path.join(ROOT, "README.md")]
    for folder in ("docs", "deploy"):
        for parent, _, names in os.walk(os.path.join(ROOT, folder)):
            found += [os.path.join(parent, n) for n in names
                      if n.endswith((".md", ".yaml", ".service", ".Dockerfile", ".textproto"))]
    return sorted(found)


_COMMAND = re.compile(r"(?<![\w/.-])(?:bin/|/opt/millrace/)?(millrace(?:-server|-data|-train)?) "
                      r"([^\n`|]*)")
# {file: the programs} of YAML files that list flags one by one.
LISTS = {"server.yaml": ["millrace-server"], "train.yaml": ["millrace-train"],
         "compose.yaml": ["millrace-server", "millrace-train"]}


def commands(text):
    """[(program, subcommand or None, [flags])] of the command lines in a text."""
    text = re.sub(r"\\\n[\s#]*", " ", text)
    found = []
    for program, rest in _COMMAND.findall(text):
        words = rest.split()
        flags = [re.match(r"--[\w-]+", w).group(0) for w in words if re.match(r"--\w", w)]
        subcommand = words[0] if words and re.fullmatch(r"[a-z]+", words[0]) else None
        # Prose such as "millrace is" names no flag.
        if flags:
            found.append((program, subcommand, flags))
    return found


# Values that the reader replaces: N, FILE.textproto, HOST:7001, ….
_PLACEHOLDER = re.compile(r"(?:.*:)?[A-Z][A-Z_]*(?:[.:].*)?|.*(?:…|\.\.\.).*")
# Flags whose file or address the trials have: they are tried, whatever the document names.
STOOD_IN = {"--apply", "--endpoint", "--pipeline", "--check_pipeline", "--config", "--operators",
             "--run", "--files", "--init_weights", "--port_file"}
# Sentences name a flag without a value, as "millrace-server without --threads": without one,
# only what is nothing but a command is one.
_ARGUMENT = re.compile(r"|-.*|.*[./:].*")


def command_values(text, takes_value=lambda program, subcommand, name: False):
    """[(program, subcommand or None, [flags])] of the command lines in a text. Values that the
    reader replaces are left out, with their flags, unless a trial has something for them. A flag
    that takes a value and has none is a name in a sentence."""
    text = re.sub(r"\\\n[\s#]*", " ", text)
    found = []
    for program, rest in _COMMAND.findall(text):
        try:
            words = shlex.split(rest, comments=True)
        except ValueError:  # the apostrophe of a sentence
            words = rest.split()
        with_subcommand = program in ("millrace", "millrace-data")
        subcommand = words[0] if with_subcommand and words else None
        # --flag value
        for i, word in enumerate(words[:-1]):
            if takes_value(program, subcommand, word) and _ARGUMENT.fullmatch(words[i + 1]):
                words[i:i + 2] = [f"{word}={words[i + 1]}", ""]
        flags = [w for w in words if re.match(r"--[a-z]", w)
                 and not takes_value(program, subcommand, w)
                 and (w.partition("=")[0] in STOOD_IN
                      or not _PLACEHOLDER.fullmatch(w.partition("=")[2]))]
        if not flags or (with_subcommand and not words[0].isalpha()):
            continue
        arguments = words[1:] if with_subcommand else words
        if any("=" in flag for flag in flags) or all(map(_ARGUMENT.fullmatch, arguments)):
            found.append((program, subcommand, flags))
    return found


def listed_values(text, programs, has_flag):
    """[(program, None, [flags])] of the lists of flags in a YAML file: each is of the first
    of the programs that has all of its flags."""
    found = []
    for part in re.split(r"\b(?:command|args):", text)[1:]:
        flags = re.findall(r"""(?:- |\[|")(--[a-z_]+=[^"\s\]]+)""", part)
        for program in programs:
            if flags and all(has_flag(program, None, f.partition("=")[0]) for f in flags):
                found.append((program, None, flags))
                break
    return found


def prose_values(text):
    """{"--flag=value"} of plain numbers, sizes, times and words that a text gives a flag, in
    command lines and in words (`--threads=8`)."""
    value = r"(?:-?[0-9]+(?:\.[0-9]+)?(?:ms|s|m|h|[KMG]iB)?|[a-z][A-Za-z0-9_]*)"
    return set(re.findall(r"(?<![\w-])(--[a-z_]+=" + value + r")(?![\w.,:/=-]*\w)", text))


def pipeline_blocks(text):
    """Pipeline specs that a page shows as a block: indented, or fenced as textproto."""
    # A here-document of the shell is the block.
    text = re.sub(r"^    cat > .* <<'END'\n((?:.*\n)*?)    END\n", r"\1\n", text,
                  flags=re.MULTILINE)
    blocks = re.findall(r"(?:^    .*\n)+", text, re.MULTILINE)
    return [b for b in blocks if re.search(
        r"^    (?:sources|transforms|bad_samples|seed|shuffle) ?[{:]", b, re.MULTILINE)
        ] + re.findall(r"^```textproto\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def pipeline_spans(text):
    """Parts of specs in sentences: {"bad_samples { action: ZERO }"}."""
    return set(re.findall(r"`([a-z_]+ \{[^`\n…]*\})`", text))
