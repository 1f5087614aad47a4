"""Writes the datasets beside this file with MosaicML Streaming's own writer:
what the reader of MDS is tested with. Run it only to add a case:

    python3 -m venv /tmp/venv
    /tmp/venv/bin/pip install --no-deps mosaicml-streaming==0.13.0
    /tmp/venv/bin/pip install 'numpy<2.2' pillow typing_extensions tqdm xxhash \
        brotli python-snappy zstd torch
    /tmp/venv/bin/python make_mds.py

photos   eight JPEG files of ../images in three shards, with class numbers
photos_zstd
         the same, compressed
every    one column of each encoding, three samples in one shard
zstd, gz, bz2, br, snappy
         a compressed shard each
"""
import importlib.util
import os
import shutil
import sys
import types
from decimal import Decimal
from pathlib import Path

import numpy as np
from PIL import Image

here = Path(__file__).parent
images = here.parent / "images"

# The writer alone: the packages above it import transformers and others.
root = importlib.util.find_spec("streaming").submodule_search_locations[0]
for name, folder in (("streaming", root), ("streaming.base", os.path.join(root, "base"))):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [folder]
from streaming.base.format.mds.writer import MDSWriter  # noqa: E402


def write(name, columns, samples, **options):
    shutil.rmtree(here / name, ignore_errors=True)
    with MDSWriter(columns=columns, out=str(here / name), **options) as out:
        for sample in samples:
            out.write(sample)


for name, compression in (("photos", None), ("photos_zstd", "zstd:19")):
    write(name, {"image": "jpeg", "label": "int"},
          ({"image": Image.open(images / f"exif_{i + 1}.jpg"), "label": i % 3} for i in range(8)),
          size_limit=4000, compression=compression)


def pixels(i):
    return np.arange(5 * 4 * 3, dtype=np.uint8).reshape(5, 4, 3) + i


ints = ("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64")
floats = ("float16", "float32", "float64")
every = {f"a_{dtype}": dtype for dtype in ints + floats}
every |= {"bytes": "bytes", "class": "int", "decimal": "str_decimal", "json": "json",
          "digits": "str_int", "float_text": "str_float", "free": "ndarray",
          "free_shape": "ndarray:float32", "grid": "ndarray:int16:2,3", "pairs": "ndarray:uint32:2",
          "photo": "png", "photos": "jpeg_array", "pickle": "pkl", "raw": "pil", "text": "str"}


def sample(i):
    values = {f"a_{dtype}": getattr(np, dtype)(-100 - i) if dtype[0] == "i" else getattr(np, dtype)(100 + i)
              for dtype in ints}
    values |= {f"a_{dtype}": getattr(np, dtype)(0.5 + i) for dtype in floats}
    jpeg = (images / f"exif_{i + 1}.jpg").read_bytes()
    return values | {
        "bytes": bytes(range(i + 1)), "class": 2 - i, "decimal": Decimal("1.25") + i, "json": {"i": i},
        "digits": 10 ** 12 + i, "float_text": 0.25 + i, "free": np.full((2, 2), i, np.int64),
        "free_shape": np.full((3,), i, np.float32),
        "grid": np.arange(6, dtype=np.int16).reshape(2, 3) - i,
        "pairs": np.array([i, 4000000000], np.uint32),
        "photo": Image.fromarray(pixels(i)), "photos": [jpeg, jpeg], "pickle": {"i": i},
        "raw": Image.fromarray(pixels(i)), "text": "sample " + "x" * i}


write("every", every, map(sample, range(3)), hashes=["sha1"])
for compression in ("zstd", "gz", "bz2", "br", "snappy"):
    write(compression, {"text": "str"}, ({"text": "sample"} for _ in range(2)), compression=compression)
