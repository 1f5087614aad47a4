"""Millrace's client for Python: batches that data servers decode and augment.

    import millrace

    loader = millrace.Loader("data-1:7001,data-2:7001", "photos", "imagenet_train",
                             batch_size=256, shuffle=True, drop_last=True)
    for epoch in range(90):
        for images, labels in loader:
            ...

`import millrace` imports neither torch nor NumPy; a loader does when it makes the first batch.
docs/python.md describes arguments, errors and what is not there yet.
"""

from __future__ import annotations

from millrace import _millrace, _values, errors, transforms
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

__version__: str = _millrace.version()


def set_log_level(level: str) -> None:
    """"debug", "info", "warning" or "error": what loaders log to standard error, for the whole
    process.

    Raises:
      InvalidArgumentError: none of these.
    """
    _millrace.set_log_level(_values.text("level", level))


__all__ = [
    "AbortedError", "AlreadyExistsError", "ArgumentError", "BatchInfo", "CancelledError",
    "DataLossError", "Dataset", "DeadlineExceededError", "Error", "FailedPreconditionError",
    "FieldRole", "InternalError", "InvalidArgumentError", "Loader", "NotFoundError",
    "OutOfRangeError", "Output", "PermissionDeniedError", "Pipeline", "Preview",
    "ResourceExhaustedError", "Shuffle", "Source", "Subset", "Synthetic", "SyntheticField",
    "Tensor", "TranslationError", "UnauthenticatedError", "UnavailableError", "UnimplementedError",
    "UnknownError", "errors", "set_log_level", "transforms",
]
