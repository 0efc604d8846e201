"""Derivatives of element-wise ops, in f64, against mpmath.

The points are where formulas fail: 0, kinks, what overflows in an intermediate result, what cancels.
At a kink the value is that of PyTorch, or listed here.
"""

from __future__ import annotations

import itertools

import mpmath as mp
import numpy as np
import pytest
import tenon
from tenon import grad, jvp, xp
from tenon.builder import ops
from tenon.xp._array import Array, value_of

mp.mp.dps = 420  # 1e-160 squared must not vanish next to 1

POINTS = [
    0.0, 1e-100, 1e-8, 1e-3, 0.25, 0.5, 0.9999999, 1.0, 1.0000001, 1.5, 2.0, 2.5, 3.0, 4.0, 7.0, 12.0,
    19.0, 21.0, 30.0, 90.0, 400.0, 800.0, 1e5, 1.1e9, 2e9, 1e10, 1e160,
]  # fmt: skip
POINTS += [-x for x in POINTS if x]
PAIRS = list(
    itertools.product(
        [0.0, 1e-100, 1e-8, -0.01, 0.25, -0.25, 1.0, -1.0, 2.0, -2.0, 3.5, -3.5, 100.0, -100.0, 1e10, 1e160,
         -1e160],
        repeat=2,
    )
)  # fmt: skip


def _cut(x, low, high):
    return min(max(x, low), high)


def _logistic(x):
    return 1 / (1 + mp.exp(-x))


def _softplus(x):
    return mp.log1p(mp.exp(x)) if x < 0 else x + mp.log1p(mp.exp(-x))


def _elu(x, alpha):
    return x if x > 0 else alpha * mp.expm1(x)


def _cube_root(x):
    return mp.sign(x) * mp.cbrt(abs(x))


def _gelu_tanh(x):
    return x / 2 * (1 + mp.tanh(mp.sqrt(2 / mp.pi) * (x + mp.mpf(0.044715) * x**3)))


def _quotient(x, y):
    q = x / y
    if abs(q) > mp.mpf(10) ** 100:
        raise ValueError("a difference would meet many periods")
    return q


def _floor_mod(x, y):
    return x - y * mp.floor(_quotient(x, y))


def _rem(x, y):
    q = _quotient(x, y)
    return x - y * (mp.floor(q) if q >= 0 else mp.ceil(q))


GAMMA, ALPHA = mp.mpf(1.05070102214813232421875), mp.mpf(1.67326319217681884765625)
# What each op means, and attributes.
ONE = {
    "neg": (lambda x: -x, {}),
    "abs": (abs, {}),
    "sqrt": (mp.sqrt, {}),
    "rsqrt": (lambda x: 1 / mp.sqrt(x), {}),
    "exp": (mp.exp, {}),
    "expm1": (mp.expm1, {}),
    "log": (mp.log, {}),
    "log1p": (mp.log1p, {}),
    "sin": (mp.sin, {}),
    "cos": (mp.cos, {}),
    "tan": (mp.tan, {}),
    "asin": (mp.asin, {}),
    "acos": (mp.acos, {}),
    "atan": (mp.atan, {}),
    "sinh": (mp.sinh, {}),
    "cosh": (mp.cosh, {}),
    "tanh": (mp.tanh, {}),
    "asinh": (mp.asinh, {}),
    "acosh": (mp.acosh, {}),
    "atanh": (mp.atanh, {}),
    "exp2": (lambda x: mp.mpf(2) ** x, {}),
    "log2": (lambda x: mp.log(x, 2), {}),
    "log10": (mp.log10, {}),
    "cbrt": (_cube_root, {}),
    "square": (lambda x: x * x, {}),
    "reciprocal": (lambda x: 1 / x, {}),
    "logistic": (_logistic, {}),
    "erf": (mp.erf, {}),
    "erfc": (mp.erfc, {}),
    "relu": (lambda x: max(x, mp.mpf(0)), {}),
    "leaky_relu": (lambda x: x if x > 0 else x * mp.mpf(0.25), {"alpha": 0.25}),
    "elu": (lambda x: _elu(x, 2), {"alpha": 2.0}),
    "selu": (lambda x: GAMMA * _elu(x, ALPHA), {}),
    "celu": (lambda x: x if x > 0 else 2 * mp.expm1(x / 2), {"alpha": 2.0}),
    "gelu": (lambda x: x * mp.erfc(-x / mp.sqrt(2)) / 2, {}),
    "gelu_tanh": (_gelu_tanh, {}),
    "silu": (lambda x: x * _logistic(x), {}),
    "mish": (lambda x: x * mp.tanh(_softplus(x)), {}),
    "softplus": (_softplus, {}),
    "softsign": (lambda x: x / (1 + abs(x)), {}),
    "hard_sigmoid": (lambda x: _cut(x / 4 + mp.mpf(0.5), 0, 1), {"alpha": 0.25}),
    "hard_swish": (lambda x: x * _cut(x / 6 + mp.mpf(0.5), 0, 1), {}),
    "threshold": (lambda x: x if x > 1 else mp.mpf(5), {"threshold": 1.0, "value": 5.0}),
    "clamp": (lambda x: _cut(x, -1, 1), {"min": -1.0, "max": 1.0}),
    "sign": (mp.sign, {}),
    "floor": (mp.floor, {}),
    "ceil": (mp.ceil, {}),
}
TWO = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "rem": _rem,
    "pow": lambda x, y: mp.mpf(1) if x == y == 0 else x**y,
    "atan2": mp.atan2,
    "max": max,
    "min": min,
    "fmax": max,
    "fmin": min,
    "hypot": mp.hypot,
    "prelu": lambda x, y: x if x > 0 else x * y,
    "swiglu": lambda x, y: x * _logistic(x) * y,
    "floor_div": lambda x, y: mp.floor(x / y),
    "floor_mod": _floor_mod,
}
# The derivative at kinks, and where it is infinite.
KINKS = {
    ("abs", 0.0): 0.0, ("relu", 0.0): 0.0, ("leaky_relu", 0.0): 0.25, ("elu", 0.0): 2.0,
    ("selu", 0.0): float(GAMMA * ALPHA), ("hard_sigmoid", 2.0): 0.0, ("hard_sigmoid", -2.0): 0.0,
    ("hard_swish", 3.0): 1.0, ("hard_swish", -3.0): 0.0, ("threshold", 1.0): 0.0,
    ("cbrt", 0.0): float("inf"), ("clamp", 1.0): 1.0, ("clamp", -1.0): 1.0,
}  # fmt: skip
STEPS = {"sign", "floor", "ceil", "floor_div"}  # their derivative is 0 everywhere


def expected(function, point, operand):
    """The derivative; None where there is none or it is infinite, "kink" where the sides differ."""

    def at(t):
        arguments = [mp.mpf(p) for p in point]
        arguments[operand] = t
        value = function(*arguments)
        value = mp.mpf(value) if isinstance(value, (int, float)) else value
        if not isinstance(value, mp.mpf) or not mp.isfinite(value):
            raise ValueError("no number")
        return value

    x = mp.mpf(point[operand])
    h = mp.mpf(10) ** -145
    try:
        left, right = (at(x) - at(x - h)) / h, (at(x + h) - at(x)) / h
    except (ValueError, ZeroDivisionError, OverflowError):
        return None
    if abs(left - right) > mp.mpf(10) ** -12 * max(abs(left), abs(right), mp.mpf(10) ** -100):
        return "kink"
    return (left + right) / 2


def derivatives(calls, arguments, operand):
    """Of several ops by one operand, at once: {name: derivatives}."""

    def run(x):
        given = [xp.asarray(a) for a in arguments]
        given[operand] = x
        values = [value_of(a) for a in given]
        return {name: Array(ops.one(name, *values, **attrs)) for name, attrs in calls.items()}

    x = xp.asarray(arguments[operand])
    _, out = jvp(run, (x,), (xp.asarray(np.ones_like(arguments[operand])),))
    return {name: np.asarray(out[name]) for name in calls}


def agrees(got, wanted):
    if abs(wanted) > mp.mpf("1.7e308"):
        return np.isinf(got)
    return (
        bool(np.isfinite(got)) and abs(mp.mpf(float(got)) - wanted) <= abs(wanted) * 1e-10 + 1e-15
    )


def failures(name, function, points, operand, got):
    for point, value in zip(points, got):
        wanted = KINKS.get((name, *point))
        if wanted is None:
            wanted = 0.0 if name in STEPS else expected(function, point, operand)
        if wanted is None or wanted == "kink" or (name, *point) == ("atan2", 0.0, 0.0):
            continue
        if not agrees(value, wanted):
            yield f"{name} at {point} by operand {operand}: {value}, and it is {mp.nstr(wanted, 12)}"


def test_one_operand():
    calls = {name: attrs for name, (_, attrs) in ONE.items()}
    got = derivatives(calls, [np.array(POINTS)], 0)
    points = [(x,) for x in POINTS]
    wrong = [f for n, (fn, _) in ONE.items() for f in failures(n, fn, points, 0, got[n])]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("operand", [0, 1])
def test_two_operands(operand):
    got = derivatives({name: {} for name in TWO}, list(np.array(PAIRS).T.copy()), operand)
    wrong = [f for n, fn in TWO.items() for f in failures(n, fn, PAIRS, operand, got[n])]
    assert not wrong, "\n".join(wrong)


def test_ties_and_points_without_a_direction():
    def at(name, x, y, operand):
        return derivatives({name: {}}, [np.array([x]), np.array([y])], operand)[name][0]

    assert [at("max", 2.0, 2.0, i) for i in (0, 1)] == [0.5, 0.5]
    assert [at("hypot", 0.0, 0.0, i) for i in (0, 1)] == [0, 0]
    assert [at("prelu", 0.0, 3.0, i) for i in (0, 1)] == [3, 0]
    assert [at("floor_mod", 3.0, 3.0, i) for i in (0, 1)] == [1, -1]
    assert [at("pow", 0.0, 0.0, i) for i in (0, 1)] == [0, 0]


def test_special_functions():
    points = [-0.9, -0.25, 1e-8, 0.5, 0.99]
    got = derivatives({"erf_inv": {}}, [np.array(points)], 0)["erf_inv"]
    np.testing.assert_allclose(got, [float(mp.diff(mp.erfinv, x)) for x in points], rtol=1e-12)
    points = [0.25, 1.0, 3.5, 100.0, -0.5]
    got = derivatives({"lgamma": {}}, [np.array(points)], 0)["lgamma"]
    np.testing.assert_allclose(got, [float(mp.digamma(x)) for x in points], rtol=1e-11, atol=1e-13)
    points = [1e-3, 0.25, 0.5, 1.0, 3.5, 100.0, -0.5, -7.9]
    got = derivatives({"digamma": {}}, [np.array(points)], 0)["digamma"]
    np.testing.assert_allclose(got, [float(mp.psi(1, x)) for x in points], rtol=1e-13)
    points[6] = -0.3  # at -0.5 those of even order are a small rest of two large numbers
    for order in (1, 2, 5, 12):
        got = derivatives({"polygamma": {"order": order}}, [np.array(points)], 0)["polygamma"]
        wanted = [float(mp.psi(order + 1, x)) for x in points]
        np.testing.assert_allclose(got, wanted, rtol=1e-12)


def test_polygamma_in_f32():
    """Against mpmath, of positive numbers: all terms have one sign."""
    points = np.random.default_rng(2).uniform(0.01, 40, 200).astype(np.float32)
    for order in (1, 2, 3):

        def function(x, order=order):
            return Array(ops.one("polygamma", value_of(x), order=order))

        wanted = np.array([float(mp.psi(order, mp.mpf(float(x)))) for x in points])
        for device in ("cpu", "reference"):
            got = np.asarray(tenon.compile(function, device=device)(xp.asarray(points)))
            apart = np.abs(got.astype(np.float64) - wanted)
            assert np.max(apart / np.spacing(np.abs(wanted).astype(np.float32))) < 8, (
                order,
                device,
            )


def test_second_derivatives_have_no_nan():
    """Of selections: the side that is not taken overflows, or divides by 0."""
    cases = [
        ("elu", 800.0, 0), ("selu", 800.0, 0), ("celu", 800.0, 0), ("gelu_tanh", 1e150, 0),
        ("softplus", 0.0, 0.25), ("sinh", 0.0, 0), ("asinh", 0.0, 0), ("asinh", 1e160, 0),
        ("tan", 0.0, 0), ("mish", 800.0, 0), ("hard_swish", 1.0, 1 / 3), ("square", 0.0, 2),
    ]  # fmt: skip

    for name, x, wanted in cases:

        def slope(x, name=name):
            one = Array(ops.like(value_of(x), 1.0))
            return jvp(lambda v: Array(ops.one(name, value_of(v))), (x,), (one,))[1]

        def total(x, slope=slope):
            return xp.sum(slope(x))

        got = np.asarray(grad(total)(xp.asarray(np.array([x]))))
        np.testing.assert_allclose(got, [wanted], atol=1e-12, err_msg=name)
