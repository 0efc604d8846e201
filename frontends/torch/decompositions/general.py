"""Composites of all kinds: order, places, numbers. Their table is in `registry.py`."""

from __future__ import annotations

import math

import torch

from .registry import composite

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from torch import Tensor


def _wide(x: Tensor) -> Tensor:
    """In float32 for types of 16 bits, whose sums lose digits and whose squares are soon infinite."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


# ---- Order ----


def _at(
    values: Tensor, order: Tensor, place: Tensor, dim: int, keepdim: bool
) -> tuple[Tensor, Tensor]:
    """Elements of a sorted tensor at places, one along the dim, and where they were."""
    found, where = values.gather(dim, place), order.gather(dim, place)
    return (found, where) if keepdim else (found.squeeze(dim), where.squeeze(dim))


def _place(x: Tensor, at: int, dim: int) -> Tensor:
    shape = [1 if i == dim % x.dim() else s for i, s in enumerate(x.shape)]
    return torch.full(shape, at, dtype=torch.int64)


def _alone(x: Tensor) -> tuple[Tensor, Tensor]:
    return x.clone(), torch.zeros((), dtype=torch.int64)


@composite("kthvalue.default")
def kthvalue(x: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    if x.dim() == 0:
        return _alone(x)
    values, order = torch.sort(x, dim=dim, stable=True)
    return _at(values, order, _place(x, k - 1, dim), dim, keepdim)


@composite("median.dim")
def median_dim(x: Tensor, dim: int, keepdim: bool = False) -> Any:
    if x.dim() == 0:
        return _alone(x)
    if x.shape[dim] == 0:
        return NotImplemented
    values, order = torch.sort(x, dim=dim, stable=True)
    place = _place(x, (x.shape[dim] - 1) // 2, dim)
    if x.is_floating_point():  # the first NaN, if there is one; NaNs are sorted last
        count = x.isnan().sum(dim, keepdim=True)
        place = torch.where(count > 0, x.shape[dim] - count, place)
    return _at(values, order, place, dim, keepdim)


@composite("nanmedian.dim")
def nanmedian_dim(x: Tensor, dim: int, keepdim: bool = False) -> Any:
    if x.dim() == 0:
        return _alone(x)
    if x.shape[dim] == 0:
        return NotImplemented
    values, order = torch.sort(x, dim=dim, stable=True)
    numbers = x.shape[dim] - x.isnan().sum(dim, keepdim=True)
    return _at(values, order, ((numbers - 1).clamp(min=0)) // 2, dim, keepdim)


@composite("median.default")
def median(x: Tensor) -> Any:
    return median_dim(x.reshape(-1), 0)[0] if x.numel() else NotImplemented


@composite("nanmedian.default")
def nanmedian(x: Tensor) -> Any:
    return nanmedian_dim(x.reshape(-1), 0)[0] if x.numel() else NotImplemented


@composite("mode.default")
def mode(x: Tensor, dim: int = -1, keepdim: bool = False) -> Any:
    """The longest run of a sorted tensor, the first of equals, at its end."""
    if x.dim() == 0:
        return _alone(x)
    dim, size = dim % x.dim(), x.shape[dim]
    if size == 0:
        return NotImplemented
    values, order = torch.sort(x, dim=dim, stable=True)
    at = torch.arange(size).reshape([-1 if i == dim else 1 for i in range(x.dim())]).expand(x.shape)
    same = values.narrow(dim, 1, size - 1) == values.narrow(dim, 0, size - 1)
    same = torch.cat([torch.zeros_like(values.narrow(dim, 0, 1), dtype=torch.bool), same], dim)
    start = torch.where(same, torch.zeros_like(at), at).cummax(dim).values
    return _at(values, order, (at - start).argmax(dim, keepdim=True), dim, keepdim)


@composite("logcumsumexp.default")
def logcumsumexp(x: Tensor, dim: int) -> Any:
    """Each step adds what stands twice as far away."""
    if x.dim() == 0 or x.is_complex():
        return x.clone() if x.dim() == 0 else NotImplemented
    size, step, dtype = x.shape[dim], 1, x.dtype
    if not isinstance(size, int):
        return NotImplemented
    x = _wide(x)
    while step < size:
        before = torch.full_like(x.narrow(dim, 0, step), -math.inf)
        x = torch.logaddexp(x, torch.cat([before, x.narrow(dim, 0, size - step)], dim))
        step *= 2
    return x.to(dtype, copy=True).contiguous()


@composite("nonzero_static.default")
def nonzero_static(x: Tensor, *, size: int, fill_value: int = -1) -> Any:
    """Places past the last requested one go to an additional row, which is cut off."""
    flat = (x != 0).reshape(-1)
    before = flat.cumsum(0) - 1
    row = torch.where(flat & (before < size), before, size)
    numbers = torch.full((size + 1,), -1).scatter(0, row, torch.arange(flat.shape[0]))[:size]
    columns, step = [], 1
    for extent in reversed(x.shape):
        # Where a dim is 0, no number is left to divide.
        columns.append(
            torch.where(numbers < 0, fill_value, numbers // max(step, 1) % max(extent, 1))
        )
        step *= extent
    return torch.stack(columns[::-1], 1) if columns else torch.zeros((size, 0), dtype=torch.int64)


# ---- Distances ----


def _norm(x: Tensor, p: float) -> Tensor:
    """Over the last dim; 0 over none."""
    if x.shape[-1] == 0:
        return x.sum(-1)
    if p == 0:
        return (x != 0).to(x.dtype).sum(-1)
    if p == 1:
        return x.abs().sum(-1)
    if p == 2:
        return (x * x).sum(-1).sqrt()
    return x.abs().amax(-1) if p == math.inf else x.abs().pow(p).sum(-1).pow(1 / p)


def _norm_gradient(g: Tensor, x: Tensor, p: float, norm: Tensor) -> Tensor:
    """The gradient of `_norm`; 0 where the norm is."""
    g, norm = g.unsqueeze(-1), norm.unsqueeze(-1)
    if p == 0:
        return torch.zeros_like(x * g)
    if p == 1:
        return x.sign() * g
    if p == math.inf:
        return x.sign() * g * (x.abs() == norm).to(x.dtype)
    if p == 2:
        made = g * x / norm
    elif p < 1:
        made = x.sign() * x.abs().pow(p - 1) * g * norm.pow(1 - p)
        made = torch.where(x == 0, torch.zeros_like(made), made)
    else:
        made = x * x.abs().pow(p - 2) * g / norm.pow(p - 1)
        made = torch.where(x == 0, torch.zeros_like(made), made)
    return torch.where(norm == 0, torch.zeros_like(made), made)


@composite("_cdist_backward.default")
def cdist_backward(g: Tensor, x: Tensor, y: Tensor, p: float, norm: Tensor) -> Any:
    made = _norm_gradient(g, x.unsqueeze(-2) - y.unsqueeze(-3), p, norm).sum(-2)
    return made if made.shape == x.shape else made.sum_to_size(x.shape)


def _pairs(count: int) -> tuple[Tensor, Tensor]:
    places = torch.triu_indices(count, count, 1)
    return places[0], places[1]


@composite("_pdist_forward.default")
def pdist(x: Tensor, p: float = 2.0) -> Any:
    if x.shape[0] < 2:
        return x.new_zeros((0,))
    i, j = _pairs(x.shape[0])
    return _norm(x.index_select(0, i) - x.index_select(0, j), p)


@composite("_pdist_backward.default")
def pdist_backward(g: Tensor, x: Tensor, p: float, norm: Tensor) -> Any:
    if x.shape[0] < 2 or x.shape[1] == 0:
        return torch.zeros_like(x)
    i, j = _pairs(x.shape[0])
    each = _norm_gradient(g, x.index_select(0, i) - x.index_select(0, j), p, norm)
    return torch.zeros_like(x).index_add(0, i, each).index_add(0, j, -each)


# ---- Others ----


@composite("embedding_renorm.default")
def embedding_renorm(table: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Any:
    """Rows that are too long are made shorter; those that are there twice become the same."""
    if not table.is_floating_point():
        return NotImplemented
    at = indices.reshape(-1)
    rows = table.index_select(0, at)
    norm = _norm(_wide(rows), norm_type).to(rows.dtype).unsqueeze(-1)
    return table.index_put(
        (at,), torch.where(norm > max_norm, rows * (max_norm / (norm + 1e-7)), rows)
    )


@composite("angle.default")
def angle(x: Tensor) -> Any:
    if x.is_complex():
        return NotImplemented
    dtype = x.dtype if x.is_floating_point() else torch.get_default_dtype()
    made = torch.where(x < 0, math.pi, 0.0).to(dtype)
    return torch.where(x.isnan(), x, made) if x.is_floating_point() else made


@composite("frexp.Tensor")
def frexp(x: Tensor) -> Any:
    """By the bits; numbers below the normal ones are scaled up before."""
    if x.dtype is not torch.float32:
        return NotImplemented
    small = x.abs() < 2.0**-126
    bits = torch.where(small, x * 2.0**24, x).view(torch.int32)
    exponent = ((bits >> 23) & 0xFF) - 126 - 24 * small.to(torch.int32)
    mantissa = ((bits & -0x7F800001) | 0x3F000000).view(torch.float32)
    plain = (x != 0) & x.isfinite()
    return torch.where(plain, mantissa, x), torch.where(plain, exponent, torch.zeros_like(exponent))


@composite("multinomial.default")
def multinomial(
    p: Tensor, num_samples: int, replacement: bool = False, *, generator: Any = None
) -> Any:
    """With replacement by the distribution function, else by the largest of noisy logarithms."""
    if generator is not None or p.dtype not in (torch.float32, torch.float64):
        return NotImplemented
    if replacement:
        reached = p.cumsum(-1)
        drawn = torch.rand((*p.shape[:-1], num_samples), dtype=p.dtype) * reached[..., -1:]
        below = (reached.unsqueeze(-2) <= drawn.unsqueeze(-1)).to(torch.int64).sum(-1)
        last = p.shape[-1] - 1 - (p > 0).flip(-1).to(torch.int64).argmax(-1, keepdim=True)
        return torch.minimum(below, last)
    noise = -torch.log(-torch.log(torch.rand_like(p).clamp(min=1e-30)))
    return (p.log() + noise).topk(num_samples, -1).indices


@composite("geometric.default")
def geometric(x: Tensor, p: float, *, generator: Any = None) -> Any:
    """How often one tries until it succeeds."""
    if generator is not None or not 0 < p < 1:
        return NotImplemented
    u = torch.rand(x.shape, dtype=torch.float64)
    return (torch.floor(torch.log1p(-u) / math.log1p(-p)) + 1).to(x.dtype)


@composite("rrelu_with_noise_functional.default")
def rrelu(
    x: Tensor, noise: Tensor, lower: Any = 0.125, upper: Any = 1 / 3, training: bool = False, generator: Any = None
) -> Any:  # fmt: skip
    """The slopes are results as well, for the gradient."""
    if generator is not None:
        return NotImplemented
    if not training:
        return torch.where(x <= 0, x * ((lower + upper) / 2), x), noise.clone()
    slope = torch.where(x <= 0, torch.rand_like(x) * (upper - lower) + lower, torch.ones_like(x))
    return x * slope, slope


@composite("normal.Tensor_Tensor", "normal.Tensor_float", "normal.float_Tensor")
def normal(mean: Any, std: Any = 1.0, *, generator: Any = None) -> Any:
    like = mean * torch.ones_like(std) if isinstance(std, torch.Tensor) else mean
    return NotImplemented if generator is not None else torch.randn_like(like) * std + mean


@composite("normal.float_float")
def normal_sized(
    mean: float, std: float, size: Sequence[int], *, generator: Any = None, **options: Any
) -> Any:
    return (
        NotImplemented
        if generator is not None
        else torch.randn(size, dtype=options.get("dtype")) * std + mean
    )


def _is_whole(dtype: Any) -> bool:
    return dtype is not None and not dtype.is_floating_point and not dtype.is_complex


def _between(start: Any, end: Any, steps: int, dtype: Any) -> Tensor:
    """As eager mode steps where the result is whole: between whole ends, in double precision."""
    start, end = (
        v.to(dtype).double() if isinstance(v, torch.Tensor) else float(int(v)) for v in (start, end)
    )
    at = torch.arange(steps, dtype=torch.float64)
    if steps < 2:
        return at + start
    step = (end - start) / (steps - 1)
    return torch.where(at < steps // 2, start + step * at, end - step * (steps - 1 - at))


def _options(dtype: Any, options: Any) -> Any:
    return {"dtype": dtype, "device": options.get("device") or torch.device("cpu")}


@composite(
    "linspace.Tensor_Tensor", "linspace.Tensor_Scalar", "linspace.Scalar_Tensor", "linspace.default"
)
def linspace(start: Any, end: Any, steps: int, *, dtype: Any = None, **options: Any) -> Any:
    if _is_whole(dtype):
        return _between(start, end, steps, dtype).to(dtype)
    return torch._refs.linspace(start, end, steps, **_options(dtype, options))


@composite(
    "logspace.Tensor_Tensor", "logspace.Tensor_Scalar", "logspace.Scalar_Tensor", "logspace.default"
)
def logspace(
    start: Any, end: Any, steps: int, base: float = 10.0, *, dtype: Any = None, **options: Any
) -> Any:
    if (
        _is_whole(dtype) and steps == 1
    ):  # the only number of steps with which eager mode keeps a fraction
        start = (
            start.double()
            if isinstance(start, torch.Tensor)
            else torch.full((), float(start), dtype=torch.float64)
        )
        return torch.pow(base, start).to(dtype).reshape(1)
    if _is_whole(dtype):
        return torch.pow(base, _between(start, end, steps, dtype)).to(dtype)
    return torch._refs.logspace(start, end, steps, base, **_options(dtype, options))
