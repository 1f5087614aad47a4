"""The five experiments, and what each consists of.

An experiment is a module with
    NUMBER, TITLE
    ROUNDS                  how many, when nobody says it
    FLAGS                   of millrace-train, that it uses when they are there
    data(context)           {"name", "train_samples"} of what is loaded
    sizes(quick)            what it is run with, as a dict that is written down
    rows(context)           list of Row
    tables(found)           its tables in Markdown; `found` is its part of results.json
    draw(found, figure)     its plot, with matplotlib; False: there is nothing to draw
"""

import dataclasses
from typing import Callable


@dataclasses.dataclass(frozen=True)
class Row:
    """What is measured at once: one run in each round, or several that depend on each other."""
    labels: dict  # key: what stands in the table
    measure: Callable  # (context, round from 0, seed) -> {key: run}
    ours: bool = False


def one(key, label, measure, ours=False):
    """A row of one run."""
    return Row({key: label}, lambda *arguments: {key: measure(*arguments)}, ours)


def every():
    # Here, because they import this module.
    import exp1_first_network
    import exp2_switches
    import exp3_slow_samples
    import exp4_overlap
    import exp5_photographs
    return {module.NUMBER: module for module in (
        exp1_first_network, exp2_switches, exp3_slow_samples, exp4_overlap, exp5_photographs)}


def digits(context):
    """data() of the experiments with 28 x 28 pictures."""
    return {key: context.digits[key] for key in ("name", "train_samples")}


def runs(found, key):
    return found["rows"].get(key, {}).get("runs", [])


def bars(axis, found, value, unit):
    """A horizontal bar for each row that was measured: median, with lowest and highest."""
    import stats
    shown = [row for row in found["rows"].values() if row["runs"]]
    if not shown:
        return False
    values = [[value(run) for run in row["runs"]] for row in shown]
    middle = [stats.median(v) for v in values]
    axis.barh(range(len(shown)), middle,
              xerr=[[m - min(v) for m, v in zip(middle, values)],
                    [max(v) - m for m, v in zip(middle, values)]],
              color=["#1f6fb4" if row["ours"] else "#b8b8b8" for row in shown],
              error_kw={"elinewidth": 1, "capsize": 2})
    axis.set_yticks(range(len(shown)), [row["label"] for row in shown], fontsize=8)
    axis.invert_yaxis()
    axis.set_xlim(0, 1.15 * max(max(v) for v in values))
    for place, v in enumerate(values):
        axis.text(max(v), place, f" {stats.number(middle[place])}", va="center", fontsize=8)
    axis.set_xlabel(unit, fontsize=8)
    axis.tick_params(axis="x", labelsize=7)
    axis.spines[["top", "right"]].set_visible(False)
    return True
