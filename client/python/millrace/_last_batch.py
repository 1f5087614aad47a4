"""The last batch of an epoch where the rest of the samples fills no batch, and which rows of it the ranks
get (LAST_BATCH_PARTIAL, docs/order.md). Pure."""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple

from millrace import _spec_text
from millrace.errors import InvalidArgumentError


class Uneven(NamedTuple):
    """A last batch of which the ranks get different numbers of rows."""

    samples: int  # of the batch, over all ranks; less than the global batch
    world_size: int


def uneven(facts: Mapping[str, Any], world_size: int) -> Uneven | None:
    """Of a plan (`Loader.plan`). None: all ranks have equally many rows of each batch."""
    samples = facts["samples_per_epoch"] % facts["batch_size"]
    if samples % world_size == 0 or facts["dropped_per_epoch"]:
        return None
    if _spec_text.parse(facts["pipeline"]).texts("last_batch") != ["LAST_BATCH_PARTIAL"]:
        return None
    return Uneven(samples, world_size)


def check_no_rank_is_empty(facts: Mapping[str, Any], world_size: int) -> None:
    """
    Raises:
      InvalidArgumentError: a rank gets no row of the last batch.
    """
    last = uneven(facts, world_size)
    if last is None or last.samples >= world_size:
        return
    plural = "s" if last.samples > 1 else ""
    raise InvalidArgumentError(
        f"the last batch of an epoch has {last.samples} sample{plural} for {world_size} ranks, because "
        f"{facts['samples_per_epoch']} samples are divided into global batches of {facts['batch_size']}: "
        f"{world_size - last.samples} of the ranks would get no row of it, and the mean loss of no rows is "
        "NaN, which DistributedDataParallel brings into the weights of all ranks; give drop_last=True to "
        "train, pad_last=True to evaluate (rows without a sample fill the batch), another batch size, or "
        "allow_uneven=True for a loop that expects batches without rows")


def check_equal_rows(facts: Mapping[str, Any], world_size: int) -> None:
    """Of a loader that Accelerate has prepared.

    Raises:
      InvalidArgumentError: ranks get different numbers of rows of the last batch.
    """
    last = uneven(facts, world_size)
    if last is None:
        return
    fewest = last.samples // world_size
    raise InvalidArgumentError(
        f"the {world_size} ranks would get {fewest} or {fewest + 1} rows of the last batch of an epoch, which "
        f"has {last.samples} samples, and gather() of Accelerate needs equally many on each rank (its own "
        "loaders repeat samples: even_batches=True); give drop_last=True to train, pad_last=True to evaluate "
        "(gather_for_metrics() leaves the padding out), another batch size, or allow_uneven=True for a loop "
        "that gathers no rows")
