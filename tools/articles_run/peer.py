"""What the Python programs that Millrace is compared with have in common: training over epochs with
its times, evaluation, TensorBoard logs, and the processor time that it took.

    peer.py --log=DIR NAME=VALUE...    writes single figures as a TensorBoard log

Needs torch; imports of this module alone do not.
"""

import contextlib
import json
import os
import sys
import time

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
                             "bench_peers"))

from cpu_time import cpu_seconds  # noqa: E402 (the path comes first)


class Log:
    """TensorBoard's scalars; without a folder or without the package nothing is written, and
    `reason` says why."""

    def __init__(self, folder):
        self.reason = "not asked for"
        self._writer = None
        if not folder:
            return
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            self.reason = f"not written: {error}"
            return
        self.reason = ""
        self._writer = SummaryWriter(folder)

    def add(self, name, value, step):
        if self._writer is not None:
            self._writer.add_scalar(name, value, step)

    def close(self):
        if self._writer is not None:
            self._writer.close()


def choose_device():
    import torch
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def autocast(device, mixed):
    """float16 on a GPU, bfloat16 on the CPU, as torch.autocast recommends them."""
    import torch
    if not mixed:
        return contextlib.nullcontext()
    return torch.autocast(device.type, torch.float16 if device.type == "cuda" else torch.bfloat16)


def train_epochs(batches, model, device, epochs, mixed=False, evaluate=None, log=None,
                 optimizer=None, fused=None):
    """Trains with cross entropy and Adam (1e-3) or another optimizer. `batches(epoch)` is an iterable
    of (images, labels); `evaluate()` gives an accuracy and does not count; `fused` is Adam's (None:
    torch's default, which on the CPU is not fused). Gives a run: see stats.py."""
    import torch
    optimizer = optimizer or torch.optim.Adam(model.parameters(), 1e-3, fused=fused)
    scaler = torch.amp.GradScaler("cuda", enabled=mixed and device.type == "cuda")
    run = {"epoch_seconds": [], "loss": [], "accuracy": [], "stall": [], "device": str(device)}
    cpu, samples = [], []
    for epoch in range(epochs):
        model.train()
        total = torch.zeros((), dtype=torch.float64, device=device)
        count = 0
        waited = 0.0
        begun = now = time.perf_counter()
        iterator = iter(batches(epoch))
        while True:
            batch = next(iterator, None)
            waited += time.perf_counter() - now
            if batch is None:
                break
            images = batch[0].to(device, non_blocking=True)
            labels = batch[1].to(device, non_blocking=True)
            optimizer.zero_grad(set_to_none=True)
            with autocast(device, mixed):
                loss = torch.nn.functional.cross_entropy(model(images), labels)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            total += loss.detach() * len(labels)
            count += len(labels)
            now = time.perf_counter()
        mean = (total / count).item()  # waits for the device
        seconds = time.perf_counter() - begun
        cpu.append(cpu_seconds())
        samples.append(count)
        run["epoch_seconds"].append(seconds)
        run["loss"].append(mean)
        run["stall"].append(waited / seconds)
        if log:
            log.add("Loss/train", mean, epoch + 1)
            log.add("Time/epoch", seconds, epoch + 1)
            log.add("Time/stall_share", waited / seconds, epoch + 1)
        if evaluate:
            run["accuracy"].append(evaluate())
            if log:
                log.add("Accuracy/val", run["accuracy"][-1], epoch + 1)
    run["samples"] = samples[-1]
    if epochs > 1 and not evaluate:
        run["cpu_per_1000"] = (cpu[-1] - cpu[0]) / sum(samples[1:]) * 1000
    return run


def report(run, log=None):
    """The last line that a program prints. Loaders' threads and processes end with it."""
    import torch
    run.setdefault("versions", {})["torch"] = torch.__version__
    if log:
        log.close()
        if log.reason not in ("", "not asked for"):
            run["tensorboard"] = log.reason
    print(json.dumps(run), flush=True)


def main(arguments):
    if not arguments or not arguments[0].startswith("--log="):
        sys.exit(__doc__)
    log = Log(arguments[0].partition("=")[2])
    for argument in arguments[1:]:
        name, _, value = argument.partition("=")
        log.add(name, float(value), 0)
    log.close()
    print(json.dumps({"tensorboard": log.reason}))


if __name__ == "__main__":
    main(sys.argv[1:])
