"""Tensors that a forward graph saves, as the memory they lie in.

Many are views with gaps: queries, keys and values are parts of one product. A program takes dense
arrays, so such an input would be made dense before the call and stay so until its end. Here the
program is given the dense memory around the view, and takes the view out of it where it is read.
"""

from __future__ import annotations

import math

from tenon.builder import ops

import torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from tenon.builder import Value

# A smaller one is made dense sooner than its memory is found.
_LEAST_BYTES = 64 << 10
# What is a smaller part of its memory is read sooner once it is dense, such as the first token of each
# sequence; and a device with memory of its own gets all of it.
_LEAST_PART = 1 / 8


class Memory:
    """Dense memory around a view: `shape` of it, with the axes of the view in the order of their strides.

    The view starts at `starts` in it. Axes with one element are left out.
    """

    def __init__(self, fake: torch.Tensor, axes: list[int], extents: list[int], starts: list[int]):
        self.view, self.strides, self.offset = (
            tuple(fake.shape),
            tuple(fake.stride()),
            fake.storage_offset(),
        )
        self._axes, self._starts = axes, starts
        self.shape = tuple(extents)
        self._dense = torch.empty(extents, device="meta").stride()
        self.first = self.offset - sum(s * d for s, d in zip(starts, self._dense))

    @classmethod
    def of(cls, fake: torch.Tensor) -> Memory | None:
        """None where the view is dense as it is, small, or no such part of its memory, or a small one."""
        sizes, strides, offset = fake.shape, fake.stride(), fake.storage_offset()
        if not all(type(n) is int for n in (*sizes, *strides, offset)) or 0 in sizes:
            return None
        if fake.numel() * fake.element_size() < _LEAST_BYTES or fake.is_contiguous():
            return None
        axes = sorted((d for d, n in enumerate(sizes) if n != 1), key=lambda d: -strides[d])
        steps = [strides[d] for d in axes]
        if steps[-1] != 1 or any(a == b or a % b for a, b in zip(steps, steps[1:])):
            return None
        extents = [sizes[axes[0]]] + [a // b for a, b in zip(steps, steps[1:])]
        starts = [0] + [offset // step % extent for step, extent in zip(steps[1:], extents[1:])]
        if any(start + sizes[d] > extent for d, start, extent in zip(axes, starts, extents)):
            return None
        if fake.numel() < math.prod(extents) * _LEAST_PART:
            return None
        return cls(fake, axes, extents, starts)

    def taken(self, memory: Value) -> Value:
        """The view, of its memory."""
        limits = [start + self.view[d] for d, start in zip(self._axes, self._starts)]
        is_whole = tuple(limits) == self.shape and not any(self._starts)
        part = memory if is_whole else ops.slice_(memory, self._starts, limits)
        order = sorted(self._axes)
        return ops.reshape(ops.transpose(part, [self._axes.index(d) for d in order]), self.view)

    def read(self, tensor: torch.Tensor) -> torch.Tensor:
        """The memory that a tensor lies in; a copy where it lies elsewhere than was expected."""
        if tensor.stride() == self.strides and tensor.storage_offset() == self.offset:
            try:
                return torch.as_strided(tensor, self.shape, self._dense, self.first)
            except RuntimeError:  # its memory ends before
                pass
        with torch.no_grad():
            memory = torch.zeros(self.shape, dtype=tensor.dtype)
            place: Any = memory
            for axis, (d, start) in enumerate(zip(self._axes, self._starts)):
                place = place.narrow(axis, start, self.view[d])
            place.copy_(tensor.reshape(self._sizes(sorted(self._axes))).permute(self._order()))
        return memory

    def _sizes(self, axes: Sequence[int]) -> list[int]:
        return [self.view[d] for d in axes]

    def _order(self) -> list[int]:
        return [sorted(self._axes).index(d) for d in self._axes]
