"""A CUDA device for tests on machines that have none: what millrace._device calls of torch.cuda, over
memory of the host. Scripts of tests import it in the Python that has torch.

    import fake_cuda
    cuda = fake_cuda.install()      # one device, cuda:0

It is late on purpose. Work on a stream that a program makes is kept until somebody waits for it, and
memory is poisoned when it is allocated. So what is used before its event has passed has wrong values, and
`finish()` is the only other way in which time passes. The stream of the program is the default one: its
work runs at once, as torch runs work on the host.

What it is not: an allocator. Whether a tensor was recorded on the program's stream is in `calls`.
"""

import contextlib
import weakref
from collections import deque

import millrace._device as _device
import millrace._pinned as _pinned
import torch
from torch.utils._python_dispatch import TorchDispatchMode

_POISON = 0xA5


class Event:
    """A point in a stream."""

    def __init__(self, cuda, stream):
        self._cuda, self._stream = cuda, stream
        self.number = cuda.events = cuda.events + 1
        self.passed = False

    def query(self):
        return self.passed

    def synchronize(self):
        self._cuda.calls.append(("host waits", self.number))
        self._stream.run_to(self)


class Stream:
    """`name`: of the default one "program"."""

    def __init__(self, cuda, name):
        self._cuda, self.name = cuda, name
        self.work = deque()  # functions, and events

    def record_event(self):
        event = Event(self._cuda, self)
        self._cuda.calls.append(("record", self.name, event.number))
        self.work.append(event)
        return event

    def wait_event(self, event):
        assert not self.work, "only the stream of the program waits"
        self._cuda.calls.append(("wait", self.name, event.number))
        event._stream.run_to(event)

    def synchronize(self):
        self._cuda.calls.append(("host waits", self.name))
        self.run_to(None)

    def run_to(self, event):
        """Runs the work in order; None: all of it."""
        while self.work and not (event is not None and event.passed):
            work = self.work.popleft()
            if isinstance(work, Event):
                work.passed = True
            else:
                work()


class _Late(TorchDispatchMode):
    """Queues what changes memory, on a stream."""

    @classmethod
    def _should_skip_dynamo(cls):
        return False  # otherwise torch imports its compiler, which takes seconds

    def __init__(self, cuda, stream):
        super().__init__()
        self._cuda, self._stream = cuda, stream

    def __torch_dispatch__(self, function, types, arguments=(), named=None):
        named = named or {}
        if not function._schema.is_mutable:
            result = function(*arguments, **named)
            if function.overloadpacket in (torch.ops.aten.empty, torch.ops.aten.empty_like):
                self._cuda.allocated(result)
            return result
        copies_in = function is torch.ops.aten.copy_.default and named.get("non_blocking",
                                                                           arguments[2:3] == (True,))
        self._stream.work.append(self._copy(*arguments[:2]) if copies_in else
                                 lambda: function(*arguments, **named))
        return named.get("out", arguments[0])

    def _copy(self, target, source):
        self._cuda.calls.append(("copy", self._stream.name, target.nbytes))
        # A device does not keep memory of the host.
        memory = weakref.ref(source.untyped_storage())
        view = source.storage_offset(), source.shape, source.stride()
        dtype = source.dtype

        def run():
            if memory() is None:
                self._cuda.mistakes.append("memory of the host was free before it was copied")
                return
            target.copy_(torch.empty(0, dtype=dtype, device="cpu").set_(memory(), *view))
        return run


class Cuda:
    """The device, its `size` in bytes, and what was called."""

    def __init__(self):
        self.calls, self.mistakes = [], []
        self.events = 0
        self.size = 1 << 60
        self.streams = [Stream(self, "program")]
        self.current = self.streams[0]
        self._memory = []

    def stream(self, device=None):
        self.streams.append(Stream(self, f"stream {len(self.streams)}"))
        return self.streams[-1]

    @contextlib.contextmanager
    def on(self, stream):
        """As torch.cuda.stream()."""
        before, self.current = self.current, stream
        try:
            with contextlib.nullcontext() if stream is self.streams[0] else _Late(self, stream):
                yield
        finally:
            self.current = before

    def allocated(self, tensor):
        if self.bytes_in_use() + tensor.nbytes > self.size:
            raise torch.cuda.OutOfMemoryError(f"CUDA out of memory. Tried to allocate {tensor.nbytes} bytes.")
        storage = tensor.untyped_storage()
        storage.fill_(_POISON)
        self._memory.append(weakref.ref(storage))

    def has(self, tensor):
        """Whether it lies in memory of the device."""
        return any(memory() is tensor.untyped_storage() for memory in self._memory)

    def bytes_in_use(self):
        return sum(memory().nbytes() for memory in self._memory if memory() is not None)

    def finish(self):
        """The device has done everything."""
        for stream in self.streams:
            stream.run_to(None)

    def recorded(self, tensor):
        """Streams that the allocator was told of."""
        return [call[1] for call in self.calls if call[0] == "use" and call[2] == tensor.data_ptr()]


def install():
    """From now on torch has the device. Returns it."""
    cuda = Cuda()
    used = []
    torch.backends.cuda.is_built = lambda: True
    torch.cuda.is_available = lambda: True
    torch.cuda.is_initialized = lambda: bool(used)
    torch.cuda.init = lambda: used.append(True)
    torch.cuda.device_count = lambda: 1
    torch.cuda.current_device = lambda: 0
    torch.cuda.Stream = cuda.stream
    torch.cuda.stream = cuda.on
    torch.cuda.current_stream = lambda device=None: cuda.current
    torch.Tensor.record_stream = lambda self, stream: cuda.calls.append(
        ("use", stream.name, self.data_ptr()))
    _device._torch_device = lambda index: torch.device("cpu")
    _pinned._empty = lambda bytes: torch.empty(bytes, dtype=torch.uint8, device="cpu")
    return cuda
