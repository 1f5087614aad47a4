"""Makes the expected images of the geometric transforms with torchvision 0.26.

    python3 make_golden.py    # in this folder; needs torchvision and Pillow

The parameters stand in tests/server/augment/warp_test.cc as well.
"""
import math

import numpy as np
import torch
from PIL import Image
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import functional as F

NEAREST = InterpolationMode.NEAREST
BILINEAR = InterpolationMode.BILINEAR


def source():
    picture = Image.open("../images/resize_source.png").convert("RGB")
    return torch.from_numpy(
        np.array(picture.crop((20, 10, 71, 52)))).permute(2, 0, 1)


def save(name, pixels):
    Image.fromarray(pixels.permute(1, 2, 0).contiguous().numpy()).save(
        name + ".png", optimize=True)


def degrees(tangent):
    return math.degrees(math.atan(tangent))


image = source()
colour = [124.0, 116.0, 104.0]
save("source", image)
save("rotate_nearest", F.rotate(image, 27.5, NEAREST, fill=colour))
save("rotate_bilinear", F.rotate(image, -72.25, BILINEAR, fill=[0.0]))
save("affine_nearest",
     F.affine(image, 33.0, [5, -4], 0.7, [12.0, -7.0], NEAREST, fill=colour))
save("affine_bilinear",
     F.affine(image, -160.0, [-3, 6], 1.6, [-20.0, 9.0], BILINEAR, fill=colour))
# As TrivialAugmentWide calls it.
save("shear_x",
     F.affine(image, 0.0, [0, 0], 1.0, [degrees(0.627), 0.0], BILINEAR,
              fill=None, center=[0, 0]))
save("shear_y",
     F.affine(image, 0.0, [0, 0], 1.0, [0.0, degrees(-0.363)], NEAREST,
              fill=None, center=[0, 0]))
