#!/usr/bin/env python3
"""Makes the files of this folder with Python's torch and safetensors.

    python3 make_golden.py

expected.txt says what is in them, a line a tensor: file, name, type, shape,
values. tests/trainer/weights reads them. Written with the versions in
versions.txt.
"""

import argparse
import collections
import pathlib

import safetensors
import safetensors.torch
import torch
from torch import nn

HERE = pathlib.Path(__file__).parent


def small():
    module = nn.Sequential(collections.OrderedDict(
        fc1=nn.Linear(3, 4), bn=nn.BatchNorm1d(4), fc2=nn.Linear(4, 2)))
    for i, tensor in enumerate(module.state_dict().values()):
        if tensor.is_floating_point():
            tensor.copy_((torch.arange(tensor.numel()).reshape(tensor.shape) + 10 * i) / 8)
    return module


def of_every_type():
    numbers = torch.arange(-3, 3)
    whole = torch.arange(12, dtype=torch.float32).reshape(3, 4)
    return {
        "float32": numbers / 4,
        "float64": numbers.double() / 3,
        "float16": (numbers / 4).half(),
        "bfloat16": (numbers / 4).bfloat16(),
        "int64": numbers * 10**12,
        "int32": numbers.int() * 10**9 // 2,
        "int16": numbers.short() * 1000,
        "int8": numbers.char(),
        "uint8": (numbers + 3).byte(),
        "bool": numbers > 0,
        "scalar": torch.tensor(2.5),
        "empty": torch.zeros(0, 5),
        "named \"\u00fc\\\n": torch.tensor([1.5]),
        # Views of one storage, with strides and an offset.
        "transposed": whole.t(),
        "column": whole[:, 2],
        "rows": whole[1:],
    }


def main():
    lines = []

    def expect(file, tensors):
        for name, tensor in tensors.items():
            kind = str(tensor.dtype).removeprefix("torch.")
            shape = ",".join(str(d) for d in tensor.shape)
            values = " ".join(repr(v) for v in tensor.double().flatten().tolist())
            if tensor.dtype == torch.int64:
                values = " ".join(str(v) for v in tensor.flatten().tolist())
            lines.append("\t".join([file, name.replace("\n", "\\n"), kind, shape, values]))

    module = small()
    state = module.state_dict()
    torch.save(state, HERE / "module.pt")
    torch.save(state, HERE / "protocol_4.pt", pickle_protocol=4)
    torch.save({"module." + k: v for k, v in state.items()}, HERE / "wrapped.pt")
    safetensors.torch.save_file(state, HERE / "module.safetensors", metadata={"format": "pt"})
    for file in ["module.pt", "protocol_4.pt", "module.safetensors"]:
        expect(file, state)

    optimizer = torch.optim.Adam(module.parameters())
    module(torch.ones(2, 3)).sum().backward()
    optimizer.step()
    torch.save({"epoch": 3, "best": 0.5, "big": 2**70, "none": None, "set": {1},
                "args": argparse.Namespace(lr=0.1, names=["a"]),
                "optimizer": optimizer.state_dict(), "model": state}, HERE / "training.pt")
    expect("training.pt", state)
    torch.save(collections.OrderedDict(module.named_parameters()), HERE / "parameters.pt")
    expect("parameters.pt", {n: p.detach() for n, p in module.named_parameters()})

    tensors = of_every_type()
    torch.save(tensors, HERE / "types.pt")
    expect("types.pt", tensors)
    safetensors.torch.save_file({n: t.contiguous() for n, t in tensors.items()}, HERE / "types.safetensors")
    expect("types.safetensors", tensors)

    # What is refused.
    torch.save(module, HERE / "whole_module.pt")
    torch.save(state, HERE / "before_1_6.pt", _use_new_zipfile_serialization=False)
    torch.save({"a": 1, "b": [state]}, HERE / "no_tensors.pt")
    (HERE / "expected.txt").write_text("\n".join(lines) + "\n")
    (HERE / "versions.txt").write_text(f"torch {torch.__version__}, safetensors {safetensors.__version__}\n")


if __name__ == "__main__":
    torch.manual_seed(0)
    main()
