#!/usr/bin/env python3
"""Draws the picture of docs/order.md from what tests/bench/shuffle_quality prints.

    bazel run -c opt //tests/bench:shuffle_quality > quality.tsv
    python3 tests/bench/plot_shuffle_quality.py quality.tsv docs/pictures/shuffle_quality.png

Needs matplotlib, which nothing else here does.
"""

import csv
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402


def main():
    source, picture = sys.argv[1:]
    with open(source, encoding="utf-8") as file:
        rows = [r for r in csv.DictReader(file, delimiter="\t")]
    blocks = [r for r in rows if r["order"].startswith("BLOCK")]
    windows = [int(r["order"].split()[1]) for r in blocks]
    figure, axes = plt.subplots(figsize=(6.4, 3.6), dpi=100)
    lines = (("entropy", "distances of neighbours (entropy)", "o-"),
             ("classes", "classes in a batch of 256, data sorted by class", "s-"))
    for column, label, style in lines:
        axes.plot(windows, [float(r[column]) for r in blocks], style, label=label)
    axes.axhline(1, color="gray", linewidth=1, linestyle="--")
    axes.text(windows[0], 1.02, "GLOBAL, and a random permutation", color="gray",
              fontsize=8)
    axes.set_xscale("log", base=2)
    axes.set_xticks(windows, [str(w) for w in windows])
    axes.set_ylim(0, 1.12)
    axes.set_xlabel("window_blocks, of blocks of 64 samples")
    axes.set_ylabel("of a random permutation's")
    axes.set_title("How well BLOCK order shuffles 1,281,167 samples", fontsize=10)
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(0.13, 0.5))
    figure.tight_layout()
    figure.savefig(picture, metadata={"Software": None})


if __name__ == "__main__":
    main()
