"""Where programs and tests in Bazel's output folder find millrace-hdf5."""

def hdf5_program_beside(name, visibility = None):
    """A copy in lib/ beside the programs of this package, as tools/build has it.

    Args:
      name: of the target; programs and tests name it in `data`.
      visibility: as everywhere.
    """
    native.genrule(
        name = name,
        srcs = ["//server/storage/hdf5:millrace-hdf5"],
        outs = ["lib/millrace-hdf5"],
        cmd = "cp $< $@",
        executable = True,
        visibility = visibility,
    )
