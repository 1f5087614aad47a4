"""A repository rule that installs checkers from Python packages for the tests.

They are no part of the programs. pip decides where it looks: no index is named
here.
"""

def _python_tools_repository_impl(ctx):
    result = ctx.execute(
        ["python3", "-m", "pip", "install", "--quiet", "--no-compile", "--only-binary=:all:", "--target", "site"] +
        ([] if ctx.attr.dependencies else ["--no-deps"]) + ctx.attr.packages,
        environment = {"PIP_ROOT_USER_ACTION": "ignore"},
        timeout = 1800,
    )
    if result.return_code != 0:
        fail("cannot install %s with pip: %s%s\nCheck that python3 -m pip works and reaches a package index." %
             (", ".join(ctx.attr.packages), result.stdout, result.stderr))
    for pattern in ctx.attr.remove:
        ctx.execute(["bash", "-c", "rm -rf -- site/" + pattern])
    ctx.execute(["find", ".", "(", "-name", "BUILD", "-o", "-name", "BUILD.bazel", "-o", "-name", "* *", ")", "-delete"])
    ctx.file("BUILD", """
package(default_visibility = ["@//tests:__subpackages__"])

# The folder as one: thousands of schemas need no link each. Its content
# changes only together with the versions in WORKSPACE.
filegroup(
    name = "installed",
    srcs = ["site"],
)
""")

python_tools_repository = repository_rule(
    implementation = _python_tools_repository_impl,
    attrs = {
        "packages": attr.string_list(mandatory = True, doc = "pip requirements, each with its version"),
        "dependencies": attr.bool(default = True, doc = "also what the packages say they need; off: `packages` is all that is installed"),
        "remove": attr.string_list(doc = "shell patterns of what is not needed, to keep the folder small"),
    },
)
