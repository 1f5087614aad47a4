"""millrace-train as torchrun starts it, for real: two ranks, one of them killed, both
started again by torchrun, every sample of the run exactly once.

torchrun is Python's; wheel_python.py says where it comes from.
"""

import os
import re
import signal
import subprocess
import tempfile
import time
import unittest

import dataset
import network
import processes
import wheel_python

_IMPORT = "from torch.distributed import run"
_TORCHRUN = f"{wheel_python.BEGIN}{_IMPORT}\nrun.main(sys.argv[1:])"
_BATCH = 200
_EVERY = 5  # steps


def _children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [int(child) for child in file.read().split()]
    except FileNotFoundError:
        return []


class Torchrun(unittest.TestCase):

    def test_a_rank_that_is_killed_is_started_again_and_no_sample_is_lost(self):
        with tempfile.TemporaryDirectory(dir="/tmp") as work:
            found, why = wheel_python.find(work, _IMPORT)
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

    def _run(self, work, python, endpoint, spec):
        logs = os.path.join(work, "audit")
        os.mkdir(logs)
        losses = os.path.join(work, "losses")
        checkpoint = os.path.join(work, "run.ckpt")
        train = [os.path.realpath("trainer/millrace-train"), f"--endpoint={endpoint}",
                 f"--pipeline={spec}", f"--batch_size={_BATCH}", f"--checkpoint={checkpoint}",
                 f"--checkpoint_every={_EVERY}", "--resume=auto", f"--audit_dir={logs}",
                 f"--step_losses={losses}", "--epochs=1", "--log_every=1"]
        output = os.path.join(work, "output")
        # The programs of the ranks need none of the empty libraries.
        clean = ["env", *(f"--unset={name}" for name in python.environment)]
        with open(output, "w", encoding="utf-8") as file:
            job = subprocess.Popen(
                [*python.command, _TORCHRUN, "--standalone", "--nproc-per-node=2",
                 "--max-restarts=1", "--no-python", *clean, *train],
                env={**os.environ, **python.environment}, stdin=subprocess.DEVNULL, stdout=file,
                stderr=file)
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
        # The second start went on with the losses of the first: no step stands twice. The
        # rank that died took those since the last writing with it, which comes before each
        # checkpoint of --checkpoint_every.
        with open(losses, encoding="utf-8") as file:
            steps = [int(line.split()[1]) for line in file]
        self.assertEqual(steps, sorted(set(steps)), said)
        lost = sorted(set(range(dataset.SAMPLES // _BATCH)) - set(steps))
        if lost:
            self.assertEqual(lost[0] % _EVERY, 0, said)
            self.assertEqual(lost, list(range(lost[0], lost[0] + len(lost))), said)
            self.assertLess(len(lost), _EVERY, said)
        audit = subprocess.run(
            ["client/cli/millrace", "audit", f"--files={logs}", f"--endpoint={endpoint}",
             "--expect_epochs=1", "--json"], stdin=subprocess.DEVNULL, capture_output=True,
            text=True, check=False)
        self.assertEqual(audit.returncode, 0, audit.stdout + audit.stderr)
        self.assertRegex(audit.stdout, '"starts": 2')
        self.assertRegex(audit.stdout, '"result": "exactly_once"')

    def _kill_a_rank(self, job, output):
        give_up = time.monotonic() + 150
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
