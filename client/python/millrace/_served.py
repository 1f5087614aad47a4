"""What millrace.DataLoader has as `dataset`, `sampler` and `collate_fn`. Imports torch."""

from __future__ import annotations

import itertools
import weakref
from typing import Any, Iterator

import torch.utils.data  # type: ignore[import-not-found,unused-ignore]
from millrace import _accelerate, _last_batch
from millrace.errors import FailedPreconditionError
from millrace.loader import Loader


class ServedDataset(torch.utils.data.IterableDataset[Any]):  # type: ignore[misc,unused-ignore]
    """The samples of an epoch at the data servers: a name and a length.

    It is an IterableDataset, so that frameworks inject no sampler: each rank gets its part of every
    batch already. It cannot be iterated. The exception is the loader that
    accelerate.skip_first_batches() makes: its iteration begins behind the batches that it skips.
    """

    def __init__(self, loader: Loader, preparation: _accelerate.Preparation) -> None:
        self._loader = loader
        self.preparation = preparation
        # The iteration that has begun last, of the loader or of one that skips batches.
        self._current: weakref.ref[Batches] | None = None

    @property
    def name(self) -> str:
        """Of the dataset at the servers; "" when only the pipeline names it. Opens the loader."""
        return self._loader.dataset.name

    def __len__(self) -> int:
        """Samples of an epoch, over all ranks. Opens the loader."""
        return len(self._loader.dataset)

    def __iter__(self) -> Iterator[Any]:
        skipping = _accelerate.skipping_loader(self)
        if skipping is None:
            raise FailedPreconditionError(
                "the dataset of a millrace.DataLoader cannot be iterated, because its samples are at "
                "the data servers, which make batches of them: iterate over the DataLoader")
        return self._behind(skipping)

    def _behind(self, skipping: Any) -> Iterator[Any]:
        # torch takes batch_size elements for each batch, and hands them to whole_batch().
        rows = self._loader.batch_size
        self._loader.seek(self._loader._progress.upcoming.epoch, int(skipping.skip_batches))
        yield from _accelerate.batches_to_drop(skipping, rows)
        for batch in self.batches():
            yield _Whole(batch)
            yield from itertools.repeat(None, rows - 1)

    def batches(self) -> Batches:
        """The next iteration. The one before it is no longer known to Accelerate when it begins."""
        return Batches(self)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_current": None}

    def __repr__(self) -> str:
        return f"millrace.DataLoader.dataset of {self._loader!r}"


class _Whole:
    """A batch among the elements that torch collates."""

    def __init__(self, batch: Any) -> None:
        self.batch = batch


def whole_batch(elements: Any) -> Any:
    """The `collate_fn` of millrace.DataLoader: the servers have made the batch. It is of use only to
    loaders that accelerate.skip_first_batches() makes.

    Raises:
      FailedPreconditionError: the elements are no batch of a millrace.DataLoader.
    """
    first = elements[0] if isinstance(elements, list) and elements else elements
    if first is None:
        return None  # skipped
    if not isinstance(first, _Whole):
        raise FailedPreconditionError(
            "the collate_fn of a millrace.DataLoader makes no batches of samples: the data servers "
            "do; use torch.utils.data.default_collate for samples of your own")
    return first.batch


class Batches(Iterator[Any]):
    """The batches of one epoch, of which Accelerate is told."""

    def __init__(self, dataset: ServedDataset) -> None:
        self._dataset = dataset
        self._loader = dataset._loader
        self._epoch = iter(self._loader)
        self._entry = _accelerate.Registration()
        self._begun = False

    def __next__(self) -> Any:
        if not self._begun:
            self._begin()
        try:
            batch = next(self._epoch)
        except StopIteration:
            self._entry.leave()
            raise
        info = self._loader.last_batch
        if info is not None and info.step + 1 == len(self._loader):
            self._entry.set_last(info.global_valid % self._loader.global_batch_size)
        return self._dataset.preparation.moved(batch)

    def _begin(self) -> None:
        if self._dataset.preparation.gathers and not self._loader._arguments["allow_uneven"]:
            _last_batch.check_equal_rows(self._loader.plan, self._loader.world_size)
        self._begun = True
        current = self._dataset._current
        before = None if current is None else current()
        if before is not None:
            before._entry.leave()
        self._dataset._current = weakref.ref(self)
        self._entry.enter()

    def __del__(self) -> None:
        # A loop that was left with `break` ends here. Not made completely, when iter() has failed.
        entry = vars(self).get("_entry")
        if entry is not None:
            entry.leave()


class _ServedOrder(torch.utils.data.Sampler[int]):  # type: ignore[misc,unused-ignore]
    """For programs and frameworks that call `loader.sampler.set_epoch`. The servers compute the
    order, so it has no indices."""

    def __init__(self, dataset: ServedDataset) -> None:
        self._loader = dataset._loader

    def set_epoch(self, epoch: int) -> None:
        """The next iteration is this epoch. A number below the one that `set_epoch()`, `seek()` or
        `load_state_dict()` of the loader has chosen stands for that epoch: Lightning Fabric counts
        from 0 also after a checkpoint was loaded."""
        self._loader._count_epoch(epoch)

    def __iter__(self) -> Iterator[int]:
        raise FailedPreconditionError(
            "the sampler of a millrace.DataLoader has no indices, because the data servers compute "
            "the order; field \"sample_index\" of the batches has them")


class ShuffledOrder(_ServedOrder):
    """The order of a loader that shuffles."""


class SequentialOrder(_ServedOrder, torch.utils.data.SequentialSampler):  # type: ignore[misc,unused-ignore]
    """The order of a loader that does not: Lightning's overfit_batches asks for a
    SequentialSampler."""

    def __init__(self, dataset: ServedDataset) -> None:
        torch.utils.data.SequentialSampler.__init__(self, dataset)
        _ServedOrder.__init__(self, dataset)
