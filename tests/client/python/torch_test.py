"""millrace.Loader with torch: tensors that view the received memory, ranks of torch.distributed, and
training that is resumed."""

import glob
import json
import os

import installed
from torch_case import TorchCase


class Torch(TorchCase):

    def test_tensors(self):
        self._run("""
one = loader()
rows = 0
for images, labels in one:
    assert isinstance(images, torch.Tensor) and images.dtype == torch.float32
    assert images.shape[1:] == (3, 64, 64)
    assert images.is_contiguous(memory_format=torch.channels_last)
    assert images.flatten(1).shape == images.reshape(len(images), -1).shape
    try:
        images.view(len(images), -1)     # docs/python.md says so
        raise SystemExit("a view of channels-last memory")
    except RuntimeError as error:
        assert "view size is not compatible" in str(error), error
    assert labels.dtype == torch.int64 and labels.shape == images.shape[:1]
    rows += len(labels)
assert rows == 2030
assert "numpy" not in sys.modules
valid, = next(iter(loader(fields=["valid"])))
assert valid.dtype == torch.bool and valid.all()
""")

    def test_a_tensor_is_a_view_and_outlives_its_loader(self):
        self._run("""
import gc
image, label = next(iter(loader(tensor_type="dlpack")))
a, b = torch.from_dlpack(image), torch.from_dlpack(image)
a[0, 0, 0, 0] = 77
assert b[0, 0, 0, 0] == 77 and a.data_ptr() == b.data_ptr()
kept = list(loader(window=2))
again = list(loader())
gc.collect()
assert all((x == y).all() and (p == q).all() for (x, p), (y, q) in zip(kept, again))
""")

    def test_the_values_are_those_of_torch_operations(self):
        self._run("""
raw = next(iter(loader(apply_device_transform=False)))[0]
assert raw.dtype == torch.uint8 and raw.shape[1:] == (64, 64, 3)
mean, stddev = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
expected = (raw.float() * torch.tensor(1 / 255) - mean) / stddev
assert torch.equal(next(iter(loader()))[0], expected.permute(0, 3, 1, 2))
""")

    def test_ranks_of_torch_distributed(self):
        self._run("""
import torch.distributed as dist
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
os.environ.update(RANK="5", WORLD_SIZE="8")         # torch.distributed counts
one = loader()
assert (one.rank, one.world_size) == (0, 1)
dist.destroy_process_group()
two = loader(batch_size=None, global_batch_size=40)
assert (two.rank, two.world_size, two.batch_size) == (5, 8, 5)
""")

    def test_training_that_is_resumed_ends_with_the_same_weights(self):
        self._run("""
def train(steps, state=None, weights=None):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 64 * 64, 10))
    one = loader(shuffle=True, drop_last=True)
    if state:
        one.load_state_dict(state)
        model.load_state_dict(weights)
    parameters = list(model.parameters())
    done = 0
    while True:
        for images, labels in one:
            loss = torch.nn.functional.cross_entropy(model(images), labels)
            # torch.optim needs packages that are not here.
            with torch.no_grad():
                for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters)):
                    parameter -= 1e-3 * gradient
            done += 1
            if done == steps:
                return one.state_dict(), model.state_dict()
torch.set_num_threads(1)
_, whole = train(60)
state, weights = train(25)
_, resumed = train(35, state, weights)
assert all(torch.equal(whole[name], resumed[name]) for name in whole)
""")

    def test_a_tensor_that_dies_on_another_thread_and_at_the_end(self):
        self._run("""
import threading
batches = list(loader())
threads = [threading.Thread(target=lambda part=batches[i::4]: part.clear()) for i in range(4)]
del batches
for thread in threads: thread.start()
for thread in threads: thread.join()
left = next(iter(loader()))                          # until the interpreter has ended
torch.kept = left
""")

    def test_ranks_of_ddp_share_every_epoch(self):
        # With the variables that torchrun sets; another number of ranks resumes.
        code = """
sys.path.append(sys.argv[4])                         # what DDP imports
import json
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
torch.set_num_threads(1)
dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(3 * 64 * 64, 10))
parameters = list(model.parameters())
one = loader(batch_size=None, global_batch_size=50, shuffle=True, drop_last=True,
             fields=["image", "label", "sample_index"])
path, seen, stop = sys.argv[3], [], int(sys.argv[5])
if stop == 39:
    one.load_state_dict(json.load(open(path + "state.20.1")))
for images, labels, index in one:
    assert images.shape[0] == 50 // dist.get_world_size()
    loss = torch.nn.functional.cross_entropy(model(images.flatten(1)), labels)
    for parameter in parameters:
        parameter.grad = None
    loss.backward()
    with torch.no_grad():
        for parameter in parameters:
            parameter -= 1e-3 * parameter.grad
    seen += index.tolist()
    if one.last_batch.step == stop:
        break
total = parameters[0].detach().clone()
dist.all_reduce(total)
assert torch.allclose(total / dist.get_world_size(), parameters[0])
with open(f"{path}seen.{stop}.{dist.get_rank()}", "w") as file:
    json.dump(seen, file)
with open(f"{path}state.{stop}.{dist.get_rank()}", "w") as file:
    json.dump(one.state_dict(), file)
dist.barrier()
dist.destroy_process_group()
"""
        path = os.path.join(self.work, "ddp.")
        for world_size, stop in ((2, 20), (1, 39)):
            self._run_ranks(world_size, code, path, installed.numpy_folder(), str(stop))
        states = []
        for rank in range(2):
            with open(f"{path}state.20.{rank}", encoding="ascii") as text:
                states.append(json.load(text))
        self.assertEqual(*states)
        seen = []
        for file in glob.glob(path + "seen.*"):
            with open(file, encoding="ascii") as text:
                seen += json.load(text)
        self.assertEqual(len(seen), 2000)
        self.assertEqual(len(set(seen)), 2000)


class Example(TorchCase):
    """docs/example/python/train_loop.py, as the documents show it."""
    packed = True

    def test_the_documented_program_trains(self):
        output = self._run("""
sys.path.append(sys.argv[3])                        # what torch.optim imports
program = open(sys.argv[4]).read()
sys.argv[1:] = []
try:
    exec(compile(program, "train_loop.py", "exec"), {"__name__": "__main__"})
except SystemExit as error:
    assert str(error).startswith("usage: train_loop.py HOST:PORT"), error
sys.argv[1:] = [ENDPOINT, "digits", "mnist"]
exec(compile(program, "train_loop.py", "exec"), {"__name__": "__main__"})
""", installed.numpy_folder(), os.path.realpath("docs/example/python/train_loop.py"))
        self.assertRegex(output, r"^epoch 0: loss \d\.\d{3}\nepoch 1: loss \d\.\d{3}\n$")
