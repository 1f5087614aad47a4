"""millrace.DataLoader with torch: what a torch DataLoader has, and what Lightning and Accelerate ask of
one. tools/python-frameworks runs the frameworks themselves; here, small stand-ins have their part."""

import glob
import json
import os

import installed
from torch_case import TorchCase

# After the script's beginning.
_OPEN = """
def loader(**named):
    return millrace.DataLoader(ENDPOINT, **{"pipeline": SPEC, "batch_size": 50, **named})
def index_of(batches):
    return [i for batch in batches for i in batch[-1].tolist()]
INDEX = ["image", "sample_index"]
"""
# As accelerate.state of Accelerate 1.15, as far as loaders go.
_ACCELERATE = """
import types, weakref
class GradientState:
    shared = {"references": [None]}
    def __init__(self):
        self.__dict__ = GradientState.shared
    @property
    def active_dataloader(self):
        found = self.references[-1]
        return found and found()
    @property
    def in_dataloader(self):
        return self.active_dataloader is not None
    def _add_dataloader(self, one):
        self.references = self.references + [weakref.ref(one)]
    def _remove_dataloader(self, one):
        self.references = [r for r in self.references if r is None or r() is not one]
sys.modules["accelerate.state"] = types.SimpleNamespace(GradientState=GradientState)
state = GradientState()
# As accelerate.data_loader.SkipDataLoader.
class Skipping:
    def __init__(self, loader, count):
        self.skip_batches, self.dataset, self.made = count, loader.dataset, 0
        self.base = torch.utils.data.DataLoader(
            loader.dataset, batch_size=loader.batch_size, drop_last=loader.drop_last,
            collate_fn=loader.collate_fn, num_workers=loader.num_workers, generator=loader.generator)
    def __iter__(self):
        state._add_dataloader(self)
        for index, batch in enumerate(self.base.__iter__()):
            self.made = index + 1
            if index >= self.skip_batches:
                yield batch
        state._remove_dataloader(self)
"""
# As accelerate.state.AcceleratorState, once there is an Accelerator.
_ACCELERATOR = """
class AcceleratorState:
    _shared_state = {}
    def __init__(self):
        self.__dict__ = AcceleratorState._shared_state
sys.modules["accelerate.state"].AcceleratorState = AcceleratorState
"""


class Torch(TorchCase):

    def test_it_is_a_torch_data_loader(self):
        self._run(_OPEN + """
one = loader(shuffle=True, drop_last=True)
assert isinstance(one, torch.utils.data.DataLoader)
assert isinstance(one.dataset, torch.utils.data.IterableDataset)
assert (one.batch_size, one.drop_last, one.num_workers, one.pin_memory) == (50, True, 0, False)
assert one.batch_sampler is None and one.generator is None and one.timeout == 0
assert isinstance(one.sampler, torch.utils.data.Sampler)
assert "not open" in repr(one), "nothing of this asks a server"
assert len(one) == 40 and len(one.dataset) == 2030 and one.dataset.name == ""
assert (one.rank, one.world_size, one.global_batch_size) == (0, 1, 50)
assert one.plan["steps_per_epoch"] == 40
for images, labels in one:
    assert images.shape == (50, 3, 64, 64) and labels.dtype == torch.int64
assert one.last_batch == (0, 39, 50, 50, 50)
assert one.stats()["batches"] == 40 and one.where_the_time_went()
assert torch.equal(one.replay(0, 39)[0], images)
again, drawn = one.replay(0, 39, drawn=True)
assert torch.equal(again[0], images) and drawn == one.explain(0, 39)
assert one.explain(0, 39) and "of 50 rows" in str(one.preview(0, 39, 2)) and one.pipeline is None
own = millrace.Pipeline(sources=millrace.Source(synthetic=millrace.Synthetic(
    30, millrace.SyntheticField("image", "uint8", (8, 8, 3)), seed=1)))
assert millrace.DataLoader(ENDPOINT, pipeline=own, batch_size=5).pipeline is own
for name, value in (("batch_size", 3), ("sampler", None), ("dataset", None), ("drop_last", False)):
    try:
        setattr(one, name, value)
    except ValueError as error:  # torch's own, not a millrace.Error
        assert name in str(error), error
    else:
        raise SystemExit(f"{name} can be set")
with loader() as two:
    assert "open)" in repr(two.open())
refused(lambda: next(iter(two)), millrace.CancelledError, "closed")
sized = loader(batch_size=None, pipeline=SPEC + "batch_size: 30 last_batch: LAST_BATCH_DROP",
               drop_last=None)
assert sized.batch_size == 30 and sized.drop_last is True and len(sized) == 67
""")

    def test_the_batches_are_those_of_loader(self):
        self._run(_OPEN + """
for named in (dict(shuffle=True, seed=4), dict(fields=["label", "image"]), dict(drop_last=True)):
    for ours, plain in zip(loader(**named), millrace.Loader(ENDPOINT, pipeline=SPEC, batch_size=50, **named),
                           strict=True):
        assert all(torch.equal(a, b) for a, b in zip(ours, plain, strict=True))
one = next(iter(loader(output="dict", names={"image": "pixel_values"})))
assert list(one) == ["pixel_values", "label"]
""")

    def test_epochs_and_states(self):
        self._run(_OPEN + """
import json
one = loader(shuffle=True, fields=INDEX)
for epoch in range(2):
    one.sampler.set_epoch(epoch)
    assert sorted(index_of(one)) == list(range(2030))
one.set_epoch(1)
whole = index_of(one)
for stop in (0, 7, 41):
    first = loader(shuffle=True, fields=INDEX)
    assert first.state_dict()["step"] == 0
    first.set_epoch(1)
    batches = iter(first)
    seen = index_of(next(batches) for _ in range(stop))
    second = loader(shuffle=True, fields=INDEX)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    iter(second)                                   # merely to look
    second.sampler.set_epoch(1)                    # as Lightning does: keeps the step
    assert seen + index_of(second) == whole, stop
one.seek(1, 40)
assert index_of(one) == whole[2000:]
one.load_state_dict({})
""")

    def test_a_framework_that_counts_from_zero_after_a_checkpoint(self):
        # Lightning Fabric sets the epoch of the sampler to the number of iterations so far.
        self._run(_OPEN + """
def iterations(one, count):
    result = []
    for number in range(count):
        one.sampler.set_epoch(number)
        result.append((index_of(one), one.last_batch.epoch if one.last_batch else None))
    return result
whole = iterations(loader(shuffle=True, fields=INDEX), 5)
assert [epoch for _, epoch in whole] == [0, 1, 2, 3, 4]
for step in (0, 11):
    one = loader(shuffle=True, fields=INDEX)
    one.seek(2, step)
    state = one.state_dict()
    one = loader(shuffle=True, fields=INDEX)
    one.load_state_dict(state)
    rest = iterations(one, 3)
    assert rest[0][0] == whole[2][0][step * 50:] and rest[1:] == whole[3:], step
""")

    def test_arguments_that_cannot_be_honoured(self):
        self._run(_OPEN + """
a = millrace.ArgumentError
for named, part in ((dict(num_workers=4), "num_workers"), (dict(collate_fn=list), "collate_fn"),
                    (dict(sampler=[1]), "sampler"), (dict(batch_sampler=[[1]]), "batch_sampler"),
                    (dict(device=0), 'expected "cuda"'),
                    (dict(generator=torch.Generator()), "seed="), (dict(worker_init_fn=print), "seed="),
                    (dict(prefetch_factor=2), "window="), (dict(persistent_workers=True), "epoch"),
                    (dict(timeout=3), "next_timeout="), (dict(multiprocessing_context="spawn"), "no worker"),
                    (dict(in_order=False), "order"), (dict(transform=print), "pipeline="),
                    (dict(tensor_type="numpy"), "millrace.Loader"), (dict(suffle=True), "shuffle=")):
    refused(lambda: loader(**named), a, part)
    refused(lambda: loader(**named), TypeError, part)
loader(num_workers=0, collate_fn=None, sampler=None, pin_memory=False, generator=None, in_order=True)
samples = torch.utils.data.TensorDataset(torch.zeros(3))
for act in (lambda: millrace.DataLoader(samples, batch_size=4),
            lambda: millrace.DataLoader(dataset=torch.utils.data.DataLoader(samples), batch_size=4)):
    refused(act, a, "files or arrays", "dataset.tensors[0]")
class Photos(torch.utils.data.Dataset):
    root = "/usr"
class Pictures(torch.utils.data.Dataset):
    data, targets = torch.zeros(3, 28, 28), [1, 2, 3]
refused(lambda: millrace.DataLoader(Photos(), batch_size=4), a, "Photos", '"imagefolder:/usr"')
refused(lambda: millrace.DataLoader(Pictures(), batch_size=4), a,
        '{"image": dataset.data[..., None], "label": numpy.array(dataset.targets)}')
class Samples(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter(())
refused(lambda: millrace.DataLoader(Samples(), batch_size=4), a, '"imagefolder:PATH"', '{"image": images')
refused(lambda: millrace.DataLoader(batch_size=4), millrace.InvalidArgumentError, "endpoint is missing")
refused(lambda: loader(drop_last=True, pad_last=True), millrace.InvalidArgumentError, "pad_last")
""")

    def test_ranks_by_the_names_of_data_parallelism(self):
        self._run(_OPEN + """
import pickle
one = loader(dp_rank=1, dp_world=2)
assert (one.rank, one.world_size, one.global_batch_size, len(one)) == (1, 2, 100, 21)
refused(lambda: loader(dp_rank=1), millrace.InvalidArgumentError, "dp_world=")
refused(lambda: loader(dp_rank=0, dp_world=2, rank=0, world_size=2), millrace.InvalidArgumentError,
        "rank= and dp_rank=")
refused(lambda: loader(dp_rank=2, dp_world=2), millrace.InvalidArgumentError, "rank 2 of 2")
class Mesh:
    ndim, mesh_dim_names, coordinate = 1, ("dp",), [3]
    def get_coordinate(self):
        return self.coordinate
    def size(self):
        return 5
one = loader(device_mesh=Mesh())
assert (one.rank, one.world_size) == (3, 5)
refused(lambda: loader(device_mesh="dp"), millrace.ArgumentError, 'mesh["dp"]')
assert pickle.loads(pickle.dumps(one)).rank == 3
plain = millrace.Loader(ENDPOINT, pipeline=SPEC, batch_size=50, device_mesh=Mesh())
assert (plain.rank, plain.world_size, plain.global_batch_size) == (3, 5, 250)
assert len(plain.replay(0, 0)[1]) == 50
for make in (loader, lambda **named: millrace.Loader(ENDPOINT, pipeline=SPEC, batch_size=50, **named)):
    refused(lambda: make(device_mesh=Mesh(), rank=0, world_size=2), millrace.InvalidArgumentError,
            "device_mesh= and rank=")
refused(lambda: loader(device_mesh=Mesh(), dp_rank=0, dp_world=2), millrace.InvalidArgumentError, "device_mesh=")
Mesh.coordinate = None
refused(lambda: loader(device_mesh=Mesh()), millrace.InvalidArgumentError, "does not contain this process")
Mesh.ndim, Mesh.mesh_dim_names = 2, ("dp", "tp")
refused(lambda: loader(device_mesh=Mesh()), millrace.ArgumentError, "dp, tp", "_flatten()")
""")

    def test_a_rank_that_is_known_after_the_length(self):
        self._run(_OPEN + """
one, late = loader(fields=INDEX), loader()
assert len(one) == 41 and one.rank == 0 and one.world_size == 1
next(iter(late))
class Two:                                         # a process group of two ranks
    def is_available(): return True
    def is_initialized(): return True
    def get_rank(): return 1
    def get_world_size(): return 2
real, torch.distributed = torch.distributed, Two
try:
    assert len(one) == 21 and one.global_batch_size == 100
    rows = index_of(one)
    assert one.last_batch.global_valid == 30 and len(rows) == 1015, len(rows)
    assert rows[:50] == list(range(50, 100))
    refused(lambda: next(iter(late)), millrace.FailedPreconditionError, "init_process_group")
finally:
    torch.distributed = real
""")

    def test_a_rank_without_rows_that_is_known_after_the_length(self):
        self._run(_OPEN + """
one = loader(batch_size=676)                       # with 3 ranks: 2 samples are left
assert len(one) == 4
class Three:                                       # a process group of three ranks
    def is_available(): return True
    def is_initialized(): return True
    def get_rank(): return 2
    def get_world_size(): return 3
real, torch.distributed = torch.distributed, Three
try:
    for act in (lambda: len(one), lambda: next(iter(one)), one.open):
        refused(act, millrace.InvalidArgumentError, "2 samples for 3 ranks")
finally:
    torch.distributed = real
assert len(one) == 4, "the loader is not lost"
""")

    def test_a_notebook_offers_the_name(self):
        self._run("""
assert "torch" in sys.modules and {"DataLoader", "TrainerMixin", "Loader"} <= set(dir(millrace))
assert "DataLoader" not in millrace.__all__
""")

    def test_a_loader_that_is_pickled_before_it_is_opened(self):
        self._run(_OPEN + """
import pickle
one = loader(shuffle=True, fields=INDEX)
two = pickle.loads(pickle.dumps(one))
assert index_of(one) == index_of(two) and two.batch_size == 50
two.sampler.set_epoch(0)
assert two.dataset is not one.dataset and len(two.dataset) == 2030
refused(lambda: pickle.dumps(one), millrace.FailedPreconditionError, "pickled")
""")

    def test_no_cycle_keeps_a_loader_alive(self):
        self._run(_OPEN + """
import gc, os
gc.disable()
def threads():
    return len(os.listdir("/proc/self/task"))
def use():
    next(iter(loader(window=2)))
use()
before = threads()
for _ in range(20):
    use()
assert threads() <= before + 5, (before, threads())
""")


class Frameworks(TorchCase):

    def test_accelerate_is_told_of_the_last_batch(self):
        self._run(_OPEN + _ACCELERATE + """
one = loader(fields=INDEX)
assert one._is_accelerate_prepared and one.use_stateful_dataloader
ends = []
for batch in one:
    entry = state.active_dataloader
    ends.append((entry.end_of_dataloader, entry.remainder))
assert ends == 40 * [(False, -1)] + [(True, 30)], ends
assert not state.in_dataloader
assert [state.active_dataloader.remainder for _ in loader(drop_last=True)][-1] == 0
for _ in one:                                      # left
    for _ in loader():                             # within another one
        pass
    assert state.active_dataloader.end_of_dataloader is False
    break
assert not state.in_dataloader and len(state.references) == 1
old = iter(one)
next(old)
new = iter(one)
next(new)
assert len(state.references) == 2, "an iteration that was replaced"
del old, new
assert len(state.references) == 1
batches = iter(one)
for _ in range(41):                                # as the Hugging Face Trainer: no StopIteration
    next(batches)
assert state.active_dataloader.end_of_dataloader
del batches
assert not state.in_dataloader
""")

    def test_accelerate_that_skips_batches(self):
        self._run(_OPEN + _ACCELERATE + """
whole = index_of(loader(shuffle=True, fields=INDEX))
for skip in (0, 30, 40, 41):
    one = loader(shuffle=True, fields=INDEX)
    seen, ends = [], []
    for batch in Skipping(one, skip):
        seen += batch[-1].tolist()
        ends.append(state.active_dataloader.end_of_dataloader)
    assert seen == whole[skip * 50:], skip
    assert ends == ([False] * (40 - skip) + [True])[:41 - skip], ends
    assert one.stats()["batches"] == 41 - skip, "a seek, not a way"
    assert not state.in_dataloader
    assert one.state_dict()["epoch"] == 1
one = loader(shuffle=True, fields=INDEX)
one.seek(0, 30)                                    # a state that was loaded has the step already
assert index_of(Skipping(one, 30)) == whole[1500:]
refused(lambda: list(Skipping(one, 42)), millrace.InvalidArgumentError, "42")
refused(lambda: list(torch.utils.data.DataLoader(one.dataset)), millrace.FailedPreconditionError,
        "iterate over the DataLoader")
refused(lambda: one.collate_fn([1, 2]), millrace.FailedPreconditionError, "default_collate")
refused(lambda: list(one.sampler), millrace.FailedPreconditionError, "sample_index")
""")

    def test_skipping_takes_no_time_for_each_batch(self):
        self._run(_OPEN + _ACCELERATE + """
one = loader(shuffle=True, fields=INDEX)
whole = index_of(one)
one.set_epoch(0)
skipping = Skipping(one, 30)
assert index_of(skipping) == whole[1500:]
assert skipping.made == 1 + 11, "one batch stands for the 30"
assert skipping.skip_batches == 30 and 41 - skipping.skip_batches == 11     # len() of Accelerate's
one.set_epoch(0)
assert index_of(skipping) == whole[1500:], "a second iteration"
# A release that asks for the number once.
class Remembering(Skipping):
    def __iter__(self):
        state._add_dataloader(self)
        skip = self.skip_batches
        for index, batch in enumerate(self.base.__iter__()):
            self.made = index + 1
            if index >= skip:
                yield batch
        state._remove_dataloader(self)
for skip in (0, 1, 30, 41):
    one.set_epoch(0)
    skipping = Remembering(one, skip)
    assert index_of(skipping) == whole[skip * 50:], skip
    assert skipping.made == 41
""")

    def test_batches_go_to_the_device_of_the_accelerator(self):
        self._run(_OPEN + _ACCELERATE + _ACCELERATOR + """
def devices(batches):
    return {tensor.device.type for batch in batches
            for tensor in (batch.values() if isinstance(batch, dict) else batch)}
early = loader()
assert early._is_accelerate_prepared, "for programs that ask before there is an Accelerator"
AcceleratorState._shared_state = {"device": torch.device("cpu")}
on_cpu = loader()
assert on_cpu._is_accelerate_prepared and devices(on_cpu) == {"cpu"}
AcceleratorState._shared_state = {"device": torch.device("meta")}
assert devices(early) == {"cpu"} and devices(loader()) == {"cpu"}, "not prepared"
for named in (dict(), dict(output="dict", names={"image": "pixel_values"})):
    one = loader(**named)
    assert one._is_accelerate_prepared
    one._is_accelerate_prepared = True             # Accelerate says so of what it returns
    assert devices(one) == {"meta"}
assert devices(Skipping(one, 30)) == {"meta"}
assert type(next(iter(loader()))) is tuple and list(next(iter(one))) == ["pixel_values", "label"]
kept = loader(device="cpu")                        # the program moves them
assert kept._is_accelerate_prepared and devices(kept) == {"cpu"}
# A copy to CUDA is not waited for; of other devices it is.
from millrace._accelerate import Preparation
asked = []
class Tensor:
    def to(self, device, non_blocking): asked.append((device.type, non_blocking))
for kind in ("cuda", "xpu"):
    AcceleratorState._shared_state = {"device": types.SimpleNamespace(type=kind)}
    preparation = Preparation(moves=True)
    preparation.note()
    preparation.moved((Tensor(),))
assert asked == [("cuda", True), ("xpu", False)], asked
""")

    def test_accelerate_gathers_equal_rows_only(self):
        self._run(_OPEN + _ACCELERATE + _ACCELERATOR + """
AcceleratorState._shared_state = {"device": torch.device("cpu")}
def prepared(rank=0, world=4, **named):
    one = loader(rank=rank, world_size=world, **named)
    assert one._is_accelerate_prepared
    return one
for rank in range(4):                              # 2030 samples in batches of 200
    refused(lambda: next(iter(prepared(rank))), millrace.InvalidArgumentError, "4 ranks", "7 or 8 rows",
            "30 samples", "drop_last=True", "pad_last=True", "allow_uneven=True")
one = prepared()
for _ in range(2):
    refused(lambda: next(iter(one)), millrace.InvalidArgumentError, "gather()")
refused(lambda: list(Skipping(one, 3)), millrace.InvalidArgumentError, "gather()")
for named in (dict(drop_last=True), dict(pad_last=True), dict(allow_uneven=True), dict(world=2), dict(world=1)):
    assert len(list(prepared(**named))) == len(prepared(**named)), named
plain = loader(rank=0, world_size=4)               # not prepared: sums of metrics need no equal rows
assert [len(labels) for _, labels in plain] == 10 * [50] + [7]
""")

    def test_lightning_that_makes_the_loader_anew(self):
        # Of what it finds in vars(); for predict().
        self._run(_OPEN + """
import inspect
def again(one, **more):
    own = inspect.signature(type(one).__init__).parameters
    torchs = inspect.signature(torch.utils.data.DataLoader.__init__).parameters
    found = {name: value for name, value in vars(one).items() if not name.startswith("_")}
    named = {name: found[name] for name, p in {**own, **torchs}.items()
             if name in found and p.default is not found[name]}
    return type(one)(**{**named, "sampler": None, "batch_sampler": None, **more})
one = loader(shuffle=True, drop_last=True, fields=INDEX)
two = again(one)
assert two.dataset is not one.dataset and (two.batch_size, two.drop_last) == (50, True)
assert index_of(one) == index_of(two)
one.seek(3, 20)
two = again(one)
rest = index_of(one)
assert index_of(two) == rest and len(rest) == 1000 and two.last_batch.epoch == 3
sized = loader(batch_size=None, pipeline=SPEC + "batch_size: 29", fields=INDEX)
assert index_of(again(sized)) == index_of(sized)
assert isinstance(loader(sampler=one.sampler, shuffle=False).sampler, torch.utils.data.SequentialSampler)
refused(lambda: again(one, batch_size=7), millrace.ArgumentError, "batch_size=7")
refused(lambda: again(one, num_workers=2), millrace.ArgumentError, "num_workers")
for named in (dict(endpoint="other:1"), dict(pipeline="mnist"), dict(dp_rank=0, dp_world=2),
              dict(device_mesh="dp"), dict(seed=5)):
    refused(lambda: again(one, **named), millrace.ArgumentError, f"argument {[*named][0]}=", "another one")
own = millrace.Pipeline(sources=millrace.Source(synthetic=millrace.Synthetic(
    30, millrace.SyntheticField("image", "uint8", (8, 8, 3)), seed=1)))
assert again(millrace.DataLoader(ENDPOINT, pipeline=own, batch_size=5)).pipeline is own
""")

    def test_fabric_that_copies_the_attributes(self):
        self._run(_OPEN + """
class Copy:
    def __init__(self, one):
        self.__dict__.update(one.__dict__)
copy = Copy(loader(drop_last=True))
assert (copy.batch_size, copy.drop_last, len(copy.dataset)) == (50, True, 2030)
assert callable(copy.sampler.set_epoch)
""")

    def test_trainer_mixin(self):
        # tools/python-frameworks runs the Trainer.
        self._run(_OPEN + """
import types
class TrainerCallback:
    pass
sys.modules["transformers"] = types.SimpleNamespace(TrainerCallback=TrainerCallback)
class Base:
    def __init__(self, train, evaluation, **arguments):
        self.train_dataset, self.eval_dataset, self.callbacks = train, evaluation, []
        self.args = types.SimpleNamespace(**{"eval_batch_size": 50, "dataloader_num_workers": 0,
                                             "dataloader_drop_last": False, **arguments})
        self._train_batch_size = arguments.get("train_batch_size", 50)
        self.accelerator = types.SimpleNamespace(prepare=lambda one: one)
    def add_callback(self, one): self.callbacks.append(one)
    def pop_callback(self, one): self.callbacks.remove(one)
    def get_train_dataloader(self): return "torch's"
    def get_eval_dataloader(self, data): return f"torch's {data}"
    def get_test_dataloader(self, data): return f"torch's {data}"
class Trainer(millrace.TrainerMixin, Base):
    pass
def dicts(**named):
    return loader(output="dict", names={"image": "pixel_values", "label": "labels"}, **named)
train, small, test = dicts(shuffle=True, drop_last=True), dicts(), dicts()
trainer = Trainer(train, {"small": small, "own": [1]})
for _ in range(2):
    assert trainer.get_train_dataloader() is train
assert len(trainer.callbacks) == 1, "of the second training"
callback, = trainer.callbacks
callback.on_epoch_begin(None, types.SimpleNamespace(epoch=2.25), None, other=1)
assert train.state_dict()["epoch"] == 2
callback.on_epoch_begin(None, types.SimpleNamespace(epoch=5.0), None)      # the Trainer says it itself
assert train.state_dict()["epoch"] == 2
assert trainer.get_eval_dataloader("small") is small and trainer.get_eval_dataloader(small) is small
assert trainer.get_eval_dataloader("own") == "torch's own"
assert trainer.get_test_dataloader(test) is test and trainer.get_test_dataloader([2]) == "torch's [2]"
assert Trainer([1], small).get_eval_dataloader() is small
assert Trainer([1], small).get_train_dataloader() == "torch's"
e = millrace.InvalidArgumentError
refused(Trainer(train, None, train_batch_size=8).get_train_dataloader, e, "per_device_train_batch_size", "8", "50")
refused(Trainer(None, small, eval_batch_size=8).get_eval_dataloader, e, "per_device_eval_batch_size")
refused(Trainer(train, None, dataloader_num_workers=2).get_train_dataloader, e, "no workers")
refused(Trainer(small, None, dataloader_drop_last=True).get_train_dataloader, e, "drop_last=True")
refused(Trainer(loader(), None).get_train_dataloader, e, 'output="dict"')
four = dict(rank=0, world_size=4)                  # batches of 200: 30 samples are left, 7 or 8 for a rank
refused(Trainer(None, dicts(**four)).get_eval_dataloader, e, "30 samples", "pad_last=True")
padded = SPEC + "last_batch: LAST_BATCH_PARTIAL"
refused(Trainer(None, dicts(drop_last=None, pipeline=padded, **four)).get_eval_dataloader, e, "30 samples")
for good in (dicts(pad_last=True, **four), dicts(drop_last=True, **four), dicts(rank=0, world_size=2)):
    assert Trainer(None, good).get_eval_dataloader() is good
# A training gathers losses, not rows.
sys.modules["accelerate.state"] = types.SimpleNamespace(AcceleratorState=types.SimpleNamespace(_shared_state={}))
one = dicts(**four)
one.dataset.preparation.gathers = True             # as Accelerator.prepare()
assert len(list(Trainer(one, None).get_train_dataloader())) == 11
""")


class Examples(TorchCase):
    """docs/example/python with torch alone: each sample once an epoch, over two runs and all ranks."""

    _EPOCHS = 2
    # As tools/python-frameworks.
    _SPEC = """
sources { synthetic {
  samples: 2000 seed: 3
  fields { name: "image" dtype: DTYPE_UINT8 shape: [28, 28, 1] }
  fields { name: "label" dtype: DTYPE_INT64 num_classes: 10 } } }
seed: 1
transforms { normalize { mean: 0.13 stddev: 0.31 } }
"""
    _RUN = """
sys.path += [sys.argv[3], sys.argv[4]]             # what torch.optim imports, and record.py
import record
if len(sys.argv) == 6:
    one = millrace.DataLoader(ENDPOINT, None, SPEC, batch_size=50)
    print(json.dumps([record.digest(row) for images, _ in one for row in images]))
else:
    record.main(["record.py", sys.argv[6], sys.argv[5], ENDPOINT, "", sys.argv[2], *sys.argv[7:]])
"""

    def setUp(self):
        super().setUp()
        with open(self.spec, "w", encoding="ascii") as file:
            file.write(self._SPEC)
        self._common = (installed.numpy_folder(), os.path.realpath("tools/frameworks_run"))

    def _parts(self, name, *runs):
        """The samples of runs, which are (number of ranks, batches or 0 for all)."""
        program = os.path.realpath(f"docs/example/python/{name}.py")
        checkpoint, parts = os.path.join(self.work, name + ".checkpoint"), []
        for number, (ranks, stop) in enumerate(runs):
            record = os.path.join(self.work, f"{name}.{number}")
            arguments = (self._RUN, *self._common, program, record, checkpoint,
                         *([str(stop)] if stop else []))
            if name == "torch_loop":
                self._run(*arguments)
            else:
                self._run_ranks(ranks, *arguments)
            self.assertEqual(len(glob.glob(record + ".*")), ranks)
            parts.append([])
            for rank in range(ranks):
                with open(f"{record}.{rank}", encoding="ascii") as file:
                    parts[-1].append(json.load(file))
        return parts

    def _check(self, parts):
        import samples  # of tools/frameworks_run
        epoch = json.loads(self._run("import json\n" + self._RUN, *self._common, "-"))
        # Of 40 batches of an epoch.
        self.assertEqual([sum(map(len, part)) for part in parts], [24 * 50, 32 * 50, 24 * 50])
        self.assertEqual(samples.complaint(parts, epoch, self._EPOCHS), "")

    def test_a_plain_loop(self):
        self._run("""
program = open(sys.argv[-1]).read()
sys.argv[1:] = []
try:
    exec(compile(program, "torch_loop.py", "exec"), {"__name__": "__main__"})
    raise SystemExit("it has run")
except SystemExit as error:
    assert str(error).startswith("usage: torch_loop.py HOST:PORT"), error
""", os.path.realpath("docs/example/python/torch_loop.py"))
        self._check(self._parts("torch_loop", (1, 24), (1, 56), (1, 0)))

    def test_ddp_that_continues_with_other_ranks(self):
        self._check(self._parts("ddp_loop", (2, 24), (1, 56), (2, 0)))
