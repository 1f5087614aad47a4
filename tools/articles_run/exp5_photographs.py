"""Experiment 5: an image job that is bound by its data: photographs, the transforms of imagenet_train,
resnet18 at a size that a few cores can do.
"""

import dataclasses
import json
import os

import experiments
import servers
import stats
from context import HERE, NotAvailable

NUMBER = 5
TITLE = "photographs, RandomResizedCrop(32), flip and Normalize, resnet18, SGD"
ROUNDS = 5
FLAGS = ("tensorboard",)
SIDE, BATCH = 32, 64
RATE, MOMENTUM = 0.01, 0.9
PEERS = [("pillow", "torch DataLoader, Pillow"),
         ("decode_jpeg", "torch DataLoader, torchvision's decode_jpeg"),
         ("albumentations", "torch DataLoader, Albumentations"),
         ("lmdb", "torch DataLoader over an LMDB file, Pillow")]
NORMALIZE = ("transforms { normalize { mean: [0.485, 0.456, 0.406] "
             "stddev: [0.229, 0.224, 0.225] } }")


def data(context):
    return {"name": "photographs", "train_samples": count(context.photos) if context.photos else 0}


def sizes(quick):
    return {"side": SIDE, "batch": BATCH, "epochs": 2 if quick else 6,
            "photographs": 128 if quick else 0}  # 0: all


def _peer(name, log):
    def measure(context, number, seed):
        if not context.photos:
            raise NotAvailable(context.unavailable.get("photographs", "no photographs"))
        size = sizes(context.quick)
        words = [f"--photos={context.photos}", f"--side={SIDE}", f"--batch_size={BATCH}",
                 f"--workers={context.cores}", f"--epochs={size['epochs']}", f"--seed={seed}",
                 f"--lr={RATE}", f"--momentum={MOMENTUM}", f"--limit={size['photographs']}",
                 f"--work={context.work}"]
        if log:
            words.append(f"--tensorboard={context.log_folder(NUMBER, log, number)}")
        return context.peer("peer_photos.py", name, *words)
    return measure


def spec(share, mode=""):
    """The pipeline over that share of the photographs."""
    return (f'sources {{ dataset: "photographs" subset {{ from: 0 to: {share:.9f} seed: 1 }} }} '
            f"transforms {{ decode_image {{ {mode} }} }} "
            f"transforms {{ random_resized_crop {{ height: {SIDE} width: {SIDE} }} }} "
            f"transforms {{ horizontal_flip {{}} }} {NORMALIZE}")


def count(folder):
    return sum(name.endswith(".jpg") for _, _, names in os.walk(folder) for name in names)


def train(context, seed, mode="", log="", **server):
    """A run of millrace-train with one server, which listens where `server` says."""
    if not context.photos_uri:
        raise NotAvailable(context.unavailable.get("photographs", "no photographs"))
    size = sizes(context.quick)
    share = 1.0
    if size["photographs"]:
        share = min(1.0, (size["photographs"] + 0.5) / count(context.photos))
    with servers.Server(context, [f"--dataset=photographs={context.photos_uri}"],
                        **server) as running:
        return context.train(running, "--model=resnet18", "--optimizer=sgd",
                             f"--momentum={MOMENTUM}", f"--lr={RATE}", f"--batch_size={BATCH}",
                             epochs=size["epochs"], seed=seed, log=log,
                             specs=[("pipeline", spec(share, mode))])


def _millrace(mode="", log=""):
    def measure(context, number, seed):
        folder = context.log_folder(NUMBER, log, number) if log else ""
        return train(context, seed, mode, folder)
    return measure


def _elsewhere(context, number, seed):
    """The server on a host of its own: a network namespace. namespace_train.py does it."""
    if not context.namespaces:
        raise NotAvailable(context.unavailable.get("namespaces", "no network namespaces here"))
    config = os.path.join(context.work, "namespace.json")
    with open(config, "w", encoding="utf-8") as file:
        json.dump(dataclasses.asdict(context), file)
    return context.run_json([*context.namespaces, "python3", os.path.join(HERE, "namespace_train.py"),
                             config, str(seed)])


def rows(context):
    del context
    made = [experiments.one(key, label, _peer(key, "original" if key == "pillow" else ""))
            for key, label in PEERS]
    return made + [
        experiments.one("millrace", "Millrace", _millrace(log="optimized"), ours=True),
        experiments.one("millrace_exact", "Millrace, decode EXACT", _millrace("mode: EXACT"),
                        ours=True),
        experiments.one("millrace_elsewhere", "Millrace, the server in a network namespace",
                        _elsewhere, ours=True)]


def rate(run):
    return run["samples"] / stats.epoch_time(run)


def tables(found):
    reference = experiments.runs(found, "millrace")

    def cells(runs):
        def cpu(name):
            values = [run[name] for run in runs if run.get(name) is not None]
            return stats.number(stats.median(values)) if values else ""
        stall = [stats.median(stats.counted(run["stall"])) for run in runs if run.get("stall")]
        return [stats.spread([rate(run) for run in runs]),
                stats.spread(stats.ratios(reference, runs, rate), lambda v: f"{v:.2f}")
                if runs is not reference else "",
                cpu("cpu_per_1000"), cpu("server_cpu_per_1000"),
                f"{100 * stats.median(stall):.0f} %" if stall else "",
                f"{stats.median([run['loss'][-1] for run in runs]):.2f}"]

    head = ["", "samples/s", "Millrace ÷ it", "CPU of the trainer, s/1,000",
            "CPU of the server, s/1,000", "waiting for data", "last loss"]
    return stats.table(head, [stats.row_or_reason(row, len(head), cells)
                              for row in found["rows"].values()])


def draw(found, figure):
    return experiments.bars(figure.subplots(), found, rate, "samples/s")
