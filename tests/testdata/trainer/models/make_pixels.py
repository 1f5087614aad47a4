#!/usr/bin/env python3
"""Makes pixels.txt and some of the TorchScript modules of this folder with Python's torch alone.

    python3 make_pixels.py

pixels.txt holds what a U-Net like trainer/models/unet.h and Python's losses over pixels compute.
Weights and images follow from a formula of name and index, which tests/trainer/formula.h has too.
Written with the version of torch in versions.txt.
"""

import math
import pathlib

import torch
from torch import nn
from torch.nn import functional as F

HERE = pathlib.Path(__file__).parent


def uniform(name, count):
    """Numbers in [0, 1) with 24 bits: a hash of the name and the index."""
    state = 2166136261  # FNV-1a
    for byte in name.encode():
        state = ((state ^ byte) * 16777619) & 0xFFFFFFFF
    for i in range(count):
        h = (i * 2654435761 + state) & 0xFFFFFFFF
        h ^= h >> 16
        h = (h * 0x85EBCA6B) & 0xFFFFFFFF
        h ^= h >> 13
        h = (h * 0xC2B2AE35) & 0xFFFFFFFF
        h ^= h >> 16
        yield (h >> 8) / 2**24


def fill(module):
    with torch.no_grad():
        for name, tensor in module.named_parameters():
            u = torch.tensor(list(uniform(name, tensor.numel())), dtype=torch.float64)
            if tensor.dim() == 1:
                v = 0.5 + u if name.endswith("weight") else 0.2 * (u - 0.5)
            else:
                v = (u - 0.5) * math.sqrt(24.0 / math.prod(tensor.shape[1:]))
            tensor.copy_(v.float().reshape(tensor.shape))
    return module


def images(*shape):
    return (torch.tensor(list(uniform("images", math.prod(shape))), dtype=torch.float64) * 2 -
            1).float().reshape(shape)


class TwoConvolutions(nn.Module):

    def __init__(self, channels, width):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 3, padding=1, bias=False)
        self.norm1 = nn.GroupNorm(8, width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm2 = nn.GroupNorm(8, width)

    def forward(self, x):
        return F.relu(self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x))))))


class UNet(nn.Module):

    def __init__(self, channels, outputs):
        super().__init__()
        self.down0 = TwoConvolutions(channels, 16)
        self.down1 = TwoConvolutions(16, 32)
        self.down2 = TwoConvolutions(32, 64)
        self.down3 = TwoConvolutions(64, 128)
        self.grow2 = nn.ConvTranspose2d(128, 64, 2, stride=2)
        self.up2 = TwoConvolutions(128, 64)
        self.grow1 = nn.ConvTranspose2d(64, 32, 2, stride=2)
        self.up1 = TwoConvolutions(64, 32)
        self.grow0 = nn.ConvTranspose2d(32, 16, 2, stride=2)
        self.up0 = TwoConvolutions(32, 16)
        self.head = nn.Conv2d(16, outputs, 1)

    def forward(self, x):
        a = self.down0(x)
        b = self.down1(F.max_pool2d(a, 2))
        c = self.down2(F.max_pool2d(b, 2))
        x = self.down3(F.max_pool2d(c, 2))
        for grow, up, beside in ((self.grow2, self.up2, c), (self.grow1, self.up1, b),
                                 (self.grow0, self.up0, a)):
            x = grow(x)
            x = F.pad(x, (0, beside.shape[3] - x.shape[3], 0, beside.shape[2] - x.shape[2]),
                      mode="replicate")
            x = up(torch.cat([beside, x], 1))
        return self.head(x)


# Takes an optimiser step on the weights that come first in the optimiser's order, and fails at the
# others: from the ninth training batch on their gradient is sparse, which no fused step takes.
class Torn(nn.Module):

    def __init__(self):
        super().__init__()
        self.first = nn.Parameter(torch.zeros(10))
        self.table = nn.Parameter(torch.ones(4, 10))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, images):
        rows = (images.flatten(1).mean(1) > 0).long()
        if self.training:
            self.calls += 1
        return self.first + F.embedding(rows, self.table, sparse=bool(self.calls > 8))


class OfVectors(nn.Module):

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 3)

    def forward(self, vectors):
        assert vectors.dim() == 2 and vectors.dtype == torch.float32
        return self.layer(vectors)


class OfTokens(nn.Module):

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(16, 12)
        self.layer = nn.Linear(12, 3)

    def forward(self, tokens):
        assert tokens.dim() == 2 and tokens.dtype == torch.int64
        return self.layer(self.table(tokens).mean(1))


class OfPixels(nn.Module):

    def __init__(self):
        super().__init__()
        self.layer = nn.Conv2d(3, 3, 1)

    def forward(self, images):
        return self.layer(images)


class Dice(nn.Module):

    def forward(self, outputs, target):
        said = outputs.softmax(1)
        counted = target.ne(-100).unsqueeze(1)
        wanted = F.one_hot(target.clamp(min=0), 3).permute(0, 3, 1, 2) * counted
        both = (said * wanted).sum([1, 2, 3])
        return 1 - 2 * both / ((said * counted).sum([1, 2, 3]) + wanted.sum([1, 2, 3]) + 1)


def pixels():
    lines = []

    def add(*words, tensor):
        flat = torch.as_tensor(tensor).detach().double().flatten().tolist()
        lines.append(" ".join([*words] + [f"{v:.9g}" for v in flat]))

    # An odd size: every level but the first pads.
    model = fill(UNet(3, 2))
    add("unet", "parameters", tensor=sum(p.numel() for p in model.parameters()))
    output = model(images(2, 3, 22, 13))
    add("unet", "output", tensor=output)
    output.square().mean().backward()
    add("unet", "gradient", tensor=model.down0.conv1.weight.grad)
    add("unet", "bias", tensor=model.grow0.bias.grad)

    # Losses of each sample alone, added up.
    logits = torch.sin(torch.arange(72.0)).view(2, 3, 4, 3) * 3
    classes = (torch.arange(24) * 5 % 3).view(2, 4, 3)
    classes[0, 1:3] = -100
    for smoothing in (0.0, 0.1):
        add("cross_entropy", str(smoothing),
            tensor=sum(F.cross_entropy(logits[i:i + 1], classes[i:i + 1],
                                       label_smoothing=smoothing) for i in range(2)))
    values = torch.cos(torch.arange(72.0)).view(2, 3, 4, 3).abs()
    add("bce", "values", tensor=sum(
        F.binary_cross_entropy_with_logits(logits[i], values[i]) for i in range(2)))
    one_hot = F.one_hot(classes.clamp(min=0), 3).permute(0, 3, 1, 2).float()
    add("bce", "classes", tensor=sum(
        F.binary_cross_entropy_with_logits(logits[i][:, classes[i] >= 0],
                                           one_hot[i][:, classes[i] >= 0]) for i in range(2)))
    (HERE / "pixels.txt").write_text("\n".join(lines) + "\n")


def main():
    pixels()
    torch.manual_seed(0)
    for name, module in [("torn", Torn()), ("of_vectors", OfVectors()), ("of_tokens", OfTokens()),
                         ("of_pixels", OfPixels()), ("dice", Dice())]:
        torch.jit.script(module).save(str(HERE / f"{name}.pt"))


if __name__ == "__main__":
    main()
