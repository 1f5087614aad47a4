"""What tools/articles has measured, as Markdown, as plots and on docs/articles.md.

    articles_page.py RESULTS.json [--plots=DIR] [--update=DOCS_FOLDER]

Without options the tables are printed. --plots draws experiment-N.png for each experiment that was
measured (needs matplotlib). --update puts the tables between the marks of articles.md in that folder,
copies the results to articles.json beside it, and the plots that lie beside RESULTS.json to
pictures/articles_N.png.
"""

import argparse
import json
import os
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(os.path.dirname(HERE), "bench_peers"))

import experiments  # noqa: E402 (the path comes first)

FORMAT = 1


def load(path):
    """The results in a file, or those of nothing measured."""
    if not os.path.exists(path):
        return {"format": FORMAT, "experiments": {}}
    with open(path, encoding="utf-8") as file:
        results = json.load(file)
    if results.get("format") != FORMAT:
        sys.exit(f"{path} has format {results.get('format')}; this is for {FORMAT}: move it away")
    return results


def store(results, path):
    part = path + ".part"
    with open(part, "w", encoding="utf-8") as file:
        json.dump(results, file, indent=1)
        file.write("\n")
    os.replace(part, path)


def method(found):
    """One paragraph: when, where, how."""
    box, data = found["machine"], found["data"]
    versions = {}
    for row in found["rows"].values():
        for run in row["runs"]:
            versions.update(run.get("versions", {}))
    named = ", ".join(f"{name} {version.split('+')[0]}" for name, version in sorted(versions.items()))
    busy = max(state["busy_before"] for state in found["states"])
    sizes = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in found["sizes"].items()
                      if value)
    rounds = f"{found['rounds']} round{'s' * (found['rounds'] != 1)}"
    samples = f" ({data['train_samples']:,} to train on)" if data.get("train_samples") else ""
    return (
        f"Measured on {found['date']}, commit {found['commit']}, {box['cpu']}"
        f"{' (virtual machine)' if box['hypervisor'] else ''}, {box['memory_gib']} GiB, "
        f"{'with' if found['cuda'] else 'without'} a CUDA device; everything on the same "
        f"{found['cores']} core{'s' * (found['cores'] != 1)}. Data: {data['name']}{samples}. "
        f"{rounds[0].upper() + rounds[1:]}, the rows in turn within each, another seed in each; "
        f"{sizes}. Before a round at most {100 * busy:.0f} % of the machine was busy with something "
        f"else. Median (lowest-highest); the first epoch does not count for times. "
        f"Python: {named or 'not there'}.")


def section(experiment, found):
    """What stands on the page for one experiment."""
    lines = []
    if found["quick"]:
        lines += ["**A quick run, to see that it works: these figures say nothing.**", ""]
    lines += [method(found), "", experiment.tables(found)]
    if found["missing"]:
        lines += ["", "Missing here: " + "; ".join(found["missing"]) + "."]
    return "\n".join(lines)


def not_measured(number):
    return f"Not measured yet: `tools/articles --only={number}`."


def all_sections(results):
    """A file of its own, for people."""
    lines = ["# The articles' experiments, as measured", ""]
    for number, experiment in experiments.every().items():
        found = results["experiments"].get(str(number))
        lines += [f"## {number}. {experiment.TITLE}", "",
                  section(experiment, found) if found else not_measured(number), ""]
    return "\n".join(lines)


def marks(number):
    return f"<!-- articles {number}: begin -->", f"<!-- articles {number}: end -->"


def shown(number, results, has_picture):
    """What stands between the marks of an experiment."""
    found = results["experiments"].get(str(number))
    if not found:
        return not_measured(number)
    text = section(experiments.every()[number], found)
    if has_picture:
        text = f"![the table as a picture](pictures/articles_{number}.png)\n\n" + text
    return text


def replaced(page, number, text):
    """The page with another text between the marks of an experiment."""
    begin, end = marks(number)
    if page.count(begin) != 1 or page.count(end) != 1:
        sys.exit(f"the page lacks the lines {begin} and {end}")
    head, rest = page.split(begin)
    return f"{head}{begin}\n\n{text}\n\n{end}{rest.split(end)[1]}"


def update(results, beside, docs):
    page_path = os.path.join(docs, "articles.md")
    with open(page_path, encoding="utf-8") as file:
        page = file.read()
    for number in experiments.every():
        plot = os.path.join(beside, f"experiment-{number}.png")
        picture = os.path.join(docs, "pictures", f"articles_{number}.png")
        if str(number) in results["experiments"] and os.path.exists(plot):
            shutil.copyfile(plot, picture)
        page = replaced(page, number, shown(number, results, os.path.exists(picture)))
    with open(page_path, "w", encoding="utf-8") as file:
        file.write(page)
    store(results, os.path.join(docs, "articles.json"))


def plot(results, folder):
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    for number, experiment in experiments.every().items():
        found = results["experiments"].get(str(number))
        if not found:
            continue
        rows = sum(bool(row["runs"]) for row in found["rows"].values())
        figure = plt.figure(figsize=(10, 1.5 + 0.32 * max(4, rows)), layout="constrained")
        if experiment.draw(found, figure):
            note = " (a quick run: the figures say nothing)" if found["quick"] else ""
            figure.suptitle(f"{number}. {experiment.TITLE}{note}", fontsize=10)
            figure.savefig(os.path.join(folder, f"experiment-{number}.png"), dpi=90,
                           metadata={"Software": None})
        plt.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("results")
    parser.add_argument("--plots")
    parser.add_argument("--update")
    options = parser.parse_args()
    if not os.path.exists(options.results):
        sys.exit(f"there is no file {options.results}")
    results = load(options.results)
    if options.plots:
        plot(results, options.plots)
    if options.update:
        update(results, os.path.dirname(os.path.abspath(options.results)), options.update)
    if not (options.plots or options.update):
        print(all_sections(results))


if __name__ == "__main__":
    main()
