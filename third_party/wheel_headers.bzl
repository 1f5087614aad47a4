"""A repository rule that keeps the headers of Python wheels and nothing else.

As wheel_repository, for libraries that are opened where a GPU is present and
are not linked: their wheels hold hundreds of megabytes that no build needs.
"""

_UNPACK = """
import glob, zipfile
for wheel in glob.glob('wheels/*.whl'):
    archive = zipfile.ZipFile(wheel)
    for name in archive.namelist():
        if '/include/' in name or '/licenses/' in name:
            archive.extract(name, '.')
"""

def _wheel_headers_repository_impl(ctx):
    result = ctx.execute(
        ["python3", "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest", "wheels"] +
        ctx.attr.wheels,
        timeout = 1800,
    )
    if result.return_code != 0:
        fail("cannot download %s with pip: %s%s\nCheck that python3 -m pip works and reaches a package index." %
             (", ".join(ctx.attr.wheels), result.stdout, result.stderr))
    result = ctx.execute(["python3", "-c", _UNPACK], timeout = 600)
    if result.return_code != 0:
        fail("cannot unpack %s: %s" % (", ".join(ctx.attr.wheels), result.stderr))
    ctx.delete("wheels")

    # BUILD files inside a wheel would hide folders from Bazel.
    ctx.execute(["find", ".", "(", "-name", "BUILD", "-o", "-name", "BUILD.bazel", ")", "-delete"])
    ctx.symlink(ctx.attr.build_file, "BUILD")

wheel_headers_repository = repository_rule(
    implementation = _wheel_headers_repository_impl,
    attrs = {
        "wheels": attr.string_list(mandatory = True, doc = "pip requirements, each with its version"),
        "build_file": attr.label(mandatory = True, allow_single_file = True),
    },
)
