"""Tests with several hosts on one machine: the test's file is run once more inside of network, mount
and process namespaces of its own, of which nothing stays, and prints as JSON what it found there.

    class Hosts(unittest.TestCase):
        def test_something(self):
            found = own_network.run(self, __file__, ["server/millrace-server"])

    if __name__ == "__main__":  # not called by the test runner
        print(json.dumps(_inside(*sys.argv[1:])))  # WORK and the programs' paths
"""

import json
import os
import subprocess
import tempfile

_SCRIPT = """
source tools/chaos_run/namespaces.sh
find_namespaces || { echo "no network namespaces here: $namespaces_why"; exit 77; }
run_to_its_end "${namespaces[@]}" "$@"
"""


def run(case, file, programs):
    """What `file` printed. The case is skipped where there are no namespaces."""
    with tempfile.TemporaryDirectory(dir="/tmp") as work:  # a socket's path is short
        result = subprocess.run(
            ["bash", "-c", _SCRIPT, "bash", "python3", "-B", os.path.abspath(file), work,
             *(os.path.realpath(program) for program in programs)],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if result.returncode == 77:
        case.skipTest(result.stdout.strip())
    case.assertEqual(result.returncode, 0, result.stdout + result.stderr)
    return json.loads(result.stdout)
