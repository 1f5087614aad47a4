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


class _Program:
    """A process that may be down, and be started again. `wanted` says whether it
    should be up: one that ends while it is wanted has failed."""

    def __init__(self, name, command, log, tmp):
        self.log = log
        self.max_memory = 0
        self.wanted = False
        self._name = name
        self._command = command
        self._tmp = tmp
        self._process = None

    def _start(self, *more):
        self.wanted = True
        self._process = start([*self._command, *more], self.log, self._tmp)

    def failure(self):
        """Why it is not up although it should be, or ""."""
        if not self.wanted or self._process is None or self._process.poll() is None:
            return ""
        return (f"{self._name} ended by itself with code {self._process.returncode}: "
                f"{self.last_line()}; see {self.log}")

    def last_line(self):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            lines = [line.strip() for line in file if line.strip()]
        return lines[-1] if lines else ""

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

    def wait(self, seconds):
        """Its exit code; -9 when it had to be killed after so long."""
        self.wanted = False
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            return -signal.SIGKILL

    def stop(self, seconds=30):
        """Its exit code after SIGTERM; None when it was down."""
        if not self.running():
            return None
        self.signal(signal.SIGCONT)
        self.terminate()
        return self.wait(seconds)

    def sample(self):
        if self.running():
            self.max_memory = max(self.max_memory, anonymous_bytes(self._process.pid))


class Server(_Program):
    """A data server."""

    def __init__(self, number, network, program, flags, work, pin=None):
        self.number = number
        self.address = network.address(number)
        self._port_file = os.path.join(work, f"port-{number}")
        # nsenter and taskset exec the program: the process is the server itself.
        core = [] if pin is None else ["taskset", "-c", str(pin)]
        super().__init__(f"server {number}",
                         [*network.prefix(number), *core, program, f"--listen={self.address}",
                          f"--port_file={self._port_file}", *flags],
                         os.path.join(work, f"server-{number}.log"), os.path.join(work, "tmp"))

    def start(self):
        """False when it runs already: an event may have taken longer than planned."""
        if self.wanted and self.running():
            return False
        if os.path.exists(self._port_file):
            os.unlink(self._port_file)
        self._start()
        return True

    def await_ready(self, seconds=30):
        give_up = time.monotonic() + seconds
        while not os.path.exists(self._port_file):
            if self.failure():
                raise RuntimeError(self.failure())
            if time.monotonic() > give_up:
                raise RuntimeError(f"server {self.number} does not listen; see {self.log}")
            time.sleep(0.01)


class Client(_Program):
    """A rank; goes on after a kill where its file ends. `prefix` stands before the
    command, and must exec it."""

    def __init__(self, rank, program, flags, work, name="client", prefix=()):
        self.rank = rank
        self.name = f"{name} {rank}"
        self.output = os.path.join(work, f"{name}-{rank}.digests")
        super().__init__(self.name,
                         [*prefix, program, f"--rank={rank}", f"--output={self.output}", *flags],
                         os.path.join(work, f"{name}-{rank}.log"), os.path.join(work, "tmp"))

    def start(self):
        self._start(f"--start={resume_at(self.output)}")

    def figure(self, name):
        """What its loader has counted, of the last time that it was started; 0
        when it did not come to an end in order."""
        try:
            return json.loads(self.last_line())[name]
        except (ValueError, KeyError, TypeError):
            return 0

    def bytes_written(self):
        return os.path.getsize(self.output) if os.path.exists(self.output) else 0
