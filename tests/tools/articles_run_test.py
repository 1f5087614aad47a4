"""tools/articles' experiments 1 and 3 with the real programs and few pictures: what the trainer and
the bench say is understood, and Python's side is named as missing where there is none."""

import json
import os
import random
import subprocess
import sys
import tempfile
import unittest

import exp1_first_network as exp1
import pictures
import run_articles

_PROGRAMS = {"millrace-server": "server/millrace-server",
             "millrace-data": "server/data_tool/millrace-data",
             "millrace": "client/cli/millrace", "millrace-train": "trainer/millrace-train",
             "memory_train": "tests/bench/memory_train"}
_TRAIN, _TEST = 200, 48  # pictures


class Quick(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        numbers = random.Random(3)
        for part, count in (("train", _TRAIN), ("t10k", _TEST)):
            labels = bytes(numbers.randrange(10) for _ in range(count))
            values = {"images-idx3": pictures.idx(numbers.randbytes(count * 784), count, 28, 28),
                      "labels-idx1": pictures.idx(labels, count)}
            for name, data in values.items():
                with open(os.path.join(folder.name, f"{part}-{name}-ubyte"), "wb") as file:
                    file.write(data)
        config = os.path.join(folder.name, "config.json")
        with open(config, "w", encoding="utf-8") as file:
            json.dump({"programs": {n: os.path.abspath(p) for n, p in _PROGRAMS.items()},
                       "python": "", "unavailable": {"torch": "no Python with torch in this test"},
                       "digits": {"source": folder.name, "name": "MNIST"}}, file)
        cls.output = os.path.join(folder.name, "output")
        cls.said = subprocess.run(
            [sys.executable, "-B", run_articles.__file__, f"--config={config}",
             f"--output={cls.output}", "--quick", "--only=1,3"],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if cls.said.returncode != 0:
            raise RuntimeError(cls.said.stdout + cls.said.stderr)
        with open(os.path.join(cls.output, "results.json"), encoding="utf-8") as file:
            cls.experiments = json.load(file)["experiments"]

    def run_of(self, number, key):
        row = self.experiments[number]["rows"][key]
        self.assertEqual(row["error"], "", key)
        run, = row["runs"]
        return run

    def test_every_epoch_of_the_trainer_is_understood(self):
        epochs = self.experiments["1"]["sizes"]["epochs"]
        for key in exp1.SAME:
            run = self.run_of("1", key)
            for name in ("epoch_seconds", "loss", "accuracy", "stall"):
                self.assertEqual(len(run[name]), epochs, f"{key} {name}")
            # The last batch is kept.
            self.assertEqual(run["samples"], _TRAIN)
            self.assertIn("cpu_per_1000", run)

    def test_losses_do_not_depend_on_the_way_of_a_batch(self):
        digests = {self.run_of("1", key)["step_losses"] for key in exp1.SAME}
        self.assertEqual(len(digests), 1)
        self.assertNotIn(None, digests)

    def test_the_training_from_memory_learns_the_same_network(self):
        memory, millrace = self.run_of("1", exp1.REFERENCE), self.run_of("1", "millrace")
        self.assertEqual(memory["samples"], _TRAIN)
        # Another order of the same pictures: about, not exactly.
        self.assertAlmostEqual(memory["loss"][0], millrace["loss"][0], delta=0.2)

    def test_repeated_batches_are_timed_without_losses(self):
        row = self.experiments["1"]["rows"]["millrace_replay"]
        if "has no --repeat_batches" in row["error"]:
            self.skipTest(row["error"])
        run = self.run_of("1", "millrace_replay")
        self.assertEqual(run["replay_batches"], -(-_TRAIN // exp1.BATCH))

    def test_slow_samples_are_read_twice(self):
        for key in ("millrace", "millrace_float32"):
            self.assertEqual(len(self.run_of("3", key)["epoch_seconds"]), 2)

    def test_what_is_missing_is_named(self):
        for key in ("dataloader_0", "python_memory", "python_millrace"):
            self.assertEqual(self.experiments["1"]["rows"][key]["error"],
                             "no Python with torch in this test")
        with open(os.path.join(self.output, "results.md"), encoding="utf-8") as file:
            page = file.read()
        self.assertIn("not measured: no Python with torch in this test", page)
        self.assertIn("in 1 of 1 rounds", page)
        self.assertIn("Not measured yet: `tools/articles --only=2`.", page)


if __name__ == "__main__":
    unittest.main()
