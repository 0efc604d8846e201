"""Transforms of functions of complex numbers: what is returned, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import tenon
from tenon import xp

RANDOM = np.random.default_rng(9)


def numbers(*shape):
    z = RANDOM.standard_normal(shape) + 1j * RANDOM.standard_normal(shape)
    return xp.asarray(np.array(z))


def inner(a, b):
    return float(xp.sum(xp.real(xp.conj(a) * b)))


Z = xp.asarray(np.array([1 + 2j, -0.5 + 0.25j, 3 - 1j]))


def test_the_gradient_is_the_direction_in_which_the_value_grows():
    for dtype in (xp.complex128, xp.complex64):
        z = xp.astype(Z, dtype)
        gradient = tenon.grad(lambda z: xp.sum(xp.real(z) ** 2 + 3 * xp.imag(z)))(z)
        assert gradient.dtype is dtype
        np.testing.assert_allclose(np.asarray(gradient), 2 * np.asarray(z).real + 3j)
    gradient = tenon.grad(lambda z: xp.sum(xp.abs(z) ** 2))(Z)
    np.testing.assert_allclose(np.asarray(gradient), 2 * np.asarray(Z))


def test_a_step_against_the_gradient_finds_a_solution():
    a, b = numbers(3, 3), numbers(3)

    def loss(z):
        return xp.sum(xp.abs(a @ z - b) ** 2)

    step = tenon.compile(lambda z: z - 0.02 * tenon.grad(loss)(z))
    z = xp.zeros((3,), dtype=xp.complex128)
    first = float(loss(z))
    for _ in range(300):
        z = step(z)
    assert float(loss(z)) < 0.5 * first


def test_arguments_of_several_types():
    def loss(params, x):
        return xp.sum(xp.abs(params["w"] * x + params["b"]))

    params = {"w": Z, "b": xp.asarray(np.array([1.0, 2.0, 3.0]))}
    gradient = tenon.grad(loss)(params, xp.asarray(np.array([1.0, -1.0, 2.0])))
    assert [gradient[k].dtype for k in ("w", "b")] == [xp.complex128, xp.float64]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: tenon.grad(lambda z: xp.sum(z * z))(Z), "complex128.*real part or the magnitude"),
        (lambda: tenon.jacfwd(xp.sin)(Z), "argument 0 is complex128.*holomorphic=True"),
        (lambda: tenon.jacrev(xp.sin)(Z), "argument 0 is complex128.*holomorphic=True"),
        (lambda: tenon.hessian(lambda z: xp.sum(xp.abs(z)))(Z), "argument 0 is complex128"),
        (lambda: tenon.jacfwd(xp.abs, holomorphic=True)(Z), "a result is float64"),
        (lambda: tenon.jacrev(xp.abs, holomorphic=True)(Z), "a result is float64"),
        (lambda: tenon.jacfwd(xp.sin, holomorphic=True)(xp.real(Z)), "argument 0 is float64"),
        (lambda: tenon.jvp(xp.sin, (Z,), (xp.real(Z),)), "a tangent is float64"),
        (lambda: tenon.grad(xp.sum)(xp.asarray([1])), "floats and complex"),
    ],
)
def test_refusals(call, words):
    with pytest.raises(tenon.Error, match=words) as raised:
        call()
    assert raised.value.code == "T0663"


def test_jacobians():
    matrix = numbers(2, 3)

    def f(z):
        return xp.exp(matrix @ z)  # holomorphic

    def g(x):
        return xp.conj(matrix @ x) * xp.abs(matrix @ x)

    wanted = np.exp(np.asarray(matrix) @ np.asarray(Z))[:, None] * np.asarray(matrix)
    for mode in (tenon.jacfwd, tenon.jacrev):
        np.testing.assert_allclose(np.asarray(mode(f, holomorphic=True)(Z)), wanted, rtol=1e-12)
    # Of real numbers, any function.
    x = xp.asarray(np.array([0.5, -1.0, 2.0]))
    forward, reverse = (np.asarray(mode(g)(x)) for mode in (tenon.jacfwd, tenon.jacrev))
    np.testing.assert_allclose(forward, reverse, rtol=1e-12)
    # Real results: a gradient for each.
    rows, z = np.asarray(tenon.jacrev(xp.abs)(Z)), np.asarray(Z)
    np.testing.assert_allclose(rows, np.diag(z / abs(z)), rtol=1e-12)


def test_linear_maps():
    a, v, u = numbers(2, 3), numbers(3), numbers(2)
    value, along = tenon.linearize(lambda z: a @ (z * z), Z)
    np.testing.assert_allclose(np.asarray(along(v)), np.asarray(a @ (2 * Z * v)))
    np.testing.assert_allclose(np.asarray(value), np.asarray(a @ (Z * Z)))
    (adjoint,) = tenon.linear_transpose(lambda z: a @ z, v)(u)
    np.testing.assert_allclose(np.asarray(adjoint), np.asarray(a).conj().T @ np.asarray(u))


# ---- Control flow, rules of one's own ----


def spiral(z, w):
    """A loop whose end depends on values, with a weight from around."""
    return tenon.while_loop(lambda c: xp.sum(xp.abs(c)) > 0.5, lambda c: c * w * xp.conj(c) / 9, z)


def running(z, w):
    total, parts = tenon.scan(lambda c, x: (c * w + x, xp.conj(c) * x), z[0], z)
    return total * xp.sum(parts)


def branches(z, w):
    return tenon.cond(xp.real(z[0]) > 0, lambda z: xp.exp(z * w), lambda z: xp.conj(z), z)


def remembered(z, w):
    return tenon.checkpoint(lambda z: xp.tanh(z * w) * xp.abs(z))(z)


@tenon.custom_vjp
def product(z, w):
    return z * w


product.defvjp(
    lambda z, w: (z * w, (z, w)),
    lambda saved, g: (g * xp.conj(saved[1]), xp.sum(g * xp.conj(saved[0]))),
)


@tenon.custom_jvp
def modulus(z, w):
    return xp.abs(z) * w


@modulus.defjvp
def of_modulus(primals, tangents):
    (z, w), (t, s) = primals, tangents
    size = xp.abs(z)
    return size * w, xp.real(xp.conj(z) * t) / size * w + size * s


FUNCTIONS = [spiral, running, branches, remembered, product, modulus]
W = xp.asarray(np.array(0.9 + 0.3j))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_cotangents_are_adjoints(function):
    y, pull = tenon.vjp(function, Z, W)
    u = numbers(*y.shape)
    dz, dw = pull(u)
    if function is product:  # it has no rule for tangents
        plain = tenon.vjp(lambda z, w: z * w, Z, W)[1](u)
        for got, wanted in zip((dz, dw), plain):
            np.testing.assert_allclose(np.asarray(got), np.asarray(wanted), rtol=1e-12)
        return
    t, s = numbers(3), numbers()
    along = tenon.jvp(function, (Z, W), (t, s))[1]
    assert inner(u, along) == pytest.approx(inner(dz, t) + inner(dw, s), rel=1e-12)
    h = 1e-6
    up, down = (np.asarray(function(Z + k * t, W + k * s)) for k in (h, -h))
    np.testing.assert_allclose(np.asarray(along), (up - down) / (2 * h), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_samples_of_gradients(function):
    slope = tenon.grad(lambda z, w: xp.sum(xp.abs(function(z, w))))
    many = xp.stack([Z, Z * 2, xp.conj(Z)])
    each = [np.asarray(slope(many[i], W)) for i in range(3)]
    got = np.asarray(tenon.vmap(slope, in_axes=(0, None))(many, W))
    np.testing.assert_allclose(got, np.stack(each), rtol=1e-12)
