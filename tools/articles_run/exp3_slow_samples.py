"""Experiment 3: 10,000 samples of 3 x 224 x 224 that take 1 ms each to load: torch's DataLoader with
more and more workers, and Millrace.
"""

import os

import experiments
import peer_slow
import servers
import stats
from context import NotAvailable

NUMBER = 3
TITLE = "samples of 3 x 224 x 224 that take 1 ms each to load, batch 64"
ROUNDS = 5
FLAGS = ()
WORKERS = (0, 1, 2, 4, 8)
BATCH = 64
LATENCY_US = 1000
MADE = {"before": "", "inside": ", sample made in __getitem__"}  # how: what the label says


def data(context):
    return {"name": "random samples",
            "train_samples": sizes(context.quick)["samples"]}


def sizes(quick):
    return {"samples": 640 if quick else 10000, "batch": BATCH, "latency_us": LATENCY_US}


def _memory_bytes():
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _dataloader(workers, made):
    def measure(context, number, seed):
        samples = sizes(context.quick)["samples"]
        if made == "before" and samples * peer_slow.BYTES > _memory_bytes() // 2:
            raise NotAvailable(f"{samples:,} samples are {samples * peer_slow.BYTES / 1e9:.1f} GB, "
                               "more than half of this machine's memory")
        run = context.peer("peer_slow.py", f"--workers={workers}", f"--made={made}",
                           f"--samples={samples}", f"--latency_us={LATENCY_US}",
                           f"--batch_size={BATCH}",
                           *([f"--tensorboard={context.log_folder(NUMBER, 'original', number)}"]
                             if workers == 0 and made == "before" else []))
        return {**run, "seed": seed}
    return measure


def spec(samples, float32):
    """`float32`: the server sends what the DataLoader gives, four times the bytes."""
    normalize = ("transforms { normalize { mean: [0.5, 0.5, 0.5] stddev: [0.25, 0.25, 0.25] "
                 "placement: PLACEMENT_SERVER } } " if float32 else "")
    return (f"sources {{ synthetic {{ samples: {samples} latency_us: {LATENCY_US} "
            "fields { name: 'image' dtype: DTYPE_UINT8 shape: [224, 224, 3] } "
            "fields { name: 'label' dtype: DTYPE_INT64 num_classes: 10 } } } "
            f"{normalize}last_batch: LAST_BATCH_PARTIAL")


def _millrace(float32, log=""):
    def measure(context, number, seed):
        samples = sizes(context.quick)["samples"]
        run = {"epoch_seconds": [], "samples": samples, "seed": seed}
        with servers.Server(context, ["--synthetic_only"]) as server:
            for _ in range(2):
                said = context.bench(server.endpoint, spec(samples, float32),
                                     f"--batch_size={BATCH}", f"--batches={-(-samples // BATCH)}")
                run["epoch_seconds"].append(seconds_of(said))
        if log and context.python:  # the bench writes no logs of its own
            context.peer("peer.py", f"--log={context.log_folder(NUMBER, log, number)}",
                         f"Time/pass={run['epoch_seconds'][-1]}")
        return run
    return measure


def seconds_of(said):
    """From opening the plan to the last batch, of what the bench says: its own seconds begin with
    the first batch."""
    return said["seconds"] + said["time_to_first_batch_ms"] / 1000


def rows(context):
    del context
    loaders = [experiments.one(f"dataloader_{made}_{w}",
                               f"torch DataLoader, {w} worker{'s' * (w != 1)}{label}",
                               _dataloader(w, made))
               for made, label in MADE.items() for w in WORKERS]
    return loaders + [
        experiments.one("millrace", "Millrace, uint8 as pictures are stored",
                        _millrace(False, "optimized"), ours=True),
        experiments.one("millrace_float32", "Millrace, float32 from the server", _millrace(True),
                        ours=True)]


def tables(found):
    reference = experiments.runs(found, "millrace_float32")
    samples = found["sizes"]["samples"]

    def cells(runs):
        return [stats.spread([run["epoch_seconds"][0] for run in runs]),
                stats.spread([stats.epoch_time(run) for run in runs]),
                f"{samples / stats.median([stats.epoch_time(run) for run in runs]):,.0f}",
                stats.spread(stats.ratios(runs, reference, stats.epoch_time),
                             lambda v: f"{v:.1f}") if runs is not reference else ""]

    head = ["", "first pass, s", "second pass, s", "samples/s", "÷ Millrace, float32"]
    return stats.table(head, [stats.row_or_reason(row, len(head), cells)
                              for row in found["rows"].values()])


def draw(found, figure):
    return experiments.bars(figure.subplots(), found, stats.epoch_time,
                            f"seconds for {found['sizes']['samples']:,} samples, second pass")
