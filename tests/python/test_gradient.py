"""`@op.gradient`: derivatives written by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tenon
from tenon import xp


@tenon.op("test.soft_clip")
def soft_clip(x: Any, y: Any, limit: float = 2.0) -> Any:
    return xp.tanh(x / limit) * y


@soft_clip.gradient
def soft_clip_gradient(g: Any, x: Any, y: Any, limit: Any) -> Any:
    t = xp.tanh(x / limit)
    return g * y * (1.0 - t * t) / limit, g * t


X = np.linspace(-2, 2, 6, dtype=np.float32).reshape(2, 3)


def test_a_right_derivative_passes() -> None:
    tenon.opcheck(soft_clip, X, X + 3, limit=1.5)
    a, b = soft_clip.gradients(xp.ones((2, 3)), X, X + 3)
    assert a is not None and b is not None and a.shape == (2, 3)
    np.testing.assert_allclose(np.asarray(b), np.tanh(X / 2), rtol=1e-6)


def test_it_is_traced_with_what_is_around_it() -> None:
    step = tenon.compile(lambda x, y: soft_clip.gradients(xp.ones((2, 3)), x, y)[0])
    at_once = soft_clip.gradients(xp.ones((2, 3)), X, X)[0]
    np.testing.assert_allclose(np.asarray(step(X, X)), np.asarray(at_once), rtol=1e-5, atol=1e-6)


def test_a_wrong_derivative_is_found() -> None:
    @tenon.op("test.cube")
    def cube(x: Any) -> Any:
        return x * x * x

    @cube.gradient
    def wrong(g: Any, x: Any) -> Any:
        return g * x * x * 2.0

    with pytest.raises(AssertionError, match="gradient of x at .* finite differences"):
        tenon.opcheck(cube, X)
    cube.gradient(lambda g, x: g * x * x * 3.0)
    tenon.opcheck(cube, X)


def test_a_derivative_by_complex_numbers() -> None:
    """A gradient is d/dre + i d/dim, so factors are conjugates."""

    @tenon.op("test.turned")
    def turned(z: Any, w: Any) -> Any:
        return z * w * xp.conj(z)

    z, w = np.array([1 + 2j, -0.5j]), np.array([0.3 + 1j, 2 - 1j])
    with pytest.raises(AssertionError, match="gradient of z at .* finite differences"):
        turned.gradient(lambda g, z, w: (g * w, None))
        tenon.opcheck(turned, z, w)
    turned.gradient(
        lambda g, z, w: (
            g * xp.conj(w) * z + xp.conj(g) * w * z,
            g * xp.conj(z * xp.conj(z)),
        )
    )
    tenon.opcheck(turned, z, w)


def test_several_results_and_arrays_without_derivative() -> None:
    @tenon.op("test.halves")
    def halves(x: Any, i: Any) -> Any:
        return xp.take(x, i, axis=0)

    @halves.gradient
    def gradient(g: Any, x: Any, i: Any) -> Any:
        rows = xp.astype(xp.expand_dims(i, axis=1) == xp.arange(x.shape[0]), x.dtype)
        return xp.matmul(rows.mT, g), None

    tenon.opcheck(halves, X, np.array([1, 0, 1]))


def test_what_does_not_fit_is_reported() -> None:
    @tenon.op("test.plain")
    def plain(x: Any, a: float) -> Any:
        return x * a

    with pytest.raises(tenon.UsageError, match="T0660.*no derivative"):
        plain.gradients(X, X, 2.0)
    for wrong in (lambda x, a: x, lambda g, a, x: g, lambda: None):
        with pytest.raises(tenon.UsageError, match="T0660"):
            plain.gradient(wrong)
    for result, message in (
        (lambda g, x, a: (g, g), "returned 2 arrays"),
        (lambda g, x, a: g[0], "the gradient of x is"),
        (lambda g, x, a: xp.astype(g, xp.float64), "the gradient of x is"),
        (lambda g, x, a: 1.0, "the gradient of x is"),
    ):
        plain.gradient(result)
        with pytest.raises(tenon.UsageError, match=message):
            plain.gradients(xp.ones((2, 3)), X, 2.0)


def test_grad_uses_the_rule_and_not_the_function() -> None:
    @tenon.op("test.straight_through")
    def straight_through(x: Any) -> Any:
        return xp.round(x)

    # The derivative of round is zero; the rule says that of the identity.
    @straight_through.gradient
    def identity(g: Any, x: Any) -> Any:
        return g

    from tenon import grad, vmap

    slope = grad(lambda x: xp.sum(straight_through(x) * x))
    np.testing.assert_allclose(np.asarray(slope(X)), np.round(X) + X, rtol=1e-6)
    rows = vmap(lambda x: straight_through(x))(X)
    np.testing.assert_allclose(np.asarray(rows), np.round(X))


def test_jvp_uses_the_rule_for_tangents() -> None:
    @tenon.op("test.scaled")
    def scaled(x: Any, y: Any, a: float = 2.0) -> Any:
        return x * y * a

    seen: list[int] = []

    @scaled.jvp
    def tangents(tx: Any, ty: Any, x: Any, y: Any, a: float) -> Any:
        seen.append(1)
        return (tx * y + x * ty) * a

    from tenon import grad, jvp

    value, tangent = jvp(lambda x: scaled(x, x, a=3.0), (X,), (np.ones_like(X),))
    np.testing.assert_allclose(np.asarray(tangent), 6 * X, rtol=1e-6)
    assert seen
    slope = grad(lambda x: xp.sum(scaled(x, X, a=3.0)))(X)  # its linear part, transposed
    np.testing.assert_allclose(np.asarray(slope), 3 * X, rtol=1e-6)
    with pytest.raises(tenon.UsageError, match="T0660"):
        scaled.jvp(lambda t, x: t)
