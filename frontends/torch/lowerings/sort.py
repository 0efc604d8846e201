"""Order: sorting, the largest ones, places in sorted lists."""

from __future__ import annotations

from tenon.builder import DIMS, I64, Value, emit, ops
from tenon.builder import dtypes as dt

from ..graph.node import Node, axis_of
from ..graph.table import Unsupported, lowering

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


@lowering("aten.sort.default", "aten.sort.stable")
def sort(
    n: Node, x: Value, dim: Any = -1, descending: bool = False, *, stable: bool | None = None
) -> tuple[Value, ...]:
    if isinstance(dim, bool):
        dim, descending = -1, dim
    if not x.shape:
        return x, n.spread(0, dt.int64, ())
    axis = axis_of(dim, len(x.shape))
    places = ops.iota(x.shape, axis, dt.int64)
    number = ops.convert(x, dt.uint8) if x.dtype is dt.bool_ else x
    given = ops.attrs(dim=axis, keys=1, descending=(int(descending),))
    values, order = emit("sort", (number, places), given)
    return ops.convert(values, x.dtype), order


@lowering("aten.topk.default")
def topk(
    n: Node, x: Value, k: Any, dim: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[Value, ...]:
    if not x.shape:
        raise Unsupported("of a single number")
    if x.dtype is dt.bool_:
        raise Unsupported("of booleans")
    given = (
        ("dim", I64, axis_of(dim, len(x.shape))),
        ("k", DIMS, (k,)),
        ("largest", I64, int(largest)),
    )
    return emit("top_k", (x,), given)


@lowering("aten.searchsorted.Tensor", "aten.bucketize.Tensor")
def searchsorted(
    n: Node,
    first: Value,
    second: Value,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: Any = None,
    sorter: Any = None,
) -> Value:
    bucketize = "bucketize" in str(n.node.target)
    boundaries, x = (second, first) if bucketize else (first, second)
    if len(boundaries.shape) != 1 or sorter is not None or boundaries.dtype is not x.dtype:
        raise Unsupported("of several lists, or of mixed types")
    flag = int(right or side == "right")
    return ops.one("searchsorted", boundaries, x, right=flag, index_dtype=n.dtype)
