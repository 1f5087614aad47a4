"""The sources keep the dependency rules, and the scan notices when they do not."""

import os
import tempfile
import unittest

import rules
import scan


def _workspace():
    """The real source tree: runfiles are links into it."""
    here = os.path.join(os.environ["TEST_SRCDIR"], os.environ["TEST_WORKSPACE"])
    return os.path.dirname(os.path.realpath(os.path.join(here, "WORKSPACE")))


class SourceTree(unittest.TestCase):

    def test_the_scan_sees_the_tree(self):
        found = scan.sources(_workspace())
        self.assertIn("client/loader.h", found)
        self.assertIn("server/pipeline/engine.h", found)
        self.assertIn("client/c/millrace.hpp", found)

    def test_no_room_includes_a_room_it_must_not_know(self):
        self.assertEqual(scan.include_mistakes(_workspace()), [])

    def test_library_headers_stay_in_their_rooms(self):
        self.assertEqual(scan.header_mistakes(_workspace()), [])

    def test_gates_let_in_no_other_room(self):
        self.assertEqual(scan.gate_mistakes(_workspace()), [])

    def test_rooms_that_move_tensors_do_not_know_field_names(self):
        self.assertEqual(scan.field_word_mistakes(_workspace()), [])

    def test_no_type_is_defined_twice(self):
        self.assertEqual(scan.type_mistakes(_workspace()), [])

    def test_no_inline_function_is_defined_twice(self):
        # Fails when the scan no longer sees functions.
        found = [name for path in scan.sources(_workspace())
                 for name, _ in scan.weak_functions(scan._text(_workspace(), path))]
        self.assertGreater(len(found), 80)
        self.assertEqual(scan.function_mistakes(_workspace()), [])

    def test_each_file_is_in_the_namespace_of_its_component(self):
        self.assertEqual(scan.namespace_mistakes(_workspace()), [])


class BadTree(unittest.TestCase):
    """Each rule is broken once in a tiny tree: each must be noticed."""

    def setUp(self):
        self._folder = tempfile.TemporaryDirectory()
        self.root = self._folder.name
        self.addCleanup(self._folder.cleanup)
        self.write("third_party/BUILD", "".join(
            f'cc_library(\n    name = "{name}",\n    visibility = ["//{rooms[-1]}:__pkg__"],\n)\n\n'
            for name, rooms in rules.GATES.items()))

    def write(self, path, text):
        full = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as file:
            file.write(text)

    def test_a_clean_tree_has_no_mistakes(self):
        self.write("client/loader.h", "#include <torch/types.h>\n#include \"proto/names.h\"\n")
        self.write("server/rpc/service.cc", "#include <grpcpp/grpcpp.h>\n")
        self.assertEqual(scan.all_mistakes(self.root), [])

    def test_every_include_rule_can_fail(self):
        for room, forbidden, _ in rules.INCLUDES:
            for bad in forbidden:
                path = room + "broken.cc"
                self.write(path, f'#include "{bad}thing.h"\n')
                mistakes = scan.include_mistakes(self.root)
                os.unlink(os.path.join(self.root, path))
                self.assertTrue(any(path in m and bad in m for m in mistakes),
                                f"{path} including {bad}thing.h went unnoticed")

    def test_every_library_rule_can_fail(self):
        examples = {
            "gRPC": ["grpcpp/server.h", "grpc/grpc.h", "proto/data_service.grpc.pb.h"],
            "libtorch": ["torch/types.h", "ATen/ATen.h", "c10/core/Device.h"],
            "gloo": ["gloo/context.h"],
            "LMDB": ["lmdb.h"],
            "Arrow": ["arrow/api.h", "parquet/file_reader.h"],
            "libjpeg": ["jpeglib.h", "turbojpeg.h"],
            "libpng": ["png.h"],
            "libwebp": ["webp/decode.h"],
            "zlib": ["zlib.h"],
            "Highway": ["hwy/highway.h"],
            "GoogleTest": ["gtest/gtest.h", "gmock/gmock.h"],
            "Google Benchmark": ["benchmark/benchmark.h"],
            "Python": ["Python.h", "python3.11/Python.h"],
            "Cairo": ["cairo.h", "cairo/cairo-svg.h"],
            "HDF5": ["hdf5/serial/hdf5.h", "H5Dpublic.h"],
            "dlopen": ["dlfcn.h"],
            "Abseil's flags": ["absl/flags/flag.h"],
        }
        self.assertEqual(set(examples), {what for what, _, _ in rules.HEADERS})
        for what, headers in examples.items():
            for header in headers:
                self.write("server/plan/broken.h", f"  #  include <{header}>\n")
                mistakes = scan.header_mistakes(self.root)
                self.assertEqual(len(mistakes), 1, f"<{header}> in server/plan: {mistakes}")
                self.assertIn(what, mistakes[0])

    def test_an_opened_gate_is_noticed(self):
        for label in ("//client/prefetch:__pkg__", "//visibility:public", "//:__subpackages__",
                      "//server:__subpackages__"):
            self.write("third_party/BUILD",
                       'cc_library(\n    name = "lmdb",\n    visibility = [\n'
                       f'        "//server/storage/lmdb:__pkg__",\n        "{label}",\n    ],\n)\n')
            self.assertTrue(any("'lmdb' is open to " + label in m
                                for m in scan.gate_mistakes(self.root)), label)

    def test_a_lost_gate_is_noticed(self):
        self.write("third_party/BUILD", "")
        self.assertEqual(len(scan.gate_mistakes(self.root)), len(rules.GATES))

    def test_a_field_name_in_a_blind_room_is_noticed(self):
        self.write("server/batch/broken.cc", 'auto t = batch.tensor("label");  // "image"\n')
        self.assertEqual(len(scan.field_word_mistakes(self.root)), 1)

    def test_a_type_that_two_files_define_is_noticed(self):
        self.write("client/a.h", "namespace millrace {\nstruct Range {\n  int first;\n};\n}\n")
        self.write("trainer/b.cc", "// class Range {\nnamespace millrace {\n"
                                   "class Range final : public Base {};\n}\n")
        self.assertEqual(len(scan.type_mistakes(self.root)), 1)
        self.assertIn("Range is defined at client/a.h:2 and at trainer/b.cc:3",
                      scan.type_mistakes(self.root)[0])

    def test_a_name_in_two_namespaces_is_noticed_outside_the_tests(self):
        self.write("server/plan/a.h", "namespace millrace::plan {\nstruct Range {};\n}\n")
        self.write("client/cli/a.h", "namespace millrace::cli {\nstruct Range {};\n}\n")
        self.write("tests/client/cli/a.h", "namespace millrace::testing {\nstruct Range {};\n}\n")
        self.assertEqual(len(scan.type_mistakes(self.root)), 1)

    def test_an_inline_function_that_two_files_define_is_noticed(self):
        for kind in ("inline int Size() {", "template <typename T>\nT Size(T a) {",
                     "constexpr int Size(int a = 1) {", "inline std::vector<int> Size() {"):
            self.write("client/a.h", f"namespace millrace {{\n{kind} return 1; }}\n}}\n")
            self.write("trainer/b.cc", f"namespace millrace {{\n{kind} return 2; }}\n}}\n")
            mistakes = scan.function_mistakes(self.root)
            self.assertEqual(len(mistakes), 1, kind)
            self.assertRegex(mistakes[0],
                             r"millrace::Size is defined at client/a\.h:\d and at trainer/b\.cc")

    def test_functions_that_are_not_weak_or_not_of_one_namespace_may_have_one_name(self):
        self.write("client/a.h", "namespace millrace::a {\ninline int Size() { return 1; }\n"
                                 "inline int Size(int a) { return a; }\n}\n")
        self.write("client/b.h", "namespace millrace::b {\ninline int Size() { return 1; }\n}\n")
        self.write("client/c.cc", "namespace millrace::a {\nnamespace {\n"
                                  "inline int Size() { return 2; }\n}\n"
                                  "struct A { int Size() { return 3; } };\n"
                                  "inline int A::Size() { return 4; }\n"
                                  "static inline int Size() { return 5; }\n}\n")
        self.assertEqual(scan.function_mistakes(self.root), [])

    def test_a_foreign_namespace_is_noticed(self):
        for path, name in (("server/plan/a.h", "millrace"), ("server/plan/b.h", "millrace::decode"),
                           ("client/loader.h", "millrace::prefetch"),
                           ("client/prefetch/host_loader.h", "millrace::prefetch"),
                           ("tests/server/plan/a_test.cc", "millrace::decode")):
            self.write(path, f"namespace {name} {{\nnamespace {{\n}}\n}}\n")
            self.assertEqual(len(scan.namespace_mistakes(self.root)), 1, path)
            os.unlink(os.path.join(self.root, path))
        self.write("server/plan/a.h", "namespace millrace::decode {\nclass A;\n}\n"
                                      "namespace millrace::plan {\n}\n")
        self.write("tests/server/plan/a_test.cc", "namespace millrace::testing {\n}\n")
        self.assertEqual(scan.namespace_mistakes(self.root), [])

    def test_every_way_to_define_a_type_is_seen(self):
        text = ("namespace a::b {\ntemplate <typename T, class U = V<T>> class One {};\n"
                "enum class Two : int { kA };\nunion [[nodiscard]] Three {};\n"
                "struct alignas(8) Aligned {};\nextern \"C\" int f();\n"
                "inline namespace c { struct Four {}; }\n}\nstruct Five { struct Inner {}; };\n")
        self.assertEqual([name for name, _ in scan.types(text)],
                         ["a::b::One", "a::b::Two", "a::b::Three", "a::b::Aligned",
                          "a::b::c::Four", "Five"])

    def test_what_other_files_cannot_see_may_have_any_name(self):
        text = ("namespace millrace {\nnamespace {\nstruct Hidden {};\n}\n"
                "struct Outer::State {};\ntemplate <> struct Traits<int> {};\n"
                "class Declared;\nvoid f() { struct Local {}; }\n"
                "auto text = R\"(struct Quoted {)\";  // struct Commented {\n"
                "#define X struct Macro {\n}\n")
        self.assertEqual(scan.types(text), [])


if __name__ == "__main__":
    unittest.main()
