"""tenon.xp: making arrays."""

from __future__ import annotations

import operator

from tenon import _host
from tenon._errors import UnsupportedError
from tenon.builder import dtypes as dt
from tenon.builder import ops
from tenon.builder.dtypes import DType
from tenon.builder.trace import Dim, Value, active, default_device, larger
from tenon.xp._array import Array, _is_number, _of_tensor, _tensor_of, fitted, value_of
from tenon.xp._shape import reshape, stack
from tenon.xp._types import astype, result_type

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tenon.builder.trace import Size

__all__ = [
    "arange", "asarray", "empty", "empty_like", "eye", "from_dlpack", "full", "full_like",
    "linspace", "meshgrid", "ones", "ones_like", "tril", "triu", "zeros", "zeros_like",
]  # fmt: skip


def _on(device: str | None) -> None:
    if device is not None and device != default_device():
        raise UnsupportedError(
            f"arrays are on {default_device()!r}, not on {device!r}: not yet. Set TENON_DEVICE.",
            "T0629",
        )


def asarray(
    obj: Any,
    /,
    *,
    dtype: DType | None = None,
    device: str | None = None,
    copy: bool | None = None,
) -> Array:
    """An array of numbers, nested lists of them, or an array of another library.

    Numbers become `int64`, `float32` or `bool`. Memory of other libraries is copied, unless
    copy=False, which shares it: it must not be changed then. OverflowError for integers that do not
    fit; ValueError for lists of unequal lengths.
    """
    _on(device)
    wanted = None if dtype is None else dt.parse(dtype)
    if isinstance(obj, Array):
        _check_copy(copy, obj.dtype, wanted)
        return Array(_converted(obj, wanted))
    if _is_number(obj) and not hasattr(obj, "dtype"):  # a float64 of NumPy is a float too
        if copy is False:
            raise ValueError("a number has no memory to share: copy=False is not possible")
        return Array(_number(obj, wanted or _type_of([obj])))
    if isinstance(obj, Dim):
        return Array(ops.size_value(obj, wanted or dt.default_int))
    if isinstance(obj, (list, tuple)):
        if copy is False:
            raise ValueError("a list has no memory to share: copy=False is not possible")
        return _of_lists(obj, wanted)
    if obj is None or isinstance(obj, (str, dict, set)):
        raise TypeError(f"{obj!r} is not an array, number or list of numbers")
    return _of_other(obj, wanted, copy)


def _check_copy(copy: bool | None, given: DType, wanted: DType | None) -> None:
    if copy is False and wanted not in (None, given):
        raise ValueError(
            f"{given.name} becomes {wanted.name} by a copy: copy=False is not possible"
        )


def _converted(x: Array, dtype: DType | None) -> Value:
    """In the wanted type, or in its own, which is a default type for a number."""
    if dtype is None:
        return value_of(x)
    checked = x._weak and dt.is_integer(x.dtype) and dt.is_integer(dtype)
    return fitted(x, dtype) if checked else ops.convert(x._value, dtype)


def _as_number(value: Any) -> Any:
    """A number of Python, or a Dim, of a number of any library."""
    return value.item() if hasattr(value, "dtype") else value


def _type_of_number(value: Any) -> DType:
    """The type of a number: its own, if it has one as those of NumPy do."""
    return asarray(value).dtype if hasattr(value, "dtype") else _type_of([value])


def _number(value: bool | int | float | complex, dtype: DType) -> Value:
    return ops.scalar(_checked(value, dtype), dtype)


def _checked(value: Any, dtype: DType) -> Any:
    if dtype is dt.bool_:
        return bool(value)
    if dt.is_complex(dtype):
        return complex(value)
    if isinstance(value, complex):
        raise TypeError(f"{value} is not a value of {dtype.name}")
    if dt.is_integer(dtype):
        if isinstance(value, float) and not value.is_integer():
            raise TypeError(f"{value} is not a value of {dtype.name}")
        dt.element(dtype, int(value))
        return int(value)
    return float(value)


def _of_other(obj: Any, dtype: DType | None, copy: bool | None) -> Array:
    tensor = (
        obj
        if type(obj).__module__ == "tenon._native"
        else _host.tensor(obj, copy=copy is not False)
    )
    if tensor.dtype not in dt.by_code:
        raise UnsupportedError(f"arrays of {tensor.dtype}: not yet", "T0629")
    array = _of_tensor(tensor)
    _check_copy(copy, array.dtype, dtype)
    return array if dtype is None else Array(ops.convert(array._value, dtype))


def _flattened(obj: Any, shape: list[int], depth: int, out: list[Any]) -> None:
    if isinstance(obj, (list, tuple)):
        if depth == len(shape):
            if out:
                raise ValueError("nested lists have unequal lengths")
            shape.append(len(obj))
        if depth >= len(shape) or shape[depth] != len(obj):
            raise ValueError("nested lists have unequal lengths")
        for item in obj:
            _flattened(item, shape, depth + 1, out)
        return
    if depth != len(shape):
        raise ValueError("nested lists have unequal depths")
    out.append(obj)


def _of_lists(obj: Any, dtype: DType | None) -> Array:
    shape: list[int] = []
    items: list[Any] = []
    _flattened(obj, shape, 0, items)
    if any(not _is_number(i) for i in items):
        return _of_items(items, shape, dtype)
    dtype = dtype or _type_of(items)
    data = b"".join(dt.element(dtype, _checked(i, dtype)) for i in items)
    trace = active()
    if trace is not None and items:
        return Array(trace.constant(dtype, shape, data))
    if not items:
        return Array(ops.full(tuple(shape), 0, dtype))
    _host.open()
    return _of_tensor(_tensor_of(data, dtype, tuple(shape)))


def _of_items(items: list[Any], shape: list[int], dtype: DType | None) -> Array:
    """Lists whose elements are arrays without axes, sizes, or numbers of other libraries."""
    if any(isinstance(i, (str, bytes)) or i is None for i in items):
        raise TypeError("lists of numbers make an array, and these are not")
    arrays = [i if isinstance(i, Array) else asarray(i) for i in items]
    if any(a.ndim for a in arrays):
        raise ValueError("lists hold numbers and arrays without axes: use xp.stack for others")
    found = dtype or result_type(*arrays)
    return reshape(stack([astype(a, found) for a in arrays]), tuple(shape))


def _type_of(items: list[Any]) -> DType:
    if any(isinstance(i, complex) for i in items):
        return dt.default_complex
    if any(isinstance(i, float) for i in items) or not items:
        return dt.default_float
    if all(isinstance(i, bool) for i in items):
        return dt.bool_
    return dt.default_int


def from_dlpack(x: Any, /, *, device: str | None = None, copy: bool | None = None) -> Array:
    """An array of the memory of another one, which must not be changed then; copy=True copies it."""
    _on(device)
    if not hasattr(x, "__dlpack__"):
        raise TypeError(f"{type(x).__name__} has no __dlpack__")
    return asarray(x, copy=bool(copy))


def full(
    shape: Any, fill_value: Any, *, dtype: DType | None = None, device: str | None = None
) -> Array:
    """An array whose elements are all fill_value."""
    _on(device)
    if isinstance(fill_value, Array):
        v = _converted(fill_value, dt.parse(dtype) if dtype else None)
        return Array(ops.broadcast_to(v, ops.shape_of(shape)))
    chosen = dt.parse(dtype) if dtype is not None else _type_of_number(fill_value)
    fill_value = _as_number(fill_value)
    return Array(ops.full(ops.shape_of(shape), _checked(fill_value, chosen), chosen))


def zeros(shape: Any, *, dtype: DType | None = None, device: str | None = None) -> Array:
    """An array of zeros; float32 unless dtype says otherwise."""
    return full(shape, 0, dtype=dtype or dt.default_float, device=device)


def ones(shape: Any, *, dtype: DType | None = None, device: str | None = None) -> Array:
    """An array of ones; float32 unless dtype says otherwise."""
    return full(shape, 1, dtype=dtype or dt.default_float, device=device)


def empty(shape: Any, *, dtype: DType | None = None, device: str | None = None) -> Array:
    """An array whose elements are not defined. They are zeros."""
    return zeros(shape, dtype=dtype, device=device)


def full_like(
    x: Array, /, fill_value: Any, *, dtype: DType | None = None, device: str | None = None
) -> Array:
    """An array of the shape of x whose elements are all fill_value."""
    v = value_of(x)
    return full(v.shape, fill_value, dtype=dtype or v.dtype, device=device)


def zeros_like(x: Array, /, *, dtype: DType | None = None, device: str | None = None) -> Array:
    """Zeros in the shape of x."""
    return full_like(x, 0, dtype=dtype, device=device)


def ones_like(x: Array, /, *, dtype: DType | None = None, device: str | None = None) -> Array:
    """Ones in the shape of x."""
    return full_like(x, 1, dtype=dtype, device=device)


def empty_like(x: Array, /, *, dtype: DType | None = None, device: str | None = None) -> Array:
    """An array of the shape of x whose elements are not defined. They are zeros."""
    return full_like(x, 0, dtype=dtype, device=device)


def arange(
    start: Any,
    /,
    stop: Any = None,
    step: Any = 1,
    *,
    dtype: DType | None = None,
    device: str | None = None,
) -> Array:
    """start, start + step, ... below stop: ceil((stop - start) / step) numbers."""
    _on(device)
    start, stop, step = map(_as_number, (start, stop, step))
    if stop is None:
        start, stop = 0, start
    if step == 0:
        raise ValueError("the step of arange is not 0")
    floats = any(isinstance(s, float) for s in (start, stop, step))
    chosen = (
        dt.parse(dtype) if dtype is not None else dt.default_float if floats else dt.default_int
    )
    if chosen is dt.bool_:
        raise TypeError("arange gives numbers, not bool")
    if floats:
        import math

        count: Size = max(math.ceil((stop - start) / step), 0)
    elif isinstance(start, Dim) or isinstance(stop, Dim):
        if step != 1:
            raise UnsupportedError("arange of a size known later has step 1: not yet", "T0629")
        count = larger(stop - start, 0)
    else:
        count = max(-((start - stop) // step), 0)
    work = dt.float64 if floats else dt.int64
    index = ops.iota((count,), 0, dt.int64)
    return Array(ops.convert(_affine(ops.convert(index, work), start, step), chosen))


def _affine(index: Value, start: Any, step: Any) -> Value:
    dtype = index.dtype
    convert = float if dt.is_float(dtype) else int
    if step != 1:
        index = ops.one("mul", index, ops.like(index, convert(step)))
    if isinstance(start, Dim):
        return ops.one("add", index, ops.broadcast_to(ops.size_value(start, dtype), index.shape))
    return index if start == 0 else ops.one("add", index, ops.like(index, convert(start)))


def linspace(
    start: float | complex,
    stop: float | complex,
    /,
    num: int,
    *,
    dtype: DType | None = None,
    device: str | None = None,
    endpoint: bool = True,
) -> Array:
    """num numbers from start to stop in equal steps; without the last one unless endpoint."""
    _on(device)
    if isinstance(start, complex) or isinstance(stop, complex):
        a, b = complex(start), complex(stop)
        kind = dt.parse(dtype) if dtype is not None else dt.default_complex
        pair = [
            linspace(x, y, num, dtype=dt.part_of(kind), endpoint=endpoint)._value
            for x, y in ((a.real, b.real), (a.imag, b.imag))
        ]
        return Array(ops.one("complex", *pair))
    num = num if isinstance(num, Dim) else operator.index(num)
    if num < 0:
        raise ValueError(f"num is {num}: at least 0 is needed")
    chosen = dt.parse(dtype) if dtype is not None else dt.default_float
    parts = num - 1 if endpoint else num
    step = (float(stop) - float(start)) / parts if parts > 0 else 0.0
    index = ops.iota((num,), 0, dt.int64)
    out = _affine(ops.convert(index, dt.float64), float(start), step)
    if step == 0.0:
        out = ops.full((num,), float(start), dt.float64)
    if endpoint and num > 1:
        last = ops.compare(index, ops.like(index, num - 1), 0)
        out = ops.select(last, ops.like(out, float(stop)), out)
    if not dt.is_floating(chosen):
        out = ops.one("floor", out)
    return Array(ops.convert(out, chosen))


def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: DType | None = None,
    device: str | None = None,
) -> Array:
    """Ones on diagonal k (0: the main one, above it: positive), else zeros."""
    _on(device)
    shape = ops.shape_of((n_rows, n_rows if n_cols is None else n_cols))
    row, column = ops.iota(shape, 0, dt.int64), ops.iota(shape, 1, dt.int64)
    hit = ops.compare(ops.one("add", row, ops.like(row, operator.index(k))), column, 0)
    return Array(ops.convert(hit, dt.parse(dtype) if dtype else dt.default_float))


def _triangle(x: Array, k: int, upper: int) -> Array:
    v = value_of(x)
    if len(v.shape) < 2:
        raise ValueError("a triangle needs at least 2 axes")
    row = ops.iota(v.shape, len(v.shape) - 2, dt.int64)
    column = ops.iota(v.shape, len(v.shape) - 1, dt.int64)
    edge = ops.one("add", row, ops.like(row, operator.index(k)))
    keep = ops.compare(column, edge, 5 if upper else 3)
    return Array(ops.select(keep, v, ops.full(v.shape, 0, v.dtype)))


def tril(x: Array, /, *, k: int = 0) -> Array:
    """The lower triangles of matrices; zeros above diagonal k."""
    return _triangle(x, k, 0)


def triu(x: Array, /, *, k: int = 0) -> Array:
    """The upper triangles of matrices; zeros below diagonal k."""
    return _triangle(x, k, 1)


def meshgrid(*arrays: Array, indexing: str = "xy") -> list[Array]:
    """Coordinates of a grid, one array per axis. indexing: "xy" swaps the first two axes, "ij" not."""
    if indexing not in ("xy", "ij"):
        raise ValueError(f"indexing={indexing!r} is neither 'xy' nor 'ij'")
    values = [value_of(a) for a in arrays]
    if any(len(v.shape) != 1 for v in values):
        raise ValueError("meshgrid takes arrays of one axis")
    if len({v.dtype for v in values}) > 1:
        raise ValueError("meshgrid takes arrays of one type")
    order = list(range(len(values)))
    if indexing == "xy" and len(order) > 1:
        order[0], order[1] = 1, 0
    shape = tuple(values[i].shape[0] for i in order)
    return [Array(ops.broadcast_in(v, shape, [order.index(i)])) for i, v in enumerate(values)]
