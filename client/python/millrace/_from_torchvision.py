"""`Pipeline.from_torchvision`: a Compose of torchvision.transforms.v2 as transforms of the servers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from millrace import transforms as T
from millrace._compose import PYTHON, Library, Refused, Step
from millrace._local import ScaleToFloat
from millrace._translated_fields import TranslatedFields
from millrace._translation import Translated, Translation

_V2 = "torchvision.transforms.v2"
_Handler = Callable[[Translation, Step, Any, Any], None]


def translate(compose: Any, fields: TranslatedFields, local: str | None) -> Translated:
    """What Pipeline.from_torchvision says."""
    out = Translation(_LIBRARY, compose, fields, local)
    rest = out.run(_flat(compose, ""), _translate, _mixes)
    return out.finish([_runs(step) for step in rest], "channels_first", "channels_first")


def _flat(transform: Any, position: str) -> list[Step]:
    """The transforms of nested containers that apply all of theirs."""
    key = _key(transform)
    children = getattr(transform, "transforms", transform)
    if _hooks(transform) or key not in (
            "Compose", "torch.nn.modules.container.Sequential", "RandomApply"):
        return [Step(position or "0", transform)]
    if key == "RandomApply":
        if float(transform.p) not in (0, 1):
            return [Step(position or "0", transform)]
        children = children if float(transform.p) == 1 else ()
    return [step for i, item in enumerate(children)
            for step in _flat(item, f"{position}.{i}" if position else str(i))]


def _key(transform: Any) -> str:
    """The class: its name when it is torchvision v2's, else with its module."""
    kind = type(transform)
    return kind.__name__ if kind.__module__.startswith((_V2 + ".", "torchvision.transforms._presets")) \
        else f"{kind.__module__}.{kind.__name__}"


def _hooks(transform: Any) -> bool:
    return any(getattr(transform, name, None) for name in ("_forward_hooks", "_forward_pre_hooks"))


def _mixes(transform: Any) -> bool:
    """Batches are mixed nowhere in a compose of single samples, not on the client either."""
    inner = getattr(transform, "transforms", None)
    return _key(transform) in ("MixUp", "CutMix") or \
        isinstance(inner, Iterable) and any(map(_mixes, inner))


def _translate(out: Translation, step: Step, p: float | None = None) -> None:
    """`p`: of the RandomApply that the step is in."""
    key = _key(step.transform)
    if _hooks(step.transform):
        raise Refused("", "the transform has hooks of torch.nn.Module", "remove the hooks, or write a "
                      "transform for the servers (docs/extending.md)")
    if key.startswith("torchvision.transforms."):
        raise Refused("", "the transform is of version 1 of torchvision's transforms", "write `from "
                      "torchvision.transforms import v2`, which has the same names")
    present = [name for name in getattr(step.transform, "__dict__", ())
               if not name.startswith("_") and name != "training"]
    handler = _LIBRARY.handler(step, key, present)
    if out.pixels == "other" and key not in _TAKE_ANY_TYPE:
        raise out.other_type()
    handler(out, step, step.transform, p)


# ---- Values of parameters ---------------------------------------------------------------------------


def _interpolation(value: Any, parameter: str = "interpolation") -> Any:
    # Numbers are Pillow's.
    name = {0: "nearest", 2: "bilinear"}.get(value) if isinstance(value, int) else \
        str(getattr(value, "value", value))
    if name not in ("nearest", "bilinear"):
        raise Refused(parameter, f"the servers resample by BILINEAR or NEAREST, not by {value}",
                      "write BILINEAR or NEAREST")
    return name


def _antialias(out: Translation, step: Step, value: Any, interpolation: str) -> bool:
    if interpolation == "nearest":
        if not out.is_tensor:
            out.note(step, "the servers pick the pixels that torchvision picks of tensors; of PIL images, it "
                           "picks those at the centres, so many pixels differ: put ToImage before it where "
                           "you compare")
        return True  # neither library knows it there
    if value is None or isinstance(value, str):  # None in older releases, too: "warn"
        raise Refused("antialias", f"{value!r} is ambiguous: torchvision takes it as True for PIL images and "
                      "as False for tensors", "write True or False")
    if value is False:
        out.note(step, "the servers apply antialias=False to all images; torchvision applies it to tensors "
                       "and ignores it for PIL images")
    return bool(value)


def _fill(out: Translation, step: Step, value: Any) -> Any:
    """The fill of an image; that of masks is noted."""
    if out.fields.masks:
        out.outside(step, "fill", (_of_type(value, "fill", "Mask", None) if isinstance(value, Mapping)
                                   else value) or 0)
    if isinstance(value, Mapping):
        _unused(out, step, "fill", value)
        value = _of_images(value, "fill")
    if value is None:
        return None
    values = list(value) if isinstance(value, Sequence) else [value]
    if out.pixels == "normal":
        raise Refused("fill", "the servers move pixels only before Normalize",
                      f"put {step.name} before Normalize")
    levels = out.levels(step, "fill", values)
    return levels if any(levels) else None


_ABSENT = object()


def _of_type(value: Mapping[Any, Any], parameter: str, kind: str, otherwise: Any = _ABSENT) -> Any:
    """What a dict from classes of tensors has for one of them."""
    found = [item for key, item in value.items() if getattr(key, "__name__", "") == kind]
    if any(item != found[0] for item in found):  # tv_tensors.Image and PIL.Image.Image
        raise Refused(parameter, f"the dict has several values for {kind}: {found}", "write one value")
    result = found[0] if found else value.get("others", otherwise)
    if result is _ABSENT:
        raise Refused(parameter, f"the dict has no entry for {kind}", f"add tv_tensors.{kind} or \"others\"")
    return result


def _of_images(value: Mapping[Any, Any], parameter: str) -> Any:
    """The same for images, which may be tensors of no class of their own."""
    kinds = {getattr(key, "__name__", "") for key in value}
    return _of_type(value, parameter, "Tensor" if "Tensor" in kinds and "Image" not in kinds else "Image")


def _unused(out: Translation, step: Step, parameter: str, value: Mapping[Any, Any]) -> None:
    for kind, argument, fields in (("Mask", "masks", out.fields.masks),
                                   ("BoundingBoxes", "boxes", out.fields.boxes)):
        if not fields and any(getattr(key, "__name__", "") == kind for key in value):
            out.note(step, f"{parameter} of {kind} is ignored, because {argument}= is not set")


def _dtype(value: Any) -> str:
    return str(value).removeprefix("torch.")


def _default(parameter: str, value: Any, expected: Any, reason: str, advice: str) -> None:
    if value != expected:
        raise Refused(parameter, reason, advice)


# ---- Transforms -------------------------------------------------------------------------------------


def _random_resized_crop(out: Translation, step: Step, t: Any, p: Any) -> None:
    _no_p(p)
    interpolation = _interpolation(t.interpolation)
    out.geometry(step, T.RandomResizedCrop(
        list(t.size), tuple(t.scale), tuple(t.ratio), interpolation,
        _antialias(out, step, t.antialias, interpolation), fields=out.fields.moved), resamples=True)


def _resize(out: Translation, step: Step, t: Any, p: Any) -> None:
    _no_p(p)
    _default("max_size", t.max_size, None, "the servers resize the short side, or both sides to a fixed size",
             "remove max_size")
    interpolation = _interpolation(t.interpolation)
    out.geometry(step, T.Resize(
        list(t.size), interpolation, _antialias(out, step, t.antialias, interpolation),
        fields=out.fields.moved), resamples=True)


def _center_crop(out: Translation, step: Step, t: Any, p: Any) -> None:
    _no_p(p)
    out.black_outside(step)
    if out.fields.boxes:
        out.note(step, "boxes move with the image; where a smaller image is padded by an odd number of "
                       "pixels, torchvision's boxes are one pixel off the image")
    out.geometry(step, T.CenterCrop(list(t.size), fields=out.fields.moved))


def _random_crop(out: Translation, step: Step, t: Any, p: Any) -> None:
    _no_p(p)
    padding = None
    if t.padding is not None:
        left, right, top, bottom = t.padding  # torchvision's order inside
        padding = [left, top, right, bottom]
    pads = padding is not None or t.pad_if_needed
    constant = t.padding_mode == "constant"
    if pads:
        _mode_for_boxes(out, t.padding_mode)
    out.geometry(step, T.RandomCrop(
        list(t.size), padding, t.pad_if_needed or None,
        _fill(out, step, t.fill) if pads and constant else None,
        None if constant or not pads else t.padding_mode, fields=out.fields.moved))


def _pad(out: Translation, step: Step, t: Any, p: Any) -> None:
    _no_p(p)
    padding = [t.padding] if isinstance(t.padding, int) else list(t.padding)
    _mode_for_boxes(out, t.padding_mode)
    if any(side < 0 for side in padding):
        raise Refused("padding", "the servers do not support negative padding, which crops",
                      "use CenterCrop")
    constant = t.padding_mode == "constant"
    out.geometry(step, T.Pad(padding, _fill(out, step, t.fill) if constant else None,
                             None if constant else t.padding_mode, fields=out.fields.moved))


def _mode_for_boxes(out: Translation, mode: str) -> None:
    if out.fields.boxes and mode != "constant":
        raise Refused("padding_mode", f"boxes cannot follow padding of mode {mode!r}, which repeats pixels",
                      "write padding_mode=\"constant\"")


def _flip(kind: type[T.RandomHorizontalFlip] | type[T.RandomVerticalFlip]) -> _Handler:
    def handler(out: Translation, step: Step, t: Any, p: Any) -> None:
        out.geometry(step, kind(_product(t.p, p), fields=out.fields.moved), flips=True)
    return handler


def _random_rotation(out: Translation, step: Step, t: Any, p: Any) -> None:
    _default("expand", t.expand, False, "the servers keep the size of the image", "remove expand")
    _default("center", t.center, None, "the servers rotate about the centre of the image",
             "remove center")
    interpolation = _interpolation(t.interpolation)
    _no_blending(t.fill, interpolation)
    low, high = t.degrees
    if low == high == 0:
        return
    _note_on_pillow(out, step, interpolation)
    out.geometry(step, T.RandomRotation((low, high), interpolation, _fill(out, step, t.fill), p=p,
                                        fields=out.fields.moved), resamples=True)


def _random_affine(out: Translation, step: Step, t: Any, p: Any) -> None:
    _default("center", t.center, None, "the servers transform about the centre of the image",
             "remove center")
    interpolation = _interpolation(t.interpolation)
    _no_blending(t.fill, interpolation)
    transform = T.RandomAffine(
        tuple(t.degrees), None if t.translate is None else tuple(t.translate),
        None if t.scale is None else tuple(t.scale), None if t.shear is None else list(t.shear),
        interpolation, _fill(out, step, t.fill), p=p, fields=out.fields.moved)
    if all(value == (1 if name.startswith("scale") else 0)
           for name, value in transform.values.items() if isinstance(value, float) and name != "p"):
        return  # it moves nothing, and the servers refuse that
    _note_on_pillow(out, step, interpolation)
    out.geometry(step, transform, resamples=True)


def _no_blending(fill: Any, interpolation: str) -> None:
    if fill is None and interpolation == "bilinear":
        raise Refused("fill", "with fill=None, torchvision does not blend the edge of the image with the "
                      "area outside, and the servers do", "write fill=0")


def _note_on_pillow(out: Translation, step: Step, interpolation: str) -> None:
    if not out.is_tensor and interpolation == "bilinear":
        out.note(step, "the servers interpolate as torchvision does for tensors; for PIL images, Pillow does, "
                       "and some pixels at edges differ by many levels: put ToImage before it where you "
                       "compare")


def _color_jitter(out: Translation, step: Step, t: Any, p: Any) -> None:
    ranges = [None if value is None else tuple(value)
              for value in (t.brightness, t.contrast, t.saturation, t.hue)]
    if any(value is not None for value in ranges):
        out.color(step, T.ColorJitter(*ranges, p=p, fields=out.fields.colored))


def _grayscale(out: Translation, step: Step, t: Any, p: Any) -> None:
    if t.num_output_channels == 1:
        if p is not None:
            raise Refused("num_output_channels", "all images of a batch have the same number of channels",
                          "write num_output_channels=3")
        out.gray(step, "num_output_channels")
    elif out.channels != 1:
        out.color(step, T.Grayscale(3, p=p, fields=out.fields.colored))
    else:
        raise Refused("num_output_channels", "the images have one channel already", "remove Grayscale")


def _random_grayscale(out: Translation, step: Step, t: Any, p: Any) -> None:
    out.color(step, T.RandomGrayscale(_product(t.p, p), fields=out.fields.colored))


def _rgb(out: Translation, step: Step, t: Any, p: Any) -> None:
    if out.channels != 3:
        raise Refused("", "the servers convert to RGB only when they decode", "remove RGB, and store images "
                      "of three channels" if out.fields.image not in out.fields.decoders else
                      "use decode=True and remove RGB")


def _gaussian_blur(out: Translation, step: Step, t: Any, p: Any) -> None:
    kernel = list(t.kernel_size)
    if len(set(kernel)) != 1:
        raise Refused("kernel_size", "the kernel of the servers has the same size on both axes",
                      "write one size")
    out.color(step, T.GaussianBlur(kernel[0], tuple(t.sigma), p=p, fields=out.fields.colored))


def _random_erasing(out: Translation, step: Step, t: Any, p: Any) -> None:
    if t.value is None:
        raise Refused("value", "torchvision's \"random\" has a normal distribution, and the servers' a "
                      "uniform one of 0 .. 255", "write a value; or use millrace.transforms.RandomErasing(value="
                      "\"random\") in a Pipeline")
    if out.pixels == "normal":
        out.note(step, "the servers erase before Normalize")
    out.erase(step, T.RandomErasing(_product(t.p, p), tuple(t.scale), tuple(t.ratio),
                                    out.levels(step, "value", t.value), fields=out.fields.colored))


def _trivial_augment_wide(out: Translation, step: Step, t: Any, p: Any) -> None:
    interpolation, fill = _of_augment(out, step, t)
    out.color(step, T.TrivialAugmentWide(t.num_magnitude_bins, interpolation, fill, p=p,
                                         fields=out.fields.colored))


def _rand_augment(out: Translation, step: Step, t: Any, p: Any) -> None:
    interpolation, fill = _of_augment(out, step, t)
    out.color(step, T.RandAugment(t.num_ops, t.magnitude, t.num_magnitude_bins, interpolation, fill,
                                  p=p, fields=out.fields.colored))


def _of_augment(out: Translation, step: Step, t: Any) -> tuple[Any, Any]:
    out.images_alone(step)
    if out.pixels != "uint8":
        raise Refused("", "the servers apply the transform to uint8 images, and the images are floats at "
                      "this place", f"put {step.name} before the conversion to floats")
    interpolation = _interpolation(t.interpolation)
    fill = _fill(out, step, t.fill)
    if fill is None and t.fill is not None and interpolation == "bilinear":
        out.note(step, "the servers blend edges with fill=0 as torchvision does with fill=None")
    return interpolation, fill


def _normalize(out: Translation, step: Step, t: Any, p: Any) -> None:
    _no_p(p)
    if out.pixels == "uint8":
        known = out.fields.stored is not None or out.fields.image in out.fields.decoders
        raise Refused("", ("the images are uint8 at this place" if known else "the servers normalise uint8 "
                           "images") + ", and torchvision's Normalize takes floats",
                      "put ToDtype(torch.float32, scale=True) before Normalize")
    if out.pixels == "floats":
        raise Refused("", "the images are floats of 0 .. 255 at this place, and the servers divide them by "
                      "255 first", "use ToDtype(torch.float32, scale=True), and mean and std of 0 .. 1")
    if out.dtype is not None:
        out.note(step, f"the servers compute in float32, and convert the result to {out.dtype}")
    out.normalize(step, t.mean, t.std, "mean")


def _to_dtype(out: Translation, step: Step, t: Any, p: Any) -> None:
    _no_p(p)
    value = t.dtype
    if isinstance(value, Mapping):
        if out.fields.masks:
            out.cast_masks(step, _dtype(_of_type(value, "dtype", "Mask") or "uint8"))
        if out.fields.boxes:
            _boxes_stay(_of_type(value, "dtype", "BoundingBoxes"))
        _unused(out, step, "dtype", value)
        value = _of_images(value, "dtype")
    if value is not None:
        _convert(out, step, _dtype(value), t.scale)


def _convert_image_dtype(out: Translation, step: Step, t: Any, p: Any) -> None:
    _no_p(p)
    # It converts masks and boxes, too.
    out.cast_masks(step, _dtype(t.dtype))
    if out.fields.boxes:
        _boxes_stay(t.dtype)
    _convert(out, step, _dtype(t.dtype), True)


def _boxes_stay(dtype: Any) -> None:
    if dtype is not None and _dtype(dtype) != "float32":
        raise Refused("dtype", f"the servers keep boxes as float32, not as {_dtype(dtype)}",
                      "convert the boxes in the loop")


def _convert(out: Translation, step: Step, dtype: str, scale: bool) -> None:
    stored = out.fields.stored
    if stored is not None and out.pixels == "other":
        _convert_other(out, step, dtype, scale, stored.dtype)
        return
    if dtype not in _FLOATS:
        if dtype == "uint8" and out.pixels == "uint8":
            return
        raise Refused("dtype", f"the servers do not convert images to {dtype}",
                      "convert in the loop, or remove the conversion")
    out.cast(dtype)
    if not out.is_tensor and out.pixels == "uint8":
        out.note(step, "the servers convert the images, as torchvision does tensors; without ToImage before "
                       "it, torchvision does not convert PIL images")
    if dtype != "float32" and out.pixels == "uint8" and scale:
        out.note(step, f"the servers compute in float32, and convert the result to {dtype}")
    if out.pixels != "normal":
        out.conversions.append(step.transform)
    if out.pixels == "uint8":
        out.pixels = "unit" if scale else "floats"


def _convert_other(out: Translation, step: Step, dtype: str, scale: bool, stored: str) -> None:
    """Of images that are stored in another type than uint8. Between floats, torchvision does not scale."""
    if dtype == (out.dtype or stored):
        return
    if dtype not in _FLOATS or out.dtype is not None:
        raise Refused("dtype", f"the servers do not convert images of {out.dtype or stored} to {dtype}",
                      "convert in the loop, or remove the conversion")
    if scale and stored not in _FLOATS:
        raise Refused("scale", f"the images are {stored}, and the servers scale only uint8",
                      "give images of uint8, or scale in the loop")
    out.dtype = dtype
    out.conversions.append(step.transform)


def _to_tensor(out: Translation, step: Step, t: Any, p: Any) -> None:
    was_tensor = out.is_tensor
    _to_image(out, step, t, p)
    if not was_tensor and out.pixels == "uint8":  # tensors, and arrays of other types, stay as they are
        out.pixels = "unit"
        out.conversions.append(ScaleToFloat())


def _to_image(out: Translation, step: Step, t: Any, p: Any) -> None:
    """PIL images and arrays become tensors."""
    _no_p(p)
    if not out.is_tensor and out.pixels not in ("uint8", "other"):
        raise Refused("", f"the conversion to floats comes before {step.name}, and torchvision does not "
                      "convert PIL images", f"put {step.name} before the conversion")
    out.is_tensor = True


def _image_classification(out: Translation, step: Step, t: Any, p: Any) -> None:
    """The `transforms()` of torchvision's weights."""
    if out.pixels != "uint8":
        raise Refused("", "the images are floats at this place, and the transform takes uint8",
                      "use the transform alone")
    interpolation = _interpolation(t.interpolation)
    out.geometry(step, T.Resize(list(t.resize_size), interpolation,
                                _antialias(out, step, t.antialias, interpolation),
                                fields=out.fields.moved), resamples=True)
    out.geometry(step, T.CenterCrop(list(t.crop_size), fields=out.fields.moved))
    out.is_tensor, out.pixels = True, "unit"
    out.normalize(step, t.mean, t.std, "mean")


def _nothing(out: Translation, step: Step, t: Any, p: Any) -> None:
    """Identity, and what changes the class of a tensor alone."""


def _clamp_boxes(out: Translation, step: Step, t: Any, p: Any) -> None:
    _no_p(p)
    _needs_boxes(out)
    if getattr(t, "clamping_mode", "auto") is not None:
        # Of the servers, every pad clamps boxes.
        out.geometry(step, T.Pad(0, fields=out.fields.moved))


def _set_clamping_mode(out: Translation, step: Step, t: Any, p: Any) -> None:
    _no_p(p)
    _needs_boxes(out)
    if t.clamping_mode is None:
        raise Refused("clamping_mode", "the servers always clamp boxes after crops, pads and rotations",
                      f"remove {step.name}")


def _convert_boxes(out: Translation, step: Step, t: Any, p: Any) -> None:
    _no_p(p)
    _needs_boxes(out)
    name = str(getattr(t.format, "value", t.format)).upper()
    if name != "XYXY":
        raise Refused("format", "the servers' boxes have the format XYXY (left, top, right, bottom)",
                      "convert the boxes in the loop")


def _needs_boxes(out: Translation) -> None:
    if not out.fields.boxes:
        raise Refused("", "boxes= is not set", "name the field of the boxes: boxes=\"boxes\"")


def _random_apply(out: Translation, step: Step, t: Any, p: Any) -> None:
    inner = list(t.transforms)  # and p is neither 0 nor 1, which _flat has done
    if len(inner) != 1:
        raise Refused("transforms", "the servers decide for each transform separately whether to apply "
                      "it", "write a RandomApply for each transform")
    key = _key(inner[0])
    if key in _LIBRARY.known and key not in _TAKE_P:
        raise Refused("transforms", f"the servers always apply {type(inner[0]).__name__}",
                      f"use {type(inner[0]).__name__} without RandomApply")
    inside = Step(f"{step.position}.0", inner[0])
    try:
        _translate(out, inside, _product(t.p, p))
    except Refused as refused:
        what = f"{inside.name}({refused.parameter}=)" if refused.parameter else inside.name
        raise Refused("transforms", f"{what}: {refused.reason}", refused.advice) from None


def _product(p: Any, outer: Any) -> float:
    return float(p) if outer is None else float(p) * float(outer)


def _no_p(p: Any) -> None:
    assert p is None, "_TAKE_P has what RandomApply may hold"


# handler(translation, step, transform, p of a RandomApply).
_KNOWN: dict[str, tuple[tuple[str, ...], _Handler]] = {
    "CenterCrop": (("size",), _center_crop),
    "ClampBoundingBoxes": (("clamping_mode",), _clamp_boxes),
    "ColorJitter": (("brightness", "contrast", "saturation", "hue"), _color_jitter),
    "ConvertBoundingBoxFormat": (("format",), _convert_boxes),
    "ConvertImageDtype": (("dtype",), _convert_image_dtype),
    "GaussianBlur": (("kernel_size", "sigma"), _gaussian_blur),
    "Grayscale": (("num_output_channels",), _grayscale),
    "Identity": ((), _nothing),
    "ImageClassification": (("crop_size", "resize_size", "mean", "std", "interpolation", "antialias"),
                            _image_classification),
    "Normalize": (("mean", "std", "inplace"), _normalize),
    "PILToTensor": ((), _to_image),
    "Pad": (("padding", "fill", "padding_mode"), _pad),
    "RGB": ((), _rgb),
    "RandAugment": (("num_ops", "magnitude", "num_magnitude_bins", "interpolation", "fill"),
                    _rand_augment),
    "RandomAffine": (("degrees", "translate", "scale", "shear", "interpolation", "fill", "center"),
                     _random_affine),
    "RandomApply": (("transforms", "p"), _random_apply),
    "RandomCrop": (("size", "padding", "pad_if_needed", "fill", "padding_mode"), _random_crop),
    "RandomErasing": (("p", "scale", "ratio", "value", "inplace"), _random_erasing),
    "RandomGrayscale": (("p",), _random_grayscale),
    "RandomHorizontalFlip": (("p",), _flip(T.RandomHorizontalFlip)),
    "RandomResizedCrop": (("size", "scale", "ratio", "interpolation", "antialias"),
                          _random_resized_crop),
    "RandomRotation": (("degrees", "interpolation", "expand", "fill", "center"), _random_rotation),
    "RandomVerticalFlip": (("p",), _flip(T.RandomVerticalFlip)),
    "Resize": (("size", "interpolation", "max_size", "antialias"), _resize),
    "SetClampingMode": (("clamping_mode",), _set_clamping_mode),
    "ToDtype": (("dtype", "scale"), _to_dtype),
    "ToImage": ((), _to_image),
    "ToPureTensor": ((), _nothing),
    "ToTensor": ((), _to_tensor),
    "TrivialAugmentWide": (("num_magnitude_bins", "interpolation", "fill"), _trivial_augment_wide),
}
# What RandomApply may hold: the servers' transform has p, and is nothing where it does not hit.
_TAKE_P = ("ColorJitter", "GaussianBlur", "Grayscale", "RandAugment", "RandomAffine", "RandomApply",
           "RandomErasing", "RandomGrayscale", "RandomHorizontalFlip", "RandomRotation",
           "RandomVerticalFlip", "TrivialAugmentWide")

# What changes no pixel, or the type alone.
_TAKE_ANY_TYPE = ("ConvertBoundingBoxFormat", "ConvertImageDtype", "Identity", "PILToTensor",
                  "SetClampingMode", "ToDtype", "ToImage", "ToPureTensor", "ToTensor")
_FLOATS = ("float32", "float64", "float16", "bfloat16")

_MIXES = ("{0} mixes the samples of a batch, and a Compose gets single samples (the servers mix samples 2i "
          "and 2i + 1 of the global batch, torchvision mixes neighbours)",
          "write millrace.transforms.{0}(...) before Normalize: Pipeline([*pipeline.transforms[:-1], "
          "{0}(...), pipeline.transforms[-1]])")
# {class: (reason, advice)}.
_ADVICE = {
    "MixUp": (_MIXES[0].format("MixUp"), _MIXES[1].format("MixUp")),
    "CutMix": (_MIXES[0].format("CutMix"), _MIXES[1].format("CutMix")),
    "RandomChoice": ("the servers decide for each transform separately", "use RandomApply, or "
                     "TrivialAugmentWide"),
    "RandomOrder": ("the servers apply transforms in the order of the list", "write them in a fixed order"),
    **dict.fromkeys(
        ("RandomAdjustSharpness", "RandomAutocontrast", "RandomEqualize", "RandomPosterize",
         "RandomSolarize"),
        ("the servers do this only in TrivialAugmentWide and RandAugment", "use one of these, or remove "
         "the transform")),
    "AutoAugment": ("the servers have no learned policies", "use TrivialAugmentWide or RandAugment"),
    "AugMix": ("the servers do not mix chains of operations", "use TrivialAugmentWide or RandAugment"),
    "SanitizeBoundingBoxes": ("the servers keep the number of boxes, so that batches have one shape; a box "
                              "outside of the image gets no area", "sanitize boxes in the loop"),
    "ToPILImage": ("batches are tensors", "remove ToPILImage"),
    "Lambda": PYTHON,
    "functools.partial": PYTHON,
}
_LIBRARY = Library("torchvision", "torchvision.transforms.", _V2, ("sample", "batch"),
                   "torch's generator of the process", _KNOWN, _ADVICE)


def _runs(step: Step) -> Any:
    """The transform as it can be called for a tensor."""
    if _key(step.transform) == "ToTensor":
        return ScaleToFloat()
    return step.transform
