"""What Hugging Face Accelerate is told about an iteration, and what it says about one.

Accelerate asks its GradientState whether the batch is the last one of the loader: it then steps the
optimizer, also in the middle of an accumulation, and cuts gathered metrics to the samples that
there are. Its own loaders read one batch ahead to know; a plan of Millrace has the number of steps.

Accelerate is not imported here: a program that does not use it has no GradientState.
"""

from __future__ import annotations

import itertools
import sys
from typing import Any, Iterator


def _of_state(name: str) -> Any:
    """A class of accelerate.state. None: the program has not imported it."""
    return getattr(sys.modules.get("accelerate.state"), name, None)


def _gradient_state() -> Any:
    kind = _of_state("GradientState")
    return None if kind is None else kind()


class Registration:
    """The entry of one iteration among the loaders that Accelerate knows. One thread at a time.

        entry = Registration()
        entry.enter()                  # before the first batch
        entry.set_last(samples)        # before the last batch is handed out
        entry.leave()                  # after the iteration, or when it is given up
    """

    def __init__(self) -> None:
        # Accelerate reads these two.
        self.end_of_dataloader = False
        self.remainder = -1
        self._state: Any = None

    def enter(self) -> None:
        """A second call has no effect."""
        if self._state is None:
            self._state = _gradient_state()
            if self._state is not None:
                self._state._add_dataloader(self)

    def set_last(self, remainder: int) -> None:
        """The batch is the last one. `remainder`: its samples over all ranks, 0 for a full batch."""
        self.end_of_dataloader, self.remainder = True, remainder

    def leave(self) -> None:
        """A second call has no effect."""
        state, self._state = self._state, None
        if state is not None:
            state._remove_dataloader(self)


class Preparation:
    """Whether Accelerator.prepare() has taken a loader, and what then holds for its batches.

        preparation = Preparation(moves=True)
        preparation.note()                  # prepare() asks
        batch = preparation.moved(batch)    # of each batch
    """

    def __init__(self, moves: bool) -> None:
        """`moves`: batches of a loader that is prepared go to the Accelerator's device."""
        self._moves = moves
        self._device: Any = None
        # Whether the program may gather rows of the batches over the ranks.
        self.gathers = False

    def note(self) -> None:
        """A program asks whether the loader is prepared: Accelerate, once there is an Accelerator."""
        kind = _of_state("AcceleratorState")
        if kind is None or not kind._shared_state:
            return
        self.gathers = True
        if self._moves:
            device = kind().device
            self._device = None if device.type == "cpu" else device

    def moved(self, batch: Any) -> Any:
        """A batch on the Accelerator's device, as its own loaders hand it out."""
        if self._device is None:
            return batch
        if isinstance(batch, dict):
            return {name: self._moved(tensor) for name, tensor in batch.items()}
        return tuple([self._moved(tensor) for tensor in batch])

    def _moved(self, tensor: Any) -> Any:
        # CUDA has read memory that is not page-locked when a copy returns, and torch keeps other memory.
        # Of further kinds of devices this is not known.
        return tensor.to(self._device, non_blocking=self._device.type == "cuda")


class _Skipped(int):
    """The number of batches that accelerate.skip_first_batches() leaves out: it drops each batch whose
    index is below this number. When the iteration begins behind these batches, no index is.
    `index >= skipped` asks the right operand, because its class is derived from int."""

    asked = False  # Accelerate has compared an index with this object
    behind = False  # all indices count as at or above it

    def __le__(self, index: int) -> bool:
        self.asked = True
        return self.behind or int(self) <= index

    __hash__ = int.__hash__


def skipping_loader(dataset: Any) -> Any:
    """The loader that accelerate.skip_first_batches() has made over a dataset, and that iterates. None:
    another program iterates."""
    state = _gradient_state()
    active = None if state is None else state.active_dataloader
    is_it = isinstance(getattr(active, "skip_batches", None), int) and \
        getattr(active, "dataset", None) is dataset
    return active if is_it else None


def batches_to_drop(skipping: Any, rows: int) -> Iterator[None]:
    """Elements for torch, which collates `rows` of them to a batch that `skipping` drops: of one batch, and
    where that does not compare its `skip_batches` with the index of each batch, of all."""
    count = int(skipping.skip_batches)
    if count == 0:
        return
    skipped = skipping.skip_batches = _Skipped(count)
    yield from itertools.repeat(None, rows)
    if skipped.asked:
        skipped.behind = True
    else:
        yield from itertools.repeat(None, (count - 1) * rows)
