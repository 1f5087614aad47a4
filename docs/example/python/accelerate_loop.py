# A loop with Hugging Face Accelerate over millrace.DataLoader that continues in the
# middle of an epoch.
#
#   accelerate_loop.py HOST:PORT[,HOST:PORT...] DATASET PIPELINE FOLDER [BATCHES]
#
# Under torchrun or `accelerate launch`, each process is a rank. Continues from FOLDER
# when it exists. With BATCHES, it writes FOLDER after that batch of the training and
# ends, as a job whose time is over.

import os
import sys

import accelerate
import millrace
import torch

if len(sys.argv) not in (5, 6):
    sys.exit("usage: accelerate_loop.py HOST:PORT[,HOST:PORT...] DATASET PIPELINE FOLDER [BATCHES]")
endpoint, dataset, pipeline, folder = sys.argv[1:5]
batches = int(sys.argv[5]) if len(sys.argv) > 5 else 0

accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=3)
model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(28 * 28, 10))
loader = millrace.DataLoader(endpoint, dataset or None, pipeline, global_batch_size=50,
                             shuffle=True, drop_last=True)
model, optimizer, loader = accelerator.prepare(model, torch.optim.Adam(model.parameters()), loader)
if os.path.exists(folder):
    accelerator.load_state(folder)  # also the position of the loader

position = loader.state_dict()
done = position["epoch"] * len(loader) + position["step"]
for epoch in range(position["epoch"], 2):
    for images, labels in loader:
        # The last batch of an epoch ends an accumulation, also one of fewer batches.
        with accelerator.accumulate(model):
            loss = torch.nn.functional.cross_entropy(model(images), labels)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        done += 1
        if done == batches:
            accelerator.save_state(folder)
            sys.exit()
    accelerator.print(f"epoch {epoch} has ended after batch {done}")
accelerator.end_training()
