#!/usr/bin/env python3
"""Compares the oracle of every_f32_test with mpmath, at numbers in every exponent: it must be far
more accurate than half a unit of f32. The C++ that a file of tests/ops/cases gives is compared with
the meaning in the same file.

oracle_samples.py EVERY_F32_TEST
"""

import pathlib
import sys

import mpmath
import numpy as np

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
import expected  # noqa: E402

MOST = 2.0**-12  # units in the last place of f32
mpmath.mp.prec = 160


def lgamma(x):
    return (
        mpmath.loggamma(x)
        if x > 0
        else mpmath.log(mpmath.pi / abs(mpmath.sinpi(x))) - mpmath.loggamma(1 - x)
    )


def digamma(x):
    return (
        mpmath.digamma(x)
        if x > 0
        else mpmath.digamma(1 - x) - mpmath.pi * mpmath.cospi(x) / mpmath.sinpi(x)
    )


def inside(condition, function):
    """NaN where mpmath would give a complex number."""
    return lambda x: function(x) if condition(x) else mpmath.nan


def logistic(x):
    return 1 / (1 + mpmath.exp(-x))


def softplus(x):
    return mpmath.log1p(mpmath.exp(x)) if x < 30 else x + mpmath.log1p(mpmath.exp(-x))


# Functions that are not plain formulas; the others are arithmetic.
FUNCTIONS = {
    "sqrt": inside(lambda x: x >= 0, mpmath.sqrt),
    "rsqrt": inside(lambda x: x > 0, lambda x: 1 / mpmath.sqrt(x)),
    "exp": mpmath.exp,
    "expm1": mpmath.expm1,
    "log": inside(lambda x: x > 0, mpmath.log),
    "log1p": inside(lambda x: x > -1, mpmath.log1p),
    "sin": mpmath.sin,
    "cos": mpmath.cos,
    "tan": mpmath.tan,
    "tanh": mpmath.tanh,
    "asin": inside(lambda x: abs(x) <= 1, mpmath.asin),
    "acos": inside(lambda x: abs(x) <= 1, mpmath.acos),
    "atan": mpmath.atan,
    "sinh": mpmath.sinh,
    "cosh": mpmath.cosh,
    "asinh": mpmath.asinh,
    "acosh": inside(lambda x: x >= 1, mpmath.acosh),
    "atanh": inside(lambda x: abs(x) < 1, mpmath.atanh),
    "exp2": lambda x: mpmath.power(2, x),
    "log2": inside(lambda x: x > 0, lambda x: mpmath.log(x, 2)),
    "log10": inside(lambda x: x > 0, mpmath.log10),
    "cbrt": lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)),
    "erf": mpmath.erf,
    "erfc": mpmath.erfc,
    "erf_inv": inside(lambda x: abs(x) < 1, mpmath.erfinv),
    "lgamma": lgamma,
    "digamma": digamma,
    "logistic": logistic,
    "softplus": softplus,
    "silu": lambda x: x * logistic(x),
    "mish": lambda x: x * mpmath.tanh(softplus(x)),
    "gelu": lambda x: x * mpmath.ncdf(x),
}


def by_meaning(floats):
    """A meaning over long doubles as a function of mpmath's numbers that hold a float."""

    def function(x):
        with np.errstate(all="ignore"):
            y = floats(np.array([float(x)], np.longdouble))[0]
        high = float(y)
        low = float(y - np.longdouble(high)) if np.isfinite(y) and np.isfinite(high) else 0
        return mpmath.mpf(high) + mpmath.mpf(low)

    return function


# Attributes are left out: the C++ has their defaults, which are not known here.
FUNCTIONS |= {
    op: by_meaning(own.floats)
    for op, own in expected.meanings()[0].items()
    if own.cpp and own.floats and not any(own.attributes)
}
POLES = {"lgamma", "digamma", "log", "log2", "log10", "rsqrt"}


def unit(v):
    """The unit of f32, with subnormal numbers."""
    return mpmath.ldexp(1, max(int(mpmath.frexp(v)[1]) - 1, -126) - 23)


def main():
    with open(sys.argv[1]) as samples:
        lines = [line.split() for line in samples]
    count, failures = 0, []
    for name, x, got in lines:
        x, got = float.fromhex(x), float.fromhex(got)
        if (
            name not in FUNCTIONS
            or x in (float("inf"), float("-inf"))
            or x != x
            or name in POLES
            and x <= 0
            and x == int(x)
        ):
            continue
        want = FUNCTIONS[name](mpmath.mpf(x))
        count += 1
        if mpmath.isnan(want) or mpmath.isinf(want):
            good = got != got or mpmath.isinf(want)
        elif abs(want) >= mpmath.ldexp(1, 128):
            good = abs(got) >= 2.0**128 and (got > 0) == (want > 0)
        else:
            good = abs(mpmath.mpf(got) - want) <= MOST * unit(want)
        if not good:
            failures.append(f"{name}({x!r}) = {got!r}, not {mpmath.nstr(want, 20)}")
    missing = set(FUNCTIONS) - {name for name, _, _ in lines}
    print("\n".join(failures[:20] + [f"no samples of {name}" for name in sorted(missing)]))
    print(f"{count} values, {len(failures)} wrong")
    return 1 if failures or missing else 0


sys.exit(main())
