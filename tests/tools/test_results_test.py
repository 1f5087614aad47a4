"""What tools/test prints as its last line is what Bazel's run was."""

import json
import unittest

import test_results


def _result(label, status, xml=None):
    output = [{"name": "test.log", "uri": "file:///log"}]
    if xml is not None:
        output.append({"name": "test.xml", "uri": xml})
    return json.dumps({"id": {"testResult": {"label": label}},
                       "testResult": {"status": status, "testActionOutput": output}})


def _completed(label, success):
    return json.dumps({"id": {"targetCompleted": {"label": label}},
                       "completed": {"success": True} if success else {}})


_THREE = b"""<testsuites><testsuite name="A">
<testcase name="ok" classname="A" status="run"/>
<testcase name="bad" classname="A" status="run"><failure message="x"/></testcase>
<testcase name="not_here" classname="A" status="run"><skipped message="y"/></testcase>
</testsuite></testsuites>"""
_GOOD = b'<testsuites><testsuite name="A"><testcase name="ok" classname="A"/></testsuite></testsuites>'


class Count(unittest.TestCase):

    def count(self, events, code, files=None):
        return test_results.count(events, code, read=lambda uri: (files or {})[uri])

    def test_cases_are_counted(self):
        counts = self.count([_result("//a:t", "FAILED", "x"), _completed("//a:t", True)], 3,
                            {"x": _THREE})
        self.assertEqual((counts.passed, counts.failed, counts.skipped), (1, 1, 1))
        self.assertEqual(counts.failures, ["//a:t A.bad"])

    def test_a_test_without_a_case_file_counts_as_one(self):
        counts = self.count([_result("//a:t", "PASSED"), _result("//a:u", "TIMEOUT")], 3)
        self.assertEqual((counts.passed, counts.failed), (1, 1))

    def test_an_empty_case_file_counts_as_one(self):
        counts = self.count([_result("//a:t", "PASSED", "x")], 0, {"x": b"<testsuites/>"})
        self.assertEqual((counts.passed, counts.failed), (1, 0))

    def test_a_test_that_dies_after_its_last_case_failed(self):
        counts = self.count([_result("//a:t", "FAILED", "x")], 3, {"x": _GOOD})
        self.assertEqual((counts.passed, counts.failed), (1, 1))

    def test_a_target_that_is_not_built_failed(self):
        counts = self.count([_result("//a:t", "PASSED"), _completed("//a:t", True),
                             _completed("//a:broken", False)], 1)
        self.assertEqual((counts.passed, counts.failed), (1, 1))
        self.assertEqual(counts.failures, ["//a:broken (not built)"])

    def test_a_package_that_does_not_load_failed(self):
        aborted = json.dumps({"id": {"unconfiguredLabel": {"label": "//a:x"}},
                              "aborted": {"reason": "ANALYSIS_FAILURE"}})
        self.assertEqual(self.count([aborted], 1).failed, 1)

    def test_a_bad_exit_is_never_good(self):
        self.assertEqual(self.count([_result("//a:t", "PASSED")], 37).failed, 1)
        self.assertEqual(self.count([], 1).failed, 1)

    def test_no_tests_at_all_fails_the_sum(self):
        self.assertEqual(test_results.add_up([]), (0, 0, 0))


class Sum(unittest.TestCase):

    def test_lines_are_added(self):
        self.assertEqual(
            test_results.add_up(["tests: 10 passed, 1 failed", "FAILED: tests: //a:t 3 passed",
                                 "asan: 5 passed, 0 failed, 2 skipped"]), (15, 1, 2))


if __name__ == "__main__":
    unittest.main()
