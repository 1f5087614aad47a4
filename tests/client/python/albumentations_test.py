"""Pipelines that are translated from Albumentations: what becomes of each transform, and what is
refused. The objects are those of tests/testdata/translations/albumentations.json, recorded from
Albumentations; tools/check-translations takes the installed package (albumentations_live_test.py)."""

import os

from case import Case

_BEGIN = """
import json
sys.path.insert(0, sys.argv[2])
import albumentations_composes
from millrace import Pipeline, transforms as T
with open(os.path.join(sys.argv[2], "albumentations.json")) as file:
    RECORDED = json.load(file)
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
def translated(name, **named):
    return Pipeline.from_albumentations(albumentations_composes.stand_in(RECORDED[name]), **named)
"""


class Translation(Case):

    def _run(self, code):
        return self.output_of("import os" + _BEGIN + code,
                              os.path.abspath("tests/testdata/translations"))

    def test_the_transforms(self):
        self._run("""
RANGE = dict(interpolation="bilinear", antialias=False)
JITTER = (0.8, 1.2)
NORMAL = T.Normalize(MEAN, STD)
EXPECTED = {
    "article": [T.RandomResizedCrop(224, (0.08, 1.0), (0.75, 4 / 3), **RANGE), T.RandomHorizontalFlip(0.5),
                T.ColorJitter(JITTER, JITTER, JITTER, (-0.5, 0.5), p=0.5), NORMAL],
    "article_ranges": [T.RandomResizedCrop((4, 5), (0.2, 1.0), (0.5, 2.0), "nearest", False),
                       T.ColorJitter((0.8, 1.2), (0.5, 1.5), (1, 1), (-0.1, 0.1), p=0.3), NORMAL],
    "evaluation": [T.Resize(256, **RANGE), T.CenterCrop(224), NORMAL],
    "exact": [T.Resize((40, 50), **RANGE), NORMAL],
    "bytes": [T.RandomCrop((20, 30)), T.RandomVerticalFlip(1.0)],
    "stored": [T.CenterCrop((20, 30))],
    "others": [T.Pad((1, 2), (1, 2, 3)), T.Pad(3, None, "reflect"),
               T.RandomRotation((-10, 20), "bilinear", 7, p=0.4), T.Grayscale(3, p=0.1),
               T.GaussianBlur(5, (0.5, 2.0), p=0.2), T.CenterCrop(20),
               T.Normalize([0.5] * 3, [0.25] * 3)],
    "nothing": [],
    "seed": [T.RandomHorizontalFlip(0.5)],
}
# What the loader changes in the shape: [rows, H, W, C] without ToTensorV2.
VIEWS = {"exact": "channels_last", "others": "channels_last", "bytes": "channels_first"}
for name, expected in EXPECTED.items():
    given = translated(name)
    assert list(given.transforms) == [T.DecodeImage(), *expected], (name, given)
    assert (given._local and given._local.views[0].wanted) == VIEWS.get(name), (name, given._local)
assert any("antialias" in note for note in translated("article").notes)
assert any("resampling without antialiasing" in note and 'mode="exact"' in note for note in translated("exact").notes)
assert not any("1/8" in note for note in translated("exact", decode=T.DecodeImage(mode="exact")).notes)
try:
    translated("exact", mask="m")
    raise SystemExit("accepted: mask=")
except millrace.ArgumentError as error:
    assert "Pipeline.from_albumentations has no argument mask=; did you mean masks=?" in str(error), error
assert any("180" in note for note in translated("article").notes)
assert any("seed" in note for note in translated("seed").notes)
assert translated("stored", field="x", sources="d").text.endswith(
    'transforms { center_crop { fields: ["x"] height: 20 width: 30 } }\\n')
""")

    def test_masks_and_boxes(self):
        self._run("""
given = translated("masks", masks=["mask", "mask2"])
MOVED = ["image", "mask", "mask2"]
assert list(given.transforms) == [
    T.DecodeImage(), T.DecodeImage("index", field="mask"), T.DecodeImage("index", field="mask2"),
    T.Pad(3, (1, 2, 3), fields=MOVED),
    T.RandomResizedCrop((20, 30), (0.08, 1.0), (0.75, 4 / 3), "bilinear", False, fields=MOVED),
    T.RandomRotation((-10, 20), "bilinear", p=0.5, fields=MOVED),
    T.ColorJitter((0.8, 1.2), (0.8, 1.2), (0.8, 1.2), (-0.5, 0.5), p=0.5), T.CenterCrop(9, fields=MOVED),
    T.Normalize(MEAN, STD)], given
assert given.values["field_roles"] == [millrace.FieldRole("mask", "mask", fill=255),
                                       millrace.FieldRole("mask2", "mask", fill=255)]
assert [view.wanted for view in given._local.views] == ["channels_first", "no_channels", "no_channels"]
assert any("CenterCrop" in note and "class 255" in note and "class 0" in note for note in given.notes)
assert translated("mask_targets", masks="mask2").transforms[-1] == T.RandomHorizontalFlip(
    0.5, fields=["image", "mask2"])
given = translated("clipped_boxes", boxes="boxes", decode=False, field="x")
# A pad by nothing clamps boxes.
assert given.transforms == (T.Pad(0, fields=["x", "boxes"]), T.RandomCrop((20, 30), fields=["x", "boxes"]))
assert given.values["field_roles"] == [millrace.FieldRole("boxes", "boxes_xyxy", of="x")]
assert any("number of boxes is constant" in note for note in given.notes)
""")

    def test_what_is_refused(self):
        self._run("""
REFUSED = {
    "brightness": [("0", "RandomBrightnessContrast", "", "ColorJitter")],
    "area": [("0", "Resize", "area_for_downscale", "INTER_AREA")],
    "cubic": [("1", "Resize", "interpolation", "INTER_LINEAR")],
    "p_of_crop": [("0", "RandomResizedCrop", "p", "p=1.0")],
    "padded_crop": [("0", "RandomCrop", "pad_if_needed", "Pad")],
    "several_short_sides": [("0", "SmallestMaxSize", "max_size", "max_size=N")],
    "border": [("0", "Rotate", "border_mode", "constant")],
    "wrapped": [("0", "Pad", "border_mode", "reflect")],
    "crop_border": [("0", "Rotate", "crop_border", "size")],
    "gray": [("0", "ToGray", "method", "weighted_average")],
    "kernel": [("0", "GaussianBlur", "blur_limit", "(k, k)")],
    "own_mean": [("0", "Normalize", "normalization", "standard")],
    "scale": [("0", "Normalize", "max_pixel_value", "255")],
    "one_of": [("0.1", "OneOf", "", "separately")],
    "late_crop": [("1", "RandomCrop", "", "before Normalize")],
    "erasing": [("0", "Erasing", "", "RandomErasing"), ("1", "CoarseDropout", "", "one rectangle")],
    "p_of_compose": [("0", "Compose", "p", "each transform")],
    "boxes": [("0", "Compose", "bbox_params", "boxes=")],
    "targets": [("0", "Compose", "additional_targets", "image2")],
    "mask_targets": [("0", "Compose", "additional_targets", "masks=")],
    "key_points": [("0", "Compose", "keypoint_params", "key points")],
    "early_tensor": [("1", "HorizontalFlip", "", "ToTensorV2 at the end")],
    "p_of_tensor": [("0", "ToTensorV2", "p", "p=1.0")],
    "noise": [("0", "GaussNoise", "", "do not have this transform"), ("1", "RandomOrder", "", "fixed order"),
              ("2", "OneOrOther", "", "separately")],
    # With masks or boxes.
    "several_fills": [("1", "Rotate", "fill_mask", "class 0 here, and class 255 in Pad at position 0")],
    "fraction_fill": [("0", "Pad", "fill_mask", "0.5")],
    "smooth_masks": [("0", "Resize", "mask_interpolation", "nearest")],
    "ellipse": [("0", "Rotate", "rotate_method", "largest_box")],
    "reflected_boxes": [("0", "Pad", "border_mode", "BORDER_CONSTANT")],
    "stored": [("0", "Compose", "bbox_params", "pascal_voc")],
    "other_boxes": [("0", "Compose", "bbox_params", part) for part in (
        "coco", "min_area", "min_visibility", "min_width", "min_height", "filter_invalid_bboxes",
        "max_accept_ratio", "check_each_transform")],
}
BESIDE = {**dict.fromkeys(("several_fills", "fraction_fill", "smooth_masks"), {"masks": "mask"}),
          **dict.fromkeys(("ellipse", "reflected_boxes", "stored", "other_boxes"), {"boxes": "boxes"})}
for name, expected in REFUSED.items():
    try:
        translated(name, **BESIDE.get(name, {}))
        raise SystemExit(f"accepted: {name}")
    except millrace.TranslationError as error:
        items = error.detail["refused"]
        assert len(items) == len(expected), (name, items)
        for item, (position, transform, parameter, part) in zip(items, expected):
            found = item["position"], item["transform"], item["parameter"]
            assert found == (position, transform, parameter), (name, item)
            assert part in item["reason"] + item["advice"], (name, item)
        # local= would not help where the compose itself is refused.
        assert ("local=" in str(error)) == (items[0]["transform"] != "Compose"), error
# A parameter of another release.
recorded = json.loads(json.dumps(RECORDED["stored"]))
recorded["transforms"][0]["parameters"]["always_apply"] = False
try:
    Pipeline.from_albumentations(albumentations_composes.stand_in(recorded))
    raise SystemExit("accepted: another parameter")
except millrace.TranslationError as error:
    assert "always_apply" in str(error) and "Albumentations 2" in str(error)
# Parameters whose values have another form.
recorded = json.loads(json.dumps(RECORDED["article"]))
recorded["transforms"][0]["parameters"]["scale"] = 0.5
recorded["transforms"][1]["parameters"]["p"] = "often"
del recorded["transforms"][2]["parameters"]["hue"]
try:
    Pipeline.from_albumentations(albumentations_composes.stand_in(recorded))
    raise SystemExit("accepted: parameters of another form")
except millrace.TranslationError as error:
    items = error.detail["refused"]
    assert [item["position"] for item in items] == ["0", "1", "2"], items
    assert "often" in items[1]["reason"] and "hue" in items[2]["reason"], items
try:
    translated("stored", local="batch")
    raise SystemExit("accepted: local=batch")
except millrace.ArgumentError as error:
    assert "single images" in str(error)
local = translated("cubic", local="sample")
assert local.transforms == (T.DecodeImage(), T.RandomHorizontalFlip(0.5))
assert [type(step).__name__ for step in local.local_transforms] == ["Resize"]
try:
    translated("cubic", local="sample", masks="mask")
    raise SystemExit("accepted: local= with masks")
except millrace.TranslationError as error:
    assert "images only" in str(error) and "position 1, Resize" in str(error), error
""")
