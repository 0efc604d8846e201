"""tenon.xp: searching, sorting, sets, taking by index, and products of matrices."""

from __future__ import annotations

import operator
from typing import NamedTuple

from tenon.builder import dtypes as dt
from tenon.builder import ops
from tenon.builder.trace import I64, I64S, NO, Dim, Value, emit, same
from tenon.xp import _indexing
from tenon.xp._array import Array, _is_number, _weak_type, is_weak, pair, value_of
from tenon.xp._create import arange, asarray
from tenon.xp._elementwise import check
from tenon.xp._reduce import _kept, cumulative_sum, truth
from tenon.xp._shape import _count, axes_of, axis_of, promoted, reshape
from tenon.xp._types import astype

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = [
    "argmax", "argmin", "argsort", "isin", "matmul", "matrix_transpose", "nonzero", "repeat", "searchsorted",
    "sort", "take", "take_along_axis", "tensordot", "unique_all", "unique_counts", "unique_inverse",
    "unique_values", "vecdot", "where",
]  # fmt: skip


# ---- Searching ----


def _extreme(op: str, x: Array, axis: int | None, keepdims: bool) -> Array:
    v = value_of(x)
    check(op, "real", v)
    flat = ops.reshape(v, (_count(v.shape),)) if axis is None else v
    at = 0 if axis is None else axis_of(axis, len(v.shape))
    if not isinstance(flat.shape[at], Dim) and flat.shape[at] == 0:
        raise ValueError(f"{op} over an empty axis")
    if dt.is_float(v.dtype) and op == "argmin":
        # NaN counts as the smallest, below -inf: it is the largest for argmax.
        op, flat = "argmax", ops.one("neg", flat)
    out = ops.one(op, flat, dim=at)
    axes = tuple(range(len(v.shape))) if axis is None else (at,)
    return Array(_kept(out, v, axes, keepdims))


def argmax(x: Array, /, *, axis: int | None = None, keepdims: bool = False) -> Array:
    """The index of the first largest element, of the flattened array for axis=None. NaN is largest."""
    return _extreme("argmax", x, axis, keepdims)


def argmin(x: Array, /, *, axis: int | None = None, keepdims: bool = False) -> Array:
    """The index of the first smallest element, of the flattened array for axis=None. NaN is smallest."""
    return _extreme("argmin", x, axis, keepdims)


def nonzero(x: Array, /) -> tuple[Array, ...]:
    """For each axis the indices of the elements that are not 0. Computed at once."""
    v = value_of(x)
    if not v.shape:
        raise ValueError("nonzero needs at least one axis")
    return tuple(Array(i) for i in _indexing.places(truth(v)))


def searchsorted(
    x1: Array, x2: Any, /, *, side: str = "left", sorter: Array | None = None
) -> Array:
    """Where elements of x2 go in the sorted x1, before ("left") or after ("right") equal ones."""
    if side not in ("left", "right"):
        raise ValueError(f"side={side!r} is neither 'left' nor 'right'")
    if sorter is not None:
        x1 = take(x1, sorter, axis=0)
    a, b = pair(x1, x2)
    check("searchsorted", "real", a, b)
    if len(a.shape) != 1:
        raise ValueError(f"x1 has one axis, not {len(a.shape)}")
    return Array(ops.one("searchsorted", a, b, right=int(side == "right")))


def where(condition: Array, x1: Any, x2: Any, /) -> Array:
    """x1 where the condition holds, else x2. Shapes repeat and types promote."""
    p = value_of(condition)
    check("where: the condition", "bool", p)
    if is_weak(x1) and is_weak(x2):
        x1 = asarray(x1)
        x2 = asarray(x2, dtype=None if dt.is_floating(_weak_type(x2)) else x1.dtype)
    a, b = pair(x1, x2)
    return Array(ops.select(p, a, b))


# ---- Sorting ----


def _sorted(v: Value, axis: int, descending: bool, index: bool) -> Value:
    if not v.shape:
        raise ValueError("sorting needs at least one axis")
    at = axis_of(axis, len(v.shape))
    operands = [v] + ([ops.iota(v.shape, at, dt.int64)] if index else [])
    given = (("descending", I64S, (1,)),) if descending else ()
    return emit("sort", operands, (*given, ("dim", I64, at)))[-1]


def sort(x: Array, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    """The elements in order along an axis; NaN is largest."""
    v = value_of(x)
    check("sort", "real", v)
    return Array(_sorted(v, axis, descending, False))


def argsort(x: Array, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    """The indices that sort x along an axis; equal elements keep their order."""
    v = value_of(x)
    check("argsort", "real", v)
    return Array(_sorted(v, axis, descending, True))


# ---- Sets ----


class UniqueAll(NamedTuple):
    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class UniqueCounts(NamedTuple):
    values: Array
    counts: Array


class UniqueInverse(NamedTuple):
    values: Array
    inverse_indices: Array


def _ordered(flat: Value) -> tuple[Value, Value]:
    """The elements in order, complex ones by their real parts first, and where each was."""
    places = ops.iota(flat.shape, 0, dt.int64)
    if not dt.is_complex(flat.dtype):
        ordered, perm = emit("sort", (flat, places), (("dim", I64, 0),))
        return ordered, perm
    parts = (ops.one("real", flat), ops.one("imag", flat))
    perm = emit("sort", (*parts, places), (("dim", I64, 0), ("keys", I64, 2)))[-1]
    return ops.one("take", flat, perm, dim=0), perm


def _firsts(ordered: Value) -> Value:
    """Where elements in order differ from the one before them."""
    (n,) = ordered.shape
    step = ops.compare(ops.slice_axis(ordered, 0, 1, n), ops.slice_axis(ordered, 0, 0, n - 1), 1)
    return ops.concat([ops.full((1,), True, dt.bool_), step], 0)


def _groups(first: Value, perm: Value) -> Value:
    """For each element, before it was put in order, which of the distinct ones it is."""
    group = ops.one("cumsum", ops.convert(first, dt.int64), dim=0)
    group = ops.one("sub", group, ops.like(group, 1))
    return ops.one("scatter_elements", ops.like(group, 0), perm, group, dim=0)


def _numbered(a: Value, b: Value) -> tuple[Value, Value]:
    """Integers in place of elements, the same where elements are equal."""
    left, right = _count(a.shape), _count(b.shape)
    ordered, perm = _ordered(ops.concat([ops.reshape(a, (left,)), ops.reshape(b, (right,))], 0))
    found = _groups(_firsts(ordered), perm)
    return (
        ops.reshape(ops.slice_axis(found, 0, 0, left), a.shape),
        ops.reshape(ops.slice_axis(found, 0, left, left + right), b.shape),
    )


def unique_all(x: Array, /) -> UniqueAll:
    """Distinct values in order, where each is first, which one each element is, and how often.

    Complex values are in the order of their real parts, then of their imaginary ones. NaN differs
    from NaN. The number of values depends on the elements, so it is computed at once.
    """
    v = value_of(x)
    n = _count(v.shape)
    flat = ops.reshape(v, (n,))
    if isinstance(n, int) and n == 0:
        none = ops.full((0,), 0, dt.int64)
        return UniqueAll(Array(flat), Array(none), Array(ops.reshape(none, v.shape)), Array(none))
    ordered, perm = _ordered(flat)
    first = _firsts(ordered)
    at = _indexing.places(first)[0]
    inverse = _groups(first, perm)
    ends = ops.concat(
        [ops.slice_axis(at, 0, 1, at.shape[0]), ops.full((1,), n, dt.int64)]
        if isinstance(n, int)
        else [
            ops.slice_axis(at, 0, 1, at.shape[0]),
            ops.reshape(ops.size_value(n, dt.int64), (1,)),
        ],
        0,
    )
    return UniqueAll(
        Array(ops.one("take", ordered, at, dim=0)),
        Array(ops.one("take", perm, at, dim=0)),
        Array(ops.reshape(inverse, v.shape)),
        Array(ops.one("sub", ends, at)),
    )


def unique_counts(x: Array, /) -> UniqueCounts:
    """Distinct values in order, and how often each is there. Computed at once."""
    found = unique_all(x)
    return UniqueCounts(found.values, found.counts)


def unique_inverse(x: Array, /) -> UniqueInverse:
    """Distinct values in order, and which of them each element is. Computed at once."""
    found = unique_all(x)
    return UniqueInverse(found.values, found.inverse_indices)


def unique_values(x: Array, /) -> Array:
    """Distinct values in order. Computed at once."""
    return unique_all(x).values


def isin(x1: Any, x2: Any, /, *, invert: bool = False) -> Array:
    """Whether elements of x1 are among those of x2. NaN is not."""
    a, b = pair(x1, x2)
    if a.dtype is dt.bool_:
        a, b = ops.convert(a, dt.uint8), ops.convert(b, dt.uint8)
    n = _count(b.shape)
    if isinstance(n, int) and n == 0:
        return Array(ops.full(a.shape, invert, dt.bool_))
    if dt.is_complex(a.dtype):
        a, b = _numbered(a, b)
    known = _sorted(ops.reshape(b, (n,)), 0, False, False)
    at = ops.one("searchsorted", known, a)
    found = ops.compare(ops.one("take", known, at, dim=0), a, 1 if invert else 0)
    return Array(found)


# ---- Taking ----


def _axis_for(axis: int | None, v: Value) -> int:
    if axis is None:
        if len(v.shape) != 1:
            raise ValueError(f"axis= is needed for an array of {len(v.shape)} axes")
        return 0
    return axis_of(axis, len(v.shape))


def take(x: Array, indices: Array, /, *, axis: int | None = None) -> Array:
    """The parts of x at these indices along an axis. Those out of range read the nearest."""
    v, i = value_of(x), value_of(indices)
    check("take: an index", "integer", i)
    at = _axis_for(axis, v)
    return Array(_indexing.take(v, _indexing.wrapped(i, v.shape[at]), at))


def _not_out_of_nothing(size: Any, index: Value) -> None:
    if same(size, 0) == 1 and _indexing.same_number(index.shape, 0) == NO:
        raise IndexError("an index into an axis of size 0")


def take_along_axis(x: Array, indices: Array, /, *, axis: int = -1) -> Array:
    """For each line along an axis the elements at its own indices."""
    v, i = value_of(x), value_of(indices)
    check("take_along_axis: an index", "integer", i)
    if len(v.shape) != len(i.shape):
        raise ValueError(f"{len(i.shape)} axes of indices for {len(v.shape)} axes")
    at = axis_of(axis, len(v.shape))
    _not_out_of_nothing(v.shape[at], i)
    shape = ops.broadcast_shapes(_without(v, at), _without(i, at))
    v = ops.broadcast_to(v, (*shape[:at], v.shape[at], *shape[at:]))
    i = ops.broadcast_to(i, (*shape[:at], i.shape[at], *shape[at:]))
    return Array(ops.one("take_along", v, _indexing.wrapped(i, v.shape[at]), dim=at))


def _without(v: Value, axis: int) -> tuple[Any, ...]:
    return (*v.shape[:axis], *v.shape[axis + 1 :])


# ---- Products of matrices ----


def _numbers(name: str, x1: Any, x2: Any) -> tuple[Value, Value]:
    a, b = promoted([x1, x2])
    check(name, "numeric", a, b)
    return a, b


def _product(a: Value, b: Value, **dims: Sequence[int]) -> Value:
    """Sums of products. Integers of 16 bits go through 32, which cpu has kernels for."""
    dtype = a.dtype
    if dt.is_integer(dtype) and dtype.bits == 16:
        a, b = ops.convert(a, dt.int32), ops.convert(b, dt.int32)
    return ops.convert(ops.one("dot_general", a, b, **dims), dtype)


def matmul(x1: Array, x2: Array, /) -> Array:
    """Products of stacks of matrices; an array of one axis is a row or a column."""
    for x in (x1, x2):
        if _is_number(x):
            raise TypeError("matmul takes arrays, not numbers")
    a, b = _numbers("matmul", x1, x2)
    if not a.shape or not b.shape:
        raise ValueError("matmul needs at least one axis on each side")
    if same(a.shape[-1], b.shape[-2 if len(b.shape) > 1 else 0]) == NO:
        raise ValueError(
            f"shapes {ops.shape_text(a.shape)} and {ops.shape_text(b.shape)} do not multiply"
        )
    ops.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return Array(ops.one("matmul", a, b))


def matrix_transpose(x: Array, /) -> Array:
    """The last two axes exchanged."""
    v = value_of(x)
    n = len(v.shape)
    if n < 2:
        raise ValueError(f"matrix_transpose needs 2 axes, this array has {n}")
    return Array(ops.transpose(v, [*range(n - 2), n - 1, n - 2]))


def tensordot(
    x1: Array, x2: Array, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2
) -> Array:
    """Sums of products over pairs of axes: the last n and the first n, or those listed."""
    a, b = _numbers("tensordot", x1, x2)
    if isinstance(axes, int):
        if not 0 <= axes <= min(len(a.shape), len(b.shape)):
            raise ValueError(f"axes={axes} of {len(a.shape)} and {len(b.shape)} axes")
        left = tuple(range(len(a.shape) - axes, len(a.shape)))
        right = tuple(range(axes))
    else:
        left, right = axes_of(tuple(axes[0]), len(a.shape)), axes_of(tuple(axes[1]), len(b.shape))
    if len(left) != len(right) or any(
        same(a.shape[i], b.shape[j]) == NO for i, j in zip(left, right)
    ):
        raise ValueError(
            f"axes {left} of {ops.shape_text(a.shape)} and {right} of {ops.shape_text(b.shape)} "
            "do not go together"
        )
    return Array(_product(a, b, a_contract=left, b_contract=right))


def vecdot(x1: Array, x2: Array, /, *, axis: int = -1) -> Array:
    """Sums of products along an axis, counted from the end; other axes repeat. Of complex arrays, x1
    is conjugated."""
    a, b = _numbers("vecdot", x1, x2)
    if not a.shape or not b.shape:
        raise ValueError("vecdot needs at least one axis on each side")
    if axis >= 0 or axis < -min(len(a.shape), len(b.shape)):
        raise ValueError(f"axis={axis}: it is negative and an axis of both")
    if same(a.shape[axis], b.shape[axis]) == NO:
        raise ValueError(f"sizes {a.shape[axis]} and {b.shape[axis]} along the axis differ")
    shape = ops.broadcast_shapes(a.shape, b.shape)
    a, b = ops.broadcast_to(a, shape), ops.broadcast_to(b, shape)
    if dt.is_complex(a.dtype):
        a = ops.one("conj", a)
    at = len(shape) + axis
    others = [i for i in range(len(shape)) if i != at]
    return Array(_product(a, b, a_batch=others, b_batch=others, a_contract=[at], b_contract=[at]))


# ---- Repeating, which searches ----


def repeat(x: Array, repeats: int | Array, /, *, axis: int | None = None) -> Array:
    """Each element repeated. Numbers of repetitions in an array are read at once."""
    v = value_of(x)
    if axis is None:
        v = ops.reshape(v, (_count(v.shape),))
    at = 0 if axis is None else axis_of(axis, len(v.shape))
    if isinstance(repeats, Array) and repeats.size != 1:
        return _repeat_each(v, repeats, at)
    times = operator.index(repeats if not isinstance(repeats, Array) else reshape(repeats, ()))
    if times < 0:
        raise ValueError(f"repeats={times}: at least 0 is needed")
    n = v.shape[at]
    shape = (*v.shape[: at + 1], times, *v.shape[at + 1 :])
    dims = [i if i <= at else i + 1 for i in range(len(v.shape))]
    wide = ops.broadcast_in(v, shape, dims)
    return Array(ops.reshape(wide, (*v.shape[:at], n * times, *v.shape[at + 1 :])))


def _repeat_each(v: Value, repeats: Array, axis: int) -> Array:
    if not dt.is_integer(repeats.dtype):
        raise TypeError("repeats are integers")
    if repeats.shape != (v.shape[axis],):
        raise ValueError(f"{repeats.shape} repeats for an axis of size {v.shape[axis]}")
    if repeats.dtype is dt.uint64:
        repeats = astype(repeats, dt.int64)
    ends = cumulative_sum(repeats)
    total = int(ends[-1]) if v.shape[axis] else 0
    index = searchsorted(ends, arange(total, dtype=ends.dtype), side="right")
    return take(Array(v), index, axis=axis)
