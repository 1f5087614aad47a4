"""Runs the programs with command lines of the documents, on small data of its own.

TrialWorld has the data, a data server and the files that the documents only name. Trial runs
one command line there. document_checks.py says which command lines.
"""

import contextlib
import io
import os
import re
import shutil
import socket
import struct
import subprocess
import tarfile
import tempfile
import time
import zlib

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MODELS = os.path.join(ROOT, "tests", "testdata", "trainer", "models")
# Values of the documents: digits 48000:60000, step 17 of the photos.
_DIGITS, _FEW_DIGITS, _PHOTOS, _CHARTS = 60000, 1000, 1152, 8

# Flags whose value only makes a trial longer: the upper bound in a trial.
_LONG = {
    ("millrace", "bench"): {"--batches": 4, "--seconds": "200ms", "--epochs": 2, "--rounds": 1},
    ("millrace-train", None): {"--batch_size": 4, "--epochs": 1, "--max_steps": 2},
}
# Arguments that complete a command line that has none of the flags beside them.
_ENDPOINT = ("--endpoint=ADDRESS", ("--endpoint", "--server", "--run"))
_SPEC = ("--dataset", "--pipeline", "--synthetic", "--synthetic_latency_us", "--shape",
         "--ready_batches", "--server", "--files", "--run")
COMPLETION = {
    ("millrace", "status"): [("--endpoint=ADDRESS", ("--endpoint",))],
    ("millrace", "bench"): [_ENDPOINT, ("--dataset=few", _SPEC),
                            ("--batches=4", ("--batches", "--seconds", "--epochs", "--sweep"))],
    ("millrace", "audit"): [("--endpoint=ADDRESS", ("--endpoint", "--files")),
                            ("--dataset=few", _SPEC)],
    ("millrace", "replay"): [_ENDPOINT, ("--dataset=few", _SPEC),
                             ("--position=0:0", ("--position",)),
                             ("--output=batch", ("--output",))],
    ("millrace", "doctor"): [("--run=RUN", ("--run", "--compare"))],
    ("millrace-server", None): [
        ("--check_config", ("--check_config", "--parse_config")),
        ("--synthetic_only", ("--synthetic_only", "--dataset", "--config", "--lease_socket"))],
    ("millrace-data", "pack"): [("--format=imagefolder", ("--format",)),
                                ("--input=photos", ("--input",)),
                                ("--output=lmdb:packed", ("--output",)),
                                ("--overwrite", ("--overwrite",))],
    ("millrace-data", "preview"): [("--dataset=lmdb:photos", ("--dataset",)),
                                   ("--preset=imagenet_eval", ("--preset", "--pipeline")),
                                   ("--explain", ("--explain", "--output"))],
    ("millrace-data", "check"): [("PIPELINE", ())],
    ("millrace-data", "index"): [("--input=photos", ("--input",))],
    ("millrace-data", "inspect"): [("URI", ())],
    ("millrace-data", "head"): [("URI", ())],
    ("millrace-data", "diff"): [("URI", ()), ("URI", ())],
    ("millrace-data", "verify"): [("URI", ())],
    ("millrace-train", None): [("--endpoint=ADDRESS", ("--endpoint",)),
                               ("--dataset=few", ("--dataset", "--pipeline")),
                               ("--max_steps=1", ("--max_steps", "--repeat_batches")),
                               ("--target=mask", ("--target",)),
                               ("--batch_size=4", ("--batch_size",))],
}
# For --pipeline, where the document shows none.
_PIPELINE = """sources { dataset: "photos" }
batch_size: 4
transforms { decode_image {} }
transforms { center_crop { height: 24 width: 24 } }
outputs { field: "image" }
outputs { field: "label" }
"""
# For --apply, and what --remainder needs behind it.
_APPLIED = """transforms { decode_image { mode: EXACT } }
transforms { center_crop { height: 20 width: 20 } }
"""
_RANDOM = "transforms { horizontal_flip {} }\n"
# Datasets that a preset needs, where a line does not name one.
_PRESET_DATA = {"imagenet_train": "photos", "imagenet_eval": "photos",
                "segmentation_train": "streets"}
_AUDITED = {"--rank": "=0", "--world": "=1", "--position": "=0:1"}
# Flags with which a program ends with another exit code than 0 in a trial, and why.
_EXIT_CODES = {
    "--expect_epochs": 1,  # the run of the trial is shorter
}
# Flags that a flag needs beside it, for sentences that name the flag alone.
COMPANIONS = {
    "--apply_as": ["--apply=FILE"],
    "--checkpoint_every": ["--checkpoint=c"],
    "--classes": ["--dataset=streets", "--preset=segmentation_train", "--model=unet"],
    "--expect_epochs": ["--files=runs"],
    "--ignore_value": ["--dataset=streets", "--preset=segmentation_train", "--model=unet",
                       "--classes=19"],
    "--init_weights_without": ["--init_weights=w.pt", "--model=resnet18"],
    "--master_port": ["--nproc=1", "--nnodes=2", "--master_addr=127.0.0.1"],
    "--model": ["--dataset=photos", "--preset=imagenet_train"],
    "--nnodes": ["--nproc=1", "--master_addr=127.0.0.1"],
    "--node_rank": ["--nproc=1", "--nnodes=2", "--master_addr=127.0.0.1"],
    "--profile_steps": ["--profile=p"],
    "--rank": ["--world=8"],
    "--ready_batches": ["--synthetic"],
    "--shape": ["--synthetic"],
    "--resume": ["--checkpoint=c"],
    "--rounds": ["--sweep=window=4"],
    "--schedule": ["--epochs=2"],
    "--split": ["--input=parts"],
    "--subset_unit": ["--eval_subset=0.8:1.0"],
}


def png(width, height, color):
    """Bytes of a picture of one colour."""
    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))
    rows = (b"\0" + bytes(color) * width) * height
    return (b"\x89PNG\r\n\x1a\n"
            + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def _write(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)


class TrialWorld:
    """Data, a server of them, the summary and the audit log of a training run, in `folder`.

    `built`: Bazel's folder of built targets, for the operators of docs/extending.md and the
    charts of the tests. start() makes all of it; stop() ends the server, also after a start()
    that failed."""

    def __init__(self, bin_dir, folder, built):
        self.bin_dir = bin_dir
        self.folder = folder
        self.built = built
        self.environment = {"PATH": "/usr/bin:/bin", "HOME": folder, "OMP_WAIT_POLICY": "passive"}
        self.server = None
        self.uris = {"photos": f"lmdb:{folder}/photos.lmdb", "digits": f"lmdb:{folder}/digits.lmdb",
                     "few": f"lmdb:{folder}/few.lmdb", "streets": f"lmdb:{folder}/streets.lmdb"}
        self.endpoint = None
        self.summary, self.runs = os.path.join(folder, "run.json"), os.path.join(folder, "audited")

    def start(self):
        """Raises RuntimeError, with what a program says."""
        self._write_data()
        self.endpoint = self._start_server()
        self._must("millrace-train", f"--endpoint={self.endpoint}", "--dataset=digits",
                   "--max_steps=2", "--batch_size=8", f"--json={self.summary}",
                   f"--audit_dir={self.runs}")
        shutil.copy(self.summary, self.summary + ".after")

    def _must(self, program, *arguments):
        path = program if os.path.isabs(program) else os.path.join(self.bin_dir, program)
        if not os.path.exists(path):
            raise RuntimeError(f"{path} is missing: run tools/test, or bazel build "
                               "//tests/testing/chart:chart_dataset //docs/example/operators:all")
        result = subprocess.run([path, *arguments], stdin=subprocess.DEVNULL, capture_output=True,
                                text=True, check=False, env=self.environment, cwd=self.folder)
        if result.returncode != 0:
            raise RuntimeError(f"{path} {' '.join(arguments)}: {result.stdout}{result.stderr}")

    def _write_data(self):
        for i in range(_PHOTOS):
            _write(f"{self.folder}/photos/{'cat' if i % 2 else 'dog'}/{i:04}.png",
                   png(24, 24, (i % 256, 100, 255 - i % 256)))
            if i < 8:
                _write(f"{self.folder}/scans/{'a' if i % 2 else 'b'}/{i}.ppm",
                       b"P6 4 4 255\n" + bytes(range(48)))
        os.makedirs(f"{self.folder}/parts")
        os.symlink(f"{self.folder}/photos", f"{self.folder}/parts/train")
        for part, name, count in (("train", "digits", _DIGITS), ("test", "few", _FEW_DIGITS)):
            prefix = f"{self.folder}/idx/{'train' if part == 'train' else 't10k'}"
            _write(prefix + "-images-idx3-ubyte",
                   struct.pack(">IIII", 0x803, count, 28, 28) + bytes(count * 784))
            _write(prefix + "-labels-idx1-ubyte",
                   struct.pack(">II", 0x801, count) + bytes(i % 10 for i in range(count)))
            self._must("millrace-data", "pack", "--format=idx", f"--split={part}",
                       f"--input={self.folder}/idx", f"--output={self.uris[name]}")
        self._must("millrace-data", "pack", "--format=imagefolder",
                   f"--input={self.folder}/photos", f"--output={self.uris['photos']}")
        self._must(os.path.join(self.built, "tests/testing/chart/chart_dataset"),
                   self.uris["streets"], str(_CHARTS))
        _write(f"{self.folder}/labels.csv", b"file,class\n" + b"".join(
            b"photos/%s/%04d.png,%s\n" % (name, i, name) for i, name in
            ((i, b"cat" if i % 2 else b"dog") for i in range(_PHOTOS))))
        _write(f"{self.folder}/data_batch_1.bin", bytes(3073 * 10))
        _write(f"{self.folder}/cifar/data_batch_1.bin", bytes(3073 * 10))
        _write(f"{self.folder}/cifar/train.bin", bytes(3074 * 10))
        with tarfile.open(f"{self.folder}/shard.tar", "w", tarfile.USTAR_FORMAT) as tar:
            for i in range(16):
                for name, data in ((f"{i}.cls", b"%d" % (i % 2)),
                                   (f"{i}.png", png(24, 24, (i, 100, 50)))):
                    member = tarfile.TarInfo(name)
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))
        # The same settings as deployed, with data that are there.
        with open(os.path.join(ROOT, "deploy", "server.textproto"), encoding="utf-8") as file:
            text = file.read()
        _write(f"{self.folder}/server.textproto",
               re.sub(r'uri: "[^"]*"', f'uri: "{self.uris["photos"]}"', text).encode())

    def _start_server(self):
        port_file = os.path.join(self.folder, "port")
        with open(os.path.join(self.folder, "server.log"), "wb") as log:
            self.server = subprocess.Popen(
                [os.path.join(self.bin_dir, "millrace-server"), "--listen=127.0.0.1:0",
                 f"--port_file={port_file}", "--memory_budget=512MiB"]
                + [f"--dataset={name}={uri}" for name, uri in self.uris.items()],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.environment)
        while not os.path.exists(port_file):
            if self.server.poll() is not None:
                with open(log.name, encoding="utf-8") as file:
                    raise RuntimeError("the server of the trials ended: " + file.read())
            time.sleep(0.05)
        with open(port_file, encoding="utf-8") as file:
            return "127.0.0.1:" + file.read().strip()

    def stop(self):
        if self.server:
            self.server.kill()
            self.server.wait()

    def uri(self, value, operators):
        """A dataset that is there, for the one that a document names."""
        if value.startswith("cifar10:"):
            return f"cifar10:{self.folder}/data_batch_1.bin"
        if value.startswith("tar:"):
            return f"tar:{self.folder}/shard.tar"
        if value.startswith("imagefolder:"):
            return f"imagefolder:{self.folder}/{'scans' if operators else 'photos'}"
        for name, uri in self.uris.items():
            if name in value:
                return uri
        return self.uris["photos"]


class Trials:
    """Runs command lines in a TrialWorld. Thread-safe: each has a folder of its own."""

    def __init__(self, world):
        self.world = world

    def stand_in(self, command, flag, names, folder, pipeline):
        """`flag` with files, addresses and datasets that are there."""
        world = self.world
        name, equals, value = flag.partition("=")
        bound = _LONG.get(command, {}).get(name)
        if bound is not None:
            shorter = isinstance(bound, int) and value.isdigit() and int(value) <= bound
            return flag if shorter else f"{name}={bound}"
        if name == "--endpoint":
            return f"--endpoint={world.endpoint}"
        if name == "--server":
            return "--server=" + os.path.join(world.bin_dir, "millrace-server")
        if name in ("--pipeline", "--check_pipeline"):
            return f"{name}={pipeline}"
        if name == "--apply":
            applied = os.path.join(folder, "apply.textproto")
            _write(applied, (_APPLIED + (_RANDOM if "--remainder" in names else "")).encode())
            return f"--apply={applied}"
        if name == "--operators":
            return f"--operators={world.built}/docs/example/operators/{os.path.basename(value)}"
        if name == "--config":
            return f"--config={world.folder}/server.textproto"
        if name == "--run":
            audit = sorted(os.listdir(world.runs))[0]
            return "--run=" + (os.path.join(world.runs, audit) if value.endswith(".mraudit")
                               else world.summary)
        if name == "--files":
            return f"--files={world.runs}"
        if name == "--init_weights":
            return f"--init_weights={folder}/weights.pt"
        if value.startswith("torchscript:") and name == "--model":
            return f"--model=torchscript:{MODELS}/traced_cnn.pt"
        operators = "--operators" in names
        if name in ("--dataset", "--dataset_uri"):
            if command[0] == "millrace-server":
                label, _, uri = value.partition("=")
                return f"--dataset={label}={world.uri(uri, operators)}" if uri else flag
            if command[0] == "millrace-data" or name == "--dataset_uri":
                return f"{name}={world.uri(value, operators)}"
            return flag
        if name == "--input" and command[0] == "millrace-data":
            if ":" in value:
                return f"--input={world.uri(value, operators)}"
            if "--format=csv" in names:  # with the options that the document has
                return f"--input={world.folder}/labels.csv" + "".join(value.partition("?")[1:])
            return f"--input={world.folder}/" + (
                "idx" if "--format=idx" in names
                else "cifar" if names & {"--format=cifar10", "--format=cifar100"}
                else "scans" if operators
                else "parts" if "--split" in names else "photos")
        # What a program writes lands in the folder of the trial.
        value = re.sub(r"(^|[=:])/", r"\1" + folder + "/", value)
        if value.rpartition(":")[2].startswith(folder):
            os.makedirs(os.path.dirname(value.rpartition(":")[2]), exist_ok=True)
        return name + equals + value

    def words(self, program, subcommand, flags, folder, pipeline):
        command = (program, subcommand)
        names = {flag.partition("=")[0] for flag in flags}
        names |= {flag for flag in flags if flag.startswith("--format=")}
        if any(flag.startswith("--input=") and ":" in flag for flag in flags):
            names.add("--format")  # the URI says it
        if any(f.startswith("--model=torchscript:") for f in flags):
            flags = [f for f in flags if not f.startswith("--dataset=")] + ["--dataset=few"]
        if any(f.startswith("--run=") and f.endswith(".mraudit") for f in flags):
            # A batch of the job whose audit log the trial has.
            flags = [re.sub(r"^(--rank|--world|--position)=.*", lambda m: m[1] + _AUDITED[m[1]], f)
                     for f in flags]
        words = [self.stand_in(command, flag, names, folder, pipeline) for flag in flags
                 if (subcommand, flag.partition("=")[0]) != ("doctor", "--compare")]
        if "--compare" in names and subcommand == "doctor":
            words += ["--compare", self.world.summary, self.world.summary + ".after"]
        preset = next((f.partition("=")[2] for f in flags if f.startswith("--preset=")), "")
        dataset = next((f.partition("=")[2] for f in flags if f.startswith("--dataset=")),
                       _PRESET_DATA.get(preset, "few"))
        for word, unless in COMPLETION[command]:
            if names & set(unless) or (word == "--target=mask" and dataset != "streets"):
                continue
            if word == "--dataset=few":
                word = f"--dataset={dataset}"
            if word == "URI":
                words.append(self.world.uris["few"])
            elif word == "PIPELINE":
                words.append(pipeline)
            else:
                words.append(self.stand_in(command, word, names, folder, pipeline))
        if "--sweep" in names:
            words += [f for f in ("--seconds=200ms", "--rounds=1") if f[:8] not in
                      {n[:8] for n in names}]
        return words

    def run(self, program, subcommand, flags, pipeline=None):
        """What the program says against the flags; empty: it ends as it must. `pipeline`: the
        text of the spec for --pipeline, if the document has one."""
        folder = tempfile.mkdtemp(dir=self.world.folder)
        os.makedirs(os.path.join(folder, "runs"))
        os.makedirs(os.path.join(folder, "tmp"))
        spec = os.path.join(folder, "pipeline.textproto")
        named = next((f.split("=")[1] for f in flags if program == "millrace-server"
                      and f.startswith("--dataset=")), "photos")
        with open(spec, "w", encoding="utf-8") as file:
            file.write(pipeline or _PIPELINE.replace("photos", named))
        words = self.words(program, subcommand, list(flags), folder, spec)
        command = [os.path.join(self.world.bin_dir, program)] + ([subcommand] if subcommand else [])
        if any(w.startswith("--init_weights=") for w in words):
            # The weights of the same model, from a run before.
            self.start(command + [w for w in words if not w.startswith("--init_weights")]
                       + [f"--save_weights={folder}/weights.pt"], folder)
        with contextlib.ExitStack() as machines:
            if "--master_addr=127.0.0.1" in words:
                words = machines.enter_context(self.second_machine(command, words, folder))
            result = self.start(command + words, folder)
        shutil.rmtree(folder)
        expected = next((_EXIT_CODES[f.partition("=")[0]] for f in flags
                         if f.partition("=")[0] in _EXIT_CODES), 0)
        return "" if result.returncode == expected else (
            f"exit code {result.returncode}: {result.stderr.strip()}")

    @contextlib.contextmanager
    def second_machine(self, command, words, folder):
        """Runs the other rank of a job of two machines; gives the arguments of the first. The
        port is a free one: others may use the port of a document."""
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            port = f"--master_port={found.getsockname()[1]}"
        words = [w for w in words if not w.startswith("--master_port=")] + [port]
        other = [w for w in words if not w.startswith("--node_rank=")] + ["--node_rank=1"]
        with subprocess.Popen(command + other, stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder,
                              env=self.world.environment) as process:
            try:
                yield words
            finally:
                process.terminate()

    def start(self, command, folder):
        # The limit is for a program that waits forever: a busy machine is slow.
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              check=False, cwd=folder, env=self.world.environment, timeout=300)
