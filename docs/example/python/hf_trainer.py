# The Hugging Face Trainer over millrace.DataLoader, continued in the middle of an
# epoch.
#
#   hf_trainer.py HOST:PORT[,HOST:PORT...] DATASET PIPELINE FOLDER [BATCHES]
#
# Under torchrun, each process is a rank. Continues from the last checkpoint in FOLDER
# when there is one. With BATCHES, it writes a checkpoint after that batch of the
# training and ends, as a job whose time is over.

import os
import sys

import millrace
import torch
import transformers
from transformers.trainer_utils import get_last_checkpoint

if len(sys.argv) not in (5, 6):
    sys.exit("usage: hf_trainer.py HOST:PORT[,HOST:PORT...] DATASET PIPELINE FOLDER [BATCHES]")
endpoint, dataset, pipeline, folder = sys.argv[1:5]
batches = int(sys.argv[5]) if len(sys.argv) > 5 else 0
batch_size = 50 // int(os.environ.get("WORLD_SIZE", 1))


class Classifier(torch.nn.Module):

    def __init__(self):
        super().__init__()
        self.model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(28 * 28, 10))

    def forward(self, pixel_values, labels):
        logits = self.model(pixel_values)
        return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}


class Trainer(millrace.TrainerMixin, transformers.Trainer):
    pass


class StopAfter(transformers.TrainerCallback):

    def on_step_end(self, args, state, control, **_):
        if state.global_step == batches:
            control.should_save = control.should_training_stop = True


loader = millrace.DataLoader(endpoint, dataset or None, pipeline, batch_size=batch_size,
                             shuffle=True, drop_last=True, output="dict",
                             names={"image": "pixel_values", "label": "labels"})
arguments = transformers.TrainingArguments(
    folder, num_train_epochs=2, per_device_train_batch_size=batch_size, use_cpu=True,
    save_strategy="no", report_to="none", disable_tqdm=True)
trainer = Trainer(Classifier(), arguments, train_dataset=loader, callbacks=[StopAfter()])
last = get_last_checkpoint(folder) if os.path.isdir(folder) else None
trainer.train(resume_from_checkpoint=last)
