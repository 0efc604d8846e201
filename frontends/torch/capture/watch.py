"""Lists that get each compiled graph, for `explain`."""

from __future__ import annotations

import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..program.partitioner import Compiled


class _Watch(threading.local):
    """Lists of this thread, to which each compiled graph is added."""

    def __init__(self) -> None:
        self.lists: list[list[Compiled]] = []


watch = _Watch()
