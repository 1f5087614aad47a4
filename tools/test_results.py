"""Counts what a `bazel test` run did, from its build event file.

    test_results.py NAME EVENTS EXIT_CODE   one line "NAME: N passed, N failed"
    test_results.py --sum FILE              adds such lines up; exit code 1 when
                                            anything failed or nothing passed

A test that writes a JUnit file (GoogleTest does) counts by its cases, any
other as one. A target that could not be built counts as one failure, and a run
that ended badly never counts as good.
"""

import json
import re
import sys
import urllib.request
import xml.etree.ElementTree as ElementTree

# Bazel's exit codes: 0 success, 3 some test failed, 4 no tests were found.
_GOOD_EXITS = (0, 3)


class Counts:
    """How many cases passed, failed and were skipped, and which failed."""

    def __init__(self):
        self.passed = 0
        self.failed = 0
        self.skipped = 0
        self.failures = []

    def fail(self, name):
        self.failed += 1
        self.failures.append(name)

    def line(self, name):
        text = f"{name}: {self.passed} passed, {self.failed} failed"
        return text + (f", {self.skipped} skipped" if self.skipped else "")


def _read(uri):
    return urllib.request.urlopen(uri).read()


def _cases(xml_bytes):
    """(passed, failed names, skipped) of a JUnit file; None when it has none."""
    try:
        root = ElementTree.fromstring(xml_bytes)
    except ElementTree.ParseError:
        return None
    passed, failed, skipped = 0, [], 0
    for case in root.iter("testcase"):
        name = f"{case.get('classname', '')}.{case.get('name', '')}"
        if case.find("failure") is not None or case.find("error") is not None:
            failed.append(name)
        elif case.find("skipped") is not None or case.get("status") == "notrun":
            skipped += 1
        else:
            passed += 1
    return (passed, failed, skipped) if passed or failed or skipped else None


def count(events, exit_code, read=_read):
    """Counts of one run. `events`: the lines of the build event file."""
    counts = Counts()
    tested, unbuilt = set(), set()
    for line in events:
        event = json.loads(line)
        ident = event.get("id", {})
        if "testResult" in ident:
            result = event.get("testResult", {})
            label = ident["testResult"]["label"]
            tested.add(label)
            good = result.get("status") == "PASSED"
            uris = [o.get("uri") for o in result.get("testActionOutput", [])
                    if o.get("name") == "test.xml" and o.get("uri")]
            try:
                cases = _cases(read(uris[0])) if uris else None
            except OSError:
                cases = None
            if cases is None:
                cases = (1, [], 0) if good else (0, [""], 0)
            passed, failed, skipped = cases
            counts.passed += passed
            counts.skipped += skipped
            for name in failed:
                counts.fail(f"{label} {name}".strip())
            # A process that died after its last case has a clean file.
            if not good and not failed:
                counts.fail(f"{label} ({result.get('status', 'NO_STATUS')})")
        elif "targetCompleted" in ident:
            if not event.get("completed", {}).get("success"):
                unbuilt.add(ident["targetCompleted"]["label"])
        elif "aborted" in event:
            for kind in ("unconfiguredLabel", "configuredLabel", "targetConfigured", "pattern"):
                if kind in ident:
                    inner = ident[kind]
                    unbuilt.add(str(inner.get("label") or inner.get("pattern")))
    for label in sorted(unbuilt - tested):
        counts.fail(f"{label} (not built)")
    if exit_code not in _GOOD_EXITS and not counts.failed:
        counts.fail(f"bazel ended with exit code {exit_code}")
    return counts


_LINE = re.compile(r"(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$")


def add_up(lines):
    """(passed, failed, skipped) over lines that end as Counts.line() ends."""
    sums = [0, 0, 0]
    for line in lines:
        match = _LINE.search(line.strip())
        if match:
            for i, value in enumerate(match.groups(default="0")):
                sums[i] += int(value)
    return tuple(sums)


def main(argv):
    if len(argv) == 3 and argv[1] == "--sum":
        with open(argv[2], encoding="utf-8") as file:
            lines = [line.rstrip("\n") for line in file]
        print("\n".join(lines))
        passed, failed, skipped = add_up(lines)
        last = f"{passed} passed, {failed} failed"
        print(last + (f", {skipped} skipped" if skipped else ""))
        return 1 if failed or not passed else 0
    if len(argv) != 4:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        with open(argv[2], encoding="utf-8") as file:
            counts = count(file, int(argv[3]))
    except (OSError, json.JSONDecodeError) as error:
        counts = Counts()
        counts.fail(f"no readable build event file ({error}); bazel ended with exit code {argv[3]}")
    for failure in counts.failures:
        print(f"FAILED: {argv[1]}: {failure}")
    print(counts.line(argv[1]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
