"""Derivatives and samples of ops that several processes compute together, over a mesh whose ranks are
all in this process, against differences and against the ranks' results one sample at a time.

A function of one process is differentiated there. Its gradient is that of the sum of the results of all
processes: what the tangents of all of them together say, too.
"""

from __future__ import annotations

import numpy as np
import pytest
import tenon
from tenon import grad, jvp, vmap, xp

STEP = 1e-6
MESHES = {
    "one process": ({"data": 1}, "data"),
    "a row": ({"data": 4}, "data"),
    "first axis": ({"data": 2, "model": 3}, "data"),
    "last axis": ({"data": 2, "model": 3}, "model"),
    "both axes in turn": ({"data": 2, "model": 2}, ("model", "data")),
}


def ring(axes):
    count = tenon.axis_size(axes)
    return [(i, (i + 1) % count) for i in range(count)]


CASES = {
    "sum": lambda x, axes: tenon.all_reduce(x, axes),
    "minimum": lambda x, axes: tenon.all_reduce(x, axes, "min"),
    "maximum": lambda x, axes: tenon.all_reduce(x, axes, "max"),
    "gather": lambda x, axes: tenon.all_gather(x, axes, 1),
    "scattered sum": lambda x, axes: tenon.reduce_scatter(x, axes, 1),
    "scattered minimum": lambda x, axes: tenon.reduce_scatter(x, axes, 1, "min"),
    "scattered maximum": lambda x, axes: tenon.reduce_scatter(x, axes, 0, "max"),
    "parts in front": lambda x, axes: tenon.all_to_all(x, axes, 0, 0),
    "parts to the other axis": lambda x, axes: tenon.all_to_all(x, axes, 0, 1),
    "parts from the other axis": lambda x, axes: tenon.all_to_all(x, axes, 1, 0),
    "ring": lambda x, axes: tenon.permute(x, ring(axes), axes),
    "one move": lambda x, axes: tenon.permute(x, ring(axes)[:1], axes),
    "no move": lambda x, axes: tenon.permute(x, [], axes),
    "from the last": lambda x, axes: tenon.broadcast_from(x, tenon.axis_size(axes) - 1, axes),
    "place": lambda x, axes: x * xp.astype(tenon.axis_index(axes) + 1, x.dtype),
    "two in a row": lambda x, axes: tenon.all_reduce(
        xp.sin(tenon.reduce_scatter(tenon.all_gather(x, axes, 0), axes, 0)), axes
    ),
}


def weights(y):
    """Other factors for each element, so that elements in other places are noticed."""
    count = int(np.prod(y.shape))
    return xp.reshape(xp.arange(count, dtype=xp.float64) * 0.37 + 0.5, y.shape)


ROWS = [f"{case}, {mesh}" for case in CASES for mesh in MESHES]
every = pytest.mark.parametrize("row", ROWS)


def taken(row):
    """A mesh, and a function of one process. It depends on the rank, as results of processes differ."""
    case, _, which = row.partition(", ")
    axes, names = MESHES[which]

    def loss(x):
        y = CASES[case](x, names)
        rank = xp.astype(tenon.axis_index(tuple(axes)), xp.float64)
        return xp.sum(xp.sin(y) * weights(y)) * (rank + 1)

    return tenon.mesh(**axes, simulate=True), loss


def operands(mesh, seed):
    side = 2 * mesh.size
    return np.random.default_rng(seed).normal(size=(mesh.size, side, side))


def of_all(mesh, function, *arrays):
    made = tenon.manual(mesh)(function)
    return np.asarray(made(*(xp.asarray(a) for a in arrays)))


def slope(mesh, loss, x, direction):
    """How the results of all processes change along a direction of all their operands."""
    up, down = (of_all(mesh, loss, x + sign * STEP * direction) for sign in (1, -1))
    return (up - down) / (2 * STEP)


@every
def test_gradient_is_the_slope_of_the_sum_of_all(row):
    mesh, loss = taken(row)
    x, direction = operands(mesh, 1), operands(mesh, 2)
    gradient = of_all(mesh, grad(loss), x)
    want = slope(mesh, loss, x, direction).sum()
    assert np.sum(gradient * direction) == pytest.approx(want, rel=1e-6, abs=1e-6)


@every
def test_tangents_are_the_slopes(row):
    mesh, loss = taken(row)
    x, direction = operands(mesh, 3), operands(mesh, 4)
    tangents = of_all(mesh, lambda x, t: jvp(loss, (x,), (t,))[1], x, direction)
    np.testing.assert_allclose(tangents, slope(mesh, loss, x, direction), rtol=1e-6, atol=1e-6)


@every
def test_second_derivative_is_the_slope_of_the_gradient(row):
    mesh, loss = taken(row)
    x, direction = operands(mesh, 5), operands(mesh, 6)
    twice = of_all(mesh, lambda x, t: jvp(grad(loss), (x,), (t,))[1], x, direction)
    want = slope(mesh, grad(loss), x, direction)
    np.testing.assert_allclose(twice, want, rtol=1e-5, atol=1e-5)


@every
def test_samples_are_those_of_a_loop(row):
    mesh, loss = taken(row)
    samples = np.stack([operands(mesh, seed) for seed in (7, 8, 9)], 1)
    both = of_all(mesh, vmap(loss), samples)
    each = [of_all(mesh, loss, samples[:, i]) for i in range(3)]
    np.testing.assert_allclose(both, np.stack(each, 1), rtol=1e-12)


@every
def test_gradients_of_samples(row):
    mesh, loss = taken(row)
    samples = np.stack([operands(mesh, seed) for seed in (7, 8)], 1)
    both = of_all(mesh, vmap(grad(loss)), samples)
    each = [of_all(mesh, grad(loss), samples[:, i]) for i in range(2)]
    np.testing.assert_allclose(both, np.stack(each, 1), rtol=1e-12)


def test_equal_elements_share_a_minimum():
    mesh = tenon.mesh(data=4, simulate=True)
    x = np.array([[2.0, 1, 3, 3], [2, 3, 3, 3], [5, 1, 3, 4], [2, 1, 3, 9]])
    share = (x == x.min(0)) / (x == x.min(0)).sum(0)
    direction = np.random.default_rng(1).normal(size=x.shape)
    for all_have, least in (
        (4, lambda x: tenon.all_reduce(x, kind="min")),
        (1, lambda x: tenon.reduce_scatter(x, kind="min")),
    ):
        gradient = of_all(mesh, grad(lambda x: xp.sum(least(x))), x)
        np.testing.assert_allclose(gradient, all_have * share)
        tangents = of_all(mesh, lambda x, t: jvp(least, (x,), (t,))[1], x, direction)
        want = (share * direction).sum(0)
        np.testing.assert_allclose(tangents, [want] * 4 if all_have == 4 else want[:, None])


def test_one_process_alone():
    """Without a simulation: a mesh of one process moves nothing."""
    with tenon.manual(tenon.mesh(data=1)):
        x = xp.asarray([1.0, 2.0])
        for kind in ("sum", "min", "max"):
            gradient = grad(lambda x: xp.sum(tenon.all_reduce(x * x, kind=kind)))(x)
            np.testing.assert_array_equal(gradient, [2, 4])
        gradient = grad(lambda x: xp.sum(tenon.all_gather(tenon.reduce_scatter(x * x))))(x)
        np.testing.assert_array_equal(gradient, [2, 4])
