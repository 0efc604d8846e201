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
    corners = list(itertools.product(*taps))
    places, inside = _places(corners, sizes)
    # Channels lie together, so that whole rows are read and added to, one for each place.
    rows, g = x.flatten(2).transpose(1, 2), g.flatten(2).transpose(1, 2).unsqueeze(1)
    wide = places.flatten(1).unsqueeze(2).expand(batch, places[0].numel(), channels)
    to_x = to_grid = None
    if wanted[0]:
        weights = torch.stack([reduce(mul, [w for _, w, _ in chosen]) for chosen in corners], 1)
        given = torch.where(inside.unsqueeze(3), g * weights.unsqueeze(3), torch.zeros_like(g))
        to_x = torch.zeros_like(rows).scatter_add(1, wide, given.flatten(1, 2))
        to_x = to_x.transpose(1, 2).reshape(x.shape).contiguous()
    if wanted[1] and mode == _NEAREST:
        to_grid = torch.zeros_like(grid, memory_format=torch.contiguous_format)
    elif wanted[1]:
        read = (rows.gather(1, wide).unflatten(1, places.shape[1:]) * g).sum(3)
        read = torch.where(inside, read, torch.zeros_like(read))
        each = [
            _slope(corners, read, a) * sign * step
            for a, (sign, step) in enumerate(zip(signs, steps))
        ]
        to_grid = torch.stack(each[::-1], -1).reshape(grid.shape)
    return to_x, to_grid


def _places(corners: Sequence[Any], sizes: Sequence[Any]) -> tuple[Tensor, Tensor]:
    """[batch, corners, places]: the number of the element that is read, and whether there is one."""
    places, inside = [], []
    for chosen in corners:
        inside.append(reduce(and_, [(p >= 0) & (p < s) for (p, _, _), s in zip(chosen, sizes)]))
        place: Any = 0
        for (p, _, _), size in zip(chosen, sizes):
            place = place * size + p.clamp(0, size - 1).to(torch.int64)
        places.append(place)
    return torch.stack(places, 1), torch.stack(inside, 1)


def _slope(corners: Sequence[Any], read: Tensor, axis: int) -> Any:
    """How the sum of what the corners read changes with the place along an axis."""
    total: Any = 0
    for i, chosen in enumerate(corners):
        rest = [w for b, (_, w, _) in enumerate(chosen) if b != axis]
        total = total + reduce(mul, rest, read[:, i] * chosen[axis][2])
    return total
