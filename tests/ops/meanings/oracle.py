"""The meaning of every element-wise op, by NumPy and mpmath alone. A meaning takes exact operands
(floats as long doubles, integers as Python's, predicates as booleans) and returns the exact result,
which the test rounds. The meaning of a new op is in its file in tests/ops/cases, not here.
"""

import pathlib
import sys

import numpy as np
from exact import digamma, erf, erf_inv, erfc, lgamma
from values import FORMATS, INTS, LD, bits_of, exact, narrow

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
import expected  # noqa: E402

# ---- Floats --------------------------------------------------------------------------------------


def logistic(x):
    return 1 / (1 + np.exp(-x))


def softplus(x):
    return np.maximum(x, 0) + np.log1p(np.exp(-abs(x)))


def normal_share(x):
    """(1 + erf(x / sqrt 2)) / 2."""
    return erfc(-x / np.sqrt(LD(2))) / 2


def zeros(a, b, larger):
    """-0 is below +0."""
    sign = np.signbit(a) & np.signbit(b) if larger else np.signbit(a) | np.signbit(b)
    return np.where(
        (a == 0) & (b == 0),
        np.where(sign, -0.0, 0.0).astype(a.dtype),
        np.maximum(a, b) if larger else np.minimum(a, b),
    )


def number_of(a, b, larger):
    return np.where(np.isnan(a), b, np.where(np.isnan(b), a, zeros(a, b, larger)))


def floor_div(a, b):
    """As NumPy's: infinity or NaN for a divisor of zero; a zero has the sign of the quotient."""
    with np.errstate(all="ignore"):
        whole = np.floor_divide(a, b)
        return np.where((b != 0) & (whole == 0), np.copysign(LD(0), a / b), whole)


def power_of(a, b):
    """As C's pow; infinities and zeros are computed in double, because glibc 2.36 is wrong there in
    long double."""
    return np.where(
        np.isfinite(a) & (a != 0) & np.isfinite(b),
        np.power(a, b),
        np.power(a.astype(float), b.astype(float)),
    )


def elu(x, alpha):
    return np.where(x > 0, x, alpha * np.expm1(x))


FLOATS = {
    "neg": lambda x: -x,
    "abs": abs,
    "sign": lambda x: np.where(x == 0, x, np.sign(x)),
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round_even": np.rint,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "tanh": np.tanh,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "exp2": np.exp2,
    "log2": np.log2,
    "log10": np.log10,
    "cbrt": np.cbrt,
    "square": lambda x: x * x,
    "reciprocal": lambda x: 1 / x,
    "logistic": logistic,
    "erf": erf,
    "erfc": erfc,
    "erf_inv": erf_inv,
    "lgamma": lgamma,
    "digamma": digamma,
    "is_nan": np.isnan,
    "is_inf": np.isinf,
    "is_finite": np.isfinite,
    "relu": lambda x: zeros(x, 0, True),
    "silu": lambda x: x * logistic(x),
    "softplus": softplus,
    "mish": lambda x: x * np.tanh(softplus(x)),
    "gelu": lambda x: x * normal_share(x),
    "gelu_tanh": lambda x: x * logistic(2 * np.sqrt(2 / LD(np.pi)) * (x + LD(0.044715) * x**3)),
    "hard_swish": lambda x: x * np.clip(x / 6 + LD(0.5), 0, 1),
    "elu": elu,
    "celu": lambda x, alpha: zeros(x, 0, True) + zeros(alpha * np.expm1(x / alpha), 0, False),
    "selu": lambda x, alpha, gamma: gamma * elu(x, alpha),
    "hard_sigmoid": lambda x, alpha, beta: np.clip(alpha * x + beta, 0, 1),
    "threshold": lambda x, threshold, value: np.where(x <= threshold, value, x),
    "clamp": lambda x, min, max: zeros(zeros(x, min, True), max, False),
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "rem": np.fmod,
    "pow": power_of,
    "atan2": np.arctan2,
    "hypot": np.hypot,
    "max": lambda a, b: zeros(a, b, True),
    "min": lambda a, b: zeros(a, b, False),
    "fmax": lambda a, b: number_of(a, b, True),
    "fmin": lambda a, b: number_of(a, b, False),
    "floor_div": floor_div,
    "floor_mod": np.mod,
    "prelu": lambda x, slope: np.where(x >= 0, x, slope * x),
}


# ---- Integers ------------------------------------------------------------------------------------


def wrap(dtype, v):
    v = int(v) & ((1 << bits_of(dtype)) - 1)
    return v - (1 << bits_of(dtype)) if dtype.startswith("i") and v >> (bits_of(dtype) - 1) else v


def pattern(dtype, v):
    return int(v) & ((1 << bits_of(dtype)) - 1)


def truncated(a, b):
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


def divide(dtype, a, b):
    """Truncates; division by 0 gives all ones."""
    return -1 if b == 0 else truncated(a, b)


def remainder(dtype, a, b):
    """The remainder of truncating division, with the sign of a; a itself for a divisor of 0."""
    return a if b == 0 else a - b * truncated(a, b)


def power(dtype, a, b):
    """For a negative power 1 / a^|b|, truncated."""
    if b >= 0:
        return pow(int(a), int(b), 1 << bits_of(dtype))
    return {1: 1, -1: -1 if b & 1 else 1, 0: -1}.get(a, 0)


def shifted(dtype, a, b, how):
    """A count below 0 or beyond the width counts as the width."""
    far = not 0 <= b < bits_of(dtype)
    if how == "left":
        return 0 if far else int(a) << int(b)
    if how == "logical" or not dtype.startswith("i"):
        return 0 if far else pattern(dtype, a) >> int(b)
    return int(a) >> (bits_of(dtype) - 1 if far else int(b))


WHOLE = {
    "neg": lambda t, x: -x,
    "abs": lambda t, x: abs(x),
    "sign": lambda t, x: (x > 0) - (x < 0),
    "not": lambda t, x: ~x,
    "clz": lambda t, x: bits_of(t) - pattern(t, x).bit_length(),
    "square": lambda t, x: x * x,
    "relu": lambda t, x: max(x, 0),
    "clamp": lambda t, x, low, high: min(max(x, low), high),
    "add": lambda t, a, b: a + b,
    "sub": lambda t, a, b: a - b,
    "mul": lambda t, a, b: a * b,
    "div": divide,
    "rem": remainder,
    "pow": power,
    "max": lambda t, a, b: max(a, b),
    "min": lambda t, a, b: min(a, b),
    "and": lambda t, a, b: a & b,
    "or": lambda t, a, b: a | b,
    "xor": lambda t, a, b: a ^ b,
    "shl": lambda t, a, b: shifted(t, a, b, "left"),
    "shr_arith": lambda t, a, b: shifted(t, a, b, "sign"),
    "shr_logical": lambda t, a, b: shifted(t, a, b, "logical"),
    "floor_div": lambda t, a, b: -1 if b == 0 else a // b,
    "floor_mod": lambda t, a, b: a if b == 0 else a % b,
    "fma": lambda t, a, b, c: a * b + c,
}
TRUTH = {
    "not": np.logical_not,
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.logical_xor,
    "max": np.logical_or,
    "min": np.logical_and,
}
COMPARISONS = [np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal]

for name, own in expected.meanings()[0].items():
    for table, function in ((FLOATS, own.floats), (WHOLE, own.integers), (TRUTH, own.predicates)):
        if function:
            table[name] = function


# ---- Conversions ---------------------------------------------------------------------------------


def whole_of(to, v, wraps):
    """Floats as integers: truncated, then saturated or modulo 2^n; NaN is 0, as is an infinity
    modulo."""
    v = np.trunc(np.where(np.isnan(v) | wraps & np.isinf(v), 0, v))
    if not wraps:
        info = np.iinfo(INTS[to])
        v = np.clip(v, LD(info.min), LD(info.max))
    rest = np.fmod(v, LD(2) ** 64)  # exact
    magnitude = abs(rest).astype(np.uint64)
    return np.where(rest < 0, -magnitude, magnitude).astype(INTS[to])


def converted(x, from_, to, wraps=False):
    """The exact value if `to` is a float: the test rounds it."""
    if to == "pred":
        return exact(from_, x) != 0
    if from_ in FORMATS:
        return whole_of(to, exact(from_, x), wraps) if to in INTS else exact(from_, x)
    return x.astype(INTS[to]) if to in INTS else np.array([LD(int(v)) for v in x], LD)


# ---- One op --------------------------------------------------------------------------------------


def attribute(dtype, value):
    """As the op reads it: in its working type, f32 for 16-bit floats."""
    if dtype in INTS:
        return int(whole_of(dtype, LD(value), False))
    return exact(
        "f64" if dtype == "f64" else "f32", narrow("f64" if dtype == "f64" else "f32", [value])
    )[0]


def listed(table, op, dtype):
    if op not in table:
        raise SystemExit(expected.no_meaning(op, f"meaning for {dtype}"))
    return table[op]


def meaning(op, dtype, operands, attributes):
    """The exact result of an op whose result has the type of its operands, or is a predicate."""
    if op == "select":
        return np.where(operands[0], exact(dtype, operands[1]), exact(dtype, operands[2]))
    if op == "compare":
        return COMPARISONS[attributes["direction"]](*[exact(dtype, x) for x in operands])
    if dtype == "pred":
        return listed(TRUTH, op, dtype)(*operands)
    values = [exact(dtype, x) for x in operands]
    if (
        op == "swiglu"
    ):  # silu(x) is a number of the working type: if it is 0, an infinity does not change that
        working = "f64" if dtype == "f64" else "f32"
        gate = FLOATS["silu"](values[0])
        return (
            np.where(
                abs(gate) < np.ldexp(LD(1), FORMATS[working][1]),
                exact(working, narrow(working, gate.astype(float))),
                gate,
            )
            * values[1]
        )
    numbers = [attribute(dtype, v) for v in attributes.values()]
    if dtype in INTS:
        function = listed(WHOLE, op, dtype)
        return np.array(
            [wrap(dtype, function(dtype, *v, *numbers)) for v in zip(*values)], INTS[dtype]
        )
    return listed(FLOATS, op, dtype)(*values, *numbers)


def in_its_type(op, dtype, operands, attributes):
    """For an op that gives the nearest number: by NumPy in f64, or in f32 for smaller types."""
    working = np.float64 if dtype == "f64" else np.float32
    values = [
        x if op == "select" and i == 0 else exact(dtype, x).astype(working)
        for i, x in enumerate(operands)
    ]
    if op == "select":
        return np.where(*values).astype(LD)
    numbers = [working(attribute(dtype, v)) for v in attributes.values()]
    return listed(FLOATS, op, dtype)(*values, *numbers).astype(LD)
