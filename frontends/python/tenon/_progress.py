"""One line about a compilation that takes long: what, how far, and how long so far."""

from __future__ import annotations

import contextlib
import threading
import time

from tenon import _native

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

AFTER_S = 2.0
"""Seconds of compiling until the line."""


class Progress:
    """What a thread compiles, and its stage. Made by `watched`."""

    def __init__(self, what: str):
        self.what = what
        self.stage: str | Callable[[], str] = ""
        """What it does now, in words; or a function that says so when it is asked."""
        self._begin = time.monotonic()
        self._is_main = threading.current_thread() is threading.main_thread()

    def text(self) -> str:
        seconds = time.monotonic() - self._begin
        stage = self.stage() if callable(self.stage) else self.stage
        return f"{self.what} has been compiled for {seconds:.0f} s: {stage or 'it begins'}"

    def kernels(self, of: str = "") -> str:
        """ "kernel 12 of 57", as far as the host knows: it reports to the main thread."""
        phase, done, total = _native.progress() if self._is_main else ("", 0, 0)
        suffix = f" of {of}" if of else ""
        if phase == "kernels" and total:
            return f"{done} of {total} kernels{suffix} are ready"
        return f"kernels{suffix} are made"


@contextlib.contextmanager
def watched(what: str) -> Iterator[Progress]:
    """Logs one line, component "progress", if the block takes longer than `AFTER_S`."""
    progress = Progress(what)

    def show() -> None:
        from tenon import logs

        logs.log("progress", progress.text())

    timer = threading.Timer(AFTER_S, show)
    timer.daemon = True
    timer.start()
    try:
        yield progress
    finally:
        timer.cancel()
