"""tenon.xp: functions of each element."""

from __future__ import annotations

from tenon import _native
from tenon._errors import UnsupportedError
from tenon.builder import dtypes as dt
from tenon.builder import ops
from tenon.builder.dtypes import DType
from tenon.xp._array import (
    QUICK,
    Array,
    binary,
    direction,
    operand_like,
    pair,
    spread,
    value_of,
    weak_float,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__: list[str] = []

_KINDS: dict[str, tuple[Callable[[DType], bool], str]] = {
    "float": (dt.is_float, "real floating-point"),
    "floating": (dt.is_floating, "floating-point"),
    "real": (lambda d: d is not dt.bool_ and not dt.is_complex(d), "real numeric"),
    "complex": (dt.is_complex, "complex"),
    "numeric": (lambda d: d is not dt.bool_, "numeric"),
    "integer": (dt.is_integer, "integer"),
    "bits": (lambda d: not dt.is_floating(d), "integer or bool"),
    "bool": (lambda d: d is dt.bool_, "bool"),
    "any": (lambda d: True, "any"),
}


def check(name: str, kind: str, *values: Any) -> None:
    """TypeError if an array is not of a kind that the function is for."""
    accepts, text = _KINDS[kind]
    for v in values:
        if not accepts(v.dtype):
            raise TypeError(f"{name} is for {text} arrays, not {v.dtype.name}")


def _unary(name: str, kind: str, op: str, doc: str) -> None:
    quick, quickly = QUICK[name], _native.quick_unary

    def function(x: Array, /) -> Array:
        found: Array | None = quickly(quick, x)
        if found is not None:
            return found
        weak = isinstance(x, Array) and x._weak
        v = x._value if weak else value_of(x)
        check(name, kind, v)
        return Array(ops.one(op, v), weak)

    _publish(name, function, doc)


def _binary(name: str, kind: str, op: str, doc: str) -> None:
    quick, quickly = QUICK[name], _native.quick_binary

    def function(x1: Any, x2: Any, /) -> Array:
        found: Array | None = quickly(quick, x1, x2)
        if found is not None:
            return found
        if kind in ("float", "floating"):
            x1, x2 = weak_float(x1), weak_float(x2)
        for x in (x1, x2):
            if isinstance(x, Array):
                check(name, kind, x)
        return binary(op, x1, x2)

    _publish(name, function, doc)


def _publish(name: str, function: Callable[..., Any], doc: str) -> None:
    function.__name__ = function.__qualname__ = name
    function.__module__ = "tenon.xp"
    function.__doc__ = doc
    globals()[name] = function
    __all__.append(name)


for _name, _doc in {
    "acos": "The angle in [0, pi] whose cosine is x.", "acosh": "Inverse hyperbolic cosine.",
    "asin": "The angle in [-pi/2, pi/2] whose sine is x.", "asinh": "Inverse hyperbolic sine.",
    "atan": "The angle in [-pi/2, pi/2] whose tangent is x.",
    "atanh": "Inverse hyperbolic tangent.", "cos": "Cosine of an angle in radians.",
    "cosh": "Hyperbolic cosine.", "exp": "e to the power of x.", "expm1": "exp(x) - 1, exact near 0.",
    "log": "Natural logarithm.", "log1p": "log(1 + x), exact near 0.", "log2": "Logarithm to base 2.",
    "log10": "Logarithm to base 10.", "sin": "Sine of an angle in radians.",
    "sinh": "Hyperbolic sine.", "sqrt": "Square root.", "tan": "Tangent of an angle in radians.",
    "tanh": "Hyperbolic tangent.", "reciprocal": "1 / x.",
}.items():  # fmt: skip
    _unary(_name, "floating", _name, _doc + " Same shape and type; floating-point arrays.")
for _name, _op, _doc in (
    ("abs", "abs", "|x|."),
    ("negative", "neg", "-x."),
    ("sign", "sign", "-1, 0 or 1, or x / |x| of complex numbers; NaN stays."),
    ("square", "square", "x * x."),
):
    _unary(_name, "numeric", _op, _doc + " Same shape and type; numeric arrays.")
_unary("bitwise_invert", "bits", "not", "All bits, or the truth value, inverted.")
_unary("logical_not", "bool", "not", "Not x. Arrays of bool.")
for _name, _kind, _op, _doc in (
    ("add", "numeric", "add", "x1 + x2."),
    ("subtract", "numeric", "sub", "x1 - x2."),
    ("multiply", "numeric", "mul", "x1 * x2."),
    ("divide", "floating", "div", "x1 / x2; floating-point arrays."),
    ("floor_divide", "real", "floor_div", "The largest integer not above x1 / x2."),
    ("remainder", "real", "floor_mod", "x1 - floor(x1 / x2) * x2: the sign of x2."),
    ("maximum", "real", "max", "The larger one; NaN if one is."),
    ("minimum", "real", "min", "The smaller one; NaN if one is."),
    ("atan2", "float", "atan2", "The angle of the point (x2, x1), in [-pi, pi]."),
    ("hypot", "float", "hypot", "sqrt(x1**2 + x2**2) without overflow."),
    ("bitwise_and", "bits", "and", "And, bit by bit."),
    ("bitwise_or", "bits", "or", "Or, bit by bit."),
    ("bitwise_xor", "bits", "xor", "Exclusive or, bit by bit."),
    ("bitwise_left_shift", "integer", "shl", "x1 shifted to the left by x2 bits."),
    ("logical_and", "bool", "and", "And. Arrays of bool."),
    ("logical_or", "bool", "or", "Or. Arrays of bool."),
    ("logical_xor", "bool", "xor", "Exclusive or. Arrays of bool."),
):
    _binary(_name, _kind, _op, _doc + " Shapes repeat and types promote.")


def _comparison(name: str, kind: str, doc: str) -> None:
    attrs, quick, quickly = direction(name), QUICK[name], _native.quick_binary

    def function(x1: Any, x2: Any, /) -> Array:
        found: Array | None = quickly(quick, x1, x2)
        if found is not None:
            return found
        a, b = pair(x1, x2)
        check(name, kind, a, b)
        return Array(spread("compare", a, b, attrs))

    _publish(name, function, doc + " An array of bool; NaN is unequal to everything.")


for _name, _kind, _doc in (
    ("equal", "any", "x1 == x2."),
    ("not_equal", "any", "x1 != x2."),
    ("less", "real", "x1 < x2."),
    ("less_equal", "real", "x1 <= x2."),
    ("greater", "real", "x1 > x2."),
    ("greater_equal", "real", "x1 >= x2."),
):
    _comparison(_name, _kind, _doc)


def _published(function: Any) -> Any:
    function.__module__ = "tenon.xp"
    __all__.append(function.__name__)
    return function


@_published
def pow(x1: Any, x2: Any, /) -> Array:
    """x1 to the power of x2. Integers wrap; a negative exponent of an integer is not defined."""
    for x in (x1, x2):
        if isinstance(x, Array):
            check("pow", "numeric", x)
    return binary("pow", x1, x2)


@_published
def bitwise_right_shift(x1: Any, x2: Any, /) -> Array:
    """x1 shifted to the right by x2 bits; signed integers keep their sign."""
    a, b = pair(x1, x2)
    check("bitwise_right_shift", "integer", a, b)
    shape = ops.broadcast_shapes(a.shape, b.shape)
    op = "shr_arith" if a.dtype.kind == "signed integer" else "shr_logical"
    return Array(ops.one(op, ops.broadcast_to(a, shape), ops.broadcast_to(b, shape)))


def _whole(name: str, op: str, doc: str) -> None:
    def function(x: Array, /) -> Array:
        v = value_of(x)
        check(name, "real", v)
        return Array(ops.one(op, v) if dt.is_float(v.dtype) else v)

    _publish(name, function, doc + " Integers stay.")


_whole("ceil", "ceil", "The smallest integer not below x.")
_whole("floor", "floor", "The largest integer not above x.")
_whole("trunc", "trunc", "The integer next to x on the side of 0.")


@_published
def round(x: Array, /) -> Array:
    """The nearest integer; halves go to the even one. Integers stay; complex numbers by their parts."""
    v = value_of(x)
    check("round", "numeric", v)
    if dt.is_complex(v.dtype):
        parts = (ops.one("round_even", ops.one(part, v)) for part in ("real", "imag"))
        return Array(ops.one("complex", *parts))
    return Array(ops.one("round_even", v) if dt.is_float(v.dtype) else v)


def _test(name: str, op: str, of_integers: bool, doc: str) -> None:
    def function(x: Array, /) -> Array:
        v = value_of(x)
        check(name, "numeric", v)
        if not dt.is_floating(v.dtype):
            return Array(ops.full(v.shape, of_integers, dt.bool_))
        return Array(ops.one(op, v))

    _publish(name, function, doc)


_test("isfinite", "is_finite", True, "Whether x is neither infinite nor NaN.")
_test("isinf", "is_inf", False, "Whether x is infinite.")
_test("isnan", "is_nan", False, "Whether x is NaN.")


@_published
def positive(x: Array, /) -> Array:
    """+x: the value itself."""
    weak = isinstance(x, Array) and x._weak
    v = x._value if weak else value_of(x)
    check("positive", "numeric", v)
    return Array(v, weak)


@_published
def signbit(x: Array, /) -> Array:
    """Whether the sign is negative, also of -0.0 and NaN. Floating-point arrays."""
    v = value_of(x)
    check("signbit", "float", v)
    bits = ops.one("bitcast", v, dtype=dt.by_code[f"i{v.dtype.bits}"])
    return Array(ops.compare(bits, ops.like(bits, 0), 2))


@_published
def copysign(x1: Any, x2: Any, /) -> Array:
    """|x1| with the sign of x2. Floating-point arrays."""
    a, b = pair(x1, x2)
    check("copysign", "float", a, b)
    shape = ops.broadcast_shapes(a.shape, b.shape)
    size = ops.one("abs", ops.broadcast_to(a, shape))
    negative = signbit(Array(ops.broadcast_to(b, shape)))._value
    return Array(ops.select(negative, ops.one("neg", size), size))


@_published
def nextafter(x1: Any, x2: Any, /) -> Array:
    """The next number from x1 towards x2. float32 and float64."""
    a, b = pair(x1, x2)
    check("nextafter", "float", a, b)
    if a.dtype.bits < 32:
        raise UnsupportedError(f"nextafter of {a.dtype.name}: not yet", "T0629")
    return binary("next_after", Array(a), Array(b))


@_published
def logaddexp(x1: Any, x2: Any, /) -> Array:
    """log(exp(x1) + exp(x2)) without overflow. Floating-point arrays."""
    a, b = pair(x1, x2)
    check("logaddexp", "float", a, b)
    shape = ops.broadcast_shapes(a.shape, b.shape)
    a, b = ops.broadcast_to(a, shape), ops.broadcast_to(b, shape)
    one = ops.one
    # From the larger one, without its size: the derivatives of max and abs would be wrong where both
    # are equal. Two equal infinities have no difference.
    far = one("sub", b, a)
    same = one("and", one("is_inf", a), ops.compare(a, b, 0))
    far = ops.select(same, ops.like(a, 0.0), far)
    from_a = one("add", a, one("softplus", far))
    from_b = one("add", b, one("softplus", one("neg", far)))
    return Array(ops.select(ops.compare(b, a, 4), from_b, from_a))


@_published
def clip(x: Array, /, min: Any = None, max: Any = None) -> Array:
    """x, but not below min nor above max: numbers or arrays whose shapes go with x, or None."""
    v = value_of(x)
    check("clip", "real", v)
    dtype = v.dtype
    for op, bound in (("max", min), ("min", max)):
        if bound is None:
            continue
        limit = operand_like(bound, Array(v))._value
        if limit.dtype is not dtype and dt.promote(limit.dtype, dtype) is not dtype:
            raise TypeError(f"a bound of {limit.dtype.name} for an array of {dtype.name}")
        limit = ops.convert(limit, dtype)
        shape = ops.broadcast_shapes(v.shape, limit.shape)
        v = ops.one(op, ops.broadcast_to(v, shape), ops.broadcast_to(limit, shape))
    return Array(v)


@_published
def real(x: Array, /) -> Array:
    """The real part: x itself for real arrays."""
    v = value_of(x)
    check("real", "numeric", v)
    return Array(ops.one("real", v) if dt.is_complex(v.dtype) else v)


@_published
def conj(x: Array, /) -> Array:
    """The complex conjugate: x itself for real arrays."""
    v = value_of(x)
    check("conj", "numeric", v)
    return Array(ops.one("conj", v) if dt.is_complex(v.dtype) else v)


@_published
def imag(x: Array, /) -> Array:
    """The imaginary part. Complex arrays."""
    v = value_of(x)
    check("imag", "complex", v)
    return Array(ops.one("imag", v))
