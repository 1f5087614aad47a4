"""What frameworks do with millrace.DataLoader besides training: one function, one row of
tools/python-frameworks.

    checks.py --list
    checks.py NAME HOST:PORT FOLDER

A function gets an Environment, raises AssertionError, and returns what to say. Those of _TWO_RANKS
are run by torchrun on two ranks.
"""

import os
import socket
import sys

import millrace
import torch

_TWO_RANKS = ("accelerate_gather_for_metrics", "hf_evaluate_on_two_ranks", "mesh_ranks_share_batches",
              "length_before_the_process_group")


class Environment:

    def __init__(self, endpoint, work):
        self._endpoint = endpoint
        self.work = work

    def loader(self, samples=2000, **named):
        """2000 images, or another number, in 40 batches of 50."""
        spec = f"""
sources {{ synthetic {{
  samples: {samples} seed: 3
  fields {{ name: "image" dtype: DTYPE_UINT8 shape: [28, 28, 1] }}
  fields {{ name: "label" dtype: DTYPE_INT64 num_classes: 10 }} }} }}
seed: 1
transforms {{ normalize {{ mean: 0.13 stddev: 0.31 }} }}
"""
        if "global_batch_size" not in named:
            named.setdefault("batch_size", 50)
        return millrace.DataLoader(self._endpoint, None, spec, **named)


def _index_of(batches):
    return [index for batch in batches for index in batch[-1].tolist()]


_WITH_INDEX = ["image", "label", "sample_index"]


# ---- Accelerate ----------------------------------------------------------------------------


def accelerate_skip_first_batches(environment):
    import accelerate
    accelerator = accelerate.Accelerator(cpu=True)
    loader = environment.loader(shuffle=True, fields=_WITH_INDEX)
    assert accelerator.prepare(loader) is loader
    whole = _index_of(environment.loader(shuffle=True, fields=_WITH_INDEX))
    loader.set_epoch(0)
    rest = accelerator.skip_first_batches(loader, 30)
    assert _index_of(rest) == whole[1500:]
    received = loader.stats()["batches"]
    assert received == 10, received
    assert sorted(_index_of(loader)) == sorted(whole), "the next epoch is whole"
    try:
        next(iter(accelerate.skip_first_batches(loader, 41)))
        raise AssertionError("41 of 40 batches were skipped")
    except millrace.InvalidArgumentError as error:
        assert "41" in str(error), error
    assert _index_of(accelerate.skip_first_batches(loader, 40)) == []
    return "a seek: of 40 batches, 30 were skipped and 10 received"


def accelerate_last_accumulation(environment):
    import accelerate
    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=3)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(28 * 28, 10))
    loader = environment.loader()
    evaluation = environment.loader(samples=120)
    model, optimizer, loader, evaluation = accelerator.prepare(
        model, torch.optim.SGD(model.parameters()), loader, evaluation)
    state = accelerator.gradient_state

    def steps(batches, evaluate_at=-1):
        count = 0
        for number, (images, labels) in enumerate(batches):
            with accelerator.accumulate(model):
                accelerator.backward(torch.nn.functional.cross_entropy(model(images), labels))
                optimizer.step()
                count += accelerator.sync_gradients
            if number == evaluate_at:
                assert len(list(evaluation)) == 3
                assert not state.end_of_dataloader
        return count

    assert steps(loader) == 14, "39 of 40 batches are 13 accumulations of 3, and one is left"
    assert steps(loader, evaluate_at=20) == 14
    assert not state.in_dataloader
    assert steps(accelerate.skip_first_batches(loader, 30)) == 4
    assert not state.in_dataloader
    for _ in loader:
        assert state.in_dataloader
        break
    assert not state.in_dataloader, "a loop that was left is over"
    return "14 optimizer steps for 40 batches, 4 for the last 10"


def accelerate_gather_for_metrics(environment):
    import accelerate
    accelerator = accelerate.Accelerator(cpu=True)
    assert accelerator.num_processes == 2
    seen = []
    try:
        next(iter(accelerator.prepare(environment.loader(samples=2011))))
        raise AssertionError("ranks with different numbers of rows")
    except millrace.InvalidArgumentError as error:
        assert "5 or 6 rows" in str(error) and "pad_last=True" in str(error), error
    # 20 batches of 100; one of 11 or 10 more.
    for samples, pad_last in ((2000, False), (2011, True), (2010, False)):
        loader = accelerator.prepare(environment.loader(
            samples=samples, pad_last=pad_last, fields=["label", "sample_index"]))
        assert len(loader) == -(-samples // 100) and loader.rank == accelerator.process_index
        gathered = [accelerator.gather_for_metrics(index) for _, index in loader]
        found = torch.cat(gathered).tolist()
        assert sorted(found) == list(range(samples)), len(found)
        seen.append(len(found))
    return f"{seen} samples over 2 ranks, each once"


def accelerate_moves_batches(environment):
    import accelerate
    accelerator = accelerate.Accelerator(cpu=True)
    before = accelerator.prepare(environment.loader())
    accelerate.PartialState().device = torch.device("meta")  # in the place of a GPU
    after, kept = accelerator.prepare(environment.loader(), environment.loader(device="cpu"))
    loaders = {"cpu": (before, kept), "meta": (after, accelerate.skip_first_batches(after, 38))}
    for device, those in loaders.items():
        for loader in those:
            found = {tensor.device.type for batch in loader for tensor in batch}
            assert found == {device}, found
    return "to the Accelerator's device, unless device=\"cpu\" says otherwise"


def accelerate_notebook_launcher(environment):
    import accelerate

    def train(path):
        # In a forked process, as a cell's function.
        accelerator = accelerate.Accelerator(cpu=True)
        try:
            loader = accelerator.prepare(environment.loader(batch_size=25, fields=["sample_index"]))
            text = " ".join(str(index) for batch in loader for index in batch[0].tolist())
        except millrace.FailedPreconditionError as error:
            text = str(error)
        with open(f"{path}.{accelerator.process_index}", "w", encoding="utf-8") as file:
            file.write(text)

    def launch(name):
        path = os.path.join(environment.work, name)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        accelerate.notebook_launcher(train, (path,), num_processes=2, use_port=port)
        return [open(f"{path}.{rank}", encoding="utf-8").read() for rank in range(2)]

    samples = [int(index) for text in launch("notebook") for index in text.split()]
    assert sorted(samples) == list(range(2000)), len(samples)
    len(environment.loader())
    for text in launch("notebook-again"):
        assert "notebook_launcher" in text and "restart the kernel" in text, text
    return "2 forked ranks share an epoch; after a loader was opened here, they say to restart the kernel"


# ---- Lightning -----------------------------------------------------------------------------


def _module(seen):
    import lightning

    class Module(lightning.LightningModule):

        def __init__(self):
            super().__init__()
            self.model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(28 * 28, 10))

        def _step(self, name, batch):
            seen.setdefault(name, []).append(batch[-1].tolist())
            return torch.nn.functional.cross_entropy(self.model(batch[0]), batch[1])

        def training_step(self, batch, _):
            return self._step(f"train {self.current_epoch}", batch)

        def validation_step(self, batch, _):
            self._step("validate", batch)

        def test_step(self, batch, _):
            self._step("test", batch)

        def predict_step(self, batch, _):
            self._step("predict", batch)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters())

    return Module()


def _trainer(**named):
    import lightning
    return lightning.Trainer(**{"accelerator": "cpu", "devices": 1, "logger": False,
                                "enable_checkpointing": False, "enable_progress_bar": False,
                                "enable_model_summary": False, **named})


def _flat(batches):
    return sorted(index for batch in batches for index in batch)


def lightning_validate_test_predict(environment):
    seen = {}
    trainer = _trainer(max_epochs=2, val_check_interval=0.5)
    train = environment.loader(shuffle=True, fields=_WITH_INDEX)
    validate = environment.loader(samples=120, fields=_WITH_INDEX)
    assert len(train) == 40, "asked before the Trainer begins"
    trainer.fit(_module(seen), train, validate)
    for epoch in range(2):
        assert _flat(seen[f"train {epoch}"]) == list(range(2000))
    assert seen["train 0"] != seen["train 1"], "shuffled again"
    # Two batches to check, then four whole validations.
    assert _flat(seen["validate"]) == sorted(list(range(100)) + 4 * list(range(120)))
    trainer.test(_module(seen), validate)
    assert _flat(seen["test"]) == list(range(120))
    trainer.predict(_module(seen), validate)
    assert _flat(seen["predict"]) == list(range(120))
    return "2 epochs, 4 validations, a test and a prediction: each sample once in each"


def lightning_loader_of_a_hook(environment):
    seen = {}
    module = _module(seen)
    module.train_dataloader = lambda: environment.loader(shuffle=True, fields=_WITH_INDEX)
    module.predict_dataloader = lambda: environment.loader(samples=120, shuffle=True,
                                                           fields=_WITH_INDEX)
    trainer = _trainer(max_epochs=1)
    trainer.fit(module)
    assert _flat(seen["train 0"]) == list(range(2000))
    trainer.predict(module)
    assert _flat(seen["predict"]) == list(range(120))
    return "train_dataloader() and predict_dataloader() of a module"


def lightning_overfit_batches(environment):
    seen = {}
    _trainer(max_epochs=3, overfit_batches=2).fit(
        _module(seen), environment.loader(fields=_WITH_INDEX))
    assert seen["train 0"] == seen["train 1"] == seen["train 2"], "not the same batches"
    assert _flat(seen["train 2"]) == list(range(100))
    return "the same 2 batches in 3 epochs"


def lightning_ddp_notebook(environment):
    # The ranks are forked; what they saw is in files.
    seen = {}
    module = _module(seen)

    def write():
        path = os.path.join(environment.work, f"lightning-notebook.{module.global_rank}")
        with open(path, "w", encoding="ascii") as file:
            file.write(" ".join(map(str, _flat(seen["train 0"]))))

    module.on_train_end = write

    def fit():
        _trainer(devices=2, strategy="ddp_notebook", max_epochs=1).fit(
            module, environment.loader(batch_size=25, fields=_WITH_INDEX))

    fit()
    samples = []
    for rank in range(2):
        with open(os.path.join(environment.work, f"lightning-notebook.{rank}"), encoding="ascii") as file:
            samples += map(int, file.read().split())
    assert sorted(samples) == list(range(2000)), len(samples)
    len(environment.loader())
    try:
        fit()
        raise AssertionError("forked ranks opened a loader")
    except torch.multiprocessing.ProcessRaisedException as error:
        assert "ddp_notebook" in str(error) and "restart the kernel" in str(error), error
    return "2 forked ranks share an epoch; after a loader was opened here, they say to restart the kernel"


# ---- Hugging Face Trainer ------------------------------------------------------------------


def _hf(environment, training=None, evaluation=None, named=None, **arguments):
    import transformers

    class Module(torch.nn.Module):

        def __init__(self):
            super().__init__()
            self.model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(28 * 28, 10))

        def forward(self, pixel_values, labels):
            logits = self.model(pixel_values)
            return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}

    class Trainer(millrace.TrainerMixin, transformers.Trainer):
        pass

    arguments = {"per_device_train_batch_size": 50, "per_device_eval_batch_size": 50, "use_cpu": True,
                 "report_to": "none", "disable_tqdm": True, "save_strategy": "no", **arguments}
    return Trainer(Module(), transformers.TrainingArguments(environment.work, **arguments),
                   train_dataset=training, eval_dataset=evaluation, **named or {})


def _hf_loader(environment, **named):
    return environment.loader(output="dict", names={"image": "pixel_values", "label": "labels"}, **named)


def hf_evaluate_and_predict(environment):
    labels = sorted(label for batch in environment.loader(samples=120) for label in batch[1].tolist())
    seen = []

    def metrics(prediction):
        seen.append(sorted(prediction.label_ids.tolist()))
        return {"count": len(prediction.label_ids)}

    evaluation = _hf_loader(environment, samples=120)
    trainer = _hf(environment, _hf_loader(environment, shuffle=True, drop_last=True),
                  {"small": evaluation}, named={"compute_metrics": metrics}, max_steps=50,
                  eval_strategy="steps", eval_steps=25)
    trainer.train()
    assert seen == 2 * [labels], "two evaluations during the training"
    assert trainer.evaluate(evaluation)["eval_count"] == 120
    assert trainer.predict(evaluation).metrics["test_count"] == 120
    return "120 samples in each of 2 evaluations during a training, and after it"


def hf_refusals(environment):
    refused = (
        (dict(per_device_train_batch_size=8), dict(), "per_device_train_batch_size"),
        (dict(dataloader_num_workers=2), dict(), "dataloader_num_workers"),
        (dict(dataloader_drop_last=True), dict(), "drop_last=True"),
    )
    for arguments, named, part in refused:
        trainer = _hf(environment, _hf_loader(environment, **named), max_steps=1, **arguments)
        try:
            trainer.train()
            raise AssertionError(f"{arguments} was taken")
        except millrace.InvalidArgumentError as error:
            assert part in str(error), error
    try:
        _hf(environment, environment.loader(), max_steps=1).train()
        raise AssertionError("tuples were taken")
    except millrace.InvalidArgumentError as error:
        assert "output=" in str(error), error
    return "4 contradictions between TrainingArguments and a loader"


def hf_evaluate_on_two_ranks(environment):
    counts = []
    uneven = _hf_loader(environment, samples=111, batch_size=25)
    trainer = _hf(environment, None, None,
                  named={"compute_metrics": lambda p: {"count": len(p.label_ids)}},
                  per_device_eval_batch_size=25)
    try:
        trainer.evaluate(uneven)
        raise AssertionError("ranks with different numbers of rows")
    except millrace.InvalidArgumentError as error:
        assert "pad_last=True" in str(error), error
    for samples, pad_last in ((111, True), (100, False), (110, False)):
        loader = _hf_loader(environment, samples=samples, batch_size=25, pad_last=pad_last)
        counts.append(trainer.evaluate(loader)["eval_count"])
    assert counts == [111, 100, 110], counts
    return "111, 100 and 110 samples over 2 ranks"


# ---- torch ---------------------------------------------------------------------------------


def mesh_ranks_share_batches(environment):
    from torch.distributed.device_mesh import init_device_mesh
    mesh = init_device_mesh("cpu", (1, 2), mesh_dim_names=("dp", "tp"))
    ranks = torch.distributed.get_rank()
    shared = environment.loader(device_mesh=mesh["dp"], fields=["sample_index"])
    assert (shared.rank, shared.world_size) == (0, 1)
    split = environment.loader(device_mesh=mesh["tp"], fields=["sample_index"])
    assert (split.rank, split.world_size) == (ranks, 2)
    for loader, each, ways in ((shared, 2000, 2), (split, 1000, 1)):
        mine = torch.tensor(_index_of(loader))
        assert len(mine) == each
        other = [torch.empty_like(mine) for _ in range(2)]
        torch.distributed.all_gather(other, mine)
        assert sorted(torch.cat(other).tolist()) == sorted(ways * list(range(2000)))
    try:
        environment.loader(device_mesh=mesh)
        raise AssertionError("a mesh of two dimensions was taken")
    except millrace.ArgumentError as error:
        assert "dp, tp" in str(error), error
    return "ranks of a tensor-parallel group have equal batches"


def length_before_the_process_group(environment):
    del os.environ["RANK"], os.environ["WORLD_SIZE"]
    loader = environment.loader(fields=["sample_index"])
    late = environment.loader()
    assert len(loader) == 40 and loader.world_size == 1
    next(iter(late))
    rank = int(os.environ["LOCAL_RANK"])
    torch.distributed.init_process_group("gloo", rank=rank, world_size=2)
    assert len(loader) == 20 and loader.rank == rank
    mine = torch.tensor(_index_of(loader))
    other = [torch.empty_like(mine) for _ in range(2)]
    torch.distributed.all_gather(other, mine)
    assert sorted(torch.cat(other).tolist()) == list(range(2000))
    try:
        next(iter(late))
        raise AssertionError("the rank changed after a batch")
    except millrace.FailedPreconditionError as error:
        assert "init_process_group" in str(error), error
    return "a loader that was asked for its length takes its new rank"


_CHECKS = [accelerate_skip_first_batches, accelerate_last_accumulation, accelerate_gather_for_metrics,
           accelerate_moves_batches, accelerate_notebook_launcher,
           lightning_validate_test_predict, lightning_loader_of_a_hook, lightning_overfit_batches,
           lightning_ddp_notebook, hf_evaluate_and_predict, hf_refusals, hf_evaluate_on_two_ranks, mesh_ranks_share_batches,
           length_before_the_process_group]


def main(argv):
    checks = {check.__name__: check for check in _CHECKS}
    if argv[1:] == ["--list"]:
        print(*checks)
        return
    name, endpoint, work = argv[1:]
    if name in _TWO_RANKS and "RANK" not in os.environ:
        os.execv(sys.executable, [sys.executable, "-B", "-m", "torch.distributed.run", "--standalone",
                                  "--nproc_per_node=2", *argv])
    millrace.set_log_level("error")
    rank = os.environ.get("RANK", "0")
    text = checks[name](Environment(endpoint, work))
    if rank == "0":
        print(text)


if __name__ == "__main__":
    main(sys.argv)
