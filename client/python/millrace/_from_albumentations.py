"""`Pipeline.from_albumentations`: a Compose of Albumentations 2 as transforms of the servers.

Only the objects that the compose holds are looked at: Albumentations is not imported. A class is known
by its module and name, so that a subclass is refused; a parameter that this release does not know is
refused, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from millrace import transforms as T
from millrace._local import Local
from millrace._translation import Refused, Step, Translation
from millrace.errors import ArgumentError

_Parameters = dict[str, Any]
_Handler = Callable[[Translation, Step, _Parameters], None]

# OpenCV's numbers.
_INTERPOLATIONS = {0: "nearest", 1: "bilinear"}
_BORDERS = {0: "constant", 1: "edge", 2: "symmetric", 4: "reflect"}
# Of images that have neither masks nor boxes.
_OF_OTHER_TARGETS = ("fill_mask", "mask_interpolation", "rotate_method", "transpose_mask")


def is_compose(value: Any) -> bool:
    """Whether a value is an object of Albumentations."""
    return type(value).__module__.startswith("albumentations.")


def translate(compose: Any, field: str, decode: bool | T.DecodeImage, local: Literal["sample"] | None
              ) -> tuple[list[T.Transform], list[str], Local | None]:
    """What Pipeline.from_albumentations says."""
    if local not in (None, "sample"):
        raise ArgumentError(f"local={local!r}: Albumentations works on single images: expected None or "
                            "\"sample\"")
    if not is_compose(compose):
        raise ArgumentError(f"compose={compose!r}: expected a Compose of Albumentations")
    out = Translation("albumentations", field, decode)
    steps = _flat(out, compose, "")
    channels_first = any(step.name == "ToTensorV2" for step in steps)
    rest: list[Step] = []
    for i, step in enumerate(steps):
        notes = len(out.notes)
        try:
            _translate(out, step)
        except Refused as refused:
            del out.notes[notes:]
            if local is None:
                out.refuse(step, refused)
                continue
            rest = steps[i:]
            out.local(step, len(rest), refused, "Albumentations' generators", each=True)
            break
    return out.finish([step.transform for step in rest], each=True,
                      wanted="channels_first" if channels_first else "channels_last",
                      may_be_local=local is None and not out.refused_compose)


def _flat(out: Translation, transform: Any, position: str) -> list[Step]:
    """The transforms of nested containers that apply all of theirs."""
    step = Step(position or "0", transform)

    def refuse(parameter: str, reason: str, advice: str) -> None:
        out.refused_compose = True
        out.refuse(step, Refused(parameter, reason, advice))

    if step.name not in ("Compose", "Sequential") or not is_compose(transform):
        return [step]
    if float(transform.p) != 1:
        refuse("p", "one draw would decide over several transforms, and each of the servers' transforms "
               "draws for itself", "write p into each of them")
    for name in ("bboxes", "keypoints"):
        if name in (getattr(transform, "processors", None) or {}):
            refuse("bbox_params" if name == "bboxes" else "keypoint_params", "the translation is for "
                   "images alone", "write the pipeline with millrace.transforms; field_roles= says which "
                   "fields are boxes")
    if getattr(transform, "_additional_targets", None):
        refuse("additional_targets", "the translation is for one field", "write the pipeline with "
               "millrace.transforms and fields=")
    if getattr(transform, "seed", None) is not None:
        out.note(step, "seed is not used: seed= of the pipeline or the loader fixes every random choice")
    return [inner for i, item in enumerate(transform.transforms)
            for inner in _flat(out, item, f"{position}.{i}" if position else str(i))]


def _translate(out: Translation, step: Step) -> None:
    if not is_compose(step.transform) or step.name not in _KNOWN:
        reason, advice = _ADVICE.get(step.name, (
            "the servers have no such transform", "leave it out, or write one for the servers (docs/"
            "extending.md)"))
        raise Refused("", reason, advice)
    known, handler = _KNOWN[step.name]
    names = set(step.transform.get_transform_init_args_names())
    for name in sorted(names - {*known, *_OF_OTHER_TARGETS, "p"}):
        raise Refused(name, "this release of Millrace does not know the parameter, it knows Albumentations "
                      "2", "write the transform with millrace.transforms")
    parameters = {name: getattr(step.transform, name) for name in names}
    if "p" in names and step.name not in _TAKE_P and float(parameters["p"]) != 1:
        if float(parameters["p"]) == 0:
            return
        raise Refused("p", f"{step.name} of the servers cannot be left out at random", "write p=1.0")
    handler(out, step, parameters)


# ---- Values of parameters ---------------------------------------------------------------------------


def _interpolation(p: _Parameters) -> str:
    name = _INTERPOLATIONS.get(p["interpolation"])
    if name is None:
        raise Refused("interpolation", "the servers resample by cv2.INTER_LINEAR or cv2.INTER_NEAREST",
                      "choose one of these")
    return name


def _no_area(p: _Parameters) -> None:
    if p["area_for_downscale"] is not None:
        raise Refused("area_for_downscale", "the servers have no INTER_AREA", "leave it out; or write "
                      "millrace.transforms.Resize, which resamples with antialiasing")


def _levels(out: Translation, step: Step, value: Any) -> Any:
    if isinstance(value, str):
        raise Refused("fill", f"the servers have no {value!r}", "write levels of 0 .. 255")
    levels = out.levels(step, "fill", list(value) if isinstance(value, Sequence) else [value])
    return levels if any(levels) else None


def _border(p: _Parameters, *allowed: str) -> str:
    name = _BORDERS.get(p["border_mode"])
    if name not in allowed:
        raise Refused("border_mode", "the servers have none of this number here",
                      f"choose the number of OpenCV for {' or '.join(allowed)}")
    return name


# ---- Transforms -------------------------------------------------------------------------------------


def _resampled(out: Translation, step: Step, transform: T.Transform, interpolation: str) -> None:
    out.geometry(step, transform, resamples=True)
    if interpolation == "bilinear":
        out.note(step, "resamples without antialiasing, as cv2.INTER_LINEAR does; millrace.transforms "
                       "resamples with it unless antialias=False")
    else:
        out.note(step, "computes the nearest pixel in float32: where a place is on the border of two, it may "
                       "be the other one than OpenCV's")


def _random_resized_crop(out: Translation, step: Step, p: _Parameters) -> None:
    _no_area(p)
    interpolation = _interpolation(p)
    _resampled(out, step, T.RandomResizedCrop(
        list(p["size"]), tuple(p["scale"]), tuple(p["ratio"]),
        interpolation, antialias=False, fields=out.fields), interpolation)  # type: ignore[arg-type]


def _resize(out: Translation, step: Step, p: _Parameters) -> None:
    _no_area(p)
    interpolation = _interpolation(p)
    _resampled(out, step, T.Resize(
        [p["height"], p["width"]], interpolation, antialias=False,  # type: ignore[arg-type]
        fields=out.fields), interpolation)


def _smallest_max_size(out: Translation, step: Step, p: _Parameters) -> None:
    _no_area(p)
    interpolation = _interpolation(p)
    if p.get("max_size_hw") is not None or not isinstance(p["max_size"], int):
        raise Refused("max_size", "the servers resize the short side to one number of pixels",
                      "write max_size=N")
    out.note(step, "the long side is rounded down, where Albumentations rounds it: one pixel")
    _resampled(out, step, T.Resize(
        p["max_size"], interpolation, antialias=False, fields=out.fields),  # type: ignore[arg-type]
        interpolation)


def _no_padding(p: _Parameters) -> None:
    if p["pad_if_needed"]:
        raise Refused("pad_if_needed", "the servers pad smaller images in another way than "
                      "Albumentations", "use Pad; or millrace.transforms.RandomCrop(pad_if_needed=True)")


def _center_crop(out: Translation, step: Step, p: _Parameters) -> None:
    _no_padding(p)
    out.note(step, "an odd rest is rounded to even, where Albumentations rounds down: one pixel; images "
                   "that are smaller are padded with black, where Albumentations raises")
    out.geometry(step, T.CenterCrop((p["height"], p["width"]), fields=out.fields))


def _random_crop(out: Translation, step: Step, p: _Parameters) -> None:
    _no_padding(p)
    out.geometry(step, T.RandomCrop((p["height"], p["width"]), fields=out.fields))


def _pad(out: Translation, step: Step, p: _Parameters) -> None:
    mode = _border(p, "constant", "edge", "symmetric", "reflect")
    padding = p["padding"]
    padding = [padding] if isinstance(padding, int) else list(padding)
    constant = mode == "constant"
    out.geometry(step, T.Pad(padding, _levels(out, step, p["fill"]) if constant else None,
                             None if constant else mode,  # type: ignore[arg-type]
                             fields=out.fields))


def _horizontal_flip(out: Translation, step: Step, p: _Parameters) -> None:
    out.geometry(step, T.RandomHorizontalFlip(float(p["p"]), fields=out.fields), flips=True)


def _vertical_flip(out: Translation, step: Step, p: _Parameters) -> None:
    out.geometry(step, T.RandomVerticalFlip(float(p["p"]), fields=out.fields), flips=True)


def _rotate(out: Translation, step: Step, p: _Parameters) -> None:
    if p["crop_border"]:
        raise Refused("crop_border", "the servers keep the size", "write crop_border=False")
    _border(p, "constant")
    interpolation = _interpolation(p)
    low, high = p["limit"]
    if low == high == 0:
        return
    out.geometry(step, T.RandomRotation(
        (low, high), interpolation, _levels(out, step, p["fill"]), p=float(p["p"]),  # type: ignore[arg-type]
        fields=out.fields), resamples=True)


def _color_jitter(out: Translation, step: Step, p: _Parameters) -> None:
    ranges = [tuple(p[name]) for name in ("brightness", "contrast", "saturation", "hue")]
    if any(ranges[3]):
        out.note(step, "Albumentations rounds hue to 180 steps of OpenCV, the servers do not; draws are "
                       "the same")
    out.color(step, T.ColorJitter(*ranges, p=float(p["p"]), fields=out.fields))


def _to_gray(out: Translation, step: Step, p: _Parameters) -> None:
    if p["method"] != "weighted_average" or p["num_output_channels"] != 3:
        raise Refused("method" if p["method"] != "weighted_average" else "num_output_channels",
                      "the servers write the weighted average into three channels",
                      "write method=\"weighted_average\", num_output_channels=3")
    out.color(step, T.Grayscale(3, p=float(p["p"]), fields=out.fields))


def _gaussian_blur(out: Translation, step: Step, p: _Parameters) -> None:
    low, high = p["blur_limit"]
    if low != high or low == 0:
        raise Refused("blur_limit", "the servers' kernel has one size", "write blur_limit=(k, k) with an "
                      "odd k")
    out.color(step, T.GaussianBlur(low, tuple(p["sigma_limit"]), p=float(p["p"]), fields=out.fields))


def _normalize(out: Translation, step: Step, p: _Parameters) -> None:
    if p["normalization"] != "standard":
        raise Refused("normalization", "the servers normalise by mean and std", "write normalization="
                      "\"standard\"")
    if p["mean"] is None or p["std"] is None or p["max_pixel_value"] != 255:
        raise Refused("max_pixel_value", "the servers divide bytes by 255", "leave it out, and write mean "
                      "and std of pixels of 0 .. 1")
    mean, std = ([value] if isinstance(value, (int, float)) else list(value)
                 for value in (p["mean"], p["std"]))
    out.normalize(step, mean, std, "mean")


def _nothing(out: Translation, step: Step, p: _Parameters) -> None:
    """Conversions of what holds the image, and NoOp."""


_RESAMPLED = ("interpolation", "area_for_downscale")
_CROP = ("height", "width", "pad_if_needed", "pad_position", "border_mode", "fill")
# {class: (the parameters that it has, handler(translation, step, parameters))}.
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
    "ToTensorV2": ((), _nothing),
    "VerticalFlip": ((), _vertical_flip),
}
# Whose `p` the servers have, or for which it means nothing.
_TAKE_P = ("ColorJitter", "GaussianBlur", "HorizontalFlip", "NoOp", "Rotate", "ToGray", "ToTensorV2",
           "VerticalFlip")

# {class: (reason, advice)}.
_ADVICE = {
    "RandomBrightnessContrast": ("it adds to the levels, where the servers' color_jitter multiplies them",
                                 "use ColorJitter(brightness=, contrast=)"),
    "HueSaturationValue": ("it adds to hue, saturation and value, where the servers' color_jitter "
                           "multiplies", "use ColorJitter(saturation=, hue=)"),
    "Affine": ("its draws are not those of the servers' random_affine", "write "
               "millrace.transforms.RandomAffine"),
    "ShiftScaleRotate": ("its draws are not those of the servers' random_affine", "write "
                         "millrace.transforms.RandomAffine"),
    "Erasing": ("its area and ratio are drawn in another way than the servers'", "write "
                "millrace.transforms.RandomErasing"),
    "CoarseDropout": ("the servers erase one rectangle", "write millrace.transforms.RandomErasing"),
    "PadIfNeeded": ("the servers pad by fixed numbers of pixels", "use Pad"),
    "OneOf": ("the servers draw for each transform by itself", "choose one of them, or write each with a p "
              "of its own"),
    "SomeOf": ("the servers draw for each transform by itself", "write each with a p of its own"),
}
