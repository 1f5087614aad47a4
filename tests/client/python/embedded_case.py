"""A test case with the installed wheel and no server: loaders start the server of this machine."""

import glob
import os
import shutil
import signal
import tempfile
import time

import dataset
from case import PackageCase

# A lease of a second instead of ten.
_SHORT = "--lease_timeout=1s"
BEGIN = """
import glob, hashlib, os, signal, threading, time
URI = sys.argv[1]
SPEC = sys.argv[2]
def loader(uri=URI, **named):
    return millrace.Loader(uri, **{"pipeline": SPEC, "batch_size": 500, "shuffle": True,
                                   "tensor_type": "dlpack", **named})
def digest(batches, with_each=lambda number: None):
    total = hashlib.sha256()
    for number, batch in enumerate(batches):
        for tensor in batch:
            total.update(memoryview(tensor).tobytes())
        with_each(number)
    return total.hexdigest()
def servers():
    found = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as file:
                if ("--lease_socket=" + os.environ["MILLRACE_RUN_DIR"]).encode() in file.read():
                    found.append(int(path.split("/")[2]))
        except OSError:
            pass
    return found
"""


def shared_memory():
    """Names in /dev/shm, without those that Python's multiprocessing and torch make in tests beside this one."""
    return sorted(name for name in os.listdir("/dev/shm")
                  if not name.startswith(("sem.mp-", "psm_", "torch_")))


class EmbeddedCase(PackageCase):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.uri = dataset.pack("server/data_tool/millrace-data", cls.work)
        cls.data_tool = os.path.abspath("server/data_tool/millrace-data")
        cls.program = os.path.abspath("server/millrace-server")

    def setUp(self):
        # Short, for a socket's path has at most 107 bytes.
        self.run_dir = tempfile.mkdtemp(prefix="mr", dir="/tmp")
        self.addCleanup(self._tidy)

    def _tidy(self):
        for pid in self.servers():
            os.kill(pid, signal.SIGKILL)
        self._await_servers(0)
        shutil.rmtree(self.run_dir)

    def servers(self):
        """Processes of servers; a server that has ended and was not reaped is none."""
        found = []
        for path in glob.glob("/proc/[0-9]*/cmdline"):
            try:
                with open(path, "rb") as file:
                    if f"--lease_socket={self.run_dir}".encode() in file.read():
                        found.append(int(path.split("/")[2]))
            except OSError:
                pass
        return found

    def _await_servers(self, number, seconds=30):
        """The seconds until there are so many."""
        began = time.monotonic()
        while len(self.servers()) != number:
            self.assertLess(time.monotonic() - began, seconds, f"{self.servers()}, not {number}")
            time.sleep(0.02)
        return time.monotonic() - began

    def _environment(self, **changed):
        return {"MILLRACE_SERVER": self.program, "MILLRACE_RUN_DIR": self.run_dir,
                "MILLRACE_SERVER_FLAGS": _SHORT, **changed}

    def _start(self, code, *arguments, uri=None, **changed):
        return self.package.start(BEGIN + code, uri or self.uri, dataset.SPEC, *arguments,
                                  **self._environment(**changed))

    def _output_of(self, code, *arguments, uri=None, timeout=120, **changed):
        result = self.package.run(BEGIN + code, uri or self.uri, dataset.SPEC, *arguments,
                                  timeout=timeout, **self._environment(**changed))
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result.stdout

    def _holder(self, code="one = loader().open()", **options):
        """A process that holds a lease until it is killed or its input ends."""
        process = self._start(code + "\nprint('open', flush=True)\nsys.stdin.readline()\n", **options)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        line = process.stdout.readline()
        if line != "open\n":
            raise AssertionError(line + process.communicate()[1])
        return process
