"""The programs of a run: data servers and clients, as real processes."""

import ctypes
import json
import os
import signal
import subprocess
import time

from digests import resume_at

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


def _end_with_parent():
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def start(command, log, tmp):
    """A process that ends with this one; its output is appended to `log`."""
    with open(log, "ab") as file:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file,
                                env={**os.environ, "TMPDIR": tmp}, preexec_fn=_end_with_parent)


def anonymous_bytes(pid):
    """RssAnon + RssShmem; 0 when the process is gone."""
    total = 0
    try:
        with open(f"/proc/{pid}/status", encoding="ascii") as file:
            for line in file:
                if line.startswith(("RssAnon:", "RssShmem:")):
                    total += int(line.split()[1]) << 10
    except (FileNotFoundError, ProcessLookupError):
        pass
    return total


class Server:
    """A data server that may be down. `wanted` says whether it should be up: a
    server that ends while it is wanted has failed."""

    def __init__(self, number, network, program, flags, work, pin=None):
        self.number = number
        self.address = network.address(number)
        self.log = os.path.join(work, f"server-{number}.log")
        self.most_memory = 0
        self.wanted = False
        self._tmp = os.path.join(work, "tmp")
        self._port_file = os.path.join(work, f"port-{number}")
        # nsenter and taskset exec the program: the process is the server itself.
        core = [] if pin is None else ["taskset", "-c", str(pin)]
        self._command = [*network.prefix(number), *core, program, f"--listen={self.address}",
                         f"--port_file={self._port_file}", *flags]
        self._process = None

    def start(self):
        """Nothing when it runs already: an event may have taken longer than planned."""
        if self.wanted and self.running():
            return
        if os.path.exists(self._port_file):
            os.unlink(self._port_file)
        self.wanted = True
        self._process = start(self._command, self.log, self._tmp)

    def await_ready(self, seconds=30):
        give_up = time.monotonic() + seconds
        while not os.path.exists(self._port_file):
            if self.failure():
                raise RuntimeError(self.failure())
            if time.monotonic() > give_up:
                raise RuntimeError(f"server {self.number} does not listen; see {self.log}")
            time.sleep(0.01)

    def failure(self):
        """Why it is not up although it should be, or ""."""
        if not self.wanted or self._process is None or self._process.poll() is None:
            return ""
        return (f"server {self.number} ended by itself with code {self._process.returncode}; "
                f"see {self.log}")

    def running(self):
        return self._process is not None and self._process.poll() is None

    def signal(self, number):
        if self.running():
            self._process.send_signal(number)

    def kill(self):
        self.wanted = False
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def terminate(self):
        """SIGTERM; running() says when it has ended."""
        self.wanted = False
        self.signal(signal.SIGTERM)

    def stop(self, seconds=20):
        """Its exit code after SIGTERM; None when it was down, -9 when it hung."""
        if not self.running():
            return None
        self.signal(signal.SIGCONT)
        self.terminate()
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            return -signal.SIGKILL

    def sample(self):
        if self.running():
            self.most_memory = max(self.most_memory, anonymous_bytes(self._process.pid))


class Client:
    """A rank; goes on after a kill where its file ends."""

    def __init__(self, rank, program, flags, work, name="client"):
        self.rank = rank
        self.output = os.path.join(work, f"{name}-{rank}.digests")
        self.log = os.path.join(work, f"{name}-{rank}.log")
        self.most_memory = 0
        self.wanted = False
        self._tmp = os.path.join(work, "tmp")
        self._command = [program, f"--rank={rank}", f"--output={self.output}", *flags]
        self._process = None

    def start(self):
        self.wanted = True
        self._process = start([*self._command, f"--start={resume_at(self.output)}"], self.log,
                              self._tmp)

    def failure(self):
        if not self.wanted or self._process.poll() is None:
            return ""
        return (f"client {self.rank} ended with code {self._process.returncode}: "
                f"{self.last_line()}")

    def last_line(self):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            lines = [line.strip() for line in file if line.strip()]
        return lines[-1] if lines else ""

    def figure(self, name):
        """What its loader has counted, of the last time that it was started; 0
        when it did not come to an end in order."""
        try:
            return json.loads(self.last_line())[name]
        except (ValueError, KeyError, TypeError):
            return 0

    def bytes_written(self):
        return os.path.getsize(self.output) if os.path.exists(self.output) else 0

    def kill(self):
        self.wanted = False
        self._process.kill()
        self._process.wait()

    def stop(self, seconds=30):
        """SIGTERM and wait; the exit code."""
        if self.wanted:
            self._process.send_signal(signal.SIGTERM)
        return self.wait(seconds)

    def wait(self, seconds):
        self.wanted = False
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            return -signal.SIGKILL

    def sample(self):
        if self._process is not None and self._process.poll() is None:
            self.most_memory = max(self.most_memory, anonymous_bytes(self._process.pid))
