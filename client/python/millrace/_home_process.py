"""The process in which loaders work. gRPC works in the process only that has used it first: in a forked
child its threads do not exist, and its locks may be held for ever."""

from __future__ import annotations

import os

from millrace.errors import FailedPreconditionError

# Of the first process that has opened a loader; 0: none has. A forked child has the parent's.
_first = 0

# Launchers of notebooks fork the kernel, and cannot spawn: functions of cells are not picklable.
_ADVICE = (
    "start processes with \"spawn\" or \"forkserver\", and give them loaders that are not open yet. A launcher "
    "that forks a notebook's kernel (accelerate.notebook_launcher, Lightning's strategy=\"ddp_notebook\") "
    "needs a kernel that has opened no loader: restart the kernel, and call the launcher before len(), "
    "preview(), plan or a batch of any loader")


def check_may_open() -> None:
    """
    Raises:
      FailedPreconditionError: this process was forked by one that had opened a loader.
    """
    here = os.getpid()
    if _first not in (0, here):
        raise FailedPreconditionError(
            f"process {_first} has opened a loader and has then forked this process {here}, in which gRPC "
            f"does not work; {_ADVICE}")


def note_open() -> None:
    """This process opens a loader, and uses gRPC from now on."""
    global _first
    _first = os.getpid()


def check_home(owner: int) -> None:
    """This process uses a loader that process `owner` has opened; 0: none has.

    Raises:
      FailedPreconditionError: it is another process.
    """
    if owner not in (0, os.getpid()):
        raise FailedPreconditionError(
            f"the loader belongs to process {owner} and does not work in its forked child {os.getpid()}; "
            f"{_ADVICE}")
