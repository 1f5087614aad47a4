"""millrace.Loader with pin_memory=, over memory that torch allocates without a GPU: the same path as
with page-locked memory, down to the one call that makes it."""

from torch_case import TorchCase

_BEGIN = """
import gc, time, warnings, weakref
import millrace._pinned as pinned
made = []                             # (first address, bytes, the memory while somebody has it)
def empty(bytes):
    memory = torch.empty(bytes, dtype=torch.uint8)
    made.append((memory.data_ptr(), bytes, weakref.ref(memory.untyped_storage())))
    return memory
pinned._empty = empty
pinned._is_cuda_there = lambda: True
pinned._is_cuda_used = lambda: used
used = True
RAW = dict(apply_device_transform=False, window=2)
def blocks_of(tensor):
    # Of all that were made there; memory that nobody has may be made again.
    at = tensor.data_ptr()
    return [bytes for first, bytes, _ in made if first <= at and at + tensor.nbytes <= first + bytes]
def same(one, other):
    return all(torch.equal(a, b) and a.dtype == b.dtype and a.stride() == b.stride()
               for x, y in zip(one, other, strict=True) for a, b in zip(x, y, strict=True))
"""


class Pinned(TorchCase):

    def _check(self, code, *arguments):
        return self._run(_BEGIN + code, *arguments)

    def test_every_tensor_lies_in_memory_of_torch_and_keeps_its_values(self):
        self._check("""
KINDS = ["uint8", "bool", "int8", "int16", "uint16", "int32", "int64", "float16", "float32", "float64",
         "bfloat16"]
every = "sources { synthetic { samples: 400 seed: 1 " + "".join(
    f'fields {{ name: "{name}" dtype: DTYPE_{name.upper()} shape: [70, 50] }} ' for name in KINDS) + "} }"
for named in (dict(), RAW, dict(fields=["valid", "label", "image", "sample_index"]),
              dict(pipeline=every, batch_size=30), dict(batch_size=3000), dict(same_host="require")):
    plain = list(loader(pin_memory=False, **named))
    assert not made
    for wanted in (True, None):
        kept = list(loader(pin_memory=wanted, **named))
        assert same(kept, plain), named
        for tensor in (tensor for batch in kept for tensor in batch):
            assert blocks_of(tensor) and tensor._base is None and type(tensor) is torch.Tensor
    del kept, tensor
    made.clear()
""")

    def test_a_batch_is_received_into_the_memory_of_its_tensors(self):
        # The loader knows from the plan that tensors view batches, and offers no other memory.
        self._check("""
one = loader(**RAW)
size = one.plan["max_batch_bytes"]
direct = [max(blocks_of(images)) >= size for images, _ in [*one] + [*one]]
assert direct == [True] * 82, direct
# Also when the window grows while memory is made: what is made then is for the next call.
made.clear()
one = loader(apply_device_transform=False)
pinned._empty = lambda bytes: time.sleep(0.002) or empty(bytes)
direct = [max(blocks_of(images)) >= size for images, _ in [*one] + [*one]]
assert direct == [True] * 82, direct
pinned._empty = empty
# Memory is offered for batches that tensors view, and for no others.
for named, sizes in ((dict(fields=["label"]), {448, 256}), (dict(RAW, fields=["label"]), {128, 64})):
    made.clear()
    assert len(list(loader(**named))) == 41
    assert {bytes for _, bytes, _ in made} == sizes, made
# What is computed lies by itself, and so do small tensors: labels do not keep images.
made.clear()
assert len(list(loader())) == 41
assert {bytes for _, bytes, _ in made} == {50 * 3 * 64 * 64 * 4, 30 * 3 * 64 * 64 * 4, 448, 256}, made
""")

    def test_memory_is_filled_once_and_given_back(self):
        self._check("""
for named in ({}, RAW):
    made.clear()
    one = loader(shuffle=True, **named)
    kept = [[tensor.clone() for tensor in batch] for batch in one]
    one.set_epoch(0)
    held = list(one)                  # far more than the window, each in memory of its own
    one.set_epoch(1)
    for batch in one:
        pass
    assert same(held, kept)
    one.close()
    del one, batch
    gc.collect()
    assert same(held, kept)
    held_storages = {tensor.untyped_storage().data_ptr() for batch in held for tensor in batch}
    alive = [first for first, _, memory in made if memory() is not None]
    assert len(alive) <= len(held_storages), (len(alive), len(held_storages))
    del held
    gc.collect()
    assert not [first for first, _, memory in made if memory() is not None]
""")

    def test_a_loader_that_ends_in_the_middle_gives_its_memory_back(self):
        self._check("""
def alive():
    gc.collect()
    return [bytes for _, bytes, memory in made if memory() is not None]
for number in range(20):
    one = loader(**{**RAW, "window": 16})
    it = iter(one)
    for _ in range(3):
        next(it)
    take_while_closing(one, it)
    assert not alive(), alive()       # although the loader is still there
    one = loader(**RAW)
    it = iter(one)
    next(it); next(it); next(it)
    child = os.fork() if number == 0 else None
    if child == 0:
        del one, it                   # touches nothing of the parent
        gc.collect()
        os._exit(0)
    assert child is None or os.waitpid(child, 0)[1] == 0
    del one, it
    assert not alive(), alive()
""")

    def test_tensors_of_a_batch_are_independent(self):
        self._check("""
two = '''sources { synthetic { samples: 2000 seed: 1
  fields { name: "a" dtype: DTYPE_FLOAT32 shape: [70, 50] }
  fields { name: "b" dtype: DTYPE_FLOAT32 shape: [70, 50] } } }'''
*_, (a, b) = loader(pipeline=two, window=2)
assert a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()
before = b.clone()
weight = torch.ones((), requires_grad=True)
loss = (b * weight).sum()             # b is saved for the gradient
version = b._version
a += 1
assert b._version == version and torch.equal(b, before)
loss.backward()
assert torch.equal(weight.grad, before.sum())
""")

    def test_cuda_that_the_program_begins_to_use(self):
        self._check("""
used = False
one = loader(**RAW)
plain = list(loader(pin_memory=False, **RAW))
got = []
for step, batch in enumerate(one):
    got.append(batch)
    used = step >= 20
assert not any(blocks_of(images) for images, _ in got[:21])
assert all(blocks_of(images) for images, _ in got[21:]) and same(got, plain)
used = False
one.set_epoch(0)
assert same(list(one), plain) and len(list(one)) == 41
""")

    def test_memory_that_torch_does_not_have(self):
        self._check("""
left = 5
def fails(bytes):
    global left
    if left == 0:
        raise RuntimeError("CUDA error: out of memory")
    left -= 1
    return empty(bytes)
pinned._empty = fails
plain = list(loader(pin_memory=False, **RAW))
one = loader(pin_memory=True, **RAW)
it = iter(one)
got = []
def rest():
    for batch in it:
        got.append(batch)
refused(rest, millrace.ResourceExhaustedError, "out of memory", "window=")
assert 0 < len(got) < 41 and one.state_dict()["step"] == len(got)
left = 10**6
rest()                                # the iterator continues
assert same(got, plain)
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    left = 5
    assert same(list(loader(**RAW)), plain)
assert len(said) == 1 and "page-locked" in str(said[0].message), said
""")

    def test_what_cannot_be_pinned_is_refused(self):
        self._check("""
e = millrace.InvalidArgumentError
refused(lambda: loader(pin_memory=1), millrace.ArgumentError, "pin_memory=1")
for name in ("numpy", "dlpack"):
    refused(lambda: loader(pin_memory=True, tensor_type=name), e, name, "torch")
assert next(iter(loader(tensor_type="dlpack")))[0].memory() is None     # automatic: not there
pinned._is_cuda_there = lambda: False
refused(loader(pin_memory=True).open, e, "needs a CUDA device", "remove")
loader(device="cpu", pin_memory=False).open()
# What a program without CUDA gets; of torch itself, nothing stands in for anything.
import importlib
importlib.reload(pinned)
assert not torch.cuda.is_initialized()
assert pinned.Pinning(None, None, None).allocate() is None
""")

    def test_data_loader(self):
        self._check("""
one = millrace.DataLoader(ENDPOINT, pipeline=SPEC, batch_size=50, pin_memory=True)
assert one.pin_memory is True and not one.dataset._loader.stats()
images, labels = next(iter(one))
assert blocks_of(images) and blocks_of(labels)
again, _ = one.replay(0, 0)
assert torch.equal(again, images) and blocks_of(again)
assert "of 50 rows" in str(one.preview())
""")
