"""The arguments of a Loader as options of the C interface (client/c/millrace.h), which names and
checks them. Pure: no server is asked."""

from __future__ import annotations

import os
from collections.abc import Set
from typing import TYPE_CHECKING, Any, Iterable, Mapping

from millrace import _arrays, _values
from millrace.errors import ArgumentError, InvalidArgumentError

if TYPE_CHECKING:
    from millrace import _embedded

# Tensors of every batch that are no field of the dataset.
EXTRA_TENSORS = ("source_index", "sample_index", "valid")

# Data of this machine in the place of an endpoint.
_LOCAL_SCHEMES = ("imagefolder:", "lmdb:", "parquet:")
# For checks of the other options of a loader whose server, and the name of its data there, are not
# known yet.
_SOME_SERVER = "127.0.0.1:1"
_SOME_DATASET = "data"


def _texts_of(argument: str, values: Any, expected: str) -> tuple[str, ...]:
    # Sets have an order that changes from process to process; a dict's values would be lost.
    if isinstance(values, (Set, Mapping, bytes, bytearray)) or not isinstance(values, Iterable):
        raise ArgumentError(f"{argument}={values!r}: expected {expected}")
    return tuple(_values.text(f"{argument}[{i}]", value) for i, value in enumerate(values))


def data_of(endpoint: str | _arrays.Arrays, dataset: str | None) -> _embedded.Data | None:
    """The data of endpoint_of(), with arrays copied; None: of servers that run."""
    if not is_local(endpoint):
        return None
    from millrace import _embedded  # late: a program without such data does not pay for the import
    return _embedded.Data(endpoint, dataset)


def is_local(endpoint: str | _arrays.Arrays) -> bool:
    """Whether endpoint_of() has returned data of this machine."""
    return not isinstance(endpoint, str) or endpoint.startswith(_LOCAL_SCHEMES)


def _local_data_of(text: str) -> str:
    """The same data for a process with another working directory."""
    scheme, _, path = text.partition(":")
    if not path.strip():
        raise InvalidArgumentError(f"endpoint={text!r}: write a path, {scheme}:/data/train")
    if "://" not in path:
        path = os.path.abspath(os.path.expanduser(path))
    return f"{scheme}:{path}"


def endpoint_of(endpoint: str | Iterable[str] | Mapping[str, Any] | _arrays.Arrays
                ) -> str | _arrays.Arrays:
    """HOST:PORT of all servers, separated by commas; or data of this machine, "lmdb:/data/train" or
    arrays."""
    if isinstance(endpoint, _arrays.Arrays):
        return endpoint
    if isinstance(endpoint, Mapping):
        return _arrays.later(endpoint)
    if _arrays.looks_like_arrays(endpoint):
        raise ArgumentError("endpoint= is an array, or a list of arrays, without names: give a dict, "
                            "{\"image\": images, \"label\": labels}")
    text = _values.text("endpoint", endpoint) if isinstance(endpoint, str) else ",".join(
        _texts_of("endpoint", endpoint, "\"HOST:PORT\" of a data server, or a list of them"))
    if is_local(text):
        if not isinstance(endpoint, str):
            raise InvalidArgumentError(
                f"endpoint={endpoint!r}: of data of this machine, name one data set as a text; several "
                "are read by several loaders")
        return _local_data_of(text)
    if text.startswith("memory:"):
        raise InvalidArgumentError(
            f"endpoint={text!r}: arrays have no name; give the arrays themselves in a dict, "
            "{\"image\": images, \"label\": labels}")
    return text


def fields_of(fields: str | Iterable[str] | None) -> tuple[str, ...] | None:
    """The names of the fields, in the order of the output."""
    if fields is None:
        return None
    expected = "names of fields in their order, as a list or a tuple"
    result = (_values.text("fields", fields),) if isinstance(fields, str) else \
        _texts_of("fields", fields, expected)
    if not result or not all(result):
        raise InvalidArgumentError(f"fields={fields!r}: expected {expected}")
    if len(set(result)) != len(result):
        raise InvalidArgumentError(f"fields={fields!r}: a name is there twice")
    return result


def renamed_of(names: Mapping[str, str] | None) -> dict[str, str]:
    """{field: name in the dict}."""
    if names is None:
        return {}
    if not isinstance(names, Mapping):
        raise ArgumentError(
            f"names={names!r}: expected a dict from fields to names, {{\"image\": \"pixel_values\"}}")
    return {_values.text("a field of names", field): _values.text(f"names[{field!r}]", name)
            for field, name in names.items()}


def last_batch_of(drop_last: bool | None, pad_last: bool) -> str | None:
    """The option for the rest of an epoch. None: as the pipeline says."""
    if pad_last and drop_last is not False:
        raise InvalidArgumentError(
            f"pad_last=True and drop_last={drop_last!r} exclude each other: a padded last batch is "
            "not left out; leave drop_last= out")
    if pad_last:
        return "pad"
    return None if drop_last is None else "drop" if drop_last else "partial"


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
    if isinstance(endpoint, str) and not is_local(endpoint):
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
