"""`Pipeline.from_albumentations`: a Compose of Albumentations 2 as transforms of the servers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from millrace import transforms as T
from millrace._compose import PYTHON, Library, Refused, Step
from millrace._translated_fields import TranslatedFields
from millrace._translation import Translated, Translation

_Parameters = dict[str, Any]
_Handler = Callable[[Translation, Step, _Parameters], None]

# OpenCV's numbers.
_INTERPOLATIONS = {0: "nearest", 1: "bilinear"}
_BORDERS = {0: "constant", 1: "edge", 2: "symmetric", 4: "reflect"}
# Of any class: `p`, and what masks and boxes have.
_IMPLIED = ("p", "fill_mask", "mask_interpolation", "rotate_method", "transpose_mask")


def translate(compose: Any, fields: TranslatedFields, local: str | None) -> Translated:
    """What Pipeline.from_albumentations says."""
    out = Translation(_LIBRARY, compose, fields, local)
    steps = _flat(out, compose, "")
    first = any(step.name == "ToTensorV2" and float(step.transform.p) == 1 for step in steps)
    rest = out.run(steps, _translate)
    if rest and (fields.masks or fields.boxes):
        out.refuse(rest[0], Refused("", "Albumentations' transforms run in the loader for images only, "
                                    "and masks= or boxes= is set", "remove local="))
    return out.finish([step.transform for step in rest],
                      "channels_first" if first else "channels_last", "no_channels")


def _flat(out: Translation, transform: Any, position: str) -> list[Step]:
    """The transforms of nested containers that apply all of theirs."""
    step = Step(position or "0", transform)
    if step.name not in ("Compose", "Sequential") or not _LIBRARY.owns(transform):
        return [step]

    def refuse(parameter: str, reason: str, advice: str) -> None:
        out.refused_compose = True
        out.refuse(step, Refused(parameter, reason, advice))

    if float(transform.p) != 1:
        refuse("p", "the servers decide for each transform separately whether to apply it",
               "write p for each transform")
    processors = (getattr(transform, "processors", None) or {}) if not position else {}
    if "keypoints" in processors:
        refuse("keypoint_params", "the servers do not support key points",
               "remove keypoint_params")
    if "bboxes" in processors and not out.fields.boxes:
        refuse("bbox_params", "boxes= is not set", "name the field of the boxes: boxes=\"boxes\"")
    elif "bboxes" in processors:
        _boxes(out, step, getattr(processors["bboxes"], "params", None), refuse)
    elif out.fields.boxes and not position:
        refuse("bbox_params", "boxes= names a field, and the Compose has no bbox_params", "write bbox_params="
               "A.BboxParams(\"pascal_voc\")")
    others = {name: kind for name, kind in (getattr(transform, "_additional_targets", None) or {}).items()
              if kind != "mask" or name not in out.fields.masks}
    if others and not position:
        refuse("additional_targets", f"no field is named for {', '.join(sorted(others))}",
               "name the fields of masks in masks=; for several images, write the pipeline with "
               "millrace.transforms and fields=")
    if getattr(transform, "seed", None) is not None:
        out.note(step, "seed of the Compose is ignored: seed= of the pipeline or the loader sets all random "
                       "choices")
    return [inner for i, item in enumerate(transform.transforms)
            for inner in _flat(out, item, f"{position}.{i}" if position else str(i))]


def _boxes(out: Translation, step: Step, params: Any, refuse: Callable[[str, str, str], None]) -> None:
    """What BboxParams ask for."""
    if params.format != "pascal_voc":
        refuse("bbox_params", f"format {params.format!r}: the servers' boxes are left, top, right, bottom in "
               "pixels", "store the boxes in this format, and write format=\"pascal_voc\"")
    # Each of these may remove boxes.
    for name, nothing in (("min_area", 0), ("min_visibility", 0), ("min_width", 0), ("min_height", 0),
                          ("filter_invalid_bboxes", False), ("max_accept_ratio", None)):
        if getattr(params, name, nothing) != nothing:
            refuse("bbox_params", f"{name}: the servers keep the number of boxes, so that batches have one "
                   "shape", f"remove {name}, and select boxes in the loop")
    if not getattr(params, "check_each_transform", True):
        refuse("bbox_params", "check_each_transform: the servers always clamp boxes after crops, pads and "
               "rotations", "remove check_each_transform")
    if getattr(params, "clip", False):
        out.geometry(step, T.Pad(0, fields=out.fields.moved))  # of the servers, every pad clamps boxes


def _translate(out: Translation, step: Step) -> None:
    key = step.name if _LIBRARY.owns(step.transform) else ""
    if key and float(getattr(step.transform, "p", 1)) == 0:
        return  # it is never applied
    names: Sequence[str] = getattr(step.transform, "get_transform_init_args_names", tuple)()
    handler = _LIBRARY.handler(step, key, names, _IMPLIED)
    if out.pixels == "other" and key not in ("NoOp", "ToTensorV2"):
        raise out.other_type()
    parameters = {name: getattr(step.transform, name) for name in names}
    if "p" in names and step.name not in _TAKE_P and float(parameters["p"]) != 1:
        raise Refused("p", f"the servers always apply {step.name}", "write p=1.0")
    if out.is_tensor and key not in ("NoOp", "ToTensorV2"):
        raise Refused("", f"{step.name} comes after ToTensorV2, and Albumentations' transforms take arrays",
                      "put ToTensorV2 at the end")
    if out.fields.masks and parameters.get("mask_interpolation", 0) != 0:
        raise Refused("mask_interpolation", "the servers move masks by the nearest pixel",
                      "write cv2.INTER_NEAREST")
    if out.fields.boxes and parameters.get("rotate_method", "largest_box") != "largest_box":
        raise Refused("rotate_method", "the servers use the axis-aligned box around the rotated corners",
                      "write \"largest_box\"")
    handler(out, step, parameters)


# ---- Values of parameters ---------------------------------------------------------------------------


def _interpolation(p: _Parameters) -> str:
    name = _INTERPOLATIONS.get(p["interpolation"])
    if name is None:
        raise Refused("interpolation", "the servers resample by cv2.INTER_LINEAR or cv2.INTER_NEAREST",
                      "write one of these")
    return name


def _no_area(p: _Parameters) -> None:
    if p["area_for_downscale"] is not None:
        raise Refused("area_for_downscale", "the servers do not support INTER_AREA", "remove it; or use "
                      "millrace.transforms.Resize, which resamples with antialiasing")


def _levels(out: Translation, step: Step, p: _Parameters) -> Any:
    """The fill of images; that of masks is noted."""
    value = p["fill"]
    out.outside(step, "fill_mask", p.get("fill_mask", 0))
    if isinstance(value, str):
        raise Refused("fill", f"the servers do not support {value!r}", "write levels of 0 .. 255")
    levels = out.levels(step, "fill", list(value) if isinstance(value, Sequence) else [value])
    return levels if any(levels) else None


def _border(p: _Parameters, *allowed: str) -> str:
    name = _BORDERS.get(p["border_mode"])
    if name not in allowed:
        raise Refused("border_mode", "the servers do not support this border mode here",
                      f"write the constant of OpenCV for {' or '.join(allowed)}")
    return name


# ---- Transforms -------------------------------------------------------------------------------------


def _resampled(out: Translation, step: Step, transform: T.Transform, interpolation: str) -> None:
    out.geometry(step, transform, resamples=True)
    if interpolation == "bilinear":
        out.note(step, "resamples without antialiasing, as cv2.INTER_LINEAR does; millrace.transforms "
                       "resamples with antialiasing unless antialias=False")
    else:
        out.note(step, "computes the nearest pixel in float32: for a point exactly between two pixels, "
                       "OpenCV may choose the other one")


def _random_resized_crop(out: Translation, step: Step, p: _Parameters) -> None:
    _no_area(p)
    interpolation = _interpolation(p)
    _resampled(out, step, T.RandomResizedCrop(
        list(p["size"]), tuple(p["scale"]), tuple(p["ratio"]),
        interpolation, antialias=False, fields=out.fields.moved), interpolation)  # type: ignore[arg-type]


def _resize(out: Translation, step: Step, p: _Parameters) -> None:
    _no_area(p)
    interpolation = _interpolation(p)
    _resampled(out, step, T.Resize(
        [p["height"], p["width"]], interpolation, antialias=False,  # type: ignore[arg-type]
        fields=out.fields.moved), interpolation)


def _smallest_max_size(out: Translation, step: Step, p: _Parameters) -> None:
    _no_area(p)
    interpolation = _interpolation(p)
    if p.get("max_size_hw") is not None or not isinstance(p["max_size"], int):
        raise Refused("max_size", "the servers resize the short side to one number of pixels",
                      "write max_size=N")
    out.note(step, "the long side is rounded down, and may be one pixel shorter than Albumentations'")
    _resampled(out, step, T.Resize(
        p["max_size"], interpolation, antialias=False, fields=out.fields.moved),  # type: ignore[arg-type]
        interpolation)


def _no_padding(p: _Parameters) -> None:
    if p["pad_if_needed"]:
        raise Refused("pad_if_needed", "the servers pad smaller images differently from "
                      "Albumentations", "use Pad; or millrace.transforms.RandomCrop(pad_if_needed=True)")


def _center_crop(out: Translation, step: Step, p: _Parameters) -> None:
    _no_padding(p)
    out.black_outside(step)
    out.note(step, "half pixels are rounded to even, and Albumentations rounds down: the crop may move by "
                   "one pixel; smaller images are padded with black, and Albumentations raises an error")
    out.geometry(step, T.CenterCrop((p["height"], p["width"]), fields=out.fields.moved))


def _random_crop(out: Translation, step: Step, p: _Parameters) -> None:
    _no_padding(p)
    out.geometry(step, T.RandomCrop((p["height"], p["width"]), fields=out.fields.moved))


def _pad(out: Translation, step: Step, p: _Parameters) -> None:
    mode = _border(p, "constant", "edge", "symmetric", "reflect")
    padding = p["padding"]
    padding = [padding] if isinstance(padding, int) else list(padding)
    constant = mode == "constant"
    if out.fields.boxes and not constant:
        raise Refused("border_mode", "boxes cannot follow a padding that repeats pixels",
                      "write cv2.BORDER_CONSTANT")
    out.geometry(step, T.Pad(padding, _levels(out, step, p) if constant else None,
                             None if constant else mode,  # type: ignore[arg-type]
                             fields=out.fields.moved))


def _horizontal_flip(out: Translation, step: Step, p: _Parameters) -> None:
    out.geometry(step, T.RandomHorizontalFlip(float(p["p"]), fields=out.fields.moved), flips=True)


def _vertical_flip(out: Translation, step: Step, p: _Parameters) -> None:
    out.geometry(step, T.RandomVerticalFlip(float(p["p"]), fields=out.fields.moved), flips=True)


def _rotate(out: Translation, step: Step, p: _Parameters) -> None:
    if p["crop_border"]:
        raise Refused("crop_border", "the servers keep the size of the image", "write crop_border=False")
    _border(p, "constant")
    interpolation = _interpolation(p)
    low, high = p["limit"]
    if low == high == 0:
        return
    out.geometry(step, T.RandomRotation(
        (low, high), interpolation, _levels(out, step, p), p=float(p["p"]),  # type: ignore[arg-type]
        fields=out.fields.moved), resamples=True)


def _color_jitter(out: Translation, step: Step, p: _Parameters) -> None:
    ranges = [tuple(p[name]) for name in ("brightness", "contrast", "saturation", "hue")]
    if any(ranges[3]):
        out.note(step, "Albumentations rounds hue to OpenCV's 180 steps, and the servers do not; the random "
                       "choices are the same")
    out.color(step, T.ColorJitter(*ranges, p=float(p["p"]), fields=out.fields.colored))


def _to_gray(out: Translation, step: Step, p: _Parameters) -> None:
    if p["method"] != "weighted_average" or p["num_output_channels"] != 3:
        raise Refused("method" if p["method"] != "weighted_average" else "num_output_channels",
                      "the servers write the weighted average into three channels",
                      "write method=\"weighted_average\", num_output_channels=3")
    out.color(step, T.Grayscale(3, p=float(p["p"]), fields=out.fields.colored))


def _gaussian_blur(out: Translation, step: Step, p: _Parameters) -> None:
    low, high = p["blur_limit"]
    if low != high or low == 0:
        raise Refused("blur_limit", "the servers' kernel has one size", "write blur_limit=(k, k) with an "
                      "odd k")
    out.color(step, T.GaussianBlur(low, tuple(p["sigma_limit"]), p=float(p["p"]), fields=out.fields.colored))


def _normalize(out: Translation, step: Step, p: _Parameters) -> None:
    if p["normalization"] != "standard":
        raise Refused("normalization", "the servers normalise by mean and std", "write normalization="
                      "\"standard\"")
    if p["mean"] is None or p["std"] is None or p["max_pixel_value"] != 255:
        raise Refused("max_pixel_value", "the servers divide bytes by 255", "remove it, and write mean "
                      "and std for pixels of 0 .. 1")
    mean, std = ([value] if isinstance(value, (int, float)) else list(value)
                 for value in (p["mean"], p["std"]))
    out.normalize(step, mean, std, "mean")


def _nothing(out: Translation, step: Step, p: _Parameters) -> None:
    """NoOp."""


def _to_tensor(out: Translation, step: Step, p: _Parameters) -> None:
    out.is_tensor = True


_RESAMPLED = ("interpolation", "area_for_downscale")
_CROP = ("height", "width", "pad_if_needed", "pad_position", "border_mode", "fill")
# handler(translation, step, parameters).
_KNOWN: dict[str, tuple[tuple[str, ...], _Handler]] = {
    "CenterCrop": (_CROP, _center_crop),
    "ColorJitter": (("brightness", "contrast", "saturation", "hue"), _color_jitter),
    "GaussianBlur": (("blur_limit", "sigma_limit"), _gaussian_blur),
    "HorizontalFlip": ((), _horizontal_flip),
    "NoOp": ((), _nothing),
    "Normalize": (("mean", "std", "max_pixel_value", "normalization"), _normalize),
    "Pad": (("padding", "fill", "border_mode"), _pad),
    "RandomCrop": (_CROP, _random_crop),
    "RandomResizedCrop": (("size", "scale", "ratio", *_RESAMPLED), _random_resized_crop),
    "Resize": (("height", "width", *_RESAMPLED), _resize),
    "Rotate": (("limit", "interpolation", "border_mode", "fill", "crop_border"), _rotate),
    "SmallestMaxSize": (("max_size", "max_size_hw", *_RESAMPLED), _smallest_max_size),
    "ToGray": (("num_output_channels", "method"), _to_gray),
    "ToTensorV2": ((), _to_tensor),
    "VerticalFlip": ((), _vertical_flip),
}
# Whose `p` the servers have, or for which it means nothing.
_TAKE_P = ("ColorJitter", "GaussianBlur", "HorizontalFlip", "NoOp", "Rotate", "ToGray", "VerticalFlip")

# {class: (reason, advice)}.
_ADVICE = {
    "RandomBrightnessContrast": ("it adds to the levels, and the servers' color_jitter multiplies them",
                                 "use ColorJitter(brightness=, contrast=)"),
    "HueSaturationValue": ("it adds to hue, saturation and value, and the servers' color_jitter "
                           "multiplies them", "use ColorJitter(saturation=, hue=)"),
    "Affine": ("its random choices differ from those of the servers' random_affine", "write "
               "millrace.transforms.RandomAffine"),
    "ShiftScaleRotate": ("its random choices differ from those of the servers' random_affine", "write "
                         "millrace.transforms.RandomAffine"),
    "Erasing": ("its area and ratio are chosen differently from the servers'", "write "
                "millrace.transforms.RandomErasing"),
    "CoarseDropout": ("the servers erase one rectangle", "write millrace.transforms.RandomErasing"),
    "PadIfNeeded": ("the servers pad by fixed numbers of pixels", "use Pad"),
    **dict.fromkeys(("OneOf", "OneOrOther", "SomeOf"),
                    ("the servers decide for each transform separately", "use one of them, or write p "
                     "for each of them")),
    "RandomOrder": ("the servers apply transforms in the order of the list", "write them in a fixed order"),
    "Lambda": PYTHON,
}
_LIBRARY = Library("albumentations", "albumentations.", "Albumentations 2", ("sample",),
                   "Albumentations' generators", _KNOWN, _ADVICE)
