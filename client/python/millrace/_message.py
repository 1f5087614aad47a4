"""Messages of the pipeline spec (proto/pipeline.proto) as values of Python, and their protobuf text.
Pure. Types are checked here; ranges are checked by the servers, which know them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from millrace import _values
from millrace._values import shown
from millrace.errors import ArgumentError

_MAX_UINT32 = 2**32 - 1
# Beside the characters that are written as they are.
_ESCAPES = {ord("\\"): "\\\\", ord("\""): "\\\"", ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t"}


class Word(str):
    """The name of an enum's value: text without quotes."""


class Message:
    """A message: an immutable value. Equal messages have the same type and the same text."""

    def __init_subclass__(cls) -> None:
        # A class of the program has arguments of its own.
        if cls.__module__ in ("millrace.pipeline", "millrace.transforms") and "__init__" in vars(cls):
            module = "transforms." if cls.__module__ == "millrace.transforms" else ""
            cls.__init__ = _values.named_arguments(module + cls.__name__)(  # type: ignore[method-assign]
                cls.__init__)

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = {name: value for name, value in values.items() if value is not None}

    @property
    def values(self) -> dict[str, Any]:
        """{field of the spec: value}; what was left to the servers is not in it."""
        return dict(self._values)

    @property
    def text(self) -> str:
        """The message as protobuf text, on one line, without its name."""
        return " ".join(write(self._values))

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and isinstance(other, Message) and other.text == self.text

    def __hash__(self) -> int:
        return hash((type(self), self.text))

    def __repr__(self) -> str:
        return f"<millrace {type(self).__name__}: {self.text}>"


M = TypeVar("M", bound=Message)


def write(values: Mapping[str, Any]) -> list[str]:
    """Each field as protobuf text, in order."""
    fields: list[str] = []
    for name, value in values.items():
        if isinstance(value, Message):
            fields.append(f"{name} {{ {value.text} }}".replace("{  }", "{}"))
        elif isinstance(value, (list, tuple)):
            if value and all(isinstance(item, Message) for item in value):
                fields += [line for item in value for line in write({name: item})]
            else:
                fields.append(f"{name}: [" + ", ".join(_scalar(item) for item in value) + "]")
        else:
            fields.append(f"{name}: {_scalar(value)}")
    return fields


def _scalar(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Word):
        return str(value)
    if isinstance(value, str):
        return "\"" + value.translate(_ESCAPES) + "\""
    if isinstance(value, bytes):
        return "\"" + "".join(f"\\{byte:03o}" for byte in value) + "\""
    return repr(value)  # int, float: the shortest text that is the same number


# ---- Values of fields. None stays None: the servers' default. ---------------------------------------


def count(name: str, value: Any) -> int | None:
    """uint32."""
    return _values.optional_whole_number(name, value, 0, _MAX_UINT32)


def big_count(name: str, value: Any) -> int | None:
    """uint64."""
    return _values.optional_whole_number(name, value, 0)


def number(name: str, value: Any) -> float | None:
    """double."""
    return _values.optional_number(name, value)


def flag(name: str, value: Any) -> bool | None:
    """bool."""
    return _values.optional_flag(name, value)


def text(name: str, value: Any) -> str | None:
    """string."""
    return _values.optional_text(name, value)


def word(name: str, value: Any, prefix: str = "") -> Word | None:
    """The value of an enum, "bilinear" as INTERPOLATION_BILINEAR."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise ArgumentError(f"{name}={shown(value)}: expected the name of a value as a str, for example "
                            "interpolation=\"nearest\" or dtype=\"float32\"")
    written = _values.text(name, value)
    if not (written.isascii() and written.replace("_", "").isalnum() and not written[0].isdigit()):
        raise ArgumentError(f"{name}={shown(value)}: expected the name of a value, for example "
                            "interpolation=\"nearest\" or dtype=\"float32\"")
    return Word(prefix + written.upper())


def sequence(name: str, value: Any, expected: str) -> tuple[Any, ...]:
    """The items of anything that has an order; no text and no dict. Arrays and tensors have numbers."""
    if getattr(value, "ndim", None) == 1 and hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable) or \
            isinstance(value, (set, frozenset)):
        raise ArgumentError(f"{name}={shown(value)}: expected {expected}")
    return tuple(value)


def one_or_several(value: Any) -> bool:
    """Whether the value is several values, and not one: a sequence, or an array or tensor of one
    dimension."""
    return getattr(value, "ndim", None) == 1 or \
        isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def counts(name: str, value: Any, minimum: int = 0, maximum: int = _MAX_UINT32) -> list[int] | None:
    """Repeated uint32: one value or several."""
    if value is None:
        return None
    items = sequence(name, value, "whole numbers") if one_or_several(value) else (value,)
    return [_values.whole_number(f"{name}[{i}]" if len(items) > 1 else name, item, minimum, maximum)
            for i, item in enumerate(items)]


def numbers(name: str, value: Any) -> list[float] | None:
    """Repeated float: one value or several."""
    if value is None:
        return None
    items = sequence(name, value, "numbers") if one_or_several(value) else (value,)
    return [_number(f"{name}[{i}]" if len(items) > 1 else name, item)
            for i, item in enumerate(items)]


def _number(name: str, value: Any) -> float:
    result = number(name, value)
    if result is None:
        raise ArgumentError(f"{name}=None: expected a number")
    return result


def names(name: str, value: Any) -> list[str] | None:
    """Repeated string: one name or several."""
    if value is None:
        return None
    items = (value,) if isinstance(value, str) else sequence(name, value, "a name, or a list of names")
    if not items:  # an empty list in the spec is the default
        raise ArgumentError(f"{name}={shown(value)}: expected at least one name; leave {name}= out for the "
                            "default")
    return [_values.text(f"{name}[{i}]", item) for i, item in enumerate(items)]


def pair(name: str, value: Any) -> tuple[float, float] | None:
    """Two numbers: a range, or x and y."""
    if value is None:
        return None
    items = sequence(name, value, "a pair of numbers")
    if len(items) != 2:
        raise ArgumentError(f"{name}={shown(value)}: expected a pair of numbers")
    return _number(f"{name}[0]", items[0]), _number(f"{name}[1]", items[1])


def bounds(name: str, value: Any, field: str = "") -> dict[str, float]:
    """The fields NAME_min and NAME_max of a range. None: neither."""
    found = pair(name, value)
    if found is None:
        return {}
    field = field or name
    return {f"{field}_min": found[0], f"{field}_max": found[1]}


def messages(name: str, value: Any, kind: type[M]) -> list[M]:
    """Repeated message: one or several. None: none."""
    if value is None:
        return []
    items = (value,) if isinstance(value, kind) else \
        sequence(name, value, f"millrace {kind.__name__}, or a list of them")
    for i, item in enumerate(items):
        if not isinstance(item, kind):
            raise ArgumentError(f"{name}[{i}]={shown(item)}: expected a millrace {kind.__name__}")
    return list(items)


def optional(name: str, value: Any, kind: type[M]) -> M | None:
    """One message, or None."""
    if value is not None and not isinstance(value, kind):
        raise ArgumentError(f"{name}={shown(value)}: expected a millrace {kind.__name__}")
    return value
