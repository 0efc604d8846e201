"""Reading and writing at computed places."""

from __future__ import annotations

from tenon import _dtypes as dt
from tenon import _ops
from tenon._trace import Value, emit

from ._lower import Node, axis_of
from ._table import Refused, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from tenon._trace import Size


def from_zero(n: Node, index: Value, size: Size) -> Value:
    """Indices, where negative ones count from behind, as indices from 0 on."""
    index = _ops.convert(index, dt.int64)
    behind = _ops.one("add", index, n.spread(size, dt.int64, index.shape))
    return _ops.select(_ops.compare(index, _ops.like(index, 0), 2), behind, index)


@row("aten.embedding.default")
def embedding(n: Node, table: Value, indices: Value, *rest: Any, **options: Any) -> Value:
    return _ops.one("take", table, indices, dim=0, mode="in_bounds")


@row("aten.index_select.default")
def index_select(n: Node, x: Value, dim: int, index: Value) -> Value:
    if not x.shape:
        return x
    index = _ops.reshape(index, n.shape[axis_of(dim, len(x.shape)) :][:1])
    return _ops.one("take", x, index, dim=axis_of(dim, len(x.shape)), mode="in_bounds")


@row("aten.gather.default")
def gather(n: Node, x: Value, dim: int, index: Value, *, sparse_grad: bool = False) -> Value:
    if not x.shape:
        return n.to_result(x) if not index.shape else n.reshape(_ops.broadcast_to(x, index.shape))
    dim = axis_of(dim, len(x.shape))
    x, index = _cut_to(n, x, index, dim), _ops.reshape(index, n.shape)
    return _ops.one("take_along", x, index, dim=dim, mode="in_bounds")


def _cut_to(n: Node, x: Value, index: Value, dim: int) -> Value:
    """torch reads the first elements of x where the indices have fewer; ours are equal in size."""
    if len(index.shape) != len(x.shape):
        return x
    for axis, size in enumerate(index.shape):
        if axis != dim and isinstance(size, int) and isinstance(x.shape[axis], int) and size < x.shape[axis]:
            x = _ops.slice_axis(x, axis, 0, size)
    return x


_KINDS = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min", "add": "add", "multiply": "mul"}


@row("aten.scatter.src", "aten.scatter.value", "aten.scatter_add.default", "aten.scatter_reduce.two", "aten.scatter.reduce", "aten.scatter.value_reduce")
def scatter(n: Node, x: Value, dim: int, index: Value, source: Any, reduce: str | None = None, *, include_self: bool = True) -> Value:
    name = str(n.node.target)
    kind = "add" if "scatter_add" in name else _KINDS.get(reduce or "", "set")
    if reduce == "mean" or not include_self or n.dtype is dt.bool_ and kind != "set":
        raise Refused(f"reduce={reduce}, include_self={include_self}, of {n.dtype.name}")
    if not x.shape:
        x1, index1 = _ops.reshape(x, (1,)), _ops.reshape(index, (1,))
        source1 = _ops.reshape(n.typed(source, n.dtype), (1,)) if isinstance(source, Value) else n.spread(source, n.dtype, (1,))
        return n.reshape(_ops.one("scatter_elements", x1, index1, source1, dim=0, kind=kind, mode="in_bounds"))
    dim = axis_of(dim, len(x.shape))
    if not index.shape:
        index = _ops.reshape(index, (1,) * len(x.shape))
    if isinstance(source, Value):
        source = source if source.shape else _ops.reshape(source, (1,) * len(x.shape))
        for axis, size in enumerate(index.shape):  # torch reads as many as there are indices
            if isinstance(size, int) and isinstance(source.shape[axis], int) and size < source.shape[axis]:
                source = _ops.slice_axis(source, axis, 0, size)
    source = n.spread(source, n.dtype, index.shape)
    return _ops.one("scatter_elements", x, index, source, dim=dim, kind=kind, mode="in_bounds")


@row("aten.index_add.default", "aten.index_copy.default")
def index_add(n: Node, x: Value, dim: int, index: Value, source: Value, *, alpha: Any = 1) -> Value:
    whole = x.shape
    if not x.shape:
        x = _ops.reshape(x, (1,))
    dim = axis_of(dim, len(x.shape))
    kind = "add" if "index_add" in str(n.node.target) else "set"
    if alpha != 1:
        source = _ops.one("mul", source, n.spread(alpha, source.dtype, source.shape))
    if not source.shape:
        source = _ops.reshape(source, (1,) * len(x.shape))
    index = _ops.reshape(index, (source.shape[dim],))
    spread = _ops.broadcast_in(_ops.convert(index, dt.int64), source.shape, (dim,))
    put = _ops.one("scatter_elements", x, spread, source, dim=dim, kind=kind, mode="in_bounds")
    return _ops.reshape(put, whole)


def _lists(n: Node, x: Value, indices: Sequence[Value | None]) -> tuple[list[Value], list[int]]:
    """Lists of indices, and their axes. A mask would decide sizes."""
    if any(v is not None and v.dtype in (dt.bool_, dt.uint8) for v in indices):
        raise Refused("a mask, whose result has a size that depends on data")
    found = [(v, i) for i, v in enumerate(indices) if v is not None]
    return [from_zero(n, v, x.shape[i]) for v, i in found], [i for _, i in found]


@row("aten.index.Tensor", "aten._unsafe_index.Tensor")
def index(n: Node, x: Value, indices: Sequence[Value | None]) -> Value:
    lists, at = _lists(n, x, indices)
    shape: tuple[Size, ...] = ()
    for v in lists:
        shape = _ops.broadcast_shapes(shape, v.shape)
    if len(at) == 1 and at[0] < len(x.shape):
        return n.reshape(_ops.one("take", x, lists[0], dim=at[0], mode="in_bounds"))
    moved, rest = _to_front(x, at)
    vectors = [_ops.reshape(_ops.broadcast_to(v, shape), (*shape, 1)) for v in lists]
    count = len(at)
    taken = _gathered(moved, _ops.concat(vectors, len(shape)), count, len(shape))
    if at == list(range(at[0], at[0] + count)) and at[0]:  # the result of adjacent lists stays there
        taken = _ops.transpose(taken, _move_back(len(shape), len(rest), at[0]))
    return n.reshape(taken)


def _to_front(x: Value, at: list[int]) -> tuple[Value, list[int]]:
    rest = [i for i in range(len(x.shape)) if i not in at]
    return _ops.transpose(x, [*at, *rest]), rest


def _move_back(lists: int, rest: int, at: int) -> list[int]:
    behind = [lists + i for i in range(rest)]
    return [*behind[:at], *range(lists), *behind[at:]]


def _gathered(x: Value, vectors: Value, count: int, rank: int) -> Value:
    """Slices of x at vectors of `count` indices, the last dim of `vectors`."""
    from tenon._trace import DIMS, I64, I64S, STRING

    sizes = (*([1] * count), *x.shape[count:])
    given = (
        ("collapsed_dims", I64S, tuple(range(count))),
        ("index_map", I64S, tuple(range(count))),
        ("index_vector_dim", I64, rank),
        ("mode", STRING, "in_bounds"),
        ("offset_dims", I64S, tuple(range(rank, rank + len(x.shape) - count))),
        ("sizes", DIMS, sizes),
    )
    return emit("gather", (x, vectors), given)[0]


@row("aten.index_put.default", "aten._unsafe_index_put.default")
def index_put(n: Node, x: Value, indices: Sequence[Value | None], values: Value, accumulate: bool = False) -> Value:
    mask = indices[0]
    if len(indices) == 1 and mask is not None and mask.dtype is dt.bool_:
        return _masked_put(n, x, mask, values, accumulate)
    lists, at = _lists(n, x, indices)
    shape: tuple[Size, ...] = ()
    for v in lists:
        shape = _ops.broadcast_shapes(shape, v.shape)
    moved, rest = _to_front(x, at)
    adjacent = at == list(range(at[0], at[0] + len(at)))
    kept = [x.shape[i] for i in rest]
    if adjacent and at[0]:
        whole = (*kept[: at[0]], *shape, *kept[at[0] :])
        back = _move_back(len(shape), len(rest), at[0])
        updates = _ops.transpose(_ops.broadcast_to(values, whole), [back.index(i) for i in range(len(back))])
    else:
        updates = _ops.broadcast_to(values, (*shape, *kept))
    if x.dtype is dt.bool_ and accumulate:
        raise Refused("adding booleans")
    spread = [_ops.broadcast_to(v, shape) for v in lists]
    put = _scattered(moved, spread, updates, shape, accumulate)
    order = [*at, *rest]
    return _ops.transpose(put, [order.index(i) for i in range(len(order))])


def _scattered(x: Value, lists: list[Value], updates: Value, shape: tuple[Size, ...], add: bool) -> Value:
    from tenon._trace import I64, I64S, STRING

    rank, count = len(shape), len(lists)
    vectors = _ops.concat([_ops.reshape(v, (*shape, 1)) for v in lists], rank)
    given = (
        ("index_map", I64S, tuple(range(count))),
        ("index_vector_dim", I64, rank),
        ("inserted_dims", I64S, tuple(range(count))),
        ("kind", STRING, "add" if add else "set"),
        ("mode", STRING, "in_bounds"),
        ("window_dims", I64S, tuple(range(rank, rank + len(x.shape) - count))),
    )
    return emit("scatter", (x, vectors, updates), given)[0]


def _masked_put(n: Node, x: Value, mask: Value, values: Value, accumulate: bool) -> Value:
    """One value for all places of a mask."""
    if values.shape and not all(isinstance(s, int) and s == 1 for s in values.shape):
        raise Refused("a mask with several values")
    value = _ops.broadcast_to(_ops.reshape(values, ()), x.shape)
    if accumulate:
        value = _ops.one("add", x, value)
    return _ops.select(_ops.broadcast_in(mask, x.shape, range(len(mask.shape))), value, x)


@row("aten.index_fill.int_Scalar", "aten.index_fill.int_Tensor")
def index_fill(n: Node, x: Value, dim: int, index: Value, value: Any) -> Value:
    if not x.shape:
        return n.to_result(value)
    dim = axis_of(dim, len(x.shape))
    flat = from_zero(n, _ops.reshape(index, (1,)) if not index.shape else index, x.shape[dim])
    shape = tuple(flat.shape[0] if i == dim else s for i, s in enumerate(x.shape))
    at = _ops.broadcast_in(flat, shape, (dim,))
    source = n.spread(value, x.dtype, shape)
    return _ops.one("scatter_elements", x, at, source, dim=dim, kind="set", mode="in_bounds")


@row("aten.take.default")
def take(n: Node, x: Value, index: Value) -> Value:
    count: Any = 1
    for size in x.shape:
        count = count * size
    flat = _ops.reshape(x, (count,))
    return _ops.one("take", flat, from_zero(n, index, count), dim=0, mode="in_bounds")




@row("aten.put.default")
def put(n: Node, x: Value, index: Value, source: Value, accumulate: bool = False) -> Value:
    count: Any = 1
    for size in x.shape:
        count = count * size
    many: Any = 1
    for size in index.shape:
        many = many * size
    at = from_zero(n, _ops.reshape(index, (many,)), count)
    flat, values = _ops.reshape(x, (count,)), _ops.reshape(source, (many,))
    if x.dtype is dt.bool_ and accumulate:
        raise Refused("adding booleans")
    kind = "add" if accumulate else "set"
    return n.reshape(_ops.one("scatter_elements", flat, at, values, dim=0, kind=kind, mode="in_bounds"))


@row("aten.masked_scatter.default")
def masked_scatter(n: Node, x: Value, mask: Value, source: Value) -> Value:
    """Place k of the mask, counted in order, gets element k of the source."""
    x, mask = n.to_result(x), n.spread(mask, dt.bool_)
    count: Any = 1
    for size in x.shape:
        count = count * size
    many: Any = 1
    for size in source.shape:
        many = many * size
    if isinstance(many, int) and many == 0:
        raise Refused("from no elements")
    flat = _ops.convert(_ops.reshape(mask, (count,)), dt.int64)
    order = _ops.one("cumsum", flat, dim=0, exclusive=1)
    taken = _ops.one("take", _ops.reshape(source, (many,)), order, dim=0)
    return _ops.select(mask, n.reshape(taken), x)


@row("aten.index_reduce.default")
def index_reduce(n: Node, x: Value, dim: int, index: Value, source: Value, reduce: str, *, include_self: bool = True) -> Value:
    kind = {"prod": "mul", "amax": "max", "amin": "min"}.get(reduce)
    if kind is None or not include_self or not x.shape or not source.shape:
        raise Refused(f"reduce={reduce}, include_self={include_self}")
    dim = axis_of(dim, len(x.shape))
    index = _ops.reshape(index, (source.shape[dim],))
    spread = _ops.broadcast_in(_ops.convert(index, dt.int64), source.shape, (dim,))
    return _ops.one("scatter_elements", x, spread, source, dim=dim, kind=kind, mode="in_bounds")
