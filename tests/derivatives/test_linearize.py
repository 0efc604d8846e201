"""tenon.linearize: the point is computed once, and the linear map is jvp's, for any tangents."""

from __future__ import annotations

import numpy as np
import pytest
import tenon
from tenon import jvp, linearize, vjp, vmap, xp

RANDOM = np.random.default_rng(11)


def array(*shape):
    return xp.asarray(RANDOM.standard_normal(shape))


def layers(params, x):
    hidden = xp.tanh(x @ params["w"] + params["b"])
    return {"y": xp.exp(hidden) / (1 + hidden * hidden), "places": xp.argmax(hidden, axis=1)}


def loops(params, x):
    def step(c, row):
        c = xp.tanh(c * row + params["b"])
        return c, xp.sum(c)

    last, sums = tenon.scan(step, params["b"], x @ params["w"])
    root = tenon.while_loop(lambda v: xp.max(v) > 0.2, lambda v: v * xp.cos(v) * 0.7, last * last)
    return {"y": xp.exp(root) * last, "sums": sums}


def branches(params, x):
    y = x @ params["w"]
    chosen = tenon.cond(xp.sum(y) > 0, lambda y: xp.sin(y) @ y.mT, lambda y: xp.cos(y) @ y.mT, y)
    return xp.sum(chosen) * params["b"]


def selected(params, x):
    y = x @ params["w"]
    return xp.sum(y[y > 0] ** 3) * params["b"]


def solver(params, x):
    @tenon.custom_jvp
    def square(v):
        return v * v

    square.defjvp(lambda p, t: (square(p[0]), 3.0 * t[0] * p[0]))  # not that of the function
    return square(x @ params["w"]) + tenon.checkpoint(xp.sin)(params["b"])


FUNCTIONS = [layers, loops, branches, selected, solver]


def given():
    return {"w": array(3, 4), "b": array(4)}, array(5, 3)


def leaves(tree):
    if isinstance(tree, (tuple, list)):
        return [leaf for v in tree for leaf in leaves(v)]
    return [leaf for v in tree.values() for leaf in leaves(v)] if isinstance(tree, dict) else [tree]


def same(got, wanted, rtol=1e-12):
    assert len(leaves(got)) == len(leaves(wanted))
    for a, b in zip(leaves(got), leaves(wanted)):
        assert a.dtype is b.dtype
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=rtol, atol=1e-14)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_it_is_jvp_at_a_point(function):
    primals = given()
    value, push = linearize(function, *primals)
    for _ in range(3):
        tangents = given()
        wanted = jvp(function, primals, tangents)
        same(value, wanted[0])
        same(push(*tangents), wanted[1])


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_it_is_one_inside_of_other_transforms(function):
    primals, tangents = given(), given()

    @tenon.compile
    def twice(primals, tangents):
        value, push = linearize(function, *primals)
        return value, push(*tangents), push(*primals)

    value, along, other = twice(primals, tangents)
    same(value, jvp(function, primals, tangents)[0])
    same(along, jvp(function, primals, tangents)[1])
    same(other, jvp(function, primals, primals)[1])


def test_the_function_runs_once():
    runs = []

    def function(x):
        runs.append(1)
        return xp.exp(xp.sin(x))

    x = array(4)
    _, push = linearize(function, x)
    for _ in range(5):
        push(array(4))
    assert len(runs) == 1


def test_the_map_has_nothing_of_the_point():
    """Its program, as it is compiled: products alone."""
    x, t = array(4), array(4)
    _, push = linearize(lambda x: xp.exp(xp.sin(x)), x)
    seen = []

    def inside(t):
        out = push(t)
        seen.append(tenon.builder.trace.active().native.text())
        return out

    tenon.compile(inside)(t)
    assert "mul(" in seen[0] and "sin(" not in seen[0] and "exp(" not in seen[0]


def test_it_can_be_transposed_and_batched():
    x = array(4)

    def function(x):
        return xp.cumulative_sum(xp.sin(x)) * x

    _, push = linearize(function, x)
    columns = vmap(push)(xp.eye(4, dtype=xp.float64))
    same(columns, xp.matrix_transpose(tenon.jacfwd(function)(x)))
    cotangent = array(4)
    same(tenon.linear_transpose(push, x)(cotangent), vjp(function, x)[1](cotangent))
    second = jvp(lambda x: linearize(function, x)[1](cotangent), (x,), (x,))[1]
    wanted = jvp(lambda x: jvp(function, (x,), (cotangent,))[1], (x,), (x,))[1]
    same(second, wanted)


def test_numbers_of_python():
    def function(x, y):
        return x * x * y

    three = xp.asarray(3.0)
    value, push = linearize(function, 2.0, three)
    assert float(value) == 12 and value.dtype is xp.float32
    for dx, dy in ((1.0, 0.5), (xp.asarray(1.0, dtype=xp.float64), three / 6)):
        assert float(push(dx, dy)) == float(jvp(function, (2.0, three), (dx, dy))[1]) == 14


def test_numbers_of_other_sizes_and_types_are_refused():
    x = array(4)
    _, push = linearize(xp.sin, x)
    with pytest.raises(tenon.UsageError, match="T0663.*a tangent is float64"):
        push(array(3))
    with pytest.raises(tenon.UsageError, match="T0663.*nested"):
        push(x, x)
    with pytest.raises(tenon.UsageError, match="T0663.*int64"):
        linearize(lambda x: x * x, xp.asarray([1, 2]))
    with pytest.raises(tenon.UsageError, match="T0663.*no array of floats"):
        linearize(lambda x: xp.argmax(x), x)


@pytest.mark.parametrize("transform", [tenon.jacfwd, tenon.jacrev, tenon.hessian])
def test_arguments_of_jacobians(transform):
    def f(x, y):
        return xp.sum(x * y)

    x = xp.ones(2)
    for argnums, why in ((-1, "one position"), ((0, 1), "one position"), (5, "but the call has 2")):
        with pytest.raises(tenon.UsageError, match=f"T0663.*{why}"):
            transform(f, argnums)(x, x)
    with pytest.raises(tenon.UsageError, match="T0663.*argument 0 is a dict"):
        transform(lambda d: xp.sum(d["a"]))({"a": x})


# ---- What is around a function ----


def test_transforms_read_what_is_around_at_each_call():
    """Called at once, they are functions of Python like any other: nothing from an earlier call stays."""
    p = xp.asarray(0.0)

    def loss(p):
        return (p * scale - target) ** 2

    gradient, samples = tenon.grad(loss), tenon.vmap(lambda v: xp.sum(v) * scale)

    def cell(h, u):
        return h * scale + u, h

    for number in (1.0, 2.0, 3.0):
        for scale in (number, xp.asarray(number)):
            target = 2 * scale
            assert float(gradient(p)) == -4 * number**2
            assert samples(xp.ones((2, 3))).tolist() == [3 * number] * 2
            assert float(tenon.scan(cell, xp.asarray(1.0), xp.zeros(2))[0]) == number**2
    assert gradient.__wrapped__ is loss


def test_equal_traces_share_a_program():
    held = [xp.asarray([1.0, 2.0])]
    gradient = tenon.grad(lambda p: xp.sum(p * held[0]))
    for _ in range(3):
        held[0] = held[0] + 1
        assert gradient(xp.zeros(2)).tolist() == held[0].tolist()
    (whole,) = [
        c.cell_contents for c in gradient.__closure__ if hasattr(c.cell_contents, "compilations")
    ]
    assert whole.compilations == 1


def test_pull_keeps_the_point_and_what_was_around():
    scale, x = xp.asarray(1.0), xp.asarray([2.0])
    value, pull = tenon.vjp(lambda v: v * v * scale, x)
    scale = xp.asarray(100.0)
    x[0] = 50.0
    assert pull(xp.ones(1))[0].tolist() == [4.0] and value.tolist() == [4.0]
    given = np.asarray([2.0])
    pull = tenon.vjp(lambda v: v * v, given)[1]
    given[0] = 50.0
    assert pull(np.ones(1))[0].tolist() == [4.0]


def test_derivatives_are_in_the_order_of_argnums():
    x, y = xp.asarray(2.0), xp.asarray(5.0)
    f = lambda x, y: x * x * y  # noqa: E731
    assert [float(g) for g in tenon.grad(f, argnums=(1, 0))(x, y)] == [4.0, 20.0]
    assert [float(g) for g in tenon.grad(f, argnums=(0, 0))(x, y)] == [20.0, 20.0]


def test_derivatives_by_numbers_have_the_default_type():
    assert tenon.grad(lambda v: v * v)(3.0).dtype == xp.float32
    assert tenon.vjp(lambda v: v * v, 3.0)[1](1.0)[0].dtype == xp.float32


def test_logaddexp_where_both_are_equal():
    f = lambda v: xp.logaddexp(v, 2 * v)  # noqa: E731
    zero = xp.asarray(0.0)
    assert float(tenon.grad(f)(zero)) == 1.5 and float(tenon.grad(tenon.grad(f))(zero)) == 0.25


def test_a_compiled_hessian_takes_any_size():
    hessian = tenon.compile(tenon.hessian(lambda v: xp.sum(v**3)))
    for n in (2, 3):
        np.testing.assert_array_equal(np.asarray(hessian(xp.ones(n))), 6 * np.eye(n))


def test_arguments_by_name():
    def f(x, k):
        return xp.sum(x * x) * k

    x = xp.asarray([1.0, 2.0])
    assert tenon.grad(f)(x, k=3.0).tolist() == [6.0, 12.0]
    assert tenon.vmap(lambda a, b: a * b)(x, b=x).tolist() == [1.0, 4.0]
    assert float(tenon.checkpoint(f)(x, k=2.0)) == 10.0
    rule = tenon.custom_vjp(f)
    rule.defvjp(lambda x, k: (f(x, k), (x, k)), lambda saved, g: (g * saved[0], None))
    assert float(rule(x=x, k=xp.asarray(2.0))) == 10.0
    with pytest.raises(tenon.UsageError, match="T0602.*k has no position"):
        tenon.grad(lambda x, *, k: xp.sum(x) * k)(x, k=3.0)
