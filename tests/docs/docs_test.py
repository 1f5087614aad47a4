"""The documents agree with the tree: links lead somewhere, the README's program
is the one that is compiled."""

import os
import re
import unittest


def _root():
    here = os.path.join(os.environ["TEST_SRCDIR"], os.environ["TEST_WORKSPACE"])
    return os.path.dirname(os.path.realpath(os.path.join(here, "WORKSPACE")))


def _documents():
    found = []
    for parent, folders, names in os.walk(_root()):
        folders[:] = [f for f in folders if not f.startswith((".", "bazel-")) and f != "bin"]
        found += [os.path.join(parent, n) for n in names if n.endswith(".md")]
    return found


def _read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def _anchor(heading):
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


class Documents(unittest.TestCase):

    def test_the_expected_documents_are_there(self):
        names = {os.path.relpath(d, _root()) for d in _documents()}
        for name in ("README.md", "CHANGELOG.md", "docs/design.md", "docs/formats.md",
                     "docs/protocol.md", "docs/operations.md", "docs/licenses.md",
                     "docs/articles.md", "docs/performance.md", "docs/scaling.md", "docs/transforms.md",
                     "docs/order.md", "docs/images.md", "docs/extending.md",
                     "docs/training.md",
                     "docs/client.md", "docs/package.md", "docs/python.md",
                     "deploy/README.md"):
            self.assertIn(name, names)

    def test_local_links_lead_somewhere(self):
        links = 0
        for document in _documents():
            for target in re.findall(r"\]\(([^)\s]+)\)", _read(document)):
                if re.match(r"[a-z]+:", target):
                    continue
                path, _, anchor = target.partition("#")
                full = os.path.join(os.path.dirname(document), path) if path else document
                where = f"{os.path.relpath(document, _root())} -> {target}"
                self.assertTrue(os.path.exists(full), where)
                links += 1
                if anchor:
                    headings = re.findall(r"^#+ (.+)$", _read(full), re.MULTILINE)
                    self.assertIn(anchor, [_anchor(h) for h in headings], where)
        self.assertGreater(links, 20)

    def test_the_program_in_the_documents_is_the_compiled_one(self):
        program = _read(os.path.join(_root(), "docs/example/train_loop.cc"))
        for document in ("README.md", "docs/client.md"):
            blocks = re.findall(r"^```c\+\+\n(.*?)^```$", _read(os.path.join(_root(), document)),
                                re.MULTILINE | re.DOTALL)
            self.assertEqual(blocks, [program], document)

    def test_the_python_program_in_the_documents_is_the_one_that_is_run(self):
        folder, program = (_read(os.path.join(_root(), f"docs/example/python/{name}_loop.py"))
                           for name in ("folder", "train"))
        for document, programs in (("README.md", [folder, program]), ("docs/python.md", [program])):
            blocks = re.findall(r"^```python\n(.*?)^```$", _read(os.path.join(_root(), document)),
                                re.MULTILINE | re.DOTALL)
            self.assertEqual(blocks, programs, document)


if __name__ == "__main__":
    unittest.main()
