"""Derivatives and samples of ops of other plugins: opaque ones in C, one in C++, one in Python.

TENON_PLUGIN_ADD names the folder of the first two (CMakeLists.txt).
"""

from __future__ import annotations

import numpy as np
import pytest
import tenon
from tenon import grad, hessian, jvp, vjp, vmap, xp
from tenon.builder import ops
from tenon.builder.trace import emit
from tenon.xp._array import Array, value_of

X = np.random.default_rng(3).standard_normal((3, 5))


@tenon.op("test.row_scale")
def row_scale(x, y, a: float = 2.0):
    return xp.tanh(x) * xp.expand_dims(y, axis=1) * a


@row_scale.gradient
def _(g, x, y, a):
    t = xp.tanh(x)
    return g * (1.0 - t * t) * xp.expand_dims(y, axis=1) * a, xp.sum(g * t, axis=1) * a


def call(name, x, **attrs):
    return Array(emit(name, [value_of(xp.asarray(x))], ops.attrs(**attrs))[0])


def energy(x):
    return call("row_energy", xp.sin(x))


def mean(x):
    return call("moving_average", xp.sin(x), dim=1, window=2)


def scaled(x):
    return row_scale(x, xp.sum(x * x, axis=1), a=3.0)


def scaled_by_hand(x):
    return np.tanh(x) * np.sum(x * x, axis=1)[:, None] * 3


FUNCTIONS = {
    "C": (energy, lambda x: np.sum(np.sin(x) ** 2, axis=1) / 2),
    "C++": (mean, lambda x: (np.sin(x[:, 1:]) + np.sin(x[:, :-1])) / 2),
    "Python": (scaled, scaled_by_hand),
}


def close(got, wanted, rtol=1e-12, atol=1e-13):
    np.testing.assert_allclose(np.asarray(got), wanted, rtol=rtol, atol=atol)


def difference(f, x, t):
    return (f(x + 1e-5 * t) - f(x - 1e-5 * t)) / 2e-5


@pytest.mark.parametrize("language", FUNCTIONS)
def test_both_modes(language):
    function, by_hand = FUNCTIONS[language]
    t = np.random.default_rng(4).standard_normal(X.shape)
    y, along = jvp(function, (xp.asarray(X),), (xp.asarray(t),))
    close(y, by_hand(X))
    close(along, difference(by_hand, X, t), rtol=1e-7, atol=1e-8)
    g = np.random.default_rng(5).standard_normal(y.shape)
    (pulled,) = vjp(function, xp.asarray(X))[1](xp.asarray(g))
    assert abs(np.sum(np.asarray(pulled) * t) - np.sum(g * np.asarray(along))) < 1e-12


@pytest.mark.parametrize("language", FUNCTIONS)
def test_gradients_of_samples(language):
    function, _ = FUNCTIONS[language]

    def loss(x, w):
        return xp.sum(function(x * w) * 0.5)

    slope = grad(loss, argnums=(0, 1))
    many, w = np.stack([X, 2 * X, X - 1]), np.float64(0.7)
    for run in (vmap(slope, in_axes=(0, None)), tenon.compile(vmap(slope, in_axes=(0, None)))):
        got = run(xp.asarray(many), xp.asarray(w))
        for k, x in enumerate(many):
            for g, wanted in zip(got, slope(xp.asarray(x), xp.asarray(w))):
                close(np.asarray(g)[k], np.asarray(wanted))


def test_an_opaque_op_to_the_second_order():
    """Half a sum of squares: its second derivatives are 1 on the diagonal."""

    def total(x):
        return xp.sum(call("row_energy", xp.reshape(x, (2, 2))))

    close(hessian(total)(xp.asarray(np.array([1.0, -2.0, 3.0, 0.5]))), np.eye(4))


def test_an_op_without_a_rule_is_refused_with_its_plugin_and_line():
    def wrong(x):
        (middle,) = emit("row_median", [value_of(x)], ())
        return xp.sum(Array(middle))

    x = xp.asarray(X)
    line = wrong.__code__.co_firstlineno + 1
    wanted = (
        rf"T0410: row_median at .*test_plugins.py:{line} .*in the plugin row_energy, has no rule"
    )
    for run in (grad(wrong), lambda x: jvp(wrong, (x,), (x,)), tenon.compile(grad(wrong))):
        with pytest.raises(tenon.Error, match=wanted):
            run(x)
    close(vmap(lambda x: call("row_median", x))(xp.stack([x, x]))[0, ...], np.median(X, axis=1))
