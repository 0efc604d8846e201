"""Derivatives and samples of ops that random programs rarely have, as in test_composites.py: what
mutants of their rules (mutants.py) need to be noticed.

Sizes are equal where they can be: a wrong axis then gives the right type.
"""

from __future__ import annotations

import numpy as np
import pytest
import tenon
import test_composites as composites
from tenon import jvp, vmap, xp
from test_composites import MATRIX, array, arrays, op, parts, slope_at


def last_of(case):
    """The last result alone."""
    function, given = case
    return lambda *arrays: function(*arrays)[-1], given


DEFINITE = MATRIX @ MATRIX.transpose(0, 2, 1) + np.diag([0.0, 1, 3])
CASES = {
    "softmax": op("softmax", array(3, 3, 3), dim=1),
    "log_softmax": op("log_softmax", array(3, 3, 3), dim=1),
    "var of a cube": op("var", array(3, 3, 3), dims=(1,)),
    "var of all": op("var", array(2, 3, 2, 2), dims=(0, 1, 2, 3)),
    "std of a cube": op("std", array(3, 3, 3), dims=(1,)),
    "logsumexp of a cube": op("logsumexp", array(3, 3, 3), dims=(1,)),
    "norm of a cube": op("norm", array(3, 3, 3), dims=(1,)),
    "norm 3 of a cube": op("norm", array(3, 3, 3), dims=(1,), p=3.0),
    "l2_normalize of a cube": op("l2_normalize", array(3, 3, 3), dims=(1,)),
    "layer_norm of a cube": op("layer_norm", array(3, 3, 3), array(3, 3), array(3, 3), dim=1),
    "rms_norm of a cube": op("rms_norm", array(3, 3, 3), array(3, 3), dim=1),
    "layer_norm of a vector": op("layer_norm", array(4), array(4), array(4), dim=0),
    "rms_norm of a vector": op("rms_norm", array(4), array(4), dim=0),
    "group_norm of a cube": op("group_norm", array(2, 2, 2), array(2), array(2), groups=2),
    "batch_norm_train of a cube": op(
        "batch_norm_train", array(3, 3, 3), array(3), array(3), array(3), array(3), results=3
    ),
    "reduce_sum": op("reduce_sum", array(3, 3, 3), dims=(0, 1)),
    "reduce_max": op("reduce_max", array(3, 3, 3), dims=(1,)),
    "reduce_min": op("reduce_min", array(3, 3, 3), dims=(0,)),
    "reduce_prod": op("reduce_prod", array(3, 3, 3), dims=(0, 2)),
    "reduce_prod of a square": op("reduce_prod", array(3, 3), dims=(1,)),
    "leaky_relu down": op("leaky_relu", array(2, 4), alpha=-0.5),
    "elu down": op("elu", array(2, 4), alpha=-0.5),
    "scatter mul": op(
        "scatter", array(3), np.array([0] * 4 + [1] * 12), array(16), kind="mul", inserted_dims=(0,),
        index_map=(0,),
    ),
    "scatter windows": op(
        "scatter", array(6, 3), np.array([4, 0, 1]), array(3, 3), kind="set", window_dims=(1,),
        inserted_dims=(0,), index_map=(0,),
    ),
    "scatter max": op(
        "scatter", array(6, 3), np.array([4, 0, 4]), array(3, 3), kind="max", window_dims=(1,),
        inserted_dims=(0,), index_map=(0,),
    ),
    "gather windows": op(
        "gather", array(3, 3, 3), np.array([2, 0, 2]), lists={"sizes": (1, 3, 3)}, offset_dims=(0, 2),
        collapsed_dims=(0,), index_map=(0,),
    ),
    "dot_general": op(
        "dot_general", array(3, 3, 3), array(3, 3, 3), a_batch=(1,), b_batch=(2,), a_contract=(0,),
        b_contract=(1,),
    ),
    "dot_general of cubes": op(
        "dot_general", array(2, 2, 2, 2), array(2, 2, 2, 2), a_batch=(1,), b_batch=(2,), a_contract=(3,),
        b_contract=(0,),
    ),
    "dot_general of squares": op(
        "dot_general", array(3, 3), array(3, 3), a_contract=(0,), b_contract=(1,)
    ),
    "dot_general of two batches": op(
        "dot_general", array(2, 2, 2, 2), array(2, 2, 2, 2), a_batch=(0, 2), b_batch=(3, 1),
        a_contract=(1,), b_contract=(0,),
    ),
    "softmax of rows": op("softmax", array(3, 3), dim=0),
    "log_softmax of rows": op("log_softmax", array(3, 3), dim=0),
    "norm 2.5 of a cube": op("norm", array(3, 3, 3), dims=(1,), p=2.5),
    "var of the last": op("var", array(2, 2, 2, 2), dims=(2,)),
    "rms_norm of the last": op("rms_norm", array(2, 2, 2, 2), array(2), dim=3),
    "cholesky upper of one": op("cholesky", DEFINITE[0], upper=1),
    "cumsum": op("cumsum", array(3, 3), dim=1, exclusive=1),
    "cumprod": op("cumprod", array(20), dim=0),
    "cumprod reverse": op("cumprod", array(3, 3), dim=0, reverse=1, exclusive=1),
    "cummax": op("cummax", array(4, 4) * 0.1 + 2, dim=0),
    "cummin reverse": op("cummin", array(4, 4) * 0.1 + 2, dim=1, reverse=1),
    "pad": op("pad", array(3, 3), np.array(0.7), low=(1, -1), high=(-1, 3), interior=(1, 0)),
    "slice": op("slice", array(5, 4), lists={"start": (1, 0), "limit": (5, 4)}, stride=(2, 1)),
    "reduce_window": op(
        "reduce_window", array(4, 5), window=(2, 2), strides=(1, 2), pad_low=(1, 0), pad_high=(0, 1),
        base_dilation=(1, 2), dilation=(2, 1),
    ),
    "reduce_window max": op(
        "reduce_window", array(4, 5), kind="max", window=(2, 2), strides=(1, 2), pad_low=(1, 0),
        pad_high=(0, 1), base_dilation=(1, 2), dilation=(2, 1),
    ),
    "reduce_window min": op("reduce_window", array(4, 4), kind="min", window=(2, 1), pad_low=(-1, 0)),
    "window_argmax": op("window_argmax", array(4, 4), window=(1, 2), strides=(1, 2), dilation=(1, 2)),
    "global_avg_pool": op("global_avg_pool", array(2, 3, 2, 2)),
    "global_max_pool": op("global_max_pool", array(2, 3, 2, 2)),
    "transpose": op("transpose", array(2, 2, 2, 2), perm=(1, 3, 0, 2)),
    "sort": op("sort", array(3, 4), array(3, 4), dim=1, results=2),
    "sort equal": last_of(
        op("sort", np.array([[1, 0, 1, 0], [2, 2, 2, 1]]), array(2, 4), dim=1, results=2)
    ),
    "compress": op("compress", array(2, 5), np.array([1, 0, 1, 1, 0], bool), dim=1),
    "dynamic_slice": op("dynamic_slice", array(4, 4), np.array([1, 9]), lists={"sizes": (2, 2)}),
    "dynamic_update_slice": op("dynamic_update_slice", array(4, 4), array(2, 2), np.array([1, 9])),
    "barrier": op("barrier", array(2), array(2), results=2),
    "assert": op("assert", np.array(True), array(2, 3), array(2, 3), results=2),
    "cholesky": op("cholesky", DEFINITE),
    "cholesky upper": op("cholesky", DEFINITE, upper=1),
    "triangular_solve": op("triangular_solve", MATRIX, array(2, 3, 3)),
    "triangular_solve upper": op("triangular_solve", MATRIX, array(2, 3, 3), upper=1, form="transposed"),
    "triangular_solve unit": op("triangular_solve", MATRIX, array(2, 3, 3), unit=1),
    "lu square": op("lu", MATRIX),
    "lu tall": op("lu", array(2, 4, 3)),
    "lu wide": op("lu", array(2, 3, 4)),
    "qr square": op("qr", MATRIX, results=2),
    "qr tall": op("qr", array(2, 4, 3), results=2),
    "qr wide": op("qr", array(2, 3, 4), results=2, complete=1),
    "eigh square": op("eigh", DEFINITE, results=2),
    "eigh upper": op("eigh", DEFINITE, results=2, upper=1),
    "svd square": op("svd", MATRIX, results=3),
    "svd tall": op("svd", array(2, 4, 3), results=3),
    "svd wide": op("svd", array(2, 3, 4), results=3),
    "cholesky of one": op("cholesky", DEFINITE[0]),
    "triangular_solve of one": op("triangular_solve", MATRIX[0], array(3, 3)),
    "solve of one": op("solve", MATRIX[0], array(3, 3)),
    "inv of one": op("inv", MATRIX[0]),
    "det of one": op("det", MATRIX[0]),
    "lu of one": op("lu", MATRIX[0]),
    "qr of one": op("qr", MATRIX[0], results=2),
    "eigh of one": op("eigh", DEFINITE[0], results=2),
    "svd of one": op("svd", MATRIX[0], results=3),
    "conv_bias with a residual": op(
        "conv_bias", array(1, 2, 4), array(3, 2, 2), array(3), array(1, 3, 3), activation="gelu"
    ),
    "dropout": op("dropout", array(3, 4), np.array([7, 9], np.uint32), np.uint64(3), rate=0.25),
    "matmul_nbits": op(
        "matmul_nbits", array(2, 4), np.array([[169, 30], [7, 92]], np.uint8), array(2, 2), bits=4, group=2
    ),
    "max_unpool": op(
        "max_unpool", array(2, 2), np.array([[5, 0], [3, 2]]), lists={"shape": (2, 3)}
    ),
    "sgd_step": op(
        "sgd_step", array(3), array(3), array(3), array(), results=2,
        momentum=0.9, dampening=0.1, weight_decay=0.01, nesterov=1,
    ),
    "adam_step": op(
        "adam_step", array(3), array(3), array(3), array(3) ** 2 + 0.1, array(), np.int64(4),
        results=3, weight_decay=0.01,
    ),
    "adamw_step": op(
        "adamw_step", array(3), array(3), array(3), array(3) ** 2 + 0.1, array(), np.int64(4),
        results=3, weight_decay=0.01,
    ),
}  # fmt: skip
# Ops of which also operands that are no floats have samples. They are as large as their results.
BATCHED = {
    "argmax": op("argmax", array(3, 3, 3), dim=1),
    "argmin": op("argmin", array(3, 3, 3), dim=0),
    "reduce_and": op("reduce_and", np.arange(27).reshape(3, 3, 3) % 5 != 0, dims=(1,)),
    "reduce_or": op("reduce_or", np.arange(27).reshape(3, 3, 3) % 5 == 0, dims=(0,)),
    "window_argmax": op(
        "window_argmax", array(4, 4), results=2, window=(2, 2), strides=(2, 1), pad_low=(1, 0)
    ),
    "window_argmax of nothing": op(
        "window_argmax",
        array(3, 1),
        results=2,
        window=(1, 2),
        dilation=(1, 2),
        pad_low=(0, 1),
        pad_high=(0, 1),
    ),
    "dim_size": op("dim_size", array(2, 3), dim=1),
    "dynamic_slice": CASES["dynamic_slice"],
    "dynamic_update_slice": CASES["dynamic_update_slice"],
    "barrier": CASES["barrier"],
    "assert": CASES["assert"],
    "sort": CASES["sort"],
    "dot_general": CASES["dot_general"],
    "dot_general of squares": CASES["dot_general of squares"],
    "dot_general of two batches": CASES["dot_general of two batches"],
    "dot_general of rows": op("dot_general", array(3, 3), array(3, 3), a_batch=(0,), b_batch=(1,)),
    "gather windows": CASES["gather windows"],
    "scatter windows": CASES["scatter windows"],
    "scatter max": CASES["scatter max"],
    "sort equal": CASES["sort equal"],
}
NOT_BATCHED = {"compress"}  # the extent of its result would differ

composites.CASES |= CASES  # where the checks look


@pytest.mark.parametrize("name", CASES)
def test_tangents_and_cotangents(name):
    composites.test_tangents_and_cotangents(name)


@pytest.mark.parametrize("name", CASES)
def test_second_order(name):
    composites.test_second_order(name)


@pytest.mark.parametrize("name", [name for name in CASES if name not in NOT_BATCHED])
def test_samples(name):
    composites.test_samples(name)


@pytest.mark.parametrize("name", BATCHED)
def test_samples_of_any_type(name):
    """Of all operands, and of each one alone."""
    function, given = BATCHED[name]
    many = [np.stack([a, np.flip(a), np.roll(a, 1)]) for a in given]
    call = tenon.compile(function)
    alone = [tuple(0 if i == k else None for i in range(len(given))) for k in range(len(given))]
    for axes in [(0,) * len(given), *alone]:
        lanes = [[a[i] if x == 0 else b for a, b, x in zip(many, given, axes)] for i in range(3)]
        got = parts(
            vmap(function, axes)(*arrays(a if x == 0 else b for a, b, x in zip(many, given, axes)))
        )
        wanted = [parts(call(*arrays(lane))) for lane in lanes]
        for r, y in enumerate(got):
            np.testing.assert_array_equal(y, np.stack([w[r] for w in wanted]))


def test_equal_extremes_share_the_derivative():
    x = np.array(
        [[[1.0, 3, 3], [1, 1, 3], [1, 0, 3]], [[2, 0, 1], [2, 2, 0], [1, 2, 4]], [[0, 0, 0]] * 3]
    )
    for name, extreme in (("reduce_max", np.max), ("reduce_min", np.min)):
        chosen = (x == extreme(x, axis=1, keepdims=True)).astype(np.float64)
        wanted = chosen / chosen.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(slope_at(op(name, dims=(1,))[0], x)[0], wanted, rtol=1e-14)


def test_equal_updates_share_the_derivative():
    x = np.array([[1.0, 1, 1], [2, 0, 1], [0, 0, 0]])
    updates = np.array([[2.0, 5, 1], [2, 1, 1], [5, 5, 0]])
    function, _ = op("scatter", kind="max", window_dims=(1,), inserted_dims=(0,), index_map=(0,))
    rows = xp.asarray(np.array([1, 1, 2]))
    of_x, of_updates = slope_at(lambda x, u: function(x, rows, u), x, updates)
    third = 1 / 3
    np.testing.assert_allclose(of_x, [[1, 1, 1], [third, 0, third], [0, 0, 0.5]], rtol=1e-14)
    wanted = [[third, 1, third], [third, 0, third], [1, 1, 0.5]]
    np.testing.assert_allclose(of_updates, wanted, rtol=1e-14)


def test_eigenvectors_keep_their_length():
    function, _ = op("eig", results=2)
    v, dv = (
        np.asarray(p)
        for p in jvp(lambda a: function(a)[1], arrays(MATRIX[:1]), arrays(array(1, 3, 3)))
    )
    np.testing.assert_allclose(np.sum(v.conj() * dv, axis=-2).real, 0, atol=1e-12)


def test_running_extremes_of_nan():
    """From the first NaN on the result is that element."""
    x = np.array([2.0, 1.0, np.nan, 0.0])
    for name, wanted in (("cummax", [2, 0, 2, 0]), ("cummin", [1, 1, 2, 0])):
        assert (slope_at(op(name, dim=0)[0], x)[0] == wanted).all(), name


def test_lp_pool_of_zeros():
    function, _ = op("lp_pool", window=(2,), p=0.5)
    assert np.isfinite(slope_at(function, np.array([[[0.0, 1.0, 0.0, 0.0]]]))[0]).all()
