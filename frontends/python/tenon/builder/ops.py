"""Functions that add nodes to the active graph: what tenon.xp and tenon.nn are made of.

They take and give `tenon.builder.Value`. Without an active graph the operations wait.
"""

from __future__ import annotations

import operator

from tenon.builder import dtypes as dt
from tenon.builder.dtypes import DType
from tenon.builder.trace import (
    DIMS,
    DTYPE,
    F64,
    I64,
    I64S,
    MAYBE,
    NO,
    STRING,
    YES,
    Dim,
    Value,
    active,
    emit,
    same,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from tenon.builder.trace import Attrs, Size


def attrs(**given: Any) -> Attrs:
    """Attributes by their Python types. Lists of sizes need `dims=` of `attr_dims`."""
    out: list[tuple[str, int, Any]] = []
    for name, value in sorted(given.items()):
        if isinstance(value, DType):
            out.append((name, DTYPE, value))
        elif isinstance(value, str):
            out.append((name, STRING, value))
        elif isinstance(value, float):
            out.append((name, F64, value))
        elif isinstance(value, (tuple, list)):
            out.append((name, I64S, tuple(operator.index(v) for v in value)))
        else:
            out.append((name, I64, int(value)))
    return tuple(out)


def shape_of(shape: Any) -> tuple[Size, ...]:
    """A shape from one size or several. TypeError for non-integers, ValueError for negative ones."""
    listed = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    sizes = tuple(s if isinstance(s, Dim) else operator.index(s) for s in listed)
    for s in sizes:
        if not isinstance(s, Dim) and s < 0:
            raise ValueError(f"{s} is not a size")
    return sizes


def one(op: str, *operands: Value | None, **given: Any) -> Value:
    """The first result of an op."""
    return emit(op, operands, attrs(**given) if given else ())[0]


def scalar(value: bool | int | float | complex, dtype: DType) -> Value:
    """A number as a value without axes. While a function is traced, it is a constant."""
    trace = active()
    if trace is not None:
        out = trace.constant(dtype, (), dt.element(dtype, value))
    else:
        out = Value(dtype, ())
        if dt.is_float(dtype):
            out.data = float(value)  # type: ignore[arg-type]
        elif dt.is_complex(dtype):
            out.data = complex(value)
        else:
            out.data = bool(value) if dtype is dt.bool_ else value
            dt.element(dtype, value)  # its range
    out.constant = value
    return out


def full(shape: Sequence[Size], value: bool | int | float | complex, dtype: DType) -> Value:
    """A number, repeated to a shape."""
    out = broadcast_to(scalar(value, dtype), tuple(shape))
    out.constant = value
    return out


def broadcast_shapes(a: tuple[Size, ...], b: tuple[Size, ...]) -> tuple[Size, ...]:
    """The shape that both repeat to. ValueError if there is none."""
    if not b or active() is None and a == b:
        return a
    if not a:
        return b
    out: list[Size] = []
    for i in range(max(len(a), len(b))):
        x: Size = a[len(a) - 1 - i] if i < len(a) else 1
        y: Size = b[len(b) - 1 - i] if i < len(b) else 1
        if _is_one(y):
            out.append(x)
        elif _is_one(x):
            out.append(y)
        elif same(x, y) == NO:
            raise ValueError(
                f"shapes {shape_text(a)} and {shape_text(b)} do not go together: sizes {x} and {y} "
                "are neither equal nor 1"
            )
        else:
            out.append(x if isinstance(x, int) else y)
    return tuple(reversed(out))


def shape_text(shape: Sequence[Size]) -> str:
    """A shape as text: "(2, n)"."""
    return "(" + ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "") + ")"


def same_shape(a: tuple[Size, ...], b: tuple[Size, ...]) -> bool:
    """Equal, or so that the op has to assert it. A size of 1 repeats instead."""
    return len(a) == len(b) and all(_meet(x, y) for x, y in zip(a, b))


def _meet(a: Size, b: Size) -> bool:
    answer = same(a, b)
    return answer == YES or answer == MAYBE and not _is_one(a) and not _is_one(b)


def _is_one(size: Size) -> bool:
    return isinstance(size, int) and size == 1


def broadcast_to(x: Value, shape: tuple[Size, ...]) -> Value:
    """x repeated to a shape, whose last axes are those of x."""
    if same_shape(x.shape, shape):
        return x
    return emit("broadcast", (x,), (("shape", DIMS, tuple(shape)),))[0]


def broadcast_in(x: Value, shape: tuple[Size, ...], dims: Sequence[int]) -> Value:
    """Dim i of x becomes dims[i] of the result."""
    return emit("broadcast", (x,), (("dims", I64S, tuple(dims)), ("shape", DIMS, tuple(shape))))[0]


def reshape(x: Value, shape: Sequence[Size]) -> Value:
    """The same elements in the same order, in another shape."""
    shape = tuple(shape)
    if len(shape) == len(x.shape) and all(
        same(a, b) not in (NO, MAYBE) for a, b in zip(shape, x.shape)
    ):
        return x
    return emit("reshape", (x,), (("shape", DIMS, shape),))[0]


def convert(x: Value, dtype: DType) -> Value:
    """x in another element type."""
    if x.dtype is dtype:
        return x
    return emit("convert", (x,), (("dtype", DTYPE, dtype),))[0]


def transpose(x: Value, perm: Sequence[int]) -> Value:
    """x with axis perm[i] of it as axis i."""
    if tuple(perm) == tuple(range(len(x.shape))):
        return x
    return emit("transpose", (x,), (("perm", I64S, tuple(perm)),))[0]


def slice_(
    x: Value, start: Sequence[Size], limit: Sequence[Size], stride: Sequence[int] = ()
) -> Value:
    """The elements from `start` up to `limit`, with a number for each axis."""
    given = [("limit", DIMS, tuple(limit)), ("start", DIMS, tuple(start))]
    if any(s != 1 for s in stride):
        given.append(("stride", I64S, tuple(stride)))
    return emit("slice", (x,), tuple(given))[0]


def slice_axis(x: Value, axis: int, start: Size, limit: Size, stride: int = 1) -> Value:
    """The elements from `start` up to `limit` along one axis."""
    n = len(x.shape)
    return slice_(
        x,
        [start if i == axis else 0 for i in range(n)],
        [limit if i == axis else s for i, s in enumerate(x.shape)],
        [stride if i == axis else 1 for i in range(n)],
    )


def concat(values: Sequence[Value], axis: int) -> Value:
    """Values one after another along an axis."""
    if len(values) == 1:
        return values[0]
    return emit("concat", tuple(values), (("dim", I64, axis),))[0]


def iota(shape: Sequence[Size], dim: int, dtype: DType) -> Value:
    """Each element is its index along a dim."""
    return emit(
        "iota", (), (("dim", I64, dim), ("dtype", DTYPE, dtype), ("shape", DIMS, tuple(shape)))
    )[0]


def compare(x: Value, y: Value, direction: int) -> Value:
    """0 equal, 1 not equal, 2 less, 3 less or equal, 4 greater, 5 greater or equal."""
    return emit("compare", (x, y), (("direction", I64, direction),))[0]


def select(p: Value, x: Value, y: Value) -> Value:
    """x where p, else y. Shapes go together first."""
    shape = broadcast_shapes(broadcast_shapes(p.shape, x.shape), y.shape)
    return emit("select", (broadcast_to(p, shape), broadcast_to(x, shape), broadcast_to(y, shape)))[
        0
    ]


def like(x: Value, value: bool | int | float | complex) -> Value:
    """A number, repeated to the shape and in the type of x."""
    return broadcast_to(scalar(value, x.dtype), x.shape)


def size_value(size: Size, dtype: DType) -> Value:
    """A size as a value without axes."""
    if not isinstance(size, Dim):
        return scalar(float(size) if dt.is_floating(dtype) else size, dtype)
    counted = emit("broadcast", (scalar(0, dt.int64),), (("shape", DIMS, (size,)),))[0]
    return convert(one("dim_size", counted), dtype)
