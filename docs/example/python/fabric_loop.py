# A Lightning Fabric loop over millrace.DataLoader that continues in the middle of an
# epoch.
#
#   fabric_loop.py HOST:PORT[,HOST:PORT...] DATASET PIPELINE CHECKPOINT [BATCHES]
#
# Under torchrun, each process is a rank. Continues from the file CHECKPOINT when it
# exists. With BATCHES, it writes CHECKPOINT after that batch of the training and ends,
# as a job whose time is over.

import os
import sys

import lightning
import millrace
import torch

if len(sys.argv) not in (5, 6):
    sys.exit("usage: fabric_loop.py HOST:PORT[,HOST:PORT...] DATASET PIPELINE CHECKPOINT [BATCHES]")
endpoint, dataset, pipeline, checkpoint = sys.argv[1:5]
batches = int(sys.argv[5]) if len(sys.argv) > 5 else 0

fabric = lightning.Fabric(accelerator="cpu", devices=int(os.environ.get("LOCAL_WORLD_SIZE", 1)))
fabric.launch()
model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(28 * 28, 10))
model, optimizer = fabric.setup(model, torch.optim.Adam(model.parameters()))
loader = millrace.DataLoader(endpoint, dataset or None, pipeline, global_batch_size=50,
                             shuffle=True, drop_last=True)
moved = fabric.setup_dataloaders(loader)  # moves each batch to the device
state = {"model": model, "optimizer": optimizer, "loader": loader}
if os.path.exists(checkpoint):
    fabric.load(checkpoint, state)

position = loader.state_dict()
done = position["epoch"] * len(loader) + position["step"]
for epoch in range(position["epoch"], 2):
    for images, labels in moved:
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        fabric.backward(loss)
        optimizer.step()
        done += 1
        if done == batches:
            fabric.save(checkpoint, state)
            sys.exit()
    fabric.print(f"epoch {epoch} has ended after batch {done}")
