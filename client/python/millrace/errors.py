"""Errors of the package. Each is a `millrace.Error`, with a sentence that says what failed, the
object, the reason and what to do.

Where Python has a class for the same thing, the error is one of that class as well:
`DeadlineExceededError` is a `TimeoutError`, `InvalidArgumentError` a `ValueError`.
"""

from __future__ import annotations

import json
from typing import Any

__all__ = [
    "AbortedError", "AlreadyExistsError", "ArgumentError", "CancelledError", "DataLossError",
    "DeadlineExceededError", "Error", "FailedPreconditionError", "InternalError",
    "InvalidArgumentError", "NotFoundError", "OutOfRangeError", "PermissionDeniedError",
    "ResourceExhaustedError", "TranslationError", "UnauthenticatedError", "UnavailableError",
    "UnimplementedError", "UnknownError",
]


class Error(Exception):
    """Base class.

    Attributes:
      status: the code's name in gRPC and Abseil, "DATA_LOSS".
      detail: where the error arose: "stage", and of a damaged sample "dataset", "shard", "row" and
        "sample". Empty when that is not known.
    """

    status = "UNKNOWN"

    def __init__(self, message: str, detail: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.detail: dict[str, Any] = detail or {}

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.message, self.detail)


class InvalidArgumentError(Error, ValueError):
    """An argument or a pipeline that cannot be: correct it."""

    status = "INVALID_ARGUMENT"


class ArgumentError(InvalidArgumentError, TypeError):
    """An argument that does not exist here, that Millrace cannot honour, or that has a wrong type; the
    sentence says what to do instead."""


class TranslationError(InvalidArgumentError):
    """A pipeline of another library that the servers cannot run; the text has a line for each
    transform. `detail["refused"]` is a list of dicts: "position" in the compose ("2", or "2.0" in a
    container), "transform", its class, "parameter" ("" for the whole transform), "reason" and
    "advice"."""


class NotFoundError(Error, LookupError):
    """No server has the dataset or the preset; the sentence lists what they have."""

    status = "NOT_FOUND"


class AlreadyExistsError(Error):
    """Something of that name exists."""

    status = "ALREADY_EXISTS"


class UnavailableError(Error, ConnectionError):
    """No server can be reached, or none has answered within `open_timeout`. The call may be repeated."""

    status = "UNAVAILABLE"


class DeadlineExceededError(Error, TimeoutError):
    """No batch came within `next_timeout`, or the data server of this machine has not started or answered.
    The call may be repeated."""

    status = "DEADLINE_EXCEEDED"


class DataLossError(Error):
    """A damaged sample, or damaged bytes: `detail` names the sample. `Loader.seek` continues behind
    it."""

    status = "DATA_LOSS"


class CancelledError(Error):
    """The loader was closed."""

    status = "CANCELLED"


class FailedPreconditionError(Error, RuntimeError):
    """The call does not fit the state: another plan than the checkpoint's, an object in a forked
    child, an iterator that a newer one has replaced."""

    status = "FAILED_PRECONDITION"


class ResourceExhaustedError(Error):
    """No memory here, or no server has memory for a batch: use a smaller batch or window."""

    status = "RESOURCE_EXHAUSTED"


class OutOfRangeError(Error, IndexError):
    """A position past the end."""

    status = "OUT_OF_RANGE"


class PermissionDeniedError(Error, PermissionError):
    """The server refuses this client."""

    status = "PERMISSION_DENIED"


class UnauthenticatedError(Error, PermissionError):
    """The server does not know who this client is."""

    status = "UNAUTHENTICATED"


class UnimplementedError(Error, NotImplementedError):
    """The server's release does not have this function."""

    status = "UNIMPLEMENTED"


class AbortedError(Error):
    """The servers ended the call."""

    status = "ABORTED"


class InternalError(Error):
    """A defect of Millrace."""

    status = "INTERNAL"


class UnknownError(Error):
    """An error without a code."""

    status = "UNKNOWN"


_BY_STATUS: dict[str, type[Error]] = {
    kind.status: kind
    for kind in (AbortedError, AlreadyExistsError, CancelledError, DataLossError,
                 DeadlineExceededError, FailedPreconditionError, InternalError,
                 InvalidArgumentError, NotFoundError, OutOfRangeError, PermissionDeniedError,
                 ResourceExhaustedError, UnauthenticatedError, UnavailableError,
                 UnimplementedError, UnknownError)
}


def from_status(status: str, message: str, detail: str) -> Error:
    """The exception of an error of the C interface; called by the extension module.

    Args:
      status: the code's name.
      message: the sentence.
      detail: a JSON object.
    """
    return _BY_STATUS.get(status, UnknownError)(message, json.loads(detail))
