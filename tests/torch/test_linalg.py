"""Factorisations in LAPACK's form, packed factors and pivots, and what is solved with them, against eager mode."""

import pytest
import tenon.torch  # noqa: F401
import torch
from conftest import close
from torch import linalg

STACKS = [(), (2, 3)]
DTYPES = [torch.float64, torch.complex64]


def same(f, *args):
    with torch.no_grad():
        torch._dynamo.reset()
        close(torch.compile(f, backend="tenon")(*args), f(*args))


@pytest.fixture(autouse=True)
def in_tenon(graphs):
    """Nothing stays in torch."""
    yield
    assert graphs and not any(g.unsupported for g in graphs), [g.unsupported for g in graphs]


def numbers(*shape, dtype=torch.float64):
    return torch.randn(shape, dtype=dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("stack", STACKS)
def test_lu(stack, dtype):
    def f(*matrices):
        found = []
        for a in matrices:
            packed, pivots, info = linalg.lu_factor_ex(a)
            found += [packed, pivots, info, *torch.lu_unpack(packed, pivots), *linalg.lu(a)]
        return found

    same(f, *(numbers(*stack, m, n, dtype=dtype) for m, n in ((4, 4), (5, 3), (3, 5))))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("stack", STACKS)
def test_what_is_solved_with_lu(stack, dtype):
    a, b = numbers(*stack, 4, 4, dtype=dtype), numbers(*stack, 4, 2, dtype=dtype)
    c = numbers(4, 3, dtype=dtype)
    factors = linalg.lu_factor(a)

    def f(packed, pivots, b, c):
        solve = linalg.lu_solve
        return (
            solve(packed, pivots, b), solve(packed, pivots, b, adjoint=True), solve(packed, pivots, c),
            solve(packed, pivots, b.mT, left=False), solve(packed, pivots, b.mT, left=False, adjoint=True),
            torch.lu_unpack(packed, pivots, unpack_data=False)[0],
        )  # fmt: skip

    same(f, *factors, b, c)
    same(
        lambda a, b: (*linalg.lu_factor(a), linalg.solve(a, b), linalg.solve(a, b.mT, left=False)),
        a,
        b,
    )


def test_a_zero_among_the_pivots():
    a = torch.tensor([[1.0, 2, 3], [2, 4, 7], [0, 0, 5]]).repeat(2, 1, 1)
    a[1] = torch.eye(3)
    same(lambda a: linalg.lu_factor_ex(a), a)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("stack", STACKS)
def test_triangles(stack, dtype):
    a = numbers(*stack, 4, 4, dtype=dtype)
    spd, b = a @ a.mH + torch.eye(4), numbers(*stack, 4, 2, dtype=dtype)

    def f(a, spd, b):
        lower, upper = torch.cholesky(spd), torch.cholesky(spd, upper=True)
        return (
            lower, upper, torch.cholesky_solve(b, lower), torch.cholesky_solve(b, upper, upper=True),
            torch.cholesky_inverse(lower), torch.cholesky_inverse(upper, upper=True),
            *torch.triangular_solve(b, lower, upper=False), torch.triangular_solve(b, upper)[0],
            torch.triangular_solve(b, upper, transpose=True)[0],
            torch.triangular_solve(b, a, unitriangular=True)[0],
        )  # fmt: skip

    same(f, a, spd, b)


def test_no_cholesky_factor_raises():
    with torch.no_grad(), pytest.raises(RuntimeError, match="positive-definite"):
        torch.compile(torch.cholesky, backend="tenon")(-torch.eye(3))


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize(
    "name",
    ["solve", "det", "slogdet", "lu_factor", "cholesky_solve", "inv", "solve from the right"],
)
@pytest.mark.parametrize("turned", [False, True])
def test_training(name, turned, dtype):
    fs = {
        "solve": lambda a, b: linalg.solve(a, b), "det": lambda a, b: linalg.det(a)[:, None, None] * b,
        "slogdet": lambda a, b: linalg.slogdet(a)[1][:, None, None] * b, "lu_factor": lambda a, b: linalg.lu_factor(a)[0] @ b,
        "cholesky_solve": lambda a, b: torch.cholesky_solve(b, torch.cholesky(a @ a.mH)), "inv": lambda a, b: linalg.inv(a) @ b,
        "solve from the right": lambda a, b: linalg.solve(a, b.mT, left=False),
    }  # fmt: skip
    f, made = fs[name], []
    a, b = numbers(2, 3, 3, dtype=dtype), numbers(2, 3, 2, dtype=dtype)
    for run in (f, torch.compile(f, backend="tenon")):
        x, y = (t.clone().requires_grad_() for t in (a, b))
        run(x.mT if turned else x, y).abs().square().sum().backward()
        made.append([x.grad, y.grad])
    close(made[1], made[0])


EMPTY = [((0, 0), (0, 3)), ((3, 3), (3, 0)), ((0, 3, 3), (0, 3, 2)), ((2, 0, 0), (2, 0, 1))]
SOLVED = {
    "solve_triangular": lambda a, b: linalg.solve_triangular(a, b, upper=True),
    "solve_triangular from the right": lambda a, b: linalg.solve_triangular(
        a, b.mT, upper=True, left=False
    ),
    "triangular_solve": lambda a, b: torch.triangular_solve(b, a)[0],
    "cholesky_solve": lambda a, b: torch.cholesky_solve(b, a),
    "solve": lambda a, b: linalg.solve(a, b),
    "lu_solve": lambda a, b: linalg.lu_solve(*linalg.lu_factor(a), b),
}


@pytest.mark.parametrize("shapes", EMPTY)
@pytest.mark.parametrize("name", sorted(SOLVED))
def test_systems_without_elements(name, shapes, caplog):
    """Their result has no elements; nothing fails on the way."""
    f, made = SOLVED[name], []
    for run in (f, torch.compile(f, backend="tenon")):
        a, b = (torch.ones(shape).requires_grad_() for shape in shapes)
        x = run(a + torch.eye(shapes[0][-1]), b)
        x.sum().backward()
        made.append([x.detach(), a.grad, b.grad])
    close(made[1], made[0])
    assert "a call stays in torch" not in caplog.text


def test_one_system_after_another_without_elements(caplog):
    def f(a, b):
        return linalg.solve_triangular(
            a, linalg.solve_triangular(a, b + 1, upper=True), upper=True
        ).sum(-1)

    same(f, torch.zeros(0, 0), torch.zeros(0, 3))
    assert "a call stays in torch" not in caplog.text


def test_determinants_without_elements():
    def f(a):
        return linalg.det(a), *linalg.slogdet(a)

    same(f, torch.zeros(0, 0))


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("left", [False, True])
def test_products_with_reflections_are_by_columns(left, transpose, caplog):
    """`torch.ormqr` gives LAPACK's memory order, whatever the product is computed from."""
    a, tau = torch.geqrf(torch.randn(5, 5))
    other = torch.randn(5, 4) if left else torch.randn(4, 5)

    def f(a, tau, other):
        return torch.ormqr(a, tau, other, left, transpose)

    ours, theirs = torch.compile(f, backend="tenon")(a, tau, other), f(a, tau, other)
    close(ours, theirs)
    assert ours.stride() == theirs.stride()
    assert "a call stays in torch" not in caplog.text
