"""tools/articles: what it makes of runs, and that its programs' lines and files are understood."""

import gzip
import os
import subprocess
import tempfile
import unittest
from unittest import mock

import articles_page
import context
import exp1_first_network as exp1
import exp2_switches as exp2
import exp3_slow_samples as exp3
import exp4_overlap as exp4
import exp5_photographs as exp5
import experiments
import pictures
import run_articles
import servers
import stats

_TRAINER_LINES = [
    "mlp with 109386 parameters on 1 rank (cpu, 2 threads each): 60000 samples, 938 steps of 64 an epoch",
    "epoch 1/2: loss 0.5020, 2.95 s, 20339 samples/s, waiting 1.4 %",
    "  waited 1 %: the client's own work",
    "  evaluation on test: accuracy 0.8312, loss 0.4709, 10000 samples, 0.21 s",
    "epoch 2/2: loss 0.3777, 2.85 s, 21053 samples/s, waiting 0.6 %",
    "  evaluation on test: accuracy 0.8540, loss 0.4041, 10000 samples, 0.20 s",
    "120000 samples, 20690 samples/s, waiting for data 1.0 %, loss 0.3777, accuracy 0.8540",
]
_SUMMARY = {"epoch_seconds": [2.95, 2.85], "loss": [0.502, 0.3777], "eval_loss": [0.4709, 0.4041],
            "samples": 120000, "device": "cpu"}


def _run(number, seconds, loss=(1.0, 0.5), accuracy=(0.8, 0.9), **more):
    return {"round": number, "seed": number + 1, "epoch_seconds": list(seconds), "loss": list(loss),
            "accuracy": list(accuracy), "stall": [0.5, 0.25], "samples": 100, **more}


def _row(label, runs, ours=False, error=""):
    return {"label": label, "ours": ours, "error": error, "runs": runs}


def _found(experiment, rows, **more):
    return {"title": experiment.TITLE, "date": "2000-01-01", "commit": "c", "rounds": 3, "cores": 2,
            "threads": 2, "quick": False, "cuda": False, "missing": [], "minutes": 1.0,
            "machine": {"cpu": "X", "hypervisor": True, "memory_gib": 8},
            "data": {"name": "Fashion-MNIST", "train_samples": 60000},
            "sizes": experiment.sizes(False), "states": [{"busy_before": 0.01}], "rows": rows, **more}


class Stats(unittest.TestCase):

    def test_the_first_epoch_does_not_count(self):
        self.assertEqual(stats.epoch_time(_run(0, [9, 1, 2, 3])), 2)
        self.assertEqual(stats.epoch_time(_run(0, [9])), 9)

    def test_a_ratio_is_of_one_round(self):
        # Of the medians it would be 15 / 5.5.
        ours = [_run(0, [0, 10]), _run(1, [0, 20]), _run(2, [0, 30])]
        theirs = [_run(0, [0, 1]), _run(1, [0, 10])]
        self.assertEqual(stats.ratios(ours, theirs, stats.epoch_time), [10, 2])

    def test_numbers_keep_what_matters(self):
        self.assertEqual([stats.number(v) for v in (1234.5, 12.34, 1.234, 0.01234, 0, None)],
                         ["1,234", "12.3", "1.23", "0.0123", "0.00", "-"])
        self.assertEqual(stats.spread([3, 1, 2]), "2.00 (1.00-3.00)")
        self.assertEqual(stats.spread([]), "-")

    def test_a_goal_is_reached_missed_or_not_measured(self):
        self.assertEqual(stats.verdict([1.0, 1.1, 9.0], 1.15),
                         "at most 1.15: reached, 1.10 (1.00-9.00)")
        self.assertIn("missed", stats.verdict([1.2], 1.15))
        self.assertIn("not measured", stats.verdict([], 1.15))

    def test_a_seed_counts_once(self):
        runs = [{"seed": 2, "a": 5}, {"seed": 1, "a": 4}, {"seed": 2, "a": 6}, {"seed": 3, "a": None}]
        self.assertEqual(stats.by_seed(runs, lambda run: run["a"]), [4, 5])

    def test_noise_is_an_overlap_or_a_small_difference(self):
        self.assertTrue(stats.within_noise([0.88, 0.89, 0.90], [0.87, 0.88, 0.89])[2])
        difference, error, noise = stats.within_noise([0.90, 0.901, 0.902], [0.80, 0.801, 0.802])
        self.assertFalse(noise)
        self.assertAlmostEqual(difference, 0.1)
        # Two means of 3 values with a deviation of 0.001 each.
        self.assertAlmostEqual(error, 2 * (2 * 1e-6 / 3) ** 0.5)
        self.assertIsNone(stats.within_noise([0.9, 0.9], [0.9, 0.9, 0.9]))

    def test_rows_are_compared_round_by_round(self):
        rows = [[_run(0, [1], x="a"), _run(1, [1], x="b")],
                [_run(0, [1], x="a"), _run(1, [1], x="other")], [_run(0, [1], x="a")]]
        self.assertEqual(stats.identical(rows, lambda run: run["x"]), (2, 1))
        self.assertEqual(stats.identical([rows[2]], lambda run: run["x"]), (0, 0))


class TrainersLines(unittest.TestCase):

    def test_each_epoch_is_found(self):
        lines = [(text, i, 10 * i) for i, text in enumerate(_TRAINER_LINES)]
        run = context.run_of(_SUMMARY, lines, 7, "digest", server_before=4)
        self.assertEqual(run["accuracy"], [0.8312, 0.8540])
        self.assertEqual([round(share, 6) for share in run["stall"]], [0.014, 0.006])
        self.assertEqual(run["samples"], 60000)
        # From the end of the first epoch to that of the second: lines 1 and 4.
        self.assertAlmostEqual(run["cpu_per_1000"], 3 / 60)
        # Of both epochs, since before the start.
        self.assertAlmostEqual(run["server_cpu_per_1000"], 36 / 120)

    def test_what_was_not_said_is_not_invented(self):
        run = context.run_of(_SUMMARY, [("epoch 1/2: another form", 0, 0)], 7, "digest")
        self.assertEqual(run["accuracy"], [])
        self.assertEqual(run["stall"], [])
        self.assertNotIn("cpu_per_1000", run)

    def test_flags_are_those_that_help_lists(self):
        text = ("Data:\n  --batch_size=N            Samples, as with\n"
                "                            --nothing (default 0).\n  --lr=RATE                 Rate.\n")
        self.assertEqual(context.flags_of(text), {"batch_size", "lr"})

    def test_flags_that_are_missing_are_named(self):
        with tempfile.TemporaryDirectory() as folder:
            program = os.path.join(folder, "train")
            with open(program, "w", encoding="utf-8") as file:
                file.write("#!/bin/sh\necho '  --lr=RATE  Rate.'\nexit 1\n")
            os.chmod(program, 0o755)
            made = _context(folder, programs={"millrace-train": program}, python="python3")
            made.need_flags("lr")
            with self.assertRaisesRegex(context.NotAvailable, "no --graph and no --precision"):
                made.need_flags("lr", "graph", "precision")
            self.assertEqual(run_articles.missing(exp4, made, ["lmdb"]),
                             ["the Python here has no lmdb",
                              "this millrace-train has no --tensorboard"])
        with self.assertRaisesRegex(context.NotAvailable, "why"):
            _context("", unavailable={"millrace-train": "why"}).need_flags("lr")


def _context(folder, **more):
    digits = {"name": "MNIST", "folder": folder, "preset": "mnist", "mean": 0.1307, "stddev": 0.3081,
              "train": "lmdb:train", "test": "lmdb:test", "train_samples": 60000}
    return context.Context(**{
        "programs": {}, "python": "", "unavailable": {}, "digits": digits, "photos": "",
        "photos_uri": "", "work": folder, "output": folder, "cores": 2, "threads": 2,
        "quick": False, **more})


class Programs(unittest.TestCase):

    def test_a_trainer_that_fails_gives_its_last_line(self):
        with self.assertRaisesRegex(RuntimeError, "^why$"):
            context._follow(["sh", "-c", "echo line; echo why >&2; exit 1"], dict(os.environ),
                            os.getpid(), 60)
        lines = context._follow(["sh", "-c", "echo a; echo b"], dict(os.environ), os.getpid(), 60)
        self.assertEqual([line[0] for line in lines], ["a", "b"])
        with self.assertRaisesRegex(RuntimeError, "longer than 0 s"):
            context._follow(["sleep", "600"], dict(os.environ), os.getpid(), 0.01)

    def test_a_server_that_does_not_start_gives_its_last_line(self):
        made = _context("", programs={"millrace-server": "/bin/false"})
        with self.assertRaisesRegex(RuntimeError, "did not start: it said nothing"):
            with servers.Server(made, []):
                pass

    def test_rounds_turn_the_order_and_errors_stay_with_their_row(self):
        begun = []

        def row(key):
            def measure(_, number, seed):
                begun.append((key, seed))
                if key == "b":
                    raise context.NotAvailable("not here")
                if key == "c" and number == 1:
                    raise RuntimeError("it crashed")
                return _run(number, [1, 1])
            return experiments.one(key, key, measure)

        experiment = mock.Mock(NUMBER=1, TITLE="t", rows=lambda _: [row(k) for k in "abc"],
                               sizes=lambda quick: {})
        with mock.patch.object(run_articles.host, "busy_share", lambda: 0):
            found = run_articles.measure(experiment, mock.Mock(quick=True), 3, lambda line: None)
        self.assertEqual(begun, [("a", 1), ("b", 1), ("c", 1), ("c", 2), ("a", 2), ("a", 3)])
        self.assertEqual([len(found["rows"][k]["runs"]) for k in "abc"], [3, 0, 1])
        self.assertEqual([found["rows"][k]["error"] for k in "abc"], ["", "not here", "it crashed"])
        self.assertEqual(run_articles.chosen("3,1,3", {1: 0, 3: 0}), [1, 3])
        with self.assertRaises(SystemExit):
            run_articles.chosen("2", {1: 0, 3: 0})


class Tables(unittest.TestCase):

    def test_the_first_network(self):
        def runs(seconds, accuracy, digest="same"):
            return [_run(n, [9, seconds], accuracy=(0.5, accuracy + n / 1000), step_losses=digest)
                    for n in range(3)]
        rows = {"dataloader_0": _row("DataLoader", runs(9, 0.88)),
                "dataloader_0_pin": _row("pinned", [], error="no CUDA device here"),
                "cpp_memory": _row("C++", runs(2, 0.88), ours=True),
                "python_memory": _row("Python", runs(3, 0.88)),
                "python_millrace": _row("Python, Millrace", runs(3.6, 0.88), ours=True),
                "millrace": _row("Millrace", runs(2.2, 0.881), ours=True),
                "millrace_ahead": _row("ahead", runs(2.2, 0.881), ours=True)}
        text = exp1.tables(_found(exp1, rows))
        self.assertIn("| DataLoader | 9.00 (9.00-9.00) | 18.0 (18.0-18.0) | 4.50 (4.50-4.50) | 25.0 % |"
                      " 1.000 → 0.500 | 0.8800 · 0.8810 · 0.8820 | 22.67 |", text)
        self.assertIn("| pinned | not measured: no CUDA device here |", text)
        self.assertIn("at most 1.15: reached, 1.10 (1.10-1.10)", text)
        self.assertIn("the Python loop with Millrace over the same loop from tensors in memory, at most "
                      "1.15: missed, 1.20 (1.20-1.20)", text)
        self.assertIn("+0.10 percentage points", text)
        self.assertIn("within noise", text)
        self.assertIn("in 3 of 3 rounds; pinning changes nothing where there is no CUDA", text)
        rows["millrace_ahead"]["runs"][1]["step_losses"] = "other"
        rows["dataloader_0_pin"] = _row("pinned", runs(9, 0.88))
        text = exp1.tables(_found(exp1, rows))
        self.assertIn("in 2 of 3 rounds", text)
        self.assertIn('"DataLoader" with and without pinning in 3 of 3', text)

    def test_more_epochs_are_told_from_switches(self):
        def runs(last, seconds=10):
            return [_run(0, [seconds, seconds], accuracy=(0.5, last), switches=["graph"])]
        rows = {"python_first": _row("first", runs(0.97)), "python_second": _row("second", runs(0.98)),
                "python_control": _row("control", runs(0.978)),
                "python_plain": _row("plain", runs(0.97)), "python_all": _row("all", runs(0.97, 5)),
                "millrace_first": _row("ours", [], error="no --save_weights")}
        text = exp2.tables(_found(exp2, rows))
        self.assertIn("0.9700 after the first half; 0.9800 after the second with every switch "
                      "(+1.00 points), 0.9780 after as many epochs without any (+0.80 points): the "
                      "difference of +0.20 points", text)
        self.assertIn("takes 0.50 (0.50-0.50) of its time", text)
        self.assertIn("| ours | not measured: no --save_weights |", text)
        self.assertLess(text.index("As published"), text.index("Fair"))

    def test_slow_samples_show_both_passes(self):
        rows = {"dataloader_0": _row("DataLoader", [_run(0, [20, 10])]),
                "millrace_float32": _row("Millrace", [_run(0, [5, 4])], ours=True)}
        text = exp3.tables(_found(exp3, rows))
        self.assertIn("| DataLoader | 20.0 (20.0-20.0) | 10.0 (10.0-10.0) | 1,000 | 2.5 (2.5-2.5) |",
                      text)
        self.assertEqual(exp3.seconds_of({"seconds": 2.5, "time_to_first_batch_ms": 500}), 3)

    def test_no_overlap_beats_half_the_time(self):
        # A server that makes a batch in 10 ms beside a step of 10 ms; before the first step the
        # window was full, and no later epoch waited for anything.
        steps = 60
        made_before = exp4.WINDOW
        total = (exp4.EPOCHS * steps - made_before) * 10 / 1000
        run = {"epoch_seconds": [total / exp4.EPOCHS] * exp4.EPOCHS}
        self.assertGreaterEqual(round(exp4.overlapped_ms(run, steps), 9), 10)

    def test_an_overlap_is_judged(self):
        run = {"round": 0, "seed": 1, "step_ms": 10, "load_ms": 10, "serial_ms": 20,
               "overlapped_ms": 12}
        text = exp4.tables(_found(exp4, {"millrace": _row("Millrace", [run], ours=True)}))
        self.assertIn("at most 0.55: missed, 0.60 (0.60-0.60)", text)

    def test_photographs_show_both_sides_cpu(self):
        rows = {"pillow": _row("Pillow", [_run(0, [9, 10], cpu_per_1000=4.0)]),
                "millrace": _row("Millrace", [_run(0, [9, 5], cpu_per_1000=2.0,
                                                   server_cpu_per_1000=0.5)], ours=True)}
        text = exp5.tables(_found(exp5, rows))
        self.assertIn("| Pillow | 10.0 (10.0-10.0) | 2.00 (2.00-2.00) | 4.00 |  | 25 % | 0.50 |", text)
        self.assertIn("| Millrace | 20.0 (20.0-20.0) |  | 2.00 | 0.5 | 25 % | 0.50 |", text)

    def test_rows_that_end_early_say_why(self):
        row = _row("x", [_run(0, [1, 1])], error="it crashed")
        self.assertEqual(stats.row_or_reason(row, 3, lambda runs: ["1", "2"]),
                         ["x", "1; 1 rounds, then: it crashed", "2"])

    def test_every_experiment_has_tables_of_nothing(self):
        for number, experiment in experiments.every().items():
            rows = {key: _row(label, [], error="no program")
                    for row in experiment.rows(_context("")) for key, label in row.labels.items()}
            text = experiment.tables(_found(experiment, rows))
            self.assertGreaterEqual(text.count("not measured: no program"), len(rows), number)


class Page(unittest.TestCase):

    def test_a_section_says_when_and_where(self):
        text = articles_page.section(exp4, _found(exp4, {}, missing=["this millrace-train has no --x"]))
        self.assertIn("Measured on 2000-01-01, commit c, X (virtual machine), 8 GiB, without a CUDA "
                      "device; everything on the same 2 cores. Data: Fashion-MNIST (60,000", text)
        self.assertIn("Missing here: this millrace-train has no --x.", text)
        self.assertNotIn("quick", text)
        self.assertIn("these figures say nothing", articles_page.section(exp4, _found(exp4, {}, quick=True)))

    def test_update_replaces_what_is_between_the_marks(self):
        results = {"format": articles_page.FORMAT, "experiments": {"4": _found(exp4, {})}}
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "pictures"))
            page = os.path.join(folder, "articles.md")
            blocks = ["{}\nold\n{}".format(*articles_page.marks(n)) for n in experiments.every()]
            with open(page, "w", encoding="utf-8") as file:
                file.write("before\n" + "\nbetween\n".join(blocks) + "\nafter\n")
            with open(os.path.join(folder, "experiment-4.png"), "wb") as file:
                file.write(b"png")
            articles_page.update(results, folder, folder)
            articles_page.update(results, folder, folder)
            with open(page, encoding="utf-8") as file:
                text = file.read()
            self.assertTrue(text.startswith("before\n") and text.endswith("\nafter\n"))
            self.assertNotIn("old", text)
            self.assertEqual(text.count("between"), 4)
            self.assertEqual(text.count("Not measured yet"), 4)
            self.assertEqual(text.count("Measured on 2000-01-01"), 1)
            self.assertEqual(text.count("pictures/articles_4.png"), 1)
            self.assertEqual(articles_page.load(os.path.join(folder, "articles.json")), results)
            with open(page, "w", encoding="utf-8") as file:
                file.write("no marks")
            with self.assertRaises(SystemExit):
                articles_page.update(results, folder, folder)

    def test_results_of_another_format_are_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "results.json")
            self.assertEqual(articles_page.load(path)["experiments"], {})
            articles_page.store({"format": 99}, path)
            with self.assertRaises(SystemExit):
                articles_page.load(path)


class Pictures(unittest.TestCase):

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def write_set(self, images=None):
        images = images or pictures.idx(bytes(range(5)) * 784, 5, 28, 28)
        labels = pictures.idx(b"\1\2\3\4\5", 5)
        for name, data in (("train-images", images), ("t10k-images", images),
                           ("train-labels", labels), ("t10k-labels", labels)):
            with gzip.open(self.path(f"{name}-idx{data[3]}-ubyte.gz"), "wb") as file:
                file.write(data)

    def test_a_set_is_unpacked_and_shortened(self):
        self.write_set()
        made = pictures.prepare(self.folder.name, "MNIST", self.path("out"), limit=4)
        self.assertEqual((made["train_samples"], made["test_samples"]), (4, 1))
        self.assertEqual((made["mean"], made["preset"]), (0.1307, "mnist"))
        with open(self.path("out/train-labels-idx1-ubyte"), "rb") as file:
            self.assertEqual(file.read(), b"\0\0\x08\1\0\0\0\4\1\2\3\4")
        self.assertEqual(os.path.getsize(self.path("out/train-images-idx3-ubyte")), 16 + 4 * 784)
        whole = pictures.prepare(self.folder.name, "Fashion-MNIST", self.path("all"))
        self.assertEqual(whole["train_samples"], 5)

    def test_damaged_files_are_named(self):
        for images in (b"\0\0\x08\3\0\0\0\5", pictures.idx(b"x" * 10, 5, 28, 28),
                       pictures.idx(b"", 2**32 - 1, 2**32 - 1, 2**32 - 1), b"\0\0\x0d\3" + bytes(12),
                       b"JPEG"):
            self.write_set()
            with gzip.open(self.path("train-images-idx3-ubyte.gz"), "wb") as file:
                file.write(images)
            with self.assertRaisesRegex(ValueError, "train-images-idx3-ubyte of"):
                pictures.prepare(self.folder.name, "MNIST", self.path("out"))
        os.remove(self.path("t10k-labels-idx1-ubyte.gz"))
        with self.assertRaisesRegex(ValueError, "no file t10k-labels"):
            pictures.prepare(self.folder.name, "MNIST", self.path("out"))

    def test_the_csv_is_cut_into_training_and_test(self):
        path = self.path("mnist_5k.csv.gz")
        with gzip.open(path, "wt", encoding="ascii") as file:
            for line in range(5000):
                file.write(",".join(["0"] * 783 + [str(line % 256), str(line // 500)]) + "\n")
        made = pictures.prepare(path, "5,000 samples of MNIST", self.path("out"))
        self.assertEqual((made["train_samples"], made["test_samples"]), (4000, 1000))
        with open(self.path("out/train-labels-idx1-ubyte"), "rb") as file:
            self.assertEqual(set(file.read()[8:]), set(range(10)))
        with open(path, "wb") as file:
            file.write(b"1,2,3\n")
        os.rename(path, self.path("short.csv"))
        with self.assertRaisesRegex(ValueError, "785"):
            pictures.prepare(self.path("short.csv"), "MNIST", self.path("out"))


class Pipelines(unittest.TestCase):

    def test_the_pipelines_are_understood(self):
        made = _context("")
        specs = {"switches": exp2.spec(made.digits, 0, 0.8), "bytes": exp3.spec(10000, False),
                 "floats": exp3.spec(10000, True), "step": exp4.spec(made.digits, 60, 0),
                 "busy": exp4.spec(made.digits, 60, 700), "photographs": exp5.spec(1.0),
                 "exact": exp5.spec(0.5, "mode: EXACT")}
        with tempfile.TemporaryDirectory() as folder:
            for name, text in specs.items():
                path = os.path.join(folder, f"{name}.textproto")
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
                said = subprocess.run(
                    ["server/data_tool/millrace-data", "check", path],
                    stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
                self.assertEqual(said.returncode, 0, f"{name}: {said.stdout}{said.stderr}")


if __name__ == "__main__":
    unittest.main()
