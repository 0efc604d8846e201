"""Indexing: x[key] as slices and gathers, x[key] = v as a new value."""

from __future__ import annotations

import operator

from tenon.builder import dtypes as dt
from tenon.builder import ops
from tenon.builder.dtypes import DType
from tenon.builder.trace import YES, Dim, SizeNeeded, Value, active, larger, same, smaller
from tenon.xp._array import Array, asarray

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tenon.builder.trace import Size
    from tenon.xp._array import Array


def get(x: Value, key: Any, outside: int | None = None) -> Value:
    """x[key] with NumPy's rules.

    Integer arrays out of range read the nearest element along each axis, or give `outside`.
    """
    entries = _expanded(key, x)
    x, rest = _basic(x, entries)
    return _advanced(x, rest, outside) if any(isinstance(e, Value) for e in rest) else x


def put(x: Value, key: Any, array: Array) -> Value:
    """x with x[key] replaced. Several values for one element: the last one stays.

    Nothing is written where an integer array is out of range.
    """
    v = _as_type(array, x.dtype)
    if _is_mask(key) and ops.same_shape(key.shape, x.shape) and not v.shape:
        return ops.select(key._value, v, x)
    count: Size = 1
    for s in x.shape:
        count = count * s
    places = ops.reshape(ops.iota((count,), 0, dt.int64), x.shape)
    places = get(places, key, outside=-1)  # which index_put leaves out
    shape = ops.broadcast_shapes(v.shape, places.shape)
    if len(shape) != len(places.shape) or any(same(a, b) == 0 for a, b in zip(shape, places.shape)):
        raise ValueError(
            f"a value of shape {ops.shape_text(v.shape)} cannot be written into "
            f"{ops.shape_text(places.shape)}"
        )
    if ops.same_shape(places.shape, x.shape) and key is Ellipsis:
        return ops.broadcast_to(v, x.shape)
    number: Size = 1
    for s in places.shape:
        number = number * s
    if 0 in (n for n in (number, count) if isinstance(n, int)):
        return x
    values = ops.reshape(ops.broadcast_to(v, places.shape), (number,))
    flat = ops.reshape(x, (count,))
    return ops.reshape(ops.one("index_put", flat, values, ops.reshape(places, (number,))), x.shape)


def _as_type(array: Array, dtype: DType) -> Value:
    value = array._value
    if value.dtype is not dtype and dt.promotions[value.dtype, dtype] is not dtype:
        raise TypeError(
            f"{value.dtype.name} cannot be written into an array of {dtype.name}: convert it with "
            "xp.astype first"
        )
    return ops.convert(value, dtype)


def _is_mask(entry: Any) -> bool:
    return getattr(entry, "dtype", None) is dt.bool_ and hasattr(entry, "_value")


# ---- Keys ----


def _entry(entry: Any) -> Any:
    """An entry as a slice, an int, None, Ellipsis, or a Value."""
    if entry is None or entry is Ellipsis or isinstance(entry, (slice, Dim)):
        return entry
    if isinstance(entry, bool):
        raise IndexError("True and False are not indices: use an array of bool")
    if isinstance(entry, int):
        return entry
    if isinstance(entry, (list, tuple)) or hasattr(entry, "shape"):
        if not isinstance(entry, Array):
            entry = asarray(entry)
        if dt.is_float(entry.dtype):
            raise IndexError(f"an index is an integer or bool, not {entry.dtype.name}")
        return entry._value
    if hasattr(entry, "__index__"):
        return entry.__index__()
    raise IndexError(f"{entry!r} is not an index: integers, slices, None, ... and arrays are")


def _expanded(key: Any, x: Value) -> list[Any]:
    """One entry for each axis of x, and None for new axes; masks are lists of places."""
    entries = [_entry(e) for e in (key if isinstance(key, tuple) else (key,))]
    if sum(e is Ellipsis for e in entries) > 1:
        raise IndexError("an index has one ... at most")
    used = sum(_axes_of(e) for e in entries)
    if used > len(x.shape):
        raise IndexError(f"{used} indices for an array of {len(x.shape)} axes")
    if not any(e is Ellipsis for e in entries):
        entries.append(Ellipsis)
    at = next(i for i, e in enumerate(entries) if e is Ellipsis)
    entries[at : at + 1] = [slice(None)] * (len(x.shape) - used)
    return _without_masks(entries, x)


def _axes_of(entry: Any) -> int:
    if entry is None or entry is Ellipsis:
        return 0
    if isinstance(entry, Value) and entry.dtype is dt.bool_:
        return len(entry.shape)
    return 1


def _without_masks(entries: list[Any], x: Value) -> list[Any]:
    out: list[Any] = []
    axis = 0
    for e in entries:
        if isinstance(e, Value) and e.dtype is dt.bool_:
            shape = x.shape[axis : axis + len(e.shape)]
            if not e.shape:
                raise IndexError("a mask without axes: not yet")
            if any(same(a, b) == 0 for a, b in zip(shape, e.shape)):
                raise IndexError(
                    f"a mask of shape {ops.shape_text(e.shape)} for axes of shape "
                    f"{ops.shape_text(shape)}"
                )
            out.extend(places(e))
        else:
            out.append(e)
        axis += _axes_of(e)
    return out


def places(mask: Value) -> list[Value]:
    """Where it is not zero: for each axis the indices. Their number depends on the values."""
    found = ops.one("nonzero", mask)
    rows = [ops.slice_axis(found, 0, i, i + 1) for i in range(len(mask.shape))]
    return [ops.reshape(row, (found.shape[1],)) for row in rows]


# ---- Slices, numbers, new axes ----


def _basic(x: Value, entries: list[Any]) -> tuple[Value, list[Any]]:
    """Applies all but arrays. The rest has one entry per axis of the result: a Value or None.

    If an entry is an array, numbers are taken as arrays too.
    """
    if any(isinstance(e, Value) for e in entries):
        entries = _numbers_as_arrays(x, entries)
    elif active() is None:
        x, entries = _taken(x, entries)
    starts: list[Size] = []
    limits: list[Size] = []
    strides: list[int] = []
    flips: list[int] = []
    axis = 0
    for e in entries:
        if e is None:
            continue
        n = x.shape[axis]
        start, limit, stride = (0, n, 1) if isinstance(e, Value) else _bounds(e, n, axis)
        if stride < 0:
            flips.append(axis)
            start, limit, stride = _flipped(start, limit, stride)
        starts.append(start)
        limits.append(limit)
        strides.append(stride)
        axis += 1
    if not _is_all(x, starts, limits, strides):
        x = ops.slice_(x, starts, limits, strides)
    if flips:
        x = ops.one("reverse", x, dims=flips)
    return _regrouped(x, entries)


def _numbers_as_arrays(x: Value, entries: list[Any]) -> list[Any]:
    out: list[Any] = []
    axis = 0
    for e in entries:
        if isinstance(e, int):
            e = ops.size_value(_bounds(e, x.shape[axis], axis)[0], dt.int64)
        out.append(e)
        axis += e is not None
    return out


def _taken(x: Value, entries: list[Any]) -> tuple[Value, list[Any]]:
    """Applies numbers as operands, so that one program serves all of them. The other entries."""
    rest: list[Any] = []
    axis = gone = 0
    for e in entries:
        if isinstance(e, int):
            at = _bounds(e, x.shape[axis], axis + gone)[0]
            x = ops.one("take", x, ops.size_value(at, dt.int64), dim=axis)
            gone += 1
        else:
            rest.append(e)
            axis += e is not None
    return x, rest


def _is_all(x: Value, starts: list[Size], limits: list[Size], strides: list[int]) -> bool:
    return all(
        same(a, 0) == YES and same(b, n) == YES and s == 1
        for a, b, s, n in zip(starts, limits, strides, x.shape)
    )


def _flipped(start: Size, limit: Size, stride: int) -> tuple[Size, Size, int]:
    """The same elements from the other end: start > limit, both in range."""
    if isinstance(start, Dim) or isinstance(limit, Dim):
        raise SizeNeeded
    count = len(range(start, limit, stride))
    if count == 0:
        return 0, 0, 1
    return start + (count - 1) * stride, start + 1, -stride


def _bounds(entry: Any, n: Size, axis: int) -> tuple[Size, Size, int]:
    if isinstance(entry, slice):
        return _slice_bounds(entry, n)
    if isinstance(n, int) and isinstance(entry, int):
        if not -n <= entry < n:
            raise IndexError(f"index {entry} is out of range for axis {axis} of size {n}")
        at: Size = entry + n if entry < 0 else entry
    else:
        at = entry + n if isinstance(entry, int) and entry < 0 else entry
    return at, at + 1, 1


def _slice_bounds(entry: slice, n: Size) -> tuple[Size, Size, int]:
    step = 1 if entry.step is None else operator.index(entry.step)
    if step == 0:
        raise ValueError("the step of a slice is not 0")
    if isinstance(n, int) and not isinstance(entry.start, Dim) and not isinstance(entry.stop, Dim):
        start, stop, step = entry.indices(n)
        return (start, max(start, stop), step) if step > 0 else (start, stop, step)
    if step < 0:
        raise SizeNeeded
    first = _clamped(entry.start, n, 0)
    return first, larger(first, _clamped(entry.stop, n, n)), step


def _clamped(at: Any, n: Size, otherwise: Size) -> Size:
    if at is None:
        return otherwise
    if isinstance(at, Dim):
        return at if same(at, n) == YES else smaller(at, n)
    at = operator.index(at)
    return larger(n + at, 0) if at < 0 else smaller(at, n)


def _regrouped(x: Value, entries: list[Any]) -> tuple[Value, list[Any]]:
    """Drops the axes of numbers, adds new ones."""
    shape: list[Size] = []
    rest: list[Any] = []
    axis = 0
    for e in entries:
        if e is None:
            shape.append(1)
            rest.append(None)
            continue
        if isinstance(e, (slice, Value)):
            shape.append(x.shape[axis])
            rest.append(e if isinstance(e, Value) else None)
        axis += 1
    return ops.reshape(x, shape) if len(shape) != len(x.shape) or None in entries else x, rest


# ---- Arrays of integers ----


def wrapped(index: Value, n: Size) -> Value:
    """Indices as int64, where negative ones count from the end."""
    unsigned = index.dtype.kind == "unsigned integer"
    index = ops.convert(index, dt.int64)
    if unsigned:
        return index
    size = ops.broadcast_to(ops.size_value(n, dt.int64), index.shape)
    below = ops.compare(index, ops.like(index, 0), 2)
    return ops.select(below, ops.one("add", index, size), index)


def _nearest(index: Value, n: Size) -> Value:
    """Indices within an axis of size n."""
    last = ops.one("sub", ops.size_value(n, dt.int64), ops.scalar(1, dt.int64))
    below = ops.one("min", index, ops.broadcast_to(last, index.shape))
    return ops.one("max", below, ops.like(index, 0))


def _inside(index: Value, n: Size) -> Value:
    size = ops.broadcast_to(ops.size_value(n, dt.int64), index.shape)
    return ops.one("and", ops.compare(index, size, 2), ops.compare(index, ops.like(index, 0), 5))


def take(x: Value, index: Value, axis: int) -> Value:
    """The parts of x at these indices along an axis."""
    if same(x.shape[axis], 0) != YES:
        return ops.one("take", x, index, dim=axis)
    if same_number(index.shape, 0) != YES:
        raise IndexError("an index into an axis of size 0")
    shape = (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :])
    return ops.full(shape, False if x.dtype is dt.bool_ else 0, x.dtype)


def _advanced(x: Value, rest: list[Any], outside: int | None) -> Value:
    axes = [i for i, e in enumerate(rest) if e is not None]
    shape: tuple[Size, ...] = ()
    for axis in axes:
        shape = ops.broadcast_shapes(shape, rest[axis].shape)
    indices = [ops.broadcast_to(wrapped(rest[axis], x.shape[axis]), shape) for axis in axes]
    sizes = [x.shape[axis] for axis in axes]
    others = [i for i in range(len(rest)) if i not in axes]
    linear, total = _linear(indices, sizes)
    moved = ops.transpose(x, [*axes, *others])
    flat = ops.reshape(moved, (total, *(x.shape[i] for i in others)))
    taken = take(flat, linear, 0)
    if outside is not None:
        taken = _replaced(taken, indices, sizes, outside)
    if axes != list(range(axes[0], axes[0] + len(axes))):
        return taken
    before = axes[0]
    count = len(shape)
    perm = [*range(count, count + before), *range(count), *range(count + before, len(taken.shape))]
    return ops.transpose(taken, perm)


def _linear(indices: list[Value], sizes: list[Size]) -> tuple[Value, Size]:
    """Places in an array whose indexed axes are one axis, and the size of that."""
    if len(indices) == 1:
        return indices[0], sizes[0]  # the op takes the nearest one
    linear, total = _nearest(indices[0], sizes[0]), sizes[0]
    for index, n in zip(indices[1:], sizes[1:]):
        size = ops.broadcast_to(ops.size_value(n, dt.int64), index.shape)
        linear = ops.one("add", ops.one("mul", linear, size), _nearest(index, n))
        total = total * n
    return linear, total


def _replaced(taken: Value, indices: list[Value], sizes: list[Size], outside: int) -> Value:
    """What was taken, and `outside` where an index is out of range."""
    inside = _inside(indices[0], sizes[0])
    for index, n in zip(indices[1:], sizes[1:]):
        inside = ops.one("and", inside, _inside(index, n))
    where = ops.broadcast_in(inside, taken.shape, range(len(inside.shape)))
    return ops.select(where, taken, ops.like(taken, outside))


def same_number(shape: tuple[Size, ...], number: int) -> int:
    """Whether a shape has this many elements."""
    total: Size = 1
    for s in shape:
        total = total * s
    return same(total, number)
