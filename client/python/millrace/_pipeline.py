"""The argument pipeline= as options of the C interface."""

from __future__ import annotations

import os
import re

from millrace import _values
from millrace.errors import ArgumentError, InvalidArgumentError

_SUFFIXES = (".textproto", ".txtpb", ".pbtxt", ".prototxt")


def settings_of(pipeline: str | os.PathLike[str] | None) -> dict[str, str]:
    """Options of the C interface for a preset's name, a file with a PipelineSpec, or such a text.

    A text has a brace, a colon or a line break; a file has a path separator or one of the usual
    suffixes, or is an os.PathLike; everything else is a preset's name.

    Raises:
      InvalidArgumentError: the file cannot be read.
    """
    if pipeline is None:
        return {}
    text = os.fspath(pipeline) if isinstance(pipeline, os.PathLike) else pipeline
    if not isinstance(text, str):
        raise ArgumentError(f"pipeline={pipeline!r}: expected a name, a file or a text")
    _values.text("pipeline", text)
    if not text.strip():
        raise InvalidArgumentError("pipeline= is empty: give the name of a preset, a file or a text, "
                                   "or leave it out for the dataset's own preset")
    is_path = not isinstance(pipeline, str)
    if not is_path and any(mark in text for mark in "{:\n"):
        return {"pipeline": text}
    if is_path or "/" in text or text.endswith(_SUFFIXES):
        try:
            with open(text, encoding="utf-8") as file:
                return {"pipeline": file.read(), "pipeline_name": text}
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise InvalidArgumentError(f"cannot read the pipeline {text}: {reason}; give the name "
                                       "of a preset, the path of a file with a PipelineSpec, or "
                                       "its text") from error
    return {"preset": text}


def may_name_batch_size(settings: dict[str, str]) -> bool:
    """Whether the pipeline may have a batch size of its own. Presets have none."""
    return re.search(r"\bbatch_size\b", settings.get("pipeline", "")) is not None


def advice_on_file(settings: dict[str, str]) -> str:
    """For the error of a preset that does not exist: a file of that name may be meant."""
    preset = settings.get("preset", "")
    if not preset or not os.path.isfile(preset):
        return ""
    return f"; {preset} is also a file here: give its path as pipeline=\"./{preset}\""
