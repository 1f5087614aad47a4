"""precompiled_headers: system headers that are compiled once, for many sources.

Bazel 4 has no rule for precompiled headers. This rule compiles one with the
flags that C++ sources have in the configuration, followed by `copts`. A source
loads the result where it depends on the target and is compiled with

  gcc    -include PACKAGE/NAME.h     (looks for NAME.h.gch, here a folder)
  clang  -include-pch BIN/PACKAGE/NAME.h.pch    (BIN: bazel-out/.../bin)

Where the flags of the source differ from those here, gcc reads the headers
themselves and warns (-Winvalid-pch), and clang stops with an error. A source
must compile without the precompiled headers, too.
"""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

_ACTION = "c++-compile"

def _precompiled_headers_impl(ctx):
    toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )

    header = ctx.actions.declare_file(ctx.label.name + ".h")
    ctx.actions.write(header, "".join(["#include <%s>\n" % h for h in ctx.attr.headers]))

    flags = ctx.fragments.cpp.copts + ctx.fragments.cpp.cxxopts + ctx.attr.copts
    # Whether code is position-independent, as Bazel decides it for sources: in
    # the optimised build only that of shared libraries is, which hold no tests.
    pic = [True]
    if ctx.var["COMPILATION_MODE"] == "opt":
        pic = [False] if ctx.attr.testonly or ctx.attr.programs_only else [False, True]
    if "clang" in toolchain.compiler:
        # clang notes the absolute path of its input, so it cannot be a file of
        # the sandbox: an empty header of libc. Nor may the times of the headers
        # be noted, which differ between machines.
        source = "/usr/include/stdc-predef.h"
        outputs = {True: ctx.actions.declare_file(ctx.label.name + ".h.pch")}
        flags = flags + ["-Xclang", "-fno-pch-timestamp"]
        for name in ctx.attr.headers:
            flags = flags + ["-include", name]
    else:
        # Of a folder, gcc takes the first file that fits the flags.
        source = header.path
        outputs = {
            use_pic: ctx.actions.declare_file("%s.h.gch/%s" % (ctx.label.name, "pic" if use_pic else "no_pic"))
            for use_pic in pic
        }

    context = cc_common.merge_cc_infos(cc_infos = [dep[CcInfo] for dep in ctx.attr.deps]).compilation_context
    for use_pic, output in outputs.items():
        variables = cc_common.create_compile_variables(
            feature_configuration = features,
            cc_toolchain = toolchain,
            source_file = source,
            output_file = output.path,
            user_compile_flags = flags + ["-x", "c++-header"],
            include_directories = context.includes,
            quote_include_directories = context.quote_includes,
            system_include_directories = context.system_includes,
            use_pic = use_pic,
        )
        ctx.actions.run(
            executable = cc_common.get_tool_for_action(
                feature_configuration = features,
                action_name = _ACTION,
            ),
            arguments = cc_common.get_memory_inefficient_command_line(
                feature_configuration = features,
                action_name = _ACTION,
                variables = variables,
            ),
            env = cc_common.get_environment_variables(
                feature_configuration = features,
                action_name = _ACTION,
                variables = variables,
            ),
            inputs = depset([header], transitive = [toolchain.all_files, context.headers]),
            outputs = [output],
            mnemonic = "CppPrecompile",
        )
    return [CcInfo(compilation_context = cc_common.create_compilation_context(
        headers = depset([header] + outputs.values()),
    ))]

precompiled_headers = rule(
    implementation = _precompiled_headers_impl,
    attrs = {
        "headers": attr.string_list(
            mandatory = True,
            doc = "Headers of installed packages or of `deps`, as an #include names them.",
        ),
        "deps": attr.label_list(
            providers = [CcInfo],
            doc = "Libraries whose headers they are.",
        ),
        "programs_only": attr.bool(
            doc = "No shared library of the optimised build has such sources.",
        ),
        "copts": attr.string_list(
            doc = "Flags of the sources beyond those of the configuration.",
        ),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)
