"""The arguments of a Loader as options of the C interface (client/c/millrace.h), which names and
checks them. Pure: no server is asked."""

from __future__ import annotations

from typing import Any, Iterable, Mapping

from millrace.errors import InvalidArgumentError

# Tensors of every batch that are no field of the dataset.
EXTRA_TENSORS = ("source_index", "sample_index", "valid")

_LOCAL_SCHEMES = ("imagefolder:", "lmdb:", "parquet:", "memory:")


def check_count(name: str, value: Any, least: int) -> None:
    """Raises InvalidArgumentError unless the value is None or a whole number of at least `least`."""
    if value is None:
        return
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise InvalidArgumentError(f"{name}={value!r}: expected a whole number")
    if value.__index__() < least:
        raise InvalidArgumentError(f"{name}={value!r}: expected at least {least}")


def endpoint_of(endpoint: str | Iterable[str]) -> str:
    """HOST:PORT of all servers, separated by commas."""
    text = endpoint if isinstance(endpoint, str) else ",".join(endpoint)
    if text.startswith(_LOCAL_SCHEMES):
        raise InvalidArgumentError(
            f"endpoint={text!r} names data, and this release starts no server by itself: run "
            f"`millrace-server --dataset=NAME={text}` and give its HOST:PORT and dataset=NAME")
    return text


def names_of(argument: str, names: Iterable[str] | None) -> tuple[str, ...] | None:
    """The names, checked."""
    if names is None:
        return None
    result = (names,) if isinstance(names, str) else tuple(names)
    if not result or not all(isinstance(name, str) and name for name in result):
        raise InvalidArgumentError(f"{argument}={names!r}: expected names of fields")
    if len(set(result)) != len(result):
        raise InvalidArgumentError(f"{argument}={names!r}: a name is there twice")
    return result


def _text_of(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.9f}" if isinstance(value, float) else str(value)


def make(*, endpoint: str, dataset: str | None, pipeline: Mapping[str, str],
         fields: tuple[str, ...] | None, global_batch_size: int | None, shuffle: bool | None,
         drop_last: bool | None, seed: int | None, others: Mapping[str, Any]) -> dict[str, str]:
    """{option: value}. `pipeline`: options of _pipeline.settings_of(). `others` are options of the C interface by their own names; None: left to its
    default."""
    settings = {"endpoint": endpoint, "epochs": "0"}
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
    if drop_last is not None:
        settings["last_batch"] = "drop" if drop_last else "partial"
    if seed is not None:
        settings["seed"] = str(seed)
    settings.update({name: _text_of(value) for name, value in others.items() if value is not None})
    return settings
