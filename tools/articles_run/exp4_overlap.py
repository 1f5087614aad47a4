"""Experiment 4: preprocessing that takes as long as the training step, one after the other and at the
same time.
"""

import os
import subprocess

import experiments
import host
import servers
import stats
from context import NotAvailable

NUMBER = 4
TITLE = "preprocessing as long as the step"
ROUNDS = 5
FLAGS = ("tensorboard",)
MAX_SHARE = 0.55
BATCH = 64
EPOCHS = 4
# Batches that the client may have asked for and not handed out.
WINDOW = 4


def data(context):
    return experiments.digits(context)


def sizes(quick):
    return {"steps": 8 if quick else 60, "batch": BATCH}


def _two_cores(context):
    if context.cores < 2:
        raise NotAvailable("with one core nothing can happen at the same time")


def _python(context, number, seed):
    _two_cores(context)
    digits = context.digits
    return context.with_threads(1).peer(
        "peer_overlap.py", digits["folder"], f"--mean={digits['mean']}",
        f"--stddev={digits['stddev']}", f"--steps={sizes(context.quick)['steps']}",
        f"--batch_size={BATCH}", f"--seed={seed}",
        f"--tensorboard={context.log_folder(NUMBER, 'original', number)}")


def busy_library(context):
    """The transform that computes for a given time, compiled."""
    path = os.path.join(context.work, "busy.so")
    if not os.path.exists(path):
        built = subprocess.run(
            ["cc", "-O2", "-shared", "-fPIC", "-I", os.path.join(host.ROOT, "server/operators"),
             "-o", path, os.path.join(host.ROOT, "tests/bench/busy.c")],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if built.returncode != 0:
            raise NotAvailable(f"cc cannot build busy.c: {built.stderr.strip()}")
    return path


def spec(digits, steps, busy_us):
    """The first `steps` batches of the training pictures; each picture computes for `busy_us`."""
    share = (steps * BATCH + 0.5) / digits["train_samples"]  # 0.5: whichever way it is rounded
    busy = f'transforms {{ custom {{ name: "busy" config: "{busy_us}" fields: "image" }} }} '
    return (f'sources {{ dataset: "train" subset {{ from: 0 to: {share:.9f} seed: 1 }} }} '
            f"{busy if busy_us else ''}"
            f"transforms {{ normalize {{ mean: {digits['mean']} stddev: {digits['stddev']} }} }}")


def _millrace(context, number, seed):
    _two_cores(context)
    context = context.with_threads(1)
    digits, steps = context.digits, sizes(context.quick)["steps"]
    if steps * BATCH > digits["train_samples"]:
        raise NotAvailable(f"{digits['name']} has {digits['train_samples']} pictures, not "
                           f"{steps * BATCH}")
    with servers.Server(context, [f"--dataset=train={digits['train']}", "--threads=1",
                                  f"--operators={busy_library(context)}"]) as server:
        def train(busy_us, log=""):
            return context.train(server, "--model=cnn", "--lr=0.001", f"--batch_size={BATCH}",
                                 f"--window={WINDOW}", epochs=EPOCHS, seed=seed, log=log,
                                 specs=[("pipeline", spec(digits, steps, busy_us))])

        found = {"seed": seed, "step_ms": 1000 * stats.epoch_time(train(0)) / steps}
        busy_us = max(1, round(1000 * found["step_ms"] / BATCH))
        said = context.bench(server.endpoint, spec(digits, steps, busy_us),
                             f"--batch_size={BATCH}", f"--batches={steps}")
        found["load_ms"] = 1000 * BATCH / said["images_per_second"]
        found["serial_ms"] = found["step_ms"] + found["load_ms"]
        found["overlapped_ms"] = overlapped_ms(
            train(busy_us, context.log_folder(NUMBER, "optimized", number)), steps)
    return found


def overlapped_ms(run, steps):
    """Milliseconds of a step of all epochs, the first one too. The client prefetches over an epoch's
    border, so a counted epoch alone could begin with batches that were made in one that is not
    counted, and beat half the time. Of all epochs together only the batches before the first step
    are made outside: at most WINDOW, which are taken off."""
    return 1000 * sum(run["epoch_seconds"]) / (EPOCHS * steps - WINDOW)


def rows(context):
    del context
    return [experiments.one("python", "torch DataLoader, 0 workers and 1 worker", _python),
            experiments.one("millrace", "Millrace, one server thread", _millrace, ours=True)]


def share(run):
    return run["overlapped_ms"] / run["serial_ms"]


def tables(found):
    def cells(runs):
        times = [stats.spread([run[name] for run in runs])
                 for name in ("step_ms", "load_ms", "serial_ms", "overlapped_ms")]
        return [*times, stats.verdict([share(run) for run in runs], MAX_SHARE)]

    head = ["", "step alone, ms", "preprocessing alone, ms", "one after the other, ms",
            "at the same time, ms", "÷ one after the other"]
    return stats.table(head, [stats.row_or_reason(row, len(head), cells)
                              for row in found["rows"].values()])


def draw(found, figure):
    shown = [row for row in found["rows"].values() if row["runs"]]
    if not shown:
        return False
    axis = figure.subplots()
    for offset, name, label, color in ((-0.2, "serial_ms", "one after the other", "#b8b8b8"),
                                       (0.2, "overlapped_ms", "at the same time", "#1f6fb4")):
        axis.barh([place + offset for place in range(len(shown))],
                  [stats.median([run[name] for run in row["runs"]]) for row in shown], 0.38,
                  color=color, label=label)
    axis.set_yticks(range(len(shown)), [row["label"] for row in shown], fontsize=8)
    axis.invert_yaxis()
    axis.set_xlabel("ms a step of 64 pictures", fontsize=8)
    axis.legend(fontsize=8)
    axis.spines[["top", "right"]].set_visible(False)
    return True
