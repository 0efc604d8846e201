"""The table of operators: which function of ours computes an overload of torch's.

A row is a function in one of the files `ops_*.py`:

    @row("aten.neg.default")
    def neg(n, x):
        return _ops.one("neg", n.to_result(x))

`n` is the `Node`; the others are the arguments of torch's operator by its schema, with `Value` for
tensors, numbers, sizes (`int` or `Dim`), and lists of them. It returns a value, or a tuple of values
where the operator has several results; None for a result that nobody reads. `Refused` sends the node
back to torch. Element types and sizes of the results must be those that torch gives the node.
"""

from __future__ import annotations

import functools

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Row = Callable[..., Any]

_rows: dict[str, Row] = {}


class Refused(Exception):
    """A node that stays in torch; the text says why."""


def row(*overloads: str) -> Callable[[Row], Row]:
    """Makes a function the row of these overloads ("aten.add.Tensor")."""

    def add(function: Row) -> Row:
        for overload in overloads:
            assert overload not in _rows, overload
            _rows[overload] = function
        return function

    return add


@functools.cache
def _load() -> dict[str, Row]:
    import importlib

    for name in ("attention", "bags", "complex", "control", "index", "linalg", "linear", "masks", "nn", "pointwise", "pool", "quantised", "random", "reduce", "scatter", "shape", "sort", "training"):
        importlib.import_module(f"tenon.torch.ops_{name}")
    return _rows


def find(target: Any) -> Row | None:
    """The row of an overload, or None. Values have no memory to share, so a view and its copy have one row.

    That is so in torch's own namespace: elsewhere `fast_copy` need not be a copy of `fast`.
    """
    name = str(target)
    rows = _load()
    found = rows.get(name)
    if found is None and name.startswith("aten."):
        found = rows.get(name.replace("_copy.", ".", 1))
    return found


def overloads() -> list[str]:
    """All overloads that have a row."""
    return sorted(_load())
