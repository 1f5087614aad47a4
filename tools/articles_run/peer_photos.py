"""Trains resnet18 on photographs in Python and prints a run (stats.py) as JSON: RandomResizedCrop,
flip and Normalize, as the preset imagenet_train, through one of the usual ways of loading.

    peer_photos.py pillow|decode_jpeg|albumentations|lmdb --photos=DIR [--side=32] [--workers=2]
                   [--batch_size=64] [--epochs=6] [--seed=1] [--lr=0.01] [--momentum=0.9]
                   [--limit=N] [--work=DIR] [--tensorboard=DIR]

pillow and decode_jpeg: torch's DataLoader and torchvision v2 over files; albumentations: the same
with OpenCV; lmdb: the JPEG bytes in an LMDB file (written into --work first), decoded with Pillow.
"""

import argparse
import io
import os
import pathlib

import peer

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class Files:
    def __init__(self, options, load):
        self.files = sorted(str(p) for p in pathlib.Path(options.photos).rglob("*.jpg"))
        if options.limit:  # of all classes, which are folders
            self.files = self.files[::max(1, len(self.files) // options.limit)][:options.limit]
        self.labels = [int(pathlib.Path(f).parent.name[5:]) for f in self.files]
        self.load = load

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        return self.load(self.files[index]), self.labels[index]


def torchvision_steps(side):
    import torch
    from torchvision.transforms import v2
    return v2.Compose([v2.RandomResizedCrop(side, antialias=True), v2.RandomHorizontalFlip(),
                       v2.ToImage(), v2.ToDtype(torch.float32, scale=True),
                       v2.Normalize(MEAN, STD)])


def pillow(options):
    from PIL import Image
    steps = torchvision_steps(options.side)
    return Files(options, lambda path: steps(Image.open(path).convert("RGB")))


def decode_jpeg(options):
    from torchvision.io import ImageReadMode, read_file
    from torchvision.io import decode_jpeg as decode
    steps = torchvision_steps(options.side)
    return Files(options, lambda path: steps(decode(read_file(path), ImageReadMode.RGB)))


def albumentations(options):
    import albumentations as A
    import cv2
    from albumentations.pytorch import ToTensorV2
    cv2.setNumThreads(0)
    steps = A.Compose([A.RandomResizedCrop(size=(options.side, options.side)),
                       A.HorizontalFlip(p=0.5), A.Normalize(mean=MEAN, std=STD), ToTensorV2()])
    return Files(options, lambda path: steps(
        image=cv2.cvtColor(cv2.imread(path), cv2.COLOR_BGR2RGB))["image"])


class Lmdb(Files):
    """The files' bytes under their numbers; opened again in each worker."""

    def __init__(self, options):
        import lmdb as library
        super().__init__(options, None)
        self.path = os.path.join(options.work, "python.lmdb")
        self.steps = torchvision_steps(options.side)
        self.reading = None
        with library.open(self.path, subdir=False, map_size=1 << 34) as environment, \
             environment.begin(write=True) as transaction:
            for number, path in enumerate(self.files):
                with open(path, "rb") as file:
                    transaction.put(f"{number:08d}".encode(), file.read())

    def __getitem__(self, index):
        import lmdb as library
        from PIL import Image
        if self.reading is None:
            self.reading = library.open(self.path, subdir=False, readonly=True, lock=False,
                                        readahead=False).begin()
        data = self.reading.get(f"{index:08d}".encode())
        return self.steps(Image.open(io.BytesIO(data)).convert("RGB")), self.labels[index]


DATASETS = {"pillow": pillow, "decode_jpeg": decode_jpeg, "albumentations": albumentations,
            "lmdb": Lmdb}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("name", choices=sorted(DATASETS))
    parser.add_argument("--photos", required=True)
    parser.add_argument("--side", type=int, default=32)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch_size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=int, default=0)
    parser.add_argument("--work", default=".")
    parser.add_argument("--tensorboard", default="")
    options = parser.parse_args()
    import torch
    import torchvision
    device = peer.choose_device()
    torch.manual_seed(options.seed)
    model = torchvision.models.resnet18(num_classes=10).to(device, memory_format=torch.channels_last)
    loader = torch.utils.data.DataLoader(
        DATASETS[options.name](options), batch_size=options.batch_size, shuffle=True,
        drop_last=True, num_workers=options.workers, persistent_workers=options.workers > 0,
        pin_memory=device.type == "cuda")
    log = peer.Log(options.tensorboard)
    run = peer.train_epochs(
        lambda epoch: loader, model, device, options.epochs, log=log,
        optimizer=torch.optim.SGD(model.parameters(), options.lr, options.momentum))
    run["seed"] = options.seed
    run["versions"] = {"torchvision": torchvision.__version__}
    peer.report(run, log)


if __name__ == "__main__":
    main()
