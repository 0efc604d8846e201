"""Bags of rows of a table, and their gradients.

Bag i has the indices from offsets[i] up to the next offset. A call whose offsets do not begin at 0,
decrease, or are beyond the indices fails.
"""

from __future__ import annotations

import math

from tenon.builder import Value, ops
from tenon.builder import dtypes as dt

from ..graph.node import Node, checked, wide
from ..graph.table import Unsupported, lowering
from .index import scattered

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tenon.builder import Size

_SUM, _MEAN, _MAX = range(3)


def _into(start: Value, at: Value, rows: Value, kind: str) -> Value:
    """Rows put together at places of the first dim."""
    return scattered(start, [at], rows, at.shape, kind)


def _along(x: Value, shape: tuple[Size, ...]) -> Value:
    """A number for each row, repeated over the row."""
    return ops.broadcast_in(x, shape, (0,))


class _Bags:
    """Which bag each index is in, and which indices count."""

    def __init__(self, n: Node, indices: Value, offsets: Value, padding: int):
        self.n = n
        self.indices = ops.convert(indices, dt.int64)
        self.places = ops.iota(indices.shape, 0, dt.int64)
        found = ops.one("searchsorted", ops.convert(offsets, dt.int64), self.places, right=1)
        found = ops.convert(found, dt.int64)
        self.bag = ops.one("sub", found, ops.like(found, 1))
        self.counts = (
            None if padding < 0 else ops.compare(self.indices, ops.like(self.indices, padding), 1)
        )

    def kept(self, rows: Value, otherwise: Any = 0) -> Value:
        """Rows by index, where another number stands for those that do not count."""
        if self.counts is None:
            return rows
        return ops.select(
            ops.broadcast_in(self.counts, rows.shape, (0,)), rows, ops.like(rows, otherwise)
        )

    def sizes(self, bags: Size) -> Value:
        """How many indices of each bag count."""
        ones = self.kept(ops.like(self.places, 1))
        return _into(ops.full((bags,), 0, dt.int64), self.bag, ones, "add")


def _checked_offsets(indices: Value, offsets: Value, has_last: bool) -> Value:
    """Offsets, in a call that fails where they are none."""
    given = ops.convert(offsets, dt.int64)
    number = ops.iota(given.shape, 0, dt.int64)
    before = ops.one(
        "take",
        given,
        ops.one("max", ops.one("sub", number, ops.like(number, 1)), ops.like(number, 0)),
        dim=0,
    )
    is_first = ops.compare(number, ops.like(number, 0), 0)
    holds = ops.select(
        is_first, ops.compare(given, ops.like(given, 0), 0), ops.compare(given, before, 5)
    )
    end = ops.broadcast_to(ops.size_value(indices.shape[0], dt.int64), given.shape)
    holds = ops.one("and", holds, ops.compare(given, end, 3))
    if has_last:
        last = ops.broadcast_to(ops.size_value(given.shape[0] - 1, dt.int64), given.shape)
        is_inner = ops.compare(number, last, 2)
        holds = ops.one("and", holds, ops.one("or", is_inner, ops.compare(given, end, 0)))
    return checked(given, holds)


@lowering("aten._embedding_bag.default", "aten._embedding_bag_forward_only.default")
def embedding_bag(
    n: Node, table: Value, indices: Value, offsets: Value, scale_grad_by_freq: bool = False, mode: int = _SUM,
    sparse: bool = False, per_sample_weights: Value | None = None, include_last_offset: bool = False, padding_idx: int = -1,
) -> tuple[Value | None, ...]:  # fmt: skip
    """Bags; the bag of each index, the sizes of bags, and for the largest the row that it is from."""
    bags = _Bags(n, indices, _checked_offsets(indices, offsets, include_last_offset), padding_idx)
    rows = ops.convert(
        ops.one("take", table, bags.indices, dim=0, mode="in_bounds"), wide(table.dtype)
    )
    if per_sample_weights is not None:
        rows = ops.one("mul", rows, _along(ops.convert(per_sample_weights, rows.dtype), rows.shape))
    shape = n.shape
    sizes = bags.sizes(shape[0])
    if mode == _MAX:
        made, largest = _largest(n, bags, rows, sizes)
    else:
        made, largest = _summed(bags, rows, sizes, shape, mode), None
    rest = (bags.bag, sizes, sizes if largest is None else largest)
    return ops.convert(made, n.dtype), *(_as_asked(n, i + 1, value) for i, value in enumerate(rest))


def _as_asked(n: Node, i: int, value: Value) -> Value | None:
    """Result i, if it is read; torch leaves out elements of those that it does not need."""
    if not n.is_read(i):
        return None
    fake = n.fakes[i]
    if len(fake.shape) == 1 and isinstance(fake.shape[0], int) and fake.shape[0] == 0:
        return ops.full((0,), 0, dt.int64)
    return value


def _summed(bags: _Bags, rows: Value, sizes: Value, shape: tuple[Size, ...], mode: int) -> Value:
    made = _into(ops.full(shape, 0, rows.dtype), bags.bag, bags.kept(rows), "add")
    if mode == _SUM:
        return made
    count = ops.one("max", sizes, ops.like(sizes, 1))
    return ops.one("div", made, _along(ops.convert(count, made.dtype), shape))


def _largest(n: Node, bags: _Bags, rows: Value, sizes: Value) -> tuple[Value, Value | None]:
    """The largest of each bag, 0 in an empty one, and the row of the table that is first to have it.

    torch compares with the first number, which may be NaN, so that a call with one fails.
    """
    shape = n.shape
    rows = bags.kept(checked(rows, ops.one("not", ops.one("is_nan", rows))), -math.inf)
    most = _into(ops.full(shape, -math.inf, rows.dtype), bags.bag, rows, "max")
    is_empty = _along(ops.compare(sizes, ops.like(sizes, 0), 0), shape)
    made = ops.select(is_empty, ops.like(most, 0), most)
    if not n.is_read(3):
        return made, None
    hit = bags.kept(ops.compare(rows, ops.one("take", most, bags.bag, dim=0), 0), False)
    place = ops.broadcast_in(bags.places, rows.shape, (0,))
    place = ops.select(
        hit, place, ops.broadcast_to(ops.size_value(rows.shape[0], dt.int64), rows.shape)
    )
    start = ops.broadcast_to(ops.size_value(rows.shape[0], dt.int64), shape)
    first = _into(start, bags.bag, place, "min")
    indices = ops.concat(
        [bags.indices, ops.full((1,), 0, dt.int64)], 0
    )  # the last one for empty bags
    return made, ops.one("take", indices, first, dim=0)


# ---- Gradients ----


@lowering("aten._embedding_bag_backward.default")
def embedding_bag_backward(
    n: Node, g: Value, indices: Value, offsets: Value, offset2bag: Value, bag_size: Value, maximum_indices: Value, num_weights: Any,
    scale_grad_by_freq: bool, mode: int, sparse: bool, per_sample_weights: Value | None = None, padding_idx: int = -1,
) -> Value:  # fmt: skip
    if sparse:
        raise Unsupported("a sparse gradient")
    if scale_grad_by_freq:  # torch divides by how often another index is there
        raise Unsupported("a gradient by frequency")
    g = ops.convert(g, wide(g.dtype))
    start = ops.full(n.shape, 0, g.dtype)
    if mode == _MAX:
        is_empty = _along(ops.compare(bag_size, ops.like(bag_size, 0), 0), g.shape)
        given = ops.select(is_empty, ops.like(g, 0), g)
        at = ops.convert(maximum_indices, dt.int64)
        return ops.convert(
            ops.one("scatter_elements", start, at, given, dim=0, kind="add"), n.dtype
        )
    bags = _Bags(n, indices, offsets, padding_idx)
    if mode == _MEAN:
        count = ops.one("max", bag_size, ops.like(bag_size, 1))
        g = ops.one("div", g, _along(ops.convert(count, g.dtype), g.shape))
    rows = bags.kept(ops.one("take", g, bags.bag, dim=0))
    if per_sample_weights is not None:
        rows = ops.one("mul", rows, _along(ops.convert(per_sample_weights, rows.dtype), rows.shape))
    return ops.convert(_into(start, bags.indices, rows, "add"), n.dtype)


@lowering("aten._embedding_bag_per_sample_weights_backward.default")
def per_sample_weights_backward(
    n: Node, g: Value, table: Value, indices: Value, offsets: Value, offset2bag: Value, mode: int, padding_idx: int = -1
) -> Value:  # fmt: skip
    inner = wide(n.dtype)
    bags = _Bags(n, indices, offsets, padding_idx)
    theirs = ops.one("take", ops.convert(g, inner), bags.bag, dim=0)
    rows = ops.one("take", ops.convert(table, inner), bags.indices, dim=0)
    each = ops.one("reduce_sum", ops.one("mul", theirs, rows), dims=(1,))
    return ops.convert(bags.kept(each), n.dtype)
