"""The wheel of the Python client in an environment of its own, and a data server.

    package = installed.Package(work)         # a folder that stays as long as it is used
    result = package.run("import millrace; print(millrace.__version__)")
    server = installed.Server(work)           # synthetic data, and 20,011 packed digits
    package.run(SCRIPT, server.address)
"""

import ctypes
import glob
import os
import shutil
import signal
import subprocess
import sys

import dataset
import wheel_file

_BUILT = "client/python/millrace.whl"
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)

# 41 batches of 50 samples and a smaller one: images to normalise, and labels.
SPEC = """
sources { synthetic {
  samples: 2030 seed: 3
  fields { name: "image" dtype: DTYPE_UINT8 shape: [64, 64, 3] }
  fields { name: "label" dtype: DTYPE_INT64 num_classes: 10 } } }
seed: 1
transforms { horizontal_flip { p: 0.5 } }
transforms { normalize { mean: [0.485, 0.456, 0.406] stddev: [0.229, 0.224, 0.225] } }
"""
# What a process holds, for tests of leaks.
FIGURES = """
import ctypes, gc, os, time
def figures():
    # RssAnon and RssShmem in KiB, threads, files.
    gc.collect()                                  # a loader and its iterator refer to each other
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/status") as file:
        status = dict(line.split(":", 1) for line in file)
    return [int(status[name].split()[0]) for name in ("RssAnon", "RssShmem", "Threads")] + [
        len(os.listdir("/proc/self/fd"))]
def await_no_more_than(before, loaders):
    # Threads end by themselves after their loader is gone.
    for _ in range(100):
        after = figures()
        if all(now <= then + more for now, then, more in
               zip(after, before, (max(2000, 5 * loaders), 500, 1, 3))):
            print(before, after)
            return
        time.sleep(0.1)
    raise SystemExit(f"RssAnon, RssShmem, threads and files {before} became {after}")
"""
# For scripts: the error of an act that must fail, with texts that it has.
REFUSED = """
def refused(act, kind, *parts):
    try:
        act()
    except Exception as error:
        assert isinstance(error, kind) and isinstance(error, millrace.Error), repr(error)
        for part in parts:
            assert part in str(error), (part, str(error))
        return error
    raise SystemExit(f"no {kind.__name__} with {parts}")
"""
# For scripts: takes the batches that are left while another thread closes the loader, which it begins to do
# after a number of batches.
CLOSING = """
def take_while_closing(one, it, after=0):
    import threading
    closing = threading.Thread(target=one.close)
    if after == 0:
        closing.start()
    try:
        for count, _ in enumerate(it, 1):
            if count == after:
                closing.start()
    except millrace.CancelledError:
        pass
    closing.join()
"""
# For scripts: buffers as C code asks for them, and the orders of elements that a tensor gives.
BUFFERS = """
import ctypes
get_buffer, drop_buffer = ctypes.pythonapi.PyObject_GetBuffer, ctypes.pythonapi.PyBuffer_Release
get_buffer.argtypes = [ctypes.py_object, ctypes.c_void_p, ctypes.c_int]
drop_buffer.argtypes = [ctypes.c_void_p]
BUFFER_BYTES = 80                                 # of a Py_buffer, which begins with the address
STRIDES = 0x10 | 0x08
ORDERS = {"simple": 0, "strides": STRIDES, "C": 0x20 | STRIDES, "F": 0x40 | STRIDES,
          "any": 0x80 | STRIDES}
def orders(tensor):
    taken = set()
    for name, flags in ORDERS.items():
        buffer = (ctypes.c_char * BUFFER_BYTES)()
        try:
            get_buffer(tensor, buffer, flags)
        except BufferError as error:
            assert "order" in str(error), error
        else:
            drop_buffer(buffer)
            taken.add(name)
    return taken
"""
# Every script begins with it.
_BEGIN = f"import sys, millrace\n{REFUSED}{CLOSING}SPEC = {SPEC!r}\nENDPOINT = sys.argv[1] if len(sys.argv) > 1 else ''\n" \
    "millrace.set_log_level('error')\n"


def end_with_parent():
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def numpy_folder():
    """Where NumPy and mypy are."""
    return os.path.abspath(glob.glob("external/python_client_tools/site")[0])


class Package:
    """The installed wheel, for this Python or another one."""

    def __init__(self, work, python=None):
        self.work = work
        self.wheel = os.path.join(work, wheel_file.name_of(_BUILT))
        shutil.copyfile(_BUILT, self.wheel)
        environment = os.path.join(work, "environment")
        self.python = os.path.join(environment, "bin", "python")
        if python is None:
            # Debian's Python brings no pip into environments.
            _checked([sys.executable, "-m", "venv", "--without-pip", environment])
            pip = [sys.executable, "-m", "pip", "--python", self.python]
        else:
            _checked([python, "-m", "venv", environment])
            pip = [self.python, "-m", "pip"]
        _checked([*pip, "install", "--quiet", "--disable-pip-version-check", "--no-index",
                  "--no-deps", self.wheel])
        self.site = glob.glob(os.path.join(environment, "lib", "python3*", "site-packages"))[0]

    def environment(self, numpy=True, **variables):
        clean = {name: value for name, value in os.environ.items()
                 if name not in ("PYTHONPATH", "RANK", "WORLD_SIZE")}
        return {**clean, **({"PYTHONPATH": numpy_folder()} if numpy else {}),
                # Modules are compiled once, not in each process; the wheel's folder stays as it is.
                "PYTHONPYCACHEPREFIX": os.path.join(self.work, "compiled"), **variables}

    def start(self, code, *arguments, **options):
        return subprocess.Popen([self.python, "-X", "faulthandler", "-c", _BEGIN + code, *arguments],
                                env=self.environment(**options), stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                preexec_fn=end_with_parent)

    def run(self, code, *arguments, timeout=120, **options):
        """The completed process, whatever its exit code is."""
        process = self.start(code, *arguments, **options)
        try:
            output, errors = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGABRT)  # faulthandler says where it is
            _, errors = process.communicate()
            raise AssertionError(f"the script does not end: {errors}") from None
        return subprocess.CompletedProcess(process.args, process.returncode, output, errors)


class Server:
    """A data server; ends with this process."""

    def __init__(self, work, packed=False, data=("--synthetic_only",)):
        if packed:
            data = [f"--dataset=digits={dataset.pack('server/data_tool/millrace-data', work)}"]
        self._process = subprocess.Popen(
            ["server/millrace-server", *data, "--listen=127.0.0.1:0"], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            preexec_fn=end_with_parent)
        self.address = self._process.stdout.readline().removeprefix("listening on ").strip()
        if not self.address:
            raise AssertionError("the server does not start")

    @property
    def pid(self):
        return self._process.pid

    def signal(self, number):
        self._process.send_signal(number)

    def stop(self):
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()


def _checked(command):
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                            check=False)
    if result.returncode != 0:
        raise AssertionError(f"{' '.join(command)}: {result.stdout} {result.stderr}")
