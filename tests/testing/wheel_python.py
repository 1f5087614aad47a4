"""A Python with torch, for tests of what Python does with files and programs of ours.

The PyTorch wheel that libtorch is taken from has all of it; it also wants libraries of NVIDIA that
no machine without a GPU needs. Empty ones in their place do. Where that does not work (another
version of Python), the Python in MILLRACE_TORCH_PYTHON is taken.

    found, why = wheel_python.find(work)
    if found is None:
        self.skipTest(why)
    subprocess.run([*found.command, wheel_python.BEGIN + "import torch ..."],
                   env={**os.environ, **found.environment})

Test data: //tests/testing:libempty.so, //third_party:torch and :typing_extensions; tag "local", for
it follows the links to the whole wheel.
"""

import dataclasses
import glob
import os
import subprocess
import sys

_NEEDED_BY_CUDA = ("libcudnn.so.9", "libcufile.so.0", "libcusparse.so.12", "libcufft.so.12",
                   "libcusparseLt.so.0", "libnccl.so.2", "libcurand.so.10", "libcublas.so.13",
                   "libcublasLt.so.13", "libnvshmem_host.so.3")
# Scripts begin with it: symbols of the empty libraries are missed only when they are called.
BEGIN = """
import os, sys, warnings
sys.setdlopenflags(os.RTLD_LAZY)
warnings.simplefilter("ignore")
"""


@dataclasses.dataclass(frozen=True)
class Python:
    command: list  # and then the script
    environment: dict


def _compiled(work):
    """Environment in which modules are compiled once for all processes of a test: torch takes 4 s of
    CPU time to import, and 9 s if its modules are compiled first."""
    return {"PYTHONPYCACHEPREFIX": os.path.join(work, "compiled")}


def _of_the_wheel(work):
    library = [file for pattern in ("_solib_*/*/libtorch_cpu.so", "../torch/torch/lib/libtorch_cpu.so")
               for file in glob.glob(pattern)]
    if not library:
        return None
    # The link leads to the whole wheel, of which Bazel names only the libraries.
    wheel = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(library[0]))))
    typing = glob.glob("external/typing_extensions/typing_extensions.py") + glob.glob(
        "../typing_extensions/typing_extensions.py")
    empty = os.path.join(work, "empty")
    os.mkdir(empty)
    for name in _NEEDED_BY_CUDA:
        os.symlink(os.path.realpath("tests/testing/libempty.so"), os.path.join(empty, name))
    path = [wheel] + [os.path.dirname(os.path.realpath(file)) for file in typing]
    return Python([sys.executable, "-c"],
                  {"PYTHONPATH": ":".join(path), **_compiled(work),
                   "LD_LIBRARY_PATH": f"{empty}:{wheel}/nvidia/cu13/lib"})


def find(work, needs="import torch"):
    """(Python, ""), or (None, why there is none) where `needs` fails. `work`: a folder that stays as
    long as it is used."""
    candidates = [_of_the_wheel(work)]
    if os.environ.get("MILLRACE_TORCH_PYTHON"):
        candidates.append(Python([os.environ["MILLRACE_TORCH_PYTHON"], "-c"], _compiled(work)))
    why = "no wheel of PyTorch is here, and MILLRACE_TORCH_PYTHON is not set"
    for candidate in filter(None, candidates):
        tried = subprocess.run([*candidate.command, BEGIN + needs],
                               env={**os.environ, **candidate.environment},
                               stdin=subprocess.DEVNULL, capture_output=True, text=True,
                               check=False)
        if tried.returncode == 0:
            return candidate, ""
        why = f"{candidate.command[0]} has no torch that works: {tried.stderr.strip()[-300:]}"
    return None, why
