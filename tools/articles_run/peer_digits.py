"""Trains the articles' networks for 28 x 28 pictures in Python, with torch's DataLoader, with
tensors in memory or with millrace.DataLoader, and prints a run (stats.py) as JSON.

    peer_digits.py FOLDER --mean=M --stddev=S [--model=mlp|cnn] [--loader=workers|memory|millrace]
                   [--endpoint=HOST:PORT --preset=NAME]
                   [--workers=N] [--pin] [--epochs=5] [--batch_size=64] [--seed=1] [--mixed]
                   [--fused] [--compile] [--split=0.8] [--save=FILE] [--load=FILE] [--tensorboard=DIR]

FOLDER holds plain IDX files. --loader=millrace takes the data set `train` of --endpoint, with the
pipeline --preset. --split trains on that share of the training pictures and evaluates on
the rest of them; otherwise the test pictures are what is evaluated on.
"""

import argparse
import os
import struct

import peer


def read_idx(path):
    import torch
    with open(path, "rb") as file:
        data = bytearray(file.read())
    sides = struct.unpack_from(f">{data[3]}I", data, 4)
    return torch.frombuffer(data, dtype=torch.uint8, offset=4 + 4 * data[3]).reshape(sides)


def read(folder, part):
    return (read_idx(os.path.join(folder, f"{part}-images-idx3-ubyte")),
            read_idx(os.path.join(folder, f"{part}-labels-idx1-ubyte")).long())


def network(name, classes=10):
    """The same layers, in the same order, as trainer/models: with the same seed the first weights
    are the same."""
    from torch import nn
    if name == "mlp":
        return nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 64),
                             nn.ReLU(), nn.Linear(64, classes))
    return nn.Sequential(nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                         nn.Linear(64 * 7 * 7, 128), nn.ReLU(), nn.Linear(128, classes))


class Pictures:
    """What torchvision's MNIST does for a sample, with the transforms of its example."""

    def __init__(self, images, labels, mean, stddev):
        from torchvision import transforms
        self.images, self.labels = images, labels
        self.prepare = transforms.Compose([transforms.ToTensor(),
                                           transforms.Normalize((mean,), (stddev,))])

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        from PIL import Image
        return self.prepare(Image.fromarray(self.images[index].numpy())), int(self.labels[index])


def normalised(images, mean, stddev):
    return ((images.float() / 255 - mean) / stddev).unsqueeze(1)


def workers_loader(options, images, labels):
    import torch
    loader = torch.utils.data.DataLoader(
        Pictures(images, labels, options.mean, options.stddev), batch_size=options.batch_size,
        shuffle=True, num_workers=options.workers, pin_memory=options.pin,
        persistent_workers=options.workers > 0)
    return lambda epoch: loader


def memory_loader(options, images, labels, device):
    """Everything normalised and on the device; a batch is picked from it."""
    import torch
    images, labels = normalised(images, options.mean, options.stddev).to(device), labels.to(device)

    def batches(epoch):
        del epoch
        for part in torch.randperm(len(labels)).to(device).split(options.batch_size):
            yield images[part], labels[part]
    return batches


def millrace_loader(options):
    import millrace
    loader = millrace.DataLoader(options.endpoint, "train", options.preset, options.batch_size,
                                 shuffle=True, seed=options.seed)

    def batches(epoch):
        loader.set_epoch(epoch)
        return loader
    return batches


def accuracy_of(model, images, labels):
    import torch

    def evaluate():
        model.eval()
        with torch.no_grad():
            right = sum((model(x).argmax(1) == y).sum()
                        for x, y in zip(images.split(1000), labels.split(1000)))
        return right.item() / len(labels)
    return evaluate


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder")
    parser.add_argument("--mean", type=float, required=True)
    parser.add_argument("--stddev", type=float, required=True)
    parser.add_argument("--model", choices=["mlp", "cnn"], default="mlp")
    parser.add_argument("--loader", choices=["workers", "memory", "millrace"],
                        default="workers")
    parser.add_argument("--endpoint", default="")
    parser.add_argument("--preset", default="")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--pin", action="store_true")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch_size", type=int, default=64)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mixed", action="store_true")
    parser.add_argument("--fused", action="store_true")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--split", type=float, default=0)
    parser.add_argument("--save", default="")
    parser.add_argument("--load", default="")
    parser.add_argument("--tensorboard", default="")
    options = parser.parse_args()

    import torch
    device = peer.choose_device()
    torch.manual_seed(options.seed)
    model = network(options.model).to(device)
    if options.load:
        model.load_state_dict(torch.load(options.load, weights_only=True))
    images, labels = read(options.folder, "train")
    if options.split:
        # The cut is the same for every seed.
        order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(1))
        first, second = order.tensor_split([round(options.split * len(labels))])
        judged = images[second], labels[second]
        images, labels = images[first], labels[first]
    else:
        judged = read(options.folder, "t10k")
    evaluate = accuracy_of(model, normalised(judged[0], options.mean, options.stddev).to(device),
                           judged[1].to(device))
    if options.loader == "memory":
        batches = memory_loader(options, images, labels, device)
    elif options.loader == "millrace":
        batches = millrace_loader(options)
    else:
        batches = workers_loader(options, images, labels)
    log = peer.Log(options.tensorboard)
    # torch.compile: what Python has for a graph. The compiled one shares the weights.
    trained = torch.compile(model) if options.compile else model
    run = peer.train_epochs(batches, trained, device, options.epochs, options.mixed, evaluate, log,
                            fused=options.fused or None)
    run["seed"] = options.seed
    if options.save:
        torch.save(model.state_dict(), options.save)
    peer.report(run, log)


if __name__ == "__main__":
    main()
