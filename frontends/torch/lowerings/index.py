"""Reading and writing at computed places."""

from __future__ import annotations

from tenon.builder import YES, Value, emit, ops, same
from tenon.builder import dtypes as dt

from ..graph.node import Node, added_up, axis_of, checked_whole, fake_of, from_zero
from ..graph.table import Unsupported, lowering
from .masks import flat, without_masks
from .scatter import reduce_at, repeated_axes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from tenon.builder import Size


@lowering("aten.embedding.default")
def embedding(n: Node, table: Value, indices: Value, *rest: Any, **options: Any) -> Value:
    return ops.one("take", table, indices, dim=0, mode="in_bounds")


@lowering("aten.index_select.default")
def index_select(n: Node, x: Value, dim: int, index: Value) -> Value:
    if not x.shape:
        return x
    index = ops.reshape(index, n.shape[axis_of(dim, len(x.shape)) :][:1])
    return ops.one("take", x, index, dim=axis_of(dim, len(x.shape)), mode="in_bounds")


@lowering("tenon_torch.one_hot.default")
def one_hot(n: Node, x: Value, num_classes: Any) -> Value:
    """Of classes that are checked as indices."""
    numbers = ops.iota((num_classes,), 0, dt.int64)
    index = ops.one("take", numbers, ops.convert(x, dt.int64), dim=0, mode="in_bounds")
    last = len(n.shape) - 1
    same = ops.compare(
        ops.iota(n.shape, last, dt.int64), ops.broadcast_in(index, n.shape, range(last)), 0
    )
    return ops.convert(same, n.dtype)


@lowering("aten.gather.default")
def gather(n: Node, x: Value, dim: int, index: Value, *, sparse_grad: bool = False) -> Value:
    if not x.shape:
        return n.to_result(x) if not index.shape else n.reshape(ops.broadcast_to(x, index.shape))
    dim = axis_of(dim, len(x.shape))
    x, index = _cut_to(n, x, index, dim), ops.reshape(index, n.shape)
    return ops.one("take_along", x, index, dim=dim, mode="in_bounds")


def _cut_to(n: Node, x: Value, index: Value, dim: int) -> Value:
    """torch reads the first elements of x where the indices have fewer; ours are equal in size."""
    if len(index.shape) != len(x.shape):
        return x
    for axis, size in enumerate(index.shape):
        if (
            axis != dim
            and isinstance(size, int)
            and isinstance(x.shape[axis], int)
            and size < x.shape[axis]
        ):
            x = ops.slice_axis(x, axis, 0, size)
    return x


_KINDS = {
    "sum": "add",
    "prod": "mul",
    "amax": "max",
    "amin": "min",
    "add": "add",
    "multiply": "mul",
}


@lowering(
    "aten.scatter.src",
    "aten.scatter.value",
    "aten.scatter_add.default",
    "aten.scatter_reduce.two",
    "aten.scatter.reduce",
    "aten.scatter.value_reduce",
)
def scatter(
    n: Node,
    x: Value,
    dim: int,
    index: Value,
    source: Any,
    reduce: str | None = None,
    *,
    include_self: bool = True,
) -> Value:
    name = str(n.node.target)
    kind = "add" if "scatter_add" in name else _KINDS.get(reduce or "", "set")
    if n.dtype is dt.bool_ and kind != "set":
        return _of_booleans(n, kind, x, dim, index, source, include_self)
    if not x.shape:
        x1, index1 = ops.reshape(x, (1,)), ops.reshape(index, (1,))
        source1 = (
            ops.reshape(n.typed(source, n.dtype), (1,))
            if isinstance(source, Value)
            else n.spread(source, n.dtype, (1,))
        )
        if reduce == "mean" or not include_self:
            return n.reshape(reduce_at(n, x1, index1, source1, 0, reduce or "", include_self))
        return n.reshape(
            ops.one("scatter_elements", x1, index1, source1, dim=0, kind=kind, mode="in_bounds")
        )
    dim = axis_of(dim, len(x.shape))
    if not index.shape:
        index = ops.reshape(index, (1,) * len(x.shape))
    if isinstance(source, Value):
        source = source if source.shape else ops.reshape(source, (1,) * len(x.shape))
        for axis, size in enumerate(index.shape):  # torch reads as many as there are indices
            if (
                isinstance(size, int)
                and isinstance(source.shape[axis], int)
                and size < source.shape[axis]
            ):
                source = ops.slice_axis(source, axis, 0, size)
    source = n.spread(source, n.dtype, index.shape)
    if reduce == "mean" or not include_self:
        repeated = repeated_axes(n.node.args[2])
        return reduce_at(n, x, index, source, dim, reduce or "", include_self, repeated)
    x, source = added_up(kind, x), added_up(kind, source)
    return ops.convert(
        ops.one("scatter_elements", x, index, source, dim=dim, kind=kind, mode="in_bounds"), n.dtype
    )


def _of_booleans(
    n: Node, kind: str, x: Value, dim: int, index: Value, source: Any, include_self: bool
) -> Value:
    """As numbers: a sum is whether one is true, a product whether all are."""
    if len(index.shape) != len(x.shape) or not isinstance(source, Value) or not x.shape:
        raise Unsupported("reducing single booleans")
    for axis, size in enumerate(index.shape):
        if (
            isinstance(size, int)
            and isinstance(source.shape[axis], int)
            and size < source.shape[axis]
        ):
            source = ops.slice_axis(source, axis, 0, size)
    numbers = [ops.convert(v, dt.uint8) for v in (x, source)]
    reduce = "amax" if kind in ("add", "max") else "amin"
    out = reduce_at(
        n, numbers[0], index, numbers[1], axis_of(dim, len(x.shape)), reduce, include_self
    )
    return ops.convert(out, dt.bool_)


@lowering("aten.index_add.default", "aten.index_copy.default")
def index_add(n: Node, x: Value, dim: int, index: Value, source: Value, *, alpha: Any = 1) -> Value:
    kind, wanted = (
        "add" if "index_add" in str(n.node.target) else "set",
        n.shape_of(fake_of(n.node.args[3])),
    )
    if not x.shape:
        x, wanted = ops.reshape(x, (1,)), (1,)
    dim = axis_of(dim, len(x.shape))
    x, source = added_up(kind, x), added_up(kind, source)
    if alpha != 1 and x.dtype is not dt.bool_:
        source = ops.one("mul", source, n.spread(alpha, source.dtype, source.shape))
    source = ops.reshape(source, wanted)
    if alpha == 0:
        return n.reshape(ops.convert(x, n.dtype))
    if x.dtype is dt.bool_ and kind == "add":  # a sum of booleans is whether one is true
        x, source, kind = ops.convert(x, dt.uint8), ops.convert(source, dt.uint8), "max"
    index = ops.reshape(index, (source.shape[dim],))
    spread = ops.broadcast_in(ops.convert(index, dt.int64), source.shape, (dim,))
    out = ops.one("scatter_elements", x, spread, source, dim=dim, kind=kind, mode="in_bounds")
    return n.reshape(ops.convert(out, n.dtype))


def _lists(
    n: Node, x: Value, indices: Sequence[Value | None]
) -> tuple[Value, list[Value], list[int]]:
    """x, lists of indices, and their axes."""
    x, indices, places = without_masks(n, x, indices)
    found = [(v, i) for i, v in enumerate(indices) if v is not None]
    lists = [v if v.id in places else from_zero(n, v, x.shape[i]) for v, i in found]
    return x, lists, [i for _, i in found]


@lowering("aten.index.Tensor", "aten._unsafe_index.Tensor")
def index(n: Node, x: Value, indices: Sequence[Value | None]) -> Value:
    x, lists, at = _lists(n, x, indices)
    shape: tuple[Size, ...] = ()
    for v in lists:
        shape = ops.broadcast_shapes(shape, v.shape)
    if len(at) == 1 and at[0] < len(x.shape):
        return n.learn(ops.one("take", x, lists[0], dim=at[0], mode="in_bounds"))
    moved, rest = _to_front(x, at)
    vectors = [ops.reshape(ops.broadcast_to(v, shape), (*shape, 1)) for v in lists]
    count = len(at)
    taken = _gathered(moved, ops.concat(vectors, len(shape)), count, len(shape))
    if (
        at == list(range(at[0], at[0] + count)) and at[0]
    ):  # the result of adjacent lists stays there
        taken = ops.transpose(taken, _move_back(len(shape), len(rest), at[0]))
    return n.learn(taken)


def _to_front(x: Value, at: list[int]) -> tuple[Value, list[int]]:
    rest = [i for i in range(len(x.shape)) if i not in at]
    return ops.transpose(x, [*at, *rest]), rest


def _move_back(lists: int, rest: int, at: int) -> list[int]:
    others = [lists + i for i in range(rest)]
    return [*others[:at], *range(lists), *others[at:]]


def _gathered(x: Value, vectors: Value, count: int, rank: int) -> Value:
    """Slices of x at vectors of `count` indices, the last dim of `vectors`."""
    from tenon.builder import DIMS, I64, I64S, STRING

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


@lowering("aten.index_put.default", "aten._unsafe_index_put.default")
def index_put(
    n: Node, x: Value, indices: Sequence[Value | None], values: Value, accumulate: bool = False
) -> Value:
    mask = indices[0]
    if len(indices) == 1 and mask is not None and mask.dtype is dt.bool_:
        return _masked_put(n, x, mask, values, accumulate)
    x, lists, at = _lists(n, x, indices)
    shape: tuple[Size, ...] = ()
    for v in lists:
        shape = ops.broadcast_shapes(shape, v.shape)
    moved, rest = _to_front(x, at)
    adjacent = at == list(range(at[0], at[0] + len(at)))
    kept = [x.shape[i] for i in rest]
    if adjacent and at[0]:
        whole = (*kept[: at[0]], *shape, *kept[at[0] :])
        back = _move_back(len(shape), len(rest), at[0])
        updates = ops.transpose(
            ops.broadcast_to(values, whole), [back.index(i) for i in range(len(back))]
        )
    else:
        updates = ops.broadcast_to(values, (*shape, *kept))
    kind = "add" if accumulate else "set"
    if x.dtype is dt.bool_ and accumulate:  # a sum of booleans is whether one is true
        moved, updates, kind = ops.convert(moved, dt.uint8), ops.convert(updates, dt.uint8), "max"
    spread = [ops.broadcast_to(v, shape) for v in lists]
    made = scattered(added_up(kind, moved), spread, added_up(kind, updates), shape, kind)
    put = ops.convert(made, x.dtype)
    order = [*at, *rest]
    return n.reshape(ops.transpose(put, [order.index(i) for i in range(len(order))]))


def scattered(
    x: Value, lists: list[Value], updates: Value, shape: tuple[Size, ...], kind: str
) -> Value:
    from tenon.builder import I64, I64S, STRING

    rank, count = len(shape), len(lists)
    vectors = ops.concat([ops.reshape(v, (*shape, 1)) for v in lists], rank)
    given = (
        ("index_map", I64S, tuple(range(count))),
        ("index_vector_dim", I64, rank),
        ("inserted_dims", I64S, tuple(range(count))),
        ("kind", STRING, kind),
        ("mode", STRING, "in_bounds"),
        ("window_dims", I64S, tuple(range(rank, rank + len(x.shape) - count))),
    )
    return emit("scatter", (x, vectors, updates), given)[0]


def _masked_put(n: Node, x: Value, mask: Value, values: Value, accumulate: bool) -> Value:
    """One value for all places of a mask, or one for each."""
    if values.shape and not all(isinstance(s, int) and s == 1 for s in values.shape):
        value = _in_order(n, x, mask, values)
    else:
        value = ops.broadcast_to(ops.reshape(values, ()), x.shape)
    if accumulate:
        value = ops.one("or" if x.dtype is dt.bool_ else "add", x, value)
    return ops.select(ops.broadcast_in(mask, x.shape, range(len(mask.shape))), value, x)


def _in_order(n: Node, x: Value, mask: Value, values: Value) -> Value:
    """The values in the order of the places of the mask that are set; x's shape."""
    rest = x.shape[len(mask.shape) :]
    if (
        len(values.shape) != 1 + len(rest)
        or isinstance(values.shape[0], int)
        and values.shape[0] == 1
    ):
        value = ops.broadcast_to(values, (1, *rest))
        return ops.broadcast_in(
            ops.reshape(value, rest), x.shape, range(len(mask.shape), len(x.shape))
        )
    number = ops.convert(flat(mask), dt.int64)
    before = ops.one("sub", ops.one("cumsum", number, dim=0), number)
    values = _as_many(n, ops.broadcast_to(values, (values.shape[0], *rest)), mask, number)
    return ops.one("take", values, ops.reshape(before, mask.shape), dim=0)


def _as_many(n: Node, values: Value, mask: Value, number: Value) -> Value:
    """Values, with at least one row, in a call that fails unless there is one for each place of a mask."""
    size, found = values.shape[0], n.walk.places.get(mask.id)
    is_sure = found is not None and same(found.shape[0], size) == YES
    if not isinstance(size, int) or size == 0:  # a row that no place reads
        row = ops.full(
            (1, *values.shape[1:]), False if values.dtype is dt.bool_ else 0, values.dtype
        )
        values = ops.concat([values, row], 0)
    if is_sure:
        return values
    total = ops.one("reduce_sum", number, dims=(0,))
    return checked_whole(values, ops.compare(total, n.typed(size, dt.int64), 0))


@lowering("aten.index_fill.int_Scalar", "aten.index_fill.int_Tensor")
def index_fill(n: Node, x: Value, dim: int, index: Value, value: Any) -> Value:
    if not x.shape:
        return n.to_result(value)
    dim = axis_of(dim, len(x.shape))
    flat = from_zero(n, ops.reshape(index, (1,)) if not index.shape else index, x.shape[dim])
    shape = tuple(flat.shape[0] if i == dim else s for i, s in enumerate(x.shape))
    at = ops.broadcast_in(flat, shape, (dim,))
    source = n.spread(value, x.dtype, shape)
    return ops.one("scatter_elements", x, at, source, dim=dim, kind="set", mode="in_bounds")


@lowering("aten.take.default")
def take(n: Node, x: Value, index: Value) -> Value:
    count: Any = 1
    for size in x.shape:
        count = count * size
    flat = ops.reshape(x, (count,))
    return ops.one("take", flat, from_zero(n, index, count), dim=0, mode="in_bounds")
