"""Page-locked memory of torch for the tensors of batches, from which a GPU copies by itself.

torch's allocator makes the memory and uses it again. It waits until the copies that the program has
queued from a tensor are done, so that `.to("cuda", non_blocking=True)` is safe however soon the tensor
dies. Memory that a batch has filled is never filled again by a loader.

torch is imported by then: only tensors of torch lie there.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any, Callable

from millrace import _values
from millrace._local import Local
from millrace._millrace import Tensor
from millrace.errors import InvalidArgumentError, ResourceExhaustedError

# Memory for a number of bytes, and its address; None: the loader takes memory of its own.
Allocate = Callable[[int], tuple[Any, int] | None]


def _empty(bytes: int) -> Any:
    import torch  # type: ignore[import-not-found,unused-ignore]
    return torch.empty(bytes, dtype=torch.uint8, device="cpu", pin_memory=True)


def _is_cuda_there() -> bool:
    import torch
    return bool(torch.cuda.is_available())


def _is_cuda_used() -> bool:
    torch: Any = sys.modules.get("torch")
    return torch is not None and bool(torch.cuda.is_initialized())


class Pinning:
    """Of one loader, for its argument pin_memory. One thread at a time."""

    def __init__(self, wanted: bool | None, tensor_type: str | None, local: Local | None) -> None:
        """Raises InvalidArgumentError where the tensors cannot lie in such memory."""
        self._wanted = wanted
        # What torchvision makes of images lies where it likes.
        self._off = wanted is False or (local is not None and bool(local.steps))
        if not wanted:
            return
        if tensor_type in ("numpy", "dlpack"):
            self._refuse(tensor_type)
        if self._off:
            raise InvalidArgumentError(
                "pin_memory=True and local= cannot be used together, because local transforms make "
                "tensors in other memory: remove one of them")

    def _refuse(self, tensor_type: str) -> None:
        raise InvalidArgumentError(
            f"pin_memory=True and tensor_type={tensor_type!r} cannot be used together, because torch allocates "
            "the memory: write tensor_type=\"torch\", or remove pin_memory=")

    def opened(self, tensor_type: str) -> None:
        """The loader makes tensors of this type.

        Raises:
          InvalidArgumentError: pin_memory=True cannot be honoured.
        """
        if tensor_type != "torch":
            self._off = True
            if self._wanted:
                self._refuse(tensor_type)
        if self._wanted and not _is_cuda_there():
            raise InvalidArgumentError(
                "pin_memory=True needs a CUDA device, and torch finds none: remove pin_memory=; the "
                "loader then pins batches in programs that use CUDA")

    def allocate(self) -> Allocate | None:
        """For the next batch. None: it lies in memory of the loader."""
        if self._off or not (self._wanted or _is_cuda_used()):
            return None
        return self._allocate

    def _allocate(self, bytes: int) -> tuple[Any, int] | None:
        if self._off:  # since a moment
            return None
        try:
            memory = _empty(-(-bytes // 64) * 64)  # whole elements of every type
        except RuntimeError as error:
            if self._wanted:
                raise ResourceExhaustedError(
                    f"torch cannot allocate {_values.size(bytes)} of page-locked memory: {error}; use a smaller "
                    "batch or window=, or remove pin_memory=") from error
            self._off = True
            warnings.warn(f"millrace: torch cannot allocate {_values.size(bytes)} of page-locked memory "
                          f"({error}); this loader uses other memory from now on", RuntimeWarning)
            return None
        return memory, memory.data_ptr()


def view(tensor: Tensor, memory: Any, offset: int) -> Any:
    """A torch tensor of the same memory, with a version counter of its own."""
    import torch
    dtype = getattr(torch, tensor.dtype)
    size = dtype.itemsize
    return torch.empty(0, dtype=dtype, device="cpu").set_(
        memory.untyped_storage(), offset // size, tensor.shape,
        tuple([stride // size for stride in tensor.strides]))
