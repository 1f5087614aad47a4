"""Images a second of existing loaders over shards in their own formats, and the shards themselves.

    shards.py write_FORMAT --photos=DIR --output=DIR     FORMAT: tar, tfrecord, mds, litdata
    shards.py LOADER --shards=DIR --seconds=S [--threads=2] [--batch_size=64]

Shards are written by the loader's own writer: the JPEGs of class0 .. class9 as they are, with the
class, in an order that mixes the classes, about 16 MB a shard. A loader prints the same JSON object
as loaders.py, and makes what that one's loaders make: RandomResizedCrop(224) and a flip, uint8.

Each loader is set up as its documentation shows it, but all decode with torchvision's decode_jpeg,
which is faster than Pillow: WebDataset's and MDS's samples are bytes for that (MDS's own type `jpeg`
decodes with Pillow), LitData's type Jpeg decodes with it.
"""

import argparse
import json
import os
import random
import sys

import loaders

SHARD_BYTES = 16 << 20


def samples(photos):
    """(key, JPEG bytes, class) of each photograph."""
    found = [os.path.join(folder, name) for folder, _, names in os.walk(photos) for name in names
             if name.endswith(".jpg")]
    found.sort()
    random.Random(0).shuffle(found)
    for number, path in enumerate(found):
        with open(path, "rb") as file:
            yield f"{number:06d}", file.read(), int(os.path.basename(os.path.dirname(path))[5:])


# --- writers -------------------------------------------------------------------------------------


def write_tar(photos, output):
    import webdataset
    with webdataset.ShardWriter(os.path.join(output, "photos-%04d.tar"), maxsize=SHARD_BYTES,
                                verbose=0) as writer:
        for key, jpeg, label in samples(photos):
            writer.write({"__key__": key, "jpg": jpeg, "cls": label})


def write_tfrecord(photos, output):
    import tensorflow as tf

    def example(jpeg, label):
        # As ImageNet's TFRecord files, whose labels begin at 1.
        return tf.train.Example(features=tf.train.Features(feature={
            "image/encoded": tf.train.Feature(bytes_list=tf.train.BytesList(value=[jpeg])),
            "image/class/label": tf.train.Feature(
                int64_list=tf.train.Int64List(value=[label + 1]))}))

    writer, written, shard = None, 0, 0
    for _, jpeg, label in samples(photos):
        if writer is None or written >= SHARD_BYTES:
            if writer is not None:
                writer.close()
            writer = tf.io.TFRecordWriter(os.path.join(output, f"photos-{shard:04d}.tfrecord"))
            written, shard = 0, shard + 1
        writer.write(example(jpeg, label).SerializeToString())
        written += len(jpeg)
    writer.close()


def write_mds(photos, output):
    from streaming import MDSWriter
    with MDSWriter(out=output, columns={"image": "bytes", "label": "int"},
                   size_limit=SHARD_BYTES) as writer:
        for _, jpeg, label in samples(photos):
            writer.write({"image": jpeg, "label": label})


def litdata_sample(sample):
    import litdata
    # max_quality=None: the bytes as they are.
    return {"image": litdata.types.Jpeg(bytes=sample[1], max_quality=None), "label": sample[2]}


def write_litdata(photos, output):
    import litdata
    litdata.optimize(fn=litdata_sample, inputs=list(samples(photos)), output_dir=output,
                     chunk_bytes=SHARD_BYTES, num_workers=1)


# --- loaders -------------------------------------------------------------------------------------


def torch_crop():
    """uint8 [3, H, W] -> uint8 [3, 224, 224]."""
    import torch
    from torchvision.transforms import v2
    torch.set_num_threads(1)
    return v2.Compose([v2.RandomResizedCrop(loaders.SIDE, antialias=True),
                       v2.RandomHorizontalFlip()])


def torch_augment():
    """JPEG bytes -> uint8 [3, 224, 224]."""
    import torch
    from torchvision.io import ImageReadMode, decode_jpeg
    crop = torch_crop()

    def augment(jpeg):
        data = torch.frombuffer(bytearray(jpeg), dtype=torch.uint8)
        return crop(decode_jpeg(data, ImageReadMode.RGB))

    return augment


def sizes_of(loader):
    while True:
        for batch in loader:
            yield batch[0].shape[0]


def webdataset(options):
    import webdataset as wds
    shards = sorted(os.path.join(options.shards, name) for name in os.listdir(options.shards))
    augment = torch_augment()
    dataset = (wds.WebDataset(shards, shardshuffle=len(shards)).shuffle(1000)
               .to_tuple("jpg", "cls").map_tuple(augment, int)
               .batched(options.batch_size, partial=False))
    return sizes_of(wds.WebLoader(dataset, batch_size=None, num_workers=options.threads,
                                  persistent_workers=True, prefetch_factor=4))


def mosaicml_streaming(options):
    import torch
    from streaming import StreamingDataset
    augment = torch_augment()

    class Photographs(StreamingDataset):

        def __getitem__(self, index):
            sample = super().__getitem__(index)
            return augment(sample["image"]), sample["label"]

    dataset = Photographs(local=options.shards, shuffle=True, batch_size=options.batch_size)
    return sizes_of(torch.utils.data.DataLoader(
        dataset, batch_size=options.batch_size, num_workers=options.threads, drop_last=True,
        persistent_workers=True, prefetch_factor=4))


def litdata(options):
    from litdata import StreamingDataLoader, StreamingDataset
    crop = torch_crop()

    class Photographs(StreamingDataset):

        def __getitem__(self, index):
            sample = super().__getitem__(index)
            return crop(sample["image"]), sample["label"]

    dataset = Photographs(options.shards, shuffle=True, drop_last=True)
    return sizes_of(StreamingDataLoader(
        dataset, batch_size=options.batch_size, num_workers=options.threads, drop_last=True,
        persistent_workers=True, prefetch_factor=4))


def tfrecord_dataset(options, antialias):
    import tensorflow as tf
    files = sorted(os.path.join(options.shards, name) for name in os.listdir(options.shards))
    features = {"image/encoded": tf.io.FixedLenFeature([], tf.string),
                "image/class/label": tf.io.FixedLenFeature([], tf.int64)}

    def load(record):
        example = tf.io.parse_single_example(record, features)
        return (loaders.tf_random_crop(example["image/encoded"], antialias),
                example["image/class/label"])

    chosen = tf.data.Options()
    chosen.threading.private_threadpool_size = options.threads
    dataset = (tf.data.Dataset.from_tensor_slices(files).shuffle(len(files))
               .interleave(tf.data.TFRecordDataset, cycle_length=2, deterministic=False)
               .shuffle(1000).repeat()
               .map(load, num_parallel_calls=tf.data.AUTOTUNE, deterministic=False)
               .batch(options.batch_size, drop_remainder=True).with_options(chosen))
    return loaders.tf_run(dataset)


LOADERS = {
    "webdataset": (webdataset, ["webdataset", "torch", "torchvision"]),
    "mosaicml_streaming": (mosaicml_streaming, ["mosaicml-streaming", "torch", "torchvision"]),
    "litdata": (litdata, ["litdata", "torch", "torchvision"]),
    "tfrecord": (lambda options: tfrecord_dataset(options, antialias=False), ["tensorflow-cpu"]),
    "tfrecord_antialias": (lambda options: tfrecord_dataset(options, antialias=True),
                           ["tensorflow-cpu"]),
}
WRITERS = {"write_tar": write_tar, "write_tfrecord": write_tfrecord, "write_mds": write_mds,
           "write_litdata": write_litdata}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("name", choices=[*LOADERS, *WRITERS])
    parser.add_argument("--photos")
    parser.add_argument("--output")
    parser.add_argument("--shards")
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch_size", type=int, default=64)
    options = parser.parse_args()
    if options.name in WRITERS:
        os.makedirs(options.output, exist_ok=True)
        WRITERS[options.name](options.photos, options.output)
        return
    loader, packages = LOADERS[options.name]
    found, seconds, cpu = loaders.measure(loader(options), options.seconds)
    print(json.dumps({"images_per_second": found / seconds, "images": found, "seconds": seconds,
                      "cpu_seconds_per_1000": 1e3 * cpu / found,
                      "versions": loaders.versions(packages)}), flush=True)
    # Loaders with threads of their own may take long to stop, or never do.
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
