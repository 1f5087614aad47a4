"""The argument pipeline= as options of the C interface."""

from __future__ import annotations

import os

from millrace.errors import InvalidArgumentError

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
    text = os.fspath(pipeline)
    if not isinstance(text, str):
        raise InvalidArgumentError(f"pipeline={pipeline!r}: expected a name, a file or a text")
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
