"""`TrainerMixin`: the Hugging Face Trainer, which takes datasets only, takes millrace.DataLoader.

Imports torch, and transformers when a training begins.
"""

from __future__ import annotations

from typing import Any

from millrace import _last_batch
from millrace.errors import InvalidArgumentError
from millrace.torch_loader import DataLoader


class TrainerMixin:
    """Takes millrace.DataLoader where a transformers.Trainer takes datasets; other datasets stay as
    they are.

        class Trainer(millrace.TrainerMixin, transformers.Trainer):
            pass

        loader = millrace.DataLoader("data-1:7001", "photos", "imagenet_train", batch_size=64,
                                     shuffle=True, drop_last=True, output="dict",
                                     names={"image": "pixel_values", "label": "labels"})
        Trainer(model, args, train_dataset=loader).train()

    It changes get_train_dataloader(), get_eval_dataloader() and get_test_dataloader(). A checkpoint
    in the middle of an epoch is resumed at its position, without receiving the batches before it.

    Raises, from the three methods:
      InvalidArgumentError: TrainingArguments that say something else than the loader, or a loader
        whose batches are no dicts.
    """

    # Of transformers.Trainer, which comes later in the order of the classes.
    args: Any
    train_dataset: Any
    eval_dataset: Any
    _train_batch_size: int

    _resuming: Any = None

    def get_train_dataloader(self) -> Any:
        """The train_dataset when it is a millrace.DataLoader."""
        loader = self.train_dataset
        if not isinstance(loader, DataLoader):
            return super().get_train_dataloader()  # type: ignore[misc]
        self._check(loader, self._train_batch_size, "per_device_train_batch_size")
        self._resume_in(loader)
        prepared = self._prepared(loader)
        # The Trainer gathers losses of a training, but no rows.
        loader.dataset.preparation.gathers = False
        return prepared

    def get_eval_dataloader(self, eval_dataset: Any = None) -> Any:
        """The eval_dataset when it is a millrace.DataLoader."""
        loader = eval_dataset
        if loader is None or isinstance(loader, str):
            loader = self.eval_dataset if loader is None else self.eval_dataset[loader]
        if not isinstance(loader, DataLoader):
            return super().get_eval_dataloader(eval_dataset)  # type: ignore[misc]
        return self._evaluating(loader)

    def get_test_dataloader(self, test_dataset: Any) -> Any:
        """The test_dataset when it is a millrace.DataLoader."""
        if not isinstance(test_dataset, DataLoader):
            return super().get_test_dataloader(test_dataset)  # type: ignore[misc]
        return self._evaluating(test_dataset)

    def _evaluating(self, loader: DataLoader) -> Any:
        self._check(loader, self.args.eval_batch_size, "per_device_eval_batch_size")
        last = _last_batch.uneven(loader.plan, loader.world_size)
        if last is not None:
            raise InvalidArgumentError(
                f"{loader!r} has a last batch of {last.samples} samples, of which the {last.world_size} "
                "ranks get different numbers, and the Trainer gathers equal ones: make the loader with "
                "pad_last=True")
        return self._prepared(loader)

    def _prepared(self, loader: DataLoader) -> Any:
        """Known to Accelerate, which returns the loader as it is."""
        trainer: Any = self
        return trainer.accelerator.prepare(loader)

    def _check(self, loader: DataLoader, batch_size: int, argument: str) -> None:
        """Raises InvalidArgumentError where the Trainer would count or do something else."""
        if loader._loader._arguments["output"] != "dict":
            raise InvalidArgumentError(
                f"{loader!r} has tuples as batches, and the Trainer wants dicts: make it with "
                "output=\"dict\" and names={...} for the arguments of the model's forward()")
        if loader.batch_size != batch_size:
            raise InvalidArgumentError(
                f"{argument} of TrainingArguments says {batch_size} samples, and {loader!r} has "
                f"batches of {loader.batch_size}: give both the same number")
        if self.args.dataloader_num_workers:
            raise InvalidArgumentError(
                f"dataloader_num_workers={self.args.dataloader_num_workers} of TrainingArguments "
                "cannot be honoured: a millrace.DataLoader has no workers; leave it out")
        if self.args.dataloader_drop_last and not loader.drop_last:
            raise InvalidArgumentError(
                f"dataloader_drop_last of TrainingArguments is true, and {loader!r} keeps the last "
                "batch: make it with drop_last=True")

    def _resume_in(self, loader: DataLoader) -> None:
        trainer: Any = self
        if self._resuming is not None:
            trainer.pop_callback(self._resuming)
        self._resuming = _resume_callback(loader)
        trainer.add_callback(self._resuming)


def _resume_callback(loader: DataLoader) -> Any:
    """Sets the epoch of the first iteration: after a checkpoint, the Trainer says how many batches of
    its epoch it skips, and not which epoch that is."""
    from transformers import TrainerCallback  # type: ignore[import-not-found,unused-ignore]

    class Resume(TrainerCallback):  # type: ignore[misc,unused-ignore]
        """For one training."""

        begun = False

        def on_epoch_begin(self, args: Any, state: Any, control: Any, **named: Any) -> None:
            """Before the Trainer iterates."""
            if not self.begun:
                loader.set_epoch(int(state.epoch or 0))
            self.begun = True

    return Resume()
