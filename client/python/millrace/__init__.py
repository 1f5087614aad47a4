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

from millrace import errors
from millrace._millrace import Tensor, set_log_level
from millrace._millrace import version as _version
from millrace.errors import (ArgumentError, CancelledError, DataLossError, DeadlineExceededError,
                             Error, FailedPreconditionError, InvalidArgumentError, NotFoundError,
                             ResourceExhaustedError, UnavailableError)
from millrace.loader import BatchInfo, Dataset, Loader

__version__: str = _version()

__all__ = [
    "ArgumentError", "BatchInfo", "CancelledError", "DataLossError", "Dataset",
    "DeadlineExceededError", "Error", "FailedPreconditionError", "InvalidArgumentError", "Loader",
    "NotFoundError", "ResourceExhaustedError", "Tensor", "UnavailableError", "errors",
    "set_log_level",
]
