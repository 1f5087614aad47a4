"""Millrace's client for Python: batches that data servers decode and augment.

    import millrace

    loader = millrace.Loader("data-1:7001,data-2:7001", "photos", "imagenet_train",
                             batch_size=256, shuffle=True, drop_last=True)
    for epoch in range(90):
        for images, labels in loader:
            ...

`millrace.DataLoader` is the same as a torch DataLoader, for Lightning, Accelerate and other
frameworks, and `millrace.TrainerMixin` makes the Hugging Face Trainer take it.

`import millrace` imports neither torch nor NumPy; a loader does when it makes the first batch, and
the names DataLoader and TrainerMixin import torch when they are used first. docs/python.md
describes arguments, errors and what is not there yet.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

from millrace import _millrace, _values, errors, transforms
from millrace._arrays import Arrays
from millrace._millrace import Tensor
from millrace._preview import Preview
from millrace.errors import (AbortedError, AlreadyExistsError, ArgumentError, CancelledError,
                             DataLossError, DeadlineExceededError, Error, FailedPreconditionError,
                             InternalError, InvalidArgumentError, NotFoundError, OutOfRangeError,
                             PermissionDeniedError, ResourceExhaustedError, TranslationError,
                             UnauthenticatedError, UnavailableError, UnimplementedError,
                             UnknownError)
from millrace.loader import BatchInfo, Dataset, Loader
from millrace.pipeline import (FieldRole, Output, Pipeline, Shuffle, Source, Subset, Synthetic,
                               SyntheticField)

if TYPE_CHECKING:
    from millrace.hf_trainer import TrainerMixin as TrainerMixin
    from millrace.torch_loader import DataLoader as DataLoader
else:
    # Not in __all__: `from millrace import *` imports no torch.
    _OF_TORCH = {"DataLoader": "millrace.torch_loader", "TrainerMixin": "millrace.hf_trainer"}

    def __getattr__(name: str) -> Any:
        if name not in _OF_TORCH:
            raise AttributeError(f"module 'millrace' has no attribute {name!r}")
        try:
            found = getattr(importlib.import_module(_OF_TORCH[name]), name)
        except ImportError as error:
            raise ImportError(
                f"millrace.{name} needs torch, which cannot be imported ({error}): install torch, or "
                "use millrace.Loader with NumPy") from error
        globals()[name] = found
        return found

    def __dir__() -> list[str]:
        # Where torch is not installed, tools that look at each name, such as help(), would fail.
        return sorted({*globals(), *(_OF_TORCH if importlib.util.find_spec("torch") else ())})

__version__: str = _millrace.version()


def set_log_level(level: str) -> None:
    """"debug", "info", "warning" or "error": what loaders log to standard error, for the whole
    process.

    Raises:
      InvalidArgumentError: none of these.
    """
    _millrace.set_log_level(_values.text("level", level))


__all__ = [
    "AbortedError", "AlreadyExistsError", "ArgumentError", "Arrays", "BatchInfo", "CancelledError",
    "DataLossError", "Dataset", "DeadlineExceededError", "Error", "FailedPreconditionError",
    "FieldRole", "InternalError", "InvalidArgumentError", "Loader", "NotFoundError",
    "OutOfRangeError", "Output", "PermissionDeniedError", "Pipeline", "Preview",
    "ResourceExhaustedError", "Shuffle", "Source", "Subset", "Synthetic", "SyntheticField",
    "Tensor", "TranslationError", "UnauthenticatedError", "UnavailableError", "UnimplementedError",
    "UnknownError", "errors", "set_log_level", "transforms",
]
