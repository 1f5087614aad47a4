"""The package with AddressSanitizer and UBSan, in the place of installed.Package: the extension module
and the library of the asan build, and Debian's libraries as they are.

The interpreter is not built with a sanitizer, so the run-time library is loaded before it. Then malloc
is checked everywhere, and Python's objects too (PYTHONMALLOC): the module that uses an object after its
last reference, or memory of a batch after it was given back, ends the process. Leaks are not looked
for, because the interpreter leaves its own objects behind; process_test counts memory instead.
"""

import os
import shutil
import subprocess
import sys

import installed

_OPTIONS = "detect_leaks=0:detect_stack_use_after_return=1:strict_string_checks=1:" \
    "alloc_dealloc_mismatch=0:handle_segv=0"


def _run_time():
    """Path of clang's library."""
    name = "libclang_rt.asan-x86_64.so"
    path = subprocess.run(["clang", f"-print-file-name={name}"], capture_output=True, text=True,
                          check=True).stdout.strip()
    if not os.path.isabs(path):
        raise AssertionError(f"clang has no {name}")
    return path


class Package(installed.Package):

    def __init__(self, work, python=None):
        self.python = python or sys.executable
        self.site = os.path.join(work, "sanitized")
        folder = os.path.join(self.site, "millrace")
        if not os.path.isdir(folder):
            shutil.copytree("client/python/millrace", folder)
            shutil.copy("client/python/_millrace.abi3.so", folder)
            os.mkdir(os.path.join(folder, "_libs"))
            shutil.copy("client/c/lib/libmillrace.so.1", os.path.join(folder, "_libs"))
        self._work = work
        self.variables = {"LD_PRELOAD": _run_time(), "ASAN_OPTIONS": _OPTIONS,
                          "UBSAN_OPTIONS": "print_stacktrace=1", "PYTHONMALLOC": "malloc"}

    def environment(self, numpy=True, **variables):
        path = [self.site] + ([installed.numpy_folder()] if numpy else [])
        return {**super().environment(numpy, **self.variables), "PYTHONPATH": ":".join(path),
                **variables}

    def program(self, path):
        # A program of the asan build has a run-time library of its own.
        script = os.path.join(self._work, os.path.basename(path))
        with open(script, "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\nunset LD_PRELOAD\nexec {os.path.abspath(path)} "$@"\n')
        os.chmod(script, 0o755)
        return script
