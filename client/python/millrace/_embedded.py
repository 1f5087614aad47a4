"""Data named in the place of an endpoint: leases on the data server of this user and machine.

A lease is a connection to the server's Unix socket (docs/protocol.md, "Leases"). The system ends it
with the process, however that ends, and the server ends some seconds after the last one. Each open
loader holds a lease. A forked child closes its copies.

Threads: an object is used by the thread that opens its loader; `release()` by any.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
import weakref
from typing import Any

from millrace import _arrays, _millrace, _server_process, errors
from millrace.errors import (CancelledError, DeadlineExceededError, Error, InternalError,
                             InvalidArgumentError, UnavailableError)

_PROTOCOL = "millrace-lease-1"
_MAX_PACKET_BYTES = 8192
# Seconds without a sign of life after which the server counts as hung. It sends one every second.
_SILENCE_SECONDS = 15.0
# Servers that may end in a row before one serves a dataset, or a batch.
ATTEMPTS = 3


class _ServerEnded(Exception):
    """The other side has closed the connection."""


class _Lease:
    """One connection. Not taken when it is made: see take()."""

    def __init__(self, files: _server_process.Files) -> None:
        self.files = files
        self.released = False
        self.lost = False  # the server has ended before the lease was released
        self._watched = False
        # Guards released, _watched and the end of the socket. Reentrant: a garbage collection under it
        # may release the lease.
        self._lock = threading.RLock()
        # Closed in a program that this process starts; for forks see _close_in_child().
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        _leases.add(self)

    def connect(self) -> bool:
        """False: nobody listens there."""
        deadline = time.monotonic() + _SILENCE_SECONDS
        self._socket.settimeout(_SILENCE_SECONDS)
        while True:
            try:
                self._socket.connect(self.files.socket)
                return True
            except (FileNotFoundError, ConnectionRefusedError):
                return False
            except BlockingIOError:  # many processes connect at this moment
                if time.monotonic() > deadline:
                    raise self._hung() from None
                time.sleep(0.01)
            except TimeoutError:
                raise self._hung() from None

    def take(self, uri: str, name: str, arrays: _arrays.Arrays | None) -> tuple[str, str]:
        """(HOST:PORT of the server, name of the dataset there)."""
        request = "\0".join([_PROTOCOL, "add", uri, name]).encode("utf-8", "surrogateescape")
        if len(request) > _MAX_PACKET_BYTES:
            raise InvalidArgumentError(f"the path of {uri[:100]}... is too long")
        try:
            if arrays is None:
                self._socket.send(request)
            else:
                socket.send_fds(self._socket, [request], [arrays._file])
        except OSError as error:
            raise _ServerEnded from error
        while True:
            verb, *texts = self._receive(arrays)
            if verb == "error":
                raise errors.from_status(
                    texts[0], f"cannot read {uri}: {texts[1]}; the log of the data server is "
                    f"{self.files.log}", "{}")
            if verb == "added":
                return texts[0], texts[1]

    def _receive(self, arrays: _arrays.Arrays | None) -> list[str]:
        """Verb and texts of a packet. A file that comes with it takes the place of that of the arrays."""
        try:
            packet, files, _, _ = socket.recv_fds(self._socket, _MAX_PACKET_BYTES, 1,
                                                  socket.MSG_CMSG_CLOEXEC)
        except TimeoutError:
            raise self._hung() from None
        except OSError as error:
            raise _ServerEnded from error
        for file in files:
            try:
                if arrays is not None:
                    arrays._share(file)
            finally:
                os.close(file)
        if not packet:
            raise _ServerEnded
        protocol, *texts = packet.decode("utf-8", "replace").split("\0")
        if protocol != _PROTOCOL or not texts:
            raise InternalError(f"the data server at {self.files.socket} answers with {protocol!r} "
                                f"instead of {_PROTOCOL}")
        return texts

    def _hung(self) -> Error:
        return DeadlineExceededError(
            f"the data server of this machine has not answered for {_SILENCE_SECONDS:.0f} s: end the "
            f"process that listens at {self.files.socket}, and call again{self.files.last_words()}")

    def watch(self, native: _millrace.Loader) -> None:
        """Closes `native` when the server ends, so that nobody waits for a batch of it."""
        with self._lock:
            if self.released:
                return
            self._watched = True
        self._socket.settimeout(None)
        threading.Thread(target=self._await_end, args=(native,), name="millrace-lease",
                         daemon=True).start()

    def _await_end(self, native: _millrace.Loader) -> None:
        with contextlib.suppress(OSError):
            while self._socket.recv(_MAX_PACKET_BYTES):
                pass
        with self._lock:
            self.lost = not self.released
            self._socket.close()
        if self.lost:
            native.close()

    def release(self) -> None:
        """Idempotent."""
        with self._lock:
            if self.released:
                return
            self.released = True
            _leases.discard(self)
            with contextlib.suppress(OSError):  # not connected, or over
                self._socket.shutdown(socket.SHUT_RDWR)  # ends a wait in another thread
            # The thread that waits at the socket closes it: until then, no other gets its number.
            if not self._watched:
                self._socket.close()

    def close_in_child(self) -> None:
        """Without an effect on the parent."""
        self._lock = threading.RLock()  # the other may be held by a thread that is not here
        self.released = True
        self._socket.close()


_leases: set[_Lease] = set()


def _close_in_child() -> None:
    for lease in list(_leases):
        lease.close_in_child()
    _leases.clear()


os.register_at_fork(after_in_child=_close_in_child)


class Data:
    """The data of one loader: a text such as "lmdb:/data/train.lmdb", or arrays, which are copied when
    the object is made; and the lease while the loader is open. One of a text that has not been opened
    can be pickled."""

    def __init__(self, data: str | _arrays.Arrays, dataset: str | None) -> None:
        self._arrays: _arrays.Arrays | None = None
        if isinstance(data, _arrays.Arrays):
            data._copy()
            self._arrays, data = data, data._uri
        self.uri = data
        self._dataset = dataset
        self._lease: _Lease | None = None
        self._end: weakref.finalize[..., Any] | None = None  # of the lease, with its loader
        self._closed = False

    @property
    def lost(self) -> bool:
        """Whether the server of the lease has ended."""
        return self._lease is not None and self._lease.lost

    def open(self, loader: Any) -> dict[str, str]:
        """Takes a lease, from a new server if there is none, and returns the options that say where
        the data are. The lease ends with the object `loader` at the latest.

        Raises:
          NotFoundError: there are no data, or the program of the server is not installed.
          PermissionDeniedError, DataLossError, AlreadyExistsError and others: what the server says of
            the data.
          UnavailableError, FailedPreconditionError, DeadlineExceededError: the server does not start,
            ends, or hangs; each with the last lines of its log.
          CancelledError: closed.
        """
        self.release()
        files = _server_process.find()
        _server_process.reap()
        for _ in range(ATTEMPTS):
            lease = self._lease = _Lease(files)
            self._end = weakref.finalize(loader, lease.release)
            try:
                if self._closed:
                    raise _ServerEnded
                if not lease.connect():
                    with _server_process.starting(files):
                        if not lease.connect():  # another process has not been faster
                            _server_process.start(files)
                            if not lease.connect():
                                raise _ServerEnded
                address, name = lease.take(self.uri, self._dataset or "", self._arrays)
                return {"endpoint": address, "dataset": name}
            except _ServerEnded:
                self.release()
                if self._closed:
                    raise CancelledError("the loader was closed; make a new one") from None
                # It was about to end, or it has crashed.
            except BaseException as error:
                self.release()
                if isinstance(error, OSError) and not isinstance(error, Error):
                    raise UnavailableError(f"cannot use the data server of this machine: {error}"
                                           f"{files.last_words()}") from error
                raise
        raise UnavailableError(
            f"the data server of this machine has ended {ATTEMPTS} times before it served "
            f"{self.uri}{files.last_words()}")

    def watch(self, native: _millrace.Loader) -> None:
        """From now on, the end of the server closes `native`."""
        if self._lease is not None:
            self._lease.watch(native)

    def release(self) -> None:
        """The lease is over."""
        if self._end is not None:
            self._end.detach()  # a loader that is opened again and again keeps no lease but the last
        if self._lease is not None:
            self._lease.release()

    def close(self) -> None:
        """The same, for good: also of a lease that another thread is taking."""
        self._closed = True
        self.release()

    def explain(self, error: BaseException, doing: str) -> BaseException:
        """The same error, or one that says more: of a server that has ended or does not answer, with
        its log."""
        if self._lease is None:
            return error
        words = self._lease.files.last_words()
        if self.lost and not self._closed and isinstance(error, CancelledError):
            return UnavailableError(
                f"the data server of this machine has ended while it {doing} {self.uri}{words}")
        if isinstance(error, UnavailableError):
            return UnavailableError(error.message + words, error.detail)
        if isinstance(error, DeadlineExceededError):
            return DeadlineExceededError(error.message + words, error.detail)
        return error

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_lease": None, "_end": None}
