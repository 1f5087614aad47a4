"""The programs millrace-server, millrace-data and millrace, with the libraries that they need.

    pip install millrace_server-*.whl
    millrace-server --dataset=photos=lmdb:/srv/data/photos.lmdb --listen=127.0.0.1:7001

    subprocess.Popen([millrace_server.program("millrace-server"), ...])
"""

import os
import sys
from typing import NoReturn

PROGRAMS = ("millrace", "millrace-data", "millrace-server")


def program(name: str) -> str:
    """Path of a program.

    Raises:
      ValueError: there is no such program.
    """
    if name not in PROGRAMS:
        raise ValueError(f"there is no program {name!r}; the programs are {', '.join(PROGRAMS)}")
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", name)


def _become(name: str) -> NoReturn:
    # The process itself, so that signals reach the program.
    os.execv(program(name), [name, *sys.argv[1:]])


def run_millrace() -> NoReturn:
    """Becomes the program, with the arguments of this process."""
    _become("millrace")


def run_millrace_data() -> NoReturn:
    """As run_millrace()."""
    _become("millrace-data")


def run_millrace_server() -> NoReturn:
    """As run_millrace()."""
    _become("millrace-server")
