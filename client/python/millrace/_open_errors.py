"""Errors of opening a loader, in the words of a program in Python. The servers speak of the spec, which is
the same for all programs. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from millrace import _on_arrays, _pipeline
from millrace._arrays import Arrays
from millrace.errors import Error, FailedPreconditionError, InvalidArgumentError, NotFoundError

# server/plan/epoch_steps.cc: a batch that is larger than an epoch.
_NO_BATCH = re.compile(r" and last_batch is DROP, so the epoch would have no batch: .*?LAST_BATCH_PAD", re.S)


def explained(error: BaseException, arguments: Mapping[str, Any],
              settings: Mapping[str, str]) -> BaseException:
    """The same error, or one that says more.

    Args:
      arguments: of the loader.
      settings: the pipeline's, as options of the C interface.
    """
    if not isinstance(error, Error):
        return error
    arrays = arguments["endpoint"]
    message = error.message
    if isinstance(error, NotFoundError):
        message += _pipeline.advice_on_file(settings)
    if isinstance(error, InvalidArgumentError):
        drop_last = "drop_last=True" if arguments["drop_last"] else "the pipeline (drop_last=None)"
        message = _NO_BATCH.sub(f", and {drop_last} leaves out an incomplete batch, so the epoch would have "
                                "no batch: give drop_last=False, or a smaller batch_size", message)
        if isinstance(arrays, Arrays) and "pipeline" in settings and "channel" in message:
            refusal = _on_arrays.channels_first(arrays)
            message += f"; {refusal}" if refusal else ""
    if isinstance(error, FailedPreconditionError) and isinstance(arrays, Arrays) and "fingerprint" in message:
        message += "; arrays are the same dataset when their names, types, values and the order of their " \
            "rows are the same"
    return error if message == error.message else type(error)(message, error.detail)
