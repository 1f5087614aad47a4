"""The one wheel in every later Python that the machine has: python3.12 and so on in PATH, in pyenv's
folder, and those that MILLRACE_PYTHONS names, separated by colons."""

import glob
import os
import pwd
import shutil
import subprocess
import tempfile
import unittest

import installed

_SCRIPT = """
import hashlib, os, warnings
digest = hashlib.sha256()
loader = millrace.Loader(ENDPOINT, pipeline=SPEC, batch_size=50, tensor_type="dlpack", shuffle=True,
                         apply_device_transform=False)
for batch in loader:
    for tensor in batch:
        assert "dltensor" in repr(tensor.__dlpack__())
        digest.update(memoryview(tensor))
state = loader.state_dict()
try:
    loader.load_state_dict({**state, "plan_hash": "0"})
    raise SystemExit("taken")
except millrace.FailedPreconditionError:
    pass
try:
    millrace.Loader(ENDPOINT, pipeline="bogus: 1", batch_size=50)
    raise SystemExit("taken")
except millrace.InvalidArgumentError:
    pass
kept = next(iter(loader))
warnings.simplefilter("ignore")          # 3.12 warns of every fork
child = os.fork()
if child == 0:
    del kept
    raise SystemExit(0)
assert os.waitpid(child, 0)[1] == 0
print(digest.hexdigest())
"""


def _pythons():
    """{version: program}, without the Python of this test."""
    home = pwd.getpwuid(os.getuid()).pw_dir  # tests have no HOME
    candidates = [shutil.which(f"python3.{minor}") for minor in range(12, 20)]
    candidates += sorted(glob.glob(f"{home}/.pyenv/versions/3.*/bin/python3"))
    candidates += os.environ.get("MILLRACE_PYTHONS", "").split(":")
    found = {}
    for candidate in filter(None, candidates):
        result = subprocess.run([candidate, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
                                stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        version = result.stdout.strip()
        if result.returncode == 0 and version != "3.11" and int(version.split(".")[1]) > 11:
            found.setdefault(version, candidate)
    return found


class Versions(unittest.TestCase):

    def test_every_later_python_gets_the_same_batches(self):
        pythons = _pythons()
        if not pythons:
            self.skipTest("this machine has Python 3.11 alone")
        with tempfile.TemporaryDirectory(dir="/tmp") as work:
            server = installed.Server(work)
            self.addCleanup(server.stop)
            digests = {}
            for version, python in {"3.11": None, **pythons}.items():
                folder = os.path.join(work, version)
                os.mkdir(folder)
                package = installed.Package(folder, python)
                result = package.run(_SCRIPT, server.address, numpy=False)
                self.assertEqual((result.returncode, result.stderr), (0, ""), version)
                digests[version] = result.stdout
            print("versions:", *digests)
            self.assertEqual(len(set(digests.values())), 1, digests)
