"""`Arrays`: arrays of the program as a dataset that the data server of this machine reads.

The arrays are copied once, into an anonymous file in memory (memfd) that is sealed: nobody can change
it afterwards. The program may go on changing its arrays, and the server maps the file.
docs/protocol.md ("Arrays in memory") describes the bytes.

Threads: an `Arrays` is immutable once it is made. Neither NumPy nor torch is imported for arrays of the
other.
"""

from __future__ import annotations

import fcntl
import functools
import math
import os
import reprlib
import struct
import sys
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from millrace import _free_memory, _values
from millrace._values import shown
from millrace.errors import (ArgumentError, FailedPreconditionError, InvalidArgumentError,
                             ResourceExhaustedError)

# {name: (DType of proto/types.proto, bytes of an element)}.
_DTYPES = {"uint8": (1, 1), "bool": (2, 1), "int32": (3, 4), "int64": (4, 8), "float32": (5, 4),
           "float64": (6, 8), "float16": (7, 2), "bfloat16": (8, 2), "int8": (9, 1), "int16": (10, 2),
           "uint16": (11, 2)}
_WIDER = {"uint32": "int64", "uint64": "int64", "longdouble": "float64", "float128": "float64"}
# Native formats of the module struct, which the buffer protocol uses.
_FORMATS = {"B": "uint8", "?": "bool", "b": "int8", "h": "int16", "H": "uint16", "i": "int32",
            "f": "float32", "d": "float64", "e": "float16",
            **{letter: f"int{8 * struct.calcsize(letter)}" for letter in "lq"},
            **{letter: f"uint{8 * struct.calcsize(letter)}" for letter in "ILQ"}}
_INTEGERS = tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
# The name under which presets and transforms know the labels.
_LABEL = "label"
_TENSOR = 2  # FIELD_KIND_TENSOR of proto/dataset.proto
_LETTERS, _VERSION = b"MRARRAYS", 1
_ALIGNMENT = 64
# What the server takes (server/storage/memory/array_layout.cc, server/storage/sample_check.cc).
_MAX_ARRAYS = 1024
_MAX_SCHEMA_BYTES = 1 << 20
_MAX_SAMPLE_BYTES = 1 << 31
# Bytes that are copied at a time. Arrays that are not in memory as they are stored need so much again.
_PIECE_BYTES = 16 << 20
# Nobody changes the file any more.
_SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
# Of a label in errors and logs.
_MAX_LABEL = 200
# Tensors of every batch, which the servers make.
_TAKEN = ("source_index", "sample_index", "valid")


class Described(NamedTuple):
    """A field of the dataset."""

    name: str
    dtype: str
    shape: tuple[int, ...]  # rows first

    def __str__(self) -> str:
        return f"{self.name} {self.dtype} {list(self.shape)}"


class _Array(NamedTuple):
    """An array that has been checked."""

    field: Described
    row_bytes: int
    read: Callable[[int, int], Any]  # rows from .. to, as contiguous bytes
    classes: int
    class_names: tuple[str, ...]


class Arrays:
    """A dataset of arrays: NumPy arrays, torch tensors on the CPU, and everything that NumPy takes as
    an array or that has a buffer. Row i of all arrays is sample i. The arrays are copied when the object
    is made.

        data = millrace.Arrays({"image": images, "label": labels}, classes={"label": 10})
        loader = millrace.Loader(data, pipeline="cifar_train", batch_size=64)

    A loader also takes the dict alone. An `Arrays` is for class labels, and for several loaders over one
    copy.

    Args:
      arrays: {field: array}. The arrays have the same number of rows, at least one.
      classes: {field: number of classes, or their names} of labels, integers [rows], for MixUp and
        CutMix.

    Labels are int64 in the batches, whatever integers they are in the array: those of `classes`, and an
    array `label` of integers [rows].

    Raises:
      ArgumentError: no arrays, or elements of a type that batches do not support.
      InvalidArgumentError: different numbers of rows, no rows, reserved or empty names.
      ResourceExhaustedError: the system has no memory for the copy.
    """

    def __init__(self, arrays: Mapping[str, Any], *,
                 classes: Mapping[str, int | Sequence[str]] | None = None) -> None:
        self._check(arrays, classes)
        self._copy()

    def _check(self, arrays: Mapping[str, Any],
               classes: Mapping[str, int | Sequence[str]] | None) -> None:
        self._file = -1
        self._arrays: list[_Array] | None = _checked(arrays, classes or {})
        self._described = {array.field.name: array.field for array in self._arrays}
        label = ",".join(self._described)
        self._label = label if len(label) <= _MAX_LABEL else label[:_MAX_LABEL] + "..."

    def _copy(self) -> None:
        """Idempotent."""
        if self._arrays is None:
            return
        self._file = _written(self._arrays)
        weakref.finalize(self, os.close, self._file)
        self._arrays = None  # the program's own may go

    def _share(self, file: int) -> None:
        """Takes the file of another process, which the server has found to be equal. The copy that was made
        here is freed: processes with equal arrays keep one."""
        if os.fstat(file).st_size == os.fstat(self._file).st_size and \
                fcntl.fcntl(file, fcntl.F_GET_SEALS) & _SEALS == _SEALS:
            os.dup2(file, self._file, inheritable=False)

    @property
    def _uri(self) -> str:
        """The name of the dataset in errors and in the server's log."""
        return "memory:" + self._label

    def __repr__(self) -> str:
        return f"millrace.Arrays({', '.join(map(str, self._described.values()))})"

    def __copy__(self) -> Arrays:
        return self

    def __deepcopy__(self, memo: Any) -> Arrays:
        return self

    def __reduce__(self) -> Any:
        raise FailedPreconditionError(
            f"a loader of the arrays {self._label} cannot be pickled, because the arrays are in the memory of "
            "this process: pass the arrays to the other process, and make the loader there")


def later(arrays: Mapping[str, Any]) -> Arrays:
    """Checked, and not copied yet: for a loader whose other arguments are not checked yet."""
    made = Arrays.__new__(Arrays)
    made._check(arrays, None)
    return made


def looks_like_arrays(value: Any) -> bool:
    """Whether the value is an array, or a list of arrays, without names."""
    if isinstance(value, (list, tuple)):
        return bool(value) and all(looks_like_arrays(item) for item in value[:2])
    return hasattr(value, "__array__") or hasattr(value, "__array_interface__") or \
        (hasattr(value, "shape") and hasattr(value, "dtype"))


# ---- Checks ------------------------------------------------------------------------------------


def _checked(arrays: Any, classes: Any) -> list[_Array]:
    if not isinstance(arrays, Mapping):
        raise ArgumentError(f"arrays={reprlib.repr(arrays)}: expected a dict, "
                            "{\"image\": images, \"label\": labels}")
    if not isinstance(classes, Mapping):
        raise ArgumentError(f"classes={shown(classes)}: expected a dict, {{\"label\": 10}}")
    if not arrays:
        raise InvalidArgumentError("the dict of arrays is empty: pass an array for each field")
    if len(arrays) > _MAX_ARRAYS:
        raise InvalidArgumentError(f"the dict has {len(arrays):,} arrays, and the maximum is {_MAX_ARRAYS:,}: join "
                                   "arrays of one type")
    names = [_values.text("the name of an array", name) for name in arrays]
    for name in names:
        if not name or name in _TAKEN:
            raise InvalidArgumentError(
                f"the name {name!r} of an array is reserved for a tensor of every batch: use another name"
                if name else f"the name {name!r} of an array is empty: name the field")
    unknown = [name for name in classes if name not in names]
    if unknown:
        raise InvalidArgumentError(f"classes: unknown array {unknown[0]!r}; the arrays are " +
                                   ", ".join(names))
    found = [_array(name, arrays[name], classes.get(name)) for name in names]
    rows = {array.field.name: array.field.shape[0] for array in found}
    if len(set(rows.values())) > 1:
        raise InvalidArgumentError(
            "the arrays have different numbers of rows (" +
            ", ".join(f"{name}: {number}" for name, number in rows.items()) +
            "): row i of all arrays is sample i")
    if len(_schema(found)) > _MAX_SCHEMA_BYTES:
        raise InvalidArgumentError("the names of arrays and classes take more than "
                                   f"{_MAX_SCHEMA_BYTES >> 20} MiB: give the number of classes without names")
    return found


def _array(name: str, value: Any, classes: Any) -> _Array:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        dtype, shape, read = _of_torch(name, value)
    else:
        dtype, shape, read = _of_numpy(name, value) if _is_for_numpy(value) else \
            _of_buffer(name, value)
    number, class_names = _classes_of(name, classes)
    if number and (dtype not in _INTEGERS or len(shape) != 1):
        raise InvalidArgumentError(
            f"classes: array {name!r} is {dtype} {list(shape)}, and class labels must be integers [rows]")
    if (number or name == _LABEL) and dtype in _INTEGERS and dtype != "int64" and len(shape) == 1:
        read = functools.partial(_read_labels, name, dtype, read)
        dtype = "int64"
    if dtype not in _DTYPES:
        other = _WIDER.get(dtype)
        raise ArgumentError(
            f"array {name!r} has elements of the unsupported type {dtype}; supported types are " +
            ", ".join(_DTYPES) + (f": convert it to {other}" if other else _advice_on(dtype)))
    if not shape:
        raise InvalidArgumentError(f"array {name!r} has no dimensions, and the first dimension counts the "
                                   "samples: pass an array with a value for each sample")
    if 0 in shape:
        raise InvalidArgumentError(f"array {name!r} is empty: its shape is {list(shape)}")
    row_bytes = _DTYPES[dtype][1] * math.prod(shape[1:])
    if row_bytes > _MAX_SAMPLE_BYTES:
        raise InvalidArgumentError(
            f"a sample of array {name!r} has {row_bytes:,} bytes, and the maximum is 2 GiB: the shape "
            f"is {list(shape)}, and the first dimension counts the samples")
    return _Array(Described(name, dtype, shape), row_bytes, read, number, class_names)


def _read_labels(name: str, dtype: str, read: Callable[..., Any], begin: int, end: int) -> Any:
    """Rows of integers as int64."""
    labels = memoryview(read(begin, end, True)).cast("B").cast("q")
    if dtype == "uint64" and min(labels) < 0:
        row = begin + next(i for i, label in enumerate(labels) if label < 0)
        raise InvalidArgumentError(f"array {name!r} has label {labels[row - begin] + 2**64} in row {row}, and the "
                                   "maximum of a label (int64) is 2**63 - 1")
    return labels


def _advice_on(dtype: str) -> str:
    if dtype.startswith(("str", "bytes", "object")):
        return ": convert texts and objects to numbers, for example to class numbers of type int64"
    if dtype.startswith("void"):
        return ": pass each field of the structure as its own array"
    return ": convert it"


def _classes_of(name: str, given: Any) -> tuple[int, tuple[str, ...]]:
    if given is None:
        return 0, ()
    where = f"classes[{name!r}]"
    if isinstance(given, (list, tuple)):
        texts = tuple(_values.text(f"{where}[{i}]", text) for i, text in enumerate(given))
        if not texts:
            raise InvalidArgumentError(
                f"{where} is empty: give the names of the classes, or the number of classes")
        return len(texts), texts
    return _values.whole_number(where, given, 1, 2**31 - 1), ()


# ---- Kinds of arrays: (dtype, shape, read) -----------------------------------------------------

# read(begin, end): those rows as contiguous bytes. read(begin, end, True): integers as int64.
_Kind = tuple[str, tuple[int, ...], Callable[..., Any]]


def _of_torch(name: str, tensor: Any) -> _Kind:
    import ctypes
    import torch  # type: ignore[import-not-found,unused-ignore]
    if tensor.device.type != "cpu":
        raise ArgumentError(f"array {name!r} is on {tensor.device}, and the data server reads CPU "
                            f"memory: pass {name}.cpu()")
    if tensor.layout is not torch.strided or getattr(tensor, "is_nested", False):
        raise ArgumentError(f"array {name!r} has the unsupported layout {tensor.layout}: pass "
                            f"{name}.to_dense()")
    plain = tensor.detach()

    def read(begin: int, end: int, wide: bool = False) -> Any:
        # resolve_neg(): a tensor may stand for the negative of what its memory holds.
        piece = plain[begin:end].resolve_neg().contiguous()
        if wide:
            piece = piece.to(torch.int64)
        # Of the memory itself: torch without NumPy has no buffers, and NumPy has no bfloat16.
        data = (ctypes.c_ubyte * (piece.numel() * piece.element_size())).from_address(piece.data_ptr())
        data._keep = piece
        return data

    return str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape), read


def _is_for_numpy(value: Any) -> bool:
    return hasattr(value, "__array__") or hasattr(value, "__array_interface__") or \
        hasattr(value, "__array_struct__")


def _of_numpy(name: str, value: Any) -> _Kind:
    try:
        import numpy
    except ImportError as error:
        raise ArgumentError(
            f"array {name!r} is of type {type(value).__name__}, which needs NumPy, and NumPy cannot be "
            f"imported ({error}): install numpy") from error
    try:
        array = numpy.asarray(value)
    except Exception as error:
        raise ArgumentError(f"array {name!r} is of type {type(value).__name__}, which NumPy cannot convert "
                            f"to an array: {error}") from error
    if isinstance(value, numpy.ma.MaskedArray) and numpy.ma.is_masked(value):
        raise ArgumentError(f"array {name!r} has masked elements, and batches have no masks: pass "
                            f"{name}.filled(value), and the mask as its own array")

    def read(begin: int, end: int, wide: bool = False) -> Any:
        piece = array[begin:end]
        if wide:
            piece = piece.astype(numpy.int64)
        if piece.dtype.byteorder == ">":
            piece = piece.astype(piece.dtype.newbyteorder("<"))
        piece = numpy.ascontiguousarray(piece)  # the same memory, unless it is in another order
        return piece.reshape(-1).view(numpy.uint8)

    return array.dtype.name, array.shape, read


def _of_buffer(name: str, value: Any) -> _Kind:
    if isinstance(value, (bytes, bytearray)):
        raise ArgumentError(f"array {name!r} is of type {type(value).__name__}, which has no rows: "
                            "pass an array with a row for each sample")
    try:
        view = memoryview(value)
    except TypeError:
        raise ArgumentError(
            f"array {name!r} is of type {type(value).__name__} ({reprlib.repr(value)}): pass a NumPy "
            "array or a tensor") from None
    dtype = _FORMATS.get(view.format, f"{view.format!r} (of the module struct)")

    def read(begin: int, end: int, wide: bool = False) -> Any:
        piece = view[begin:end]
        if wide:  # modulo 2**64, as NumPy and torch do
            return b"".join(struct.pack("=Q", label % 2**64) for label in piece.tolist())
        return piece if piece.c_contiguous else piece.tobytes()

    return dtype, tuple(view.shape or ()), read


# ---- The file ----------------------------------------------------------------------------------


def _number(value: int) -> bytes:
    """A varint of protobuf."""
    digits = bytearray()
    while value > 127:
        digits.append(value & 127 | 128)
        value >>= 7
    digits.append(value)
    return bytes(digits)


def _sized(field: int, value: bytes) -> bytes:
    """A field of protobuf that has a length."""
    return _number(field << 3 | 2) + _number(len(value)) + value


def _schema(arrays: Iterable[_Array]) -> bytes:
    """Schema of proto/dataset.proto."""
    message = b""
    for array in arrays:
        field = _sized(1, array.field.name.encode())
        field += bytes([2 << 3, _TENSOR, 3 << 3, _DTYPES[array.field.dtype][0]])
        if len(array.field.shape) > 1:
            field += _sized(4, b"".join(_number(extent) for extent in array.field.shape[1:]))
        if array.classes:
            field += bytes([5 << 3]) + _number(array.classes)
        field += b"".join(_sized(6, text.encode()) for text in array.class_names)
        message += _sized(1, field)
    return message


def _written(arrays: list[_Array]) -> int:
    """The descriptor of the sealed file."""
    rows = arrays[0].field.shape[0]
    schema = _schema(arrays)
    head = _LETTERS + struct.pack("<IIQ", _VERSION, len(schema), rows) + schema
    places, end = [], len(head)
    for array in arrays:
        place = -(-end // _ALIGNMENT) * _ALIGNMENT
        places.append(place)
        end = place + rows * array.row_bytes
    free = _free_memory.estimate()
    if free is not None and end > free:  # the system would end this process, or another one
        raise ResourceExhaustedError(
            f"the copy of the arrays for the data server of this machine needs {_values.size(end)} of memory, "
            f"and about {_values.size(free)} is free: free memory, or write the data into files")
    file = -1
    try:
        file = os.memfd_create("millrace", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        # Also of the gaps, so that the file has no holes.
        os.posix_fallocate(file, 0, end)
        _write(file, head, 0)
        for array, place in zip(arrays, places):
            step = max(1, _PIECE_BYTES // array.row_bytes)
            for begin in range(0, rows, step):
                _write(file, array.read(begin, min(begin + step, rows)), place + begin * array.row_bytes)
        fcntl.fcntl(file, fcntl.F_ADD_SEALS, _SEALS)
        return file
    except OSError as error:
        if file >= 0:
            os.close(file)
        raise ResourceExhaustedError(
            f"cannot copy the arrays into {_values.size(end)} of memory for the data server of this machine: "
            f"{error.strerror}; free memory, or write the data into files") from error
    except BaseException:
        if file >= 0:
            os.close(file)
        raise


def _write(file: int, data: Any, place: int) -> None:
    left = memoryview(data).cast("B")
    while left:
        written = os.pwrite(file, left, place)
        left, place = left[written:], place + written
