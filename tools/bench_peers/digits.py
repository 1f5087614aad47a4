"""Samples a second of torch's DataLoader over MNIST's format, as torchvision's MNIST example loads it:
one process, batches of 64, ToTensor and Normalize of each 28 x 28 picture.

    digits.py IDX_DIR --seconds=S

Prints one JSON object: images_per_second, images, seconds, cpu_seconds_per_1000. The first 100
batches do not count. IDX_DIR holds train-images-idx3-ubyte and train-labels-idx1-ubyte, plain or .gz.
"""

import argparse
import gzip
import json
import pathlib
import struct

import loaders


def read_idx(folder, prefix):
    import numpy
    path = sorted(p for p in pathlib.Path(folder).rglob("*") if p.name.startswith(prefix))[0]
    data = path.read_bytes()
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    sides = struct.unpack_from(f">{data[3]}I", data, 4)
    return numpy.frombuffer(data, numpy.uint8, offset=4 + 4 * data[3]).reshape(sides).copy()


def batches(folder):
    import torch
    from PIL import Image
    from torchvision import transforms

    images = torch.from_numpy(read_idx(folder, "train-images"))
    labels = torch.from_numpy(read_idx(folder, "train-labels").astype("int64"))
    prepare = transforms.Compose([transforms.ToTensor(),
                                  transforms.Normalize((0.1307,), (0.3081,))])

    class Digits(torch.utils.data.Dataset):
        def __len__(self):
            return len(labels)

        def __getitem__(self, index):
            return prepare(Image.fromarray(images[index].numpy())), int(labels[index])

    loader = torch.utils.data.DataLoader(Digits(), batch_size=64, shuffle=True)
    while True:
        for pictures, _ in loader:
            yield len(pictures)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder")
    parser.add_argument("--seconds", type=float, default=3)
    options = parser.parse_args()
    samples, seconds, cpu = loaders.measure(batches(options.folder), options.seconds,
                                            warm_batches=100, warm_seconds=0.5)
    print(json.dumps({"images_per_second": samples / seconds, "images": samples,
                      "seconds": seconds, "cpu_seconds_per_1000": 1e3 * cpu / samples,
                      "versions": loaders.versions(["torch", "torchvision"])}))


if __name__ == "__main__":
    main()
