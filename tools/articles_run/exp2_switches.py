"""Experiment 2: the small convolutional network, 48,000 pictures for training and 12,000 for judging,
with larger batches, pinning, mixed precision and a graph switched on: as published (after 5 epochs, in
the same model) and fair (a fresh model for each switch).
"""

import os

import experiments
import servers
import stats
from context import NotAvailable

NUMBER = 2
TITLE = "a CNN on 28 x 28 pictures, 80 % for training, 20 % for judging"
ROUNDS = 3
FLAGS = ("tensorboard", "precision", "graph", "save_weights", "init_weights")
BATCH, LARGE = 64, 128
SPLIT = 0.8
# Rows of both sides: (key, label, batch, switches).
FAIR = [
    ("plain", "batch 64, nothing switched on", BATCH, ()),
    ("batch", "batch 128", LARGE, ()),
    ("pin", "batch 64, pinned", BATCH, ("pin",)),
    ("mixed", "batch 64, mixed precision", BATCH, ("mixed",)),
    ("graph", "batch 64, graph", BATCH, ("graph",)),
    ("all", "batch 128 and every switch there is", LARGE, ("pin", "mixed", "graph")),
]
# As published: what the second half of the epochs is trained with.
STAGES = [("first", "epochs 1-{n}: batch 64, nothing switched on"),
          ("second", "epochs {m}-{k}: batch 128 and every switch there is"),
          ("control", "epochs {m}-{k} instead: as before, nothing switched on")]


def data(context):
    return experiments.digits(context)


def sizes(quick):
    return {"epochs": 2 if quick else 5, "batch": BATCH, "large_batch": LARGE, "split": SPLIT}


# --- Python ----------------------------------------------------------------------------------------


def _python(context, number, seed, batch, switches, *words, log="", optional=False):
    """`optional`: leaves out what this machine cannot do, instead of refusing."""
    flags = {"pin": "--pin", "mixed": "--mixed", "graph": "--compile"}
    used = []
    for switch in switches:
        if switch == "pin" and not context.cuda:
            if optional:
                continue
            raise NotAvailable("no CUDA device here: torch pins nothing without one")
        used.append(flags[switch])
    if log:
        used.append(f"--tensorboard={context.log_folder(NUMBER, log, number)}")
    digits = context.digits
    run = context.peer("peer_digits.py", digits["folder"], "--model=cnn",
                       f"--mean={digits['mean']}", f"--stddev={digits['stddev']}",
                       f"--workers={min(2, context.cores)}", f"--seed={seed}", f"--split={SPLIT}",
                       f"--epochs={sizes(context.quick)['epochs']}", f"--batch_size={batch}",
                       *used, *words)
    run["switches"] = [w.lstrip("-") for w in used if not w.startswith("--tensorboard")]
    return run


def _python_fair(batch, switches, optional):
    def measure(context, number, seed):
        return _python(context, number, seed, batch, switches, optional=optional)
    return measure


def _python_stages(context, number, seed):
    weights = os.path.join(context.work, f"python-{number}.pt")
    return {
        "python_first": _python(context, number, seed, BATCH, (), f"--save={weights}",
                                log="original/python"),
        "python_second": _python(context, number, seed + 1000, LARGE, FAIR[-1][3],
                                 f"--load={weights}", log="optimized/python", optional=True),
        "python_control": _python(context, number, seed + 1000, BATCH, (), f"--load={weights}"),
    }


# --- Millrace --------------------------------------------------------------------------------------


def spec(digits, begin, end):
    """The pipeline of a share of the training pictures."""
    return (f'sources {{ dataset: "train" subset {{ from: {begin} to: {end} seed: 1 }} }} '
            f'preset: "{digits["preset"]}"')


def _switch_flags(context, switches, optional):
    """Flags of the trainer; pinning has none: on a CUDA device the client always pins."""
    flags = []
    for switch in switches:
        if switch == "pin":
            if not optional:
                raise NotAvailable("no switch: batches for a CUDA device always lie in pinned "
                                   "memory, and without one there is nothing to pin")
            continue
        name = {"mixed": "precision", "graph": "graph"}[switch]
        if name not in context.train_flags():
            if optional:
                continue
            context.need_flags(name)
        if switch == "mixed":
            flags.append(f"--precision={'float16' if context.cuda else 'bfloat16'}")
        else:
            flags.append("--graph")
    return flags


def _millrace(context, number, seed, batch, switches, *words, log="", optional=False):
    used = _switch_flags(context, switches, optional)
    digits = context.digits
    folder = context.log_folder(NUMBER, log, number) if log else ""
    with servers.Server(context, [f"--dataset=train={digits['train']}"]) as server:
        run = context.train(
            server, "--model=cnn", "--optimizer=adam", "--lr=0.001", f"--batch_size={batch}",
            "--last_batch=pad", "--dataset=train", "--eval_dataset=train", *used, *words,
            epochs=sizes(context.quick)["epochs"], seed=seed, log=folder,
            specs=[("pipeline", spec(digits, 0, SPLIT)), ("eval_pipeline", spec(digits, SPLIT, 1))])
    run["switches"] = [w.lstrip("-") for w in used]
    return run


def _millrace_fair(batch, switches, optional):
    def measure(context, number, seed):
        return _millrace(context, number, seed, batch, switches, optional=optional)
    return measure


def _millrace_stages(context, number, seed):
    context.need_flags("save_weights", "init_weights")
    weights = os.path.join(context.work, f"millrace-{number}.pt")
    return {
        "millrace_first": _millrace(context, number, seed, BATCH, (), f"--save_weights={weights}",
                                    log="original/millrace"),
        "millrace_second": _millrace(context, number, seed + 1000, LARGE, FAIR[-1][3],
                                     f"--init_weights={weights}", log="optimized/millrace",
                                     optional=True),
        "millrace_control": _millrace(context, number, seed + 1000, BATCH, (),
                                      f"--init_weights={weights}"),
    }


def _stage_labels(side, context):
    n = sizes(context.quick)["epochs"]
    return {f"{side.lower()}_{key}": f"{side}, " + text.format(n=n, m=n + 1, k=2 * n)
            for key, text in STAGES}


def rows(context):
    made = [experiments.Row(_stage_labels("Python", context), _python_stages),
            experiments.Row(_stage_labels("Millrace", context), _millrace_stages, ours=True)]
    for key, label, batch, switches in FAIR:
        made.append(experiments.one(f"python_{key}", f"Python, {label}",
                                    _python_fair(batch, switches, key == "all")))
        made.append(experiments.one(f"millrace_{key}", f"Millrace, {label}",
                                    _millrace_fair(batch, switches, key == "all"), ours=True))
    return made


def _cells(runs):
    def of_epochs(name, form):
        kept = [run for run in runs if run[name]]
        if not kept:
            return "-"
        return " ".join(form.format(stats.median([run[name][e] for run in kept]))
                        for e in range(len(kept[0][name])))
    used = runs[0].get("switches", [])
    return [stats.spread([stats.epoch_time(run) for run in runs]),
            of_epochs("epoch_seconds", "{:.1f}"), of_epochs("loss", "{:.3f}"),
            of_epochs("accuracy", "{:.4f}"), ", ".join(used) or "none"]


HEAD = ["", "epoch, s", "each epoch, s", "training loss", "validation accuracy", "switched on",
        "published accuracy"]
# After the last epoch.
PUBLISHED = {"python_first": "0.9748", "python_second": "0.9797", "python_control": "not published"}


def tables(found):
    lines = []
    for title, keys in (
            ("As published: the same model goes on, with everything switched on", STAGES),
            ("Fair: a fresh model for each switch", FAIR)):
        wanted = [f"{side}_{entry[0]}" for entry in keys for side in ("python", "millrace")]
        lines += [f"**{title}**", "", stats.table(HEAD, [
            stats.row_or_reason(row, len(HEAD) - 1, _cells) + [PUBLISHED.get(key, "")]
            for key, row in found["rows"].items() if key in wanted]), ""]
    lines += [f"- {sentence}" for side in ("python", "millrace")
              for sentence in gain_sentences(found, side)]
    return "\n".join(lines).rstrip()


def gain_sentences(found, side):
    """Of the accuracy that the second half of the epochs adds, how much they add without a switch,
    and what the switches do to an epoch's time."""
    def last(key):
        return [run["accuracy"][-1] for run in experiments.runs(found, f"{side}_{key}")
                if run["accuracy"]]

    name = side.capitalize()
    ends = [last(key) for key, _ in STAGES]
    said = []
    if all(ends):
        first, second, control = map(stats.median, ends)
        compared = stats.within_noise(ends[1], ends[2])
        if compared is None:
            told = "says nothing yet, with fewer than 3 seeds"
        else:
            told = "is within noise" if compared[2] else "is what the switches did"
        said.append(
            f"{name}: validation accuracy {first:.4f} after the first half; {second:.4f} after the "
            f"second with every switch ({100 * (second - first):+.2f} points), {control:.4f} after "
            f"as many epochs without any ({100 * (control - first):+.2f} points): "
            f"the difference of {100 * (second - control):+.2f} points {told}.")
    plain, every = (experiments.runs(found, f"{side}_{key}") for key in ("plain", "all"))
    if plain and every:
        ratio = stats.spread(stats.ratios(every, plain, stats.epoch_time), lambda v: f"{v:.2f}")
        said.append(f"{name}, a fresh model: with everything that there is switched on an epoch "
                    f"takes {ratio} of its time.")
    return said


def draw(found, figure):
    axes = figure.subplots(1, 2, gridspec_kw={"width_ratios": [1.4, 1]})
    if not experiments.bars(axes[0], found, stats.epoch_time, "seconds an epoch"):
        return False
    for side in ("python", "millrace"):
        parts = {key: [run for run in experiments.runs(found, f"{side}_{key}") if run["accuracy"]]
                 for key, _ in STAGES}
        if not all(parts.values()):
            continue
        line = {key: [stats.median([run["accuracy"][e] for run in runs])
                      for e in range(len(runs[0]["accuracy"]))] for key, runs in parts.items()}
        n = len(line["first"])
        name = side.capitalize()
        color = "#1f6fb4" if side == "millrace" else "#707070"
        axes[1].plot(range(1, 2 * n + 1), line["first"] + line["second"], marker="o", color=color,
                     label=f"{name}, switches on after {n}")
        axes[1].plot(range(1, 2 * n + 1), line["first"] + line["control"], marker="x", color=color,
                     linestyle="--", label=f"{name}, only more epochs")
    axes[1].set_xlabel("epoch", fontsize=8)
    axes[1].set_title("validation accuracy", fontsize=9)
    if axes[1].lines:
        axes[1].legend(fontsize=7)
    return True
