"""A forbidden path in Bazel's graph is reported with the way it takes."""

import unittest

import check_dependencies
from rules import DEPENDENCIES


class Mistakes(unittest.TestCase):

    def test_every_rule_can_fail(self):
        for rule in DEPENDENCIES:
            def query(expression, target=rule[2][0]):
                if expression.startswith("somepath"):
                    return ["//start", "//helper", target]
                # The whole rule is asked for.
                self.assertIn(rule[1], expression)
                for forbidden in rule[2]:
                    self.assertIn(forbidden, expression)
                return [target]
            sentences = check_dependencies.mistakes(rule, query)
            self.assertEqual(len(sentences), 1)
            self.assertIn("//helper", sentences[0])

    def test_an_empty_answer_is_good(self):
        self.assertEqual(check_dependencies.mistakes(DEPENDENCIES[0], lambda _: []), [])


if __name__ == "__main__":
    unittest.main()
