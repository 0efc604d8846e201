"""Relations between sizes: what a graph states of them, and what torch claims of those that data decides."""

from __future__ import annotations

import sympy  # type: ignore[import-untyped,unused-ignore]
from tenon import builder
from tenon.builder import MAYBE, NO, YES, ops
from tenon.builder import dtypes as dt

from .sizes import in_graph
from .table import Unsupported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tenon.builder import GraphTrace, Size

    from .walk import Walk


# ---- Stated: a call checks it before it computes anything that depends on it ----


def at_most(a: Size, b: Size) -> None:
    """States a <= b: what has b elements has at least a."""
    if isinstance(a, int) and isinstance(b, int):
        if a > b:
            raise Unsupported(f"{a} is more than {b}")
        return
    ops.slice_axis(ops.iota((b,), 0, dt.int64), 0, 0, a)


def below(a: Size, b: Size) -> None:
    at_most(a + 1, b)


def equal(a: Size, b: Size) -> None:
    at_most(a, b)
    at_most(b, a)


def differ(a: Size, b: Size) -> None:
    at_most(1, builder.larger(a, b) - builder.smaller(a, b))


# ---- Claimed ----

# By torch's sign: how it is stated, the number of a comparison of values, and that of one of sizes.
_RELATIONS: dict[str, tuple[Callable[[Any, Any], None], int, int]] = {
    "==": (equal, 0, builder.EQ), "!=": (differ, 1, builder.EQ), "<": (below, 2, builder.LT), "<=": (at_most, 3, builder.LE),
}  # fmt: skip
_TURNED = {">": "<", ">=": "<="}


def claim(walk: Walk, condition: Any) -> None:
    """A condition on sizes that torch asserts while a graph runs. What a graph can prove needs no check.

    It becomes a fact where arguments decide the sizes, else an assertion of the program.
    """
    for part in sympy.And.make_args(condition.node.expr):
        if part is not sympy.true:
            _claim(walk, part)


def _claim(walk: Walk, relation: Any) -> None:
    if not isinstance(relation, sympy.core.relational.Relational):
        raise Unsupported(f"the claim {relation}")
    sign, left, right = relation.rel_op, relation.lhs, relation.rhs
    if sign in _TURNED:
        sign, left, right = _TURNED[sign], right, left
    a, b = _sides(walk.trace, left - right)
    state, direction, number = _RELATIONS[sign]
    answer = _decided(walk.trace, number, a, b)
    if answer == (NO if sign == "!=" else YES):
        return
    if answer == MAYBE and not any(str(s) in walk.trace.found for s in relation.free_symbols):
        state(a, b)
        return
    if walk.trace.depth:
        raise Unsupported("a claim in a loop or a choice")
    left, right = (ops.size_value(size, dt.int64) for size in (a, b))
    walk.assertions.append(ops.compare(left, right, direction))


def _sides(trace: GraphTrace, difference: Any) -> tuple[Size, Size]:
    """Two sizes with this difference: no size is negative."""
    plus = minus = sympy.Integer(0)
    for term in sympy.Add.make_args(sympy.expand(difference)):
        if term.as_coeff_Mul()[0].is_negative:
            minus -= term
        else:
            plus += term
    return in_graph(trace, plus), in_graph(trace, minus)


def _decided(trace: GraphTrace, relation: int, a: Size, b: Size) -> int:
    left, right = trace.raw(a), trace.raw(b)
    assert left is not None and right is not None
    return trace.native.compare(relation, left, right)
