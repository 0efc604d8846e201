"""Writing at computed places where several values meet, and at places of memory or of a mask."""

from __future__ import annotations

import math

from tenon.builder import YES, Value, ops, same
from tenon.builder import dtypes as dt

import torch

from ..graph.node import Node, added_up, axis_of, fake_of, from_zero
from ..graph.table import Unsupported, lowering
from .pool import known

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from tenon.builder import Size

_KINDS = {"sum": "add", "prod": "mul", "mean": "add", "amax": "max", "amin": "min"}


def _start(kind: str, dtype: dt.DType) -> Any:
    """What changes nothing in a reduction."""
    if kind == "add":
        return 0
    if kind == "mul":
        return 1
    if dt.is_float(dtype):
        return -math.inf if kind == "max" else math.inf
    low, high = dt.limits(dtype)
    return low if kind == "max" else high


def repeated_axes(index: Any) -> list[int]:
    """The axes along which torch repeats a tensor without a copy, as `expand` does."""
    fake = fake_of(index)
    if not isinstance(fake, torch.Tensor) or fake.layout is not torch.strided:
        return []
    return [axis for axis, step in enumerate(fake.stride()) if isinstance(step, int) and step == 0]


def _counts(n: Node, shape: tuple[Size, ...], index: Value, dim: int, repeated: list[int]) -> Value:
    """How many indices meet each place of a shape, counted once along axes where the indices repeat."""
    repeated = [a for a in repeated if a != dim and same(index.shape[a], shape[a]) == YES]
    counted = tuple(1 if a in repeated else s for a, s in enumerate(shape))
    for axis in repeated:
        index = ops.slice_axis(index, axis, 0, 1)
    ones, none = n.spread(1, dt.int64, index.shape), n.spread(0, dt.int64, counted)
    count = ops.one("scatter_elements", none, index, ones, dim=dim, kind="add", mode="in_bounds")
    return ops.broadcast_to(count, shape)


def reduce_at(
    n: Node,
    x: Value,
    index: Value,
    source: Value,
    dim: int,
    reduce: str,
    include_self: bool,
    repeated: Sequence[int] = (),
) -> Value:
    """x with elements of the source reduced into it, by indices of the source's shape along a dim.

    The indices are the same along the repeated axes.
    """
    if x.dtype is dt.bool_:
        raise Unsupported("reducing booleans")
    kind, one, dtype = _KINDS[reduce], ops.one, x.dtype
    x, source = added_up(kind, x), added_up(kind, source)
    count = _counts(n, x.shape, index, dim, list(repeated))
    met = ops.compare(count, ops.like(count, 0), 4)
    begin = (
        x if include_self else ops.select(met, n.spread(_start(kind, x.dtype), x.dtype, x.shape), x)
    )
    out = one("scatter_elements", begin, index, source, dim=dim, kind=kind, mode="in_bounds")
    if reduce != "mean":
        return ops.convert(out, dtype)
    if include_self:
        count = one("add", count, ops.like(count, 1))
    count = ops.convert(one("max", count, ops.like(count, 1)), x.dtype)
    return ops.convert(one("div" if dt.is_float(x.dtype) else "floor_div", out, count), dtype)


@lowering("aten.index_reduce.default")
def index_reduce(
    n: Node,
    x: Value,
    dim: int,
    index: Value,
    source: Value,
    reduce: str,
    *,
    include_self: bool = True,
) -> Value:
    if not x.shape:
        source, index = ops.reshape(source, (1,)), ops.reshape(index, (1,))
        return n.reshape(reduce_at(n, ops.reshape(x, (1,)), index, source, 0, reduce, include_self))
    dim = axis_of(dim, len(x.shape))
    source = ops.reshape(
        source,
        tuple(index.shape[0] if index.shape and i == dim else s for i, s in enumerate(x.shape)),
    )
    index = ops.reshape(ops.convert(index, dt.int64), (source.shape[dim],))
    wide = ops.broadcast_in(index, source.shape, (dim,))
    others = [axis for axis in range(len(x.shape)) if axis != dim]
    return reduce_at(n, x, wide, source, dim, reduce, include_self, others)


@lowering("aten.put.default")
def put(n: Node, x: Value, index: Value, source: Value, accumulate: bool = False) -> Value:
    """Elements by their number, counted over all axes."""
    total, wanted = _count(x.shape), _count(index.shape)
    at = ops.reshape(from_zero(n, index, total), (wanted,))
    given = ops.reshape(source, (wanted,))
    kind, start = "add" if accumulate else "set", ops.reshape(x, (total,))
    if x.dtype is dt.bool_ and accumulate:  # a sum of booleans is whether one is true
        start, given, kind = ops.convert(start, dt.uint8), ops.convert(given, dt.uint8), "max"
    out = ops.one(
        "scatter_elements", added_up(kind, start), at, added_up(kind, given), dim=0, kind=kind
    )
    return n.reshape(ops.convert(out, x.dtype))


def _count(shape: Sequence[Any]) -> Any:
    total: Any = 1
    for size in shape:
        total = total * size
    return total


# ---- Masks ----


def _order(n: Node, mask: Value) -> tuple[Value, Any]:
    """For each element of a flat mask, how many before it are set."""
    total = _count(mask.shape)
    number = ops.convert(ops.reshape(mask, (total,)), dt.int64)
    return ops.one("sub", ops.one("cumsum", number, dim=0), number), total


@lowering("aten.masked_scatter.default")
def masked_scatter(n: Node, x: Value, mask: Value, source: Value) -> Value:
    if any(isinstance(s, int) and s == 0 for s in n.shape):
        return n.to_result(x)
    before, total = _order(n, n.spread(mask, dt.bool_))
    size = _count(source.shape)
    flat_mask = ops.reshape(n.spread(mask, dt.bool_), (total,))
    # Places that are not set read one element more, and those that find none read beyond it.
    flat = ops.concat(
        [
            ops.reshape(source, (size,)),
            n.spread(False if source.dtype is dt.bool_ else 0, source.dtype, (1,)),
        ],
        0,
    )
    most = n.spread(size, dt.int64, (total,))
    beyond = ops.one("add", most, ops.like(most, 1))
    index = ops.select(ops.compare(before, most, 2), before, beyond)
    taken = ops.one("take", flat, ops.select(flat_mask, index, most), dim=0, mode="in_bounds")
    return ops.select(n.spread(mask, dt.bool_), n.reshape(taken), n.to_result(x))


@lowering("aten.masked_scatter_backward.default")
def masked_scatter_backward(n: Node, g: Value, mask: Value, sizes: Any) -> Value:
    """Element i of the gradient is that of the place that i went to; the others are 0."""
    mask = n.spread(mask, dt.bool_, g.shape)
    before, total = _order(n, mask)
    wanted = _count(n.shape)
    flat_mask = ops.reshape(mask, (total,))
    outside = n.spread(wanted, dt.int64, (total,))  # dropped
    at = ops.select(flat_mask, before, outside)
    start = n.spread(0, n.dtype, (wanted,))
    return n.reshape(
        ops.one("scatter_elements", start, at, ops.reshape(g, (total,)), dim=0, kind="set")
    )


# ---- Places in memory ----


def _memory_index(
    n: Node, x: Value, size: Sequence[Any], stride: Sequence[Any], offset: Any, fake: Any
) -> Value:
    """For each element of a strided view, its number among the elements of a dense tensor."""
    known(x.shape, size, stride, (offset or 0,))
    if not fake.is_contiguous() or fake.storage_offset() != 0:
        raise Unsupported("of a tensor whose memory is another one's")
    last = (offset or 0) + sum((s - 1) * st for s, st in zip(size, stride))
    if 0 not in size and last >= _count(x.shape):
        raise Unsupported("of memory past the end of a tensor")
    index = n.spread(offset or 0, dt.int64, tuple(size))
    for axis, step in enumerate(stride):
        along = ops.iota(tuple(size), axis, dt.int64)
        index = ops.one("add", index, ops.one("mul", along, ops.like(along, step)))
    return index


@lowering("aten.as_strided.default", "aten.as_strided_copy.default")
def as_strided(
    n: Node, x: Value, size: Sequence[Any], stride: Sequence[Any], offset: Any = None
) -> Value:
    if 0 in n.shape:
        return n.spread(False if n.dtype is dt.bool_ else 0, n.dtype)
    index = _memory_index(n, x, size, stride, offset, fake_of(n.node.args[0]))
    return ops.one("take", ops.reshape(x, (_count(x.shape),)), index, dim=0)


@lowering("aten.as_strided_scatter.default")
def as_strided_scatter(
    n: Node, x: Value, source: Value, size: Sequence[Any], stride: Sequence[Any], offset: Any = None
) -> Value:
    if 0 in tuple(size):
        return x
    index = _memory_index(n, x, size, stride, offset, fake_of(n.node.args[0]))
    if sum(s > 1 and st == 0 for s, st in zip(size, stride)):
        raise Unsupported("of elements that share memory")
    total, wanted = _count(x.shape), _count(tuple(size))
    at, given = ops.reshape(index, (wanted,)), ops.reshape(source, (wanted,))
    return n.reshape(
        ops.one("scatter_elements", ops.reshape(x, (total,)), at, given, dim=0, kind="set")
    )
