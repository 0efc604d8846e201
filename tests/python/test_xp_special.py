"""The special cases of the array API standard for real types: every pair of odd values, in one call.

NumPy is the reference: its `floor_divide` of infinities is Python's, as the standard allows. The standard
leaves the sign of a zero open in EITHER_ZERO.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tenon import xp
from xp_cases import FLOATS, SPECIAL

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
UNARY = (
    "abs acos acosh asin asinh atan atanh ceil conj cos cosh exp expm1 floor isfinite isinf isnan log log1p log2 log10 "
    "negative positive real reciprocal round sign signbit sin sinh sqrt square tan tanh trunc"
).split()
BINARY = (
    "add atan2 copysign divide equal floor_divide greater greater_equal hypot less less_equal logaddexp maximum minimum "
    "multiply nextafter not_equal pow remainder subtract"
).split()
EITHER_ZERO = ("maximum", "minimum", "sign", "clip")


def values(dtype: str) -> Any:
    """SPECIAL, the ends of the type, and what functions have cases for: halves, odd numbers, large even ones."""
    info = np.finfo(dtype)
    ends = [
        info.max,
        info.min,
        info.tiny,
        -info.tiny,
        info.smallest_subnormal,
        -info.smallest_subnormal,
    ]
    more = [
        2.0,
        -2.0,
        -3.0,
        -0.5,
        1.5,
        2.5,
        1.0 + info.eps,
        1.0 - info.epsneg,
        1.0 / info.eps,
        3.0 / info.eps,
    ]
    return np.array([*SPECIAL, *ends, *more], dtype)


def same(name: str, got: Any, expected: Any, operands: list[Any]) -> None:
    assert got.dtype == expected.dtype and got.shape == expected.shape
    if expected.dtype.kind != "f":
        wrong = got != expected
    else:
        limit = 16 * np.finfo(expected.dtype).eps
        close = (
            np.abs(got - expected)
            <= limit * np.abs(expected) + np.finfo(expected.dtype).smallest_subnormal
        )
        exact = ~np.isfinite(expected) | (expected == 0)
        equal = (got == expected) | (np.isnan(got) & np.isnan(expected))
        if name not in EITHER_ZERO:
            equal &= (expected != 0) | (np.signbit(got) == np.signbit(expected))
        wrong = ~np.where(exact, equal, close)
    cases = [
        f"{name}({', '.join(repr(float(x[i])) for x in operands)}) is {got[i]}, not {expected[i]}"
        for i in np.flatnonzero(wrong)
    ]
    assert not cases, "\n".join(cases)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str, dtype: str) -> None:
    x = values(dtype)
    same(name, np.asarray(getattr(xp, name)(xp.asarray(x))), getattr(np, name)(x), [x])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", BINARY)
def test_binary(name: str, dtype: str) -> None:
    x, y = (a.ravel() for a in np.meshgrid(values(dtype), values(dtype)))
    expected = getattr(np, name)(x, y)
    got = np.asarray(getattr(xp, name)(xp.asarray(x), xp.asarray(y)))
    same(name, got, expected, [x, y])


@pytest.mark.parametrize("dtype", FLOATS)
def test_clip(dtype: str) -> None:
    x, y = (a.ravel() for a in np.meshgrid(values(dtype), values(dtype)))
    for low, high in ((y, None), (None, y), (y, y)):
        mine = xp.clip(xp.asarray(x), *(None if b is None else xp.asarray(b) for b in (low, high)))
        same("clip", np.asarray(mine), np.clip(x, low, high), [x, y])
