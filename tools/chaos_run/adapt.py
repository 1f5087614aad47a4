"""Samples per second of a server whose numbers of threads adapt and a client whose
window does, from bad beginnings, against the best of many fixed settings. Called by
tools/bench-adapt.
"""

import argparse
import contextlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile

import network as networks
from processes import Server

_PHOTOS = ("sources { dataset: 'photos' } transforms { decode_image { } } "
           "transforms { random_resized_crop { height: 224 width: 224 } } "
           "transforms { horizontal_flip { p: 0.5 } }")


def _far(micros):
    return ["--synthetic", "--ready_batches=0", "--shape=16,16,1", "--batch_size=64",
            f"--synthetic_latency_us={micros}"]


# Name: (title, flags of the bench, fixed threads, fixed threads that read)
FAR = {
    "near": ("storage 2 ms away", _far(2000), (1, 2, 4), (1, 8, 32, 128, 256, 512)),
    "far": ("storage 20 ms away", _far(20000), (1, 2, 4), (8, 32, 128, 512)),
}
PHOTOS = ("photographs, crop 224", None, (1, 2, 4, 16, 64), (32,))

# Threads that decode, that read, and the client's window.
BEGINNINGS = [(1, 1, 2), (64, 512, 64)]


@contextlib.contextmanager
def server(program, flags, work):
    """A server, as long as it is needed; gives its address."""
    process = Server(0, networks.Loopback(1), program, [*flags, "--local_socket=off"], work)
    process.start()
    try:
        process.await_ready()
        yield process.address
    finally:
        process.stop()


def run(arguments):
    result = subprocess.run(arguments, stdin=subprocess.DEVNULL, capture_output=True,
                            text=True, check=False)
    if result.returncode != 0:
        raise RuntimeError(f"{' '.join(arguments[:2])}: {result.stderr.strip()}")
    return result.stdout


def samples_per_second(client, address, flags, seconds, more=("--window=48",)):
    return json.loads(run([client, "bench", f"--endpoint={address}", *flags, *more,
                           f"--seconds={seconds}s", "--timeout=60s", "--json"]))[
                               "images_per_second"]


def numbers(client, address):
    status = json.loads(run([client, "status", f"--endpoint={address}", "--json"]))
    one = status["servers"][0]
    return f"{one['threads']} + {one['read_threads']}"


def measure_load(options, work, title, flags, data, threads, readers):
    program = os.path.join(options.bin, "millrace-server")
    client = os.path.join(options.bin, "millrace")

    def fixed(setting):
        with server(program, [*data, f"--threads={setting[0]}", f"--read_threads={setting[1]}"],
                    work) as address:
            samples_per_second(client, address, flags, 1)
            return samples_per_second(client, address, flags, options.seconds)

    tried = {(t, r): fixed((t, r)) for t in threads for r in readers}
    # Some of the best of the first look may be it by chance.
    near = sorted((s for s in tried if tried[s] > 0.9 * max(tried.values())),
                  key=tried.get)[-3:]
    best = max(near, key=lambda s: tried[s] + fixed(s))
    of_best, of_adapted, ratios = [], {b: [] for b in BEGINNINGS}, {b: [] for b in BEGINNINGS}
    ended = {}
    for _ in range(options.rounds):
        now = fixed(best)
        of_best.append(now)
        for beginning in BEGINNINGS:
            with server(program, [*data, f"--initial_threads={beginning[0]}",
                                  f"--initial_read_threads={beginning[1]}"], work) as address:
                rate = samples_per_second(
                    client, address, flags, options.seconds,
                    (f"--initial_window={beginning[2]}", f"--warmup={options.settle}s"))
                ended[beginning] = numbers(client, address)
            of_adapted[beginning].append(rate)
            ratios[beginning].append(rate / now)
    for beginning in BEGINNINGS:
        print(f"| {title} | {best[0]} + {best[1]} | {statistics.median(of_best):,.0f} | "
              f"{beginning[0]} + {beginning[1]}, {beginning[2]} | {ended[beginning]} | "
              f"{statistics.median(of_adapted[beginning]):,.0f} | "
              f"**{statistics.median(ratios[beginning]):.2f}** "
              f"({min(ratios[beginning]):.2f}–{max(ratios[beginning]):.2f}) |", flush=True)


def main(arguments):
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--photos", default="")
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--settle", type=int, default=60)
    options = parser.parse_args(arguments)
    only = (options.only or "near,far,photos").split(",")
    if "photos" in options.only and not options.photos:
        parser.error("--only=photos needs --photos=DIR")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    work = tempfile.mkdtemp(prefix="millrace-adapt.")
    os.mkdir(os.path.join(work, "tmp"))
    try:
        loads = [(title, flags, ["--synthetic_only"], threads, readers)
                 for name, (title, flags, threads, readers) in FAR.items() if name in only]
        if options.photos and "photos" in only:
            uri = f"lmdb:{work}/photos.lmdb"
            run([os.path.join(options.bin, "millrace-data"), "pack", "--format=imagefolder",
                 f"--input={options.photos}", f"--output={uri}"])
            spec = os.path.join(work, "photos.textproto")
            with open(spec, "w", encoding="utf-8") as file:
                file.write(_PHOTOS)
            loads.append((PHOTOS[0], [f"--pipeline={spec}", "--batch_size=64"],
                          [f"--dataset=photos={uri}", "--memory_budget=4GiB"], *PHOTOS[2:]))
        print(f"{options.rounds} rounds, {options.settle} s after the beginning, "
              f"{len(os.sched_getaffinity(0))} cores; threads that decode + threads that read, "
              "the client's window; samples/s. A fixed setting has a window of 48.\n")
        print("| load | best fixed | its rate | beginning | then | its rate | ratio "
              "(spread) |\n|---|---|---|---|---|---|---|", flush=True)
        for load in loads:
            measure_load(options, work, *load)
    except (RuntimeError, OSError) as error:
        print(f"tools/bench-adapt: {error}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
