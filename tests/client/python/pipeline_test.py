"""millrace.Pipeline and millrace.transforms: they say all that the spec has, with the defaults and
ranges of docs/transforms.md, and a loader gives the batches of the same spec as a text."""

from case import Case

# Arguments for all fields of a message: several calls where fields exclude each other.
_CALLS = """
from millrace import transforms as T
ref = T.OperatorRef("own", "1", "0" * 32)
CALLS = {
    "DecodeImage": [T.DecodeImage("gray", "exact", True, [ref], field="image")],
    "RandomResizedCrop": [T.RandomResizedCrop((3, 4), (0.1, 1), (0.5, 2), "nearest", False, p=0.5,
                                              fields="image")],
    "Resize": [T.Resize(5, "nearest", False, fields=["image"]), T.Resize((5, 6))],
    "CenterCrop": [T.CenterCrop([5], fields="image")],
    "HorizontalFlip": [T.RandomHorizontalFlip(0.25, fields="image")],
    "VerticalFlip": [T.RandomVerticalFlip(0.25, fields="image")],
    "Normalize": [T.Normalize((0.5,), 0.5, placement="server", fields="image")],
    "RandomCrop": [T.RandomCrop(5, (1, 2), True, 7, "edge", p=0.5, fields="image")],
    "Pad": [T.Pad(1, (1, 2, 3), "reflect", fields="image")],
    "ColorJitter": [T.ColorJitter(0.1, (0.5, 2), 0.3, 0.1, p=0.5, fields="image")],
    "Grayscale": [T.Grayscale(3, p=0.5, fields="image"), T.RandomGrayscale(fields="image")],
    "GaussianBlur": [T.GaussianBlur(5, 2, p=0.5, fields="image")],
    "RandomRotation": [T.RandomRotation(5, "nearest", 7, p=0.5, fields="image")],
    "RandomAffine": [T.RandomAffine((1, 2), (0.1, 0.2), (0.5, 2), (1, 2, 3, 4), "bilinear", 7, p=0.5,
                                    fields="image")],
    "CustomTransform": [T.Custom("own", b"x", version="1", library_hash="0" * 32,
                                 result_dtype="uint8", result_shape=(5, 6), p=0.5, fields="image")],
    "RandomErasing": [T.RandomErasing(0.5, (0.1, 0.2), (0.5, 2), 7, fields="image"),
                      T.RandomErasing(value="random")],
    "ToDtype": [T.ToDtype("float16", True, placement="server", fields="image")],
    "TrivialAugmentWide": [T.TrivialAugmentWide(31, "bilinear", 7, p=0.5, fields="image")],
    "RandAugment": [T.RandAugment(2, 9, 31, "bilinear", 7, p=0.5, fields="image")],
    "MixUp": [T.MixUp(alpha=0.2, labels="label", p=0.5, fields="image")],
    "CutMix": [T.CutMix(alpha=0.2, labels=["label"], p=0.5, fields="image")],
    "OperatorRef": [ref],
    "FieldRole": [millrace.FieldRole("mask", "mask", of="image", fill=255)],
    "Subset": [millrace.Subset(0.1, 0.2, seed=3, unit=4)],
    "SyntheticField": [millrace.SyntheticField("label", "int64", (2, 3)),
                       millrace.SyntheticField("label", "int64", num_classes=10)],
    "Synthetic": [millrace.Synthetic(5, millrace.SyntheticField("x", "uint8"), seed=1, latency_us=2,
                                     ready_batches=3)],
    "Shuffle": [millrace.Shuffle("block", block_size=5, window_blocks=6)],
    "Output": [millrace.Output("image", name="x", dtype="uint8", layout="nchw")],
}
CALLS["Source"] = [millrace.Source("d", weight=2, subset=CALLS["Subset"][0], reader=ref),
                   millrace.Source(synthetic=CALLS["Synthetic"][0])]
CALLS["PipelineSpec"] = [millrace.Pipeline(
    CALLS["CenterCrop"], preset="p", sources=["a", "b"], seed=1, shuffle="block", batch_size=2,
    last_batch="pad", outputs="image", bad_samples="zero", field_roles=CALLS["FieldRole"],
    epoch_samples=5, concatenate=False, compression="zstd", spec_version=1)]
"""


class Spec(Case):

    def test_every_field_of_the_spec_can_be_written(self):
        self.output_of(_CALLS + """
import re
messages, enums = {}, set()
for name in ("pipeline", "types"):
    lines = re.sub(r"//.*", "", open(f"proto/{name}.proto").read())
    enums |= set(re.findall(r"^\\s*([A-Z][A-Z0-9_]*) = \\d+;", lines, re.M))
    for kind, body in re.findall(r"^message (\\w+) \\{\\n(.*?)^\\}", lines, re.M | re.S):
        body = re.sub(r"  enum \\w+ \\{.*?  \\}", "", body, flags=re.S)
        messages[kind] = re.findall(r"(\\w+) = \\d+;", body)
assert len(messages) > 30 and "spec_version" in messages["PipelineSpec"], messages
kinds = messages.pop("Transform")
del messages["BadSamplePolicy"], messages["ErrorDetail"]    # an argument; no part of a spec
assert set(messages) == set(CALLS), set(messages) ^ set(CALLS)
words = set()
for kind, fields in messages.items():
    written = [name for call in CALLS[kind] for name in call.values]
    assert set(written) == set(fields), (kind, set(written) ^ set(fields))
    words |= set(re.findall(r"(?<=: )[A-Z][A-Z0-9_]+", " ".join(call.text for call in CALLS[kind])))
assert len(words) > 10 and words <= enums, words - enums
assert {c.kind for calls in CALLS.values() for c in calls if isinstance(c, T.Transform)} == set(kinds)
classes = {type(c).__name__ for calls in CALLS.values() for c in calls}
for name in T.__all__:                         # no class is left out here
    assert name in classes | {"Transform"}, name
""")

    def test_the_values_of_the_enums(self):
        # Every literal of the type hints is a value of the spec.
        self.output_of("""
import re, typing
from millrace import transforms as T, pipeline
enums = set()
for name in ("pipeline", "types"):
    enums |= set(re.findall(r"^\\s*([A-Z][A-Z0-9_]*) = \\d+;", open(f"proto/{name}.proto").read(), re.M))
for hint, prefix in ((T.Interpolation, "INTERPOLATION_"), (T.PaddingMode, "PADDING_"),
                     (T.Placement, "PLACEMENT_"), (T.DType, "DTYPE_")):
    literals = {prefix + word.upper() for word in typing.get_args(hint)}
    there = {name for name in enums if name.startswith(prefix)} - {"DTYPE_UNSPECIFIED"}
    assert literals == there, literals ^ there
seen = 0
for source in (T.__file__, pipeline.__file__):
    for words in re.findall(r"Literal\\[((?:\\"\\w+\\"(?:, )?)+)\\]", open(source).read()):
        for word in re.findall(r"\\w+", words):
            seen += 1
            assert any(word.upper() in name for name in enums) or word in ("random", "sample", "batch")
assert seen > 20
""")

    def test_the_docstrings_have_the_tables_of_the_documentation(self):
        # tests/server/plan/transforms_page_test compares the tables with the servers.
        self.output_of(_CALLS + """
import inspect, re
ARGUMENT = {"height": "size", "width": "size", "short_side": "size", "stddev": "std",
            "translate_x": "translate", "translate_y": "translate", "shear_x": "shear",
            "shear_y": "shear", "no_antialias": "antialias", "random_value": "value"}
# Where Python says it in another way, with the reason.
ELSEWHERE = {("resize", "size"): "must be given",
             ("grayscale", "p"): "RandomGrayscale has torchvision's 0.1",
             ("random_affine", "degrees"): "must be given, as in torchvision"}
page = open("docs/transforms.md").read()
rows = 0
for calls in CALLS.values():
    for transform in calls:
        if not isinstance(transform, T.Transform):
            continue
        section = re.search(rf"^### `{transform.kind}`\\n(.*?)(?=^##)|\\Z", page + "\\n##", re.M | re.S)
        entries = {name: " ".join(text.split()) for name, text in re.findall(
            r"^  (\\w+): (.*?)(?=^  \\w+: |\\Z)", inspect.cleandoc(type(transform).__doc__), re.M | re.S)}
        table = re.search(r"^\\| parameter .*?^$", section[1], re.M | re.S)[0]
        for line in re.findall(r"^\\| (`.*) \\|$", table, re.M):
            cells = [cell.strip() for cell in line.split("|")]
            field = re.search(r"`(\\w+?)(?:_min)?`", cells[0])[1]
            argument = ARGUMENT.get(field, field)
            if argument == "value" and field == "random_value":
                assert "\\"random\\"" in entries["value"]
                continue
            if argument == "antialias":
                assert "False" in entries["antialias"]
                continue
            assert argument in inspect.signature(type(transform)).parameters, (transform.kind, field)
            text, where = entries[argument], (transform.kind, argument, entries[argument])
            rows += 1
            if cells[2] != "–":
                assert cells[2] in text, (where, cells[2])
            if (transform.kind, argument) not in ELSEWHERE:
                default = cells[1].split("; a bound")[0].split("; both")[0]
                assert default in text, (where, default)
assert rows > 60, rows
""")

    def test_the_lists_of_transforms(self):
        with open("docs/python.md", encoding="utf-8") as file:
            text = " ".join(file.read().split())
        self.output_of("import re\nfrom millrace import _from_albumentations, _from_torchvision\n"
                        f"TEXT = {text!r}\n" + """
for known, begin in ((_from_torchvision._KNOWN, "- These transforms are translated: "),
                     ({*_from_albumentations._KNOWN, "Sequential"}, "W]. The transforms are ")):
    listed = TEXT[TEXT.index(begin) + len(begin):].split(". ")[0]
    assert set(re.findall(r"\\b[A-Z]\\w+", listed)) == set(known), set(
        re.findall(r"\\b[A-Z]\\w+", listed)) ^ set(known)
""")

    def test_what_is_written(self):
        self.output_of(_CALLS + """
import copy, pickle
def text(transform):
    return transform.text
assert text(T.RandomResizedCrop(160, scale=(0.2, 1))) == \\
    "random_resized_crop { height: 160 width: 160 scale_min: 0.2 scale_max: 1.0 }"
assert text(T.Resize(256)) == "resize { short_side: 256 }"
assert text(T.Resize([256])) == "resize { short_side: 256 }"
assert text(T.Resize((3, 4))) == "resize { height: 3 width: 4 }"
assert text(T.ColorJitter(2, hue=0.1)) == \\
    "color_jitter { brightness_min: 0.0 brightness_max: 3.0 hue_min: -0.1 hue_max: 0.1 }"
assert text(T.RandomAffine(0, shear=5)) == \\
    "random_affine { degrees_min: 0.0 degrees_max: 0.0 shear_x_min: -5.0 shear_x_max: 5.0 }"
assert text(T.RandomGrayscale()) == "grayscale { p: 0.1 }"
assert text(T.RandomHorizontalFlip()) == "horizontal_flip {}"
assert text(T.Custom("a\\"b\\\\c\\n", b"\\0\\xff")) == \\
    'custom { name: "a\\\\"b\\\\\\\\c\\\\n" config: "\\\\000\\\\377" }'
one = CALLS["PipelineSpec"][0]
for other in (pickle.loads(pickle.dumps(one)), copy.deepcopy(one), copy.copy(one)):
    assert other == one and hash(other) == hash(one) and other.text == one.text
assert one != millrace.Pipeline() and T.Resize(5) != T.CenterCrop(5) and one.transforms == (
    T.CenterCrop(5, fields="image"),)
assert one.notes == () and one.local_transforms == () and str(one) == one.text and "preset" in repr(one)
""")

    def test_a_misspelt_argument_is_refused_with_the_nearest_name(self):
        self.output_of("""
from millrace import transforms as T
BAD = millrace.ArgumentError
refused(lambda: T.Resize(5, interpolaton="nearest"), BAD,
        "transforms.Resize has no argument interpolaton=; did you mean interpolation=?")
refused(lambda: T.RandomGrayscale(probability=1), BAD, "transforms.RandomGrayscale has no argument probability=",
        "help(millrace.transforms.RandomGrayscale)")
refused(lambda: T.OperatorRef(nam="x"), BAD, "transforms.OperatorRef", "name=?")
refused(lambda: millrace.Pipeline([], sauces="a"), BAD, "Pipeline has no argument sauces=; did you mean sources=?")
refused(lambda: millrace.Synthetic(5, [], latency=3), BAD, "Synthetic has no argument latency=", "latency_us=?")
# A class of the program has names of its own.
class Own(T.Resize):
    def __init__(self, interpolaton, **others):
        super().__init__(**others)
        self.interpolaton = interpolaton
assert Own("x", size=5).interpolaton == "x"
""")

    def test_numbers_of_numpy(self):
        self.output_of("""
import numpy
from millrace import transforms as T
half, five = numpy.float32(0.5), numpy.int64(5)
for one, other in (
        (T.Normalize(numpy.array([0.5, 0.25, 1]), half), T.Normalize([0.5, 0.25, 1], 0.5)),
        (T.Resize(numpy.array([5, 6])), T.Resize((5, 6))), (T.Resize(five), T.Resize(5)),
        (T.RandomResizedCrop(5, numpy.array([0.5, 1])), T.RandomResizedCrop(5, (0.5, 1))),
        (T.RandomAffine(half, shear=numpy.array([1, 2])), T.RandomAffine(0.5, shear=(1, 2))),
        (T.GaussianBlur(five, half), T.GaussianBlur(5, (0.5, 0.5))),
        (T.ColorJitter(half, numpy.array([0.5, 2])), T.ColorJitter(0.5, (0.5, 2))),
        (T.Pad(five, numpy.array([1, 2, 3])), T.Pad(5, (1, 2, 3)))):
    assert one == other, (one, other)
for act in (lambda: T.ColorJitter(-0.5), lambda: T.RandomRotation(-5), lambda: T.RandomAffine(0, shear=-1)):
    try:
        act()
    except millrace.InvalidArgumentError as error:
        assert "not negative" in str(error), error
    else:
        raise SystemExit("accepted: a negative number for a range")
for act in (lambda: T.CenterCrop(-3), lambda: T.Resize((5, 0)), lambda: T.RandomCrop(16385)):
    try:
        act()
    except millrace.InvalidArgumentError as error:
        assert "expected a whole number from 1 to 16384" in str(error), error
    else:
        raise SystemExit("accepted: a side that no image has")
""")

    def test_wrong_types_are_refused_at_once(self):
        self.output_of("""
import numpy
from millrace import transforms as T
for act, part in (
        (lambda: T.RandomCrop("x"), "size='x'"),
        (lambda: T.RandomCrop((1, 2, 3)), "(height, width)"),
        (lambda: T.Resize(1.5), "size=1.5"),
        (lambda: T.Resize(5, antialias=None), "antialias=None"),
        (lambda: T.Grayscale(1), "DecodeImage(color=\\"gray\\")"),
        (lambda: T.GaussianBlur((3, 5)), "both axes"),
        (lambda: T.RandomErasing(value="noise"), "value='noise'"),
        (lambda: T.RandomAffine(0, shear=(1, 2, 3)), "shear="),
        (lambda: T.RandomRotation(True), "degrees=True"),
        (lambda: T.ColorJitter((0.5,)), "pair"),
        (lambda: T.RandomCrop(5, fields={"image"}), "fields="),
        (lambda: T.Resize(5, 2), "interpolation=2"),
        (lambda: T.Resize(5, "bi-linear"), "bi-linear"),
        (lambda: T.ToDtype(float), "dtype=\\"float32\\""),
        (lambda: T.Resize(numpy.array([[5, 6]])), "size=<ndarray int64 [1, 2]>"),
        (lambda: T.CenterCrop(5, fields=[]), "at least one name"),
        (lambda: millrace.Pipeline(outputs=[]), "outputs=[]"),
        (lambda: millrace.Pipeline(sources=()), "sources=[]"),
        (lambda: T.Normalize(numpy.array("x"), 1), "mean="),
        (lambda: T.Custom("x", 5), "config=5"),
        (lambda: T.DecodeImage(decoders=["own"]), "OperatorRef"),
        (lambda: millrace.Pipeline([5]), "transforms[0]=5"),
        (lambda: millrace.Pipeline("mnist"), "transforms="),
        (lambda: millrace.Pipeline(sources=5), "sources=5"),
        (lambda: millrace.Pipeline(outputs={"image"}), "outputs="),
        (lambda: millrace.Pipeline(seed="1"), "seed='1'"),
        (lambda: millrace.Source("d", subset=0.5), "subset=0.5"),
        (lambda: millrace.Pipeline.from_torchvision(5), "torchvision.transforms.v2"),
        (lambda: millrace.Pipeline.from_albumentations(len), "Albumentations")):
    try:
        act()
    except TypeError as error:
        assert isinstance(error, millrace.ArgumentError) and part in str(error), (part, str(error))
    else:
        raise SystemExit(f"accepted: {part}")
""")


_SPEC = """
from millrace import transforms as T, Source, Synthetic, SyntheticField
def sources(samples=2030):
    return Source(synthetic=Synthetic(samples, [SyntheticField("image", "uint8", (64, 64, 3)),
                                                SyntheticField("label", "int64", num_classes=10)],
                                      seed=3))
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
def pipeline(*transforms, **named):
    return millrace.Pipeline(transforms, sources=sources(), **{"seed": 1, **named})
def loader(given, **named):
    return millrace.Loader(ENDPOINT, **{"pipeline": given, "batch_size": 50, **named})
"""


class Loaders(Case):

    def test_a_loader_gives_the_batches_of_the_same_text(self):
        self.output_of(_SPEC + """
import numpy
given = pipeline(T.RandomHorizontalFlip(0.5), T.Normalize(MEAN, STD))
one, other = loader(given, shuffle=True), loader(SPEC, shuffle=True)
for (images, labels), (others, their_labels) in zip(one, other, strict=True):
    assert numpy.array_equal(images, others) and numpy.array_equal(labels, their_labels)
assert one.plan["plan_hash"] == other.plan["plan_hash"] and len(one) == 41
assert one.pipeline is given and other.pipeline is None
assert numpy.array_equal(one.replay(0, 3)[0], other.replay(0, 3)[0])
import pickle
assert pickle.loads(pickle.dumps(loader(given))).pipeline == given
# What the pipeline says of the batch.
whole = loader(pipeline(T.CenterCrop(8), batch_size=70, last_batch="pad", shuffle="sequential",
                        outputs=["label", millrace.Output("image", name="x", layout="nchw")]),
               batch_size=None, shuffle=None, drop_last=None, output="dict")
assert whole.global_batch_size == 70 and len(whole) == 29
assert next(iter(whole))["x"].shape == (70, 3, 8, 8) and list(next(iter(whole))) == ["label", "x"]
empty = loader(millrace.Pipeline(sources=sources()))
assert next(iter(empty))[0].shape == (50, 64, 64, 3)      # no preset, no transform
""")

    def test_the_servers_refuse_what_is_out_of_range(self):
        self.output_of(_SPEC + """
for transform, part in (
        (T.RandomHorizontalFlip(1.5), "p is 1.5"), (T.Pad(16385), "16384"),
        (T.Resize(5, "bicubic"), "BICUBIC"), (T.ColorJitter((2, 1)), "brightness"),
        (T.Normalize((124, 1, 1), STD), "mean 124"), (T.Normalize(MEAN[:1], STD), "stddev"),
        (T.RandomRotation(float("nan")), "finite"), (T.RandomErasing(scale=(0, 1)), "scale"),
        (T.Pad((1, 2, 3)), "padding has 3"), (T.ToDtype("float8"), "FLOAT8")):
    try:
        loader(pipeline(T.RandomVerticalFlip(), transform)).open()
    except millrace.InvalidArgumentError as error:
        assert part in str(error), (part, str(error))
    else:
        raise SystemExit(f"accepted: {transform}")
""")

    def test_the_defaults_are_those_of_the_servers(self):
        # What is left out is written out by the servers.
        self.output_of(_SPEC + """
resolved = loader(pipeline(T.RandomResizedCrop(32), T.RandomErasing(), T.RandAugment(),
                           T.Normalize(MEAN, STD))).plan["pipeline"]
for part in ("scale_min: 0.08", "ratio_max: 1.33333", "scale_max: 0.33", "num_ops: 2", "magnitude: 9"):
    assert part in resolved, (part, resolved)
""")

    def test_no_library_is_imported(self):
        result = self.package.run("""
from millrace import transforms as T
pipeline = millrace.Pipeline([T.CenterCrop(5)])
millrace.Loader("a:1", "d", pipeline, 5)
for name in ("torch", "torchvision", "albumentations", "numpy", "cv2"):
    assert name not in sys.modules, name
print("none")
""", numpy=False)
        self.assertEqual(result.stdout, "none\n", result.stderr)
