"""Reductions and running reductions."""

from __future__ import annotations

import math

from tenon.builder import Value, ops
from tenon.builder import dtypes as dt

from ..graph.node import Node, axis_of, fake_of, wide
from ..graph.table import Unsupported, lowering

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def axes(x: Value, dims: Any) -> tuple[int, ...]:
    """The axes of a reduction; none given means all."""
    rank = len(x.shape)
    if dims is None or isinstance(dims, (list, tuple)) and not dims:
        return tuple(range(rank))
    if isinstance(dims, int):
        dims = [dims]
    return tuple(sorted({axis_of(d, rank) for d in dims})) if rank else ()


def reduced(n: Node, op: str, x: Value, dims: Any, **given: Any) -> Value:
    """x reduced over axes, in the shape of the result."""
    over = axes(x, dims)
    return n.reshape(ops.one(op, x, dims=over, **given) if over else x)


@lowering("aten.sum.dim_IntList", "aten.sum.default", "aten.sum.dim_DimnameList")
def sum_(n: Node, x: Value, dims: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Value:
    return reduced(n, "reduce_sum", ops.convert(x, n.dtype), dims)


@lowering("aten.prod.default", "aten.prod.dim_int")
def prod(n: Node, x: Value, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Value:
    return reduced(n, "reduce_prod", ops.convert(x, n.dtype), dim)


@lowering("aten.mean.default", "aten.mean.dim")
def mean(n: Node, x: Value, dims: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Value:
    return reduced(n, "mean", ops.convert(x, n.dtype), dims)


def _some(n: Node, over: tuple[int, ...]) -> None:
    """Refuses axes that may be empty: torch has no extreme of nothing."""
    from torch.fx.experimental.symbolic_shapes import statically_known_true

    sizes = fake_of(n.node.args[0]).shape
    if not all(statically_known_true(sizes[i] > 0) for i in over):
        raise Unsupported("of axes that may be empty")


@lowering("aten.amax.default", "aten.amin.default", "aten.max.default", "aten.min.default")
def extreme(n: Node, x: Value, dims: Any = None, keepdim: bool = False) -> Value:
    _some(n, axes(x, dims))
    name = str(n.node.target).split(".")[1]
    return reduced(n, "reduce_max" if name.endswith("max") else "reduce_min", x, dims)


@lowering("aten.any.default", "aten.any.dim", "aten.any.dims")
def any_(n: Node, x: Value, dims: Any = None, keepdim: bool = False) -> Value:
    return ops.convert(reduced(n, "reduce_or", ops.convert(x, dt.bool_), dims), n.dtype)


@lowering("aten.all.default", "aten.all.dim", "aten.all.dims")
def all_(n: Node, x: Value, dims: Any = None, keepdim: bool = False) -> Value:
    return ops.convert(reduced(n, "reduce_and", ops.convert(x, dt.bool_), dims), n.dtype)


@lowering("aten.argmax.default", "aten.argmin.default")
def arg_extreme(n: Node, x: Value, dim: Any = None, keepdim: bool = False) -> Value:
    op = "argmax" if "argmax" in str(n.node.target) else "argmin"
    if dim is None or not x.shape:
        x, dim = _flat(x), 0
    return n.reshape(ops.one(op, x, dim=axis_of(dim, len(x.shape))))


def _flat(x: Value) -> Value:
    count: Any = 1
    for size in x.shape:
        count = count * size
    return ops.reshape(x, (count,))


@lowering("aten.max.dim", "aten.min.dim")
def extreme_and_place(
    n: Node, x: Value, dim: int, keepdim: bool = False
) -> tuple[Value | None, ...]:
    largest = "max" in str(n.node.target)
    if not x.shape:
        return x, n.spread(0, dt.int64, ())
    dim = axis_of(dim, len(x.shape))
    best = n.reshape(ops.one("reduce_max" if largest else "reduce_min", x, dims=(dim,)))
    if not n.is_read(1):
        return best, None
    number = ops.convert(x, dt.uint8) if x.dtype is dt.bool_ else x
    place = ops.one("argmax" if largest else "argmin", number, dim=dim)
    return best, n.reshape(place)


def moments(n: Node, x: Value, dims: Any, correction: Any) -> tuple[Value, Value]:
    """Variance and mean over axes, without them, in float32 for types of 16 bits.

    A count below the correction divides by 0.
    """
    x, over = ops.convert(x, wide(x.dtype)), axes(x, dims)
    if not over:
        raise Unsupported("the variance of single numbers")
    correction = 1 if correction is None else correction
    average = ops.one("mean", x, dims=over)
    kept = [i for i in range(len(x.shape)) if i not in over]
    spread = ops.broadcast_in(average, x.shape, kept)
    squares = ops.one("reduce_sum", ops.one("square", ops.one("sub", x, spread)), dims=over)
    count: Any = 1
    for i in over:
        count = count * x.shape[i]
    if isinstance(count, int):
        left = ops.scalar(float(max(count - correction, 0)), x.dtype)
    else:
        left = ops.one(
            "max",
            ops.one("sub", ops.size_value(count, x.dtype), ops.scalar(float(correction), x.dtype)),
            ops.scalar(0.0, x.dtype),
        )
    return ops.one("div", squares, ops.broadcast_to(left, squares.shape)), average


@lowering("aten.var.correction", "aten.var.dim", "aten.var.default")
def var(
    n: Node,
    x: Value,
    dims: Any = None,
    unbiased: Any = None,
    keepdim: bool = False,
    *,
    correction: Any = None,
) -> Value:
    if isinstance(dims, bool):
        dims, unbiased = None, dims
    given = correction if unbiased is None else int(unbiased)
    return n.reshape(ops.convert(moments(n, x, dims, given)[0], n.dtype))


@lowering("aten.var_mean.correction", "aten.std_mean.correction")
def var_mean(
    n: Node, x: Value, dims: Any = None, *, correction: Any = None, keepdim: bool = False
) -> tuple[Value, ...]:
    spread, average = moments(n, x, dims, correction)
    if "std" in str(n.node.target):
        spread = ops.one("sqrt", spread)
    return tuple(n.reshape(ops.convert(v, n.dtype)) for v in (spread, average))


@lowering("aten.std.correction", "aten.std.dim", "aten.std.default")
def std(
    n: Node,
    x: Value,
    dims: Any = None,
    unbiased: Any = None,
    keepdim: bool = False,
    *,
    correction: Any = None,
) -> Value:
    if isinstance(dims, bool):
        dims, unbiased = None, dims
    given = correction if unbiased is None else int(unbiased)
    spread = ops.one("sqrt", moments(n, x, dims, given)[0])
    return n.reshape(ops.convert(spread, n.dtype))


@lowering("aten.logsumexp.default")
def logsumexp(n: Node, x: Value, dims: Any, keepdim: bool = False) -> Value:
    return reduced(n, "logsumexp", ops.convert(x, n.dtype), dims)


@lowering("aten.linalg_vector_norm.default")
def vector_norm(
    n: Node,
    x: Value,
    order: float = 2,
    dims: Any = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
) -> Value:
    x = ops.convert(x, n.dtype)
    if order == -math.inf:
        return reduced(n, "reduce_min", ops.one("abs", x), dims)
    if order < 0:
        raise Unsupported("a negative order")
    if not axes(x, dims):
        x = ops.reshape(x, (*x.shape, 1))
        return n.reshape(ops.one("norm", x, dims=(len(x.shape) - 1,), p=float(order)))
    return reduced(n, "norm", x, dims, p=float(order))


@lowering("aten.cumsum.default", "aten.cumprod.default")
def cumulative(n: Node, x: Value, dim: int, *, dtype: Any = None) -> Value:
    x = ops.convert(x, n.dtype)
    if not x.shape:
        return x
    return ops.one(str(n.node.target).split(".")[1], x, dim=axis_of(dim, len(x.shape)))


@lowering("aten.cummax.default", "aten.cummin.default")
def running_extreme(n: Node, x: Value, dim: int) -> tuple[Value, ...]:
    """The place of the running extreme is the last place where it was reached."""
    if not x.shape:
        return x, n.spread(0, dt.int64, ())
    dim = axis_of(dim, len(x.shape))
    number = ops.convert(x, dt.uint8) if x.dtype is dt.bool_ else x
    best = ops.one(str(n.node.target).split(".")[1], number, dim=dim)
    reached = ops.compare(number, best, 0)
    if dt.is_float(x.dtype):
        reached = ops.one("or", reached, ops.one("is_nan", number))
    places = ops.iota(x.shape, dim, dt.int64)
    place = ops.one("cummax", ops.select(reached, places, ops.like(places, 0)), dim=dim)
    return ops.convert(best, x.dtype), place


@lowering("aten.count_nonzero.default", "aten.count_nonzero.dim_IntList")
def count_nonzero(n: Node, x: Value, dims: Any = None) -> Value:
    return reduced(n, "reduce_sum", ops.convert(ops.convert(x, dt.bool_), dt.int64), dims)


@lowering("aten.histc.default")
def histc(n: Node, x: Value, bins: int = 100, low: Any = 0, high: Any = 0) -> Value:
    """Counts in bins of equal width; what is outside is left out."""
    if low == high or not all(isinstance(v, (int, float)) for v in (bins, low, high)):
        raise Unsupported("bounds that follow from the values")
    one, flat = ops.one, _flat(x)
    number = ops.convert(flat, wide(flat.dtype) if dt.is_float(flat.dtype) else dt.float64)
    share = one(
        "div",
        one("mul", one("sub", number, ops.like(number, float(low))), ops.like(number, float(bins))),
        ops.like(number, float(high) - float(low)),
    )
    place = ops.convert(one("floor", share), dt.int64)
    last = ops.like(place, bins - 1)
    place = one("min", place, last)
    inside = one(
        "and",
        ops.compare(number, ops.like(number, float(low)), 5),
        ops.compare(number, ops.like(number, float(high)), 3),
    )
    place = ops.select(inside, place, ops.like(place, bins))  # one bin more, for the others
    counts = one(
        "scatter_elements",
        n.spread(0, n.dtype, (bins + 1,)),
        place,
        n.spread(1, n.dtype, place.shape),
        dim=0,
        kind="add",
    )
    return ops.slice_axis(counts, 0, 0, bins)
