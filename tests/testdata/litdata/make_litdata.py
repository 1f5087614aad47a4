"""Writes the datasets beside this file with litdata's own writer: what the
reader of LitData is tested with. Run it only to add a case:

    python3 -m venv /tmp/venv
    /tmp/venv/bin/pip install litdata==0.2.76 pyarrow zstd
    /tmp/venv/bin/python make_litdata.py
    python3 -m venv /tmp/old
    /tmp/old/bin/pip install litdata==0.2.20
    /tmp/old/bin/python make_litdata.py photos_0_2_20

photos         eight JPEG files of ../images in three chunks, with class numbers
photos_0_2_20  the same, as the litdata of that version writes it
tuples         (JPEG file, class number) tuples
every          one leaf of each kind, three samples in one chunk
rows           dictionaries of plain values, which litdata stores in Arrow's format
batches, whole compressed in batches of samples, and as a whole file
tokens         chunks of TokensLoader
"""
import json
import shutil
import sys
from pathlib import Path

import numpy as np
import torch
from litdata.streaming.item_loader import TokensLoader
from litdata.streaming.writer import BinaryWriter
from PIL import Image

here = Path(__file__).parent
images = here.parent / "images"


def write(name, samples, chunk_size, **options):
    shutil.rmtree(here / name, ignore_errors=True)
    writer = BinaryWriter(str(here / name), chunk_size=chunk_size, **options)
    for i, sample in enumerate(samples):
        writer[i] = sample
    writer.done()
    writer.merge()
    # The time of writing would make each run's file another one.
    index = here / name / "index.json"
    content = json.loads(index.read_text())
    content.pop("updated_at", None)
    index.write_text(json.dumps(content, sort_keys=True))


def photo(i):
    return Image.open(images / f"exif_{i + 1}.jpg")


def pixels(i):
    return np.arange(5 * 4 * 3, dtype=np.uint8).reshape(5, 4, 3) + i


def sample(i):
    from litdata.types import Image as ImageBytes
    png = here / "pixels.png"
    Image.fromarray(pixels(i)).save(png)
    data = png.read_bytes()
    png.unlink()
    return {
        "id": i, "score": 0.5 + i, "good": i % 2 == 1, "text": "sample " + "x" * i, "bytes": bytes(range(i + 1)),
        "photo": ImageBytes(bytes=data, path="a.png"), "raw": Image.fromarray(pixels(i)),
        "grid": torch.arange(6, dtype=torch.float32).reshape(2, 3) + i,
        "tokens": torch.arange(i + 1, dtype=torch.int64),
        "half": torch.full((2, 2), 0.5, dtype=torch.float16), "mask": np.full((2, 2), i % 2 == 0),
        "matrix": np.arange(4, dtype=np.uint32).reshape(2, 2) + i, "vector": np.arange(3, dtype=np.int16) - i,
        "complex": np.full((1, 2), 1j * i), "nested": {"y": i, "pair": (i, float(i))}, "none": None}


photos = [{"image": photo(i), "label": i % 3} for i in range(8)]
if sys.argv[1:] == ["photos_0_2_20"]:
    write("photos_0_2_20", photos, 3)
    sys.exit()
write("photos", photos, 3)
write("tuples", [(photo(i), i % 3) for i in range(8)], 8)
write("every", map(sample, range(3)), 3)
write("rows", [{"text": f"sample {i}", "label": i} for i in range(3)], 3)
write("batches", [{"grid": torch.full((8, 8), i), "label": i} for i in range(3)], 3, compression="zstd")
write("whole", [(f"sample {i}", i) for i in range(3)], 3, compression="zstd", compression_level="chunk")
write("tokens", [torch.arange(4, dtype=torch.int32) for _ in range(4)], 8, item_loader=TokensLoader())
