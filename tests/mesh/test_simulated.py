"""Meshes in Python: all ranks in one process, and what is refused."""

import numpy as np
import pytest
import tenon
from tenon import xp

MESH = tenon.mesh(data=2, model=3, simulate=True)


def data(*shape):
    return np.random.default_rng(3).standard_normal(shape).astype(np.float32)


def test_mean_of_parts():
    @tenon.compile
    @tenon.manual(MESH)
    def mean(x):
        return tenon.all_reduce(xp.mean(x)) / MESH.size

    x = data(6, 5)
    np.testing.assert_allclose(mean(x), np.full(6, x.mean()), rtol=1e-5)


def test_tensor_parallel_perceptron():
    """Columns of the first weight and rows of the second lie along `model`."""
    x, w1, w2 = data(2, 4, 8), data(8, 12), data(12, 8)

    def stack(parts):
        return np.stack([parts[r % 3] for r in range(6)])

    @tenon.manual(MESH)
    def net(x, w1, w2):
        return tenon.all_reduce(xp.maximum(x @ w1, 0) @ w2, "model")

    parts = stack(np.split(w1, 3, 1)), stack(np.split(w2, 3, 0))
    got = np.asarray(net(np.repeat(x, 3, 0), *parts))
    for r in range(6):
        want = np.maximum(x[r // 3] @ w1, 0) @ w2
        np.testing.assert_allclose(got[r], want, rtol=1e-4, atol=1e-4)


def test_data_parallel_gradient():
    """The sum of the gradients of parts is the gradient of the whole."""
    mesh = tenon.mesh(data=4, simulate=True)
    x, y, w = data(4, 5, 3), data(4, 5), data(3)

    def loss(w, x, y):
        return xp.sum((x @ w - y) ** 2)

    @tenon.manual(mesh, shared=[0])
    def gradient(w, x, y):
        return tenon.all_reduce(tenon.grad(loss)(w, x, y), "data")

    whole = tenon.grad(loss)(xp.asarray(w), xp.asarray(x.reshape(20, 3)), xp.asarray(y.reshape(20)))
    for part in np.asarray(gradient(w, x, y)):
        np.testing.assert_allclose(part, np.asarray(whole), rtol=1e-4)


@pytest.mark.parametrize("kind", ["sum", "max", "min"])
def test_gradients_against_differences(kind):
    mesh = tenon.mesh(data=2, simulate=True)
    x = np.random.default_rng(5).standard_normal((2, 4, 2))

    @tenon.manual(mesh)
    def f(x):
        y = tenon.reduce_scatter(tenon.all_gather(x, "data") ** 2, "data", kind=kind)
        y = y + tenon.permute(x, [(0, 1)], "data") * tenon.all_reduce(x, "data", kind)
        place = xp.astype(tenon.axis_index("data"), x.dtype)
        return tenon.all_to_all(y, "data", 0, 1) * (1 + place)

    def total(x):
        return xp.sum(f(x) ** 3)

    got = np.asarray(tenon.grad(total)(xp.asarray(x)))
    tangent = np.random.default_rng(6).standard_normal(x.shape)
    step = 1e-6
    there, back = (float(total(xp.asarray(x + s * tangent))) for s in (step, -step))
    want = (there - back) / (2 * step)
    assert abs(np.vdot(got, tangent) - want) < 1e-5 * max(1, abs(want))
    _, forward = tenon.jvp(total, (xp.asarray(x),), (xp.asarray(tangent),))
    assert abs(float(forward) - want) < 1e-5 * max(1, abs(want))


def test_vmap_of_collectives():
    mesh = tenon.mesh(data=2, simulate=True)
    x = data(2, 3, 4)

    @tenon.manual(mesh)
    def f(x):
        return tenon.vmap(lambda row: tenon.all_gather(row, "data"))(x)

    want = np.concatenate([x[0], x[1]], 1)
    np.testing.assert_array_equal(np.asarray(f(x)), np.stack([want, want]))


def test_loops():
    mesh = tenon.mesh(data=2, simulate=True)

    @tenon.manual(mesh)
    def f(x):
        return tenon.fori_loop(0, 3, lambda i, v: tenon.all_reduce(v, "data") * 0.5, x)

    x = data(2, 4)
    np.testing.assert_allclose(np.asarray(f(x)), np.stack([x.mean(0)] * 2), rtol=1e-6)


def test_nested_values():
    x = {"a": data(6, 2), "b": [data(6, 3)]}
    got = tenon.manual(MESH)(lambda x: tenon.broadcast_from(x, 1, "data"))(x)
    np.testing.assert_array_equal(np.asarray(got["b"][0])[0], x["b"][0][3])


def test_mesh():
    assert MESH.size == 6 and MESH.axes == {"data": 2, "model": 3}
    assert repr(MESH) == "<tenon mesh data=2, model=3, simulated>"
    assert tenon.mesh(data=1).rank == 0

    with tenon.manual(tenon.mesh(data=1)):
        assert tenon.axis_size("data") == 1
        np.testing.assert_array_equal(np.asarray(tenon.all_reduce(xp.ones(3), "data")), np.ones(3))


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: tenon.mesh(), "at least one axis"),
        (lambda: tenon.mesh(data=0), "whole number from 1"),
        (lambda: tenon.mesh(data=2.5), "whole number from 1"),
        (lambda: tenon.mesh(data=True), "whole number from 1"),
        (lambda: MESH.rank, "in this process"),
        (lambda: tenon.manual(MESH).__enter__(), "decorator"),
        (lambda: tenon.all_reduce(xp.ones(2)), "tenon.manual(mesh)"),
        (
            lambda: tenon.manual(tenon.mesh(data=1))(lambda: tenon.all_reduce("abc"))(),
            "not an array",
        ),
        (lambda: tenon.manual(MESH, shared=[7])(lambda x: x)(data(6, 2)), "no argument"),
        (lambda: tenon.manual(MESH)(lambda x: tenon.all_reduce(x, "rows"))(data(6, 2)), "'rows'"),
        (lambda: tenon.manual(MESH)(lambda x: tenon.all_reduce(x, []))(data(6, 2)), "at least one"),
        (
            lambda: tenon.manual(MESH)(lambda x: tenon.all_reduce(x, kind="prod"))(data(6, 2)),
            "'prod'",
        ),
        (lambda: tenon.manual(MESH)(lambda x: tenon.all_gather(x, dim=1))(data(6, 2)), "1 axes"),
        (lambda: tenon.manual(MESH)(lambda x: x)(data(5, 2)), "6 ranks"),
        (lambda: tenon.manual(MESH)(lambda x: tenon.reduce_scatter(x))(data(6, 4)), "multiple"),
        (lambda: tenon.manual(MESH)(lambda x: tenon.permute(x, [(0, 9)]))(data(6, 4)), "process 9"),
    ],
)
def test_refused(call, says):
    with pytest.raises((tenon.Error, ValueError)) as error:
        call()
    assert says in str(error.value)


def test_not_a_mesh():
    with pytest.raises(TypeError, match="not a mesh"):
        tenon.manual("data=2")
