"""The extension module and libmillrace.so under AddressSanitizer and UBSan, in Python (sanitized.py): loaders
against a server, tensors that outlive them, ends in every order, wrong arguments, threads, signals and
forks. Faults that the tests make on purpose must end the process, so the sanitizers are at work in both files.

tools/test --sanitizers runs the tests; by themselves:

    bazel test --config=asan //tests/client/python:sanitizer_test
"""

import signal

import installed
import sanitized
from case import Case

# Common to the scripts. A native loader, by itself: open_native(); of the package: loader().
_BEGIN = installed.BUFFERS + """
import gc, os, signal, threading, time
from millrace import _millrace
def loader(**named):
    return millrace.Loader(ENDPOINT, **{"pipeline": SPEC, "batch_size": 50, "tensor_type": "dlpack",
                                        **named})
NATIVE = {"endpoint": ENDPOINT, "pipeline": SPEC, "batch_size": "50", "last_batch": "partial", "epochs": "0"}
def open_native(**settings):
    native = _millrace.Loader({**NATIVE, **settings})
    native.wait_open()
    return native
NAMES, TRANSFORMS = ("image", "label"), (True, True)
def take(native, allocate=None, wait=True, names=NAMES, transforms=TRANSFORMS):
    return native.next(names, transforms, allocate, wait)
def address_of(tensor):
    buffer = (ctypes.c_char * BUFFER_BYTES)()
    get_buffer(tensor, buffer, STRIDES)
    address = ctypes.c_void_p.from_buffer(buffer).value
    drop_buffer(buffer)
    return address
def fails(act, kind):
    try:
        result = act()
    except kind as error:
        return str(error)
    raise SystemExit(f"no {kind}, but {result!r}")
"""
# DLManagedTensor: the deleter behind the tensor and the context.
_DELETER = """
get = ctypes.pythonapi.PyCapsule_GetPointer
get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
rename = ctypes.pythonapi.PyCapsule_SetName
rename.argtypes = [ctypes.py_object, ctypes.c_char_p]
USED = b"used_dltensor"
def consumed(capsule):
    # What a framework keeps: it frees the tensor later, on any thread and without the interpreter's lock.
    pointer = get(capsule, b"dltensor")
    rename(capsule, USED)
    deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(ctypes.c_void_p.from_address(pointer + 56).value)
    return lambda: deleter(pointer)
"""
# Memory of the program, at an address like that of a framework.
_ALLOCATE = """
import weakref
class Memory:
    def __init__(self, bytes):
        self.buffer = (ctypes.c_char * (bytes + 63))()
        self.address = -(-ctypes.addressof(self.buffer) // 64) * 64
alive = weakref.WeakSet()
def allocate(bytes):
    memory = Memory(bytes)
    alive.add(memory)
    return memory, memory.address
"""


class _Sanitized(Case):
    package_type = sanitized.Package

    def check(self, code, *arguments, **options):
        """The script ends well, and says nothing."""
        result = self.package.run(_BEGIN + code, self.server.address, str(self.server.pid), *arguments,
                                  **options)
        self.assertEqual((result.returncode, result.stderr), (0, ""), result.stdout)


class Faults(_Sanitized):
    """Each must be found: otherwise the other tests prove nothing."""

    def found(self, code, *parts):
        result = self.package.run(_BEGIN + code, self.server.address, numpy=False)
        self.assertIn("before the fault\n", result.stdout, result.stderr)
        self.assertNotIn("after the fault", result.stdout)
        self.assertNotEqual(result.returncode, 0)
        for part in parts:
            self.assertRegex(result.stderr, part)

    def test_a_small_tensor_is_read_after_its_end(self):
        self.found("""
_, labels = next(iter(loader()))
address = address_of(labels)
print(len(ctypes.string_at(address, 400)), "before the fault", flush=True)
del _, labels
gc.collect()
print(len(ctypes.string_at(address, 400)), "after the fault")
""", "AddressSanitizer: heap-use-after-free", "freed by thread")

    def test_a_large_tensor_is_read_while_its_memory_waits_for_another_batch(self):
        self.found("""
one = loader()
it = iter(one)
images, _ = next(it)
address = address_of(images)
print(len(ctypes.string_at(address, images.nbytes)), "before the fault", flush=True)
del images, _
gc.collect()
print(len(ctypes.string_at(address, 16)), "after the fault")  # one byte would be read by Python itself
""", "AddressSanitizer: use-after-poison")

    def test_the_extension_reads_an_object_that_is_freed(self):
        self.found("""
_, labels = next(iter(loader()))
address = id(labels)
get = ctypes.pythonapi.PyObject_GetAttrString
get.restype, get.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p]
print(get(address, b"shape"), "before the fault", flush=True)
del _, labels
gc.collect()
print(get(address, b"shape"), "after the fault")
""", "AddressSanitizer: heap-use-after-free", r"#0 .*/_millrace\.abi3\.so")

    def test_the_library_reads_options_that_are_freed(self):
        self.found("""
library = ctypes.CDLL(os.path.join(os.path.dirname(millrace.__file__), "_libs", "libmillrace.so.1"))
library.millrace_options_new.restype = ctypes.c_void_p
options = ctypes.c_void_p(library.millrace_options_new())
print(library.millrace_options_set(options, b"batch_size", b"5", None), "before the fault", flush=True)
library.millrace_options_free(options)
print(library.millrace_options_set(options, b"batch_size", b"5", None), "after the fault")
""", "AddressSanitizer: heap-use-after-free", r"#0 .*/libmillrace\.so")

    def test_behaviour_that_is_not_defined(self):
        self.found("""
library = ctypes.CDLL(os.path.join(os.path.dirname(millrace.__file__), "_libs", "libmillrace.so.1"))
library.millrace_options_new.restype = ctypes.c_void_p
options = ctypes.c_void_p(library.millrace_options_new())
place = (ctypes.c_char * 24)()
at = -(-ctypes.addressof(place) // 8) * 8
def refuse(address):
    return library.millrace_options_set(options, b"no such option", b"5", ctypes.c_void_p(address))
print(refuse(at), "before the fault", flush=True)
print(refuse(at + 1), "after the fault")
""", "runtime error: .*misaligned address")


class Batches(_Sanitized):

    def test_arrays_of_numpy_outlive_their_loader(self):
        self.check("""
import numpy
one = loader(tensor_type="numpy", window=2)
kept = list(one)                                  # far more than the window
sums = [(float(images.sum()), int(labels.sum())) for images, labels in kept]
one.close()
del one
gc.collect()
assert [(float(images.sum()), int(labels.sum())) for images, labels in kept] == sums
for images, labels in kept:
    images += 1
    labels[:] = 0
del kept[::2], images, labels
kept.reverse()
views = [images[1:, :, ::2].T for images, _ in kept]
del kept
assert len(views) == 20 and all(view.size for view in views)
other = loader(tensor_type="numpy", same_host="require", apply_device_transform=False,
               fields=["valid", "sample_index", "image", "label"])
for _ in range(2):
    assert sum(int(valid.sum()) for valid, *_ in other) == 2030
""")

    def test_dlpack_and_buffers(self):
        self.check(_DELETER + """
import numpy
it = iter(loader())
image, label = next(it)
arrays = [numpy.from_dlpack(image), numpy.asarray(image), numpy.asarray(label)]
views = [memoryview(image), memoryview(label)[10:20]]
capsules = [image.capsule(), label.__dlpack__(), image.__dlpack__(max_version=(1, 0))]
frees = [consumed(tensor.__dlpack__()) for tensor in (image, label, image)]
for bad in (dict(stream=1), dict(dl_device=(2, 0)), dict(copy=True)):
    fails(lambda: image.__dlpack__(**bad), BufferError)
for bad in (dict(max_version=1), dict(max_version=("1", 0)), dict(dl_device=[1, 0]), dict(other=1)):
    fails(lambda: image.__dlpack__(**bad), TypeError)
fails(image.__class__, TypeError)
assert (arrays[0] == arrays[1]).all() and views[1].tolist() == arrays[2][10:20].tolist()
texts = repr(image), image.name, image.dtype, image.strides, image.shape, image.nbytes, image.memory()
del image, label
arrays[0][:] = 3                                  # views keep the memory
assert (arrays[1] == 3).all() and views[0][0, 0, 0, 0] == 3
del arrays, views, capsules
threads = [threading.Thread(target=free) for free in frees]
for thread in threads:
    thread.start()
    thread.join()

image, label = next(it)
assert orders(image) == {"strides"} and orders(label) == set(ORDERS)
half = "sources { synthetic { samples: 90 seed: 1 " + "".join(
    f'fields {{ name: "{name}" dtype: DTYPE_{name.upper()} shape: [7, 5] }} ' for name in
    ("uint8", "bool", "int8", "int16", "uint16", "int32", "int64", "float16", "float32", "float64",
     "bfloat16")) + "} }"
for batch in loader(pipeline=half, batch_size=40):
    for tensor in batch:
        consumed(tensor.__dlpack__())()
        tensor.__dlpack__(max_version=(1, 1))
        if tensor.dtype == "bfloat16":
            fails(lambda: memoryview(tensor), BufferError)
        else:
            assert memoryview(tensor).nbytes == tensor.nbytes
""")

    def test_memory_of_the_program(self):
        self.check(_ALLOCATE + """
native = open_native(window="3")
RAW = (False, False)
kept = []
for step in range(41):                            # computed, and views of the batches themselves
    transforms = TRANSFORMS if step < 10 else RAW
    batch = take(native, allocate, transforms=transforms)
    assert batch[:2] == (0, step)
    for tensor in batch[5]:
        memory, offset = tensor.memory()
        assert memory in alive and memory.address + offset == address_of(tensor)
        fails(tensor.capsule, BufferError)
        sum(memoryview(tensor).cast("B")[:64] if memoryview(tensor).c_contiguous else [])
    kept.append(batch[5])
del batch, tensor, memory
native.close()
assert len(alive) > 41
del kept[::3]
del native
gc.collect()
sum(memoryview(kept[-1][0]).cast("B"))
del kept
gc.collect()
assert not alive, len(alive)

# The first batch lies there, too, when it is known to be viewed; with expect_view(0), it does not.
for expected in (1 << 20, 0):
    native = open_native(window="2")
    native.expect_view(expected)
    image = take(native, allocate, transforms=RAW)[5][0]
    assert (len(image.memory()[0].buffer) > image.nbytes + 63) == bool(expected)
    for _ in range(40):
        image = take(native, allocate, transforms=RAW)[5][0]
    del image, native
    gc.collect()
    assert not alive, len(alive)

# What a function may return: memory, None, and what is refused.
native = open_native(window="2")
turn = 0
def mixed(bytes):
    global turn
    turn += 1
    return None if turn % 2 else allocate(bytes)
kept = [take(native, mixed, transforms=RAW) for _ in range(8)]
for bad, kind in ((lambda bytes: 5, TypeError), (lambda bytes: (1, 2, 3), TypeError),
                  (lambda bytes: (1, "2"), TypeError), (lambda bytes: 1 // 0, ZeroDivisionError)):
    for transforms in (TRANSFORMS, RAW):
        fails(lambda: take(native, bad, transforms=transforms), kind)
native.seek(0, 20)
assert take(native, allocate)[:2] == (0, 20)
# A function that uses the loader.
def again(bytes):
    fails(lambda: take(native), millrace.FailedPreconditionError)
    native.stats()
    return allocate(bytes)
take(native, again)
def closing(bytes):
    native.close()
    return allocate(bytes)
try:
    kept.append(take(native, closing))
except millrace.CancelledError:
    pass
fails(lambda: take(native, allocate), millrace.CancelledError)
del native, kept
gc.collect()
assert not alive, len(alive)
""", numpy=False)

    def test_what_is_kept_is_dropped_by_other_threads(self):
        self.check(_DELETER + """
import queue
parts = queue.Queue(8)
def drop():
    while (part := parts.get()) is not None:
        if callable(part):
            part()
        del part
threads = [threading.Thread(target=drop) for _ in range(3)]
def use(one):
    for images, labels in one:
        for part in (images, memoryview(labels), consumed(images.capsule()), consumed(labels.capsule())):
            parts.put(part)
loops = [threading.Thread(target=use, args=(loader(shuffle=True, seed=seed, window=4),))
         for seed in range(2)]
for thread in threads + loops:
    thread.start()
for thread in loops:
    thread.join()
for thread in threads:
    parts.put(None)
for thread in threads:
    thread.join()
""", numpy=False)


class Ends(_Sanitized):

    def test_loaders_end_in_every_order(self):
        self.check("""
for number in range(12):
    one = loader(window=8)
    it = iter(one)
    first = next(it)
    take_while_closing(one, it, number % 5)
    one.close()
    if number % 3 == 0:
        del one, it
    elif number % 3 == 1:
        it.loop = [one, it, first]
        del one, it, first
    else:
        del first
    if number % 4 == 0:
        gc.collect()
two = [open_native(), open_native()]
tensors = [take(native)[5] for native in two]
take(two[0], wait=False)
two[0].close()
two[0].close()
fails(lambda: take(two[0]), millrace.CancelledError)
del two                                           # the tensors are left
for batch in tensors:
    for tensor in batch:
        memoryview(tensor)[0:1].tobytes()
del batch, tensor, tensors
never = _millrace.Loader({"endpoint": "127.0.0.1:1", "dataset": "d", "batch_size": "1"})
fails(lambda: take(never), RuntimeError)
never.close()
fails(never.wait_open, millrace.CancelledError)
""", numpy=False)

    def test_waits_are_cancelled(self):
        # The server is stopped, so that there is something to wait for.
        self.addCleanup(self.server.signal, signal.SIGCONT)  # also when the script ends in the middle
        self.check("""
server = int(sys.argv[2])
one = loader(window=2).open()
it = iter(one)
next(it)
other = open_native(window="2")
take(other)
os.kill(server, signal.SIGSTOP)
try:
    told = []
    def wait(act):
        try:
            while True:
                act()
        except millrace.CancelledError as error:
            told.append(error)
    threads = [threading.Thread(target=wait, args=(act,))
               for act in (lambda: next(it), lambda: other.explain(0, 30))]
    for thread in threads:
        thread.start()
    time.sleep(0.3)
    one.close()
    while threads[1].is_alive():                  # begins another one until it is cancelled
        other.cancel_explain()
        time.sleep(0.05)
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    assert len(told) == 2, told
    def interrupt(*_):
        raise KeyboardInterrupt
    signal.signal(signal.SIGALRM, interrupt)
    opening = _millrace.Loader(NATIVE)
    def drain():
        while True:
            take(other)
    for act in (drain, opening.wait_open):
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        fails(act, KeyboardInterrupt)
    del opening
finally:
    os.kill(server, signal.SIGCONT)
assert take(other)[0] == 0
""", numpy=False)

    def test_forked_children(self):
        # A child that is forked while another thread holds a lock of the sanitizer's malloc may hang, so
        # the threads of the library must sleep by then.
        self.check(_ALLOCATE + """
def await_idle():
    quiet = 0
    while quiet < 5:
        states = []
        for task in os.listdir("/proc/self/task"):
            if int(task) == os.getpid():
                continue
            try:
                with open(f"/proc/self/task/{task}/stat") as file:
                    states.append(file.read().rsplit(")", 1)[1].split()[0])
            except OSError:                       # a thread that has ended meanwhile
                quiet = 0
        quiet = quiet + 1 if set(states) <= {"S"} else 0
        time.sleep(0.02)
def ends(child):
    signal.alarm(60)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    signal.alarm(0)
    assert code == 0, code
one = loader()
it = iter(one)
kept = next(it)
native = open_native()
adopted = [take(native, allocate, transforms=(False, False)) for _ in range(6)]
await_idle()
child = os.fork()
if child == 0:
    signal.alarm(40)
    memoryview(kept[0])[0, 0, 0, 0]
    fails(lambda: next(it), millrace.FailedPreconditionError)
    fails(lambda: take(native), millrace.FailedPreconditionError)
    fails(loader().open, millrace.FailedPreconditionError)
    one.close()
    native.close()
    kept[0].capsule()
    del one, it, kept, native, adopted
    gc.collect()
    sys.exit(0)                                   # as a program ends
ends(child)
assert sum(1 for _ in it) == 40
assert take(native)[:2] == (0, 6)
""", numpy=False)

    # How a program may leave its objects at the end.
    _LEFT = (
        "one.close()", "", "next(it)", "sys.exit(0)", "one.self = one; it.self = it; del one, it",
        "import builtins; builtins.kept = one, it, batch; sys.kept = batch[0]",
        "capsule = batch[0].capsule(); view = memoryview(batch[1]); del one, it, batch",
        "threading.Thread(target=lambda: [list(one) for _ in range(1000)], daemon=True).start(); time.sleep(0.2)",
        "threading.Thread(target=lambda: [None for _ in it]).start()",
        "import atexit; atexit.register(lambda: next(it))",
        "two = loader(); native = open_native(); take(native)",
    )

    def test_the_interpreter_ends_whatever_is_left(self):
        # Children of a process without threads, each with a loader of its own.
        self.check(f"""
for left in {self._LEFT!r}:
    child = os.fork()
    if child == 0:
        break
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code == 0, (left, code)
else:
    os._exit(0)
signal.alarm(60)
one = loader()
it = iter(one)
batch = next(it)
exec(left)
""", numpy=False)


class Arguments(_Sanitized):

    def test_what_cannot_be_is_refused(self):
        self.check("""
for bad, kind in ((5, TypeError), ({5: "x"}, TypeError), ({"endpoint": 5}, TypeError),
                  ({"endpoint": "\\udc80"}, ValueError), ({"endpoint": "a\\0b"}, (ValueError, millrace.Error)),
                  ({}, millrace.Error), ({"no such": "x"}, millrace.Error),
                  ({"endpoint": ENDPOINT, "batch_size": "many"}, millrace.Error),
                  ({"endpoint": ENDPOINT, "pipeline": "bogus: 1", "batch_size": "1"}, millrace.Error)):
    fails(lambda: _millrace.Loader(bad), kind)
    fails(lambda: _millrace.check_options(bad), kind)
fails(_millrace.Loader, TypeError)
fails(lambda: _millrace.Loader(settings={}, more=1), TypeError)
for bad, kind in ((5, TypeError), ("loud", millrace.Error), ("\\udc80", ValueError)):
    fails(lambda: _millrace.set_log_level(bad), kind)
for named in (dict(pipeline="no_such_preset", dataset="d"), dict(dataset="none", pipeline="mnist"),
              dict(pipeline=SPEC + "transforms { normalize { mean: 5 stddev: 1 } }")):
    fails(loader(**named).open, millrace.Error)

native = open_native()
class Bad:
    def __bool__(self):
        raise ZeroDivisionError
for arguments, kind in (((), TypeError), ((5, 5), TypeError), ((NAMES, (True,)), ValueError),
                        (((5,), (True,)), TypeError), ((("\\udc80",), (True,)), ValueError),
                        ((NAMES, (True, Bad())), ZeroDivisionError), ((NAMES, TRANSFORMS, 5), TypeError)):
    fails(lambda: native.next(*arguments), kind)
# A batch that is received, and whose tensors are not all there.
for names in (("image", "none"), ("none", "image")):
    for allocate in (None, lambda bytes: None):
        fails(lambda: native.next(names, TRANSFORMS, allocate), millrace.NotFoundError)
for step in range(3):
    assert len(take(native, names=(), transforms=())[5]) == 0
    same = take(native, names=("image",) * 3, transforms=(True, False, True))[5]
    assert len({address_of(tensor) for tensor in same}) == 3
for bad, kind in ((-1, OverflowError), (1 << 64, OverflowError), ("5", TypeError), (None, TypeError)):
    fails(lambda: native.expect_view(bad), kind)
for act in (native.seek, native.explain):
    for bad in ((), (1,), ("0", 0), (None, 0)):
        fails(lambda: act(*bad), TypeError)
fails(lambda: native.explain(0, 10**9), millrace.Error)
fails(lambda: native.seek(0, 10**9), millrace.Error)
native.seek(3, 40)
assert take(native)[:3] == (3, 40, 30)
assert native.position() == (4, 0) and native.stats() and native.explain(0, 3)
native.where_the_time_went()
native.cancel_explain()
""", numpy=False)
