"""How far the compilation of a graph is, for the line of `tenon.logs` after two seconds."""

from __future__ import annotations

import contextlib
import threading

from tenon.builder import host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class _Now(threading.local):
    """What this thread compiles."""

    def __init__(self) -> None:
        self.progress: host.Progress | None = None


_now = _Now()


@contextlib.contextmanager
def watched(what: str) -> Iterator[None]:
    """A graph of Dynamo: one line, if the block takes over two seconds. Within another one, that one's."""
    if _now.progress is not None:
        yield
        return
    with host.watched(what) as progress:
        progress.stage = "PyTorch traces it (AOTAutograd)"
        _now.progress = progress
        try:
            yield
        finally:
            _now.progress = None


@contextlib.contextmanager
def stage(text: str | Callable[[], str]) -> Iterator[None]:
    """A stage of what this thread compiles."""
    progress = _now.progress
    if progress is None:
        yield
        return
    before, progress.stage = progress.stage, text
    try:
        yield
    finally:
        progress.stage = before


def kernels(of: str) -> contextlib.AbstractContextManager[None]:
    """The stage in which the host compiles a program."""
    progress = _now.progress
    return stage(lambda: progress.kernels(of) if progress is not None else "")
