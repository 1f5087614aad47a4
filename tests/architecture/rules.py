"""The dependency rules of Millrace, written down once.

INCLUDES, HEADERS and NAMESPACES are checked over the text of the sources by
architecture_test.py, GATES over third_party/BUILD, DEPENDENCIES over Bazel's
graph by tools/check_dependencies.py. A path ending in "/" stands for
everything below it.
"""

import re

# The stages of the server's data path. None includes another; only pipeline
# sees them all. What crosses a border is a plain struct in the header named
# here, which the next stage may read.
_STAGES = ["storage", "plan", "decode", "augment", "batch"]

# (files, may not include, except): paths from the workspace root.
INCLUDES = [
    ("client/", ["server/", "trainer/", "tests/"], []),
    ("server/", ["client/", "trainer/", "tests/"], []),
    ("trainer/", ["server/", "tests/", "client/c/", "client/cli/"], []),
    ("common/", ["server/", "client/", "trainer/", "tests/", "proto/"], []),
    ("proto/", ["server/", "client/", "trainer/", "tests/"], []),
    # Causes of waits: other components hand it values, it uses none of them.
    ("client/diagnosis/", ["client/prefetch/", "client/audit/", "client/receive/", "client/local/",
                           "client/torch/", "client/cli/", "client/flags/",
                           "client/batch_files/"], []),
    ("client/prefetch/", ["client/audit/", "client/c/", "client/receive/", "client/torch/", "client/cli/",
                          "client/flags/", "client/batch_files/"], []),
    ("client/flags/", ["client/audit/", "client/receive/", "client/torch/", "client/cli/"], []),
    ("client/batch_files/", ["client/audit/", "client/receive/", "client/torch/", "client/cli/"],
     []),
    ("client/audit/", ["client/receive/", "client/torch/", "client/cli/"], []),
    ("client/receive/", ["client/c/", "client/torch/", "client/cli/"], []),
    ("client/c/", ["client/audit/", "client/torch/", "client/cli/", "client/python/"], []),
    # Over the C interface alone.
    ("client/python/", ["client/audit/", "client/batch_files/", "client/cli/", "client/diagnosis/",
                        "client/flags/", "client/local/", "client/prefetch/", "client/receive/",
                        "client/torch/", "common/", "proto/"], []),
    ("client/local/", ["client/prefetch/", "client/receive/", "client/torch/", "client/cli/"], []),
    ("client/torch/", ["client/receive/", "client/cli/"], []),
    ("server/rpc/", ["server/storage/", "server/decode/", "server/augment/"], []),
    ("server/pipeline/", ["server/rpc/", "server/local/", "server/data_tool/"], []),
    ("server/local/", ["server/pipeline/", "server/rpc/", "server/storage/", "server/plan/",
                       "server/decode/", "server/augment/", "server/data_tool/"], []),
    # Datasets come and go by functions that the program passes.
    ("server/lease/", ["server/pipeline/", "server/rpc/", "server/local/", "server/plan/",
                       "server/decode/", "server/augment/", "server/data_tool/"], []),
    # The border to operators and its loader: every component may use it, it uses none.
    ("server/operators/", [f"server/{part}/" for part in
                           _STAGES + ["pipeline", "rpc", "data_tool"]], []),
] + [
    (f"server/{stage}/",
     [f"server/{other}/" for other in _STAGES if other != stage] +
     ["server/pipeline/", "server/rpc/", "server/data_tool/"],
     [])
    for stage in _STAGES
]

# (what, pattern of the included header, the only places that may): libraries
# whose headers lie in /usr/include, where Bazel does not see who uses them.
HEADERS = [
    ("gRPC", r"grpc(pp)?/.*|proto/.*\.grpc\.pb\.h",
     ["server/rpc/", "client/receive/", "proto/", "tests/"]),
    ("libtorch", r"(torch|ATen|c10|c10d|caffe2)/.*",
     ["client/loader.h", "client/loader.cc", "client/data_loader_impl.h",
      "client/data_loader_impl.cc", "client/torch/", "trainer/", "docs/example/", "tests/client/",
      "tests/gpu/", "tests/trainer/", "tests/bench/memory_train.cc",
      # Compiled by programs alone, with a libtorch of theirs.
      "client/c/millrace_torch.hpp"]),
    ("gloo", r"gloo/.*", ["trainer/ddp/"]),
    ("LMDB", r"lmdb\.h", ["server/storage/lmdb/", "tests/server/storage/"]),
    ("Arrow", r"(arrow|parquet)/.*", ["server/storage/parquet/", "server/storage/arrow/",
                                    "server/storage/columns/", "tests/server/storage/"]),
    ("libjpeg", r"j(peglib|error|morecfg|config)\.h|turbojpeg\.h", ["server/decode/", "tests/"]),
    ("libpng", r"png\.h", ["server/decode/", "server/data_tool/", "tests/"]),
    ("libwebp", r"webp/.*", ["server/decode/", "tests/"]),
    ("zlib", r"zlib\.h",
     ["server/data_tool/", "server/storage/unpack/", "trainer/weights/", "tests/"]),
    ("Highway", r"hwy/.*", ["server/decode/", "server/augment/", "tests/"]),
    ("GoogleTest", r"g(test|mock)/.*", ["tests/"]),
    ("Google Benchmark", r"benchmark/.*", ["tests/"]),
    ("Python", r"(python3\.\d+/)?Python\.h", ["client/python/"]),
    ("Cairo", r"(cairo/)?cairo[\w-]*\.h", ["common/picture/picture_plugin.cc"]),
    ("HDF5", r"(hdf5/serial/)?(hdf5|H5\w+)\.h",
     ["server/storage/hdf5/", "tests/server/storage/hdf5/"]),
    ("dlopen", r"dlfcn\.h", ["common/plug_in.cc", "server/operators/", "client/torch/",
                            "trainer/monitoring/device_load.cc", "tests/"]),
    # The programs parse their flags with common/program/flag_set.h.
    ("Abseil's flags", r"absl/flags/.*", ["tests/"]),
]

# The namespace of each component below millrace; "" is millrace itself. The longest
# path that fits counts. Tests use the namespace of what they test, or
# millrace::testing.
NAMESPACES = {
    # What every component speaks: the vocabulary of common/ and of the protocol.
    "common/": "", "common/picture/": "picture", "common/program/": "program",
    "proto/": "", "proto/wire/": "wire",
    "server/": "server", "server/augment/": "augment", "server/batch/": "batch",
    "server/data_tool/": "data_tool", "server/decode/": "decode", "server/lease/": "lease",
    "server/local/": "local",
    "server/operators/": "operators", "server/pipeline/": "pipeline", "server/plan/": "plan",
    "server/rpc/": "rpc", "server/storage/": "storage",
    # The public headers.
    "client/": "", "client/c/millrace.hpp": "", "client/c/millrace_torch.hpp": "",
    "client/prefetch/batch_info.h": "", "client/prefetch/host_loader.h": "",
    "client/prefetch/loader_options.cc": "", "client/prefetch/loader_options.h": "",
    "client/audit/": "audit", "client/batch_files/": "batch_files", "client/c/": "c",
    "client/cli/": "cli",
    "client/diagnosis/": "diagnosis", "client/flags/": "flags", "client/local/": "local",
    "client/prefetch/": "prefetch", "client/receive/": "receive",
    "client/torch/": "device",  # millrace::torch would hide ::torch
    "trainer/": "trainer", "trainer/ddp/": "ddp", "trainer/losses/": "losses",
    "trainer/models/": "models", "trainer/monitoring/": "monitoring", "trainer/optim/": "optim",
    "trainer/weights/": "weights",
}

# Gates of third_party/BUILD and the packages that may be let through.
GATES = {
    "grpc": ["client/receive", "client/cli", "proto", "server", "server/rpc", "tests"],
    "lmdb": ["server/storage/lmdb", "tests/server"],
    "arrow": ["server/storage/arrow", "server/storage/columns", "server/storage/parquet",
              "tests/server"],
    "jpeg": ["server/decode", "tests"],
    "png": ["server/decode", "server/data_tool", "tests"],
    "webp": ["server/decode", "tests"],
    "cairo": ["common/picture"],
    "hdf5": ["server/storage/hdf5", "tests/server/storage/hdf5"],
    "zlib": ["server/data_tool", "server/storage/unpack", "trainer/weights", "tests"],
    "highway": ["server/decode", "server/augment", "tests"],
    "torch": ["client", "client/torch", "docs/example", "tests", "trainer"],
    "gloo_headers": ["trainer", "tests"],
    "gtest": ["tests"],
    "gtest_main": ["tests"],
    "benchmark": ["tests"],
}

# "Nothing outside decode/, the image operators and the presets knows `image`
# or `label`": these rooms may not have the words as literals.
FIELD_BLIND = ["proto/wire/", "server/batch/", "server/rpc/", "server/storage/lmdb/",
               "client/prefetch/", "client/receive/", "client/torch/", "common/"]
FIELD_WORDS = re.compile(r'"(image|label|images|labels)"')

_CODECS = ["//third_party:lmdb", "//third_party:jpeg", "//third_party:png",
           "//third_party:webp", "@pyarrow//:arrow"]

# (name, from, must not reach): Bazel target patterns.
DEPENDENCIES = [
    ("client-is-thin", "//client/...", ["//server/...", "//trainer/..."] + _CODECS),
    ("loader-is-thin", "//client:loader", ["//server/..."] + _CODECS),
    ("server-without-data-tool", "//server:millrace-server", ["//server/data_tool/..."]),
    ("server-draws-nothing", "//server:millrace-server",
     ["//common/picture/...", "//third_party:cairo"]),
    # A program of its own reads HDF5 files.
    ("storage-links-no-hdf5", "//server/storage:open_in_order", ["//third_party:hdf5"]),
    ("client-rooms-without-torch",
     "//client/diagnosis/... + //client/prefetch/... + //client/audit/... + //client/receive/... + "
     "//client/c/... + //client/cli/... + //client/flags/... + //client/python/... + //client/batch_files/...",
     ["@torch//:torch"]),
    ("server-without-torch", "//server/...",
     ["@torch//:torch", "//client/...", "//trainer/..."]),
    ("trainer-without-server", "//trainer/...", ["//server/..."] + _CODECS),
    ("trainer-without-cli", "//trainer/...", ["//client/cli/..."]),
    ("common-is-a-leaf", "//common/...",
     ["//server/...", "//client/...", "//trainer/...", "//proto/...", "//third_party:grpc"]),
    ("common-looks-down", "//common:all", ["//common/picture/...", "//common/program/..."]),
    ("wire-without-grpc", "//proto/wire/...",
     ["//third_party:grpc", "//server/...", "//client/..."]),
    ("plan-is-pure", "//server/plan/...",
     ["//third_party:grpc", "@pyarrow//:arrow", "//third_party:lmdb"]),
    ("grpc-only-in-rpc",
     "//server/storage/... + //server/plan/... + //server/decode/... + //server/augment/... + "
     "//server/batch/... + //server/pipeline/... + //server/lease/... + //server/local/... + "
     "//client/local/... + "
     "//client/diagnosis/... + //client/prefetch/... + //client/audit/... + //client/torch/... + "
     "//client/flags/... + //client/batch_files/...",
     ["//third_party:grpc"]),
    ("programs-without-tests",
     "//server/... + //client/... + //trainer/... + //common/... + //proto/...",
     ["//third_party:gtest", "//third_party:benchmark", "//tests/..."]),
] + [
    (f"{stage}-stands-alone", f"//server/{stage}/...",
     [f"//server/{other}/..." for other in _STAGES if other != stage] +
     ["//server/pipeline/...", "//server/rpc/..."])
    for stage in _STAGES
]
