"""Does training notice that photographs are decoded at a fraction of their size? Trains the same model
with the default decoding and with `mode: EXACT`, several seeds each, and compares the accuracies.

    decode_training.py --bin=DIR --pictures=DIR [--seeds=3] [--epochs=60] [--side=64]
                       [--model=resnet18] [--json=FILE]

--pictures holds photographs whose file names begin with their class (mountain3.jpg), as those of
Debian's endless-sky-high-dpi do; classes of at least 12 pictures are used. Cut to a small side almost
all of 1440 x 720 pixels are decoded at 1/2, 1/4 or 1/8, which is what the comparison is about. For
each seed the set is cut into 70 % for training and 30 % for evaluation; both runs of a seed have the
same cut, first weights, order and crops.

Prints a table in Markdown. Takes programs from --bin (tools/build); needs nothing else.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

SPEC = """
sources {{ dataset: "pictures" subset {{ from: {begin} to: {end} seed: {seed} }} }}
seed: {seed}
transforms {{ decode_image {{ mode: {mode} }} }}
{geometry}
transforms {{ normalize {{ mean: [0.485, 0.456, 0.406] stddev: [0.229, 0.224, 0.225] }} }}
"""
TRAIN = """transforms {{ random_resized_crop {{ height: {side} width: {side} }} }}
transforms {{ horizontal_flip {{}} }}"""
EVALUATE = """transforms {{ resize {{ short_side: {side} }} }}
transforms {{ center_crop {{ height: {side} width: {side} }} }}"""


def class_folders(pictures, folder, fewest=12):
    """Links the pictures into one folder a class; {class: pictures}."""
    classes = collections.defaultdict(list)
    for path in sorted(pathlib.Path(pictures).rglob("*.jpg")):
        classes[re.match(r"[a-zA-Z_]*", path.name)[0]].append(path)
    kept = {name: paths for name, paths in classes.items() if name and len(paths) >= fewest}
    for name, paths in kept.items():
        os.makedirs(os.path.join(folder, name))
        for path in paths:
            os.symlink(path.resolve(), os.path.join(folder, name, path.name))
    return {name: len(paths) for name, paths in kept.items()}


def train(options, folder, endpoint, mode, seed):
    """The trainer's summary."""
    files = {}
    for name, begin, end, geometry in (("train", 0, 0.7, TRAIN), ("evaluate", 0.7, 1, EVALUATE)):
        files[name] = os.path.join(folder, f"{name}.textproto")
        with open(files[name], "w", encoding="utf-8") as file:
            file.write(SPEC.format(mode=mode, begin=begin, end=end, seed=seed,
                                   geometry=geometry.format(side=options.side)))
    summary = os.path.join(folder, "summary.json")
    result = subprocess.run(
        [os.path.join(options.bin, "millrace-train"), f"--endpoint={endpoint}",
         f"--model={options.model}", f"--pipeline={files['train']}",
         f"--eval_pipeline={files['evaluate']}", "--eval_dataset=pictures", "--dataset=pictures",
         f"--epochs={options.epochs}", f"--batch_size={options.batch_size}", f"--seed={seed}",
         f"--lr={options.lr}", f"--json={summary}"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        sys.exit(f"training failed: {result.stderr.strip().splitlines()[-1:]}")
    with open(summary, encoding="utf-8") as file:
        return json.load(file)


def spread(values, digits):
    deviation = statistics.stdev(values) if len(values) > 1 else 0
    return f"{statistics.mean(values):.{digits}f} ± {deviation:.{digits}f}"


def report(options, classes, runs):
    rows = {"default": [r["SCALED"] for r in runs], "EXACT": [r["EXACT"] for r in runs]}
    lines = [
        f"{options.model}, {sum(classes.values())} photographs of {len(classes)} classes, "
        f"{options.side} x {options.side} pixels, {options.epochs} epochs, {len(runs)} seeds; "
        "mean ± standard deviation over the seeds.", "",
        "| decoding | accuracy by seed, % | accuracy, % | last loss, training | evaluation |",
        "|---|---|---|---|---|"]
    for name, found in rows.items():
        accuracies = [100 * f["eval_accuracy"] for f in found]
        lines.append(
            f"| {name} | {' · '.join(f'{a:.1f}' for a in accuracies)} | {spread(accuracies, 1)} | "
            f"{spread([f['loss'][-1] for f in found], 3)} | "
            f"{spread([f['eval_loss'][-1] for f in found], 3)} |")
    differences = [100 * (r["SCALED"]["eval_accuracy"] - r["EXACT"]["eval_accuracy"]) for r in runs]
    lines.append(f"| default - EXACT | {' · '.join(f'{d:+.1f}' for d in differences)} | "
                 f"{spread(differences, 1)} | | |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--bin", required=True)
    parser.add_argument("--pictures", required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--side", type=int, default=64)
    parser.add_argument("--batch_size", type=int, default=16)
    parser.add_argument("--lr", type=float, default=0.001)
    parser.add_argument("--model", default="resnet18")
    parser.add_argument("--json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        classes = class_folders(options.pictures, os.path.join(folder, "classes"))
        packed = f"lmdb:{folder}/pictures.lmdb"
        subprocess.run([os.path.join(options.bin, "millrace-data"), "pack", "--format=imagefolder",
                        f"--input={folder}/classes", f"--output={packed}"], check=True,
                       stdout=subprocess.DEVNULL)
        port = os.path.join(folder, "port")
        server = subprocess.Popen(
            [os.path.join(options.bin, "millrace-server"), "--listen=127.0.0.1:0",
             f"--port_file={port}", f"--dataset=pictures={packed}"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            while not (os.path.exists(port) and os.path.getsize(port)):
                if server.poll() is not None:
                    sys.exit("the server did not start")
                time.sleep(0.05)
            with open(port, encoding="ascii") as file:
                endpoint = f"127.0.0.1:{file.read().strip()}"
            runs = []
            for seed in range(1, options.seeds + 1):
                runs.append({mode: train(options, folder, endpoint, mode, seed)
                             for mode in ("SCALED", "EXACT")})
                print(f"seed {seed}: default {runs[-1]['SCALED']['eval_accuracy']:.4f}, "
                      f"EXACT {runs[-1]['EXACT']['eval_accuracy']:.4f}", file=sys.stderr, flush=True)
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait()
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(runs, file, indent=1)
    print(report(options, classes, runs))


if __name__ == "__main__":
    main()
