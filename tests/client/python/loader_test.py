"""millrace.Loader with NumPy alone, against a real server: batches, epochs, states, arguments and
errors."""

import json
import os
import struct
import subprocess
import textwrap
import zlib

import installed
from case import Case

# Common to the scripts.
_OPEN = """
import numpy, json
def loader(**named):
    named = {"pipeline": SPEC, "batch_size": 50, **named}
    return millrace.Loader(ENDPOINT, **named)
def digest(arrays):
    import hashlib
    whole = hashlib.sha256()
    for array in arrays:
        whole.update(numpy.ascontiguousarray(array).tobytes())
    return whole.hexdigest()[:16]
"""


class Batches(Case):

    def test_an_epoch_of_numpy_arrays(self):
        self.output_of(_OPEN + """
assert 'torch' not in sys.modules
one = loader()
assert len(one) == 41 and len(one.dataset) == 2030 and one.batch_size == 50
assert one.rank == 0 and one.world_size == 1 and one.global_batch_size == 50 and not one.drop_last
rows = 0
for step, (images, labels) in enumerate(one):
    assert isinstance(images, numpy.ndarray) and images.dtype == numpy.float32
    assert images.shape[1:] == (3, 64, 64), images.shape
    assert images.strides[1:] == (4, 64 * 3 * 4, 3 * 4)      # channels last
    assert labels.dtype == numpy.int64 and labels.shape == images.shape[:1]
    assert one.last_batch[:2] == (0, step) and one.last_batch.rows == len(labels)
    images[0, 0, 0, 0] = 7                                    # the memory is the program's
    rows += len(labels)
assert rows == 2030 and step == 40
""")

    def test_the_bytes_are_those_of_the_servers_and_the_transform_is_exact(self):
        # `millrace replay` writes the values that the server sent.
        spec = os.path.join(self.work, "spec.textproto")
        with open(spec, "w", encoding="utf-8") as file:
            file.write(installed.SPEC)
        replayed = os.path.join(self.work, "replayed")
        result = subprocess.run(
            ["client/cli/millrace", "replay", f"--endpoint={self.server.address}",
             f"--pipeline={spec}", "--batch_size=50", "--position=1:5", f"--output={replayed}"],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.output_of(_OPEN + """
import os
settings = dict(shuffle=None, drop_last=None, fields=["image", "label", "sample_index", "valid"])
raw = loader(apply_device_transform=False, **settings)
raw.seek(1, 5)
arrays = next(iter(raw))
for array, name in zip(arrays, settings["fields"]):
    sent = numpy.load(os.path.join(sys.argv[2], name + ".npy"))
    assert array.dtype == sent.dtype and array.shape == sent.shape, (name, array.dtype, sent.dtype)
    assert array.tobytes() == sent.tobytes(), name
ready = loader(**settings)
ready.seek(1, 5)
images, labels, index, valid = next(iter(ready))
one, mean, stddev = (numpy.array(v, numpy.float32) for v in
                     ([1 / 255], [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]))
expected = (arrays[0].astype(numpy.float32) * one - mean) / stddev
assert (images == expected.transpose(0, 3, 1, 2)).all()
assert (labels == arrays[1]).all() and (index == arrays[2]).all() and valid.all()
""", replayed)

    def test_kept_batches_stay_as_they_were(self):
        self.output_of(_OPEN + """
one = loader(window=2)
kept = list(one)                # far more than the window
again = [digest(batch) for batch in loader()]
assert [digest(batch) for batch in kept] == again
one.close()
del one
assert [digest(batch) for batch in kept] == again
assert len(set(again)) == 41
""")

    def test_labels_that_are_kept_do_not_keep_the_images(self):
        self.output_of(_OPEN + """
def rss():
    return [int(line.split()[1]) for line in open('/proc/self/status') if line.startswith('RssAnon')][0]
one = loader(apply_device_transform=False, window=4)
labels = [labels for images, labels in one]
before = rss()
for _ in range(8):
    labels += [labels for images, labels in one]
grown = rss() - before
assert grown < 20000, grown      # KiB; the images have 200 MB
""")

    def test_a_padded_last_batch_has_equally_many_rows_on_all_ranks(self):
        self.output_of(_OPEN + """
samples = []
for rank in range(2):
    one = loader(rank=rank, world_size=2, pad_last=True, fields=["label", "sample_index", "valid"])
    assert len(one) == 21 and len(one.dataset) == 2030 and one.drop_last is False
    for labels, index, valid in one:
        assert len(labels) == 50 and (labels[~valid] == -100).all() and (index[~valid] == -1).all()
        samples += index[valid].tolist()
    # Of the last 100 rows, 30 hold a sample: they are all the first rank's.
    assert one.last_batch == (0, 20, 50, 30 if rank == 0 else 0, 30)
assert sorted(samples) == list(range(2030))
""")

    def test_dicts_with_other_names(self):
        self.output_of(_OPEN + """
batch = next(iter(loader(output="dict", names={"image": "pixel_values"})))
assert list(batch) == ["pixel_values", "label"]
batch = next(iter(loader(output="dict", fields=["valid", "label"])))
assert list(batch) == ["valid", "label"] and batch["valid"].dtype == bool
assert len(next(iter(loader(fields="label")))) == 1
""")

    def test_dlpack_capsules_of_both_versions(self):
        self.output_of(_OPEN + """
image, label = next(iter(loader(tensor_type="dlpack")))
assert isinstance(image, millrace.Tensor) and image.name == "image" and image.dtype == "float32"
assert image.shape == (50, 3, 64, 64) and image.nbytes == 50 * 3 * 64 * 64 * 4
assert image.__dlpack_device__() == (1, 0)
assert '"dltensor"' in repr(image.__dlpack__())
assert '"dltensor"' in repr(image.__dlpack__(max_version=(0, 8)))
assert '"dltensor_versioned"' in repr(image.__dlpack__(max_version=(1, 0)))
array = numpy.from_dlpack(image)
assert (array == numpy.asarray(image)).all() and array.flags.writeable
array[0, 0, 0, 0] = 5
assert numpy.asarray(image)[0, 0, 0, 0] == 5                  # a view
view = memoryview(image)
assert view.format == "f" and view.shape == image.shape and not view.c_contiguous
for bad in (dict(stream=1), dict(dl_device=(2, 0)), dict(copy=True)):
    try:
        image.__dlpack__(**bad)
        raise SystemExit(f"{bad} was taken")
    except BufferError:
        pass
for bad in (dict(max_version=1), dict(max_version=("1", 0)), dict(dl_device=[1, 0]), dict(other=1)):
    try:
        image.__dlpack__(**bad)
        raise SystemExit(f"{bad} was taken")
    except TypeError:
        pass
try:
    bytes(image.__class__())
    raise SystemExit("a Tensor was made of nothing")
except TypeError:
    pass
del image
assert array[0, 0, 0, 0] == 5
""")

    def test_the_buffer_has_the_order_that_is_asked_for(self):
        self.output_of(_OPEN + installed.BUFFERS + """
image, label = next(iter(loader(tensor_type="dlpack")))
assert image.shape == (50, 3, 64, 64) and orders(image) == {"strides"}, orders(image)
assert orders(label) == set(ORDERS)                            # one dimension has all orders
raw, = next(iter(loader(tensor_type="dlpack", fields="image", apply_device_transform=False)))
assert orders(raw) == set(ORDERS) - {"F"}, orders(raw)
""")

    def test_ranks_share_each_batch(self):
        self.output_of(_OPEN + """
whole = next(iter(loader(fields=["sample_index"])))[0].tolist()
parts = []
for rank in range(2):
    one = loader(batch_size=25, rank=rank, world_size=2, fields=["sample_index"])
    assert len(one) == 41 and one.rank == rank and one.global_batch_size == 50
    parts += next(iter(one))[0].tolist()
assert parts == whole
parts = loader(batch_size=None, global_batch_size=50, rank=1, world_size=2)
assert parts.batch_size == 25
""")

    def test_a_rank_without_rows_is_refused(self):
        # 2030 samples in a batch of 2028 and one of 2: two of the four ranks would get none of it.
        self.output_of(_OPEN + """
def last(rank=0, world_size=4, **named):
    return loader(batch_size=507, rank=rank, world_size=world_size, fields=["label", "valid"], **named)
partial = SPEC + "last_batch: LAST_BATCH_PARTIAL"
for rank in range(4):                              # all of them, so that none waits for another one
    for named in (dict(), dict(pipeline=partial, drop_last=None)):
        for act in (lambda one: len(one), lambda one: next(iter(one)), lambda one: one.state_dict()):
            try:
                act(last(rank, **named))
                raise SystemExit(f"rank {rank} opens")
            except millrace.InvalidArgumentError as error:
                for part in ("2 samples for 4 ranks", "2030 samples", "batches of 2028", "2 of the ranks",
                             "NaN", "drop_last=True", "pad_last=True", "allow_uneven=True"):
                    assert part in str(error), error
def rows(**named):
    return [[len(labels) for labels, _ in last(rank, **named)] for rank in range(4)]
assert rows(allow_uneven=True) == [[507, 0], [507, 1], [507, 0], [507, 1]]
assert rows(drop_last=True) == rows(pipeline=SPEC, drop_last=None) == [[507]] * 4
assert rows(pad_last=True) == rows(pipeline=SPEC + "last_batch: LAST_BATCH_PAD", drop_last=None) == [[507, 507]] * 4
assert len(last(1, 2)) == 3, "1014, 1014 and 2 samples for two ranks"
assert sum(int(valid.sum()) for rank in range(4) for _, valid in last(rank, pad_last=True)) == 2030
""")

    def test_ranks_of_the_environment(self):
        self.output_of(_OPEN + """
assert loader().rank == 1 and loader().world_size == 2
one = loader(batch_size=25)
images, labels = next(iter(one))
assert len(labels) == 25 and one.last_batch.global_valid == 50
assert loader(rank=0, world_size=1).rank == 0
""", RANK="1", WORLD_SIZE="2")

    def test_order(self):
        self.output_of(_OPEN + """
def order(**named):
    return [i for batch in loader(fields=["sample_index"], **named) for i in batch[0].tolist()]
assert order() == list(range(2030))
shuffled = order(shuffle=True)
assert shuffled != order() and sorted(shuffled) == order()
assert order(shuffle=True, seed=5) != shuffled
assert len(order(drop_last=True)) == 2000
one = loader(shuffle=True, fields=["sample_index"])
first, second = (numpy.concatenate([b[0] for b in one]).tolist() for _ in range(2))
assert first == shuffled and second != first and sorted(second) == sorted(first)
""")


    def test_element_types(self):
        self.output_of(_OPEN + """
kinds = dict(UINT8="uint8", BOOL="bool", INT8="int8", INT16="int16", UINT16="uint16", INT32="int32",
             INT64="int64", FLOAT16="float16", FLOAT32="float32", FLOAT64="float64",
             BFLOAT16="bfloat16")
spec = "sources { synthetic { samples: 40 seed: 1 " + "".join(
    f'fields {{ name: "{name}" dtype: DTYPE_{kind} shape: [70, 50] }} ' for kind, name in kinds.items()) + "} }"
tensors = next(iter(loader(pipeline=spec, batch_size=30, output="dict", tensor_type="dlpack")))
assert list(tensors) == list(kinds.values())
for name, tensor in tensors.items():
    assert tensor.dtype == name and tensor.shape == (30, 70, 50) and tensor.name == name
    tensor.__dlpack__()
    if name == "bfloat16":
        try:
            memoryview(tensor)
            raise SystemExit("bfloat16 is in a buffer")
        except BufferError as error:
            assert "bfloat16" in str(error) and "torch" in str(error)
        continue
    array = numpy.asarray(tensor)
    assert array.dtype == numpy.dtype(name) and array.dtype.num == numpy.dtype(name).num, name
    assert array.shape == (30, 70, 50) and array.size * array.itemsize == tensor.nbytes
try:
    loader(pipeline=spec, batch_size=30).open()
    raise SystemExit("NumPy has bfloat16")
except millrace.InvalidArgumentError as error:
    assert "bfloat16" in str(error)
one = loader(pipeline=spec, batch_size=30, fields=[n for n in kinds.values() if n != "bfloat16"])
assert [a.dtype for a in next(iter(one))] == [numpy.dtype(n) for n in kinds.values() if n != "bfloat16"]
""")

    def test_shared_memory_of_this_machine(self):
        self.output_of(_OPEN + """
whole = [digest(batch) for batch in loader(shuffle=True)]
one = loader(shuffle=True, same_host="require")
assert [digest(batch) for batch in one] == whole
assert sum(server["shared_batches"] for server in one.stats()["by_server"]) > 0, one.stats()
""")

    def test_a_server_that_dies(self):
        second = installed.Server(self.work)
        self.addCleanup(second.stop)
        self.output_of(_OPEN + """
import os, signal
whole = [digest(batch) for batch in loader(shuffle=True)]
one = millrace.Loader([ENDPOINT, sys.argv[2]], pipeline=SPEC, batch_size=50, shuffle=True, window=4)
got = []
for batch in one:
    got.append(digest(batch))
    if len(got) == 10:
        os.kill(int(sys.argv[3]), signal.SIGKILL)
assert got == whole
""", second.address, str(second.pid))

    def test_a_batch_that_an_interrupt_has_lost_is_received_again(self):
        self.output_of(_OPEN + """
one = loader(shuffle=True)
whole = [digest(batch) for batch in one]
one.set_epoch(0)
it = iter(one)
got = [digest(next(it)) for _ in range(3)]
one._native.next((), ())             # Ctrl-C after the call returned: nobody has the batch
one._native_next = None
got += [digest(batch) for batch in it]
assert got == whole
""")


class States(Case):

    def test_resuming_in_the_middle_and_at_the_ends(self):
        self.output_of(_OPEN + """
import itertools
def batches(one):
    while True:
        for batch in one:
            yield one.last_batch[:2], digest(batch)
whole = list(itertools.islice(batches(loader(shuffle=True)), 100))
for stop in (0, 1, 20, 40, 41, 60, 81, 82):
    one = loader(shuffle=True)
    got = list(itertools.islice(batches(one), stop))
    state = json.loads(json.dumps(one.state_dict()))
    for opened in (False, True):
        two = loader(shuffle=True)
        if opened:
            next(iter(two))
        two.load_state_dict(state)
        assert two.state_dict() == state
        got2 = got + list(itertools.islice(batches(two), 100 - stop))
        assert got2 == whole, (stop, opened)
""")

    def test_after_the_last_batch_and_after_stop_iteration(self):
        self.output_of(_OPEN + """
one = loader()
it = iter(one)
for _ in range(41):
    next(it)
before = one.state_dict()
assert next(it, None) is None
assert next(it, None) is None
after = one.state_dict()
assert (before["epoch"], before["step"]) == (0, 41) and (after["epoch"], after["step"]) == (1, 0)
two = loader()
two.load_state_dict(before)
assert sum(1 for _ in two) == 0 and sum(1 for _ in two) == 41 and two.last_batch.epoch == 1
two = loader()
two.load_state_dict(after)
assert sum(1 for _ in two) == 41 and two.last_batch.epoch == 1
two = loader()
two.load_state_dict({})
assert two.state_dict()["step"] == 0
""")

    def test_a_state_of_another_number_of_ranks(self):
        self.output_of(_OPEN + """
one = loader(shuffle=True, fields=["sample_index"])
it = iter(one)
for _ in range(7):
    next(it)
state = one.state_dict()
expected = next(it)[0].tolist()
parts = []
for rank in range(5):
    two = loader(shuffle=True, batch_size=10, rank=rank, world_size=5, fields=["sample_index"])
    two.load_state_dict(state)
    parts += next(iter(two))[0].tolist()
assert parts == expected
""")

    def test_another_plan_is_refused(self):
        self.output_of(_OPEN + """
state = loader().state_dict()
refused(lambda: loader(batch_size=60).load_state_dict(state), ValueError, "global_batch_size=50")
opened = loader(batch_size=None, global_batch_size=60).open()
refused(lambda: opened.load_state_dict(state), ValueError, "global_batch_size=50")
opened = loader(seed=4).open()
refused(lambda: opened.load_state_dict(state), millrace.FailedPreconditionError, "plan_hash")
unopened = loader(seed=4)
unopened.load_state_dict(state)
refused(unopened.open, millrace.FailedPreconditionError, "plan")
refused(lambda: loader().load_state_dict({"version": 9}), ValueError, "version")
refused(lambda: loader().load_state_dict({**state, "step": -1}), ValueError, "step")
refused(lambda: loader().load_state_dict({**state, "epoch": "x"}), ValueError, "whole number")
refused(lambda: loader().load_state_dict({"version": 1}), ValueError, "state_dict()")
""")

    def test_a_newer_iteration_replaces_the_older(self):
        self.output_of(_OPEN + """
one = loader()
old = iter(one)
iter(one)                       # only to look
next(old); next(old)
assert one.last_batch[:2] == (0, 1)
new = iter(one)
next(new)
assert one.last_batch[:2] == (1, 0)
try:
    next(old)
    raise SystemExit("the old iterator goes on")
except millrace.FailedPreconditionError as error:
    assert "replaced" in str(error)
one.set_epoch(9); one.sampler.set_epoch(4)
next(iter(one))
assert one.last_batch[:2] == (4, 0)
one.seek(2, 41)
assert list(one) == []
""")

    def test_set_epoch_leaves_a_running_iteration_alone(self):
        # As torch's samplers: the epoch is that of the next iteration.
        self.output_of(_OPEN + """
def epochs(batches):
    return [one.last_batch[:2] for _ in batches]
one = loader()
it = iter(one)
next(it)
one.set_epoch(3)
assert epochs(it) == [(0, step) for step in range(1, 41)]
assert one.state_dict()["epoch"] == 3 and one.state_dict()["step"] == 0
assert epochs(one) == [(3, step) for step in range(41)]
seen = []
for _ in one:
    seen.append(one.last_batch[:2])
    one.set_epoch(7)
assert seen == [(4, step) for step in range(41)]
assert epochs(one)[0] == (7, 0)
it = iter(one)
next(it)
one.set_epoch(9)
assert next(it) and one.state_dict()["epoch"] == 8 and one.state_dict()["step"] == 2
assert epochs(one)[0] == (9, 0)
one.seek(5, 40)
one.set_epoch(5)                # keeps the step
assert epochs(one) == [(5, 40)]
""")

    def test_an_epoch_is_continued_after_an_error(self):
        self.output_of(_OPEN + """
class Stop(Exception):
    pass
one = loader()
seen = []
try:
    for _ in one:
        seen.append(one.last_batch[:2])
        if len(seen) == 5:
            raise Stop
except Stop:
    one.load_state_dict(one.state_dict())
for _ in one:
    seen.append(one.last_batch[:2])
assert seen == [(0, step) for step in range(41)], seen
""")

    def test_a_loader_that_is_not_open_is_pickled(self):
        self.output_of(_OPEN + """
import pickle, copy
one = loader(shuffle=True, names={"image": "x"}, output="dict")
one.set_epoch(3)
two = pickle.loads(pickle.dumps(one))
three, two_copy = copy.deepcopy(one), copy.copy(one)
assert digest(next(iter(two)).values()) == digest(next(iter(one)).values())
assert digest(next(iter(three)).values()) == digest(next(iter(pickle.loads(pickle.dumps(two_copy)))).values())
assert two.last_batch[:2] == three.last_batch[:2] == (3, 0)
try:
    pickle.dumps(one)
    raise SystemExit("an open loader was pickled")
except millrace.FailedPreconditionError as error:
    assert "open loader" in str(error)
    text = pickle.dumps(error)
error = pickle.loads(text)
assert type(error) is millrace.FailedPreconditionError and "open loader" in str(error)
""")

    def test_stats_and_explanations(self):
        self.output_of(_OPEN + """
with loader() as one:
    assert one.stats() == {}
    batches = sum(1 for _ in one)
    stats = one.stats()
    assert stats["batches"] == batches == 41 and stats["samples"] == 2030
    assert "wait" in one.where_the_time_went()
    drawn = one.explain(0, 3)
    assert drawn["step"] == 3 and len(drawn["samples"]) == 50
    assert one.plan["tensors"][0]["name"] == "image"
    it = iter(one)
    for _ in range(5):
        batch = next(it)
    again = one.replay(1, 4)
    assert one.last_batch[:2] == (1, 4) and digest(again) == digest(batch)
    both, told = one.replay(1, 4, drawn=True)
    assert digest(both) == digest(batch) and told == one.explain(1, 4)
    assert [row["row"] for row in told["samples"]] == list(range(50)) and told["samples"][0]["drawn"]
    assert digest(one.replay(1, 3)) != digest(batch)
    try:
        one.replay(1, 41)
        raise SystemExit("a step too many")
    except ValueError as error:
        assert "0 to 40" in str(error)
    next(it)
    assert one.last_batch[:2] == (1, 5)
    assert "open" in repr(one)
assert one.stats()["batches"] == 41 + 6
try:
    next(iter(one))
    raise SystemExit("a closed loader gives batches")
except millrace.CancelledError:
    pass
one.close()
""")


class Arguments(Case):

    # What cannot be, and what the sentence must have.
    _REFUSED = (
        ("num_workers=4", TypeError, "num_workers=4"),
        ("collate_fn=len", TypeError, "fields="),
        ("sampler=[1]", TypeError, "shuffle="),
        ("batch_sampler=[1]", TypeError, "batch_size="),
        ("pin_memory='yes'", TypeError, "pin_memory='yes'"),
        ("pin_memory=True, tensor_type='numpy'", ValueError, "tensor_type=\"torch\""),
        ("worker_init_fn=len", TypeError, "seed="),
        ("generator=1", TypeError, "seed="),
        ("prefetch_factor=2", TypeError, "window="),
        ("persistent_workers=True", TypeError, "worker"),
        ("device=1", TypeError, "expected \"cuda\""),
        ("device='mps'", ValueError, "images.to('mps')"),
        ("device='cuda', tensor_type='numpy'", ValueError, "leave tensor_type= out"),
        ("device_prefetch=2", TypeError, "add device=\"cuda\""),
        ("shufle=True", TypeError, "did you mean shuffle"),
        ("frobnicate=1", TypeError, "frobnicate"),
        ("pad_last=1", TypeError, "pad_last=1"),
        ("pad_last=True, drop_last=True", ValueError, "pad_last=True and drop_last=True"),
        ("pad_last=True, drop_last=None", ValueError, "leave drop_last= out"),
        ("global_batch_size=50", ValueError, "cannot be used together"),
        ("batch_size=0", ValueError, "batch_size=0"),
        ("batch_size=1.5", ValueError, "whole number"),
        ("seed=-1", ValueError, "seed=-1"),
        ("rank=0", ValueError, "world_size="),
        ("rank=2, world_size=2", ValueError, "rank 2 of 2"),
        ("output='list'", ValueError, "tuple"),
        ("names={'image': 'x'}", ValueError, "output=\"dict\""),
        ("tensor_type='jax'", ValueError, "dlpack"),
        ("fields=[]", ValueError, "fields"),
        ("fields=['a', 'a']", ValueError, "twice"),
        ("pipeline='/does/not/exist'", ValueError, "/does/not/exist"),
        ("pipeline=' '", ValueError, "empty"),
        ("pipeline='bogus: 1'", ValueError, "bogus"),
        ("pipeline=None", ValueError, "dataset"),
        ("rank=0, world_size=3, batch_size=None, global_batch_size=50", ValueError, "3 ranks"),
    )
    # What the servers refuse when the loader is opened.
    _REFUSED_LATER = (
        ("fields=['nothing']", "millrace.Error", "nothing"),
        ("output='dict', names={'nothing': 'x'}", "millrace.NotFoundError", "nothing"),
        ("pipeline='no_such_preset', dataset='d'", "millrace.NotFoundError", "no_such_preset"),
        ("pin_memory=True", "millrace.InvalidArgumentError", "tensor_type='numpy'"),
        ("device='cuda'", "millrace.InvalidArgumentError", "torch cannot be imported"),
    )

    def _check(self, refused, act):
        cases = [(text, kind if isinstance(kind, str) else kind.__name__, part)
                 for text, kind, part in refused]
        self.output_of(_OPEN + """
for text, kind, part in json.loads(sys.argv[2]):
    try:
        one = eval(f"loader(**{{**dict({text})}})")
        if sys.argv[3] == "open":
            one.open()
    except Exception as error:
        assert isinstance(error, eval(kind)) and isinstance(error, millrace.Error), (text, repr(error))
        assert part in str(error), (text, str(error))
        assert error.status and error.detail is not None
    else:
        raise SystemExit(f"{text} was taken")
""", json.dumps(cases), act)

    def test_what_cannot_be_is_refused_at_once(self):
        self._check(self._REFUSED, "make")

    def test_what_the_servers_refuse_is_refused_by_open(self):
        self._check(self._REFUSED_LATER, "open")

    def test_values_of_torch_that_ask_for_nothing_are_taken(self):
        self.output_of(_OPEN + """
loader(num_workers=0, collate_fn=None, sampler=None, pin_memory=False, timeout=0,
       worker_init_fn=None, persistent_workers=False, prefetch_factor=None)
""")

    def test_data_in_the_place_of_an_endpoint(self):
        self.output_of(_OPEN + """
for endpoint in ("imagefolder:/data/train", "lmdb:/data/a.lmdb", "parquet:/data/*.parquet",
                 "tar:/data/{000..009}.tar?label_offset=-1", "tfrecord:/data/t-*", "mds:/data", "litdata:/data",
                 "csv:/data/labels.csv?label=class", "hdf5:/data/train.h5?label=y"):
    one = millrace.Loader(endpoint, batch_size=1)      # nothing is started before it is needed
    assert endpoint in repr(one)
    one.close()
assert "millrace._embedded" in sys.modules
millrace.Loader(["a:1", "b:2"], "d", batch_size=1)
""")

    def test_pipelines_by_file_text_and_name(self):
        path = os.path.join(self.work, "own.textproto")
        with open(path, "w", encoding="utf-8") as file:
            file.write(installed.SPEC)
        self.output_of(_OPEN + """
import pathlib
for pipeline in (sys.argv[2], pathlib.Path(sys.argv[2]), open(sys.argv[2]).read()):
    assert len(loader(pipeline=pipeline)) == 41
with open(sys.argv[2], "a") as file:
    file.write("bogus: 1")
try:
    loader(pipeline=sys.argv[2])
    raise SystemExit("taken")
except millrace.InvalidArgumentError as error:
    assert sys.argv[2] in str(error) and "bogus" in str(error), error
""", path)

    def test_no_server(self):
        self.output_of(_OPEN + """
one = millrace.Loader("127.0.0.1:1", "d", batch_size=1, open_timeout=0.5)
for _ in range(2):              # a later call tries again
    try:
        len(one)
        raise SystemExit("opened")
    except (ConnectionError, TimeoutError) as error:
        assert isinstance(error, millrace.Error) and "127.0.0.1:1" in str(error)
# Rank and number of ranks are known when the loader opens.
import os
os.environ.update(RANK="0", WORLD_SIZE="2")
odd = millrace.Loader("127.0.0.1:1", "d", global_batch_size=9)
try:
    odd.open()
    raise SystemExit("opened")
except millrace.InvalidArgumentError as error:
    assert "global_batch_size=9" in str(error) and "2 ranks" in str(error), error
# A server that takes connections and says nothing.
import socket
silent = socket.create_server(("127.0.0.1", 0))
slow = millrace.Loader(f"127.0.0.1:{silent.getsockname()[1]}", "d", batch_size=1, open_timeout=0.3, rank=0,
                       world_size=1)
try:
    slow.open()
    raise SystemExit("opened")
except millrace.UnavailableError as error:
    assert "--timeout" not in str(error), error
# A server that greets as HTTP/2 does, and answers no request.
import threading
busy, connections = socket.create_server(("127.0.0.1", 0)), []
def greet():
    while True:
        connections.append(busy.accept()[0])
        connections[-1].sendall(bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))    # SETTINGS, without any
threading.Thread(target=greet, daemon=True).start()
slow = millrace.Loader(f"127.0.0.1:{busy.getsockname()[1]}", "d", batch_size=1, open_timeout=1, rank=0,
                       world_size=1)
try:
    slow.open()
    raise SystemExit("opened")
except millrace.UnavailableError as error:
    assert "is connected and has not answered" in str(error), error
    assert str(error).endswith(", or give a larger open_timeout="), error
""")

    def test_names_of_torch_without_torch(self):
        self.output_of(_OPEN + """
from millrace import *
for name in ("DataLoader", "TrainerMixin"):
    try:
        getattr(millrace, name)
        raise SystemExit(f"{name} without torch")
    except ImportError as error:
        assert "install torch" in str(error) and f"millrace.{name}" in str(error), error
assert not hasattr(millrace, "NoSuchName") and "torch" not in sys.modules
""")

    def test_half_of_the_environment(self):
        self.output_of(_OPEN + """
try:
    loader().open()
    raise SystemExit("opened")
except millrace.InvalidArgumentError as error:
    assert "RANK" in str(error)
""", RANK="0")

    def test_numpy_that_is_missing(self):
        result = self.package.run(_OPEN.replace("import numpy, json", "import json") + """
try:
    loader().open()
except millrace.InvalidArgumentError as error:
    print(error)
""", self.server.address, numpy=False)
        self.assertIn("install numpy", result.stdout, result.stderr)


class Damaged(Case):
    """A folder of images, one of which does not decode."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        uri = _pack_images(cls.work, count=60, damaged=27)
        cls.damaged = installed.Server(cls.work, data=[f"--dataset=pictures={uri}"])
        cls.addClassCleanup(cls.damaged.stop)

    _SPEC = """
OWN = """ + repr("""
sources { dataset: "pictures" }
transforms { decode_image { } }
transforms { center_crop { height: 8 width: 8 } }
""") + """
def pictures(extra="", **named):
    return millrace.Loader(sys.argv[2], pipeline=OWN + extra, batch_size=5, **named)
"""

    def test_the_error_lasts_until_the_batch_is_left_out(self):
        self.output_of(_OPEN + self._SPEC + """
class Counted:
    # The native loader, with the positions that it is told.
    def __init__(self, native):
        self.native, self.seeks = native, []
    def seek(self, *position):
        self.seeks.append(position)
        self.native.seek(*position)
    def __getattr__(self, name):
        return getattr(self.native, name)
one = pictures(window=2).open()
one._native = Counted(one._native)
one.seek(0, 5)
it = iter(one)
def fails(it):
    try:
        next(it)
        raise SystemExit("a damaged image was delivered")
    except millrace.DataLossError as error:
        assert error.detail["sample"] == 27 and error.detail["dataset"] == "pictures", error.detail
fails(it)
fails(it)
assert one._native.seeks == [(0, 5)]
one.load_state_dict(one.state_dict())      # requests the batch again
fails(iter(one))
assert one._native.seeks == [(0, 5), (0, 5)]
one.seek(0, 6)
assert [one.last_batch.step for _ in one] == list(range(6, 12))
one.seek(0, 3)
assert next(iter(one)) and one.last_batch.step == 3
""", self.damaged.address)

    def test_the_code_of_the_documentation(self):
        with open("docs/python.md", encoding="utf-8") as file:
            text = file.read()
        code = text[text.index("    batches = iter(loader)\n    while True:"):]
        code = textwrap.dedent(code[:code.index("\n\n") + 1])
        output = self.output_of(_OPEN + self._SPEC + """
for window in (2, 8, 16) * 3:
    loader = pictures(window=window)
    steps = []
    def train(batch):
        steps.append(loader.last_batch.step)
""" + textwrap.indent(code, "    ") + """
    assert steps == [step for step in range(12) if step != 5], steps
""", self.damaged.address)
        self.assertIn("left out", output)

    def test_the_policies_of_the_pipeline(self):
        self.output_of(_OPEN + self._SPEC + """
for action, valid in (("SUBSTITUTE", 60), ("ZERO", 59)):
    one = pictures(f"bad_samples {{ action: {action} }}", fields=["image", "valid"])
    assert sum(int(mask.sum()) for image, mask in one) == valid
""", self.damaged.address)

    def test_the_shapes_of_images(self):
        self.output_of(_OPEN + self._SPEC + """
for extra, dtype, shape, view in (
        ("", "uint8", (5, 8, 8, 3), "as_stored"),
        ("transforms { to_dtype { dtype: DTYPE_FLOAT32 scale: true } }", "float32", (5, 8, 8, 3),
         "as_stored"),
        ("transforms { normalize { mean: [0.5, 0.5, 0.5] stddev: [0.2, 0.2, 0.2] } }", "float32",
         (5, 3, 8, 8), "channels_first")):
    one = pictures("bad_samples { action: ZERO }" + extra)   # its error may be early
    image = next(iter(one))[0]
    assert (image.dtype, image.shape) == (dtype, shape), (extra, image.dtype, image.shape)
    assert one.plan["tensors"][0]["view"] == view
""", self.damaged.address)


def _pack_images(work, count, damaged):
    """PNG files of 8 x 8 pixels, packed; returns the URI."""
    folder = os.path.join(work, "pictures", "one_class")
    os.makedirs(folder)
    for number in range(count):
        rows = b"".join(b"\0" + bytes([number] * 24) for _ in range(8))
        png = b"\x89PNG\r\n\x1a\n" + b"".join((
            _png_chunk(b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0)),
            _png_chunk(b"IDAT", zlib.compress(rows)), _png_chunk(b"IEND", b"")))
        if number == damaged:
            png = png[:33] + b"\xff" * 20
        with open(os.path.join(folder, f"{number:03}.png"), "wb") as file:
            file.write(png)
    uri = f"lmdb:{work}/pictures.lmdb"
    subprocess.run(["server/data_tool/millrace-data", "pack", "--format=imagefolder", "--no_decode",
                    f"--input={os.path.dirname(folder)}", f"--output={uri}"],
                   stdin=subprocess.DEVNULL, capture_output=True, check=True)
    return uri


def _png_chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


class Packed(Case):
    """Data of a file, and a preset."""
    packed = True

    def test_a_preset_and_an_audit(self):
        # Every sample once over two ranks, as `millrace audit` says of the same job.
        arguments = [f"--endpoint={self.server.address}", "--dataset=digits", "--preset=mnist",
                     "--batch_size=100", "--last_batch=partial"]
        result = subprocess.run(["client/cli/millrace", "audit", *arguments, "--world=2"],
                                stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.output_of(_OPEN + """
seen = []
for rank in range(2):
    one = millrace.Loader(ENDPOINT, "digits", "mnist", 50, rank=rank, world_size=2, shuffle=True,
                          fields=["sample_index", "image"])
    assert one.dataset.name == "digits" and len(one.dataset) == 20011
    for index, image in one:
        seen.extend(index.tolist())
        assert image.shape[1:] == (1, 28, 28)
assert sorted(seen) == list(range(20011))
""")
        self.assertIn("20,011", result.stdout)

    def test_the_dataset_s_own_preset(self):
        self.output_of(_OPEN + """
images, labels = next(iter(millrace.Loader(ENDPOINT, "digits", batch_size=10)))
assert images.shape == (10, 1, 28, 28) and images.dtype == numpy.float32
try:
    millrace.Loader(ENDPOINT, "digit", batch_size=10).open()
    raise SystemExit("taken")
except millrace.NotFoundError as error:
    assert "digits" in str(error), error
""")
