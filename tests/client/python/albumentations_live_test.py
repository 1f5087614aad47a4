"""Translated pipelines beside the installed Albumentations. Manual: tools/check-translations runs it."""

import os

from pictures_case import PicturesCase


class Live(PicturesCase):
    shapes = True
    begin = """
import albumentations as A, numpy, torch
from albumentations.pytorch import ToTensorV2
from PIL import Image
from millrace import Pipeline, transforms as T
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
def both(*transforms, **named):
    compose = A.Compose(list(transforms))
    given = Pipeline.from_albumentations(compose, **named)
    images, _ = next(iter(millrace.Loader(ENDPOINT, "pictures", given, batch_size=40)))
    theirs = numpy.stack([numpy.asarray(compose(image=numpy.array(Image.open(file)))["image"])
                          for file in FILES])
    assert images.shape == theirs.shape and images.numpy().dtype == theirs.dtype, (
        images.shape, theirs.shape, images.dtype, theirs.dtype)
    return numpy.abs(images.double().numpy() - theirs.astype(float))
"""

    def setUp(self):
        super().setUp()
        if not os.environ.get("MILLRACE_TRANSLATION_PYTHON"):
            self.fail("MILLRACE_TRANSLATION_PYTHON is not set: run tools/check-translations")

    def test_the_record_is_what_the_package_has(self):
        output = self.run_script("""
os.chdir("tests/testdata/translations")
sys.path.insert(0, ".")
sys.argv = ["record_albumentations.py", "--compare"]
exec(open(sys.argv[0]).read())
""")
        self.assertIn("is what Albumentations", output)

    def test_pixels(self):
        self.run_script("""
NEAREST = A.Resize(40, 50, interpolation=0)
# A place on the border of two pixels is computed in float32 there and in float64 here.
assert (both(A.Pad(3, fill=(1, 2, 3)), NEAREST) > 0).mean() < 0.02
assert (both(A.HorizontalFlip(p=1.0), NEAREST, A.Normalize(MEAN, STD)) > 1e-5).mean() < 0.02
assert (both(NEAREST, A.Normalize(MEAN, STD), ToTensorV2()) > 1e-5).mean() < 0.02
assert both(A.Resize(40, 50)).max() <= 1             # without antialiasing
# Fixed point, and OpenCV's own roundings: ranges of one value.
for one in (A.ColorJitter((1.2, 1.2), (1, 1), (1, 1), (0, 0), p=1.0),
            A.ColorJitter((1, 1), (0.7, 0.7), (1, 1), (0, 0), p=1.0),
            A.ColorJitter((1, 1), (1, 1), (1.5, 1.5), (0, 0), p=1.0),
            A.ColorJitter((1, 1), (1, 1), (1, 1), (0.1, 0.1), p=1.0), A.ToGray(p=1.0),
            A.GaussianBlur((5, 5), (1.5, 1.5), p=1.0),
            A.Rotate((30, 30), border_mode=0, fill=50, p=1.0)):
    difference = both(A.Resize(64, 80), one, ToTensorV2())
    assert difference.mean() < 1 and numpy.quantile(difference, 0.9) <= 3, (one, difference.mean())
""")

    def test_masks_and_boxes(self):
        self.run_script("""
def beside(*transforms, ties=0.0, bound=1e-3):
    compose = A.Compose(list(transforms), bbox_params=A.BboxParams("pascal_voc", label_fields=["place"]))
    given = Pipeline.from_albumentations(compose, masks="mask", boxes="boxes")
    ours = next(iter(millrace.Loader(ENDPOINT, "shapes", given, batch_size=40, output="dict",
                                     tensor_type="numpy")))
    kept = 0
    for row, (image, mask, boxes) in enumerate(zip(FILES, MASKS, BOXES)):
        there = [place for place in range(3) if any(boxes[place])]
        theirs = compose(image=numpy.array(Image.open(image)), mask=numpy.array(Image.open(mask)),
                         bboxes=numpy.array(boxes, numpy.float32)[there], place=there)
        masks = numpy.asarray(theirs["mask"])
        assert ours["mask"][row].shape == masks.shape and ours["mask"].dtype == masks.dtype
        different = (ours["mask"][row] != masks).mean()
        assert different <= ties, (transforms, row, different)
        assert ours["image"][row].shape == theirs["image"].shape
        # Albumentations removes boxes that have left the image; the servers leave no area of them.
        for place, box in zip(theirs["place"], theirs["bboxes"]):
            kept += 1
            assert numpy.abs(ours["boxes"][row][int(place)] - box).max() < bound, (
                transforms, row, ours["boxes"][row][int(place)], box)
        for place in set(range(3)) - set(map(int, theirs["place"])):
            left, top, right, bottom = ours["boxes"][row][place]
            assert (right - left) * (bottom - top) == 0, (transforms, row, place, ours["boxes"][row])
    assert kept > 60, kept
# The nearest pixel of OpenCV is another one where the place is on the border of two.
EVEN = A.Resize(60, 64, interpolation=0)        # CenterCrop rounds an odd rest in another way
beside(EVEN, ties=0.03)
beside(EVEN, A.HorizontalFlip(p=1.0), A.VerticalFlip(p=1.0), A.CenterCrop(40, 44), ToTensorV2(), ties=0.03)
beside(EVEN, A.CenterCrop(40, 44), A.Pad(3, fill=9, fill_mask=255), ties=0.03)
beside(EVEN, A.ColorJitter(p=1.0), A.Normalize(MEAN, STD), ToTensorV2(), ties=0.03)
beside(EVEN, A.Rotate((30, 30), border_mode=0, fill=50, fill_mask=255, p=1.0), ties=0.03)
""")

    def test_the_rest_in_the_loader(self):
        self.run_script("""
for end, shape in (([], (40, 48, 48, 3)), ([ToTensorV2()], (40, 3, 48, 48))):
    head = A.Resize(48, 48, interpolation=0)
    assert both(head, A.RandomBrightnessContrast((0.1, 0.1), (0.2, 0.2), p=1.0), *end,
                local="sample").mean() < 0.1
    given = Pipeline.from_albumentations(A.Compose([head, A.RandomBrightnessContrast(p=1.0), *end]),
                                         local="sample")
    for kind in ("torch", "numpy"):
        one = millrace.Loader(ENDPOINT, "pictures", given, batch_size=40, tensor_type=kind)
        images, _ = next(iter(one))
        assert images.shape == shape and (torch.is_tensor(images)) == (kind == "torch")
    none = millrace.Loader(ENDPOINT, "pictures", given, global_batch_size=39, rank=0, world_size=3,
                       allow_uneven=True)
    assert [len(images) for images, _ in none] == [13, 0]
""")
