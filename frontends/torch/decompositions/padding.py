"""Gradients of paddings: what borders got is added to the elements that they show, by slices.

Places would be scattered to one by one. Slices are read in the order of memory, dim by dim.
"""

from __future__ import annotations

import torch

from .registry import composite

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from torch import Tensor

    # What a border along a dim adds to the elements next to it.
    Shown = Callable[[Tensor, int], Tensor]


def _at(x: Tensor, dim: int, first: Any, rest: Any) -> Tensor:
    """With so many zeros before and after it along a dim; negative ones cut."""
    return torch.constant_pad_nd(x, [0, 0] * (x.dim() - 1 - dim) + [first, rest])


def _backward(g: Tensor, x: Tensor, padding: Sequence[int], shown: Shown, apart: int) -> Tensor:
    """`apart`: elements between a border and the first one that it shows."""
    wide = g.float() if g.dtype in (torch.float16, torch.bfloat16) else g
    for i in range(len(padding) // 2):
        dim, (low, high) = x.dim() - 1 - i, padding[2 * i : 2 * i + 2]
        size = x.shape[dim]
        total = _at(wide, dim, -low, -high)
        if low > 0:
            border = shown(wide.narrow(dim, 0, low), dim)
            total = total + _at(border, dim, apart, size - apart - border.shape[dim])
        if high > 0:
            border = shown(wide.narrow(dim, low + size, high), dim)
            total = total + _at(border, dim, size - apart - border.shape[dim], apart)
        wide = total
    return wide.to(g.dtype).contiguous()


@composite(
    "reflection_pad1d_backward.default",
    "reflection_pad2d_backward.default",
    "reflection_pad3d_backward.default",
)
def reflection_pad_backward(g: Tensor, x: Tensor, padding: Sequence[int]) -> Any:
    return _backward(g, x, padding, lambda border, dim: border.flip(dim), 1)


@composite(
    "replication_pad1d_backward.default",
    "replication_pad2d_backward.default",
    "replication_pad3d_backward.default",
)
def replication_pad_backward(g: Tensor, x: Tensor, padding: Sequence[int]) -> Any:
    return _backward(g, x, padding, lambda border, dim: border.sum(dim, keepdim=True), 0)
