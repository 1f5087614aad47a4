"""`Loader`: one iteration is one epoch of batches from data servers.

Threads: one thread at a time iterates. Any thread may call `close()`, `stats()` and
`where_the_time_went()`.

Fork: an open loader works in the process that has opened it; in a forked child, its methods raise
FailedPreconditionError. A loader that is not open yet may be pickled, copied and used in a process
that was started with "spawn" or "forkserver".
"""

from __future__ import annotations

import atexit
import copy
import json
import math
import os
import threading
import weakref
from types import TracebackType
from typing import Any, Callable, Iterable, Iterator, Mapping, NamedTuple

from millrace import (_convert, _device, _endpoint, _home_process, _interruptible, _last_batch, _millrace,
                      _on_arrays, _open_errors, _pinned, _pipeline, _preview, _ranks, _refused, _settings,
                      _state, _values)
from millrace._arrays import Arrays
from millrace._position import Position, Progress
from millrace._values import shown
from millrace.errors import (CancelledError, Error, FailedPreconditionError, InternalError,
                             InvalidArgumentError, NotFoundError)
from millrace.pipeline import Pipeline

# Of data of this machine: servers that may end, one after the other, while a batch is awaited.
_MAX_SERVERS = 4

# Closed at the interpreter's exit, before the objects that they use are gone.
_open_loaders: weakref.WeakSet[Loader] = weakref.WeakSet()


_exiting = False


@atexit.register
def _close_open_loaders() -> None:
    global _exiting
    _exiting = True
    for loader in list(_open_loaders):
        loader.close()


class BatchInfo(NamedTuple):
    """What a batch is, besides its tensors."""

    epoch: int
    step: int  # of its epoch, from 0
    rows: int  # of this rank, padding included
    local_valid: int  # rows of this rank that hold a sample
    global_valid: int  # rows of the global batch that hold a sample, over all ranks


class Dataset:
    """What torch's DataLoader has as `dataset`: a name, "" when only the pipeline names it, and a
    length. The samples are at the servers."""

    def __init__(self, name: str, samples: int) -> None:
        self.name = name
        self._samples = samples

    def __len__(self) -> int:
        """Samples of an epoch, over all ranks."""
        return self._samples

    def __repr__(self) -> str:
        return f"millrace.Dataset({self.name!r}, {self._samples} samples)"


class Sampler:
    """What torch's DataLoader has as `sampler`, for programs that call `loader.sampler.set_epoch`."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def set_epoch(self, epoch: int) -> None:
        """As `Loader.set_epoch`."""
        self._loader.set_epoch(epoch)


class _Plan(NamedTuple):
    """What the servers answered when the loader was opened."""

    facts: dict[str, Any]
    steps_per_epoch: int
    names: tuple[str, ...]  # of the tensors of a batch, in the order of the output
    keys: tuple[str, ...]  # the same under the names that the program wants
    transforms: tuple[bool, ...]  # whether the host computes what the pipeline leaves to the client
    on_device: tuple[Mapping[str, Any] | None, ...]  # the tensors for which the device does


def _largest_view(plan: _Plan, rows: int) -> int:
    """Bytes of the largest tensor of a full batch that nothing is computed from, as far as the plan fixes its
    shape."""
    tensors = {tensor["name"]: tensor for tensor in plan.facts["tensors"]}
    return max((rows * math.prod(tensors[name]["sample_shape"]) * _values.bytes_of(tensors[name]["dtype"])
                for name, transform in zip(plan.names, plan.transforms)
                if name in tensors and min(tensors[name]["sample_shape"], default=0) >= 0 and
                not (transform and tensors[name]["cast"])), default=0)


class Loader:
    """Batches of one rank from data servers. Iterating over it is one epoch.

        loader = millrace.Loader("data-1:7001", "photos", "imagenet_train", batch_size=64)
        for images, labels in loader:    # float32 [64, 3, 224, 224], int64 [64]
            ...

    Nothing is asked of the servers before it is needed: `len()`, the first batch or `open()`.

    Args:
      endpoint: data servers: "HOST:PORT", several separated by commas or as a list, or one DNS name
        with port that has several addresses. Or data of this machine: "lmdb:PATH", "parquet:PATH",
        "arrow:PATH", "imagefolder:PATH", "tar:PATH", "tfrecord:PATH", "mds:PATH", "litdata:PATH",
        "csv:PATH" or "hdf5:PATH" with their options (docs/formats.md), or a dict of arrays,
        {"image": images, "label": labels}, or a
        `millrace.Arrays`. A data server of this machine and user reads them; the first loader starts
        it, and it ends after the last one (docs/python.md).
      dataset: name of the dataset at the servers. Optional when the pipeline names it, and for data
        of this machine.
      pipeline: name of a preset ("imagenet_train"), path of a file with a PipelineSpec
        (docs/transforms.md), or its text; a `millrace.Pipeline`; or a Compose of
        torchvision.transforms.v2 or Albumentations, which is translated
        (`Pipeline.from_torchvision`). None: the dataset's own preset for training.
      batch_size: samples of a batch of this rank, as in torch.
      global_batch_size: samples of a batch over all ranks, instead of batch_size. With neither, the
        pipeline's.
      shuffle: True: a new permutation in each epoch; False: in order. None: as the pipeline says.
      drop_last: True: the rest of an epoch is left out; False: it is a smaller batch, in which
        ranks may have different numbers of rows, also none: train on several ranks with True.
        None: as the pipeline says, for example padded.
      pad_last: with drop_last=False, fill the last batch with rows that hold no sample (zeros,
        "valid" False, and -100 for labels of which the dataset knows the classes: of arrays, those of
        Arrays(classes=)), so that all ranks have equally many rows.
      allow_uneven: with drop_last=False on several ranks, accept what is refused otherwise: a last batch
        of which a rank gets no row, and with Accelerate, ranks with different numbers of rows.
      seed: of the order and of every random choice. None: the pipeline's, or 0.
      rank, world_size: this process and the number of processes that share each batch. Default: of
        torch.distributed when the program has initialised it, else of the environment variables
        RANK and WORLD_SIZE, else 0 and 1. Ranks that share a batch, as those of tensor or pipeline
        parallelism, are given the same number.
      device_mesh: the dimension of a torch DeviceMesh over which the data is split, mesh["dp"], instead of
        rank and world_size.
      fields: names of the tensors of a batch, in the order of the output. Besides fields of the
        dataset: "sample_index" (int64 [rows], -1 in padding) and "valid" (bool [rows]). None: all
        fields of the pipeline. A set is refused: it has no order.
      output: "tuple": a batch is a tuple of tensors; "dict": a dict by name.
      names: with output="dict", other names for fields: {"image": "pixel_values"}.
      tensor_type: "torch", "numpy", or "dlpack" for millrace.Tensor, which JAX and others take.
        None: torch when the program has imported torch before the first batch, else NumPy.
      pin_memory: True: the tensors lie in page-locked memory of torch, so that
        `.to("cuda", non_blocking=True)` copies while the program goes on. None: in programs that use
        CUDA, when the first batch is taken or later. False: never.
      device: "cuda", "cuda:1" or a torch.device: batches are copied to this CUDA device ahead of the
        loop, and normalised there. Tensors are torch's, for the stream that is current when the batch is
        returned: on another stream, wait for that one and call `tensor.record_stream()`. None or "cpu":
        they stay in host memory.
      device_prefetch: batches that are copied ahead to the device, from 1. None: 2. The device needs
        memory for as many, for the one in the loop and for one in preparation.
      apply_device_transform: compute what the pipeline leaves to the client, normalisation and
        casts, and show normalised images as [rows, C, H, W] (their memory stays [rows, H, W, C],
        torch's channels_last; images that are not normalised have this shape, too). False: tensors
        as they come over the network.
      compression: "none" or "zstd", on the network. None: the pipeline's.
      window: batches requested ahead, 2 to 65536. None or 0: adapts to measurements.
      window_bytes: upper bound of an adaptive window, in bytes. None: 256 MiB. Not with a window=.
      same_host: "off", "auto" or "require": whether servers of this machine pass batches in shared
        memory. None: off; auto for data of this machine.
      verify_payload: compare each batch with a digest. None: True.
      open_timeout: max seconds until the first server answers. None: 5.
      next_timeout: max seconds to wait for one batch. None: 300.
      step_timeout: seconds without progress after which a batch is requested from another server.
        None: 15.
      hedge_share: upper bound of the share of batches that are requested from a second server
        because they are late, 0 to 1; 0: none. None: 0.05.
      hedge_floor: min seconds before a batch counts as late. None: 0.02. Not with hedge_share=0.

    Raises:
      ArgumentError: an argument that does not exist, or an argument of torch's DataLoader that cannot
        be honoured (num_workers, collate_fn, sampler and so on), or a wrong type.
      InvalidArgumentError: a value out of range, values that cannot be used together, a pipeline whose
        text does not parse. RANK and WORLD_SIZE of the environment and what the servers check are
        refused when the loader is opened.
      TranslationError: a Compose that the servers cannot run.
      ResourceExhaustedError: the system has no memory for the copy of the arrays.
    """

    def __init__(self, endpoint: str | Iterable[str] | Mapping[str, Any] | Arrays,
                 dataset: str | None = None,
                 pipeline: str | os.PathLike[str] | Pipeline | Callable[..., Any] | None = None,
                 batch_size: int | None = None, *,
                 global_batch_size: int | None = None, shuffle: bool | None = False,
                 drop_last: bool | None = False, pad_last: bool = False, allow_uneven: bool = False,
                 seed: int | None = None,
                 rank: int | None = None, world_size: int | None = None, device_mesh: Any = None,
                 fields: Iterable[str] | None = None, output: str = "tuple",
                 names: Mapping[str, str] | None = None,
                 tensor_type: str | None = None, pin_memory: bool | None = None,
                 device: str | _device.DeviceLike | None = None, device_prefetch: int | None = None,
                 apply_device_transform: bool = True,
                 compression: str | None = None, window: int | None = None,
                 window_bytes: int | None = None, same_host: str | None = None,
                 verify_payload: bool | None = None, open_timeout: float | None = None,
                 next_timeout: float | None = None, step_timeout: float | None = None,
                 hedge_share: float | None = None, hedge_floor: float | None = None,
                 **refused: Any) -> None:
        arguments = dict(locals())
        for name in ("self", "__class__", "refused"):
            arguments.pop(name, None)
        _refused.check(refused, arguments)
        arguments["endpoint"] = _endpoint.endpoint_of(endpoint)
        if dataset is not None:
            _endpoint.refuse_other_data("dataset", dataset)
        for name in ("batch_size", "global_batch_size", "world_size", "window_bytes"):
            arguments[name] = _values.optional_whole_number(name, arguments[name], 1)
        for name in ("rank", "seed", "window"):
            arguments[name] = _values.optional_whole_number(name, arguments[name], 0)
        for name in ("shuffle", "drop_last", "verify_payload", "pin_memory"):
            _values.optional_flag(name, arguments[name])
        for name in ("apply_device_transform", "pad_last", "allow_uneven"):
            _values.flag(name, arguments[name])
        for name in ("dataset", "tensor_type", "compression", "same_host"):
            _values.optional_text(name, arguments[name])
        for name in ("open_timeout", "next_timeout", "step_timeout", "hedge_floor"):
            arguments[name] = _values.optional_seconds(name, arguments[name], name == "hedge_floor")
        arguments["hedge_share"] = _values.optional_share("hedge_share", hedge_share)
        _settings.check_together(arguments)
        if batch_size is not None and global_batch_size is not None:
            raise InvalidArgumentError(
                "batch_size= (samples of a rank) and global_batch_size= (samples of all ranks) "
                "cannot be used together: remove one of them")
        if output not in ("tuple", "dict"):
            raise InvalidArgumentError(f"output={shown(output)}: expected \"tuple\" or \"dict\"")
        if names and output != "dict":
            raise InvalidArgumentError("names= renames the keys of a dict: add output=\"dict\"")
        if tensor_type not in (None, "torch", "numpy", "dlpack"):
            raise InvalidArgumentError(
                f"tensor_type={shown(tensor_type)}: expected \"torch\", \"numpy\" or \"dlpack\"")
        arguments["fields"] = _settings.fields_of(fields)
        arguments["names"] = _settings.renamed_of(names)
        self._arguments = arguments
        self._as_dict = output == "dict"
        self._transform = apply_device_transform
        self._pipeline = arguments["pipeline"] = _pipeline.resolve(
            pipeline, arguments["endpoint"] if isinstance(arguments["endpoint"], Arrays) else None)
        self._local = self._pipeline.local_for(tensor_type, apply_device_transform)
        self._pinning = _pinned.Pinning(pin_memory, tensor_type, self._local)
        self._target = _device.target_of(device, device_prefetch)  # None: host memory
        if self._target is not None:
            self._target.check(tensor_type, self._local)
            arguments["tensor_type"] = "torch"
        if device_mesh is not None:
            if rank is not None or world_size is not None:
                raise InvalidArgumentError(
                    "device_mesh= and rank= (dp_rank=) cannot be used together, because both give this "
                    "process's part of each batch: remove one of them")
            rank, world_size = _ranks.of_mesh(device_mesh)
            arguments.update(rank=rank, world_size=world_size, device_mesh=None)
        ranks: tuple[int, int] | None = None  # of the environment: read when the loader is opened
        if rank is not None or world_size is not None:
            ranks = _ranks.find(arguments["rank"], arguments["world_size"])
        if batch_size is None and global_batch_size is None and \
                not _pipeline.may_name_batch_size(self._pipeline.settings):
            raise InvalidArgumentError(
                "batch_size= is missing: give the samples of a batch of this rank, or "
                "global_batch_size=, the samples over all ranks")
        # The C interface checks the other values, and what they are together.
        settings = self._settings_without_rank()
        if ranks is not None:
            _settings.check_shared(arguments["global_batch_size"], ranks[1])
            settings.update(rank=str(ranks[0]), world_size=str(ranks[1]))
        if batch_size is not None:
            settings["batch_size"] = str(int(arguments["batch_size"]) * (ranks or (0, 1))[1])
        _millrace.check_options(settings)

        self._data = _endpoint.data_of(arguments["endpoint"], dataset)  # None: of the endpoint's servers
        self._progress = Progress()
        self._expected: _state.Expected | None = None  # by the state that was loaded last
        # Held while the loader is opened. Reentrant, for a handler of a signal that comes meanwhile.
        self._lock = threading.RLock()
        self._native: _millrace.Loader | None = None
        self._plan: _Plan | None = None
        self._ranks: tuple[int, int] | None = None
        self._convert: _convert.Converter | None = None
        self._feeder: _device.Feeder | None = None  # of an open loader with a device
        self._closed = False
        self._process = 0  # the one that has opened the loader, or opens it
        self._taker: int | None = None  # the thread that is in _next()
        # Weak, so that a loader that the program has dropped ends at once, without the collector.
        self._iterator: weakref.ref[_Epoch] | None = None
        # What the native loader delivers next; None: not known.
        self._native_next: Position | None = None
        # seek() or load_state_dict() was called: the native loader is told the position, even the one
        # that it has, because that ends an error such as a damaged sample.
        self._restart = False
        self._last_info: _device.Info | None = None

    # ---- Opening and closing --------------------------------------------------------------

    def _settings_without_rank(self) -> dict[str, str]:
        a = self._arguments
        others = {name: a[name] for name in (
            "compression", "window", "window_bytes", "same_host", "verify_payload", "open_timeout",
            "next_timeout", "step_timeout", "hedge_share", "hedge_floor")}
        return _settings.make(
            endpoint=a["endpoint"], dataset=a["dataset"], pipeline=self._pipeline.settings,
            fields=a["fields"], global_batch_size=a["global_batch_size"], shuffle=a["shuffle"],
            last_batch=_settings.last_batch_of(a["drop_last"], a["pad_last"]), seed=a["seed"],
            others=others)

    def _rank_and_world_size(self) -> tuple[int, int]:
        return self._ranks or _ranks.find(self._arguments["rank"], self._arguments["world_size"])

    def _asked_global_batch_size(self) -> int | None:
        if self._arguments["batch_size"] is not None:
            return int(self._arguments["batch_size"]) * self._rank_and_world_size()[1]
        size: int | None = self._arguments["global_batch_size"]
        return size

    def _start(self) -> Position:
        """Where the native loader begins."""
        position = self._progress.upcoming
        if self._expected is not None and position.step >= self._expected.steps_per_epoch:
            return Position(position.epoch + 1, 0)  # the epoch is complete
        return position

    def _opened(self) -> tuple[_millrace.Loader, _Plan]:
        self._check_process()  # before the lock, which a thread of the parent may hold for ever
        native, plan = self._native, self._plan
        if native is None or plan is None or self._is_over():
            with self._lock:
                native, plan = self._open_locked()
        return native, plan

    def _is_over(self) -> bool:
        """Whether the loader that is open must be opened again."""
        return (self._data is not None and self._server_is_lost() or
                self._last_info is None and self._has_another_rank())

    def _has_another_rank(self) -> bool:
        """And has not delivered a batch as the old one."""
        return self._last_info is None and self._ranks_have_changed()

    def _ranks_have_changed(self) -> bool:
        """Frameworks initialise torch.distributed after a program has asked for len()."""
        if self._arguments["rank"] is not None or self._closed:
            return False
        now = _ranks.of_torch()
        return now is not None and now != self._ranks

    def _check_process(self) -> None:
        _home_process.check_home(self._process)

    def _check_usable(self) -> None:
        """Of everything that changes what comes next."""
        if self._closed:
            raise CancelledError("the loader was closed; make a new one")
        self._check_process()

    def _server_is_lost(self) -> bool:
        """Of data of this machine: the server has ended, and another one is needed."""
        return self._data is not None and self._data.lost and not self._closed

    def _open_locked(self) -> tuple[_millrace.Loader, _Plan]:
        if self._native is not None and self._plan is not None:
            if not self._is_over():
                return self._native, self._plan  # another thread was first
            if self._has_another_rank():
                self._ranks = None
            else:
                self._expected = _state.Expected.of(self._plan.facts)  # of the next server, too
            self._give_up()
        if self._closed:
            raise CancelledError("the loader was closed; make a new one")
        if self._process:
            raise FailedPreconditionError(
                "this thread is opening the loader, and the handler of a signal has come between: "
                "let the handler leave the loader alone until open() has returned")
        try:
            self._process = os.getpid()
            return self._open()
        finally:
            if self._plan is None:
                self._process = 0

    def _open(self) -> tuple[_millrace.Loader, _Plan]:
        ranks = self._rank_and_world_size()
        settings = self._settings_without_rank()
        settings.update(rank=str(ranks[0]), world_size=str(ranks[1]))
        global_batch_size = self._asked_global_batch_size()
        if global_batch_size is not None:
            _settings.check_shared(global_batch_size, ranks[1])
            settings["batch_size"] = str(global_batch_size)
        start = self._start()
        settings.update(start_epoch=str(start.epoch), start_step=str(start.step))
        if self._expected is not None:
            settings.update(expected_plan_hash=self._expected.plan_hash,
                            expected_fingerprint=self._expected.fingerprint)
        tensor_type, convert = _convert.choose(self._arguments["tensor_type"])
        self._pinning.opened(tensor_type)
        device = -1 if self._target is None else self._target.open()
        _home_process.check_may_open()
        if self._data is not None:
            settings.update(self._data.open(self))
        try:
            _home_process.note_open()
            # close() in another thread finds it from now on, and ends the wait.
            native = self._native = _millrace.Loader(settings)
            _open_loaders.add(self)
            if self._closed:
                raise CancelledError("the loader was closed; make a new one")
            if self._data is not None:
                self._data.watch(native)
            plan = self._read_plan(json.loads(native.wait_open()), tensor_type)
            if isinstance(self._arguments["endpoint"], Arrays):
                _on_arrays.check_spec(self._arguments["endpoint"], plan.facts["pipeline"])
            if self._expected is not None:
                self._expected.check(plan.facts)
            if not self._arguments["allow_uneven"]:
                _last_batch.check_no_rank_is_empty(plan.facts, ranks[1])
            native.expect_view(_largest_view(plan, int(plan.facts["batch_size"]) // ranks[1]))
            if self._target is not None:
                self._feeder = _device.Feeder(self._target, device, int(plan.facts["steps_per_epoch"]),
                                              plan.on_device, convert)
        except BaseException as error:  # Ctrl-C as well: a later call starts again
            failure = error if self._data is None else self._data.explain(error, "opened")
            self._give_up()
            raise _open_errors.explained(failure, self._arguments, self._pipeline) from None
        self._ranks, self._convert = ranks, convert
        self._native_next, self._restart, self._plan = start, False, plan
        return native, plan

    def _give_up(self) -> None:
        """The native loader did not open, or is over."""
        native, self._native, self._plan, self._process = self._native, None, None, 0
        feeder, self._feeder = self._feeder, None
        _open_loaders.discard(self)
        if native is not None:
            native.close()
        if feeder is not None:
            feeder.close()
        if self._data is not None:
            self._data.release()

    def _read_plan(self, facts: dict[str, Any], tensor_type: str) -> _Plan:
        tensors = {tensor["name"]: tensor for tensor in facts["tensors"]}
        chosen = self._arguments["fields"] or [
            name for name in tensors if name not in _settings.EXTRA_TENSORS]
        names: list[str] = []
        for name in chosen:
            if name not in tensors:
                raise NotFoundError(f"fields: the batches have no tensor {name!r}; they have " +
                                    ", ".join(tensors))
            dtype = tensors[name]["dtype"]
            if self._transform and tensors[name]["cast"] is not None:
                dtype = tensors[name]["cast"]["dtype"]
            if tensor_type == "numpy" and dtype == "bfloat16":
                raise InvalidArgumentError(
                    f"tensor {name!r} is bfloat16, which NumPy does not have: use "
                    "tensor_type=\"torch\", or let the pipeline make float32 of it (to_dtype)")
            names.append(name)
            shape = tensors[name]["sample_shape"]
            if shape and shape[0] < 0:
                names.append(name + ".offsets")
        renamed: dict[str, str] = self._arguments["names"]
        for name in renamed:
            if name not in names:
                raise NotFoundError(f"names: the batches have no tensor {name!r}; they have " +
                                    ", ".join(names))
        keys = tuple(renamed.get(name, name) for name in names)
        if len(set(keys)) != len(keys):
            raise InvalidArgumentError(f"names={shown(renamed)}: two tensors have the same name")
        on_device = tuple([
            _device.computed(tensors.get(name)) if self._transform and self._target is not None else None
            for name in names])
        transforms = tuple([self._transform and tensor is None for tensor in on_device])
        return _Plan(facts, int(facts["steps_per_epoch"]), tuple(names), keys, transforms, on_device)

    def open(self) -> Loader:
        """Opens the loader now, and begins to receive batches. Returns the loader.

        Raises:
          NotFoundError: no server has the dataset, the preset or a field.
          UnavailableError, DeadlineExceededError: no server answered within open_timeout. May be
            called again.
          InvalidArgumentError: the servers refuse the pipeline, the batch cannot be shared by the
            ranks, a rank would get no row of the last batch, or torch does not have the device.
          FailedPreconditionError: the servers' plan is not that of the loaded state; or the process
            was forked by one that has opened a loader.
          CancelledError: closed.
        """
        self._check_usable()
        self._opened()
        return self

    def close(self) -> None:
        """Ends receiving; a waiting iteration raises CancelledError. Tensors stay valid. A second
        call has no effect."""
        self._closed = True
        native = self._native
        if native is not None:
            native.close()
        if self._data is not None:
            self._data.close()
        _open_loaders.discard(self)
        self._close_feeder()

    def _close_feeder(self) -> None:
        """Of a closed loader: by the thread that takes batches, as long as there is one."""
        feeder = self._feeder
        if feeder is not None and self._taker is None:
            feeder.close()

    def __enter__(self) -> Loader:
        self._check_usable()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    # ---- Iterating -------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Any]:
        """An iterator over the batches of one epoch. The epoch begins with the first `next()`; an
        iterator that has not reached the end is replaced by then.

        Raises, from `next()`:
          as `open()`, when the loader is not open yet.
          DeadlineExceededError, UnavailableError: no batch within next_timeout. May be called again.
          DataLossError: a damaged sample; `seek()` continues behind its batch.
          FailedPreconditionError: a newer iterator has begun, or the process is a forked child.
          CancelledError: closed.
          torch.cuda.OutOfMemoryError: with device=, no memory for the batch. May be called again.
        After an error, an iterator that the program has kept can be asked again. A new `for` loop
        begins the next epoch, unless `load_state_dict(state_dict())` says to continue this one.
        """
        return _Epoch(self)

    def __len__(self) -> int:
        """Batches of a whole epoch, the same on all ranks. Opens the loader."""
        return int(self._opened()[1].facts["steps_per_epoch"])

    def _next(self, iterator: _Epoch) -> Any:
        thread = threading.get_ident()
        if self._taker not in (None, thread):
            raise FailedPreconditionError(
                "another thread is waiting for a batch of this loader; one thread at a time takes "
                "batches")
        try:
            self._taker = thread
            return self._next_alone(iterator)
        finally:
            self._taker = None
            if self._closed:
                self._close_feeder()

    def _next_alone(self, iterator: _Epoch) -> Any:
        opened = self._opened()
        plan = opened[1]
        if self._closed:
            raise CancelledError("the loader was closed; make a new one")
        if self._iterator is None or self._iterator() is not iterator:
            if iterator.begun:
                raise FailedPreconditionError(
                    "this iterator was replaced by a newer one of the same loader, or by seek() or "
                    "load_state_dict(): a loader has one iteration at a time; make a second loader")
            if self._progress.upcoming.epoch > _values.MAX_EPOCH:
                raise InvalidArgumentError(
                    f"epoch {_values.MAX_EPOCH} was the last one that there is: choose an epoch with "
                    "set_epoch() or seek()")
            if self._ranks_have_changed():
                rank, world_size = self._ranks or (0, 1)
                raise FailedPreconditionError(
                    f"the loader has delivered batches as rank {rank} of {world_size}, and "
                    "torch.distributed is initialised with other ranks since: make a new loader "
                    "after init_process_group(), or give rank= and world_size=")
            self._iterator = weakref.ref(iterator)
            iterator.begun = True
            iterator.here = self._progress.begin()
        wanted = iterator.here
        if wanted.step >= plan.steps_per_epoch:
            self._iterator = None
            iterator.ended = True
            self._progress.finish()
            raise StopIteration
        info, tensors = self._take(opened, wanted)
        # Before the batch counts as delivered: local transforms are the program's, and may fail.
        batch = self._batch_of(plan, tensors)
        self._progress.advance(*wanted)
        iterator.here = self._progress.here
        self._last_info = info
        return batch

    def _take(self, opened: tuple[_millrace.Loader, _Plan], wanted: Position) -> tuple[_device.Info, list[Any]]:
        """The batch of a position, in tensors for the program. `opened`: what _opened() has returned."""
        if self._feeder is None:
            received = self._receive(opened, wanted)
            convert = self._convert
            assert convert is not None
            return received[:5], [convert(tensor) for tensor in received[5]]
        if not self._feeder.has(wanted):
            received = self._receive(opened, wanted)  # may open again: with another feeder
            self._feeder.put(received)
        self._feeder.fill(self._receive_ready)
        return self._feeder.take()

    def _batch_of(self, plan: _Plan, tensors: list[Any]) -> Any:
        if self._local is not None:
            tensors = self._local.apply(plan.names, tensors)
        return dict(zip(plan.keys, tensors)) if self._as_dict else tuple(tensors)

    def _receive(self, opened: tuple[_millrace.Loader, _Plan], wanted: Position) -> _millrace.Batch:
        for server in range(_MAX_SERVERS):
            if server > 0:
                opened = self._opened()  # of another server: the same plan, the same batches
            try:
                received = self._receive_from(*opened, wanted, True)
                assert received is not None
                return received
            except Error as error:
                if self._data is None:
                    raise
                failure = self._data.explain(error, "made batches of")
                if not (isinstance(error, CancelledError) and self._server_is_lost()):
                    raise failure from None
        raise failure

    def _receive_ready(self, wanted: Position) -> _millrace.Batch | None:
        """Without waiting, and without opening again."""
        native, plan = self._native, self._plan
        if native is None or plan is None or self._closed:
            return None
        return self._receive_from(native, plan, wanted, False)

    def _receive_from(self, native: _millrace.Loader, plan: _Plan, wanted: Position,
                      wait: bool) -> _millrace.Batch | None:
        """None: not there yet, and not waited for."""
        for _ in range(2):
            if self._native_next is None:
                self._native_next = Position(*native.position())
            if self._native_next != wanted or self._restart:
                native.seek(*wanted)
                self._restart = False
            self._native_next = None  # until the batch is here
            received = native.next(plan.names, plan.transforms, self._pinning.allocate(), wait)
            if received is None and not wait:
                return None
            if received is not None and received[:2] == wanted:
                self._native_next = (Position(wanted.epoch, wanted.step + 1)
                                     if wanted.step + 1 < plan.steps_per_epoch else Position(wanted.epoch + 1, 0))
                return received
            # Ctrl-C between the return of a call and its result has lost a batch.
        raise InternalError(f"the loader does not return the batch of epoch {wanted.epoch}, step "
                            f"{wanted.step}; please report it")

    def set_epoch(self, epoch: int) -> None:
        """The next iteration is this epoch. Without it, each iteration is the epoch after the last
        one, also when that was left early. An iteration that has begun is not changed. An epoch that
        a loaded state or `seek()` has begun is continued from its step.

        Raises:
          InvalidArgumentError: no whole number from 0 to 2**64 - 2.
          CancelledError: closed.
        """
        self._check_usable()
        self._progress.set_epoch(_values.epoch(epoch))

    def _count_epoch(self, epoch: int) -> None:
        """As set_epoch(), by a framework that sets the epoch of a sampler."""
        self._check_usable()
        self._progress.count(_values.epoch(epoch))

    def seek(self, epoch: int, step: int = 0) -> None:
        """The next iteration begins at this position. No batch in between is made or sent. Opens the
        loader.

        Raises:
          InvalidArgumentError: a step past the end of its epoch.
          CancelledError: closed.
        """
        self._check_usable()
        epoch, step = _values.epoch(epoch), _values.whole_number("step", step, 0)
        steps = len(self)
        if step > steps:
            raise InvalidArgumentError(f"step={step}: an epoch has {steps} steps")
        self._iterator, self._restart = None, True
        self._progress.jump(Position(epoch, step))

    # ---- Checkpoints ----------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """The position after the last batch, for a checkpoint: numbers and texts, which JSON can
        hold, and the same on all ranks after the same batch. Opens the loader."""
        return _state.save(self._progress.here, self._opened()[1].facts)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The next iteration continues behind the last batch of the state, without a sample twice or
        left out. {}: no effect. The number of ranks may have changed; the global batch may not.

        A state that was taken after the last batch of an epoch, but before its iteration has ended,
        continues with no batch of that epoch; a later one with a whole next epoch.

        Raises:
          InvalidArgumentError: no dict that `state_dict()` has returned, or a state of another global
            batch size.
          FailedPreconditionError: another plan or other data than the state's; when the loader is
            not open yet, `open()` raises it.
          CancelledError: closed.
        """
        self._check_usable()
        loaded = _state.load(state)
        if loaded is None:
            return
        position, saved, expected = loaded
        asked = self._asked_global_batch_size()
        facts = None if self._plan is None else self._opened()[1].facts
        if facts is not None:
            asked = int(facts["batch_size"])
        if asked is not None and asked != saved:
            world_size = self._rank_and_world_size()[1]
            raise InvalidArgumentError(
                f"the state was saved with a global batch of {saved} samples, and this loader has "
                f"{asked} over {world_size} rank{'s' * (world_size > 1)}: steps would not match; make the loader with "
                f"global_batch_size={saved}")
        if facts is not None:
            expected.check(facts)
        self._expected = expected
        self._iterator, self._restart = None, True
        self._progress.jump(position)

    def __getstate__(self) -> dict[str, Any]:
        """For pickle and copy: what a loader has before it is opened, and what a subclass adds."""
        if self._closed:
            raise FailedPreconditionError(
                "a closed loader cannot be pickled or copied; make a new one")
        if self._native is not None:
            raise FailedPreconditionError(
                "an open loader cannot be pickled or copied, because it has connections; do so "
                "before its first use, or make a loader in the other process")
        return {name: value for name, value in vars(self).items()
                if name not in ("_lock", "_iterator", "_convert")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._progress = copy.copy(self._progress)
        self._data = copy.copy(self._data)
        self._lock = threading.RLock()
        # Of a loader that could not be opened again, or that another thread begins to open.
        self._iterator = self._convert = self._taker = None
        self._process = 0

    # ---- What it is -----------------------------------------------------------------------

    @property
    def rank(self) -> int:
        """This process's part of each global batch, from 0."""
        return self._rank_and_world_size()[0]

    @property
    def world_size(self) -> int:
        """Number of ranks."""
        return self._rank_and_world_size()[1]

    @property
    def global_batch_size(self) -> int:
        """Samples of a batch over all ranks. Opens the loader when the pipeline says the size."""
        asked = self._asked_global_batch_size()
        return int(self._opened()[1].facts["batch_size"]) if asked is None else asked

    @property
    def batch_size(self) -> int:
        """Samples of a batch of this rank. Opens the loader when the pipeline says the size."""
        return self.global_batch_size // self.world_size

    @property
    def drop_last(self) -> bool:
        """Whether the rest of an epoch is left out. Opens the loader when the pipeline says it."""
        asked: bool | None = self._arguments["drop_last"]
        return int(self._opened()[1].facts["dropped_per_epoch"]) > 0 if asked is None else asked

    @property
    def dataset(self) -> Dataset:
        """Name and length of the dataset. Opens the loader."""
        facts = self._opened()[1].facts
        # The plan lists the sources of a mixture only.
        names = [source["dataset"] for source in facts["sources"]] or \
            [self._arguments["dataset"] or ("" if self._data is None else self._data.uri)]
        return Dataset(",".join(names), int(facts["samples_per_epoch"]))

    @property
    def sampler(self) -> Sampler:
        """Has `set_epoch`."""
        return Sampler(self)

    @property
    def pipeline(self) -> Pipeline | None:
        """The Pipeline that the loader was given, or that it has translated; its `notes` say what differs
        from the original. None: a preset, a file or a text."""
        given = self._pipeline.given
        return given if isinstance(given, Pipeline) else None

    @property
    def plan(self) -> dict[str, Any]:
        """What the servers answered. Opens the loader.

        A dict: "steps_per_epoch", "samples_per_epoch" and "dropped_per_epoch" over all ranks;
        "batch_size", the global one; "max_batch_bytes"; "plan_hash", "fingerprint",
        "content_revision" and "decoder_digest"; "pipeline", the resolved PipelineSpec as text;
        "sources" of a mixture; and "tensors", for each "name", "dtype" and "sample_shape" as sent,
        "num_classes", "class_names", "view", and "cast": what the client computes, or None."""
        facts: dict[str, Any] = json.loads(json.dumps(self._opened()[1].facts))
        return facts

    @property
    def last_batch(self) -> BatchInfo | None:
        """Position and rows of the batch that was returned last. None: there was none."""
        return None if self._last_info is None else BatchInfo(*self._last_info)

    # ---- Looking closer ----------------------------------------------------------------------

    def stats(self) -> dict[str, Any]:
        """Counters since the loader was opened. {}: not open yet.

        A dict: "batches", "samples", "payload_bytes", "wire_bytes"; "wait_seconds", the time in which
        next() waited, and "first_batch_seconds"; "retried_steps", "hedged_steps", "hedge_wins",
        "extra_bytes"; "servers", "window", "window_changes", "window_reason"; and "by_server", the
        seconds that each server spent reading, decoding, augmenting and sending."""
        native, feeder = self._native, self._feeder  # another thread may be giving them up
        counters: dict[str, Any] = {} if native is None else json.loads(native.stats())
        if counters and feeder is not None:
            counters["batches"] -= feeder.batches_ahead
            counters["samples"] -= feeder.samples_ahead
        return counters

    def where_the_time_went(self) -> str:
        """One line that says why the program waited since the last call of this method."""
        native = self._native
        return "the loader is not open" if native is None else native.where_the_time_went()

    @_values.named_arguments("Loader.replay")
    def replay(self, epoch: int, step: int, *, drawn: bool = False) -> Any:
        """This rank's batch of any position again, as an iteration returns it, with its tensors. The
        iteration of this loader is not disturbed: another connection asks for the one batch.

        Args:
          drawn: True: (batch, what `explain()` returns), with what was drawn for each row.

        Raises:
          InvalidArgumentError: a step past the end of its epoch.
        """
        self._check_usable()
        _values.flag("drawn", drawn)
        with self._beside(self._position(epoch, step)) as other:
            batch = next(iter(other))
            return (batch, other.explain(epoch, step)) if drawn else batch

    def _another(self, **changed: Any) -> Loader:
        """A loader with these arguments, but for those that are given, that is not open. A plain one,
        whatever this class is: a subclass may iterate in another way."""
        return Loader(**{**self._arguments, **changed})

    def _beside(self, position: Position, **shown: Any) -> Loader:
        """Another loader of the same batches, which begins at the position. `shown`: arguments that say
        how it shows them."""
        facts = self._opened()[1].facts
        rank, world_size = self._rank_and_world_size()
        other = self._another(window=2, window_bytes=None, batch_size=None, rank=rank, world_size=world_size,
                              global_batch_size=int(facts["batch_size"]), **shown)
        other._progress.jump(position)
        other._expected = _state.Expected.of(facts)  # files of this machine may have changed
        return other

    def _at_the_same_place(self) -> Loader:
        """A loader like this one that is not open and begins where this one would."""
        other = self._another()
        other._progress, other._expected = copy.copy(self._progress), self._expected
        return other

    @_values.named_arguments("Loader.preview")
    def preview(self, epoch: int = 0, step: int = 0, samples: int = 8, *,
                field: str | None = None) -> _preview.Preview:
        """Samples of this rank's batch of any position before and after the pipeline, with what was
        drawn for each. A notebook shows the pictures; `print()` writes the text, `.save("a.png")`
        and `.image` have the pictures alone. The iteration of this loader is not disturbed.

        Args:
          samples: the first rows of the batch, at most so many.
          field: the image to show. None: the first one.

        Raises:
          InvalidArgumentError: a step past the end of its epoch, or no such image.
        """
        self._check_usable()
        samples = _values.whole_number("samples", samples, 1)
        _values.optional_text("field", field)
        return _preview.make(self, self._position(epoch, step), samples, field)

    def explain(self, epoch: int, step: int) -> dict[str, Any]:
        """What was drawn for each sample of this rank's batch at a position, and where the sample is
        stored. Asks the servers, for at most 60 s.

        Raises:
          InvalidArgumentError: a step past the end of its epoch.
        """
        self._check_usable()
        position = self._position(epoch, step)
        native = self._opened()[0]
        drawn: dict[str, Any] = json.loads(_interruptible.call(
            lambda: native.explain(*position), native.cancel_explain))
        return drawn

    def _position(self, epoch: int, step: int) -> Position:
        """The position of a batch."""
        epoch, step = _values.epoch(epoch), _values.whole_number("step", step, 0)
        steps = len(self)
        if step >= steps:
            raise InvalidArgumentError(f"step={step}: an epoch has the steps 0 to {steps - 1}")
        return Position(epoch, step)

    def __repr__(self) -> str:
        state = "closed" if self._closed else "not open" if self._native is None else "open"
        return (f"millrace.Loader({self._arguments['endpoint']!r}, "
                f"{self._arguments['dataset']!r}, {state})")


class _Epoch(Iterator[Any]):
    """The batches of one epoch."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader
        self.here = Position(0, 0)  # the next batch; from the first next() on
        self.begun = False
        self.ended = False

    def __next__(self) -> Any:
        if self.ended:
            raise StopIteration
        try:
            return self._loader._next(self)
        except CancelledError:
            if _exiting and threading.current_thread().daemon:
                # The interpreter ends: as other daemon threads, this one stops without a word.
                threading.Event().wait()
            raise
