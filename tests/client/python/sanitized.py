"""The package with AddressSanitizer and UBSan, in the place of installed.Package: the extension module and
the library of the asan build, with Debian's libraries and Debian's Python as they are.

The interpreter is built without a sanitizer, so the sanitizer's run-time library is loaded in front of
everything else. malloc is the sanitizer's from then on, for Python's objects too (PYTHONMALLOC): an object or
memory of a batch that is used after it was freed ends the process. Leaks are not looked for, because the
interpreter itself leaves objects behind; process_test counts memory instead.
"""

import os
import shutil
import subprocess
import sys

import elf_file
import installed

_EXTENSION = "client/python/_millrace.abi3.so"
_LIBRARY = "client/c/lib/libmillrace.so.1"
_VARIABLES = {
    # faulthandler has the alternate stack of the main thread, and tells where a crash is. The program that
    # finds the names of functions outlives the process that it is started by, and keeps the pipe of stderr open:
    # reports have files and offsets instead, which llvm-symbolizer --obj=FILE OFFSET explains.
    "ASAN_OPTIONS": "detect_leaks=0:detect_stack_use_after_return=1:strict_string_checks=1:"
                    "alloc_dealloc_mismatch=0:use_sigaltstack=0:symbolize=0",
    "UBSAN_OPTIONS": "print_stacktrace=1:symbolize=0",
    "PYTHONMALLOC": "malloc",
    "OPENBLAS_NUM_THREADS": "1",
}


def _run_time():
    """Path of clang's library with the functions that the code calls."""
    name = "libclang_rt.asan-x86_64.so"
    path = subprocess.run(["clang", f"-print-file-name={name}"], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, check=True).stdout.strip()
    if not os.path.isabs(path):  # clang repeats the name of a file that it does not have
        raise AssertionError(f"clang has no {name}")
    return path


def _check(path):
    names = {symbol.name for symbol in elf_file.ElfFile(path).symbols if symbol.undefined}
    for function in ("__asan_report_load8", "__ubsan_handle_type_mismatch_v1_abort"):
        if function not in names:
            raise AssertionError(f"{path} does not call {function}, so it is not of the asan build: give "
                                 "bazel test --config=asan")


class Package(installed.Package):

    def __init__(self, work):  # pylint: disable=super-init-not-called
        self.work = work
        self.python = sys.executable
        self.site = os.path.join(work, "sanitized")
        folder = os.path.join(self.site, "millrace")
        libraries = os.path.join(folder, "_libs")
        shutil.copytree("client/python/millrace", folder)
        os.mkdir(libraries)
        for path, place in ((_EXTENSION, folder), (_LIBRARY, libraries)):
            _check(path)
            shutil.copy(path, place)
        self._variables = {**_VARIABLES, "LD_PRELOAD": _run_time()}

    def environment(self, numpy=True, **variables):
        path = [self.site] + ([installed.numpy_folder()] if numpy else [])
        return {**super().environment(False, **self._variables), "PYTHONPATH": ":".join(path), **variables}
