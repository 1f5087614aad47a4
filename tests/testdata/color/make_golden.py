"""Makes the expected images of the colour transforms with torchvision 0.26.

    python3 make_golden.py    # in this folder; needs torchvision and Pillow

expected.png has the results below each other, in the order of CASES; they stand
in tests/server/augment/color_functions_test.cc as well.
"""
import numpy as np
import torch
from PIL import Image
from torchvision.transforms.v2 import functional as F

CASES = [
    lambda x: F.adjust_brightness(x, 0.7),
    lambda x: F.adjust_brightness(x, 1.3),
    lambda x: F.adjust_contrast(x, 0.65),
    lambda x: F.adjust_contrast(x, 1.6),
    lambda x: F.adjust_saturation(x, 0.4),
    lambda x: F.adjust_saturation(x, 1.83),
    lambda x: F.adjust_hue(x, 0.0737),
    lambda x: F.adjust_hue(x, -0.29),
    lambda x: F.adjust_sharpness(x, 0.2),
    lambda x: F.adjust_sharpness(x, 1.9),
    lambda x: F.rgb_to_grayscale(x, 3),
    lambda x: F.posterize(x, 3),
    lambda x: F.solarize(x, 100.3),
    F.autocontrast,
    F.equalize,
    lambda x: F.gaussian_blur(x, [9, 9], [1.7, 1.7]),
]


def source():
    """A piece of a photograph above, all hues at falling saturation below."""
    picture = Image.open("../images/resize_source.png").convert("RGB")
    pixels = np.array(picture.crop((20, 10, 71, 52)))
    hue, saturation = np.meshgrid(np.arange(51) * 5, 255 - np.arange(12) * 20)
    value = 255 - hue // 3
    strip = np.stack([hue, saturation, value], -1).astype(np.uint8)
    pixels[30:] = np.array(Image.fromarray(strip, "HSV").convert("RGB"))
    return torch.from_numpy(pixels).permute(2, 0, 1)


def save(name, pixels):
    Image.fromarray(pixels.permute(1, 2, 0).contiguous().numpy()).save(
        name + ".png", optimize=True)


image = source()
save("source", image)
save("expected", torch.cat([case(image) for case in CASES], 1))
