"""The Python client and its process: Ctrl-C, threads, fork, spawn, the interpreter's end, leaks.

The test of leaks uses 200 loaders. MILLRACE_LEAK_LOADERS=1000 uses 1,000:

    bazel test //tests/client/python:process_test //tests/client/python:embedded_test \\
        --test_env=MILLRACE_LEAK_LOADERS=1000
"""

import os
import signal
import statistics
import time

import installed
from case import Case

_TRIES = 9
# docs/python.md promises it.
_CTRL_C_SECONDS = 0.1
_OPEN = """
import gc, os, signal, subprocess, threading, time
def loader(**named):
    return millrace.Loader(ENDPOINT, **{"pipeline": SPEC, "batch_size": 50, **named})
"""


class Process(Case):

    def _check_ctrl_c(self, begin, wait, end="", stop_first=False):
        """Ctrl-C while `wait` waits for a server that is stopped, several times. `begin` runs while
        the server works (`stop_first`: not even then), `end` when it works again."""
        process = self.package.start(_OPEN + begin + f"""
for _ in range({_TRIES}):
    print("waiting", flush=True)
    try:
        {wait}
        print("nothing to wait for", flush=True)
    except KeyboardInterrupt:
        print(time.monotonic(), flush=True)
sys.stdin.readline()
{end}""", self.server.address)
        seconds = []
        try:
            if stop_first:
                self.server.signal(signal.SIGSTOP)
            for _ in range(_TRIES):
                self.assertEqual(process.stdout.readline(), "waiting\n")
                self.server.signal(signal.SIGSTOP)
                time.sleep(0.2)
                began = time.monotonic()  # one clock for all processes
                process.send_signal(signal.SIGINT)
                seconds.append(float(process.stdout.readline()) - began)
            self.server.signal(signal.SIGCONT)
            _, errors = process.communicate("\n", timeout=60)
            self.assertEqual((process.returncode, errors), (0, ""))
        finally:
            self.server.signal(signal.SIGCONT)
            process.kill()
            process.communicate()
        self.assertLess(statistics.median(seconds), _CTRL_C_SECONDS, seconds)
        self.assertLess(max(seconds), 5, seconds)

    def test_ctrl_c_ends_a_waiting_next(self):
        self._check_ctrl_c("one = loader(window=2)\nnext(iter(one))",
                           "while True: list(one)", "one.close()")

    def test_ctrl_c_ends_opening_and_the_loader_can_be_opened_later(self):
        self._check_ctrl_c("one = loader(open_timeout=60.0)", "one.open()", "assert len(one) == 41",
                           stop_first=True)

    def test_ctrl_c_ends_explain_and_preview_and_the_loader_can_be_used_later(self):
        for wait in ("one.explain(0, 3)", "one.preview(0, 3)"):
            with self.subTest(wait):
                self._check_ctrl_c("one = loader().open()", f"while True: {wait}", f"""
assert len(one.explain(0, 3)["samples"]) == 50 and len(list(one)) == 41
assert "millrace-call" not in [thread.name for thread in threading.enumerate()]
""")

    def test_explain_in_threads_in_a_handler_of_a_signal_and_at_the_end(self):
        self.assertEqual(self.output_of(_OPEN + """
one = loader().open()
expected = one.explain(0, 3)
told = []
threads = [threading.Thread(target=lambda: told.append(one.explain(0, 3))) for _ in range(4)]
for thread in threads:
    thread.start()
signal.signal(signal.SIGALRM, lambda *_: told.append(one.explain(0, 3)))
for _ in range(3):
    signal.raise_signal(signal.SIGALRM)
for thread in threads:
    thread.join()
assert told == [expected] * 7
import atexit
atexit.register(lambda: print("at the end", one.explain(0, 3) == expected))
"""), "at the end True\n")

    def test_close_in_another_thread_ends_a_wait(self):
        self.output_of(_OPEN + """
one = loader(window=2)
it = iter(one)
next(it)
os.kill(server := int(sys.argv[2]), signal.SIGSTOP)
try:
    threading.Timer(0.5, one.close).start()
    try:
        while True:
            next(it)
    except millrace.CancelledError:
        pass
finally:
    os.kill(server, signal.SIGCONT)
""", str(self.server.pid))

    def test_close_while_batches_are_received(self):
        # The memory of batches that are being received must not go before they do.
        self.output_of(_OPEN + """
for number in range(40):
    one = loader(window=32)
    it = iter(one)
    next(it)
    take_while_closing(one, it, number % 8 + 1)
""")

    def test_close_while_the_loader_is_made(self):
        # The other thread finds no native loader yet, so open() has to notice that it was there.
        self.output_of(_OPEN + """
import types
import millrace.loader as module
from millrace import _millrace
def make(settings):
    native = _millrace.Loader(settings)
    closing = threading.Thread(target=one.close)
    closing.start()
    closing.join()
    return native
module._millrace = types.SimpleNamespace(**{**vars(_millrace), "Loader": make})
one = loader()
try:
    one.open()
    raise SystemExit("a closed loader receives batches")
except millrace.CancelledError as error:
    assert "closed" in str(error)
assert one not in module._open_loaders
""")

    def test_a_closed_loader_keeps_no_memory_of_batches(self):
        self.output_of(_OPEN + """
def rss():
    return [int(line.split()[1]) for line in open('/proc/self/status') if line.startswith('RssAnon')][0]
one = loader(batch_size=500, window=4, tensor_type="dlpack")
for batch in one:
    del batch                                  # 24 MB, and 6 MB as they were received
before = rss()
one.close()
assert before - rss() > 30000, (before, rss())                # KiB
""")

    def test_another_thread_runs_while_a_loader_is_dropped(self):
        # The native loader waits for its threads, of which one waits for a name server.
        self.output_of(_OPEN + """
native = millrace._millrace.Loader({"endpoint": "some.host:1", "dataset": "d", "batch_size": "1"})
time.sleep(0.3)
count, done = 0, False
def run():
    global count
    while not done:
        count += 1
        time.sleep(0.001)
thread = threading.Thread(target=run)
thread.start()
time.sleep(0.1)
before = count
del native
ran = count - before
done = True
thread.join()
assert ran > 20, ran
""", LD_PRELOAD=os.path.abspath("tests/client/python/libslow_dns.so"))

    def test_the_handler_of_a_signal_while_the_loader_is_opened(self):
        # As one that saves a checkpoint when the machine is taken away.
        self.server.signal(signal.SIGSTOP)
        try:
            self.output_of(_OPEN + """
server, errors = int(sys.argv[2]), []
def handle(*_):
    try:
        one.state_dict()
    except millrace.FailedPreconditionError as error:
        errors.append(str(error))
    os.kill(server, signal.SIGCONT)
signal.signal(signal.SIGALRM, handle)
one = loader(open_timeout=60.0)
signal.setitimer(signal.ITIMER_REAL, 0.5)
one.open()
assert len(errors) == 1 and "handler of a signal" in errors[0], errors
signal.signal(signal.SIGALRM, lambda *_: states.append(one.state_dict()))
states = []
for step, _ in enumerate(one):
    signal.raise_signal(signal.SIGALRM)
    assert states[-1]["step"] == step + 1
""", str(self.server.pid))
        finally:
            self.server.signal(signal.SIGCONT)

    def test_counters_while_another_thread_opens_the_loader_again(self):
        self.output_of(_OPEN + """
class Racing(millrace.Loader):
    # Each read of the native loader is the last one before it is given up.
    @property
    def _native(self):
        found, self.there = self.there, None
        return found
    @_native.setter
    def _native(self, native):
        self.there = native
one, other = Racing(ENDPOINT, pipeline=SPEC, batch_size=50), loader().open()
for act in (one.stats, one.where_the_time_went):
    assert act() in ({}, "the loader is not open")
    one._native = other._native
    assert act()
""")

    def test_two_threads_in_one_loader_are_refused(self):
        self.output_of(_OPEN + """
one = loader(window=2)
it = iter(one)
next(it)
os.kill(server := int(sys.argv[2]), signal.SIGSTOP)
failures = []
def take():
    try:
        while True:
            next(it)
    except Exception as error:
        failures.append(error)
try:
    threads = [threading.Thread(target=take) for _ in range(2)]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    one.close()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
finally:
    os.kill(server, signal.SIGCONT)
refused = [error for error in failures if "one thread at a time" in str(error)]
assert len(refused) == 1 and isinstance(refused[0], millrace.FailedPreconditionError), failures
""", str(self.server.pid))

    def test_another_thread_runs_during_a_wait(self):
        self.output_of(_OPEN + """
one = loader(window=2)
it = iter(one)
next(it)
os.kill(server := int(sys.argv[2]), signal.SIGSTOP)
count = 0
threading.Timer(1, os.kill, (server, signal.SIGCONT)).start()
def run():
    global count
    while not done:
        count += 1
        time.sleep(0.001)
done = False
thread = threading.Thread(target=run)
thread.start()
for _ in it:
    pass
done = True
thread.join()
assert count > 100, count
""", str(self.server.pid))

    def test_a_forked_child_gets_an_error_and_ends(self):
        self.output_of(_OPEN + """
one = loader()
it = iter(one)
kept = next(it)
expected = kept[0].sum()
child = os.fork()
if child == 0:
    code = 1
    try:
        assert kept[0].sum() == expected         # memory is there
        for act in (lambda: next(it), one.stats, lambda: loader().open()):
            try:
                act()
            except millrace.FailedPreconditionError as error:
                assert "fork" in str(error), error
            else:
                raise SystemExit(f"{act} works in a child")
        one.close()
        del one, it, kept
        gc.collect()
        code = 0
    except BaseException as error:
        print(repr(error), file=sys.stderr)
    sys.exit(code)                                # atexit and all
assert os.waitpid(child, 0)[1] == 0
assert sum(1 for _ in it) == 40                   # the parent goes on
""")

    def test_a_child_that_is_forked_while_the_loader_is_opened(self):
        # The thread that opens the loader, and holds its lock, is not in the child.
        self.server.signal(signal.SIGSTOP)
        try:
            self.output_of(_OPEN + """
one = loader(open_timeout=60.0)
thread = threading.Thread(target=one.open)
thread.start()
while one._native is None:
    time.sleep(0.01)
child = os.fork()
if child == 0:
    signal.alarm(20)
    for act in (lambda: len(one), one.open, one.state_dict, lambda: next(iter(one))):
        try:
            act()
            os._exit(1)
        except millrace.FailedPreconditionError as error:
            if "fork" not in str(error):
                os._exit(2)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
os.kill(int(sys.argv[2]), signal.SIGCONT)
thread.join()
assert len(one) == 41
""", str(self.server.pid))
        finally:
            self.server.signal(signal.SIGCONT)

    def test_a_launcher_that_forks(self):
        # As accelerate.notebook_launcher: ranks are forked from the kernel of a notebook.
        self.output_of(_OPEN + """
def launch(function):
    children = []
    for rank in range(2):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                function(rank)
                code = 0
            except BaseException as error:
                print(repr(error), file=sys.stderr, flush=True)
            os._exit(code)
        children.append(child)
    return [os.waitpid(child, 0)[1] for child in children]
made = [loader(batch_size=25, rank=rank, world_size=2) for rank in range(2)]
def train(rank):
    assert len(list(made[rank])) == 41
assert launch(train) == [0, 0], "no loader was open"
assert launch(train) == [0, 0], "a second time"
def refused(rank):
    for act in (made[rank].open, lambda: len(made[rank]), lambda: next(iter(loader())), lambda: len(kept)):
        try:
            act()
            raise SystemExit("opened")
        except millrace.FailedPreconditionError as error:
            for part in ("notebook_launcher", "ddp_notebook", "restart the kernel", "preview()", '"spawn"',
                         str(os.getppid()), str(os.getpid())):
                assert part in str(error), (part, error)
kept = loader()
len(kept)
assert launch(refused) == [0, 0]
kept.close()
assert launch(refused) == [0, 0], "a loader that is closed has used gRPC"
assert len(list(loader())) == 41, "the kernel itself goes on"
""")

    def test_a_spawned_child_opens_a_pickled_loader(self):
        path = os.path.join(self.work, "spawned.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write("""
import multiprocessing, sys
import millrace

def count(loader):
    millrace.set_log_level("error")
    return sum(len(labels) for images, labels in loader)

if __name__ == "__main__":
    loaders = [millrace.Loader(sys.argv[1], pipeline=sys.argv[2], batch_size=25, rank=rank,
                               world_size=2) for rank in range(2)]
    millrace.Loader(sys.argv[1], pipeline=sys.argv[2], batch_size=5).open()
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        assert sum(pool.map(count, loaders)) == 2030
""")
        spec = os.path.join(self.work, "spec.textproto")
        self.output_of(f"""
import subprocess
open({spec!r}, "w").write(SPEC)
subprocess.run([sys.executable, {path!r}, ENDPOINT, {spec!r}], check=True)
""")

    # How a program may leave its objects at the end.
    _ENDS = {
        "closed": "one.close()",
        "open": "",
        "in the middle": "next(it)",
        "after sys.exit": "sys.exit(0)",
        "in a cycle": "one.self = one; it.self = it; del one, it",
        "of a module": "import builtins; builtins.kept = (one, it, batch)",
        "with a tensor only": "builtins = batch; del one, it",
        "in a daemon thread": "threading.Thread(target=lambda: [list(one) for _ in range(1000)], "
                              "daemon=True).start(); time.sleep(0.1)",
        "in a thread": "threading.Thread(target=lambda: [None for _ in it]).start()",
        "in atexit": "import atexit; atexit.register(lambda: next(iter(loader())))",
        "in an exception": "raise SystemExit(0)",
        "by a forgotten open": "loader(open_timeout=30.0); two = loader()",
    }

    def test_the_interpreter_ends_whatever_is_left(self):
        for name, code in self._ENDS.items():
            for extra in ({}, {"PYTHONMALLOC": "debug"}):
                with self.subTest(name, **extra):
                    began = time.monotonic()
                    result = self.package.run(_OPEN + """
one = loader()
it = iter(one)
batch = next(it)
""" + code, self.server.address, timeout=60, **extra)
                    self.assertEqual((result.returncode, result.stderr), (0, ""))
                    self.assertLess(time.monotonic() - began, 30)

    def test_many_loaders_leave_nothing(self):
        loaders = os.environ.get("MILLRACE_LEAK_LOADERS", "200")
        self.output_of(_OPEN + installed.FIGURES + """
def use(number):
    one = loader(shuffle=True)
    it = iter(one)
    images, labels = next(it)
    next(it)
    if number % 3 == 0:
        one.close()
    if number % 3 == 1:
        list(it)
    if number % 4 == 0:
        try:
            loader(pipeline="no_such_preset", dataset="d").open()
            raise SystemExit("opened")
        except millrace.Error:
            pass
for number in range(30):
    use(number)
before = figures()
for number in range(int(sys.argv[2])):
    use(number)
await_no_more_than(before, loaders=int(sys.argv[2]))
""", loaders, timeout=280 + int(loaders), MALLOC_ARENA_MAX="1")  # malloc's heaps of many threads grow for long

    def test_memory_of_batches_is_used_again(self):
        # New memory would take 600 page faults for the images of each batch.
        self.output_of(_OPEN + """
import resource
one = loader(window=4, fields=["valid", "sample_index", "label", "image"])
for _ in range(3):
    for batch in one:
        pass
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
before = faults()
for _ in range(3):
    for batch in one:
        pass
count = (faults() - before) / (3 * len(one))
assert count < 100, count
""")

    def test_batches_leave_nothing(self):
        self.output_of(_OPEN + """
def rss():
    return [int(line.split()[1]) for line in open('/proc/self/status') if line.startswith('RssAnon')][0]
one = loader(window=4)
for _ in range(5):
    for batch in one:
        pass
before = rss()
for _ in range(20):
    for batch in one:
        batch[0].sum()
assert rss() - before < 8000, (before, rss())                 # 820 batches of 2.4 MB
""")
