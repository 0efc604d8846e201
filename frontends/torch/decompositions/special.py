"""Special functions in terms of other operators of torch: expansions, closed forms, reflections.

They are computed in double precision, for results of single precision and below; those of double
precision stay in torch.
"""

from __future__ import annotations

import functools
import math

import torch

from . import series
from .registry import composite

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from torch import Tensor


def _result_dtype(*given: Any) -> torch.dtype:
    dtype = functools.reduce(
        torch.promote_types, [g.dtype for g in given if isinstance(g, torch.Tensor)]
    )
    return dtype if dtype.is_floating_point else torch.get_default_dtype()


def _in_double(function: Callable[..., Tensor]) -> Callable[..., Any]:
    """The function of doubles, as one whose result has torch's type."""

    @functools.wraps(function)
    def wrapped(*given: Any, **options: Any) -> Any:
        dtype = _result_dtype(*given)
        if dtype is torch.float64:
            return NotImplemented
        wide = [g.double() if isinstance(g, torch.Tensor) else g for g in given]
        return function(*wide).to(dtype)

    return wrapped


def special(*overloads: str) -> Callable[[Callable[..., Tensor]], Callable[..., Any]]:
    def add(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        composite(*overloads)(_in_double(function))
        return function

    return add


def _polynomial(numbers: Sequence[float], t: Tensor) -> Tensor:
    out = torch.full_like(t, numbers[0])
    for number in numbers[1:]:
        out = out * t + number
    return out


# ---- Bessel functions ----


def _scaled_i(x: Tensor, near: Sequence[float], far: Sequence[float]) -> Tensor:
    """I(|x|) exp(-|x|)."""
    a = x.abs()
    inner = _polynomial(near, a.clamp(max=8) / 4 - 1)
    outer = a.clamp(min=8)
    return torch.where(a <= 8, inner, _polynomial(far, 16 / outer - 1) / outer.sqrt())


@special("special_i0e.default")
def i0e(x: Tensor) -> Tensor:
    return torch.where(x.isnan(), x, _scaled_i(x, series.I0_NEAR, series.I0_FAR))


@special("special_i1e.default")
def i1e(x: Tensor) -> Tensor:
    return torch.where(x.isnan(), x, _scaled_i(x, series.I1_NEAR, series.I1_FAR) * x.sign())


@special("i0.default", "special_modified_bessel_i0.default")
def i0(x: Tensor) -> Tensor:
    return i0e(x) * x.abs().exp()


@special("special_i1.default", "special_modified_bessel_i1.default")
def i1(x: Tensor) -> Tensor:
    return i1e(x) * x.abs().exp()


def _k(x: Tensor, order: int, scaled: bool) -> Tensor:
    """By the logarithm below 2; infinite at 0, no number below it."""
    low, high = x.clamp(1e-300, 2), x.clamp(min=2)
    near = _polynomial((series.K0_NEAR, series.K1_NEAR)[order], low * low / 2 - 1)
    log = (low / 2).log()
    near = near - log * i0(low) if order == 0 else near / low + log * i1(low)
    far = _polynomial((series.K0_FAR, series.K1_FAR)[order], 4 / high - 1) / high.sqrt()
    made = (
        torch.where(x <= 2, near * low.exp(), far)
        if scaled
        else torch.where(x <= 2, near, far * (-high).exp())
    )
    return torch.where(x == 0, math.inf, torch.where((x < 0) | x.isnan(), math.nan, made))


@special("special_modified_bessel_k0.default")
def k0(x: Tensor) -> Tensor:
    return _k(x, 0, False)


@special("special_modified_bessel_k1.default")
def k1(x: Tensor) -> Tensor:
    return _k(x, 1, False)


@special("special_scaled_modified_bessel_k0.default")
def scaled_k0(x: Tensor) -> Tensor:
    return _k(x, 0, True)


@special("special_scaled_modified_bessel_k1.default")
def scaled_k1(x: Tensor) -> Tensor:
    return _k(x, 1, True)


def _far(x: Tensor, order: int, second: bool) -> Tensor:
    """J, or Y if second, from 8 on."""
    x = x.clamp(min=8)
    t = 128 / (x * x) - 1
    p = _polynomial((series.P0, series.P1)[order], t)
    q = _polynomial((series.Q0, series.Q1)[order], t) / x
    angle = x - (2 * order + 1) * math.pi / 4
    cosine, sine = angle.cos(), angle.sin()
    made = p * sine + q * cosine if second else p * cosine - q * sine
    return made * (2 / math.pi / x).sqrt()


def _near(x: Tensor, numbers: Sequence[float]) -> Tensor:
    return _polynomial(numbers, x * x / 32 - 1)


@special("special_bessel_j0.default")
def j0(x: Tensor) -> Tensor:
    a = x.abs()
    return torch.where(a <= 8, _near(a.clamp(max=8), series.J0_NEAR), _far(a, 0, False))


@special("special_bessel_j1.default")
def j1(x: Tensor) -> Tensor:
    a = x.abs()
    low = a.clamp(max=8)
    return torch.where(a <= 8, _near(low, series.J1_NEAR) * low, _far(a, 1, False)) * x.sign()


def _y(x: Tensor, near: Tensor, order: int) -> Tensor:
    made = torch.where(x <= 8, near, _far(x, order, True))
    return torch.where(x == 0, -math.inf, torch.where((x < 0) | x.isnan(), math.nan, made))


@special("special_bessel_y0.default")
def y0(x: Tensor) -> Tensor:
    low = x.clamp(1e-300, 8)
    return _y(
        x, _near(low, series.Y0_NEAR) + 2 / math.pi * low.log() * _near(low, series.J0_NEAR), 0
    )


@special("special_bessel_y1.default")
def y1(x: Tensor) -> Tensor:
    low = x.clamp(1e-300, 8)
    rest = 2 / math.pi * (low.log() * _near(low, series.J1_NEAR) * low - 1 / low)
    return _y(x, _near(low, series.Y1_NEAR) * low + rest, 1)


@special("special_spherical_bessel_j0.default")
def spherical_j0(x: Tensor) -> Tensor:
    square = x * x
    near = 1 - square / 6 * (1 - square / 20 * (1 - square / 42 * (1 - square / 72)))
    made = torch.where(x.abs() < 0.5, near, x.sin() / torch.where(x == 0, 1.0, x))
    return torch.where(x.isinf(), 0.0, made)


# ---- Of the normal distribution ----


@special("special_erfcx.default")
def erfcx(x: Tensor) -> Tensor:
    a = x.abs()
    u = 4 / (4 + a)
    made = _polynomial(series.ERFCX, 2 * u - 1) * u
    return torch.where(x < 0, 2 * (x * x).exp() - made, made)


@special("special_ndtri.default")
def ndtri(p: Tensor) -> Tensor:
    return -math.sqrt(2) * torch.erfinv(1 - 2 * p)


# ---- Derivatives of the logarithm of gamma ----


def _cotangent_derivative(order: int) -> list[float]:
    """The derivative of cot, of this order, as a polynomial in cot, the lowest power first."""
    numbers = [0.0, 1.0]
    for _ in range(order):
        inner = [i * c for i, c in enumerate(numbers)][1:]
        numbers = [0.0] * (len(inner) + 2)
        for i, c in enumerate(inner):
            numbers[i] -= c
            numbers[i + 2] -= c
    return numbers


_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730)


def _hurwitz(s: int, q: Tensor) -> Tensor:
    """The sum of (q + k)^-s for q > 0: ten terms, then the formula of Euler and Maclaurin."""
    total = sum((q + k).pow(-s) for k in range(10))
    far = q + 10
    total = total + far.pow(1 - s) / (s - 1) + far.pow(-s) / 2
    rising = float(s)
    for i, b in enumerate(_BERNOULLI):
        j = 2 * i + 2
        total = total + b * rising / math.factorial(j) * far.pow(-s - j + 1)
        rising *= (s + j - 1) * (s + j)
    return total


@composite("polygamma.default")
def polygamma(order: int, x: Tensor) -> Any:
    """Below a half by the reflection, with the derivative of the cotangent."""
    dtype = _result_dtype(x)
    if order == 0:
        return torch.digamma(x)
    if dtype is torch.float64 or order > 20:
        return NotImplemented
    narrow, wide = x.float(), x.double()
    sign = -1.0 if order % 2 == 0 else 1.0
    below = wide < 0.5
    plain = sign * math.factorial(order) * _hurwitz(order + 1, torch.where(below, 1 - wide, wide))
    if order == 1:  # at poles torch has what the rounded sine gives
        reflected = (math.pi / (narrow * math.pi).sin()).square().double() - plain
        return torch.where(below, reflected, plain).to(dtype)
    away = wide - wide.round()
    cotangent = 1 / (math.pi * away).tan()
    outer = _polynomial(_cotangent_derivative(order)[::-1], cotangent) * math.pi ** (order + 1)
    reflected = (-1.0) ** order * plain - outer
    made = torch.where(below, reflected, plain)
    return torch.where((away == 0) & (wide <= 0), sign * math.inf, made).to(dtype)


# ---- Chebyshev polynomials ----


def _chebyshev(
    x: Tensor, n: Tensor, inside: Any, outside: Any, at_one: Any, turned: Any = None
) -> Tensor:
    """In closed form: `inside` of the angle up to 1, `outside` beyond it, `at_one` at 1 itself.

    What is at -x has the sign of an odd degree, and for some kinds another function (`turned`). The
    memory of the result is in the order of x, as torch has it.
    """
    n = n.trunc()
    a = x.abs()
    angle, growth = a.clamp(max=1).acos(), a.clamp(min=1).acosh()

    def half(inner: Any, outer: Any, limit: Any) -> Tensor:
        made = torch.where(a < 1, inner(n, angle), outer(n, growth))
        return torch.where(n < 0, 0.0, torch.where(a == 1, limit(n), made))

    made = half(inside, outside, at_one)
    other = made if turned is None else half(*turned)
    odd = n.remainder(2) == 1
    return torch.where(x < 0, torch.where(odd, -other, other), made)


_T = (lambda n, t: (n * t).cos(), lambda n, t: (n * t).cosh(), lambda n: torch.ones_like(n))
_U = (
    lambda n, t: ((n + 1) * t).sin() / t.sin(),
    lambda n, t: ((n + 1) * t).sinh() / t.sinh(),
    lambda n: n + 1,
)
_V = (
    lambda n, t: ((n + 0.5) * t).cos() / (t / 2).cos(),
    lambda n, t: ((n + 0.5) * t).cosh() / (t / 2).cosh(),
    lambda n: torch.ones_like(n),
)
_W = (
    lambda n, t: ((n + 0.5) * t).sin() / (t / 2).sin(),
    lambda n, t: ((n + 0.5) * t).sinh() / (t / 2).sinh(),
    lambda n: 2 * n + 1,
)


def _add_chebyshev(kind: str, forms: tuple[Any, Any, Any], turned: Any) -> None:
    def add(name: str, place: Callable[[Tensor], Tensor]) -> None:
        def function(x: Any, n: Any) -> Any:
            dtype = _result_dtype(x, n)
            if dtype is torch.float64:
                return NotImplemented
            x, n = (torch.as_tensor(v, dtype=torch.float64) for v in (x, n))
            return _chebyshev(place(x), n, *forms, turned).to(dtype)

        composite(
            *(f"special_{name}_polynomial_{kind}.{o}" for o in ("default", "x_scalar", "n_scalar"))
        )(function)

    add("chebyshev", lambda x: x)
    add("shifted_chebyshev", lambda x: 2 * x - 1)


for _kind, _forms, _turned in (("t", _T, None), ("u", _U, None), ("v", _V, _W), ("w", _W, _V)):
    _add_chebyshev(_kind, _forms, _turned)
