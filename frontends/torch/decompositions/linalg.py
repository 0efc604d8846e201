"""Linear algebra in terms of other operators: pseudoinverses, products of reflections."""

from __future__ import annotations

import torch

from .registry import composite

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from torch import Tensor


@composite("linalg_pinv.atol_rtol_tensor")
def pinv(
    x: Tensor, *, atol: Tensor | None = None, rtol: Tensor | None = None, hermitian: bool = False
) -> Any:
    if 0 in x.shape:
        return x.new_zeros((*x.shape[:-2], x.shape[-1], x.shape[-2]))
    real = x.real.dtype if x.is_complex() else x.dtype
    if rtol is None:
        usual = torch.finfo(real).eps * max(x.shape[-2:])
        rtol = torch.full((), usual, dtype=real)
        rtol = rtol if atol is None else torch.where(atol > 0, torch.zeros_like(rtol), rtol)
    atol = torch.zeros((), dtype=real) if atol is None else atol
    right: Any = None
    if hermitian:
        values, left = torch.linalg.eigh(x)
    else:
        left, values, right = torch.linalg.svd(x, full_matrices=False)
    sizes = values.abs()
    least = torch.maximum(atol.unsqueeze(-1), rtol.unsqueeze(-1) * sizes.amax(-1, keepdim=True))
    inverse = (
        torch.where(sizes > least, 1 / values, torch.zeros_like(values)).to(x.dtype).unsqueeze(-2)
    )
    return (left * inverse) @ left.mH if hermitian else (right.mH * inverse) @ left.mH


def _reflections(a: Tensor, tau: Tensor) -> tuple[Tensor, Tensor]:
    """V and a triangle T with H1 H2 ... = 1 - V T^-1 V^H, of LAPACK's vectors and factors."""
    size, count = a.shape[-2], tau.shape[-1]
    none = tau == 0  # a reflection that is the identity
    v = a[..., :count].tril(-1) + torch.eye(size, count, dtype=a.dtype)
    v = torch.where(none.unsqueeze(-2), torch.zeros_like(v), v)
    diagonal = torch.where(
        none, torch.ones_like(tau), 1 / torch.where(none, torch.ones_like(tau), tau)
    )
    return v, (v.mH @ v).triu(1) + torch.diag_embed(diagonal)


def _by_columns(x: Tensor) -> Tensor:
    """In the memory order of LAPACK, which torch's results have."""
    return x.mT.contiguous().mT


def _solved(triangle: Tensor, b: Tensor, upper: bool) -> Tensor:
    return torch.linalg.solve_triangular(triangle, b, upper=upper)


@composite("linalg_householder_product.default")
def householder_product(a: Tensor, tau: Tensor) -> Any:
    if 0 in a.shape:
        return a.clone()
    whole = torch.eye(a.shape[-2], a.shape[-1], dtype=a.dtype).expand(a.shape)
    if 0 in tau.shape:
        return whole.clone()
    v, triangle = _reflections(a, tau)
    made = whole - v @ _solved(triangle, v.mH[..., : a.shape[-1]], True)
    return _by_columns(made)


@composite("ormqr.default")
def ormqr(a: Tensor, tau: Tensor, other: Tensor, left: bool = True, transpose: bool = False) -> Any:
    if 0 in other.shape or 0 in tau.shape:
        return other.clone()
    v, triangle = _reflections(a, tau)
    given = other if left else other.mH
    if transpose == left:  # Q^H from the left is Q from the right
        made = given - v @ _solved(triangle.mH, v.mH @ given, False)
    else:
        made = given - v @ _solved(triangle, v.mH @ given, True)
    return _by_columns(made if left else made.mH)
