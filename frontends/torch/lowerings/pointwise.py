"""Element by element: arithmetic, comparison, functions of one number, conversions."""

from __future__ import annotations

import math

from tenon.builder import Dim, Value, ops
from tenon.builder import dtypes as dt

from ..graph.floats import Real
from ..graph.node import Node, checked, dtype_of, fake_of, wide, within
from ..graph.table import Unsupported, lowering

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# ---- One operand, in the type of the result ----

_UNARY = {
    "abs": "abs", "ceil": "ceil", "floor": "floor", "trunc": "trunc", "round": "round_even",
    "sqrt": "sqrt", "rsqrt": "rsqrt", "exp": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log",
    "log1p": "log1p", "log2": "log2", "log10": "log10", "sin": "sin", "cos": "cos", "tan": "tan",
    "asin": "asin", "acos": "acos", "atan": "atan", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh",
    "asinh": "asinh", "acosh": "acosh", "atanh": "atanh", "erf": "erf", "erfc": "erfc",
    "erfinv": "erf_inv", "lgamma": "lgamma", "digamma": "digamma", "neg": "neg", "relu": "relu",
    "sigmoid": "logistic", "silu": "silu", "mish": "mish", "reciprocal": "reciprocal", "square": "square",
    "special_expm1": "expm1", "hardswish": "hard_swish",
}  # fmt: skip
_WHOLE = {"ceil", "floor", "trunc", "round"}  # integers are whole


def _unary(name: str, op: str) -> None:
    @lowering(f"aten.{name}.default")
    def function(n: Node, x: Value) -> Value:
        if name in _WHOLE and not dt.is_float(x.dtype):
            return x
        if x.dtype is dt.bool_ and n.dtype is dt.bool_:
            raise Unsupported("of booleans")
        if name == "abs" and dt.is_complex(x.dtype):
            return ops.one(op, x)
        return ops.one(op, n.to_result(x))


for _name, _op in _UNARY.items():
    _unary(_name, _op)


@lowering("aten.sign.default", "aten.sgn.default")
def sign(n: Node, x: Value) -> Value:
    if x.dtype is dt.bool_:
        return x
    made = ops.one("sign", x)
    if not dt.is_float(x.dtype):
        return made
    zero = ops.like(x, 0.0)  # for NaN, and for -0
    return ops.select(ops.compare(ops.one("abs", x), zero, 4), made, zero)


@lowering("aten.round.decimals")
def round_decimals(n: Node, x: Value, decimals: int = 0) -> Value:
    x = ops.convert(x, wide(x.dtype))
    f = ops.like(x, 10.0 ** abs(decimals))
    there, back = ("div", "mul") if decimals < 0 else ("mul", "div")
    return n.to_result(ops.one(back, ops.one("round_even", ops.one(there, x, f)), f))


@lowering("aten.logical_not.default")
def logical_not(n: Node, x: Value) -> Value:
    return ops.one("not", truth(x))


@lowering("aten.bitwise_not.default")
def bitwise_not(n: Node, x: Value) -> Value:
    return ops.one("not", x)


@lowering("aten.isnan.default", "aten.isinf.default", "aten.isfinite.default")
def classify(n: Node, x: Value) -> Value:
    name = {"isnan": "is_nan", "isinf": "is_inf"}.get(str(n.node.target).split(".")[1], "is_finite")
    if dt.is_float(x.dtype):
        return ops.one(name, x)
    return ops.full(x.shape, name == "is_finite", dt.bool_)


@lowering("aten.signbit.default")
def signbit(n: Node, x: Value) -> Value:
    if not dt.is_float(x.dtype):
        zero = ops.like(x, False if x.dtype is dt.bool_ else 0)
        return zero if x.dtype is dt.bool_ else ops.compare(x, zero, 2)
    as_int = {64: dt.int64, 32: dt.int32, 16: dt.int16}[x.dtype.bits]
    bits = ops.one("bitcast", x, dtype=as_int)
    return ops.compare(bits, ops.like(bits, 0), 2)


# ---- Two operands ----


@lowering("aten.add.Tensor", "aten.add.Scalar", "aten.sub.Tensor", "aten.sub.Scalar")
def add(n: Node, x: Any, y: Any, alpha: Any = 1) -> Value:
    name = str(n.node.target).split(".")[1]
    if n.dtype is dt.bool_:
        if name == "sub" or alpha is not True and alpha != 1:
            raise Unsupported("of booleans")
        return ops.one("or", n.to_result(x), n.to_result(y))
    return _summed(n, name, x, y, alpha)


@lowering("aten.rsub.Tensor", "aten.rsub.Scalar")
def rsub(n: Node, x: Any, y: Any, alpha: Any = 1) -> Value:
    return _summed(n, "sub", y, x, alpha)


def _summed(n: Node, op: str, x: Any, y: Any, alpha: Any) -> Value:
    """x and y, of which y is multiplied before. torch rounds numbers to a type of 16 bits, but not the product."""
    if alpha is True or alpha == 1:
        return ops.one(op, n.to_result(x), n.to_result(y))
    inner = wide(n.dtype)
    a, b, factor = (ops.convert(n.to_result(v), inner) for v in (x, y, alpha))
    return n.to_result(ops.one(op, a, ops.one("mul", b, factor)))


@lowering("aten.mul.Tensor", "aten.mul.Scalar")
def mul(n: Node, x: Any, y: Any) -> Value:
    if n.dtype is dt.bool_:
        return ops.one("and", n.to_result(x), n.to_result(y))
    return _in_type(n, "mul", x, y)


@lowering("aten.div.Tensor", "aten.div.Scalar", "aten.true_divide.Tensor")
def div(n: Node, x: Any, y: Any) -> Value:
    return _in_type(n, "div", x, y)


def _in_type(n: Node, op: str, x: Any, y: Any) -> Value:
    inner = wide(n.dtype) if n.is_beyond(y) else n.dtype
    return n.to_result(ops.one(op, n.spread(x, inner), n.spread(y, inner)))


@lowering("aten.div.Tensor_mode", "aten.div.Scalar_mode")
def div_mode(n: Node, x: Any, y: Any, rounding_mode: str | None = None) -> Value:
    if rounding_mode is None:
        return div(n, x, y)
    a, b = _dividend(n, x), _divisor(n, y)
    if rounding_mode == "floor":
        return n.to_result(_floor_div(a, b))
    quotient = ops.one("div", a, b)
    return n.to_result(ops.one("trunc", quotient) if dt.is_float(a.dtype) else quotient)


def _dividend(n: Node, x: Any) -> Value:
    """In float32 for a type of 16 bits, in which a rounded quotient may be the next whole number."""
    return n.spread(x if isinstance(x, Value) else n.typed(x, n.dtype), wide(n.dtype))


def _divisor(n: Node, y: Any) -> Value:
    """A divisor in the type and the shape of the dividend. Of integers none may be 0, as in eager mode."""
    if not dt.is_integer(n.dtype):
        return n.spread(y, wide(n.dtype))
    if not isinstance(y, Value):
        if not isinstance(y, Dim) and int(y) == 0:
            raise Unsupported("a division by 0")
        return n.to_result(y)
    y = n.typed(y, n.dtype)
    return n.to_result(checked(y, ops.compare(y, ops.like(y, 0), 1)))


def _floor_div(a: Value, b: Value) -> Value:
    """As Python divides floats: by way of the rest, so that 1 // 0.1 is 9."""
    if not dt.is_float(a.dtype):
        return ops.one("floor_div", a, b)
    one = ops.one
    rest = one("rem", a, b)
    quotient = one("div", one("sub", a, rest), b)
    zero = ops.like(a, 0.0)
    other_sign = ops.one("xor", ops.compare(rest, zero, 2), ops.compare(b, zero, 2))
    lower = one("and", ops.compare(rest, zero, 1), other_sign)
    quotient = ops.select(lower, one("sub", quotient, ops.like(a, 1.0)), quotient)
    down = one("floor", quotient)
    up = ops.compare(one("sub", quotient, down), ops.like(a, 0.5), 4)
    whole = ops.select(up, one("add", down, ops.like(a, 1.0)), down)
    ratio = one("div", a, b)
    whole = ops.select(ops.compare(quotient, zero, 0), one("mul", ratio, zero), whole)
    return ops.select(ops.compare(b, zero, 0), ratio, whole)


@lowering("aten.floor_divide.default", "aten.floor_divide.Scalar")
def floor_divide(n: Node, x: Any, y: Any) -> Value:
    return n.to_result(_floor_div(_dividend(n, x), _divisor(n, y)))


@lowering("aten.remainder.Tensor", "aten.remainder.Scalar", "aten.remainder.Scalar_Tensor")
def remainder(n: Node, x: Any, y: Any) -> Value:
    return ops.one("floor_mod", n.to_result(x), n.to_result(_divisor(n, y)))


@lowering("aten.fmod.Tensor", "aten.fmod.Scalar")
def fmod(n: Node, x: Any, y: Any) -> Value:
    return ops.one("rem", n.to_result(x), n.to_result(_divisor(n, y)))


_BINARY = {
    "aten.maximum.default": "max", "aten.minimum.default": "min", "aten.fmax.default": "fmax",
    "aten.fmin.default": "fmin", "aten.atan2.default": "atan2", "aten.hypot.default": "hypot",
    "aten.nextafter.default": "next_after", "aten.bitwise_and.Tensor": "and",
    "aten.bitwise_or.Tensor": "or", "aten.bitwise_xor.Tensor": "xor", "aten.bitwise_and.Scalar": "and",
    "aten.bitwise_or.Scalar": "or", "aten.bitwise_xor.Scalar": "xor",
    "aten.bitwise_left_shift.Tensor": "shl", "aten.bitwise_left_shift.Tensor_Scalar": "shl",
    "aten.__lshift__.Tensor": "shl", "aten.__lshift__.Scalar": "shl",
}  # fmt: skip


def _binary(overload: str, op: str) -> None:
    @lowering(overload)
    def function(n: Node, x: Any, y: Any) -> Value:
        if op in ("fmax", "fmin") and not dt.is_float(n.dtype):
            return ops.one(op[1:], n.to_result(x), n.to_result(y))
        return ops.one(op, n.to_result(x), n.to_result(y))


for _name, _op in _BINARY.items():
    _binary(_name, _op)


@lowering(
    "aten.bitwise_right_shift.Tensor",
    "aten.bitwise_right_shift.Tensor_Scalar",
    "aten.__rshift__.Tensor",
    "aten.__rshift__.Scalar",
)
def shift_right(n: Node, x: Any, y: Any) -> Value:
    a = n.to_result(x)
    unsigned = a.dtype.kind == "unsigned integer"
    return ops.one("shr_logical" if unsigned else "shr_arith", a, n.to_result(y))


@lowering("aten.clamp_min.default", "aten.clamp_min.Tensor")
def clamp_min(n: Node, x: Value, low: Any) -> Value:
    return ops.one("max", n.to_result(x), n.fitting(low))


@lowering("aten.clamp_max.default", "aten.clamp_max.Tensor")
def clamp_max(n: Node, x: Value, high: Any) -> Value:
    return ops.one("min", n.to_result(x), n.fitting(high))


@lowering("aten.pow.Tensor_Scalar", "aten.pow.Tensor_Tensor", "aten.pow.Scalar")
def pow_(n: Node, x: Any, y: Any) -> Value:
    a = n.to_result(x)
    if isinstance(y, (int, float)) and not isinstance(y, bool) and dt.is_float(n.dtype):
        if y == 2:
            return ops.one("square", a)
        if y == 3:
            return ops.one("mul", ops.one("square", a), a)
        if y == 0.5:
            return ops.one("sqrt", a)
        if y == -0.5:
            return ops.one("rsqrt", a)
        if y == -1:
            return ops.one("reciprocal", a)
        if y == 1:
            return a
    if n.dtype is dt.bool_:
        raise Unsupported("of booleans")
    power = n.to_result(y)
    made = ops.one("pow", a, power)
    if not dt.is_integer(n.dtype) or isinstance(y, int) and y >= 0:
        return made
    # torch has 0 for a negative power of the whole number 0, which has no value.
    zero = n.fitting(0)
    lost = ops.one(
        "and", ops.compare(a, zero, _DIRECTIONS["eq"]), ops.compare(power, zero, _DIRECTIONS["lt"])
    )
    return ops.select(lost, zero, made)


# ---- Comparison and logic ----

_DIRECTIONS = {"eq": 0, "ne": 1, "lt": 2, "le": 3, "gt": 4, "ge": 5}


def truth(x: Any, dtype: dt.DType | None = None) -> Value:
    """Whether elements are not 0."""
    return ops.convert(x, dt.bool_)


def _comparison(name: str, direction: int) -> None:
    @lowering(f"aten.{name}.Tensor", f"aten.{name}.Scalar")
    def function(n: Node, x: Any, y: Any) -> Value:
        dtype = n.common(0, 1)
        return ops.compare(n.spread(x, dtype), n.spread(within(y, dtype), dtype), direction)


for _name, _direction in _DIRECTIONS.items():
    _comparison(_name, _direction)


def _logical(name: str, op: str) -> None:
    @lowering(f"aten.logical_{name}.default")
    def function(n: Node, x: Value, y: Value) -> Value:
        return ops.one(op, n.spread(truth(x), dt.bool_), n.spread(truth(y), dt.bool_))


for _name in ("and", "or", "xor"):
    _logical(_name, _name)


@lowering("aten.where.self", "aten.where.ScalarOther", "aten.where.ScalarSelf")
def where(n: Node, condition: Value, x: Any, y: Any) -> Value:
    return ops.one("select", n.spread(truth(condition), dt.bool_), n.fitting(x), n.fitting(y))


@lowering("aten.masked_fill.Scalar", "aten.masked_fill.Tensor")
def masked_fill(n: Node, x: Value, mask: Value, value: Any) -> Value:
    return ops.one("select", n.spread(mask, dt.bool_), n.fitting(value), n.to_result(x))


@lowering("aten.clamp.default", "aten.clamp.Tensor")
def clamp(n: Node, x: Value, min: Any = None, max: Any = None) -> Value:
    return _clamped(n, x, min, max)


def _clamped(n: Node, x: Value, min: Any, max: Any) -> Value:
    out = n.to_result(x)
    if min is not None:
        out = ops.one("max", out, n.fitting(min))
    return out if max is None else ops.one("min", out, n.fitting(max))


@lowering("aten.hardtanh.default")
def hardtanh(n: Node, x: Value, low: float = -1.0, high: float = 1.0) -> Value:
    return _clamped(n, x, low, high)


# ---- Activations ----


@lowering("aten.gelu.default")
def gelu(n: Node, x: Value, approximate: str = "none") -> Value:
    return ops.one("gelu_tanh" if approximate == "tanh" else "gelu", x)


@lowering("aten.leaky_relu.default")
def leaky_relu(n: Node, x: Value, slope: Any = 0.01) -> Value:
    if not isinstance(slope, Real):
        return ops.one("leaky_relu", x, alpha=float(slope))
    inner = ops.convert(x, wide(x.dtype))
    below = ops.one("mul", inner, n.spread(slope, inner.dtype))
    return n.to_result(ops.select(ops.compare(inner, ops.like(inner, 0.0), 4), inner, below))


@lowering("aten.elu.default")
def elu(n: Node, x: Value, alpha: Any = 1.0, scale: Any = 1.0, input_scale: Any = 1.0) -> Value:
    if scale == 1 and input_scale == 1 and not isinstance(alpha, Real):
        return ops.one("elu", x, alpha=float(alpha))
    one, inner = ops.one, ops.convert(x, wide(x.dtype))
    slope, above, before = (n.spread(v, inner.dtype) for v in (alpha, scale, input_scale))
    below = one("mul", one("expm1", one("mul", inner, before)), one("mul", slope, above))
    return n.to_result(
        ops.select(ops.compare(inner, ops.like(inner, 0.0), 4), one("mul", inner, above), below)
    )


@lowering("aten.softplus.default")
def softplus(n: Node, x: Value, beta: Any = 1, threshold: Any = 20) -> Value:
    """In float32 for types of 16 bits, in which exp(12) is infinite."""
    inner = ops.convert(x, wide(x.dtype))
    factor = n.spread(beta, inner.dtype)
    scaled = inner if beta == 1 else ops.one("mul", inner, factor)
    out = ops.one("log1p", ops.one("exp", scaled))
    out = out if beta == 1 else ops.one("div", out, factor)
    return n.to_result(
        ops.select(ops.compare(scaled, n.spread(threshold, inner.dtype), 4), inner, out)
    )


@lowering("aten.hardsigmoid.default")
def hardsigmoid(n: Node, x: Value) -> Value:
    return ops.one("hard_sigmoid", x, alpha=1.0 / 6.0, beta=0.5)


@lowering("aten.lerp.Scalar", "aten.lerp.Tensor")
def lerp(n: Node, x: Value, y: Value, weight: Any) -> Value:
    """From the nearer end, as torch does, so that a weight of 1 gives y."""
    a, b, w = (n.spread(v, wide(n.dtype)) for v in (x, y, weight))
    one = ops.one
    difference = one("sub", b, a)
    near = one("add", a, one("mul", w, difference))
    far = one("sub", b, one("mul", difference, one("sub", ops.like(w, 1.0), w)))
    return n.to_result(ops.select(ops.compare(one("abs", w), ops.like(w, 0.5), 2), near, far))


@lowering("aten.copysign.Tensor", "aten.copysign.Scalar")
def copysign(n: Node, x: Any, y: Any) -> Value:
    a, b = n.to_result(x), n.to_result(y)
    magnitude = ops.one("abs", a)
    return ops.select(signbit(n, b), ops.one("neg", magnitude), magnitude)


@lowering("aten.logaddexp.default", "aten.logaddexp2.default")
def logaddexp(n: Node, x: Value, y: Value) -> Value:
    a, b = (ops.convert(n.to_result(v), wide(n.dtype)) for v in (x, y))
    one, two = ops.one, "exp2" if "2" in str(n.node.target) else "exp"
    high, low = one("max", a, b), one("min", a, b)
    spread = one("sub", low, high)
    if two == "exp2":
        rest = one("div", one("log1p", one("exp2", spread)), ops.like(a, math.log(2.0)))
    else:
        rest = one("log1p", one("exp", spread))
    same = one("and", ops.compare(high, low, 0), one("is_inf", high))
    return n.to_result(ops.select(same, high, one("add", high, rest)))


@lowering(
    "aten.xlogy.Tensor",
    "aten.xlogy.Scalar_Self",
    "aten.xlogy.Scalar_Other",
    "aten.special_xlog1py.default",
)
def xlogy(n: Node, x: Any, y: Any) -> Value:
    a, b = n.to_result(x), n.to_result(y)
    log = "log1p" if "log1p" in str(n.node.target) else "log"
    zero = ops.like(a, 0.0)
    out = ops.select(ops.compare(a, zero, 0), zero, ops.one("mul", a, ops.one(log, b)))
    return ops.select(ops.one("is_nan", b), b, out)


@lowering("aten.ldexp.Tensor")
def ldexp(n: Node, x: Value, y: Value) -> Value:
    return ops.one("mul", n.to_result(x), ops.one("exp2", n.to_result(y)))


# ---- Conversions and copies ----


@lowering(
    "aten.clone.default",
    "aten.alias.default",
    "aten.detach.default",
    "aten.lift_fresh_copy.default",
    "aten.contiguous.default",
    "aten.lift_fresh.default",
)
def clone(n: Node, x: Value, memory_format: Any = None) -> Value:
    return x


@lowering("aten._to_copy.default", "prims.convert_element_type.default")
def to_copy(n: Node, x: Any, *rest: Any, **options: Any) -> Value:
    """torch wraps floats beyond an integer's range in its own ways; they are undefined. vmap gives numbers."""
    return n.typed(x, n.dtype)


@lowering("aten.view.dtype")
def view_dtype(n: Node, x: Value, dtype: Any) -> Value:
    to = dtype_of(dtype)
    if to.bits != x.dtype.bits or dt.bool_ in (to, x.dtype):
        raise Unsupported("a view as elements of another size")
    return ops.one("bitcast", x, dtype=to)


@lowering("aten.copy.default")
def copy(n: Node, x: Value, y: Value, non_blocking: bool = False) -> Value:
    return n.to_result(y)


@lowering("aten.copy_.default")
def copy_into(n: Node, x: Value, y: Value, non_blocking: bool = False) -> Value:
    """At the end of a graph: the memory of an input gets a value (`_results.py`)."""
    if fake_of(n.node.args[0]).dtype != fake_of(n.node.args[1]).dtype:
        raise Unsupported("a copy that converts")
    if tuple(fake_of(n.node.args[0]).shape) != tuple(fake_of(n.node.args[1]).shape):
        raise Unsupported("a copy that repeats")
    return y


@lowering("prims.fma.default")
def fma(n: Node, x: Any, y: Any, z: Any) -> Value:
    """x y + z, rounded once; optimizers take their steps so."""
    return ops.one("fma", n.to_result(x), n.to_result(y), n.to_result(z))
