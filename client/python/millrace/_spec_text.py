"""A PipelineSpec as text, taken apart and put together again without protobuf. It reads what a server
has written out (`Loader.plan["pipeline"]`); texts of people are checked by the servers. Pure."""

from __future__ import annotations

import re
from typing import Iterable, Union

from millrace.errors import InternalError

_TOKEN = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[{}:]|[^\s{}:"]+)')


class Message(list[tuple[str, Union[str, "Message"]]]):
    """Fields in their order: numbers, names of enums and quoted strings as they are written, messages
    as Message."""

    def messages(self, name: str) -> Iterable[Message]:
        """The fields of that name that are messages."""
        return (value for field, value in self if field == name and isinstance(value, Message))

    def texts(self, name: str) -> list[str]:
        """The values of the fields of that name, strings without their quotes."""
        return [_unquoted(value) for field, value in self
                if field == name and not isinstance(value, Message)]

    def __str__(self) -> str:
        return " ".join(f"{field} {{ {value} }}" if isinstance(value, Message) else f"{field}: {value}"
                        for field, value in self)


def quoted(text: str) -> str:
    """As a string in the text of a spec."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def parse(text: str) -> Message:
    """
    Raises:
      InternalError: the text is not one that a server writes.
    """
    tokens: list[str] = _TOKEN.findall(text)[::-1]
    try:
        message = _message(tokens)
        if not tokens:
            return message
    except IndexError:
        pass
    raise InternalError(f"the pipeline of the plan cannot be read: {text}; please report it")


def _message(tokens: list[str]) -> Message:
    """Takes the fields of a message from the end of `tokens`."""
    message = Message()
    while tokens and tokens[-1] != "}":
        name = tokens.pop()
        separator = tokens.pop()
        if separator == "{":
            message.append((name, _message(tokens)))
            tokens.pop()  # the closing brace
        elif separator == ":":
            message.append((name, tokens.pop()))
        else:
            raise IndexError
    return message


def _unquoted(value: str) -> str:
    if not value.startswith('"'):
        return value
    # Bytes of UTF-8, with C's escapes: \303\244.
    raw = value[1:-1].encode("utf-8").decode("unicode_escape").encode("latin-1")
    return raw.decode("utf-8", "replace")
