"""Makes the folder of photographs that the comparison runs on: as large as ImageNet's, from real
photographs of Debian packages.

    photos.py OUTPUT COUNT SOURCE_DIR...

Each is a random large part of a source picture (cut to 4:3 when it is wider), scaled with Lanczos to
a short side of 375 to 420 pixels and written as JPEG of quality 88, 92 or 95, into ten folders
class0 .. class9. The same sources and the same Pillow give the same files. Needs Pillow.
"""

import os
import pathlib
import random
import sys

from PIL import Image

SMALLEST_SIDE = 480


def usable(path):
    """Whether the picture is RGB and large enough; unreadable ones are not."""
    try:
        with Image.open(path) as image:
            return min(image.size) >= SMALLEST_SIDE and image.mode == "RGB"
    except OSError:
        return False


def cut(image, rng):
    """A part of the picture and the random numbers of it, in this order: share, left (wide ones),
    left, top, short side."""
    width, height = image.size
    share = rng.uniform(0.6, 1.0)
    if width > height * 4 / 3:
        narrow = int(height * 4 / 3)
        left = rng.randint(0, width - narrow)
        image = image.crop((left, 0, left + narrow, height))
        width = narrow
    part_width, part_height = int(width * share), int(height * share)
    left = rng.randint(0, width - part_width)
    top = rng.randint(0, height - part_height)
    image = image.crop((left, top, left + part_width, top + part_height))
    scale = rng.randint(375, 420) / min(part_width, part_height)
    size = max(1, round(part_width * scale)), max(1, round(part_height * scale))
    return image.resize(size, Image.LANCZOS)


def main(argv):
    if len(argv) < 4:
        print(__doc__, file=sys.stderr)
        return 2
    output, count = pathlib.Path(argv[1]), int(argv[2])
    found = sorted(path for folder in argv[3:] for path in pathlib.Path(folder).rglob("*")
                   if path.suffix.lower() in (".jpg", ".jpeg"))
    sources = [path for path in found if usable(path)]
    if not sources:
        print(f"no photograph of at least {SMALLEST_SIDE} pixels lies below {' '.join(argv[3:])}",
              file=sys.stderr)
        return 1
    rng = random.Random(7)
    for number in range(count):
        with Image.open(sources[number % len(sources)]) as image:
            image.draft("RGB", (1600, 1600))  # large ones are decoded at a fraction
            photograph = cut(image.convert("RGB"), rng)
        folder = output / f"class{number % 10}"
        folder.mkdir(parents=True, exist_ok=True)
        part = folder / f".{number:05d}.part"
        photograph.save(part, format="JPEG", quality=rng.choice([88, 92, 95]))
        os.replace(part, folder / f"{number:05d}.jpg")
    print(f"{count} photographs of {len(sources)} sources in {output}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
