"""Looks for broken dependency rules in the text of a source tree.

Each function takes the tree's root and returns sentences, one per mistake.
"""

import os
import re

from rules import FIELD_BLIND, FIELD_WORDS, GATES, HEADERS, INCLUDES

_SOURCE_ROOTS = ["client", "common", "docs", "proto", "server", "tests", "trainer"]
_INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
_LINE_COMMENT = re.compile(r"//[^\n]*")


def sources(root):
    """Paths (from `root`, sorted) of the C++ files of all rooms."""
    found = []
    for top in _SOURCE_ROOTS:
        for parent, folders, names in os.walk(os.path.join(root, top)):
            folders.sort()
            found += [os.path.relpath(os.path.join(parent, name), root)
                      for name in names if name.endswith((".h", ".cc"))]
    return sorted(found)


def _text(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        return file.read()


def _below(path, places):
    return any(path.startswith(p) if p.endswith("/") else path == p for p in places)


def include_mistakes(root):
    """Rooms that include a room which they must not know."""
    mistakes = []
    for path in sources(root):
        included = _INCLUDE.findall(_text(root, path))
        for room, forbidden, allowed in INCLUDES:
            if not path.startswith(room):
                continue
            mistakes += [f"{path} includes {header}: {room} must not know {bad}"
                         for header in included for bad in forbidden
                         if header.startswith(bad) and header not in allowed]
    return mistakes


def header_mistakes(root):
    """Headers of libraries outside the rooms that the library belongs to."""
    mistakes = []
    for path in sources(root):
        for header in _INCLUDE.findall(_text(root, path)):
            for what, pattern, places in HEADERS:
                if re.fullmatch(pattern, header) and not _below(path, places):
                    mistakes.append(f"{path} includes <{header}>: {what} belongs to "
                                    f"{', '.join(places)}")
    return mistakes


def gate_mistakes(root):
    """Gates of third_party/BUILD that let in more rooms than they should."""
    text = _text(root, "third_party/BUILD")
    mistakes = []
    for name, allowed in GATES.items():
        rule = re.search(r'^\w+\(\n\s*name = "%s",.*?^\)' % re.escape(name), text,
                         re.MULTILINE | re.DOTALL)
        if not rule:
            mistakes.append(f"third_party/BUILD has no gate '{name}' any more")
            continue
        visibility = re.search(r"visibility = \[(.*?)\]", rule.group(0), re.DOTALL)
        labels = re.findall(r'"([^"]+)"', visibility.group(1)) if visibility else []
        for label in labels:
            room = label.removeprefix("//").split(":")[0]
            whole = label.endswith(":__subpackages__")
            if label.startswith("//visibility:public") or not any(
                    room == a or room.startswith(a + "/") for a in allowed) or (
                        whole and room in ("client", "server", "")):
                mistakes.append(f"third_party/BUILD: gate '{name}' is open to {label}; "
                                f"it belongs to {', '.join(allowed)}")
    return mistakes


def field_word_mistakes(root):
    """Rooms that move any tensors and yet name the fields of image datasets."""
    mistakes = []
    for path in sources(root):
        if _below(path, FIELD_BLIND):
            text = _LINE_COMMENT.sub("", _text(root, path))
            mistakes += [f"{path} has the literal {word.group(0)}: only decode, the image "
                         "operators and the presets know what a field is called"
                         for word in FIELD_WORDS.finditer(text)]
    return mistakes


def all_mistakes(root):
    return (include_mistakes(root) + header_mistakes(root) + gate_mistakes(root) +
            field_word_mistakes(root))
