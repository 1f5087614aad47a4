"""Writes the eight JPEG files of ../images that have each EXIF orientation, with class numbers and
in the order of a folder of class folders, in the formats that people have: each by the library that
people write it with.

    python3 make_photos.py FORMAT...   # in this folder; all formats when none is given

Needs webdataset, litdata, datasets and h5py; tfrecord needs tensorflow-cpu, and mds needs
mosaicml-streaming, each in a Python of its own. tests/integration/formats_test.cc reads them.
"""
import os
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).parent
IMAGES = HERE.parent / "images"
CLASSES = ["ash", "birch", "cedar"]
LABELS = [0, 0, 0, 1, 1, 2, 2, 2]
PHOTOS = [((IMAGES / f"exif_{i + 1}.jpg").read_bytes(), label) for i, label in enumerate(LABELS)]


def folder(name):
    shutil.rmtree(HERE / name, ignore_errors=True)
    (HERE / name).mkdir()
    return HERE / name


def tar():
    import webdataset as wds
    out = folder("tar")
    for shard, rows in enumerate([range(5), range(5, 8)]):
        with wds.TarWriter(str(out / f"photos-{shard:03d}.tar"), mtime=1700000000) as writer:
            for i in rows:
                writer.write({"__key__": f"{i:04d}", "jpg": PHOTOS[i][0], "cls": PHOTOS[i][1]})


def tfrecord():
    import tensorflow as tf
    out = folder("tfrecord")
    for shard, rows in enumerate([range(3), range(3, 8)]):
        with tf.io.TFRecordWriter(str(out / f"photos-{shard}-of-2.tfrecord")) as writer:
            for i in rows:
                writer.write(tf.train.Example(features=tf.train.Features(feature={
                    "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[PHOTOS[i][0]])),
                    "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[PHOTOS[i][1]])),
                })).SerializeToString(deterministic=True))


def mds():
    from streaming import MDSWriter
    with MDSWriter(columns={"image": "bytes", "label": "int"}, out=str(folder("mds")),
                   size_limit=4000) as out:
        for image, label in PHOTOS:
            out.write({"image": image, "label": label})


def sample(i):
    import litdata as lit
    # max_quality=None: the bytes as they are.
    return {"image": lit.types.Jpeg(bytes=PHOTOS[i][0], max_quality=None), "label": PHOTOS[i][1]}


def litdata():
    import litdata as lit
    lit.optimize(fn=sample, inputs=list(range(8)), output_dir=str(folder("litdata")),
                 chunk_size=3, num_workers=1)


def huggingface():
    from datasets import ClassLabel, Dataset, Features, Image
    features = Features({"image": Image(), "label": ClassLabel(names=CLASSES)})
    return Dataset.from_dict({"image": [{"bytes": image, "path": None} for image, _ in PHOTOS],
                              "label": LABELS}, features=features)


def arrow():
    huggingface().save_to_disk(str(folder("arrow")), num_shards=2)


def parquet():
    huggingface().to_parquet(str(folder("parquet") / "photos.parquet"))


def csv():
    import pandas
    out = folder("csv")
    pandas.DataFrame({"path": [f"../../images/exif_{i + 1}.jpg" for i in range(8)],
                      "label": [CLASSES[label] for label in LABELS]}).to_csv(
                          out / "photos.csv", index=False)


def hdf5():
    import h5py
    import numpy
    with h5py.File(folder("hdf5") / "photos.h5", "w") as file:
        images = file.create_dataset("image", (8,), dtype=h5py.vlen_dtype(numpy.uint8))
        for i, (image, _) in enumerate(PHOTOS):
            images[i] = numpy.frombuffer(image, numpy.uint8)
        file["label"] = numpy.array(LABELS, numpy.int64)


FORMATS = {f.__name__: f for f in (tar, tfrecord, mds, litdata, arrow, parquet, csv, hdf5)}

if __name__ == "__main__":
    os.chdir(HERE)
    for chosen in sys.argv[1:] or FORMATS:
        FORMATS[chosen]()
