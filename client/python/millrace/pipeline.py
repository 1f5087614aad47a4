"""`Pipeline`: a PipelineSpec that is written in Python, or translated from torchvision or
Albumentations. Its other messages: `Source`, `Subset`, `Shuffle`, `Output`, `FieldRole`, and synthetic
data.

    pipeline = millrace.Pipeline(
        [T.DecodeImage(), T.RandomResizedCrop(160), T.Normalize(MEAN, STD)],
        sources=[Source("photos", weight=3), Source("drawings")], bad_samples="substitute")
    loader = millrace.Loader("data-1:7001", pipeline=pipeline, batch_size=64)

docs/transforms.md, docs/order.md and proto/pipeline.proto say what the fields mean. What is None is
left to the servers. They also check the values, when a loader is opened; a wrong type raises
`millrace.ArgumentError` here.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from millrace import _message, _values
from millrace._message import Message, big_count, flag, number, word
from millrace._translated_fields import Decode, Stored, TranslatedFields
from millrace._values import shown
from millrace.errors import ArgumentError
from millrace.transforms import DType, OperatorRef, Transform

if TYPE_CHECKING:
    from millrace._local import Local


class Subset(Message):
    """A part of a dataset: sample i belongs to it when its place in the permutation keyed by `seed`,
    divided by the number of samples, is in [start, end). Subsets with the same seed and touching bounds
    are disjoint and complete.

    Args:
      start: 0 .. 1 (`from` in the spec).
      end: start .. 1 (`to` in the spec). None: 1.
      seed: None: 0.
      unit: length of runs of neighbouring samples that stay together. None: single samples.
    """

    def __init__(self, start: float = 0.0, end: float | None = None, *, seed: int | None = None,
                 unit: int | None = None) -> None:
        super().__init__({"from": number("start", start), "to": number("end", end),
                          "seed": big_count("seed", seed), "unit": big_count("unit", unit)})


class SyntheticField(Message):
    """A tensor of made-up numbers.

    Args:
      name: of the field.
      dtype: "uint8", "int64", "float32" and so on.
      shape: of one sample. None: a scalar.
      num_classes: of an int64 scalar that is a class index. None: no class.
    """

    def __init__(self, name: str, dtype: DType, shape: Sequence[int] | None = None,
                 num_classes: int | None = None) -> None:
        super().__init__({"name": _values.text("name", name), "dtype": word("dtype", dtype, "DTYPE_"),
                          "shape": _message.counts("shape", shape),
                          "num_classes": big_count("num_classes", num_classes)})


class Synthetic(Message):
    """Samples that the servers make up: to measure everything except reading and decoding, and to
    test at any size.

    Args:
      samples: their number.
      fields: the tensors of a sample.
      seed: of the contents. None: 0.
      latency_us: added to each read of a sample, in microseconds. None: 0.
      ready_batches: so many batches are made once and sent in turn. None: every sample is made.
    """

    def __init__(self, samples: int, fields: SyntheticField | Sequence[SyntheticField], *,
                 seed: int | None = None, latency_us: int | None = None,
                 ready_batches: int | None = None) -> None:
        super().__init__({"samples": big_count("samples", samples),
                          "fields": _message.messages("fields", fields, SyntheticField),
                          "seed": big_count("seed", seed),
                          "latency_us": _message.count("latency_us", latency_us),
                          "ready_batches": _message.count("ready_batches", ready_batches)})


class Source(Message):
    """A dataset of the servers, or a part of one.

    Args:
      dataset: its name at the servers. None: `synthetic`.
      weight: its share in a mixture, relative to the others, above 0. None: 1.
      subset: None: the whole dataset.
      reader: the operator that reads the dataset. None: the servers write it out.
      synthetic: made-up samples instead of a dataset.
    """

    def __init__(self, dataset: str | None = None, *, weight: float | None = None,
                 subset: Subset | None = None, reader: OperatorRef | None = None,
                 synthetic: Synthetic | None = None) -> None:
        super().__init__({"dataset": _message.text("dataset", dataset),
                          "weight": number("weight", weight),
                          "subset": _message.optional("subset", subset, Subset),
                          "reader": _message.optional("reader", reader, OperatorRef),
                          "synthetic": _message.optional("synthetic", synthetic, Synthetic)})


class Shuffle(Message):
    """The order of samples (docs/order.md). A loader's `shuffle=True` or `False` replaces it:
    `shuffle=None` keeps it.

    Args:
      mode: "global": a new permutation of all samples in each epoch; "sequential"; "block": blocks
        are permuted, then the samples inside a window of blocks.
      block_size: of "block": samples of a block. None: 64.
      window_blocks: of "block": blocks that are mixed. None: 64.
    """

    def __init__(self, mode: Literal["global", "sequential", "block"], *,
                 block_size: int | None = None, window_blocks: int | None = None) -> None:
        super().__init__({"mode": word("mode", mode), "block_size": big_count("block_size", block_size),
                          "window_blocks": big_count("window_blocks", window_blocks)})


class FieldRole(Message):
    """What a field is to the transforms that move pixels.

    Args:
      field: its name.
      role: "mask": class indices, one channel; "boxes_xyxy": float32 [K, 4], left, top, right, bottom
        in pixels; "image".
      of: the image that a mask or boxes belong to. None: "image".
      fill: of a mask: the class of pixels outside the image, 0 .. 255. None: 0.
    """

    def __init__(self, field: str, role: Literal["image", "mask", "boxes_xyxy"], *,
                 of: str | None = None, fill: int | None = None) -> None:
        super().__init__({"field": _values.text("field", field), "role": word("role", role),
                          "of": _message.text("of", of), "fill": _message.count("fill", fill)})


class Output(Message):
    """One tensor of a batch.

    Args:
      field: of the dataset.
      name: of the tensor. None: the field's.
      dtype: on the network. None: as the transforms leave it.
      layout: of an image: "as_stored"; "nhwc"; "nchw": [channels, height, width], contiguous, for the
        network and the program. None: "as_stored".
    """

    def __init__(self, field: str, *, name: str | None = None, dtype: DType | None = None,
                 layout: Literal["as_stored", "nhwc", "nchw"] | None = None) -> None:
        super().__init__({"field": _values.text("field", field), "name": _message.text("name", name),
                          "dtype": word("dtype", dtype, "DTYPE_"), "layout": word("layout", layout)})


class Origin(NamedTuple):
    """The arguments of a translation, to make it again when more is known of the images."""

    library: str  # torchvision or albumentations
    compose: Any
    field: str
    masks: str | Sequence[str] | None
    boxes: str | Sequence[str] | None
    decode: Decode
    local: Literal["sample", "batch"] | None
    options: dict[str, Any]

    def translate(self, kind: type[Pipeline], stored: Stored | None = None) -> Pipeline:
        """
        Args:
          kind: the class of the result.
          stored: what the images are, where `decode` is False.

        Raises:
          TranslationError, ArgumentError: as Pipeline.from_torchvision().
        """
        _check_names(self.library, self.options, kind)
        fields = TranslatedFields(self.field, self.masks, self.boxes, self.decode, stored)
        if self.library == "torchvision":
            from millrace import _from_torchvision
            found = _from_torchvision.translate(self.compose, fields, self.local)
        else:
            from millrace import _from_albumentations
            found = _from_albumentations.translate(self.compose, fields, self.local)
        for name, instead in (("transforms", "the compose"), ("preset", "the compose"),
                              ("field_roles", "masks= and boxes=")):
            if self.options.get(name) is not None:
                raise ArgumentError(f"{name}={shown(self.options[name])}: a translated pipeline has "
                                    f"{instead} instead")
        pipeline = kind(found.transforms, **{**self.options, "field_roles": found.roles or None})
        pipeline.notes = tuple(found.notes)
        pipeline._local = found.local.of_outputs(pipeline.values.get("outputs"))
        pipeline._origin = self
        return pipeline


class Pipeline(Message):
    """Which samples, in which order, made into which tensors: an immutable value, for
    `millrace.Loader(pipeline=...)`.

    Args:
      transforms: `millrace.transforms`, in their order. Not together with `preset`.
      preset: a pipeline by name, "imagenet_train", to which the other arguments are added.
      sources: names of datasets, or `Source`s: one, or several as a mixture. None: the loader's
        `dataset`.
      seed: of the order and of every random choice. None: 0.
      shuffle: a `Shuffle`, or its mode. None: "global". A loader's `shuffle=` comes first.
      batch_size: samples of a batch over all ranks. None: the loader's.
      last_batch: "drop", "pad" or "partial". None: "drop". A loader's `drop_last=` comes first.
      outputs: names of fields, or `Output`s: the tensors of a batch in their order. None: all fields.
      bad_samples: "fail", "substitute" or "zero". None: "fail".
      field_roles: which fields are masks and boxes.
      epoch_samples: samples of an epoch, other than the sources have. None: all.
      concatenate: True: several sources are one dataset, and not a mixture.
      compression: "none" or "zstd", on the network. None: "none".
      spec_version: None: the newest that the servers know.

    Attributes:
      notes: of a translated pipeline: what differs from the library that it was translated from, one
        sentence each. Empty otherwise.
    """

    notes: tuple[str, ...] = ()
    # Of a translated pipeline: what a loader does with each batch, and what it was made of.
    _local: Local | None = None
    _origin: Origin | None = None

    def __init__(self, transforms: Sequence[Transform] = (), *, preset: str | None = None,
                 sources: str | Source | Sequence[str | Source] | None = None,
                 seed: int | None = None,
                 shuffle: Shuffle | Literal["global", "sequential", "block"] | None = None,
                 batch_size: int | None = None,
                 last_batch: Literal["drop", "pad", "partial"] | None = None,
                 outputs: str | Output | Sequence[str | Output] | None = None,
                 bad_samples: Literal["fail", "substitute", "zero"] | None = None,
                 field_roles: FieldRole | Sequence[FieldRole] | None = None,
                 epoch_samples: int | None = None, concatenate: bool | None = None,
                 compression: Literal["none", "zstd"] | None = None,
                 spec_version: int | None = None) -> None:
        action = word("bad_samples", bad_samples)
        super().__init__({
            "spec_version": _message.count("spec_version", spec_version),
            "preset": _message.text("preset", preset),
            "sources": _named("sources", sources, Source),
            "seed": big_count("seed", seed),
            "shuffle": _message.optional("shuffle", Shuffle(shuffle) if isinstance(shuffle, str)
                                         else shuffle, Shuffle),
            "batch_size": big_count("batch_size", batch_size),
            "last_batch": word("last_batch", last_batch, "LAST_BATCH_"),
            "transforms": _message.messages("transforms", transforms, Transform) or None,
            "outputs": _named("outputs", outputs, Output),
            "bad_samples": action and Message({"action": action}),
            "field_roles": _message.messages("field_roles", field_roles, FieldRole) or None,
            "epoch_samples": big_count("epoch_samples", epoch_samples),
            "concatenate": flag("concatenate", concatenate),
            "compression": word("compression", compression, "COMPRESSION_")})

    @property
    def text(self) -> str:
        """The PipelineSpec as protobuf text, a field a line: what `millrace-data check`, `--pipeline`
        and every other program take as a file."""
        # A text without a field is no spec. 0 is the default.
        return "\n".join(["# A PipelineSpec, written by millrace.Pipeline.",
                          *(_message.write(self.values) or ["seed: 0"]), ""])

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<millrace.Pipeline: {'; '.join(_message.write(self.values))}>"

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other) and isinstance(other, Pipeline) and other._local == self._local

    __hash__ = Message.__hash__

    @property
    def transforms(self) -> tuple[Transform, ...]:
        """The transforms that the servers apply, in their order."""
        return tuple(self.values.get("transforms", ()))

    @property
    def local_transforms(self) -> tuple[Any, ...]:
        """The transforms of the other library that the loader applies to each batch (`local=`)."""
        return () if self._local is None else self._local.steps

    @classmethod
    def from_torchvision(cls, compose: Any, *, field: str = "image",
                         masks: str | Sequence[str] | None = None,
                         boxes: str | Sequence[str] | None = None, decode: Decode = True,
                         local: Literal["sample", "batch"] | None = None, **options: Any) -> Pipeline:
        """The same pipeline as a Compose of torchvision.transforms.v2 (or one transform of it), for the
        images of one field, and the masks and boxes that move with them.

        What the servers cannot do is refused, and `notes` says what differs. Batches have the shape and
        type of torchvision's: images [rows, channels, height, width], masks [rows, 1, height, width],
        boxes [rows, K, 4].

        Args:
          compose: only what it holds is looked at; torchvision is not imported.
          field: of the images.
          masks: fields of masks, one or several: class indices, one channel, as large as the image. They
            move by the nearest pixel. None: none.
          boxes: fields of boxes, one or several: float32 [K, 4], left, top, right, bottom in pixels.
            None: none.
          decode: True: images are JPEG, PNG or WebP, and are decoded to RGB first, masks are PNG, and are
            decoded to the numbers that they hold; a DecodeImage: images are decoded in this way; a list of
            DecodeImage: these fields, and no others; False: the dataset holds raw pixels.
          local: what to do from the first transform on that the servers cannot do. None: refuse.
            "sample": the loader applies the rest of the compose to each image, with random choices for
            each; "batch": to the whole batch at once, which is faster, with one random choice for all
            images. With masks or boxes, the transforms get a dict of all three, by the names of the
            fields. These choices do not follow from `seed`.
          options: the other arguments of Pipeline: sources, bad_samples and so on.

        Raises:
          TranslationError: names each transform that the servers cannot do, its position, the parameter,
            the reason and what to do.
        """
        return Origin("torchvision", compose, field, masks, boxes, decode, local,
                      options).translate(cls)

    @classmethod
    def from_albumentations(cls, compose: Any, *, field: str = "image",
                            masks: str | Sequence[str] | None = None,
                            boxes: str | Sequence[str] | None = None, decode: Decode = True,
                            local: Literal["sample"] | None = None, **options: Any) -> Pipeline:
        """The same pipeline as a Compose of Albumentations 2, for the images of one field, and the masks
        and boxes that move with them.

        As `from_torchvision`. Batches have the shape and type of Albumentations': with ToTensorV2 at the
        end [rows, channels, height, width], otherwise [rows, height, width, channels]; masks [rows,
        height, width]. Boxes need bbox_params with the format "pascal_voc". Albumentations works on single
        images, so `local` is "sample" or None, and None with masks or boxes.
        """
        return Origin("albumentations", compose, field, masks, boxes, decode, local,
                      options).translate(cls)


def _check_names(library: str, options: Mapping[str, Any], kind: type[Pipeline]) -> None:
    """Raises ArgumentError for an option of a translation that no Pipeline has."""
    if kind.__init__ is not Pipeline.__init__:
        return  # it has arguments of its own
    of_pipelines = tuple(inspect.signature(Pipeline).parameters)
    for name in options:
        if name not in of_pipelines:
            near = difflib.get_close_matches(name, ("field", "masks", "boxes", "decode", "local", *of_pipelines), 1)
            raise _values.unknown_argument(f"Pipeline.from_{library}", name, near)


N = TypeVar("N", Source, Output)


def _named(name: str, value: Any, kind: type[N]) -> list[N] | None:
    """Messages, or the names of datasets or fields."""
    if value is None:
        return None
    items = (value,) if isinstance(value, (str, kind)) else \
        _message.sequence(name, value, f"names, or millrace {kind.__name__}s")
    if not items:  # an empty list in the spec is the default
        raise ArgumentError(f"{name}=[]: expected at least one; leave {name}= out for the default")
    return _message.messages(
        name, [kind(item) if isinstance(item, str) else item for item in items], kind)


__all__ = ["FieldRole", "Output", "Pipeline", "Shuffle", "Source", "Subset", "Synthetic",
           "SyntheticField"]
