# A training loop with Millrace's client for Python: trains a linear classifier
# of 28 x 28 images on the batches of the data servers.
#
#   train_loop.py HOST:PORT[,HOST:PORT...] DATASET PRESET

import sys

import millrace
import torch

if len(sys.argv) != 4:
    sys.exit("usage: train_loop.py HOST:PORT[,HOST:PORT...] DATASET PRESET")
endpoint, dataset, preset = sys.argv[1:]
loader = millrace.Loader(endpoint, dataset, preset, batch_size=64, shuffle=True, drop_last=True)
model = torch.nn.Linear(28 * 28, 10)
optimizer = torch.optim.Adam(model.parameters())
for epoch in range(2):
    for images, labels in loader:  # float32 [64, 1, 28, 28], int64 [64]
        loss = torch.nn.functional.cross_entropy(model(images.flatten(1)), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: loss {loss.item():.3f}")
