#!/usr/bin/env python3
"""Writes the files of this folder with TensorFlow 2.21 and with PyPI's tfrecord 1.14.

    python3 make_tfrecords.py tensorflow    # in this folder; needs tensorflow-cpu
    python3 make_tfrecords.py tfrecord      # in another process: both define tf.train.Example

tests/server/storage/tfrecord/foreign_tfrecord_test.cc reads them and has the same values.
"""

import pathlib
import sys

HERE = pathlib.Path(__file__).parent
IMAGES = HERE.parent / "images"
# In the order of the records; labels as ImageNet's scripts write them, from 1 on.
PHOTOGRAPHS = [("jpeg_gray.jpg", 3), ("jpeg_420.jpg", 1), ("jpeg_rgb.jpg", 1000)]


def by_tensorflow():
    import tensorflow as tf

    def strings(*values):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))

    def floats(*values):
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))

    def integers(*values):
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))

    def example(features):
        return tf.train.Example(features=tf.train.Features(feature=features))

    def write(name, messages, options=None):
        with tf.io.TFRecordWriter(str(HERE / name), options) as writer:
            for message in messages:
                writer.write(message.SerializeToString(deterministic=True))

    def imagenet(name, label):
        """The features of TensorFlow's build_imagenet_data.py."""
        return example({
            "image/encoded": strings((IMAGES / name).read_bytes()),
            "image/format": strings(b"JPEG"),
            "image/filename": strings(name.encode()),
            "image/colorspace": strings(b"RGB"),
            "image/channels": integers(3),
            "image/height": integers(48),
            "image/width": integers(64),
            "image/class/label": integers(label),
            "image/class/synset": strings(b"n01440764"),
            "image/class/text": strings(b"tench, Tinca tinca"),
            "image/object/bbox/xmin": floats(*[0.25] * (label % 3)),
            "image/object/bbox/label": integers(*[label] * (label % 3)),
        })

    def every_type(i):
        return example({
            "text": strings(b"record %d" % i),
            "scalar": floats(i + 0.5),
            "vector": floats(i, -i, 0.25 * i),
            "count": integers(-i),
            "pair": integers(2**62 + i, -2**63),
            "label": integers(i % 3),
            "ids": integers(*range(i)),
        })

    write("imagenet-00000-of-00002", [imagenet(*p) for p in PHOTOGRAPHS[:2]])
    write("imagenet-00001-of-00002", [imagenet(*p) for p in PHOTOGRAPHS[2:]])
    records = [every_type(i) for i in range(1, 6)]
    write("types.tfrecord", records)
    write("types.gzip", records, "GZIP")
    write("types.zlib", records, "ZLIB")
    write("sequence.tfrecord", [tf.train.SequenceExample(
        context=tf.train.Features(feature={"label": integers(1)}),
        feature_lists=tf.train.FeatureLists(feature_list={
            "frames": tf.train.FeatureList(feature=[integers(1), integers(2)])}))])
    # A tensor in place of an Example.
    with tf.io.TFRecordWriter(str(HERE / "tensor.tfrecord")) as writer:
        writer.write(tf.io.serialize_tensor(tf.constant([1.0, 2.0])).numpy())


def by_tfrecord():
    from tfrecord.writer import TFRecordWriter

    writer = TFRecordWriter(str(HERE / "pypi.tfrecord"))
    for image, number in PHOTOGRAPHS:
        writer.write({
            "image": ((IMAGES / image).read_bytes(), "byte"),
            "label": (number % 10, "int"),
            "index": ([number, 0.5], "float"),
        })
    writer.close()


{"tensorflow": by_tensorflow, "tfrecord": by_tfrecord}[sys.argv[1]]()
