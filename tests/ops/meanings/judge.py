"""Decides whether a result is as close to the exact one as the op declares, in units in the last
place."""

import fractions

import numpy as np
from values import FORMATS, LD, exact

SLACK = LD(1 + 2**-9)  # for the error of the exact value itself


def elements(dtype, array):
    """The contents of a file for comparison: floats as long doubles."""
    return (
        exact(dtype, array.view("V2") if dtype == "bf16" else array) if dtype in FORMATS else array
    )


def bytes_of(array):
    return np.ascontiguousarray(array).view(np.uint8).reshape(len(array), -1)


def exponent(v, low, high):
    with np.errstate(all="ignore"):
        e = np.frexp(np.where(np.isfinite(v), v, 1))[1].astype(np.int64) - 1
    return np.clip(np.where(v == 0, low, np.where(np.isinf(v), high, e)), low, high)


def unit(v, dtype, lowest=None):
    """The unit in the last place of numbers like v."""
    digits, low, high = FORMATS[dtype]
    return np.ldexp(
        LD(1),
        (exponent(v, low if lowest is None else lowest, high) - (digits - 1)).astype(np.int32),
    )


def rounded(v, dtype):
    """Long doubles as the nearest numbers of a type, halves to even."""
    digits, low, high = FORMATS[dtype]
    step = (exponent(v, low, high) - (digits - 1)).astype(np.int32)
    with np.errstate(all="ignore"):
        out = np.ldexp(np.rint(np.ldexp(v, -step)), step)
    return np.where(abs(out) >= np.ldexp(LD(1), high + 1), np.copysign(LD(np.inf), v), out)


def same(got, want):
    """Equal, including the sign of zeros; any NaN equals any other."""
    return (got == want) & (np.signbit(got) == np.signbit(want)) | np.isnan(got) & np.isnan(want)


def units(want, dtype, operands, op):
    """One unit of the op's accuracy at each result, and the allowed error."""
    working, accuracy = "f64" if dtype == "f64" else "f32", op["accuracy"]
    scale = abs(want)
    if accuracy["of"] == "operands":
        for x in operands:
            scale = np.fmax(scale, np.where(np.isfinite(x), abs(x), 0))
    elif accuracy["of"] == "one":
        scale = np.fmax(scale, 1)
    one = unit(scale, working, FORMATS[working][1] + (8 if op["decomposition"] else 0))
    room = LD(accuracy[working]) * one * SLACK
    if working != dtype:  # rounded a second time
        half = LD(0.5) * unit(abs(want) + room, dtype)
        one, room = one + half, room + half
    return one, room


def wrong(got, want, dtype, unit_and_room):
    """True where a float result is wrong."""
    digits, _, high = FORMATS[dtype]
    room = unit_and_room[1]
    largest = np.ldexp(
        LD(2) - np.ldexp(LD(1), -digits), high
    )  # the largest value that rounds to a finite number
    with np.errstate(all="ignore"):
        near = abs(got - want) <= room
        signs = np.signbit(got) == np.signbit(want)
        over = np.isinf(got) & signs & (abs(want) + room >= largest)
    good = np.where(
        np.isnan(want),
        np.isnan(got),
        np.where(np.isinf(want), got == want, np.where(np.isinf(got), over, near)),
    )
    # Zeros have signs, and an exact 0 must be 0, except where larger numbers cancel.
    strict = room <= unit(want, dtype) * 64
    zero = (got == 0) | (want == 0)
    return ~good | strict & zero & ~np.isnan(want) & (~signs | (want == 0) & (got != 0))


def errors(got, want, unit_and_room):
    """The errors of results in units, where they are numbers."""
    with np.errstate(all="ignore"):
        e = abs(got - want) / unit_and_room[0]
    return np.where(np.isfinite(e), e, 0)


def rounded_once_or_twice(got, a, b, c, dtype):
    """fma: true where the result is neither x y + z rounded once, nor rounded twice."""
    working = "f64" if dtype == "f64" else "f32"
    kind = {"f32": np.float32, "f64": np.float64}[working]
    with np.errstate(all="ignore"):
        twice = rounded((a.astype(kind) * b.astype(kind) + c.astype(kind)).astype(LD), dtype)
    bad = ~same(got, twice)
    for i in np.flatnonzero(bad):
        x, y, z = a[i], b[i], c[i]
        if not (np.isfinite(x) and np.isfinite(y)):
            continue
        if not np.isfinite(z):
            bad[i] = got[i] != z  # only x y overflows
            continue
        value = fractions.Fraction(float(x)) * fractions.Fraction(float(y)) + fractions.Fraction(
            float(z)
        )
        bad[i] = got[i] != rounded(np.array([nearest(value, *FORMATS[working])], LD), dtype)[0]
    return bad


def nearest(value, digits, low, high):
    """The nearest number of a format to a fraction, halves to even."""
    if value == 0:
        return 0.0
    two = fractions.Fraction(2)
    e = max(abs(value.numerator).bit_length() - value.denominator.bit_length() - 1, low)
    while abs(value) >= two ** (e + 1):
        e += 1
    result = round(value / two ** (e - digits + 1)) * two ** (e - digits + 1)
    if abs(result) >= two ** (high + 1):
        return float("inf") if value > 0 else float("-inf")
    return float(result)
