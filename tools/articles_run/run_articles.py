"""Runs the experiments, round by round on the same cores, and writes results.json, results.md and a
plot for each. Called by tools/articles.

    run_articles.py --config=FILE --output=DIR [--only=1,3] [--rounds=N] [--quick] [--cores=N]

The configuration is a JSON object: programs {name: path}, python, unavailable {name: why}, digits
{source, name}, photos, namespaces [words]. The order of the rows within a round turns from round to
round; round r has the seed r + 1. What was measured before and is in results.json stays, but for the
experiments that are run now.
"""

import argparse
import datetime
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(os.path.dirname(HERE), "bench_peers"))

import articles_page  # noqa: E402 (the path comes first)
import experiments  # noqa: E402
import host  # noqa: E402
import pictures  # noqa: E402
from context import Context, NotAvailable  # noqa: E402

QUICK_PICTURES = 2000
PACKAGES = {"tensorboard": "Python writes no TensorBoard logs", "lmdb": "", "albumentations": ""}


def chosen(only, known):
    if not only:
        return sorted(known)
    words = only.split(",")
    if unknown := [w for w in words if w not in {str(n) for n in known}]:
        sys.exit(f"--only: there is no experiment '{unknown[0]}'; there are "
                 f"{', '.join(map(str, sorted(known)))}")
    return sorted({int(w) for w in words})


def measure(experiment, context, rounds, say):
    """The experiment's part of results.json, but for what is the same for all of them."""
    rows = experiment.rows(context)
    results = {key: {"label": label, "ours": row.ours, "error": "", "runs": []}
               for row in rows for key, label in row.labels.items()}
    states = []
    for number in range(rounds):
        states.append({"busy_before": round(host.busy_share(), 3), "load": os.getloadavg()[0]})
        say(f"experiment {experiment.NUMBER}, round {number + 1} of {rounds} "
            f"({100 * states[-1]['busy_before']:.0f} % of the machine busy before it)")
        if states[-1]["busy_before"] > 0.1:
            say("  warning: something else runs on this machine; the figures mean less")
        turn = number * len(rows) // rounds
        for row in rows[turn:] + rows[:turn]:
            if any(results[key]["error"] for key in row.labels):
                continue
            error = ""
            begun = time.monotonic()
            try:
                found = row.measure(context, number, number + 1)
            except NotAvailable as reason:
                error = str(reason)
            except Exception as reason:  # one row less, not the whole run
                error = str(reason) or type(reason).__name__
            for key in row.labels:
                results[key]["error"] = error
                if not error:
                    results[key]["runs"].append({"round": number, **found[key]})
            names = ", ".join(row.labels)
            say(f"  {names}: {error or f'{time.monotonic() - begun:.1f} s'}")
    return {"rows": results, "states": states, "rounds": rounds,
            "sizes": experiment.sizes(context.quick), "title": experiment.TITLE}


def python_facts(python):
    """(whether it sees a CUDA device, packages that it lacks)."""
    if not python:
        return False, []
    script = ("import importlib.util as u, json, torch\n"
              f"print(json.dumps([torch.cuda.is_available(), [n for n in {sorted(PACKAGES)!r} "
              "if u.find_spec(n) is None]]))")
    output, error = host.run([python, "-c", script], 300)
    if error:
        sys.exit(f"{python}: {error}")
    cuda, lacks = host.parse(output)
    return cuda, lacks


def missing(experiment, context, lacks):
    """Sentences: what this experiment could not use."""
    said = [f"the Python here has no {name}" + (f": {PACKAGES[name]}" if PACKAGES[name] else "")
            for name in lacks]
    if not context.python:
        said.append(context.unavailable.get("torch", "no Python with torch"))
    try:
        said += [f"this millrace-train has no --{flag}" for flag in experiment.FLAGS
                 if flag not in context.train_flags()]
    except NotAvailable as reason:
        said.append(str(reason))
    return said


def pack(programs, kind, source, output, *words):
    said = subprocess.run([programs["millrace-data"], "pack", f"--format={kind}", *words,
                           f"--input={source}", f"--output={output}"],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if said.returncode != 0:
        sys.exit(f"packing '{source}' failed: {said.stderr.strip()}")
    return output


def make_context(config, options, work, cores):
    programs = config["programs"]
    digits = pictures.prepare(config["digits"]["source"], config["digits"]["name"],
                              os.path.join(work, "idx"), QUICK_PICTURES if options.quick else 0)
    for split in ("train", "test"):
        digits[split] = pack(programs, "idx", digits["folder"], f"lmdb:{work}/{split}.lmdb",
                             f"--split={split}")
    photos = config.get("photos", "")
    photos_uri = pack(programs, "imagefolder", photos, f"lmdb:{work}/photographs.lmdb") if photos else ""
    cuda, lacks = python_facts(config.get("python", ""))
    context = Context(
        programs=programs, python=config.get("python", ""),
        unavailable=config.get("unavailable", {}), digits=digits, photos=photos,
        photos_uri=photos_uri, work=work, output=options.output, cores=cores, threads=cores,
        quick=options.quick, cuda=cuda, namespaces=tuple(config.get("namespaces", ())))
    return context, lacks


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--config", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument("--cores", type=int, default=0)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    # So that what it has started is stopped: see host.run() and servers.Server.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    known = experiments.every()
    numbers = chosen(options.only, known)
    with open(options.config, encoding="utf-8") as file:
        config = json.load(file)
    available = sorted(os.sched_getaffinity(0))
    cores = available[:options.cores or len(available)]
    os.sched_setaffinity(0, cores)
    options.output = os.path.abspath(options.output)
    os.makedirs(options.output, exist_ok=True)
    path = os.path.join(options.output, "results.json")
    results = articles_page.load(path)

    with tempfile.TemporaryDirectory(prefix="millrace-articles.", dir=config.get("work")) as work:
        try:
            context, lacks = make_context(config, options, work, len(cores))
        except (ValueError, OSError, EOFError) as error:
            sys.exit(str(error))
        for number in numbers:
            begun = time.time()
            # Logs of an earlier run would be drawn into those of this one.
            shutil.rmtree(os.path.join(options.output, f"experiment-{number}"), ignore_errors=True)
            found = measure(known[number], context, options.rounds or
                            (1 if options.quick else known[number].ROUNDS),
                            lambda line: print(line, flush=True))
            found.update({
                "date": datetime.date.today().isoformat(), "commit": host.commit(),
                "machine": host.machine(), "cores": len(cores), "threads": context.threads,
                "quick": options.quick, "cuda": context.cuda,
                "data": known[number].data(context),
                "missing": missing(known[number], context, lacks),
                "minutes": (time.time() - begun) / 60})
            results["experiments"][str(number)] = found
            # After each: a run may take an hour.
            articles_page.store(results, path)
            with open(os.path.join(options.output, "results.md"), "w", encoding="utf-8") as file:
                file.write(articles_page.all_sections(results))
            print(f"\n{articles_page.section(known[number], found)}\n", flush=True)
    print(f"results: {path}")


if __name__ == "__main__":
    main()
