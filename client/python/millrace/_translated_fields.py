"""The fields of a dataset that a translation is for: the images, and the masks and boxes that move with
them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from millrace import _message, _values
from millrace import transforms as T
from millrace._values import shown
from millrace.errors import ArgumentError

Decode = bool | T.DecodeImage | Sequence[T.DecodeImage]


class Stored(NamedTuple):
    """Images that are pixels already, as a loader of arrays knows them."""

    dtype: str
    channels: int


class TranslatedFields:
    """The arguments of a translation, checked.

    Attributes:
      image: the field of the images.
      stored: what the images are, where they are not decoded; None: not known.
      masks: the fields of their masks.
      boxes: the fields of their boxes.
      decoders: {field: how it is decoded}, in the order of the fields.
      colored: `fields=` of transforms that change values; None: the servers' default.
      moved: the same of transforms that move pixels.
    """

    def __init__(self, image: str, masks: str | Sequence[str] | None,
                 boxes: str | Sequence[str] | None, decode: Decode,
                 stored: Stored | None = None) -> None:
        self.stored = stored
        self.image = _values.text("field", image)
        self.masks = tuple(_message.names("masks", masks) or ())
        self.boxes = tuple(_message.names("boxes", boxes) or ())
        named = [image, *self.masks, *self.boxes]
        for i, name in enumerate(named):
            if not name or name in named[:i]:
                raise ArgumentError(f"field=, masks= and boxes= name the field {name!r}"
                                    f"{' twice' if name else ', which no dataset has'}")
        self.colored = None if image == "image" else image
        self.moved = named if len(named) > 1 else self.colored
        self.decoders = self._decoders(decode)

    def _decoders(self, decode: Decode) -> dict[str, T.DecodeImage]:
        encoded = (self.image, *self.masks)
        if decode is False:
            return {}
        # Without a name where that is the servers' default.
        found = {name: T.DecodeImage("index" if name in self.masks else None,
                                     field=None if name == "image" else name) for name in encoded}
        if decode is True:
            return found
        if isinstance(decode, T.DecodeImage):
            found.update(_by_field([decode], encoded[:1]))
            return found
        if isinstance(decode, (list, tuple)) and all(isinstance(one, T.DecodeImage) for one in decode):
            return _by_field(decode, encoded)
        raise ArgumentError(f"decode={shown(decode)}: expected True, False, a "
                            "millrace.transforms.DecodeImage or a list of them")

    @property
    def channels(self) -> int | None:
        """Of the images; None: the dataset says it."""
        decoder = self.decoders.get(self.image)
        if decoder is None:
            return None if self.stored is None else self.stored.channels
        return 3 if decoder.values.get("color", "RGB") == "RGB" else 1

    def decode_gray(self) -> None:
        """The images have one channel."""
        values = self.decoders[self.image].values
        self.decoders[self.image] = T.DecodeImage(**{
            **{name: value.lower() if name == "mode" else value for name, value in values.items()},
            "color": "gray"})


def _by_field(decoders: Sequence[T.DecodeImage], allowed: Sequence[str]) -> dict[str, T.DecodeImage]:
    found: dict[str, T.DecodeImage] = {}
    for one in decoders:
        name = one.values.get("field", "image")
        if name not in allowed or name in found:
            raise ArgumentError(
                f"decode= decodes field {name!r}{' twice' if name in found else ''}, and the translation is "
                f"for {', '.join(map(repr, allowed))}: name the field in both, "
                f"DecodeImage(field={allowed[0]!r})")
        found[name] = one
    return found
