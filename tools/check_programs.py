"""Checks the built programs as a user meets them; tools/test runs it.

    check_programs.py BIN_DIR             every check; exit code 1 when one fails
    check_programs.py BIN_DIR --check=NAME
    check_programs.py --list

runs-anywhere   a copy of the folder, started from / with an empty environment
thin            the libraries that each program loads are those of its side
packages        Debian libraries belong to the packages that deploy/ names
documented      flags and subcommands in the documents are in the programs' help
flags           flags in the programs' help are named in the documents
pipelines       the pipeline specs in the README have no mistake
values          each program takes the values that the documents give its flags
definitions     no two objects that a program is linked from define one symbol
cpu             programs that load Arrow look at the CPU before any initialiser runs
"""

import concurrent.futures
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROGRAMS = ["millrace-server", "millrace-data", "millrace", "millrace-train"]

# Parts of library names that a program must not load.
_FORBIDDEN = {
    "millrace-server": ["torch", "c10", "cudart", "cairo"],
    "millrace-data": ["torch", "c10", "cudart", "cairo"],
    "millrace": ["torch", "c10", "lmdb", "arrow", "parquet", "jpeg", "png", "cairo"],
    "millrace-train": ["lmdb", "arrow", "parquet", "jpeg", "png", "cairo"],
}
# Opened when a picture is asked for.
_PICTURES = "lib/libmillrace_picture.so"
# Where Bazel links what tools/build copies.
_LINKED = ["server/millrace-server", "server/data_tool/millrace-data", "client/cli/millrace",
           "trainer/millrace-train", "trainer/ddp/libmillrace_nccl.so",
           "common/picture/libmillrace_picture.so"]
# Which list of deploy/ must cover which programs and libraries.
_IMAGES = {
    "server.packages": ["millrace-server", "millrace-data", _PICTURES],
    "trainer.packages": ["millrace", "millrace-train", _PICTURES],
}


def _run(command, **kwargs):
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          check=False, **kwargs)


def help_of(program, subcommand=None):
    """What the program prints about itself."""
    result = _run([program] + ([subcommand] if subcommand else []) + ["--help"])
    return result.stdout + result.stderr


def libraries(program):
    """{name: path} of the libraries that the program loads."""
    result = _run(["ldd", program])
    return dict(re.findall(r"^\s*(\S+) => (\S+)", result.stdout, re.MULTILINE))


def check_runs_anywhere(bin_dir):
    mistakes = []
    with tempfile.TemporaryDirectory() as folder:
        copy = os.path.join(folder, "a folder", "bin")
        # Links spare the time of copying libtorch; they resolve as copies do.
        shutil.copytree(bin_dir, copy, copy_function=_link_or_copy)
        for program in PROGRAMS:
            result = _run([os.path.join(copy, program), "--version"], cwd="/",
                          env={"PATH": "/usr/bin:/bin"})
            if result.returncode != 0 or not re.search(r"\d+\.\d+\.\d+", result.stdout):
                mistakes.append(f"{program} --version, copied and started from /: exit code "
                                f"{result.returncode}: {result.stdout}{result.stderr}")
    return mistakes


def _link_or_copy(source, target):
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def check_thin(bin_dir):
    mistakes = []
    for program, forbidden in _FORBIDDEN.items():
        for name, path in libraries(os.path.join(bin_dir, program)).items():
            if any(part in name for part in forbidden):
                mistakes.append(f"{program} loads {name}")
            if path == "not":
                mistakes.append(f"{program} does not find {name}")
    return mistakes


def _depends(package):
    """Names of the packages that an installed package depends on."""
    result = _run(["dpkg-query", "-W", "-f=${Depends}, ${Pre-Depends}", package])
    return re.findall(r"(?:^|[,|])\s*([a-z0-9][a-z0-9.+-]*)", result.stdout)


def _closure(packages):
    seen, todo = set(), list(packages)
    while todo:
        package = todo.pop()
        if package not in seen:
            seen.add(package)
            todo += _depends(package)
    return seen


def check_packages(bin_dir):
    mistakes = []
    for listing, programs in _IMAGES.items():
        with open(os.path.join(ROOT, "deploy", listing), encoding="utf-8") as file:
            named = [line.strip() for line in file if line.strip() and not line.startswith("#")]
        # libc and what every Debian has.
        covered = _closure(named + ["libc6", "libgcc-s1", "libstdc++6"])
        for program in programs:
            for name, path in libraries(os.path.join(bin_dir, program)).items():
                real = os.path.realpath(path)
                if real.startswith(os.path.realpath(bin_dir) + os.sep):
                    continue
                owner = None
                # /lib is a link to /usr/lib, and dpkg knows only one name.
                for candidate in (real, real.removeprefix("/usr"), path):
                    result = _run(["dpkg-query", "-S", candidate])
                    if result.returncode == 0:
                        owner = result.stdout.split(":")[0]
                        break
                if owner not in covered:
                    mistakes.append(f"{program} loads {name} of the package {owner}, which "
                                    f"deploy/{listing} does not bring")
    return mistakes


def documents():
    """Files that show command lines to users."""
    found = [os.path.join(ROOT, "README.md")]
    for folder in ("docs", "deploy"):
        for parent, _, names in os.walk(os.path.join(ROOT, folder)):
            found += [os.path.join(parent, n) for n in names
                      if n.endswith((".md", ".yaml", ".service", ".Dockerfile", ".textproto"))]
    return sorted(found)


_COMMAND = re.compile(r"(?<![\w/.-])(?:bin/|/opt/millrace/)?(millrace(?:-server|-data|-train)?) ([^\n`|]*)")
# Programs whose flags a YAML file lists one by one.
_YAML = {"server.yaml": ["millrace-server"], "train.yaml": ["millrace-train"],
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
        programs = _YAML.get(os.path.basename(path), [])
        usage = "".join(help_of(os.path.join(bin_dir, p)) for p in programs)
        if programs:
            for flag in re.findall(r"""(?:- |\[|")(--\w+)=""", text):
                looked_at += 1
                if not re.search(re.escape(flag) + r"\b", usage):
                    mistakes.append(f"{where}: {' and '.join(programs)} have no {flag}")
    if looked_at < 20:
        mistakes.append(f"only {looked_at} flags were found in the documents: the search is broken")
    return mistakes


def flags_of(usage):
    """Names of the flags that a program's help lists, each on a line of its own."""
    return re.findall(r"^\s+--([a-z0-9_]+)\b", usage, re.MULTILINE)


def subcommands_of(program, usage):
    """Names of the subcommands that a program's help lists; [None] where there are none."""
    found = re.findall(r"^  (?:" + re.escape(program) + r" )?([a-z]+)  +\S", usage, re.MULTILINE)
    return found or [None]


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
                    mistakes.append(f"--{flag} of {program}{' ' + subcommand if subcommand else ''} "
                                    "is named in no document")
    if looked_at < 150:
        mistakes.append(f"only {looked_at} flags were found in the help: the search is broken")
    return mistakes


# Values that the reader replaces: N, FILE.textproto, HOST:7001, ….
_PLACEHOLDER = re.compile(r"(?:.*:)?[A-Z][A-Z_]*(?:[.:].*)?|.*(?:…|\.\.\.).*")
# Nobody listens there.
_NOBODY = "127.0.0.1:1"
# Flags whose value is a file that the check does not have; left out.
_OWN_FILES = {"--operators", "--check_pipeline", "--port_file"}
# Flags whose file decides what the command does: the rest is then parsed only (--help).
_LOGS = {"--files", "--run", "--compare"}
# Arguments that complete a command line that has none of the flags beside them.
_DATASET = ("--dataset=d", ("--dataset", "--pipeline", "--synthetic", "--synthetic_latency_us",
                            "--shape", "--ready_batches", "--server"))
_CLIENT = [("--endpoint=" + _NOBODY, ("--endpoint", "--server")),
           ("--timeout=100ms", ("--timeout",))]
_COMPLETION = {
    ("millrace-server", None): [("--parse_config", ("--parse_config",)),
                                ("--synthetic_only", ("--synthetic_only", "--dataset",
                                                       "--config", "--lease_socket"))],
    ("millrace-data", "pack"): [("--format=imagefolder", ("--format",)),
                                ("--input=images", ("--input",)),
                                ("--output=lmdb:packed", ("--output",)),
                                ("--overwrite", ("--overwrite",))],
    ("millrace-data", "preview"): [("--dataset=lmdb:none", ("--dataset",)),
                                   ("--preset=mnist", ("--preset", "--pipeline")),
                                   ("--explain", ("--explain", "--output"))],
    ("millrace-data", "check"): [("pipeline.textproto", ())],
    ("millrace-data", "index"): [("--input=images", ("--input",))],
    ("millrace-data", "inspect"): [("lmdb:none", ())],
    ("millrace-data", "verify"): [("lmdb:none", ())],
    ("millrace", "status"): _CLIENT,
    ("millrace", "bench"): _CLIENT + [_DATASET],
    ("millrace", "audit"): _CLIENT + [_DATASET],
    ("millrace", "replay"): _CLIENT + [_DATASET, ("--position=0:0", ("--position",)),
                                       ("--output=batch", ("--output",))],
    ("millrace", "doctor"): [("--help", ())],
    ("millrace-train", None): _CLIENT + [_DATASET],
}
# Flags that a flag needs beside it, for sentences that name the flag alone.
_COMPANIONS = {
    "--checkpoint_every": ["--checkpoint=c"],
    "--init_weights_without": ["--init_weights=w.pt"],
    "--master_port": ["--nproc=1", "--nnodes=2", "--master_addr=h"],
    "--nnodes": ["--nproc=1", "--master_addr=h"],
    "--node_rank": ["--nproc=1", "--nnodes=2", "--master_addr=h"],
    "--profile_steps": ["--profile=p"],
    "--ready_batches": ["--synthetic"],
    "--resume": ["--checkpoint=c"],
    "--subset_unit": ["--eval_subset=0.8:1.0"],
}


def command_values(text):
    """[(program, subcommand or None, [flags])] of the command lines in a text that give a
    flag a value. Values that the reader replaces are left out, with their flags."""
    text = re.sub(r"\\\n[\s#]*", " ", text)
    found = []
    for program, rest in _COMMAND.findall(text):
        try:
            words = shlex.split(rest, comments=True)
        except ValueError:  # the apostrophe of a sentence
            words = rest.split()
        flags = [w for w in words if re.match(r"--[a-z]", w)
                 and not _PLACEHOLDER.fullmatch(w.partition("=")[2])]
        with_subcommand = program in ("millrace", "millrace-data")
        # Prose names flags without a value, as "millrace-server without --threads".
        if any("=" in flag for flag in flags) and (words[0].isalpha() or not with_subcommand):
            found.append((program, words[0] if with_subcommand else None, flags))
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


class Trials:
    """Runs programs with values of the documents. No server is reached and no dataset is
    there: a program that takes the values fails with exit code 1 all the same. With 2 it
    ends for a mistake of the command line. Thread-safe."""

    def __init__(self, bin_dir, folder):
        self.bin_dir = bin_dir
        self.folder = folder
        self.environment = {"PATH": "/usr/bin:/bin", "HOME": folder, "OMP_WAIT_POLICY": "passive"}
        self.stand_ins = {"--endpoint": _NOBODY, "--pipeline": "pipeline.textproto",
                          "--config": os.path.join(ROOT, "deploy", "server.textproto"),
                          "--server": os.path.join(bin_dir, "millrace-server"),
                          "--input": "images"}
        os.makedirs(os.path.join(folder, "images", "train"))
        with open(os.path.join(folder, "pipeline.textproto"), "w", encoding="utf-8") as file:
            file.write("sources { dataset: 'd' }\n")

    def stand_in(self, flag):
        """The flag with files and addresses that the trial has; none where it has none."""
        name, equals, value = flag.partition("=")
        if (name in _OWN_FILES or flag == "--check_config"
                or value.startswith("torchscript:")):
            return []
        if name in self.stand_ins:
            return [name + equals + self.stand_ins[name]]
        # What a program writes lands in the folder.
        return [name + equals + re.sub(r"(^|[=:])/", r"\1" + self.folder + "/", value)]

    def run(self, program, subcommand, flags):
        """What the program says against the flags; empty: it takes them."""
        names = {flag.partition("=")[0] for flag in flags}
        words = [w for flag in flags for w in self.stand_in(flag)]
        for word, unless in _COMPLETION[program, subcommand]:
            if not names & set(unless):
                words.append(word)
        if names & _LOGS:
            words.append("--help")
        result = _run([os.path.join(self.bin_dir, program)] + ([subcommand] if subcommand else [])
                      + words, cwd=self.folder, env=self.environment, timeout=60)
        # 0 and 1: it found what it needs, or not.
        return "" if result.returncode in (0, 1) else (
            f"exit code {result.returncode}: {result.stderr.strip()}")


def check_values(bin_dir):
    """Each program is run with the flags of each command line, and one that has the flag with
    each value that stands in a sentence."""
    bin_dir = os.path.abspath(bin_dir)
    helps = {(program, subcommand): set(flags_of(help_of(os.path.join(bin_dir, program),
                                                         subcommand)))
             for program, subcommand in _COMPLETION}

    def name_of(program, subcommand):
        return f"{program} {subcommand}" if subcommand else program

    def has_flag(program, subcommand, name):
        return name[2:] in helps.get((program, subcommand), ())

    lines, sentences = {}, {}
    for path in documents():
        with open(path, encoding="utf-8") as file:
            text = file.read()
        where = os.path.relpath(path, ROOT)
        listed = listed_values(text, _YAML.get(os.path.basename(path), []), has_flag)
        for program, subcommand, flags in command_values(text) + listed:
            if (program, subcommand) in _COMPLETION:
                lines.setdefault((program, subcommand, tuple(flags)), where)
        for flag in prose_values(text):
            sentences.setdefault(flag, where)
    in_lines = {flag for _, _, flags in lines for flag in flags}

    def try_line(trials, line):
        program, subcommand, flags = line
        refusal = trials.run(program, subcommand, flags)
        return [f"{lines[line]}: {name_of(program, subcommand)} refuses {' '.join(flags)}: "
                f"{refusal}"] if refusal else []

    def try_sentence(trials, flag):
        name = flag.partition("=")[0]
        refusals = []
        for program, subcommand in _COMPLETION:
            if has_flag(program, subcommand, name):
                refusal = trials.run(program, subcommand, [flag] + _COMPANIONS.get(name, []))
                if not refusal:
                    return []
                refusals.append(refusal)
        return [f"{sentences[flag]}: no program takes {flag}: {' / '.join(refusals)}"]

    def try_control(trials, command):
        # Shows that a trial of this program can succeed, and can fail.
        mistakes = []
        if refusal := trials.run(*command, []):
            mistakes.append(f"{name_of(*command)} refuses the trial's own flags: {refusal}")
        if not trials.run(*command, ["--no_such_flag=1"]):
            mistakes.append(f"{name_of(*command)} takes --no_such_flag=1")
        return mistakes

    others = sorted(flag for flag in sentences.keys() - in_lines
                    if any(has_flag(*command, flag.partition("=")[0]) for command in _COMPLETION))
    with tempfile.TemporaryDirectory() as folder, \
            concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        trials = Trials(bin_dir, folder)
        tasks = ([pool.submit(try_control, trials, command) for command in _COMPLETION]
                 + [pool.submit(try_line, trials, line) for line in lines]
                 + [pool.submit(try_sentence, trials, flag) for flag in others])
        mistakes = [mistake for task in tasks for mistake in task.result()]
    if len(lines) < 3 or len(others) < 3:
        mistakes.append(f"only {len(lines)} command lines and {len(others)} values of sentences "
                        "were found in the documents: the search is broken")
    return mistakes


def check_pipelines(bin_dir):
    mistakes = []
    for name in ("README.md", os.path.join("docs", "operations.md")):
        with open(os.path.join(ROOT, name), encoding="utf-8") as file:
            text = file.read()
        # Indented blocks that are a spec.
        blocks = [b for b in re.findall(r"(?:^    .*\n)+", text, re.MULTILINE)
                  if "sources {" in b or "transforms {" in b or "decode_image {" in b]
        if not blocks:
            mistakes.append(f"{name} shows no pipeline any more")
        for block in blocks:
            with tempfile.NamedTemporaryFile("w", suffix=".textproto") as file:
                file.write(block)
                file.flush()
                result = _run([os.path.join(bin_dir, "millrace-data"), "check", file.name])
            if result.returncode != 0:
                mistakes.append(f"{name}: {result.stdout}{result.stderr}")
    return mistakes


def link_inputs(parameters, folder):
    """Paths of the objects and archives in a linker's parameter file."""
    with open(parameters, encoding="utf-8") as file:
        words = file.read().split("\n")
    return sorted({os.path.join(folder, w) for w in words if w.endswith((".o", ".a", ".lo"))
                   and not w.startswith("-")})


def defined_twice(files):
    """{symbol: the objects that define it} of strong symbols with more than one. A linker
    takes the first one that it meets in an archive, without a word."""
    # FILE[MEMBER]: NAME TYPE VALUE SIZE; upper-case types are global.
    result = _run(["nm", "--print-file-name", "--extern-only", "--defined-only",
                   "--format=posix", "--no-sort"] + files)
    if result.returncode != 0:
        raise RuntimeError(f"nm: {result.stderr}")
    places = {}
    for line in result.stdout.splitlines():
        where, name, kind = re.match(r"(.*): (\S+) (\S)", line).groups()
        if kind in "ABCDGRST":
            places.setdefault(name, set()).add(where)
    return {name: sorted(where) for name, where in places.items() if len(where) > 1}


def check_definitions(_):
    bazel = {key: _run(["bazel", "info", key], cwd=ROOT).stdout.strip()
             for key in ("bazel-bin", "execution_root")}
    mistakes = []
    for program in _LINKED:
        parameters = os.path.join(bazel["bazel-bin"], program + "-2.params")
        if not os.path.exists(parameters):
            mistakes.append(f"{program}: {parameters} is missing: run tools/build")
            continue
        files = link_inputs(parameters, bazel["execution_root"])
        if not files:
            mistakes.append(f"{parameters} names no object: the search is broken")
            continue
        for name, where in defined_twice(files).items():
            plain = _run(["c++filt", name]).stdout.strip()
            mistakes.append(f"{program}: {plain} is defined in {' and in '.join(where)}: rename "
                            "one, or put it into an anonymous namespace")
    return mistakes


def has_preinit(program):
    """Whether the program has functions that run before the initialisers of its libraries."""
    return "(PREINIT_ARRAY)" in _run(["readelf", "--dynamic", "--wide", program]).stdout


def check_cpu(bin_dir):
    if os.uname().machine != "x86_64":
        return []
    mistakes, looked_at = [], 0
    for program in PROGRAMS:
        path = os.path.join(bin_dir, program)
        if not any("arrow" in name for name in libraries(path)):
            continue
        looked_at += 1
        # Nothing else puts a function there.
        if not has_preinit(path):
            mistakes.append(f"{program} loads Arrow, which is compiled for SSE4.2, and does not "
                            "check the CPU before: add MR_CHECK_CPU to its main.cc")
    if looked_at < 2:
        mistakes.append(f"only {looked_at} programs load Arrow: the search is broken")
    return mistakes


CHECKS = {
    "runs-anywhere": check_runs_anywhere,
    "thin": check_thin,
    "packages": check_packages,
    "documented": check_documented,
    "flags": check_flags,
    "values": check_values,
    "pipelines": check_pipelines,
    "definitions": check_definitions,
    "cpu": check_cpu,
}


def main(argv):
    if argv[1:] == ["--list"]:
        print("\n".join(CHECKS))
        return 0
    chosen = list(CHECKS)
    if len(argv) == 3 and argv[2].startswith("--check=") and argv[2][8:] in CHECKS:
        chosen = [argv[2][8:]]
    elif len(argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    missing = [p for p in PROGRAMS + [_PICTURES] if not libraries(os.path.join(argv[1], p))]
    if missing:
        print(f"{argv[1]} lacks {', '.join(missing)}: run tools/build", file=sys.stderr)
        return 1
    mistakes = [f"{name}: {m}" for name in chosen for m in CHECKS[name](argv[1])]
    for mistake in mistakes:
        print(mistake, file=sys.stderr)
    return 1 if mistakes else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
