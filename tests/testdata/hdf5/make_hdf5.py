"""Writes the files beside this one with h5py: what the reader of HDF5 files is tested with. Run it
only to add a case:

    python3 -m venv /tmp/venv
    /tmp/venv/bin/pip install h5py==3.16.0
    /tmp/venv/bin/python make_hdf5.py

photos.h5      eight JPEG files of ../images as variable-length bytes, with class numbers
pixels.h5      six images of 5 x 4 pixels with labels and boxes, contiguous
chunks.h5      the same in uncompressed chunks of two rows (boxes contiguous), in the newest layout, behind a user block
gzip.h5        the same, compressed with gzip behind shuffle and fletcher32, in chunks of parts of rows
lzf.h5         the same, compressed with h5py's lzf
scaled.h5      the same, with scale-offset compression where it loses nothing
every.h5       two rows of each type that becomes a field, and of each that does not
groups.h5      a table in group train and another one in group test
"""
from pathlib import Path

import h5py
import numpy as np

here = Path(__file__).parent
images = here.parent / "images"


def new(name, **options):
    return h5py.File(here / name, "w", **options)


pixels = np.arange(6 * 5 * 4 * 3, dtype=np.uint8).reshape(6, 5, 4, 3)
labels = np.array([0, 2, 1, 0, 1, 3], dtype=np.int32)
boxes = np.arange(24, dtype=np.float32).reshape(6, 4) / 2


def table(file, pixel_options, other_options):
    file.create_dataset("images", data=pixels, **pixel_options)
    file.create_dataset("labels", data=labels, **other_options)
    file.create_dataset("boxes", data=boxes, **other_options)


with new("photos.h5") as file:
    jpegs = file.create_dataset("jpeg", (8,), dtype=h5py.vlen_dtype(np.uint8))
    for i in range(8):
        jpegs[i] = np.frombuffer((images / f"exif_{i + 1}.jpg").read_bytes(), np.uint8)
    file.create_dataset("label", data=np.arange(8, dtype=np.int64) % 3)
    file.create_dataset("caption", data=[f"photo {i}" for i in range(8)], dtype=h5py.string_dtype())

with new("pixels.h5") as file:
    table(file, {}, {})

with new("chunks.h5", libver="latest", userblock_size=512) as file:
    table(file, {"chunks": (2, 5, 4, 3), "maxshape": (None, 5, 4, 3)}, {"chunks": True})
    del file["boxes"]
    file["boxes"] = boxes  # contiguous, behind the user block

with new("gzip.h5") as file:
    table(file, {"chunks": (4, 2, 4, 3), "compression": "gzip", "shuffle": True, "fletcher32": True},
          {"chunks": True, "compression": "gzip"})

with new("lzf.h5") as file:
    table(file, {"chunks": (3, 5, 4, 3), "compression": "lzf"}, {"chunks": True, "compression": "lzf"})

with new("scaled.h5") as file:
    file.create_dataset("images", data=pixels, chunks=(6, 5, 4, 3), scaleoffset=0)
    file.create_dataset("labels", data=labels, chunks=(6,), scaleoffset=0)
    file.create_dataset("boxes", data=boxes)

with new("every.h5") as file:
    for name, type_ in [("bool", "?"), ("int8", "i1"), ("uint16", "<u2"), ("uint32", "<u4"), ("int64", "<i8"),
                        ("float16", "<f2"), ("float32", "<f4"), ("float64", "<f8"), ("big_int", ">i4"),
                        ("big_float", ">f8")]:
        file[f"number.{name}"] = np.array([1, 0], dtype=type_)
    file["array.int16"] = np.array([[[1, -2, 3]], [[4, 5, 6]]], dtype="<i2")
    file["array.big"] = np.array([[1, 2], [3, 4]], dtype=">u2")
    file["grey"] = np.array([[[1, 2], [3, 4]], [[5, 6], [7, 8]]], dtype=np.uint8)
    file["text.fixed"] = np.array([b"one", b"three"])
    file["text.empty"] = np.array([b"", b"x"], dtype="S1")
    file.create_dataset("text.variable", data=["eins", "dréi"], dtype=h5py.string_dtype())
    file["opaque"] = np.array([b"\1\0", b"\0\2"], dtype="V2")
    ragged = file.create_dataset("ragged", (2,), dtype=h5py.vlen_dtype(np.float32))
    ragged[0] = [1.5]
    ragged[1] = [2.5, 3.5]
    file.create_dataset("label", data=np.array([1, 0]),
                        dtype=h5py.enum_dtype({"cat": 0, "dog": 1, "eel": 2}, basetype="u1"))
    # No fields.
    file["bad.compound"] = np.array([(1, 2.0), (3, 4.0)], dtype=[("a", "<i4"), ("b", "<f8")])
    file["bad.scalar"] = 7
    file.create_dataset("bad.null", data=h5py.Empty("f"))
    file.create_dataset("bad.reference", data=[file.ref, file.ref], dtype=h5py.ref_dtype)
    file["bad.long_double"] = np.array([1, 2], dtype=np.longdouble)
    file.create_dataset("bad.texts", data=[["a", "b"], ["c", "d"]], dtype=h5py.string_dtype())
    file["bad.soft"] = h5py.SoftLink("/label")
    file["bad.external"] = h5py.ExternalLink("pixels.h5", "/labels")
    layout = h5py.VirtualLayout(shape=(2,), dtype="<i4")
    layout[:] = h5py.VirtualSource("pixels.h5", "labels", shape=(6,), dtype="<i4")[:2]
    file.create_virtual_dataset("bad.virtual", layout)
    file.create_dataset("bad.outside", (2,), "<i4", external=[("raw.bin", 0, 8)])

with new("groups.h5") as file:
    file["train/x"] = pixels[:4]
    file["train/y"] = labels[:4].astype(np.uint8).reshape(4, 1)
    file["test/x"] = pixels[4:]
    file["test/y"] = labels[4:].astype(np.uint8).reshape(2, 1)
    file["train"].attrs["note"] = "attributes are not read"
