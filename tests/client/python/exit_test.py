"""The interpreter's end with a torch DataLoader: loaders of servers, of memory that torch has
allocated (as page-locked memory is), and of data of this machine; whatever is left, in whatever order
it dies. process_test has the same for millrace.Loader with NumPy.

One process imports torch and forks a child for each case, before any loader is open. The child is a
program from there on, and ends as a program does.
"""

import json
import os
import shutil
import signal
import tempfile

import dataset
from torch_case import TorchCase

# All ways to end, with each of these.
_OF_SERVERS = {
    "of servers": "DataLoader(ENDPOINT, SPEC, batch_size=50, shuffle=True)",
    "of servers, in memory of torch":
        "DataLoader(ENDPOINT, SPEC, batch_size=50, pin_memory=True, window=4, "
        "apply_device_transform=False)",
}
# Some ways to end: _SOME.
_OTHERS = {
    "of servers, computed into memory of torch":
        "DataLoader(ENDPOINT, SPEC, batch_size=50, pin_memory=True)",
    "of a file": "DataLoader(URI, DIGITS, batch_size=100)",
    "of a file, in memory of torch": "DataLoader(URI, DIGITS, batch_size=100, pin_memory=True)",
    "of arrays": "DataLoader({'image': torch.ones(2000, 160, 8, 1, dtype=torch.uint8), "
                 "'label': torch.arange(2000)}, None, batch_size=50)",
}
# How a program may leave loader, iterator and tensors.
_ENDS = {
    "closed": "one.close()",
    "open": "",
    "after sys.exit": "sys.exit(0)",
    "the loader goes first": "del one, it; gc.collect()",
    "the tensors go first": "del batch, images, labels",
    "the iterator is left": "del one, batch, images, labels",
    "in a cycle": "cycle = [one, it, batch]; cycle.append(cycle); del one, it, batch, images, labels",
    "of modules that end later": "import builtins; builtins.kept = one, it, batch; sys.kept = images",
    "closed by a finalizer": "holder = Holder(one, batch); del one, it",
    "in a graph of gradients": "weight = torch.ones((), requires_grad=True)\n"
                               "loss = (images.float() * weight).sum()\ndel one, it, batch, images",
    "parts of tensors": "parts = images.flatten().split(1000), labels[1:]; del images, labels, batch",
    "in a thread": "threading.Thread(target=lambda: [None for _ in it]).start()",
    "in a daemon thread": "threading.Thread(target=lambda: [list(one) for _ in range(1000)], "
                          "daemon=True).start(); time.sleep(0.1)",
    "in atexit": "import atexit; atexit.register(lambda: next(it))",
    "two loaders": "two = make(); its = it, iter(two); next(its[1]); del one, it",
    "an iterator that has not begun": "two = make(); other = iter(two)",
}
_SOME = ("open", "the loader goes first", "in a cycle", "of modules that end later",
         "in a daemon thread")
_HANGS_SECONDS = 60
_FORK = """
import gc, json, signal, threading, time
import millrace._pinned as pinned
pinned._empty = lambda bytes: torch.empty(bytes, dtype=torch.uint8)
pinned._is_cuda_there = lambda: True
URI, DIGITS, folder = sys.argv[3:6]
loaders, ends, hangs = json.loads(sys.argv[6])
def DataLoader(data, pipeline, **named):
    return millrace.DataLoader(data, pipeline=pipeline, **named)
class Holder:
    def __init__(self, loader, batch):
        self.loader, self.batch = loader, batch
    def __del__(self):
        self.loader.close()
torch.set_num_threads(1)
millrace.DataLoader                          # imports what is left of torch
for number, case in enumerate((loader, end) for loader in loaders for end in ends):
    errors = os.path.join(folder, str(number))
    child = os.fork()
    if child == 0:
        break
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with open(errors, errors="replace") as file:
        said = file.read()
    print(json.dumps([*case, code, said]), flush=True)
else:
    raise SystemExit
os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT, 0o600), 2)
signal.alarm(hangs)
make = eval("lambda: " + loaders[case[0]])
one = make()
it = iter(one)
batch = images, labels = next(it)
exec(ends[case[1]])
"""


class Exit(TorchCase):
    timeout = 600

    def _check(self, loaders, ends):
        run_dir = tempfile.mkdtemp(prefix="mr", dir="/tmp")  # short: a socket's path has 107 bytes
        self.addCleanup(shutil.rmtree, run_dir)
        folder = tempfile.mkdtemp(dir=self.work)
        uri = dataset.pack("server/data_tool/millrace-data", folder)
        output = self._run(_FORK, uri, dataset.SPEC, folder,
                           json.dumps([loaders, ends, _HANGS_SECONDS]),
                           MILLRACE_SERVER=os.path.abspath("server/millrace-server"),
                           MILLRACE_RUN_DIR=run_dir, MILLRACE_SERVER_FLAGS="--lease_timeout=1s")
        cases = [json.loads(line) for line in output.splitlines()]
        self.assertEqual(len(cases), len(loaders) * len(ends))
        for loader, end, code, said in cases:
            with self.subTest(loader, end=end):
                self.assertNotEqual(code, -signal.SIGALRM, "the process hangs")
                self.assertEqual((code, said), (0, ""))

    def test_the_interpreter_ends_whatever_is_left(self):
        self._check(_OF_SERVERS, _ENDS)

    def test_the_interpreter_ends_with_data_of_this_machine(self):
        self._check(_OTHERS, {name: _ENDS[name] for name in _SOME})
