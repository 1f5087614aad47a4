"""The arguments of a Loader as options of the C interface (client/c/millrace.h), which names and
checks them. Pure: no server is asked."""

from __future__ import annotations

from typing import Any, Iterable, Mapping

from millrace import _arrays, _endpoint, _values
from millrace._values import shown
from millrace.errors import ArgumentError, InvalidArgumentError

# Tensors of every batch that are no field of the dataset.
EXTRA_TENSORS = ("source_index", "sample_index", "valid")

# For checks of the other options of a loader whose server, and the name of its data there, are not
# known yet.
_SOME_SERVER = "127.0.0.1:1"
_SOME_DATASET = "data"


def fields_of(fields: str | Iterable[str] | None) -> tuple[str, ...] | None:
    """The names of the fields, in the order of the output."""
    if fields is None:
        return None
    expected = "names of fields in their order, as a list or a tuple"
    result = (_values.text("fields", fields),) if isinstance(fields, str) else \
        _values.texts("fields", fields, expected)
    if not result or not all(result):
        raise InvalidArgumentError(f"fields={shown(fields)}: expected {expected}")
    if len(set(result)) != len(result):
        raise InvalidArgumentError(f"fields={shown(fields)}: a name is there twice")
    return result


def renamed_of(names: Mapping[str, str] | None) -> dict[str, str]:
    """{field: name in the dict}."""
    if names is None:
        return {}
    if not isinstance(names, Mapping):
        raise ArgumentError(
            f"names={shown(names)}: expected a dict from fields to names, {{\"image\": \"pixel_values\"}}")
    return {_values.text("a field of names", field): _values.text(f"names[{field!r}]", name)
            for field, name in names.items()}


def last_batch_of(drop_last: bool | None, pad_last: bool) -> str | None:
    """The option for the rest of an epoch. None: as the pipeline says."""
    if pad_last and drop_last is not False:
        raise InvalidArgumentError(
            f"pad_last=True and drop_last={drop_last!r} cannot be used together, because a padded "
            "last batch is not left out: leave drop_last= out")
    if pad_last:
        return "pad"
    return None if drop_last is None else "drop" if drop_last else "partial"


def check_shared(global_batch_size: int | None, world_size: int) -> None:
    """Raises InvalidArgumentError when ranks cannot have the same number of rows."""
    if global_batch_size is not None and global_batch_size % world_size:
        raise InvalidArgumentError(
            f"global_batch_size={global_batch_size}: the global batch cannot be shared equally by {world_size} "
            f"ranks; give a multiple of {world_size}, or batch_size=, the samples of a batch of a rank")


def check_together(arguments: Mapping[str, Any]) -> None:
    """Raises InvalidArgumentError for an argument that another one leaves without an effect."""
    if arguments["allow_uneven"] and arguments["drop_last"]:
        raise InvalidArgumentError(
            "allow_uneven=True and drop_last=True cannot be used together, because the last batch that may be "
            "uneven is left out: remove one of them")
    if arguments["window"] and arguments["window_bytes"] is not None:
        raise InvalidArgumentError(
            f"window={arguments['window']} and window_bytes= cannot be used together, because window_bytes= "
            "bounds a window that adapts, and this one is fixed: remove one of them")
    if arguments["hedge_share"] == 0 and arguments["hedge_floor"] is not None:
        raise InvalidArgumentError(
            "hedge_share=0 and hedge_floor= cannot be used together, because with hedge_share=0 no batch is "
            "requested from a second server: leave hedge_floor= out, or give a hedge_share= above 0")


def _text_of(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.9f}" if isinstance(value, float) else str(value)


def make(*, endpoint: str | _arrays.Arrays, dataset: str | None, pipeline: Mapping[str, str],
         fields: tuple[str, ...] | None, global_batch_size: int | None, shuffle: bool | None,
         last_batch: str | None, seed: int | None, others: Mapping[str, Any]) -> dict[str, str]:
    """{option: value}. `pipeline`: options of _pipeline.settings_of(). `last_batch`: of
    last_batch_of(). `others`: options of the C interface by their own names; None: left to its
    default."""
    settings = {"epochs": "0"}
    if isinstance(endpoint, str) and not _endpoint.is_local(endpoint):
        settings["endpoint"] = endpoint
    else:
        settings.update(endpoint=_SOME_SERVER, dataset=_SOME_DATASET, same_host="auto")
    settings.update(pipeline)
    if dataset is not None:
        settings["dataset"] = dataset
    outputs = [name for name in fields or () if name not in EXTRA_TENSORS]
    if outputs:
        settings["outputs"] = ",".join(outputs)
    if global_batch_size is not None:
        settings["batch_size"] = str(global_batch_size)
    if shuffle is not None:
        settings["shuffle"] = "global" if shuffle else "sequential"
    if last_batch is not None:
        settings["last_batch"] = last_batch
    if seed is not None:
        settings["seed"] = str(seed)
    settings.update({name: _text_of(value) for name, value in others.items() if value is not None})
    return settings
