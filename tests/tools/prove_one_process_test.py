"""tools/prove-one-process: its matrix, and how it counts and words what it sees. The
command itself needs packages of 5 GB and is run by hand."""

import os
import tempfile
import unittest

import run


class Orders(unittest.TestCase):

    def test_millrace_stands_at_every_place(self):
        for quick in (False, True):
            orders = run.orders(quick)
            self.assertEqual({order.index("millrace") for order in orders}, {0, 1, 2, 3, 4})
            for order in orders:
                self.assertEqual(sorted(order), ["grpc", "millrace", "pyarrow", "tensorflow", "torch"])

    def test_each_order_is_there_once(self):
        for quick, count in ((False, 20), (True, 5)):
            orders = [tuple(order) for order in run.orders(quick)]
            self.assertEqual(len(orders), count)
            self.assertEqual(len(set(orders)), count)

    def test_every_other_package_is_before_and_after(self):
        for name in ("torch", "tensorflow", "pyarrow", "grpc"):
            before = {order.index(name) < order.index("millrace") for order in run.orders(True)}
            self.assertEqual(before, {True, False}, name)

    def test_rows_have_names_of_their_own(self):
        names = [row.name for row in run.rows(False)]
        self.assertEqual(len(names), len(set(names)))
        self.assertEqual(sum(row.leave_open for row in run.rows(False)), 3)


class Bindings(unittest.TestCase):

    def _count(self, lines, ours):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "log.1"), "w", encoding="utf-8") as file:
                for user, definer, symbol in lines:
                    file.write(f"      7:\tbinding file {user} [0] to {definer} [0]: normal symbol `{symbol}'"
                               " [V_1]\n")
                file.write("      7:\tcalling init: /x\n")
            return dict(run.count_bindings(folder, ours))

    _OURS = "/tmp/grafted/libgrpc-1.so.29"
    _TENSORFLOW = "/env/tensorflow/libtensorflow_cc.so.2"

    def test_both_directions_count(self):
        self.assertEqual(
            self._count([(self._OURS, self._TENSORFLOW, "_ZN6google8protobuf1fEv"),
                         (self._TENSORFLOW, self._OURS, "_ZN4grpc1fEv")], "/tmp/grafted/"),
            {"libtensorflow_cc.so.2": 2})

    def test_what_is_as_it_should_be_does_not(self):
        self.assertEqual(
            self._count([(self._OURS, "/lib/x86_64-linux-gnu/libc.so.6", "malloc"),
                         (self._OURS, "/tmp/grafted/libprotobuf-1.so.32", "mr1_f"),
                         (self._TENSORFLOW, self._TENSORFLOW, "g"),
                         ("/env/_ctypes.so", "/tmp/grafted/libmillrace.so.1", "millrace_loader_open")],
                        "/tmp/grafted/"), {})

    def test_templates_of_libstdcxx_are_counted_apart(self):
        self.assertEqual(
            self._count([(self._OURS, self._TENSORFLOW, "_ZNSt7__cxx1112basic_stringIcE7reserveEm"),
                         (self._OURS, self._TENSORFLOW, "_ZNKSt5ctypeIcE8do_widenEc")], "/tmp/grafted/"),
            {"libstdc++'s templates": 2})

    def test_the_plain_library_has_the_machine_s(self):
        self.assertEqual(
            self._count([("/lib/x86_64-linux-gnu/libgrpc.so.29", self._TENSORFLOW, "f"),
                         ("/lib/x86_64-linux-gnu/libabsl_cord.so.20220623", self._TENSORFLOW, "f"),
                         ("/env/_ssl.so", "/lib/x86_64-linux-gnu/libssl.so.3", "SSL_new")], None),
            {"libtensorflow_cc.so.2": 2})


class Verdict(unittest.TestCase):

    def test_it_says_how_a_process_ended(self):
        self.assertEqual(run.verdict(None, "", "so far"), "hangs")
        self.assertEqual(run.verdict(-11, "", "x"), "ended by SIGSEGV")
        self.assertEqual(run.verdict(1, "", "first\nAssertionError: torch\n\n"),
                         "exit code 1: AssertionError: torch")
        self.assertEqual(run.verdict(3, "said\n", ""), "exit code 3: said")
