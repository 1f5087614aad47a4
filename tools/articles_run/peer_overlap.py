"""Preprocessing that takes as long as the training step, in Python: one after the other (DataLoader
without workers) and at the same time (one worker). Prints a JSON object: step_ms (from tensors in
memory), load_ms, serial_ms and overlapped_ms, each of a batch.

    peer_overlap.py FOLDER --mean=M --stddev=S [--steps=60] [--batch_size=64] [--seed=1]
                    [--tensorboard=DIR]

The cnn of peer_digits.py learns with one thread. A sample's preprocessing computes for as long as a
step takes, divided by the batch size: processor time, not waiting.
"""

import argparse
import time

import peer
import peer_digits


class Busy:
    """Samples whose preprocessing uses `seconds` of processor time."""

    def __init__(self, images, labels, seconds):
        self.images, self.labels, self.seconds = images, labels, seconds

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        until = time.thread_time() + self.seconds
        while time.thread_time() < until:
            pass
        return self.images[index], self.labels[index]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder")
    parser.add_argument("--mean", type=float, required=True)
    parser.add_argument("--stddev", type=float, required=True)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch_size", type=int, default=64)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tensorboard", default="")
    options = parser.parse_args()
    import torch
    torch.set_num_threads(1)
    device = peer.choose_device()
    torch.manual_seed(options.seed)
    images, labels = peer_digits.read(options.folder, "train")
    count = options.steps * options.batch_size
    if count > len(labels):
        raise RuntimeError(f"{options.folder} has {len(labels)} pictures, not {count}")
    images = peer_digits.normalised(images[:count], options.mean, options.stddev)
    labels = labels[:count]
    model = peer_digits.network("cnn").to(device)
    log = peer.Log(options.tensorboard)

    def milliseconds(batches):
        """Of a step, in the second of two epochs."""
        run = peer.train_epochs(batches, model, device, 2)
        return 1000 * run["epoch_seconds"][1] / options.steps

    def loader(seconds, workers):
        made = torch.utils.data.DataLoader(
            Busy(images, labels, seconds), batch_size=options.batch_size, shuffle=True,
            num_workers=workers, persistent_workers=workers > 0)
        return lambda epoch: made

    def in_memory(epoch):
        del epoch
        for part in torch.randperm(count).split(options.batch_size):
            yield images[part], labels[part]

    run = {"seed": options.seed, "step_ms": milliseconds(in_memory)}
    seconds = run["step_ms"] / 1000 / options.batch_size
    begun = time.perf_counter()
    for _ in loader(seconds, 0)(0):
        pass
    run["load_ms"] = 1000 * (time.perf_counter() - begun) / options.steps
    run["serial_ms"] = milliseconds(loader(seconds, 0))
    run["overlapped_ms"] = milliseconds(loader(seconds, 1))
    for name in ("step_ms", "load_ms", "serial_ms", "overlapped_ms"):
        log.add(f"Time/{name}", run[name], 0)
    peer.report(run, log)


if __name__ == "__main__":
    main()
