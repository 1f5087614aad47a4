"""A PicturesCase whose scripts have torch, torchvision v2 and translations of composes: translated(...), and
refused_steps(...), which returns what was refused."""

from pictures_case import PicturesCase

_BEGIN = """
import torch, millrace
from torchvision.transforms import InterpolationMode as I, v2
from torchvision import tv_tensors
from millrace import Pipeline, transforms as T
torch.set_num_threads(1)
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
FLOAT = [v2.ToImage(), v2.ToDtype(torch.float32, scale=True)]
END = [*FLOAT, v2.Normalize(MEAN, STD)]
def translated(*transforms, **named):
    return Pipeline.from_torchvision(v2.Compose(list(transforms)), **named)
def refused_steps(*transforms, **named):
    try:
        translated(*transforms, **named)
    except millrace.TranslationError as error:
        assert isinstance(error, ValueError)
        for item in error.detail["refused"]:
            assert all(item[part] in str(error) for part in item), error
        return error.detail["refused"]
    raise SystemExit(f"accepted: {transforms}")
"""


class TorchvisionCase(PicturesCase):
    begin = _BEGIN
