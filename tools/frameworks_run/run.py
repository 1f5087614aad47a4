"""The rows of tools/python-frameworks: the examples, then checks.py and jax_checks.py.

    run.py --server=FILE --examples=FOLDER --work=FOLDER [--only=TEXT]

An example runs as a whole, and in three parts: until a batch in the middle of the first epoch, of
the second one, and to the end. The parts together must have trained on the samples of the whole run,
in its order on each rank, and on each sample once an epoch. The last line is "N passed, N failed";
exit code 1 when one failed.
"""

import argparse
import glob
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

import samples

_HERE = os.path.dirname(os.path.abspath(__file__))
_EPOCHS = 2
# Of 40 batches of an epoch. The first is a multiple of 3, the accumulation of Accelerate's example.
_STOPS = (24, 56)
_TIMEOUT_SECONDS = 300
# No random transform, so that an image is the same in each epoch.
SPEC = """
sources { synthetic {
  samples: 2000 seed: 3
  fields { name: "image" dtype: DTYPE_UINT8 shape: [28, 28, 1] }
  fields { name: "label" dtype: DTYPE_INT64 num_classes: 10 } } }
seed: 1
transforms { normalize { mean: 0.13 stddev: 0.31 } }
"""
# (example, number of ranks of each part)
_RUNS = [(name, (ranks, ranks, ranks))
         for name, numbers in (("torch_loop", (1,)), ("ddp_loop", (2,)), ("lightning_trainer", (1, 2)),
                               ("fabric_loop", (1, 2)), ("accelerate_loop", (1, 2)),
                               ("hf_trainer", (1, 2)))
         for ranks in numbers] + [("ddp_loop", (2, 1, 2))]


class Failure(Exception):
    """A row that did not pass."""


class Examples:

    def __init__(self, options, endpoint):
        self._options = options
        self._endpoint = endpoint
        self._spec = os.path.join(options.work, "spec.textproto")
        with open(self._spec, "w", encoding="ascii") as file:
            file.write(SPEC)
        self._count = 0

    def epoch(self):
        """The digests of all samples, received without a framework."""
        code = ("import sys, json; sys.path.insert(0, sys.argv[3]); import millrace, record\n"
                "loader = millrace.DataLoader(sys.argv[1], None, sys.argv[2], batch_size=50)\n"
                "print(json.dumps([record.digest(row) for images, _ in loader for row in images]))")
        return json.loads(run([sys.executable, "-B", "-c", code, self._endpoint, self._spec, _HERE]))

    def train(self, name, ranks, checkpoint, stop=0):
        """Runs an example; returns the samples of each rank."""
        self._count += 1
        record = os.path.join(self._options.work, f"record{self._count}")
        launch = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={ranks}"]
        run([sys.executable, "-B", *(launch if ranks > 1 or name == "ddp_loop" else []),
             os.path.join(_HERE, "record.py"), record,
             os.path.join(self._options.examples, name + ".py"), self._endpoint, "", self._spec,
             checkpoint, *([str(stop)] if stop else [])])
        result = []
        for rank in range(len(glob.glob(record + ".*"))):
            with open(f"{record}.{rank}", encoding="ascii") as file:
                result.append(json.load(file))
        if len(result) != ranks:
            raise Failure(f"{len(result)} of {ranks} ranks wrote what they saw")
        return result

    def check(self, name, ranks, epoch):
        """One row; returns what to say about it."""
        checkpoint = os.path.join(self._options.work, f"checkpoint{self._count}")
        whole = self.train(name, ranks[0], checkpoint + "-not-used")
        parts = [self.train(name, number, checkpoint, stop)
                 for number, stop in zip(ranks, (*_STOPS, 0), strict=True)]
        trained = 0
        for part, stop in zip(parts, _STOPS):
            trained += sum(len(rank) for rank in part)
            if trained != stop * 50:
                raise Failure(f"{trained} samples were trained on before batch {stop}, and not {stop * 50}")
        for runs in ([whole], parts):
            if samples.complaint(runs, epoch, _EPOCHS):
                raise Failure(samples.complaint(runs, epoch, _EPOCHS))
        if len(set(ranks)) == 1 and samples.difference(parts, whole):
            raise Failure(samples.difference(parts, whole))
        return (f"{len(epoch)} samples once in each of {_EPOCHS} epochs, continued after batches "
                f"{' and '.join(map(str, _STOPS))} of {_EPOCHS * len(epoch) // 50}")


def run(command):
    """stdout of a command that must succeed."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1",
                   "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, errors="replace", env=environment,
                               start_new_session=True)
    try:
        output, errors = process.communicate(timeout=_TIMEOUT_SECONDS)
    except BaseException as error:
        os.killpg(process.pid, signal.SIGKILL)  # torchrun and its ranks
        process.communicate()
        if isinstance(error, subprocess.TimeoutExpired):
            raise Failure(f"hangs: {' '.join(command)}") from None
        raise
    if process.returncode != 0:
        raise Failure(f"exit code {process.returncode}: {' '.join(command)}\n{output}\n{errors}"[-6000:])
    return output


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("server", "examples", "work"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--only", default="")
    options = parser.parse_args(argv[1:])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    log = tempfile.TemporaryFile("w+")
    server = subprocess.Popen([options.server, "--synthetic_only", "--listen=127.0.0.1:0"],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        line = server.stdout.readline()
        found = re.match(r"listening on (\S+)", line)
        if not found:
            server.wait()
            log.seek(0)
            sys.exit(f"{options.server} does not start: {line}{log.read()[-2000:]}")
        return prove(options, found[1])
    finally:
        server.terminate()
        server.wait()


def rows(options, endpoint):
    """(name, function that returns what to say)."""
    examples = Examples(options, endpoint)
    epoch = []

    def check(example):
        if not epoch:
            epoch.extend(examples.epoch())
        return examples.check(*example, epoch)

    for example in _RUNS:
        name, numbers = example
        ranks = ", then ".join(map(str, numbers if len(set(numbers)) > 1 else numbers[:1]))
        yield f"{name}.py, ranks: {ranks}", lambda example=example: check(example)
    for file in ("checks.py", "jax_checks.py"):
        checks = os.path.join(_HERE, file)
        for name in run([sys.executable, "-B", checks, "--list"]).split():
            # Frameworks print, too; the last line is the check's.
            yield name, lambda checks=checks, name=name: run(
                [sys.executable, "-B", checks, name, endpoint, options.work]).strip().splitlines()[-1]


def prove(options, endpoint):
    passed = failed = 0
    for name, act in rows(options, endpoint):
        if options.only not in name:
            continue
        began = time.monotonic()
        try:
            good, text = True, act()
        except Failure as failure:
            good, text = False, str(failure)
        passed, failed = passed + good, failed + (not good)
        print(f"{'passed' if good else 'FAILED'}  {name} ({time.monotonic() - began:.0f} s): {text}",
              flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
