"""A test case with 40 PNG files, a server that has them packed, and a Python with torch and torchvision.

Both are the wheels that Bazel has, unless the Python in MILLRACE_TRANSLATION_PYTHON has a torch of its
own (tools/check-translations).
"""

import glob
import os
import random
import struct
import subprocess
import zlib

import installed
import wheel_python
from case import Case

# FILES: the pictures, in the order of the samples.
_BEGIN = wheel_python.BEGIN + """
import glob
import millrace
millrace.set_log_level("error")
ENDPOINT, FOLDER = sys.argv[1:3]
FILES = sorted(glob.glob(os.path.join(FOLDER, "*", "*.png")))
"""


class PicturesCase(Case):
    begin = ""  # of each script, after the names above
    variables = {}  # of its environment

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server.stop()
        cls.folder = os.path.join(cls.work, "pictures")
        _write_pictures(cls.folder)
        uri = f"lmdb:{cls.work}/pictures.lmdb"
        subprocess.run(["server/data_tool/millrace-data", "pack", "--format=imagefolder",
                        f"--input={cls.folder}", f"--output={uri}"],
                       stdin=subprocess.DEVNULL, capture_output=True, check=True)
        cls.server = installed.Server(cls.work, data=[f"--dataset=pictures={uri}"])
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
        if self.found is None:
            self.skipTest(self.why)
        environment = {**os.environ, "NO_ALBUMENTATIONS_UPDATE": "1", **self.found.environment,
                       **self.variables}
        environment["PYTHONPATH"] = ":".join(
            filter(None, [self.package.site, environment.get("PYTHONPATH"), *self.sites]))
        for name in ("RANK", "WORLD_SIZE"):
            environment.pop(name, None)
        result = subprocess.run(
            [*self.found.command, _BEGIN + self.begin + code, self.server.address, self.folder],
            env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
            timeout=280)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result.stdout


def _has_torch(python):
    result = subprocess.run(
        [python, "-c", "import importlib.util as u; raise SystemExit(u.find_spec('torch') is None)"],
        stdin=subprocess.DEVNULL, capture_output=True, check=False)
    return result.returncode == 0


def _write_pictures(folder):
    """Smooth colours of random size, four classes."""
    numbers = random.Random(1)
    for number in range(40):
        # Ten files of each class, named so that the order of names is that of samples.
        parent = os.path.join(folder, f"class{number // 10}")
        os.makedirs(parent, exist_ok=True)
        height, width = numbers.randint(60, 120), numbers.randint(60, 120)
        corners = [[numbers.randrange(256) for _ in range(3)] for _ in range(4)]
        rows = b"".join(b"\0" + _row(corners, y / (height - 1), width) for y in range(height))
        png = b"\x89PNG\r\n\x1a\n" + b"".join((
            _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)),
            _chunk(b"IDAT", zlib.compress(rows)), _chunk(b"IEND", b"")))
        with open(os.path.join(parent, f"{number:02}.png"), "wb") as file:
            file.write(png)


def _row(corners, down, width):
    left, right = ([a + (b - a) * down for a, b in zip(corners[i], corners[i + 2])] for i in (0, 1))
    return bytes(int(a + (b - a) * x / (width - 1)) for x in range(width) for a, b in zip(left, right))


def _chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
