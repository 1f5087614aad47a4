"""The package is typed: mypy --strict accepts it, and a program that uses it."""

import os
import subprocess
import sys

import installed
from case import PackageCase

_GOOD = """
import millrace

loader = millrace.Loader("data-1:7001", "photos", "imagenet_train", 256, shuffle=True)
with loader:
    for images, labels in loader:
        print(images, labels)
    steps: int = len(loader)
    state: dict[str, object] = loader.state_dict()
    info: millrace.BatchInfo | None = loader.last_batch
    shown: millrace.Preview = loader.preview(0, 3, samples=4)
    shown.save("sheet.png")
try:
    loader.open()
except millrace.DataLossError as error:
    print(error.detail, error.status)

from millrace import transforms as T
pipeline = millrace.Pipeline(
    [T.DecodeImage(), T.RandomCrop(32, padding=4), T.ColorJitter(0.2, (0.5, 2)), T.Normalize(0.5, [0.2])],
    seed=7, bad_samples="zero", sources=["a", millrace.Source("b", weight=2)], outputs="image",
    field_roles=millrace.FieldRole("mask", "mask", fill=255), shuffle="block")
millrace.Loader("data-1:7001", pipeline=pipeline, batch_size=5)
notes: tuple[str, ...] = millrace.Pipeline.from_torchvision(print, local="batch", seed=7).notes
given: millrace.Pipeline | None = loader.pipeline
import array
on_device = millrace.Loader("data-1:7001", "photos", batch_size=5, device="cuda:1", device_prefetch=3)
columns = {"x": array.array("i", [1, 2])}
millrace.Loader(columns, batch_size=1)
data = millrace.Arrays(columns, classes={"x": ["cat", "dog"]})
millrace.DataLoader(data, batch_size=1)
of_torch = millrace.DataLoader("data-1:7001", "photos", "imagenet_train", 256, dp_rank=0, dp_world=2)
with of_torch.open():
    of_torch.load_state_dict(of_torch.state_dict())
    size: int = of_torch.batch_size


class Trainer(millrace.TrainerMixin):
    pass
"""
_BAD = """
import millrace
millrace.Loader("data-1:7001", batch_size="many")
millrace.Loader(7001)
loader = millrace.Loader("data-1:7001")
loader.set_epoch("1")
loader.no_such_method()
from millrace import transforms as T
T.Resize(5, "bicubic")
T.Grayscale(1)
millrace.Pipeline([5])
millrace.Arrays([1, 2])
millrace.Pipeline(seed="1")
millrace.Pipeline.from_albumentations(print, local="batch")
millrace.DataLoader("data-1:7001", dp_rank="first")
millrace.Loader("data-1:7001", device=1)
millrace.NoSuchName
"""


class Typing(PackageCase):

    def _mypy(self, *arguments):
        return subprocess.run(
            [sys.executable, "-B", "-m", "mypy", "--strict", "--cache-dir", os.path.join(self.work, "cache"),
             "--python-executable", self.package.python, *arguments],
            env={**os.environ, "PYTHONPATH": installed.numpy_folder()}, cwd=self.work,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)

    def test_the_package(self):
        result = self._mypy(os.path.join(self.package.site, "millrace"))
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_a_program(self):
        for name, text, mistakes in (("good.py", _GOOD, 0), ("bad.py", _BAD, 13)):
            path = os.path.join(self.work, name)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            result = self._mypy(path)
            self.assertEqual(result.stdout.count("error: "), mistakes, result.stdout + result.stderr)
