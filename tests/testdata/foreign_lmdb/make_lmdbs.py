#!/usr/bin/env python3
"""Writes the LMDB environments of this folder with the packages lmdb, protobuf
and Pillow of PyPI, as the conversion programs of Caffe, of image classification
and of text recognition do.

    make_lmdbs.py FOLDER

tests/server/storage/foreign_lmdb/foreign_files_test.cc reads them and has the same values.
"""

import io
import os
import sys

import lmdb
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from PIL import Image


def datum_class():
    """Caffe's message (caffe.proto, syntax proto2)."""
    kind = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="datum.proto", package="caffe", syntax="proto2")
    message = file.message_type.add(name="Datum")
    for number, (name, of, label) in enumerate([
            ("channels", kind.TYPE_INT32, kind.LABEL_OPTIONAL),
            ("height", kind.TYPE_INT32, kind.LABEL_OPTIONAL),
            ("width", kind.TYPE_INT32, kind.LABEL_OPTIONAL),
            ("data", kind.TYPE_BYTES, kind.LABEL_OPTIONAL),
            ("label", kind.TYPE_INT32, kind.LABEL_OPTIONAL),
            ("float_data", kind.TYPE_FLOAT, kind.LABEL_REPEATED),
            ("encoded", kind.TYPE_BOOL, kind.LABEL_OPTIONAL)], 1):
        message.field.add(name=name, number=number, type=of, label=label)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("caffe.Datum"))


Datum = datum_class()


def png(i):
    """A picture of 6 x 4 pixels of one colour."""
    out = io.BytesIO()
    Image.new("RGB", (6, 4), (40 * i % 256, 10, 200)).save(out, "PNG")
    return out.getvalue()


def write(path, entries, subdir=False, **options):
    env = lmdb.open(path, subdir=subdir, map_size=1 << 20, max_dbs=4, lock=False)
    db = env.open_db(**options) if options else None
    with env.begin(write=True, db=db) as txn:
        for key, value in entries:
            txn.put(key, value)
    env.close()


def main(folder):
    os.chdir(folder)
    write("caffe_encoded", [
        (b"%08d_img.png" % i, Datum(channels=3, height=4, width=6, data=png(i), label=i % 3,
                                    encoded=True).SerializeToString()) for i in range(7)
    ], subdir=True)
    write("caffe_pixels.mdb", [
        (b"%08d" % i, Datum(channels=3, height=2, width=2, data=bytes(range(i, i + 12)),
                            label=i).SerializeToString()) for i in range(5)
    ])
    write("caffe_floats.mdb", [
        (b"%08d" % i, Datum(channels=4, height=1, width=1, label=1,
                            float_data=[i, 0.5, -1, 2]).SerializeToString()) for i in range(3)
    ])
    write("classes", [(b"%s/%d.png" % (name, i), png(i))
                      for name in [b"cat", b"dog", b"dog-house"] for i in range(2)], subdir=True)
    words = ["Straße", "a", ""]
    write("texts", [(b"num-samples", b"3")] +
          [(b"image-%09d" % (i + 1), png(i)) for i in range(3)] +
          [(b"label-%09d" % (i + 1), words[i].encode()) for i in range(3)], subdir=True)
    write("named.mdb", [(b"1", png(1)), (b"1.cls", b"4"), (b"2", png(2)),
                        (b"2.cls", b" 0\n")], key=b"train")
    write("named.mdb", [(b"k", b"a"), (b"k", b"b")], key=b"twice", dupsort=True)
    write("empty", [], subdir=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: make_lmdbs.py FOLDER")
    main(sys.argv[1])
