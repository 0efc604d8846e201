"""Tangents with sizes that are symbols: rules that count elements, or make shapes."""

from __future__ import annotations

import numpy as np
import pytest
import tenon
import test_rules  # noqa: F401 (which has most of the cases)
from tenon import jvp
from test_composites import CASES, arrays, like, moved, parts, split

SYMBOLS = (
    "mean", "var", "std", "var of all", "norm 3", "norm inf", "logsumexp", "l2_normalize", "softmax",
    "reduce_max", "reduce_prod", "layer_norm bare", "rms_norm of a vector", "global_avg_pool",
    "cumprod reverse", "cummax", "det", "lu tall", "qr tall", "svd tall", "eigh square",
)  # fmt: skip


@pytest.mark.parametrize("name", SYMBOLS)
def test_tangents(name):
    """Against differences."""
    split(name)  # seeds what is drawn
    function, given = CASES[name]
    given = [a for a in given if a is not None]
    tangents = [like(a) for a in given]

    def along(x, t, *more):
        half = len(more) // 2
        return jvp(function, (x, *more[:half]), (t, *more[half:]))[1]

    sizes = tuple(f"n{i}" for i in range(given[0].ndim))
    call = tenon.compile(along, dims={"x": sizes, "t": sizes})
    got = parts(call(*arrays([given[0], tangents[0], *given[1:], *tangents[1:]])))
    assert not any(kind.by_size for kind in call._kinds.values())
    plain = tenon.compile(function)
    up, down = (parts(plain(*moved(given, tangents, h))) for h in (1e-5, -1e-5))
    for y, a, b in zip(got, up, down):
        np.testing.assert_allclose(y, (a - b) / 2e-5, rtol=1e-6, atol=1e-7)
