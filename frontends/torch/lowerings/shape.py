"""Movement that shapes decide: views, slices, concatenation, filling, padding."""

from __future__ import annotations

from tenon import builder
from tenon.builder import DIMS, I64S, Dim, Value, emit, ops
from tenon.builder import dtypes as dt

import torch

from ..graph.node import Node, axis_of, constant, fake_of, from_zero
from ..graph.sizes import Whole
from ..graph.table import Unsupported, lowering

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from tenon.builder import Size


@lowering(
    "aten.view.default", "aten._unsafe_view.default", "aten.reshape.default", "aten.unsqueeze.default",
    "aten.squeeze.default", "aten.squeeze.dim", "aten.squeeze.dims", "aten._reshape_alias.default",
    "aten.flatten.using_ints", "prims.collapse_view.default", "aten.reshape_as.default",
    "aten.view_copy.default", "aten.squeeze_copy.default", "aten.squeeze_copy.dims", "aten.unsqueeze_copy.default",
)  # fmt: skip
def reshape(n: Node, x: Value, *rest: Any) -> Value:
    return n.reshape(x)


@lowering("aten.permute.default", "aten.permute_copy.default")
def permute(n: Node, x: Value, dims: Sequence[int]) -> Value:
    return ops.transpose(x, [axis_of(d, len(x.shape)) for d in dims])


@lowering("aten.t.default", "aten.t_copy.default", "aten.numpy_T.default")
def transpose_all(n: Node, x: Value) -> Value:
    return ops.transpose(x, tuple(reversed(range(len(x.shape)))))


@lowering("aten.transpose.int", "aten.transpose_copy.int", "aten.swapaxes.default")
def transpose(n: Node, x: Value, a: int, b: int) -> Value:
    rank = len(x.shape)
    perm = list(range(rank))
    if rank:
        a, b = axis_of(a, rank), axis_of(b, rank)
        perm[a], perm[b] = b, a
    return ops.transpose(x, perm)


@lowering("aten.expand.default", "aten.expand_copy.default", "aten.broadcast_to.default")
def expand(n: Node, x: Value, *rest: Any, **options: Any) -> Value:
    return ops.broadcast_to(x, n.shape)


def bounds(n: Node, size: Size, start: Any, end: Any) -> tuple[Size, Size]:
    """The range of a slice of torch, from 0 on, within the size."""
    first: Size = 0 if start is None else _within(size, start)
    last: Size = (
        size if end is None or isinstance(end, int) and end >= 2**62 else _within(size, end)
    )
    return first, builder.larger(first, last)


def _within(size: Size, at: Any) -> Size:
    if isinstance(at, int) and at < 0:
        return (
            builder.larger(size + at, 0)
            if isinstance(size, int)
            else builder.larger(size, -at) - (-at)
        )
    return builder.smaller(size, at)


@lowering("aten.slice.Tensor", "aten.slice_copy.Tensor")
def slice_(
    n: Node, x: Value, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Value:
    dim = axis_of(dim, len(x.shape))
    first, last = bounds(n, x.shape[dim], start, end)
    if isinstance(last, Dim) and step == 1:  # torch has simplified the size
        last = first + n.shape[dim]
    return ops.slice_axis(x, dim, first, last, step)


@lowering("aten.select.int", "aten.select_copy.int")
def select(n: Node, x: Value, dim: int, index: Any) -> Value:
    dim = axis_of(dim, len(x.shape))
    if isinstance(index, Whole):
        number = from_zero(n, n.walk.whole(index.size), x.shape[dim])
        return n.reshape(ops.one("take", x, number, dim=dim, mode="in_bounds"))
    at = _position(x.shape[dim], index)
    return n.reshape(ops.slice_axis(x, dim, at, at + 1))


def _position(size: Size, index: Any) -> Size:
    if isinstance(index, int) and index < 0:
        return size - (-index)
    return index  # type: ignore[no-any-return]


@lowering("aten.narrow.default", "aten.narrow_copy.default")
def narrow(n: Node, x: Value, dim: int, start: Any, length: Any) -> Value:
    dim = axis_of(dim, len(x.shape))
    at = _position(x.shape[dim], start)
    return ops.slice_axis(x, dim, at, at + length)


def _parts(n: Node, x: Value, dim: int) -> tuple[Value, ...]:
    """Parts with the sizes of the results, one after another."""
    dim, at, parts = axis_of(dim, len(x.shape)), 0, []
    for fake in n.fakes:
        size = n.shape_of(fake)[dim]
        parts.append(ops.slice_axis(x, dim, at, at + size))
        at = at + size  # type: ignore[assignment]
    return tuple(parts)


@lowering(
    "aten.split.Tensor",
    "aten.split_with_sizes.default",
    "aten.split_with_sizes_copy.default",
    "aten.split_copy.Tensor",
    "aten.chunk.default",
)
def split(n: Node, x: Value, sizes: Any, dim: int = 0) -> tuple[Value, ...]:
    return _parts(n, x, dim)


@lowering("aten.unbind.int", "aten.unbind_copy.int")
def unbind(n: Node, x: Value, dim: int = 0) -> tuple[Value, ...]:
    dim = axis_of(dim, len(x.shape))
    return tuple(
        ops.reshape(ops.slice_axis(x, dim, i, i + 1), n.shape_of(fake))
        for i, fake in enumerate(n.fakes)
    )


@lowering("aten.cat.default", "aten.concat.default")
def cat(n: Node, values: list[Value], dim: int = 0) -> Value:
    rank = len(n.shape)
    kept = [v for v in values if len(v.shape) == rank]  # an empty vector goes with everything
    return ops.concat([ops.convert(v, n.dtype) for v in kept], axis_of(dim, rank))


@lowering("aten.stack.default")
def stack(n: Node, values: list[Value], dim: int = 0) -> Value:
    axis = axis_of(dim, len(n.shape))
    wanted = tuple(1 if i == axis else s for i, s in enumerate(n.shape))
    return ops.concat([ops.reshape(ops.convert(v, n.dtype), wanted) for v in values], axis)


@lowering("aten.flip.default")
def flip(n: Node, x: Value, dims: Sequence[int]) -> Value:
    axes = tuple(sorted({axis_of(d, len(x.shape)) for d in dims})) if x.shape else ()
    return ops.one("reverse", x, dims=axes) if axes else x


@lowering("aten.roll.default")
def roll(n: Node, x: Value, shifts: Any, dims: Sequence[int] = ()) -> Value:
    shifts = [shifts] if isinstance(shifts, int) else list(shifts)
    if not x.shape:
        return x
    if not dims:
        flat = ops.reshape(x, [_count(x.shape)])
        return n.reshape(ops.one("roll", flat, dims=(0,), shifts=tuple(shifts)))
    for dim, shift in zip(dims, shifts):
        x = ops.one("roll", x, dims=(axis_of(dim, len(x.shape)),), shifts=(shift,))
    return x


def _count(shape: Sequence[Size]) -> Size:
    count: Size = 1
    for size in shape:
        count = count * size
    return count


@lowering("aten.repeat.default")
def repeat(n: Node, x: Value, repeats: Sequence[Any]) -> Value:
    missing = len(repeats) - len(x.shape)
    grown = ops.reshape(x, (1,) * missing + x.shape)
    if all(isinstance(s, int) and s == 1 for s in grown.shape):
        return ops.broadcast_to(grown, n.shape)
    return emit("tile", (grown,), (("repeats", DIMS, tuple(repeats)),))[0]


@lowering("aten.tril.default", "aten.triu.default")
def triangle(n: Node, x: Value, diagonal: int = 0) -> Value:
    return ops.one("tril_triu", x, upper=int("triu" in str(n.node.target)), diagonal=diagonal)


@lowering("aten.diagonal.default", "aten.diagonal_copy.default")
def diagonal(n: Node, x: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    rank = len(x.shape)
    return ops.one("diagonal", x, offset=offset, dim1=axis_of(dim1, rank), dim2=axis_of(dim2, rank))


# ---- Filling ----


def _filled(n: Node, value: Any) -> Value:
    return n.fitting(value)


@lowering("aten.full.default", "aten.new_full.default")
def full(n: Node, x: Any, size_or_value: Any = None, *rest: Any, **options: Any) -> Value:
    value = rest[0] if rest else size_or_value
    return _filled(n, value)


@lowering("aten.full_like.default", "aten.fill.Scalar", "aten.fill.Tensor")
def full_like(n: Node, x: Value, value: Any, **options: Any) -> Value:
    return _filled(n, value)


@lowering("aten.zeros.default", "aten.zeros_like.default", "aten.new_zeros.default", "aten.empty.memory_format",
     "aten.empty_like.default", "aten.new_empty.default", "aten.empty_permuted.default", "aten.empty_strided.default",
     "aten.new_empty_strided.default", "aten._efficientzerotensor.default")  # fmt: skip
def zeros(n: Node, *rest: Any, **options: Any) -> Value:
    return _filled(n, False if n.dtype is dt.bool_ else 0)


@lowering("aten.ones.default", "aten.ones_like.default", "aten.new_ones.default")
def ones(n: Node, *rest: Any, **options: Any) -> Value:
    return _filled(n, n.dtype is dt.bool_ or 1)


@lowering("aten.scalar_tensor.default")
def scalar_tensor(n: Node, value: Any, **options: Any) -> Value:
    return _filled(n, value)


@lowering("prims.iota.default")
def iota(n: Node, length: Any, *, start: Any, step: Any, **options: Any) -> Value:
    return _progression(n, start, step)


@lowering("aten.arange.start_step", "aten.arange.start", "aten.arange.default")
def arange(n: Node, *given: Any, **options: Any) -> Value:
    start, step = (0 if len(given) == 1 else given[0]), (given[2] if len(given) > 2 else 1)
    if dt.is_integer(n.dtype):  # torch cuts the first and the step, not what is added up
        start, step = (int(v) if isinstance(v, float) else v for v in (start, step))
    return _progression(n, start, step)


def _progression(n: Node, start: Any, step: Any) -> Value:
    if isinstance(start, float) or isinstance(step, float):
        wide = dt.float64
    else:
        wide = dt.int64
    out = ops.iota(n.shape, 0, wide)
    if step != 1:
        out = ops.one("mul", out, n.spread(step, wide))
    if isinstance(start, Dim) or start != 0:
        out = ops.one("add", out, n.spread(start, wide))
    return ops.convert(out, n.dtype)


@lowering("aten.eye.default", "aten.eye.m")
def eye(n: Node, *rest: Any, **options: Any) -> Value:
    equal = ops.compare(ops.iota(n.shape, 0, dt.int64), ops.iota(n.shape, 1, dt.int64), 0)
    return ops.convert(equal, n.dtype)


@lowering("aten.tril_indices.default", "aten.triu_indices.default")
def triangle_indices(n: Node, rows: Any, columns: Any, offset: int = 0, **options: Any) -> Value:
    if not all(isinstance(v, int) for v in (rows, columns)):
        raise Unsupported("of a size that is not known")
    made = torch.tril_indices if "tril" in str(n.node.target) else torch.triu_indices
    return constant(n.trace, made(rows, columns, offset, dtype=n.result.dtype))


# ---- Padding ----


def padded(x: Value, low: Sequence[int], high: Sequence[int], value: Any) -> Value:
    given = (("high", I64S, tuple(high)), ("low", I64S, tuple(low)))
    return emit("pad", (x, value), given)[0]


@lowering("aten.constant_pad_nd.default")
def constant_pad(n: Node, x: Value, pad: Sequence[Any], value: Any = 0) -> Value:
    if not all(isinstance(p, int) for p in pad):
        return _pad_by_concat(n, x, pad, value)
    rank = len(x.shape)
    low, high = [0] * rank, [0] * rank
    for i in range(len(pad) // 2):
        low[rank - 1 - i], high[rank - 1 - i] = pad[2 * i], pad[2 * i + 1]
    return padded(x, low, high, n.typed(value, x.dtype))


def _pad_by_concat(n: Node, x: Value, pad: Sequence[Any], value: Any) -> Value:
    """Borders whose width is known when the program runs."""
    rank = len(x.shape)
    for i in range(len(pad) // 2):
        axis, parts = rank - 1 - i, [x]
        for width, first in ((pad[2 * i], True), (pad[2 * i + 1], False)):
            if isinstance(width, int) and width <= 0:
                if width:
                    raise Unsupported("a border that cuts, next to one of unknown width")
                continue
            border = n.spread(
                value, x.dtype, tuple(width if a == axis else s for a, s in enumerate(x.shape))
            )
            parts = [border, *parts] if first else [*parts, border]
        x = ops.concat(parts, axis)
    return x


# ---- Writing a part ----


@lowering("aten.slice_scatter.default")
def slice_scatter(
    n: Node, x: Value, y: Value, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Value:
    dim = axis_of(dim, len(x.shape))
    size = x.shape[dim]
    first, last = bounds(n, size, start, end)
    y = ops.broadcast_to(ops.convert(y, x.dtype), n.shape_of(fake_of(n.node.args[1])))
    if step == 1:
        parts = [
            ops.slice_axis(x, dim, 0, first),
            y,
            ops.slice_axis(x, dim, first + y.shape[dim], size),
        ]
        kept = [p for p in parts if not (isinstance(p.shape[dim], int) and p.shape[dim] == 0)]
        return ops.concat(kept, dim) if kept else x
    if not all(isinstance(v, int) for v in (size, first)):
        raise Unsupported("steps over a size that is not known")
    positions = ops.iota((y.shape[dim],), 0, dt.int64)
    step_by = ops.one("mul", positions, n.spread(step, dt.int64, positions.shape))
    at = ops.one("add", step_by, n.spread(first, dt.int64, positions.shape))
    index = ops.broadcast_in(at, y.shape, (dim,))
    return ops.one("scatter_elements", x, index, y, dim=dim, kind="set")


@lowering("aten.select_scatter.default")
def select_scatter(n: Node, x: Value, y: Value, dim: int, index: Any) -> Value:
    dim = axis_of(dim, len(x.shape))
    at, size = _position(x.shape[dim], index), x.shape[dim]
    middle = tuple(1 if i == dim else s for i, s in enumerate(x.shape))
    y = ops.reshape(ops.convert(y, x.dtype), middle)
    return ops.concat([ops.slice_axis(x, dim, 0, at), y, ops.slice_axis(x, dim, at + 1, size)], dim)


@lowering("aten.diagonal_scatter.default")
def diagonal_scatter(
    n: Node, x: Value, y: Value, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Value:
    rank = len(x.shape)
    dim1, dim2 = axis_of(dim1, rank), axis_of(dim2, rank)
    rows, columns = ops.iota(x.shape, dim1, dt.int64), ops.iota(x.shape, dim2, dt.int64)
    on = ops.compare(ops.one("sub", columns, rows), n.spread(offset, dt.int64, x.shape), 0)
    along = ops.one("min", rows, columns)
    rest = [i for i in range(rank) if i not in (dim1, dim2)]
    # The diagonal as a tensor of x's rank: element k of it stands at both axes.
    length = y.shape[-1]
    if not isinstance(length, int):
        raise Unsupported("a diagonal of unknown length")
    if length == 0:
        return x
    grown = ops.broadcast_in(
        y,
        tuple(x.shape[i] for i in rest) + (x.shape[dim1], length),
        tuple(range(len(rest))) + (len(rest) + 1,),
    )
    order = [(*rest, dim1, dim2).index(i) for i in range(rank)]
    moved = ops.transpose(grown, order)
    clipped = ops.one("min", along, n.spread(length - 1, dt.int64, x.shape))
    spread = ops.one("take_along", moved, clipped, dim=dim2)
    return ops.select(on, spread, x)


@lowering("aten.unfold.default", "aten.unfold_copy.default")
def unfold(n: Node, x: Value, dim: int, size: int, step: int) -> Value:
    if not x.shape:
        return n.reshape(x)
    dim = axis_of(dim, len(x.shape))
    windows = n.shape[dim]
    if not isinstance(windows, int):
        raise Unsupported("windows over a size that is not known")
    grid = (windows, size)
    at = ops.one(
        "add",
        ops.one("mul", ops.iota(grid, 0, dt.int64), n.spread(step, dt.int64, grid)),
        ops.iota(grid, 1, dt.int64),
    )
    taken = ops.one("take", x, at, dim=dim)
    rank = len(x.shape)
    return ops.transpose(taken, [*range(dim + 1), *range(dim + 2, rank + 1), dim + 1])
