"""Programs that receive batches all the time, and the server, set malloc's
thresholds first.

They once linked two functions of one name, and the linker took the other one:
nothing was set.
"""

import os
import subprocess
import tempfile
import unittest

_PRELOAD = "tests/testing/libmallopt_log.so"
# malloc.h: M_TRIM_THRESHOLD is -1, M_MMAP_THRESHOLD is -3.
_RECEIVES = ["-1 268435456", "-3 33554432"]
_SERVES = ["-1 8388608", "-3 4194304"]


class Malloc(unittest.TestCase):

    def check(self, program, expected):
        with tempfile.TemporaryDirectory() as folder:
            log = os.path.join(folder, "calls")
            subprocess.run([program, "--version"], check=True, stdout=subprocess.DEVNULL,
                           env={**os.environ, "LD_PRELOAD": os.path.abspath(_PRELOAD),
                                "MALLOPT_LOG": log})
            self.assertTrue(os.path.exists(log), f"{program} calls mallopt() never")
            with open(log, encoding="utf-8") as file:
                self.assertEqual(file.read().split("\n")[:2], expected)

    def test_command_line_client(self):
        self.check("client/cli/millrace", _RECEIVES)

    def test_trainer(self):
        self.check("trainer/millrace-train", _RECEIVES)

    def test_server(self):
        self.check("server/millrace-server", _SERVES)


if __name__ == "__main__":
    unittest.main()
