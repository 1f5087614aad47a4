"""Images a second of one existing loader over the folder of photographs.

    loaders.py NAME --photos=DIR --seconds=S [--threads=2] [--batch_size=64] [--work=DIR]
    loaders.py NAME --prepare ...      what must be made once (FFCV's own file)
    loaders.py --list

Prints one JSON object: images_per_second, images, seconds, cpu_seconds_per_1000 (this process and
its children), versions. The first batches (at least 12 of them and 1.5 s) do not count: they fill
queues and warm what compiles itself. Each loader decodes `threads` photographs at a time.

Each function below is one loader as its documentation shows it: it yields the size of each batch.
"""

import argparse
import importlib.metadata
import json
import math
import os
import pathlib
import random
import subprocess
import sys
import time

from cpu_time import cpu_seconds

SIDE = 224
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class Work:
    """What a loader is given."""

    def __init__(self, options):
        self.files = sorted(str(p) for p in pathlib.Path(options.photos).rglob("*.jpg"))
        self.labels = [int(pathlib.Path(f).parent.name[5:]) for f in self.files]
        self.threads = options.threads
        self.batch = options.batch_size
        self.folder = options.work


# --- torch.utils.data.DataLoader ----------------------------------------------------------------


class FileDataset:
    """(transform(path), label) by index."""

    def __init__(self, work, transform):
        self.work, self.transform = work, transform

    def __len__(self):
        return len(self.work.files)

    def __getitem__(self, index):
        return self.transform(self.work.files[index]), self.work.labels[index]


def data_loader(work, transform):
    import torch
    torch.set_num_threads(1)
    loader = torch.utils.data.DataLoader(
        FileDataset(work, transform), batch_size=work.batch, shuffle=True, drop_last=True,
        num_workers=work.threads, persistent_workers=True, prefetch_factor=4)
    while True:
        for images, _ in loader:
            yield images.shape[0]


def torchvision_pil(work):
    from PIL import Image
    from torchvision.transforms import v2
    augment = v2.Compose([v2.RandomResizedCrop(SIDE, antialias=True), v2.RandomHorizontalFlip(),
                          v2.PILToTensor()])
    return data_loader(work, lambda path: augment(Image.open(path).convert("RGB")))


def torchvision_tensor(path):
    from torchvision.io import ImageReadMode, decode_jpeg, read_file
    return decode_jpeg(read_file(path), ImageReadMode.RGB)


def torchvision_v2(work):
    from torchvision.transforms import v2
    augment = v2.Compose([v2.RandomResizedCrop(SIDE, antialias=True), v2.RandomHorizontalFlip()])
    return data_loader(work, lambda path: augment(torchvision_tensor(path)))


def torchvision_article(work):
    import torch
    from torchvision.transforms import v2
    augment = v2.Compose([
        v2.RandomResizedCrop(SIDE, antialias=True), v2.RandomHorizontalFlip(0.5),
        v2.ColorJitter(0.2, 0.2, 0.2, 0.1), v2.ToDtype(torch.float32, scale=True),
        v2.Normalize(MEAN, STD)])
    return data_loader(work, lambda path: augment(torchvision_tensor(path)))


def opencv_rgb(path):
    import cv2
    return cv2.cvtColor(cv2.imread(path), cv2.COLOR_BGR2RGB)


def albumentations(work):
    import albumentations as A
    import cv2
    cv2.setNumThreads(0)
    augment = A.Compose([A.RandomResizedCrop(size=(SIDE, SIDE)), A.HorizontalFlip(p=0.5)])
    return data_loader(work, lambda path: augment(image=opencv_rgb(path))["image"])


def albumentations_article(work):
    import albumentations as A
    import cv2
    from albumentations.pytorch import ToTensorV2
    cv2.setNumThreads(0)
    augment = A.Compose([
        A.RandomResizedCrop(size=(SIDE, SIDE)), A.HorizontalFlip(p=0.5),
        A.ColorJitter(brightness=(0.8, 1.2), contrast=(0.8, 1.2), saturation=(0.8, 1.2),
                      hue=(-0.1, 0.1), p=1.0),
        A.Normalize(mean=MEAN, std=STD), ToTensorV2()])
    return data_loader(work, lambda path: augment(image=opencv_rgb(path))["image"])


# --- NVIDIA DALI, on the CPU ---------------------------------------------------------------------


def dali(work):
    from nvidia.dali import fn, pipeline_def, types

    @pipeline_def(batch_size=work.batch, num_threads=work.threads, device_id=None,
                  prefetch_queue_depth=4)
    def build():
        encoded, label = fn.readers.file(files=work.files, labels=work.labels, random_shuffle=True)
        image = fn.decoders.image_random_crop(
            encoded, device="cpu", output_type=types.RGB, random_area=[0.08, 1.0],
            random_aspect_ratio=[3 / 4, 4 / 3])
        image = fn.resize(image, size=[SIDE, SIDE])
        return fn.flip(image, horizontal=fn.random.coin_flip()), label

    pipeline = build()
    pipeline.build()
    while True:
        images, _ = pipeline.run()
        yield len(images)


# --- FFCV: its own file, JPEGs of quality 90 -------------------------------------------------------


def ffcv_file(work):
    return os.path.join(work.folder, "photographs.beton")


def ffcv_prepare(work):
    import numpy
    from ffcv.fields import IntField, RGBImageField
    from ffcv.writer import DatasetWriter
    from PIL import Image

    class Pixels(FileDataset):
        def __init__(self):
            super().__init__(work, lambda path: numpy.asarray(Image.open(path).convert("RGB")))

    part = ffcv_file(work) + ".part"
    writer = DatasetWriter(part, {"image": RGBImageField(write_mode="jpg", jpeg_quality=90),
                                  "label": IntField()}, num_workers=work.threads)
    writer.from_indexed_dataset(Pixels())
    os.replace(part, ffcv_file(work))


def ffcv(work):
    from ffcv.fields.decoders import IntDecoder, RandomResizedCropRGBImageDecoder
    from ffcv.loader import Loader, OrderOption
    from ffcv.transforms import RandomHorizontalFlip, ToTensor
    loader = Loader(
        ffcv_file(work), batch_size=work.batch, num_workers=work.threads,
        order=OrderOption.RANDOM, os_cache=True, drop_last=True,
        pipelines={"image": [RandomResizedCropRGBImageDecoder((SIDE, SIDE)),
                             RandomHorizontalFlip(), ToTensor()],
                   "label": [IntDecoder(), ToTensor()]})
    while True:
        for images, _ in loader:
            yield images.shape[0]


# --- SPDL: FFmpeg's decoder and filters --------------------------------------------------------------


def crop_of(width, height):
    """torchvision's RandomResizedCrop.get_params."""
    for _ in range(10):
        area = width * height * random.uniform(0.08, 1)
        ratio = math.exp(random.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            return w, h, random.randint(0, width - w), random.randint(0, height - h)
    side = min(width, height)
    return side, side, (width - side) // 2, (height - side) // 2


def spdl(work):
    import spdl.io
    import spdl.pipeline

    def paths():
        while True:
            order = list(work.files)
            random.shuffle(order)
            yield from order

    def decode(path):
        with open(path, "rb") as file:
            packets = spdl.io.demux_image(file.read())
        w, h, x, y = crop_of(packets.codec.width, packets.codec.height)
        flip = ",hflip" if random.random() < 0.5 else ""
        return spdl.io.decode_packets(
            packets, filter_desc=f"crop={w}:{h}:{x}:{y},scale={SIDE}:{SIDE}{flip},format=rgb24")

    def batch(frames):
        return spdl.io.to_numpy(spdl.io.convert_frames(frames))

    pipeline = (spdl.pipeline.PipelineBuilder().add_source(paths())
                .pipe(decode, concurrency=work.threads).aggregate(work.batch, drop_last=True)
                .pipe(batch).add_sink(4).build(num_threads=work.threads + 1))
    with pipeline.auto_stop():
        for images in pipeline:
            yield images.shape[0]


# --- tf.data and tf.data service ---------------------------------------------------------------------


def tf_random_crop(encoded, antialias):
    """uint8 [224, 224, 3] of a JPEG."""
    import tensorflow as tf
    begin, size, _ = tf.image.sample_distorted_bounding_box(
        tf.io.extract_jpeg_shape(encoded), tf.zeros([0, 0, 4]), area_range=(0.08, 1.0),
        aspect_ratio_range=(3 / 4, 4 / 3), use_image_if_no_bounding_boxes=True)
    y, x, _ = tf.unstack(begin)
    height, width, _ = tf.unstack(size)
    image = tf.image.decode_and_crop_jpeg(encoded, [y, x, height, width], channels=3)
    image = tf.image.resize(image, [SIDE, SIDE], antialias=antialias)
    return tf.image.random_flip_left_right(tf.cast(image, tf.uint8))


def tf_dataset(work, antialias):
    import tensorflow as tf

    def load(path, label):
        return tf_random_crop(tf.io.read_file(path), antialias), label

    return (tf.data.Dataset.from_tensor_slices((work.files, work.labels))
            .shuffle(len(work.files)).repeat()
            .map(load, num_parallel_calls=tf.data.AUTOTUNE, deterministic=False)
            .batch(work.batch, drop_remainder=True))


def tf_run(dataset):
    for images, _ in dataset.prefetch(4):
        yield images.shape[0]


def tf_local(work, antialias):
    import tensorflow as tf
    options = tf.data.Options()
    options.threading.private_threadpool_size = work.threads
    return tf_run(tf_dataset(work, antialias).with_options(options))


def tfdata(work):
    return tf_local(work, antialias=False)  # TensorFlow's default


def tfdata_antialias(work):
    return tf_local(work, antialias=True)


TF_WORKER = """
import sys
import tensorflow.data.experimental.service as service
server = service.WorkerServer(service.WorkerConfig(dispatcher_address=sys.argv[1]))
print("ready", flush=True)
server.join()
"""


class TfService:
    """Dispatcher here, worker in a process of its own, as deployed; ended with the object."""

    def __init__(self):
        import tensorflow.data.experimental.service as service
        self.service = service
        self.dispatcher = service.DispatchServer(service.DispatcherConfig(port=0))
        address = self.dispatcher.target.split("://")[1]
        self.worker = subprocess.Popen([sys.executable, "-c", TF_WORKER, address],
                                       stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        if self.worker.stdout.readline() != b"ready\n":
            raise RuntimeError("the worker of tf.data service did not start")

    def distribute(self, dataset):
        return dataset.apply(self.service.distribute(
            processing_mode="parallel_epochs", service=self.dispatcher.target, compression=None))

    def close(self):
        self.worker.kill()
        self.worker.wait()


def tfdata_service(work):
    service = TfService()
    try:
        yield from tf_run(service.distribute(tf_dataset(work, antialias=False)))
    finally:
        service.close()


LOADERS = {
    "torchvision_pil": (torchvision_pil, ["torch", "torchvision", "pillow"]),
    "torchvision_v2": (torchvision_v2, ["torch", "torchvision"]),
    "torchvision_article": (torchvision_article, ["torch", "torchvision"]),
    "albumentations": (albumentations, ["albumentations", "opencv-python-headless", "torch"]),
    "albumentations_article": (albumentations_article,
                               ["albumentations", "opencv-python-headless", "torch"]),
    "dali": (dali, ["nvidia-dali-cuda130"]),
    "ffcv": (ffcv, ["ffcv", "torch"]),
    "spdl": (spdl, ["spdl"]),
    "tfdata": (tfdata, ["tensorflow-cpu"]),
    "tfdata_antialias": (tfdata_antialias, ["tensorflow-cpu"]),
    "tfdata_service": (tfdata_service, ["tensorflow-cpu"]),
}
PREPARE = {"ffcv": ffcv_prepare}


# --- measuring ------------------------------------------------------------------------------------------


def measure(batches, seconds, warm_batches=12, warm_seconds=1.5):
    """(samples, seconds, CPU seconds) of the iterator of batch sizes."""
    begun = time.perf_counter()
    warm = samples = 0
    start = cpu = None
    for size in batches:
        now = time.perf_counter()
        if start is None:
            warm += 1
            if warm >= warm_batches and now - begun >= warm_seconds:
                start, cpu = now, cpu_seconds()
            continue
        samples += size
        if now - start >= seconds:
            return samples, now - start, cpu_seconds() - cpu
    raise RuntimeError("the loader ended before the measurement did")


def versions(packages):
    found = {}
    for package in packages:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            pass
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("name", choices=sorted(LOADERS), nargs="?")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--prepare", action="store_true")
    parser.add_argument("--photos")
    parser.add_argument("--work", default=".")
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch_size", type=int, default=64)
    options = parser.parse_args()
    if options.list or not options.name:
        print("\n".join(sorted(LOADERS)))
        return
    work = Work(options)
    if options.prepare:
        if options.name in PREPARE:
            PREPARE[options.name](work)
        return
    loader, packages = LOADERS[options.name]
    batches = loader(work)
    samples, seconds, cpu = measure(batches, options.seconds)
    print(json.dumps({"images_per_second": samples / seconds, "images": samples,
                      "seconds": seconds, "cpu_seconds_per_1000": 1e3 * cpu / samples,
                      "versions": versions(packages)}), flush=True)
    if options.name == "tfdata_service":
        batches.close()
    # Loaders with threads of their own may take long to stop, or never do.
    os._exit(0)


if __name__ == "__main__":
    main()
