"""`DataLoader`: a `Loader` that is a torch.utils.data.DataLoader, for frameworks that ask for one.

Imports torch: `millrace.DataLoader` imports this module when a program uses the name first. Threads
and fork: as `Loader`.
"""

from __future__ import annotations

import os
from types import TracebackType
from typing import Any, Callable, Iterable, Iterator, Mapping

import torch.utils.data  # type: ignore[import-not-found,unused-ignore]
from millrace import _refused, _values
from millrace._accelerate import Preparation
from millrace._arrays import Arrays
from millrace._preview import Preview
from millrace._served import SequentialOrder, ServedDataset, ShuffledOrder, whole_batch
from millrace._values import shown
from millrace.errors import ArgumentError, InvalidArgumentError
from millrace.loader import BatchInfo, Loader
from millrace.pipeline import Pipeline


class DataLoader(torch.utils.data.DataLoader[Any]):  # type: ignore[misc,unused-ignore]
    """Batches of one rank from data servers, as a torch DataLoader: for plain loops, Lightning,
    Accelerate and the Hugging Face Trainer.

        loader = millrace.DataLoader("data-1:7001", "photos", "imagenet_train", batch_size=64)
        for images, labels in loader:    # float32 [64, 3, 224, 224], int64 [64]
            ...

    Arguments, epochs, states and errors are those of `Loader`. Tensors are always torch's. Nothing is
    asked of the servers before it is needed: `len()`, the first batch or `open()`.

    Besides what a torch DataLoader has as attributes, it has the methods of `Loader`.

    Args:
      endpoint, dataset, pipeline, batch_size: as `Loader`. batch_size is that of a rank.
      dp_rank, dp_world: as `rank` and `world_size` of `Loader`, under the names of data parallelism:
        ranks that share a batch, as those of tensor or pipeline parallelism, have the same dp_rank.
      others: as `Loader`, by name: shuffle, drop_last, pad_last, device_mesh, seed, output, names and so
        on.

    Raises:
      ArgumentError: an argument that does not exist or cannot be honoured, or a wrong type.
      InvalidArgumentError: a value out of range.
    """

    # accelerate.Accelerator.save_state() and load_state() contain the state of the loader.
    use_stateful_dataloader = True

    def __init__(self, endpoint: str | Iterable[str] | Mapping[str, Any] | Arrays = "",
                 dataset: str | torch.utils.data.IterableDataset[Any] | None = None,
                 pipeline: str | os.PathLike[str] | Pipeline | Callable[..., Any] | None = None,
                 batch_size: int | None = None, *,
                 dp_rank: int | None = None, dp_world: int | None = None, **others: Any) -> None:
        # A framework that builds a new loader, as Lightning for predict(), hands over what it finds.
        if others.get("collate_fn") is whole_batch:
            del others["collate_fn"]
        if isinstance(others.get("sampler"), (SequentialOrder, ShuffledOrder)):
            del others["sampler"]
        if isinstance(dataset, ServedDataset):
            self._loader = _again(dataset, others, {
                "endpoint": endpoint or None, "pipeline": pipeline, "batch_size": batch_size,
                "dp_rank": dp_rank, "dp_world": dp_world})
        else:
            rank, world_size = _ranks_of(others.pop("rank", None), others.pop("world_size", None),
                                         dp_rank, dp_world)
            tensor_type = others.pop("tensor_type", None)
            if tensor_type not in (None, "torch"):
                raise ArgumentError(
                    f"tensor_type={shown(tensor_type)}: a torch DataLoader makes tensors of torch; leave "
                    "it out, or use millrace.Loader")
            self._loader = Loader(endpoint, dataset, pipeline, batch_size, rank=rank,
                                  world_size=world_size, tensor_type="torch", **others)
        # Accelerate's own loaders move batches. A program that names a device says where it wants them.
        served = ServedDataset(self._loader, Preparation(moves=others.get("device") is None))
        # Without batch_size, torch adds no sampler of its own. `batch_size` is a property here.
        super().__init__(served, batch_size=None, collate_fn=whole_batch)
        arguments = self._loader._arguments
        order = SequentialOrder(served) if arguments["shuffle"] is False else ShuffledOrder(served)
        # In the dict, past torch's __setattr__: Fabric copies it, and rebuilders look into it.
        self.__dict__["sampler"] = order
        for name in ("batch_size", "drop_last", "pin_memory"):
            if arguments[name] is not None:
                self.__dict__[name] = arguments[name]

    # ---- What Accelerate asks ----------------------------------------------------------------

    @property
    def _is_accelerate_prepared(self) -> bool:
        """accelerate.Accelerator.prepare() returns the loader as it is, and does not shard the batches
        again or receive them on one rank only. From then on, batches go to the Accelerator's device."""
        served: ServedDataset = self.dataset
        served.preparation.note()
        return True

    @_is_accelerate_prepared.setter
    def _is_accelerate_prepared(self, value: Any) -> None:
        """Accelerate sets it to True."""

    # ---- What torch's DataLoader has ---------------------------------------------------------

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override,unused-ignore]
        """As `Loader`: the batches of one epoch, which begins with the first `next()`."""
        served: ServedDataset = self.dataset
        return served.batches()

    def __len__(self) -> int:
        """Batches of a whole epoch, the same on all ranks. Opens the loader."""
        return len(self._loader)

    @property
    def batch_size(self) -> int:
        """Samples of a batch of this rank. Opens the loader when the pipeline says the size."""
        return self._loader.batch_size

    @batch_size.setter
    def batch_size(self, value: Any) -> None:
        """torch's __init__ sets it. Later, torch refuses it."""

    @property
    def drop_last(self) -> bool:
        """Whether the rest of an epoch is left out. Opens the loader when the pipeline says it."""
        return self._loader.drop_last

    @drop_last.setter
    def drop_last(self, value: Any) -> None:
        """torch's __init__ sets it. Later, torch refuses it."""

    # ---- What Loader has ---------------------------------------------------------------------

    def open(self) -> DataLoader:
        """As `Loader.open`."""
        self._loader.open()
        return self

    def close(self) -> None:
        """As `Loader.close`."""
        self._loader.close()

    def __enter__(self) -> DataLoader:
        self._loader.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def set_epoch(self, epoch: int) -> None:
        """As `Loader.set_epoch`."""
        self._loader.set_epoch(epoch)

    def seek(self, epoch: int, step: int = 0) -> None:
        """As `Loader.seek`."""
        self._loader.seek(epoch, step)

    def state_dict(self) -> dict[str, Any]:
        """As `Loader.state_dict`."""
        return self._loader.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """As `Loader.load_state_dict`."""
        self._loader.load_state_dict(state)

    @property
    def rank(self) -> int:
        """As `Loader.rank`."""
        return self._loader.rank

    @property
    def world_size(self) -> int:
        """As `Loader.world_size`."""
        return self._loader.world_size

    @property
    def global_batch_size(self) -> int:
        """As `Loader.global_batch_size`."""
        return self._loader.global_batch_size

    @property
    def pipeline(self) -> Pipeline | None:
        """As `Loader.pipeline`."""
        return self._loader.pipeline

    @property
    def plan(self) -> dict[str, Any]:
        """As `Loader.plan`."""
        return self._loader.plan

    @property
    def last_batch(self) -> BatchInfo | None:
        """As `Loader.last_batch`."""
        return self._loader.last_batch

    def stats(self) -> dict[str, Any]:
        """As `Loader.stats`."""
        return self._loader.stats()

    def where_the_time_went(self) -> str:
        """As `Loader.where_the_time_went`."""
        return self._loader.where_the_time_went()

    @_values.named_arguments("DataLoader.replay")
    def replay(self, epoch: int, step: int, *, drawn: bool = False) -> Any:
        """As `Loader.replay`."""
        return self._loader.replay(epoch, step, drawn=drawn)

    @_values.named_arguments("DataLoader.preview")
    def preview(self, epoch: int = 0, step: int = 0, samples: int = 8, *,
                field: str | None = None) -> Preview:
        """As `Loader.preview`."""
        return self._loader.preview(epoch, step, samples, field=field)

    def explain(self, epoch: int, step: int) -> dict[str, Any]:
        """As `Loader.explain`."""
        return self._loader.explain(epoch, step)

    def __repr__(self) -> str:
        return repr(self._loader).replace("millrace.Loader", "millrace.DataLoader", 1)


def _ranks_of(rank: int | None, world_size: int | None, dp_rank: int | None,
              dp_world: int | None) -> tuple[int | None, int | None]:
    """`rank` and `world_size` of Loader."""
    if dp_rank is None and dp_world is None:
        return rank, world_size
    if dp_rank is None or dp_world is None:
        raise InvalidArgumentError("dp_rank= and dp_world= belong together: give both or neither")
    if rank is not None or world_size is not None:
        raise InvalidArgumentError(
            "rank= and dp_rank= cannot be used together, because both give this process's part of each "
            "batch: remove one of them")
    return dp_rank, dp_world


def _again(dataset: ServedDataset, others: Mapping[str, Any], named: Mapping[str, Any]) -> Loader:
    """The loader of a new DataLoader over the dataset of another one."""
    before = dataset._loader
    known = before._arguments
    _refused.check({name: value for name, value in others.items() if name not in known}, known)
    for name, value in {**others, **named}.items():
        if name in (*known, *named) and value is not None and value is not False and \
                value != known.get(name):
            raise ArgumentError(
                f"argument {name}={shown(value)}: a DataLoader over the dataset of another one has the "
                "arguments of that one; give endpoint=, dataset= as a name, and all other arguments")
    return before._at_the_same_place()
