"""C++ code from .proto files, made by Debian's protoc."""

def cc_proto(name, src, deps = [], grpc = False, visibility = None):
    """Generates and compiles one .proto file of this package.

    Args:
      name: the cc_library.
      src: the .proto file.
      deps: other cc_proto targets of this package that src imports.
      grpc: whether to generate the service's stubs too (as NAME_grpc).
      visibility: of the libraries.
    """
    base = src[:-len(".proto")]
    package = native.package_name()
    native.filegroup(
        name = name + "_src",
        srcs = [src] + [d + "_src" for d in deps],
        visibility = visibility,
    )
    native.genrule(
        name = name + "_gen",
        srcs = [":" + name + "_src"],
        outs = [base + ".pb.h", base + ".pb.cc"],
        cmd = "protoc --proto_path=. --cpp_out=$(GENDIR) %s/%s" % (package, src),
    )
    native.cc_library(
        name = name,
        srcs = [base + ".pb.cc"],
        hdrs = [base + ".pb.h"],
        # Generated code is not ours to lint.
        copts = ["-w"],
        visibility = visibility,
        deps = deps + ["//third_party:protobuf"],
    )
    if grpc:
        native.genrule(
            name = name + "_grpc_gen",
            srcs = [":" + name + "_src"],
            outs = [base + ".grpc.pb.h", base + ".grpc.pb.cc"],
            cmd = "protoc --proto_path=. --plugin=protoc-gen-grpc=$$(which grpc_cpp_plugin) " +
                  "--grpc_out=$(GENDIR) %s/%s" % (package, src),
        )
        native.cc_library(
            name = name + "_grpc",
            srcs = [base + ".grpc.pb.cc"],
            hdrs = [base + ".grpc.pb.h"],
            copts = ["-w"],
            visibility = visibility,
            deps = [":" + name, "//third_party:grpc"],
        )
