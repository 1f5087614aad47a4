"""Composes of Albumentations for the tests of their translation: from the package, and from the record
of their objects in albumentations.json.

    composes(A, ToTensorV2)["article"]      # with `import albumentations as A`
    record(compose)                          # what a translation sees of it
    stand_in(record(compose))                # an object that looks like it
"""

import types


def composes(A, ToTensorV2):  # pylint: disable=invalid-name
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    end = [A.Normalize(mean, std), ToTensorV2()]
    constant, reflect = 0, 4  # borders of OpenCV
    accepted = {
        "article": [A.RandomResizedCrop((224, 224)), A.HorizontalFlip(), A.ColorJitter(), *end],
        "article_ranges": [A.RandomResizedCrop((4, 5), (0.2, 1.0), (0.5, 2.0), interpolation=0),
                           A.ColorJitter(0.2, (0.5, 1.5), (1, 1), 0.1, p=0.3), *end],
        "evaluation": [A.SmallestMaxSize(256), A.CenterCrop(224, 224), *end],
        "exact": [A.Resize(40, 50), A.Normalize(mean, std)],
        "bytes": [A.RandomCrop(20, 30), A.VerticalFlip(p=1.0), ToTensorV2()],
        "stored": [A.CenterCrop(20, 30)],
        "others": [A.Pad((1, 2), fill=(1, 2, 3)), A.Pad(3, border_mode=reflect),
                   A.Rotate((-10, 20), border_mode=constant, fill=7, p=0.4), A.ToGray(p=0.1),
                   A.GaussianBlur((5, 5), (0.5, 2.0), p=0.2), A.CenterCrop(20, 20),
                   A.Sequential([A.NoOp(), A.Normalize((0.5,), (0.25,))], p=1.0)],
        "nothing": [A.Resize(5, 6, p=0.0), A.GaussNoise(p=0.0), A.HorizontalFlip(p=0.0), A.Rotate((0, 0), border_mode=constant)],
    }
    refused = {
        "brightness": [A.RandomBrightnessContrast()],
        "area": [A.Resize(5, 6, area_for_downscale="image")],
        "cubic": [A.HorizontalFlip(), A.Resize(5, 6, interpolation=2)],
        "p_of_crop": [A.RandomResizedCrop((5, 6), p=0.5)],
        "padded_crop": [A.RandomCrop(5, 6, pad_if_needed=True)],
        "several_short_sides": [A.SmallestMaxSize([5, 6])],
        "border": [A.Rotate(border_mode=reflect)],
        "wrapped": [A.Pad(3, border_mode=3)],
        "crop_border": [A.Rotate(border_mode=constant, crop_border=True)],
        "gray": [A.ToGray(method="pca")],
        "kernel": [A.GaussianBlur()],
        "own_mean": [A.Normalize(normalization="image")],
        "scale": [A.Normalize(mean, std, max_pixel_value=1.0)],
        "one_of": [A.Sequential([A.NoOp(), A.OneOf([A.HorizontalFlip(), A.VerticalFlip()])], p=1.0)],
        "late_crop": [A.Normalize(mean, std), A.RandomCrop(5, 6)],
        "erasing": [A.Erasing(), A.CoarseDropout()],
        "early_tensor": [ToTensorV2(), A.HorizontalFlip()],
        "p_of_tensor": [ToTensorV2(p=0.5)],
        "noise": [A.GaussNoise(), A.RandomOrder([A.HorizontalFlip()]),
                  A.OneOrOther(A.HorizontalFlip(), A.VerticalFlip())],
    }
    found = {name: A.Compose(transforms) for name, transforms in {**accepted, **refused}.items()}
    found["seed"] = A.Compose([A.HorizontalFlip()], seed=7)
    found["p_of_compose"] = A.Compose([A.HorizontalFlip()], p=0.5)
    found["boxes"] = A.Compose([A.HorizontalFlip()], bbox_params=A.BboxParams("pascal_voc"))
    found["clipped_boxes"] = A.Compose([A.RandomCrop(20, 30)], bbox_params=A.BboxParams(
        "pascal_voc", label_fields=["label"], clip=True))
    found["other_boxes"] = A.Compose([A.HorizontalFlip()], bbox_params=A.BboxParams(
        "coco", min_area=5, min_visibility=0.1, min_width=2, min_height=2, filter_invalid_bboxes=True,
        max_accept_ratio=3, check_each_transform=False))
    found["key_points"] = A.Compose([A.HorizontalFlip()], keypoint_params=A.KeypointParams("xy"))
    found["masks"] = A.Compose([A.Pad(3, fill=(1, 2, 3), fill_mask=255), A.RandomResizedCrop((20, 30)),
                                A.Rotate((-10, 20), fill_mask=255, p=0.5), A.ColorJitter(), A.CenterCrop(9, 9),
                                *end])
    found["several_fills"] = A.Compose([A.Pad(3, fill_mask=255), A.Rotate((-10, 20))])
    found["fraction_fill"] = A.Compose([A.Pad(3, fill_mask=0.5)])
    found["smooth_masks"] = A.Compose([A.Resize(5, 6)], mask_interpolation=1)
    found["ellipse"] = A.Compose([A.Rotate((-10, 20), rotate_method="ellipse")],
                                 bbox_params=A.BboxParams("pascal_voc"))
    found["reflected_boxes"] = A.Compose([A.Pad(3, border_mode=reflect)],
                                         bbox_params=A.BboxParams("pascal_voc"))
    found["mask_targets"] = A.Compose([A.HorizontalFlip()], additional_targets={"mask2": "mask"})
    found["targets"] = A.Compose([A.HorizontalFlip()], additional_targets={"image2": "image"})
    return found


def record(transform):
    """Module, class and parameters of a transform, and the same of what it holds."""
    kind = type(transform)
    found = {"module": kind.__module__, "class": kind.__name__}
    if hasattr(transform, "transforms") and not hasattr(transform, "get_transform_init_args_names"):
        return {**found, "p": transform.p, "seed": transform.seed,
                "processors": {name: {key: _plain(value) for key, value in vars(processor.params).items()}
                               for name, processor in sorted(getattr(transform, "processors", {}).items())},
                "_additional_targets": dict(getattr(transform, "_additional_targets", {})),
                "transforms": [record(item) for item in transform.transforms]}
    names = sorted(transform.get_transform_init_args_names())
    return {**found, "parameters": {name: _plain(getattr(transform, name)) for name in names}}


def _plain(value):
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value.item() if hasattr(value, "item") else value


def stand_in(recorded):
    """An object that shows a translation what was recorded."""
    kind = type(recorded["class"], (), {"__module__": recorded["module"],
                                        "__call__": lambda self, **sample: sample})
    one = kind()
    if "transforms" in recorded:
        for name in ("p", "seed", "_additional_targets"):
            setattr(one, name, recorded[name])
        one.processors = {name: types.SimpleNamespace(params=types.SimpleNamespace(**parameters))
                          for name, parameters in recorded["processors"].items()}
        one.transforms = [stand_in(item) for item in recorded["transforms"]]
        return one
    for name, value in recorded["parameters"].items():
        setattr(one, name, value)
    names = tuple(recorded["parameters"])
    one.get_transform_init_args_names = lambda: names
    return one
