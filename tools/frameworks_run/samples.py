"""Compares the samples of training runs with the epochs that they had to be. Pure.

A run is a list with, for each rank, the digests of its samples in their order. Samples of equal
content count together: of synthetic images, a few are equal.
"""

import collections


def complaint(parts, epoch, epochs):
    """What is wrong with runs that together had to train on every sample once in each epoch; "" when
    nothing is. `epoch`: the digests of all samples."""
    wanted = collections.Counter(epoch)
    if len(wanted) < 0.95 * len(epoch):
        return f"of {len(epoch)} samples, only {len(wanted)} differ"
    seen = collections.Counter(row for part in parts for rank in part for row in rank)
    strange = sum(count for row, count in seen.items() if row not in wanted)
    if strange:
        return f"{strange} rows that are no sample"
    often = sum(1 for row, count in wanted.items() if seen[row] > epochs * count)
    seldom = sum(1 for row, count in wanted.items() if seen[row] < epochs * count)
    if often or seldom:
        return (f"{often} samples were used more and {seldom} less than {epochs} times in {epochs} "
                "epochs")
    return ""


def difference(parts, whole):
    """Where runs that continue each other differ from one run of the same number of ranks; "" when
    each rank saw the same samples in the same order."""
    for rank, rows in enumerate(whole):
        joined = [row for part in parts for row in part[rank]]
        if joined != rows:
            at = next((i for i, (a, b) in enumerate(zip(joined, rows)) if a != b),
                      min(len(joined), len(rows)))
            return (f"rank {rank} had {len(joined)} samples and not {len(rows)}, or others from "
                    f"number {at} on")
    return ""
