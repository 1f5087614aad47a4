"""Writes the tar shards of this folder with webdataset 1.0.2 and GNU tar.

    python3 make_shards.py    # in this folder; needs webdataset, numpy, tar

Five samples: image (a JPEG of ../images), class, JSON, text, an array. The same
files as GNU tar writes them, with a long name, are in gnu.tar.
"""
import os
import subprocess
import tempfile

import numpy as np
import webdataset as wds

IMAGES = [open(f"../images/exif_{i}.jpg", "rb").read() for i in range(1, 6)]


def sample(i):
    return {
        "__key__": f"train/{i:04d}",
        "jpg": IMAGES[i],
        "cls": [3, 0, 2, 1, 0][i],
        "json": {"id": i, "name": "é" * i},
        "txt": "caption " * i,
        "npy": np.arange(6, dtype=np.float32).reshape(2, 3) + i,
    }


# webdataset's own default time is a float: a pax header before each member.
for shard, rows in enumerate([range(3), range(3, 5)]):
    with wds.TarWriter(f"shard-{shard:03d}.tar", mtime=1700000000.25) as writer:
        for i in rows:
            writer.write(sample(i))

with tempfile.TemporaryDirectory() as folder:
    deep = os.path.join(folder, "d" * 60, "e" * 60)
    os.makedirs(deep)
    for i in range(2):
        for name, data in (("cls", str(sample(i)["cls"]).encode() + b"\n"), ("jpg", IMAGES[i])):
            with open(os.path.join(deep, f"{i:04d}.{name}"), "wb") as file:
                file.write(data)
    subprocess.run(["tar", "--format=gnu", "--sort=name", "--mtime=@1700000000", "--owner=0",
                    "--group=0", "-cf", os.path.abspath("gnu.tar"), "-C", folder, "."], check=True)
