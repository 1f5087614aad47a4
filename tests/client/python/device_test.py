"""millrace.Loader with device="cuda", on a stand-in for torch.cuda (fake_cuda.py) whose copies are late on
purpose: order of calls, bytes, lifetimes of memory, positions, and what is refused."""

import os

from torch_case import TorchCase

_BEGIN = f"""
sys.path.insert(0, {os.path.dirname(os.path.abspath(__file__))!r})
""" + """
import gc, weakref
import millrace._device as _device
def same(one, other):
    return all(torch.equal(a, b) and a.dtype == b.dtype and a.stride() == b.stride()
               for x, y in zip(one, other, strict=True) for a, b in zip(x, y, strict=True))
def refused(act, kind, *parts):
    try:
        act()
    except kind as error:
        assert all(part in str(error) for part in parts), error
        return error
    raise SystemExit(f"{parts} was taken")
"""
_CUDA = _BEGIN + """
import fake_cuda
torch.set_num_threads(1)                # others would spin while they wait
cuda = fake_cuda.install()
def on_device(**named):
    return loader(device="cuda", **named)
def waits():
    return [call for call in cuda.calls if call[0] == "host waits"]
"""
# A feeder without a loader: its batches are at hand, as many as `ready` says.
_FEEDER = _CUDA + """
IMAGE = {"name": "image", "dtype": "uint8", "sample_shape": [4, 5, 3], "view": "channels_first",
         "cast": {"dtype": "float32", "scale": 1 / 255, "mean": [0.5, 0.4, 0.3], "stddev": [0.2, 0.3, 0.4],
                  "channels_first": False}}
STEPS = 5
feeder = _device.Feeder(_device.Target(None, 2), 0, STEPS, (IMAGE, None), lambda tensor: tensor)
sources = {}                            # weak: who keeps the memory of a batch?
ready = 99
def value_of(position):
    return (10 * position[0] + position[1]) % 251
def batch_of(position):
    torch_batch = [torch.full((7, 4, 5, 3), value_of(position), dtype=torch.uint8),
                   torch.arange(7)]
    sources[tuple(position)] = [weakref.ref(tensor.untyped_storage()) for tensor in torch_batch]
    return (*position, 7, 6, 6, tuple(torch_batch))
def receive(position):
    global ready
    if ready == 0:
        return None
    ready -= 1
    return batch_of(position)
def take(position):
    if not feeder.has(position):
        feeder.put(batch_of(position))
    feeder.fill(receive)
    return feeder.take()
def right(position, tensors):
    value = torch.tensor(float(value_of(position))) * torch.tensor(1 / 255)
    image = (value - torch.tensor([0.5, 0.4, 0.3])) / torch.tensor([0.2, 0.3, 0.4])
    return torch.equal(tensors[0], image.view(3, 1, 1).expand(7, 3, 4, 5)) and \\
        torch.equal(tensors[1], torch.arange(7)) and tensors[0].is_contiguous(memory_format=torch.channels_last)
def alive(position):
    return [memory() is not None for memory in sources[position]]
"""


class Order(TorchCase):
    """A feeder by itself."""

    def _check(self, code):
        self._run(_FEEDER + code + "\nassert not cuda.mistakes, cuda.mistakes\n")

    def test_copies_are_queued_ahead_and_the_stream_of_the_program_waits(self):
        self._check("""
info, tensors = take((0, 0))
assert info == (0, 0, 7, 6, 6) and right((0, 0), tensors)
image, label = 7 * 4 * 5 * 3, 7 * 8
queued = [("copy", "stream 1", image), ("copy", "stream 1", label)]
assert cuda.calls == [
    *queued, ("record", "stream 1", 1), *queued, ("record", "stream 1", 2), *queued, ("record", "stream 1", 3),
    ("wait", "program", 1), *[("use", "program", tensor.data_ptr()) for tensor in tensors]], cuda.calls
# The copies of the next batches have not run, and nobody waits for them.
assert [copied.done.query() for copied in feeder._ready] == [False, False]
cuda.calls.clear()
info, tensors = take((0, 1))
assert right((0, 1), tensors)
assert cuda.calls[:4] == [*queued, ("record", "stream 1", 4), ("wait", "program", 2)], cuda.calls
assert all(cuda.recorded(tensor) == ["program"] and cuda.has(tensor) for tensor in tensors)
""")

    def test_a_batch_has_wrong_values_when_nobody_waits(self):
        # The stand-in would show a missing wait.
        self._check("""
class Careless:
    name = "program"
    def wait_event(self, event):
        pass
torch.cuda.current_stream = lambda device: Careless()
assert not right((0, 0), take((0, 0))[1])
""")

    def test_the_stream_that_waits_is_the_one_of_each_next(self):
        self._check("""
take((0, 0))
other = cuda.stream()
with cuda.on(other):
    pass
torch.cuda.current_stream = lambda device: other
cuda.calls.clear()
info, tensors = take((0, 1))
assert ("wait", "stream 2", 2) in cuda.calls and cuda.recorded(tensors[0]) == ["stream 2"]
""")

    def test_batches_that_are_not_ready_are_not_waited_for(self):
        self._check("""
ready = 1
take((0, 0))
assert [copied.info[:2] for copied in feeder._ready] == [(0, 1)]
take((0, 1))                            # nothing is ahead: the loop waits for the next batch itself
assert not feeder._ready and not feeder.has((0, 2))
ready = 99
assert right((0, 2), take((0, 2))[1]) and len(feeder._ready) == 2 and not waits()
""")

    def test_memory_of_the_host_is_kept_until_the_event_has_passed(self):
        self._check("""
take((0, 0))
gc.collect()
assert alive((0, 1)) == alive((0, 2)) == [True, True]
take((0, 1))                            # the event of batch 0 has passed
gc.collect()
assert alive((0, 0)) == [False, False] and alive((0, 1)) == [True, True]
assert not feeder.has((0, 4))           # dropped before the copies have run
feeder.put(batch_of((0, 4)))
feeder.fill(receive)
gc.collect()
assert alive((0, 2)) == alive((0, 3)) == [True, True]
cuda.finish()
take((0, 4)), take((1, 0))
gc.collect()
assert alive((0, 2)) == alive((0, 3)) == [False, False]
""")

    def test_closing_waits_for_the_copies_and_gives_all_memory_back(self):
        self._check("""
_, kept = take((0, 0))
feeder.close()
gc.collect()
assert [number for _, number in waits()] == [1, 2, 3]
assert not any(sum(map(alive, sources), [])) and right((0, 0), kept)
del kept
gc.collect()
assert cuda.bytes_in_use() == 0, cuda.bytes_in_use()
feeder.close()                          # no effect
""")

    def test_a_forked_child_asks_the_device_nothing(self):
        self._check("""
take((0, 0))
cuda.calls.clear()
child = os.fork()
if child == 0:
    feeder.close()
    os._exit(len(cuda.calls))
assert os.waitpid(child, 0)[1] == 0
assert right((0, 1), take((0, 1))[1])
""")

    def test_a_device_that_has_failed_can_be_closed(self):
        self._check("""
take((0, 0))
def fails(self):
    raise RuntimeError("CUDA error: unspecified launch failure")
fake_cuda.Event.synchronize = fails
feeder.close()
""")

    def test_the_next_epoch_follows_and_the_last_one_has_none(self):
        self._check("""
for position in [(0, 0), (0, 1), (0, 2), (0, 3), (0, 4), (1, 0), (1, 1)]:
    assert feeder.has(position) == (position != (0, 0)), position
    assert right(position, take(position)[1])
last = 2**64 - 2
assert not feeder.has((last, 3))
feeder.put((last, *batch_of((9, 3))[1:]))
feeder.fill(receive)
assert [copied.info[:2] for copied in feeder._ready] == [(last, 3), (last, 4)]
""")

    def test_an_error_of_a_later_batch_comes_in_its_place(self):
        self._check("""
def damaged(position):
    if position >= (0, 2):
        raise millrace.DataLossError("a damaged sample")
    return batch_of(position)
receive = damaged
for position in [(0, 0), (0, 1)]:
    assert right(position, take(position)[1])
assert not feeder.has((0, 2))           # so the loader asks for it, waits, and raises the error
def interrupted(position):
    raise KeyboardInterrupt
receive = interrupted
refused(lambda: take((0, 2)), KeyboardInterrupt)
receive = batch_of
assert right((0, 2), take((0, 2))[1])   # received already
""")

    def test_counts_are_those_of_the_batches_that_were_handed_out(self):
        self._check("""
take((0, 0))
assert (feeder.batches_ahead, feeder.samples_ahead) == (2, 12)
assert not feeder.has((3, 0))           # dropped: nobody got them
assert (feeder.batches_ahead, feeder.samples_ahead) == (2, 12)
""")

    def test_no_memory_for_a_batch_ahead(self):
        self._check("""
one = 7 * 4 * 5 * 3 * 5 + 7 * 8         # bytes as sent and as computed, and labels
def use(position, room):
    cuda.finish()
    gc.collect()
    cuda.size = cuda.bytes_in_use() + room
    return take(position)
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    _, kept = use((0, 0), one + 100)    # for one batch
    assert right((0, 0), kept) and len(said) == 1, said
    text = str(said[0].message)
    assert said[0].category is RuntimeWarning and "device_prefetch=2" in text and "copies 0 ahead" in text, text
    for position in [(0, 1), (0, 2)]:   # in the loop itself, without a second warning
        _, tensors = use(position, one)
        assert right(position, tensors) and not feeder._ready
    assert len(said) == 1
error = refused(lambda: use((0, 3), 100), torch.cuda.OutOfMemoryError, "out of memory")
assert "smaller device_prefetch= or batch_size=" in error.__notes__[0], error.__notes__
del tensors, error
cuda.size = 1 << 60
assert right((0, 3), take((0, 3))[1])   # the program has made room: nothing is lost
""")

    def test_another_error_of_the_device_passes_through_and_loses_no_batch(self):
        self._check("""
original, left = torch.empty_like, 4
def fails(*arguments, **named):
    global left
    left -= 1
    if left < 0:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")
    return original(*arguments, **named)
torch.empty_like = fails
refused(lambda: take((0, 0)), RuntimeError, "illegal memory access")
torch.empty_like = original
for position in [(0, 0), (0, 1), (0, 2)]:
    assert feeder.has(position) and right(position, take(position)[1])
""")

    def test_batches_that_are_copied_in_inference_mode_can_be_trained_with(self):
        self._check("""
with torch.inference_mode():
    _, first = take((0, 0))
_, second = take((0, 1))
for tensors in (first, second):
    weight = torch.ones((), requires_grad=True)
    (tensors[0] * weight).sum().backward()
    assert not any(tensor.is_inference() or tensor.requires_grad for tensor in tensors)
""")

    def test_what_the_device_computes_and_what_the_host_checks(self):
        self._check("""
def on(source, target, scale=0):
    tensor = {"dtype": source, "cast": {"dtype": target, "scale": scale}}
    return _device.computed(tensor) is tensor
assert _device.computed(None) is None and _device.computed({"dtype": "int16", "cast": None}) is None
for source, target in (("int16", "int64"), ("uint8", "int16"), ("bool", "int8"), ("uint16", "int32"),
                       ("float64", "float16"), ("int64", "float32"), ("int8", "int8")):
    assert on(source, target), (source, target)
for source, target in (("int64", "int32"), ("uint8", "int8"), ("int8", "uint8"), ("int16", "uint16")):
    assert not on(source, target), (source, target)
assert on("uint8", "bfloat16", 1 / 255) and not on("int16", "float32", 1 / 255)
""")


class Loaders(TorchCase):
    """Against a server."""

    def _check(self, code, *arguments):
        return self._run(_CUDA + code + "\nassert not cuda.mistakes, cuda.mistakes\n", *arguments)

    def test_the_batches_are_those_of_the_host_bit_by_bit(self):
        self._check("""
SPEC = SPEC.replace("samples: 2030", "samples: 330")
def images_as(dtype):
    return SPEC + f"transforms {{ to_dtype {{ dtype: DTYPE_{dtype} }} }}"
KINDS = ["bool", "int8", "int16", "uint16", "int32", "int64", "float16", "float32", "float64", "bfloat16"]
every = "sources { synthetic { samples: 40 seed: 1 " + "".join(
    f'fields {{ name: "{name}" dtype: DTYPE_{name.upper()} shape: [7, 5] }} ' for name in KINDS) + "} }"
plain = SPEC.split("seed: 1")[0]        # without transforms
def cast(kind, target):
    return f'transforms {{ to_dtype {{ fields: "{kind}" dtype: DTYPE_{target} }} }}'
for named in (
        dict(), dict(shuffle=True, seed=7), dict(apply_device_transform=False), dict(pin_memory=False),
        dict(fields=["valid", "label", "image", "sample_index"], pad_last=True), dict(same_host="require"),
        dict(device_prefetch=1), dict(device_prefetch=7), dict(window=2), dict(rank=1, world_size=2),
        *[dict(pipeline=images_as(dtype)) for dtype in ("FLOAT16", "BFLOAT16", "FLOAT64")],
        dict(pipeline=plain + "transforms { to_dtype { dtype: DTYPE_FLOAT32 scale: true } }"),
        dict(pipeline=plain + "transforms { to_dtype { dtype: DTYPE_BFLOAT16 scale: true } }"),
        dict(pipeline=plain + "transforms { to_dtype { dtype: DTYPE_INT64 } }"),
        dict(pipeline=SPEC + 'outputs { field: "image" layout: NCHW } outputs { field: "label" }'),
        dict(pipeline=every, batch_size=15),
        dict(pipeline=every + cast("bool", "FLOAT32") + cast("int8", "FLOAT16") + cast("int16", "INT32")
             + cast("uint16", "FLOAT32") + cast("int32", "INT64") + cast("float16", "FLOAT32"), batch_size=15)):
    named = {"pipeline": SPEC, **named}
    host = list(loader(**{name: value for name, value in named.items() if name != "device_prefetch"}))
    device = list(on_device(**named))
    assert same(device, host), named
    assert all(cuda.has(tensor) and cuda.recorded(tensor) for batch in device for tensor in batch)
    cuda.calls.clear()
""")

    def test_dicts_under_other_names(self):
        self._check("""
batch = next(iter(on_device(output="dict", names={"image": "pixel_values"})))
assert list(batch) == ["pixel_values", "label"] and all(map(cuda.has, batch.values()))
""")

    def test_what_the_host_computes_is_copied_too(self):
        # As whole numbers that may not fit, which our servers do not send.
        self._check("""
original, few = _device.computed, SPEC.replace("samples: 2030", "samples: 330")
for left in ("image", "label"):
    _device.computed = lambda tensor: None if tensor["name"] == left else original(tensor)
    assert same(list(on_device(pipeline=few)), list(loader(pipeline=few)))
    copies = [call[2] for call in cuda.calls if call[0] == "copy"]
    assert copies[:2] == [50 * 64 * 64 * 3 * (4 if left == "image" else 1), 50 * (8 if left == "label" else 2)]
    cuda.calls.clear()
""")

    def test_epochs_positions_and_states_do_not_see_what_is_ahead(self):
        self._check("""
import json
import functools
@functools.cache
def host(epoch):
    one = loader(shuffle=True)
    one.set_epoch(epoch)
    return list(one)
one = on_device(shuffle=True)
assert len(one) == 41 and one.state_dict()["step"] == 0
it = iter(one)
got = []
for step in range(9):
    got.append(next(it))
    state = one.state_dict()
    assert (state["epoch"], state["step"]) == (0, step + 1) and one.last_batch[:2] == (0, step)
    counters = one.stats()
    assert (counters["batches"], counters["samples"]) == (step + 1, 50 * (step + 1)), counters
assert one._feeder._ready and same(got, host(0)[:9])
two = on_device(shuffle=True)
two.load_state_dict(json.loads(json.dumps(state)))
assert same(got + list(two), host(0))
assert same(list(two), host(1))         # the next epoch, of which batches are on the device
one.load_state_dict(one.state_dict())   # batches that are there may stay
assert same(list(one), host(0)[9:])
one.set_epoch(5)
assert same(list(one), host(5))
for step in (40, 3, 3, 4, 0):
    one.seek(1, step)
    it = iter(one)
    assert same([next(it)], host(1)[step:step + 1])
for step, batch in enumerate(one):      # left in the middle
    if step == 4:
        break
assert same(list(one), host(3)) and same([one.replay(1, 7)], host(1)[7:8]) and cuda.has(one.replay(1, 7)[0])
assert one.stats()["batches"] == 9 + 32 + 41 + 5 + 5 + 41
""")

    def test_other_ways_to_look_at_a_batch(self):
        self._check("""
one = on_device(shuffle=True, device_prefetch=3)
it = iter(one)
next(it)
assert "of 50 rows" in str(one.preview(0, 3)) and one.explain(0, 3)["rows"] == 50
assert one.where_the_time_went()
assert same([next(it)], list(loader(shuffle=True))[1:2])
""")

    def test_nothing_in_the_loop_waits_for_the_device(self):
        self._check("""
one = on_device()
rows = 0
for images, labels in one:
    rows += len(images)
assert rows == 2030 and not waits()
copies = [call for call in cuda.calls if call[0] == "copy"]
assert copies[0][2] == 50 * 64 * 64 * 3 and copies[1][2] == 50 * 2, copies[:2]    # as sent: bytes
one.close()
assert waits()
""")

    def test_memory_on_the_device_is_bounded(self):
        self._check("""
one = on_device(device_prefetch=2)
raw = 50 * (64 * 64 * 3 + 2)
made = 50 * (64 * 64 * 3 * 4 + 8)
for batch in one:
    cuda.finish()
    assert cuda.bytes_in_use() <= 3 * made, cuda.bytes_in_use() / made
del batch
one.close()
gc.collect()
assert cuda.bytes_in_use() == 0
""")

    def test_an_interrupt_anywhere_loses_no_batch(self):
        self._check("""
right = list(loader(shuffle=True))
places = {code: name for name, code in {
    "fill": _device.Feeder.fill.__code__, "take": _device.Feeder.take.__code__,
    "copy": _device.Feeder._copy.__code__, "put": _device.Feeder.put.__code__,
    "has": _device.Feeder.has.__code__, "receive": millrace.Loader._receive_from.__code__,
    "of the loader": millrace.Loader._take.__code__}.items()}
lines = 0
def trace(frame, event, argument):
    global lines
    if frame.f_code not in places:
        return None
    if event == "line":
        lines += 1
        if lines in stops:
            raise KeyboardInterrupt
    return trace
stops = set(range(40, 4000, 37))
one = on_device(shuffle=True)
it = iter(one)
got, interrupts = [], 0
sys.settrace(trace)
while True:
    try:
        got.append(next(it))
    except StopIteration:
        break
    except KeyboardInterrupt:
        interrupts += 1
        sys.settrace(trace)             # an exception in it has ended it
sys.settrace(None)
assert interrupts > 20 and same(got, right), (interrupts, len(got))
""")

    def test_closing_at_any_time(self):
        self._check("""
for number in range(15):
    one = on_device(window=4)
    it = iter(one)
    for _ in range(number % 4):
        next(it)
    take_while_closing(one, it)
    assert not one._feeder or not (one._feeder._ready or one._feeder._copying)
    refused(lambda: next(iter(one)), millrace.CancelledError, "closed")
with on_device() as one:
    next(iter(one))
    one.close()
    assert one.state_dict()["step"] == 1 and one.stats()["batches"] == 1
gc.collect()
cuda.calls.clear()
one = on_device()
next(iter(one))
del one                                 # without close(): the same
gc.collect()
assert waits()
one = on_device()
it = iter(one)
next(it)
child = os.fork()
if child == 0:
    cuda.calls.clear()
    one.close()
    os._exit(len(waits()))
assert os.waitpid(child, 0)[1] == 0
next(it)
""")

    def test_a_loader_that_is_not_open_can_be_copied(self):
        self._check("""
import pickle
one = pickle.loads(pickle.dumps(on_device(shuffle=True, device_prefetch=5)))
assert same([next(iter(one))], list(loader(shuffle=True))[:1]) and len(one._feeder._ready) <= 5
refused(lambda: pickle.dumps(one), millrace.FailedPreconditionError, "open loader")
""")

    def test_the_device_is_the_current_one_or_the_one_that_is_named(self):
        self._check("""
opened = []
plain = _device._torch_device
_device._torch_device = lambda index: opened.append(index) or plain(index)
torch.cuda.device_count, torch.cuda.current_device = lambda: 3, lambda: 2
for device in ("cuda", "cuda:1", torch.device("cuda"), torch.device("cuda", 1)):
    loader(device=device).open()
assert opened == [2, 1, 2, 1], opened
error = refused(loader(device="cuda:3").open, millrace.InvalidArgumentError, "cuda:3", "3 CUDA devices", "cuda:2")
torch.cuda.device_count = lambda: 1
refused(loader(device="cuda:3").open, millrace.InvalidArgumentError, "1 CUDA device,", "cuda:0")
""")

    def test_data_loader(self):
        self._check("""
one = millrace.DataLoader(ENDPOINT, pipeline=SPEC, batch_size=50, device="cuda", device_prefetch=1)
batches = list(one)
assert same(batches, list(loader())) and all(cuda.has(tensor) for tensor in batches[3])
again = millrace.DataLoader(dataset=one.dataset, batch_size=None)    # as Lightning makes one
assert cuda.has(next(iter(again))[0])
""")

    def test_what_cannot_be_on_a_device_is_refused(self):
        self._check("""
from millrace._local import Local
e = millrace.InvalidArgumentError
for name in ("numpy", "dlpack"):
    refused(lambda: on_device(tensor_type=name), e, name, "leave tensor_type= out")
local = Local("torchvision", (), (print,))
refused(lambda: _device.Target(None, 2).check(None, local), e, "local transforms", "leave device= out")
_device.Target(None, 2).check("torch", Local("torchvision", ()))
for name in ("mps", "xpu", "mps:0", "meta"):
    refused(lambda: loader(device=name), e, f".to('{name}')", "CUDA devices alone")
    refused(lambda: loader(device=torch.device(name)), e, name)
for name in ("gpu", "gpu:0", "nvidia"):
    error = refused(lambda: loader(device=name), e, name, 'write device="cuda"')
    assert ".to(" not in str(error), error
for bad in ("", "cuda:", "cuda:-1", "cuda:01", "CUDA", "cuda:1:2"):
    refused(lambda: loader(device=bad), e, repr(bad), "expected")
for bad in (0, 1.5, True, ["cuda"]):
    refused(lambda: loader(device=bad), millrace.ArgumentError, "expected")
for bad in (0, -1, 1025):
    refused(lambda: on_device(device_prefetch=bad), e, f"device_prefetch={bad}")
refused(lambda: on_device(device_prefetch=1.5), millrace.ArgumentError, "device_prefetch=1.5")
refused(lambda: loader(device_prefetch=2), millrace.ArgumentError, 'add device="cuda"')
# A program that has chosen the CPU: as without a device.
for name in ("cpu", "cpu:0", torch.device("cpu"), None):
    one = loader(device=name, **({} if name is None else {"device_prefetch": 3}))
    assert not cuda.has(next(iter(one))[0]) and one._feeder is None
""")


class Refusals(TorchCase):
    """Nothing stands in for torch.cuda here."""

    def test_a_machine_without_the_device(self):
        self._run(_BEGIN + """
e = millrace.InvalidArgumentError
if torch.cuda.is_available():
    raise SystemExit(0)                 # this machine has one
torch.backends.cuda.is_built = lambda: True
one = loader(device="cuda")             # may be made: nothing is asked of the device yet
refused(one.open, e, f"torch {torch.__version__} finds no CUDA device", "nvidia-smi", "CUDA_VISIBLE_DEVICES",
        "leave device= out")
torch.backends.cuda.is_built = lambda: False
refused(lambda: next(iter(one)), e, f"torch {torch.__version__} is built without CUDA", "install a build")
assert not one.stats()                  # no server was asked
""")
