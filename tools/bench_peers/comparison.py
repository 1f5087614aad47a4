"""What is compared: the rows, in groups that do the same work, and the goals. Data only.

A row is measured by `command(context)`, a list of words whose last line of output holds one JSON
object, and `value(json)`. A row of ours that this version refuses, and a peer that is not installed,
are named in the table as not available.
"""

import dataclasses
import os
from typing import Callable

HERE = os.path.dirname(os.path.abspath(__file__))

_CROP = """
sources {{ dataset: "photographs" }}
transforms {{ decode_image {{ {decode} }} }}
transforms {{ random_resized_crop {{ height: 224 width: 224 {crop} }} }}
transforms {{ horizontal_flip {{}} }}
"""
_JITTER = """
transforms { color_jitter {
  brightness_min: 0.8 brightness_max: 1.2 contrast_min: 0.8 contrast_max: 1.2
  saturation_min: 0.8 saturation_max: 1.2 hue_min: -0.1 hue_max: 0.1 } }
"""
_NORMALIZE = """
transforms {{ normalize {{
  mean: [0.485, 0.456, 0.406] stddev: [0.229, 0.224, 0.225] {placement} }} }}
"""

# Pipeline specs by name; the rows that use one name it.
SPECS = {
    "crop": _CROP.format(decode="", crop=""),
    "exact": _CROP.format(decode="mode: EXACT", crop=""),
    "no_antialias": _CROP.format(decode="", crop="no_antialias: true"),
    "article": (_CROP.format(decode="", crop="") + _JITTER +
                _NORMALIZE.format(placement="placement: PLACEMENT_SERVER")),
    "article_device": (_CROP.format(decode="", crop="") + _JITTER +
                       _NORMALIZE.format(placement="")),
    "digits": 'sources { dataset: "digits" } preset: "mnist"',
}
# Shards that shards.py writes, and the folder itself: {format: what it is}.
SHARDS = {
    "imagefolder": "the folder itself",
    "tar": "WebDataset's tar shards",
    "tfrecord": "TFRecord files",
    "mds": "MosaicML's MDS shards",
    "litdata": "LitData's chunks",
}
SPECS.update({f"crop_{name}": SPECS["crop"].replace('"photographs"', f'"{name}"')
              for name in SHARDS})


@dataclasses.dataclass(frozen=True)
class Context:
    """Where things are."""
    programs: dict  # name: path
    python: dict  # "torch", "tensorflow", "extra": interpreter, or absent
    photos: str
    digits: str  # folder of IDX files
    packed: dict  # "photographs", "seekable", "digits": URI
    unavailable: dict  # row or environment: why it is not there
    specs: dict  # name: file
    work: str
    seconds: float
    threads: int


@dataclasses.dataclass(frozen=True)
class Row:
    key: str
    group: str
    label: str
    command: Callable  # Context -> words, or a sentence why there is none
    value: str = "images_per_second"
    cpu: str = "cpu_seconds_per_1000"
    ours: bool = False
    environment: tuple = ()  # ((name, value), ...) of the measured program
    reference: str = ""  # the row of ours that this one is compared with; none: its group's
    optional: bool = False  # measured only when its group or key is asked for


GROUPS = {
    "crop": "decode, RandomResizedCrop(224), flip: the pipeline alone, images/s",
    "service": "the same through server and client, images/s",
    "article": "RandomResizedCrop(224), flip, ColorJitter, Normalize to float32, images/s",
    "digits": "28 x 28 samples, batch 64, samples/s",
    "wire": "ready batches of 9.6 MB over the loopback, GB/s",
    "datasets": "the same crops from datasets read as they are, server and client, images/s",
    "allocators": "the server with other memory allocators, images/s or samples/s",
}

def _pipeline(spec, dataset="photographs"):
    def command(context):
        if dataset not in context.packed:
            return context.unavailable.get(dataset, f"'{dataset}' is not packed")
        return [context.programs["spec_bench"], f"--dataset={context.packed[dataset]}",
                f"--pipeline={context.specs[spec]}", f"--threads={context.threads}",
                f"--seconds={context.seconds}"]
    return command


def _service(spec, rate, dataset=""):
    """Server and client; `rate` is about how many samples a second they have, to choose a length.
    `dataset`: what the spec reads where it may be missing."""
    def command(context):
        if dataset and dataset not in context.packed:
            return context.unavailable.get(dataset, f"no shards '{dataset}' were written")
        return ["python3", os.path.join(HERE, "service.py"),
                context.programs["millrace-server"], context.programs["millrace"],
                context.specs[spec], str(max(8, int(context.seconds * rate / 64))),
                str(context.threads)] + [f"{name}={uri}" for name, uri in context.packed.items()]
    return command


def _script(python, *words):
    def command(context):
        if python not in context.python:
            return context.unavailable.get(python, f"no environment '{python}'")
        return [context.python[python], os.path.join(HERE, words[0]), *words[1:],
                f"--seconds={context.seconds}"]
    return command


def _loader(python, name):
    def command(context):
        words = _script(python, "loaders.py", name)(context)
        return words if isinstance(words, str) else words + [
            f"--photos={context.photos}", f"--threads={context.threads}", f"--work={context.work}"]
    return command


def _shards(python, name, shards):
    def command(context):
        words = _script(python, "shards.py", name)(context)
        if isinstance(words, str):
            return words
        if shards not in context.packed:
            return context.unavailable.get(shards, f"no shards '{shards}' were written")
        folder = context.packed[shards].partition(":")[2]
        return words + [f"--shards={folder}", f"--threads={context.threads}"]
    return command


def _digits(context):
    words = _script("torch", "digits.py")(context)
    return words if isinstance(words, str) else words + [context.digits]


def _wire(client):
    def command(context):
        return [context.programs["wire_bench"], f"--client={client}", "--rounds=1", "--json",
                f"--seconds={context.seconds}"]
    return command


_CROP_PEERS = [
    ("tfdata_antialias", "tensorflow", "tf.data, antialiased"),
    ("tfdata", "tensorflow", "tf.data, its default (not antialiased)"),
    ("torchvision_v2", "torch", "torchvision v2, decode_jpeg"),
    ("torchvision_pil", "torch", "torchvision v2, Pillow"),
    ("albumentations", "torch", "Albumentations, OpenCV (not antialiased)"),
    ("dali", "torch", "NVIDIA DALI, CPU"),
    ("ffcv", "extra", "FFCV, its own file (area filter)"),
    ("spdl", "extra", "SPDL, FFmpeg"),
]

ROWS = [
    Row("millrace", "crop", "Millrace", _pipeline("crop"), ours=True),
    Row("millrace_exact", "crop", "Millrace, decode EXACT", _pipeline("exact"), ours=True),
    Row("millrace_no_antialias", "crop", "Millrace, not antialiased", _pipeline("no_antialias"),
        ours=True),
    Row("millrace_seekable", "crop", "Millrace, packed with --seekable",
        _pipeline("crop", "seekable"), ours=True),
    *[Row(key, "crop", label, _loader(python, key)) for key, python, label in _CROP_PEERS],
    Row("millrace_service", "service", "Millrace", _service("crop", 2600), ours=True,
        cpu="client_cpu_seconds_per_gigabyte"),
    Row("tfdata_service", "service", "tf.data service, its default (not antialiased)",
        _loader("tensorflow", "tfdata_service")),
    Row("millrace_article", "article", "Millrace, normalised on the server", _pipeline("article"),
        ours=True),
    Row("millrace_article_device", "article", "Millrace, uint8 out (normalised on the device)",
        _pipeline("article_device"), ours=True),
    Row("albumentations_article", "article", "Albumentations",
        _loader("torch", "albumentations_article")),
    Row("torchvision_article", "article", "torchvision v2", _loader("torch", "torchvision_article")),
    Row("millrace_digits", "digits", "Millrace, server and client", _service("digits", 800000),
        ours=True, cpu="client_cpu_seconds_per_gigabyte"),
    Row("dataloader_digits", "digits", "torch DataLoader, one process",
        _digits),
    Row("millrace_wire", "wire", "Millrace, its client", _wire("loader"), "gigabytes_per_second",
        "cpu_seconds_per_gigabyte", ours=True),
    *[Row(key, "wire", label, _script("torch", "wire.py", "flight", f"--record_batch_bytes={size}"),
          "gigabytes_per_second", "cpu_seconds_per_gigabyte")
      for key, label, size in [
          ("flight_wire", "Arrow Flight, one record batch a tensor", 64 * 224 * 224 * 3),
          ("flight_wire_1m", "Arrow Flight, record batches of 1 MiB", 1 << 20),
          ("flight_wire_256k", "Arrow Flight, record batches of 256 KiB", 256 << 10)]],
    Row("tcp_wire", "wire", "one plain TCP stream", _wire("tcp"), "gigabytes_per_second",
        "cpu_seconds_per_gigabyte"),
]

# As the datasets lie, beside the packed one and beside the loaders that their writers come from.
ROWS.append(Row("millrace_lmdb", "datasets", "Millrace, packed", _service("crop", 2600), ours=True,
                cpu="client_cpu_seconds_per_gigabyte", optional=True))
for _name, _what in SHARDS.items():
    ROWS.append(Row(f"millrace_{_name}", "datasets", f"Millrace, {_what}",
                    _service(f"crop_{_name}", 2600, _name), ours=True, reference="millrace_lmdb",
                    cpu="client_cpu_seconds_per_gigabyte", optional=True))
for _name, _python, _label, _format in [
        ("webdataset", "shards", "WebDataset", "tar"),
        ("mosaicml_streaming", "shards", "MosaicML Streaming", "mds"),
        ("litdata", "shards", "LitData", "litdata"),
        ("tfrecord_antialias", "tensorflow", "tf.data, TFRecord files, antialiased", "tfrecord"),
        ("tfrecord", "tensorflow", "tf.data, TFRecord files, its default (not antialiased)",
         "tfrecord")]:
    ROWS.append(Row(f"peer_{_name}", "datasets", _label, _shards(_python, _name, _format),
                    reference=f"millrace_{_format}", optional=True))

# In the server alone, by LD_PRELOAD; beside malloc, which is measured above.
for _name, _library in [("mimalloc", "libmimalloc.so.2"), ("tcmalloc", "libtcmalloc_minimal.so.4"),
                        ("jemalloc", "libjemalloc.so.2")]:
    for _job, _spec, _rate in [("service", "crop", 2600), ("digits", "digits", 800000)]:
        ROWS.append(Row(
            f"{_job}_{_name}", "allocators", f"{_name}, "
            f"{'photographs' if _job == 'service' else '28 x 28'}", _service(_spec, _rate),
            cpu="client_cpu_seconds_per_gigabyte", environment=(("LD_PRELOAD", _library),),
            ours=True, reference=f"millrace_{_job}", optional=_name != "mimalloc"))

# The row of ours whose ratio to each other row of the group is shown.
REFERENCES = {"crop": "millrace", "service": "millrace_service", "article": "millrace_article",
              "digits": "millrace_digits", "wire": "millrace_wire",
              "datasets": "millrace_lmdb"}

# (ours, peer, at least so many times as fast)
GOALS = [
    ("millrace", "tfdata_antialias", 3.0),
    ("millrace", "tfdata", 1.35),
    ("millrace_no_antialias", "tfdata", 1.5),
    ("millrace", "ffcv", 2.75),
    ("millrace", "dali", 2.75),
    ("millrace", "albumentations", 2.0),
    ("millrace", "torchvision_v2", 2.25),
    ("millrace_service", "tfdata_service", 1.75),
    ("millrace_article", "albumentations_article", 2.0),
    ("millrace_article", "torchvision_article", 2.0),
    ("millrace_digits", "dataloader_digits", 50.0),
    ("millrace_tar", "peer_webdataset", 2.5),
    ("millrace_mds", "peer_mosaicml_streaming", 2.5),
    ("millrace_litdata", "peer_litdata", 2.5),
    ("millrace_tfrecord", "peer_tfrecord_antialias", 2.5),
    *[(f"millrace_{_name}", "millrace_lmdb", 0.95) for _name in SHARDS if _name != "litdata"],
    ("millrace_wire", "flight_wire", 1.25),
    ("millrace_wire", "flight_wire_1m", 1.1),
    ("millrace_wire", "flight_wire_256k", 1.1),
]

# (ours, peer, at most so many times its CPU)
CPU_GOALS = [
    ("millrace_wire", "flight_wire", 0.6),
]
