"""tools/chaos: its schedule and its comparison, and short runs of it with the
real programs."""

import collections
import contextlib
import io
import os
import subprocess
import tempfile
import time
import types
import unittest
import unittest.mock

import digests
import processes
import run
import schedule
import work


def _make(seed, seconds=600.0, servers=3, kinds=schedule.KINDS):
    return schedule.make(seed, seconds, servers, 2, kinds, servers + 2)


class Schedule(unittest.TestCase):

    def test_a_seed_always_gives_the_same_events(self):
        self.assertEqual(_make(7), _make(7))
        self.assertNotEqual(_make(7), _make(8))

    def test_a_longer_run_begins_like_a_shorter_one(self):
        long, short = _make(7, 600), _make(7, 60)
        self.assertEqual(short, long[:len(short)])
        self.assertLess(len(short), len(long))

    def test_everything_happens(self):
        seen = collections.Counter(e.kind for e in _make(1))
        self.assertEqual(set(seen), set(schedule.KINDS))

    def test_only_what_is_asked_for_happens(self):
        self.assertEqual({e.kind for e in _make(1, kinds={"kill", "cut"})}, {"kill", "cut"})

    def test_events_of_one_server_do_not_overlap(self):
        for seed in range(20):
            busy = collections.defaultdict(float)
            removed = set()
            present = {0, 1, 2}
            for event in _make(seed):
                if event.kind == "client":
                    continue
                if event.kind == "add":
                    self.assertNotIn(event.target, present)
                    present.add(event.target)
                for server in present if event.target < 0 else {event.target}:
                    self.assertIn(server, present - removed)
                    self.assertLessEqual(busy[server], event.at)
                    busy[server] = event.end
                if event.kind == "remove":
                    present.remove(event.target)
                self.assertGreaterEqual(len(present), 2)


class Digests(unittest.TestCase):

    def _rows(self, text):
        with tempfile.NamedTemporaryFile("w", suffix=".digests") as file:
            file.write(text)
            file.flush()
            return digests.read(file.name)

    GOOD = "".join(f"{e} {s} 4 100 {e:08x}{s:08x}\n" for e in range(2) for s in range(3))

    def test_what_is_equal_is_equal(self):
        rows = self._rows(self.GOOD)
        self.assertEqual(digests.compare(rows, rows), "")
        self.assertEqual(digests.compare(rows[:4], rows), "")

    def test_lost_doubled_and_changed_batches_are_found(self):
        rows = self._rows(self.GOOD)
        self.assertIn("due was epoch 0 step 1", digests.compare(rows[:1] + rows[2:], rows))
        self.assertIn("once more", digests.compare(rows[:2] + rows[1:5], rows))
        changed = rows[:2] + [(0, 2, "4 100 0000000000000000")] + rows[3:]
        self.assertIn("epoch 0 step 2 is", digests.compare(changed, rows))
        self.assertIn("6 batches came", digests.compare(rows, rows[:5]))

    def test_a_damaged_line_is_named(self):
        with self.assertRaisesRegex(ValueError, "digests:2"):
            self._rows("0 0 4 100 0123456789abcdef\n0 1 4 100 0123\n")

    def test_a_client_goes_on_after_its_last_line(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "file")
            self.assertEqual(digests.resume_at(path), "0:0")
            with open(path, "w", encoding="ascii") as file:
                file.write(self.GOOD)
            self.assertEqual(digests.resume_at(path), "1:3")


class ServersGetWork(unittest.TestCase):
    """With a program in place of `millrace` that says what a file says."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self._said = os.path.join(folder.name, "said")
        program = os.path.join(folder.name, "millrace")
        with open(program, "w", encoding="ascii") as file:
            file.write(f"#!/bin/sh\ncat {self._said}\n")
        os.chmod(program, 0o755)
        self._work = work.Work(program)
        self.addCleanup(self._work.close)
        self._server = types.SimpleNamespace(number=3, address="127.0.0.1:1")

    def _says(self, text):
        with open(self._said + ".new", "w", encoding="ascii") as file:
            file.write(text)
        os.rename(self._said + ".new", self._said)

    def _sent(self, batches):
        self._says(f'{{"servers": [{{"batches_sent": {batches}}}]}}')

    def _poll(self, until):
        problems = []
        give_up = time.monotonic() + 30
        while not problems and not until() and time.monotonic() < give_up:
            problems = self._work.poll()
            time.sleep(0.01)
        return problems

    def test_a_new_server_that_sends_has_work(self):
        self._sent(1)
        self._work.expect(self._server, new_process=True)
        self.assertEqual(self._poll(lambda: not self._work.owing()), [])
        self.assertEqual(self._work.times, 1)

    def test_one_that_kept_running_must_send_more(self):
        self._sent(7)
        with unittest.mock.patch.object(work, "BOUND", 1.0):
            self._work.expect(self._server, new_process=False)
            problems = self._poll(lambda: False)
        self.assertIn("server 3 has got no work", problems[0])
        self.assertEqual(self._work.times, 0)

    def test_one_that_does_not_answer_is_named(self):
        self._says("")
        with unittest.mock.patch.object(work, "BOUND", 0.5):
            self._work.expect(self._server, new_process=True)
            self.assertIn("server 3 has got no work", self._poll(lambda: False)[0])

    def test_nothing_is_expected_of_one_that_something_happens_to(self):
        self._sent(0)
        with unittest.mock.patch.object(work, "BOUND", 0.0):
            self._work.expect(self._server, new_process=True)
            self._work.excuse(3)
            self.assertEqual(self._work.poll(), [])
        self.assertEqual(self._work.owing(), [])


class Processes(unittest.TestCase):

    def test_who_does_not_end_is_killed(self):
        with tempfile.TemporaryDirectory() as folder:
            script = os.path.join(folder, "deaf")
            with open(script, "w", encoding="ascii") as file:
                file.write("#!/bin/sh\ntrap '' TERM\necho up\nwhile :; do sleep 1; done\n")
            os.chmod(script, 0o755)
            client = processes.Client(0, script, [], folder)
            client.start()
            give_up = time.monotonic() + 30
            while client.last_line() != "up" and time.monotonic() < give_up:
                time.sleep(0.01)
            self.assertEqual(client.stop(0.1), -9)
            self.assertIsNone(client.stop())


_PROGRAMS = ("server/millrace-server", "server/data_tool/millrace-data", "client/cli/millrace",
             "tests/integration/digest_client")


class Programs(unittest.TestCase):
    """A few seconds of bad luck each, with seeds that bring nearly every kind of it;
    tools/chaos has more."""

    def _bin(self, folder):
        for program in _PROGRAMS:
            os.symlink(os.path.realpath(program), os.path.join(folder, os.path.basename(program)))
        return folder

    def test_on_the_loopback(self):
        with tempfile.TemporaryDirectory() as folder:
            arguments = ["--bin", self._bin(folder), "--seed", "435", "--seconds", "5"]
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                code = run.main(arguments)
            self.assertEqual(code, 0, out.getvalue())
            self.assertIn("OK: ", out.getvalue())

    def test_in_namespaces(self):
        with tempfile.TemporaryDirectory() as folder:
            result = subprocess.run(
                ["tools/chaos", "--netns", "--seed=574", "--minutes=0.1",
                 f"--bin={self._bin(folder)}"],
                stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
            if "no network namespaces here" in result.stderr:
                self.skipTest(result.stderr.strip())
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            self.assertIn("OK: ", result.stdout)


if __name__ == "__main__":
    unittest.main()
