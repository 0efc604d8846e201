"""Branches and loops on values: cond, switch, scan, while_loop, fori_loop, map; their derivatives
and samples. Against NumPy, differences in float64, and closed forms."""

import numpy as np
import pytest
import tenon
from tenon import xp

F64 = xp.float64


def f64(x):
    return xp.asarray(x, dtype=F64)


def slope(f, x, h=1e-6):
    """The derivative of a function of one number, by a central difference."""
    return (float(f(f64(x + h))) - float(f(f64(x - h)))) / (2 * h)


# ---- Values ----


def test_cond_computes_one_branch():
    for p, wanted in ((True, 2.0), (False, -4.0)):
        assert float(tenon.cond(p, xp.sqrt, lambda x: -x, xp.asarray(4.0))) == wanted

    # The square root of the other branch would be NaN, and its derivative infinite.
    def safe(x):
        return tenon.cond(x > 0, xp.sqrt, lambda x: 0 * x, x)

    assert float(safe(f64(-4.0))) == 0
    assert float(tenon.grad(safe)(f64(0.0))) == 0


def test_numbers_take_the_type_of_the_other_branch():
    out = tenon.cond(True, lambda x: 0, lambda x: x, xp.asarray([1.0])[0])
    assert (out.dtype, float(out)) == (xp.float32, 0.0)


@pytest.mark.parametrize("index, wanted", [(-3, 1.0), (0, 1.0), (1, 2.0), (2, 3.0), (7, 3.0)])
@pytest.mark.parametrize("dtype", [xp.int32, xp.int64, xp.int8, xp.uint8])
def test_switch_clamps_its_index(index, wanted, dtype):
    if index < 0 and dtype is xp.uint8:
        pytest.skip("it has no negative numbers")
    functions = [lambda x, k=k: k * x for k in (1.0, 2.0, 3.0)]
    assert float(tenon.switch(xp.asarray(index, dtype=dtype), functions, xp.asarray(1.0))) == wanted


def test_scan_is_a_loop():
    x = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)

    def step(carry, row):
        total, count = carry
        return (total + row, count + 1), {"sum": total + row, "first": row[0]}

    (total, count), ys = tenon.scan(step, (xp.zeros(3), 0), xp.asarray(x))
    np.testing.assert_allclose(np.asarray(total), x.sum(0), rtol=1e-6)
    assert int(count) == 5 and list(ys) == ["sum", "first"]
    np.testing.assert_allclose(np.asarray(ys["sum"]), x.cumsum(0), rtol=1e-6)
    np.testing.assert_array_equal(np.asarray(ys["first"]), x[:, 0])
    _, back = tenon.scan(lambda c, r: (c + r, c), xp.zeros(3), xp.asarray(x), reverse=True)
    np.testing.assert_allclose(np.asarray(back), x[::-1].cumsum(0)[::-1] - x, rtol=1e-5, atol=1e-6)


def test_scan_without_slices():
    powers = tenon.scan(lambda c, _: (2 * c, c), 1, length=6)[1]
    assert powers.tolist() == [1, 2, 4, 8, 16, 32]
    assert tenon.scan(lambda c, _: (2 * c, c), 1.5, length=0)[0].tolist() == 1.5


def test_loops_and_map():
    assert float(tenon.while_loop(lambda x: x < 100, lambda x: 3 * x, xp.asarray(1.0))) == 243
    assert int(tenon.fori_loop(3, 7, lambda i, c: c + i, 0)) == 18
    assert int(tenon.fori_loop(7, 3, lambda i, c: c + i, 5)) == 5
    f = tenon.compile(lambda n, x: tenon.fori_loop(0, n, lambda i, c: c * x + i, x))
    assert [float(f(xp.asarray(n), xp.asarray(2.0))) for n in (0, 1, 3)] == [2.0, 4.0, 20.0]
    assert f.compilations == 1
    rows = xp.asarray([[1.0, 2.0], [3.0, 4.0]])
    assert tenon.map(xp.sum, rows).tolist() == [3.0, 7.0]


def test_sizes_may_be_symbols():
    f = tenon.compile(lambda x: tenon.scan(lambda c, r: (c + r, c), xp.zeros(x.shape[1]), x))
    for n in (2, 3, 4, 5):
        total, _ = f(xp.ones((n, n + 1)))
        assert total.tolist() == [n] * (n + 1)
    assert f.compilations == 2


def test_functions_are_traced_at_each_call_and_equal_traces_share_a_program():
    traced = []

    def step(c, x):
        traced.append(1)
        return c + x, None

    (whole,) = [
        cell.cell_contents
        for cell in tenon.scan.__closure__
        if isinstance(cell.cell_contents, list)
    ]
    made = []
    for n in (2.0, 3.0):
        tenon.scan(step, xp.asarray(0.0), xp.asarray([n, n]))
        made.append(whole[0].compilations)
    assert len(traced) == 2 and made[0] == made[1]


# ---- Derivatives ----


def model(x):
    """A scan over branches, one of which has an unbounded loop."""

    def step(c, w):
        c = tenon.cond(
            c > 1.0,
            lambda c: xp.sin(c) * w,
            lambda c: tenon.while_loop(lambda v: v < 2.0, lambda v: v * 1.7 + w * w * 0.1, c),
            c,
        )
        return c, c * w

    c, ys = tenon.scan(step, x, f64([0.3, 0.7, 1.2, 0.5]))
    return c + xp.sum(ys)


@pytest.mark.parametrize("x", [0.4, 0.1, 1.5])
def test_derivatives_through_all_of_them(x):
    first = tenon.grad(model)
    wanted = slope(model, x)
    assert float(first(f64(x))) == pytest.approx(wanted, rel=1e-7)
    assert float(tenon.jvp(model, (f64(x),), (f64(1.0),))[1]) == pytest.approx(wanted, rel=1e-7)
    second = slope(first, x)
    assert float(tenon.grad(first)(f64(x))) == pytest.approx(second, rel=1e-6)
    assert float(tenon.hessian(model)(f64(x))) == pytest.approx(second, rel=1e-6)


def test_grad_of_scan_with_captured_weights():
    rng = np.random.default_rng(1)
    w, x = rng.normal(size=(3, 3)), rng.normal(size=(4, 3))

    def loss(w, x):
        return xp.sum(
            tenon.scan(lambda h, r: (xp.tanh(w @ h + r), None), xp.zeros(3, dtype=F64), x)[0]
        )

    got = np.asarray(tenon.grad(loss)(f64(w), f64(x)))
    for i, j in ((0, 0), (1, 2), (2, 1)):
        moved = np.zeros((3, 3))
        moved[i, j] = 1e-6
        wanted = (float(loss(f64(w + moved), f64(x))) - float(loss(f64(w - moved), f64(x)))) / 2e-6
        assert got[i, j] == pytest.approx(wanted, rel=1e-7)


def test_grad_of_fori_loop_with_fixed_and_varying_bounds():
    fixed = tenon.grad(lambda x: tenon.fori_loop(0, 5, lambda i, c: c * x + i, x))
    varying = tenon.grad(lambda x, n: tenon.fori_loop(0, n, lambda i, c: c * x + i, x))
    x = 1.3  # x^6 + x^3 + 2 x^2 + 3 x + 4
    wanted = 6 * x**5 + 3 * x**2 + 4 * x + 3
    assert float(fixed(f64(x))) == pytest.approx(wanted, rel=1e-12)
    assert float(varying(f64(x), xp.asarray(5))) == pytest.approx(wanted, rel=1e-12)


def root(x):
    """Newton's method, until it has converged."""
    return tenon.while_loop(lambda y: xp.abs(y * y - x) > 1e-14 * x, lambda y: (y + x / y) / 2, x)


def test_grad_of_newtons_method():
    """The loop has no bound. Of the root the implicit function theorem gives 1 / (2 y)."""
    for x in (0.3, 2.0, 1e6):
        assert float(root(f64(x))) == pytest.approx(x**0.5, rel=1e-13)
        assert float(tenon.grad(root)(f64(x))) == pytest.approx(0.5 / x**0.5, rel=1e-9)
    many = f64([0.3, 2.0, 50.0])
    np.testing.assert_allclose(
        np.asarray(tenon.vmap(tenon.grad(root))(many)), 0.5 / np.sqrt([0.3, 2.0, 50.0]), rtol=1e-9
    )


def decay(rate):
    """y' = -rate y from 1 at 0 to 1, by Heun's method with steps that follow its error."""

    def step(state):
        t, y, h = state
        h = xp.minimum(h, 1 - t)
        k = -rate * y
        euler = y + h * k
        heun = y + h / 2 * (k - rate * euler)
        error = xp.abs(heun - euler)
        good = error < 1e-6
        # Sizes of steps are choices, not part of what is differentiated.
        scale = xp.clip(0.9 * xp.sqrt(1e-6 / (error + 1e-12)), 0.2, 5.0)
        return xp.where(good, t + h, t), xp.where(good, heun, y), h * scale

    start = (f64(0.0), f64(1.0), f64(0.1))
    return tenon.while_loop(lambda s: s[0] < 1 - 1e-12, step, start)[1]


def test_grad_of_an_adaptive_step():
    """The number of steps depends on the rate; y(1) = exp(-rate), so its derivative is -exp(-rate)."""
    for rate in (0.5, 2.0):
        value, slope_ = tenon.value_and_grad(decay)(f64(rate))
        assert float(value) == pytest.approx(np.exp(-rate), rel=1e-3)
        assert float(slope_) == pytest.approx(-np.exp(-rate), rel=1e-3)


# ---- Samples ----


def test_vmap_of_cond_whose_branches_differ():
    x = np.linspace(-2, 2, 7)
    cheap = tenon.vmap(lambda v: tenon.cond(v > 0, xp.sqrt, lambda v: -v, v))
    np.testing.assert_allclose(np.asarray(cheap(f64(x))), np.where(x > 0, np.sqrt(np.abs(x)), -x))

    # With a branch that does not end for the other samples, each sample takes its own.
    def safe(v):
        return tenon.cond(
            v > 0,
            lambda v: tenon.while_loop(lambda u: u < 8, lambda u: 2 * u, v),
            lambda v: v - 1,
            v,
        )

    wanted = [float(safe(f64(v))) for v in x]
    np.testing.assert_allclose(np.asarray(tenon.vmap(safe)(f64(x))), wanted)
    slopes = [float(tenon.grad(safe)(f64(v))) for v in x]
    np.testing.assert_allclose(np.asarray(tenon.vmap(tenon.grad(safe))(f64(x))), slopes)


def test_vmap_of_while_whose_samples_end_apart():
    def f(x):
        return tenon.while_loop(lambda c: c[0] < 20, lambda c: (c[0] * x, c[1] + 1), (x, 0))

    last, count = tenon.vmap(f)(xp.asarray([2.0, 3.0, 30.0]))
    assert (last.tolist(), count.tolist()) == ([32.0, 27.0, 30.0], [4, 2, 0])
    slopes = tenon.vmap(tenon.grad(lambda x: f(x)[0]))(xp.asarray([2.0, 3.0, 30.0]))
    assert slopes.tolist() == [80.0, 27.0, 1.0]


def test_vmap_equals_a_loop():
    x = [0.4, 0.1, 1.5]
    for f in (model, tenon.grad(model)):
        wanted = [float(f(f64(v))) for v in x]
        np.testing.assert_allclose(np.asarray(tenon.vmap(f)(f64(x))), wanted, rtol=1e-12)
        np.testing.assert_allclose(np.asarray(tenon.map(f, f64(x))), wanted, rtol=1e-12)
    summed = tenon.grad(lambda x: xp.sum(tenon.vmap(model)(x)))(f64(x))
    np.testing.assert_allclose(
        np.asarray(summed), np.asarray(tenon.vmap(tenon.grad(model))(f64(x))), rtol=1e-12
    )


# ---- What is refused ----

X = xp.asarray([1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: tenon.scan(lambda c, x: (xp.astype(c, F64), x), X[0], X), "float32() float64() must keep"),
        (lambda: tenon.scan(lambda c, x: ((c, c), c), X[0], X), "begins as * gives (*, *)"),
        (
            lambda: tenon.scan(lambda c, x: ({"w": x}, c), {"w": X[0] * 0}, xp.ones((2, 3))),
            "carry['w'] begins as float32() float32(3,)",
        ),
        (lambda: tenon.scan(lambda c, x: c, 0.0, X), "returned Array two values"),
        (lambda: tenon.scan(lambda c, x: (c, c), 0.0, (xp.ones((2, 3)), X)), "xs[0] 2, xs[1] 3"),
        (lambda: tenon.scan(lambda c, x: (c, c), 0.0, X, length=2), "length 2, xs 3"),
        (lambda: tenon.scan(lambda c, x: (c, c), 0.0), "give xs, or length"),
        (lambda: tenon.scan(lambda c, x: (c, c), 0.0, X[0]), "without axes"),
        (lambda: tenon.cond(True, lambda x: x, lambda x: (x,), X), "false_fn returns (*,) true_fn"),
        (lambda: tenon.cond(True, lambda x: x, xp.sum, X), "false_fn is float32() float32(3,)"),
        (lambda: tenon.cond(X > 0, xp.sin, xp.cos, X), "bool(3,) xp.where"),
        (lambda: tenon.cond(1.0, xp.sin, xp.cos, X), "float64() compare"),
        (lambda: tenon.switch(1.0, [xp.sin], X), "the index is float64() an integer"),
        (lambda: tenon.switch(1, [], X), "no functions"),
        (lambda: tenon.switch(1, [xp.sin, xp.cos, xp.sum], X), "function 2 is float32()"),
        (lambda: tenon.while_loop(lambda c: X > c, lambda c: c, X[0]), "bool(3,) one bool"),
        (lambda: tenon.while_loop(lambda c: (c > 0, c), lambda c: c, X[0]), "(bool(), float32())"),
        (lambda: tenon.while_loop(lambda c: c > 0, lambda c: xp.ones(2), X[0]), "float32(2,)"),
        (lambda: tenon.fori_loop(0, 2.5, lambda i, c: c, X), "upper is float64() an integer"),
    ],
)  # fmt: skip
def test_types_that_differ_are_named(call, words):
    with pytest.raises(tenon.UsageError) as error:
        call()
    assert error.value.code == "T0664"
    at = 0
    for word in words.split(" "):
        at = str(error.value).find(word, at)
        assert at >= 0, (words, str(error.value))


def test_an_if_names_cond():
    def f(x):
        return x if x > 0 else -x

    for call in (tenon.grad(f), lambda x: tenon.cond(True, f, f, x)):
        with pytest.raises(tenon.UsageError, match="T0628.*tenon.cond"):
            call(xp.asarray(1.0))


def test_an_array_of_a_branch_stays_there():
    kept = []

    def f(x):
        tenon.cond(x > 0, lambda x: (kept.append(2 * x), x)[1], lambda x: x, x)
        return kept[0] + 1

    with pytest.raises(tenon.UsageError, match="T0627.*a branch or to the body of a loop"):
        tenon.compile(f)(xp.asarray(1.0))


def test_an_error_in_a_body_leaves_the_trace_usable():
    def f(x):
        try:
            tenon.scan(lambda c, x: (xp.ones(3) @ xp.ones(4), x), x, X)
        except ValueError:
            pass
        return tenon.scan(lambda c, v: (c + v, None), x, X)[0]

    assert float(tenon.compile(f)(xp.asarray(0.0))) == 6
