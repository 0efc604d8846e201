"""A pass that does not end is ended, with its name."""

from __future__ import annotations

import threading

from tenon._errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class _TooLong(BaseException):
    """Raised in the thread of a pass. Not an Exception, which the pass may catch."""


class _Watch:
    def __init__(self, seconds: float):
        self._thread = threading.get_ident()
        self._lock = threading.Lock()
        self._done = self._fired = False
        self._timer = threading.Timer(seconds, self._fire)
        self._timer.daemon = True
        self._timer.start()

    def _raise(self, kind: type[BaseException] | None) -> None:
        import ctypes

        made = None if kind is None else ctypes.py_object(kind)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._thread), made)

    def _fire(self) -> None:
        with self._lock:
            if not self._done:
                self._fired = True
                self._raise(_TooLong)

    def stop(self) -> None:
        self._timer.cancel()
        with self._lock:
            self._done = True
            if self._fired:
                self._raise(None)  # not in what follows the pass


def limited(name: str, seconds: float, work: Callable[[], None]) -> None:
    """Runs work of a pass. UsageError T0631 with its name once it takes longer."""
    try:
        watch = _Watch(seconds)
        try:
            work()
        finally:
            watch.stop()
    except _TooLong:
        raise UsageError(
            f"the pass {name} was ended after {seconds:g} s: perhaps one of its loops does not end. "
            "timeout=SECONDS of tenon.graph_pass allows more.",
            "T0631",
        ) from None
