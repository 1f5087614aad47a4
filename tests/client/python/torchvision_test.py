"""Pipelines that are translated from torchvision v2: what becomes of each transform, what is refused,
batches of real images beside torchvision's, and the random choices as distributions."""

import re
import textwrap

from torchvision_case import TorchvisionCase


class Translation(TorchvisionCase):

    def test_transforms_types_and_refusals(self):
        # One process, because the import of torch takes most of the time.
        self.run_script(_TRANSFORMS + _TYPES + _REFUSED)


class Batches(TorchvisionCase):

    def test_one_value_for_all_channels_of_pixels_of_servers(self):
        self.run_script("""
def pixels(channels):
    field = millrace.SyntheticField("image", "uint8", [6, 8, channels])
    return millrace.Source(synthetic=millrace.Synthetic(20, field, seed=3))
def batch(pipeline):
    with millrace.Loader(ENDPOINT, pipeline=pipeline, batch_size=20) as loader:
        return next(iter(loader))[0]
def of_servers(channels, *transforms):
    compose = v2.Compose([*FLOAT, *transforms])
    return batch(Pipeline.from_torchvision(compose, decode=False, sources=pixels(channels)))
for channels, compose in ((1, v2.Normalize([0.5], [0.25])), (3, v2.Normalize([0.5] * 3, [0.25] * 3))):
    stored = batch(Pipeline([], sources=pixels(channels)))
    assert stored.shape == (20, 6, 8, channels) and stored.dtype == torch.uint8
    got = of_servers(channels, compose)
    assert torch.allclose(got, (stored.permute(0, 3, 1, 2) / 255 - 0.5) / 0.25, atol=1e-6)
refused(lambda: of_servers(3, v2.Normalize([0.5], [0.25])), millrace.InvalidArgumentError,
        "has 3 channels, but normalize.mean has 1 value", "Normalize(mean=[0.5] * 3, std=[0.25] * 3)")
# A pipeline of the servers' transforms is no translation: their own sentence says all.
error = refused(lambda: batch(Pipeline([T.Normalize(0.5, 0.25)], sources=pixels(3))),
                millrace.InvalidArgumentError, "write one value for each channel")
assert "compose" not in str(error), error
""")

    def test_arrays_are_pixels_already(self):
        self.variables = self.of_this_machine()
        self.run_script("""
images = (torch.rand(30, 40, 36, 3) * 255).to(torch.uint8)
compose = v2.Compose([v2.CenterCrop(32), *END])
def theirs(compose, images=images):
    return torch.stack([compose(tv_tensors.Image(image.permute(2, 0, 1))).as_subclass(torch.Tensor)
                        for image in images])
loader = millrace.Loader({"image": images, "label": torch.arange(30)}, pipeline=compose, batch_size=30)
got, _ = next(iter(loader))
assert got.shape == (30, 3, 32, 32) and (got - theirs(compose)).abs().max() < 1e-6, got.shape
loader.close()
# A flip would turn them upside down.
for channels_first in (images.permute(0, 3, 1, 2), images.permute(0, 3, 1, 2).numpy()):
    refused(lambda: millrace.Loader({"image": channels_first}, None, v2.RandomHorizontalFlip(1.0), batch_size=30),
            millrace.InvalidArgumentError, "[30, 3, 40, 36] looks like images [N, C, H, W]")

def batch(data, given, **named):
    with millrace.Loader(data, pipeline=given, batch_size=30, output="dict", **named) as loader:
        return next(iter(loader))
def same(data, compose, local=None):
    expected = theirs(compose, data["image"])
    for given in (compose, Pipeline.from_torchvision(compose, decode=False)):
        got = batch(data, given)["image"]
        assert got.dtype == expected.dtype and got.shape == expected.shape, (compose, got.dtype, got.shape)
        assert (got.double() - expected.double()).abs().max() < 1e-6, compose
grey, floats = images[..., :1], images / 255
rgb, gray = {"image": images}, {"image": grey}
HALF = v2.Compose([*FLOAT, v2.Normalize([0.5], [0.25])])          # one value for all channels
for data in (rgb, gray):
    for nothing in (v2.Compose([v2.ToImage()]), v2.Identity(), v2.Compose([v2.Identity(), v2.ToPureTensor()])):
        same(data, nothing)
    same(data, v2.Compose(FLOAT))
    same(data, HALF)
    same(data, v2.Compose([v2.ToImage(), v2.ToDtype(torch.float16, scale=True)]))
    same(data, v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32)]))
assert torch.equal(batch(rgb, v2.Compose([v2.RGB(), *FLOAT]))["image"], theirs(v2.Compose(FLOAT)))
assert torch.equal(batch(gray, v2.Compose([v2.Grayscale(1), v2.ToImage()]))["image"], grey.permute(0, 3, 1, 2))
assert batch(rgb, v2.Compose(FLOAT))["image"].stride() == (4320, 1, 108, 3)     # a view
# All steps in the loader.
local = Pipeline.from_torchvision(v2.Compose([v2.JPEG(90)]), decode=False, local="sample")
assert not local.transforms and batch(rgb, local)["image"].shape == (30, 3, 40, 36)
# Masks and boxes.
shapes = {"image": images, "mask": (images[..., :1] > 100).to(torch.uint8),
          "boxes": torch.tensor([1.0, 2, 30, 20]).repeat(30, 2, 1)}
for one in (v2.Compose(FLOAT), v2.Identity()):
    got = batch(shapes, Pipeline.from_torchvision(one, decode=False, masks="mask", boxes="boxes"))
    assert torch.equal(got["image"], theirs(one)) and torch.equal(got["boxes"], shapes["boxes"])
    assert torch.equal(got["mask"], shapes["mask"].permute(0, 3, 1, 2))
got = batch(shapes, Pipeline.from_torchvision(v2.Compose([v2.RandomHorizontalFlip(1.0), *HALF.transforms]),
                                              decode=False, masks="mask", boxes="boxes"))
assert got["image"].shape == (30, 3, 40, 36) and (got["boxes"][0, 0] == torch.tensor([6, 2, 35, 20])).all()
# Other types: what changes no pixel, and what the loader does.
numbers = {"image": (floats * 1000).to(torch.int16)}
for data in ({"image": floats}, {"image": floats.double()}, {"image": floats.half()}):
    same(data, v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32, scale=True)]))
    same(data, v2.Compose([v2.ToImage()]))
    for one in (v2.Normalize(MEAN, STD), v2.RandomHorizontalFlip(1.0), HALF):
        error = refused(lambda: batch(data, one), millrace.TranslationError,
                        f"images are {str(data['image'].dtype)[6:]}", "(images * 255).round()",
                        'millrace.Pipeline.from_torchvision(compose, decode=False, local="sample")')
        assert "uint8 at this place" not in str(error), error
    for local in ("sample", "batch"):
        for one in (v2.Compose([v2.RandomHorizontalFlip(1.0), v2.ToDtype(torch.float32, scale=True),
                                v2.Normalize(MEAN, STD)]), HALF):
            got = batch(data, Pipeline.from_torchvision(one, decode=False, local=local))["image"]
            assert torch.equal(got, theirs(one, data["image"])), (one, local)
same(numbers, v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32)]))
refused(lambda: batch(numbers, v2.Compose(FLOAT)), millrace.TranslationError, "images are int16",
        "scale only uint8")
# What is not there.
refused(lambda: batch({"x": images}, v2.Identity()), millrace.InvalidArgumentError, "field 'image'", "have x",
        'decode=False, field="..."')
assert batch({"x": images}, Pipeline.from_torchvision(v2.Identity(), decode=False, field="x"))["x"].shape == (
    30, 3, 40, 36)
refused(lambda: batch(rgb, Pipeline.from_torchvision(compose)), millrace.InvalidArgumentError, "field 'image'",
        "millrace.Pipeline.from_torchvision(compose, decode=False)")
refused(lambda: batch({"image": images[..., 0]}, v2.Identity()), millrace.InvalidArgumentError,
        "images[..., None]")
for one, advice in ((v2.Grayscale(1), "3 channels"), (v2.Compose([*FLOAT, v2.Normalize([0.5] * 2, [1.0] * 2)]),
                                                      "3 channels")):
    refused(lambda: batch(rgb, one), millrace.TranslationError, advice)
""")

    def test_a_folder_and_nothing_but_decoding(self):
        # The servers do not know whether all images have one size.
        self.variables = self.of_this_machine()
        self.run_script("""
for given in (v2.ToImage(), v2.Compose([v2.ToImage(), v2.Identity()]), v2.Compose(FLOAT),
              Pipeline.from_torchvision(v2.Compose([v2.JPEG(90)]), local="sample")):
    loader = millrace.Loader("imagefolder:" + FOLDER, pipeline=given, batch_size=6)
    error = refused(loader.open, millrace.InvalidArgumentError, "field image has images of different sizes",
                    "center_crop", 'give fields=["label"]')
    assert "outputs {" not in str(error), error
    local = bool(loader.pipeline is not None and loader.pipeline.local_transforms)
    assert ("before the first local transform" in str(error)) == local, error
""")

    def test_pixels_are_those_of_torchvision(self):
        self.run_script("""
from PIL import Image
def both(compose, **named):
    one = millrace.Loader(ENDPOINT, "pictures", compose, batch_size=40, **named)
    images, labels = next(iter(one))
    theirs = torch.stack([compose(Image.open(file)).as_subclass(torch.Tensor) for file in FILES])
    assert images.shape == theirs.shape and images.dtype == theirs.dtype, (images.shape, theirs.shape)
    assert one.pipeline == Pipeline.from_torchvision(compose)
    return (images.double() - theirs.double()).abs()
crop = v2.CenterCrop(48)
assert both(v2.Compose([crop, *END])).max() < 1e-6
assert both(v2.Compose([crop, *FLOAT])).max() == 0
assert both(v2.Compose([v2.ToImage(), crop])).max() == 0            # uint8 [rows, C, H, W]
assert both(v2.Compose([v2.ToImage(), crop, v2.ToDtype(torch.float32)])).max() == 0
assert both(v2.Compose([v2.Pad(3, (1, 2, 3)), v2.CenterCrop((70, 50)), *END])).max() < 1e-6
assert both(v2.Compose([v2.Grayscale(3), crop, v2.ToImage()])).max() <= 1
# Resampling is in fixed point.
for size in (32, (40, 50)):
    difference = both(v2.Compose([v2.Resize(size), v2.CenterCrop(32), v2.ToImage()]))
    assert difference.max() <= 2 and difference.mean() < 0.5, (size, difference.max(), difference.mean())
assert both(v2.Compose([v2.ToImage(), v2.Resize((40, 50), I.NEAREST)])).max() == 0
# Ranges of one value: directions, signs and units.
for one in (v2.RandomHorizontalFlip(1.0), v2.RandomVerticalFlip(1.0), v2.ColorJitter((1.2, 1.2)),
            v2.ColorJitter(contrast=(0.7, 0.7)), v2.ColorJitter(saturation=(1.5, 1.5)),
            v2.ColorJitter(hue=(0.1, 0.1)), v2.GaussianBlur(5, 1.5), v2.RandomGrayscale(1.0),
            v2.RandomRotation((30, 30)), v2.RandomRotation((30, 30), I.BILINEAR, fill=(9, 99, 199)),
            v2.RandomAffine((10, 10), (0, 0), (1.2, 1.2), (5, 5, -9, -9), I.BILINEAR, fill=50)):
    difference = both(v2.Compose([v2.ToImage(), crop, one]))
    # A nearest pixel may be another one where the place is on the border of two.
    assert difference.mean() < 0.6 and difference.quantile(0.99) <= 2, (one, difference.mean())
""")

    def test_the_rest_in_the_loader(self):
        self.run_script("""
torch.manual_seed(1)
head = [v2.ToImage(), v2.CenterCrop(48)]
plain = millrace.Loader(ENDPOINT, "pictures", v2.Compose(head), batch_size=40)
images, _ = next(iter(plain))
def shift(image):                   # a random choice, to see for how many images it is made
    assert isinstance(image, tv_tensors.Image)
    return image + torch.randint(0, 2**20, ())
def loader(*rest, local):
    given = Pipeline.from_torchvision(v2.Compose([*head, *rest]), local=local)
    assert given.transforms == (T.DecodeImage(), T.CenterCrop(48)), given
    assert "position" in given.notes[0] and "torch's generator" in given.notes[0], given.notes
    return millrace.Loader(ENDPOINT, "pictures", given, batch_size=40)
for local, choices in (("sample", 40), ("batch", 1)):
    one = loader(v2.ToDtype(torch.int32), v2.Lambda(shift), local=local)
    assert len(one.pipeline.local_transforms) == 2 and "position 2" in one.pipeline.notes[0]
    shifted, labels = next(iter(one))
    shifts = shifted - images.int()
    assert shifts.dtype == torch.int32 and len(labels) == 40
    assert all(shift.unique().numel() == 1 for shift in shifts)
    assert shifts[:, 0, 0, 0].unique().numel() == choices, local
    # Conversions in front of the first local transform run there, too.
    norm, _ = next(iter(loader(*FLOAT, v2.ElasticTransform(alpha=0.0), v2.Normalize(MEAN, STD),
                               local=local)))
    expected = v2.functional.normalize(images / 255, MEAN, STD)
    assert (norm - expected).abs().max() < 1e-5 and type(norm) is torch.Tensor
# A rank without rows, replay, pickle, dicts, and other fields.
given = Pipeline.from_torchvision(v2.Compose([*head, v2.JPEG(50)]), local="sample")
none = millrace.Loader(ENDPOINT, "pictures", given, global_batch_size=39, rank=0, world_size=3,
                       allow_uneven=True)
shapes = [tuple(images.shape) for images, _ in none]
assert shapes == [(13, 3, 48, 48), (0, 3, 48, 48)], shapes
import pickle
again = pickle.loads(pickle.dumps(millrace.Loader(ENDPOINT, "pictures", given, batch_size=40, output="dict")))
batch = next(iter(again))
assert batch["image"].shape == again.replay(0, 0)["image"].shape == (40, 3, 48, 48)
only = millrace.Loader(ENDPOINT, "pictures", given, batch_size=40, fields=["label"])
assert next(iter(only))[0].shape == (40,)
for named, part in ((dict(tensor_type="numpy"), "torch"), (dict(tensor_type="dlpack"), "dlpack"),
                    (dict(apply_device_transform=False), "local")):
    try:
        millrace.Loader(ENDPOINT, "pictures", given, batch_size=40, **named)
        raise SystemExit(f"accepted: {named}")
    except millrace.InvalidArgumentError as error:
        assert part in str(error), error
view = millrace.Loader(ENDPOINT, "pictures", v2.Compose(head), batch_size=40, tensor_type="numpy")
assert next(iter(view))[0].shape == (40, 3, 48, 48)
stored = millrace.Loader(ENDPOINT, "pictures", v2.Compose(head), batch_size=40,
                         apply_device_transform=False)
assert next(iter(stored))[0].shape == (40, 48, 48, 3)
try:
    next(iter(loader(v2.JPEG(50), v2.ToPILImage(), local="sample")))
    raise SystemExit("PIL images in a batch")
except millrace.InvalidArgumentError as error:
    assert "ToImage()" in str(error)
for last, parts in ((v2.FiveCrop(40), ("tuple", "FiveCrop", "torch.stack")),
                    (v2.Lambda(lambda image: None), ("NoneType", "must return one", "Lambda"))):
    try:
        next(iter(loader(last, local="sample")))
        raise SystemExit(f"a batch of {last}")
    except millrace.InvalidArgumentError as error:
        assert all(part in str(error) for part in parts) and "add ToImage()" not in str(error), error
""")


    def test_a_local_transform_that_fails_takes_no_batch(self):
        self.run_script("""
failing = [3]
def fails_once(image):
    failing[0] -= 1
    if failing[0] == 0:
        raise RuntimeError("of the program")
    return image
given = Pipeline.from_torchvision(
    v2.Compose([v2.ToImage(), v2.CenterCrop(48), v2.Lambda(fails_once)]), local="batch")
one = millrace.Loader(ENDPOINT, "pictures", given, batch_size=10, fields=["image", "sample_index"])
it = iter(one)
seen = [next(it)[1].tolist() for _ in range(2)]
try:
    next(it)
    raise SystemExit("it did not fail")
except RuntimeError as error:
    assert str(error) == "of the program"
assert one.state_dict()["step"] == 2 and one.last_batch.step == 1, one.state_dict()
seen += [index.tolist() for _, index in it]
assert sum(seen, []) == list(range(40)), seen
""")

    def test_preview_of_what_is_translated(self):
        self.run_script("""
for rest, local in (([], None), (END, None), ([v2.JPEG(50)], "sample")):
    given = Pipeline.from_torchvision(v2.Compose([v2.ToImage(), v2.CenterCrop(48), *rest]), local=local)
    one = millrace.Loader(ENDPOINT, "pictures", given, batch_size=10)
    shown = one.preview(0, 1, 4)
    assert "4 of 10 rows" in str(shown) and shown.png[:4] == b"\\x89PNG", shown
    again, labels = one.replay(0, 1)
    assert again.shape == (10, 3, 48, 48)
""")


class Documentation(TorchvisionCase):
    shapes = True

    def test_the_code_runs(self):
        with open("docs/python.md", encoding="utf-8") as file:
            text = file.read()
        section = text[text.index("## Pipelines in Python"):text.index("## Contents of a batch")]
        blocks = re.findall(r"(?:^    .*\n|^\n(?=    ))+", section, re.MULTILINE)
        code = [textwrap.dedent(block) for block in blocks if "the servers cannot" not in block]
        self.assertEqual(len(code), 4)
        code = "\n".join(code).replace('"data-1:7001", "photos"', 'ENDPOINT, "pictures"')
        self.assertEqual(code.count("ENDPOINT"), 2)
        output = self.run_script(code + """
images, labels = next(iter(loader))
assert images.shape == (32, 3, 160, 160) and images.dtype == torch.float32
one = millrace.Loader(ENDPOINT, "pictures", pipeline, batch_size=4)
images, labels = next(iter(one))
assert images.shape == (4, 3, 160, 160) and images.dtype == torch.float32 and images.max() <= 1
images, masks, boxes = next(iter(millrace.Loader(ENDPOINT, "shapes", shapes, batch_size=4)))
assert images.shape == (4, 3, 160, 160) and masks.shape == (4, 1, 160, 160) and boxes.shape == (4, 3, 4)
assert images.dtype == torch.float32 and masks.dtype == torch.int64 and boxes.dtype == torch.float32
try:
    Pipeline.from_torchvision(v2.Compose([v2.Resize(256, v2.InterpolationMode.BICUBIC),
                                          v2.ElasticTransform()]))
except millrace.TranslationError as error:
    print(error)
""")
        self.assertIn("fixed point", output)  # a note
        error, = [textwrap.dedent(block) for block in re.findall(
            r"^      the servers cannot.*?\n\n", section, re.MULTILINE | re.DOTALL)]
        self.assertTrue(output.endswith(error.rstrip("\n") + "\n"), output + error)


class Distributions(TorchvisionCase):
    """The drawn parameters of 3,000 samples beside 3,000 draws of torchvision: two-sample
    Kolmogorov-Smirnov tests, and counts of what is not a number. Both sides have fixed seeds, so the
    result is the same in every run; 1.95 is the level 0.001 of the statistic. Other ranges are far
    above it."""

    def test_the_draws(self):
        self.assertIn("compared 29 parameters", self.run_script(_DRAWS))


_DRAWS = """
import math, re
N, HEIGHT, WIDTH = 3000, 96, 120
COMPOSE = [
    v2.RandomResizedCrop(64), v2.RandomHorizontalFlip(0.3), v2.RandomVerticalFlip(),
    v2.ColorJitter(0.4, 0.5, (0.5, 2), 0.1), v2.RandomRotation((-20, 40)),
    v2.RandomAffine(15, (0.1, 0.3), (0.7, 1.4), (-10, 10, -3, 5)), v2.GaussianBlur(5, (0.5, 3)),
    v2.RandomGrayscale(0.2), v2.RandomCrop(56, padding=4), v2.TrivialAugmentWide(),
    v2.RandAugment(2, 9), v2.RandomErasing(0.6)]
SIZES = [(HEIGHT, WIDTH)] + [(64, 64)] * 8 + [(56, 56)] * 3

def add(found, **values):
    for name, value in values.items():
        found.setdefault(name, []).append(value)

def theirs(compose):
    torch.manual_seed(5)
    found = {}
    class Recorder:
        def __call__(self, image, name, magnitude, **ignored):
            self.drawn.append((name, round(float(magnitude), 4)))
            return image
    recorder = Recorder()
    for transform in compose:
        if isinstance(transform, (v2.TrivialAugmentWide, v2.RandAugment)):
            transform._apply_image_or_video_transform = recorder
    images = [torch.zeros(3, height, width, dtype=torch.uint8) for height, width in SIZES]
    for _ in range(N):
        p = [t.make_params([image]) if hasattr(t, "make_params") else {}
             for t, image in zip(compose, images)]
        for i, name in ((1, "hflip"), (2, "vflip"), (7, "gray"), (11, "erased")):
            hit = bool(torch.rand(1) < compose[i].p)
            if i == 11:
                hit = hit and p[11]["v"] is not None
            add(found, **{name: hit})
        add(found, area=p[0]["width"] * p[0]["height"], ratio=p[0]["width"] / p[0]["height"],
            left=p[0]["left"], top=p[0]["top"])
        add(found, brightness=p[3]["brightness_factor"], contrast=p[3]["contrast_factor"],
            saturation=p[3]["saturation_factor"], hue=p[3]["hue_factor"],
            order=tuple(("brightness", "contrast", "saturation", "hue")[i] for i in p[3]["fn_idx"]))
        add(found, angle=p[4]["angle"])
        add(found, turn=p[5]["angle"], shift_x=p[5]["translate"][0], shift_y=p[5]["translate"][1],
            scale=p[5]["scale"], shear_x=p[5]["shear"][0], shear_y=p[5]["shear"][1])
        add(found, sigma=p[6]["sigma"][0])
        add(found, crop_left=p[8]["left"] - 4, crop_top=p[8]["top"] - 4)
        if found["erased"][-1]:
            add(found, erased_area=p[11]["h"] * p[11]["w"], erased_ratio=p[11]["h"] / p[11]["w"],
                erased_left=p[11]["j"], erased_top=p[11]["i"])
        for i, name in ((9, "trivial"), (10, "rand")):
            recorder.drawn = []
            compose[i](images[i])
            add(found, **{name: tuple(recorder.drawn)})
    return found

def numbers(text):
    return [float(number) for number in re.findall(r"-?\\d+(?:\\.\\d+)?(?:e-?\\d+)?", text)]

def operations(text):
    # torchvision's translations are cut to whole pixels when they are applied.
    found = []
    for part in text.split(", "):
        name, _, strength = part.partition(" ")
        found.append((name, float(strength or 0)))
    return tuple(found)

def ours():
    from millrace import Source, Synthetic, SyntheticField
    given = Pipeline.from_torchvision(
        v2.Compose([*COMPOSE, *END]), decode=False, seed=11,
        sources=Source(synthetic=Synthetic(N, SyntheticField("image", "uint8", (HEIGHT, WIDTH, 3)), seed=1)))
    one = millrace.Loader(ENDPOINT, pipeline=given, batch_size=500)
    found = {}
    for step in range(len(one)):
        for sample in one.explain(0, step)["samples"]:
            d = {item["place"]: item["drawn"] for item in sample["drawn"]}
            left, top, width, height = numbers(d[0])
            add(found, area=width * height, ratio=width / height, left=left, top=top)
            add(found, hflip=d[1] == "flipped", vflip=d[2] == "flipped")
            order = re.search(r"order ([\\w,]+)", d[3])[1].split(",")
            add(found, order=tuple(order), **{name: float(re.search(rf"; {name} ([-\\d.e]+)", d[3])[1])
                                              for name in order})
            add(found, angle=numbers(d[4])[0])
            turn, x, y, scale, shear_x, shear_y = numbers(d[5])
            add(found, turn=turn, shift_x=x, shift_y=y, scale=scale, shear_x=shear_x, shear_y=shear_y)
            add(found, sigma=numbers(d[6])[0], gray=d[7] == "grayscale: applied")
            left, top, width, height = numbers(d[8])
            add(found, crop_left=left, crop_top=top)
            add(found, trivial=operations(d[9]), rand=operations(d[10]))
            erased = "not applied" not in d[11]
            add(found, erased=erased)
            if erased:
                left, top, width, height = numbers(d[11])
                add(found, erased_area=width * height, erased_ratio=height / width, erased_left=left,
                    erased_top=top)
    return found

def statistic(one, other):
    # Two-sample Kolmogorov-Smirnov, times the root of n m / (n + m).
    one, other = torch.tensor(one).double().sort()[0], torch.tensor(other).double().sort()[0]
    at = torch.cat([one, other]).unique()
    distance = (torch.searchsorted(one, at, right=True) / len(one) -
                torch.searchsorted(other, at, right=True) / len(other)).abs().max().item()
    return distance * math.sqrt(len(one) * len(other) / (len(one) + len(other)))

def far(one, other):
    # The largest difference of the shares of a value, in standard deviations.
    worst = 0.0
    for value in set(one) | set(other):
        a, b = one.count(value) / len(one), other.count(value) / len(other)
        share = (a * len(one) + b * len(other)) / (len(one) + len(other))
        deviation = math.sqrt(share * (1 - share) * (1 / len(one) + 1 / len(other)))
        worst = max(worst, abs(a - b) / deviation if deviation else 0)
    return worst

OURS = ours()
THEIRS = theirs(COMPOSE)
assert set(OURS) == set(THEIRS), set(OURS) ^ set(THEIRS)
for name, values in THEIRS.items():
    if name in ("trivial", "rand"):
        # Each operation as often, and its strengths alike.
        flat = [[operation for drawn in one for operation in drawn]
                for one in (OURS[name], THEIRS[name])]
        assert len(flat[0]) == len(flat[1]) == N * (2 if name == "rand" else 1)
        names = [[operation for operation, _ in one] for one in flat]
        assert len(set(names[1])) == 14 and far(*names) < 4, (name, far(*names))
        for operation in sorted(set(names[1])):
            strengths = [[strength for n, strength in one if n == operation] for one in flat]
            if operation.startswith("Translate"):
                strengths = [[float(int(s)) for s in one] for one in strengths]
            assert statistic(*strengths) < 1.95, (name, operation, statistic(*strengths))
            assert abs(max(strengths[0]) - max(strengths[1])) < 0.02, (operation, max(strengths[0]),
                                                                     max(strengths[1]))
    elif name in ("hflip", "vflip", "gray", "erased", "order"):
        assert far(OURS[name], values) < 4, (name, far(OURS[name], values))
    else:
        assert statistic(OURS[name], values) < 1.95, (name, statistic(OURS[name], values))
print("compared", len(THEIRS), "parameters")

# The statistic is no formality.
image = [torch.zeros(3, HEIGHT, WIDTH, dtype=torch.uint8)]
for name, wrong, drawn in (
        ("area", v2.RandomResizedCrop(64, scale=(0.15, 1)), lambda p: p["width"] * p["height"]),
        ("brightness", v2.ColorJitter(0.3), lambda p: p["brightness_factor"]),
        ("angle", v2.RandomRotation((-20, 32)), lambda p: p["angle"])):
    other = [drawn(wrong.make_params(image)) for _ in range(N)]
    assert statistic(other, OURS[name]) > 2.5, (name, statistic(other, OURS[name]))
"""

_TRANSFORMS = """
import numpy
# A compose, and the transforms of the servers without decode_image and normalize.
for transforms, expected in (
        ([v2.RandomResizedCrop(224)], [T.RandomResizedCrop(224, (0.08, 1.0), (3 / 4, 4 / 3), "bilinear")]),
        ([v2.RandomResizedCrop((4, 5), (0.2, 1), (1, 2), I.NEAREST, antialias=None)],
         [T.RandomResizedCrop((4, 5), (0.2, 1), (1, 2), "nearest")]),
        ([v2.RandomResizedCrop(9, interpolation=2, antialias=False)],
         [T.RandomResizedCrop(9, (0.08, 1.0), (3 / 4, 4 / 3), "bilinear", False)]),
        ([v2.Resize(256), v2.CenterCrop(224)], [T.Resize(256, "bilinear"), T.CenterCrop(224)]),
        ([v2.Resize((4, 5)), v2.Resize([6])], [T.Resize((4, 5), "bilinear"), T.Resize(6, "bilinear")]),
        ([v2.RandomCrop(32, padding=4)], [T.RandomCrop(32, (4, 4, 4, 4))]),
        ([v2.RandomCrop(32, padding=(1, 2, 3, 4), fill=7)], [T.RandomCrop(32, (1, 2, 3, 4), fill=7)]),
        ([v2.RandomCrop(32, pad_if_needed=True, padding_mode="reflect")],
         [T.RandomCrop(32, None, True, None, "reflect")]),
        ([v2.RandomCrop(32, fill=9)], [T.RandomCrop(32)]),
        ([v2.Pad((1, 2), (1, 2, 3))], [T.Pad((1, 2), (1, 2, 3))]),
        ([v2.Pad(3, 9, "edge")], [T.Pad(3, None, "edge")]),
        ([v2.RandomHorizontalFlip(), v2.RandomVerticalFlip(0.1)],
         [T.RandomHorizontalFlip(0.5), T.RandomVerticalFlip(0.1)]),
        ([v2.RandomRotation(20)], [T.RandomRotation((-20, 20), "nearest")]),
        ([v2.RandomRotation((-5, 10), I.BILINEAR, fill=(1, 2, 3))],
         [T.RandomRotation((-5, 10), "bilinear", (1, 2, 3))]),
        ([v2.RandomRotation(0), v2.RandomAffine(0), v2.ColorJitter(), v2.Identity()], []),
        ([v2.RandomAffine(10, (0.1, 0.2), (0.5, 2), 5)],
         [T.RandomAffine((-10, 10), (0.1, 0.2), (0.5, 2), (-5, 5), "nearest")]),
        ([v2.RandomAffine(0, shear=(1, 2, 3, 4), fill={tv_tensors.Image: 5, "others": 0})],
         [T.RandomAffine((0, 0), shear=(1, 2, 3, 4), interpolation="nearest", fill=5)]),
        ([v2.ColorJitter(0.2, (0.5, 2), hue=0.1)],
         [T.ColorJitter((0.8, 1.2), (0.5, 2), None, (-0.1, 0.1))]),
        ([v2.Grayscale(3), v2.RandomGrayscale()], [T.Grayscale(3), T.RandomGrayscale(0.1)]),
        ([v2.GaussianBlur(5), v2.GaussianBlur((7, 7), 1.5)],
         [T.GaussianBlur(5, (0.1, 2.0)), T.GaussianBlur(7, (1.5, 1.5))]),
        ([v2.RandomErasing(0.2, value=(1, 2, 3))],
         [T.RandomErasing(0.2, (0.02, 0.33), (0.3, 3.3), (1, 2, 3))]),
        ([v2.TrivialAugmentWide(), v2.RandAugment(3, 10, fill=5)],
         [T.TrivialAugmentWide(31, "nearest"), T.RandAugment(3, 10, 31, "nearest", 5)]),
        ([v2.RandomApply([v2.ColorJitter(0.4)], p=0.8)], [T.ColorJitter((0.6, 1.4), p=0.8)]),
        ([v2.RandomApply([v2.RandomApply([v2.RandomHorizontalFlip(0.5)], p=0.5)], p=0.5)],
         [T.RandomHorizontalFlip(0.125)]),
        ([v2.Compose([v2.CenterCrop(5), torch.nn.Sequential(v2.CenterCrop(4))]), v2.RGB()],
         [T.CenterCrop(5), T.CenterCrop(4)]),
        # A probability of 0 or 1 decides over any transforms.
        ([v2.RandomApply([v2.CenterCrop(5), v2.RandomApply([v2.ColorJitter(0.4)], p=0.5)], p=1)],
         [T.CenterCrop(5), T.ColorJitter((0.6, 1.4), p=0.5)]),
        ([v2.RandomApply([v2.ElasticTransform()], p=0)], []),
        ([v2.RandomApply([v2.Grayscale(3)], p=0.2)], [T.Grayscale(3, p=0.2)]),
        # Numbers of NumPy and torch.
        ([v2.CenterCrop(numpy.int64(5)), v2.Resize([numpy.int64(4), 5]),
          v2.RandomHorizontalFlip(torch.tensor(0.5)), v2.RandomVerticalFlip(numpy.float32(0.5))],
         [T.CenterCrop(5), T.Resize((4, 5), "bilinear"), T.RandomHorizontalFlip(0.5),
          T.RandomVerticalFlip(0.5)])):
    given = translated(*transforms, *END)
    found = list(given.transforms)
    assert found[0] == T.DecodeImage() and found[-1] == T.Normalize(MEAN, STD), found
    assert found[1:-1] == expected, (found[1:-1], expected)
    assert not given.local_transforms and given._local is None
one = Pipeline.from_torchvision(v2.CenterCrop(5), sources="d", seed=7, bad_samples="zero", field="x")
assert "seed: 7" in one.text and "action: ZERO" in one.text
assert one.transforms == (T.DecodeImage(field="x"), T.CenterCrop(5, fields="x"))
from torchvision.transforms._presets import ImageClassification
one = Pipeline.from_torchvision(ImageClassification(crop_size=224))      # weights.transforms()
assert one.transforms == (T.DecodeImage(), T.Resize(256, "bilinear"), T.CenterCrop(224),
                          T.Normalize(MEAN, STD)), one
"""

_TYPES = """
one = translated(*END)
assert one.transforms == (T.DecodeImage(), T.Normalize(MEAN, STD)) and one.notes == ()
# A mean of one value is torch's broadcast.
assert translated(*FLOAT, v2.Normalize([0.5], [0.2])).transforms[-1] == T.Normalize([0.5] * 3, [0.2] * 3)
# Scaling alone is normalize with mean 0 and deviation 1, which changes no value.
for scale in ([v2.ToTensor()], FLOAT, [v2.PILToTensor(), v2.ConvertImageDtype(torch.float32)]):
    assert translated(*scale).transforms[-1] == T.Normalize([0.0] * 3, [1.0] * 3)
assert translated(*FLOAT, decode=T.DecodeImage("gray")).transforms[-1] == T.Normalize([0.0], [1.0])
half = translated(v2.ToDtype(torch.float16, scale=True), v2.Normalize(MEAN, STD))
assert half.transforms[-2:] == (T.Normalize(MEAN, STD), T.ToDtype("float16"))
assert any("compute in float32" in note for note in half.notes)
assert translated(*END, v2.ToDtype({tv_tensors.Image: torch.bfloat16, "others": None})
                  ).transforms[-1] == T.ToDtype("bfloat16")
bytes_ = translated(v2.CenterCrop(5))
assert bytes_.transforms == (T.DecodeImage(), T.CenterCrop(5))
assert translated(v2.ToDtype(torch.float32)).transforms[-1] == T.ToDtype("float32")
# What torchvision does to a tensor alone, or to a PIL image alone.
assert translated(v2.ToImage(), v2.ToTensor()).transforms == (T.DecodeImage(),)
assert translated(v2.ToTensor(), v2.ToTensor(), v2.Normalize(MEAN, STD)).transforms == one.transforms
assert any("PIL image" in note for note in translated(v2.ToDtype(torch.float32)).notes)
assert any("compute in float32" in note
           for note in translated(v2.ToImage(), v2.ToDtype(torch.float64, scale=True)).notes)
assert any("fill of Mask is ignored" in note
           for note in translated(v2.Pad(3, {tv_tensors.Mask: 4, "others": 0})).notes)
# Behind the conversions, levels are those of 0 .. 255.
one = translated(*END, v2.RandomErasing(0.1), v2.RandomHorizontalFlip())
assert one.transforms[1] == T.RandomErasing(0.1, (0.02, 0.33), (0.3, 3.3), (124, 116, 104)), one
assert one.transforms[2] == T.RandomHorizontalFlip(0.5)
assert any("[124, 116, 104]" in note and "RandomErasing (position 3)" in note for note in one.notes)
one = translated(*FLOAT, v2.RandomCrop(5, padding=2, fill=1.0), v2.Normalize(MEAN, STD))
assert one.transforms[1] == T.RandomCrop(5, (2, 2, 2, 2), fill=255)
assert any("floats" in note for note in translated(*FLOAT, v2.ColorJitter(0.2)).notes)
# One channel.
gray = translated(v2.RandomResizedCrop(5), v2.Grayscale(), *FLOAT, v2.Normalize([0.5], [0.5]))
assert gray.transforms[0] == T.DecodeImage("gray") and gray.transforms[-1] == T.Normalize([0.5], [0.5])
assert any("decode_image { color: GRAY }" in note for note in gray.notes)
for dtype in ("float32", "float16"):
    unknown = translated(v2.ToImage(), v2.ToDtype(getattr(torch, dtype), scale=True), decode=False)
    assert unknown.transforms == (T.ToDtype(dtype, True),), unknown
assert "normalise uint8 images" in refused_steps(v2.Normalize(MEAN, STD), decode=False)[0]["reason"]
assert translated(v2.ToImage(), decode=False).text.endswith("\\nseed: 0\\n")
raw = translated(v2.CenterCrop(5), *END, decode=False)
assert raw.transforms == (T.CenterCrop(5), T.Normalize(MEAN, STD))
# The number of channels is not known: one value may be for one channel, or for several.
half = *FLOAT, v2.Normalize([0.5], [0.5])
assert translated(*half, v2.RandomErasing(value=1.0), decode=False).transforms == (
    T.RandomErasing(0.5, (0.02, 0.33), (0.3, 3.3), 255), T.Normalize([0.5], [0.5]))
step, = refused_steps(*half, v2.RandomErasing(value=[0.1, 0.2, 0.3]), decode=False)
assert step["parameter"] == "value" and "whose number is not known" in step["reason"], step
assert "one value a channel in Normalize" in step["advice"], step
exact = translated(v2.CenterCrop(5), decode=T.DecodeImage(mode="exact"))
assert exact.transforms[0] == T.DecodeImage(mode="exact")
assert any("fixed point" in note for note in translated(v2.Resize(5)).notes)
# Pixels that differ by more than rounding.
def notes(*transforms, **named):
    return "\\n".join(translated(*transforms, **named).notes)
EXACT = dict(decode=T.DecodeImage(mode="exact"))
AT_CENTRES, BY_PILLOW = "of PIL images, it picks those at the centres", "for PIL images, Pillow does"
PICKED, SCALED = "resampling without antialiasing", "1/2, 1/4 or 1/8"
ADVICE = 'decode=DecodeImage(mode="exact")'
nearest = v2.Resize((5, 5), I.NEAREST)
for one in (nearest, v2.RandomResizedCrop(5, interpolation=I.NEAREST)):
    assert AT_CENTRES in notes(one) and AT_CENTRES not in notes(v2.ToImage(), one)
for one in (v2.RandomRotation(5, I.BILINEAR), v2.RandomAffine(5, interpolation=I.BILINEAR)):
    assert BY_PILLOW in notes(one) and BY_PILLOW not in notes(v2.ToImage(), one)
    assert PICKED not in notes(one)
assert BY_PILLOW not in notes(v2.RandomRotation(5)) and AT_CENTRES not in notes(v2.Resize(5))
for one in (nearest, v2.Resize((5, 5), antialias=False), v2.RandomResizedCrop(5, antialias=False)):
    assert PICKED in notes(v2.ToImage(), one) and ADVICE in notes(one)
    for named in (EXACT, dict(decode=False)):
        assert SCALED not in notes(one, **named) and "fixed point" in notes(one, **named)
assert PICKED not in notes(v2.Resize(5)) and SCALED in notes(v2.Resize(5)) and ADVICE in notes(v2.Resize(5))
assert SCALED not in notes(v2.Resize(5), **EXACT) and ADVICE not in notes(v2.Resize(5), **EXACT)
"""

_REFUSED = """
class Mine(v2.CenterCrop):
    pass
later, hooked, replaced, without = (v2.CenterCrop(5) for _ in range(4))
later.new_parameter = 1
hooked.register_forward_hook(lambda module, arguments, image: image + 1)
hooked_compose = v2.Compose([v2.CenterCrop(5)])
hooked_compose.register_forward_pre_hook(lambda module, arguments: None)
replaced.forward = lambda image: image
del without.size
warned = v2.Resize(5)
warned.antialias = "warn"            # the default of torchvision 0.15 and 0.16
import functools
from PIL import Image
from torchvision import transforms as v1
for transforms, position, name, parameter, part in (
        ([v2.Resize(5, I.BICUBIC)], "0", "Resize", "interpolation", "BILINEAR or NEAREST"),
        ([v2.Resize(5, I.NEAREST_EXACT)], "0", "Resize", "interpolation", "NEAREST"),
        ([v2.Resize(5, antialias=None)], "0", "Resize", "antialias", "PIL images"),
        ([v2.Resize(5, max_size=9)], "0", "Resize", "max_size", "short side"),
        ([v2.CenterCrop(5), v2.RandomRotation(5, expand=True)], "1", "RandomRotation", "expand", "size"),
        ([v2.RandomRotation(5, center=(1, 1))], "0", "RandomRotation", "center", "centre"),
        ([v2.RandomRotation(5, I.BILINEAR, fill=None)], "0", "RandomRotation", "fill", "blend"),
        ([v2.RandomAffine(5, center=(1, 1))], "0", "RandomAffine", "center", "centre"),
        ([v2.GaussianBlur((3, 5))], "0", "GaussianBlur", "kernel_size", "both axes"),
        ([v2.Pad(-1)], "0", "Pad", "padding", "negative"),
        ([v2.CenterCrop(-5)], "0", "CenterCrop", "", "size[0]=-5: expected a whole number from 1 to 16384"),
        ([v2.CenterCrop(10**12)], "0", "CenterCrop", "", "size[0]=1000000000000"),
        ([v2.RandomCrop(5, padding=-1)], "0", "RandomCrop", "", "padding[0]=-1"),
        ([v2.Pad(3, float("nan"))], "0", "Pad", "fill", "nan"),
        ([v2.Pad(3, float("inf"))], "0", "Pad", "fill", "inf"),
        ([v2.Pad(3, 256)], "0", "Pad", "fill", "256"),
        ([v2.Pad(3, {Image.Image: 3, tv_tensors.Image: 4})], "0", "Pad", "fill", "several values"),
        ([v2.ToDtype(torch.float32, scale=True), v2.ToImage()], "1", "ToImage", "", "PIL images"),
        ([v2.ToDtype(torch.float32, scale=True), v2.ToTensor()], "1", "ToTensor", "", "PIL images"),
        ([hooked], "0", "CenterCrop", "", "hooks"),
        ([v2.Compose([hooked_compose])], "0.0", "Compose", "", "hooks"),
        ([replaced], "0", "CenterCrop", "forward", "does not know"),
        ([without], "0", "CenterCrop", "", "cannot convert"),
        ([warned], "0", "Resize", "antialias", "warn"),
        ([v2.ToImage], "0", "ToImage", "", "write ToImage(...)"),
        ([lambda x: x], "0", "<lambda>", "", "Python function"),
        ([functools.partial(len)], "0", "partial", "", "Python function"),
        ([T.CenterCrop(5)], "0", "CenterCrop", "", "millrace.Pipeline"),
        ([v2.CenterCrop(5), None], "1", "NoneType", "", "do not have this transform"),
        ([v2.ToPILImage()], "0", "ToPILImage", "", "tensors"),
        ([v2.RandomApply([v2.Grayscale(1)])], "0", "RandomApply", "transforms", "the same number of channels"),
        ([v2.ClampBoundingBoxes()], "0", "ClampBoundingBoxes", "", "boxes="),
        ([v2.RandomErasing(value="random")], "0", "RandomErasing", "value", "normal distribution"),
        ([*END, v2.RandomErasing(value=9.0)], "3", "RandomErasing", "value", "uint8"),
        ([*END, v2.CenterCrop(5)], "3", "CenterCrop", "", "after Normalize"),
        ([*END, v2.ColorJitter(0.1)], "3", "ColorJitter", "", "after Normalize"),
        ([*END, v2.Normalize(MEAN, STD)], "3", "Normalize", "", "once"),
        ([v2.Normalize(MEAN, STD)], "0", "Normalize", "", "uint8"),
        ([v2.ToDtype(torch.float32), v2.Normalize(MEAN, STD)], "1", "Normalize", "", "0 .. 255"),
        ([*FLOAT, v2.Normalize([0.5] * 2, [1.0] * 2)], "2", "Normalize", "mean", "3 channels"),
        ([*FLOAT, v2.TrivialAugmentWide()], "2", "TrivialAugmentWide", "", "uint8"),
        ([v2.ToDtype(torch.int32)], "0", "ToDtype", "dtype", "int32"),
        ([v2.ToDtype({tv_tensors.Mask: torch.int64})], "0", "ToDtype", "dtype", "no entry for Image"),
        ([v2.ColorJitter(0.1), v2.Grayscale()], "1", "Grayscale", "num_output_channels", "one channel"),
        ([v2.RandomApply([v2.CenterCrop(5)])], "0", "RandomApply", "transforms", "CenterCrop"),
        ([v2.RandomApply([v2.ColorJitter(0.1), v2.GaussianBlur(3)])], "0", "RandomApply", "transforms",
         "for each transform separately"),
        ([v2.RandomApply([v2.GaussianBlur((3, 5))])], "0", "RandomApply", "transforms",
         "GaussianBlur(kernel_size=)"),
        ([v2.RandomApply([v2.ElasticTransform()])], "0", "RandomApply", "transforms", "ElasticTransform"),
        ([v2.RandomChoice([v2.CenterCrop(5), v2.Resize(5)])], "0", "RandomChoice", "", "separately"),
        ([v2.Compose([v2.CenterCrop(5), v2.Compose([v2.RandomPerspective()])])], "0.1.0",
         "RandomPerspective", "", "do not have this transform"),
        ([v2.ElasticTransform()], "0", "ElasticTransform", "", "docs/extending.md"),
        ([v2.AutoAugment()], "0", "AutoAugment", "", "TrivialAugmentWide"),
        ([v2.Lambda(lambda x: x)], "0", "Lambda", "", "Python"),
        ([v2.MixUp(num_classes=3)], "0", "MixUp", "", "samples 2i and 2i + 1"),
        ([v2.CutMix(num_classes=3)], "0", "CutMix", "", "millrace.transforms.CutMix"),
        ([v1.CenterCrop(5)], "0", "CenterCrop", "", "import v2"),
        ([v1.Compose([v1.CenterCrop(5)])], "0", "Compose", "", "import v2"),
        ([Mine(5)], "0", "Mine", "", "derived from CenterCrop"),
        ([later], "0", "CenterCrop", "new_parameter", "does not know"),
        ([v2.CenterCrop(5), len], "1", "len", "", "Python function")):
    items = refused_steps(*transforms)
    assert len(items) == 1, items
    item, = items
    found = item["position"], item["transform"], item["parameter"]
    assert found == (position, name, parameter), (found, item)
    assert part in item["reason"] + item["advice"], item
both = refused_steps(v2.ElasticTransform(), v2.CenterCrop(5), v2.JPEG(50))
assert [item["position"] for item in both] == ["0", "2"]
# local= where it can work: a transform of the servers has given all images one size.
def refusal(*transforms, **named):
    try:
        translated(*transforms, **named)
    except millrace.TranslationError as error:
        return str(error)
    raise SystemExit("accepted")
OFFER, NEEDS = 'local="sample" runs the first of these', "needs images of one size there"
for transforms in ([v2.Resize(5, I.BICUBIC), v2.ElasticTransform()], [v2.ElasticTransform(), v2.CenterCrop(5)],
                   [v2.Resize(5), v2.Pad(3), v2.JPEG(50)], [v2.JPEG(50)]):
    text = refusal(*transforms)
    assert OFFER not in text and NEEDS in text and "RandomResizedCrop" in text, text
    assert OFFER in refusal(*transforms, decode=False)
for fixed in (v2.Resize((5, 6)), v2.CenterCrop(5), v2.RandomCrop(5), v2.RandomResizedCrop(5)):
    text = refusal(fixed, v2.Pad(3), v2.JPEG(50))
    assert OFFER in text and NEEDS not in text, text
assert OFFER not in refusal(v2.CenterCrop(5), v2.ToImage, local="sample")
for named, part in ((dict(mask="m"), "no argument mask=; did you mean masks=?"),
                    (dict(bad_sample="zero"), "did you mean bad_samples=?"), (dict(zzz=1), "lists the arguments")):
    try:
        translated(v2.CenterCrop(5), **named)
        raise SystemExit(f"accepted: {named}")
    except millrace.ArgumentError as error:
        assert part in str(error) and isinstance(error, TypeError), error
for bad in (dict(local="images"), dict(decode=5), dict(field=5), dict(field="x", decode=T.DecodeImage()),
            dict(decode=[5]), dict(decode=[T.DecodeImage(), T.DecodeImage()]), dict(masks=5), dict(masks=""),
            dict(masks=["mask", "mask"]), dict(masks="image"), dict(boxes={"boxes"}),
            dict(masks="mask", boxes="mask"), dict(masks="mask", decode=T.DecodeImage("gray", field="mask")),
            dict(field_roles=millrace.FieldRole("mask", "mask")), dict(preset="mnist"),
            dict(transforms=[T.CenterCrop(5)]), dict(outputs=millrace.Output("image", layout="nhwc"))):
    try:
        translated(v2.CenterCrop(5), **bad)
        raise SystemExit(f"accepted: {bad}")
    except millrace.ArgumentError:
        pass
assert refused_steps(v2.MixUp(num_classes=3), local="batch")
assert refused_steps(v2.CenterCrop(5), v2.ToImage, None, local="sample")[1]["position"] == "2"
assert refused_steps(v2.RandomChoice([v2.MixUp(num_classes=3), v2.CutMix(num_classes=3)]), local="batch")
"""
