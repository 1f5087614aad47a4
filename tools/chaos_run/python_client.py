"""`millrace.Loader` beside `millrace bench` on the same server. Called by
tools/bench-python, with a Python that has the wheel and NumPy.
"""

import argparse
import json
import mmap
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import adapt
import dataset
import fairness

_PHOTOS = ("sources { dataset: 'photos' } transforms { decode_image { } } "
           "transforms { random_resized_crop { height: 224 width: 224 } } "
           "transforms { horizontal_flip { p: 0.5 } }")
_READY = ("sources { synthetic { samples: 65536 ready_batches: 4 "
          "fields { name: 'image' dtype: DTYPE_UINT8 shape: [224, 224, 3] } } }")
_DIGITS = "sources { dataset: 'digits' }"
_BATCH = 64
_WARMUP = 2.0


def python_rate(address, text, batch, seconds):
    """Samples/s of a loop that only takes batches."""
    import millrace
    with millrace.Loader(address, pipeline=text, batch_size=batch, shuffle=None, drop_last=True,
                         tensor_type="numpy", apply_device_transform=False) as loader:
        begun = counted_from = None
        samples = 0
        while True:
            for _ in loader:
                now = time.monotonic()
                if begun is None:
                    begun = now
                if counted_from is None:
                    if now - begun >= _WARMUP:
                        counted_from = now
                    continue
                samples += batch
                if now - counted_from >= seconds:
                    return samples / (now - counted_from)


_BURST = 16  # batches that are taken at once
_PAUSE = 0.05  # seconds before, until the window is full


def own_times(address, batches, unlocked):
    """[CPU time of the thread in next(), the part of it with the interpreter's lock], in ns, for batches that have
    arrived already. `unlocked`: the file of lock_audit.c. The first of each _BURST comes after a pause."""
    import millrace
    millrace.set_log_level("warning")
    with open(unlocked, "r+b") as file:
        without = memoryview(mmap.mmap(file.fileno(), 8)).cast("q")
    times = []
    with millrace.Loader(address, pipeline=_DIGITS, batch_size=_BATCH, shuffle=None,
                         drop_last=True, tensor_type="numpy", window=64,
                         apply_device_transform=False) as loader:
        iterator = iter(loader)
        while len(times) < batches:
            time.sleep(_PAUSE)
            burst = []
            while len(burst) < _BURST:
                before, begun = without[0], time.thread_time_ns()
                batch = next(iterator, None)
                own = time.thread_time_ns() - begun
                if batch is None:
                    iterator = iter(loader)
                else:
                    burst.append((own, own - (without[0] - before)))
            times += burst
    return times


def measured_own_times(address, audit, work):
    """own_times() of a process of its own, whose dynamic linker calls lock_audit.c."""
    path = os.path.join(work, "unlocked")
    return json.loads(subprocess.run(
        [sys.executable, __file__, f"--own_times={address}", f"--unlocked={path}"], stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, check=True,
        env={**os.environ, "LD_AUDIT": audit, "UNLOCKED_NANOSECONDS": path}).stdout)


def bench_rate(program, address, path, batch, seconds):
    result = json.loads(adapt.run(
        [program, "bench", f"--endpoint={address}", f"--pipeline={path}", f"--batch_size={batch}",
         f"--seconds={seconds}s", f"--warmup={_WARMUP}s", "--json"]))
    return result["images_per_second"]


def import_seconds():
    """Of `import millrace`, beyond an interpreter that imports nothing."""
    def timed(code):
        begun = time.monotonic()
        subprocess.run([sys.executable, "-c", code], check=True)
        return time.monotonic() - begun
    bare = timed("pass")
    return timed("import millrace") - bare


def row(title, values, form, bar):
    print(f"| {title} | **{form % statistics.median(values)}** "
          f"({form % min(values)}–{form % max(values)}) | {bar} |", flush=True)


def main(arguments):
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin")
    parser.add_argument("--audit", help="lock_audit.c, compiled")
    parser.add_argument("--own_times", metavar="ADDRESS", help="print the times of own_times() and end")
    parser.add_argument("--unlocked", metavar="FILE", help="of --own_times")
    parser.add_argument("--photos", default="")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=5)
    options = parser.parse_args(arguments)
    if options.own_times:
        print(json.dumps(own_times(options.own_times, 400, options.unlocked)))
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    import millrace
    millrace.set_log_level("warning")
    work = tempfile.mkdtemp(prefix="millrace-python.")
    os.mkdir(os.path.join(work, "tmp"))
    try:
        pack = os.path.join(options.bin, "millrace-data")
        digits = dataset.pack(pack, work)
        photos = options.photos or os.path.join(work, "photos")
        if not options.photos:
            fairness.write_photos(photos)
        adapt.run([pack, "pack", "--format=imagefolder", f"--input={photos}",
                   f"--output=lmdb:{work}/photos.lmdb"])
        # Title: (pipeline, batch). A few photographs are enough for batches of 16.
        jobs = {"photographs, crop 224": (_PHOTOS, 16),
                "ready batches of 224 x 224 x 3": (_READY, _BATCH)}
        paths = {}
        for i, (title, (text, _)) in enumerate(jobs.items()):
            paths[title] = os.path.join(work, f"{i}.textproto")
            with open(paths[title], "w", encoding="utf-8") as file:
                file.write(text)
        flags = [f"--dataset=digits={digits}", f"--dataset=photos=lmdb:{work}/photos.lmdb",
                 "--memory_budget=1GiB"]
        rates = {title: ([], []) for title in jobs}
        own, locked, paused, imports = [], [], [], []
        client = os.path.join(options.bin, "millrace")
        with adapt.server(os.path.join(options.bin, "millrace-server"), flags, work) as address:
            for turn in range(options.rounds):
                for title, (text, batch) in jobs.items():
                    measure = [
                        lambda: rates[title][0].append(
                            python_rate(address, text, batch, options.seconds)),
                        lambda: rates[title][1].append(
                            bench_rate(client, address, paths[title], batch,
                                       options.seconds))]
                    for one in measure if turn % 2 == 0 else reversed(measure):
                        one()
                times = measured_own_times(address, options.audit, work)
                own.append(statistics.median(time for time, _ in times) / 1e3)
                locked.append(statistics.median(held for _, held in times) / 1e3)
                paused.append(statistics.median(held for _, held in times[::_BURST]) / 1e3)
                imports.append(import_seconds() * 1e3)
        print(f"{options.rounds} rounds of {options.seconds} s, server and client on "
              f"{len(os.sched_getaffinity(0))} cores. "
              "Median (lowest–highest).\n")
        print("| what | measured | bar |\n|---|---|---|")
        for title, (python, other) in rates.items():
            row(f"{title}: Python, images/s", python, "%.0f", "")
            row(f"{title}: `millrace bench`, images/s", other, "%.0f", "")
            row(f"{title}: Python ÷ `millrace bench`", [a / b for a, b in zip(python, other)],
                "%.3f", "≥ 0.95")
        row("CPU time of `next()`, µs a batch (median of 400)", own, "%.1f", "≤ 50")
        row("… of it with the interpreter's lock", locked, "%.1f", "≤ 20")
        row(f"… with the lock, of the first batch after a pause of {_PAUSE * 1e3:.0f} ms", paused, "%.1f", "")
        row("`import millrace`, ms", imports, "%.0f", "≤ 150")
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
