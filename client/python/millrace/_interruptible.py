"""Ctrl-C ends a call that waits in the client library without looking at signals.

    text = _interruptible.call(lambda: native.explain(0, 7), native.cancel_explain)
"""

from __future__ import annotations

import threading
from typing import Callable, TypeVar

_Result = TypeVar("_Result")
# Until `cancel` is called again: the call may not have begun to wait.
_AGAIN_SECONDS = 0.01


def call(act: Callable[[], _Result], cancel: Callable[[], None]) -> _Result:
    """Returns or raises what `act()` does. An exception of a signal's handler, such as
    KeyboardInterrupt, comes at once; `cancel()` then makes `act()` end, on whatever thread it is.

    Handlers run in the main thread only, so there `act()` gets a thread of its own.
    """
    if threading.current_thread() is not threading.main_thread():
        return act()
    results: list[_Result] = []
    errors: list[BaseException] = []
    done = threading.Event()

    def run() -> None:
        try:
            results.append(act())
        except BaseException as error:
            errors.append(error)
        finally:
            done.set()

    # Daemon: the interpreter may end while `act()` does, after a second Ctrl-C.
    thread = threading.Thread(target=run, name="millrace-call", daemon=True)
    try:
        thread.start()
        done.wait()
    except RuntimeError:
        if thread.ident is not None:
            raise
        return act()  # the interpreter ends, and makes no more threads
    except BaseException:
        while thread.is_alive() and not done.is_set():
            cancel()
            done.wait(_AGAIN_SECONDS)
        raise
    if errors:
        raise errors.pop()
    return results[0]
