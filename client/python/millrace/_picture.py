"""Pictures of eight bits and three colours in Python alone: scaled, laid out, and written as PNG.
Pure."""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple, Sequence


# Of the classes of a mask, from class 1, in turn: as server/data_tool/preview_batch.cc.
_CLASS_COLORS = (
    (230, 25, 75), (60, 180, 75), (255, 225, 25), (0, 130, 200), (245, 130, 48), (145, 30, 180), (70, 240, 240),
    (240, 50, 230), (210, 245, 60), (0, 128, 128), (170, 110, 40), (128, 0, 0), (0, 0, 128), (128, 128, 0),
    (255, 255, 255))


class Picture(NamedTuple):
    width: int
    height: int
    rgb: bytes  # [height, width, 3]

    def row(self, y: int) -> bytes:
        return self.rgb[3 * self.width * y:3 * self.width * (y + 1)]


def of_planes(width: int, height: int, planes: Sequence[bytes]) -> Picture:
    """Of channels [height, width]: the first three are red, green and blue, fewer are grey."""
    rgb = bytearray(3 * width * height)
    for color in range(3):
        rgb[color::3] = planes[color if len(planes) >= 3 else 0]
    return Picture(width, height, bytes(rgb))


def fitted(picture: Picture, side: int) -> Picture:
    """Shrunk to a side of at most `side`, or enlarged by a whole number, so that pixels stay sharp.
    Takes the nearest pixel."""
    longest = max(picture.width, picture.height)
    if longest == 0 or longest <= side < 2 * longest:
        return picture
    times = side // longest or side / longest
    width = max(1, round(picture.width * times))
    height = max(1, round(picture.height * times))
    columns = [3 * (x * picture.width // width) for x in range(width)]
    rows: dict[int, bytes] = {}
    result = []
    for y in range(height):
        of = y * picture.height // height
        if of not in rows:
            row = picture.row(of)
            rows[of] = b"".join([row[x:x + 3] for x in columns])
        result.append(rows[of])
    return Picture(width, height, b"".join(result))


def coloured(classes: Picture, below: Picture | None = None) -> Picture:
    """A mask, whose grey levels are classes, in a colour for each class: half of the colour over a picture of its
    size; class 0 shows the picture alone. Without a picture, on black. Class 255, which loss functions usually
    ignore, is grey."""
    index = classes.rgb[::3]
    planes = []
    for color in range(3):
        plane = index.translate(bytes([0, *(_CLASS_COLORS[number % len(_CLASS_COLORS)][color]
                                            for number in range(254)), 128]))
        if below is not None:
            plane = bytes([(level + under) // 2 if number else under for number, level, under in
                           zip(index, plane, below.rgb[color::3])])
        planes.append(plane)
    return of_planes(classes.width, classes.height, planes)


def inside_border(picture: Picture, inner: int) -> tuple[int, int, int, int]:
    """Left, top, right and bottom of the part that black rows and columns at the edges leave. The middle square of
    side `inner` stays."""
    def is_black_row(y: int) -> bool:
        return not any(picture.row(y))

    def is_black_column(x: int) -> bool:
        return not any(any(picture.rgb[3 * x + color::3 * picture.width]) for color in range(3))

    left, top = (picture.width - inner) // 2, (picture.height - inner) // 2
    right, bottom = left + inner, top + inner
    x0 = next((x for x in range(left) if not is_black_column(x)), left)
    x1 = next((x + 1 for x in reversed(range(right, picture.width)) if not is_black_column(x)), right)
    y0 = next((y for y in range(top) if not is_black_row(y)), top)
    y1 = next((y + 1 for y in reversed(range(bottom, picture.height)) if not is_black_row(y)), bottom)
    return x0, y0, x1, y1


def cut(picture: Picture, part: tuple[int, int, int, int]) -> Picture:
    """The part from left and top to right and bottom."""
    x0, y0, x1, y1 = part
    return Picture(x1 - x0, y1 - y0,
                   b"".join(picture.row(y)[3 * x0:3 * x1] for y in range(y0, y1)))


def sheet(rows: Sequence[Sequence[tuple[int, Picture]]], row_height: int, width: int) -> Picture:
    """Rows of pictures on white, each with its left edge in pixels."""
    lines = []
    for pictures in rows:
        for y in range(row_height):
            line = bytearray(b"\xff" * 3 * width)
            for left, picture in pictures:
                if y < picture.height:
                    line[3 * left:3 * (left + picture.width)] = picture.row(y)
            lines.append(bytes(line))
    return Picture(width, len(lines), b"".join(lines))


def png(picture: Picture) -> bytes:
    """The file (https://www.w3.org/TR/png-3/): true colour of eight bits, no filter."""
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    # A picture of PNG has at least one pixel.
    if not picture.width or not picture.height:
        picture = Picture(1, 1, b"\xff\xff\xff")
    lines = b"".join(b"\0" + picture.row(y) for y in range(picture.height))
    return (b"\x89PNG\r\n\x1a\n" +
            chunk(b"IHDR", struct.pack(">IIBBBBB", picture.width, picture.height, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b""))
