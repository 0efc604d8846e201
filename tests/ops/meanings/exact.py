"""Functions that NumPy lacks, as long doubles: from mpmath or, for many 16-bit arguments, from
C."""

import math

import mpmath
import numpy as np

LD = np.longdouble
MANY = 20000  # with 16-bit arguments, double is more than exact
mpmath.mp.prec = 200


def long_double(x):
    """The nearest long double of an mpmath number."""
    if mpmath.isnan(x) or mpmath.isinf(x) or x == 0:
        return LD(float(x))
    mantissa, exponent = mpmath.frexp(x)
    high = float(mantissa)
    return np.ldexp(LD(high) + LD(float(mantissa - high)), exponent)


def each(x, precise, fast):
    """Applies precise (mpmath to mpmath) or, for many elements, fast (double to double)."""
    if len(x) > MANY and fast:
        return np.array([fast(v) for v in x.astype(float).tolist()], LD)
    return np.array([long_double(precise(to_mp(v))) for v in x], LD)


def to_mp(v):
    mantissa, exponent = np.frexp(v)
    high = float(mantissa)
    return mpmath.ldexp(mpmath.mpf(high) + mpmath.mpf(float(mantissa - LD(high))), int(exponent))


def piecewise(x, answers, otherwise):
    """answers: (condition, value) in order; otherwise(x) where no condition holds."""
    out, open_ = np.full(x.shape, np.nan, LD), ~np.isnan(x)
    for condition, value in answers:
        here = open_ & condition
        out[here] = value[here] if isinstance(value, np.ndarray) else value
        open_ &= ~condition
    out[open_] = otherwise(x[open_])
    return out


def erf(x):
    return piecewise(
        x, [(x == 0, x), (abs(x) > 30, np.sign(x))], lambda v: each(v, mpmath.erf, math.erf)
    )


def erfc(x):
    return piecewise(
        x, [(x > 120, LD(0)), (x < -30, LD(2))], lambda v: each(v, mpmath.erfc, math.erfc)
    )


def erf_inv_double(x):
    """By Newton's method, from the side of the tail."""
    a = abs(x)
    y = 0.0
    for _ in range(60):
        miss = math.erf(y) - a if a < 0.5 else (1 - a) - math.erfc(y)
        step = miss * math.exp(y * y) * 0.88622692545275801365
        y -= step / (1 + y * step)
        if abs(step) < 1e-17 * y:
            break
    return math.copysign(y, x)


def erf_inv(x):
    inf = np.copysign(LD(np.inf), x)
    return piecewise(
        x,
        [(abs(x) > 1, LD(np.nan)), (abs(x) == 1, inf), (x == 0, x)],
        lambda v: each(v, mpmath.erfinv, erf_inv_double),
    )


def lgamma_mp(v):
    return (
        mpmath.loggamma(v)
        if v > 0
        else mpmath.log(mpmath.pi / abs(mpmath.sinpi(v))) - mpmath.loggamma(1 - v)
    )


def lgamma(x):
    pole = (x <= 0) & (np.floor(x) == x) | np.isinf(x)
    return piecewise(x, [(pole, LD(np.inf))], lambda v: each(v, lgamma_mp, math.lgamma))


def digamma_mp(v):
    return (
        mpmath.digamma(v)
        if v > 0
        else mpmath.digamma(1 - v) - mpmath.pi * mpmath.cospi(v) / mpmath.sinpi(v)
    )


def digamma_series(x):
    """For many arguments: by reflection, recurrence and the asymptotic series, in long double."""
    reflected = x < 0.5
    turn = LD(np.pi) * (x - np.rint(x))
    y = np.where(reflected, 1 - x, x)
    sum_ = np.zeros_like(y)
    for _ in range(20):
        small = y < 20
        sum_ = np.where(small, sum_ - 1 / y, sum_)
        y = np.where(small, y + 1, y)
    w, series = 1 / (y * y), 0
    for number in (
        -1 / LD(12),
        691 / LD(32760),
        -1 / LD(132),
        1 / LD(240),
        -1 / LD(252),
        1 / LD(120),
        -1 / LD(12),
    ):
        series = (number + series) * w
    return (
        sum_
        + np.log(y)
        - 1 / (2 * y)
        + series
        - np.where(reflected, LD(np.pi) / np.tan(np.where(reflected, turn, 1)), 0)
    )


def digamma(x):
    """As in SciPy: a signed infinity at the zeros, NaN at the other poles."""
    inner = digamma_series if len(x) > MANY else lambda v: each(v, digamma_mp, None)
    return piecewise(
        x,
        [
            (x == 0, -np.copysign(LD(np.inf), x)),
            (x == np.inf, LD(np.inf)),
            ((x < 0) & (np.floor(x) == x), LD(np.nan)),
        ],
        inner,
    )
