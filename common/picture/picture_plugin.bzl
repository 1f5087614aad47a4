"""Where programs and tests in Bazel's output folder find libmillrace_picture.so."""

def picture_plugin_beside(name, visibility = None):
    """A copy in lib/ beside the programs of this package, as tools/build has it.

    Args:
      name: of the target; programs and tests name it in `data`.
      visibility: as everywhere.
    """
    native.genrule(
        name = name,
        srcs = ["//common/picture:libmillrace_picture.so"],
        outs = ["lib/libmillrace_picture.so"],
        cmd = "cp $< $@",
        visibility = visibility,
    )
