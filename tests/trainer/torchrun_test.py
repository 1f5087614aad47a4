"""millrace-train as torchrun starts it, for real: two ranks, one of them killed, both
started again by torchrun, every sample of the run exactly once.

torchrun is Python's. The PyTorch wheel that libtorch is taken from has it; it also wants
libraries of NVIDIA that no machine without a GPU needs. Empty ones in their place are
enough to start processes. Where that does not work (another version of Python), the
Python in MILLRACE_TORCH_PYTHON is taken, and without one the test is skipped.
"""

import glob
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import dataset
import network
import processes

_NEEDED_BY_CUDA = ("libcudnn.so.9", "libcufile.so.0", "libcusparse.so.12", "libcufft.so.12",
                   "libcusparseLt.so.0", "libnccl.so.2", "libcurand.so.10", "libcublas.so.13",
                   "libcublasLt.so.13", "libnvshmem_host.so.3")
# Symbols of the empty libraries are missed only when they are called.
_TORCHRUN = """
import os, sys, warnings
sys.setdlopenflags(os.RTLD_LAZY)
warnings.simplefilter("ignore")
from torch.distributed import run
run.main(sys.argv[1:])
"""
_BATCH = 200


def _of_the_wheel(work):
    """Command and environment of a torchrun out of the wheel."""
    library = [file for pattern in ("_solib_*/*/libtorch_cpu.so", "../torch/torch/lib/libtorch_cpu.so")
               for file in glob.glob(pattern)]
    if not library:
        return None
    # The link leads to the whole wheel, of which Bazel names only the libraries.
    wheel = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(library[0]))))
    typing = glob.glob("external/typing_extensions/typing_extensions.py") + glob.glob(
        "../typing_extensions/typing_extensions.py")
    empty = os.path.join(work, "empty")
    os.mkdir(empty)
    for name in _NEEDED_BY_CUDA:
        os.symlink(os.path.realpath("tests/testing/libempty.so"), os.path.join(empty, name))
    path = [wheel] + [os.path.dirname(os.path.realpath(file)) for file in typing]
    return ([sys.executable, "-B", "-c", _TORCHRUN],
            {"PYTHONPATH": ":".join(path),
             "LD_LIBRARY_PATH": f"{empty}:{wheel}/nvidia/cu13/lib"})


def _find_torchrun(work):
    candidates = [_of_the_wheel(work)]
    if os.environ.get("MILLRACE_TORCH_PYTHON"):
        candidates.append(([os.environ["MILLRACE_TORCH_PYTHON"], "-B", "-c", _TORCHRUN], {}))
    why = "no wheel of PyTorch is here, and MILLRACE_TORCH_PYTHON is not set"
    for candidate in filter(None, candidates):
        command, environment = candidate
        help_text = subprocess.run([*command, "--help"], env={**os.environ, **environment},
                                   stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                   check=False)
        if help_text.returncode == 0 and "--nproc-per-node" in help_text.stdout:
            return candidate, ""
        why = f"{command[0]} cannot start torchrun: {help_text.stderr.strip()[-300:]}"
    return None, why


def _children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [int(child) for child in file.read().split()]
    except FileNotFoundError:
        return []


class Torchrun(unittest.TestCase):

    def test_a_rank_that_is_killed_is_started_again_and_no_sample_is_lost(self):
        with tempfile.TemporaryDirectory(dir="/tmp") as work:
            found, why = _find_torchrun(work)
            if found is None:
                self.skipTest(why)
            os.mkdir(os.path.join(work, "tmp"))
            spec = os.path.join(work, "spec.textproto")
            with open(spec, "w", encoding="utf-8") as file:
                file.write(dataset.SPEC)
            uri = dataset.pack("server/data_tool/millrace-data", work)
            server = processes.Server(0, network.Loopback(1), "server/millrace-server",
                                      [f"--dataset=digits={uri}"], work)
            try:
                server.start()
                server.await_ready()
                self._run(work, found, server.address, spec)
            finally:
                server.kill()

    def _run(self, work, torchrun, endpoint, spec):
        command, environment = torchrun
        logs = os.path.join(work, "audit")
        os.mkdir(logs)
        losses = os.path.join(work, "losses")
        checkpoint = os.path.join(work, "run.ckpt")
        train = [os.path.realpath("trainer/millrace-train"), f"--endpoint={endpoint}",
                 f"--pipeline={spec}", f"--batch_size={_BATCH}", f"--checkpoint={checkpoint}",
                 "--checkpoint_every=5", "--resume=auto", f"--audit_dir={logs}",
                 f"--step_losses={losses}", "--epochs=1", "--log_every=1"]
        output = os.path.join(work, "output")
        # The programs of the ranks need none of the empty libraries.
        clean = ["env", *(f"--unset={name}" for name in environment)]
        with open(output, "w", encoding="utf-8") as file:
            job = subprocess.Popen(
                [*command, "--standalone", "--nproc-per-node=2", "--max-restarts=1", "--no-python",
                 *clean, *train], env={**os.environ, **environment}, stdin=subprocess.DEVNULL,
                stdout=file, stderr=file)
        try:
            self._kill_a_rank(job, output)
            code = job.wait(120)
        finally:
            job.kill()
            job.wait()
        with open(output, encoding="utf-8") as file:
            said = file.read()
        self.assertEqual(code, 0, said)
        self.assertIn("2 ranks", said)
        # It went on, not from the start.
        with open(losses, encoding="utf-8") as file:
            rest = [line.split() for line in file]
        self.assertLess(len(rest), dataset.SAMPLES // _BATCH)
        self.assertGreater(int(rest[0][1]), 0)
        audit = subprocess.run(
            ["client/cli/millrace", "audit", f"--files={logs}", f"--endpoint={endpoint}",
             "--expect_epochs=1", "--json"], stdin=subprocess.DEVNULL, capture_output=True,
            text=True, check=False)
        self.assertEqual(audit.returncode, 0, audit.stdout + audit.stderr)
        self.assertRegex(audit.stdout, '"starts": 2')
        self.assertRegex(audit.stdout, '"result": "exactly_once"')

    def _kill_a_rank(self, job, output):
        give_up = time.monotonic() + 60
        while True:
            with open(output, encoding="utf-8") as file:
                said = file.read()
            if re.search("checkpoint before epoch 1, step", said):
                break
            self.assertIsNone(job.poll(), said)
            self.assertLess(time.monotonic(), give_up, said)
            time.sleep(0.005)
        ranks = [child for child in _children(job.pid)
                 if "millrace-train" in os.readlink(f"/proc/{child}/exe")]
        self.assertEqual(len(ranks), 2, said)
        os.kill(ranks[1], signal.SIGKILL)


if __name__ == "__main__":
    unittest.main()
