"""Whether results are those of eager mode."""

from __future__ import annotations

import torch

TOLERANCE = 1e-4
"""Of the largest number of a result, for floats."""


def difference(got: list, expected: list) -> str:
    """What differs, or nothing. Integers and booleans must be equal."""
    return _each(got, expected, _values)


def is_random_difference(got: list, expected: list, undefined: bool) -> str:
    """As `difference`, for results that differ in each run: types, sizes, mean and deviation."""
    return _each(got, expected, (lambda a, b: "") if undefined else _moments)


def as_close(got: list, expected: list, exact: list) -> bool:
    """Whether floats are at most twice as far from the exact results as the expected ones are."""
    if len(got) != len(exact) or _each(got, expected, lambda a, b: ""):
        return False
    for a, b, x in zip(got, expected, exact):
        if not isinstance(b, torch.Tensor) or not b.is_floating_point():
            if _one(a, b, _values):
                return False
        elif (
            b.numel()
            and not (a.double() - x).abs().max() <= 2 * (b.double() - x).abs().max() + 1e-6
        ):
            return False
    return True


def tie_difference(x: torch.Tensor, got: list, expected: list) -> str:
    """As `difference`, for results that are indices into x along some dim: what they pick is equal."""
    return _each(got, expected, lambda a, b: _values(a, b) and _picked(x, a, b))


def svd_difference(x: torch.Tensor, got: list, expected: list) -> str:
    """As `difference`, for a singular value decomposition with v as `torch.svd` gives it, whose vectors
    have free signs: the values agree, the product of the factors is x, and u and v are orthogonal."""
    problem = _each(got, expected, lambda a, b: "") or _one(got[1], expected[1], _values)
    if problem or x.is_complex() or got[1].numel() == 0:
        return problem
    u, s, v = (t.double() for t in got[:3])
    count = s.shape[-1]
    for name, factor in (("u", u), ("v", v)):
        error = factor.mT @ factor - torch.eye(factor.shape[-1], dtype=torch.float64)
        if factor.any() and error.abs().max() > TOLERANCE:
            return f"{name} is not orthogonal"
    made = (u[..., :count] * s.unsqueeze(-2)) @ v[..., :count].mT
    return _values(made.to(x.dtype), x.detach()) if u.any() else ""


def _picked(x: torch.Tensor, a, b) -> str:
    if a.dtype is not torch.int64:
        return "other numbers"
    for dim in range(x.dim()):
        for spread in (lambda t: t, lambda t: t.unsqueeze(dim)):
            mine, theirs = spread(a), spread(b)
            fits = (
                mine.dim() == x.dim()
                and max(mine.max(), theirs.max()) < x.shape[dim]
                and mine.min() >= 0
            )
            if fits and not _values(x.gather(dim, mine), x.gather(dim, theirs)):
                return ""
    return "other numbers"


def _each(got: list, expected: list, compare) -> str:
    if len(got) != len(expected):
        return f"{len(got)} results instead of {len(expected)}"
    for a, b in zip(got, expected):
        problem = _one(a, b, compare)
        if problem:
            return problem
    return ""


def _one(a, b, compare) -> str:
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        return "" if type(a) is type(b) and (a == b or a != a and b != b) else f"{a} instead of {b}"
    if a.dtype != b.dtype or a.shape != b.shape or a.layout != b.layout:
        return f"{a.dtype}{tuple(a.shape)} instead of {b.dtype}{tuple(b.shape)}"
    a, b = a.detach(), b.detach()
    if b.layout is not torch.strided:
        a, b = a.to_dense(), b.to_dense()
    return (
        compare(a.resolve_conj().resolve_neg(), b.resolve_conj().resolve_neg()) if b.numel() else ""
    )


def _values(a, b) -> str:
    if b.is_complex():
        return _values(torch.view_as_real(a), torch.view_as_real(b))
    if not b.is_floating_point():
        return "" if torch.equal(a, b) else "other numbers"
    a, b = a.double(), b.double()
    finite = b.isfinite()
    if not torch.equal(a.isnan(), b.isnan()):
        return "other places that are no numbers"
    if not torch.equal(a.isfinite(), finite) or not torch.equal(a[b.isinf()], b[b.isinf()]):
        return "other infinities"
    if not finite.any():
        return ""
    largest = b[finite].abs().max().item()
    worst = (a[finite] - b[finite]).abs().max().item()
    return "" if worst <= TOLERANCE * largest + 1e-6 else f"differs by {worst:.3g} of {largest:.3g}"


def _moments(a, b) -> str:
    """Six standard errors apart, which few numbers never are."""
    if b.is_complex():
        return _moments(torch.view_as_real(a), torch.view_as_real(b))
    a, b = a.double(), b.double()
    if (
        not torch.equal(a.isfinite().all(), b.isfinite().all())
        or b.numel() < 64
        or not b.isfinite().all()
    ):
        return ""
    error = (b.std() + a.std()) / b.numel() ** 0.5
    apart = (a.mean() - b.mean()).abs()
    return (
        "" if apart <= 6 * error + 1e-9 else f"a mean of {a.mean():.3g} instead of {b.mean():.3g}"
    )
