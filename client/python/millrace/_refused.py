"""Arguments that a Loader does not have, each with what to do instead. None is ignored."""

from __future__ import annotations

import difflib
import os
from typing import Any, Mapping

from millrace._arrays import Arrays
from millrace._values import shown, unknown_argument
from millrace.errors import ArgumentError
from millrace.pipeline import Pipeline

# Of torch.utils.data.DataLoader: (values that ask for nothing, what to do instead).
_OF_TORCH: dict[str, tuple[tuple[Any, ...], str]] = {
    "num_workers": ((0,), "the data servers decode and augment, with all their cores; leave "
                    "num_workers out"),
    "collate_fn": ((None,), "the servers make the batches; choose tensors with fields= and their "
                   "names with names=, or change a batch in the loop"),
    "sampler": ((None,), "the servers compute the order; use shuffle= and seed=, or a pipeline with "
                "a subset or weights"),
    "batch_sampler": ((None,), "the servers compute the order; use batch_size=, shuffle=, drop_last= "
                      "and seed="),
    "pin_memory_device": (("",), "leave it out: pin_memory= is for CUDA, and device= copies to a device"),
    "timeout": ((0,), "next_timeout= is the time that a batch may take, in seconds"),
    "worker_init_fn": ((None,), "there are no worker processes; seed= fixes every random choice of "
                       "the servers"),
    "multiprocessing_context": ((None,), "there are no worker processes"),
    "generator": ((None,), "seed= fixes the order and every random choice"),
    "prefetch_factor": ((None,), "window= is the number of batches that are requested ahead; it "
                        "adapts by itself"),
    "persistent_workers": ((False,), "there are no worker processes; a loader keeps its connections "
                           "from epoch to epoch"),
    "in_order": ((True,), "batches come in the order of the plan, always"),
}

# Of torchvision's datasets.
_OF_DATA_SETS = {
    "transform": "the servers transform; give a Compose of torchvision v2, or a millrace.Pipeline, as "
                 "pipeline=",
    "target_transform": "labels come as they are stored; change those of arrays before the loader is made, "
                        "and others in the loop, labels = table[labels] with a tensor that has the new "
                        "label of each class; names of classes are those of the dataset, of arrays "
                        "millrace.Arrays(..., classes={\"label\": names})",
}

# Of a translation, and of any Pipeline.
_OF_TRANSLATIONS = ("boxes", "decode", "local", "masks")
_OF_PIPELINES = ("bad_samples", "concatenate", "epoch_samples", "field_roles", "sources", "spec_version")

# The error of the right name says what to do instead.
_REFUSED_NAMES = (*_OF_TORCH, *_OF_DATA_SETS, *_OF_TRANSLATIONS, *_OF_PIPELINES)

# Names of other interfaces of Millrace, and the argument here.
_OTHER_NAMES = {"preset": "pipeline", "transforms": "pipeline", "endpoints": "endpoint",
                "last_batch": "drop_last", "outputs": "fields", "world": "world_size", "prefetch": "window"}


def check(arguments: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    """Raises ArgumentError for the first of the arguments that asks for something. `known`: the arguments
    that the loader has, as they were given."""
    for name, value in arguments.items():
        if name in _OF_TORCH:
            harmless, advice = _OF_TORCH[name]
            if any(value is h or (type(value) is type(h) and value == h) for h in harmless):
                continue
            raise ArgumentError(f"argument {name}={shown(value)} of torch's DataLoader is not "
                                f"supported: {advice}")
        if value is None and name in (*_OF_DATA_SETS, *_OF_TRANSLATIONS, *_OF_PIPELINES):
            continue
        if name in _OF_DATA_SETS:
            raise ArgumentError(f"argument {name}={shown(value)} of torchvision's datasets is not "
                                f"supported: {_OF_DATA_SETS[name]}")
        if name in (*_OF_TRANSLATIONS, *_OF_PIPELINES):
            raise ArgumentError(f"argument {name}={shown(value)} belongs to the pipeline: "
                                f"{_for_pipeline(name, value, known)}")
        near = [_OTHER_NAMES[name]] if name in _OTHER_NAMES else \
            difflib.get_close_matches(name, _REFUSED_NAMES, 1, 0.8) or difflib.get_close_matches(name, list(known), 1)
        raise unknown_argument("Loader", name, near)


def _for_pipeline(name: str, value: Any, known: Mapping[str, Any]) -> str:
    """How to give the pipeline of a loader one argument more."""
    pipeline = known.get("pipeline")
    plain = isinstance(value, (bool, str)) or \
        isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value)
    argument = f"{name}={value!r}" if plain else f"{name}=..."
    if name in _OF_PIPELINES and isinstance(pipeline, (str, os.PathLike)):
        if not str(pipeline).isidentifier():
            return "write it into the text of the pipeline (docs/transforms.md)"
        return f"give pipeline=millrace.Pipeline(preset={pipeline!r}, {argument})"
    if name in _OF_PIPELINES and isinstance(pipeline, Pipeline) and pipeline._origin is None:
        return f"give pipeline=millrace.Pipeline([...], {argument})"
    library = "albumentations" if type(pipeline).__module__.startswith("albumentations.") else "torchvision"
    of_arrays = isinstance(known.get("endpoint"), (Mapping, Arrays)) and name != "decode"
    return f"give pipeline=millrace.Pipeline.from_{library}(compose, " \
        f"{'decode=False, ' if of_arrays else ''}{argument})"
