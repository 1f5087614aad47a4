"""A test case with 40 PNG files, a server that has them packed, and a Python with torch and torchvision.
With `shapes = True` the server also has them with a mask and three boxes each, in Parquet.

Both are the wheels that Bazel has, unless the Python in MILLRACE_TRANSLATION_PYTHON has a torch of its
own (tools/check-translations).
"""

import glob
import json
import os
import random
import struct
import subprocess
import sys
import zlib

import installed
import wheel_python
from case import Case

# FILES: the pictures, in the order of the samples. MASKS, BOXES: theirs.
_BEGIN = wheel_python.BEGIN + """
import glob, json
import millrace
millrace.set_log_level("error")
ENDPOINT, FOLDER = sys.argv[1:3]
FILES = sorted(glob.glob(os.path.join(FOLDER, "*", "*.png")))
MASKS = sorted(glob.glob(os.path.join(FOLDER, "..", "masks", "*.png")))
with open(os.path.join(FOLDER, "..", "boxes.json")) as file:
    BOXES = json.load(file)
""" + installed.REFUSED

# Arguments: the files of images and masks, and of boxes as JSON; the result.
_WRITE_SHAPES = """
import json, sys
import pyarrow, pyarrow.parquet
images, masks, boxes, path = sys.argv[1:]
read = lambda names: [{"bytes": open(name, "rb").read(), "path": None} for name in json.loads(names)]
picture = pyarrow.struct({"bytes": pyarrow.binary(), "path": pyarrow.string()})
schema = pyarrow.schema({"image": picture, "mask": picture,
                         "boxes": pyarrow.list_(pyarrow.list_(pyarrow.float32(), 4), 3)})
columns = {"image": read(images), "mask": read(masks), "boxes": json.load(open(boxes))}
pyarrow.parquet.write_table(pyarrow.table(columns, schema=schema), path, row_group_size=16)
"""


class PicturesCase(Case):
    begin = ""  # of each script, after the names above
    variables = {}  # of its environment
    shapes = False

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server.stop()
        cls.folder = os.path.join(cls.work, "pictures")
        files, masks = _write_pictures(cls.folder, cls.work)
        uri = f"lmdb:{cls.work}/pictures.lmdb"
        subprocess.run(["server/data_tool/millrace-data", "pack", "--format=imagefolder",
                        f"--input={cls.folder}", f"--output={uri}"],
                       stdin=subprocess.DEVNULL, capture_output=True, check=True)
        data = [f"--dataset=pictures={uri}"]
        cls.without_shapes = ""
        if cls.shapes:
            cls.without_shapes = _pack_shapes(files, masks, cls.work)
            if not cls.without_shapes:
                data.append(f"--dataset=shapes=parquet:{cls.work}/shapes.parquet")
        cls.server = installed.Server(cls.work, data=data)
        cls.addClassCleanup(cls.server.stop)
        other = os.environ.get("MILLRACE_TRANSLATION_PYTHON")
        if other and _has_torch(other):
            cls.found, cls.why, cls.sites = wheel_python.Python([other, "-B", "-c"], {}), "", []
            return
        cls.found, cls.why = wheel_python.find(cls.work)
        cls.sites = [os.path.abspath(site) for name in ("torchvision", "python_client_tools")
                     for site in glob.glob(f"external/{name}/site")]
        if other and cls.found is not None:
            cls.found = wheel_python.Python([other, *cls.found.command[1:]], cls.found.environment)

    def run_script(self, code):
        """What the script prints; it must succeed."""
        if self.found is None or self.without_shapes:
            self.skipTest(self.why or self.without_shapes)
        environment = {**os.environ, "NO_ALBUMENTATIONS_UPDATE": "1", **self.found.environment,
                       **self.variables}
        environment["PYTHONPATH"] = ":".join(
            filter(None, [self.package.site, environment.get("PYTHONPATH"), *self.sites]))
        for name in ("RANK", "WORLD_SIZE"):
            environment.pop(name, None)
        result = subprocess.run(
            [*self.found.command, _BEGIN + self.begin + code, self.server.address, self.folder],
            env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
            timeout=600)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result.stdout


def _has_torch(python):
    result = subprocess.run(
        [python, "-c", "import importlib.util as u; raise SystemExit(u.find_spec('torch') is None)"],
        stdin=subprocess.DEVNULL, capture_output=True, check=False)
    return result.returncode == 0


def _pack_shapes(files, masks, work):
    """Writes work/shapes.parquet. Returns why that is not possible, or ""."""
    library = [os.path.realpath(file) for pattern in ("_solib_*/*/libarrow.so*", "../pyarrow/pyarrow/*.so*")
               for file in glob.glob(pattern)]
    if not library:
        return "no wheel of pyarrow is here"
    # The link leads to the whole wheel, of which Bazel names only the libraries.
    wheel = os.path.dirname(os.path.dirname(library[0]))
    result = subprocess.run(
        [sys.executable, "-B", "-c", _WRITE_SHAPES, json.dumps(files), json.dumps(masks),
         f"{work}/boxes.json", f"{work}/shapes.parquet"],
        env={**os.environ, "PYTHONPATH": wheel}, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        check=False)
    return "" if result.returncode == 0 else f"pyarrow does not work: {result.stderr[-300:]}"


def _write_pictures(folder, work):
    """Smooth colours of random size, four classes. Each picture has a mask of three rectangles, of the
    classes 1 to 3, in `work`/masks, and the rectangles as boxes, in `work`/boxes.json; the last box of
    every fourth is empty. Returns the files of pictures and masks."""
    numbers, shapes = random.Random(1), random.Random(2)
    files, masks, boxes = [], [], []
    os.makedirs(os.path.join(work, "masks"))
    for number in range(40):
        # Ten files of each class, named so that the order of names is that of samples.
        files.append(os.path.join(folder, f"class{number // 10}", f"{number:02}.png"))
        os.makedirs(os.path.dirname(files[-1]), exist_ok=True)
        height, width = numbers.randint(60, 120), numbers.randint(60, 120)
        corners = [[numbers.randrange(256) for _ in range(3)] for _ in range(4)]
        _write_png(files[-1], width, 2, [_row(corners, y / (height - 1), width) for y in range(height)])
        boxes.append([[0.0] * 4 for _ in range(3)])
        mask = [bytearray(width) for _ in range(height)]
        for i in range(2 if number % 4 == 3 else 3):
            left, right = sorted(shapes.sample(range(width + 1), 2))
            top, bottom = sorted(shapes.sample(range(height + 1), 2))
            boxes[-1][i] = [float(side) for side in (left, top, right, bottom)]
            for row in mask[top:bottom]:
                row[left:right] = bytes([i + 1]) * (right - left)
        masks.append(os.path.join(work, "masks", f"{number:02}.png"))
        _write_png(masks[-1], width, 0, mask)
    with open(os.path.join(work, "boxes.json"), "w", encoding="utf-8") as file:
        json.dump(boxes, file)
    return files, masks


def _write_png(path, width, colours, rows):
    """`colours`: 2 for RGB, 0 for one channel."""
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + b"".join((
            _chunk(b"IHDR", struct.pack(">IIBBBBB", width, len(rows), 8, colours, 0, 0, 0)),
            _chunk(b"IDAT", zlib.compress(b"".join(b"\0" + bytes(row) for row in rows))),
            _chunk(b"IEND", b""))))


def _row(corners, down, width):
    left, right = ([a + (b - a) * down for a, b in zip(corners[i], corners[i + 2])] for i in (0, 1))
    return bytes(int(a + (b - a) * x / (width - 1)) for x in range(width) for a, b in zip(left, right))


def _chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
