"""device="cuda": batches that are copied to a CUDA device, and normalised there, ahead of the loop.

The images of a batch travel as bytes, over the network and to the device. A `Feeder` queues the copy of a
received batch, and what the pipeline leaves to the client, on a stream of its own. When the batch is
handed out, the program's stream waits for an event of that stream. The host waits for neither.

Memory on the device is that of torch's caching allocator; record_stream() tells it that the program's
stream uses a tensor. The host memory of a batch stays with the feeder until the event has passed.

It was not run on a GPU: the tests have a stand-in for torch.cuda.

torch is imported when a device is opened, not before.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import warnings
from collections import deque
from typing import TYPE_CHECKING, Any, Callable, Iterator, Mapping, NamedTuple, Protocol, Sequence

from millrace import _values
from millrace._convert import Converter
from millrace._local import Local
from millrace._position import Position
from millrace.errors import ArgumentError, Error, InvalidArgumentError

if TYPE_CHECKING:
    from millrace._millrace import Batch

_DEFAULT_PREFETCH = 2
# Kinds of torch.device that a program may copy batches to by itself.
_OTHER_DEVICES = ("hpu", "ipu", "maia", "meta", "mps", "mtia", "privateuseone", "vulkan", "xla", "xpu")

# Epoch, step, rows, rows with a sample of this rank, of all ranks.
Info = tuple[int, int, int, int, int]
# The batch of a position, if it can be had without waiting.
ReceiveReady = Callable[[Position], "Batch | None"]


class DeviceLike(Protocol):
    """A torch.device."""

    @property
    def type(self) -> str: ...

    @property
    def index(self) -> int | None: ...


@dataclasses.dataclass(frozen=True)
class Target:
    """A CUDA device that batches are copied to.

    Attributes:
      index: of the device. None: the one that is current when the loader is opened.
      prefetch: batches that are copied ahead of the loop.
    """

    index: int | None
    prefetch: int

    @property
    def name(self) -> str:
        """As torch has it, "cuda:1"."""
        return "cuda" if self.index is None else f"cuda:{self.index}"

    def check(self, tensor_type: str | None, local: Local | None) -> None:
        """Raises InvalidArgumentError when batches of the loader cannot be copied there."""
        if tensor_type not in (None, "torch"):
            raise InvalidArgumentError(
                f"device={self.name!r}: the tensors on a device are torch's, and tensor_type={tensor_type!r} "
                "asks for others; leave tensor_type= out, or leave device= out")
        if local is not None and local.steps:
            raise InvalidArgumentError(
                f"device={self.name!r}: the local transforms of the pipeline run on the host, after the copy "
                "would have been made; leave device= out and move batches in the loop, or translate without "
                "local=")

    def open(self) -> int:
        """The index of the device, which torch can use.

        Raises:
          InvalidArgumentError: there is no such device.
        """
        import torch  # type: ignore[import-not-found,unused-ignore]
        advice = "or leave device= out, and batches are in host memory"
        if not torch.backends.cuda.is_built():
            raise InvalidArgumentError(
                f"device={self.name!r}: torch {torch.__version__} is built without CUDA; install a build of "
                f"torch for CUDA (https://pytorch.org/get-started), {advice}")
        if not torch.cuda.is_available():
            raise InvalidArgumentError(
                f"device={self.name!r}: torch {torch.__version__} finds no CUDA device; check the driver with "
                f"`nvidia-smi`, and the environment variable CUDA_VISIBLE_DEVICES, {advice}")
        count = torch.cuda.device_count()
        if self.index is not None and self.index >= count:
            raise InvalidArgumentError(
                f"device={self.name!r}: torch finds {count} CUDA device{'s' if count > 1 else ''}, and the last "
                f"one is cuda:{count - 1}; choose one of them, {advice}")
        torch.cuda.init()
        return int(torch.cuda.current_device()) if self.index is None else self.index


def target_of(device: str | DeviceLike | None, prefetch: int | None) -> Target | None:
    """What device= and device_prefetch= ask for. None: batches stay in host memory.

    Raises:
      ArgumentError: a wrong type, or device_prefetch= without a device.
      InvalidArgumentError: a device that batches are not copied to, or a value out of range.
    """
    prefetch = _values.optional_whole_number("device_prefetch", prefetch, 1, 1024)
    if device is None:
        if prefetch is not None:
            raise ArgumentError(f"device_prefetch={prefetch}: the loader copies batches ahead to a device, and "
                                "none is named; add device=\"cuda\", or leave device_prefetch= out")
        return None
    kind, index = _kind_and_index(device)
    if kind == "cpu":
        return None
    if kind not in ("cuda", *_OTHER_DEVICES):
        raise InvalidArgumentError(
            f"device={str(device)!r}: torch has no such device; write device=\"cuda\" to have batches on the "
            "GPU, or leave device= out")
    if kind != "cuda":
        raise InvalidArgumentError(
            f"device={str(device)!r}: batches are copied to CUDA devices alone, \"cuda\" or \"cuda:1\"; leave "
            f"device= out and move batches in the loop, for example images.to({str(device)!r})")
    return Target(index, prefetch or _DEFAULT_PREFETCH)


def _kind_and_index(device: str | DeviceLike) -> tuple[str, int | None]:
    expected = "expected \"cuda\", \"cuda:1\", a torch.device, or None"
    if isinstance(device, str):
        parts = re.fullmatch(r"([a-z]+)(?::(0|[1-9][0-9]*))?", device)
        if parts is None:
            raise InvalidArgumentError(f"device={device!r}: {expected}")
        return parts[1], None if parts[2] is None else int(parts[2])
    kind, index = getattr(device, "type", None), getattr(device, "index", None)
    if not isinstance(kind, str) or not (index is None or isinstance(index, int)):
        raise ArgumentError(f"device={device!r}: {expected}")
    return kind, index


# Bits of the largest value of whole numbers.
_BITS = {"bool": 1, "int8": 7, "uint8": 8, "int16": 15, "uint16": 16, "int32": 31, "int64": 63}
_UNSIGNED = ("bool", "uint8", "uint16")


def computed(tensor: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """A tensor of the plan, when the device computes what the pipeline leaves to the client; else None.
    Whole numbers that may not fit into their type are left to the host, which reports them without
    waiting for the device."""
    cast = None if tensor is None else tensor["cast"]
    if tensor is None or cast is None:
        return None
    source, target = tensor["dtype"], cast["dtype"]
    if cast["scale"]:
        fits = source == "uint8" and target not in _BITS
    elif target in _BITS:
        fits = source in _BITS and _BITS[source] <= _BITS[target] and (
            source in _UNSIGNED or target not in _UNSIGNED)
    else:
        fits = True
    return tensor if fits else None


class _Cast:
    """TensorSpec.device_transform by operations of torch, as client/torch/torch_cast.h: (x * scale - mean) /
    stddev in float32, each operation rounded by itself, and then once to the result's type."""

    def __init__(self, tensor: Mapping[str, Any], device: Any) -> None:
        """On the stream that it is used on."""
        import torch
        cast = tensor["cast"]
        dims = len(tensor["sample_shape"])
        self._dtype = getattr(torch, cast["dtype"])
        self._shows_channels_first = tensor["view"] == "channels_first" and dims == 3

        def constants(values: Sequence[float]) -> Any:
            one = torch.tensor(values, dtype=torch.float32, device=device)
            return one.view(-1, *[1] * (dims - 1)) if cast["channels_first"] else one

        # On the host: kernels take it by value.
        self._scale = torch.tensor(cast["scale"], dtype=torch.float32, device="cpu") if cast["scale"] else None
        self._mean = constants(cast["mean"]) if cast["mean"] else None
        self._stddev = constants(cast["stddev"]) if cast["mean"] else None

    def __call__(self, tensor: Any) -> Any:
        """Of a tensor on the device; queued on the current stream."""
        import torch
        result = torch.empty_like(tensor, dtype=self._dtype)
        if self._scale is None:
            result.copy_(tensor)
        elif self._mean is None:
            torch.mul(tensor, self._scale, out=result)
        else:
            work = result if self._dtype == torch.float32 else torch.empty_like(tensor, dtype=torch.float32)
            torch.mul(tensor, self._scale, out=work)
            work.sub_(self._mean)
            torch.div(work, self._stddev, out=result)
        return result.permute(0, 3, 1, 2) if self._shows_channels_first else result


def _torch_device(index: int) -> Any:
    import torch
    return torch.device("cuda", index)


class _Copied(NamedTuple):
    info: Info
    tensors: list[Any]
    done: Any  # the event behind the last work for the tensors


class Feeder:
    """The batches of one open loader on a device. Batches are put in in their order and taken out in it."""

    def __init__(self, target: Target, index: int, steps_per_epoch: int,
                 tensors: Sequence[Mapping[str, Any] | None], convert: Converter) -> None:
        """
        Args:
          index: what target.open() has returned.
          tensors: for each tensor of a batch, what computed() has returned.
          convert: makes a host tensor of torch.
        """
        import torch
        self._process = os.getpid()
        self._ready: deque[_Copied] = deque()
        # Received after the batches of _ready, and not copied yet.
        self._uncopied: Batch | None = None
        # Host memory that the device may still read, until the event has passed. In the order of the stream.
        self._copying: deque[tuple[Any, list[Any]]] = deque()
        self._device = _torch_device(index)
        self._asked = target.prefetch
        self._prefetch = target.prefetch  # less, when the device has no memory
        self._steps_per_epoch = steps_per_epoch
        self._convert = convert
        self._stream = torch.cuda.Stream(self._device)
        with self._queueing():
            self._casts = [None if tensor is None else _Cast(tensor, self._device) for tensor in tensors]
        # Batches and rows with a sample that were received and not handed out, dropped ones included.
        self.batches_ahead = 0
        self.samples_ahead = 0

    def has(self, position: Position) -> bool:
        """Whether the next batch is that of the position. Otherwise there is none any more."""
        first: Info | Batch | None = self._ready[0].info if self._ready else self._uncopied
        if first is not None and first[:2] == position:
            return True
        self._drop()
        return False

    def put(self, batch: Batch) -> None:
        """There was no batch. It is copied by fill()."""
        self._uncopied = batch
        self._count(1, batch[3])

    def fill(self, receive: ReceiveReady) -> None:
        """Queues copies until `prefetch` batches are there besides the next one, or no more are ready.

        An error of `receive` belongs to a batch that the loop has not reached. It is dropped here: the loader
        raises it again when the loop asks for that batch.

        Raises:
          torch.cuda.OutOfMemoryError: there is no memory for the next batch. May be called again.
        """
        import torch
        while self._copying and self._copying[0][0].query():
            self._copying.popleft()
        while len(self._ready) <= self._prefetch:
            if self._uncopied is None:
                last = self._ready[-1].info
                position = Position(last[0], last[1] + 1)
                if position.step >= self._steps_per_epoch:
                    position = Position(last[0] + 1, 0)
                if position.epoch > _values.MAX_EPOCH:
                    return
                try:
                    batch = receive(position)
                except Error:
                    return
                if batch is None:
                    return
                self.put(batch)
            assert self._uncopied is not None
            try:
                copied = self._copy(self._uncopied)
            except torch.cuda.OutOfMemoryError as error:
                if not self._ready:
                    error.add_note(
                        f"millrace: no memory on {self._device} for a batch of the loader, which copies up to "
                        f"device_prefetch={self._asked} batches ahead of the loop: use a smaller "
                        "device_prefetch= or batch_size=")
                    raise
                # Not tried for every batch: torch gives all cached memory back each time.
                self._prefetch = len(self._ready) - 1
                warnings.warn(
                    f"millrace: {self._device} has no memory for device_prefetch={self._asked} batches ahead of "
                    f"the loop ({error}); this loader copies {self._prefetch} ahead from now on",
                    RuntimeWarning)
                return
            self._ready.append(copied)
            self._uncopied = None

    def take(self) -> tuple[Info, list[Any]]:
        """The next batch, which fill() has copied. Work that the program queues on its current stream from
        now on sees it."""
        import torch
        copied = self._ready[0]
        stream = torch.cuda.current_stream(self._device)
        stream.wait_event(copied.done)
        for tensor in copied.tensors:
            tensor.record_stream(stream)
        self._ready.popleft()
        self._count(-1, -copied.info[3])
        return copied.info, copied.tensors

    def close(self) -> None:
        """Drops what was not handed out. Waits for copies in flight: the memory that they read is given
        back. Any thread, while no other one is in another method."""
        self._drop()
        copying, self._copying = self._copying, deque()
        if os.getpid() != self._process:
            return  # CUDA does not work in a forked child
        with contextlib.suppress(RuntimeError):  # a device that has failed copies nothing
            for done, _ in copying:
                done.synchronize()

    def __del__(self) -> None:
        self.close()

    def _drop(self) -> None:
        # What is queued for these tensors runs on the stream whose memory they are: the allocator may give
        # it to the next batch at once.
        self._ready = deque()
        self._uncopied = None

    def _count(self, batches: int, samples: int) -> None:
        self.batches_ahead += batches
        self.samples_ahead += samples

    @contextlib.contextmanager
    def _queueing(self) -> Iterator[None]:
        """Work on tensors is queued on the feeder's stream. A batch may be used in another mode of torch than
        the one in which the program has asked for an earlier batch."""
        import torch
        with torch.inference_mode(False), torch.no_grad(), torch.cuda.stream(self._stream):
            yield

    def _copy(self, batch: Batch) -> _Copied:
        import torch
        sources = [self._convert(tensor) for tensor in batch[5]]
        tensors = []
        with self._queueing():
            try:
                for source, cast in zip(sources, self._casts):
                    tensor = torch.empty_like(source, device=self._device)
                    tensor.copy_(source, non_blocking=True)
                    tensors.append(tensor if cast is None else cast(tensor))
            finally:  # after an error, too, something may be queued
                done = self._stream.record_event()
                self._copying.append((done, sources))
        return _Copied(batch[:5], tensors, done)
