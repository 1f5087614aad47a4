"""A fuzz target: one parser of foreign bytes and the programs around it."""

def fuzz_target(name, deps, test_size = "medium", data = []):
    """Makes NAME_fuzz_test, NAME_fuzzer (clang's libFuzzer) and NAME_seeds.

    Args:
      name: of the target; NAME_target.cc defines TheFuzzTarget().
      deps: of that file.
      test_size: of the test.
      data: files that the seeds are read from.
    """
    native.cc_library(
        name = name + "_target",
        testonly = True,
        srcs = [name + "_target.cc"],
        data = data,
        deps = deps + [":fuzz_target"],
    )
    native.cc_test(
        name = name + "_fuzz_test",
        size = test_size,
        srcs = ["fuzz_test.cc"],
        deps = [
            ":" + name + "_target",
            ":fuzz_target",
            "//third_party:gtest_main",
        ],
    )

    # Only with --config=asan; tools/fuzz does it.
    native.cc_binary(
        name = name + "_fuzzer",
        testonly = True,
        srcs = ["fuzz_entry.cc"],
        linkopts = ["-fsanitize=fuzzer"],
        tags = ["manual"],
        deps = [
            ":" + name + "_target",
            ":fuzz_target",
        ],
    )
    native.cc_binary(
        name = name + "_seeds",
        testonly = True,
        srcs = ["write_seeds.cc"],
        deps = [
            ":" + name + "_target",
            ":fuzz_target",
        ],
    )
