"""Errors of opening a loader, in the words of a program in Python. The servers speak of the spec, which is
the same for all programs. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from millrace import _on_arrays, _pipeline
from millrace._arrays import Arrays
from millrace.errors import (Error, FailedPreconditionError, InvalidArgumentError, NotFoundError,
                             UnavailableError)
from millrace.pipeline import Pipeline

# server/plan/epoch_steps.cc: a batch that is larger than an epoch.
_NO_BATCH = re.compile(r" and last_batch is DROP, so the epoch would have no batch: .*?LAST_BATCH_PAD", re.S)
# server/plan/transforms/normalize.cc: more channels than statistics.
_ONE_STATISTIC = re.compile(r" has (\d+) channels, but normalize\.mean has 1 value")

# server/plan/transforms/mixing.cc: labels of arrays whose classes nobody has named.
_NO_CLASSES = re.compile(r"(field (\S+) is mixed as a label.*?): pack the dataset with class names", re.S)
# server/plan/transforms/decode_image.cc: no transform gives the images one size.
_SIZES = "has images of different sizes"
# server/plan/resolve.cc: the fields that can be tensors, as text of the spec.
_OUTPUTS = re.compile(r"list the outputs: ((?:outputs \{ field: \"[^\"]+\" \} ?)+)")
# client/receive/unary_call.cc: the flag of the programs.
_TIMEOUT_FLAG = "or raise --timeout"


def explained(error: BaseException, arguments: Mapping[str, Any],
              pipeline: _pipeline.Resolved) -> BaseException:
    """The same error, or one that says more. `arguments`: of the loader."""
    if not isinstance(error, Error):
        return error
    arrays = arguments["endpoint"]
    message = error.message
    if isinstance(error, NotFoundError):
        message += _pipeline.advice_on_file(pipeline.settings)
    if isinstance(error, UnavailableError):
        message = message.replace(_TIMEOUT_FLAG, "or give a larger open_timeout=")
    if isinstance(error, InvalidArgumentError):
        if isinstance(arrays, Arrays):
            message = _NO_CLASSES.sub(r'\1: give millrace.Arrays(..., classes={"\2": N}), with the number of '
                                      "classes or their names", message)
        message = _OUTPUTS.sub(lambda found: "give fields=[" + ", ".join(
            re.findall("\"[^\"]+\"", found[1])) + "]", message)
        if _SIZES in message and pipeline.local is not None and pipeline.local.steps:
            message += "; local= needs images of one size before the first local transform: put CenterCrop or " \
                "RandomResizedCrop before it"
        drop_last = "drop_last=True" if arguments["drop_last"] else "the pipeline (drop_last=None)"
        message = _NO_BATCH.sub(f", and {drop_last} leaves out an incomplete batch, so the epoch would have "
                                "no batch: give drop_last=False, or a smaller batch_size", message)
        message += _advice_on_statistics(message, pipeline.given)
        if isinstance(arrays, Arrays) and "pipeline" in pipeline.settings and "channel" in message:
            refusal = _on_arrays.channels_first(arrays)
            message += f"; {refusal}" if refusal else ""
    if isinstance(error, FailedPreconditionError) and isinstance(arrays, Arrays) and "fingerprint" in message:
        message += "; arrays are the same dataset when their names, types, values and the order of their " \
            "rows are the same"
    return error if message == error.message else type(error)(message, error.detail)


def _advice_on_statistics(message: str, pipeline: _pipeline.Given) -> str:
    """For a compose with one mean and one deviation, which the other library uses for all channels."""
    found = _ONE_STATISTIC.search(message)
    if found is None or not isinstance(pipeline, Pipeline) or pipeline._origin is None:
        return ""
    for transform in pipeline.transforms:
        if transform.kind == "normalize":
            mean, std = transform.values["mean"], transform.values["stddev"]
            return f"; the translation does not know the channels of images that are not decoded, so repeat " \
                f"the value in the compose: Normalize(mean={mean} * {found[1]}, std={std} * {found[1]})"
    return ""
