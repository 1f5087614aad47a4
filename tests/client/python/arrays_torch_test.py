"""Tensors of torch in the place of an endpoint."""

import unittest

import installed
from torch_case import TorchCase

_BEGIN = """
def load(data, **named):
    return millrace.DataLoader(data, **{"batch_size": 10, **named})
def epoch(one):
    return tuple(torch.cat(parts) for parts in zip(*one))
"""


class ArraysTorch(TorchCase):

    def _check(self, code, *arguments):
        self._run(_BEGIN + code, *arguments, **self.of_this_machine())

    def test_every_type(self):
        self._check("""
torch.manual_seed(1)
data = {str(dtype).removeprefix("torch."): (torch.rand(33, 3, 2) * 100).to(dtype) for dtype in (
    torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16,
    torch.float32, torch.float64, torch.bool)}
for name, got in zip(data, epoch(load(data))):
    assert got.dtype == data[name].dtype and torch.equal(got, data[name]), name
assert "numpy" not in sys.modules
""")

    def test_memory_in_any_order(self):
        self._check("""
x = torch.arange(3000).reshape(100, 30)
leaf = x.float().requires_grad_()
negative = torch.imag(torch.complex(x.float(), x.float()).conj())
assert negative.is_neg()
torch.manual_seed(2)
for name, (data, expected) in {
        "view": (x.repeat(2, 3)[::2, ::3], x.repeat(2, 3)[::2, ::3].clone()),
        "transposed": (x.T, x.T), "expanded": (x[:, :1].expand(100, 5), x[:, :1].expand(100, 5).clone()),
        "channels last": (x.reshape(10, 3, 10, 10).contiguous(memory_format=torch.channels_last),
                          x.reshape(10, 3, 10, 10)),
        "with a gradient": (leaf * 2, leaf.detach() * 2), "negative": (negative, -x.float())}.items():
    got, = epoch(load({"x": data}))
    assert torch.equal(got, expected), name
changed = x.clone()
one = load({"x": changed})
changed[:] = 0
got, = epoch(one)
assert torch.equal(got, x)
""")

    def test_refusals(self):
        self._check("""
x = torch.arange(6)
refused(lambda: load({"x": x.float().to_sparse()}), millrace.ArgumentError, "'x'", "sparse", "to_dense()")
refused(lambda: load({"x": torch.complex(x.float(), x.float())}), millrace.ArgumentError, "'x'", "complex64")
refused(lambda: load({"x": torch.tensor(5)}), millrace.InvalidArgumentError, "'x' has no dimensions")
refused(lambda: load({"x": x[:0]}), millrace.InvalidArgumentError, "'x' is empty")
refused(lambda: load({"x": x.to("meta")}), millrace.ArgumentError, "'x' is on meta", "x.cpu()")
refused(lambda: load({"x": x, "y": x[:4]}), millrace.InvalidArgumentError, "x: 6, y: 4")
refused(lambda: load(x), millrace.ArgumentError, "without names")
if torch.cuda.is_available():
    refused(lambda: load({"x": x.cuda()}), millrace.ArgumentError, "'x' is on cuda:0", "x.cpu()")
""")

    def test_a_loop_that_trains(self):
        self._check("""
sys.path.append(sys.argv[3])               # what torch.optim imports
torch.manual_seed(3)
labels = torch.randint(0, 10, (500,))
images = (torch.rand(500, 28, 28) * 50).to(torch.uint8)
for i, label in enumerate(labels):
    images[i, :, 2 * int(label):2 * int(label) + 3] = 255
loader = load({"image": images[..., None], "label": labels}, pipeline="mnist", batch_size=50,
              shuffle=True, drop_last=True)
model = torch.nn.Linear(28 * 28, 10)
optimizer = torch.optim.Adam(model.parameters())
for _ in range(8):
    for pixels, classes in loader:
        assert pixels.shape == (50, 1, 28, 28) and pixels.dtype == torch.float32
        loss = torch.nn.functional.cross_entropy(model(pixels.flatten(1)), classes)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
pixels, classes = epoch(load({"image": images[..., None], "label": labels}, pipeline="mnist"))
right = (model(pixels.flatten(1)).argmax(1) == classes).float().mean()
assert right > 0.9, right
""", installed.numpy_folder())


if __name__ == "__main__":
    unittest.main()
