"""Runs the rows of comparison.py in turn, round by round, on the same cores, and writes results.json.

    run.py --config=FILE --output=DIR [--rounds=5] [--only=WORD,...] [--cores=2] [--timeout=180]

The configuration is a JSON object with the fields of comparison.Context but `specs` and `threads`,
and one more: "after", [[name, words...], ...], programs run once at the end, whose output is kept. The order within a round turns from round to round. Everything runs
on the first cores that this process may use.
"""

import argparse
import datetime
import json
import os
import signal
import subprocess
import sys
import time

import comparison
import report
from host import busy_share, commit, machine, parse, run

CPU_UNITS = {"cpu_seconds_per_1000": "s/1000",
             "cpu_seconds_per_gigabyte": "s/GB, client",
             "client_cpu_seconds_per_gigabyte": "s/GB, client"}


def preload_error(environment):
    """A library that cannot be loaded first is left out with a warning: then the figure would be
    another program's."""
    if "LD_PRELOAD" not in dict(environment):
        return ""
    result = subprocess.run(["true"], env={**os.environ, **dict(environment)}, capture_output=True,
                            text=True, check=False)
    return result.stderr.strip()


def chosen(only):
    rows = comparison.ROWS
    if not only:
        return [r for r in rows if not r.optional]
    words = only.split(",")
    known = {r.group for r in rows} | {r.key for r in rows}
    if unknown := [w for w in words if w not in known]:
        sys.exit(f"--only: '{unknown[0]}' is neither a group ({', '.join(comparison.GROUPS)}) nor a "
                 f"row ({', '.join(r.key for r in rows)})")
    keys = {r.key for r in rows if r.group in words or r.key in words}
    # What they are compared with is measured too.
    keys |= {r.reference or comparison.REFERENCES.get(r.group) for r in rows if r.key in keys}
    return [r for r in rows if r.key in keys]


def measure(rows, context, rounds, timeout, say):
    """{key: {values, cpu, versions, error}} and the state of the machine before each round."""
    results = {r.key: {"values": [], "cpu": [], "versions": {}, "error": ""} for r in rows}
    states = []
    for number in range(rounds):
        states.append({"busy_before": round(busy_share(), 3), "load": os.getloadavg()[0]})
        say(f"round {number + 1} of {rounds} ({100 * states[-1]['busy_before']:.0f} % of the "
            f"machine busy before it)")
        if states[-1]["busy_before"] > 0.1:
            say("  warning: something else runs on this machine; the figures mean less")
        turn = number * len(rows) // rounds
        for row in rows[turn:] + rows[:turn]:
            result = results[row.key]
            if result["error"]:
                continue
            words = context.unavailable.get(row.key) or row.command(context)
            result["error"] = words if isinstance(words, str) else preload_error(row.environment)
            if result["error"]:
                say(f"  {row.key}: {result['error']}")
                continue
            output, result["error"] = run(words, timeout, row.environment)
            if result["error"]:
                say(f"  {row.key}: {result['error']}")
                continue
            found = parse(output)
            result["values"].append(found[row.value])
            result["cpu"].append(found.get(row.cpu))
            result["versions"].update(found.get("versions", {}))
            say(f"  {row.key}: {found[row.value]:,.4g}")
    return results, states


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--config", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=180)
    options = parser.parse_args()
    # So that what it has started is stopped: see run().
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    with open(options.config, encoding="utf-8") as file:
        config = json.load(file)
    after = config.pop("after", [])
    rows = chosen(options.only)

    cores = sorted(os.sched_getaffinity(0))[:options.cores]
    os.sched_setaffinity(0, cores)
    os.makedirs(options.output, exist_ok=True)
    specs = {}
    for name, text in comparison.SPECS.items():
        specs[name] = os.path.join(config["work"], f"{name}.textproto")
        with open(specs[name], "w", encoding="utf-8") as file:
            file.write(text)
    context = comparison.Context(specs=specs, threads=options.cores, **config)
    sizes = [os.path.getsize(os.path.join(folder, name))
             for folder, _, names in os.walk(context.photos) for name in names
             if name.endswith(".jpg")]

    begun = time.time()
    results, states = measure(rows, context, options.rounds, options.timeout,
                              lambda line: print(line, flush=True))
    found = {
        "date": datetime.date.today().isoformat(), "commit": commit(), "machine": machine(),
        "used_cores": len(cores), "threads": options.cores, "rounds": options.rounds,
        "seconds": context.seconds, "states": states,
        "photographs": {"count": len(sizes), "mean_bytes": sum(sizes) / max(1, len(sizes))},
        "rows": {r.key: {"group": r.group, "label": r.label, "ours": r.ours,
                         "reference": r.reference, "cpu_unit": CPU_UNITS[r.cpu], **results[r.key]}
                 for r in rows},
        "goals": [g for g in comparison.GOALS if g[0] in results and g[1] in results],
        "cpu_goals": [g for g in comparison.CPU_GOALS if g[0] in results and g[1] in results],
        "after": {},
    }
    for name, *words in after:
        print(f"{name}", flush=True)
        output, error = run(words, 600)
        found["after"][name] = output or error
    found["minutes"] = (time.time() - begun) / 60
    path = os.path.join(options.output, "results.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(found, file, indent=1)
        file.write("\n")
    print()
    print(report.text(found))
    print(f"results: {path}")


if __name__ == "__main__":
    main()
