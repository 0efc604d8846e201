"""Results whose size depends on values: places, masks, distinct values, counts.

Each defines the size of its first result, which `Node.learn` gives torch's symbol. All that one mask
decides has one size.
"""

from __future__ import annotations

from tenon.builder import Dim, Value, emit, ops
from tenon.builder import dtypes as dt

from ..graph.node import Node, axis_of, checked
from ..graph.table import Unsupported, lowering
from .control import assert_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from tenon.builder import Size


def count(shape: Sequence[Size]) -> Size:
    total: Size = 1
    for size in shape:
        total = total * size
    return total


def flat(x: Value) -> Value:
    return ops.reshape(x, (count(x.shape),))


# ---- Places ----


def as_mask(x: Value) -> Value:
    return x if x.dtype is dt.bool_ else ops.compare(x, ops.like(x, 0), 1)


def places(n: Node, mask: Value) -> Value:
    """Where a mask is set: numbers of its elements, counted over all axes."""
    known = n.walk.places.get(mask.id)
    if known is None:
        found = ops.one("nonzero", flat(mask))
        known = ops.reshape(found, (found.shape[1],))
        if not n.trace.depth:
            n.walk.places[mask.id] = known
    return known


@lowering("aten.nonzero.default")
def nonzero(n: Node, x: Value) -> Value:
    at = places(n, as_mask(x))
    columns: list[Value] = []
    for size in reversed(x.shape):
        by = n.spread(size if isinstance(size, Dim) else max(size, 1), dt.int64, at.shape)
        columns.insert(0, ops.reshape(ops.one("floor_mod", at, by), (at.shape[0], 1)))
        at = ops.one("floor_div", at, by)
    return ops.concat(columns, 1) if columns else ops.full((at.shape[0], 0), 0, dt.int64)


@lowering("aten.masked_select.default")
def masked_select(n: Node, x: Value, mask: Value) -> Value:
    shape = ops.broadcast_shapes(x.shape, mask.shape)
    x, mask = ops.broadcast_to(x, shape), ops.broadcast_to(mask, shape)
    return ops.one("take", flat(x), places(n, mask), dim=0)


def without_masks(
    n: Node, x: Value, indices: Sequence[Value | None]
) -> tuple[Value, list[Value | None], set[int]]:
    """x and its indices, where each mask is a list of places along one axis, and the numbers of such lists.

    x has the axes of a mask as one.
    """
    shape: list[Size] = []
    lists: list[Value | None] = []
    made: set[int] = set()
    axis = 0
    for index in indices:
        rank = 1
        if index is not None and index.dtype in (dt.bool_, dt.uint8):
            rank = len(index.shape)
            if not rank:
                raise Unsupported("a mask without axes")
            index = places(n, as_mask(index))
            made.add(index.id)
        shape.append(count(x.shape[axis : axis + rank]))
        lists.append(index)
        axis += rank
    return ops.reshape(x, (*shape, *x.shape[axis:])), lists, made


# ---- Distinct values ----


def _or_none(asked: bool, fake: Any, value: Value) -> Value:
    """A result; empty if it was not asked for and eager mode leaves it out."""
    left_out = len(fake.shape) == 1 and isinstance(fake.shape[0], int) and fake.shape[0] == 0
    return value if asked or not left_out else ops.full((0,), 0, dt.int64)


def _numbers(n: Node, x: Value) -> Value:
    """Elements to compare. NaN is distinct from itself in torch, and not for `unique`: such calls fail."""
    if dt.is_complex(x.dtype):
        raise Unsupported("distinct complex numbers")
    if dt.is_float(x.dtype):
        assert_all(n, ops.one("not", ops.one("is_nan", x)))
    return x


@lowering("aten._unique2.default")
def unique2(
    n: Node,
    x: Value,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
) -> tuple[Value, ...]:
    values, _, inverse, counts = emit("unique", (flat(_numbers(n, x)),), ops.attrs(dim=0))
    inverse = ops.reshape(inverse, x.shape)
    return (
        values,
        _or_none(return_inverse, n.fakes[1], inverse),
        _or_none(return_counts, n.fakes[2], counts),
    )


@lowering("aten.unique_dim.default")
def unique_dim(
    n: Node, x: Value, dim: int, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> tuple[Value, ...]:  # fmt: skip
    values, _, inverse, counts = emit(
        "unique", (_numbers(n, x),), ops.attrs(dim=axis_of(dim, len(x.shape)))
    )
    return (
        values,
        _or_none(return_inverse, n.fakes[1], inverse),
        _or_none(return_counts, n.fakes[2], counts),
    )


@lowering("aten.unique_consecutive.default")
def unique_consecutive(
    n: Node, x: Value, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> tuple[Value, ...]:  # fmt: skip
    """Each slice that differs from the one before it begins a group."""
    whole = flat(x) if dim is None else x
    axis = 0 if dim is None else axis_of(dim, len(x.shape))
    first = _begins(whole, axis)
    at = places(n, first)
    number = ops.one("cumsum", ops.convert(first, dt.int64), dim=0)
    group = ops.one("sub", number, ops.like(number, 1))
    none = ops.full(at.shape, 0, dt.int64)
    counts = ops.one("scatter_elements", none, group, ops.like(group, 1), dim=0, kind="add")
    inverse = group if dim is not None else ops.reshape(group, x.shape)
    values = ops.one("take", whole, at, dim=axis)
    return (
        values,
        _or_none(return_inverse, n.fakes[1], inverse),
        _or_none(return_counts, n.fakes[2], counts),
    )


def _begins(x: Value, axis: int) -> Value:
    """For each slice along an axis whether it differs from the one before; the first does."""
    at = ops.iota((x.shape[axis],), 0, dt.int64)
    before = ops.one("max", ops.one("sub", at, ops.like(at, 1)), ops.like(at, 0))
    other = ops.compare(x, ops.one("take", x, before, dim=axis), 1)
    rest = tuple(i for i in range(len(x.shape)) if i != axis)
    if rest:
        other = ops.one("reduce_or", other, dims=rest)
    return ops.one("or", other, ops.compare(at, ops.like(at, 0), 0))


# ---- Counts ----


def extent(number: Value, least: int = 0) -> Size:
    """A computed number, at least the least one, as a size."""
    number = ops.one("max", number, ops.like(number, least))
    return ops.one("dim_from_scalar", number, lo=least).shape[0]


@lowering("aten.bincount.default")
def bincount(n: Node, x: Value, weights: Value | None = None, minlength: int = 0) -> Value:
    """Negative numbers are out of bounds."""
    at = ops.convert(x, dt.int64)
    last = ops.one("reduce_max", ops.concat([at, ops.full((1,), -1, dt.int64)], 0), dims=(0,))
    size = extent(ops.one("add", last, ops.like(last, 1)), minlength)
    given = ops.like(at, 1) if weights is None else ops.convert(weights, n.dtype)
    start = ops.full((size,), 0, n.dtype)
    return ops.one(
        "scatter_elements",
        start,
        at,
        ops.convert(given, n.dtype),
        dim=0,
        kind="add",
        mode="in_bounds",
    )


@lowering("aten.repeat_interleave.Tensor")
def repeat_interleave(n: Node, repeats: Value, *, output_size: Any = None) -> Value:
    """Number i as often as `repeats` says: for each place, how many numbers end at or before it."""
    often = ops.convert(repeats, dt.int64)
    often = checked(often, ops.compare(often, ops.like(often, 0), 5))
    ends = ops.one("cumsum", often, dim=0)
    size = extent(ops.one("reduce_sum", often, dims=(0,)))
    at = ops.iota((size,), 0, dt.int64)
    found = ops.one("searchsorted", ends, at, right=1)
    return n.learn(ops.convert(found, n.dtype))
