"""Runs the unittest cases of one file and writes them as JUnit XML.

    python_test_main.py TEST_FILE [IMPORTED_FILE...]

Where to write is $XML_OUTPUT_FILE, as Bazel says it. Exit code 1 when a case
failed or when there was none.
"""

import importlib.util
import os
import sys
import time
import unittest
import xml.etree.ElementTree as ElementTree


class _Recorder(unittest.TextTestResult):
    """Keeps (case, outcome, text, seconds) of every case and broken subtest."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.records = []
        self._began = 0.0

    def startTest(self, test):
        super().startTest(test)
        self._began = time.monotonic()

    def _record(self, test, outcome, text=""):
        self.records.append((test.id(), outcome, text, time.monotonic() - self._began))

    def addSuccess(self, test):
        super().addSuccess(test)
        self._record(test, "passed")

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._record(test, "failure", self.failures[-1][1])

    def addError(self, test, err):
        super().addError(test, err)
        self._record(test, "error", self.errors[-1][1])

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self._record(test, "skipped", reason)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._record(subtest, "failure", str(err[1]))


def _write_xml(path, records):
    suite = ElementTree.Element("testsuite", name="python", tests=str(len(records)))
    for name, outcome, text, seconds in records:
        group, _, short = name.rpartition(".")
        case = ElementTree.SubElement(suite, "testcase", classname=group, name=short,
                                      time=f"{seconds:.3f}")
        if outcome != "passed":
            ElementTree.SubElement(case, outcome).text = text
    ElementTree.ElementTree(suite).write(path, encoding="utf-8", xml_declaration=True)


def main(argv):
    test_file, imported = argv[1], argv[2:]
    for path in imported:
        sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    spec = importlib.util.spec_from_file_location("test", test_file)
    module = importlib.util.module_from_spec(spec)
    sys.modules["test"] = module
    spec.loader.exec_module(module)
    suite = unittest.defaultTestLoader.loadTestsFromModule(module)
    result = unittest.TextTestRunner(stream=sys.stdout, resultclass=_Recorder, verbosity=2).run(suite)
    if os.environ.get("XML_OUTPUT_FILE"):
        _write_xml(os.environ["XML_OUTPUT_FILE"], result.records)
    if not result.records:
        print(f"{test_file} has no test case")
        return 1
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv))
