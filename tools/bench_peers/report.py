"""Shows what run.py has measured.

    report.py RESULTS.json [--markdown] [--plot=FILE.png] [--update=FILE.md]

Without options a table as text. --markdown prints the tables of docs/performance.md; --update puts
them between the lines `<!-- bench-peers: begin -->` and `<!-- bench-peers: end -->` of a page, with
the plot when it lies beside it as pictures/bench_peers.png, and keeps the results beside the page as
bench_peers.json, so that a test sees that the whole part is of one run. --plot needs matplotlib. A ratio is ours divided by the peer's, of the same round: median and, in
brackets, lowest and highest. CPU is processor time: of all processes for 1,000 images, or of the
client alone for a GB.
"""

import argparse
import json
import os
import statistics
import sys

import comparison

AFTER = {"stages": "where the time goes, and what each transform costs (`stage_bench`)",
         "faithfulness": "default against exact decoding, after RandomResizedCrop "
                         "(`image_faithfulness`)"}
PICTURE = "pictures/bench_peers.png"  # beside the page
RESULTS = "bench_peers.json"  # beside the page
BEGIN, END = "<!-- bench-peers: begin -->", "<!-- bench-peers: end -->"


def number(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def spread(values):
    return f"{number(statistics.median(values))} ({number(min(values))}-{number(max(values))})"


def ratios(rows, ours, peer, what="values"):
    """Round by round."""
    pairs = zip(rows[ours][what], rows[peer][what])
    return [a / b for a, b in pairs]


def ratio_text(values):
    def one(value):
        return f"{value:.1f}" if value >= 20 else f"{value:.2f}"
    return f"{one(statistics.median(values))} ({one(min(values))}-{one(max(values))})"


def lines(found, group):
    """[(label, rate, ratio, goal, CPU)] of one group, as text."""
    rows = found["rows"]
    reference_of_group = comparison.REFERENCES.get(group)
    table = []
    for key, row in rows.items():
        if row["group"] != group:
            continue
        if not row["values"]:
            table.append((row["label"], f"not available: {row['error'] or 'not measured'}", "", "", ""))
            continue
        rate = spread(row["values"])
        if row["error"]:
            rate += f"; {len(row['values'])} rounds, then: {row['error']}"
        ratio, goals = "", []
        reference = row["reference"] or reference_of_group
        if (row["reference"] or not row["ours"]) and rows.get(reference, {}).get("values"):
            ratio = ratio_text(ratios(rows, reference, key))
        for ours, peer, goal in found["goals"]:
            if peer != key or not rows[ours]["values"]:
                continue
            measured = ratios(rows, ours, key)
            reached = "reached" if statistics.median(measured) >= goal else "missed"
            if ours == reference:
                goals.append(f"{goal:g}: {reached}")
            else:
                goals.append(f"{goal:g} by \"{rows[ours]['label']}\": {reached}, "
                             f"{ratio_text(measured)}")
        cpu = [value for value in row["cpu"] if value is not None]
        cpu = f"{statistics.median(cpu):.2g} {row['cpu_unit']}" if cpu else ""
        for ours, peer, goal in found.get("cpu_goals", []):
            if peer == key and rows[ours]["values"]:
                measured = ratios(rows, ours, key, "cpu")
                reached = "reached" if statistics.median(measured) <= goal else "missed"
                cpu += f"; ours at most {goal:g} x it: {reached}, {ratio_text(measured)}"
        table.append((row["label"], rate, ratio, "; ".join(goals), cpu))
    return table


def groups(found):
    """The groups that have rows, in order."""
    present = {row["group"] for row in found["rows"].values()}
    return [g for g in comparison.GROUPS if g in present]


def method(found):
    """One paragraph: machine, date, photographs, versions, load."""
    box, photos = found["machine"], found["photographs"]
    versions = {}
    for row in found["rows"].values():
        versions.update(row["versions"])
    named = ", ".join(f"{name} {version.split('+')[0]}" for name, version in sorted(versions.items()))
    busy = max(s["busy_before"] for s in found["states"])
    return (
        f"{found['date']}, commit {found['commit']}, {box['cpu']}"
        f"{' (virtual machine)' if box['hypervisor'] else ''}, {', '.join(box['vectors'])}, "
        f"{box['memory_gib']} GiB; everything on the same {found['used_cores']} cores, "
        f"{found['threads']} threads that decode, in ours and in every peer. "
        f"{photos['count']:,} photographs of {photos['mean_bytes'] / 1000:.1f} kB on average, in the "
        f"page cache. {found['rounds']} rounds of {found['seconds']:g} s a row, ours and the peers "
        f"in turn within each round. Before a round at most {100 * busy:.0f} % of the machine was "
        f"busy with something else. Median (lowest-highest); CPU: seconds of all processes for 1,000 "
        f"images, or of the client for a GB. Peers: {named or 'none'}.")


def text(found):
    out = [method(found), ""]
    for group in groups(found):
        table = lines(found, group)
        width = max(len(row[0]) for row in table)
        out.append(f"{comparison.GROUPS[group]}")
        for label, rate, ratio, goal, cpu in table:
            out.append(f"  {label:<{width}}  {rate:<28}{('CPU ' + cpu + '  ') if cpu else '':<22}"
                       f"{('ours / it ' + ratio) if ratio else '':<30}"
                       f"{('goal ' + goal) if goal else ''}".rstrip())
        out.append("")
    return "\n".join(out)


def markdown(found):
    out = [method(found), ""]
    for group in groups(found):
        out.append(f"**{comparison.GROUPS[group]}**")
        out.append("")
        out.append("| | median (lowest-highest) | ours ÷ it | goal | CPU |")
        out.append("|---|---|---|---|---|")
        for row in lines(found, group):
            out.append("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |")
        out.append("")
    for name, output in found["after"].items():
        out += [f"**{AFTER.get(name, name)}**", "", output.strip(), ""]
    return "\n".join(out)


def plot(found, path):
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    shown = []
    for group in groups(found):
        rows = [r for r in found["rows"].values() if r["group"] == group and r["values"]]
        if rows and group != "allocators":
            shown.append((group, rows))
    if not shown:
        return
    figure, axes = plt.subplots(
        len(shown), 1, figsize=(9, 1 + sum(0.55 + 0.3 * len(rows) for _, rows in shown)),
        gridspec_kw={"height_ratios": [0.6 + len(rows) for _, rows in shown]}, squeeze=False)
    for axis, (group, rows) in zip(axes[:, 0], shown):
        middle = [statistics.median(r["values"]) for r in rows]
        low = [m - min(r["values"]) for m, r in zip(middle, rows)]
        high = [max(r["values"]) - m for m, r in zip(middle, rows)]
        axis.barh(range(len(rows)), middle, xerr=[low, high],
                  color=["#1f6fb4" if r["ours"] else "#b8b8b8" for r in rows],
                  error_kw={"elinewidth": 1, "capsize": 2})
        axis.set_yticks(range(len(rows)), [r["label"] for r in rows], fontsize=8)
        axis.invert_yaxis()
        axis.set_xlim(0, 1.14 * max(m + h for m, h in zip(middle, high)))
        for place, (m, h) in enumerate(zip(middle, high)):
            axis.text(m + h, place, f" {number(m)}", va="center", fontsize=8)
        axis.set_title(comparison.GROUPS[group], fontsize=9, loc="left")
        axis.tick_params(axis="x", labelsize=7)
        axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=90, metadata={"Software": None})


def shown(found, with_picture):
    """What stands between the two lines of the page."""
    picture = f"![the table as a picture]({PICTURE})\n\n" if with_picture else ""
    return f"\n\n{picture}{markdown(found)}\n"


def between(page):
    """(before, between, after) of the two lines; None when the page lacks them."""
    if page.count(BEGIN) != 1 or page.count(END) != 1:
        return None
    head, rest = page.split(BEGIN)
    middle, tail = rest.split(END)
    return head, middle, tail


def update(found, path):
    with open(path, encoding="utf-8") as file:
        parts = between(file.read())
    if parts is None:
        sys.exit(f"{path} lacks the lines {BEGIN} and {END}")
    folder = os.path.dirname(path)
    with open(os.path.join(folder, RESULTS), "w", encoding="utf-8") as file:
        json.dump(found, file, indent=1)
        file.write("\n")
    middle = shown(found, os.path.exists(os.path.join(folder, PICTURE)))
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"{parts[0]}{BEGIN}{middle}{END}{parts[2]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("results")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--plot")
    parser.add_argument("--update")
    options = parser.parse_args()
    with open(options.results, encoding="utf-8") as file:
        found = json.load(file)
    if options.plot:
        plot(found, options.plot)
    if options.update:
        update(found, options.update)
    if options.markdown or not (options.plot or options.update):
        print(markdown(found) if options.markdown else text(found))


if __name__ == "__main__":
    main()
