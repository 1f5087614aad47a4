# Trains a linear classifier on a folder of images: one folder for each class.
# No server needs to run: the loader starts one on this machine.
#
#   folder_loop.py FOLDER

import sys

import millrace
import torch
from torchvision.transforms import v2

if len(sys.argv) != 2:
    sys.exit("usage: folder_loop.py FOLDER")
compose = v2.Compose([v2.RandomResizedCrop(64), v2.RandomHorizontalFlip(), v2.ToImage(),
                      v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.5], [0.5])])
loader = millrace.DataLoader(f"imagefolder:{sys.argv[1]}", pipeline=compose, batch_size=64, shuffle=True)
model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 64 * 64, 1000))
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
for epoch in range(2):
    for images, labels in loader:  # float32 [64, 3, 64, 64], int64 [64]
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: loss {loss.item():.3f}")
