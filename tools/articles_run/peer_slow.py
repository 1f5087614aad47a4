"""Seconds in which torch's DataLoader gives out samples that each take a while to load, as from a slow
storage: 3 x 224 x 224 float32, without a training. Two passes; the first also starts the workers.

    peer_slow.py --workers=N [--samples=10000] [--latency_us=1000] [--batch_size=64]
                 [--tensorboard=DIR]
"""

import argparse
import time

import peer


class SlowSamples:
    def __init__(self, samples, latency):
        self.samples, self.latency = samples, latency

    def __len__(self):
        return self.samples

    def __getitem__(self, index):
        import torch
        time.sleep(self.latency)
        return torch.rand(3, 224, 224), index % 10


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--workers", type=int, required=True)
    parser.add_argument("--samples", type=int, default=10000)
    parser.add_argument("--latency_us", type=int, default=1000)
    parser.add_argument("--batch_size", type=int, default=64)
    parser.add_argument("--tensorboard", default="")
    options = parser.parse_args()
    import torch
    loader = torch.utils.data.DataLoader(
        SlowSamples(options.samples, options.latency_us / 1e6), batch_size=options.batch_size,
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
