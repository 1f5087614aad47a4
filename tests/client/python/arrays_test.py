"""Arrays of the program in the place of an endpoint: batches are their rows, whatever happens to the
arrays, the program and the server; and arrays that cannot be batches are refused with a sentence."""

import os
import signal
import time
import unittest

from embedded_case import EmbeddedCase, shared_memory

_ARRAYS = """
import copy, numpy, pickle
N = 1003
images = (numpy.arange(N * 32 * 32 * 3) * 7 % 251).astype(numpy.uint8).reshape(N, 32, 32, 3)
labels = numpy.arange(N) * 3 % 10
both = {"image": images, "label": labels}
def load(data, **named):
    return millrace.Loader(data, **{"batch_size": 100, "tensor_type": "numpy", **named})
def epoch(one):
    batches = list(one)
    return tuple(numpy.concatenate([batch[i] for batch in batches]) for i in range(len(batches[0])))
def memory_files(pid="self"):
    folder = f"/proc/{pid}/fd"
    return [n for n in os.listdir(folder) if "memfd:millrace" in readlink(f"{folder}/{n}")]
def readlink(path):
    try:
        return os.readlink(path)
    except OSError:
        return ""
def maps(pid):
    with open(f"/proc/{pid}/maps") as file:
        return [line for line in file if "memfd:millrace" in line and " r--p " in line]
def until(true):
    for _ in range(600):
        if true():
            return
        time.sleep(0.05)
    raise SystemExit("it does not happen")
"""


class Arrays(EmbeddedCase):

    def _check(self, code, *arguments, **changed):
        return self._output_of(_ARRAYS + code, *arguments, **changed)

    # ---- Batches ---------------------------------------------------------------------------

    def test_an_epoch_in_order_is_the_arrays(self):
        self._check("""
one = load(both)
got_images, got_labels = epoch(one)
assert got_images.dtype == numpy.uint8 and (got_images == images).all()
assert got_labels.dtype == numpy.int64 and (got_labels == labels).all()
assert len(one) == 11 and len(one.dataset) == N
assert len(servers()) == 1
assert [tensor["name"] for tensor in one.plan["tensors"]][:2] == ["image", "label"]
assert repr(one).startswith("millrace.Loader(millrace.Arrays(image uint8 [1003, 32, 32, 3], label int64")
got, = epoch(load(both, fields="label"))
assert (got == labels).all()
""")

    def test_a_shuffled_epoch_has_every_sample_once_with_its_own_label(self):
        self._check("""
index = numpy.arange(N)
one = load({"index": index, "label": labels, "image": images}, shuffle=True, seed=5)
seen = []
for _ in range(2):
    got, got_labels, got_images = epoch(one)
    assert sorted(got) == list(range(N)) and list(got) != list(range(N))
    assert (got_labels == labels[got]).all() and (got_images == images[got]).all()
    seen.append(list(got))
assert seen[0] != seen[1]
# As any data set of as many samples: the order does not depend on where the data are.
again, = epoch(load({"x": index}, shuffle=True, seed=5))
assert list(again) == seen[0]
""")

    def test_every_type_and_shape(self):
        self._check("""
random = numpy.random.default_rng(1)
data = {}
for name in ("uint8", "int8", "int16", "uint16", "int32", "int64", "float16", "float32", "float64"):
    data[name] = (random.random((77, 3, 2)) * 100 - (0 if name[0] == "u" else 50)).astype(name)
data["bool"] = random.random(77) < 0.5
data["scalar"] = numpy.arange(77.0)
for name, got in zip(data, epoch(load(data, batch_size=10))):
    assert got.dtype == data[name].dtype and got.shape == data[name].shape, name
    assert (got == data[name]).all(), name
""")

    def test_memory_in_any_order(self):
        self._check("""
import array
x = numpy.arange(7000).reshape(100, 70)
read_only = x.copy()
read_only.flags.writeable = False
unaligned = numpy.frombuffer(b"x" + x.tobytes(), dtype=numpy.int64, offset=1).reshape(x.shape)
class Wrapped:
    def __array__(self, dtype=None, copy=None):
        return x
import millrace._arrays as of_package
of_package._PIECE_BYTES = 3000           # pieces of a few rows
for name, data in {"plain": x, "fortran": numpy.asfortranarray(x), "read only": read_only,
                   "big endian": x.astype(">i8"), "unaligned": unaligned, "wrapped": Wrapped(),
                   "slice": numpy.repeat(numpy.repeat(x, 2, 0), 3, 1)[::2, ::3],
                   "reversed": x[::-1].copy()[::-1], "buffer": memoryview(x),
                   "a cut buffer": memoryview(numpy.repeat(x, 2, 0))[::2]}.items():
    got, = epoch(load({"x": data}, batch_size=7))
    assert got.dtype == numpy.int64 and (got == x).all(), name
got, = epoch(load({"x": array.array("h", range(-50, 50))}))
assert got.dtype == numpy.int16 and (got == numpy.arange(-50, 50)).all()
numpy.savez(sys.argv[3] + "/both.npz", **both)
with numpy.load(sys.argv[3] + "/both.npz") as file:
    got_images, got_labels = epoch(load(file))
assert (got_images == images).all() and (got_labels == labels).all()
large = numpy.arange(90000).reshape(3, 30000)        # a sample is larger than a piece
got, = epoch(load({"x": large}, batch_size=1))
assert (got == large).all()
""", self.run_dir)

    def test_images_take_transforms(self):
        self._check("""
from millrace import transforms as T
got, got_labels = epoch(load(both, pipeline="cifar_eval"))
assert got.shape == (N, 3, 32, 32) and got.dtype == numpy.float32
mean, std = numpy.array([0.4914, 0.4822, 0.4465]), numpy.array([0.2470, 0.2435, 0.2616])
expected = ((images / 255 - mean) / std).transpose(0, 3, 1, 2)
assert numpy.abs(got - expected).max() < 1e-5 and (got_labels == labels).all()
got, _ = epoch(load(both, pipeline=millrace.Pipeline([T.RandomHorizontalFlip(p=1)])))
assert (got == images[:, :, ::-1]).all()
grey = {"image": images[:, :28, :28, :1], "label": labels}
got, _ = epoch(load(grey, pipeline="mnist"))
assert got.shape == (N, 1, 28, 28)
# MixUp needs the number of classes.
mixed = millrace.Pipeline([T.MixUp(), T.Normalize([0.5] * 3, [0.5] * 3)])
error = refused(load(both, pipeline=mixed).open, millrace.InvalidArgumentError, "number of classes",
                'give millrace.Arrays(..., classes={"label": N})', "or name the label")
assert "pack the dataset" not in str(error), error
# A mask has classes, and no levels.
masks = {**both, "mask": numpy.zeros((N, 32, 32, 1), numpy.int64)}
beside = millrace.Pipeline([T.RandomHorizontalFlip(fields=["image", "mask"])],
                           field_roles=millrace.FieldRole("mask", "mask"))
error = refused(lambda: load(masks, pipeline=beside), millrace.InvalidArgumentError, "array mask int64",
                "mask.astype(numpy.uint8)", "classes 0 .. 255")
assert "255)" not in str(error), error
masks["mask"] = masks["mask"].astype(numpy.uint8)
masks["mask"][:, :, 20:] = 2
pair, = load(masks, pipeline=beside).preview(samples=1, field="mask")._pairs
assert set(zip(*[iter(pair.before.rgb)] * 3)) == {(0, 0, 0), (60, 180, 75)}
refused(lambda: load(masks, pipeline=beside).preview(field="nope"), millrace.InvalidArgumentError,
        "the images: image, mask")
data = millrace.Arrays(both, classes={"label": 10})
_, got_labels = epoch(load(data, pipeline=mixed))
assert got_labels.shape == (N, 10) and numpy.allclose(got_labels.sum(1), 1)
named = millrace.Arrays(both, classes={"label": list("abcdefghij")})
assert load(named).plan["tensors"][1]["class_names"] == list("abcdefghij")
""")

    def test_pipelines_without_transforms(self):
        self._check("""
got, got_labels = epoch(load(both, pipeline=millrace.Pipeline([])))
assert got.dtype == numpy.uint8 and (got == images).all() and (got_labels == labels).all()
shuffled = millrace.Pipeline(shuffle="global")
given = load(both, pipeline=shuffled, shuffle=None, seed=5)
assert (epoch(given)[1] == epoch(load(both, shuffle=True, seed=5))[1]).all()
assert "row 0: sample" in str(load(both, pipeline=millrace.Pipeline([])).preview())
floats = {"image": images / numpy.float32(255)}
got, = epoch(load(floats, pipeline=millrace.Pipeline([])))
assert got.dtype == numpy.float32 and (got == floats["image"]).all()
""")

    def test_labels_are_int64(self):
        self._check("""
for name in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"):
    given = labels.astype(name)
    _, got = epoch(load({"image": images, "label": given}))
    assert got.dtype == numpy.int64 and (got == labels).all(), name
    data = millrace.Arrays({"y": given[::-1]}, classes={"y": 10})
    assert repr(data) == "millrace.Arrays(y int64 [1003])", data
    got, = epoch(load(data))
    assert got.dtype == numpy.int64 and (got == labels[::-1]).all(), name
negative = numpy.array([-100, 3, -1], dtype=numpy.int8)
got, = epoch(load({"label": negative}, batch_size=3))
assert got.dtype == numpy.int64 and got.tolist() == [-100, 3, -1]
# Types make no difference, and other arrays keep theirs.
with load({"label": labels}) as one, load({"label": labels.astype(numpy.uint8)}) as other:
    assert one.plan["fingerprint"] == other.plan["fingerprint"]
for name, data in {"label": labels * 0.5, "index": labels.astype(numpy.int32)}.items():
    got, = epoch(load({name: data}))
    assert got.dtype == data.dtype and (got == data).all(), name
got, = epoch(load({"label": numpy.ones((7, 2), dtype=numpy.int32)}, batch_size=7))
assert got.dtype == numpy.int32
before = memory_files()
large = numpy.array([1, 2**63], dtype=numpy.uint64)
refused(lambda: load({"label": large}), millrace.InvalidArgumentError, "'label'",
        "label 9223372036854775808 in row 1")
assert memory_files() == before
import array
got, = epoch(load({"label": array.array("b", [-1, 5])}, batch_size=2))
assert got.dtype == numpy.int64 and got.tolist() == [-1, 5]
""")

    def test_boxes(self):
        self._check("""
from millrace import transforms as T
def moved(boxes, *transforms, **named):
    roles = millrace.FieldRole("boxes", "boxes_xyxy")
    pipeline = millrace.Pipeline(list(transforms), field_roles=roles, **named)
    return load({"image": images[:4], "boxes": boxes}, pipeline=pipeline, batch_size=4)
fields = ["image", "boxes"]
boxes = numpy.tile(numpy.array([[-3, 2, 40, 8], [0, 0, 0, 0]], dtype=numpy.float32), (4, 1, 1))
_, got = epoch(moved(boxes, T.RandomHorizontalFlip(1.0, fields=fields)))
assert (got[0] == [[-8, 2, 35, 8], [0, 0, 0, 0]]).all(), got           # as torchvision: not clamped
_, got = epoch(moved(boxes, T.Pad(1, fields=fields)))
assert (got[0] == [[0, 3, 34, 9], [0, 0, 0, 0]]).all(), got
for side in (numpy.nan, numpy.inf):
    bad = boxes.copy()
    bad[2, 1, 3] = side
    error = refused(lambda: epoch(moved(bad, T.RandomHorizontalFlip(1.0, fields=fields))),
                    millrace.DataLossError, "box 1 is [0, 0, 0, ", "finite")
    assert error.detail["sample"] == 2, error.detail
    one = moved(bad, T.RandomHorizontalFlip(1.0, fields=fields), bad_samples="zero")
    assert (epoch(one)[1][[0, 1, 3]] == [[-8, 2, 35, 8], [0, 0, 0, 0]]).all()
""")

    def test_pipelines_that_arrays_do_not_fit(self):
        self._check("""
from millrace import transforms as T
bad = millrace.InvalidArgumentError
flip, normal = T.RandomHorizontalFlip(), T.Normalize([0.5] * 3, [0.5] * 3)
first = {"image": images.transpose(0, 3, 1, 2)}
for given in (millrace.Pipeline([flip]), millrace.Pipeline([normal]), millrace.Pipeline(preset="mnist"),
              "cifar_train", millrace.Pipeline([flip, normal])):
    refused(lambda: load(first, pipeline=given), bad, "[1003, 3, 32, 32] looks like images [N, C, H, W]",
            "transpose(0, 2, 3, 1)")
# A text is looked at when it is opened: the servers would flip it upside down.
for text in ("transforms { horizontal_flip {} }", "transforms { grayscale {} }"):
    refused(load(first, pipeline=text).open, bad, "looks like images [N, C, H, W]")
assert servers() and (epoch(load(first, pipeline=millrace.Pipeline([])))[0] == first["image"]).all()
refused(lambda: load({"image": images[..., 0]}, pipeline="mnist"), bad, "[1003, 32, 32]", "images[..., None]")
for data in (images / 255, (images / 255).astype(numpy.float32)):
    for given in (millrace.Pipeline([flip]), millrace.Pipeline([normal]), "cifar_train"):
        refused(lambda: load({"image": data}, pipeline=given), bad, f"image {data.dtype} [1003, 32, 32, 3]",
                "uint8 of 0 .. 255", "(images * 255).round()")
refused(lambda: load(both, pipeline=millrace.Pipeline([T.DecodeImage(), flip])), bad, "'image'",
        "leave DecodeImage out")
# Not what only works on other arrays.
two = {**first, "other": images}
got, _ = epoch(load(two, pipeline=millrace.Pipeline([T.RandomHorizontalFlip(1.0, fields="other")])))
assert (got == first["image"]).all()
normal = millrace.Pipeline([T.Normalize([0.0] * 3, [1.0] * 3, fields="x")])
got, = epoch(load({"x": images[:, 0, 0]}, pipeline=normal))
assert numpy.allclose(got, images[:, 0, 0] / 255)
""")

    def test_batches_larger_than_the_arrays(self):
        self._check("""
small = {"x": numpy.arange(5)}
error = refused(load(small, drop_last=True).open, millrace.InvalidArgumentError, "100", "5 samples",
                "drop_last=True", "give drop_last=False, or a smaller batch_size")
assert "last_batch" not in str(error) and "DROP" not in str(error), error
error = refused(load(small, drop_last=None).open, millrace.InvalidArgumentError,
                "the pipeline (drop_last=None)")
assert "last_batch" not in str(error), error
assert len(load(small)) == 1
""")

    def test_equal_arrays_are_one_data_set_for_checkpoints(self):
        self._check("""
with load(both) as one:
    first = one.plan["fingerprint"]
with load({"image": numpy.asfortranarray(images), "label": labels.astype(">i8")}) as other:
    assert other.plan["fingerprint"] == first
for changed in ({"image": images, "label": labels[::-1]}, {"image": images},
                {"label": labels, "image": images}, {"image": images, "labels": labels},
                {"image": images, "label": labels * 1.0}):
    with load(changed) as other:
        assert other.plan["fingerprint"] != first
whole = [batch[1].tolist() for batch in load(both, shuffle=True)]
before = load(both, shuffle=True)
iterator = iter(before)
next(iterator), next(iterator)
state = before.state_dict()
before.close()
after = load({name: array.copy() for name, array in both.items()}, shuffle=True)
after.load_state_dict(state)
assert [batch[1].tolist() for batch in after] == whole[2:]
def resumed(data, opened):
    one = load(data, shuffle=True)
    if opened:
        one.open()
    one.load_state_dict(state)
    one.open()
# Other values, and the same samples in another order.
order = numpy.roll(numpy.arange(N), 1)
for other in ({"image": images, "label": labels + 1}, {"image": images[order], "label": labels[order]}):
    refused(lambda: resumed(other, False), millrace.FailedPreconditionError, "fingerprint",
            "the order of their rows")
    refused(lambda: resumed(other, True), millrace.FailedPreconditionError, "fingerprint",
            "the samples another order")
""")

    # ---- Time ------------------------------------------------------------------------------

    def test_arrays_that_change_afterwards_do_not_change_batches(self):
        self._check("""
expected = images.copy(), labels.copy()
one = load(both)
images[:] = 0                             # before it is opened
labels[:] = 0
assert all((x == y).all() for x, y in zip(epoch(one), expected))
images[:] = 1                             # and afterwards
os.kill(servers()[0], signal.SIGKILL)
assert all((x == y).all() for x, y in zip(epoch(one), expected))
shared = millrace.Arrays({"image": expected[0]})
mine = expected[0].copy()
expected[0][:] = 2
assert (epoch(load(shared))[0] == mine).all() and (epoch(load(shared))[0] == mine).all()
""")

    def test_a_server_that_is_killed_in_a_loop_leaves_no_trace_in_the_batches(self):
        self._check("""
one = load(both, window=2)
got = []
for number, (_, some) in enumerate(one):
    got += some.tolist()
    if number in (3, 7):
        os.kill(servers()[0], signal.SIGKILL)
assert got == labels.tolist()
assert (one.replay(0, 4)[1] == labels[400:500]).all()
assert "row 1: sample 1 " in str(one.preview(0, 0, 2))
""")

    # ---- Sharing, and what is left ---------------------------------------------------------

    def test_loaders_share_one_copy(self):
        self._check("""
server = lambda: servers()[0]
data = millrace.Arrays(both)
assert len(memory_files()) == 1
train, test = load(data, shuffle=True).open(), load(data).open()
assert len(memory_files()) == 1 and len(maps(server())) == 1
assert train.plan["fingerprint"] == test.plan["fingerprint"]
epoch(train), epoch(test)
# Equal arrays of another loader: one data set, and the server maps them once.
third = load({name: array.copy() for name, array in both.items()}).open()
until(lambda: len(maps(server())) == 1)
assert third.dataset.name == "memory:image,label"
train.close(), test.close()
assert (epoch(third)[1] == labels).all() and len(maps(server())) == 1
third.close()
until(lambda: not maps(server()))         # at once: the memory is the program's
""", MILLRACE_SERVER_FLAGS="--lease_timeout=60s")

    def test_ranks_share_a_data_set(self):
        code = _ARRAYS + """
one = load(both, shuffle=True, batch_size=50)
got = [label.tolist() for _, label in one]
print(one.plan["fingerprint"], len(servers()), got, flush=True)
sys.stdin.readline()
"""
        ranks = [self._start(code, RANK=str(rank), WORLD_SIZE="2") for rank in range(2)]
        self.addCleanup(lambda: [rank.kill() for rank in ranks])
        lines = [rank.stdout.readline() for rank in ranks]
        errors = [rank.communicate("\n")[1] for rank in ranks]
        (first, one, *some), (second, other, *rest) = (line.split(" ", 2) for line in lines)
        self.assertEqual((first, one), (second, other), errors)
        self.assertEqual(one, "1")
        rows = sum(eval(some[0]) + eval(rest[0]), [])  # pylint: disable=eval-used
        self.assertEqual(sorted(rows), sorted(i * 3 % 10 for i in range(1003)))

    def test_processes_with_equal_arrays_keep_one_copy(self):
        code = _ARRAYS + """
one = load(both)
file, = memory_files()
before = os.stat(f"/proc/self/fd/{file}").st_ino
one.open()
assert memory_files() == [file] and not os.get_inheritable(int(file))
print(before, os.stat(f"/proc/self/fd/{file}").st_ino, flush=True)
sys.stdin.readline()
assert (epoch(one)[1] == labels).all()
again = load(both).open()                 # in the same process, too
assert len({os.stat(f"/proc/self/fd/{number}").st_ino for number in memory_files()}) == 1
os.kill(servers()[0], signal.SIGKILL)     # the next server gets the copy of somebody who is gone
assert (epoch(one)[1] == labels).all() and (epoch(again)[0] == images).all()
print("done", flush=True)
"""
        processes = [self._start(code, MILLRACE_SERVER_FLAGS="--lease_timeout=60s")]
        self.addCleanup(lambda: [process.kill() for process in processes])
        first = processes[0].stdout.readline().split()
        processes.append(self._start(code, MILLRACE_SERVER_FLAGS="--lease_timeout=60s"))
        second = processes[1].stdout.readline().split()
        self.assertEqual(first[0], first[1])
        self.assertNotEqual(second[0], first[0])
        self.assertEqual(second[1], first[0])
        processes[0].kill()
        processes[0].wait()
        output, errors = processes[1].communicate("\n")
        self.assertEqual(output, "done\n", errors)

    def test_a_killed_program_leaves_nothing(self):
        holder = self._holder(_ARRAYS + "one = load(both).open(); epoch(one)",
                              MILLRACE_SERVER_FLAGS="--lease_timeout=60s")
        server, = self.servers()

        def arrays():
            with open(f"/proc/{server}/maps", encoding="ascii") as file:
                return [line for line in file if "memfd:millrace" in line and " r--p " in line]

        self.assertEqual(len(arrays()), 1)
        before = shared_memory()
        holder.kill()
        holder.wait()
        for _ in range(600):
            if not arrays():
                break
            self._await_servers(1)
            time.sleep(0.05)
        self.assertEqual(arrays(), [])
        self.assertEqual(len(self.servers()), 1)  # it lives on, without the arrays
        self.assertEqual(shared_memory(), before)
        descriptors = [os.readlink(f"/proc/{server}/fd/{name}")
                       for name in os.listdir(f"/proc/{server}/fd")]
        self.assertEqual([path for path in descriptors if "memfd" in path], [])
        os.kill(server, signal.SIGKILL)

    def test_loaders_that_end_leave_nothing(self):
        self._check("""
import gc
for act in range(5):
    one = load(both)
    one.open().close()
    del one
gc.collect()
assert memory_files() == [], memory_files()
try:
    load(both, shuffle="yes")             # nothing is copied for a loader that is not made
except millrace.ArgumentError:
    pass
gc.collect()
assert memory_files() == []
# A program that is started does not get the memory.
one = load(both)
import subprocess
seen = subprocess.run(["ls", "-l", "/proc/self/fd"], close_fds=False, capture_output=True, text=True)
assert "memfd" not in seen.stdout, seen.stdout
""")

    def test_copies_forks_and_pickles(self):
        self._check("""
one = load(both)
assert (epoch(copy.copy(one))[1] == labels).all() and (epoch(copy.deepcopy(one))[1] == labels).all()
data = millrace.Arrays(both)
assert copy.copy(data) is data and (epoch(load(copy.deepcopy(data)))[1] == labels).all()
refused(lambda: pickle.dumps(load(both)), millrace.FailedPreconditionError, "image,label",
        "make the loader there")
""")
        # A loader that is not open works in a forked child, and in its parent.
        self._check("""
one = load(both)
child = os.fork()
if child == 0:
    try:
        assert (epoch(one)[1] == labels).all()
        os._exit(0)
    except BaseException:
        import traceback
        traceback.print_exc()
    os._exit(1)
assert os.waitpid(child, 0)[1] == 0
assert (epoch(one)[1] == labels).all()
""")

    # ---- Refusals --------------------------------------------------------------------------

    def test_arrays_that_cannot_be_batches(self):
        self._check("""
import datetime
x = numpy.arange(6)
bad = millrace.ArgumentError
for data, kind, parts in [
        ({}, millrace.InvalidArgumentError, ["empty"]),
        ({"a": x, "b": x[:5]}, millrace.InvalidArgumentError, ["a: 6, b: 5"]),
        ({"a": x[:0]}, millrace.InvalidArgumentError, ["'a' is empty", "[0]"]),
        ({"a": numpy.zeros((3, 0, 2))}, millrace.InvalidArgumentError, ["'a' is empty", "[3, 0, 2]"]),
        ({"a": numpy.array(5)}, millrace.InvalidArgumentError, ["'a' has no dimensions"]),
        ({"a": numpy.float32(5)}, millrace.InvalidArgumentError, ["'a' has no dimensions"]),
        ({"a": numpy.array(["x", "yy"])}, bad, ["'a'", "str", "class numbers"]),
        ({"a": numpy.array([b"x", b"yy"])}, bad, ["'a'", "bytes", "class numbers"]),
        ({"a": numpy.array([{}, None])}, bad, ["'a'", "object", "class numbers"]),
        ({"a": x.astype(numpy.uint32)}, bad, ["'a'", "uint32", "convert it to int64"]),
        ({"a": x.astype(numpy.uint64)}, bad, ["'a'", "uint64", "convert it to int64"]),
        ({"a": x.astype(numpy.complex64)}, bad, ["'a'", "complex64"]),
        ({"a": x.astype(numpy.longdouble)}, bad, ["'a'", "convert it to float64"]),
        ({"a": x.astype("M8[s]")}, bad, ["'a'", "datetime64"]),
        ({"a": numpy.zeros(3, [("u", "i4")])}, bad, ["'a'", "void", "each field of the structure"]),
        ({"a": numpy.ma.masked_equal(x, 3)}, bad, ["'a' has masked elements", "filled"]),
        ({"a": [1, 2, 3]}, bad, ["'a' is of type list", "NumPy array"]),
        ({"a": ["x", "y"]}, bad, ["'a' is of type list", "'x'"]),
        ({"a": "text"}, bad, ["'a' is of type str"]), ({"a": 5}, bad, ["'a' is of type int"]),
        ({"a": None}, bad, ["'a' is of type NoneType"]), ({"a": b"xyz"}, bad, ["'a' is of type bytes"]),
        ({5: x}, bad, ["expected a str"]), ({"": x}, millrace.InvalidArgumentError, ["''"]),
        ({"valid": x}, millrace.InvalidArgumentError, ["'valid'", "another name"]),
        ({"a\\0b": x}, millrace.InvalidArgumentError, ["NUL"]),
        ({"a": numpy.broadcast_to(numpy.uint8(1), (2, (1 << 31) + 1))}, millrace.InvalidArgumentError,
         ["2,147,483,649 bytes", "2 GiB"]),
        ({f"a{i}": x for i in range(1025)}, millrace.InvalidArgumentError, ["1,024", "1,025"]),
        (x, bad, ["without names", '{"image": images']), ((images, labels), bad, ["without names"]),
        ([images, labels], bad, ["without names"])]:
    refused(lambda: load(data), kind, *parts)
class Broken:
    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("the disk is on fire")
refused(lambda: load({"a": Broken()}), bad, "'a' is of type Broken", "on fire")
for classes, parts in [({"x": 3}, ["unknown array 'x'", "the arrays are a, b"]), ({"a": 0}, ["classes['a']"]),
                       ({"a": []}, ["is empty"]), (5, ["classes=5"]), ({"b": 2}, ["float64 [6]"])]:
    refused(lambda: millrace.Arrays({"a": x, "b": x * 0.5}, classes=classes),
            millrace.InvalidArgumentError, *parts)
refused(lambda: millrace.Arrays(x), bad, "expected a dict")
# What the server says of the content.
late = millrace.Arrays({"a": x}, classes={"a": 5})
refused(load(late).open, millrace.InvalidArgumentError, "memory:a", "row 5", "class 5")
assert len(load({"x": numpy.arange(3)})) == 1
assert servers() != []
""")

    def test_without_numpy(self):
        """Of buffers, a program needs no NumPy."""
        result = self.package.run("""
import array
one = millrace.Loader({"x": array.array("i", range(100)), "y": memoryview(bytes(200)).cast("B", [100, 2])},
                      batch_size=10, tensor_type="dlpack")
got = [list(memoryview(x)) for x, y in one]
assert got == [list(range(i, i + 10)) for i in range(0, 100, 10)]
assert "numpy" not in sys.modules
class Wrapped:
    def __array__(self):
        pass
try:
    millrace.Loader({"x": Wrapped()}, batch_size=1)
    raise SystemExit("taken")
except millrace.ArgumentError as error:
    assert "install numpy" in str(error), error
""", numpy=False, **self._environment())
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_without_memory(self):
        """A limit of the system on memory is an error and not the end of the program."""
        self._check("""
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
refused(lambda: load(both), millrace.ResourceExhaustedError, "cannot copy the arrays into 2.9 MiB")
assert memory_files() == []
import millrace._free_memory as free_memory
assert 0 < free_memory.estimate() < os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * 100
free_memory.estimate = lambda: 1 << 20
refused(lambda: load(both), millrace.ResourceExhaustedError, "needs 2.9 MiB", "about 1 MiB is free")
assert memory_files() == []
""")

    def test_a_control_group_limits_the_memory(self):
        group = os.path.join(self.run_dir, "groups")
        inner = os.path.join(group, "job", "step")
        os.makedirs(inner)
        for folder, limit, used, cache in ((group, "max", 5, 0), (os.path.dirname(inner), 1000, 400, 50),
                                           (inner, 5000, 1, 0)):
            for name, text in (("max", limit), ("current", used), ("stat", f"file {cache}\nshmem 20")):
                with open(f"{folder}/memory.{name}", "w", encoding="ascii") as file:
                    file.write(f"{text}\n")
        self._check("""
import millrace._free_memory as free_memory
free_memory._GROUPS = sys.argv[3]
original = free_memory._text
free_memory._text = lambda path: "0::/job/step\\n" if path == "/proc/self/cgroup" else original(path)
assert free_memory.estimate() == 1000 - 400 + 30, free_memory.estimate()
""", group)


if __name__ == "__main__":
    unittest.main()
