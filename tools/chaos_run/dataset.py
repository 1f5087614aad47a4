"""The data set of a run: digits as MNIST has them, of noise that repeats."""

import os
import random
import struct
import subprocess

SAMPLES = 20011  # no multiple of a batch
# With random transforms, so that a server that draws otherwise is found.
SPEC = """
sources { dataset: "digits" }
transforms { random_crop { height: 28 width: 28 padding: 2 } }
transforms { horizontal_flip { p: 0.5 } }
transforms { normalize { mean: 0.2860 stddev: 0.3530 } }
"""


def write_digits(folder):
    """IDX files."""
    os.mkdir(folder)
    rng = random.Random(1)
    with open(os.path.join(folder, "train-images-idx3-ubyte"), "wb") as file:
        file.write(struct.pack(">IIII", 0x803, SAMPLES, 28, 28))
        file.write(rng.randbytes(SAMPLES * 28 * 28))
    with open(os.path.join(folder, "train-labels-idx1-ubyte"), "wb") as file:
        file.write(struct.pack(">II", 0x801, SAMPLES))
        file.write(bytes(i % 10 for i in range(SAMPLES)))


def pack(program, work):
    """Its URI."""
    folder = os.path.join(work, "digits")
    uri = f"lmdb:{work}/digits.lmdb"
    write_digits(folder)
    result = subprocess.run([program, "pack", "--format=idx", "--split=train",
                             f"--input={folder}", f"--output={uri}"],
                            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise RuntimeError(f"millrace-data pack: {result.stderr.strip()}")
    return uri
