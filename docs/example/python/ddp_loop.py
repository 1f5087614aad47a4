# A DistributedDataParallel loop over millrace.DataLoader that continues in the
# middle of an epoch, also with another number of ranks.
#
#   torchrun --nproc_per_node=2 ddp_loop.py HOST:PORT[,HOST:PORT...] DATASET PIPELINE
#       CHECKPOINT [BATCHES]
#
# Continues from the file CHECKPOINT when it exists. With BATCHES, it writes
# CHECKPOINT after that batch of the training and ends, as a job whose time is over.

import os
import sys

import millrace
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

if len(sys.argv) not in (5, 6):
    sys.exit("usage: ddp_loop.py HOST:PORT[,HOST:PORT...] DATASET PIPELINE CHECKPOINT [BATCHES]")
endpoint, dataset, pipeline, checkpoint = sys.argv[1:5]
batches = int(sys.argv[5]) if len(sys.argv) > 5 else 0

dist.init_process_group("gloo")
# Rank and number of ranks are those of torch.distributed. The global batch stays
# when their number changes.
loader = millrace.DataLoader(endpoint, dataset or None, pipeline, global_batch_size=50,
                             shuffle=True, drop_last=True)
model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(28 * 28, 10))
saved = torch.load(checkpoint) if os.path.exists(checkpoint) else None
if saved:
    model.load_state_dict(saved["model"])
    loader.load_state_dict(saved["loader"])
ddp = DistributedDataParallel(model)
optimizer = torch.optim.Adam(ddp.parameters())
if saved:
    optimizer.load_state_dict(saved["optimizer"])

position = loader.state_dict()  # the same on all ranks
done = position["epoch"] * len(loader) + position["step"]
for epoch in range(position["epoch"], 2):
    loader.set_epoch(epoch)  # keeps the step of a loaded state of this epoch
    for images, labels in loader:
        loss = torch.nn.functional.cross_entropy(ddp(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        done += 1
        if done == batches:
            if dist.get_rank() == 0:
                torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                            "loader": loader.state_dict()}, checkpoint)
            dist.destroy_process_group()
            sys.exit()
    if dist.get_rank() == 0:
        print(f"epoch {epoch} has ended after batch {done}")
dist.destroy_process_group()
