"""python_test: a Python unittest file as a Bazel test.

Bazel 4's own py_test starts /usr/bin/env python, which Debian 12 does not have.
This one calls python3, and writes a JUnit file, so that each case is counted.
"""

def python_test(name, src, imports = [], data = [], tags = [], only_asan = False, **kwargs):
    """Runs the unittest cases of `src`.

    Args:
      name: of the target.
      src: the test file.
      imports: Python files that it imports; their folders are put on the path.
      data: other files that it reads.
      tags: as everywhere.
      only_asan: it runs C or C++ of the asan build in a Python process. tools/test
        --sanitizers names these tests. The sanitizers see nothing of the others,
        so that build leaves them out.
      **kwargs: handed to sh_test.
    """
    native.sh_test(
        name = name,
        srcs = ["//tests/tools:python_test.sh"],
        args = ["$(location %s)" % src] + ["$(location %s)" % i for i in imports],
        data = [src, "//tests/tools:python_test_main.py"] + imports + data,
        tags = tags + (["asanonly", "manual"] if only_asan else ["noasan"]),
        **kwargs
    )
