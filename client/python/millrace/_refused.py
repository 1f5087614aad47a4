"""Arguments that a Loader does not have, each with what to do instead. None is ignored."""

from __future__ import annotations

import difflib
from typing import Any, Iterable

from millrace.errors import ArgumentError

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
    "transform": ((None,), "the servers transform; give a Compose of torchvision v2, or a "
                  "millrace.Pipeline, as pipeline="),
}

# Names of other interfaces of Millrace, and the argument here.
_OTHER_NAMES = {"preset": "pipeline", "transforms": "pipeline", "endpoints": "endpoint",
                "outputs": "fields", "world": "world_size"}


def check(arguments: dict[str, Any], known: Iterable[str]) -> None:
    """Raises ArgumentError for the first of the arguments that asks for something."""
    for name, value in arguments.items():
        if name in _OF_TORCH:
            harmless, advice = _OF_TORCH[name]
            if any(value is h or (type(value) is type(h) and value == h) for h in harmless):
                continue
            raise ArgumentError(f"argument {name}={value!r} of torch's DataLoader cannot be "
                                f"honoured: {advice}")
        near = [_OTHER_NAMES[name]] if name in _OTHER_NAMES else \
            difflib.get_close_matches(name, list(known), 1)
        raise ArgumentError(f"Loader has no argument {name}=" +
                            (f"; did you mean {near[0]}=?" if near else
                             "; help(millrace.Loader) lists the arguments"))
