"""Processes of torch beside a loader: workers of a torch DataLoader with data of its own while a
millrace.DataLoader is open, ranks that torch.multiprocessing starts, and a millrace.DataLoader that another
process gets."""

import os

from torch_case import TorchCase

# Found by processes that are spawned, too.
_MODULE = """
import torch, millrace

class Squares(torch.utils.data.Dataset):
    def __len__(self):
        return 40
    def __getitem__(self, index):
        return index * index

class Uses(torch.utils.data.Dataset):
    def __init__(self, loader):
        self.loader = loader
    def __len__(self):
        return 1
    def __getitem__(self, index):
        try:
            return len(self.loader)
        except millrace.FailedPreconditionError as error:
            return str(error)

def first(batch):
    return batch[0]

def count(rank, loaders, path):
    millrace.set_log_level("error")
    rows = [row for _, index in loaders[rank] for row in index.tolist()]
    with open(f"{path}.{rank}", "w") as file:
        file.write(" ".join(map(str, rows)))
"""
# Of the Python that has torch (wheel_python.BEGIN), for processes that are spawned.
_SITE = "import os, sys\nsys.setdlopenflags(os.RTLD_LAZY)\n"
_OPEN = """
import beside
def loader(**named):
    return millrace.DataLoader(ENDPOINT, **{"pipeline": SPEC, "batch_size": 50,
                                            "fields": ["image", "sample_index"], **named})
def others(method, dataset=beside.Squares(), **named):
    return torch.utils.data.DataLoader(dataset, num_workers=1, multiprocessing_context=method, **named)
METHODS = ("fork", "spawn", "forkserver")
"""


class Workers(TorchCase):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for name, text in (("beside.py", _MODULE), ("sitecustomize.py", _SITE)):
            with open(os.path.join(cls.package.site, name), "w", encoding="ascii") as file:
                file.write(text)

    def test_workers_of_a_torch_loader_beside_an_open_loader(self):
        self._run(_OPEN + """
for method in METHODS:
    one = loader()
    batches = iter(one)
    whole = next(batches)[1].tolist()              # open, and in the middle
    squares = others(method, batch_size=4, persistent_workers=True)
    for _ in range(2):                             # epochs of the other one, batch by batch with this one
        found = []
        for values, (images, index) in zip(squares, batches):
            found += values.tolist()
            whole += index.tolist()
        assert found == [i * i for i in range(40)], method
    for images, index in batches:
        whole += index.tolist()
    assert whole == list(range(2030)), method
    del squares
    one.close()
""")

    def test_a_loader_in_a_worker(self):
        # A forked worker inherits an open loader, and others cannot get one.
        self._run(_OPEN + """
def told(method, one):
    said, = others(method, beside.Uses(one), collate_fn=beside.first, batch_size=1)
    return said
for method in ("fork", "spawn"):                   # nothing is open yet
    assert told(method, loader()) == 41, method
one = loader()
len(one)
assert "forked child" in told("fork", one)
assert "has then forked this process" in told("fork", loader())
try:
    told("spawn", one)
    raise SystemExit("an open loader was pickled")
except millrace.FailedPreconditionError as error:
    assert "open loader cannot be pickled" in str(error), error
assert len(list(one)) == 41
""")

    def test_ranks_that_torch_multiprocessing_starts(self):
        self._run(_OPEN + """
from torch.multiprocessing import start_processes
for method in ("fork", "spawn"):
    path = f"{sys.argv[3]}/rows.{method}"
    loaders = [loader(batch_size=25, dp_rank=rank, dp_world=2, shuffle=True) for rank in range(2)]
    start_processes(beside.count, args=(loaders, path), nprocs=2, start_method=method)
    rows = [int(row) for rank in range(2) for row in open(f"{path}.{rank}").read().split()]
    assert sorted(rows) == list(range(2030)), method
""", self.work)
