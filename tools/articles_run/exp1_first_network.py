"""Experiment 1: the first network (784-128-64-10, Adam, batch 64) on MNIST's format: torch's
DataLoader, tensors in memory, Millrace.
"""

import experiments
import servers
import stats
from context import NotAvailable

NUMBER = 1
TITLE = "784-128-64-10 on 28 x 28 pictures, Adam 1e-3, batch 64"
ROUNDS = 5
FLAGS = ("tensorboard", "repeat_batches")
MAX_RATIO = 1.15  # Millrace's epoch over the same C++, or Python, training from memory
BATCH = 64
REFERENCE = "cpp_memory"
MILLRACE = "millrace"
PYTHON = "python_millrace"
PYTHON_REFERENCE = "python_memory"
# The same batches by other ways: the losses of every step must be equal.
SAME = ["millrace", "millrace_same_host", "millrace_ahead", "millrace_both"]
BASELINE = "dataloader_0"
# Seconds for 5 epochs on an RTX 4090, with 8 workers where there are any.
PUBLISHED = {"dataloader_0": "22.67", "dataloader_2": "9.14", "dataloader_2_pin": "9.00"}
PINNED = [("dataloader_0", "dataloader_0_pin"), ("dataloader_2", "dataloader_2_pin")]


def data(context):
    return experiments.digits(context)


def sizes(quick):
    return {"epochs": 3 if quick else 5, "batch": BATCH}


def _digit_words(context, seed, *words):
    digits = context.digits
    return ("peer_digits.py", digits["folder"], f"--mean={digits['mean']}",
            f"--stddev={digits['stddev']}", f"--seed={seed}",
            f"--epochs={sizes(context.quick)['epochs']}", f"--batch_size={BATCH}", *words)


def _dataloader(workers, pin, log="", fused=False):
    def measure(context, number, seed):
        if pin and not context.cuda:
            raise NotAvailable("no CUDA device here: torch pins nothing without one")
        words = [f"--workers={workers}"] + ["--pin"] * pin + ["--fused"] * fused
        if log:
            words.append(f"--tensorboard={context.log_folder(NUMBER, log, number)}")
        return context.peer(*_digit_words(context, seed, *words))
    return measure


def _python_memory(*words):
    def measure(context, number, seed):
        del number
        return context.peer(*_digit_words(context, seed, "--loader=memory", *words))
    return measure


def _python_millrace(*words):
    """The loop of the DataLoader's rows; only the line that makes the loader is another."""
    def measure(context, number, seed):
        del number
        if context.python and "wheel" in context.unavailable:
            raise NotAvailable(context.unavailable["wheel"])
        digits = context.digits
        with servers.Server(context, [f"--dataset=train={digits['train']}"]) as server:
            return context.peer(*_digit_words(
                context, seed, "--loader=millrace", f"--endpoint={server.endpoint}",
                f"--preset={digits['preset']}", *words))
    return measure


def _cpp_memory(context, number, seed):
    del number
    digits = context.digits
    run = context.program_json(
        "memory_train", digits["folder"], str(sizes(context.quick)["epochs"]), str(BATCH),
        str(seed), str(digits["mean"]), str(digits["stddev"]))
    run["seed"] = seed
    return run


def _millrace(*flags, log="", repeat=False):
    """`repeat`: the batches of the first epoch again and again, which measures time and trains
    nothing."""
    def measure(context, number, seed):
        digits = context.digits
        more = list(flags)
        if repeat:
            context.need_flags("repeat_batches")
            more.append(f"--repeat_batches={-(-digits['train_samples'] // BATCH)}")
        else:
            more += ["--eval_dataset=test", f"--eval_preset={digits['preset']}"]
        folder = context.log_folder(NUMBER, log, number) if log else ""
        with servers.Server(context, [f"--dataset=train={digits['train']}",
                                      f"--dataset=test={digits['test']}"]) as server:
            return context.train(
                server, "--model=mlp", "--optimizer=adam", "--lr=0.001", f"--batch_size={BATCH}",
                "--last_batch=pad", "--dataset=train", f"--preset={digits['preset']}", *more,
                epochs=sizes(context.quick)["epochs"], seed=seed, log=folder, losses=not repeat)
    return measure


def rows(context):
    del context
    return [
        experiments.one("dataloader_0", "torch DataLoader, 0 workers",
                        _dataloader(0, False, "original")),
        experiments.one("dataloader_2", "torch DataLoader, 2 workers", _dataloader(2, False)),
        experiments.one("dataloader_0_pin", "torch DataLoader, 0 workers, pinned",
                        _dataloader(0, True)),
        experiments.one("dataloader_2_pin", "torch DataLoader, 2 workers, pinned",
                        _dataloader(2, True)),
        experiments.one("dataloader_2_fused", "torch DataLoader, 2 workers, Adam(fused=True)",
                        _dataloader(2, False, fused=True)),
        experiments.one("python_memory", "Python, tensors in memory", _python_memory()),
        experiments.one("python_memory_fused", "Python, tensors in memory, Adam(fused=True)",
                        _python_memory("--fused")),
        experiments.one(PYTHON, "Python, Millrace, one line changed", _python_millrace(),
                        ours=True),
        experiments.one(REFERENCE, "C++, tensors in memory", _cpp_memory, ours=True),
        experiments.one("millrace", "Millrace", _millrace(log="optimized"), ours=True),
        experiments.one("millrace_same_host", "Millrace, --same_host",
                        _millrace("--same_host"), ours=True),
        experiments.one("millrace_ahead", "Millrace, --prepare_ahead",
                        _millrace("--prepare_ahead"), ours=True),
        experiments.one("millrace_both", "Millrace, --same_host --prepare_ahead",
                        _millrace("--same_host", "--prepare_ahead"), ours=True),
        experiments.one("millrace_replay", "Millrace, the batches of one epoch repeated",
                        _millrace(repeat=True), ours=True),
    ]


def tables(found):
    reference = experiments.runs(found, REFERENCE)
    epochs = found["sizes"]["epochs"]

    def cells(runs):
        losses = [] if any(run.get("replay_batches") for run in runs) else [
            f"{stats.median([run['loss'][e] for run in runs]):.3f}" for e in (0, -1)]
        accuracy = stats.by_seed(runs, lambda run: stats.last(run["accuracy"]))
        stall = [stats.median(stats.counted(run["stall"])) for run in runs if run.get("stall")]
        return [
            stats.spread([stats.epoch_time(run) for run in runs]),
            stats.spread([sum(run["epoch_seconds"]) for run in runs]),
            stats.spread(stats.ratios(runs, reference, stats.epoch_time),
                         lambda v: f"{v:.2f}") if runs is not reference else "",
            f"{100 * stats.median(stall):.1f} %" if stall else "",
            " → ".join(losses),
            " · ".join(f"{a:.4f}" for a in accuracy),
        ]

    head = ["", "epoch, s", f"{epochs} epochs, s", "÷ C++ in memory", "waiting for data",
            "loss, first → last epoch", "test accuracy, a seed each",
            "published, 5 epochs, s (workers: 8)"]
    lines = [stats.table(head, [
        stats.row_or_reason(row, len(head) - 1, cells) + [PUBLISHED.get(key, "")]
        for key, row in found["rows"].items()]), ""]
    lines.append("- An epoch of Millrace over the same C++ training from memory, " + stats.verdict(
        stats.ratios(experiments.runs(found, MILLRACE), reference, stats.epoch_time), MAX_RATIO) + ".")
    if PYTHON in found["rows"]:  # results of before have no such row
        lines.append("- An epoch of the Python loop with Millrace over the same loop from tensors "
                     "in memory, " + stats.verdict(
                         stats.ratios(experiments.runs(found, PYTHON),
                                      experiments.runs(found, PYTHON_REFERENCE), stats.epoch_time),
                         MAX_RATIO) + ".")
    lines.append("- " + accuracy_sentence(found))
    lines.append("- " + equal_sentence(found))
    return "\n".join(lines)


def accuracy_sentence(found):
    ours, theirs = (stats.by_seed(experiments.runs(found, key),
                                  lambda run: stats.last(run["accuracy"]))
                    for key in (MILLRACE, BASELINE))
    compared = stats.within_noise(ours, theirs)
    if compared is None:
        return "Accuracy: fewer than 3 seeds of both, so nothing is said of it."
    difference, error, noise = compared
    return (f"Test accuracy, Millrace minus the DataLoader, over {len(ours)} and {len(theirs)} "
            f"seeds: {100 * difference:+.2f} percentage points, twice its standard error "
            f"{100 * error:.2f}: {'within noise' if noise else 'not noise'}.")


def equal_sentence(found):
    measured = [key for key in SAME if experiments.runs(found, key)]
    said = []
    if len(measured) > 1:
        compared, equal = stats.identical([experiments.runs(found, key) for key in measured],
                                          lambda run: run.get("step_losses"))
        said.append(f"The loss of every step of Millrace is the same, to the last digit written, "
                    f"with and without --same_host and --prepare_ahead in {equal} of {compared} "
                    f"rounds")
    pinned = [(a, b) for a, b in PINNED
              if experiments.runs(found, a) and experiments.runs(found, b)]
    for plain, pin in pinned:
        compared, equal = stats.identical([experiments.runs(found, plain),
                                           experiments.runs(found, pin)], lambda run: run["loss"])
        said.append(f"the epochs' losses of \"{found['rows'][plain]['label']}\" with and without "
                    f"pinning in {equal} of {compared}")
    if not pinned:
        said.append("pinning changes nothing where there is no CUDA device, and was not compared")
    text = "; ".join(said)
    return text[0].upper() + text[1:] + "."


def draw(found, figure):
    axes = figure.subplots(1, 2, gridspec_kw={"width_ratios": [1.4, 1]})
    if not experiments.bars(axes[0], found, stats.epoch_time, "seconds an epoch"):
        return False
    for key in (BASELINE, MILLRACE):
        if runs := experiments.runs(found, key):
            count = len(runs[0]["loss"])
            axes[1].plot(range(1, count + 1),
                         [stats.median([run["loss"][e] for run in runs]) for e in range(count)],
                         marker="o", label=found["rows"][key]["label"])
    axes[1].set_xlabel("epoch", fontsize=8)
    axes[1].set_title("training loss", fontsize=9)
    axes[1].legend(fontsize=8)
    return True
