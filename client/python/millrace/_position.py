"""Where a loader is in its epochs, by the rules of Python's loops. Pure: no server, no thread.

An iteration is one epoch. It begins at its first `next()`, so a framework may call `iter()` only to
look. The state is the position after the last batch: an epoch that is read to its last batch, but
not to its StopIteration, resumes to no batch; after StopIteration, to a full next epoch.
"""

from __future__ import annotations

from typing import NamedTuple


class Position(NamedTuple):
    """`step` batches of `epoch` were delivered; as many as the epoch has: it is complete."""

    epoch: int
    step: int


class Progress:
    """The position of a loader, and the epoch of its next iteration. One thread at a time."""

    def __init__(self, start: Position = Position(0, 0)) -> None:
        self._here = start
        # Where the next iteration begins; None: the epoch after the current one.
        self._next: Position | None = start
        # The program has chosen _next, by set_epoch() or jump().
        self._chosen = False
        # Added to the epochs that count() is given.
        self._offset = 0

    @property
    def here(self) -> Position:
        """What a checkpoint saves."""
        return self._here

    @property
    def upcoming(self) -> Position:
        """Where the next iteration begins."""
        return self._next or Position(self._here.epoch + 1, 0)

    def begin(self) -> Position:
        """An iteration begins; returns its position."""
        self._here = self.upcoming
        self._next = None
        self._chosen = False
        return self._here

    def advance(self, epoch: int, step: int) -> None:
        """The batch of `step` was delivered."""
        self._here = Position(epoch, step + 1)

    def finish(self) -> None:
        """The iteration has ended with StopIteration."""
        self._here = self._next = self.upcoming

    def set_epoch(self, epoch: int) -> None:
        """The next iteration is this epoch, from where a loaded state was in it."""
        if self._next is None or self._next.epoch != epoch:
            self._here = self._next = Position(epoch, 0)
        self._chosen, self._offset = True, 0

    def count(self, epoch: int) -> None:
        """The next iteration is this epoch for a framework that sets the epoch of a sampler.

        Lightning's Trainer continues to count where a checkpoint was. Fabric counts the iterations
        of its process, from 0. So a number below the epoch that the program has chosen stands for
        that epoch, and the following numbers for the following epochs."""
        wanted = epoch + self._offset
        if self._chosen and self._next is not None and wanted <= self._next.epoch:
            self._offset = self._next.epoch - epoch
            return
        self._chosen = False
        if self._next is None or self._next.epoch != wanted:
            self._here = self._next = Position(wanted, 0)

    def jump(self, position: Position) -> None:
        """The next iteration begins there."""
        self._here = self._next = position
        self._chosen, self._offset = True, 0
