"""The argument pipeline= as options of the C interface, and as what the loader does with batches."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from millrace import _on_arrays, _values
from millrace._values import shown
from millrace.errors import ArgumentError, InvalidArgumentError
from millrace.pipeline import Origin, Pipeline

if TYPE_CHECKING:
    from millrace._arrays import Arrays
    from millrace._local import Local

Given = str | os.PathLike[str] | Pipeline | None

_SUFFIXES = (".textproto", ".txtpb", ".pbtxt", ".prototxt")


class Resolved(NamedTuple):
    """The argument as it was when a loader was made. A file is read once: it may change, and it may not
    be on the machine that a pickled loader goes to."""

    given: Given  # a Compose is translated
    settings: dict[str, str]  # options of the C interface
    local: Local | None  # what the loader does with each batch

    def of_servers(self) -> Resolved:
        """Without what the loader does."""
        return self._replace(local=None)

    def local_for(self, tensor_type: str | None, apply_device_transform: bool) -> Local | None:
        """What a loader with these arguments does with each batch.

        Raises:
          InvalidArgumentError: it cannot be done with tensors of this type, or not with tensors as they
            come over the network.
        """
        if self.local is None:
            return None
        if not apply_device_transform:
            if self.local.steps:
                raise InvalidArgumentError(
                    "apply_device_transform=False: the local transforms of the pipeline come after what "
                    "the client computes; leave the argument out, or translate without local=")
            return None  # tensors as they come
        self.local.check(tensor_type)
        return self.local


def resolve(pipeline: Given | Resolved | Callable[..., Any], arrays: Arrays | None) -> Resolved:
    """What a loader makes of its argument. A Compose decodes images or, for `arrays`, takes their pixels.

    Raises:
      TranslationError: the servers cannot run the compose.
      InvalidArgumentError: no pipeline, a file that cannot be read, or one that the arrays do not fit.
    """
    if isinstance(pipeline, Resolved):
        return pipeline
    given = _translated(pipeline, arrays)
    if arrays is not None:
        _on_arrays.check(arrays, given)
    local = given._local if isinstance(given, Pipeline) else None
    return Resolved(given, settings_of(given), local)


def _translated(pipeline: Given | Callable[..., Any], arrays: Arrays | None) -> Given:
    """A Compose of torchvision or Albumentations as a Pipeline, and a translated Pipeline for these arrays;
    everything else as it is."""
    module = type(pipeline).__module__
    if isinstance(pipeline, Pipeline):
        kind, origin = type(pipeline), pipeline._origin
    elif module.startswith("torchvision.transforms."):
        kind = Pipeline
        origin = Origin("torchvision", pipeline, "image", None, None, arrays is None, None, {})
    elif module.startswith("albumentations."):
        kind = Pipeline
        origin = Origin("albumentations", pipeline, "image", None, None, arrays is None, None, {})
    else:
        return pipeline  # type: ignore[return-value]  # settings_of() refuses what it cannot be
    if origin is None:
        return pipeline  # type: ignore[return-value]  # of transforms of the servers
    if arrays is not None and origin.decode is False:
        return origin.translate(kind, _on_arrays.stored(arrays, origin))
    return pipeline if isinstance(pipeline, Pipeline) else origin.translate(kind)


def settings_of(pipeline: Given) -> dict[str, str]:
    """Options for a Pipeline, a preset's name, a file with a PipelineSpec, or such a text.

    A text has a brace, a colon or a line break; a file has a path separator or one of the usual
    suffixes, or is an os.PathLike; everything else is a preset's name."""
    if pipeline is None:
        return {}
    if isinstance(pipeline, Pipeline):
        return {"pipeline": pipeline.text, "pipeline_name": "millrace.Pipeline"}
    text = os.fspath(pipeline) if isinstance(pipeline, os.PathLike) else pipeline
    if not isinstance(text, str):
        raise ArgumentError(f"pipeline={shown(pipeline)}: expected a name, a file, a text, a "
                            "millrace.Pipeline or a Compose")
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


def advice_on_file(settings: Mapping[str, str]) -> str:
    """For the error of a preset that does not exist: a file of that name may be meant."""
    preset = settings.get("preset", "")
    if not preset or not os.path.isfile(preset):
        return ""
    return f"; {preset} is also a file here: give its path as pipeline=\"./{preset}\""
