"""Gradients of samples at the points of a grid, as torch's own kernels have them."""

from __future__ import annotations

import itertools
from functools import reduce
from operator import and_, mul

import torch

from .registry import composite

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from torch import Tensor

_LINEAR, _NEAREST, _CUBIC = range(3)
_ZEROS, _BORDER, _REFLECTION = range(3)
_A = -0.75  # of the cubic kernel


def _unnormalized(x: Tensor, size: Any, align: bool) -> tuple[Tensor, Any]:
    """A place in elements, and what a step of the grid is in them."""
    return (
        ((x + 1) / 2 * (size - 1), (size - 1) / 2)
        if align
        else (((x + 1) * size - 1) / 2, size / 2)
    )


def _padded(at: Tensor, size: Any, padding: int, align: bool) -> tuple[Tensor, Tensor]:
    """A place as the padding moves it, and the sign with which it follows the original."""
    sign = torch.ones_like(at)
    if padding == _REFLECTION:
        low, span = (0.0, size - 1) if align else (-0.5, size)
        if isinstance(span, int) and span == 0:
            return torch.zeros_like(at), torch.zeros_like(at)
        away = at - low
        sign = torch.where(away < 0, -sign, sign)
        away = away.abs()
        rest, turned = torch.fmod(away, span), torch.floor(away / span).remainder(2) != 0
        at = torch.where(turned, span - rest, rest) + low
        sign = torch.where(turned, -sign, sign)
    if padding != _ZEROS:
        sign = torch.where((at > 0) & (at < size - 1), sign, torch.zeros_like(sign))
        at = at.clamp(0, size - 1)
    return at, sign


def _near(x: Tensor) -> Tensor:
    return ((_A + 2) * x - (_A + 3)) * x * x + 1


def _far(x: Tensor) -> Tensor:
    return ((_A * x - 5 * _A) * x + 8 * _A) * x - 4 * _A


def _near_slope(x: Tensor) -> Tensor:
    return (3 * (_A + 2) * x - 2 * (_A + 3)) * x


def _far_slope(x: Tensor) -> Tensor:
    return (3 * _A * x - 10 * _A) * x + 8 * _A


def _taps(at: Tensor, size: Any, mode: int, padding: int, align: bool) -> tuple[list[Any], Tensor]:
    """Along an axis: (places, weights, their slopes) of the elements that are read, and the sign of the slopes."""
    if mode == _NEAREST:
        at, sign = _padded(at, size, padding, align)
        return [(at.round(), torch.ones_like(at), torch.zeros_like(at))], sign
    if mode == _LINEAR:
        at, sign = _padded(at, size, padding, align)
        first, one = at.floor(), torch.ones_like(at)
        return [(first, first + 1 - at, -one), (first + 1, at - first, one)], sign
    first = at.floor()
    t = at - first
    weights = _far(t + 1), _near(t), _near(1 - t), _far(2 - t)
    slopes = _far_slope(t + 1), _near_slope(t), -_near_slope(1 - t), -_far_slope(2 - t)
    places = [_padded(first + i, size, padding, align)[0].round() for i in (-1, 0, 1, 2)]
    return list(zip(places, weights, slopes)), torch.ones_like(at)


@composite("grid_sampler_2d_backward.default", "grid_sampler_3d_backward.default")
def grid_sampler_backward(
    g: Tensor, x: Tensor, grid: Tensor, mode: int, padding: int, align: bool, wanted: Sequence[bool]
) -> Any:  # fmt: skip
    """Of each element that a sample reads: what it got, and how its weight changes with the place."""
    if x.dtype not in (torch.float32, torch.float64) or grid.dtype is not x.dtype:
        return NotImplemented
    batch, channels, *sizes = x.shape
    axes = len(sizes)
    steps, taps, signs = [], [], []
    for a, size in enumerate(sizes):
        at, step = _unnormalized(grid[..., axes - 1 - a].flatten(1), size, align)
        listed, sign = _taps(at, size, mode, padding, align)
        steps.append(step)
        taps.append(listed)
        signs.append(sign)
    g, flat = g.flatten(2), x.flatten(2)
    slopes: list[Any] = [0] * axes
    places, parts = [], []
    for chosen in itertools.product(*taps):
        inside = reduce(and_, [(p >= 0) & (p < s) for (p, _, _), s in zip(chosen, sizes)])
        place: Any = 0
        for (p, _, _), size in zip(chosen, sizes):
            place = place * size + p.clamp(0, size - 1).to(torch.int64)
        wide = place.unsqueeze(1).expand(batch, channels, place.shape[1])
        given = torch.where(inside.unsqueeze(1), g, torch.zeros_like(g))
        if wanted[0]:
            places.append(wide)
            parts.append(given * reduce(mul, [w for _, w, _ in chosen]).unsqueeze(1))
        if wanted[1] and mode != _NEAREST:
            read = (given * flat.gather(2, wide)).sum(1)
            for a in range(axes):
                rest = [w for b, (_, w, _) in enumerate(chosen) if b != a]
                slopes[a] = slopes[a] + reduce(mul, rest, read * chosen[a][2])
    to_x = to_grid = None
    if wanted[0]:
        to_x = (
            torch.zeros_like(flat)
            .scatter_add(2, torch.cat(places, 2), torch.cat(parts, 2))
            .reshape(x.shape)
        )
    if wanted[1] and mode == _NEAREST:
        to_grid = torch.zeros_like(grid)
    elif wanted[1]:
        each = [slope * sign * step for slope, sign, step in zip(slopes, signs, steps)]
        to_grid = torch.stack(each[::-1], -1).reshape(grid.shape)
    return to_x, to_grid
