"""Checks that the programs do what the documents say; tools/check_programs.py lists them."""

import concurrent.futures
import contextlib
import os
import re
import tempfile

from documents import (LISTS, STOOD_IN, command_values, commands, documents, listed_values,
                       pipeline_blocks, pipeline_spans, prose_values)
from program_trials import COMPANIONS, COMPLETION, Trials, TrialWorld
from programs import PROGRAMS, ROOT, bazel_folder, flags_of, help_of, name_of, run, subcommands_of


def check_documented(bin_dir):
    mistakes, looked_at = [], 0
    for path in documents():
        with open(path, encoding="utf-8") as file:
            text = file.read()
        where = os.path.relpath(path, ROOT)
        for program, subcommand, flags in commands(text):
            with_subcommand = program in ("millrace", "millrace-data")
            usage = help_of(os.path.join(bin_dir, program), subcommand if with_subcommand else None)
            for flag in flags:
                looked_at += 1
                if not re.search(re.escape(flag) + r"\b", usage):
                    mistakes.append(f"{where}: '{program} {subcommand if with_subcommand else ''}' "
                                    f"has no {flag}")
        programs = LISTS.get(os.path.basename(path), [])
        usage = "".join(help_of(os.path.join(bin_dir, p)) for p in programs)
        if programs:
            for flag in re.findall(r"""(?:- |\[|")(--\w+)=""", text):
                looked_at += 1
                if not re.search(re.escape(flag) + r"\b", usage):
                    mistakes.append(f"{where}: {' and '.join(programs)} have no {flag}")
    if looked_at < 20:
        mistakes.append(f"only {looked_at} flags were found in the documents: the search is broken")
    return mistakes


def check_flags(bin_dir):
    text = ""
    for path in documents():
        with open(path, encoding="utf-8") as file:
            text += file.read()
    mistakes, looked_at = [], 0
    for program in PROGRAMS:
        path = os.path.join(bin_dir, program)
        subcommands = [None]
        if program in ("millrace", "millrace-data"):
            subcommands = subcommands_of(program, help_of(path))
        for subcommand in subcommands:
            for flag in flags_of(help_of(path, subcommand)):
                looked_at += 1
                if flag != "help" and not re.search(rf"--{flag}(?![a-z0-9_])", text):
                    mistakes.append(f"--{flag} of {name_of(program, subcommand)} is named in no "
                                    "document")
    if looked_at < 150:
        mistakes.append(f"only {looked_at} flags were found in the help: the search is broken")
    return mistakes


@contextlib.contextmanager
def trial_world(bin_dir):
    """A TrialWorld of the programs in a folder that is removed."""
    with tempfile.TemporaryDirectory() as folder:
        world = TrialWorld(os.path.abspath(bin_dir), folder, bazel_folder("bazel-bin"))
        try:
            world.start()
            yield world
        finally:
            world.stop()


# Flags of other programs, in the documents.
_FOREIGN = {
    "--flag": "docs/operations.md, any flag", "--from": "Dockerfiles", "--logdir": "TensorBoard",
    "--network": "docker", "--proto_path": "protoc", "--tool": "valgrind", "--config": "Bazel",
    "--core_rate": "tools/scaling.py", "--gpu_rate": "tools/scaling.py",
}


class Texts:
    """Command lines and values of the documents and of the programs' help, with the first
    place of each."""

    def __init__(self, bin_dir):
        self.lines = {}      # {(program, subcommand, flags): (place, a pipeline of the page)}
        self.sentences = {}  # {"--flag=value": place}
        self.helps = {}      # {(program, subcommand): names of flags}
        self.tried = set()
        self.with_value = set()  # {(program, subcommand, flag)}
        usages = {}
        for program, subcommand in COMPLETION:
            usages[program, subcommand] = help_of(os.path.join(bin_dir, program), subcommand)
            self.helps[program, subcommand] = set(flags_of(usages[program, subcommand]))
            self.with_value |= {
                (program, subcommand, flag) for flag in
                re.findall(r"^\s+(--[a-z0-9_]+)=", usages[program, subcommand], re.MULTILINE)}
        for command, usage in usages.items():
            self._add(f"{name_of(*command)} --help", usage, [])
        for path in documents():
            with open(path, encoding="utf-8") as file:
                self._add(os.path.relpath(path, ROOT), file.read(),
                          LISTS.get(os.path.basename(path), []))

    def has_flag(self, program, subcommand, name):
        return name[2:] in self.helps.get((program, subcommand), ())

    def _takes_value(self, *flag):
        return flag in self.with_value

    def _add(self, where, text, programs):
        listed = listed_values(text, programs, self.has_flag)
        pipeline = next((b for b in pipeline_blocks(text) if "sources {" in b), None)
        for program, subcommand, flags in command_values(text, self._takes_value) + listed:
            # Lines that differ in the reader's own names only are one trial.
            kept = {re.sub("=.*", "", f) if f.partition("=")[0] in STOOD_IN else f for f in flags}
            key = program, subcommand, frozenset(kept), "--pipeline" in kept and pipeline
            if (program, subcommand) in COMPLETION and key not in self.tried:
                self.tried.add(key)
                self.lines.setdefault((program, subcommand, tuple(flags)), (where, pipeline))
        for flag in prose_values(text):
            self.sentences.setdefault(flag, where)


def try_line(trials, texts, line):
    program, subcommand, flags = line
    where, pipeline = texts.lines[line]
    refusal = trials.run(program, subcommand, flags, pipeline)
    return [f"{where}: {name_of(program, subcommand)} refuses {' '.join(flags)}: "
            f"{refusal}"] if refusal else []


def try_sentence(trials, texts, flag):
    name = flag.partition("=")[0]
    refusals = []
    for program, subcommand in COMPLETION:
        if texts.has_flag(program, subcommand, name):
            refusal = trials.run(program, subcommand, [flag] + COMPANIONS.get(name, []))
            if not refusal:
                return []
            refusals.append(refusal)
    return [f"{texts.sentences[flag]}: no program takes {flag}: {' / '.join(refusals)}"]


def try_control(trials, texts, command):
    """Shows that a trial of this program can succeed, can fail, and reaches the server."""
    mistakes = []
    if refusal := trials.run(*command, []):
        mistakes.append(f"{name_of(*command)} refuses the trial's own flags: {refusal}")
    if not trials.run(*command, ["--no_such_flag=1"]):
        mistakes.append(f"{name_of(*command)} takes --no_such_flag=1")
    if texts.has_flag(*command, "--outputs") and not trials.run(*command, ["--outputs=no_field"]):
        mistakes.append(f"{name_of(*command)} takes a field that the dataset does not have")
    return mistakes


def check_values(bin_dir, world_of=trial_world):
    """Each program is run with the flags of each command line, and one that has the flag with
    each value that stands in a sentence."""
    bin_dir = os.path.abspath(bin_dir)
    texts = Texts(bin_dir)
    in_lines = {flag for _, _, flags in texts.lines for flag in flags}
    others, mistakes = [], []
    for flag in sorted(texts.sentences.keys() - in_lines):
        name = flag.partition("=")[0]
        if any(texts.has_flag(*command, name) for command in COMPLETION):
            others.append(flag)
        elif name not in _FOREIGN and not any(name in text for text in script_texts()):
            mistakes.append(f"{texts.sentences[flag]}: neither a program nor a script of tools/ "
                            f"has the flag of {flag}")
    with world_of(bin_dir) as world, \
            concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        trials = Trials(world)
        tasks = ([pool.submit(try_control, trials, texts, command) for command in COMPLETION]
                 + [pool.submit(try_line, trials, texts, line) for line in texts.lines]
                 + [pool.submit(try_sentence, trials, texts, flag) for flag in others])
        mistakes += [mistake for task in tasks for mistake in task.result()]
    if len(texts.lines) < 3 or len(others) < 3:
        mistakes.append(f"only {len(texts.lines)} command lines and {len(others)} values of "
                        "sentences were found in the documents: the search is broken")
    return mistakes


def script_texts():
    """The texts of the scripts of tools/."""
    found = []
    for parent, _, names in os.walk(os.path.join(ROOT, "tools")):
        for name in names:
            if not name.endswith((".pyc", ".txt")) and name not in ("BUILD", "document_checks.py"):
                with open(os.path.join(parent, name), encoding="utf-8") as file:
                    found.append(file.read())
    return found


# Where a part of a spec may belong, the part in the place of @.
_PLACES = ["sources { dataset: 'd' } @", "sources { dataset: 'd' @ }",
           "sources { dataset: 'd' } @ outputs { field: 'x' }",
           "sources { dataset: 'd' } transforms { @ }",
           "sources { dataset: 'd' } transforms { @ } transforms { resize { height: 8 width: 8 } }",
           "sources { dataset: 'd' } transforms { decode_image {} } "
           "transforms { resize { height: 8 width: 8 } } transforms { @ }",
           "sources { dataset: 'd' } transforms { decode_image { @ } } outputs { field: 'x' }"]
# Parts that a document shows because they are refused.
_REFUSED_PARTS = {"mix_up { alpha: 0 }"}


def check_pipelines(bin_dir):
    mistakes, blocks, spans = [], 0, 0

    def refusal(spec):
        with tempfile.NamedTemporaryFile("w", suffix=".textproto") as file:
            file.write(spec)
            file.flush()
            result = run([os.path.join(bin_dir, "millrace-data"), "check", file.name])
        return f"{result.stdout}{result.stderr}" if result.returncode != 0 else ""

    def config_refusal(span):
        with tempfile.NamedTemporaryFile("w", suffix=".textproto") as file:
            file.write(span.replace("datasets {", "datasets { name: 'd' uri: 'lmdb:/d' "))
            file.flush()
            result = run([os.path.join(bin_dir, "millrace-server"), "--parse_config",
                           f"--config={file.name}"])
        return result.stderr if result.returncode != 0 else ""

    for path in documents():
        where = os.path.relpath(path, ROOT)
        if not path.endswith(".md"):
            continue
        with open(path, encoding="utf-8") as file:
            text = file.read()
        for block in pipeline_blocks(text):
            blocks += 1
            # A part of a spec has no sources.
            spec = block if "sources {" in block else "sources { dataset: 'd' }\n" + block
            if why := refusal(spec):
                mistakes.append(f"{where}: {why}")
        for span in sorted(pipeline_spans(text)):
            spans += 1
            whys = ([config_refusal(span)] if span.startswith("datasets {")
                    else (refusal(place.replace("@", span)) for place in _PLACES))
            if all(whys) != (span in _REFUSED_PARTS):
                mistakes.append(f"{where}: `{span}` is a part of a pipeline"
                                if span in _REFUSED_PARTS else
                                f"{where}: `{span}` is no part of a pipeline: "
                                + refusal(_PLACES[0].replace("@", span)))
    if blocks < 10 or spans < 10:
        mistakes.append(f"only {blocks} blocks and {spans} parts of pipelines were found in the "
                        "documents: the search is broken")
    return mistakes
