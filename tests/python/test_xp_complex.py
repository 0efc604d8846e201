"""tenon.xp on complex arrays, against NumPy: functions, special cases, moves, sums, mistakes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tenon
from tenon import xp

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
TYPES = ("complex64", "complex128")
NUMPY = {
    "asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh",
    "atanh": "arctanh", "pow": "power",
}  # fmt: skip
UNARY = (
    "abs sign exp log sqrt sin cos tan sinh cosh tanh asin acos atan asinh acosh atanh expm1 log1p log2 log10 "
    "square reciprocal negative conj real imag round isnan isfinite isinf"
).split()


def numbers(dtype: str, *shape: int, seed: int = 0) -> Any:
    random = np.random.default_rng(seed)
    return (random.standard_normal(shape) + 1j * random.standard_normal(shape)).astype(dtype)


def close(mine: Any, expected: Any, factor: float = 1) -> None:
    expected = np.asarray(expected)
    assert mine.shape == expected.shape and mine.dtype.name == expected.dtype.name
    limit = factor * (1e-5 if expected.dtype.name in ("complex64", "float32") else 1e-13)
    np.testing.assert_allclose(np.asarray(mine), expected, rtol=limit, atol=limit)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", UNARY)
def test_functions(name: str, dtype: str) -> None:
    z = numbers(dtype, 4, 50)
    close(getattr(xp, name)(xp.asarray(z)), getattr(np, NUMPY.get(name, name))(z))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", "add subtract multiply divide pow equal not_equal".split())
def test_two_operands(name: str, dtype: str) -> None:
    z, w = numbers(dtype, 4, 50), numbers(dtype, 4, 50, seed=1)
    w[0] = z[0]
    close(
        getattr(xp, name)(xp.asarray(z), xp.asarray(w)),
        getattr(np, NUMPY.get(name, name))(z, w),
        10,
    )


# Zeros with both signs, and the places where branch cuts begin.
POINTS = [
    complex(a, b) for a in (-2.0, -1.0, -0.0, 0.0, 0.5, 1.0, 2.0) for b in (-1.0, -0.0, 0.0, 1.0)
]


@pytest.mark.parametrize(
    "name", "sqrt log exp sinh cosh tanh sin cos tan asin acos atan asinh acosh atanh".split()
)
def test_branch_cuts_and_signed_zeros(name: str) -> None:
    z = np.asarray(POINTS)
    got, expected = (
        np.asarray(getattr(xp, name)(xp.asarray(z))),
        getattr(np, NUMPY.get(name, name))(z),
    )
    for part in ("real", "imag"):
        a, b = getattr(got, part), getattr(expected, part)
        np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-13)
        # The sign of a number that is 0 but for rounding does not show the side of the cut.
        cut = abs(b) > 1e-15
        assert (np.signbit(a) == np.signbit(b))[cut].all()


INF, NAN = float("inf"), float("nan")
ENDS = [complex(a, b) for a in (-INF, -1.0, 0.0, 1.0, INF, NAN) for b in (-INF, 0.0, 1.0, INF, NAN)]


@pytest.mark.parametrize("name", "sqrt log exp sinh cosh tanh acos acosh asinh atanh".split())
def test_infinities(name: str) -> None:
    """As C99, Annex G, which NumPy's functions follow; the sign of zeros and infinities is left open
    there in places."""
    z = np.asarray([e for e in ENDS if not np.isnan(e) or np.isinf(e)])
    got, expected = (
        np.asarray(getattr(xp, name)(xp.asarray(z))),
        getattr(np, NUMPY.get(name, name))(z),
    )
    infinite = np.isinf(expected.real) | np.isinf(expected.imag)
    assert ((np.isinf(got.real) | np.isinf(got.imag)) == infinite).all()
    whole = np.isfinite(expected)
    np.testing.assert_allclose(got[whole], expected[whole], rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize(
    "name", "sqrt log exp sinh cosh tanh asin acos atan asinh acosh atanh".split()
)
def test_nan_in_one_part(name: str) -> None:
    """Annex G leaves the sign of zeros open in places."""
    axis = (-INF, -100.0, -1.0, -0.0, 0.0, 1.0, 100.0, INF, NAN)
    z = np.asarray([complex(a, b) for a in axis for b in axis])
    got, expected = (
        np.asarray(getattr(xp, name)(xp.asarray(z))),
        getattr(np, NUMPY.get(name, name))(z),
    )
    for part in ("real", "imag"):
        np.testing.assert_allclose(
            abs(getattr(got, part)), abs(getattr(expected, part)), rtol=1e-13, atol=1e-13
        )


@pytest.mark.parametrize("name", "sinh cosh sin cos".split())
def test_signs_of_zeros(name: str) -> None:
    axis = (-4.0, -2.0, -0.0, 0.0, 2.0, 4.0)
    z = np.asarray([complex(a, b) for a in axis for b in axis])
    got, expected = np.asarray(getattr(xp, name)(xp.asarray(z))), getattr(np, name)(z)
    for part in ("real", "imag"):
        a, b = getattr(got, part), getattr(expected, part)
        np.testing.assert_array_equal(np.signbit(a), np.signbit(b))


@pytest.mark.parametrize("dtype", TYPES)
def test_inverse_tangents_near_their_poles(dtype: str) -> None:
    tiny = (1e-19, -1e-30, 1e-36) if dtype == "complex64" else (1e-170, -1e-250, 1e-300)
    z = np.asarray([complex(s, y) for s in (1, -1) for y in tiny], dtype)
    close(xp.atanh(xp.asarray(z)), np.arctanh(z))
    turned = np.asarray([complex(y, s) for s in (1, -1) for y in tiny], dtype)
    close(xp.atan(xp.asarray(turned)), np.arctan(turned))
    assert np.isinf(np.asarray(xp.atanh(xp.asarray([1 + 0j], dtype=getattr(xp, dtype)))).real).all()


@pytest.mark.parametrize("dtype", TYPES)
def test_signs_at_the_ends_of_the_range(dtype: str) -> None:
    most, least = np.finfo(dtype).max, np.finfo(dtype).tiny
    z = np.asarray([complex(most, most), complex(-most, 0), complex(least, -least)], dtype)
    half = 0.5**0.5
    close(xp.sign(xp.asarray(z)), np.asarray([half + half * 1j, -1, half - half * 1j], dtype))
    ends = np.asarray(xp.sign(xp.asarray([complex(INF, 1), complex(0, -INF), 0j])))
    np.testing.assert_array_equal(ends, [1, -1j, 0])


@pytest.mark.parametrize("dtype", TYPES)
def test_small_powers_are_exact(dtype: str) -> None:
    z = np.asarray([1 + 2j, -3 + 1j, 2 - 2j], dtype)
    for n in (0, 1, 2, 3, 5, 6, 8):
        expected = np.ones(3, dtype)
        for _ in range(n):
            expected = expected * z
        np.testing.assert_array_equal(np.asarray(xp.asarray(z) ** n), expected)
        exponents = xp.full(3, n, dtype=getattr(xp, dtype))
        np.testing.assert_array_equal(np.asarray(xp.pow(xp.asarray(z), exponents)), expected)
    close(xp.asarray(z) ** -1, 1 / z)
    close(xp.asarray(z) ** -3, z**-3)
    close(xp.asarray(z) ** 15, z**15)
    close(xp.asarray(z) ** 16, z**16, 50)
    close(xp.asarray(z) ** 0.5, np.sqrt(z))
    end = xp.asarray([complex(INF, 0)], dtype=getattr(xp, dtype))
    for n, expected in ((1, INF), (0.5, INF), (-1, 0), (2, INF), (-2, 0), (1.5, INF)):
        np.testing.assert_array_equal(np.asarray(end**n), [complex(expected, 0)])
    far = xp.asarray([1e30 + 0j, 1e-30 + 0j], dtype=xp.complex64)
    np.testing.assert_array_equal(np.asarray(far**3), [INF, 0])
    np.testing.assert_array_equal(np.asarray(far**-3), [0, INF])


def test_no_overflow_on_the_way() -> None:
    z = np.asarray([1e300 + 1e300j, 1e-300 - 1e-300j, 1e308 + 0j, 3e-320 + 4e-320j])
    x = xp.asarray(z)
    for name in ("abs", "sqrt", "log"):
        close(getattr(xp, name)(x), getattr(np, name)(z))
    close(x / x, np.ones(4, complex))
    z = np.asarray([709.5 + 1j, -709.5 + 3j])
    for name in ("exp", "sinh", "cosh"):
        np.testing.assert_allclose(
            np.asarray(getattr(xp, name)(xp.asarray(z))), getattr(np, name)(z), rtol=1e-12
        )


@pytest.mark.parametrize("dtype", TYPES)
def test_sums_products_and_matrices(dtype: str) -> None:
    z, w = numbers(dtype, 5, 7), numbers(dtype, 5, 7, seed=1)
    x, y = xp.asarray(z), xp.asarray(w)
    close(xp.sum(x, axis=0), z.sum(0), 10)
    close(xp.prod(x, axis=1), z.prod(1), 10)
    close(xp.prod(x), z.prod(), 100)
    close(xp.prod(xp.asarray(z[:0]), axis=0), z[:0].prod(0))
    close(xp.mean(x), z.mean())
    close(xp.cumulative_sum(x, axis=1), z.cumsum(1), 10)
    close(xp.cumulative_prod(x, axis=1), z.cumprod(1), 10)
    close(x @ y.mT, z @ w.T, 10)
    close(xp.vecdot(x, y), np.vecdot(z, w), 10)
    close(xp.tensordot(x, y, axes=((0,), (0,))), np.tensordot(z, w, ((0,), (0,))), 10)
    assert xp.any(x) and xp.all(x) and int(xp.count_nonzero(x)) == 35


@pytest.mark.parametrize("dtype", TYPES)
def test_moves(dtype: str) -> None:
    z, w = numbers(dtype, 5, 7), numbers(dtype, 5, 7, seed=1)
    x, y = xp.asarray(z), xp.asarray(w)
    close(xp.permute_dims(x, (1, 0)), z.T)
    close(x[1:3, ::2], z[1:3, ::2])
    close(xp.reshape(x, (7, 5)), z.reshape(7, 5))
    close(xp.concat([x, y], axis=1), np.concatenate([z, w], 1))
    close(xp.where(xp.real(x) > 0, x, y), np.where(z.real > 0, z, w))
    close(xp.take(x, xp.asarray([2, 0]), axis=1), z.take([2, 0], 1))
    close(xp.flip(x), np.flip(z))
    close(xp.roll(x, 2, axis=1), np.roll(z, 2, 1))
    close(xp.tril(x), np.tril(z))
    close(xp.broadcast_to(x[0], (3, 7)), np.broadcast_to(z[0], (3, 7)))
    x[1, 2] = 3 - 1j
    z[1, 2] = 3 - 1j
    close(x, z)


REPEATED = [
    1 + 2j,
    1 + 1j,
    complex(NAN, 1),
    complex(1, NAN),
    1 + 2j,
    0.5 + 0j,
    complex(-0.0, 0),
    0j,
]


@pytest.mark.parametrize("dtype", TYPES)
def test_sets(dtype: str) -> None:
    z = np.asarray(REPEATED, dtype)
    found = xp.unique_all(xp.asarray(z))
    values, first, counts = np.unique(z, return_index=True, return_counts=True, equal_nan=False)
    for mine, expected in zip((found.values, found.indices, found.counts), (values, first, counts)):
        np.testing.assert_array_equal(np.asarray(mine), expected)
    np.testing.assert_array_equal(values[np.asarray(found.inverse_indices)], z)
    np.testing.assert_array_equal(
        np.asarray(xp.unique_values(xp.reshape(xp.asarray(z), (2, 4)))), values
    )
    assert xp.unique_all(xp.asarray(z[:0])).values.shape == (0,)
    w = np.asarray([0, 1 + 2j, complex(NAN, 1), 7], dtype)
    for a, b in ((z.reshape(2, 4), w), (w, z), (z[:0], w), (w, z[:0]), (z.real.copy(), w)):
        got = xp.isin(xp.asarray(a), xp.asarray(b))
        np.testing.assert_array_equal(np.asarray(got), np.isin(a, b))
    np.testing.assert_array_equal(
        np.asarray(xp.isin(xp.asarray(z), xp.asarray(w), invert=True)), ~np.isin(z, w)
    )


def test_halves_are_rounded_in_both_parts() -> None:
    z = np.asarray([1.5 + 2.5j, -0.5 - 1.5j, complex(NAN, 0.4)])
    np.testing.assert_array_equal(np.asarray(xp.round(xp.asarray(z))), z.round())


def test_truth() -> None:
    z = np.asarray([0j, 1, 1j, complex(0, NAN)])
    np.testing.assert_array_equal(np.asarray(xp.astype(xp.asarray(z), xp.bool)), z.astype(bool))


def test_numbers_of_python_and_types() -> None:
    x = xp.asarray([1 + 2j, 3.0])
    assert x.dtype is xp.complex64 and x.tolist() == [1 + 2j, 3 + 0j]
    assert complex(x[0]) == 1 + 2j and (x * 2j).tolist() == [-4 + 2j, 6j]
    real = xp.asarray([1.0, 2.0])
    assert (real + 1j).dtype is xp.complex64 and (real + 1j).tolist() == [1 + 1j, 2 + 1j]
    assert (x + real).dtype is xp.complex64
    assert xp.result_type(xp.float64, xp.complex64) is xp.complex128
    assert xp.result_type(xp.float32, 1j) is xp.complex64
    assert xp.result_type(real, 1j, xp.float64) is xp.complex128
    assert xp.astype(real, xp.complex128).dtype is xp.complex128
    assert xp.isdtype(xp.complex64, "complex floating") and xp.finfo(xp.complex128).bits == 64
    assert xp.linspace(0, 1 + 1j, 3).tolist() == [0, 0.5 + 0.5j, 1 + 1j]
    assert xp.zeros((2,), dtype=xp.complex64).tolist() == [0j, 0j]
    assert xp.eye(2, dtype=xp.complex128).tolist() == [[1, 0], [0, 1]]


def test_a_compiled_function() -> None:
    @tenon.compile
    def f(x: Any, y: Any) -> Any:
        return xp.exp(x * y) + xp.conj(x) / 2

    z, w = numbers("complex64", 3, 4), numbers("complex64", 3, 4, seed=1)
    close(f(xp.asarray(z), xp.asarray(w)), np.exp(z * w) + z.conj() / 2, 10)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x: x < x, "real numeric"),
        (lambda x: xp.max(x), "real numeric"),
        (lambda x: xp.sort(x), "real numeric"),
        (lambda x: xp.floor(x), "real numeric"),
        (lambda x: xp.astype(x, xp.float32), "xp.real"),
        (lambda x: x + xp.asarray([1]), "no common type"),
        (lambda x: xp.imag(xp.real(x)), "complex arrays"),
        (lambda x: xp.asarray([1]) + 1j, "a Python complex"),
        (lambda x: float(x[0]), ""),
        (lambda x: xp.full(2, 1j, dtype=xp.float32), "1j is not a value of float32"),
        (lambda x: xp.full_like(xp.real(x), 1j), "1j is not a value of float32"),
        (lambda x: xp.asarray([1j], dtype=xp.int32), "1j is not a value of int32"),
    ],
)
def test_what_complex_numbers_have_not(call: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        call(xp.asarray([1 + 2j]))
