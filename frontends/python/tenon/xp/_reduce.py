"""tenon.xp: sums, extremes, statistics, and tests of all elements."""

from __future__ import annotations

from tenon.builder import dtypes as dt
from tenon.builder import ops
from tenon.builder.dtypes import DType
from tenon.builder.trace import Dim, Value
from tenon.xp._array import Array, value_of
from tenon.xp._elementwise import check
from tenon.xp._shape import _count, axes_of, axis_of, concat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

    Axis: TypeAlias = int | tuple[int, ...] | None

__all__ = [
    "all", "any", "count_nonzero", "cumulative_prod", "cumulative_sum", "diff", "max", "mean",
    "min", "prod", "std", "sum", "var",
]  # fmt: skip


def _reduced(op: str, v: Value, axis: Axis, keepdims: bool) -> Array:
    axes = axes_of(axis, len(v.shape))
    out = ops.one(op, v, dims=axes) if axes else v
    return Array(_kept(out, v, axes, keepdims))


def _kept(out: Value, v: Value, axes: tuple[int, ...], keepdims: bool) -> Value:
    if not keepdims:
        return out
    return ops.reshape(out, [1 if i in axes else s for i, s in enumerate(v.shape)])


def _wide(v: Value, dtype: DType | None) -> Value:
    """In the type of a sum: the wish, or 64 bits for integers."""
    if dtype is not None:
        return ops.convert(v, dt.parse(dtype))
    if v.dtype.kind == "signed integer":
        return ops.convert(v, dt.int64)
    return ops.convert(v, dt.uint64) if v.dtype.kind == "unsigned integer" else v


def sum(
    x: Array, /, *, axis: Axis = None, dtype: DType | None = None, keepdims: bool = False
) -> Array:
    """The sum over axes; integers in 64 bits unless dtype says otherwise."""
    v = value_of(x)
    check("sum", "numeric", v)
    return _reduced("reduce_sum", _wide(v, dtype), axis, keepdims)


def prod(
    x: Array, /, *, axis: Axis = None, dtype: DType | None = None, keepdims: bool = False
) -> Array:
    """The product over axes; integers in 64 bits unless dtype says otherwise."""
    v = value_of(x)
    check("prod", "numeric", v)
    return _reduced("reduce_prod", _wide(v, dtype), axis, keepdims)


def _not_empty(name: str, v: Value, axis: Axis) -> None:
    for a in axes_of(axis, len(v.shape)):
        if not isinstance(v.shape[a], Dim) and v.shape[a] == 0:
            raise ValueError(f"{name} over axis {a}, which is empty")


def max(x: Array, /, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """The largest element over axes; NaN if one is. ValueError over none."""
    v = value_of(x)
    check("max", "real", v)
    _not_empty("max", v, axis)
    return _reduced("reduce_max", v, axis, keepdims)


def min(x: Array, /, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """The smallest element over axes; NaN if one is. ValueError over none."""
    v = value_of(x)
    check("min", "real", v)
    _not_empty("min", v, axis)
    return _reduced("reduce_min", v, axis, keepdims)


def mean(x: Array, /, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """The mean over axes. Floating-point arrays; NaN over none."""
    v = value_of(x)
    check("mean", "floating", v)
    return _reduced("mean", v, axis, keepdims)


def var(
    x: Array, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False
) -> Array:
    """The variance over axes, with the count reduced by `correction`. Floating-point arrays."""
    v = value_of(x)
    check("var", "float", v)
    axes = axes_of(axis, len(v.shape))
    center = ops.broadcast_to(
        _kept(ops.one("mean", v, dims=axes) if axes else v, v, axes, True), v.shape
    )
    square = ops.one("square", ops.one("sub", v, center))
    total = ops.one("reduce_sum", square, dims=axes) if axes else square
    count = ops.size_value(_count([v.shape[a] for a in axes]), v.dtype)
    left = ops.one("sub", count, ops.scalar(float(correction), v.dtype))
    left = ops.one("max", left, ops.scalar(0.0, v.dtype))
    out = ops.one("div", total, ops.broadcast_to(left, total.shape))
    return Array(_kept(out, v, axes, keepdims))


def std(
    x: Array, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False
) -> Array:
    """The standard deviation over axes: the root of `var`."""
    return Array(
        ops.one("sqrt", var(x, axis=axis, correction=correction, keepdims=keepdims)._value)
    )


def truth(v: Value) -> Value:
    """Whether elements are not 0; NaN is not."""
    return v if v.dtype is dt.bool_ else ops.compare(v, ops.like(v, 0), 1)


def all(x: Array, /, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """Whether all elements over axes are true, or not 0."""
    return _reduced("reduce_and", truth(value_of(x)), axis, keepdims)


def any(x: Array, /, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """Whether an element over axes is true, or not 0."""
    return _reduced("reduce_or", truth(value_of(x)), axis, keepdims)


def count_nonzero(x: Array, /, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """How many elements over axes are not 0, as int64."""
    return _reduced("reduce_sum", ops.convert(truth(value_of(x)), dt.int64), axis, keepdims)


def _running(
    op: str, x: Array, axis: int | None, dtype: DType | None, include_initial: bool
) -> Array:
    v = value_of(x)
    check("a running result", "numeric", v)
    if axis is None and len(v.shape) != 1:
        raise ValueError(f"axis= is needed for an array of {len(v.shape)} axes")
    at = 0 if axis is None else axis_of(axis, len(v.shape))
    v = _wide(v, dtype)
    out = ops.one(op, v, dim=at)
    if include_initial:
        shape = (*v.shape[:at], 1, *v.shape[at + 1 :])
        first = ops.full(shape, 0 if op == "cumsum" else 1, v.dtype)
        out = ops.concat([first, out], at)
    return Array(out)


def cumulative_sum(
    x: Array,
    /,
    *,
    axis: int | None = None,
    dtype: DType | None = None,
    include_initial: bool = False,
) -> Array:
    """Sums of the elements up to each one along an axis; begins with 0 if include_initial."""
    return _running("cumsum", x, axis, dtype, include_initial)


def cumulative_prod(
    x: Array,
    /,
    *,
    axis: int | None = None,
    dtype: DType | None = None,
    include_initial: bool = False,
) -> Array:
    """Products of the elements up to each one along an axis; begins with 1 if include_initial."""
    return _running("cumprod", x, axis, dtype, include_initial)


def diff(
    x: Array,
    /,
    *,
    axis: int = -1,
    n: int = 1,
    prepend: Array | None = None,
    append: Array | None = None,
) -> Array:
    """Differences of neighbours along an axis, n times."""
    v = value_of(x)
    check("diff", "numeric", v)
    at = axis_of(axis, len(v.shape))
    if n < 0:
        raise ValueError(f"n={n}: at least 0 is needed")
    parts = [p for p in (prepend, x, append) if p is not None]
    if len(parts) > 1:
        v = concat(parts, axis=at)._value
    for _ in range(n):
        size = v.shape[at]
        if not isinstance(size, Dim) and size == 0:
            break
        upper = ops.slice_axis(v, at, 1, size)
        v = ops.one("sub", upper, ops.slice_axis(v, at, 0, size - 1))
    return Array(v)
