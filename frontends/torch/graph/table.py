"""The table of operators: which function of ours computes an overload of torch's.

A lowering is a function in one of the files of `lowerings/`:

    @lowering("aten.neg.default")
    def neg(n, x):
        return ops.one("neg", n.to_result(x))

`n` is the `Node`; the others are the arguments of torch's operator by its schema, with `Value` for
tensors, numbers, sizes (`int` or `Dim`), and lists of them. It returns a value, or a tuple of values
where the operator has several results; None for a result that is not read. `Unsupported` sends the
node back to torch. Element types and sizes of the results must be those that torch gives the node.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Lowering = Callable[..., Any]

_lowerings: dict[str, Lowering] = {}


class Unsupported(Exception):
    """A node that stays in torch; the text says why."""


def lowering(*overloads: str) -> Callable[[Lowering], Lowering]:
    """Makes a function the lowering of these overloads ("aten.add.Tensor")."""

    def add(function: Lowering) -> Lowering:
        for overload in overloads:
            assert overload not in _lowerings, overload
            _lowerings[overload] = function
        return function

    return add


def find(target: Any) -> Lowering | None:
    """The lowering of an overload, or None. Values share no memory, so a view and its copy have one lowering.

    That is so in torch's own namespace: elsewhere `fast_copy` need not be a copy of `fast`. Importing
    `tenon.torch.lowerings` fills the table.
    """
    name = str(target)
    found = _lowerings.get(name)
    if found is None and name.startswith("aten."):
        found = _lowerings.get(name.replace("_copy.", ".", 1))
    return found


def overloads() -> list[str]:
    """All overloads that have a lowering."""
    return sorted(_lowerings)
