"""Derivatives by complex numbers against torch.func, which has the same convention.

The gradient of a real number by x + iy is d/dx + i d/dy; cotangents are adjoints.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", exc_type=ImportError)

import tenon  # noqa: E402
from tenon import xp  # noqa: E402
from tenon.builder import ops  # noqa: E402
from tenon.builder.trace import active  # noqa: E402
from tenon.xp._array import Array, value_of  # noqa: E402
from test_torch_func import OfTenon, OfTorch, compare  # noqa: E402

RANDOM = np.random.default_rng(21)
NAMES = (
    "abs angle conj real imag exp expm1 log log1p log2 log10 sqrt sin cos tan sinh cosh tanh asin acos "
    "atan asinh acosh atanh square reciprocal"
).split()  # fmt: skip


class Tenon(OfTenon):
    @staticmethod
    def call(name: str, *x: Any) -> Any:
        """A function by torch's name; some are ops without a function in xp."""
        name = "sign" if name == "sgn" else name
        return getattr(xp, name)(*x) if hasattr(xp, name) else emitted(name, *x)

    rfft, irfft, fft, ifft = map(
        staticmethod, (xp.fft.rfft, xp.fft.irfft, xp.fft.fftn, xp.fft.ifftn)
    )
    solve, inv, det = map(staticmethod, (xp.linalg.solve, xp.linalg.inv, xp.linalg.det))
    cholesky = staticmethod(xp.linalg.cholesky)
    prod, cumsum = map(staticmethod, (xp.prod, lambda x: xp.cumulative_sum(x, axis=0)))


class Torch(OfTorch):
    @staticmethod
    def call(name: str, *x: Any) -> Any:
        return getattr(torch, name)(*x)

    rfft, irfft = map(staticmethod, (torch.fft.rfft, torch.fft.irfft))
    fft, ifft = map(staticmethod, (torch.fft.fftn, torch.fft.ifftn))
    solve, inv, det = map(staticmethod, (torch.linalg.solve, torch.linalg.inv, torch.linalg.det))
    cholesky = staticmethod(torch.linalg.cholesky)
    prod, cumsum = map(staticmethod, (torch.prod, lambda x: torch.cumsum(x, 0)))


def emitted(name: str, *x: Any) -> Any:
    def run(*x: Any) -> Any:
        return Array(ops.one(name, *map(value_of, x)))

    return run(*x) if active() is not None else tenon.compile(run)(*x)


def numbers(*shape: int) -> Any:
    return RANDOM.standard_normal(shape) + 1j * RANDOM.standard_normal(shape)


def ways(lib: Any, f: Any) -> Any:
    """All first derivatives of a function of one argument, and second ones of a real number of it."""

    def number(z: Any) -> Any:
        y = f(z)
        return (
            lib.sum(lib.call("abs", y) ** 2 * 0.5 + lib.call("real", y))
            if is_complex(y)
            else lib.sum(y * y)
        )

    def run(z: Any, t: Any, u: Any) -> Any:
        y, pull = lib.vjp(f, z)
        u = u if is_complex(y) else lib.call("real", u)
        slope = lib.grad(number)
        return (
            y, pull(u)[0], lib.jvp(f, (z,), (t,))[1], slope(z), lib.jvp(slope, (z,), (t,))[1],
            lib.vjp(slope, z)[1](t)[0],
        )  # fmt: skip

    return run


def is_complex(y: Any) -> bool:
    return "complex" in str(y.dtype)


@pytest.mark.parametrize("name", [*NAMES, "sgn", "rsqrt"])
def test_element_wise(name: str) -> None:
    z = numbers(7)
    compare(lambda lib: ways(own(lib), lambda z: own(lib).call(name, z)), z, numbers(7), numbers(7))


def own(lib: Any) -> Any:
    return Torch if lib is OfTorch else Tenon


def hermitian(lib: Any, z: Any) -> Any:
    return z @ lib.call("conj", z.T)


FUNCTIONS = {
    "mul": lambda lib, z: z * lib.call("conj", z) * z,
    "div": lambda lib, z: z / (z * z + 3),
    "pow": lambda lib, z: (z + 3) ** (z * 0.5),
    "power": lambda lib, z: z**3,
    "matmul": lambda lib, z: z @ lib.call("conj", z) @ z,
    "fft": lambda lib, z: lib.fft(z * z),
    "ifft": lambda lib, z: lib.ifft(z * z),
    "rfft": lambda lib, z: lib.rfft(lib.call("real", z) * lib.call("imag", z)),
    "irfft": lambda lib, z: lib.irfft(z * z),
    "prod": lambda lib, z: lib.prod(z),
    "cumsum": lambda lib, z: lib.cumsum(z * z),
    "inv": lambda lib, z: lib.inv(z),
    "solve": lambda lib, z: lib.solve(z, z * z),
    "det": lambda lib, z: lib.det(z),
    "cholesky": lambda lib, z: lib.cholesky(hermitian(lib, z)),
    "parts": lambda lib, z: lib.call("complex", lib.call("imag", z), lib.call("real", z)) * z,
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    f = FUNCTIONS[name]
    z = numbers(3, 3) + 2 * np.eye(3)

    def case(lib: Any) -> Any:
        lib = own(lib)

        def run(z: Any, t: Any, u: Any) -> Any:
            y = f(lib, z)
            same = u if y.ndim == 2 else u[0, 0]
            same = same[:, : y.shape[1]] if y.ndim == 2 else same
            return ways(lib, lambda z: f(lib, z))(z, t, same)

        return run

    compare(case, z, numbers(3, 3), numbers(3, 4) if name == "irfft" else numbers(3, 3))


def test_samples() -> None:
    def case(lib: Any) -> Any:
        lib = own(lib)
        return lib.vmap(lib.grad(lambda z: lib.sum(lib.call("abs", lib.fft(z * z)))))

    compare(case, numbers(4, 5))


def test_gradients_of_complex_numbers_are_refused_by_both() -> None:
    z = numbers(3)
    with pytest.raises(RuntimeError):
        torch.func.grad(lambda z: torch.sum(z * z))(torch.from_numpy(z))
    with pytest.raises(tenon.Error, match="real part or the magnitude"):
        tenon.grad(lambda z: xp.sum(z * z))(xp.asarray(z))
