"""Pipelines over arrays: what a translation has to know of the images, and what a pipeline asks of arrays
that they are not: refused before the arrays are copied. The servers check the rest when the loader is
opened; so does check_spec(), for a pipeline that is a text. Pure."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from millrace import _spec_text
from millrace._translated_fields import Stored
from millrace.errors import InvalidArgumentError
from millrace.pipeline import Pipeline

if TYPE_CHECKING:
    from millrace._arrays import Arrays, Described
    from millrace.pipeline import Origin


def stored(arrays: Arrays, origin: Origin) -> Stored:
    """What the images of a translation are.

    Raises:
      InvalidArgumentError: there are none, or they are no [N, H, W, C].
    """
    image = arrays._described.get(origin.field)
    if image is None:
        raise InvalidArgumentError(
            f"the compose is for the field {origin.field!r}, and the arrays have "
            f"{', '.join(arrays._described)}: rename the array of the images, or give pipeline="
            f"millrace.Pipeline.from_{origin.library}(compose, decode=False, field=\"...\")")
    _check_shape(image)
    return Stored(image.dtype, image.shape[3])


def check(arrays: Arrays, pipeline: str | os.PathLike[str] | Pipeline | None) -> None:
    """
    Raises:
      InvalidArgumentError: it decodes an array, or transforms one that is no uint8 [N, H, W, C].
    """
    if isinstance(pipeline, str) and pipeline.isidentifier():
        _check_images(arrays, "image")  # every preset works on it
    if not isinstance(pipeline, Pipeline):
        return
    if "preset" in pipeline.values:
        _check_images(arrays, "image")
    roles = {role.values["field"]: role.values["role"] for role in pipeline.values.get("field_roles", ())}
    no_images = {name for name, role in roles.items() if role == "BOXES_XYXY"}
    for transform in pipeline.transforms:
        if transform.kind == "decode_image":
            _refuse_decoding(arrays, transform.values.get("field", "image"), pipeline)
        names = transform.values.get("fields", ["image"])
        if transform.kind == "custom":
            no_images.update(names)  # it may make images of anything
        elif transform.kind != "to_dtype":
            for name in names:
                if name not in no_images:
                    _check_images(arrays, name, transform.kind == "normalize", roles.get(name) == "MASK")


def channels_first(arrays: Arrays) -> str:
    """The refusal of the first array that looks like images [N, C, H, W]; "": there is none."""
    found = [image for image in arrays._described.values() if _is_channels_first(image)]
    return _channels_first(found[0]) if found else ""


def check_spec(arrays: Arrays, text: str) -> None:
    """The same of a pipeline that the servers have accepted, written out: of the order of dimensions,
    which they cannot know.

    Raises:
      InvalidArgumentError: as check().
    """
    for transform in _spec_text.parse(text).messages("transforms"):
        for kind, message in transform:
            if isinstance(message, _spec_text.Message) and kind not in ("custom", "to_dtype"):
                for name in message.texts("fields") or ["image"]:
                    image = arrays._described.get(name)
                    if image is not None and _is_channels_first(image):
                        raise InvalidArgumentError(_channels_first(image))


def _refuse_decoding(arrays: Arrays, name: str, pipeline: Pipeline) -> None:
    image = arrays._described.get(name)
    if image is None:
        return
    advice = "leave DecodeImage out" if pipeline._origin is None else \
        f"translate with decode=False, millrace.Pipeline.from_{pipeline._origin.library}(compose, " \
        "decode=False)"
    raise InvalidArgumentError(f"the pipeline decodes the field {name!r}, and array {image} holds no files "
                               f"of images: {advice}")


def _check_images(arrays: Arrays, name: str, any_shape: bool = False, is_mask: bool = False) -> None:
    image = arrays._described.get(name)
    if image is None:
        return  # the servers say what there is
    if not any_shape or len(image.shape) == 4:
        _check_shape(image)
    if image.dtype != "uint8" and is_mask:
        raise InvalidArgumentError(
            f"array {image} has elements of type {image.dtype}, and the transforms of the servers take masks of "
            f"uint8, classes 0 .. 255: give {name}.astype(numpy.uint8) of a NumPy array, {name}.to(torch.uint8) "
            "of a tensor")
    if image.dtype != "uint8":
        raise InvalidArgumentError(
            f"array {image} has elements of type {image.dtype}, and the transforms of the servers take uint8 "
            "of 0 .. 255: give images of uint8, for floats of 0 .. 1 (images * 255).round() as uint8; or "
            "leave pipeline= out, and transform the batches in the loop")


def _check_shape(image: Described) -> None:
    if len(image.shape) == 3:
        raise InvalidArgumentError(f"array {image} has no dimension for the channels, and the transforms "
                                   "take images [N, H, W, C]: give images[..., None]")
    if len(image.shape) != 4:
        raise InvalidArgumentError(f"array {image} holds no images, and the transforms take [N, H, W, C]")
    if _is_channels_first(image):
        raise InvalidArgumentError(_channels_first(image))


def _is_channels_first(image: Described) -> bool:
    return len(image.shape) == 4 and image.shape[1] in (1, 3, 4) and image.shape[3] > 4


def _channels_first(image: Described) -> str:
    return f"array {image} looks like images [N, C, H, W], and the transforms take [N, H, W, C]: give " \
        "images.transpose(0, 2, 3, 1) of a NumPy array, images.permute(0, 2, 3, 1) of a tensor"
