"""The argument endpoint=: data servers, or data of this machine in their place. Pure but for a look at
the files that a path names, for errors."""

from __future__ import annotations

import difflib
import itertools
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from millrace import _arrays, _values
from millrace._values import shown
from millrace.errors import ArgumentError, InvalidArgumentError

if TYPE_CHECKING:
    from millrace import _embedded

# Data of this machine in the place of an endpoint.
_SCHEMES = ("imagefolder:", "lmdb:", "parquet:", "arrow:", "tar:", "tfrecord:", "mds:", "litdata:",
            "csv:", "hdf5:")
# What the server takes as options behind a path: KEY=VALUE pairs to the end of the text.
_OPTIONS = re.compile(r"\?[a-z0-9_]+=[^&]*(&[a-z0-9_]+=[^&]*)*$")
# Those of files, for sentences.
_OF_FILES = "\"lmdb:PATH\", \"parquet:PATH\", \"arrow:PATH\", \"tar:PATH\", \"tfrecord:PATH\", " \
    "\"mds:PATH\", \"litdata:PATH\", \"csv:PATH\" or \"hdf5:PATH\""
_DICT = "{\"image\": images, \"label\": labels}"
# Suffixes of the files of each scheme.
_SUFFIXES = {"parquet:": (".parquet",), "arrow:": (".arrow", ".feather"), "lmdb:": (".lmdb", ".mdb"),
             "tar:": (".tar",), "mds:": (".mds",), "tfrecord:": (".tfrecord", ".tfrecords"),
             "csv:": (".csv", ".tsv"), "hdf5:": (".h5", ".hdf5")}
# Suffixes of files that programs read into arrays.
_OF_ARRAYS = (".npy", ".npz", ".pickle", ".pkl", ".pt", ".pth")
# Entries of a folder that are looked at to tell what it holds.
_MAX_ENTRIES = 1000

Endpoint = str | _arrays.Arrays


def endpoint_of(endpoint: str | Iterable[str] | Mapping[str, Any] | _arrays.Arrays) -> Endpoint:
    """HOST:PORT of all servers, separated by commas; or data of this machine, "lmdb:/data/train" or
    arrays.

    Raises:
      ArgumentError, InvalidArgumentError: anything else; says what to write for it.
    """
    if isinstance(endpoint, _arrays.Arrays):
        return endpoint
    if isinstance(endpoint, Mapping):
        return _arrays.later(endpoint)
    if _arrays.looks_like_arrays(endpoint):
        raise ArgumentError("endpoint= is an array, or a list of arrays, without names: give a dict, "
                            f"{_DICT}")
    if isinstance(endpoint, str):
        text = _values.text("endpoint", endpoint)
        if is_local(text):
            return _with_whole_path(text)
        if _is_path(text):
            raise InvalidArgumentError(f"endpoint={shown(text)} is a path and not HOST:PORT: "
                                       f"{_for_path(text)}")
        _refuse_other_scheme(text)
    else:
        refuse_other_data("endpoint", endpoint)
        text = ",".join(_values.texts("endpoint", endpoint,
                                      "\"HOST:PORT\" of a data server, or a list of them"))
        if is_local(text):
            raise InvalidArgumentError(
                f"endpoint={shown(endpoint)}: a loader reads one dataset of this machine: give one path, and "
                "make a loader for each dataset")
    if text.startswith("memory:"):
        raise InvalidArgumentError(
            f"endpoint={shown(text)}: arrays cannot be opened by name; pass the arrays in a dict, {_DICT}")
    return text


def is_local(endpoint: Endpoint) -> bool:
    """Whether endpoint_of() has returned data of this machine."""
    return not isinstance(endpoint, str) or endpoint.startswith(_SCHEMES)


def data_of(endpoint: Endpoint, dataset: str | None) -> _embedded.Data | None:
    """The data of endpoint_of(), with arrays copied; None: of servers that run."""
    if not is_local(endpoint):
        return None
    from millrace import _embedded  # late: a program without such data does not pay for the import
    return _embedded.Data(endpoint, dataset)


def _with_whole_path(text: str) -> str:
    """The same data for a process with another working directory."""
    scheme, _, path = text.partition(":")
    if not path.strip():
        raise InvalidArgumentError(f"endpoint={text!r}: write a path, {scheme}:/data/train")
    if "://" in path:
        return f"{scheme}:{path}"
    found = _OPTIONS.search(path)
    options = path[found.start():] if found else ""
    path = path[:len(path) - len(options)]
    return f"{scheme}:{_whole(path)}" + re.sub(r"([?&](?:classes|labels)=)([^&]+)",
                                                lambda pair: pair[1] + _whole(pair[2]), options)


def _whole(path: str) -> str:
    return os.path.abspath(os.path.expanduser(path))


# ---- What programs give instead -----------------------------------------------------------------


def refuse_other_data(argument: str, value: Any) -> None:
    """Raises ArgumentError for a path, several datasets, or a dataset of another library."""
    if isinstance(value, os.PathLike):
        raise ArgumentError(f"{argument}={shown(value)} is a path: " + _for_path(os.fsdecode(value)))
    if isinstance(value, Sequence) and any(isinstance(item, (Mapping, _arrays.Arrays)) for item in value):
        raise ArgumentError(
            f"{argument}= is a list of datasets of arrays, and a loader has one: join the arrays of each "
            "field, for example with numpy.concatenate, or make a loader for each")
    if _is_data_set(value):
        raise ArgumentError(
            f"{argument}= is an object of Python with the samples of a dataset "
            f"({type(value).__module__}.{type(value).__name__}), and the data servers read files or arrays: "
            + _for_data_set(value))


def _is_data_set(value: Any) -> bool:
    """Of torch, torchvision, or Hugging Face."""
    of_torch = sys.modules.get("torch.utils.data")
    return of_torch is not None and isinstance(value, (of_torch.Dataset, of_torch.DataLoader)) or \
        type(value).__module__.split(".")[0] == "datasets"


def _for_data_set(value: Any) -> str:
    """What to give for a dataset that has arrays, or a folder of images."""
    value = getattr(value, "dataset", value)  # of a DataLoader
    arrays = f"give its arrays in a dict, {_DICT}"
    labels, shape = getattr(value, "targets", None), getattr(getattr(value, "data", None), "shape", ())
    if labels is not None and len(shape) in (3, 4):
        grey = "[..., None]" if len(shape) == 3 else ""
        return f"give its arrays in a dict, {{\"image\": dataset.data{grey}, \"label\": " + \
            ("dataset.targets" if hasattr(labels, "dtype") else "numpy.array(dataset.targets)") + "}"
    if hasattr(value, "save_to_disk"):
        return "save it with dataset.save_to_disk(PATH), and write \"arrow:PATH\""
    if isinstance(getattr(value, "tensors", None), tuple):
        return "give its tensors in a dict, {\"image\": dataset.tensors[0], \"label\": dataset.tensors[1]}"
    root = getattr(value, "root", None)
    if isinstance(root, (str, os.PathLike)) and os.path.isdir(root):
        return f"{_for_path(os.fsdecode(root))}; or {arrays}"
    return f"write \"imagefolder:PATH\" for a folder of images, {_OF_FILES} for files; or {arrays}"


def _refuse_other_scheme(text: str) -> None:
    """Raises InvalidArgumentError for "image_folder:/data": a path where HOST:PORT has the port."""
    scheme, _, path = text.partition(":")
    if not scheme.replace("_", "").replace("-", "").isalnum() or "://" in text or \
            not path.startswith(("/", "./", "../", "~")):
        return
    near = difflib.get_close_matches(f"{scheme.lower()}:", _SCHEMES, 1)
    advice = f"did you mean \"{near[0]}{path}\"?" if near else _for_path(path)
    raise InvalidArgumentError(f"endpoint={shown(text)}: data of this machine are \"imagefolder:PATH\", "
                               f"{_OF_FILES}; {advice}")


def _is_path(text: str) -> bool:
    """Whether a text that should be HOST:PORT is the path of a file or a folder."""
    if text.startswith(("/", "./", "../", "~")) or text in (".", ".."):
        return True
    host, _, port = text.rpartition(":")
    if "://" in text or "," in text or (host and port.isdigit()):
        return False
    return bool(text.strip()) and (os.path.exists(text) or _scheme_of(text) != "" or
                                   text.endswith(_OF_ARRAYS))


def _scheme_of(path: str) -> str:
    """What a path seems to hold; "": not known."""
    if os.path.isdir(path):
        if os.path.exists(os.path.join(path, "data.mdb")):
            return "lmdb:"
        try:
            with os.scandir(path) as entries:
                names = [entry.name for entry in itertools.islice(entries, _MAX_ENTRIES)]
        except OSError:
            names = []
        return next((scheme for scheme, suffixes in _SUFFIXES.items()
                     if any(name.endswith(suffixes) for name in names)), "imagefolder:")
    return next((scheme for scheme, suffixes in _SUFFIXES.items() if path.endswith(suffixes)), "")


def _for_path(path: str) -> str:
    """What to write for a path."""
    if path.endswith(_OF_ARRAYS):
        return f"read its arrays, and give them in a dict, {_DICT}"
    scheme = _scheme_of(os.path.expanduser(path))
    if scheme:
        return f"write endpoint=\"{scheme}{path}\""
    return f"write endpoint=\"imagefolder:{path}\" for a folder of images, \"lmdb:{path}\" or " \
        f"\"parquet:{path}\" for a file; arrays are given in a dict, {_DICT}"
