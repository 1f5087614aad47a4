"""Checks of single values that a program gives. Pure. Each raises ArgumentError for a wrong type and
InvalidArgumentError for a value out of range, and names the argument."""

from __future__ import annotations

import difflib
import functools
import numbers
import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any, ParamSpec, TypeVar

from millrace.errors import ArgumentError, InvalidArgumentError

P = ParamSpec("P")
R = TypeVar("R")

_MAX_UINT64 = 2**64 - 1
# An epoch of the program has a next one, so that a loop can end.
MAX_EPOCH = _MAX_UINT64 - 1
# Of a time: the C interface takes nanoseconds, and at most a year.
_MIN_SECONDS, _MAX_SECONDS = 1e-9, 365 * 24 * 3600


class _Short(reprlib.Repr):
    """Of arrays their type and shape, of everything else the beginning and the end."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxdict, self.maxlist, self.maxtuple = 3, 4, 4, 4
        self.maxstring, self.maxlong, self.maxother = 200, 80, 120

    def repr1(self, x: Any, level: int) -> str:
        if not isinstance(x, type) and hasattr(x, "dtype") and getattr(x, "shape", None):
            return f"<{type(x).__name__} {x.dtype} {list(x.shape)}>"
        return super().repr1(x, level)


_short = _Short()


def shown(value: Any) -> str:
    """A value that a program gave, for an error: on one line, and short however large the value is."""
    return " ".join(_short.repr(value).split())


def size(count: int) -> str:
    """A number of bytes for an error: "2.9 MiB"."""
    value, units = float(count), ["B", "KiB", "MiB", "GiB", "TiB"]
    while value >= 1023.5 and len(units) > 1:
        value /= 1024
        del units[0]
    return f"{value:.{0 if value >= 100 else 1}f}".removesuffix(".0") + " " + units[0]


def bytes_of(dtype: str) -> int:
    """Of an element: 4 of "float32"."""
    return int("".join(filter(str.isdigit, dtype)) or 8) // 8  # bool


def whole_number(name: str, value: Any, minimum: int, maximum: int = _MAX_UINT64) -> int:
    """The value as int, from `minimum` to `maximum`. Integers of NumPy are accepted, bool is not."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise ArgumentError(f"{name}={shown(value)}: expected a whole number from {minimum} to {maximum}")
    try:
        number = int(value.__index__())
    except TypeError:  # an array of several numbers
        raise ArgumentError(
            f"{name}={shown(value)}: expected a whole number from {minimum} to {maximum}") from None
    if not minimum <= number <= maximum:
        raise InvalidArgumentError(
            f"{name}={shown(value)}: expected a whole number from {minimum} to {maximum}")
    return number


def optional_whole_number(name: str, value: Any, minimum: int,
                          maximum: int = _MAX_UINT64) -> int | None:
    """As whole_number(); None stays None."""
    return None if value is None else whole_number(name, value, minimum, maximum)


def epoch(value: Any) -> int:
    """An epoch that has a next one."""
    return whole_number("epoch", value, 0, MAX_EPOCH)


def flag(name: str, value: Any) -> bool:
    """True or False, and nothing that Python would convert to one of them: "False" is true."""
    if not isinstance(value, bool):
        raise ArgumentError(f"{name}={shown(value)}: expected True or False")
    return value


def optional_flag(name: str, value: Any) -> bool | None:
    """As flag(); None stays None."""
    if value is not None and not isinstance(value, bool):
        raise ArgumentError(f"{name}={shown(value)}: expected True, False or None")
    return value


def optional_number(name: str, value: Any) -> float | None:
    """A real number; None stays None."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise ArgumentError(f"{name}={shown(value)}: expected a number")
    return float(value)


def unknown_argument(callee: str, name: str, near: Sequence[str]) -> ArgumentError:
    """Of an argument that `millrace.<callee>` does not have. `near`: arguments that may be meant."""
    return ArgumentError(f"{callee} has no argument {name}=" +
                         (f"; did you mean {near[0]}=?" if near else
                          f"; help(millrace.{callee}) lists the arguments"))


def named_arguments(callee: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorates the method `millrace.<callee>`, which has no **arguments: a name that it does not have raises
    ArgumentError with the nearest name, where Python raises a TypeError without one."""
    def decorated(method: Callable[P, R]) -> Callable[P, R]:
        code = method.__code__
        known = code.co_varnames[1:code.co_argcount + code.co_kwonlyargcount]  # without self

        @functools.wraps(method)
        def checked(*arguments: P.args, **named: P.kwargs) -> R:
            for name in named:
                if name not in known:
                    raise unknown_argument(callee, name, difflib.get_close_matches(name, known, 1))
            return method(*arguments, **named)

        return checked

    return decorated


def optional_seconds(name: str, value: Any, may_be_zero: bool = False) -> float | None:
    """A time in seconds, at most a year; None stays None."""
    seconds = optional_number(name, value)
    if seconds is not None and not (_MIN_SECONDS <= seconds <= _MAX_SECONDS or may_be_zero and seconds == 0):
        raise InvalidArgumentError(
            f"{name}={shown(value)}: expected seconds, a number {'from' if may_be_zero else 'above'} 0, at most "
            f"{_MAX_SECONDS} (a year)")
    return seconds


def optional_share(name: str, value: Any) -> float | None:
    """A number from 0 to 1; None stays None."""
    share = optional_number(name, value)
    if share is not None and not 0 <= share <= 1:  # nor NaN
        raise InvalidArgumentError(f"{name}={shown(value)}: expected a number from 0 to 1")
    return share


def text(name: str, value: Any) -> str:
    """A str that the C interface can take: without a NUL, and UTF-8."""
    if not isinstance(value, str):
        raise ArgumentError(f"{name}={shown(value)}: expected a str")
    if "\0" in value:
        raise InvalidArgumentError(f"{name}={shown(value)}: the text contains a NUL character")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidArgumentError(
            f"{name}={shown(value)}: the text contains a lone surrogate and cannot be UTF-8") from None
    return value


def optional_text(name: str, value: Any) -> str | None:
    """As text(); None stays None."""
    return None if value is None else text(name, value)


def texts(name: str, values: Any, expected: str) -> tuple[str, ...]:
    """The items of anything that has an order, each as text(). `expected`: what errors ask for."""
    # Sets have an order that changes from process to process; a dict's values would be lost.
    if isinstance(values, (Set, Mapping, bytes, bytearray)) or not isinstance(values, Iterable):
        raise ArgumentError(f"{name}={shown(values)}: expected {expected}")
    return tuple(text(f"{name}[{i}]", value) for i, value in enumerate(values))
