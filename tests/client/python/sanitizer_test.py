"""Tests of loader_test, process_test and exit_test with the extension module and the library of the
asan build (sanitized.py). tools/test --sanitizers runs them; by itself:

    bazel test --config=asan //tests/client/python:sanitizer_test

Left out: tests of how much memory a process has, which the sanitizer changes, tests that wait for a
time or begin many processes, and those that use other libraries.
"""

import subprocess

import installed
import sanitized

installed.Package = sanitized.Package  # before the cases below use it

# pylint: disable=wrong-import-position
import exit_test  # noqa: E402
import loader_test  # noqa: E402
import process_test  # noqa: E402
from case import Case  # noqa: E402


def _without(case, *names):
    return type(case.__name__, (case,), dict.fromkeys(names))


class Sanitizer(Case):

    def test_it_is_there_and_ends_the_process(self):
        for file in ("_millrace.abi3.so", "_libs/libmillrace.so.1"):
            symbols = subprocess.run(["nm", "-D", f"{self.package.site}/millrace/{file}"],
                                     capture_output=True, text=True, check=True).stdout
            self.assertIn("__asan_report_load", symbols)
        # Labels have memory of their own, of 448 bytes.
        result = self.package.run("""
import ctypes, numpy
_, labels = next(iter(millrace.Loader(ENDPOINT, pipeline=SPEC, batch_size=50)))
assert len(ctypes.string_at(labels.ctypes.data, 448)) == 448
print("inside", flush=True)
ctypes.string_at(labels.ctypes.data, 449)
print("outside")
""", self.server.address)
        self.assertEqual(result.stdout, "inside\n")
        self.assertIn("AddressSanitizer: heap-buffer-overflow", result.stderr)


Batches = _without(loader_test.Batches, "test_labels_that_are_kept_do_not_keep_the_images")
States = loader_test.States
Arguments = loader_test.Arguments
Damaged = loader_test.Damaged
Process = _without(
    process_test.Process, "test_ctrl_c_ends_a_waiting_next",
    "test_ctrl_c_ends_opening_and_the_loader_can_be_opened_later",
    "test_a_closed_loader_keeps_no_memory_of_batches",
    "test_another_thread_runs_while_a_loader_is_dropped",
    "test_another_thread_runs_during_a_wait",
    "test_the_interpreter_ends_whatever_is_left", "test_many_loaders_leave_nothing",
    "test_memory_of_batches_is_used_again", "test_batches_leave_nothing")
Exit = exit_test.Exit
