"""tools/bench-peers compares what it says that it compares."""

import json
import os
import select
import sys
import tempfile
import unittest
from unittest import mock

import comparison
import loaders
import report
import run
import shards


def _row(group, label, values, ours=False, error="", reference=""):
    return {"group": group, "label": label, "ours": ours, "reference": reference, "values": values,
            "cpu": [None, 0.5], "cpu_unit": "s/1000", "versions": {}, "error": error}


def _found(rows, goals):
    return {"date": "2000-01-01", "commit": "c", "rounds": 2, "seconds": 1, "used_cores": 2,
            "threads": 2, "states": [{"busy_before": 0.01}], "goals": goals, "rows": rows,
            "machine": {"cpu": "X", "hypervisor": False, "vectors": ["avx2"], "memory_gib": 1},
            "photographs": {"count": 10, "mean_bytes": 50000}, "after": {}}


class Report(unittest.TestCase):

    def test_a_ratio_is_of_one_round(self):
        # Of the medians it would be 15 / 5.5.
        found = _found({"millrace": _row("crop", "ours", [10, 20], ours=True),
                        "dali": _row("crop", "it", [10, 1])}, [])
        ours, peer = report.lines(found, "crop")
        self.assertEqual(ours[2], "")
        self.assertEqual(peer[2], "10.50 (1.00-20.0)")
        self.assertEqual(peer[4], "0.5 s/1000")

    def test_goals_are_reached_or_missed(self):
        found = _found({"millrace": _row("crop", "ours", [20, 20], ours=True),
                        "fast": _row("crop", "fast", [10, 10]),
                        "slow": _row("crop", "slow", [5, 5])},
                       [("millrace", "fast", 2.5), ("millrace", "slow", 4)])
        self.assertEqual([row[3] for row in report.lines(found, "crop")],
                         ["", "2.5: missed", "4: reached"])

    def test_a_goal_of_another_row_of_ours_shows_its_ratio(self):
        found = _found({"millrace": _row("crop", "ours", [20], ours=True),
                        "other": _row("crop", "other mode", [30], ours=True),
                        "it": _row("crop", "it", [10])}, [("other", "it", 2.5)])
        self.assertEqual(report.lines(found, "crop")[2][3],
                         '2.5 by "other mode": reached, 3.00 (3.00-3.00)')

    def test_what_is_not_there_is_named(self):
        found = _found({"millrace": _row("crop", "ours", [20], ours=True),
                        "ffcv": _row("crop", "FFCV", [], error="no such package"),
                        "dali": _row("crop", "DALI", [5], error="it crashed")},
                       [("millrace", "ffcv", 2)])
        text = report.text(found)
        self.assertIn("not available: no such package", text)
        self.assertIn("1 rounds, then: it crashed", text)

    def test_a_row_of_ours_may_be_compared_with_another_of_ours(self):
        found = _found({"millrace_digits": _row("digits", "ours", [30], ours=True),
                        "digits_mimalloc": _row("allocators", "mimalloc", [20], ours=True,
                                                reference="millrace_digits")}, [])
        self.assertEqual(report.lines(found, "allocators")[0][2], "1.50 (1.50-1.50)")

    def test_update_replaces_what_is_between_the_marks(self):
        found = _found({"millrace": _row("crop", "ours", [20], ours=True)}, [])
        with tempfile.TemporaryDirectory() as folder:
            page = os.path.join(folder, "page.md")
            with open(page, "w", encoding="utf-8") as file:
                file.write(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
            report.update(found, page)
            report.update(found, page)
            with open(page, encoding="utf-8") as file:
                text = file.read()
            self.assertTrue(text.startswith("before\n") and text.endswith("\nafter\n"))
            self.assertNotIn("old", text)
            self.assertEqual(text.count("| ours | 20.00"), 1)
            self.assertEqual(report.between(text)[1], report.shown(found, False))
            with open(os.path.join(folder, report.RESULTS), encoding="utf-8") as file:
                self.assertEqual(json.load(file), found)
            with open(page, "w", encoding="utf-8") as file:
                file.write("no marks")
            with self.assertRaises(SystemExit):
                report.update(found, page)


class Comparison(unittest.TestCase):

    def test_every_row_of_a_goal_exists_and_is_on_its_side(self):
        rows = {row.key: row for row in comparison.ROWS}
        self.assertEqual(len(rows), len(comparison.ROWS))
        for ours, peer, goal in comparison.GOALS:
            self.assertTrue(rows[ours].ours)
            # Ours beside another of ours: what a format may cost.
            self.assertTrue(goal < 1 if rows[peer].ours else goal > 1, (ours, peer, goal))
        for row in rows.values():
            self.assertIn(row.group, comparison.GROUPS)
            if row.reference:
                self.assertIn(row.reference, rows)
        for group, key in comparison.REFERENCES.items():
            self.assertEqual(rows[key].group, group)

    def test_every_loader_that_is_named_exists(self):
        context = mock.Mock(python={"torch": "t", "tensorflow": "f", "extra": "x",
                                    "shards": "s"}, unavailable={},
                            packed={name: f"{name}:/s" for name in comparison.SHARDS},
                            programs={"wire_bench": "w"}, seconds=1, threads=2)
        named, of_shards = set(), set()
        for row in comparison.ROWS:
            if row.ours:
                continue
            words = row.command(context)
            if words[1].endswith("loaders.py"):
                named.add(words[2])
            if words[1].endswith("shards.py"):
                of_shards.add(words[2])
                self.assertIn("--shards=/s", words)
        self.assertEqual(named, set(loaders.LOADERS))
        self.assertEqual(of_shards, set(shards.LOADERS))

    def test_shards_that_were_not_written_are_the_reason(self):
        context = mock.Mock(python={"shards": "s"}, unavailable={"tar": "no space"}, packed={},
                            seconds=1, threads=2, programs={})
        for key in ("peer_webdataset", "millrace_tar"):
            row = next(r for r in comparison.ROWS if r.key == key)
            self.assertEqual(row.command(context), "no space")

    def test_shards_have_all_samples_in_an_order_that_mixes_the_classes(self):
        with tempfile.TemporaryDirectory() as folder:
            for label in range(10):
                os.makedirs(os.path.join(folder, f"class{label}"))
                for number in range(5):
                    with open(os.path.join(folder, f"class{label}", f"{number}.jpg"), "wb") as file:
                        file.write(b"%d %d" % (label, number))
            found = list(shards.samples(folder))
        self.assertEqual(len({key for key, _, _ in found}), 50)
        self.assertEqual(sorted(jpeg for _, jpeg, _ in found),
                         sorted(b"%d %d" % (label, n) for label in range(10) for n in range(5)))
        self.assertTrue(all(jpeg.startswith(b"%d " % label) for _, jpeg, label in found))
        self.assertGreater(len({label for _, _, label in found[:10]}), 3)

    def test_a_missing_environment_is_the_reason(self):
        context = mock.Mock(python={}, unavailable={"torch": "pip failed"}, seconds=1, threads=2)
        row = next(r for r in comparison.ROWS if r.key == "dali")
        self.assertEqual(row.command(context), "pip failed")


class Measure(unittest.TestCase):

    def test_the_first_batches_do_not_count(self):
        clock = iter(range(1000))
        with mock.patch.object(loaders.time, "perf_counter", lambda: next(clock)), \
             mock.patch.object(loaders, "cpu_seconds", lambda: 0):
            # One batch a second; the clock starts when the fourth is there.
            samples, seconds, _ = loaders.measure(iter([7] * 100), 3, warm_batches=4,
                                                  warm_seconds=2)
        self.assertEqual((samples, seconds), (21, 3))

    def test_a_loader_that_ends_is_an_error(self):
        with self.assertRaises(RuntimeError):
            loaders.measure(iter([64] * 3), 1)

    def test_cpu_time_counts_children(self):
        self.assertGreater(loaders.cpu_seconds(), 0)


class Run(unittest.TestCase):

    def test_a_program_that_fails_gives_its_last_line(self):
        self.assertEqual(run.run(["sh", "-c", "echo first >&2; echo why >&2; exit 1"], 60),
                         ("", "why"))
        self.assertEqual(run.run(["sh", "-c", "echo fine"], 60), ("fine\n", ""))
        self.assertIn("No such file", run.run(["/does/not/exist"], 60)[1])

    def test_nothing_that_it_has_started_stays(self):
        output, error = run.run(["sh", "-c", "sleep 600 & echo $!"], 60)
        self.assertEqual(error, "")
        try:
            process = os.pidfd_open(int(output))
        except ProcessLookupError:
            return
        # Readable when it has ended; it would sleep for ten minutes.
        self.assertTrue(select.select([process], [], [], 60)[0])
        os.close(process)

    def test_rounds_turn_the_order_and_pair_the_values(self):
        begun = []

        def row(key):
            def command(_):
                begun.append(key)
                return [sys.executable, "-c", 'print(\'{"images_per_second": 5}\')']
            return comparison.Row(key, "crop", key, command)

        rows = [row("a"), row("b"), row("c")]
        context = mock.Mock(unavailable={"b": "not here"})
        with mock.patch.object(run, "busy_share", lambda: 0):
            results, states = run.measure(rows, context, 3, 60, lambda line: None)
        self.assertEqual(begun, ["a", "c", "c", "a", "c", "a"])
        self.assertEqual(results["a"]["values"], [5, 5, 5])
        self.assertEqual(results["b"]["error"], "not here")
        self.assertEqual(len(states), 3)

    def test_a_preloaded_library_that_is_not_there_is_an_error(self):
        self.assertIn("libnone.so", run.preload_error((("LD_PRELOAD", "libnone.so"),)))
        self.assertEqual(run.preload_error(()), "")

    def test_the_last_line_of_a_program_counts(self):
        self.assertEqual(run.parse('a word before\n{"gigabytes_per_second": 2.02}\n'),
                         {"gigabytes_per_second": 2.02})

    def test_a_goal_for_the_processor_time_is_reached_or_missed(self):
        rows = {"ours": {**_row("wire", "ours", [2], ours=True), "cpu": [0.2]},
                "peer": {**_row("wire", "peer", [1]), "cpu": [0.5]}}
        for goal, word in ((0.6, "reached"), (0.3, "missed")):
            found = {**_found(rows, []), "cpu_goals": [("ours", "peer", goal)]}
            cpu = {line[0]: line[4] for line in report.lines(found, "wire")}
            self.assertIn(f"at most {goal:g} x it: {word}, 0.40", cpu["peer"])


if __name__ == "__main__":
    unittest.main()
