"""Looks for broken dependency rules in the text of a source tree.

Each function takes the tree's root and returns sentences, one per mistake.
"""

import os
import re

from rules import FIELD_BLIND, FIELD_WORDS, GATES, HEADERS, INCLUDES, NAMESPACES

_SOURCE_ROOTS = ["client", "common", "docs", "proto", "server", "tests", "trainer"]
_INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
_NAMESPACE = re.compile(r"^namespace (\w+(?:::\w+)*) \{", re.MULTILINE)
_LINE_COMMENT = re.compile(r"//[^\n]*")
# Comments, literals and preprocessor lines are matched so that nothing inside
# them counts.
_TOKEN = re.compile(
    r'''(?P<skip>//[^\n]*|/\*.*?\*/|^[ \t]*\#(?:\\\n|[^\n])*
        |R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])')
       |[A-Za-z_]\w*|::|[{};<>:()\[\]]''', re.DOTALL | re.MULTILINE | re.VERBOSE)


def sources(root):
    """Paths (from `root`, sorted) of the C++ files of all rooms."""
    found = []
    for top in _SOURCE_ROOTS:
        for parent, folders, names in os.walk(os.path.join(root, top)):
            folders.sort()
            found += [os.path.relpath(os.path.join(parent, name), root)
                      for name in names if name.endswith((".h", ".hpp", ".cc"))]
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


def _without_template(head):
    """`template <...>` cut off the tokens of a declaration."""
    depth = 0
    for i, token in enumerate(head):
        depth += (token == "<") - (token == ">")
        if token == ">" and depth == 0:
            return head[i + 1:]
    return []


def _type_name(head):
    """The type that a declaration defines whose tokens up to its brace are `head`."""
    if head[:1] == ["template"]:
        head = _without_template(head)
    if not head or head[0] not in ("class", "struct", "union", "enum"):
        return None
    head = head[2:] if head[1:2] in (["class"], ["struct"]) else head[1:]
    while head[:1] == ["["]:  # attributes
        head = head[head.index("]") + 1:]
        head = head[1:] if head[:1] == ["]"] else head
    if head[:1] == ["alignas"]:
        head = head[1:]
    # Not a specialisation (a <), not a member of another type (a ::).
    named = head and head[0].isidentifier() and head[1:2] in ([], [":"], ["final"])
    return head[0] if named else None


def _function_name(head):
    """The weak function that a declaration defines whose tokens up to its brace are `head`: an
    inline function, a template."""
    weak = "inline" in head or "constexpr" in head or head[:1] == ["template"]
    if head[:1] == ["template"]:
        head = _without_template(head)
    if not weak or "(" not in head or "static" in head:
        return None
    before = head[:head.index("(")]
    # Not a member that is defined outside its type (a ::), not an operator.
    named = before and before[-1].isidentifier() and before[-2:-1] != ["::"]
    return before[-1] if named and "operator" not in before else None


def types(text):
    """[(name with its namespaces, line)] of the types that a C++ file defines where
    other files can see them: in namespaces, not in anonymous ones nor in other types."""
    return _definitions(text, lambda head: _type_name([t for t in head if t not in "()"]))


def weak_functions(text):
    """The same of the inline functions and of the templates of functions."""
    return _definitions(text, _function_name)


def _definitions(text, name_of):
    tokens = [(m.group(0), m.start()) for m in _TOKEN.finditer(text) if not m.group("skip")]
    found, open_braces, start = [], [], 0
    for i, (token, place) in enumerate(tokens):
        if token == "{":
            head = [t for t, _ in tokens[start:i]]
            if "namespace" in head[:2]:
                names = [t for t in head[head.index("namespace") + 1:] if t.isidentifier()]
                open_braces.append(names)
            else:
                name = name_of(head)
                if name and all(open_braces):  # [] is anonymous, None no namespace
                    spaces = [part for names in open_braces for part in names]
                    found.append(("::".join(spaces + [name]), text.count("\n", 0, place) + 1))
                open_braces.append(None)
        elif token == "}" and open_braces:
            open_braces.pop()
        if token in "{};":
            start = i + 1
    return found


def type_mistakes(root):
    """Types of one name that two files define. In one namespace, the linker takes one
    definition of each of their functions, for both, without a word; in two, a reader takes
    one for the other. Tests may use a name of the programs again in another namespace."""
    places = {}
    for path in sources(root):
        for name, line in types(_text(root, path)):
            key = name if path.startswith("tests/") else name.split("::")[-1]
            places.setdefault(key, []).append(f"{path}:{line}")
    return [f"{name} is defined at {' and at '.join(at)}: rename one, or put it into an "
            "anonymous namespace" for name, at in sorted(places.items()) if len(at) > 1]


def function_mistakes(root):
    """Inline functions and templates of one name and one namespace that two files define. The
    linker takes one definition for both, without a word, if the parameters are the same."""
    places = {}
    for path in sources(root):
        for name, line in weak_functions(_text(root, path)):
            places.setdefault(name, {}).setdefault(path, f"{path}:{line}")
    return [f"{name} is defined at {' and at '.join(at.values())}: rename one, or put it into an "
            "anonymous namespace" for name, at in sorted(places.items())
            if len(at) > 1]


def namespace_mistakes(root):
    """Files whose outermost namespace is not that of their component. A declaration of
    something in another component's namespace may come before it."""
    mistakes = []
    for path in sources(root):
        component = path.removeprefix("tests/")
        fits = [place for place in NAMESPACES if component.startswith(place)]
        if not fits:
            continue
        name = NAMESPACES[max(fits, key=len)]
        wanted = {"millrace::" + name if name else "millrace"}
        if path.startswith("tests/"):
            wanted.add("millrace::testing")
        opened = _NAMESPACE.findall(_text(root, path))
        ours = [n for n in opened if n == "millrace" or n.startswith("millrace::")]
        if ours and not any(
                n == w or (w != "millrace" and n.startswith(w + "::")) or n == "millrace::internal"
                for n in ours[-1:] for w in wanted):
            mistakes.append(f"{path} is in namespace {ours[-1]}: it belongs into "
                            f"{' or '.join(sorted(wanted))}")
    return mistakes


def all_mistakes(root):
    return (include_mistakes(root) + header_mistakes(root) + gate_mistakes(root) +
            field_word_mistakes(root) + type_mistakes(root) + function_mistakes(root) +
            namespace_mistakes(root))
