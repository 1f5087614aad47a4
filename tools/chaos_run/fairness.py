"""How a server's worker time is shared by jobs side by side: the server on one core, the
clients on the others. Called by tools/bench-fairness.
"""

import argparse
import json
import os
import random
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import zlib

import adapt
import dataset

_LIGHT = "sources { dataset: 'digits' } seed: %d"
_CROP = ("sources { dataset: 'photos' } transforms { decode_image { } } "
         "transforms { random_resized_crop { height: 224 width: 224 } } "
         "transforms { horizontal_flip { p: 0.5 } }")
# A row of it takes a good part of a second.
_HEAVY = ("sources { dataset: 'photos' } transforms { decode_image { } } "
          "transforms { resize { height: 224 width: 224 } } "
          "transforms { pad { padding: 1900 } } transforms { gaussian_blur { kernel_size: 31 } } "
          "transforms { center_crop { height: 224 width: 224 } }")

_SLOW = ["--synthetic", "--ready_batches=0", "--shape=16,16,1", "--batch_size=256",
         "--synthetic_latency_us=100000", "--seed=1"]
_FAST = ["--synthetic", "--ready_batches=0", "--shape=16,16,1", "--batch_size=256",
         "--synthetic_latency_us=100", "--seed=2"]


def write_photos(folder, count=48, width=1000, height=750):
    """PNG files of slopes and noise, for who has no photographs."""
    rng = random.Random(1)
    os.makedirs(os.path.join(folder, "class"))

    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    noise = rng.randbytes(3 * width)
    for i in range(count):
        rows = bytearray()
        for y in range(height):
            rows.append(0)
            shift = (7 * y + i) % (3 * width)
            line = noise[shift:] + noise[:shift]
            rows += bytes((b >> 3) + (y & 127) for b in line)
        with open(os.path.join(folder, "class", f"{i}.png"), "wb") as file:
            file.write(b"\x89PNG\r\n\x1a\n"
                       + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
                       + chunk(b"IDAT", zlib.compress(bytes(rows), 1)) + chunk(b"IEND", b""))


class Bench:
    def __init__(self, options):
        self.options = options
        self.client = os.path.join(options.bin, "millrace")

    def start(self, address, flags):
        # More than is counted: the others must not end before.
        return subprocess.Popen(
            [self.client, "bench", f"--endpoint={address}", *flags,
             f"--seconds={self.options.seconds}s", "--warmup=3s", "--timeout=120s",
             "--step_timeout=120s", "--json"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def worker_seconds(self, address):
        status = json.loads(adapt.run([self.client, "status", f"--endpoint={address}", "--json"]))
        return {(one["client"], one["dataset"]): one["worker_seconds"]
                for one in status["servers"][0].get("clients", [])}

    def run(self, address, jobs):
        """Samples/s of each job, all at the same time, and each client's part of the
        worker time meanwhile."""
        processes = [self.start(address, flags) for flags in jobs]
        time.sleep(4)
        before = self.worker_seconds(address)
        time.sleep(max(1, self.options.seconds - 2))
        after = self.worker_seconds(address)
        rates = []
        for process in processes:
            out, error = process.communicate()
            if process.returncode != 0:
                raise RuntimeError(f"millrace bench: {error.strip()}")
            rates.append(json.loads(out)["images_per_second"])
        given = {}
        for (client, name), seconds in after.items():
            given[name] = given.get(name, 0) + seconds - before.get((client, name), 0)
        total = sum(given.values()) or 1
        return rates, {name: seconds / total for name, seconds in given.items()}


def row(title, values, bar):
    print(f"| {title} | **{statistics.median(values):.2f}** ({min(values):.2f}–{max(values):.2f}) "
          f"| {bar} |", flush=True)


def main(arguments):
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--photos", default="")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=8)
    parser.add_argument("--only", default="crop,blur,windows,storage")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        parser.error("needs two cores: one for the server, one for the clients")
    only = options.only.split(",")
    work = tempfile.mkdtemp(prefix="millrace-fairness.")
    os.mkdir(os.path.join(work, "tmp"))
    try:
        pack = os.path.join(options.bin, "millrace-data")
        digits = dataset.pack(pack, work)
        photos = options.photos or os.path.join(work, "photos")
        if not options.photos:
            write_photos(photos)
        adapt.run([pack, "pack", "--format=imagefolder", f"--input={photos}",
                   f"--output=lmdb:{work}/photos.lmdb"])

        def spec(name, text):
            path = os.path.join(work, name)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            return f"--pipeline={path}"

        light = [spec("light.textproto", _LIGHT % 1), "--batch_size=256"]
        heavy = {"crop": ("photographs, crop 224",
                          [spec("crop.textproto", _CROP), "--batch_size=16", "--window=8"]),
                 "blur": ("photographs, pad and blur",
                          [spec("blur.textproto", _HEAVY), "--batch_size=4", "--window=4"])}
        bench = Bench(options)
        flags = [f"--dataset=digits={digits}", f"--dataset=photos=lmdb:{work}/photos.lmdb",
                 "--memory_budget=1GiB"]
        results = {}

        def note(title, bar, value):
            results.setdefault((title, bar), []).append(value)

        for _ in range(options.rounds):
            os.sched_setaffinity(0, cores[:1])
            with adapt.server(os.path.join(options.bin, "millrace-server"), flags,
                              work) as address:
                os.sched_setaffinity(0, cores[1:])
                alone = bench.run(address, [light])[0][0]
                for name, (title, job) in heavy.items():
                    if name not in only:
                        continue
                    rates, shares = bench.run(address, [light, job])
                    note(f"28 × 28 beside {title}: its rate, of that alone", ">= 0.4",
                         rates[0] / alone)
                    note("… its part of the worker time", ">= 0.4", shares.get("digits", 0))
                    note(f"{title}: part of the worker time", ">= 0.4", shares.get("photos", 0))
                if "windows" in only:
                    rates, _ = bench.run(address, [[*light, "--window=4"],
                                                   [*light, "--window=32"]])
                    note("window of 32 beside one of 4: ratio of their rates", "<= 1.3",
                         max(rates) / min(rates))
                if "storage" in only:
                    fast = bench.run(address, [_FAST])[0][0]
                    slow = bench.run(address, [_SLOW])[0][0]
                    rates, _ = bench.run(address, [_FAST, _SLOW])
                    note("fast storage beside slow: its rate, of that alone", ">= 0.4",
                         rates[0] / fast)
                    note("slow storage beside fast: its rate, of that alone", "",
                         rates[1] / slow)
            os.sched_setaffinity(0, cores)
        print(f"{options.rounds} rounds of {options.seconds} s; the server on core {cores[0]}, "
              f"the clients on {len(cores) - 1} other(s). Median (lowest–highest).\n")
        print("| what | measured | bar |\n|---|---|---|")
        for (title, bar), values in results.items():
            row(title, values, bar)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
