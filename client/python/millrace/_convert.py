"""Tensors of the extension module as tensors of a framework, without a copy."""

from __future__ import annotations

import sys
from typing import Any, Callable

from millrace import _pinned
from millrace._millrace import Tensor
from millrace._values import shown
from millrace.errors import InvalidArgumentError

Converter = Callable[[Tensor], Any]


def _to_torch() -> Converter:
    try:
        from torch.utils.dlpack import from_dlpack  # type: ignore[import-not-found,unused-ignore]
    except ImportError as error:
        raise InvalidArgumentError(
            f"tensor_type=\"torch\": torch cannot be imported ({error}); install torch, or use "
            "tensor_type=\"numpy\"") from error

    def convert(tensor: Tensor) -> Any:
        memory = tensor.memory()
        # Of a capsule it asks nothing of Python.
        return from_dlpack(tensor.capsule()) if memory is None else _pinned.view(tensor, *memory)

    return convert


def _to_numpy() -> Converter:
    try:
        from numpy import asarray
    except ImportError as error:
        raise InvalidArgumentError(
            f"tensor_type=\"numpy\": NumPy cannot be imported ({error}); install numpy, or use "
            "tensor_type=\"torch\" or \"dlpack\"") from error
    return asarray


def choose(tensor_type: str | None) -> tuple[str, Converter]:
    """The name and the function of a tensor type. None: torch when the program has imported torch,
    else NumPy.

    Raises:
      InvalidArgumentError: there is no such type, or its package cannot be imported.
    """
    name = tensor_type or ("torch" if "torch" in sys.modules else "numpy")
    if name == "torch":
        return name, _to_torch()
    if name == "numpy":
        return name, _to_numpy()
    if name == "dlpack":
        return name, lambda tensor: tensor
    raise InvalidArgumentError(
        f"tensor_type={shown(tensor_type)}: expected \"torch\", \"numpy\" or \"dlpack\"")
