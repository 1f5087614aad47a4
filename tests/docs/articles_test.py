"""docs/articles.md shows what docs/articles.json holds."""

import os
import re
import unittest

import articles_page
import experiments


def _docs():
    here = os.path.join(os.environ["TEST_SRCDIR"], os.environ["TEST_WORKSPACE"])
    return os.path.join(os.path.dirname(os.path.realpath(os.path.join(here, "WORKSPACE"))), "docs")


class Page(unittest.TestCase):

    def test_the_page_shows_the_results(self):
        results = articles_page.load(os.path.join(_docs(), "articles.json"))
        with open(os.path.join(_docs(), "articles.md"), encoding="utf-8") as file:
            page = file.read()
        for number in experiments.every():
            begin, end = articles_page.marks(number)
            found = re.search(f"{re.escape(begin)}\n\n(.*?)\n\n{re.escape(end)}", page, re.DOTALL)
            self.assertIsNotNone(found, begin)
            picture = os.path.join(_docs(), "pictures", f"articles_{number}.png")
            self.assertEqual(
                found.group(1), articles_page.shown(number, results, os.path.exists(picture)),
                "docs/articles.md: run tools/articles_run/articles_page.py with --update")

    def test_a_quick_run_is_not_published(self):
        results = articles_page.load(os.path.join(_docs(), "articles.json"))
        for number, found in results["experiments"].items():
            self.assertFalse(found["quick"], number)


if __name__ == "__main__":
    unittest.main()
