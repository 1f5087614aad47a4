#!/usr/bin/env python3
"""Makes the files of this folder with Python's torch and torchvision.

    python3 make_golden.py

resnet.txt and script.txt hold what torchvision's ResNets and the modules of
this folder compute; *.pt are TorchScript modules. tests/trainer/models_test.cc
reads them. Weights and images follow from a formula of name and index, which
tests/trainer/formula.h has too. Written with the versions in versions.txt.
"""

import math
import pathlib

import numpy
import torch
import torchvision
from torch import nn

HERE = pathlib.Path(__file__).parent


def uniform(name, count):
    """Numbers in [0, 1) with 24 bits: a hash of the name and the index."""
    state = 2166136261  # FNV-1a
    for byte in name.encode():
        state = ((state ^ byte) * 16777619) & 0xFFFFFFFF
    with numpy.errstate(over="ignore"):
        h = numpy.arange(count, dtype=numpy.uint32) * numpy.uint32(2654435761) + numpy.uint32(state)
        h ^= h >> numpy.uint32(16)
        h *= numpy.uint32(0x85EBCA6B)
        h ^= h >> numpy.uint32(13)
        h *= numpy.uint32(0xC2B2AE35)
        h ^= h >> numpy.uint32(16)
    return (h >> numpy.uint32(8)).astype(numpy.float64) / 2**24


def values(name, shape):
    """The tensor `name` of a model."""
    count = math.prod(shape)
    u = uniform(name, count)
    if name.endswith("num_batches_tracked"):
        return torch.zeros((), dtype=torch.int64)
    if name.endswith("running_var"):
        v = 0.5 + u
    elif len(shape) == 1:
        # Scales of normalisation near 1, everything else near 0.
        v = 0.5 + u if name.endswith("weight") else 0.2 * (u - 0.5)
    else:
        v = (u - 0.5) * math.sqrt(24.0 / math.prod(shape[1:]))
    return torch.from_numpy(v.astype(numpy.float32)).reshape(shape)


def fill(module):
    module.load_state_dict({n: values(n, tuple(t.shape)) for n, t in module.state_dict().items()})
    return module


def images(*shape):
    return torch.from_numpy((uniform("images", math.prod(shape)) * 2 - 1).astype(numpy.float32)).reshape(shape)


class Lines:
    def __init__(self, name):
        self.path = HERE / name
        self.lines = []

    def add(self, *words, tensor):
        flat = torch.as_tensor(tensor).detach().double().flatten().tolist()
        self.lines.append(" ".join([*words] + [f"{v:.9g}" for v in flat]))

    def write(self):
        self.path.write_text("\n".join(self.lines) + "\n")


def resnets():
    out = Lines("resnet.txt")
    for name in ["resnet18", "resnet34", "resnet50"]:
        make = getattr(torchvision.models, name)
        out.add(name, "parameters", tensor=sum(p.numel() for p in make().parameters()))
        model = fill(make(num_classes=10))
        x = images(4, 3, 64, 64)
        model.eval()
        with torch.no_grad():
            out.add(name, "eval", tensor=model(x))
        model.train()
        logits = model(x)
        out.add(name, "train", tensor=logits)
        for kind in ["running_mean", "running_var"]:
            buffers = [b.flatten() for n, b in model.named_buffers() if n.endswith(kind)]
            out.add(name, kind, tensor=torch.cat(buffers).double().norm())
        loss = nn.functional.cross_entropy(logits, torch.tensor([1, 7, 3, 0]), reduction="sum")
        out.add(name, "loss", tensor=loss)
        loss.backward()
        gradients = {n: p.grad.double().norm() for n, p in model.named_parameters()}
        out.add(name, "gradients", tensor=torch.stack(list(gradients.values())).norm())
        for parameter in ["conv1.weight", "layer2.0.downsample.0.weight", "layer4.1.bn2.bias", "fc.weight"]:
            out.add(name, parameter, tensor=gradients[parameter])
    out.write()


class SmallCnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 4, 3, stride=2), nn.BatchNorm2d(4), nn.ReLU())
        self.pool = nn.AdaptiveAvgPool2d(4)
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        return self.head(self.pool(self.features(x)).flatten(1))


class Dropped(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(784, 10)

    def forward(self, x):
        return nn.functional.dropout(self.head(x.flatten(1)), 0.5, self.training)


class OfAllRows(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(1, 10)

    def forward(self, x):
        return self.head(x.flatten(1).mean(1, keepdim=True)).sum(0)


class Tupled(OfAllRows):
    def forward(self, x):
        return self.head(x.flatten(1).mean(1, keepdim=True)), x


class HalfFixed(nn.Module):
    """A backbone that is not trained, and one weight under two names."""

    def __init__(self):
        super().__init__()
        self.backbone = nn.Linear(784, 8)
        self.first = nn.Linear(8, 8, bias=False)
        self.second = nn.Linear(8, 8, bias=False)
        self.second.weight = self.first.weight
        self.head = nn.Linear(8, 10)
        for p in self.backbone.parameters():
            p.requires_grad_(False)

    def forward(self, x):
        return self.head(self.second(self.first(self.backbone(x.flatten(1)))))


class HuberOfRows(nn.Module):
    def forward(self, outputs, target):
        return nn.functional.smooth_l1_loss(outputs, target, reduction="none").mean(1)


class HuberMean(nn.Module):
    def forward(self, outputs, target):
        return nn.functional.smooth_l1_loss(outputs, target)


class WeightedLoss(HuberMean):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))


def scripts():
    out = Lines("script.txt")
    model = fill(SmallCnn())
    torch.jit.script(model).save(str(HERE / "small_cnn.pt"))
    x = images(4, 1, 28, 28)
    target = torch.tensor([1, 7, 3, 0])
    with torch.no_grad():
        out.add("small_cnn", "eval", tensor=model.eval()(x))
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    losses = []
    for _ in range(4):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), target)
        losses.append(loss.detach())
        loss.backward()
        optimizer.step()
    out.add("small_cnn", "losses", tensor=torch.stack(losses))
    out.add("small_cnn", "running_mean", tensor=model.features[1].running_mean)
    out.write()
    torch.jit.trace(fill(SmallCnn()).train(), x, check_trace=False).save(str(HERE / "traced_cnn.pt"))
    for name, module in [("dropped", fill(Dropped())), ("of_all_rows", OfAllRows()), ("tupled", Tupled()),
                         ("half_fixed", fill(HalfFixed())), ("double", OfAllRows().double()),
                         ("huber_of_rows", HuberOfRows()), ("huber_mean", HuberMean()),
                         ("weighted_loss", WeightedLoss())]:
        torch.jit.script(module).save(str(HERE / f"{name}.pt"))
    torch.jit.freeze(torch.jit.script(fill(SmallCnn()).eval())).save(str(HERE / "frozen.pt"))


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(1)
    resnets()
    scripts()
    (HERE / "versions.txt").write_text(f"torch {torch.__version__}, torchvision {torchvision.__version__}, "
                                       f"numpy {numpy.__version__}\n")
