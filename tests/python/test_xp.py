"""tenon.xp against NumPy: every function, over types and shapes, with empty arrays and odd values."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tenon import xp

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

FLOATS = ["float32", "float64"]
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
NUMERIC = INTEGERS + FLOATS
ALL = ["bool", *NUMERIC]
BITS = ["bool", *INTEGERS]
SHAPES = [(), (0,), (7,), (2, 0, 3), (2, 3)]
SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, -2.5, 3.7, 1e30, -1e-30]


def sample(dtype: str, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Values with those that are special, in random order."""
    rng = np.random.default_rng(seed + len(shape))
    count = int(np.prod(shape))
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype in FLOATS:
        values = np.concatenate([rng.permutation(SPECIAL), rng.normal(0, 3, count)])
        return rng.permutation(values[: max(count, 1)])[:count].reshape(shape).astype(dtype)
    low = 0 if dtype.startswith("u") else -9
    return rng.integers(low, 10, shape).astype(dtype)


def same(mine: Any, expected: Any, ulps: int = 0, rtol: float = 0.0) -> None:
    """Type, shape and values; floats within some units of the last place."""
    expected = np.asarray(expected)
    assert mine.shape == expected.shape
    assert mine.dtype.name == expected.dtype.name
    got = np.asarray(mine)
    if expected.dtype.kind != "f":
        np.testing.assert_array_equal(got, expected)
        return
    eps = np.finfo(expected.dtype).eps
    np.testing.assert_allclose(got, expected, rtol=max(ulps * eps, rtol), atol=ulps * eps)


def check(
    name: str, reference: Callable[..., Any], *arrays: np.ndarray, ulps: int = 0, **k: Any
) -> None:
    same(getattr(xp, name)(*map(xp.asarray, arrays), **k), reference(*arrays), ulps)


# ---- Elementwise ----

UNARY = {
    "float": ["acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "exp", "expm1",
              "log", "log1p", "log2", "log10", "sin", "sinh", "sqrt", "tan", "tanh", "reciprocal",
              "signbit"],
    "numeric": ["abs", "negative", "sign", "square", "positive", "ceil", "floor", "trunc", "round",
                "isfinite", "isinf", "isnan", "real", "conj"],
    "bits": ["bitwise_invert"],
    "bool": ["logical_not"],
}  # fmt: skip
TYPES = {"float": FLOATS, "numeric": NUMERIC, "bits": BITS, "bool": ["bool"], "integer": INTEGERS,
         "any": ALL}  # fmt: skip
BINARY = {
    "numeric": ["add", "subtract", "multiply", "maximum", "minimum", "equal", "not_equal", "less",
                "less_equal", "greater", "greater_equal"],
    "float": ["divide", "atan2", "hypot", "copysign", "nextafter", "logaddexp"],
    "bits": ["bitwise_and", "bitwise_or", "bitwise_xor"],
    "bool": ["logical_and", "logical_or", "logical_xor", "equal", "not_equal"],
}  # fmt: skip


def cases(table: dict[str, list[str]]) -> list[Any]:
    return [
        pytest.param(name, dtype, id=f"{name}-{dtype}")
        for kind, names in table.items()
        for name in names
        for dtype in TYPES[kind]
    ]


@pytest.mark.parametrize(("name", "dtype"), cases(UNARY))
def test_unary(name: str, dtype: str) -> None:
    if name == "positive" and dtype == "bool":
        return
    for shape in SHAPES:
        x = sample(dtype, shape)
        mine = getattr(xp, name)(xp.asarray(x))
        if dtype not in FLOATS and name in ("ceil", "floor", "trunc", "round"):
            same(mine, x)
        else:
            same(mine, np.asarray(getattr(np, name)(x)), ulps=4)


@pytest.mark.parametrize(("name", "dtype"), cases(BINARY))
def test_binary(name: str, dtype: str) -> None:
    for a, b in [((), ()), ((12,), (12,)), ((3, 1), (1, 4)), ((0,), ()), ((2, 3), (3,))]:
        x, y = sample(dtype, a, 1), sample(dtype, b, 2)
        same(
            getattr(xp, name)(xp.asarray(x), xp.asarray(y)),
            np.asarray(getattr(np, name)(x, y)),
            ulps=4,
        )


@pytest.mark.parametrize("dtype", NUMERIC)
@pytest.mark.parametrize("name", ["floor_divide", "remainder"])
def test_divisions(name: str, dtype: str) -> None:
    x = np.array([-7, -6, -1, 0, 1, 5, 6, 7]).astype("i8")
    x = np.abs(x).astype(dtype) if dtype.startswith("u") else x.astype(dtype)
    for divisor in (1, 2, 3, 5) if dtype.startswith("u") else (-3, -2, 1, 2, 3):
        y = np.full(x.shape, divisor, dtype)
        check(name, getattr(np, name), x, y)


@pytest.mark.parametrize("dtype", NUMERIC)
def test_pow(dtype: str) -> None:
    x = np.array([0, 1, 2, 3, 2, 3]).astype(dtype)
    check("pow", np.power, x, np.array([0, 5, 3, 2, 6, 0]).astype(dtype), ulps=4)


def test_pow_of_odd_values() -> None:
    for x in SPECIAL:
        y = np.array(SPECIAL, "f8")
        check("pow", np.power, np.full(y.shape, x), y, ulps=8)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_shifts(dtype: str) -> None:
    x, y = sample(dtype, (9,)), np.arange(9).astype(dtype) % 7
    check("bitwise_left_shift", np.left_shift, x, y)
    check("bitwise_right_shift", np.right_shift, x, y)


@pytest.mark.parametrize("dtype", NUMERIC)
def test_clip(dtype: str) -> None:
    x = sample(dtype, (12,))
    low, high = np.asarray(1, dtype), np.asarray(4, dtype)
    same(xp.clip(xp.asarray(x), 1, 4), np.clip(x, low, high))
    same(xp.clip(xp.asarray(x), max=xp.asarray(high)), np.minimum(x, high))
    same(xp.clip(xp.asarray(x)), x)


# ---- Reductions ----

AXES: list[Any] = [None, 0, -1, (0, 2), ()]


@pytest.mark.parametrize("dtype", NUMERIC)
@pytest.mark.parametrize("name", ["sum", "prod", "max", "min"])
def test_reductions(name: str, dtype: str) -> None:
    x = np.abs(sample(dtype, (2, 3, 4))) % 3
    x = np.nan_to_num(x).astype(dtype)
    for axis in AXES:
        for keep in (False, True):
            mine = getattr(xp, name)(xp.asarray(x), axis=axis, keepdims=keep)
            same(mine, np.asarray(getattr(np, name)(x, axis=axis, keepdims=keep)), ulps=8)
    same(getattr(xp, name)(xp.asarray(x[0, 0, 0])), np.asarray(getattr(np, name)(x[0, 0, 0])))


@pytest.mark.parametrize("dtype", FLOATS)
def test_statistics(dtype: str) -> None:
    x = np.random.default_rng(1).normal(5, 2, (2, 3, 4)).astype(dtype)
    for axis in AXES[:4]:
        same(xp.mean(xp.asarray(x), axis=axis), np.mean(x, axis=axis), ulps=16)
        for c in (0, 1, 0.5):
            for name in ("var", "std"):
                mine = getattr(xp, name)(xp.asarray(x), axis=axis, correction=c, keepdims=True)
                same(mine, getattr(np, name)(x, axis=axis, ddof=c, keepdims=True), ulps=64)


def test_reductions_of_odd_values() -> None:
    x = np.array([[1, np.nan, 3], [np.inf, 2, -np.inf], [1, np.inf, 2]], "f4")
    for name in ("sum", "prod", "max", "min", "mean", "var", "any", "all"):
        same(getattr(xp, name)(xp.asarray(x), axis=1), getattr(np, name)(x, axis=1), ulps=4)


def test_reductions_over_nothing() -> None:
    x = np.zeros((2, 0, 3), "f4")
    for name in ("sum", "prod", "any", "all"):
        same(getattr(xp, name)(xp.asarray(x), axis=1), getattr(np, name)(x, axis=1))
        same(getattr(xp, name)(xp.asarray(x)), np.asarray(getattr(np, name)(x)))
    same(xp.mean(xp.asarray(x), axis=1), np.full((2, 3), np.nan, "f4"))
    for name in ("max", "min", "argmax", "argmin"):
        with pytest.raises(ValueError, match="empty"):
            getattr(xp, name)(xp.asarray(x), axis=1)
    same(xp.max(xp.asarray(x), axis=0), np.zeros((0, 3), "f4"))


@pytest.mark.parametrize("dtype", ALL)
def test_truth(dtype: str) -> None:
    for shape in SHAPES:
        x = sample(dtype, shape)
        for name in ("all", "any", "count_nonzero"):
            same(getattr(xp, name)(xp.asarray(x)), np.asarray(getattr(np, name)(x)))
    x = sample(dtype, (3, 4))
    same(
        xp.count_nonzero(xp.asarray(x), axis=0, keepdims=True),
        np.count_nonzero(x, axis=0, keepdims=True),
    )


@pytest.mark.parametrize("dtype", NUMERIC)
def test_running(dtype: str) -> None:
    x = (np.nan_to_num(sample(dtype, (3, 4))) % 3).astype(dtype)
    for mine, theirs in (
        (xp.cumulative_sum, np.cumulative_sum),
        (xp.cumulative_prod, np.cumulative_prod),
    ):
        for initial in (False, True):
            same(mine(xp.asarray(x), axis=1, include_initial=initial),
                 theirs(x, axis=1, include_initial=initial), ulps=8)  # fmt: skip
    same(xp.cumulative_sum(xp.asarray(x[0])), np.cumulative_sum(x[0]), ulps=8)
    same(xp.diff(xp.asarray(x), axis=0), np.diff(x, axis=0), ulps=4)
    same(xp.diff(xp.asarray(x), n=2, prepend=xp.asarray(x), append=xp.asarray(x)),
         np.diff(x, n=2, prepend=x, append=x), ulps=4)  # fmt: skip


# ---- Searching, sorting, sets ----


@pytest.mark.parametrize("dtype", NUMERIC)
def test_searching(dtype: str) -> None:
    x = sample(dtype, (5, 6))
    for axis in (None, 0, -1):
        same(xp.argmax(xp.asarray(x), axis=axis), np.argmax(x, axis=axis))
        same(
            xp.argmin(xp.asarray(x), axis=axis, keepdims=True),
            np.argmin(x, axis=axis, keepdims=True),
        )
    for mine, theirs in zip(xp.nonzero(xp.asarray(x)), np.nonzero(x)):
        same(mine, theirs)
    p = sample("bool", (5, 1))
    same(xp.where(xp.asarray(p), xp.asarray(x), xp.asarray(x[0])), np.where(p, x, x[0]))
    known = np.sort(np.nan_to_num(x[0]).astype(dtype))
    for side in ("left", "right"):
        same(
            xp.searchsorted(xp.asarray(known), xp.asarray(x), side=side),
            np.searchsorted(known, x, side=side),
        )


@pytest.mark.parametrize("dtype", NUMERIC)
def test_sorting(dtype: str) -> None:
    for shape in [(0,), (1,), (9,), (3, 5), (2, 0, 3)]:
        x = sample(dtype, shape)
        same(xp.sort(xp.asarray(x)), np.sort(x))
        same(xp.argsort(xp.asarray(x), axis=0), np.argsort(x, axis=0, stable=True))
        if dtype not in FLOATS:
            same(xp.sort(xp.asarray(x), descending=True), np.flip(np.sort(x), axis=-1))


@pytest.mark.parametrize("dtype", ALL)
def test_sets(dtype: str) -> None:
    for shape in [(), (0,), (9,), (3, 5)]:
        x = sample(dtype, shape)
        mine, theirs = xp.unique_all(xp.asarray(x)), np.unique_all(x)
        for a, b in zip(mine, theirs):
            same(a, b)
        same(xp.unique_values(xp.asarray(x)), np.sort(np.unique_values(x)))
        same(xp.unique_counts(xp.asarray(x)).counts, theirs.counts)
        same(xp.unique_inverse(xp.asarray(x)).inverse_indices, theirs.inverse_indices)
        y = sample(dtype, (4,), 5)
        same(xp.isin(xp.asarray(x), xp.asarray(y)), np.asarray(np.isin(x, y)))
        same(
            xp.isin(xp.asarray(x), xp.asarray(y), invert=True),
            np.asarray(np.isin(x, y, invert=True)),
        )


# ---- Shapes ----


@pytest.mark.parametrize("dtype", ALL)
def test_shapes(dtype: str) -> None:
    for shape in [(2, 3, 4), (2, 0, 4), (1, 3, 1)]:
        x = sample(dtype, shape)
        m = xp.asarray(x)
        same(xp.reshape(m, (-1, 3) if x.size else (0, 5)), x.reshape((-1, 3) if x.size else (0, 5)))
        same(xp.permute_dims(m, (2, 0, 1)), x.transpose(2, 0, 1))
        same(xp.moveaxis(m, (0, 1), (-1, 0)), np.moveaxis(x, (0, 1), (-1, 0)))
        same(xp.flip(m), np.flip(x))
        same(xp.flip(m, axis=(0, -1)), np.flip(x, axis=(0, -1)))
        same(xp.roll(m, 3), np.roll(x, 3))
        same(xp.roll(m, (1, -2), axis=(0, 2)), np.roll(x, (1, -2), axis=(0, 2)))
        same(xp.concat([m, m], axis=-1), np.concatenate([x, x], axis=-1))
        same(xp.concat([m, m], axis=None), np.concatenate([x, x], axis=None))
        same(xp.stack([m, m], axis=1), np.stack([x, x], axis=1))
        for a, b in zip(xp.unstack(m, axis=2), np.unstack(x, axis=2), strict=True):
            same(a, b)
        same(xp.expand_dims(m, axis=-2), np.expand_dims(x, -2))
        same(xp.tile(m, (2, 1, 2)), np.tile(x, (2, 1, 2)))
        same(xp.tile(m, (2,)), np.tile(x, (2,)))
        same(xp.repeat(m, 3, axis=1), np.repeat(x, 3, axis=1))
        same(xp.repeat(m, 2), np.repeat(x, 2))
        same(xp.broadcast_to(m, (5, *shape)), np.broadcast_to(x, (5, *shape)))
        same(m.mT, x.mT)
    x = sample(dtype, (3, 1))
    same(xp.squeeze(xp.asarray(x), axis=1), x.squeeze(1))
    same(xp.repeat(xp.asarray(x), xp.asarray([2, 0, 3]), axis=0), np.repeat(x, [2, 0, 3], axis=0))
    for a, b in zip(
        xp.broadcast_arrays(xp.asarray(x), xp.asarray(x[:, 0])), np.broadcast_arrays(x, x[:, 0])
    ):
        same(a, b)
    assert xp.broadcast_shapes((3, 1), (4,), ()) == (3, 4)


# ---- Creation ----


@pytest.mark.parametrize("dtype", NUMERIC)
def test_creation(dtype: str) -> None:
    d = getattr(xp, dtype)
    same(xp.arange(1, 9, 3, dtype=d), np.arange(1, 9, 3, dtype=dtype))
    same(xp.arange(5, 0, -2, dtype=d), np.arange(5, 0, -2, dtype=dtype))
    same(xp.arange(3, 3, dtype=d), np.arange(3, 3, dtype=dtype))
    same(xp.full((2, 3), 7, dtype=d), np.full((2, 3), 7, dtype))
    same(xp.zeros((0, 3), dtype=d), np.zeros((0, 3), dtype))
    same(xp.ones((), dtype=d), np.ones((), dtype))
    same(xp.eye(3, 4, k=-1, dtype=d), np.eye(3, 4, k=-1, dtype=dtype))
    x = sample(dtype, (3, 4))
    for k in (-1, 0, 2):
        same(xp.tril(xp.asarray(x), k=k), np.tril(x, k=k))
        same(xp.triu(xp.asarray(x), k=k), np.triu(x, k=k))
    same(xp.zeros_like(xp.asarray(x)), np.zeros_like(x))
    same(xp.full_like(xp.asarray(x), 3), np.full_like(x, 3))
    same(xp.from_dlpack(x.copy()), x)
    assert xp.empty((2, 3), dtype=d).shape == (2, 3)
    for indexing in ("xy", "ij"):
        mine = xp.meshgrid(xp.asarray(x[0]), xp.asarray(x[1, :2]), indexing=indexing)
        for a, b in zip(mine, np.meshgrid(x[0], x[1, :2], indexing=indexing)):
            same(a, b)


@pytest.mark.parametrize("dtype", FLOATS)
def test_linspace(dtype: str) -> None:
    for stop, num, endpoint in ((1.0, 7, True), (-3.0, 5, False), (2.0, 1, True), (2.0, 0, True)):
        mine = xp.linspace(0.5, stop, num, dtype=getattr(xp, dtype), endpoint=endpoint)
        same(mine, np.linspace(0.5, stop, num, dtype=dtype, endpoint=endpoint), ulps=2)


@pytest.mark.parametrize("to", ALL)
@pytest.mark.parametrize("dtype", ALL)
def test_astype(dtype: str, to: str) -> None:
    x = np.nan_to_num(sample(dtype, (7,)))
    x = np.abs(x) if dtype in FLOATS or dtype.startswith("i") else x
    x = np.minimum(x, np.asarray(100, dtype)) if dtype != "bool" else x
    same(xp.astype(xp.asarray(x), getattr(xp, to)), x.astype(to))


# ---- Products, indexing ----


@pytest.mark.parametrize("dtype", NUMERIC)
def test_products(dtype: str) -> None:
    a = (np.nan_to_num(sample(dtype, (2, 3, 4), 1)) % 5).astype(dtype)
    b = (np.nan_to_num(sample(dtype, (2, 4, 5), 2)) % 5).astype(dtype)
    same(xp.matmul(xp.asarray(a), xp.asarray(b)), a @ b, ulps=16)
    same(xp.matmul(xp.asarray(a), xp.asarray(b[0, :, 0])), a @ b[0, :, 0], ulps=16)
    same(xp.asarray(a[0, 0]) @ xp.asarray(b), a[0, 0] @ b, ulps=16)
    same(
        xp.tensordot(xp.asarray(a), xp.asarray(b), axes=((2,), (1,))),
        np.tensordot(a, b, ((2,), (1,))),
        ulps=16,
    )
    same(xp.tensordot(xp.asarray(a), xp.asarray(a), axes=0), np.tensordot(a, a, 0), ulps=16)
    same(xp.vecdot(xp.asarray(a), xp.asarray(a[0, 0])), np.vecdot(a, a[0, 0]), ulps=16)
    empty = np.zeros((2, 0), dtype)
    same(xp.asarray(empty) @ xp.asarray(empty.T), empty @ empty.T)


KEYS: list[Any] = [
    0, -1, slice(None), slice(1, None), slice(None, None, -1), slice(5, 0, -2), slice(3, 1), ...,
    None, (0, 1), (slice(None), 2), (..., 0), (None, 1, ..., None), (slice(None, None, 2), slice(-2, None)),
    (1, slice(None), slice(0, 3)), (slice(100), 0),
]  # fmt: skip


@pytest.mark.parametrize("key", KEYS, ids=str)
@pytest.mark.parametrize("dtype", ["bool", "int8", "float32"])
def test_basic_indices(dtype: str, key: Any) -> None:
    x = sample(dtype, (4, 5, 3))
    m = xp.asarray(x)
    same(m[key], x[key])
    m[key] = True if dtype == "bool" else 3
    y = x.copy()
    y[key] = True if dtype == "bool" else 3
    same(m, y)


def test_arrays_as_indices() -> None:
    x = sample("int32", (4, 5, 3))
    m = xp.asarray(x)
    i, j = np.array([[0, -1], [2, 1]]), np.array([3, -2])
    for mine, theirs in (
        (m[xp.asarray(i)], x[i]),
        (m[:, xp.asarray(j)], x[:, j]),
        (m[xp.asarray(i), xp.asarray(j)], x[i, j]),
        (m[xp.asarray(i), :, 1], x[i, :, 1]),
        (m[xp.asarray(j), 1, 0:2], x[j, 1, 0:2]),
        (m[..., xp.asarray(j), 0], x[..., j, 0]),
        (m[None, xp.asarray(j)], x[None, j]),
        (m[m > 2], x[x > 2]),
        (m[m[:, 0, 0] > 0], x[x[:, 0, 0] > 0]),
        (m[xp.asarray(i)[0:0]], x[i[0:0]]),
        (xp.take(m, xp.asarray(j), axis=1), np.take(x, j, axis=1)),
        (xp.take_along_axis(m, xp.argsort(m, axis=1), axis=1), np.take_along_axis(x, np.argsort(x, axis=1, stable=True), axis=1)),
    ):  # fmt: skip
        same(mine, theirs)


def test_writes() -> None:
    x = sample("float64", (4, 5))
    m, y = xp.asarray(x), x.copy()
    view = m[0]
    m[m > 0] = -1.0
    y[y > 0] = -1.0
    m[xp.asarray([1, 3]), 2:4] = xp.asarray([[1.0, 2], [3, 4]])
    y[np.array([1, 3]), 2:4] = [[1, 2], [3, 4]]
    m[0, :] += 1
    y[0, :] += 1
    m *= 2
    y *= 2
    same(m, y)
    same(view, x[0])  # views do not alias
    with pytest.raises(TypeError, match="cannot be written"):
        xp.asarray([1, 2])[0] = xp.asarray(1.5)
    with pytest.raises(ValueError, match="do not go together"):
        m[0] = xp.zeros(3, dtype=xp.float64)


WRONG: list[tuple[Any, type[Exception], str]] = [
    (lambda x: xp.zeros(-1), ValueError, "not a size"),
    (lambda x: xp.reshape(x, (2, 2)), ValueError, "3 elements do not fit"),
    (lambda x: xp.reshape(x, (-1, -1)), ValueError, "one size may be -1"),
    (lambda x: x @ xp.ones((2, 2)), ValueError, "do not multiply"),
    (lambda x: x + xp.ones(2), ValueError, "neither equal nor 1"),
    (lambda x: x[3], IndexError, "out of range"),
    (lambda x: x[0, 0], IndexError, "2 indices for an array of 1 axes"),
    (lambda x: x["a"], IndexError, "not an index"),
    (lambda x: x[xp.ones(2) > 0], IndexError, "a mask of shape"),
    (lambda x: xp.zeros((0, 2))[xp.asarray([0])], IndexError, "size 0"),
    (lambda x: xp.concat([]), ValueError, "at least one"),
    (lambda x: xp.sum(x, axis=3), IndexError, "axis 3"),
    (lambda x: xp.sum(xp.ones((2, 2)), axis=(0, 0)), ValueError, "twice"),
    (lambda x: x + "a", TypeError, "unsupported operand"),
    (lambda x: xp.asarray(None), TypeError, "is not an array"),
    (lambda x: xp.asarray([1, "a"]), TypeError, "lists of numbers"),
    (lambda x: xp.ones(2**62), MemoryError, "T0102"),
    (lambda x: xp.ones((1,) * 40) + 1, MemoryError, "limit of 32"),
    (lambda x: xp.add(1, 2), TypeError, "one of two operands"),
    (lambda x: xp.astype(x, "no"), TypeError, "not an element type"),
    (lambda x: x.to_device("gpu"), NotImplementedError, "not yet"),
    (lambda x: xp.add(xp.asarray([1]), 1j), TypeError, "a Python complex"),
    (lambda x: bool(x), TypeError, "without axes"),
    (lambda x: xp.linspace(0, 1, -1), ValueError, "at least 0"),
    (lambda x: xp.arange(0, 1, 0), ValueError, "step"),
    (lambda x: x.__array_namespace__(api_version="1999.01"), ValueError, "versions"),
]


@pytest.mark.parametrize(("call", "kind", "words"), WRONG, ids=[w[2] for w in WRONG])
def test_mistakes(call: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        call(xp.ones(3))
