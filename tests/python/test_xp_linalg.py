"""tenon.xp.linalg: factors that give the matrix again, and values against NumPy."""

# Reaches: lapack
from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import tenon
from tenon import xp

TYPES = ("float32", "float64", "complex64", "complex128")
linalg = xp.linalg


def matrices(dtype: str, *shape: int) -> Any:
    random = np.random.default_rng(0)
    z = random.standard_normal(shape)
    return (z + 1j * random.standard_normal(shape) if "complex" in dtype else z).astype(dtype)


def adjoint(m: Any) -> Any:
    return np.conj(np.swapaxes(m, -1, -2))


def close(mine: Any, expected: Any, factor: float = 1) -> None:
    mine, expected = np.asarray(mine), np.asarray(expected)
    assert mine.shape == expected.shape
    limit = factor * (2e-4 if mine.dtype.itemsize // (1 + (mine.dtype.kind == "c")) == 4 else 1e-10)
    np.testing.assert_allclose(
        mine, expected, rtol=limit, atol=limit * max(1, abs(expected).max(initial=0))
    )


def orthonormal(q: Any) -> None:
    n = q.shape[-1]
    close(adjoint(q) @ q, np.broadcast_to(np.eye(n), (*q.shape[:-2], n, n)))


@pytest.mark.parametrize("n", (0, 1, 2, 5, 17))
@pytest.mark.parametrize("dtype", TYPES)
def test_square_matrices(dtype: str, n: int) -> None:
    a = matrices(dtype, 3, n, n)
    h = a @ adjoint(a) + n * np.eye(n, dtype=dtype)
    x, hx = xp.asarray(a), xp.asarray(h)
    lower, upper = np.asarray(linalg.cholesky(hx)), np.asarray(linalg.cholesky(hx, upper=True))
    close(lower @ adjoint(lower), h)
    close(adjoint(upper) @ upper, h)
    close(lower, np.tril(lower))
    b = matrices(dtype, 3, n, 2)
    close(a @ np.asarray(linalg.solve(x, xp.asarray(b))), b, 50)
    close(np.asarray(linalg.inv(hx)) @ h, np.broadcast_to(np.eye(n), h.shape), 20)
    close(linalg.det(x), np.linalg.det(a), 10)
    found, expected = linalg.slogdet(x), np.linalg.slogdet(a)
    close(found.sign, expected.sign, 10)
    close(found.logabsdet, expected.logabsdet, 10)
    values, vectors = map(np.asarray, linalg.eigh(hx))
    close(h @ vectors, vectors * values[..., None, :])
    orthonormal(vectors)
    assert (np.diff(values) >= 0).all()
    values, vectors = map(np.asarray, linalg.eig(x))
    close(a @ vectors, vectors * values[..., None, :], 10)
    assert values.dtype.kind == "c"


@pytest.mark.parametrize("shape", [(4, 4), (6, 3), (3, 6), (1, 5), (5, 1), (0, 3), (3, 0), (17, 9)])
@pytest.mark.parametrize("dtype", TYPES)
def test_all_matrices(dtype: str, shape: tuple[int, int]) -> None:
    a = matrices(dtype, 2, *shape)
    x, k = xp.asarray(a), min(shape)
    for mode in ("reduced", "complete"):
        q, r = map(np.asarray, linalg.qr(x, mode=mode))
        close(q @ r, a)
        orthonormal(q)
        close(np.tril(r, -1), np.zeros(r.shape))
    for full in (False, True):
        u, s, vh = map(np.asarray, linalg.svd(x, full_matrices=full))
        close((u[..., :k] * s[..., None, :]) @ vh[..., :k, :], a)
        orthonormal(u)
        orthonormal(adjoint(vh))
        close(s, np.linalg.svd(a, compute_uv=False))
    if k == 0:
        return
    close(linalg.pinv(x), np.linalg.pinv(a), 20)
    assert np.asarray(linalg.matrix_rank(x)).tolist() == [k, k]
    for order in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf):
        close(linalg.matrix_norm(x, ord=order), np.linalg.norm(a, ord=order, axis=(-2, -1)))
    for p in (0, 1, 2, 3, np.inf, -np.inf):
        close(linalg.vector_norm(x, axis=-1, ord=p), np.linalg.norm(a, ord=p, axis=-1))


@pytest.mark.parametrize("dtype", TYPES)
def test_products_and_diagonals(dtype: str) -> None:
    a = matrices(dtype, 3, 3)
    x = xp.asarray(a)
    close(linalg.matrix_power(x, 5), np.linalg.matrix_power(a, 5))
    close(linalg.matrix_power(x, 0), np.eye(3))
    close(linalg.matrix_power(x, -2), np.linalg.matrix_power(a, -2), 50)
    close(linalg.cross(x, xp.asarray(a.T.copy())), np.cross(a, a.T))
    close(linalg.outer(x[0], x[1]), np.outer(a[0], a[1]))
    close(linalg.trace(x, offset=1), np.trace(a, 1))
    close(linalg.diagonal(x, offset=-1), np.diagonal(a, -1))
    close(linalg.solve(x, x[0]), np.linalg.solve(a, a[0]), 10)


def test_matrices_without_full_rank() -> None:
    zero = np.zeros((2, 3, 3))
    u, s, vh = map(np.asarray, linalg.svd(xp.asarray(zero)))
    orthonormal(u)
    orthonormal(adjoint(vh))
    assert not s.any() and np.asarray(linalg.matrix_rank(xp.asarray(zero))).tolist() == [0, 0]
    one = xp.asarray([[1.0, 2.0], [2.0, 4.0]], dtype=xp.float64)
    assert int(linalg.matrix_rank(one)) == 1 and float(linalg.det(one)) == 0
    assert not np.isfinite(np.asarray(linalg.inv(one))).all()
    assert np.isnan(np.asarray(linalg.cholesky(xp.asarray([[1.0, 2.0], [2.0, 1.0]])))).any()


# LAPACK gives the size of its work as a float, which is rounded down from here on.
def test_eigenvalues_of_a_large_matrix() -> None:
    values = np.asarray(linalg.eigvalsh(xp.eye(2895, dtype=xp.float32)))
    np.testing.assert_array_equal(values, np.ones(2895))


def test_eigh_reads_one_triangle() -> None:
    x = xp.asarray([[1.0, float("nan")], [2.0, 3.0]], dtype=xp.float64)
    close(linalg.eigvalsh(x), np.linalg.eigvalsh(np.array([[1.0, 2.0], [2.0, 3.0]])))
    assert np.isnan(np.asarray(linalg.eigvalsh(xp.permute_dims(x, (1, 0))))).all()


@pytest.mark.parametrize("dtype", TYPES)
def test_determinants_whose_products_leave_the_range(dtype: str) -> None:
    ends = np.array([1e-20, 1e20] if dtype in ("float32", "complex64") else [1e-200, 1e200])
    for numbers in (np.tile(ends, 30), np.repeat(ends, 30), np.repeat(ends[::-1], 30)):
        np.testing.assert_allclose(
            np.asarray(linalg.det(xp.asarray(np.diag(numbers).astype(dtype)))), 1, rtol=1e-3
        )
    a = np.array([[4, 2, 0], [1, 1, 3], [0, 2, 2]])  # whose factors are exact
    assert np.asarray(linalg.det(xp.asarray(a.astype(dtype)))) == -20


def test_a_large_complex_determinant() -> None:
    x = xp.asarray([[3e38 + 3e38j]], dtype=xp.complex64)
    assert np.asarray(linalg.det(x)) == np.complex64(3e38 + 3e38j)
    found = linalg.slogdet(x)
    close(found.sign, np.complex64(0.5**0.5 * (1 + 1j)))
    close(found.logabsdet, np.float32(np.log(3e38) + np.log(2) / 2))


SHARED_LIBRARY = """
import ctypes, sys
try:
    library = ctypes.CDLL("libopenblas.so.0")
except OSError:
    sys.exit(77)
library.openblas_set_num_threads(2)
before = library.openblas_get_num_threads()
from tenon import xp
xp.linalg.inv(xp.eye(2)).tolist()
assert library.openblas_get_num_threads() == before
"""


def test_a_shared_library_keeps_its_threads() -> None:
    status = subprocess.run([sys.executable, "-c", SHARED_LIBRARY]).returncode
    if status == 77:
        pytest.skip("OpenBLAS is not there")
    assert status == 0


def test_nan_goes_through() -> None:
    x = xp.asarray([[1.0, float("nan")], [0.0, float("inf")]])
    for found in (*linalg.eigh(x), *linalg.svd(x), *linalg.eig(x)):
        assert np.isnan(np.asarray(found)).all()


@pytest.mark.parametrize("shape", ((3, 0), (0, 3), (0, 0), (2, 3, 0)))
def test_norms_of_nothing_are_zero(shape: tuple[int, ...]) -> None:
    a = np.zeros(shape)
    for order in ("fro", "nuc", 1, 2, np.inf):
        close(linalg.matrix_norm(xp.asarray(a), ord=order), np.linalg.matrix_norm(a, ord=order))
    for p in (0, 1, 2, 3, np.inf):
        close(linalg.vector_norm(xp.asarray(a), ord=p), np.linalg.vector_norm(a, ord=p))
    with pytest.raises(ValueError, match="empty axis"):
        linalg.matrix_norm(xp.asarray(a), ord=-2)
    with pytest.raises(ValueError, match="empty axis"):
        linalg.vector_norm(xp.asarray(a), ord=-np.inf)


def test_norms_keep_nan() -> None:
    x = xp.asarray([[1.0, float("nan")]])
    assert np.isnan(float(linalg.vector_norm(x, ord=np.inf))) and np.isnan(
        float(linalg.matrix_norm(x, ord=1))
    )


def test_mistakes() -> None:
    wide = xp.ones((2, 3))
    for name in ("cholesky", "inv", "det", "slogdet", "eigh", "eig", "eigvals", "eigvalsh"):
        with pytest.raises(ValueError, match="square"):
            getattr(linalg, name)(wide)
    with pytest.raises(ValueError, match="2 axes"):
        linalg.qr(xp.ones((3,)))
    with pytest.raises(TypeError, match="floating-point"):
        linalg.inv(xp.ones((2, 2), dtype=xp.int32))
    with pytest.raises(ValueError, match="rows on the right"):
        linalg.solve(xp.ones((2, 2)), xp.ones((3, 1)))
    with pytest.raises(ValueError, match="not a norm"):
        linalg.matrix_norm(wide, ord=7)
    with pytest.raises(ValueError, match="vector_norm: ord='fro' is not a number"):
        linalg.vector_norm(wide, ord="fro")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="integer"):
        linalg.matrix_power(xp.ones((2, 2)), 2.0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="mode"):
        linalg.qr(wide, mode="x")  # type: ignore[arg-type]


def test_a_compiled_function() -> None:
    @tenon.compile
    def f(a: Any, b: Any) -> Any:
        return linalg.solve(a @ a.mT + xp.eye(4), b)

    a, b = matrices("float32", 4, 4), matrices("float32", 4, 2)
    close(f(xp.asarray(a), xp.asarray(b)), np.linalg.solve(a @ a.T + np.eye(4), b))
