"""The lines of the program in graphs from torch's cache.

torch's key says nothing of lines, so an entry may be from before the user edited a file, or from another
file with the same network. A graph is therefore kept with the places of its nodes in Dynamo's graph,
which is the same whenever the key is, and gets the lines of the present one when it is loaded.
"""

from __future__ import annotations

import contextlib
import contextvars

from torch import fx

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

LINE = "tenon_line"
"""The key of a node's data that has the place of its line."""

_lines: contextvars.ContextVar[tuple[str, ...]] = contextvars.ContextVar("tenon_lines", default=())


@contextlib.contextmanager
def lines_of(gm: fx.GraphModule) -> Iterator[None]:
    """Within, graphs are kept and loaded with the lines of a graph of Dynamo."""
    before = _lines.set(tuple(map(_trace, _nodes(gm))))
    try:
        yield
    finally:
        _lines.reset(before)


def note(gm: fx.GraphModule) -> None:
    """Notes the places, in a graph that is going to be kept."""
    places: dict[str, int] = {}
    for place, trace in enumerate(_lines.get()):
        places.setdefault(trace, place)
    for node in _nodes(gm):
        if (trace := _trace(node)) and trace in places:
            node.meta[LINE] = places[trace]


def renew(gm: fx.GraphModule) -> None:
    """Gives a loaded graph the lines of now."""
    lines = _lines.get()
    for node in _nodes(gm):
        if node.meta.get(LINE, len(lines)) < len(lines):
            node.meta["stack_trace"] = lines[node.meta[LINE]]


def _nodes(gm: fx.GraphModule) -> Iterator[fx.Node]:
    for module in gm.modules():
        if isinstance(module, fx.GraphModule):
            yield from module.graph.nodes


def _trace(node: fx.Node) -> str:
    return node.meta.get("stack_trace") or ""
