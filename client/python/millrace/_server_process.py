"""The data server of this user and machine: where its program and files are, and how it is started.

Files are in a folder that only the user can enter: `/tmp/millrace-UID`, or MILLRACE_RUN_DIR. Servers
of another release, build, or MILLRACE_SERVER_FLAGS have files of their own, and so have processes that
see other files or another network (containers).
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import hashlib
import os
import select
import shlex
import shutil
import stat
import subprocess
import time
from typing import Iterator, NamedTuple

from millrace import _millrace
from millrace.errors import (DeadlineExceededError, Error, FailedPreconditionError,
                             InvalidArgumentError, NotFoundError, PermissionDeniedError,
                             UnavailableError)

_NAME = "millrace-server"
# Seconds that a server may take to listen, and that another process may take to start one.
_START_SECONDS = 60
# Of a Unix socket's path in the system.
_MAX_SOCKET_PATH = 107
_TAIL_LINES, _TAIL_BYTES = 6, 2000
# Exit code of a mistake on the command line.
_EXIT_USAGE = 2

# Servers that this process has started, to be reaped when they end.
_started: list[subprocess.Popen[bytes]] = []


@atexit.register
def _leave_servers() -> None:
    for process in _started:
        if process.poll() is None:
            process.returncode = 0  # it lives on, for other processes: that is no mistake


class Files(NamedTuple):
    """What belongs to one server."""

    program: str
    flags: tuple[str, ...]
    base: str  # path without the suffix

    @property
    def socket(self) -> str:
        """Where leases are taken."""
        return self.base + ".socket"

    @property
    def log(self) -> str:
        """What the server has logged since it was started; that of its predecessor is log + ".old"."""
        return self.base + ".log"

    def last_words(self) -> str:
        """The last lines of the log, as the end of a sentence."""
        try:
            with open(self.log, "rb") as file:
                file.seek(max(0, os.path.getsize(self.log) - _TAIL_BYTES))
                lines = file.read().decode("utf-8", "replace").strip().splitlines()[-_TAIL_LINES:]
        except OSError:
            lines = []
        said = "\n  ".join(["; its last lines are:", *lines]) if lines else ""
        return f"; the log of the data server is {self.log}{said}"


def _folder() -> str:
    chosen = os.environ.get("MILLRACE_RUN_DIR")
    if chosen and not os.path.isabs(chosen):
        # Programs with other working directories would each have a server of their own.
        raise InvalidArgumentError(f"MILLRACE_RUN_DIR={chosen}: expected the whole path of a folder, for example "
                                   f"{os.path.abspath(os.path.expanduser(chosen))}")
    path = os.path.realpath(chosen) if chosen else f"/tmp/millrace-{os.geteuid()}"
    advice = "; set MILLRACE_RUN_DIR to a folder of your own (mode 0700)"
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        pass
    except OSError as error:
        raise PermissionDeniedError(
            f"cannot make {path}, the folder for the data server of this machine: "
            f"{error.strerror}{advice}") from error
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise PermissionDeniedError(
            f"{path}, the folder for the data server of this machine, is not a folder that only you "
            f"can enter{advice}")
    return path


def _program() -> str:
    chosen = os.environ.get("MILLRACE_SERVER")
    if chosen:
        path = shutil.which(chosen)
        if path is None:
            raise NotFoundError(f"MILLRACE_SERVER={chosen}: there is no such program")
        return os.path.abspath(path)
    with contextlib.suppress(ImportError):
        import millrace_server  # type: ignore[import-not-found,unused-ignore]
        path = str(millrace_server.program(_NAME))
        if os.access(path, os.X_OK):
            return path
    path = shutil.which(_NAME)
    if path is None:
        raise NotFoundError(
            f"data of this machine are read by the program {_NAME}, which is not installed; "
            "tools/build-wheel writes its wheel beside the one of the client: "
            f"`pip install {_wheel()}`, or set MILLRACE_SERVER to the path of the program, or give the "
            "HOST:PORT of a data server that runs")
    return os.path.abspath(path)


def _wheel() -> str:
    """The wheel with the program, of this release, for a shell: in the folder that pip has installed
    this package from, where pip has noted it. A file, because an index has the names of strangers."""
    import importlib.metadata  # for an error only: it takes 20 ms
    import json
    import urllib.parse
    name = f"millrace_server-{_millrace.version()}-*.whl"
    noted = None
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        noted = importlib.metadata.distribution("millrace").read_text("direct_url.json")
    with contextlib.suppress(ValueError):
        url = urllib.parse.urlsplit(str(json.loads(noted or "{}").get("url", "")))
        if url.scheme == "file" and url.path.endswith(".whl"):
            folder = os.path.dirname(urllib.parse.unquote(url.path))
            return f"{shlex.quote(folder)}/{name}"
    return f"dist/{name}"


def _namespace(name: str) -> str:
    try:
        return os.readlink(f"/proc/self/ns/{name}")
    except OSError:
        return ""


def find() -> Files:
    """The files of the server that serves this process.

    Raises:
      NotFoundError: the program is not installed; says how to install it.
      PermissionDeniedError: the folder belongs to somebody else.
      InvalidArgumentError: MILLRACE_SERVER_FLAGS or MILLRACE_RUN_DIR cannot be used.
    """
    program = os.path.realpath(_program())
    try:
        flags = tuple(shlex.split(os.environ.get("MILLRACE_SERVER_FLAGS", "")))
    except ValueError as error:
        raise InvalidArgumentError(f"MILLRACE_SERVER_FLAGS cannot be split into flags: {error}") \
            from error
    build = os.stat(program)
    same = [_millrace.version(), program, str(build.st_dev), str(build.st_ino), str(build.st_size),
            str(build.st_mtime_ns), _namespace("net"), _namespace("mnt"), *flags]
    key = hashlib.sha256("\0".join(same).encode("utf-8", "surrogateescape")).hexdigest()[:12]
    files = Files(program, flags, os.path.join(_folder(), f"server-{_millrace.version()}-{key}"))
    if len(os.fsencode(files.socket)) > _MAX_SOCKET_PATH:
        raise InvalidArgumentError(
            f"the path {files.socket} is too long for a socket (maximum {_MAX_SOCKET_PATH} bytes): "
            "set MILLRACE_RUN_DIR to a shorter one")
    return files


@contextlib.contextmanager
def starting(files: Files) -> Iterator[None]:
    """One process at a time is in here. A process that is killed leaves."""
    path = files.base + ".lock"
    deadline = time.monotonic() + _START_SECONDS
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise DeadlineExceededError(
                        f"another process has held {path} for {_START_SECONDS} s to start the data "
                        "server of this machine: end that process, or try again"
                        + files.last_words()) from None
                time.sleep(0.01)
        yield
    finally:
        os.close(descriptor)


def reap() -> None:
    """Of servers that this process has started, those that have ended leave the process table."""
    _started[:] = [process for process in _started if process.poll() is None]


def start(files: Files) -> None:
    """Starts the server, within `starting(files)`; returns when it takes leases. It lives on when this
    process ends, and does not get the terminal's signals.

    Raises:
      UnavailableError: it has ended instead.
      FailedPreconditionError: it does not know a flag, or a value of MILLRACE_SERVER_FLAGS.
      DeadlineExceededError: it does not listen in time.
    """
    with contextlib.suppress(FileNotFoundError):
        os.replace(files.log, files.log + ".old")
    command = [files.program, f"--lease_socket={files.socket}", *files.flags]
    log = os.open(files.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=log, cwd="/", start_new_session=True)
    except OSError as error:
        raise UnavailableError(f"cannot start {files.program}: {error.strerror}") from error
    finally:
        os.close(log)
    _started.append(process)
    try:
        failure = _await_listening(process, files)
    except BaseException:  # Ctrl-C: a server that nobody waits for ends by itself
        _close_output(process)
        raise
    _close_output(process)
    if failure is not None:
        raise failure


def _close_output(process: subprocess.Popen[bytes]) -> None:
    assert process.stdout is not None
    process.stdout.close()


def _await_listening(process: subprocess.Popen[bytes], files: Files) -> Error | None:
    """What went wrong; None: it listens."""
    assert process.stdout is not None
    output = process.stdout.fileno()
    deadline = time.monotonic() + _START_SECONDS
    while True:
        wait = deadline - time.monotonic()
        if wait <= 0 or not select.select([output], [], [], wait)[0]:
            process.kill()
            return DeadlineExceededError(
                f"the data server of this machine does not listen after {_START_SECONDS} s"
                + files.last_words())
        text = os.read(output, 4096)
        if b"\n" in text:
            return None
        if not text:  # it has ended, or ends
            code = process.wait()
            kind: type[Error] = FailedPreconditionError if code == _EXIT_USAGE else UnavailableError
            how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
            flags = " (MILLRACE_SERVER_FLAGS=" + " ".join(files.flags) + ")" if files.flags else ""
            return kind(f"the data server of this machine, {files.program}{flags}, {how} when it "
                        f"started{files.last_words()}")
