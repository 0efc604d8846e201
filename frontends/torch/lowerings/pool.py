"""Pooling in windows of uneven size, resizing with filters, and their gradients.

Each is linear along every axis, or a choice within windows whose places are known: a matrix per
axis, or a list of places, is computed here and becomes a constant.
"""

from __future__ import annotations

from tenon.builder import Value, emit, ops
from tenon.builder import dtypes as dt

import torch

from ..graph.node import Node, constant, wide
from ..graph.table import Unsupported, lowering
from .shape import padded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


def known(*shapes: Sequence[Any]) -> None:
    """Refuses sizes that only a call knows."""
    if not all(isinstance(s, int) for shape in shapes for s in shape):
        raise Unsupported("sizes that are not known")


def along(n: Node, x: Value, matrix: torch.Tensor, axis: int) -> Value:
    """x with an axis multiplied by a matrix [out, in] of float64, in float32 for types of 16 bits."""
    if not dt.is_float(x.dtype):
        raise Unsupported("fractional weights of integers")
    x = ops.convert(x, wide(x.dtype))
    factor = ops.convert(constant(n.trace, matrix), x.dtype)
    given = ops.attrs(a_batch=(), a_contract=(axis,), b_batch=(), b_contract=(1,))
    made = emit("dot_general", (x, factor), given)[0]  # the axis is the last one now
    rank = len(x.shape)
    return ops.transpose(made, [*range(axis), rank - 1, *range(axis, rank - 1)])


def _rank(n: Node) -> int:
    return 3 if "3d" in str(n.node.target) else 1 if "1d" in str(n.node.target) else 2


def numbers(given: Any, rank: int) -> tuple[int, ...]:
    given = [given] if isinstance(given, int) else list(given)
    known(given)
    return tuple(given) * rank if len(given) == 1 else tuple(given)


# ---- Averages ----


class Windows:
    """The windows of a pooling along one axis, with the borders that torch counts."""

    def __init__(self, size: int, out: int, window: int, stride: int, padding: int):
        start = torch.arange(out) * stride - padding
        end = (start + window).clamp(max=size + padding)
        self.whole = end - start
        self.start, self.end = start.clamp(min=0), end.clamp(max=size)
        at = torch.arange(size)
        self.matrix = ((at >= self.start[:, None]) & (at < self.end[:, None])).double()


def counts(windows: Sequence[Windows], count_pad: bool, divisor: int | None) -> torch.Tensor:
    """What the sum of each window is divided by."""
    out = torch.ones((), dtype=torch.int64)
    for w in windows:
        each = w.whole if count_pad else w.end - w.start
        out = out[..., None] * each
    return torch.full_like(out, divisor) if divisor else out


def _windows(sizes: Any, outs: Any, window: Any, stride: Any, padding: Any) -> list[Windows]:
    known(sizes, outs)
    return [Windows(*numbers_) for numbers_ in zip(sizes, outs, window, stride, padding)]


def average(
    n: Node, x: Value, window: Any, stride: Any, padding: Any, count_pad: bool, divisor: int | None
) -> Value:
    """Sums of windows, divided by what torch counts. For all that `avg_pool` has not."""
    rank = len(window)
    lead = (1,) * (len(x.shape) - rank)
    windows = _windows(x.shape[-rank:], n.shape[-rank:], window, stride, padding)
    high = [
        (o - 1) * s + w - size - p
        for size, o, w, s, p in zip(x.shape[-rank:], n.shape[-rank:], window, stride, padding)
    ]
    zeros = (0,) * len(lead)
    given = ops.attrs(
        kind="sum", window=lead + tuple(window), strides=lead + tuple(stride),
        pad_low=zeros + tuple(padding), pad_high=zeros + tuple(high),
    )  # fmt: skip
    x = ops.convert(x, wide(x.dtype))
    made = _divided(n, emit("reduce_window", (x,), given)[0], counts(windows, count_pad, divisor))
    return ops.convert(made, n.dtype)


def _divided(n: Node, x: Value, by: torch.Tensor) -> Value:
    first = len(x.shape) - by.dim()
    number = ops.convert(constant(n.trace, by), x.dtype)
    return ops.one("div", x, ops.broadcast_in(number, x.shape, range(first, len(x.shape))))


@lowering("aten.avg_pool2d_backward.default", "aten.avg_pool3d_backward.default")
def average_backward(
    n: Node, g: Value, x: Value, window: Any, stride: Any, padding: Any, ceil: bool, count_pad: bool,
    divisor: int | None,
) -> Value:  # fmt: skip
    rank = _rank(n)
    window = numbers(window, rank)
    stride = numbers(stride, rank) if stride else window
    windows = _windows(x.shape[-rank:], g.shape[-rank:], window, stride, numbers(padding, rank))
    g = _divided(n, ops.convert(g, wide(g.dtype)), counts(windows, count_pad, divisor))
    for i, w in enumerate(windows):
        g = along(n, g, w.matrix.T.contiguous(), len(g.shape) - rank + i)
    return ops.convert(g, n.dtype)


def _adaptive(size: int, out: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Starts and ends of windows that cover an axis."""
    at = torch.arange(out)
    return at * size // out, -(-(at + 1) * size // out)


@lowering(
    "aten._adaptive_avg_pool2d_backward.default", "aten._adaptive_avg_pool3d_backward.default"
)
def adaptive_average_backward(n: Node, g: Value, x: Value) -> Value:
    rank = _rank(n)
    known(g.shape[-rank:], x.shape[-rank:])
    for axis in range(len(g.shape) - rank, len(g.shape)):
        size, out = int(x.shape[axis]), int(g.shape[axis])
        start, end = _adaptive(size, out)
        at = torch.arange(size)
        inside = ((at >= start[:, None]) & (at < end[:, None])).double() / (end - start)[:, None]
        g = along(n, g, inside.T.contiguous(), axis)
    return ops.convert(g, n.dtype)


# ---- The largest ----


def _largest(n: Node, x: Value, places: Value, cells: int) -> tuple[Value, Value]:
    """The largest of x [planes, elements] at places [planes or 1, results x cells], and where it is."""
    planes = x.shape[0]
    total = places.shape[1]
    spread = ops.broadcast_to(places, (planes, total))
    picked = ops.one("take_along", x, spread, dim=1, mode="in_bounds")
    grid = (planes, total // cells, cells)
    best = ops.one("argmax", ops.reshape(picked, grid), dim=2)
    column = ops.reshape(best, (planes, total // cells, 1))
    value = ops.one("take_along", ops.reshape(picked, grid), column, dim=2, mode="in_bounds")
    place = ops.one("take_along", ops.reshape(spread, grid), column, dim=2, mode="in_bounds")
    return n.reshape(value), n.reshape(place)


def _planes(x: Value, rank: int) -> Value:
    known(x.shape)
    elements = planes = 1
    for i, size in enumerate(x.shape):
        if i < len(x.shape) - rank:
            planes *= int(size)
        else:
            elements *= int(size)
    if not planes or not elements:
        raise Unsupported("without elements")
    return ops.reshape(x, (planes, elements))


@lowering("aten.adaptive_max_pool2d.default", "aten.adaptive_max_pool3d.default")
def adaptive_max(n: Node, x: Value, sizes: Sequence[Any]) -> tuple[Value, ...]:
    """A window that is narrower than the widest repeats its last place, which changes nothing."""
    rank = _rank(n)
    known(n.shape)
    flat = _planes(x, rank)
    if 0 in n.shape:
        raise Unsupported("without elements")
    outs = [int(s) for s in n.shape[-rank:]]
    place = torch.zeros([1] * (2 * rank), dtype=torch.int64)
    cells = 1
    for i in range(rank):
        size = int(x.shape[len(x.shape) - rank + i])
        start, end = _adaptive(size, outs[i])
        widest = int((end - start).max())
        at = torch.minimum(start[:, None] + torch.arange(widest), end[:, None] - 1)
        shape = [1] * (2 * rank)
        shape[i], shape[rank + i] = outs[i], widest
        place = place * size + at.reshape(shape)
        cells *= widest
    return _largest(n, flat, constant(n.trace, place.reshape(1, -1)), cells)


@lowering("aten.fractional_max_pool2d.default", "aten.fractional_max_pool3d.default")
def fractional_max(n: Node, x: Value, window: Any, sizes: Any, samples: Value) -> tuple[Value, ...]:
    """Windows that begin where random numbers say; the last of an axis ends with it."""
    rank = _rank(n)
    window, outs = numbers(window, rank), numbers(sizes, rank)
    flat = _planes(x, rank)
    planes = flat.shape[0]
    grid = (planes, *outs, *window)
    drawn = ops.reshape(samples, (planes, rank))
    place = n.spread(0, dt.int64, grid)
    cells = 1
    for i in range(rank):
        size = int(x.shape[len(x.shape) - rank + i])
        column = i if rank == 3 else 1 - i  # torch has the numbers of two axes the other way round
        start = _starts(n, ops.slice_axis(drawn, 1, column, column + 1), size, outs[i], window[i])
        at = ops.broadcast_in(start, grid, (0, 1 + i))
        at = ops.one("add", at, ops.iota(grid, 1 + rank + i, dt.int64))
        place = ops.one("add", ops.one("mul", place, n.spread(size, dt.int64, grid)), at)
        cells *= window[i]
    total = cells
    for out in outs:
        total *= out
    return _largest(n, flat, ops.reshape(place, (planes, total)), cells)


def _starts(n: Node, drawn: Value, size: int, out: int, window: int) -> Value:
    """[planes, out] of a column of numbers in [0, 1)."""
    shape = (drawn.shape[0], out)
    last = n.spread(size - window, dt.int64, shape)
    if out == 1:
        return last
    one = ops.one
    drawn = ops.broadcast_to(drawn, shape)
    step = ops.scalar((size - window) / (out - 1), drawn.dtype)
    at = ops.convert(ops.iota(shape, 1, dt.int64), drawn.dtype)
    step = ops.broadcast_to(step, shape)
    moved = ops.convert(one("mul", one("add", at, drawn), step), dt.int64)
    first = ops.convert(one("mul", drawn, step), dt.int64)
    ends = ops.compare(ops.iota(shape, 1, dt.int64), n.spread(out - 1, dt.int64, shape), 0)
    return ops.select(ends, last, one("sub", moved, first))


@lowering("aten.max_pool2d_with_indices_backward.default", "aten.max_pool3d_with_indices_backward.default",
     "aten.adaptive_max_pool2d_backward.default", "aten.adaptive_max_pool3d_backward.default",
     "aten.fractional_max_pool2d_backward.default", "aten.fractional_max_pool3d_backward.default")  # fmt: skip
def max_backward(n: Node, g: Value, x: Value, *rest: Any) -> Value:
    """The gradient goes to the places that were the largest; they are the last argument."""
    rank, places = _rank(n), rest[-1]
    if "aten.max_pool" in str(n.node.target) and _are_tiles(rank, n, places, *rest[:-1]):
        return _tiles_backward(n, g, places, numbers(rest[0], rank))
    planes: Any = 1
    for size in n.shape[:-rank]:
        planes = planes * size
    sizes: list[Any] = [1, 1]
    for i in range(rank):
        sizes[0] = sizes[0] * n.shape[len(n.shape) - rank + i]
        sizes[1] = sizes[1] * places.shape[len(places.shape) - rank + i]
    flat = ops.reshape(places, (planes, sizes[1]))
    start = n.spread(0, n.dtype, (planes, sizes[0]))
    return n.reshape(
        ops.one("scatter_elements", start, flat, ops.reshape(g, flat.shape), dim=1, kind="add")
    )


def _are_tiles(
    rank: int,
    n: Node,
    places: Value,
    window: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    *rest: Any,
) -> bool:
    """Whether each element is in one window at most, of sizes that are known."""
    sizes = [*n.shape[-rank:], *places.shape[-rank:], *numbers(window, rank)]
    return (
        all(isinstance(s, int) for s in sizes)
        and (not stride or numbers(stride, rank) == numbers(window, rank))
        and not any(numbers(padding, rank))
        and all(d == 1 for d in numbers(dilation, rank))
    )


def _tiles_backward(n: Node, g: Value, places: Value, window: Sequence[int]) -> Value:
    """Each element asks its window whether it was the largest; nothing is scattered."""
    rank, wide = len(window), n.shape
    lead = len(wide) - rank
    sizes = [int(s) for s in wide[lead:]]
    shares = [min(s, int(o) * w) for s, o, w in zip(sizes, places.shape[lead:], window)]
    covered = (*wide[:lead], *shares)

    def spread(x: Value) -> Value:
        """For each element what its window has."""
        shape: list[Any] = list(wide[:lead])
        for size, width in zip(x.shape[lead:], window):
            shape += [size, width]
        kept = [*range(lead), *range(lead, lead + 2 * rank, 2)]
        whole = [int(s) * w for s, w in zip(x.shape[lead:], window)]
        x = ops.reshape(ops.broadcast_in(x, tuple(shape), kept), (*wide[:lead], *whole))
        for axis, share in enumerate(shares):
            x = ops.slice_axis(x, lead + axis, 0, share)
        return x

    flat = ops.full(covered, 0, places.dtype)
    for axis, size in enumerate(sizes):
        flat = ops.one("mul", flat, ops.like(flat, size))
        flat = ops.one("add", flat, ops.iota(covered, lead + axis, places.dtype))
    mine = ops.compare(spread(places), flat, 0)
    made = ops.select(mine, spread(g), ops.full(covered, 0, g.dtype))
    high = [0] * lead + [size - share for size, share in zip(sizes, shares)]
    if not any(high):
        return made
    return padded(made, [0] * len(wide), high, ops.scalar(0, g.dtype))


# ---- Resizing with a filter that is as wide as the step ----


def _weights(size: int, out: int, align: bool, factor: float | None, cubic: bool) -> torch.Tensor:
    """[out, size]: what each element of the input gives to each one of the result."""
    if align:
        scale = (size - 1) / (out - 1) if out > 1 else 0.0
    else:
        scale = 1.0 / factor if factor else size / out
    wide = max(scale, 1.0)
    support = (2.0 if cubic else 1.0) * wide
    center = scale * (torch.arange(out, dtype=torch.float64) + 0.5)
    first = (center - support + 0.5).long().clamp(min=0)
    last = (center + support + 0.5).long().clamp(max=size)
    at = torch.arange(size)
    away = (at + 0.5 - center[:, None]).abs() / wide
    weight = _cubic(away) if cubic else (1 - away).clamp(min=0)
    weight = weight * ((at >= first[:, None]) & (at < last[:, None]))
    return weight / weight.sum(1, keepdim=True)


def _cubic(x: torch.Tensor, a: float = -0.5) -> torch.Tensor:
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = (((x - 5) * x + 8) * x - 4) * a
    return torch.where(x < 1, near, torch.where(x < 2, far, torch.zeros_like(x)))


@lowering("aten._upsample_bilinear2d_aa.default", "aten._upsample_bicubic2d_aa.default")
def resize_filtered(
    n: Node,
    x: Value,
    sizes: Any,
    align: bool,
    height: float | None = None,
    width: float | None = None,
) -> Value:
    return _resized(n, x, x.shape, n.shape, align, (height, width), False)


@lowering(
    "aten._upsample_bilinear2d_aa_backward.default", "aten._upsample_bicubic2d_aa_backward.default"
)
def resize_filtered_backward(
    n: Node,
    g: Value,
    outs: Any,
    sizes: Any,
    align: bool,
    height: float | None = None,
    width: float | None = None,
) -> Value:
    return _resized(n, g, n.shape, g.shape, align, (height, width), True)


def _resized(
    n: Node, x: Value, sizes: Any, outs: Any, align: bool, factors: Any, turned: bool
) -> Value:
    known(sizes[2:], outs[2:])
    if not all(f is None or isinstance(f, float) for f in factors):
        raise Unsupported("factors that are not known")
    cubic, small = "bicubic" in str(n.node.target), x.dtype is dt.uint8
    for i in (1, 0) if small else range(2):
        weights = _weights(int(sizes[2 + i]), int(outs[2 + i]), align, factors[i], cubic)
        if small:
            x = _along_in_steps(n, x, weights, 2 + i)
        else:
            x = along(n, x, weights.T.contiguous() if turned else weights, 2 + i)
    return ops.convert(x, n.dtype)


def _along_in_steps(n: Node, x: Value, weights: torch.Tensor, dim: int) -> Value:
    """Resizes bytes as torch does: weights are multiples of a power of two, and each pass rounds to bytes.

    A sum has at most 24 bits, which float32 holds.
    """
    bits, largest = 0, float(weights.max())
    while bits < 22 and 0.5 + largest * 2 ** (bits + 1) < 2**15:
        bits += 1
    scaled = weights * 2**bits
    steps = (scaled + torch.where(scaled < 0, -0.5, 0.5)).trunc() / 2**bits
    made = along(n, ops.convert(x, dt.float32), steps, dim)
    whole = ops.one("floor", ops.one("add", made, ops.like(made, 0.5)))
    inside = ops.one("max", ops.one("min", whole, ops.like(whole, 255.0)), ops.like(whole, 0.0))
    return ops.convert(inside, dt.uint8)
