"""Checks the dependency rules of tests/architecture/rules.py over Bazel's graph.

    check_dependencies.py                 every rule; exit code 1 when one is broken
    check_dependencies.py --rule=NAME     that one
    check_dependencies.py --list          the names

Visibility already refuses most wrong edges when they are written; this sees the
paths over several steps, such as the client reaching LMDB through a helper.
"""

import os
import subprocess
import sys

_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(_ROOT, "tests", "architecture"))
sys.dont_write_bytecode = True

from rules import DEPENDENCIES  # noqa: E402  (the path is set just above)


def bazel_query(expression):
    """Lines that `bazel query` prints for the expression."""
    result = subprocess.run(
        ["bazel", "query", "--noimplicit_deps", "--notool_deps", "--keep_going",
         "--noshow_progress", "--color=no", expression],
        cwd=_ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    # 3: some packages of a pattern do not load; the rest was looked at, but an
    # unreadable tree must not pass.
    if result.returncode != 0:
        raise RuntimeError(f"bazel query '{expression}' failed:\n{result.stderr}")
    return result.stdout.split()


def mistakes(rule, query):
    """Sentences for one rule; `query` runs a Bazel query expression."""
    name, start, forbidden = rule
    found = query(f"deps({start}) intersect ({' + '.join(forbidden)})")
    sentences = []
    for target in found:
        way = query(f"somepath({start}, {target})")
        sentences.append(f"{name}: {start} must not reach {target}, but does: {' -> '.join(way)}")
    return sentences


def main(argv):
    rules = {rule[0]: rule for rule in DEPENDENCIES}
    chosen = list(rules)
    if argv[1:] == ["--list"]:
        print("\n".join(rules))
        return 0
    if len(argv) == 2 and argv[1].startswith("--rule="):
        chosen = [argv[1].removeprefix("--rule=")]
        if chosen[0] not in rules:
            print(f"no rule '{chosen[0]}'; there are: {', '.join(rules)}", file=sys.stderr)
            return 2
    elif len(argv) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    broken = []
    for name in chosen:
        try:
            broken += mistakes(rules[name], bazel_query)
        except RuntimeError as error:
            broken.append(f"{name}: {error}")
    for sentence in broken:
        print(sentence, file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
