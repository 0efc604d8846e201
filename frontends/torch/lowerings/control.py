"""Operators of higher order: choices, loops, scans, and effects. And assertions.

Where it is cheap, both branches of a choice are computed, and a scan is written out step by step, so
that all of it fuses with what is around. Otherwise they become nodes with regions.
"""

from __future__ import annotations

import math

from tenon.builder import Value, larger, ops
from tenon.builder import dtypes as dt

import torch
from torch import fx

from ..graph.node import Node
from ..graph.table import Unsupported, find, lowering

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

# Nodes of a graph that is written out, all copies of it together.
_WRITTEN_MOST = 200
# At most so many nodes of a branch are computed even if the other branch is taken.
_IN_VAIN_MOST = 16
# What may fail for some values of integers.
_DIVISIONS = ("div", "remainder", "fmod")


def _nodes(graph: fx.GraphModule) -> list[fx.Node]:
    return [n for n in graph.graph.nodes if n.op == "call_function"]


def _is_harmless(node: fx.Node) -> bool:
    """Whether it is computed element by element and cannot fail."""
    if torch.Tag.pointwise not in getattr(node.target, "tags", ()):
        return False
    fake = node.meta.get("val")
    floats = isinstance(fake, torch.Tensor) and fake.is_floating_point()
    return floats or not any(d in str(node.target) for d in _DIVISIONS)


def _is_cheap(graph: fx.GraphModule) -> bool:
    nodes = _nodes(graph)
    return len(nodes) <= _IN_VAIN_MOST and all(map(_is_harmless, nodes))


def _tensors(values: Sequence[Any]) -> list[Value]:
    if not all(isinstance(v, Value) for v in values):
        raise Unsupported("a number among the operands")
    return list(values)


def _like(made: Sequence[Value], types: Sequence[Value]) -> list[Value]:
    """What a step makes, checked to be as what it was given."""
    if len(made) < len(types) or any(
        a.dtype is not b.dtype or len(a.shape) != len(b.shape) for a, b in zip(made, types)
    ):
        raise Unsupported("a step that changes the types of what it is given")
    return [ops.reshape(a, b.shape) for a, b in zip(made, types)]


def _truth(x: Any) -> Value:
    if not isinstance(x, Value) or math.prod(s if isinstance(s, int) else 2 for s in x.shape) != 1:
        raise Unsupported("a choice that no tensor makes")
    return ops.reshape(x, ())


@lowering("aten._assert_async.default", "aten._assert_async.msg")
def assert_async(n: Node, holds: Value, message: str = "") -> None:
    """What `assert` becomes for a tensor. A call of the program fails before it writes anything."""
    if n.trace.depth:
        raise Unsupported("an assertion in a loop or a choice")
    n.walk.assertions.append(_truth(ops.compare(holds, ops.like(holds, 0), 1)))


def assert_all(n: Node, holds: Value) -> None:
    """An assertion of every element."""
    assert_async(
        n,
        ops.one("reduce_and", holds, dims=tuple(range(len(holds.shape)))) if holds.shape else holds,
    )


# Effects that are an assertion: a program has no others.
_ASSERTIONS = (
    "aten._linalg_check_errors.default",
    "aten._assert_async.default",
    "aten._assert_async.msg",
)


@lowering("aten._linalg_check_errors.default")
def linalg_check_errors(n: Node, info: Value, api_name: str, *, is_matrix: bool) -> None:
    """What torch raises where a factorisation says that it did not succeed."""
    assert_all(n, ops.compare(info, ops.like(info, 0), 0))


@lowering("with_effects")
def with_effects(
    n: Node, token: Any, effect: Any, *args: Any, **given: Any
) -> tuple[Value | None, ...]:
    """An assertion, and the token of the next effect. Others stay in torch, in the order of their tokens."""
    found = find(effect) if str(effect) in _ASSERTIONS else None
    if found is None:
        raise Unsupported(f"the effect {effect}")
    found(n, *args, **given)
    return ops.full((0,), 0, n.dtype), None


@lowering("cond")
def cond(n: Node, chosen: Any, yes: Any, no: Any, operands: Sequence[Any]) -> tuple[Value, ...]:
    """Both results, of which one is taken; or one of two regions."""
    p = _truth(chosen)
    if _is_cheap(yes) and _is_cheap(no):
        pairs = zip(n.walk.inline(yes, operands), n.walk.inline(no, operands))
        return tuple(ops.select(ops.broadcast_to(p, a.shape), a, b) for a, b in pairs)

    def branch(graph: Any) -> Callable[[], Sequence[Value]]:
        return lambda: [
            ops.reshape(v, n.shape_of(f)) for v, f in zip(n.walk.inline(graph, operands), n.fakes)
        ]

    regions = [n.trace.region([], branch(graph)) for graph in (no, yes)]
    return n.trace.emit("switch", [p], (), regions)


@lowering("while_loop")
def while_loop(
    n: Node, condition: Any, body: Any, first: Sequence[Any], more: Sequence[Any] = ()
) -> tuple[Value, ...]:
    """The carried values at the end."""
    return _loop(n, condition, body, _tensors(first), more, False)


@lowering("while_loop_stack_output")
def while_loop_stack_output(
    n: Node, condition: Any, body: Any, first: Sequence[Any], more: Sequence[Any] = ()
) -> tuple[Value, ...]:  # fmt: skip
    """The carried values after each step, stacked; the first values if there is no step."""
    carried = _tensors(first)
    made = _loop(n, condition, body, carried, more, True)
    stacks = []
    for last, steps in zip(made[: len(carried)], made[len(carried) :]):
        whole = ops.concat([steps, ops.reshape(last, (1, *last.shape))], 0)
        stacks.append(ops.slice_axis(whole, 0, 0, larger(steps.shape[0], 1)))
    return tuple(stacks)


def _loop(
    n: Node, condition: Any, body: Any, carried: list[Value], more: Sequence[Any], stacked: bool
) -> tuple[Value, ...]:
    """The carried values at the end, and if asked for those after each step."""

    def goes_on(*args: Value) -> Sequence[Value]:
        return [_truth(n.walk.inline(condition, [*args, *more])[0])]

    def step(*args: Value) -> Sequence[Value]:
        made = _like(n.walk.inline(body, [*args, *more]), carried)
        return [*made, *made] if stacked else made

    regions = [n.trace.region(carried, goes_on), n.trace.region(carried, step)]
    return n.trace.emit("while", carried, (), regions)


def _size(n: Node, x: Value) -> Value:
    x = n.to_result(x)
    return x if x.dtype is dt.uint8 else ops.one("abs", x)  # torch has it of no other unsigned type


@lowering("aten.gcd.default")
def gcd(n: Node, a: Value, b: Value) -> Value:
    """By Euclid, until no element has a rest."""
    first = [_size(n, v) for v in (a, b)]
    zero, one = ops.like(first[0], 0), ops.like(first[0], 1)

    def goes_on(x: Value, y: Value) -> Sequence[Value]:
        left = ops.compare(y, zero, 1)
        return [
            ops.one("reduce_or", left, dims=tuple(range(len(left.shape)))) if left.shape else left
        ]

    def step(x: Value, y: Value) -> Sequence[Value]:
        done = ops.compare(y, zero, 0)
        rest = ops.one("rem", x, ops.select(done, one, y))
        return [ops.select(done, x, y), ops.select(done, zero, rest)]

    regions = [n.trace.region(first, goes_on), n.trace.region(first, step)]
    return n.trace.emit("while", first, (), regions)[0]


@lowering("aten.lcm.default")
def lcm(n: Node, a: Value, b: Value) -> Value:
    """0 where both are."""
    common = gcd(n, a, b)
    none = ops.compare(common, ops.like(common, 0), 0)
    parts = ops.one("div", n.to_result(a), ops.select(none, ops.like(common, 1), common))
    return _size(n, ops.one("mul", parts, n.to_result(b)))


@lowering("scan")
def scan(
    n: Node, step: Any, first: Sequence[Any], xs: Sequence[Any], more: Sequence[Any] = ()
) -> tuple[Value, ...]:
    """The states after the last step, then what the steps give, one below the other."""
    states, rows = _tensors(first), _tensors(xs)
    if not rows:
        raise Unsupported("a scan over nothing")
    length = rows[0].shape[0]
    if isinstance(length, int) and 0 < length * len(_nodes(step)) <= _WRITTEN_MOST:
        return _written_out(n, step, states, rows, more, length)

    def body(*args: Value) -> Sequence[Value]:
        made = n.walk.inline(step, [*args, *more])
        return [*_like(made, states), *made[len(states) :]]

    sliced = [ops.reshape(ops.slice_axis(x, 0, 0, 1), x.shape[1:]) for x in rows]
    region = n.trace.region([*states, *sliced], body)
    return n.trace.emit("scan", [*states, *rows], ops.attrs(carry=len(states)), [region])


def _written_out(
    n: Node, step: Any, states: list[Value], xs: list[Value], more: Sequence[Any], length: int
) -> tuple[Value, ...]:  # fmt: skip
    carried = len(states)
    columns: list[list[Value]] = []
    for i in range(length):
        taken = [ops.reshape(ops.slice_axis(x, 0, i, i + 1), x.shape[1:]) for x in xs]
        made = n.walk.inline(step, [*states, *taken, *more])
        states = made[:carried]
        columns.append([ops.reshape(y, (1, *y.shape)) for y in made[carried:]])
    return (*states, *(ops.concat(list(column), 0) for column in zip(*columns)))


@lowering("map_impl")
def map_impl(n: Node, step: Any, xs: Sequence[Any], more: Sequence[Any] = ()) -> tuple[Value, ...]:
    """What the steps give, one below the other."""
    return scan(n, step, (), xs, more)


@lowering("associative_scan")
def associative_scan(
    n: Node, step: Any, xs: Sequence[Any], more: Sequence[Any] = ()
) -> tuple[Value, ...]:
    """What is combined up to each place: the first as it is, and a scan over the others."""
    rows = _tensors(xs)
    first = [ops.slice_axis(x, 0, 0, 1) for x in rows]
    states = [ops.reshape(x, x.shape[1:]) for x in first]
    length = rows[0].shape[0]
    if not isinstance(length, int):
        raise Unsupported("a scan of a length that is not known")
    if length == 1:
        return tuple(rows)
    rest = [ops.slice_axis(x, 0, 1, length) for x in rows]

    def body(*args: Value) -> Sequence[Value]:
        made = _like(n.walk.inline(step, [*args, *more]), states)
        return [*made, *made]

    region = n.trace.region(
        [*states, *(ops.reshape(f, s.shape) for f, s in zip(first, states))], body
    )
    made = n.trace.emit("scan", [*states, *rest], ops.attrs(carry=len(states)), [region])
    return tuple(ops.concat([a, b], 0) for a, b in zip(first, made[len(states) :]))
