"""`Loader.preview()`: samples of a batch before and after the pipeline, side by side.

After: the batch itself, as the servers send it. Before: the same samples through a second pipeline
of the same order that only decodes and shrinks them, because servers send no stored samples.
"""

from __future__ import annotations

import base64
import html
import io
import os
import struct
from typing import TYPE_CHECKING, Any, Mapping, NamedTuple, Sequence

from millrace import _picture, _spec_text
from millrace._millrace import Tensor
from millrace._picture import Picture
from millrace._position import Position
from millrace.errors import InvalidArgumentError

if TYPE_CHECKING:
    from millrace.loader import Loader

_CELL = 224  # pixels of the longer side of a shown picture
_SHORT_SIDE = 160  # of a decoded image before the pipeline; wide ones are cut at 2 : 1
_GAP = 8  # pixels between before and after; three times as much between pairs
_SHEET_WIDTH = 1200

# Of module struct. Tensors of other types, such as bfloat16, cannot be shown.
_FORMATS = {"uint8": "B", "int8": "b", "bool": "?", "uint16": "H", "int16": "h", "int32": "i",
            "int64": "q", "float16": "e", "float32": "f", "float64": "d"}


class _Pair(NamedTuple):
    title: str  # "row 0: sample 17 of photos"
    lines: Sequence[str]  # "horizontal_flip: flipped"
    before: Picture | None  # None: damaged, or padding
    after: Picture | None


class Preview:
    """Samples of a batch before and after the pipeline. A notebook shows it as the value of a cell;
    `print()` shows the text alone."""

    def __init__(self, title: str, lines: Sequence[str], pairs: Sequence[_Pair]) -> None:
        self._title, self._lines, self._pairs = title, lines, pairs
        self._png = b""

    @property
    def png(self) -> bytes:
        """A PNG file: each sample before and after, in the order of the rows, without the text."""
        if not self._png:
            self._png = _picture.png(_sheet([(pair.before, pair.after) for pair in self._pairs]))
        return self._png

    @property
    def image(self) -> Any:
        """The same as a PIL.Image.Image.

        Raises:
          InvalidArgumentError: Pillow cannot be imported.
        """
        try:
            from PIL import Image  # type: ignore[import-not-found,unused-ignore]
        except ImportError as error:
            raise InvalidArgumentError(
                f"Preview.image: PIL cannot be imported ({error}); install pillow, or use "
                "Preview.save(path) or Preview.png, which need no package") from error
        image = Image.open(io.BytesIO(self.png))
        image.load()
        return image

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the PNG file.

        Raises:
          InvalidArgumentError: the path does not end in ".png".
          OSError: the file cannot be written.
        """
        if not os.fspath(path).lower().endswith(".png"):
            raise InvalidArgumentError(
                f"Preview.save({os.fspath(path)!r}): only PNG files can be written; choose a path "
                "that ends in \".png\"")
        with open(path, "wb") as file:
            file.write(self.png)

    def __str__(self) -> str:
        lines = [self._title, *self._lines]
        for pair in self._pairs:
            lines += [pair.title, *("  " + line for line in pair.lines)]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<millrace.Preview: {self._title}>"

    def _repr_png_(self) -> bytes:
        return self.png

    def _repr_html_(self) -> str:
        """The pictures with the text below each."""
        parts = [f"<b>{html.escape(self._title)}</b>",
                 *(f"<br>{html.escape(line)}" for line in self._lines), "<br>"]
        for pair in self._pairs:
            data = base64.b64encode(_picture.png(_sheet([(pair.before, pair.after)]))).decode()
            text = "<br>".join(html.escape(line) for line in pair.lines)
            parts.append(
                "<figure style=\"display: inline-block; vertical-align: top; margin: 8px\">"
                f"<img src=\"data:image/png;base64,{data}\" alt=\"before and after\"><figcaption>"
                f"<b>{html.escape(pair.title)}</b><br>{text}</figcaption></figure>")
        return "".join(parts)


def _sheet(pairs: Sequence[tuple[Picture | None, Picture | None]]) -> Picture:
    if not pairs:
        return Picture(0, 0, b"")
    shown = [picture for pair in pairs for picture in pair if picture is not None]
    side = max((max(picture.width, picture.height) for picture in shown), default=1)
    height = max((picture.height for picture in shown), default=1)
    pair_width = 2 * side + _GAP
    columns = max(1, min(len(pairs), _SHEET_WIDTH // (pair_width + 3 * _GAP)))
    rows = []
    for first in range(0, len(pairs), columns):
        row = []
        for column, pair in enumerate(pairs[first:first + columns]):
            for part, picture in enumerate(pair):
                if picture is not None:
                    row.append((column * (pair_width + 3 * _GAP) + part * (side + _GAP), picture))
        rows.append(row)
    return _picture.sheet(rows, height + _GAP, columns * (pair_width + 3 * _GAP) - 3 * _GAP)


class _Image(NamedTuple):
    """An image tensor of a batch."""

    name: str
    field: str  # of the dataset
    dtype: str
    channels: int
    height: int
    width: int
    channels_first: bool
    levels: Sequence[tuple[float, float]]  # (factor, offset) of each channel, to 0 .. 255

    @property
    def size(self) -> tuple[int, int]:
        return self.width, self.height

    def pictures(self, tensor: Tensor, rows: int) -> list[Picture]:
        """Of the first rows."""
        data, area = memoryview(tensor).tobytes(), self.height * self.width
        count = area * self.channels
        result = []
        for row in range(rows):
            numbers = struct.unpack_from(f"={count}{_FORMATS[self.dtype]}", data,
                                         row * struct.calcsize(f"={count}{_FORMATS[self.dtype]}"))
            planes = []
            for channel, (factor, offset) in enumerate(self.levels[:3]):
                plane = numbers[channel * area:(channel + 1) * area] if self.channels_first else \
                    numbers[channel::self.channels]
                planes.append(bytes(plane) if self.dtype == "uint8" else
                              bytes([_level(number * factor + offset) for number in plane]))
            result.append(_picture.of_planes(self.width, self.height, planes))
        return result


class _Shown(NamedTuple):
    """What a preview shows of each sample."""

    image: _Image
    masks: Sequence[_Image]  # of the image, as large as it
    of: str  # the image is the mask of this field; "": it is none

    def drawn(self, *pictures: Picture) -> Picture:
        """The picture of a cell: an image under its masks, or a mask, which is the last picture."""
        fitted = [_picture.fitted(picture, _CELL) for picture in pictures]
        if self.of:
            return _picture.coloured(fitted[-1])
        result = fitted[0]
        for mask in fitted[1:]:
            result = _picture.coloured(mask, result)
        return result


def _level(value: float) -> int:
    return int(min(value + 0.5, 255.0)) if value > 0 else 0  # NaN is 0


def make(loader: Loader, position: Position, samples: int, field: str | None) -> Preview:
    """As `Loader.preview()`."""
    plan = loader.plan
    spec = _spec_text.parse(plan["pipeline"])
    shown = _shown_of(plan["tensors"], spec, field)
    image = shown.image
    explained = loader.explain(*position)
    rows = explained["samples"][:samples]
    with loader._beside(position, output="dict", names=None, tensor_type="dlpack", pin_memory=None,
                        device=None, device_prefetch=None, pipeline=loader._pipeline.of_servers(),
                        apply_device_transform=False) as other:
        batch: dict[str, Tensor] = next(iter(other))
    pictures = [shown.drawn(*of) for of in zip(*(each.pictures(batch[each.name], len(rows))
                                                 for each in (image, *shown.masks)))]
    stored = _stored(loader, spec, shown, position.epoch, [row["position"] for row in rows])
    pairs = []
    for number, row in enumerate(rows):
        there = row["sample"] >= 0 and not row.get("left_empty", False)
        sample, before = stored.get(row["position"], (-1, None))
        lines = [_label_text(tensor, batch[tensor["name"]], number) for tensor in plan["tensors"]
                 if there and tensor["num_classes"] and len(tensor["sample_shape"]) < 2]
        pairs.append(_Pair(
            _title_of(row), lines + _lines_of(row, image.field),
            # Another sample: only one of the two pipelines has found damage and replaced it.
            before if there and sample == row["sample"] else None,
            pictures[number] if there else None))
    return Preview(
        f"epoch {position.epoch}, step {position.step} of {plan['steps_per_epoch']}: {image.name} "
        f"before and after the pipeline, {len(rows)} of {explained['rows']} rows",
        [f"drawn for the batch: {_drawn_text(drawn)}" for drawn in explained["drawn"]], pairs)


def _shown_of(tensors: Sequence[Mapping[str, Any]], spec: _spec_text.Message, field: str | None) -> _Shown:
    """The tensor of `field`, else the first image that is no mask; and the masks of an image."""
    outputs = {}
    for output in spec.messages("outputs"):
        of = output.texts("field")[0]
        name = output.texts("name") or [of]
        outputs[name[0]] = of, output.texts("layout") == ["NCHW"]
    images: list[_Image] = []
    masks: list[_Image] = []
    image_of = {role.texts("field")[0]: (role.texts("of") or ["image"])[0]
                for role in spec.messages("field_roles") if role.texts("role") == ["MASK"]}
    for tensor in tensors:
        of, first = outputs.get(tensor["name"], (tensor["name"], False))
        found = _as_image(tensor, of, first, spec)
        if found is not None:
            (masks if of in image_of else images).append(found)
    for image in images:
        if (field is None and image.channels in (1, 3)) or field in (image.field, image.name):
            return _Shown(image, [mask for mask in masks if image_of[mask.field] == image.field and
                                  mask.size == image.size], "")
    for mask in masks:
        if field in (mask.field, mask.name):
            return _Shown(mask, [], image_of[mask.field])
    names = ", ".join(each.name for each in (images + masks if field else images)) or "none"
    raise InvalidArgumentError(
        f"field={field!r} is no image of the batches; they have the images: {names}" if field else
        f"the batches have no images of one or three channels to show (other images: {names}); "
        "name one with field=")


def _as_image(tensor: Mapping[str, Any], field: str, channels_first: bool,
              spec: _spec_text.Message) -> _Image | None:
    shape, dtype = tensor["sample_shape"], tensor["dtype"]
    if len(shape) != 3 or min(shape) < 1 or dtype not in _FORMATS:
        return None
    channels, height, width = shape if channels_first else (shape[2], shape[0], shape[1])
    levels = [(1.0, 0.0)] * channels
    if dtype.startswith("float"):
        levels = _levels(spec, field, channels)
    return _Image(tensor["name"], field, dtype, channels, height, width, channels_first, levels)


def _levels(spec: _spec_text.Message, field: str, channels: int) -> list[tuple[float, float]]:
    """(factor, offset) that undo what servers compute in floating point."""
    def of_field(kind: str) -> list[_spec_text.Message]:
        return [message for transform in spec.messages("transforms")
                for message in transform.messages(kind)
                if field in (message.texts("fields") or ["image"])]

    for normalize in of_field("normalize"):
        numbers = list(zip(normalize.texts("stddev"), normalize.texts("mean")))
        return [(255 * float(stddev), 255 * float(mean)) for stddev, mean in
                (numbers * channels if len(numbers) == 1 else numbers)]
    scaled = any(to_dtype.texts("scale") == ["true"] for to_dtype in of_field("to_dtype"))
    return [(255.0 if scaled else 1.0, 0.0)] * channels


def _stored(loader: Loader, spec: _spec_text.Message, shown: _Shown, epoch: int,
            positions: Sequence[int]) -> dict[int, tuple[int, Picture]]:
    """{position in the epoch: (sample, picture)} of neighbouring positions, without the transforms.
    Positions past the end of the epoch, which are padding, are left out."""
    if not positions:
        return {}
    first, count = positions[0], len(positions)
    # Batches of another size, so that one of them begins at the first position.
    size = max(number for number in range(1, count + 1) if first % number == 0)
    order = _spec_text.Message(part for part in spec if part[0] in (
        "spec_version", "sources", "seed", "shuffle", "bad_samples", "epoch_samples", "concatenate"))
    fields = [shown.of, shown.image.field] if shown.of else [
        shown.image.field, *(mask.field for mask in shown.masks)]
    decoding = {field: f"transforms {{ decode_image {{ {message} }} }} "
                for transform in spec.messages("transforms") for message in transform.messages("decode_image")
                for field in message.texts("field") or ["image"]}
    if fields[0] not in decoding:  # then nothing makes a decoded mask as large as the image
        fields = [field for field in fields if field not in decoding]
    transforms = "".join(decoding.get(field, "") for field in fields)
    if transforms:
        # The masks' own fill would hide where the image ends.
        image, *masks = (_spec_text.quoted(field) for field in fields)
        both = f"fields: [{', '.join((image, *masks))}]"
        transforms += "".join(f"field_roles {{ field: {mask} role: MASK of: {image} }} " for mask in masks) + (
            f"transforms {{ resize {{ {both} short_side: {_SHORT_SIDE} }} }} "
            f"transforms {{ center_crop {{ {both} height: {2 * _SHORT_SIDE} width: {2 * _SHORT_SIDE} }} }}")
    result: dict[int, tuple[int, Picture]] = {}
    with loader._another(
            dataset=None, pipeline=f"{order} {transforms}", window=2, window_bytes=None,
            fields=(*fields, "sample_index"),
            batch_size=None, global_batch_size=size, rank=0, world_size=1, shuffle=None,
            drop_last=False, seed=None, output="tuple", names=None, tensor_type="dlpack",
            pin_memory=None, device=None, device_prefetch=None, apply_device_transform=False) as other:
        other._progress.jump(Position(epoch, first // size))
        tensors = {tensor["name"]: tensor for tensor in other.plan["tensors"]}
        stored = [_as_image(tensors[field], field, False, _spec_text.Message()) for field in fields]
        images = [(place, image) for place, image in enumerate(stored)
                  if image and stored[0] and image.size == stored[0].size]
        if shown.image.field not in [image.field for _, image in images]:
            return {}  # for example stored with other dimensions, which an operator changes
        at = first
        for *batch, index in other:
            samples = memoryview(index).tolist()
            for sample, *row in zip(samples, *(image.pictures(batch[place], len(samples)) for place, image in images)):
                if transforms:
                    part = _picture.inside_border(row[0], _SHORT_SIDE)
                    row = [_picture.cut(picture, part) for picture in row]
                result[at] = sample, shown.drawn(*row)
                at += 1
            if at >= first + count:
                break
    return result


def _title_of(row: Mapping[str, Any]) -> str:
    if row["sample"] < 0:
        return f"row {row['row']}: padding"
    dataset = f" of {row['dataset']}" if row["dataset"] else ""
    shard = f" ({row['shard']}, row {row['shard_row']})" if "shard" in row else ""
    return f"row {row['row']}: sample {row['sample']}{dataset}{shard}"


def _lines_of(row: Mapping[str, Any], field: str) -> list[str]:
    lines = [f"sample {sample} is damaged and replaced" for sample in row.get("replaced", [])]
    if row.get("left_empty", False):
        lines.append("damaged and left empty")
    return lines + [_drawn_text(drawn) for drawn in row.get("drawn", [])
                    if drawn.get("field", field) == field]


def _drawn_text(drawn: Mapping[str, Any]) -> str:
    """The texts of some transforms contain the name already."""
    name, text = str(drawn["transform"]), str(drawn["drawn"])
    return text if text.startswith(name) else f"{name}: {text}"


def _label_text(tensor: Mapping[str, Any], values: Tensor, row: int) -> str:
    """Of a class index, or of the shares of classes that mixing makes of one."""
    names = dict(enumerate(tensor["class_names"]))
    label = memoryview(values).tolist()[row]
    if isinstance(label, list):
        shares = sorted(((share, number) for number, share in enumerate(label) if share > 0),
                        reverse=True)
        return f"{tensor['name']}: " + ", ".join(
            f"{names.get(number, number)} {share:.2f}" for share, number in shares)
    name = f" ({names[label]})" if label in names else ""
    return f"{tensor['name']}: {label}{name}"
