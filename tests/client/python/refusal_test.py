"""What millrace.Loader refuses, with which error, and when: types, ranges, texts, states, and calls
of a loader that is closed or belongs to another process."""

import json
import os

from case import Case

_OPEN = """
import json, os
def loader(**named):
    return millrace.Loader(ENDPOINT, **{"pipeline": SPEC, "batch_size": 50, "tensor_type": "dlpack",
                                        **named})
"""

_TYPE = "TypeError"
_VALUE = "ValueError"


class Constructor(Case):

    # Arguments, the class of Python, and what the sentence has.
    _REFUSED = (
        # Truth values are True and False.
        ("shuffle='False'", _TYPE, "shuffle='False': expected True, False or None"),
        ("shuffle=1", _TYPE, "shuffle=1"),
        ("drop_last='no'", _TYPE, "drop_last='no'"),
        ("verify_payload=0", _TYPE, "verify_payload=0"),
        ("apply_device_transform=None", _TYPE, "apply_device_transform=None: expected True or False"),
        ("apply_device_transform='False'", _TYPE, "apply_device_transform='False'"),
        # Types.
        ("endpoint=None", _TYPE, "endpoint=None"),
        ("endpoint=5", _TYPE, "endpoint=5"),
        ("endpoint=b'a:1'", _TYPE, "endpoint=b'a:1'"),
        ("endpoint=[5]", _TYPE, "endpoint[0]=5"),
        ("endpoint={'a:1'}", _TYPE, "endpoint={'a:1'}"),
        ("dataset=5", _TYPE, "dataset=5"),
        ("pipeline=5", _TYPE, "pipeline=5"),
        ("pipeline=b'mnist'", _TYPE, "pipeline=b'mnist'"),
        ("fields=5", _TYPE, "fields=5"),
        ("fields=[5]", _TYPE, "fields[0]=5"),
        ("fields={'label', 'image'}", _TYPE, "in their order"),
        ("fields=frozenset(['label'])", _TYPE, "in their order"),
        ("fields={'label': 1}", _TYPE, "in their order"),
        ("output='dict', names='image'", _TYPE, "names='image'"),
        ("output='dict', names={'image': 5}", _TYPE, "names['image']=5"),
        ("batch_size=True", _TYPE, "batch_size=True"),
        ("batch_size='50'", _TYPE, "batch_size='50'"),
        ("compression=5", _TYPE, "compression=5"),
        ("same_host=True", _TYPE, "same_host=True"),
        ("open_timeout='5'", _TYPE, "open_timeout='5'"),
        ("window='8'", _TYPE, "window='8'"),
        # Texts that the C interface cannot take.
        ("dataset='photos\\0junk'", _VALUE, "NUL"),
        ("endpoint=ENDPOINT + '\\0junk'", _VALUE, "NUL"),
        ("pipeline='mnist\\0junk'", _VALUE, "NUL"),
        ("pipeline=SPEC + '\\0'", _VALUE, "NUL"),
        ("fields=['image\\0']", _VALUE, "NUL"),
        ("compression='zstd\\0'", _VALUE, "NUL"),
        ("dataset='ph\\udc80'", _VALUE, "surrogate"),
        # Values that cannot be.
        ("endpoint=''", _VALUE, "endpoint is missing"),
        ("endpoint=[]", _VALUE, "endpoint is missing"),
        ("endpoint=' '", _VALUE, "endpoint ``"),
        ("endpoint='127.0.0.1'", _VALUE, "endpoint `127.0.0.1`: no port; write host:port"),
        ("endpoint='a:1,b'", _VALUE, "endpoint `b`: no port"),
        ("endpoint='a:65536'", _VALUE, "65535"),
        ("window=1", _VALUE, "window=1 is outside the limits"),
        ("window=65537", _VALUE, "window=65537"),
        ("window=-1", _VALUE, "window=-1"),
        ("window_bytes=0", _VALUE, "window_bytes=0"),
        ("compression='x'", _VALUE, "compression=x"),
        ("same_host='maybe'", _VALUE, "same_host=maybe"),
        # Numbers in seconds, as the argument has them, and not the flags of the programs.
        ("hedge_share=2", _VALUE, "hedge_share=2: expected a number from 0 to 1"),
        ("hedge_share=-0.5", _VALUE, "hedge_share=-0.5"),
        ("hedge_floor=-1", _VALUE, "hedge_floor=-1: expected seconds, a number from 0, at most 31536000"),
        ("hedge_share=float('nan')", _VALUE, "hedge_share=nan"),
        ("open_timeout=0", _VALUE, "open_timeout=0: expected seconds, a number above 0, at most 31536000 (a year)"),
        ("open_timeout=1e-12", _VALUE, "open_timeout=1e-12: expected seconds"),
        ("next_timeout=-1.0", _VALUE, "next_timeout=-1.0: expected seconds"),
        ("next_timeout=1e9", _VALUE, "next_timeout=1000000000.0: expected seconds"),
        ("step_timeout=float('inf')", _VALUE, "step_timeout=inf: expected seconds"),
        ("step_timeout=float('nan')", _VALUE, "step_timeout=nan: expected seconds"),
        # An argument that another one leaves without an effect.
        ("allow_uneven=True, drop_last=True", _VALUE, "allow_uneven=True and drop_last=True cannot be used"),
        ("window=4, window_bytes=1 << 20", _VALUE, "window=4 and window_bytes= cannot be used together"),
        ("hedge_share=0, hedge_floor=0.1", _VALUE, "hedge_share=0 and hedge_floor= cannot be used together"),
        ("seed=2**64", _VALUE, "seed="),
        ("batch_size=2**70", _VALUE, "batch_size="),
        ("batch_size=2**63, rank=0, world_size=2", _VALUE, "batch_size"),
        ("rank=2**33, world_size=2**34", _VALUE, "rank=8589934592"),
        ("batch_size=None, global_batch_size=50, rank=0, world_size=3", _VALUE,
         "global_batch_size=50: the global batch cannot be shared equally by 3 ranks; give a multiple of 3"),
        ("pipeline='bogus: 1'", _VALUE, "bogus"),
        ("pipeline=None", _VALUE, "dataset is missing"),
        ("pipeline='sources { dataset: \"a\" } ' * 2, dataset='photos'", _VALUE, "2 sources"),
        ("batch_size=None", _VALUE, "batch_size= is missing: give the samples of a batch of this rank"),
        ("preset='mnist'", _TYPE, "did you mean pipeline="),
        # Of torch and of pipelines: the error of the right name says what to do instead.
        ("num_worker=4", _TYPE, "Loader has no argument num_worker=; did you mean num_workers=?"),
        ("bad_sample='zero'", _TYPE, "did you mean bad_samples=?"),
        # Arguments of a pipeline.
        ("local='sample'", _TYPE,
         "give pipeline=millrace.Pipeline.from_torchvision(compose, local='sample')"),
        ("masks=['mask']", _TYPE, "millrace.Pipeline.from_torchvision(compose, masks=['mask'])"),
        ("boxes='boxes'", _TYPE, "millrace.Pipeline.from_torchvision(compose, boxes='boxes')"),
        ("decode=False", _TYPE, "millrace.Pipeline.from_torchvision(compose, decode=False)"),
        ("decode=millrace.transforms.DecodeImage()", _TYPE, "from_torchvision(compose, decode=...)"),
        ("bad_samples='zero', pipeline=None", _TYPE, "from_torchvision(compose, bad_samples='zero')"),
        ("bad_samples='zero', pipeline='mnist'", _TYPE,
         "millrace.Pipeline(preset='mnist', bad_samples='zero')"),
        ("bad_samples='zero'", _TYPE, "write it into the text of the pipeline"),
        ("bad_samples='zero', pipeline=millrace.Pipeline()", _TYPE,
         "millrace.Pipeline([...], bad_samples='zero')"),
        ("target_transform=print", _TYPE, "labels = table[labels]"),
        ("transform=print", _TYPE, "pipeline="),
        ("last_batch='pad'", _TYPE, "did you mean drop_last="),
        # Data in the place of an endpoint.
        ("endpoint='/data/photos'", _VALUE, "write endpoint=\"imagefolder:/data/photos\" for a folder"),
        ("endpoint='~/photos'", _VALUE, "imagefolder:~/photos"),
        ("endpoint='data/train.parquet'", _VALUE, "write endpoint=\"parquet:data/train.parquet\""),
        ("endpoint='train.lmdb'", _VALUE, "write endpoint=\"lmdb:train.lmdb\""),
        ("endpoint='image_folder:/data'", _VALUE, "did you mean \"imagefolder:/data\"?"),
        ("endpoint='LMDB:~/data'", _VALUE, "did you mean \"lmdb:~/data\"?"),
        ("endpoint='webdataset:/data'", _VALUE, "\"imagefolder:PATH\", \"lmdb:PATH\""),
        ("endpoint='train.npz'", _VALUE, "give them in a dict, {\"image\": images"),
        ("endpoint=pathlib.Path('/data/train.lmdb')", _TYPE, "write endpoint=\"lmdb:/data/train.lmdb\""),
        ("endpoint=pathlib.Path('/usr')", _TYPE, "write endpoint=\"imagefolder:/usr\""),
        ("dataset=pathlib.Path('/usr')", _TYPE, "dataset=PosixPath('/usr') is a path: write endpoint="),
        ("endpoint=SAVED", _TYPE, "dataset.save_to_disk(PATH), and write \"arrow:PATH\""),
        ("endpoint='data/train.feather'", _VALUE, "write endpoint=\"arrow:data/train.feather\""),
        ("endpoint=[DATA, DATA]", _TYPE, "a list of datasets of arrays"),
        ("endpoint=[millrace.Arrays(DATA)]", _TYPE, "a list of datasets of arrays"),
        # However large a value is, the sentence is short.
        ("fields=DATA", _TYPE, "fields={'x': <ndarray float64 [100, 100]>}: expected"),
        ("batch_size=[DATA['x']] * 9", _TYPE, "batch_size=[<ndarray float64 [100, 100]>, "),
        ("num_workers=DATA['x']", _TYPE, "num_workers=<ndarray float64 [100, 100]> of torch's"),
    )

    def test_what_cannot_be_is_refused_before_a_server_is_asked(self):
        self.output_of(_OPEN + """
import numpy, pathlib
DATA = {"x": numpy.ones((100, 100))}
SAVED = type("Dataset", (), {"__module__": "datasets.arrow_dataset", "save_to_disk": None})()
failures = []
for text, kind, part in json.loads(sys.argv[2]):
    named = eval(f"dict({text})")
    try:
        millrace.Loader(**{"endpoint": ENDPOINT, "pipeline": SPEC, "batch_size": 50, **named})
    except Exception as error:
        if not (isinstance(error, millrace.InvalidArgumentError) and
                isinstance(error, eval(kind)) and part in str(error) and
                len(str(error)) < 500 and "\\n" not in str(error)):
            failures.append((text, repr(error)))
    else:
        failures.append((text, "accepted"))
assert not failures, "\\n".join(map(str, failures))
""", json.dumps(self._REFUSED))

    def test_values_that_are_accepted(self):
        self.output_of(_OPEN + """
import numpy
for named in (dict(shuffle=None, drop_last=None, verify_payload=None), dict(window=2),
              dict(local=None, target_transform=None),
              dict(window=numpy.int64(0)), dict(endpoint=[ENDPOINT]),
              dict(fields=("label",)), dict(fields=(n for n in ["label", "image"])),
              dict(batch_size=numpy.int64(50), seed=numpy.uint8(3), open_timeout=numpy.float32(5)),
              dict(hedge_share=0, open_timeout=5, window=0, window_bytes=1 << 20),
              dict(hedge_share=1, hedge_floor=0, allow_uneven=True, drop_last=None),
              dict(pipeline=SPEC + "batch_size: 50", batch_size=None)):
    millrace.Loader(**{"endpoint": ENDPOINT, "pipeline": SPEC, "batch_size": 50,
                       "tensor_type": "dlpack", **named}).open()
assert json.dumps(loader(batch_size=numpy.int64(50)).state_dict())
""")

    def test_an_empty_environment_is_one_process(self):
        self.output_of(_OPEN + """
assert loader().rank == 0 and loader().world_size == 1
""", RANK="", WORLD_SIZE="")

    def test_a_file_with_the_name_of_no_preset(self):
        self.output_of(_OPEN + """
os.chdir(sys.argv[2])
open("plainfile", "w").write(SPEC)
refused(loader(pipeline="plainfile", dataset="d").open, millrace.NotFoundError, "./plainfile")
assert len(loader(pipeline="./plainfile")) == 41
""", self.work)

    def test_the_level_of_the_log(self):
        self.output_of(_OPEN + """
refused(lambda: millrace.set_log_level(5), TypeError, "level=5")
refused(lambda: millrace.set_log_level("loud"), ValueError, "loud")
refused(lambda: millrace.set_log_level("info\\0x"), ValueError, "NUL")
for name in millrace.errors.__all__:
    assert getattr(millrace, name) is getattr(millrace.errors, name)
""")


class Positions(Case):

    def test_positions_that_do_not_exist(self):
        self.output_of(_OPEN + """
one = loader()
for name in ("explain", "replay", "seek"):
    act = getattr(one, name)
    for epoch, step in ((-1, 0), (2**64, 0), (2**64 - 1, 0), (0, -1), (0, 2**64)):
        refused(lambda: act(epoch, step), ValueError, "from 0 to 1844674407370955161")
    for epoch, step in (("0", 0), (0, "0"), (None, 0), (0, None), (0.0, 0), (True, 0)):
        refused(lambda: act(epoch, step), TypeError, "whole number")
    refused(lambda: act(0, 42), ValueError, "step=42: an epoch has")
for epoch in (None, "3", 1.0):
    refused(lambda: one.set_epoch(epoch), TypeError, "epoch=")
for epoch in (-1, 2**64, 2**64 - 1):
    refused(lambda: one.sampler.set_epoch(epoch), ValueError, "from 0 to 18446744073709551614")
""")

    def test_the_last_epoch_that_there_is(self):
        self.output_of(_OPEN + """
one = loader()
one.set_epoch(2**64 - 2)
assert len(list(one)) == 41 and one.last_batch[:2] == (2**64 - 2, 40)
for _ in range(2):
    refused(lambda: next(iter(one)), ValueError, "18446744073709551614 was the last")
one.set_epoch(0)
assert len(list(one)) == 41 and one.last_batch[:2] == (0, 40)
""")

    def test_what_is_no_state(self):
        self.output_of(_OPEN + """
state = loader().state_dict()
for opened in (False, True):
    one = loader(open_timeout=30.0)
    if opened:
        one.open()
    for bad in (None, [], [1], 5, "x", b"", ()):
        refused(lambda: one.load_state_dict(bad), millrace.InvalidArgumentError, "state_dict()")
    for name in state:
        without = {key: value for key, value in state.items() if key != name}
        refused(lambda: one.load_state_dict(without), ValueError, name, "state_dict()")
        refused(lambda: one.load_state_dict({**state, name: None}), ValueError, name)
    for name in ("x", 5):
        refused(lambda: one.load_state_dict({**state, name: 1}), ValueError, f"the state has {name!r}, which")
    for step in (42, 10**9, -1, 2**64):
        refused(lambda: one.load_state_dict({**state, "step": step}), ValueError, str(step))
    refused(lambda: one.load_state_dict({**state, "epoch": 2**64 - 1}), ValueError, "epoch")
    assert one.state_dict() == state                 # nothing has changed
    one.load_state_dict({})
    assert one.state_dict() == state
# A state whose parts contradict each other is refused by open().
one = loader()
one.load_state_dict({**state, "step": 10**9, "steps_per_epoch": 10**10})
refused(one.open, millrace.Error, "step")
""")


class Usable(Case):

    def test_a_closed_loader(self):
        self.output_of(_OPEN + """
import pickle
for opened in (False, True):
    one = loader()
    state = loader().state_dict()
    if opened:
        next(iter(one))
    one.close()
    one.close()
    for act in (one.open, lambda: one.seek(0), lambda: one.set_epoch(1), one.__enter__,
                lambda: one.sampler.set_epoch(1), lambda: one.load_state_dict(state),
                lambda: one.load_state_dict({}), lambda: one.replay(0, 0),
                lambda: one.explain(0, 0), one.preview, lambda: next(iter(one))):
        refused(act, millrace.CancelledError, "closed")
    refused(lambda: pickle.dumps(one), millrace.FailedPreconditionError, "closed loader")
    one.stats(), repr(one)
assert one.state_dict()["step"] == 1                  # a checkpoint may come after close()
""")

    def test_a_forked_child(self):
        self.output_of(_OPEN + """
one = loader()
it = iter(one)
next(it)
state = one.state_dict()
child = os.fork()
if child == 0:
    try:
        for act in (one.open, lambda: one.seek(0), lambda: one.set_epoch(1), one.state_dict,
                    lambda: one.load_state_dict(state), one.__enter__, one.stats,
                    lambda: one.replay(0, 0), lambda: one.explain(0, 0), lambda: len(one),
                    one.preview, lambda: next(it), one.where_the_time_went):
            refused(act, millrace.FailedPreconditionError, "fork")
    except BaseException as error:
        print(repr(error), file=sys.stderr, flush=True)
        os._exit(1)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert sum(1 for _ in it) == 40
""")

    def test_subclasses_are_copied_with_what_they_add(self):
        folder = os.path.join(self.work, "modules")
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "own_loader.py"), "w", encoding="utf-8") as file:
            file.write("""
import millrace

class Own(millrace.Loader):
    def __init__(self, scale, *arguments, **named):
        self.before = "before"
        super().__init__(*arguments, **named)
        self.scale = scale

    def __iter__(self):
        for batch in super().__iter__():
            yield self.scale, batch
""")
        self.output_of(_OPEN + """
sys.path.insert(0, sys.argv[2])
import copy, pickle
from own_loader import Own
one = Own([3], ENDPOINT, pipeline=SPEC, batch_size=50, tensor_type="dlpack")
one.note = "of the program"
one.set_epoch(5)
for other in (pickle.loads(pickle.dumps(one)), copy.copy(one), copy.deepcopy(one)):
    assert type(other) is Own
    assert (other.before, other.scale, other.note) == ("before", [3], "of the program")
    scale, batch = next(iter(other))
    assert scale == [3] and other.last_batch[:2] == (5, 0)
    assert len(other.replay(5, 0)) == 2
    other.set_epoch(7)
assert one.state_dict()["epoch"] == 5                 # the copies have positions of their own
""", folder)
