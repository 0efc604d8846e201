"""Complex numbers, Fourier transforms and linear algebra of torch, computed by us."""

import pytest
import tenon.torch  # noqa: F401  (the backend)
import torch
from conftest import close


def compiled(f):
    return torch.compile(f, backend="tenon")


TYPES = (torch.complex64, torch.complex128)


def numbers(*shape, dtype=torch.complex64):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(0))


def ours(graphs, f, *x):
    """Nothing stays in torch."""
    torch._dynamo.reset()
    graphs.clear()
    with torch.no_grad():
        close(compiled(f)(*x), f(*x))
    assert graphs and all(not g.unsupported for g in graphs), [g.unsupported for g in graphs]


@pytest.mark.parametrize("dtype", TYPES)
def test_arithmetic(graphs, dtype):
    x, y = numbers(3, 4, dtype=dtype), numbers(3, 4, dtype=dtype) * 1j + 1
    ours(graphs, lambda a, b: (a * b + a / b - b.conj()) * (2 - 1j), x, y)
    ours(graphs, lambda a: a.exp() + a.sin() * a.sqrt() + a.tanh(), x)
    ours(graphs, lambda a: a.abs() + a.real * a.imag + a.angle(), x)
    ours(graphs, lambda a, b: a @ b.mT + a.mH.mT @ b.mT, x, y)
    ours(graphs, lambda a: a.sum(0) + a.mean(0), x)
    ours(graphs, lambda a, b: torch.vdot(a[0], b[0]) + torch.dot(a[0], b[0]), x, y)
    ours(graphs, lambda a: torch.view_as_complex(torch.view_as_real(a * 2) + 1), x)
    ours(graphs, lambda a: torch.polar(a.abs(), a.angle()) + torch.complex(a.real, a.imag), x)


@pytest.mark.parametrize("norm", ("backward", "ortho", "forward"))
def test_fourier_transforms(graphs, norm):
    z, x = numbers(3, 12), torch.randn(3, 12)
    fft = torch.fft
    ours(graphs, lambda a: fft.fft(a, norm=norm) + fft.ifft(a, norm=norm), z)
    ours(graphs, lambda a: fft.fft(a, norm=norm), x)
    ours(graphs, lambda a: fft.rfft(a, norm=norm), x)
    ours(graphs, lambda a: fft.irfft(a, n=15, norm=norm), z)
    ours(graphs, lambda a: fft.fft2(a, norm=norm) + fft.ifft2(a, norm=norm), z)
    ours(graphs, lambda a: fft.irfft2(fft.rfft2(a, norm=norm), norm=norm), x)
    ours(graphs, lambda a: fft.hfft(a, norm=norm), z)


@pytest.mark.parametrize("dtype", (torch.float32, torch.float64, *TYPES))
def test_linear_algebra(dtype):
    a = torch.randn(2, 4, 4, dtype=dtype, generator=torch.Generator().manual_seed(0))
    b = torch.randn(2, 4, 3, dtype=dtype, generator=torch.Generator().manual_seed(1))
    spd = a @ a.mH + 4 * torch.eye(4, dtype=dtype)
    linalg = torch.linalg
    with torch.no_grad():
        for f, x in (
            (linalg.inv, (spd,)), (linalg.det, (a,)), (linalg.slogdet, (a,)), (linalg.cholesky, (spd,)),
            (linalg.solve, (spd, b)), (linalg.svdvals, (a,)), (linalg.eigvalsh, (spd,)),
            (lambda a, b: linalg.solve_triangular(a, b, upper=True), (spd, b)),
            (lambda a, b: linalg.solve_triangular(a, b, upper=False, left=False, unitriangular=True), (spd, b.mT)),
        ):  # fmt: skip
            torch._dynamo.reset()
            for got, expected in zip(_all(compiled(f)(*x)), _all(f(*x))):
                torch.testing.assert_close(got, expected, rtol=1e-3, atol=1e-3)
        torch._dynamo.reset()
        q, r = compiled(linalg.qr)(a)
        torch.testing.assert_close(q @ r, a)
        u, s, vh = compiled(linalg.svd)(a)
        torch.testing.assert_close(u * s[..., None, :] @ vh, a)
        w, v = compiled(linalg.eigh)(spd)
        torch.testing.assert_close(spd @ v, v * w[..., None, :], rtol=1e-3, atol=1e-3)
        w, v = compiled(linalg.eig)(a)
        torch.testing.assert_close(a.to(v.dtype) @ v, v * w[..., None, :], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("f", [torch.linalg.cholesky, lambda a: torch.linalg.qr(a).R.square()])
def test_factors_train(f, graphs):
    a = torch.randn(2, 4, 4, dtype=torch.float64)
    spd = a @ a.mT + 4 * torch.eye(4, dtype=torch.float64)
    one, two = spd.clone().requires_grad_(), spd.clone().requires_grad_()
    f(one).square().sum().backward()
    compiled(f)(two).square().sum().backward()
    close(two.grad, one.grad)
    assert not any("solve_triangular" in name for g in graphs for name in g.unsupported)


def _all(x):
    return x if isinstance(x, tuple) else (x,)


def test_what_torch_raises():
    with torch.no_grad(), pytest.raises(RuntimeError, match="singular"):
        compiled(torch.linalg.inv)(torch.zeros(3, 3))
    torch._dynamo.reset()
    with torch.no_grad(), pytest.raises(RuntimeError, match="positive-definite"):
        compiled(torch.linalg.cholesky)(-torch.eye(3))


@pytest.mark.parametrize("op", ["inv_ex", "cholesky_ex", "solve_ex"])
def test_errors_that_are_checked_are_raised(op):
    def f(x):
        given = (x, torch.ones(3, 2)) if op == "solve_ex" else (x,)
        return getattr(torch.linalg, op)(*given, check_errors=True)[0] + 1

    run = compiled(f)
    with torch.no_grad():
        close(run(2 * torch.eye(3)), f(2 * torch.eye(3)))
        for call in (f, run):
            with pytest.raises(RuntimeError, match="singular|positive-definite"):
                call(torch.zeros(3, 3))


def test_a_system_from_the_right(graphs):
    a, b = torch.randn(3, 3) + 3 * torch.eye(3), torch.randn(2, 3)
    with torch.no_grad():
        f = lambda a, b: torch.linalg.solve(a, b, left=False) + 1  # noqa: E731
        close(compiled(f)(a, b), f(a, b))
    assert not any(g.unsupported for g in graphs)
