# A PyTorch loop over millrace.DataLoader that continues in the middle of an epoch.
#
#   torch_loop.py HOST:PORT[,HOST:PORT...] DATASET PIPELINE CHECKPOINT [BATCHES]
#
# Continues from the file CHECKPOINT when it exists. With BATCHES, it writes
# CHECKPOINT after that batch of the training and ends, as a job whose time is over.

import os
import sys

import millrace
import torch

if len(sys.argv) not in (5, 6):
    sys.exit("usage: torch_loop.py HOST:PORT[,HOST:PORT...] DATASET PIPELINE CHECKPOINT [BATCHES]")
endpoint, dataset, pipeline, checkpoint = sys.argv[1:5]
batches = int(sys.argv[5]) if len(sys.argv) > 5 else 0

loader = millrace.DataLoader(endpoint, dataset or None, pipeline, batch_size=50, shuffle=True)
model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(28 * 28, 10))
optimizer = torch.optim.Adam(model.parameters())
if os.path.exists(checkpoint):
    saved = torch.load(checkpoint)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    loader.load_state_dict(saved["loader"])

position = loader.state_dict()
done = position["epoch"] * len(loader) + position["step"]
for epoch in range(position["epoch"], 2):
    loader.set_epoch(epoch)  # keeps the step of a loaded state of this epoch
    for images, labels in loader:
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        done += 1
        if done == batches:
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                        "loader": loader.state_dict()}, checkpoint)
            sys.exit()
    print(f"epoch {epoch} has ended after batch {done}")
