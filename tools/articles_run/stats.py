"""Medians, spreads and tables of the experiments. Pure functions.

A run is what one program reports: {"epoch_seconds": [...], "loss": [...], "accuracy": [...], ...}; a
row of an experiment has one run for each round. The first epoch of a run never counts for times:
caches are cold and threads are being started in it.
"""

import math
import statistics


def median(values):
    return statistics.median(values)


def number(value):
    """Three digits that matter, as 1,234, 12.3, 1.23 or 0.0123."""
    if value is None or not math.isfinite(value):
        return "-"
    size = abs(value)
    if size >= 100:
        return f"{value:,.0f}"
    if size >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if size >= 1 or size == 0 else f"{value:.3g}"


def spread(values, form=number):
    """Median (lowest-highest)."""
    if not values:
        return "-"
    return f"{form(median(values))} ({form(min(values))}-{form(max(values))})"


def counted(values):
    """Of one run, an entry an epoch: those that count."""
    return values[1:] if len(values) > 1 else values


def epoch_time(run):
    """Seconds of a counted epoch of a run: the median."""
    return median(counted(run["epoch_seconds"]))


def ratios(ours, others, value):
    """value(ours) / value(other) of the rounds that both have."""
    of_round = {run["round"]: run for run in others}
    return [value(run) / value(of_round[run["round"]]) for run in ours if run["round"] in of_round]


def verdict(values, limit):
    """Whether the median of ratios is at most `limit`, as a sentence."""
    if not values:
        return f"at most {limit:g}: not measured"
    return (f"at most {limit:g}: {'reached' if median(values) <= limit else 'missed'}, "
            f"{spread(values, lambda v: f'{v:.2f}')}")


def by_seed(runs, value):
    """One value for each seed (a seed that was run again gives the same), in the order of seeds."""
    found = {}
    for run in runs:
        if (got := value(run)) is not None:
            found.setdefault(run["seed"], got)
    return [found[seed] for seed in sorted(found)]


def last(values):
    return values[-1] if values else None


def within_noise(ours, others):
    """(difference of the means, twice its standard error, whether it is noise). Noise: the ranges
    overlap, or the difference is at most twice its standard error. None with fewer than 3 of each."""
    if len(ours) < 3 or len(others) < 3:
        return None
    difference = statistics.mean(ours) - statistics.mean(others)
    error = 2 * math.sqrt(statistics.variance(ours) / len(ours) +
                          statistics.variance(others) / len(others))
    overlap = min(ours) <= max(others) and min(others) <= max(ours)
    return difference, error, overlap or abs(difference) <= error


def identical(rows, value):
    """Compares what several rows have in the same round: (rounds compared, rounds in which all are
    equal). Rounds that only one row has are left out."""
    compared = equal = 0
    rounds = sorted({run["round"] for runs in rows for run in runs})
    for number_ in rounds:
        found = [value(run) for runs in rows for run in runs if run["round"] == number_]
        found = [f for f in found if f is not None]
        if len(found) < 2:
            continue
        compared += 1
        equal += all(f == found[0] for f in found)
    return compared, equal


def table(head, rows):
    """A table in Markdown; cells are text."""
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for row in rows:
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |")
    return "\n".join(lines)


def row_or_reason(row, width, cells):
    """The label of a row and its cells, or why there are none. `cells`: runs -> list of text."""
    if not row["runs"]:
        return [row["label"], f"not measured: {row['error'] or 'no run'}"] + [""] * (width - 2)
    made = [row["label"], *cells(row["runs"])]
    if row["error"]:
        made[1] += f"; {len(row['runs'])} rounds, then: {row['error']}"
    return made
