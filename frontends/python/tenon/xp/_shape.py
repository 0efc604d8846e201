"""tenon.xp: the same elements in other places."""

from __future__ import annotations

import operator

from tenon.builder import dtypes as dt
from tenon.builder import ops
from tenon.builder.trace import DIMS, NO, Dim, Value, emit, same
from tenon.xp import _indexing
from tenon.xp._array import Array, value_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from tenon.builder.trace import Size

__all__ = [
    "broadcast_arrays", "broadcast_shapes", "broadcast_to", "concat", "expand_dims", "flip",
    "moveaxis", "permute_dims", "reshape", "roll", "squeeze", "stack", "tile", "unstack",
]  # fmt: skip


def axis_of(axis: Any, rank: int) -> int:
    """An axis from 0. IndexError if there is none of this number."""
    at: int = operator.index(axis)
    if not -rank <= at < rank:
        raise IndexError(f"axis {at} of an array of {rank} axes")
    return at + rank if at < 0 else at


def axes_of(axis: Any, rank: int) -> tuple[int, ...]:
    """Axes from 0: all for None. ValueError if one is there twice."""
    if axis is None:
        return tuple(range(rank))
    listed = axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = tuple(axis_of(a, rank) for a in listed)
    if len(set(axes)) != len(axes):
        raise ValueError(f"axis={axis} names an axis twice")
    return axes


def broadcast_shapes(*shapes: tuple[Any, ...]) -> tuple[Any, ...]:
    """The shape that all of them repeat to."""
    out: tuple[Any, ...] = ()
    for shape in shapes:
        out = ops.broadcast_shapes(out, ops.shape_of(shape))
    return out


def broadcast_to(x: Array, /, shape: tuple[Any, ...]) -> Array:
    """x repeated along new axes and along its axes of size 1."""
    v, shape = value_of(x), ops.shape_of(shape)
    found = ops.broadcast_shapes(v.shape, shape)
    if not ops.same_shape(found, shape):
        raise ValueError(f"{ops.shape_text(v.shape)} does not repeat to {ops.shape_text(shape)}")
    return Array(ops.broadcast_to(v, shape))


def broadcast_arrays(*arrays: Array) -> list[Array]:
    """All of them repeated to one shape."""
    shape = broadcast_shapes(*(value_of(a).shape for a in arrays))
    return [broadcast_to(a, shape) for a in arrays]


def promoted(arrays: Sequence[Any]) -> list[Value]:
    """The values of arrays, in their common type."""
    values = [value_of(a) for a in arrays]
    if not values:
        raise ValueError("at least one array is needed")
    dtype = values[0].dtype
    for v in values[1:]:
        dtype = dt.promote(dtype, v.dtype)
    return [ops.convert(v, dtype) for v in values]


def concat(arrays: Sequence[Array], /, *, axis: int | None = 0) -> Array:
    """Joins arrays along an axis; flattens them first if axis is None."""
    values = promoted(arrays)
    if axis is None:
        values = [ops.reshape(v, (_count(v.shape),)) for v in values]
        axis = 0
    if not values[0].shape:
        raise ValueError("arrays without axes cannot be joined: use stack")
    at = axis_of(axis, len(values[0].shape))
    for v in values[1:]:
        fits = len(v.shape) == len(values[0].shape) and all(
            i == at or same(a, b) != NO for i, (a, b) in enumerate(zip(v.shape, values[0].shape))
        )
        if not fits:
            raise ValueError(
                f"shapes {ops.shape_text(values[0].shape)} and {ops.shape_text(v.shape)} differ "
                f"outside of axis {at}"
            )
    return Array(ops.concat(values, at))


def stack(arrays: Sequence[Array], /, *, axis: int = 0) -> Array:
    """Arrays of one shape along a new axis."""
    values = promoted(arrays)
    if any(not ops.same_shape(v.shape, values[0].shape) for v in values):
        raise ValueError("stack takes arrays of one shape")
    at = axis_of(axis, len(values[0].shape) + 1)
    shape = values[0].shape
    wide = [ops.reshape(v, (*shape[:at], 1, *shape[at:])) for v in values]
    return Array(ops.concat(wide, at))


def unstack(x: Array, /, *, axis: int = 0) -> tuple[Array, ...]:
    """The parts of x along an axis, which goes away."""
    v = value_of(x)
    at = axis_of(axis, len(v.shape))
    before = [slice(None)] * at
    return tuple(Array(_indexing.get(v, (*before, i))) for i in range(v.shape[at]))


def expand_dims(x: Array, /, axis: int | tuple[int, ...] = 0) -> Array:
    """x with new axes of size 1, at these places of the result."""
    v = value_of(x)
    listed = axis if isinstance(axis, tuple) else (axis,)
    rank = len(v.shape) + len(listed)
    axes = axes_of(listed, rank)
    sizes = iter(v.shape)
    return Array(ops.reshape(v, [1 if i in axes else next(sizes) for i in range(rank)]))


def squeeze(x: Array, /, axis: int | tuple[int, ...]) -> Array:
    """x without these axes, whose size is 1."""
    v = value_of(x)
    axes = axes_of(axis, len(v.shape))
    for a in axes:
        if v.shape[a] != 1:
            raise ValueError(f"axis {a} has size {v.shape[a]}: only those of size 1 can go")
    return Array(ops.reshape(v, [s for i, s in enumerate(v.shape) if i not in axes]))


def flip(x: Array, /, *, axis: int | tuple[int, ...] | None = None) -> Array:
    """The elements in reverse order along some axes; along all for None."""
    v = value_of(x)
    axes = axes_of(axis, len(v.shape))
    return Array(ops.one("reverse", v, dims=axes) if axes else v)


def permute_dims(x: Array, /, axes: tuple[int, ...]) -> Array:
    """Axis axes[i] of x becomes axis i."""
    v = value_of(x)
    order = axes_of(tuple(axes), len(v.shape))
    if len(order) != len(v.shape):
        raise ValueError(f"axes={axes} for an array of {len(v.shape)} axes")
    return Array(ops.transpose(v, order))


def moveaxis(
    x: Array, source: int | tuple[int, ...], destination: int | tuple[int, ...], /
) -> Array:
    """Axes of x at other places; the others keep their order."""
    rank = len(value_of(x).shape)
    come, go = axes_of(source, rank), axes_of(destination, rank)
    if len(come) != len(go):
        raise ValueError(f"{len(come)} axes are moved to {len(go)} places")
    order = [a for a in range(rank) if a not in come]
    for place, axis in sorted(zip(go, come)):
        order.insert(place, axis)
    return permute_dims(x, tuple(order))


def _count(shape: Sequence[Size]) -> Size:
    total: Size = 1
    for s in shape:
        total = total * s
    return total


def reshape(x: Array, /, shape: Any, *, copy: bool | None = None) -> Array:
    """The same elements in row-major order under another shape; one size may be -1."""
    v = value_of(x)
    sizes: list[Size] = list(shape) if isinstance(shape, (tuple, list)) else [shape]
    sizes = [s if isinstance(s, Dim) else operator.index(s) for s in sizes]
    open_ = [i for i, s in enumerate(sizes) if not isinstance(s, Dim) and s == -1]
    if len(open_) > 1:
        raise ValueError("one size may be -1, not several")
    if any(not isinstance(s, Dim) and s < -1 for s in sizes):
        raise ValueError(f"{ops.shape_text(sizes)} is not a shape")
    count = _count(v.shape)
    if open_:
        rest = _count([s for i, s in enumerate(sizes) if i != open_[0]])
        if not isinstance(rest, Dim) and (rest == 0 or (isinstance(count, int) and count % rest)):
            raise ValueError(_misfit(v, sizes))
        sizes[open_[0]] = count // rest  # type: ignore[operator]
    elif same(_count(sizes), count) == NO:
        raise ValueError(_misfit(v, sizes))
    return Array(ops.reshape(v, sizes))


def _misfit(v: Value, sizes: Sequence[Size]) -> str:
    return f"{_count(v.shape)} elements do not fit into shape {ops.shape_text(sizes)}"


def roll(
    x: Array,
    /,
    shift: int | tuple[int, ...],
    *,
    axis: int | tuple[int, ...] | None = None,
) -> Array:
    """Elements moved along axes; those that leave at the end come back at the start."""
    v = value_of(x)
    if axis is None:
        if isinstance(shift, tuple):
            raise ValueError("several shifts need axis=")
        flat = ops.reshape(v, (_count(v.shape),))
        return Array(ops.reshape(_rolled(flat, (shift,), (0,)), v.shape))
    listed = axis if isinstance(axis, tuple) else (axis,)
    axes = tuple(axis_of(a, len(v.shape)) for a in listed)
    shifts = shift if isinstance(shift, tuple) else (shift,) * len(axes)
    if len(shifts) != len(axes):
        raise ValueError(f"{len(shifts)} shifts for {len(axes)} axes")
    return Array(_rolled(v, shifts, axes))


def _rolled(v: Value, shifts: Sequence[int], axes: Sequence[int]) -> Value:
    for shift, axis in zip(shifts, axes):
        size = v.shape[axis]
        if not isinstance(size, Dim):
            if size == 0:
                continue
            shift %= size
        v = ops.one("roll", v, dims=(axis,), shifts=(shift,))
    return v


def tile(x: Array, repetitions: tuple[int, ...], /) -> Array:
    """x repeated as a whole, per axis; missing axes of either count as 1."""
    v, times = value_of(x), ops.shape_of(repetitions)
    rank = max(len(v.shape), len(times))
    times = (1,) * (rank - len(times)) + times
    v = ops.reshape(v, (*(1,) * (rank - len(v.shape)), *v.shape))
    return Array(emit("tile", (v,), (("repeats", DIMS, times),))[0])
