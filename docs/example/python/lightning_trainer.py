# Lightning's Trainer over millrace.DataLoader, continued in the middle of an epoch.
#
#   lightning_trainer.py HOST:PORT[,HOST:PORT...] DATASET PIPELINE FOLDER [BATCHES]
#
# Under torchrun, each process is a rank. Continues from FOLDER/last.ckpt when it
# exists. With BATCHES, it writes that file after that batch of the training and ends,
# as a job whose time is over.

import os
import sys

import lightning
import millrace
import torch
from lightning.pytorch.callbacks import ModelCheckpoint

if len(sys.argv) not in (5, 6):
    sys.exit("usage: lightning_trainer.py HOST:PORT[,HOST:PORT...] DATASET PIPELINE FOLDER [BATCHES]")
endpoint, dataset, pipeline, folder = sys.argv[1:5]
batches = int(sys.argv[5]) if len(sys.argv) > 5 else -1


class Classifier(lightning.LightningModule):

    def __init__(self):
        super().__init__()
        self.model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(28 * 28, 10))

    def training_step(self, batch, _):
        images, labels = batch
        return torch.nn.functional.cross_entropy(self.model(images), labels)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


loader = millrace.DataLoader(endpoint, dataset or None, pipeline, global_batch_size=50,
                             shuffle=True, drop_last=True)
callbacks = []
if batches > 0:
    callbacks.append(ModelCheckpoint(folder, every_n_train_steps=batches, save_last=True,
                                     enable_version_counter=False))
trainer = lightning.Trainer(max_epochs=2, max_steps=batches, callbacks=callbacks, accelerator="cpu",
                            devices=int(os.environ.get("LOCAL_WORLD_SIZE", 1)), logger=False,
                            enable_checkpointing=batches > 0, enable_progress_bar=False)
last = os.path.join(folder, "last.ckpt")
# The checkpoint has the position of the loader, because it has a state_dict().
trainer.fit(Classifier(), loader, ckpt_path=last if os.path.exists(last) else None)
