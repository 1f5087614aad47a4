"""Masks and boxes of pipelines that are translated from torchvision v2: what becomes of each transform, what
is refused, and real masks and boxes beside torchvision's."""

from torchvision_case import TorchvisionCase


class MasksAndBoxes(TorchvisionCase):
    shapes = True

    def test_transforms_and_refusals(self):
        self.run_script(_BESIDE)

    def test_they_move_as_in_torchvision(self):
        self.run_script(_SAMPLES + """
def both(*transforms, ties=0.0, pixels=1, corners=1e-3):
    compose = v2.Compose([v2.ToImage(), *transforms])
    given = Pipeline.from_torchvision(compose, masks="mask", boxes="boxes")
    ours = next(iter(millrace.Loader(ENDPOINT, "shapes", given, batch_size=40, output="dict")))
    theirs = [compose(sample) for sample in samples()]
    for name in ("image", "mask", "boxes"):
        expected = torch.stack([sample[name].as_subclass(torch.Tensor) for sample in theirs])
        assert ours[name].shape == expected.shape and ours[name].dtype == expected.dtype, (
            name, ours[name].shape, expected.shape, ours[name].dtype, expected.dtype)
        difference = (ours[name].double() - expected.double()).abs()
        if name == "mask":
            assert (difference > 0).double().mean() <= ties, (transforms, (difference > 0).double().mean())
            assert len(expected.unique()) > 3, expected.unique()
        elif name == "boxes":
            # The empty box is padding here.
            stored = torch.tensor(BOXES)
            empty = (stored == 0).all(2)
            assert empty.sum() == 10 and (ours[name][empty] == 0).all()
            assert difference[~empty].max() <= corners, (transforms, difference[~empty].max())
        else:
            assert difference.mean() < 0.6 and difference.quantile(0.99) <= pixels, (transforms, difference.mean())
crop = v2.CenterCrop(48)
OUTSIDE = {tv_tensors.Image: 50, tv_tensors.Mask: 255, "others": 0}
both(crop, pixels=0)
both(crop, v2.RandomHorizontalFlip(1.0), pixels=0)
both(v2.RandomVerticalFlip(1.0), crop, v2.RandomHorizontalFlip(1.0), pixels=0)
both(v2.Pad((5, 3), OUTSIDE), v2.CenterCrop((66, 70)), pixels=0)      # as large as the smallest, padded
# It rounds the place of boxes in another way than that of the padded picture.
both(v2.CenterCrop(130), pixels=0, corners=1)
both(v2.Resize((40, 50)), pixels=2)
both(v2.Resize((150, 70), I.NEAREST), pixels=0)
both(v2.Resize(48), crop, v2.ClampBoundingBoxes(), pixels=2)
both(v2.Resize((64, 64)), v2.ColorJitter((1.2, 1.2)), v2.GaussianBlur(3, 1.0), v2.RandomErasing(0.0), pixels=3)
# A nearest pixel may be another one where the place is on the border of two.
both(crop, v2.RandomRotation((30, 30), fill=OUTSIDE), ties=0.002, pixels=2)
both(v2.Resize((64, 80)), v2.RandomAffine((10, 10), (0, 0), (1.2, 1.2), (5, 5, -9, -9), I.BILINEAR, fill=OUTSIDE),
     v2.RandomHorizontalFlip(1.0), ties=0.002, pixels=3)
# Types.
both(crop, v2.ToDtype({tv_tensors.Image: torch.float32, tv_tensors.Mask: torch.int64, "others": None}, scale=True),
     v2.Normalize(MEAN, STD), pixels=1e-5)
both(crop, v2.ToDtype(torch.float32, scale=True), pixels=0)
both(v2.Pad(3, padding_mode="constant", fill=2), crop, v2.ConvertImageDtype(), pixels=1e-6)
""")

    def test_preview_draws_the_masks_of_stored_files(self):
        self.run_script(_SAMPLES + """
import numpy
from millrace import _picture
def pixels(picture):
    return numpy.frombuffer(picture.rgb, numpy.uint8).reshape(picture.height, picture.width, 3).astype(int)
def nearest(array, height, width):
    rows, columns = ((numpy.arange(new) + 0.5) * old / new for new, old in zip((height, width), array.shape))
    return array[rows.astype(int)][:, columns.astype(int)]
given = Pipeline.from_torchvision(v2.Compose([v2.CenterCrop(48), v2.ToImage()]), masks="mask", boxes="boxes")
one = millrace.Loader(ENDPOINT, "shapes", given, batch_size=40, output="dict")
batch = next(iter(one))
shown, alone = one.preview(samples=40)._pairs, one.preview(samples=40, field="mask")._pairs
COLORS = numpy.array([(0, 0, 0), *_picture._CLASS_COLORS])
for row, (pair, mask, sample) in enumerate(zip(shown, alone, samples(), strict=True)):
    classes = nearest(batch["mask"][row, 0].numpy(), 192, 192)
    image = batch["image"][row].permute(1, 2, 0).numpy().astype(int).repeat(4, 0).repeat(4, 1)
    assert (pixels(mask.after) == COLORS[classes]).all()
    assert (pixels(pair.after) == numpy.where((classes > 0)[..., None], (image + COLORS[classes]) // 2, image)).all()
    # The whole file, whatever classes are at its edges.
    stored = sample["mask"].numpy()
    stored = stored.reshape(stored.shape[-2:])
    height, width = pixels(mask.before).shape[:2]
    assert (pair.before.height, pair.before.width) == (height, width)
    assert abs(width / height - stored.shape[1] / stored.shape[0]) < 0.05, (width, height, stored.shape)
    differs = (pixels(mask.before) != COLORS[nearest(stored, height, width)]).any(2)
    assert differs.mean() < 0.08, (row, differs.mean())
""")

    def test_other_padding_of_masks(self):
        self.run_script(_SAMPLES + """
for mode in ("edge", "reflect", "symmetric"):
    compose = v2.Compose([v2.ToImage(), v2.CenterCrop(48), v2.Pad((5, 3, 7, 2), padding_mode=mode)])
    given = Pipeline.from_torchvision(compose, masks="mask", outputs=["mask", "image"])
    masks, images = next(iter(millrace.Loader(ENDPOINT, "shapes", given, batch_size=40)))
    theirs = [compose({name: sample[name] for name in ("image", "mask")}) for sample in samples()]
    assert (masks == torch.stack([sample["mask"] for sample in theirs])).all(), mode
    assert (images == torch.stack([sample["image"] for sample in theirs])).all(), mode
""")

    def test_the_same_draws_move_all_fields(self):
        # The servers' draws, applied with torchvision's functions.
        self.run_script(_SAMPLES + """
import re
F = v2.functional
def numbers(text):
    return [float(number) for number in re.findall(r"-?\\d+(?:\\.\\d+)?(?:e-?\\d+)?", text)]
OUTSIDE = {tv_tensors.Image: 0, tv_tensors.Mask: 255, "others": 0}
given = Pipeline.from_torchvision(v2.Compose([
    v2.RandomResizedCrop((48, 56), (0.3, 1)), v2.RandomHorizontalFlip(), v2.RandomVerticalFlip(0.3),
    v2.RandomApply([v2.RandomRotation((-20, 40), I.BILINEAR, fill=OUTSIDE)], p=0.5),
    v2.RandomCrop((40, 44), padding=4, fill=OUTSIDE), v2.ColorJitter(0.2), v2.ToImage()]),
    masks="mask", boxes="boxes", seed=5)
loader = millrace.Loader(ENDPOINT, "shapes", given, batch_size=40, output="dict")
batch = next(iter(loader))
turned = flipped = 0
for row, (sample, told) in enumerate(zip(samples(), loader.explain(0, 0)["samples"])):
    drawn = {item["place"] - 2: item["drawn"] for item in told["drawn"]}     # behind two decode_image
    left, top, width, height = map(int, numbers(drawn[0]))
    moves = [lambda x: F.resized_crop(x, top, left, height, width, (48, 56))]
    if drawn[1] == "flipped":
        flipped += 1
        moves.append(F.horizontal_flip)
    if drawn[2] == "flipped":
        moves.append(F.vertical_flip)
    if "not applied" not in drawn[3]:
        turned += 1
        moves.append(lambda x: F.rotate(x, numbers(drawn[3])[0], I.BILINEAR,
                                        fill=OUTSIDE.get(type(x), 0)))
    x, y = map(int, numbers(drawn[4])[:2])
    moves += [lambda t: F.pad(t, [4], fill=OUTSIDE.get(type(t), 0)),
              lambda t: F.crop(t, y + 4, x + 4, 40, 44)]
    for name in ("mask", "boxes"):
        expected = v2.ToImage()(sample[name])
        for move in moves:
            expected = move(expected)
        difference = (batch[name][row].double() - expected.double()).abs()
        if name == "mask":
            assert (difference > 0).double().mean() < 0.005, (row, drawn, (difference > 0).double().mean())
        else:
            empty = (torch.tensor(BOXES[row]) == 0).all(1)
            assert difference[~empty].max() < 1e-2, (row, drawn, difference)
assert 5 < turned < 35 and 5 < flipped < 35, (turned, flipped)
assert (batch["mask"] == 255).any()
""")

    def test_the_rest_in_the_loader(self):
        self.run_script(_SAMPLES + """
TARGETS = {tv_tensors.Image: torch.float32, tv_tensors.Mask: torch.int64, "others": None}
head = [v2.ToImage(), v2.CenterCrop(48)]
rest = [v2.RandomPerspective(0.5, p=1.0), v2.ToDtype(TARGETS, scale=True)]
given = Pipeline.from_torchvision(v2.Compose([*head, *rest]), masks="mask", boxes="boxes", local="sample")
loader = millrace.Loader(ENDPOINT, "shapes", given, batch_size=40, output="dict")
torch.manual_seed(3)
batch = next(iter(loader))
torch.manual_seed(3)
compose = v2.Compose([*head, *rest])
for row, sample in enumerate(samples()):
    expected = compose(sample)
    for name in ("image", "mask", "boxes"):
        theirs = expected[name].as_subclass(torch.Tensor)
        assert batch[name].dtype == theirs.dtype, name
        if name == "boxes":
            kept = (torch.tensor(BOXES[row]) != 0).any(1)
            assert (batch[name][row][kept] - theirs[kept]).abs().max() < 1e-3
        else:
            assert (batch[name][row] - theirs).abs().max() < 1e-5, name
batched = Pipeline.from_torchvision(v2.Compose([*head, *rest]), masks="mask", boxes="boxes", local="batch")
images, masks, boxes = next(iter(millrace.Loader(ENDPOINT, "shapes", batched, batch_size=40)))
assert masks.shape == (40, 1, 48, 48) and boxes.shape == (40, 3, 4) and images.dtype == torch.float32
none = millrace.Loader(ENDPOINT, "shapes", given, global_batch_size=39, rank=0, world_size=3,
                       allow_uneven=True)
assert [tuple(len(tensor) for tensor in batch) for batch in none] == [(13,) * 3, (0,) * 3]
# Masks without their images would move alone.
try:
    next(iter(millrace.Loader(ENDPOINT, "shapes", given, batch_size=40, fields=["mask"])))
    raise SystemExit("masks without images")
except millrace.InvalidArgumentError as error:
    assert "add 'image'" in str(error), error
# Transforms that change the number of boxes.
fewer = Pipeline.from_torchvision(v2.Compose([*head, v2.SanitizeBoundingBoxes(labels_getter=None)]),
                                  boxes="boxes", local="sample", outputs=["image", "boxes"])
try:
    next(iter(millrace.Loader(ENDPOINT, "shapes", fewer, batch_size=40)))
    raise SystemExit("boxes of several numbers")
except millrace.InvalidArgumentError as error:
    assert "number of boxes" in str(error), error
# Other names and layouts of the tensors.
images, masks = next(iter(millrace.Loader(ENDPOINT, "shapes", Pipeline.from_torchvision(
    v2.Compose([*head, v2.ToDtype(torch.float32), v2.Lambda(lambda x: x)]), masks="mask",
    local="sample", outputs=[millrace.Output("image", name="x", layout="nchw"), millrace.Output("mask", name="y")]),
    batch_size=40)))
assert images.shape == (40, 3, 48, 48) and images.dtype == torch.float32 and masks.shape == (40, 1, 48, 48)
plain = next(iter(millrace.Loader(ENDPOINT, "shapes", Pipeline.from_torchvision(
    v2.Compose(head), masks="mask", outputs=["image", "mask"]), batch_size=40)))
assert (images == plain[0]).all() and (masks == plain[1]).all()
renamed = next(iter(millrace.Loader(ENDPOINT, "pictures", Pipeline.from_torchvision(
    v2.Compose(head), outputs=millrace.Output("image", name="x")), batch_size=40)))
assert renamed[0].shape == (40, 3, 48, 48)
""")


# What a dataset of torchvision gives.
_SAMPLES = """
from PIL import Image
def samples():
    for image, mask, boxes in zip(FILES, MASKS, BOXES):
        picture = Image.open(image)
        yield {"image": picture, "mask": tv_tensors.Mask(Image.open(mask)),
               "boxes": tv_tensors.BoundingBoxes(torch.tensor(boxes), format="XYXY",
                                                 canvas_size=(picture.height, picture.width))}
"""

_BESIDE = """
MOVED = ["image", "mask", "boxes"]
CLASSES = {tv_tensors.Image: (1, 2, 3), tv_tensors.Mask: 255, "others": 0}
TARGETS = {tv_tensors.Image: torch.float32, tv_tensors.Mask: torch.int64, "others": None}
def beside(*transforms, **named):
    return translated(*transforms, **{"masks": "mask", "boxes": "boxes", **named})
one = beside(v2.RandomResizedCrop(5), v2.Pad(3, CLASSES), v2.RandomRotation((-20, 40), fill=CLASSES),
             v2.ColorJitter(0.2), v2.CenterCrop(4), v2.RandomErasing(0.5), v2.ToImage(),
             v2.ToDtype(TARGETS, scale=True), v2.Normalize(MEAN, STD), v2.RandomHorizontalFlip(0.3),
             v2.SetClampingMode("soft"), v2.ConvertBoundingBoxFormat("xyxy"))
assert one.transforms == (
    T.DecodeImage(), T.DecodeImage("index", field="mask"),
    T.RandomResizedCrop(5, (0.08, 1.0), (3 / 4, 4 / 3), "bilinear", fields=MOVED),
    T.Pad(3, (1, 2, 3), fields=MOVED), T.RandomRotation((-20, 40), "nearest", (1, 2, 3), fields=MOVED),
    T.ColorJitter((0.8, 1.2)), T.CenterCrop(4, fields=MOVED),
    T.RandomErasing(0.5, (0.02, 0.33), (0.3, 3.3), 0), T.RandomHorizontalFlip(0.3, fields=MOVED),
    T.Normalize(MEAN, STD), T.ToDtype("int64", fields="mask")), one
assert one.values["field_roles"] == [millrace.FieldRole("mask", "mask", fill=255),
                                     millrace.FieldRole("boxes", "boxes_xyxy")]
assert any("CenterCrop" in note and "class 255" in note and "class 0" in note for note in one.notes)
assert any("number of boxes is constant" in note for note in one.notes)
# Names, several masks, and what is decoded.
one = translated(v2.CenterCrop(5), field="x", masks=["a", "b"], decode=T.DecodeImage("gray", field="x"))
assert one.transforms == (
    T.DecodeImage("gray", field="x"), T.DecodeImage("index", field="a"), T.DecodeImage("index", field="b"),
    T.CenterCrop(5, fields=["x", "a", "b"]))
assert one.values["field_roles"] == [millrace.FieldRole(name, "mask", of="x") for name in "ab"]
one = translated(v2.CenterCrop(5), masks="mask", decode=[T.DecodeImage()])
assert one.transforms[:2] == (T.DecodeImage(), T.CenterCrop(5, fields=["image", "mask"]))
assert beside(v2.CenterCrop(5), decode=False).transforms == (T.CenterCrop(5, fields=MOVED),)
# A number is the fill of images and masks; a pad by nothing clamps boxes.
assert beside(v2.Pad(3, 7)).values["field_roles"][0] == millrace.FieldRole("mask", "mask", fill=7)
assert beside(v2.ClampBoundingBoxes()).transforms[2] == T.Pad(0, fields=MOVED)
assert beside(v2.ClampBoundingBoxes(None)).transforms[2:] == ()
assert beside(*FLOAT[:1], v2.ConvertImageDtype()).transforms[-1] == T.ToDtype("float32", fields="mask")
for transforms, position, name, parameter, part in (
        ([v2.Pad(3, (1, 2, 3))], "0", "Pad", "fill", "(1, 2, 3)"),
        ([v2.Pad(3, 0.5)], "0", "Pad", "fill", "0.5"),
        ([v2.Pad(3, CLASSES), v2.RandomRotation(9)], "1", "RandomRotation", "fill",
         "class 0 here, and class 255 in Pad at position 0"),
        ([v2.Pad(3, padding_mode="reflect")], "0", "Pad", "padding_mode", "boxes"),
        ([v2.RandomCrop(3, 3, padding_mode="edge")], "0", "RandomCrop", "padding_mode", "boxes"),
        ([v2.TrivialAugmentWide()], "0", "TrivialAugmentWide", "", "RandomAffine"),
        ([v2.RandAugment()], "0", "RandAugment", "", "RandomAffine"),
        ([v2.ToImage(), v2.ToDtype({tv_tensors.Image: torch.float32})], "1", "ToDtype", "dtype", "Mask"),
        ([v2.ToImage(), v2.ToDtype({"others": torch.float16})], "1", "ToDtype", "dtype", "boxes"),
        ([v2.ToDtype({tv_tensors.Mask: torch.bool, "others": None})], "0", "ToDtype", "dtype", "bool"),
        ([v2.ConvertBoundingBoxFormat("xywh")], "0", "ConvertBoundingBoxFormat", "format", "XYXY"),
        ([v2.SetClampingMode(None)], "0", "SetClampingMode", "clamping_mode", "clamp"),
        ([v2.SanitizeBoundingBoxes()], "0", "SanitizeBoundingBoxes", "", "number of boxes")):
    try:
        beside(*transforms)
        raise SystemExit(f"accepted: {transforms}")
    except millrace.TranslationError as error:
        item, = error.detail["refused"]
    found = item["position"], item["transform"], item["parameter"]
    assert found == (position, name, parameter), (found, item)
    assert part in item["reason"] + item["advice"], item
"""
