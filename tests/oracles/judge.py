"""Whether a result is right, by an outside result and by the same call in double precision.

Integers and booleans must be the outside ones. A float may be, at each element, as far from double
precision as the sum of

- one unit in the last place of its type: the result is rounded to the type once, and a step of one
  unit is what a correctly computed value next to a rounding boundary may differ by;
- FACTOR times the error of the outside result: its own algorithm loses that much;
- CONDITION roundings of the result, in the type that is computed in: a long sum of positive numbers
  has as many, though its value hardly depends on one input;
- CONDITION times what double precision itself changes by when each input changes by one rounding of
  the type that is computed in (float32 for float16, bfloat16 and float32): an error of some roundings of
  the inputs is what any order of summation may have. A result that rounds in the narrow type between
  its steps is 2^13 (float16) or 2^16 (bfloat16) such roundings off, and fails.
- for operators that add elements up, MIXED roundings of the largest result: what is left where large
  numbers cancel. Doubles have no better judge than another order of summation: MIXED_DOUBLE.

Infinities and NaN must be those of the outside result, or those of double precision rounded to the type.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

FACTOR = 2.0
CONDITION = 64.0
MIXED, MIXED_DOUBLE = 8.0, 1024.0
MOVES = 6
"""Changes of the inputs that are tried, so that no element happens to be unmoved by all."""

# Type -> (unit roundoff, largest finite number, spacing of the smallest numbers).
FORMATS = {
    "float16": (2.0**-11, 65504.0, 2.0**-24),
    "bfloat16": (2.0**-8, (2 - 2.0**-7) * 2.0**127, 2.0**-133),
    "float32": (2.0**-24, (2 - 2.0**-23) * 2.0**127, 2.0**-149),
    "float64": (
        2.0**-53,
        np.finfo(np.float64).max,
        2.0**-960,
    ),  # exp(-x) is 0 where exp(x) overflows
}

Exact = Callable[[int], "np.ndarray | None"]
"""The result in double precision: of the inputs for 0, of inputs changed by a rounding for 1, 2, ..."""


def problem(
    ours: np.ndarray, theirs: np.ndarray, name: str, exact: Exact, mixes: bool = False
) -> str:
    """What is wrong with a result, or nothing. Floats come as float64, with the name of their type.

    `mixes` says that the operator adds elements up."""
    if ours.shape != theirs.shape:
        return f"shape {ours.shape} instead of {theirs.shape}"
    if name not in FORMATS:
        return _discrete(ours, theirs, exact)
    if np.array_equal(ours, theirs, equal_nan=True):
        return ""
    return _float(ours, theirs, name, exact, mixes)


def _discrete(ours: np.ndarray, theirs: np.ndarray, exact: Exact) -> str:
    """Of floats, a decision may also be that of double precision, or of inputs next to them."""
    bad = ours != theirs
    for move in range(MOVES + 1):
        if not bad.any():
            return ""
        other = exact(move)
        if other is None:
            break
        if other.shape == ours.shape:
            bad &= ours != other
    return _at(bad, ours, theirs) if bad.any() else ""


def _float(ours: np.ndarray, theirs: np.ndarray, name: str, exact: Exact, mixes: bool) -> str:
    unit, largest, tiny = FORMATS[name]
    judge = exact(0)
    if judge is None or judge.shape != ours.shape:
        judge = theirs
    with np.errstate(all="ignore"):
        error = np.where(np.isfinite(theirs) & np.isfinite(judge), np.abs(theirs - judge), 0.0)
        computed = min(unit, 2.0**-24)
        allowed = (2 * unit + CONDITION * computed) * np.abs(judge) + tiny + FACTOR * error
        if mixes:
            roundings = MIXED_DOUBLE if name == "float64" else MIXED
            allowed = allowed + roundings * computed * np.max(
                np.abs(judge), initial=0.0, where=np.isfinite(judge)
            )
        near_end = np.abs(judge) >= largest * (1 - 4 * unit)
        bad = _unequal(ours, theirs) & ~(np.abs(ours - judge) <= allowed)
        bad &= ~(
            _rounded_end(judge, near_end)
            & (np.isnan(ours) == np.isnan(judge))
            & _same_end(ours, judge, largest)
        )
        moved = np.zeros(judge.shape)
        for move in range(1, MOVES + 1):
            if not bad.any():
                return ""
            other = exact(move)
            if other is None or other.shape != judge.shape:
                break
            # Where a change of one rounding decides whether there is a number, anything may be.
            apart = np.where(
                np.isfinite(other) == np.isfinite(judge), np.abs(other - judge), np.inf
            )
            moved = np.fmax(moved, np.where(np.isnan(apart), 0.0, apart))
            bad &= ~(np.abs(ours - judge) <= allowed + CONDITION * moved) & ~np.isinf(moved)
    return _at(bad, ours, theirs, judge) if bad.any() else ""


def _unequal(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return ~((a == b) | (np.isnan(a) & np.isnan(b)))


def _rounded_end(judge: np.ndarray, near_end: np.ndarray) -> np.ndarray:
    """Where double precision has no finite number of the type."""
    return ~np.isfinite(judge) | near_end


def _same_end(ours: np.ndarray, judge: np.ndarray, largest: float) -> np.ndarray:
    return np.isnan(judge) | (
        (np.sign(ours) == np.sign(judge)) & (np.abs(ours) >= largest * (1 - 2.0**-6))
    )


def _at(
    bad: np.ndarray, ours: np.ndarray, theirs: np.ndarray, judge: np.ndarray | None = None
) -> str:
    at = np.unravel_index(int(np.argmax(bad)), bad.shape) if bad.shape else ()
    where = ",".join(str(int(i)) for i in at)
    exact = "" if judge is None else f", in double precision {judge[at]:.9g}"
    of = f"{int(bad.sum())} of {bad.size}"
    return f"[{where}] is {ours[at]} for {theirs[at]}{exact} ({of})"
