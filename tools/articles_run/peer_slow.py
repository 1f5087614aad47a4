"""Seconds in which torch's DataLoader gives out samples that each take a while to load, as from a slow
storage: 3 x 224 x 224 float32, without a training. Two passes; the first also starts the workers.

    peer_slow.py --workers=N --made=before|inside [--samples=10000] [--latency_us=1000]
                 [--batch_size=64] [--tensorboard=DIR]

--made=before: all samples lie in memory before the first pass, and __getitem__ sleeps and hands one
out. --made=inside: __getitem__ sleeps and then draws the sample's 150,528 random numbers, which takes
processor time that a storage does not.
"""

import argparse
import time

import peer


SHAPE = (3, 224, 224)
BYTES = 4 * 3 * 224 * 224  # of a sample


class MadeBefore:
    def __init__(self, samples, latency):
        import torch
        self.latency = latency
        self.images = torch.rand(samples, *SHAPE)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        time.sleep(self.latency)
        return self.images[index], index % 10


class MadeInside:
    def __init__(self, samples, latency):
        self.samples, self.latency = samples, latency

    def __len__(self):
        return self.samples

    def __getitem__(self, index):
        import torch
        time.sleep(self.latency)
        return torch.rand(*SHAPE), index % 10


DATASETS = {"before": MadeBefore, "inside": MadeInside}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--workers", type=int, required=True)
    parser.add_argument("--made", choices=sorted(DATASETS), required=True)
    parser.add_argument("--samples", type=int, default=10000)
    parser.add_argument("--latency_us", type=int, default=1000)
    parser.add_argument("--batch_size", type=int, default=64)
    parser.add_argument("--tensorboard", default="")
    options = parser.parse_args()
    import torch
    loader = torch.utils.data.DataLoader(
        DATASETS[options.made](options.samples, options.latency_us / 1e6), batch_size=options.batch_size,
        num_workers=options.workers, persistent_workers=options.workers > 0)
    log = peer.Log(options.tensorboard)
    run = {"epoch_seconds": [], "samples": options.samples, "seed": 0}
    for number in range(2):
        begun = time.perf_counter()
        count = sum(len(labels) for _, labels in loader)
        run["epoch_seconds"].append(time.perf_counter() - begun)
        if count != options.samples:
            raise RuntimeError(f"the loader gave {count} samples of {options.samples}")
        log.add("Time/pass", run["epoch_seconds"][-1], number + 1)
    peer.report(run, log)


if __name__ == "__main__":
    main()
