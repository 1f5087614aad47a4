"""Transforms of a `millrace.Pipeline`, under torchvision v2's names.

    from millrace import Pipeline, transforms as T

    pipeline = Pipeline([
        T.DecodeImage(),
        T.RandomResizedCrop(160, scale=(0.2, 1)),
        T.RandomHorizontalFlip(),
        T.ColorJitter(brightness=0.2, hue=0.1),
        T.Normalize(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)),
    ])

The servers apply them; here, each is a value that is written into the pipeline's text
(docs/transforms.md describes them with pictures). Arguments have torchvision's names and order. What
is None is left to the servers, whose defaults are torchvision's. The servers also check the ranges:
`Loader.open()` reports a value that is out of range with its name. A wrong type raises
`millrace.ArgumentError` here.

All transforms take `fields`: the names of the fields that they change together, with the same random
choices; None: "image". Images are uint8 [height, width, channels] on the servers. Every random
transform takes `p`, the probability that it is applied to a sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Union

from millrace import _message, _values
from millrace._message import Message, bounds, count, counts, flag, names, number, word
from millrace._values import shown
from millrace.errors import ArgumentError, InvalidArgumentError

Interpolation = Literal["bilinear", "nearest"]
PaddingMode = Literal["constant", "edge", "reflect", "symmetric"]
Placement = Literal["client", "server"]
DType = Literal["uint8", "bool", "int8", "int16", "int32", "int64", "uint16", "float16", "bfloat16",
                "float32", "float64"]
Fields = Union[str, Sequence[str], None]
Range = tuple[float, float]

# Pixels: server/plan/transforms has the same bound.
_MAX_SIDE = 16384


class Transform(Message):
    """One transform: an immutable value."""

    # Its name in the spec.
    kind: ClassVar[str] = ""

    @property
    def text(self) -> str:
        """The transform as text of the spec: "horizontal_flip { p: 0.5 }"."""
        inner = super().text
        return f"{self.kind} {{ {inner} }}" if inner else f"{self.kind} {{}}"


def _sides(size: int | Sequence[int]) -> dict[str, Any]:
    """size=n is n x n, size=(h, w) is h x w."""
    sides = counts("size", size, 1, _MAX_SIDE)
    if sides is None or len(sides) not in (1, 2):
        raise ArgumentError(f"size={shown(size)}: expected a side, or (height, width)")
    return {"height": sides[0], "width": sides[-1]}


def _interpolation(value: Any) -> Any:
    return word("interpolation", value, "INTERPOLATION_")


def _padding_mode(value: Any) -> Any:
    return word("padding_mode", value, "PADDING_")


def _placement(value: Any) -> Any:
    return word("placement", value, "PLACEMENT_")


def _no_antialias(antialias: Any) -> bool | None:
    return None if _values.flag("antialias", antialias) else True


def _around(name: str, value: Any, middle: float) -> Any:
    """A number stands for the range around `middle`, as in torchvision."""
    if value is None or _message.one_or_several(value):
        return value
    distance = number(name, value) or 0.0
    if distance < 0:
        raise InvalidArgumentError(f"{name}={shown(value)}: one number stands for a range around {middle}, "
                                   "and is not negative; write both bounds for another range")
    low = middle - distance
    return (max(0.0, low) if middle else low), middle + distance


class OperatorRef(Message):
    """An operator of the servers' own libraries (docs/extending.md).

    Args:
      name: as the library calls it.
      version: None: the one that the servers have.
      library_hash: of the library's file, 32 hexadecimal digits. None: the servers write it out.
    """

    def __init__(self, name: str, version: str | None = None,
                 library_hash: str | None = None) -> None:
        super().__init__({"name": _values.text("name", name),
                          "version": _message.text("version", version),
                          "library_hash": _message.text("library_hash", library_hash)})


# ---- Decoding and types ---------------------------------------------------------------------------


class DecodeImage(Transform):
    """Decodes JPEG, PNG or WebP to uint8 [height, width, channels]. The first transform of a field
    that holds encoded images.

    Args:
      color: "rgb"; "gray": one channel, luma; "index": the number that a palette or grey PNG holds,
        for masks. None: `RGB`.
      mode: "scaled": decodes only the region that is used, at a part of its size where that is
        enough; "exact": the region at full size. None: `SCALED`.
      exif_transpose: turn and mirror as the EXIF orientation says. None: false.
      decoders: decoders of your own, of the servers' libraries. None: none.
      field: the field. None: `image`.
    """

    kind = "decode_image"

    def __init__(self, color: Literal["rgb", "gray", "index"] | None = None,
                 mode: Literal["scaled", "exact"] | None = None,
                 exif_transpose: bool | None = None,
                 decoders: Sequence[OperatorRef] | None = None, *, field: str | None = None) -> None:
        super().__init__({
            "field": _message.text("field", field), "color": word("color", color),
            "mode": word("mode", mode), "exif_transpose": flag("exif_transpose", exif_transpose),
            "decoders": _message.messages("decoders", decoders, OperatorRef) or None})


class Normalize(Transform):
    """(x / 255 - mean) / std per channel, as float32 [channels, height, width]. torchvision's
    `ToDtype(torch.float32, scale=True)` in front of it is part of it. Comes after everything that
    works on pixels.

    Args:
      mean: must be set, one a channel, of pixels of 0 .. 1; -1 .. 1.
      std: must be set, one a channel, of the same; above 0, up to 5.
      placement: "client": the network carries uint8 and the client computes; "server": the network
        carries floats. The values are the same. None: `PLACEMENT_CLIENT`.
    """

    kind = "normalize"

    def __init__(self, mean: float | Sequence[float], std: float | Sequence[float], *,
                 placement: Placement | None = None, fields: Fields = None) -> None:
        super().__init__({"fields": names("fields", fields), "mean": _message.numbers("mean", mean),
                          "stddev": _message.numbers("std", std),
                          "placement": _placement(placement)})


class ToDtype(Transform):
    """Another element type: the last transform of a field. The shape stays.

    Args:
      dtype: "float32", "bfloat16" and so on; must be set.
      scale: uint8 to floats divides by 255. None: false.
      placement: as of Normalize. None: `PLACEMENT_CLIENT`.
    """

    kind = "to_dtype"

    def __init__(self, dtype: DType, scale: bool | None = None, *,
                 placement: Placement | None = None, fields: Fields = None) -> None:
        super().__init__({"fields": names("fields", fields), "dtype": word("dtype", dtype, "DTYPE_"),
                          "scale": flag("scale", scale), "placement": _placement(placement)})


# ---- Size and place -------------------------------------------------------------------------------


class RandomResizedCrop(Transform):
    """Crops a random area and shape and resizes the crop to [height, width].

    Args:
      size: a side, or (height, width), 1 .. 16384; must be set.
      scale: share of the area, above 0, up to 1. None: 0.08, 1.
      ratio: width to height, 0.01 .. 100. None: 3/4, 4/3.
      interpolation: "bilinear" or "nearest". None: bilinear.
      antialias: False: none, as torchvision's on tensors.
      p: 0 .. 1; otherwise the whole image is resized. None: 1.
    """

    kind = "random_resized_crop"

    def __init__(self, size: int | Sequence[int], scale: Range | None = None,
                 ratio: Range | None = None, interpolation: Interpolation | None = None,
                 antialias: bool = True, *, p: float | None = None, fields: Fields = None) -> None:
        super().__init__({
            "fields": names("fields", fields), **_sides(size), **bounds("scale", scale),
            **bounds("ratio", ratio), "interpolation": _interpolation(interpolation),
            "no_antialias": _no_antialias(antialias), "p": number("p", p)})


class Resize(Transform):
    """Resizes the short side to a number of pixels, or the image to exactly [height, width].

    Args:
      size: the short side, or (height, width), 1 .. 16384.
      interpolation: "bilinear" or "nearest". None: bilinear.
      antialias: False: none, as torchvision's on tensors.
    """

    kind = "resize"

    def __init__(self, size: int | Sequence[int], interpolation: Interpolation | None = None,
                 antialias: bool = True, *, fields: Fields = None) -> None:
        sides = _sides(size)
        exact = _message.one_or_several(size) and len(counts("size", size) or ()) == 2
        super().__init__({
            "fields": names("fields", fields),
            **(sides if exact else {"short_side": sides["height"]}),
            "interpolation": _interpolation(interpolation),
            "no_antialias": _no_antialias(antialias)})


class CenterCrop(Transform):
    """Crops the centre to [height, width]. If the image is smaller, the missing area is black.

    Args:
      size: a side, or (height, width), 1 .. 16384; must be set.
    """

    kind = "center_crop"

    def __init__(self, size: int | Sequence[int], *, fields: Fields = None) -> None:
        super().__init__({"fields": names("fields", fields), **_sides(size)})


class RandomCrop(Transform):
    """Crops a window of [height, width] at a random place of the padded image.

    Args:
      size: a side, or (height, width), 1 .. 16384; must be set.
      padding: pixels around the image before the crop, 0 .. 16384: one value, two (left/right,
        top/bottom) or four (left, top, right, bottom). None: none.
      pad_if_needed: pad images that are smaller than the window. None: false: a smaller image is a
        bad sample.
      fill: one level, or one a channel, 0 .. 255. None: 0.
      padding_mode: "constant", "edge", "reflect" or "symmetric". None: `PADDING_CONSTANT`.
      p: 0 .. 1; otherwise the middle window. None: 1.
    """

    kind = "random_crop"

    def __init__(self, size: int | Sequence[int], padding: int | Sequence[int] | None = None,
                 pad_if_needed: bool | None = None, fill: int | Sequence[int] | None = None,
                 padding_mode: PaddingMode | None = None, *, p: float | None = None,
                 fields: Fields = None) -> None:
        super().__init__({
            "fields": names("fields", fields), **_sides(size), "padding": counts("padding", padding),
            "pad_if_needed": flag("pad_if_needed", pad_if_needed), "fill": counts("fill", fill),
            "padding_mode": _padding_mode(padding_mode), "p": number("p", p)})


class Pad(Transform):
    """Adds pixels around the image.

    Args:
      padding: 0 .. 16384 pixels: one value, two (left/right, top/bottom) or four (left, top, right,
        bottom); must be set.
      fill: one level, or one a channel, 0 .. 255. None: 0.
      padding_mode: "constant", "edge", "reflect" or "symmetric". None: `PADDING_CONSTANT`.
    """

    kind = "pad"

    def __init__(self, padding: int | Sequence[int], fill: int | Sequence[int] | None = None,
                 padding_mode: PaddingMode | None = None, *, fields: Fields = None) -> None:
        super().__init__({"fields": names("fields", fields), "padding": counts("padding", padding),
                          "fill": counts("fill", fill), "padding_mode": _padding_mode(padding_mode)})


class RandomHorizontalFlip(Transform):
    """Swaps left and right.

    Args:
      p: 0 .. 1. None: 0.5.
    """

    kind = "horizontal_flip"

    def __init__(self, p: float | None = None, *, fields: Fields = None) -> None:
        super().__init__({"fields": names("fields", fields), "p": number("p", p)})


class RandomVerticalFlip(Transform):
    """Swaps top and bottom.

    Args:
      p: 0 .. 1. None: 0.5.
    """

    kind = "vertical_flip"

    def __init__(self, p: float | None = None, *, fields: Fields = None) -> None:
        super().__init__({"fields": names("fields", fields), "p": number("p", p)})


class RandomRotation(Transform):
    """Rotates about the centre, counter-clockwise. The size stays the same.

    Args:
      degrees: d stands for (-d, d); -360 .. 360; must be set.
      interpolation: "bilinear" or "nearest". None: nearest.
      fill: one level, or one a channel, 0 .. 255. None: 0.
      p: 0 .. 1. None: 1.
    """

    kind = "random_rotation"

    def __init__(self, degrees: float | Range, interpolation: Interpolation | None = None,
                 fill: int | Sequence[int] | None = None, *, p: float | None = None,
                 fields: Fields = None) -> None:
        super().__init__({
            "fields": names("fields", fields),
            **bounds("degrees", _around("degrees", degrees, 0)),
            "interpolation": _interpolation(interpolation), "fill": counts("fill", fill),
            "p": number("p", p)})


class RandomAffine(Transform):
    """Rotates, shifts, scales and shears about the centre. The size stays the same.

    Args:
      degrees: clockwise; d stands for (-d, d); -360 .. 360. 0: 0, 0.
      translate: the largest shifts along x and y, as a share of the side, 0 .. 1. None: 0.
      scale: above 0, up to 100. None: 1.
      shear: degrees, -89 .. 89: s stands for (-s, s) along x; two values are a range along x, four
        are ranges along x and y. None: 0, 0.
      interpolation: "bilinear" or "nearest". None: nearest.
      fill: one level, or one a channel, 0 .. 255. None: 0.
      p: 0 .. 1. None: 1.
    """

    kind = "random_affine"

    def __init__(self, degrees: float | Range, translate: Range | None = None,
                 scale: Range | None = None, shear: float | Sequence[float] | None = None,
                 interpolation: Interpolation | None = None,
                 fill: int | Sequence[int] | None = None, *, p: float | None = None,
                 fields: Fields = None) -> None:
        shift = _message.pair("translate", translate)
        ranges = _message.numbers("shear", _around("shear", shear, 0)) or []
        if len(ranges) not in (0, 2, 4):
            raise ArgumentError(f"shear={shown(shear)}: expected an angle, a range along x, or the ranges "
                                "along x and y as four numbers")
        super().__init__({
            "fields": names("fields", fields),
            **bounds("degrees", _around("degrees", degrees, 0)),
            "translate_x": shift and shift[0], "translate_y": shift and shift[1],
            **bounds("scale", scale), **bounds("shear", ranges[:2] or None, "shear_x"),
            **bounds("shear", ranges[2:] or None, "shear_y"),
            "interpolation": _interpolation(interpolation), "fill": counts("fill", fill),
            "p": number("p", p)})


# ---- Colour and tone ------------------------------------------------------------------------------


class ColorJitter(Transform):
    """Changes brightness, contrast, saturation and hue, each by a random amount, in random order.

    Args:
      brightness: a range of factors, 0 .. 100; b stands for (max(0, 1 - b), 1 + b). None: not
        changed.
      contrast: as brightness, 0 .. 100. None: not changed.
      saturation: as brightness, 0 .. 100. None: not changed.
      hue: a range of turns, -0.5 .. 0.5; h stands for (-h, h). None: not changed.
      p: 0 .. 1. None: 1.
    """

    kind = "color_jitter"

    def __init__(self, brightness: float | Range | None = None, contrast: float | Range | None = None,
                 saturation: float | Range | None = None, hue: float | Range | None = None, *,
                 p: float | None = None, fields: Fields = None) -> None:
        super().__init__({
            "fields": names("fields", fields),
            **bounds("brightness", _around("brightness", brightness, 1)),
            **bounds("contrast", _around("contrast", contrast, 1)),
            **bounds("saturation", _around("saturation", saturation, 1)),
            **bounds("hue", _around("hue", hue, 0)), "p": number("p", p)})


class Grayscale(Transform):
    """Writes the ITU-R 601 luma into all three channels. For images of one channel:
    `DecodeImage(color="gray")`.

    Args:
      num_output_channels: 3. torchvision's default is 1, so it must be written.
      p: 0 .. 1. None: 1.
    """

    kind = "grayscale"

    def __init__(self, num_output_channels: Literal[3], *, p: float | None = None,
                 fields: Fields = None) -> None:
        if num_output_channels != 3:
            raise ArgumentError(
                f"num_output_channels={shown(num_output_channels)}: the servers write luma into all three "
                "channels; for images of one channel, decode them with DecodeImage(color=\"gray\")")
        super().__init__({"fields": names("fields", fields), "p": number("p", p)})


class RandomGrayscale(Grayscale):
    """`Grayscale(3)` with a probability.

    Args:
      p: 0 .. 1; 0.1 as in torchvision.
    """

    def __init__(self, p: float = 0.1, *, fields: Fields = None) -> None:
        super().__init__(3, p=p, fields=fields)


class GaussianBlur(Transform):
    """Blurs with a random sigma and reflected edges.

    Args:
      kernel_size: 1 .. 127, odd, the same on both axes; must be set.
      sigma: pixels, above 0, up to 1000; s stands for (s, s). None: 0.1, 2.
      p: 0 .. 1. None: 1.
    """

    kind = "gaussian_blur"

    def __init__(self, kernel_size: int | Sequence[int], sigma: float | Range | None = None, *,
                 p: float | None = None, fields: Fields = None) -> None:
        sizes = counts("kernel_size", kernel_size)
        if not sizes or len(set(sizes)) != 1:
            raise ArgumentError(f"kernel_size={shown(kernel_size)}: expected one odd number for both axes")
        spread: Any = sigma if sigma is None or _message.one_or_several(sigma) else (sigma, sigma)
        super().__init__({"fields": names("fields", fields), "kernel_size": sizes[0],
                          **bounds("sigma", spread), "p": number("p", p)})


class RandomErasing(Transform):
    """Fills a random rectangle. Works on pixels of 0 .. 255, in front of Normalize.

    Args:
      p: 0 .. 1. None: 0.5.
      scale: share of the area, above 0, up to 1. None: 0.02, 0.33.
      ratio: height to width, 0.01 .. 100. None: 0.3, 3.3.
      value: one level, or one a channel, 0 .. 255: torchvision's 0 after Normalize is 255 * mean
        here. "random": bytes drawn evenly from 0 .. 255. None: 0.
    """

    kind = "random_erasing"

    def __init__(self, p: float | None = None, scale: Range | None = None, ratio: Range | None = None,
                 value: int | Sequence[int] | Literal["random"] | None = None, *,
                 fields: Fields = None) -> None:
        random = isinstance(value, str)
        if random and value != "random":
            raise ArgumentError(f"value={shown(value)}: expected levels, or \"random\"")
        super().__init__({
            "fields": names("fields", fields), "p": number("p", p), **bounds("scale", scale),
            **bounds("ratio", ratio), "value": None if random else counts("value", value),
            "random_value": True if random else None})


# ---- Automatic augmentation -----------------------------------------------------------------------


class TrivialAugmentWide(Transform):
    """Applies one of fourteen operations with a random strength. For images without masks and boxes.

    Args:
      num_magnitude_bins: 2 .. 1001. None: 31.
      interpolation: "bilinear" or "nearest". None: nearest.
      fill: one level, or one a channel, 0 .. 255. None: 0.
      p: 0 .. 1. None: 1.
    """

    kind = "trivial_augment_wide"

    def __init__(self, num_magnitude_bins: int | None = None,
                 interpolation: Interpolation | None = None,
                 fill: int | Sequence[int] | None = None, *, p: float | None = None,
                 fields: Fields = None) -> None:
        super().__init__({
            "fields": names("fields", fields),
            "num_magnitude_bins": count("num_magnitude_bins", num_magnitude_bins),
            "interpolation": _interpolation(interpolation), "fill": counts("fill", fill),
            "p": number("p", p)})


class RandAugment(Transform):
    """Applies `num_ops` of the fourteen operations, each with strength `magnitude`. For images
    without masks and boxes.

    Args:
      num_ops: 1 .. 16. None: 2.
      magnitude: below num_magnitude_bins. None: 9.
      num_magnitude_bins: 2 .. 1001. None: 31.
      interpolation: "bilinear" or "nearest". None: nearest.
      fill: one level, or one a channel, 0 .. 255. None: 0.
      p: 0 .. 1. None: 1.
    """

    kind = "rand_augment"

    def __init__(self, num_ops: int | None = None, magnitude: int | None = None,
                 num_magnitude_bins: int | None = None, interpolation: Interpolation | None = None,
                 fill: int | Sequence[int] | None = None, *, p: float | None = None,
                 fields: Fields = None) -> None:
        super().__init__({
            "fields": names("fields", fields), "num_ops": count("num_ops", num_ops),
            "magnitude": count("magnitude", magnitude),
            "num_magnitude_bins": count("num_magnitude_bins", num_magnitude_bins),
            "interpolation": _interpolation(interpolation), "fill": counts("fill", fill),
            "p": number("p", p)})


# ---- Batches --------------------------------------------------------------------------------------


class MixUp(Transform):
    """Each sample becomes a weighted sum of itself and its partner: places 2i and 2i + 1 of the global
    batch. Labels become float32 [num_classes]. Comes in front of Normalize.

    Args:
      alpha: above 0, up to 1000. None: 1.
      labels: the fields that are mixed as labels. None: `label`.
      p: 0 .. 1, of a batch. None: 1, of a batch.
    """

    kind = "mix_up"

    def __init__(self, *, alpha: float | None = None, labels: Fields = None, p: float | None = None,
                 fields: Fields = None) -> None:
        super().__init__({"fields": names("fields", fields), "labels": names("labels", labels),
                          "alpha": number("alpha", alpha), "p": number("p", p)})


class CutMix(Transform):
    """A rectangle of the partner replaces the same rectangle of the sample; as MixUp otherwise. Of
    several mixing transforms, the first whose `p` hits is applied.

    Args:
      alpha: above 0, up to 1000. None: 1.
      labels: the fields that are mixed as labels. None: `label`.
      p: 0 .. 1, of a batch. None: 1, of a batch.
    """

    kind = "cut_mix"

    def __init__(self, *, alpha: float | None = None, labels: Fields = None, p: float | None = None,
                 fields: Fields = None) -> None:
        super().__init__({"fields": names("fields", fields), "labels": names("labels", labels),
                          "alpha": number("alpha", alpha), "p": number("p", p)})


# ---- Your own -------------------------------------------------------------------------------------


class Custom(Transform):
    """A transform of the servers' own libraries (docs/extending.md).

    Args:
      name: as the library calls it; must be set.
      config: bytes for the operator, at most 65536 bytes; a str as UTF-8. None: empty.
      version: refused when the servers have another. None: the server's.
      library_hash: None: written by `Open`.
      result_dtype: what it makes of a tensor. None: written by `Open`.
      result_shape: None: written by `Open`.
      p: 0 .. 1. None: 1.
    """

    kind = "custom"

    def __init__(self, name: str, config: bytes | str | None = None, *, version: str | None = None,
                 library_hash: str | None = None, result_dtype: DType | None = None,
                 result_shape: Sequence[int] | None = None, p: float | None = None,
                 fields: Fields = None) -> None:
        if isinstance(config, str):
            config = config.encode()
        if config is not None and not isinstance(config, bytes):
            raise ArgumentError(f"config={shown(config)}: expected bytes or a str")
        super().__init__({
            "name": _values.text("name", name), "version": _message.text("version", version),
            "config": config, "fields": names("fields", fields),
            "library_hash": _message.text("library_hash", library_hash), "p": number("p", p),
            "result_dtype": word("result_dtype", result_dtype, "DTYPE_"),
            "result_shape": counts("result_shape", result_shape)})


__all__ = [
    "CenterCrop", "ColorJitter", "Custom", "CutMix", "DecodeImage", "GaussianBlur", "Grayscale",
    "MixUp", "Normalize", "OperatorRef", "Pad", "RandAugment", "RandomAffine", "RandomCrop",
    "RandomErasing", "RandomGrayscale", "RandomHorizontalFlip", "RandomResizedCrop",
    "RandomRotation", "RandomVerticalFlip", "Resize", "ToDtype", "Transform", "TrivialAugmentWide",
]
