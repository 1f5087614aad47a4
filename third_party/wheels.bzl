"""A repository rule that takes C++ headers and libraries out of Python wheels.

pip decides where it looks: no index is named here.
"""

def _wheel_repository_impl(ctx):
    result = ctx.execute(
        ["python3", "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest", "wheels"] +
        ctx.attr.wheels,
        timeout = 1800,
    )
    if result.return_code != 0:
        fail("cannot download %s with pip: %s%s\nCheck that python3 -m pip works and reaches a package index." %
             (", ".join(ctx.attr.wheels), result.stdout, result.stderr))
    result = ctx.execute([
        "python3",
        "-c",
        "import glob, zipfile\nfor w in glob.glob('wheels/*.whl'): zipfile.ZipFile(w).extractall('.')",
    ], timeout = 1800)
    if result.return_code != 0:
        fail("cannot unpack %s: %s" % (", ".join(ctx.attr.wheels), result.stderr))
    ctx.delete("wheels")

    # BUILD files inside a wheel would hide folders from the glob.
    ctx.execute(["find", ".", "(", "-name", "BUILD", "-o", "-name", "BUILD.bazel", ")", "-delete"])
    ctx.symlink(ctx.attr.build_file, "BUILD")

wheel_repository = repository_rule(
    implementation = _wheel_repository_impl,
    attrs = {
        "wheels": attr.string_list(mandatory = True, doc = "pip requirements, each with its version"),
        "build_file": attr.label(mandatory = True, allow_single_file = True),
    },
)
