"""Quantised numbers, as PyTorch's flows export them (`quantized_decomposed`), and integer products.

Each lowering is torch's own formula over ordinary operations: the same roundings, in the same types. So
results are those of torch to the last integer, but for products that follow.
"""

from __future__ import annotations

from tenon.builder import Value, ops
from tenon.builder import dtypes as dt

from ..graph.node import Node, axis_of, dtype_of, wide
from ..graph.table import Unsupported, lowering

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from tenon.builder import Size


# ---- Formulas ----


def _parameter(p: Any, dtype: dt.DType, shape: Sequence[Size], axis: int | None) -> Value:
    """A scale or zero point as wide as what it applies to: one, or one for each place of an axis."""
    if not isinstance(p, Value):
        return ops.full(shape, p, dtype)
    value = ops.convert(p, dtype)
    if axis is not None:
        return ops.broadcast_in(ops.reshape(value, (shape[axis],)), tuple(shape), (axis,))
    return ops.broadcast_to(
        value if len(value.shape) == len(shape) else ops.reshape(value, ()), tuple(shape)
    )


def _computed_in(scale: Any) -> dt.DType:
    """torch computes in double where a tensor of scales is."""
    return dt.float64 if isinstance(scale, Value) and scale.dtype is dt.float64 else dt.float32


def _inverse(scale: Any) -> Any:
    """1 / scale, as torch takes it before it multiplies: a number in double, a tensor rounded to its type."""
    if not isinstance(scale, Value):
        if scale == 0:
            raise Unsupported("a scale of 0, by which torch cannot divide")
        return 1.0 / scale
    inverse = ops.convert(scale, wide(scale.dtype))
    return _rounded(ops.one("div", ops.like(inverse, 1.0), inverse), scale.dtype)


def _saturated(x: Value, low: Any, high: Any, dtype: dt.DType) -> Value:
    if isinstance(low, Value) or isinstance(high, Value):
        raise Unsupported("limits that are known only when it runs")
    bounded = ops.one("min", ops.one("max", x, ops.like(x, float(low))), ops.like(x, float(high)))
    return ops.convert(bounded, dtype)


def _quantised(
    n: Node,
    x: Value,
    inverse: Any,
    zero: Any,
    low: Any,
    high: Any,
    axis: int | None = None,
    late: bool = False,
) -> Value:
    """round(x / scale) + zero within limits. `late`: rounded after the zero point is added."""
    dtype = _computed_in(inverse)
    scaled = ops.one("mul", ops.convert(x, dtype), _parameter(inverse, dtype, x.shape, axis))
    zeros = _parameter(zero, dtype, x.shape, axis)
    if late:
        out = ops.one("round_even", ops.one("add", scaled, zeros))
    else:
        out = ops.one("add", ops.one("round_even", scaled), zeros)
    return _saturated(out, low, high, n.dtype)


def _real(n: Node, q: Value, scale: Any, zero: Any, axis: int | None = None) -> Value:
    """(q - zero) scale."""
    dtype = _computed_in(scale)
    if q.dtype.bits > 16 and not dt.is_float(q.dtype):
        raise Unsupported("quantised numbers of more than 16 bits")
    out = ops.convert(q, dtype)
    if zero is not None:
        out = ops.one("sub", out, _parameter(zero, dtype, q.shape, axis))
    return ops.convert(ops.one("mul", out, _parameter(scale, dtype, q.shape, axis)), n.dtype)


# ---- One scale ----


@lowering("quantized_decomposed.quantize_per_tensor.default")
def quantize_per_tensor(
    n: Node, x: Value, scale: float, zero: int, low: int, high: int, dtype: Any
) -> Value:
    return _quantised(n, x, _inverse(scale), zero, low, high)


@lowering(
    "quantized_decomposed.quantize_per_tensor.tensor",
    "quantized_decomposed.quantize_per_tensor.tensor2",
)
def quantize_by_tensor(
    n: Node, x: Value, scale: Value, zero: Value, low: Any, high: Any, dtype: Any
) -> Value:
    inverse = ops.convert(_inverse(ops.convert(scale, dt.float64)), dt.float32)
    return _quantised(n, x, inverse, zero, low, high)


@lowering(
    "quantized_decomposed.dequantize_per_tensor.default",
    "quantized_decomposed.dequantize_per_tensor.tensor",
    "quantized_decomposed.dequantize_per_tensor.tensor2",
)
def dequantize_per_tensor(
    n: Node,
    q: Value,
    scale: Any,
    zero: Any,
    low: Any,
    high: Any,
    dtype: Any,
    *,
    out_dtype: Any = None,
) -> Value:
    single = ops.convert(scale, dt.float32) if isinstance(scale, Value) else scale
    return _real(n, q, single, zero)


# ---- A scale for each place of an axis, each token, or each group ----


@lowering("quantized_decomposed.quantize_per_channel.default")
def quantize_per_channel(
    n: Node, x: Value, scales: Value, zeros: Value, axis: int, low: int, high: int, dtype: Any
) -> Value:
    return _quantised(n, x, _inverse(scales), zeros, low, high, axis_of(axis, len(x.shape)))


@lowering("quantized_decomposed.dequantize_per_channel.default")
def dequantize_per_channel(
    n: Node,
    q: Value,
    scales: Value,
    zeros: Value | None,
    axis: int,
    low: int,
    high: int,
    dtype: Any,
    *,
    out_dtype: Any = None,
) -> Value:
    return _real(n, q, scales, zeros, axis_of(axis, len(q.shape)))


@lowering("quantized_decomposed.quantize_per_token.default")
def quantize_per_token(
    n: Node, x: Value, scales: Value, zeros: Value, low: int, high: int, dtype: Any
) -> Value:
    return _quantised(n, x, _inverse(scales), zeros, low, high, late=True)


@lowering("quantized_decomposed.dequantize_per_token.default")
def dequantize_per_token(
    n: Node,
    q: Value,
    scales: Value,
    zeros: Value,
    low: int,
    high: int,
    dtype: Any,
    output_dtype: Any,
) -> Value:
    return _real(n, q, scales, zeros)


def _groups(x: Value, scales: Value, size: int) -> tuple[Value, Value, int]:
    """A matrix in rows of one group each, a scale for each row, and the size of a group."""
    columns = x.shape[1]
    if not isinstance(columns, int):
        raise Unsupported("groups of a dynamic size")
    size = columns if size > columns and scales.shape[-1] == 1 else size
    if size < 1 or columns % size:
        raise Unsupported("groups that do not divide the columns")
    rows = x.shape[0] * (columns // size)
    return ops.reshape(x, (rows, size)), ops.reshape(scales, (rows,)), size


@lowering("quantized_decomposed.quantize_per_channel_group.default")
def quantize_per_channel_group(
    n: Node, x: Value, scales: Value, zeros: Value, low: int, high: int, dtype: Any, size: int = 128
) -> Value:
    grouped, of_rows, _ = _groups(x, scales, size)
    return n.reshape(_quantised(n, grouped, _inverse(of_rows), zeros, low, high, 0, late=True))


@lowering("quantized_decomposed.dequantize_per_channel_group.default")
def dequantize_per_channel_group(
    n: Node,
    q: Value,
    scales: Value,
    zeros: Value | None,
    low: int,
    high: int,
    dtype: Any,
    size: int = 128,
    output_dtype: Any = None,
) -> Value:
    grouped, of_rows, _ = _groups(q, scales, size)
    return n.reshape(_real(n, grouped, of_rows, zeros, 0))


# ---- Scales that follow from the numbers ----


def _extremes(x: Value, dims: tuple[int, ...]) -> tuple[Value, Value]:
    """The least and the largest number, 0 among them."""
    low, high = ops.one("reduce_min", x, dims=dims), ops.one("reduce_max", x, dims=dims)
    return ops.one("min", low, ops.like(low, 0.0)), ops.one("max", high, ops.like(high, 0.0))


def _rounded(x: Value, dtype: Any) -> Value:
    return ops.convert(ops.convert(x, dtype), x.dtype)


def _scale_of(width: Value, steps: float, least: float, dtype: Any) -> Value:
    """As torch, which rounds the width and the scale to the type of the numbers."""
    scale = _rounded(ops.one("div", _rounded(width, dtype), ops.like(width, steps)), dtype)
    return ops.one("max", scale, ops.like(scale, least))


def _as_parameters(scale: Value, zero: Value, shape: tuple[Size, ...]) -> tuple[Value, Value]:
    return ops.reshape(ops.convert(scale, dt.float64), shape), ops.reshape(
        ops.convert(zero, dt.int64), shape
    )


@lowering("quantized_decomposed.choose_qparams.tensor")
def choose_qparams(
    n: Node, x: Value, low: int, high: int, least: float, dtype: Any
) -> tuple[Value, Value]:
    one = ops.one
    smallest, largest = _extremes(ops.convert(x, dt.float32), tuple(range(len(x.shape))))
    scale = _scale_of(one("sub", largest, smallest), float(high - low), least, x.dtype)
    zero = one("sub", ops.like(scale, float(low)), one("round_even", one("div", smallest, scale)))
    return _as_parameters(scale, _saturated(zero, low, high, dt.int64), (1,))


@lowering("quantized_decomposed.choose_qparams_symmetric.tensor")
def choose_qparams_symmetric(
    n: Node, x: Value, low: int, high: int, least: float, dtype: Any
) -> tuple[Value, Value]:
    smallest, largest = _extremes(ops.convert(x, dt.float32), tuple(range(len(x.shape))))
    width = ops.one("max", ops.one("neg", smallest), largest)
    middle = 128 if dtype_of(dtype) is dt.uint8 else 0
    return _as_parameters(
        _scale_of(width, (high - low) / 2, least, x.dtype), ops.full((1,), middle, dt.int64), (1,)
    )


@lowering("quantized_decomposed.choose_qparams_per_token.default")
def choose_qparams_per_token(n: Node, x: Value, dtype: Any) -> tuple[Value, Value]:
    """In the types that torch's fake tensors have; its real ones are float32, with the same numbers."""
    last = len(x.shape) - 1
    size = ops.one("reduce_max", ops.one("abs", x), dims=(last,))
    size = ops.convert(size, dt.float32) if x.dtype is dt.float16 else size
    bounded = ops.one("max", size, ops.like(size, 1e-5))
    scale = ops.one("div", bounded, ops.like(bounded, 127.0))
    return _as_parameters(scale, ops.like(scale, 0.0), n.shape)


@lowering(
    "quantized_decomposed.choose_qparams_per_token_asymmetric.default",
    "quantized_decomposed._choose_qparams_per_token_asymmetric_impl.default",
)
def choose_qparams_per_token_asymmetric(n: Node, x: Value, dtype: Any) -> tuple[Value, Value]:
    one, like = ops.one, ops.like
    smallest, largest = _extremes(x, (len(x.shape) - 1,))
    scale = _scale_of(one("sub", largest, smallest), 255.0, 2.0**-23, x.dtype)
    down, up = one("div", smallest, scale), one("div", largest, scale)
    from_low = one("sub", like(down, -128.0), down)
    from_high = one("sub", like(up, 127.0), up)
    errors = one("add", one("add", like(down, -128.0), down), one("add", like(up, 127.0), up))
    zero = ops.select(ops.compare(errors, like(errors, 0.0), 4), from_low, from_high)
    bounded = one("min", one("max", zero, like(zero, -128.0)), like(zero, 127.0))
    return _as_parameters(scale, one("round_even", bounded), n.shape)


# ---- Products ----


@lowering("aten._int_mm.default")
def int_mm(n: Node, a: Value, b: Value) -> Value:
    """Bytes times bytes, which may differ in sign, added in i32: as ADR 0034 writes it."""
    return ops.one(
        "matmul", ops.convert(a, dt.int16), ops.convert(b, dt.int16), acc=dt.int32, dtype=dt.int32
    )
