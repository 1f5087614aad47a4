"""Compares what the runs of gpu-check/run have written.

  check.py same_end WHOLE RESUMED   step losses: RESUMED is the end of WHOLE
  check.py near GPU CPU             step losses: those of GPU begin as those of CPU
  check.py accuracies JSON...       each accuracy is that of a trained model
  check.py rates RESULTS            table of the rates, from the JSON files
"""

import json
import os
import statistics
import sys


def steps(path):
    return open(path, encoding="utf-8").readlines()


def same_end(whole, resumed):
    lines = [steps(whole), steps(resumed)]
    if not lines[1] or lines[0][-len(lines[1]):] != lines[1]:
        sys.exit(f"the steps of {resumed} are not the last {len(lines[1])} of {len(lines[0])} in {whole}")
    print(f"{len(lines[1])} of {len(lines[0])} steps are the same to the last digit")


def near(gpu, cpu):
    # Sums of another order differ in the last digits; the difference grows with
    # the steps.
    pairs = [[float(line.split()[2]) for line in lines] for lines in zip(steps(gpu), steps(cpu))][:10]
    worst = max(abs(a - b) / b for a, b in pairs)
    print(f"the first {len(pairs)} losses differ by {worst:.2e} at most")
    if len(pairs) < 10 or worst > 1e-3:
        sys.exit(f"losses on the GPU are not those of the CPU: {pairs}")


def accuracies(paths):
    low = []
    for path in paths:
        accuracy = json.load(open(path, encoding="utf-8"))["eval_accuracy"]
        print(f"{os.path.basename(path)}: {accuracy:.4f}")
        # 9,000 samples, few epochs: a model that learns nothing has 0.1.
        if not accuracy >= 0.75:
            low.append(path)
    if low:
        sys.exit("accuracy below 0.75: " + ", ".join(low))


def steady(run):
    """The run without its first epoch: samples a second, share waiting, share of copies."""
    if "epoch_times" not in run:  # dataloader.py has left it out
        return run["samples_per_second"], run["stall_share"], None
    epochs = run["epoch_times"][1:]
    total = {key: sum(epoch[key] for epoch in epochs)
             for key in ("seconds", "samples", "data_seconds", "device_copy_seconds")}
    return (total["samples"] / total["seconds"], total["data_seconds"] / total["seconds"],
            total["device_copy_seconds"] / total["seconds"])


def rates(folder):
    # "resnet18_network.2.json": a row, and the number of the round.
    rows = {}
    for name in sorted(os.listdir(folder)):
        row, round_number, kind = (name.split(".") + ["", ""])[:3]
        if row.startswith("resnet") and round_number.isdigit() and kind == "json":
            run = json.load(open(os.path.join(folder, name), encoding="utf-8"))
            rows.setdefault(row, []).append(steady(run))
    for row, runs in rows.items():
        speeds, stalls, copies = zip(*runs)
        print(f"{row}: {statistics.median(speeds):,.0f} images/s ({min(speeds):,.0f} to {max(speeds):,.0f}), waiting "
              f"{100 * statistics.median(stalls):.1f} % ({100 * min(stalls):.1f} to {100 * max(stalls):.1f})"
              + (f", copies on the device {100 * statistics.median(copies):.1f} %" if copies[0] is not None else "")
              + f", {len(runs)} rounds")


if __name__ == "__main__":
    {"same_end": same_end, "near": near, "accuracies": lambda *paths: accuracies(paths), "rates": rates}[sys.argv[1]](*sys.argv[2:])
