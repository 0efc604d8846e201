"""Resizing and its gradients, axis by axis.

An element of the result is a weighted sum of few elements along each axis. Places and weights follow
from the sizes: they are computed here, as torch does, and become constants.
"""

from __future__ import annotations

import itertools
import math

from tenon.builder import Value, ops
from tenon.builder import dtypes as dt

import torch

from ..graph.node import Node, constant, wide
from ..graph.table import Unsupported, lowering
from .pool import along, known

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

# Beyond so many elements in a sum, the product with a matrix costs less than reading one by one.
_MOST = 12
_LAST = 4  # what reading elements one by one along the last axis costs, against whole vectors


class Taps:
    """For each element along an axis of a result, the places that it reads [out, taps], and their weights."""

    def __init__(self, size: int, places: torch.Tensor, weights: torch.Tensor):
        self.size, self.places, self.weights = size, places, weights

    @property
    def out(self) -> int:
        return self.places.shape[0]

    @property
    def count(self) -> int:
        return self.places.shape[1]

    def matrix(self) -> torch.Tensor:
        """As a matrix [out, in]."""
        out = torch.zeros(self.out, self.size, dtype=torch.float64)
        return out.scatter_add_(1, self.places, self.weights.double())

    def turned(self) -> Taps:
        """Those of the gradient: for each element that is read, the results that read it."""
        matrix = self.matrix().T.contiguous()
        count = max(1, int((matrix != 0).sum(1).max()))
        order = (matrix == 0).to(torch.int8).argsort(dim=1, stable=True)[:, :count]
        return Taps(self.out, order, matrix.gather(1, order))


def _factor(size: int, out: int, align: bool, factor: float | None, real: torch.dtype) -> Any:
    """The distance in x between neighbours of the result, in torch's precision."""
    if align:
        given: Any = torch.tensor(size - 1, dtype=real) / (out - 1) if out > 1 else 0.0
    else:
        given = (
            1.0 / factor
            if factor is not None and factor > 0
            else torch.tensor(size, dtype=real) / out
        )
    return torch.as_tensor(given, dtype=real)


def _nearest(size: int, out: int, factor: float | None, exact: bool) -> Taps:
    step = _factor(size, out, False, factor, torch.float32)
    at = torch.arange(out, dtype=torch.float32)
    if not exact and out == size:
        places = torch.arange(out)
    elif not exact and out == 2 * size:
        places = torch.arange(out) // 2
    else:
        places = (((at + 0.5) if exact else at) * step).floor().long()
    return Taps(size, places.clamp(max=size - 1)[:, None], torch.ones(out, 1))


def _linear(size: int, out: int, align: bool, factor: float | None, real: torch.dtype) -> Taps:
    step, at = _factor(size, out, align, factor, real), torch.arange(out, dtype=real)
    place = step * at if align else (step * (at + 0.5) - 0.5).clamp(min=0)
    first = place.floor().long().clamp(max=size - 1)
    upper = (place - first).clamp(0, 1)
    places = torch.stack([first, (first + 1).clamp(max=size - 1)], 1)
    return Taps(size, places, torch.stack([1 - upper, upper], 1))


def _cubic(size: int, out: int, align: bool, factor: float | None, real: torch.dtype) -> Taps:
    a = -0.75
    step, at = _factor(size, out, align, factor, real), torch.arange(out, dtype=real)
    place = step * at if align else step * (at + 0.5) - 0.5
    first = place.floor()
    t = place - first

    def near(x: torch.Tensor) -> torch.Tensor:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x: torch.Tensor) -> torch.Tensor:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    weights = torch.stack([far(t + 1), near(t), near(1 - t), far(2 - t)], 1)
    places = first.long()[:, None] + torch.arange(-1, 3)
    return Taps(size, places.clamp(0, size - 1), weights)


def _one_axis(n: Node, x: Value, taps: Taps, axis: int) -> Value:
    """x with an axis resampled. A weight of 1 everywhere only moves elements."""
    moves = taps.count == 1 and bool((taps.weights == 1).all())
    if moves and taps.out == taps.size and torch.equal(taps.places[:, 0], torch.arange(taps.out)):
        return x
    if taps.count > _MOST:
        return along(n, x, taps.matrix(), axis)
    total = None
    for places, weights in zip(taps.places.T.tolist(), taps.weights.double().T.tolist()):
        index = constant(n.trace, torch.tensor(places, dtype=torch.int32))
        part = ops.one("take", x, index, dim=axis)
        if not moves:
            factor = ops.convert(
                constant(n.trace, torch.tensor(weights, dtype=torch.float64)), x.dtype
            )
            part = ops.one("mul", part, ops.broadcast_in(factor, part.shape, (axis,)))
        total = part if total is None else ops.one("add", total, part)
    assert total is not None
    return total


def _cheapest(x: Value, axes: Sequence[Taps], first: int) -> tuple[int, ...]:
    """The order of the axes in which the fewest elements are read."""
    last = len(axes) - 1

    def cost(order: tuple[int, ...]) -> float:
        sizes, total = [t.size for t in axes], 0
        for i in order:
            sizes[i] = axes[i].out
            total += math.prod(sizes) * axes[i].count * (_LAST if i == last else 1)
        return total

    return min(itertools.permutations(range(len(axes))), key=cost)


def _resampled(n: Node, x: Value, axes: Sequence[Taps], moves: bool) -> Value:
    first = len(x.shape) - len(axes)
    y = x if moves else ops.convert(x, wide(x.dtype))
    for i in _cheapest(x, axes, first):
        y = _one_axis(n, y, axes[i], first + i)
    return n.reshape(ops.convert(y, n.dtype))


def _taps(
    n: Node, sizes: Sequence[Any], outs: Sequence[Any], align: bool, factors: Sequence[Any]
) -> list[Taps]:
    known(sizes, outs)
    if not all(f is None or isinstance(f, float) for f in factors):
        raise Unsupported("factors that are not known")
    if any(s == 0 for s in (*sizes, *outs)):
        raise Unsupported("without elements")
    name, real = str(n.node.target), torch.float64 if n.dtype is dt.float64 else torch.float32
    factors = list(factors) or [None] * len(sizes)
    each = list(zip(sizes, outs, factors))
    if "nearest" in name:
        return [_nearest(s, o, f, "exact" in name) for s, o, f in each]
    made = _cubic if "cubic" in name else _linear
    return [made(s, o, align, f, real) for s, o, f in each]


def _whole(axes: Sequence[Taps]) -> list[int] | None:
    """How often nearest repeats each element along every axis, if equally often."""
    times = [t.out // t.size for t in axes]
    for t, k in zip(axes, times):
        if t.out != k * t.size or not torch.equal(t.places[:, 0], torch.arange(t.out) // k):
            return None
    return times


_N, _E = "upsample_nearest", "_upsample_nearest_exact"


@lowering(*[f"aten.{kind}{axes}d.default" for kind in (_N, _E) for axes in (1, 2, 3)])
def upsample_nearest(n: Node, x: Value, sizes: Any, *factors: Any) -> Value:
    axes = _taps(n, x.shape[2:], n.shape[2:], False, factors)
    times = _whole(axes)
    if times is None:
        return _resampled(n, x, axes, True)
    shape, dims = [*x.shape[:2]], [0, 1]
    for t, k in zip(axes, times):
        dims.append(len(shape))
        shape += [t.size, k]
    return n.reshape(ops.broadcast_in(x, tuple(shape), dims))


@lowering(*[f"aten.{kind}{axes}d_backward.default" for kind in (_N, _E) for axes in (1, 2, 3)])
def upsample_nearest_backward(n: Node, g: Value, outs: Any, sizes: Any, *factors: Any) -> Value:
    axes = _taps(n, n.shape[2:], g.shape[2:], False, factors)
    times = _whole(axes)
    g = ops.convert(g, wide(g.dtype))
    if times is None:
        return _resampled(n, g, [t.turned() for t in axes], False)
    shape = [*g.shape[:2]]
    for t, k in zip(axes, times):
        shape += [t.size, k]
    dims = tuple(3 + 2 * i for i in range(len(axes)))
    return n.reshape(
        ops.convert(ops.one("reduce_sum", ops.reshape(g, tuple(shape)), dims=dims), n.dtype)
    )


_SMOOTH = ("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d", "upsample_bicubic2d")


@lowering(*[f"aten.{name}.default" for name in _SMOOTH])
def upsample(n: Node, x: Value, sizes: Any, align: bool, *factors: Any) -> Value:
    return _resampled(n, x, _taps(n, x.shape[2:], n.shape[2:], align, factors), False)


@lowering(*[f"aten.{name}_backward.default" for name in _SMOOTH])
def upsample_backward(
    n: Node, g: Value, outs: Any, sizes: Any, align: bool, *factors: Any
) -> Value:
    axes = _taps(n, n.shape[2:], g.shape[2:], align, factors)
    return _resampled(n, g, [t.turned() for t in axes], False)
