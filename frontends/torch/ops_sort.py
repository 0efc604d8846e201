"""Order: sorting, the largest ones, places in sorted lists."""

from __future__ import annotations

from tenon import _dtypes as dt
from tenon import _ops
from tenon._trace import DIMS, I64, Value, emit

from ._lower import Node, axis_of
from ._table import Refused, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


@row("aten.sort.default", "aten.sort.stable")
def sort(n: Node, x: Value, dim: Any = -1, descending: bool = False, *, stable: bool | None = None) -> tuple[Value, ...]:
    if isinstance(dim, bool):
        dim, descending = -1, dim
    if not x.shape:
        return x, n.spread(0, dt.int64, ())
    axis = axis_of(dim, len(x.shape))
    places = _ops.iota(x.shape, axis, dt.int64)
    number = _ops.convert(x, dt.uint8) if x.dtype is dt.bool_ else x
    given = _ops.attrs(dim=axis, keys=1, descending=(int(descending),))
    values, order = emit("sort", (number, places), given)
    return _ops.convert(values, x.dtype), order


@row("aten.topk.default")
def topk(n: Node, x: Value, k: Any, dim: int = -1, largest: bool = True, sorted: bool = True) -> tuple[Value, ...]:
    if not x.shape:
        raise Refused("of a single number")
    if x.dtype is dt.bool_:
        raise Refused("of booleans")
    given = (
        ("dim", I64, axis_of(dim, len(x.shape))),
        ("k", DIMS, (k,)),
        ("largest", I64, int(largest)),
    )
    return emit("top_k", (x,), given)


@row("aten.searchsorted.Tensor", "aten.bucketize.Tensor")
def searchsorted(n: Node, first: Value, second: Value, *, out_int32: bool = False, right: bool = False, side: Any = None, sorter: Any = None) -> Value:
    bucketize = "bucketize" in str(n.node.target)
    boundaries, x = (second, first) if bucketize else (first, second)
    if len(boundaries.shape) != 1 or sorter is not None or boundaries.dtype is not x.dtype:
        raise Refused("of several lists, or of mixed types")
    flag = int(right or side == "right")
    return _ops.one("searchsorted", boundaries, x, right=flag, index_dtype=n.dtype)


def _sorted(x: Value, axis: int) -> tuple[Value, ...]:
    places = _ops.iota(x.shape, axis, dt.int64)
    return emit("sort", (x, places), _ops.attrs(dim=axis, keys=1, descending=(0,)))


@row("aten.kthvalue.default", "aten.median.dim")
def kth_smallest(n: Node, x: Value, *given: Any) -> tuple[Value, ...]:
    """The k-th smallest along an axis; the median is the lower one of the middle."""
    median = "median" in str(n.node.target)
    dim = given[0] if median else given[1] if len(given) > 1 and given[1] is not None else -1
    if not x.shape or x.dtype is dt.bool_:
        raise Refused("of a single number, or of booleans")
    axis = axis_of(dim, len(x.shape))
    size = x.shape[axis]
    values, order = _sorted(x, axis)
    k = (size - 1) // 2 if median else given[0] - 1
    value, place = (_ops.slice_axis(v, axis, k, k + 1) for v in (values, order))
    if median and dt.is_float(x.dtype):  # NaN is the median if there is one; it is sorted last
        last, where = (_ops.slice_axis(v, axis, size - 1, size) for v in (values, order))
        wrong = _ops.one("is_nan", last)
        value, place = _ops.select(wrong, last, value), _ops.select(wrong, where, place)
    return n.reshape(value), n.reshape(place)


@row("aten.median.default")
def median(n: Node, x: Value) -> Value:
    count: Any = 1
    for size in x.shape:
        count = count * size
    if not isinstance(count, int) or count == 0 or x.dtype is dt.bool_:
        raise Refused("of no elements, or of booleans")
    values, _ = _sorted(_ops.reshape(x, (count,)), 0)
    middle = _ops.slice_axis(values, 0, (count - 1) // 2, (count - 1) // 2 + 1)
    if dt.is_float(x.dtype):
        last = _ops.slice_axis(values, 0, count - 1, count)
        middle = _ops.select(_ops.one("is_nan", last), last, middle)
    return n.reshape(middle)


@row("aten.nanmedian.default", "aten.nanmedian.dim")
def nanmedian(n: Node, x: Value, dim: Any = None, keepdim: bool = False) -> Any:
    """The lower one of the middle of those that are numbers; NaN is sorted last."""
    if not x.shape or not dt.is_float(x.dtype):
        raise Refused("of a single number, or of integers")
    single = dim is None
    if single:
        count: Any = 1
        for size in x.shape:
            count = count * size
        x, dim = _ops.reshape(x, (count,)), 0
    axis = axis_of(dim, len(x.shape))
    values, order = _sorted(x, axis)
    numbers = _ops.convert(_ops.one("not", _ops.one("is_nan", x)), dt.int64)
    known = _ops.one("reduce_sum", numbers, dims=(axis,))
    middle = _ops.one("shr_arith", _ops.one("sub", _ops.one("max", known, _ops.like(known, 1)), _ops.like(known, 1)), _ops.like(known, 1))
    at = _ops.reshape(middle, tuple(1 if i == axis else s for i, s in enumerate(x.shape)))
    value, place = (n.reshape(_ops.one("take_along", v, at, dim=axis)) for v in (values, order))
    return value if single else (value, place)
