"""tenon.xp.fft against NumPy: lengths of all kinds, axes, norms, mistakes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tenon
from tenon import xp

# 1, matrices, factors, primes with and without a matrix, powers of 2.
LENGTHS = (1, 2, 3, 8, 31, 37, 60, 127, 131, 139, 262, 360, 1000, 1024)


def close(mine: Any, expected: Any) -> None:
    expected = np.asarray(expected)
    assert mine.shape == expected.shape and mine.dtype.name == expected.dtype.name
    limit = 2e-5 if expected.dtype.name in ("complex64", "float32") else 1e-12
    np.testing.assert_allclose(
        np.asarray(mine), expected, rtol=limit, atol=limit * max(1, abs(expected).max())
    )


def signal(dtype: str, *shape: int) -> Any:
    random = np.random.default_rng(0)
    return (random.standard_normal(shape) + 1j * random.standard_normal(shape)).astype(dtype)


@pytest.mark.parametrize("n", LENGTHS)
def test_lengths(n: int) -> None:
    z = signal("complex128", 2, n)
    x, real = xp.asarray(z), xp.asarray(z.real.copy())
    for name, v in (("fft", x), ("ifft", x), ("rfft", real), ("ihfft", real)):
        close(getattr(xp.fft, name)(v), getattr(np.fft, name)(np.asarray(v)))
    for name in ("irfft", "hfft"):
        close(getattr(xp.fft, name)(x, n=n), getattr(np.fft, name)(z, n=n))


def test_a_long_prime() -> None:
    z = signal("complex128", 65537)
    close(xp.fft.fft(xp.asarray(z)), np.fft.fft(z))
    close(xp.fft.ifft(xp.asarray(z)), np.fft.ifft(z))


@pytest.mark.parametrize("norm", ("backward", "ortho", "forward"))
def test_norms(norm: str) -> None:
    z = signal("complex64", 2, 12)
    x, real = xp.asarray(z), xp.asarray(z.real.copy())
    for name, v in (
        ("fft", x),
        ("ifft", x),
        ("rfft", real),
        ("irfft", x),
        ("hfft", x),
        ("ihfft", real),
    ):
        close(getattr(xp.fft, name)(v, norm=norm), getattr(np.fft, name)(np.asarray(v), norm=norm))


def test_axes_and_lengths() -> None:
    z = signal("complex128", 4, 6, 5)
    x, real = xp.asarray(z), xp.asarray(z.real.copy())
    close(xp.fft.fft(x, axis=0, n=7), np.fft.fft(z, axis=0, n=7))
    close(xp.fft.fft(x, axis=1, n=3), np.fft.fft(z, axis=1, n=3))
    close(xp.fft.fftn(x), np.fft.fftn(z))
    close(xp.fft.ifftn(x, axes=(0, 2)), np.fft.ifftn(z, axes=(0, 2)))
    close(xp.fft.rfftn(real), np.fft.rfftn(z.real))
    close(xp.fft.irfftn(x), np.fft.irfftn(z))
    close(xp.fft.fftn(x, s=(3, 8), axes=(1, 2)), np.fft.fftn(z, s=(3, 8), axes=(1, 2)))
    close(xp.fft.irfftn(x, s=(3, 8), axes=(0, 1)), np.fft.irfftn(z, s=(3, 8), axes=(0, 1)))
    close(xp.fft.fftshift(x), np.fft.fftshift(z))
    close(xp.fft.ifftshift(x, axes=1), np.fft.ifftshift(z, axes=1))


@pytest.mark.parametrize("n", (1, 7, 8))
def test_frequencies(n: int) -> None:
    close(xp.fft.fftfreq(n, d=0.5, dtype=xp.float64), np.fft.fftfreq(n, 0.5))
    close(xp.fft.rfftfreq(n, dtype=xp.float64), np.fft.rfftfreq(n))


def test_mistakes() -> None:
    x = xp.asarray([1 + 2j, 3 + 0j])
    with pytest.raises(ValueError, match="norm='x'"):
        xp.fft.fft(x, norm="x")
    with pytest.raises(ValueError, match="at least 1"):
        xp.fft.fft(x, n=0)
    with pytest.raises(TypeError, match="real floating"):
        xp.fft.rfft(x)
    with pytest.raises(IndexError, match="axis 1"):
        xp.fft.fft(x, axis=1)
    with pytest.raises(ValueError, match="2 lengths for 1 axes"):
        xp.fft.fftn(x, s=(1, 2), axes=(0,))
    with pytest.raises(TypeError, match="floating-point"):
        xp.fft.fft(xp.asarray([1, 2]))
    with pytest.raises(TypeError, match="integer"):
        xp.fft.fft(x, n=2.9)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="integer"):
        xp.fft.fftn(xp.ones((2, 2)), s=(2, None))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="integer"):
        xp.fft.fftfreq(2.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="3 lengths for an array of 2 axes"):
        xp.fft.fftn(xp.ones((2, 3)), s=(2, 2, 2))


def test_a_compiled_function() -> None:
    @tenon.compile
    def f(x: Any) -> Any:
        return xp.real(xp.fft.ifft(xp.fft.fft(x) * 2))

    real = signal("complex64", 3, 16).real.copy()
    close(f(xp.asarray(real)), 2 * real)


@pytest.mark.parametrize("name", ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fftshift"))
def test_a_compiled_function_of_many_lengths(name: str) -> None:
    f = tenon.compile(lambda x: getattr(xp.fft, name)(x))
    for n in (4, 5, 7, 5):
        real = signal("complex128", n).real.copy()
        np.testing.assert_allclose(f(real), getattr(np.fft, name)(real), rtol=1e-12, atol=1e-12)
    assert f.compilations == 3


def test_lengths_given_as_sizes_of_arrays() -> None:
    f = tenon.compile(lambda x: xp.fft.fft(x, n=2 * x.shape[0]))
    for n in (4, 5, 7):
        real = signal("complex64", n).real.copy()
        np.testing.assert_allclose(f(real), np.fft.fft(real, n=2 * n), rtol=1e-4, atol=1e-4)
