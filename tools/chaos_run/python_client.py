"""`millrace.Loader` beside `millrace bench` on the same server. Called by
tools/bench-python, with a Python that has the wheel and NumPy.
"""

import argparse
import ctypes
import glob
import json
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


def own_times(address, batches):
    """CPU seconds of the thread in next(), for batches that have arrived already."""
    import millrace
    times = []
    with millrace.Loader(address, pipeline=_DIGITS, batch_size=_BATCH, shuffle=None,
                         drop_last=True, tensor_type="numpy", window=64,
                         apply_device_transform=False) as loader:
        iterator = iter(loader)
        while len(times) < batches:
            time.sleep(0.05)  # until the window is full
            for _ in range(16):
                begun = time.thread_time_ns()
                batch = next(iterator, None)
                times.append((time.thread_time_ns() - begun) / 1e9)
                if batch is None:
                    times.pop()
                    iterator = iter(loader)
    return times


def unlocked_times(address, batches):
    """CPU seconds of the thread in calls of the C interface that take a batch, which has arrived
    already, and give it back. The extension module makes these calls without the interpreter's lock."""
    import millrace
    client, = glob.glob(os.path.join(os.path.dirname(millrace.__file__), "_libs", "libmillrace.so*"))
    client = ctypes.CDLL(client)
    client.millrace_options_new.restype = ctypes.c_void_p
    # The options that own_times() gives by name.
    named = millrace.Loader(address, pipeline=_DIGITS, batch_size=_BATCH, shuffle=None, drop_last=True,
                            tensor_type="numpy", window=64, apply_device_transform=False)
    settings = {**named._settings_without_rank(), "batch_size": str(_BATCH), "rank": "0", "world_size": "1"}
    options = ctypes.c_void_p(client.millrace_options_new())
    loader, batch, times = ctypes.c_void_p(), ctypes.c_void_p(), []

    def checked(status):
        if status != 0:
            raise RuntimeError(f"the C interface returns the status {status}")

    for name, value in settings.items():
        checked(client.millrace_options_set(options, name.encode(), value.encode(), None))
    checked(client.millrace_loader_open(options, ctypes.byref(loader), None))
    checked(client.millrace_loader_wait_open(loader, ctypes.c_int64(-1), None))
    while len(times) < batches:
        time.sleep(0.05)  # until the window is full
        for _ in range(16):
            begun = time.thread_time_ns()
            checked(client.millrace_loader_next(loader, ctypes.c_int64(-1), ctypes.byref(batch), None))
            client.millrace_batch_free(batch)
            times.append((time.thread_time_ns() - begun) / 1e9)
    client.millrace_loader_free(loader)
    client.millrace_options_free(options)
    return times


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
    parser.add_argument("--bin", required=True)
    parser.add_argument("--photos", default="")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=5)
    options = parser.parse_args(arguments)
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
        own, locked, imports = [], [], []
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
                own.append(statistics.median(own_times(address, 400)) * 1e6)
                locked.append(own[-1] - statistics.median(unlocked_times(address, 400)) * 1e6)
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
        row("… of it not in calls of the C interface: upper bound of the time with the interpreter's lock",
            locked, "%.1f", "≤ 20")
        row("`import millrace`, ms", imports, "%.0f", "≤ 150")
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
