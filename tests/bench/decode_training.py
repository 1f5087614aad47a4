"""Does training notice that photographs are decoded at a fraction of their size? Trains the same model
with the default decoding and with `mode: EXACT`, several seeds each, and compares the accuracies.

    decode_training.py --bin=DIR --pictures=DIR [--sources=40] [--windows=30] [--seeds=3]
                       [--epochs=20] [--side=64] [--model=cnn] [--json=FILE]

The task: to which of 40 photographs does a small window of it belong? --pictures holds large
photographs (Debian's endless-sky-high-dpi has 1440 x 720 pixels). Of each that is chosen, 30 windows
of random place and of 30 to 60 % of each side are written as JPEGs of quality 92. Cut and resized to
64 x 64 they are decoded at 1/2, 1/4 or 1/8 by default, which is what the comparison is about. For
each seed the windows are cut into 70 % for training and 30 % for evaluation; both runs of a seed have
the same cut, first weights, order and crops. Windows of a photograph overlap, so the accuracy says
nothing about how well the model sees, only whether the two ways of decoding differ.

Prints a table in Markdown. Takes programs from --bin (tools/build); needs Pillow.
"""

import argparse
import json
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from PIL import Image

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


def windows(options, folder):
    """Writes windows of the chosen photographs, one folder a photograph."""
    found = sorted(p for p in pathlib.Path(options.pictures).rglob("*.jpg") if large(p))
    rng = random.Random(11)
    for number, path in enumerate(rng.sample(found, options.sources)):
        place = os.path.join(folder, f"source{number:03d}")
        os.makedirs(place)
        with Image.open(path) as image:
            image = image.convert("RGB")
        for window in range(options.windows):
            width, height = (round(side * rng.uniform(0.3, 0.6)) for side in image.size)
            left = rng.randint(0, image.width - width)
            top = rng.randint(0, image.height - height)
            image.crop((left, top, left + width, top + height)).save(
                os.path.join(place, f"{window:03d}.jpg"), quality=92)


def large(path):
    with Image.open(path) as image:
        return min(image.size) >= 700


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


def report(options, runs):
    rows = {"default": [r["SCALED"] for r in runs], "EXACT": [r["EXACT"] for r in runs]}
    lines = [
        f"{options.model}, {options.windows} windows of each of {options.sources} photographs, "
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
    parser.add_argument("--sources", type=int, default=40)
    parser.add_argument("--windows", type=int, default=30)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--side", type=int, default=64)
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=0.001)
    parser.add_argument("--model", default="cnn")
    parser.add_argument("--json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        windows(options, os.path.join(folder, "classes"))
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
    print(report(options, runs))


if __name__ == "__main__":
    main()
