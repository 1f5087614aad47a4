"""Runs a program, and writes which samples its model was trained on.

    record.py FILE PROGRAM [ARGUMENT...]

A sample is the digest of its row in the input of a torch.nn.Flatten in training mode: what reaches
the model, after all that a framework does. FILE.RANK gets them as JSON, in their order, when the
program ends. RANK is that of the environment, or 0.
"""

import atexit
import hashlib
import json
import os
import runpy
import sys

import torch

_rows = []


def digest(row):
    """Of one image: a tensor on the CPU."""
    data = bytes(row.detach().contiguous().view(torch.uint8).flatten().tolist())
    return hashlib.sha256(data).hexdigest()[:16]


def _before_forward(module, inputs):
    if isinstance(module, torch.nn.Flatten) and module.training:
        _rows.extend(digest(row) for row in inputs[0])


def _write(path):
    with open(path, "w", encoding="ascii") as file:
        json.dump(_rows, file)


def main(argv):
    torch.nn.modules.module.register_module_forward_pre_hook(_before_forward)
    atexit.register(_write, f"{argv[1]}.{os.environ.get('RANK') or 0}")
    sys.argv = argv[2:]
    sys.path.insert(0, os.path.dirname(os.path.abspath(argv[2])))
    runpy.run_path(argv[2], run_name="__main__")


if __name__ == "__main__":
    main(sys.argv)
