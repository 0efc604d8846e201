"""The graph that a walk makes: what it notes of its nodes, and the symbols that it finds."""

from __future__ import annotations

from tenon.builder import GraphTrace, Value, ops

from .sizes import is_found

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from tenon.builder import Size

# Operators whose results have sizes of their own, so that a call may fail for what is asserted of them.
_FINDING = ("nonzero", "compress", "unique", "dim_from_scalar")


class WalkTrace(GraphTrace):
    """Notes whether a call may fail because of an index or a size, after it has written something."""

    checks = False
    depth = 0  # of regions
    names: Mapping[str, str] = {}  # of symbols, where they are others than torch's

    def __init__(self, name: str):
        super().__init__(name)
        self.found: dict[str, Size] = {}  # symbols of torch that this graph computes
        self.read: dict[
            str, Value
        ] = {}  # those that are elements, and become sizes when one is asked for

    def symbol(self, name: object, hint: int, text: str = "") -> Size:
        if name in self.read and name not in self.found:
            self.found[str(name)] = ops.one("dim_from_scalar", self.read[str(name)]).shape[0]
        if name in self.found:
            return self.found[str(name)]
        return super().symbol(self.names.get(str(name), name), hint, text)

    def learn(self, theirs: Sequence[Any], ours: Sequence[Size]) -> None:
        """Symbols that data decides are what the first value with them has."""
        for size, found in zip(theirs, ours):
            name = str(size.node.expr) if is_found(size) else ""
            if name and name not in self.symbols:
                self.found.setdefault(name, found)
                self.checks = True

    def region(self, types: Any, body: Any) -> int:
        self.depth += 1
        try:
            return super().region(types, body)
        finally:
            self.depth -= 1

    def emit(self, op: str, operands: Any, attrs: Any, regions: Any = ()) -> tuple[Value, ...]:
        in_bounds = any(name == "mode" and value == "in_bounds" for name, _, value in attrs)
        self.checks = self.checks or in_bounds or op in _FINDING
        return super().emit(op, operands, attrs, regions)
