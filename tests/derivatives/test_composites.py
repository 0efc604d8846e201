"""Derivatives and samples of ops with rules of their own, in f64.

Tangents against central differences, cotangents against tangents, second derivatives against
differences of gradients, samples against a loop.
"""

from __future__ import annotations

import numpy as np
import pytest
import tenon
from tenon import grad, jvp, vjp, vmap, xp
from tenon.builder import ops
from tenon.builder.trace import DIMS, emit
from tenon.xp._array import Array, value_of

RANDOM = np.random.default_rng(7)


def array(*shape):
    return RANDOM.standard_normal(shape)


def op(name, *given, results=1, lists=None, **attrs):
    """A function of arrays that is one op. given: None where an operand is absent. results: how many,
    or which. lists: attributes that are sizes."""
    kept = slice(results) if isinstance(results, int) else slice(*results)

    def run(*arrays):
        values = [None if a is None else value_of(xp.asarray(a)) for a in arrays]
        sizes = [(k, DIMS, v) for k, v in (lists or {}).items()]
        out = emit(name, values, (*ops.attrs(**attrs), *sizes))[kept]
        return tuple(Array(v) for v in out) if len(out) > 1 else Array(out[0])

    run.__name__ = name
    return run, list(given)


CLASSES = np.array([[2, 0, 1], [1, 1, 2]])
MATRIX = array(2, 3, 3) + 2 * np.eye(3)
DEFINITE = MATRIX @ MATRIX.transpose(0, 2, 1) + np.diag([0.0, 1, 3])
EQUAL = np.array([[1.0, 1.0, 1.0], [0.0, 2.0, 5.0]])
CASES = {
    "logsumexp": op("logsumexp", array(2, 3, 4), dims=(0, 2)),
    "mean": op("mean", array(2, 3, 4), dims=(1,)),
    "var": op("var", array(2, 3, 4), dims=(0, 2), correction=1),
    "std": op("std", array(2, 3, 4), dims=(1,), correction=1),
    "norm": op("norm", array(2, 3), dims=(1,)),
    "norm 1": op("norm", array(2, 3), dims=(1,), p=1.0),
    "norm 3": op("norm", array(2, 3), dims=(0, 1), p=3.0),
    "norm inf": op("norm", array(2, 3), dims=(1,), p=float("inf")),
    "l2_normalize": op("l2_normalize", array(2, 3), dims=(1,)),
    "l2_normalize long": op("l2_normalize", array(2, 3), dims=(1,), epsilon=10.0),
    "layer_norm": op("layer_norm", array(2, 3, 4), array(3, 4), array(3, 4), dim=1),
    "layer_norm bare": op("layer_norm", array(2, 5), None, None, dim=1),
    "rms_norm": op("rms_norm", array(2, 3, 4), array(4), dim=2),
    "batch_norm": op("batch_norm", array(2, 3, 4), array(3), array(3), array(3), array(3) ** 2 + 0.5),
    "group_norm": op("group_norm", array(2, 4, 3), array(4), array(4), groups=2),
    "batch_norm_train": op(
        "batch_norm_train", array(4, 3, 2), array(3), array(3), array(3), array(3), results=3,
        correction=1,
    ),
    "nll_loss": op("nll_loss", array(2, 3, 3), CLASSES, array(3) ** 2 + 1),
    "nll_loss none": op("nll_loss", array(2, 3, 3), CLASSES, reduction="none", ignore=1),
    "softmax_cross_entropy": op(
        "softmax_cross_entropy", array(2, 3, 3), CLASSES, array(3) ** 2 + 1, results=2, ignore=1
    ),
    "softmax_cross_entropy sum": op(
        "softmax_cross_entropy", array(2, 3, 3), CLASSES, results=2, reduction="sum"
    ),
    "sdpa": op("sdpa", array(1, 2, 5, 4), array(1, 2, 3, 4), array(1, 2, 3, 2)),
    "sdpa groups": op(
        "sdpa", array(2, 4, 5, 3), array(2, 2, 6, 3), array(2, 2, 6, 2), array(1, 4, 5, 6),
        causal="last", softcap=2.0, scale=0.7,
    ),
    "sdpa mask": op(
        "sdpa", array(2, 2, 3, 4), array(2, 2, 3, 4), array(2, 2, 3, 4),
        np.array([[1, 0, 0], [0, 0, 0], [1, 1, 1]], bool).reshape(1, 1, 3, 3), zero_blind=1,
    ),
    "lp_pool": op("lp_pool", array(2, 3, 6), window=(2,), strides=(2,)),
    "lp_pool 3": op("lp_pool", array(2, 3, 6), window=(3,), p=3.0, pad_low=(1,)),
    "ragged_dot": op("ragged_dot", array(5, 3), array(2, 3, 4), np.array([2, 2])),
    "top_k": op("top_k", array(3, 5), lists={"k": (2,)}, dim=1),
    "solve": op("solve", MATRIX, array(2, 3, 2)),
    "inv": op("inv", MATRIX),
    "det": op("det", MATRIX),
    "slogdet": op("slogdet", MATRIX, results=2),
    "max_pool": op("max_pool", array(2, 3, 6), window=(2,), strides=(2,)),
    "avg_pool": op("avg_pool", array(2, 3, 6), window=(3,), pad_low=(1,)),
    "lrn": op("lrn", array(2, 5, 3), size=3),
    "embedding": op("embedding", array(5, 3), np.array([[0, 4], [4, 2]])),
    "embedding_bag": op("embedding_bag", array(5, 3), np.array([0, 4, 4]), np.array([0, 2]), kind="mean"),
    "grid_sample": op("grid_sample", array(1, 2, 4, 4), array(1, 3, 3, 2) / 3),
    "resize": op("resize", array(1, 2, 4, 4), lists={"sizes": (1, 2, 7, 6)}, mode="linear"),
    "linear": op("linear", array(4, 3), array(3, 2), array(2), activation="gelu"),
    "matmul": op("matmul", array(2, 1, 2, 3), array(4, 3, 2)),
    "matmul row": op("matmul", array(3), array(2, 3, 4)),
    "glu": op("glu", array(2, 6), dim=1),
    "tile": op("tile", array(2, 3), lists={"repeats": (2, 1)}),
    "roll": op("roll", array(2, 3), dims=(1,), shifts=(2,)),
    "diagonal": op("diagonal", array(3, 2, 3), dim1=0, dim2=2),
    "tril_triu": op("tril_triu", array(2, 3, 3)),
    "adaptive_pool": op("adaptive_pool", array(1, 2, 5), sizes=(3,)),
    # In cubes, a wrong axis is no wrong type.
    "softmax": op("softmax", array(3, 3, 3), dim=1),
    "log_softmax": op("log_softmax", array(3, 3, 3), dim=1),
    "var of a cube": op("var", array(3, 3, 3), dims=(1,)),
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
    "cumsum": op("cumsum", array(3, 3), dim=1, exclusive=1),
    "cumprod": op("cumprod", array(20), dim=0),
    "cumprod reverse": op("cumprod", array(3, 3), dim=0, reverse=1, exclusive=1),
    "cummax": op("cummax", array(4, 4), dim=0),
    "cummin reverse": op("cummin", array(4, 4), dim=1, reverse=1),
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
    "sort equal": op(
        "sort", np.array([[1, 0, 1, 0], [2, 2, 2, 1]]), array(2, 4), dim=1, results=(1, 2)
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
    "lu": op("lu", MATRIX),
    "lu tall": op("lu", array(2, 4, 3)),
    "lu wide": op("lu", array(2, 3, 4)),
    "qr": op("qr", MATRIX, results=2),
    "qr tall": op("qr", array(2, 4, 3), results=2),
    "qr wide": op("qr", array(2, 3, 4), results=2, complete=1),
    "eigh": op("eigh", DEFINITE, results=2),
    "eigh upper": op("eigh", DEFINITE, results=2, upper=1),
    "svd": op("svd", MATRIX, results=3),
    "svd tall": op("svd", array(2, 4, 3), results=3),
    "svd wide": op("svd", array(2, 3, 4), results=3),
    "conv_transpose": op("conv_transpose", array(2, 3, 4), array(3, 2, 3), array(2), strides=(2,)),
}  # fmt: skip
# Ops of which also operands that are no floats have samples. They are as large as their results.
BATCHED = {
    "argmax": op("argmax", array(3, 3, 3), dim=1),
    "argmin": op("argmin", array(3, 3, 3), dim=0),
    "reduce_and": op("reduce_and", array(3, 3, 3) > -1, dims=(1,)),
    "reduce_or": op("reduce_or", array(3, 3, 3) > 1, dims=(0,)),
    "window_argmax": op(
        "window_argmax", array(4, 4), results=2, window=(2, 2), strides=(2, 1), pad_low=(1, 0)
    ),
    "dim_size": op("dim_size", array(2, 3), dim=1),
    "dynamic_slice": CASES["dynamic_slice"],
    "dynamic_update_slice": CASES["dynamic_update_slice"],
    "barrier": CASES["barrier"],
    "assert": CASES["assert"],
    "sort": CASES["sort"],
    "dot_general": CASES["dot_general"],
    "dot_general of rows": op("dot_general", array(3, 3), array(3, 3), a_batch=(0,), b_batch=(1,)),
    "gather windows": CASES["gather windows"],
    "scatter windows": CASES["scatter windows"],
    "scatter max": CASES["scatter max"],
    "sort equal": CASES["sort equal"],
}
NOT_BATCHED = {"compress"}  # the extent of its result would differ


def split(name):
    """The function of its floats alone, and these."""
    function, given = CASES[name]
    floats = [i for i, a in enumerate(given) if a is not None and a.dtype == np.float64]

    def of_floats(*arrays):
        whole = list(given)
        for i, a in zip(floats, arrays):
            whole[i] = a
        return function(*whole)

    return of_floats, [given[i] for i in floats]


def parts(result):
    return [np.asarray(r) for r in (result if isinstance(result, tuple) else (result,))]


def arrays(values):
    return tuple(xp.asarray(v) for v in values)


def moved(values, directions, step):
    return arrays(v + step * d for v, d in zip(values, directions))


def dot(a, b):
    return sum(float(np.sum(x * y)) for x, y in zip(a, b))


@pytest.mark.parametrize("name", CASES)
def test_tangents_and_cotangents(name):
    function, given = split(name)
    tangents = [RANDOM.standard_normal(a.shape) for a in given]
    out, along = map(parts, jvp(function, arrays(given), arrays(tangents)))
    call = tenon.compile(function)
    up, down = (parts(call(*moved(given, tangents, h))) for h in (1e-5, -1e-5))
    for got, a, b in zip(along, up, down):
        np.testing.assert_allclose(got, (a - b) / 2e-5, rtol=1e-6, atol=1e-7)
    cotangents = [RANDOM.standard_normal(y.shape) for y in out]
    pulled = vjp(function, *arrays(given))[1](
        arrays(cotangents) if len(out) > 1 else xp.asarray(cotangents[0])
    )
    left, right = dot(cotangents, along), dot(map(np.asarray, pulled), tangents)
    assert abs(left - right) <= 1e-11 * max(1, abs(left))


@pytest.mark.parametrize("name", CASES)
def test_second_order(name):
    function, given = split(name)

    def total(*arrays):
        out = function(*arrays)
        return sum(
            (xp.sum(xp.sin(y)) for y in (out if isinstance(out, tuple) else (out,))),
            xp.asarray(0.0, dtype=xp.float64),
        )

    slope = grad(total, tuple(range(len(given))))
    tangents = [RANDOM.standard_normal(a.shape) for a in given]
    along = jvp(slope, arrays(given), arrays(tangents))[1]
    up, down = (slope(*moved(given, tangents, h)) for h in (1e-5, -1e-5))
    for got, a, b in zip(along, up, down):
        np.testing.assert_allclose(
            np.asarray(got), (np.asarray(a) - np.asarray(b)) / 2e-5, rtol=1e-5, atol=1e-6
        )


@pytest.mark.parametrize("name", [name for name in CASES if name not in NOT_BATCHED])
def test_samples(name):
    function, given = split(name)
    many = [np.stack([a, a * 1.5 + 0.1, a * 0.5]) for a in given]
    call = tenon.compile(function)
    for axes in ((0,) * len(given), (0,) + (None,) * (len(given) - 1)):
        lanes = [[a[i] if x == 0 else b for a, b, x in zip(many, given, axes)] for i in range(3)]
        got = parts(
            vmap(function, axes)(*arrays(a if x == 0 else b for a, b, x in zip(many, given, axes)))
        )
        wanted = [parts(call(*arrays(lane))) for lane in lanes]
        for r, y in enumerate(got):
            np.testing.assert_allclose(y, np.stack([w[r] for w in wanted]), rtol=1e-11, atol=1e-12)


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


def slope_at(function, *given):
    return [
        np.asarray(g)
        for g in grad(lambda *a: xp.sum(function(*a)), tuple(range(len(given))))(*arrays(given))
    ]


def test_points_where_a_formula_divides_by_zero():
    zero = np.zeros((1, 3))
    for name, attrs in (
        ("std", {"dims": (1,)}),
        ("norm", {"dims": (1,)}),
        ("norm", {"dims": (1,), "p": 3.0}),
    ):
        function, _ = op(name, **attrs)
        assert (slope_at(function, zero)[0] == 0).all(), name
    function, _ = op("std", dims=(1,))
    assert np.isfinite(slope_at(function, EQUAL)[0]).all()
    function, _ = op("l2_normalize", dims=(1,), epsilon=0.0)
    assert (slope_at(function, zero)[0] == 0).all()
    function, _ = op("lp_pool", window=(2,), p=0.5)
    assert np.isfinite(slope_at(function, np.array([[[0.0, 1.0, 0.0, 0.0]]]))[0]).all()
    function, _ = op("logsumexp", dims=(1,))
    assert (slope_at(function, np.full((1, 3), -np.inf))[0] == 0).all()


def test_equal_extremes_share_the_derivative():
    x = np.array([[1.0, 3.0, 3.0], [1.0, 1.0, 3.0]])
    for name, wanted in (
        ("reduce_max", [[0, 0.5, 0.5], [0, 0, 1]]),
        ("reduce_min", [[1, 0, 0], [0.5, 0.5, 0]]),
    ):
        assert (slope_at(op(name, dims=(1,))[0], x)[0] == wanted).all(), name


def test_running_extremes_of_nan():
    """From the first NaN on the result is that element."""
    x = np.array([2.0, 1.0, np.nan, 0.0])
    for name, wanted in (("cummax", [2, 0, 2, 0]), ("cummin", [1, 1, 2, 0])):
        assert (slope_at(op(name, dim=0)[0], x)[0] == wanted).all(), name


def test_det_of_a_singular_matrix():
    """Its derivative is the matrix of cofactors."""
    for a in ([[1.0, 2, 3], [4, 5, 6], [5, 7, 9]], [[0.0, 1], [0, 2]], [[1.0, 2], [2, 4]]):
        a = np.array(a)
        n = len(a)
        minor = [
            [np.linalg.det(np.delete(np.delete(a, i, 0), j, 1)) * (-1) ** (i + j) for j in range(n)]
            for i in range(n)
        ]
        got = np.asarray(grad(op("det")[0])(xp.asarray(a)))
        np.testing.assert_allclose(got, minor, rtol=1e-9, atol=1e-9)


def test_stop_gradient():
    function, _ = op("stop_gradient")
    x = np.array([1.0, -2.0])
    assert (slope_at(function, x)[0] == 0).all()
    assert (slope_at(lambda x: function(x) * x, x)[0] == x).all()


def test_attention_in_blocks():
    """With scores too many for one block: the same as whole."""
    q, k, v = array(2, 2, 512, 2), array(2, 2, 1100, 2), array(2, 2, 1100, 2)
    function, _ = op("sdpa", causal="first")
    g = array(2, 2, 512, 2)
    pulled = vjp(function, *arrays((q, k, v)))[1](xp.asarray(g))
    tangents = [RANDOM.standard_normal(a.shape) for a in (q, k, v)]
    along = np.asarray(jvp(function, arrays((q, k, v)), arrays(tangents))[1])
    left, right = dot([g], [along]), dot(map(np.asarray, pulled), tangents)
    assert abs(left - right) <= 1e-10 * abs(left)
