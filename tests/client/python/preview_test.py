"""Loader.preview(): samples before and after the pipeline as pictures and text."""

import os
import subprocess

import _picture
import installed
from case import Case

_PATH = os.pathsep.join(os.path.abspath(path) for path in (
    "external/python_client_tools/site", "external/grpcio_client_tools/site"))
_SIZES = ((40, 30), (30, 60), (20, 20), (120, 30))  # width, height of picture i: i modulo 4
_COUNT = 60

# Common to the scripts.
_BEGIN = """
import io, os, re, numpy
from millrace import _picture
from PIL import Image

def pixels(picture):
    return numpy.frombuffer(picture.rgb, numpy.uint8).reshape(picture.height, picture.width, 3)

def sample_of(pair):
    return int(re.search(r"sample (\\d+)", pair.title)[1])
"""
_PICTURES = """
COLORS = [[10 + 4 * i, 255 - 4 * i, 40] for i in range(60)]    # of the left half
def pictures(dataset, transforms="", **named):
    text = f'sources {{ dataset: "{dataset}" }} transforms {{ decode_image {{}} }} {transforms}'
    return millrace.Loader(sys.argv[2], pipeline=text, **named)
"""


def _pack(work, name, damaged=None):
    """Two classes of PNG files, left of a colour of its own, right blue. Returns the URI."""
    folder = os.path.join(work, name)
    for number in range(_COUNT):
        width, height = _SIZES[number % 4]
        left = bytes([10 + 4 * number, 255 - 4 * number, 40]) * (width // 2)
        row = left + bytes([1, 1, 200]) * (width - width // 2)
        png = _picture.png(_picture.Picture(width, height, row * height))
        if number == damaged:
            png = png[:33] + b"\xff" * 20
        of_class = os.path.join(folder, "a&b" if number < _COUNT // 2 else "c")
        os.makedirs(of_class, exist_ok=True)
        with open(os.path.join(of_class, f"{number:03}.png"), "wb") as file:
            file.write(png)
    uri = f"lmdb:{folder}.lmdb"
    subprocess.run(["server/data_tool/millrace-data", "pack", "--format=imagefolder", "--no_decode",
                    f"--input={folder}", f"--output={uri}"],
                   stdin=subprocess.DEVNULL, capture_output=True, check=True)
    return uri


class Preview(Case):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folders = installed.Server(cls.work, data=[
            f"--dataset=pictures={_pack(cls.work, 'pictures')}",
            f"--dataset=damaged={_pack(cls.work, 'damaged', 27)}"])
        cls.addClassCleanup(cls.folders.stop)

    def _output_of(self, script, *arguments):
        return self.output_of(_BEGIN + script, *arguments, PYTHONPATH=_PATH)

    def test_the_sheet_shows_the_stored_samples_and_the_batch(self):
        self._output_of("""
one = millrace.Loader(ENDPOINT, pipeline=SPEC, batch_size=50, shuffle=True)
stored = millrace.Loader(ENDPOINT, pipeline=SPEC[:SPEC.index("transforms")], batch_size=2030)
stored, labels = next(iter(stored))
one.seek(1, 3)
it = iter(one)
next(it)
preview = one.preview(1, 3, samples=5)
assert next(it) and one.last_batch[:2] == (1, 4)        # the iteration is where it was
sheet = numpy.asarray(preview.image)
assert preview.image.mode == "RGB"
# 64 pixels three times as large; two pairs in a row, the fifth in the third one.
assert sheet.shape == (3 * (192 + 8), 2 * (2 * 192 + 8) + 24, 3), sheet.shape
text = str(preview)
flips = 0
for row, title in enumerate(re.findall(r"^row.*$", text, re.MULTILINE)):
    top, left = row // 2 * 200, row % 2 * 416
    before, after = (sheet[top:top + 192, x:x + 192] for x in (left, left + 200))
    sample = int(re.search(r"sample (\\d+)", title)[1])
    small = stored[sample]
    assert (before == small.repeat(3, 0).repeat(3, 1)).all(), title
    lines = text.split(title)[1].split("row ")[0]
    flipped = "horizontal_flip: flipped" in lines
    assert flipped or "horizontal_flip: not" in lines, lines
    assert f"label: {labels[sample]}" in lines, lines
    small = small[:, ::-1] if flipped else small
    assert (after == small.repeat(3, 0).repeat(3, 1)).all(), title
    flips += flipped
assert row == 4 and 0 < flips < 5, text
assert (sheet[-1, -1] == 255).all() and (sheet[:, 192:200] == 255).all()
assert preview._repr_png_() == preview.png
assert "epoch 1, step 3 of 41" in repr(preview)
assert len(one.preview(samples=1000)._pairs) == 50
""")

    def test_images_of_any_size_on_any_rank(self):
        self._output_of(_PICTURES + """
RANDOM = '''
transforms { random_resized_crop { height: 24 width: 24 } }
transforms { horizontal_flip {} }
transforms { normalize { mean: [0.5, 0.4, 0.3] stddev: [0.2, 0.3, 0.4] placement: PLACEMENT_SERVER } }
'''
SHAPES = ((213, 160), (112, 224), (160, 160), (224, 112))    # the last one is cut at 2 : 1
seen = set()
for world_size in (1, 3):
    one = pictures("pictures", RANDOM, global_batch_size=12, rank=world_size - 1,
                   world_size=world_size, shuffle=True)
    for epoch, step in ((0, 0), (0, 1), (7, 4)):
        preview = one.preview(epoch, step, samples=7)
        assert len(preview._pairs) == (7 if world_size == 1 else 4)
        for pair in preview._pairs:
            sample, before = sample_of(pair), pixels(pair.before)
            assert before.shape[1::-1] == SHAPES[sample % 4], (sample, before.shape)
            height, width, _ = before.shape
            assert before[height // 2, width // 4].tolist() == COLORS[sample], pair.title
            assert before[height // 2, 3 * width // 4].tolist() == [1, 1, 200]
            after = pixels(pair.after)
            assert after.shape == (216, 216, 3) and after[..., 0].max() <= COLORS[sample][0] + 1
            lines = "\\n".join(pair.lines)
            name = "a&b" if sample < 30 else "c"
            assert f"label: {sample // 30} ({name})" in lines and "random_resized_crop: " in lines, lines
            seen.add(sample)
assert len(seen) > 20
# What the server normalises is shown as it was.
for normalize in ("placement: PLACEMENT_SERVER", ""):
    one = pictures("pictures", '''
transforms { resize { short_side: 24 } } transforms { center_crop { height: 24 width: 24 } }
transforms { normalize { mean: [0.5, 0.4, 0.3] stddev: [0.2, 0.3, 0.4] %s } }''' % normalize,
                   batch_size=10)
    for pair in one.preview(0, 2)._pairs:
        sample, after = sample_of(pair), pixels(pair.after).astype(int)
        assert 20 <= sample < 30
        assert abs(after[108, 50] - COLORS[sample]).max() <= 1, (after[108, 50], COLORS[sample])
# Of other layouts and types.
for more in ('outputs { field: "image" layout: NCHW }',
             'transforms { to_dtype { dtype: DTYPE_FLOAT16 scale: true placement: PLACEMENT_SERVER } }',
             'transforms { to_dtype { dtype: DTYPE_FLOAT32 placement: PLACEMENT_SERVER } }'):
    one = pictures("pictures", "transforms { center_crop { height: 20 width: 20 } } " + more,
                   batch_size=4)
    pair = one.preview(0, 0, 1)._pairs[0]
    assert abs(pixels(pair.after)[100, 40].astype(int) - COLORS[0]).max() <= 1, more
""", self.folders.address)

    def test_masks_lie_over_their_images(self):
        self._output_of("""
MASKED = '''
sources { synthetic { samples: 40 seed: 2
  fields { name: "image" dtype: DTYPE_UINT8 shape: [24, 32, 3] }
  fields { name: "mask" dtype: DTYPE_UINT8 shape: [24, 32, 1] } } }
field_roles { field: "mask" role: MASK fill: 255 }
transforms { horizontal_flip { fields: ["image", "mask"] p: 0.5 } }
'''
COLORS = numpy.array([(0, 0, 0), *_picture._CLASS_COLORS])
def over(image, mask):
    color = COLORS[numpy.where(mask > 0, (mask.astype(int) - 1) % 15 + 1, 0)]
    color[mask == 255] = 128
    return color, numpy.where((mask > 0)[..., None], (image.astype(int) + color) // 2, image)
stored = millrace.Loader(ENDPOINT, pipeline=MASKED.split("field_roles")[0], batch_size=40)
images, masks = next(iter(stored))
one = millrace.Loader(ENDPOINT, pipeline=MASKED, batch_size=10, shuffle=True)
assert set(numpy.unique(masks)) >= {0, 1, 15, 16, 254, 255}
seen = 0
for field in (None, "mask"):
    for pair in one.preview(0, 1, 10, field=field)._pairs:
        sample = sample_of(pair)
        colors, mixed = over(images[sample], masks[sample, ..., 0])
        expected = (colors if field else mixed).repeat(7, 0).repeat(7, 1)
        assert (pixels(pair.before) == expected).all(), pair.title
        flipped = "horizontal_flip: flipped" in pair.lines
        assert (pixels(pair.after) == (expected[:, ::-1] if flipped else expected)).all(), pair.title
        seen += flipped
assert 0 < seen < 20
# Where the loader has no masks, the image is shown alone.
for pair in millrace.Loader(ENDPOINT, pipeline=MASKED, batch_size=10, fields=["image"]).preview(0, 1)._pairs:
    assert (pixels(pair.before) == images[sample_of(pair)].repeat(7, 0).repeat(7, 1)).all(), pair.title
# Classes may be whole numbers of another type.
wide = MASKED + 'transforms { to_dtype { fields: "mask" dtype: DTYPE_INT64 placement: PLACEMENT_SERVER } }'
texts = [millrace.Loader(ENDPOINT, pipeline=text, batch_size=10).preview(0, 1).png for text in (MASKED, wide)]
assert texts[0] == texts[1]
refused(lambda: one.preview(field="label"), millrace.InvalidArgumentError, "images: image, mask")
""")

    def test_damaged_samples_and_padding(self):
        self._output_of(_PICTURES + """
CROP = "transforms { center_crop { height: 20 width: 20 } }"
def preview(action, **named):
    return pictures("damaged", CROP + f" bad_samples {{ action: {action} }}",
                    batch_size=5).preview(0, 5)
pairs = preview("ZERO")._pairs
assert [pair.before is None for pair in pairs] == [False, False, True, False, False]
assert [pair.after is None for pair in pairs] == [False, False, True, False, False]
assert "damaged and left empty" in pairs[2].lines and sample_of(pairs[2]) == 27
pairs = preview("SUBSTITUTE")._pairs
other = sample_of(pairs[2])
assert other != 27 and "sample 27 is damaged and replaced" in pairs[2].lines, pairs[2].lines
before = pixels(pairs[2].before)
assert before[before.shape[0] // 2, before.shape[1] // 4].tolist() == COLORS[other]
try:
    preview("FAIL")
    raise SystemExit("shown")
except millrace.DataLossError as error:
    assert error.detail["sample"] == 27
padded = pictures("pictures", CROP + " last_batch: LAST_BATCH_PAD", batch_size=7, drop_last=None)
padded = padded.preview(0, 8)
assert [pair.title for pair in padded._pairs[4:]] == [f"row {row}: padding" for row in (4, 5, 6)]
assert [pair.after is None for pair in padded._pairs] == [False] * 4 + [True] * 3
assert padded.image.width > 224
# A rank without a row of the last, smaller batch.
none = pictures("pictures", CROP, global_batch_size=56, rank=0, world_size=56,
                allow_uneven=True).preview(0, 1)
assert len(none._pairs) == 0 and none.image.size == (1, 1), none.image.size
assert "0 of 0 rows" in str(none), str(none)
""", self.folders.address)

    def test_mixed_labels(self):
        self._output_of("""
text = SPEC.replace("transforms { normalize", "transforms { mix_up { fields: 'image' } } transforms { normalize")
preview = millrace.Loader(ENDPOINT, pipeline=text, batch_size=50).preview(0, 0)
assert "drawn for the batch: mix_up" in str(preview), str(preview)
assert re.search(r"label: \\d \\d\\.\\d\\d, \\d \\d\\.\\d\\d$", str(preview), re.MULTILINE), str(preview)
""")

    def test_a_notebook_shows_the_text_too(self):
        self._output_of(_PICTURES + """
import base64
one = pictures("pictures", "transforms { random_crop { height: 16 width: 16 } }", batch_size=4)
preview = one.preview(0, 0)
page = preview._repr_html_()
shown = re.findall(r"base64,([^\\"]*)\\"", page)
assert len(shown) == 4 and "label: 0 (a&amp;b)" in page and "a&b" not in page
assert "random_crop: " in page and "row 3: sample 3 of pictures" in page
first = Image.open(io.BytesIO(base64.b64decode(shown[0])))
assert first.size == (2 * 224 + 8, 224 + 8), first.size
""", self.folders.address)

    def test_files_and_refusals(self):
        self._output_of("""
one = millrace.Loader(ENDPOINT, pipeline=SPEC, batch_size=50)
preview = one.preview()
path = os.path.join(sys.argv[2], "sheet.png")
preview.save(path)
assert open(path, "rb").read() == preview.png
assert Image.open(path).size == preview.image.size
BAD = millrace.InvalidArgumentError
refused(lambda: preview.save("sheet.jpg"), BAD, "sheet.jpg", ".png")
refused(lambda: one.preview(0, 41), BAD, "0 to 40")
refused(lambda: one.preview(samples=0), BAD, "samples")
refused(lambda: one.preview(sample=3), millrace.ArgumentError,
        "Loader.preview has no argument sample=; did you mean samples=?")
refused(lambda: one.replay(0, 0, draw=True), millrace.ArgumentError, "Loader.replay", "drawn=?")
refused(lambda: one.preview(field="label"), BAD, "label", "image")
refused(millrace.Loader(ENDPOINT, pipeline=SPEC, batch_size=50, fields="label").preview, BAD, "no image")
assert len(one.preview(field="image", samples=2)._pairs) == 2
# preview() takes another window than the loader's, whatever bounds that.
bounded = millrace.Loader(ENDPOINT, pipeline=SPEC, batch_size=50, window_bytes=1 << 20)
assert len(bounded.preview(samples=2)._pairs) == 2
""", self.work)

    def test_no_package_is_needed(self):
        result = self.package.run("""
preview = millrace.Loader(ENDPOINT, pipeline=SPEC, batch_size=50, tensor_type="dlpack").preview()
assert preview.png.startswith(b"\\x89PNG") and "numpy" not in sys.modules
try:
    preview.image
except millrace.InvalidArgumentError as error:
    print(error)
""", self.server.address, numpy=False)
        self.assertIn("install pillow", result.stdout, result.stderr)
