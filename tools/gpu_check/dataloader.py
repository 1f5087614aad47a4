"""The peer of gpu-check/run: the same training with PyTorch's DataLoader.

  dataloader.py FOLDER MODEL EPOCHS JSON

Images of FOLDER, torchvision's RandomResizedCrop(224), flip and normalisation,
a worker for each core, pinned memory; MODEL of torchvision in bfloat16
autocast, channels_last, SGD. EPOCHS x 68 steps of 128 images as one long epoch,
so that the workers start once. The first 68 steps do not count.
"""

import json
import os
import sys
import time

import torch
import torchvision
from torch.utils.data import ConcatDataset, DataLoader
from torchvision.transforms import v2

BATCH = 128
STEPS_OF_EPOCH = 68


def main(folder, model_name, epochs, output):
    transform = v2.Compose([
        v2.PILToTensor(), v2.RandomResizedCrop(224, antialias=True), v2.RandomHorizontalFlip(),
        v2.ToDtype(torch.float32, scale=True),
        v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])])
    images = torchvision.datasets.ImageFolder(folder, transform)
    steps_of_all = STEPS_OF_EPOCH * int(epochs)
    repeated = ConcatDataset([images] * (steps_of_all * BATCH // len(images) + 1))
    loader = DataLoader(repeated, batch_size=BATCH, shuffle=True, drop_last=True,
                        num_workers=os.cpu_count(), pin_memory=True, prefetch_factor=4)
    model = getattr(torchvision.models, model_name)(num_classes=len(images.classes))
    model = model.cuda().to(memory_format=torch.channels_last).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    loss_of = torch.nn.CrossEntropyLoss()

    waited, steps, begin = 0.0, 0, None
    batches = iter(loader)
    while True:
        asked = time.perf_counter()
        batch = next(batches, None)
        if batch is None or steps == steps_of_all:
            break
        waited += time.perf_counter() - asked
        image = batch[0].cuda(non_blocking=True).contiguous(memory_format=torch.channels_last)
        label = batch[1].cuda(non_blocking=True)
        with torch.autocast("cuda", torch.bfloat16):
            loss = loss_of(model(image), label)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        steps += 1
        if steps == STEPS_OF_EPOCH:
            torch.cuda.synchronize()
            waited, begin = 0.0, time.perf_counter()
    torch.cuda.synchronize()
    seconds = time.perf_counter() - begin
    run = {"samples_per_second": (steps - STEPS_OF_EPOCH) * BATCH / seconds, "stall_share": waited / seconds,
           "workers": os.cpu_count()}
    json.dump(run, open(output, "w", encoding="utf-8"))
    print(run)


main(*sys.argv[1:])
