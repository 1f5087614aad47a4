"""Data servers of an experiment, as long as they are needed.

    with Server(context, ["--dataset=train=lmdb:PATH"]) as server:
        train(server.endpoint)
"""

import os
import signal
import subprocess
import tempfile
import time

START_SECONDS = 60
STOP_SECONDS = 20


class Server:
    """One millrace-server. `prefix` stands before the command and must exec it; `host` is where it
    listens."""

    def __init__(self, context, flags, prefix=(), host="127.0.0.1", port=0):
        self._command = [*prefix, context.program("millrace-server"), f"--listen={host}:{port}",
                         "--memory_budget=1GiB", *flags]
        self._environment = context.environment
        self._host = host
        self._process = None

    def __enter__(self):
        self._folder = tempfile.TemporaryDirectory(prefix="millrace-articles-server.")
        port_file = os.path.join(self._folder.name, "port")
        self._log = os.path.join(self._folder.name, "log")
        with open(self._log, "w", encoding="utf-8") as log:
            self._process = subprocess.Popen([*self._command, f"--port_file={port_file}"],
                                             stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                             env=self._environment)
        try:
            give_up = time.monotonic() + START_SECONDS
            while not (os.path.exists(port_file) and os.path.getsize(port_file)):
                if self._process.poll() is not None or time.monotonic() > give_up:
                    raise RuntimeError(f"the server did not start: {self.last_line()}")
                time.sleep(0.02)
            with open(port_file, encoding="ascii") as file:
                self.endpoint = f"{self._host}:{file.read().strip()}"
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._folder.cleanup()

    def last_line(self):
        with open(self._log, encoding="utf-8", errors="replace") as file:
            lines = [line.strip() for line in file if line.strip()]
        return lines[-1] if lines else "it said nothing"

    @property
    def pid(self):
        return self._process.pid
