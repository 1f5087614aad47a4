"""Images a second from a folder of photographs as they lie, in one Python process: millrace.DataLoader
with the server that it starts, beside torch's DataLoader over torchvision's ImageFolder. Called by
tools/bench-folder, with a Python that has torch, torchvision and the wheels.

    folder.py --photos=DIR [--rounds=5] [--epochs=3] [--files=N --work=DIR]

All rows make the same: a random crop of 224, flipped, float32, normalised, batches of 64. The first
epoch of each does not count. --files also measures the first batch of a folder of N files, which are
made in --work.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

BATCH = 64
WORKERS = 2
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
MAX_LINKS = 60_000  # of one file; ext4 allows 65,000


def augment(to_image):
    import torch
    from torchvision.transforms import v2
    return v2.Compose([*to_image, v2.RandomResizedCrop(224, antialias=True),
                       v2.RandomHorizontalFlip(0.5), v2.ToDtype(torch.float32, scale=True),
                       v2.Normalize(MEAN, STD)])


def image_folder(photos, load):
    """As torchvision's page shows it. One thread a worker, as torch sets it."""
    import torch
    from torchvision import datasets
    from torchvision.transforms import v2
    # ImageFolder's own loader decodes with Pillow.
    other = {} if load is None else {"loader": load}
    dataset = datasets.ImageFolder(photos, augment([v2.ToImage()] if load is None else []), **other)
    return torch.utils.data.DataLoader(dataset, BATCH, shuffle=True, num_workers=WORKERS,
                                       drop_last=True, persistent_workers=True)


def decode_jpeg(path):
    from torchvision.io import ImageReadMode, decode_jpeg as decode, read_file
    return decode(read_file(path), ImageReadMode.RGB)


def millrace_loader(photos):
    import millrace
    from torchvision.transforms import v2
    return millrace.DataLoader(f"imagefolder:{photos}", pipeline=augment([v2.ToImage()]),
                               batch_size=BATCH, shuffle=True, drop_last=True)


LOADERS = {
    "millrace": ("`millrace.DataLoader`", millrace_loader),
    "decode_jpeg": ("`DataLoader(ImageFolder)`, 2 workers, torchvision's decode_jpeg",
                    lambda photos: image_folder(photos, decode_jpeg)),
    "pillow": ("`DataLoader(ImageFolder)`, 2 workers, Pillow",
               lambda photos: image_folder(photos, None)),
}


def measure(name, photos, epochs):
    """One process, so that nothing of another loader is left. Imports are not timed: a training program
    has torch anyhow, and its import takes longer than the rest."""
    import torch
    import torchvision
    if name == "millrace":
        import millrace
    begun = time.monotonic()
    loader = LOADERS[name][1](photos)
    iterator = iter(loader)
    images, labels = next(iterator)
    first = time.monotonic() - begun
    assert tuple(images.shape) == (BATCH, 3, 224, 224) and labels.shape == (BATCH,), images.shape
    samples, counted_from = 0, None
    for epoch in range(epochs):
        for images, _ in iterator:
            samples += len(images)
        if epoch + 1 < epochs:
            if epoch == 0:
                samples, counted_from = 0, time.monotonic()
            iterator = iter(loader)
    rate = samples / (time.monotonic() - counted_from) if counted_from else 0
    print(json.dumps({"first": first, "rate": rate}), flush=True)
    os._exit(0)  # the end of worker processes is not measured


def run(name, photos, epochs):
    said = subprocess.run([sys.executable, os.path.abspath(__file__), f"--one={name}",
                           f"--photos={photos}", f"--epochs={epochs}"], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(said.stdout.splitlines()[-1])


def wait_for_servers_end():
    """The server of the user ends 10 s after its last loader: each row starts its own."""
    for _ in range(300):
        if subprocess.run(["pgrep", "-f", "millrace-server.*--lease_socket"],
                          stdout=subprocess.DEVNULL, check=False).returncode:
            return
        time.sleep(0.1)
    raise SystemExit("a millrace-server with --lease_socket still runs: another program uses it")


def make_files(work, photos, count):
    """`count` names of the photographs' files, in folders of 1,000, as hard links to copies."""
    root = os.path.join(work, "many")
    sources = sorted(os.path.join(folder, name) for folder, _, names in os.walk(photos)
                     for name in names)
    copies = []
    for i in range(-(-count // MAX_LINKS)):
        copies.append(os.path.join(work, f"copy{i}.jpg"))
        with open(sources[i % len(sources)], "rb") as file, open(copies[-1], "wb") as copy:
            copy.write(file.read())
    for i in range(count):
        if i % 1000 == 0:
            os.makedirs(f"{root}/class{i // 1000:05d}")
        os.link(copies[i % len(copies)], f"{root}/class{i // 1000:05d}/{i:07d}.jpg")
    return root


def spread(values, form):
    return (f"{form % statistics.median(values)} "
            f"({form % min(values)}–{form % max(values)})")


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--photos", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--files", type=int, default=0)
    parser.add_argument("--work", default="")
    parser.add_argument("--one", choices=LOADERS)
    options = parser.parse_args(arguments)
    if options.one:
        return measure(options.one, options.photos, options.epochs)
    found = {name: [] for name in LOADERS}
    for turn in range(options.rounds):
        order = list(LOADERS)
        for name in order if turn % 2 == 0 else reversed(order):
            wait_for_servers_end()
            found[name].append(run(name, options.photos, options.epochs))
    print(f"{options.rounds} rounds, {len(os.sched_getaffinity(0))} cores for everything, from the "
          "second epoch on. Median (lowest–highest).\n")
    print("| what | images/s | Millrace ÷ this | from `DataLoader(…)` to the first batch, s |\n|---|---|---|---|")
    for name, (title, _) in LOADERS.items():
        ratios = [a["rate"] / b["rate"] for a, b in zip(found["millrace"], found[name])]
        print(f"| {title} | {spread([r['rate'] for r in found[name]], '%.0f')} | "
              f"{'' if name == 'millrace' else spread(ratios, '%.2f')} | "
              f"{spread([r['first'] for r in found[name]], '%.2f')} |", flush=True)
    if options.files:
        many = make_files(options.work, options.photos, options.files)
        firsts = []
        for _ in range(3):
            wait_for_servers_end()
            firsts.append(run("millrace", many, 0)["first"])
        print(f"\n{options.files:,} files, to the first batch: {firsts[0]:.1f} s without an index; "
              f"{firsts[1]:.2f} and {firsts[2]:.2f} s with it.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
