"""The part of docs/performance.md that tools/bench-peers writes is of one run, and whole."""

import json
import os
import re
import unittest

import report


def _docs():
    here = os.path.join(os.environ["TEST_SRCDIR"], os.environ["TEST_WORKSPACE"])
    return os.path.join(os.path.dirname(os.path.realpath(os.path.join(here, "WORKSPACE"))), "docs")


class Page(unittest.TestCase):

    def setUp(self):
        with open(os.path.join(_docs(), report.RESULTS), encoding="utf-8") as file:
            self.found = json.load(file)
        with open(os.path.join(_docs(), "performance.md"), encoding="utf-8") as file:
            self.page = report.between(file.read())
        self.assertIsNotNone(self.page, "the page lacks its two lines")

    def test_the_page_shows_the_results(self):
        picture = os.path.exists(os.path.join(_docs(), report.PICTURE))
        self.assertEqual(self.page[1], report.shown(self.found, picture),
                         "docs/performance.md: run tools/bench_peers/report.py with --update")

    def test_one_commit_is_named(self):
        self.assertEqual(set(re.findall(r"\bcommit (\w+)", self.page[1])), {self.found["commit"]})
        self.assertRegex(self.found["commit"], r"^[0-9a-f]{7,40}$", "uncommitted changes ran, too")

    def test_the_run_was_whole(self):
        self.assertGreaterEqual(self.found["rounds"], 5)
        self.assertGreaterEqual(len(self.found["rows"]), 20)
        for key, row in self.found["rows"].items():
            self.assertTrue(row["error"] or len(row["values"]) == self.found["rounds"], key)


if __name__ == "__main__":
    unittest.main()
