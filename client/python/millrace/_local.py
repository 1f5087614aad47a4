"""What a loader does with the images of each batch for a translated pipeline: the shape that the other
library gives them, and the transforms that the servers cannot do.

Imports of torch and torchvision happen when a batch needs them: the program has imported them, or has
given transforms of theirs.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

from millrace.errors import InvalidArgumentError

# What the servers leave: [rows, height, width, channels], or after normalize a view of
# [rows, channels, height, width].
Layout = Literal["channels_last", "channels_first"]


class ScaleToFloat:
    """ToTensor's change of values, for the tensors that a batch has already: uint8 to float32 of
    0 .. 1."""

    def __call__(self, image: Any) -> Any:
        return image.float() / 255

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ScaleToFloat)

    def __hash__(self) -> int:
        return hash(ScaleToFloat)


@dataclasses.dataclass(frozen=True)
class Local:
    """Immutable; one per pipeline.

    Attributes:
      library: "torchvision" or "albumentations".
      field: of the images.
      arrives: how the servers' batch shows images.
      wanted: how the program gets them.
      steps: transforms of the library, applied in order. Empty: the shape is all that changes.
      each: every image by itself, with random choices of its own.
    """

    library: Literal["torchvision", "albumentations"]
    field: str
    arrives: Layout
    wanted: Layout
    steps: tuple[Any, ...] = ()
    each: bool = True

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
        if self.field not in names:
            return tensors  # another choice of fields
        place = names.index(self.field)
        images = tensors[place]
        if not self.steps:
            images = _as(self.wanted, self.arrives, images)
        elif self.library == "torchvision":
            images = self._by_torchvision(_as("channels_first", self.arrives, images))
        else:
            images = self._by_albumentations(_as("channels_last", self.arrives, images))
        return [*tensors[:place], images, *tensors[place + 1:]]

    def _by_torchvision(self, images: Any) -> Any:
        import torch  # type: ignore[import-not-found,unused-ignore]
        from torchvision import tv_tensors  # type: ignore[import-not-found,import-untyped,unused-ignore]
        if not isinstance(images, torch.Tensor):
            raise InvalidArgumentError(
                "local transforms of torchvision take tensors of torch, and this loader makes NumPy "
                "arrays; use tensor_type=\"torch\"")

        def run(pixels: Any) -> Any:
            result: Any = tv_tensors.Image(pixels)
            for step in self.steps:
                result = step(result)
            if not isinstance(result, torch.Tensor):
                raise InvalidArgumentError(
                    f"the local transforms end with a {type(result).__name__}: add ToImage() at the end "
                    "of the compose")
            return result.as_subclass(torch.Tensor)

        if not self.each:
            return run(images)
        if not len(images):  # a rank without rows in a last batch: one image tells shape and type
            return run(images.new_zeros(images.shape[1:]))[None][:0]
        return torch.stack([run(image) for image in images])

    def _by_albumentations(self, images: Any) -> Any:
        import numpy
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
            return stacked
        import torch
        return torch.from_numpy(stacked)


def _as(wanted: Layout, arrives: Layout, images: Any) -> Any:
    """A view of the same memory in another order."""
    if wanted == arrives:
        return images
    order = (0, 3, 1, 2) if wanted == "channels_first" else (0, 2, 3, 1)
    return images.permute(order) if hasattr(images, "permute") else images.transpose(order)
