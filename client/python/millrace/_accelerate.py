"""What Hugging Face Accelerate is told about an iteration, and what it says about one.

Accelerate asks its GradientState whether the batch is the last one of the loader: it then steps the
optimizer, also in the middle of an accumulation, and cuts gathered metrics to the samples that
there are. Its own loaders read one batch ahead to know; a plan of Millrace has the number of steps.

Accelerate is not imported here: a program that does not use it has no GradientState.
"""

from __future__ import annotations

import sys
from typing import Any


def _gradient_state() -> Any:
    kind = getattr(sys.modules.get("accelerate.state"), "GradientState", None)
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


def batches_to_skip(dataset: Any) -> int | None:
    """The number of batches that accelerate.skip_first_batches() leaves out of the iteration that
    begins over a dataset. None: another program iterates."""
    state = _gradient_state()
    active = None if state is None else state.active_dataloader
    skip = getattr(active, "skip_batches", None)
    return skip if isinstance(skip, int) and getattr(active, "dataset", None) is dataset else None
