"""Derivatives of operators against finite differences."""

from __future__ import annotations

import numpy as np

from tenon import xp
from tenon._op import Op

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ELEMENTS_MAX = 32
STEP = 1e-6  # near the cube root of float64's precision, where the two errors of a difference meet


def check_gradient(op: Op, arrays: list[Any], attrs: dict[str, Any]) -> None:
    """AssertionError if the derivative is not that of the function.

    Both run in float64: the sum of the results, with random weights, is differentiated. Integers
    have no derivative.
    """
    wide = [a.astype(np.float64) if a.dtype.kind == "f" else a for a in arrays]
    random = np.random.default_rng(0)
    weights = [random.standard_normal(r.shape) for r in _results(op, wide, attrs)]
    given = tuple(xp.asarray(w) for w in weights)
    found = op.gradients(given, *(xp.asarray(a) for a in wide), **attrs)
    for i, gradient in enumerate(found):
        if gradient is None:
            continue
        if wide[i].dtype.kind != "f":
            raise AssertionError(f"{op.name}: {op.operands[i]} has no floating-point type, and a gradient")
        _compare(op, i, np.asarray(gradient), wide, attrs, weights, random)


def _results(op: Op, arrays: list[Any], attrs: dict[str, Any]) -> list[Any]:
    made = op.function(*(xp.asarray(a) for a in arrays), **attrs)
    return [np.asarray(r) for r in (made if isinstance(made, (tuple, list)) else (made,))]


def _compare(
    op: Op, i: int, gradient: Any, arrays: list[Any], attrs: dict[str, Any], weights: list[Any], random: Any
) -> None:
    flat = arrays[i].reshape(-1)
    places = random.permutation(flat.size)[:ELEMENTS_MAX]

    def total(at: int, by: float) -> float:
        moved = flat.copy()
        moved[at] += by
        changed = [*arrays[:i], moved.reshape(arrays[i].shape), *arrays[i + 1 :]]
        return float(sum((r * w).sum() for r, w in zip(_results(op, changed, attrs), weights)))

    for at in places:
        step = STEP * max(1.0, abs(float(flat[at])))
        expected = (total(at, step) - total(at, -step)) / (2 * step)
        got = float(gradient.reshape(-1)[at])
        scale = max(1.0, abs(expected))
        assert abs(got - expected) <= 1e-4 * scale, (
            f"{op.name}: the gradient of {op.operands[i]} at {np.unravel_index(at, arrays[i].shape)} "
            f"is {got:.8g}, and finite differences give {expected:.8g}"
        )
