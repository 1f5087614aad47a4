"""What a loader does with the images of each batch for a translated pipeline: the shape that the other
library gives them, and the transforms that the servers cannot do.

Imports of torch and torchvision happen when a batch needs them: the program has imported them, or has
given transforms of theirs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from millrace.errors import ArgumentError, InvalidArgumentError

if TYPE_CHECKING:
    from millrace.pipeline import Output

# [rows, height, width, channels], which the servers leave; [rows, channels, height, width], which they
# leave after normalize; [rows, height, width]; [rows, boxes, 4].
Layout = Literal["channels_last", "channels_first", "no_channels", "boxes"]


class ScaleToFloat:
    """ToTensor's change of values, for the tensors that a batch has already: uint8 to float32 of
    0 .. 1. Floats and masks stay."""

    def __call__(self, image: Any) -> Any:
        if isinstance(image, dict):
            return {name: self(item) if type(item).__name__ == "Image" else item
                    for name, item in image.items()}
        return image if image.is_floating_point() else image.float() / 255

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ScaleToFloat)

    def __hash__(self) -> int:
        return hash(ScaleToFloat)


class View(NamedTuple):
    """A tensor of a batch: its name, what it holds, how the servers' batch shows it, and how the program
    gets it."""

    name: str
    kind: Literal["image", "mask", "boxes"]
    arrives: Layout
    wanted: Layout


@dataclasses.dataclass(frozen=True)
class Local:
    """Immutable; one per pipeline.

    Attributes:
      library: "torchvision" or "albumentations".
      views: the images, and the masks and boxes that move with them.
      steps: transforms of the library, applied in order. Empty: the shape is all that changes.
      each: every sample by itself, with random choices of its own.
    """

    library: Literal["torchvision", "albumentations"]
    views: tuple[View, ...]
    steps: tuple[Any, ...] = ()
    each: bool = True

    def of_outputs(self, outputs: Sequence[Output] | None) -> Local | None:
        """The same for a pipeline with `outputs`: names and layouts of their own. None: nothing is to do.

        Raises:
          ArgumentError: they do not fit what the loader does.
        """
        views: list[View] = list(self.views) if outputs is None else []
        for view in self.views:
            found = [output.values for output in outputs or () if output.values["field"] == view.name]
            if len(found) > 1 and self.steps:
                raise ArgumentError(f"outputs= has field {view.name!r} {len(found)} times, and local= "
                                    "changes it: keep one of them")
            for output in found:
                layout = {"NCHW": "channels_first", "NHWC": "channels_last"}.get(output.get("layout", ""))
                if layout is not None and view.wanted not in (layout, "no_channels"):
                    raise ArgumentError(
                        f"outputs=: field {view.name!r} has layout={output['layout'].lower()!r}, and a "
                        f"pipeline of {self.library} makes batches of its shape, {view.wanted}: leave "
                        "layout= out")
                views.append(View(output.get("name", view.name), view.kind,
                                  layout or view.arrives, view.wanted))  # type: ignore[arg-type]
        if not self.steps and all(view.arrives == view.wanted for view in views):
            return None
        return dataclasses.replace(self, views=tuple(views))

    def check(self, tensor_type: str | None) -> None:
        """Raises InvalidArgumentError when tensors of this type cannot be changed."""
        if tensor_type == "dlpack":
            raise InvalidArgumentError(
                "tensor_type=\"dlpack\": this pipeline was translated, and millrace.Tensor cannot show "
                f"images of {self.library}'s shape; use tensor_type=\"torch\" or \"numpy\"")
        if tensor_type == "numpy" and self.steps and self.library == "torchvision":
            raise InvalidArgumentError(
                "tensor_type=\"numpy\": local transforms of torchvision take tensors of torch; use "
                "tensor_type=\"torch\"")

    def apply(self, names: tuple[str, ...], tensors: list[Any]) -> list[Any]:
        """The tensors of a batch, changed. `names`: theirs."""
        places = {view: names.index(view.name) for view in self.views if view.name in names}
        if not places:
            return tensors  # another choice of fields
        result = list(tensors)
        if not self.steps:
            for view, place in places.items():
                result[place] = _as(view.wanted, view.arrives, tensors[place])
            return result
        if not any(view.kind == "image" for view in places):
            raise InvalidArgumentError(
                "the local transforms of the pipeline change images, and masks and boxes with them: "
                f"fields= has {', '.join(repr(view.name) for view in places)} and not the images; add "
                f"{', '.join(repr(view.name) for view in self.views if view.kind == 'image')}")
        changed = (self._by_torchvision if self.library == "torchvision" else self._by_albumentations)(
            {view: tensors[place] for view, place in places.items()})
        for view, place in places.items():
            result[place] = changed[view]
        return result

    def _by_torchvision(self, tensors: dict[View, Any]) -> dict[View, Any]:
        import torch  # type: ignore[import-not-found,unused-ignore]
        from torchvision import tv_tensors  # type: ignore[import-not-found,import-untyped,unused-ignore]
        if not all(isinstance(tensor, torch.Tensor) for tensor in tensors.values()):
            raise InvalidArgumentError(
                "local transforms of torchvision take tensors of torch, and this loader makes NumPy "
                "arrays; use tensor_type=\"torch\"")
        given = {view: tensor if view.kind == "boxes" else _as("channels_first", view.arrives, tensor)
                 for view, tensor in tensors.items()}
        rows = len(next(iter(given.values())))

        def run(row: dict[View, Any]) -> dict[View, Any]:
            size = next(tuple(pixels.shape[-2:]) for view, pixels in row.items() if view.kind == "image")
            kinds = {"image": tv_tensors.Image, "mask": tv_tensors.Mask,
                     # Of a batch, too: BoundingBoxes has two dimensions.
                     "boxes": lambda boxes: tv_tensors.BoundingBoxes(boxes.reshape(-1, 4), format="XYXY",
                                                                     canvas_size=size)}
            sample: Any = {view.name: kinds[view.kind](tensor) for view, tensor in row.items()}
            if len(sample) == 1:  # images alone are given as they are, as a dataset does
                sample, = sample.values()
            for step in self.steps:
                sample = step(sample)
            found = sample if isinstance(sample, dict) and len(row) > 1 else \
                {view.name: sample for view in row}
            for view in row:
                if not isinstance(found.get(view.name), torch.Tensor):
                    raise InvalidArgumentError(_no_tensor(view.name, found.get(view.name)))
            return {view: found[view.name].as_subclass(torch.Tensor) for view in row}

        if not self.each:
            samples = [run(given)]
        else:  # of a rank without rows in a last batch, one sample tells shapes and types
            samples = [run({view: tensor[i] for view, tensor in given.items()}) for i in range(rows)] or \
                [run({view: tensor.new_zeros(tensor.shape[1:]) for view, tensor in given.items()})]
        try:
            if not self.each:
                return {view: tensor.reshape(given[view].shape) if view.kind == "boxes" else tensor
                        for view, tensor in samples[0].items()}
            return {view: torch.stack([sample[view] for sample in samples])[:rows] for view in given}
        except RuntimeError as error:
            raise InvalidArgumentError(
                f"the local transforms return samples of different shapes ({error}); end them with a "
                "transform that fixes the size, and keep the number of boxes") from error

    def _by_albumentations(self, tensors: dict[View, Any]) -> dict[View, Any]:
        import numpy
        (view, images), = tensors.items()  # a translation with masks or boxes has no local transforms
        images = _as("channels_last", view.arrives, images)
        is_torch = hasattr(images, "permute")
        pixels = images.numpy() if is_torch else images

        def run(image: Any) -> Any:
            for step in self.steps:
                image = step(image=image)["image"]
            return image if isinstance(image, numpy.ndarray) else image.numpy()

        # Albumentations wants memory in order.
        results = [run(numpy.ascontiguousarray(image)) for image in pixels]
        stacked = numpy.stack(results) if results else \
            run(numpy.zeros(pixels.shape[1:], pixels.dtype))[None][:0]
        if not is_torch:
            return {view: stacked}
        import torch
        return {view: torch.from_numpy(stacked)}


def _no_tensor(name: str, found: Any) -> str:
    """The refusal of what the local transforms have made of a field."""
    reason = f"the local transforms end with a {type(found).__name__} for {name!r}"
    if type(found).__module__.split(".")[0] in ("PIL", "numpy"):
        return f"{reason}: add ToImage() at the end of the compose"
    return f"{reason}: each transform takes one image and must return one, as a tensor of torch; " + (
        "the last one has returned several, as FiveCrop and TenCrop do: torch.stack them in a Lambda behind it"
        if isinstance(found, (tuple, list)) else
        "look for a Lambda or a class of your own that returns nothing" if found is None else
        "change the last transform")


def _as(wanted: Layout, arrives: Layout, images: Any) -> Any:
    """A view of the same memory in another order."""
    if wanted == arrives:
        return images
    if wanted == "no_channels":
        return images[..., 0] if arrives == "channels_last" else images[:, 0]
    order = (0, 3, 1, 2) if wanted == "channels_first" else (0, 2, 3, 1)
    return images.permute(order) if hasattr(images, "permute") else images.transpose(order)
