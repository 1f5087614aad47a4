"""The peer of gpu-check/run: the same training with PyTorch's DataLoader.

  dataloader.py FOLDER MODEL EPOCHS JSON

Images of FOLDER, torchvision's RandomResizedCrop(224), flip and normalisation,
a worker for each core, pinned memory; MODEL of torchvision in bfloat16
autocast, channels_last, SGD. As many images as EPOCHS epochs have, as one long
epoch, so that the workers start once. The first 20 steps do not count.
"""

import json
import os
import sys
import time

import torch
import torchvision
from torch.utils.data import ConcatDataset, DataLoader
from torchvision.transforms import v2


def main(folder, model_name, epochs, output):
    transform = v2.Compose([
        v2.PILToTensor(), v2.RandomResizedCrop(224, antialias=True), v2.RandomHorizontalFlip(),
        v2.ToDtype(torch.float32, scale=True),
        v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])])
    images = torchvision.datasets.ImageFolder(folder, transform)
    loader = DataLoader(ConcatDataset([images] * int(epochs)), batch_size=128, shuffle=True, drop_last=True,
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
        if batch is None:
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
        if steps == 20:
            torch.cuda.synchronize()
            waited, begin = 0.0, time.perf_counter()
    torch.cuda.synchronize()
    seconds = time.perf_counter() - begin
    run = {"samples_per_second": (steps - 20) * 128 / seconds, "stall_share": waited / seconds,
           "workers": os.cpu_count()}
    json.dump(run, open(output, "w", encoding="utf-8"))
    print(run)


main(*sys.argv[1:])
