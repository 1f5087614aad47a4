"""The arguments together, as a program for photographs has them: a Compose of torchvision, a folder of
images, millrace.DataLoader with shuffle, drop_last, dicts and names, and a checkpoint in the middle of
an epoch. The same images come packed, through millrace.Loader, and from a server that runs."""

import os
import re
import subprocess

from pictures_case import PicturesCase

_BEGIN = """
import itertools, json
import torch
from torchvision.transforms import v2
COMPOSE = v2.Compose([
    v2.RandomResizedCrop(32, scale=(0.3, 1)), v2.RandomHorizontalFlip(), v2.ColorJitter(0.3),
    v2.ToImage(), v2.ToDtype(torch.float32, scale=True),
    v2.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))])
NAMES = {"image": "pixel_values", "label": "labels", "sample_index": "index"}
PACKED = "lmdb:" + os.path.dirname(FOLDER) + "/pictures.lmdb"
def arguments(**named):
    return {**dict(pipeline=COMPOSE, batch_size=7, shuffle=True, drop_last=True, seed=3, output="dict",
                   fields=["image", "label", "sample_index"], names=NAMES), **named}
def folder(**named):
    return millrace.DataLoader("imagefolder:" + FOLDER, **arguments(**named))
def same(one, other):
    assert len(one) == len(other) > 0, (len(one), len(other))
    for a, b in zip(one, other):
        assert list(a) == list(b) == list(NAMES.values())
        assert all(torch.equal(a[name], b[name]) for name in a), (a["index"], b["index"])
    return True
# Two epochs; `steps`: batches of both.
def epochs(one, steps=None):
    return list(itertools.islice((batch for _ in range(2) for batch in one), steps))
"""


class Together(PicturesCase):
    begin = _BEGIN

    def setUp(self):
        self.variables = self.of_this_machine("5s")
        self.variables["XDG_CACHE_HOME"] = os.path.join(self.variables["MILLRACE_RUN_DIR"], "cache")

    def _index(self):
        """Hashes the content of the folder: its checkpoints are then those of the packed images."""
        subprocess.run(["server/data_tool/millrace-data", "index", f"--input={self.folder}"],
                       env={**os.environ, **self.variables}, stdin=subprocess.DEVNULL,
                       capture_output=True, check=True)

    def test_two_epochs_from_everywhere_and_a_checkpoint_in_the_first(self):
        self._index()
        self.run_script("""
one = folder()
assert len(one) == 5 and len(one.dataset) == 40 and (one.batch_size, one.drop_last) == (7, True)
whole = epochs(one)
assert len(whole) == 10
first, second = ([i for batch in part for i in batch["index"].tolist()] for part in (whole[:5], whole[5:]))
for part in (first, second):
    assert len(set(part)) == 35 and set(part) < set(range(40)) and part != sorted(part)
assert first != second
for batch in whole:
    assert batch["pixel_values"].shape == (7, 3, 32, 32) and batch["pixel_values"].dtype == torch.float32
    assert torch.equal(batch["labels"], batch["index"] // 10), batch     # ten files of each class
# Each epoch has draws of its own.
by_sample = [{i: image for batch in part for i, image in zip(batch["index"].tolist(), batch["pixel_values"])}
             for part in (whole[:5], whole[5:])]
both = set(by_sample[0]) & set(by_sample[1])
assert sum(torch.equal(by_sample[0][i], by_sample[1][i]) for i in both) < len(both) // 4
# The same of the packed images, of the plain loader, and of a server that runs.
assert same(epochs(millrace.DataLoader(PACKED, **arguments())), whole)
assert same(epochs(millrace.Loader(PACKED, **arguments())), whole)
assert same(epochs(millrace.Loader(ENDPOINT, "pictures", **arguments())), whole)
# A checkpoint in the middle continues from either form of the images.
for stop in (3, 7):
    begun = folder()
    got = epochs(begun, stop)
    state = json.loads(json.dumps(begun.state_dict()))
    begun.close()
    for other in (folder(), millrace.DataLoader(PACKED, **arguments())):
        other.load_state_dict(state)
        rest = list(other)
        rest += [] if stop > 5 else list(other)
        assert same(got + rest, whole), stop
# Ranks: each has its rows of every batch, and the whole is that of one process.
parts = [epochs(folder(batch_size=None, global_batch_size=14, rank=rank, world_size=2)) for rank in range(2)]
joined = epochs(folder(batch_size=14))
for a, b, both in zip(*parts, joined, strict=True):
    assert torch.equal(torch.cat([a["pixel_values"], b["pixel_values"]]), both["pixel_values"])
# The other last batch, and no shuffle.
rows = [i for batch in folder(shuffle=False, drop_last=False) for i in batch["index"].tolist()]
assert rows == list(range(40))
""")

    def test_the_program_of_the_readme_trains(self):
        program = os.path.realpath("docs/example/python/folder_loop.py")
        output = self.run_script(f"""
with open({program!r}) as file:
    program = file.read()
sys.argv[1:] = [FOLDER]
torch.manual_seed(1)
exec(compile(program, "folder_loop.py", "exec"), {{"__name__": "__main__"}})
""")
        losses = re.fullmatch(r"epoch 0: loss (\d+\.\d{3})\nepoch 1: loss (\d+\.\d{3})\n", output)
        self.assertTrue(losses, output)
        self.assertLess(float(losses[2]), float(losses[1]))

    def test_mistakes_are_named(self):
        self.run_script("""
refused(folder(names={"picture": "x"}).open, millrace.NotFoundError, "picture", "image, label")
refused(folder(names={"image": "x", "label": "x"}, fields=None).open, millrace.InvalidArgumentError,
        "two tensors")
refused(folder(fields=["image", "mask"], names=None).open, millrace.Error, "mask")
refused(lambda: folder(output="tuple"), millrace.InvalidArgumentError, 'output="dict"')
refused(millrace.DataLoader("imagefolder:" + FOLDER + "/none", **arguments()).open,
        millrace.NotFoundError, FOLDER + "/none")
one, other = folder(), folder(seed=4)
next(iter(one))
refused(lambda: other.open().load_state_dict(one.state_dict()), millrace.FailedPreconditionError,
        "plan_hash")
packed = millrace.DataLoader(PACKED, **arguments())      # docs/formats.md: without `index`
refused(lambda: packed.open().load_state_dict(one.state_dict()), millrace.FailedPreconditionError,
        "the state has")
refused(lambda: folder(batch_size=8).load_state_dict(one.state_dict()), millrace.InvalidArgumentError,
        "global batch of 7")
refused(lambda: folder(pipeline=v2.Compose([v2.ElasticTransform()])), millrace.TranslationError,
        "ElasticTransform")
""")
