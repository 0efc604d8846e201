"""Derivatives and samples of composite ops with rules of their own, in f64 and c128.

Tangents against central differences, cotangents against tangents, second derivatives against
differences of gradients, samples against a loop.
"""

from __future__ import annotations

import zlib

import numpy as np
import pytest
import tenon
from tenon import grad, jvp, vjp, vmap, xp
from tenon.builder import dtypes as dt
from tenon.builder import ops
from tenon.builder.trace import DIMS, emit
from tenon.xp._array import Array, value_of

RANDOM = np.random.default_rng(7)


def array(*shape):
    return RANDOM.standard_normal(shape)


def complex_array(*shape):
    return array(*shape) + 1j * array(*shape)


def like(a):
    """Random numbers of the type of an array."""
    return complex_array(*a.shape) if np.iscomplexobj(a) else array(*a.shape)


def op(name, *given, results=1, lists=None, **attrs):
    """A function of arrays that is one op. given: None where an operand is absent. lists: attributes
    that are sizes."""

    def run(*arrays):
        values = [None if a is None else value_of(xp.asarray(a)) for a in arrays]
        sizes = [(k, DIMS, v) for k, v in (lists or {}).items()]
        out = emit(name, values, (*ops.attrs(**attrs), *sizes))[:results]
        return tuple(Array(v) for v in out) if results > 1 else Array(out[0])

    run.__name__ = name
    return run, list(given)


def chain(*functions):
    """A function of arrays: the first of several, and the others of its result."""

    def run(*arrays):
        first, *others = functions
        y = first(*arrays)
        for f in others:
            y = f(y)
        return y

    return run


def hermitian(a):
    return xp.matmul(a, xp.conj(xp.matrix_transpose(a)))


def spectral(kind):
    """What does not depend on the free factors of eigenvectors: projections onto the largest."""

    def run(a):
        if kind == "eig":
            w, v = op("eig", results=2)[0](a)
            weights = xp.expand_dims(xp.exp(w * 0.3), axis=-2)  # a function of the matrix
            return xp.matmul(v * weights, xp.linalg.inv(v))
        if kind == "eigh":
            w, v = op("eigh", results=2)[0](hermitian(a))
            one = v[..., :, -1:]
            return w, xp.matmul(one, xp.conj(xp.matrix_transpose(one)))
        u, s, vh = op("svd", results=3)[0](a)
        return s, xp.matmul(u[..., :, :2], vh[..., :2, :])

    return run


CLASSES = np.array([[2, 0, 1], [1, 1, 2]])
MATRIX = array(2, 3, 3) + 2 * np.eye(3)
EQUAL = np.array([[1.0, 1.0, 1.0], [0.0, 2.0, 5.0]])
COMPLEX = complex_array(2, 3, 3) + 2 * np.eye(3)
COMPLEX_CASES = {
    "abs": op("abs", complex_array(2, 3)),
    "angle": op("angle", complex_array(2, 3)),
    "sign": op("sign", complex_array(2, 3)),
    "conj": op("conj", complex_array(2, 3)),
    "real": op("real", complex_array(2, 3)),
    "imag": op("imag", complex_array(2, 3)),
    "complex": op("complex", array(2, 3), array(2, 3)),
    "to complex": op("convert", array(2, 3), dtype=xp.complex128),
    "pow complex": op("pow", complex_array(2, 3) + 4, complex_array(2, 3)),
    "div complex": op("div", complex_array(2, 3), complex_array(2, 3) + 4),
    "asin": op("asin", complex_array(3)),
    "atan": op("atan", complex_array(3)),
    "asinh": op("asinh", complex_array(3)),
    "acosh": op("acosh", complex_array(3)),
    "atanh": op("atanh", complex_array(3)),
    "mean complex": op("mean", complex_array(2, 3), dims=(1,)),
    "reduce_prod complex": op("reduce_prod", complex_array(2, 3), dims=(1,)),
    "cumprod complex": op("cumprod", complex_array(2, 3), dim=1, reverse=1, exclusive=1),
    "dot_general complex": op(
        "dot_general", complex_array(2, 3, 4), complex_array(4, 2), a_contract=(0, 2), b_contract=(1, 0)
    ),
    "matmul complex": op("matmul", complex_array(2, 1, 2, 3), complex_array(4, 3, 2)),
    "einsum complex": op("einsum", complex_array(2, 3), complex_array(3, 2), equation="ij,ji->i"),
    "roll complex": op("roll", complex_array(2, 3), dims=(1,), shifts=(2,)),
    "tile complex": op("tile", complex_array(2, 3), lists={"repeats": (2, 1)}),
    "take complex": op("take", complex_array(4, 3), np.array([3, 0, 3]), dim=0),
    "take_along complex": op("take_along", complex_array(2, 3), np.array([[2, 2], [0, 1]]), dim=1),
    "embedding complex": op("embedding", complex_array(5, 3), np.array([[0, 4], [4, 2]])),
    "scatter_elements complex": op(
        "scatter_elements", complex_array(3, 2), np.array([[2, 0], [2, 1]]), complex_array(2, 2),
        dim=0, kind="add",
    ),
    "scatter complex": op(
        "scatter", complex_array(4), np.array([[1], [1], [3]]), complex_array(3),
        index_map=(0,), inserted_dims=(0,), index_vector_dim=1,
    ),
    "index_put complex": op(
        "index_put", complex_array(4), complex_array(3), np.array([1, 0, 3]),
    ),
    "pixel_shuffle complex": op("pixel_shuffle", complex_array(1, 4, 2, 2), factor=2),
    "resize complex": op("resize", complex_array(1, 2, 3, 3), lists={"sizes": (1, 2, 5, 4)}),
    "sort complex": op("sort", array(2, 4), complex_array(2, 4), results=2, dim=1),
    "diagonal complex": op("diagonal", complex_array(3, 2, 3), dim1=0, dim2=2),
    "tril_triu complex": op("tril_triu", complex_array(3, 3)),
    "fft": op("fft", complex_array(2, 3, 4), dims=(1, 2), lengths=(3, 4), norm="ortho"),
    "ifft": op("fft", complex_array(2, 5), kind="ifft", dims=(1,), lengths=(5,)),
    "rfft even": op("fft", array(2, 6), kind="rfft", dims=(0, 1), lengths=(2, 6), norm="forward"),
    "rfft odd": op("fft", array(2, 5), kind="rfft", dims=(1,), lengths=(5,)),
    "irfft even": op("fft", complex_array(2, 4), kind="irfft", dims=(0, 1), lengths=(2, 6)),
    "irfft odd": op("fft", complex_array(2, 3), kind="irfft", dims=(1,), lengths=(5,), norm="forward"),
    "cholesky complex": (chain(hermitian, op("cholesky")[0]), [COMPLEX]),
    "cholesky complex upper": (chain(hermitian, op("cholesky", upper=1)[0]), [COMPLEX]),
    **{
        f"triangular_solve {form} {upper}{unit}": op(
            "triangular_solve", COMPLEX + 3 * np.eye(3), complex_array(2, 3, 2), form=form, upper=upper, unit=unit
        )
        for form in ("plain", "transposed", "adjoint") for upper in (0, 1) for unit in (0, 1)
    },
    "solve complex": op("solve", COMPLEX, complex_array(2, 3, 2)),
    "inv complex": op("inv", COMPLEX),
    "det complex": op("det", COMPLEX),
    "slogdet complex": op("slogdet", COMPLEX, results=2),
    "lu complex": op("lu", complex_array(2, 4, 3), results=1),
    "lu complex wide": op("lu", complex_array(2, 3, 4), results=1),
    "qr complex": op("qr", complex_array(4, 3), results=2),
    "qr complex wide": op("qr", complex_array(2, 3), results=2),
    "eigh complex": (spectral("eigh"), [COMPLEX]),
    "eig": (spectral("eig"), [array(2, 3, 3)]),
    "eig complex": (spectral("eig"), [COMPLEX]),
    "svd": (spectral("svd"), [array(4, 3)]),
    "svd complex": (spectral("svd"), [complex_array(4, 3)]),
    "svd complex wide": (spectral("svd"), [complex_array(2, 3, 4)]),
}  # fmt: skip
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
    **COMPLEX_CASES,
    "conv_transpose": op("conv_transpose", array(2, 3, 4), array(3, 2, 3), array(2), strides=(2,)),
    "depthwise_conv": op(
        "depthwise_conv", array(2, 3, 5), array(6, 1, 3), array(6), strides=(2,), pad_low=(1,)
    ),
    "conv_bn_act": op(
        "conv_bn_act", array(2, 4, 5), array(6, 2, 3), array(6), array(6), array(6),
        array(6) ** 2 + 0.5, groups=2, pad_high=(1,), activation="silu",
    ),
    "im2col": op("im2col", array(2, 2, 4, 5), window=(2, 3), strides=(1, 2), pad_low=(1, 0)),
    "col2im": op(
        "col2im", array(2, 12, 8), window=(2, 3), strides=(1, 2), pad_low=(1, 0),
        lists={"image": (4, 5)},
    ),
    "pixel_shuffle": op("pixel_shuffle", array(2, 8, 2, 3), factor=2, order="blocks_first"),
    "take_along": op("take_along", array(2, 4), np.array([[3, 0, 0], [1, 5, -1]]), dim=1),
    "take_along fill": op(
        "take_along", array(2, 4), np.array([[3, 0, 0], [1, 5, -1]]), dim=1, mode="fill"
    ),
    "roi_align": op(
        "roi_align", array(2, 3, 5, 6), np.array([[0.3, 1.2, 4.1, 3.9], [-2.0, 0.4, 7.5, 6.0]]),
        np.array([1, 0]), sizes=(2, 3), samples=2, scale=0.9,
    ),
    "roi_align small": op(
        "roi_align", array(1, 1, 5, 6), np.array([[0.3, 1.2, 0.7, 1.5], [1.1, 0.3, 4.3, 2.8]]),
        np.array([0, 0]), sizes=(2, 2), samples=1, half_pixel=0,
    ),
    "split": op("split", array(2, 5), results=2, dim=1, lists={"sizes": (2, 3)}),
    **{
        f"scatter_elements {kind}": op(
            "scatter_elements", array(2, 4), np.array([[3, 0, 0], [1, 5, 1]]), array(2, 3), dim=1,
            kind=kind,
        )
        for kind in ("set", "add", "mul", "max")
    },
}  # fmt: skip


def split(name):
    """The function of its floats alone, and these. What a test draws depends on the name alone."""
    RANDOM.bit_generator.state = np.random.PCG64(zlib.crc32(name.encode())).state
    function, given = CASES[name]
    floats = [i for i, a in enumerate(given) if a is not None and a.dtype.kind in "fc"]

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
    """Of complex numbers the real part of the sum of conj(a) b."""
    return sum(float(np.sum(np.conj(x) * y).real) for x, y in zip(a, b))


@pytest.mark.parametrize("name", CASES)
def test_tangents_and_cotangents(name):
    function, given = split(name)
    tangents = [like(a) for a in given]
    out, along = map(parts, jvp(function, arrays(given), arrays(tangents)))
    call = tenon.compile(function)
    up, down = (parts(call(*moved(given, tangents, h))) for h in (1e-5, -1e-5))
    for got, a, b in zip(along, up, down):
        np.testing.assert_allclose(got, (a - b) / 2e-5, rtol=1e-6, atol=1e-7)
    cotangents = [like(y) for y in out]
    pulled = vjp(function, *arrays(given))[1](
        arrays(cotangents) if len(out) > 1 else xp.asarray(cotangents[0])
    )
    left, right = dot(cotangents, along), dot(map(np.asarray, pulled), tangents)
    assert abs(left - right) <= 1e-11 * max(1, abs(left))


def number_of(y):
    """Real numbers of y. Of complex ones both parts count, so that y need not be holomorphic."""
    return xp.sin(xp.real(y)) + xp.cos(xp.imag(y)) if "complex" in y.dtype.name else xp.sin(y)


@pytest.mark.parametrize("name", CASES)
def test_second_order(name):
    function, given = split(name)

    def total(*arrays):
        out = function(*arrays)
        parts = [xp.sum(number_of(y)) for y in (out if isinstance(out, tuple) else (out,))]
        return sum(parts, xp.asarray(0.0, dtype=xp.float64))

    slope = grad(total, tuple(range(len(given))))
    tangents = [like(a) for a in given]
    along = jvp(slope, arrays(given), arrays(tangents))[1]
    up, down = (slope(*moved(given, tangents, h)) for h in (1e-5, -1e-5))
    for got, a, b in zip(along, up, down):
        np.testing.assert_allclose(
            np.asarray(got), (np.asarray(a) - np.asarray(b)) / 2e-5, rtol=1e-5, atol=1e-6
        )


@pytest.mark.parametrize("name", CASES)
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


# Functions of integers, each of which has samples.
OF_INTEGERS = {
    "one_hot": (op("one_hot", lists={"depth": (4,)}, dtype=dt.float64)[0], [(2, 3)]),
    "take_along": (
        lambda i: op("take_along", dim=1)[0](np.arange(8.0).reshape(2, 4), i),
        [(2, 3)],
    ),
    "scatter_elements": (
        lambda i, j: op("scatter_elements", dim=1, kind="add")[0](j, i, np.ones((2, 3), int)),
        [(2, 3), (2, 4)],
    ),
    "split": (op("split", results=2, dim=1, lists={"sizes": (2, 3)})[0], [(2, 5)]),
    "pixel_shuffle": (op("pixel_shuffle", factor=2)[0], [(1, 4, 2, 2)]),
    "im2col": (op("im2col", window=(2,))[0], [(1, 2, 4)]),
    "embedding": (lambda i: op("embedding")[0](np.arange(8.0).reshape(4, 2), i), [(2, 3)]),
}


@pytest.mark.parametrize("name", OF_INTEGERS)
def test_samples_of_integers(name):
    function, shapes = OF_INTEGERS[name]
    many = [RANDOM.integers(0, 4, (3, *shape)) for shape in shapes]
    got = parts(vmap(function)(*arrays(many)))
    wanted = [parts(function(*arrays(a[k] for a in many))) for k in range(3)]
    for r, y in enumerate(got):
        assert (y == np.stack([w[r] for w in wanted])).all()


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
    function, _ = op("logsumexp", dims=(1,))
    assert (slope_at(function, np.full((1, 3), -np.inf))[0] == 0).all()


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


def test_roi_align_where_regions_count_places():
    function, given = op("roi_align", array(1, 1, 4, 4), array(1, 4), np.array([0]), sizes=(2, 2))
    with pytest.raises(tenon.Error, match="T0410: roi_align.*samples"):
        grad(lambda x: xp.sum(function(x, *given[1:])))(xp.asarray(given[0]))
    x = xp.asarray(np.stack([given[0], 2 * given[0]]))
    many = vmap(lambda x: function(x, *given[1:]))(x)
    np.testing.assert_allclose(np.asarray(many[1, ...]), 2 * np.asarray(many[0, ...]), rtol=1e-12)
    outside = vmap(lambda x: function(x, given[1], np.array([1])))
    with pytest.raises(tenon.Error, match="names the batch -1"):
        np.asarray(outside(x))


def test_stop_gradient():
    function, _ = op("stop_gradient")
    x = np.array([1.0, -2.0])
    assert (slope_at(function, x)[0] == 0).all()
    assert (slope_at(lambda x: function(x) * x, x)[0] == x).all()
    z = np.array([1 + 2j, -3j])
    assert (slope_at(lambda z: xp.real(function(z) * z), z)[0] == z.conj()).all()


def test_zero_has_no_direction():
    """The derivatives of abs, angle and sign at 0 are 0."""
    zero = np.zeros(2, np.complex128)
    for name in ("abs", "angle", "sign"):
        function, _ = op(name)
        assert (slope_at(lambda z: xp.real(function(z)), zero)[0] == 0).all(), name


def test_numbers_at_the_end_of_the_range():
    """The squares of these overflow."""
    z = np.array([3e200 + 4e200j])
    wanted = {"abs": 0.6 + 0.8j, "atan": 0, "asinh": (1 / z[0]).conjugate()}
    for name, slope in wanted.items():
        function, _ = op(name)
        got = slope_at(lambda z: xp.real(function(z)), z)[0]
        np.testing.assert_allclose(got, [slope], rtol=1e-14, atol=1e-300, err_msg=name)


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
