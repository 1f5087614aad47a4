"""Makes the golden images beside this file with Pillow: what the decoders and
the resize are compared with. Run it only to add a case:

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install pillow numpy
    /tmp/venv/bin/python make_golden.py

Each case is an input and NAME.expected.png, Pillow's result. Made with the
Pillow version that versions.txt names.
"""
import io
from pathlib import Path

import numpy as np
import PIL
from PIL import Image, ImageOps

here = Path(__file__).parent


def scene(w, h, seed):
    """Smooth shades, hard edges and a little noise, as a photograph has."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:h, 0:w].astype(float)
    out = np.zeros((h, w, 3))
    for c in range(3):
        for _ in range(5):
            fx, fy, p = rng.uniform(-0.15, 0.15, 2).tolist() + [rng.uniform(0, 6)]
            out[..., c] += 25 * np.sin(x * fx + y * fy + p)
        out[..., c] += 128
    for _ in range(12):
        x0, y0 = rng.integers(0, w), rng.integers(0, h)
        out[y0:y0 + h // 5, x0:x0 + w // 6] = rng.uniform(0, 255, 3)
    out += rng.normal(0, 6, out.shape)
    return Image.fromarray(np.clip(out, 0, 255).astype(np.uint8))


def save(name, image):
    image.save(here / f'{name}.expected.png', optimize=True)


# --- resize: input and results at the same pixels --------------------------
source = scene(150, 110, 1)
source.save(here / 'resize_source.png', optimize=True)
for name, box, size in [
        ('down', (0, 0, 150, 110), (64, 64)),
        ('crop', (13, 9, 131, 100), (72, 56)),
        ('up', (40, 30, 80, 70), (70, 90)),
        ('thin', (0, 0, 150, 110), (140, 12))]:
    crop = source.crop(box)  # crop, then resize: taps stop at the crop's edge
    save(f'resize_{name}', crop.resize(size, Image.BILINEAR))

# --- JPEG kinds --------------------------------------------------------------
small = scene(45, 33, 2)


def jpeg(name, image, convert='RGB', **options):
    (here / f'{name}.jpg').write_bytes(b'')
    image.save(here / f'{name}.jpg', quality=85, **options)
    save(name, Image.open(here / f'{name}.jpg').convert(convert))


jpeg('jpeg_420', small, subsampling=2)
jpeg('jpeg_progressive', small, progressive=True)
jpeg('jpeg_gray', small.convert('L'))
jpeg('jpeg_cmyk', small.convert('CMYK'))
jpeg('jpeg_to_gray', small, convert='L')

# --- EXIF orientation --------------------------------------------------------
tiny = scene(24, 15, 3)
for orientation in range(1, 9):
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = here / f'exif_{orientation}.jpg'
    tiny.save(path, quality=90, subsampling=0, exif=exif)
    save(f'exif_{orientation}', ImageOps.exif_transpose(Image.open(path)))

# --- PNG kinds ---------------------------------------------------------------
def png(name, image, convert='RGB', **options):
    image.save(here / f'{name}.png', **options)
    save(name, Image.open(here / f'{name}.png').convert(convert))


alpha = Image.fromarray(
    (np.mgrid[0:33, 0:45][1] * 5).astype(np.uint8))
png('png_rgb', small)
png('png_gray', small.convert('L'))
png('png_to_gray', small, convert='L')
png('png_1bit', small.convert('1'))
png('png_palette', small.quantize(37))
png('png_palette_transparent', small.quantize(7), transparency=3)
png('png_rgba', Image.merge('RGBA', small.split() + (alpha,)))
png('png_la', Image.merge('LA', (small.convert('L'), alpha)))

# --- WebP kinds --------------------------------------------------------------
def webp(name, image, convert='RGB', **options):
    image.save(here / f'{name}.webp', **options)
    save(name, Image.open(here / f'{name}.webp').convert(convert))


with_alpha = Image.merge('RGBA', small.split() + (alpha,))
turned = Image.Exif()
turned[0x0112] = 6
webp('webp_lossy', small, quality=70)
webp('webp_lossless', small, lossless=True)
webp('webp_alpha', with_alpha, quality=70)
webp('webp_lossless_alpha', with_alpha, lossless=True, exact=True)
webp('webp_to_gray', small, convert='L', quality=70)
webp('webp_animated', small, save_all=True, quality=70, duration=100,
     append_images=[small.transpose(Image.Transpose.ROTATE_180)])
small.save(here / 'webp_exif.webp', quality=70, exif=turned)
save('webp_exif', ImageOps.exif_transpose(Image.open(here / 'webp_exif.webp')))

# --- JPEGs that Pillow cannot write ------------------------------------------
# Written once by WriteJpeg() of tests/testing/images/jpeg_writer.h, 45 x 33.
for kind in ['411', '440', '410', 'asymmetric', 'large_chroma', 'separate_scans',
             'restarts', 'wide_tables', 'rgb', 'ycck', 'cmyk_bare', 'gray_22']:
    save(f'jpeg_{kind}', Image.open(here / f'jpeg_{kind}.jpg').convert('RGB'))

(here / 'versions.txt').write_text(f'Pillow {PIL.__version__}\n')
