"""A test case with the installed wheel, a server, and a Python with torch."""

import os
import socket
import subprocess
import threading

import installed
import wheel_python
from case import Case

_BEGIN = wheel_python.BEGIN + """
import torch, millrace
millrace.set_log_level("error")
""" + installed.REFUSED + installed.CLOSING + """
ENDPOINT, SPEC = sys.argv[1], open(sys.argv[2]).read()
def loader(**named):
    return millrace.Loader(ENDPOINT, **{"pipeline": SPEC, "batch_size": 50, **named})
"""


class TorchCase(Case):

    timeout = 600  # seconds, of a script

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.found, cls.why = wheel_python.find(cls.work)
        cls.spec = os.path.join(cls.work, "spec.textproto")
        with open(cls.spec, "w", encoding="utf-8") as file:
            file.write(installed.SPEC)

    def _run(self, code, *arguments, **variables):
        if self.found is None:
            self.skipTest(self.why)
        environment = {**os.environ, **self.found.environment}
        environment["PYTHONPATH"] = self.package.site + ":" + environment.get("PYTHONPATH", "")
        for name in ("RANK", "WORLD_SIZE"):
            environment.pop(name, None)
        environment.update(variables)
        result = subprocess.run(
            [*self.found.command, _BEGIN + code, self.server.address, self.spec, *arguments],
            env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
            timeout=self.timeout)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result.stdout

    def _run_ranks(self, world_size, code, *arguments):
        """Runs the script on several ranks, with the variables that torchrun sets."""
        if self.found is None:
            self.skipTest(self.why)
        failures = []

        def rank_of(rank):
            try:
                self._run(code, *arguments, RANK=str(rank), WORLD_SIZE=str(world_size),
                          MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
            except (AssertionError, subprocess.TimeoutExpired) as error:
                failures.append(f"rank {rank} of {world_size}: {error}")

        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        threads = [threading.Thread(target=rank_of, args=(rank,)) for rank in range(world_size)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])
