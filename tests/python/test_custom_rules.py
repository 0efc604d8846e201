"""checkpoint, stop_gradient, custom_vjp and custom_jvp: derivatives that a function says itself."""

import numpy as np
import pytest
import tenon
from tenon import xp
from tenon.builder.trace import GraphTrace, tracing
from tenon.xp._array import Array

F64 = xp.float64


def f64(x):
    return xp.asarray(x, dtype=F64)


# ---- checkpoint ----


def block(w, x):
    return xp.tanh(w @ xp.sin(x)) * x


def loss(w, x, wrap=lambda f: f):
    for _ in range(3):
        x = wrap(block)(w, x)
    return xp.sum(x * x)


def weights():
    rng = np.random.default_rng(0)
    return f64(rng.normal(size=(4, 4))), f64(rng.normal(size=4))


@pytest.mark.parametrize("device, bound", [("reference", 0), ("cpu", 1e-12), ("sim", 1e-12)])
def test_checkpoint_changes_no_bit(device, bound):
    """On reference, which computes op by op. The cpu device fuses other nodes."""
    w, x = weights()

    def kept(w, x):
        return loss(w, x, tenon.checkpoint)

    def plain(w, x):
        return loss(w, x)

    def run(f):
        return tenon.compile(f, device=device)(w, x)

    for transform in (tenon.value_and_grad, lambda f: tenon.grad(f, argnums=(0, 1))):
        for a, b in zip(run(transform(kept)), run(transform(plain))):
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=bound)
    assert float(tenon.checkpoint(plain)(w, x)) == pytest.approx(float(plain(w, x)), rel=1e-12)


def test_checkpoint_under_other_transforms():
    w, x = weights()

    def kept(x):
        return loss(w, x, tenon.checkpoint)

    def plain(x):
        return loss(w, x)

    for transform in (tenon.hessian, lambda f: lambda x: tenon.jvp(f, (x,), (x,))[1]):
        np.testing.assert_allclose(
            np.asarray(transform(kept)(x)), np.asarray(transform(plain)(x)), rtol=1e-9, atol=1e-12
        )
    many = xp.stack([x, 2 * x, -x])
    np.testing.assert_allclose(
        np.asarray(tenon.vmap(tenon.grad(kept))(many)),
        np.asarray(tenon.vmap(tenon.grad(plain))(many)),
        rtol=1e-12,
    )


def test_a_checkpointed_body_is_computed_again():
    """cse does not merge it with the first time: a barrier keeps them apart."""
    w, x = weights()

    def text(f):
        with tracing(GraphTrace()) as trace:
            tenon.grad(f)(*[Array(trace.argument(F64, a.shape, "")) for a in (w, x)])
            return trace.native.text()

    kept = text(lambda w, x: loss(w, x, tenon.checkpoint))
    plain = text(lambda w, x: loss(w, x))
    assert plain.count("tanh(") == 3 and plain.count("barrier(") == 0
    assert kept.count("tanh(") == 6 and kept.count("barrier(") == 3


def test_checkpoint_in_a_scan():
    w, x = weights()

    def run(wrap):
        def f(w):
            return xp.sum(tenon.scan(lambda c, _: (wrap(block)(w, c), None), x, length=4)[0])

        return np.asarray(tenon.grad(f)(w))

    np.testing.assert_allclose(run(tenon.checkpoint), run(lambda f: f), rtol=1e-12)


# ---- stop_gradient ----


def test_stop_gradient():
    def f(x):
        return xp.sum(x * tenon.stop_gradient({"a": x * x})["a"])

    x = f64([1.0, 2.0])
    assert tenon.grad(f)(x).tolist() == [1.0, 4.0]
    assert tenon.jvp(f, (x,), (xp.ones_like(x),))[1].tolist() == 5.0
    assert tenon.vmap(tenon.grad(lambda x: x * tenon.stop_gradient(x)))(x).tolist() == [1.0, 2.0]
    assert tenon.stop_gradient((1.0, x))[1].tolist() == [1.0, 2.0]


# ---- Rules ----


@tenon.custom_vjp
def clipped(x):
    """x, with a gradient between -1 and 1."""
    return x


clipped.defvjp(lambda x: (x, None), lambda saved, g: (xp.clip(g, -1.0, 1.0),))


@tenon.custom_jvp
def log1pexp(x):
    return xp.log1p(xp.exp(x))


@log1pexp.defjvp
def log1pexp_rule(primals, tangents):
    (x,), (t,) = primals, tangents
    return log1pexp(x), t * (1 - 1 / (1 + xp.exp(x)))


def test_custom_vjp():
    assert clipped(xp.asarray(3.0)).tolist() == 3.0

    def scaled(x):
        return xp.sum(clipped(x) * xp.asarray([0.5, 3.0, -7.0]))

    assert tenon.grad(scaled)(xp.ones(3)).tolist() == [0.5, 1.0, -1.0]
    assert tenon.vmap(tenon.grad(lambda x: 3.0 * clipped(x)))(xp.ones(2)).tolist() == [1.0, 1.0]
    assert tenon.grad(lambda x: xp.sum(tenon.vmap(clipped)(x) * 3.0))(xp.ones(2)).tolist() == [1, 1]
    assert tenon.compile(tenon.grad(scaled))(xp.ones(3)).tolist() == [0.5, 1.0, -1.0]

    # In a scan each step clips.
    def chain(x):
        return tenon.scan(lambda c, _: (clipped(3.0 * c), None), x, length=3)[0]

    assert float(tenon.grad(chain)(xp.asarray(1.0))) == 3.0
    with pytest.raises(tenon.UnsupportedError, match="T0410: call .*forward mode needs one"):
        tenon.jvp(clipped, (xp.asarray(1.0),), (xp.asarray(1.0),))


def test_custom_jvp_serves_both_modes():
    for x in (-2.0, 0.5, 100.0, 800.0):  # exp overflows at the last one; the rule does not
        slope = 1 / (1 + np.exp(-x))
        primal = tenon.jvp(log1pexp, (f64(x),), (f64(2.0),))[1]
        assert float(primal) == pytest.approx(2 * slope, rel=1e-12)
        assert float(tenon.grad(log1pexp)(f64(x))) == pytest.approx(slope, rel=1e-12)
    x = 0.5
    s = 1 / (1 + np.exp(-x))
    second = s * (1 - s)
    assert float(tenon.grad(tenon.grad(log1pexp))(f64(x))) == pytest.approx(second, rel=1e-12)
    assert float(tenon.hessian(log1pexp)(f64(x))) == pytest.approx(second, rel=1e-12)
    many = f64([-2.0, 0.5, 800.0])
    np.testing.assert_allclose(
        np.asarray(tenon.vmap(tenon.grad(log1pexp))(many)), 1 / (1 + np.exp(-np.asarray(many)))
    )


def test_a_rule_that_uses_its_function_serves_three_orders():
    @tenon.custom_jvp
    def twice_exp(x):
        return 2 * xp.exp(x)

    @twice_exp.defjvp
    def rule(primals, tangents):
        y = twice_exp(primals[0])
        return y, tangents[0] * y

    f = twice_exp
    for _ in range(3):
        f = tenon.grad(f)
        assert float(f(f64(0.3))) == pytest.approx(2 * np.exp(0.3), rel=1e-12)
    with pytest.raises(tenon.UnsupportedError, match="T0410: call .*a derivative of this order"):
        tenon.grad(f)(f64(0.3))


def test_both_rules_on_one_function():
    @tenon.custom_vjp
    def f(x):
        return xp.sin(x)

    f.defvjp(lambda x: (xp.sin(x), x), lambda x, g: (10 * g * xp.cos(x),))
    f.defjvp(lambda primals, tangents: (xp.sin(primals[0]), 100 * tangents[0] * xp.cos(primals[0])))
    x = f64(0.3)
    assert float(tenon.grad(f)(x)) == pytest.approx(10 * np.cos(0.3))
    assert float(tenon.jvp(f, (x,), (f64(1.0),))[1]) == pytest.approx(100 * np.cos(0.3))
    many = f64([0.3, 0.4])
    wanted = np.cos([0.3, 0.4])
    np.testing.assert_allclose(np.asarray(tenon.vmap(tenon.grad(f))(many)), 10 * wanted)
    forward = tenon.vmap(lambda x: tenon.jvp(f, (x,), (f64(1.0),))[1])
    np.testing.assert_allclose(np.asarray(forward(many)), 100 * wanted)


@tenon.custom_vjp
def weighted(params, x, count):
    """Nested arguments, a result of two arrays, and an argument that has no derivative."""
    return {"y": params["w"] * x + params["b"], "n": count + 1}


weighted.defvjp(
    lambda params, x, count: (
        {"y": params["w"] * x + params["b"], "n": count + 1},
        (params["w"], x),
    ),
    lambda saved, g: ({"w": 2 * g["y"] * saved[1], "b": None}, g["y"] * saved[0], None),
)


def test_nested_arguments_and_shared_ones_under_vmap():
    params = {"w": f64(3.0), "b": f64(1.0)}
    x = f64([1.0, 2.0, 4.0])
    n = xp.asarray(1)

    def total(params, x):
        y = tenon.vmap(lambda x: weighted(params, x, n)["y"])(x)
        return xp.sum(y)

    gradient, of_x = tenon.grad(total, argnums=(0, 1))(params, x)
    assert gradient["w"].tolist() == 14.0  # 2 (1 + 2 + 4): the sum over samples
    assert gradient["b"].tolist() == 0.0
    assert of_x.tolist() == [3.0, 3.0, 3.0]
    per_sample = tenon.vmap(lambda x: tenon.grad(lambda p: weighted(p, x, n)["y"])(params)["w"])(x)
    assert per_sample.tolist() == [2.0, 4.0, 8.0]


def test_a_method_and_constants():
    class Layer:
        def __init__(self, scale):
            self.scale = scale

        def __call__(self, x):
            @tenon.custom_vjp
            def f(x):
                return self.scale * x

            f.defvjp(lambda x: (self.scale * x, None), lambda _, g: (7 * g,))
            return f(x)

    assert float(tenon.grad(Layer(2.0))(f64(1.0))) == 7.0


# ---- Wrong rules ----


def with_rules(forward=None, backward=None, tangents=None):
    @tenon.custom_vjp
    def f(x, y):
        return x * y

    if forward is not None:
        f.defvjp(forward, backward)
    if tangents is not None:
        f.defjvp(tangents)
    return f


def first(x, y):
    return x * y, (x, y)


@pytest.mark.parametrize(
    "rules, words",
    [
        ((), "f has no rule"),
        ((lambda x, y: x * y, lambda s, g: (g, g)), "forward returned Array, but must return two"),
        ((lambda x, y: ((x, y), None), lambda s, g: (g, g)), r"forward returns \(\*, \*\)"),
        ((lambda x, y: (xp.sum(x), None), lambda s, g: (g, g)), r"float64\(\) as result"),
        ((first, lambda s, g: g), "backward returned Array, .* a tuple of 2"),
        ((first, lambda s, g: (g,)), "backward returned 1, .* a tuple of 2"),
        ((first, lambda s, g: (g, xp.sum(g))), r"for argument 1, float64\(\), .* float64\(2,\)"),
        (
            (first, lambda s, g: (g, xp.astype(g, xp.float32))),
            r"for argument 1, float32\(2,\), .* float64\(2,\)",
        ),
        ((first, lambda s, g: ((g, g), g)), "the cotangent of argument 0 is a tuple"),
        ((None, None, lambda p, t: t[0]), "the rule of defjvp returned Array"),
        ((None, None, lambda p, t: (p[0], xp.sum(t[0]))), r"the tangent of result, float64\(\)"),
    ],
)
def test_a_rule_that_does_not_fit_is_named(rules, words):
    f = with_rules(*rules)
    x = f64([1.0, 2.0])
    with pytest.raises(tenon.UsageError, match="T0665: f.*" + words.removeprefix("f")):
        tenon.grad(lambda x, y: xp.sum(f(x, y)))(x, x)


def test_a_variable_from_around_is_refused():
    def outer(w):
        @tenon.custom_vjp
        def f(x):
            return w * x

        f.defvjp(lambda x: (w * x, None), lambda _, g: (g,))
        return f(w)

    with pytest.raises(tenon.UnsupportedError, match="T0410: call .*make this an argument"):
        tenon.grad(outer)(f64(2.0))


def test_a_checkpoint_needs_no_other_device():
    """A barrier is a step without code on cpu, at the top and inside of a loop."""
    w, x = weights()

    def loop(w):
        step = tenon.checkpoint(block)
        return xp.sum(tenon.scan(lambda c, _: (step(w, c), None), x, length=4)[0])

    for f in (loop, lambda w: loss(w, x, tenon.checkpoint)):
        alone = tenon.compile(tenon.grad(f), device="cpu", fallback=False)
        np.testing.assert_allclose(np.asarray(alone(w)), np.asarray(tenon.grad(f)(w)), rtol=1e-12)
