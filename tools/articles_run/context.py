"""What an experiment is given, and how it runs programs: Python peers, the trainer, the bench.

Programs of both sides run on the same cores, with the same number of threads and the same waiting of
idle OpenMP threads (`environment`).
"""

import dataclasses
import hashlib
import json
import os
import re
import signal
import subprocess
import tempfile
import threading

import host
import servers
from cpu_time import cpu_seconds

HERE = os.path.dirname(os.path.abspath(__file__))


class NotAvailable(Exception):
    """Why something cannot be measured on this machine or with these programs."""


@dataclasses.dataclass
class Context:
    """Where things are. Paths are absolute."""
    programs: dict  # name: path, when it is there
    python: str  # a Python with torch; empty: none
    unavailable: dict  # name: why it is not there
    digits: dict  # name, folder (of IDX files), train, test (URIs), preset, mean, stddev, note
    photos: str  # a folder of JPEGs in class0 .. class9; empty: none
    photos_uri: str
    work: str  # a folder that goes away
    output: str  # one that stays
    cores: int
    threads: int  # that a training computes with
    quick: bool
    cuda: bool = False  # whether that Python sees a CUDA device
    # What stands before a command that is to have network namespaces; empty: there are none.
    namespaces: tuple = ()
    timeout: float = 3600

    @property
    def environment(self):
        return {**os.environ, "OMP_NUM_THREADS": str(self.threads), "OMP_WAIT_POLICY": "passive",
                "NO_ALBUMENTATIONS_UPDATE": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}

    def with_threads(self, threads):
        return dataclasses.replace(self, threads=threads)

    def program(self, name):
        if name not in self.programs:
            raise NotAvailable(self.unavailable.get(name, f"there is no program {name}"))
        return self.programs[name]

    def need_flags(self, *names):
        """Those of millrace-train that an experiment cannot do without."""
        missing = [n for n in names if n not in self.train_flags()]
        if missing:
            raise NotAvailable("this millrace-train has no " +
                               " and no ".join(f"--{n}" for n in missing))

    def train_flags(self):
        if not hasattr(self, "_train_flags"):
            said = subprocess.run([self.program("millrace-train"), "--help"],
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  check=False).stdout
            self._train_flags = flags_of(said)
        return self._train_flags

    def log_folder(self, experiment, name, number):
        """Where the TensorBoard log of a round goes: name is original/WHO or optimized/WHO."""
        return os.path.join(self.output, f"experiment-{experiment}", "logs", name, f"round-{number}")

    # --- running ---------------------------------------------------------------------------------

    def peer(self, script, *words):
        """The JSON object that a script of this folder prints last, run by the Python with torch."""
        if not self.python:
            raise NotAvailable(self.unavailable.get("torch", "no Python with torch"))
        return self.run_json([self.python, os.path.join(HERE, script), *words])

    def bench(self, endpoint, spec, *flags):
        """What `millrace bench` says of a pipeline, given as text."""
        with self.spec_file(spec) as file:
            return self.run_json([self.program("millrace"), "bench", f"--endpoint={endpoint}",
                                  f"--pipeline={file}", "--json", *flags])

    def program_json(self, name, *words):
        return self.run_json([self.program(name), *words])

    def run_json(self, words):
        """The JSON object in the last line of what a command prints."""
        environment = self.environment
        libraries = os.path.join(os.path.dirname(words[0]), "lib")
        if words[0] in self.programs.values() and os.path.isdir(libraries):
            environment["LD_LIBRARY_PATH"] = libraries
        output, error = host.run(words, self.timeout, environment)
        if error:
            raise RuntimeError(f"{os.path.basename(words[0])}: {error}")
        return host.parse(output)

    def spec_file(self, text):
        """A file with the text; removed at the end of a with statement."""
        return _TextFile(self.work, text)

    def train(self, server, *flags, epochs, seed, specs=(), log="", losses=True):
        """A run of millrace-train: what its summary and its lines say of each epoch, and what CPU
        time it and the server have used in those that count. `specs`: (flag, spec as text); `losses`:
        also a digest of the losses of all steps."""
        files = [(flag, self.spec_file(text)) for flag, text in specs]
        with tempfile.TemporaryDirectory(dir=self.work) as folder:
            summary = os.path.join(folder, "summary.json")
            step_losses = os.path.join(folder, "losses")
            words = [self.program("millrace-train"), f"--endpoint={server.endpoint}",
                     f"--epochs={epochs}", f"--seed={seed}", "--log_every=0", f"--json={summary}",
                     *flags]
            if losses:
                words.append(f"--step_losses={step_losses}")
            if log and "tensorboard" in self.train_flags():
                words.append(f"--tensorboard={log}")
            before = cpu_seconds(server.pid, living_children=False)
            try:
                words += [f"--{flag}={file.path}" for flag, file in files]
                lines = _follow(words, self.environment, server.pid, self.timeout)
                with open(summary, encoding="utf-8") as file:
                    found = json.load(file)
                digest = _digest(step_losses) if losses else None
            finally:
                for _, file in files:
                    file.remove()
        return run_of(found, lines, seed, digest, before)


class _TextFile:
    def __init__(self, folder, text):
        handle, self.path = tempfile.mkstemp(dir=folder, suffix=".textproto")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)

    def __enter__(self):
        return self.path

    def __exit__(self, *_):
        self.remove()

    def remove(self):
        os.remove(self.path)


def flags_of(help_text):
    """Names of the flags in what a program says to --help."""
    return set(re.findall(r"^  --(\w+)", help_text, re.MULTILINE))


_EPOCH = re.compile(r"^epoch (\d+)/(\d+): .*?waiting ([\d.]+) %")
_ACCURACY = re.compile(r"evaluation.*?\baccuracy ([\d.]+)")


def epochs_said(lines):
    """Of the trainer's lines ([(text, CPU seconds of the trainer, of the server)]): an entry for
    each epoch {"stall", "accuracy", "cpu", "server_cpu"}; CPU times are the sums until its end."""
    epochs = []
    for text, cpu, server_cpu in lines:
        if found := _EPOCH.search(text):
            epochs.append({"stall": float(found[3]) / 100, "accuracy": None, "cpu": cpu,
                           "server_cpu": server_cpu})
        elif epochs and (found := _ACCURACY.search(text)):
            epochs[-1]["accuracy"] = float(found[1])
    return epochs


def run_of(summary, lines, seed, digest, server_before=0.0):
    """A run, of the trainer's summary and lines. The server's CPU time, of which there was
    `server_before` at the start, is that of all epochs: it works ahead, over their borders."""
    epochs = epochs_said(lines)
    count = len(summary["epoch_seconds"])
    accuracy = [e["accuracy"] for e in epochs]
    run = {
        "seed": seed,
        "epoch_seconds": summary["epoch_seconds"],
        "loss": summary["loss"],
        "accuracy": accuracy if None not in accuracy else [],
        "eval_loss": summary["eval_loss"],
        "samples": summary["samples"] / max(1, count),
        "device": summary["device"],
        "step_losses": digest,
        "stall": [e["stall"] for e in epochs],
        "replay_batches": summary.get("replay_batches", 0),
    }
    if len(epochs) > 1 and len(epochs) == count:
        thousands = run["samples"] / 1000
        run["cpu_per_1000"] = (epochs[-1]["cpu"] - epochs[0]["cpu"]) / (thousands * (count - 1))
        run["server_cpu_per_1000"] = (epochs[-1]["server_cpu"] - server_before) / (thousands * count)
    return run


def _digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def _follow(words, environment, server_pid, timeout):
    """Runs a program to its end: its lines, with the CPU seconds that it and the server had used
    when each came."""
    lines = []
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=errors, text=True, env=environment,
                                   start_new_session=True)
        late = threading.Event()

        def end():
            late.set()
            os.killpg(process.pid, signal.SIGKILL)

        timer = threading.Timer(timeout, end)
        timer.start()
        try:
            for line in process.stdout:
                lines.append((line.rstrip("\n"), cpu_seconds(process.pid, living_children=False),
                              cpu_seconds(server_pid, living_children=False)))
            code = process.wait()
        finally:
            timer.cancel()
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            process.stdout.close()
        if code == 0:
            return lines
        if late.is_set():
            raise RuntimeError(f"millrace-train took longer than {timeout:.0f} s")
        errors.seek(0)
        said = [line.strip() for line in errors if line.strip()]
        raise RuntimeError(said[-1] if said else f"millrace-train ended with code {code}")
