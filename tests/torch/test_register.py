"""A cell with `tenon.torch.register` runs twice, edited or not."""

import pytest
import tenon
import tenon.torch
import torch
from conftest import close


def cell(factor=2.0):
    """What a notebook has: the same text gives the same op."""

    @tenon.op("torch_cell.scaled")
    def scaled(x, a: float):
        return x * a * factor

    @scaled.gradient
    def scaled_gradient(g, x, a):
        return g * a * factor

    return tenon.torch.register(scaled)


def test_a_cell_runs_twice():
    first = cell()
    assert cell() is first
    x = torch.ones(3, requires_grad=True)
    torch.compile(lambda x: first(x, 3.0).sum(), backend="tenon")(x).backward()
    assert x.grad.tolist() == [6.0] * 3


def test_an_edited_cell_has_its_new_meaning():
    """In eager mode, in what was compiled, and in the gradient."""
    op = cell()
    fast = torch.compile(lambda x: op(x, 3.0) + 1, backend="tenon")
    x = torch.ones(3, requires_grad=True)
    close(fast(x).detach(), torch.full((3,), 7.0))
    cell(5.0)
    close(op(x.detach(), 3.0), torch.full((3,), 15.0))
    y = fast(x)
    close(y.detach(), torch.full((3,), 16.0))
    y.sum().backward()
    assert x.grad.tolist() == [15.0] * 3
    op(x, 3.0).sum().backward()
    assert x.grad.tolist() == [30.0] * 3
    cell()


def test_another_signature_is_an_error():
    cell()

    @tenon.op("torch_cell.scaled")
    def scaled(x, a: float, b: float = 0.5):
        return x * a + b

    with pytest.raises(tenon.UsageError) as e:
        tenon.torch.register(scaled)
    assert e.value.code == "T0642"
    assert "as torch_cell.scaled(x, a: float); it cannot become" in str(e.value)
    assert "torch_cell.scaled(x, a: float, b: float = 0.5)" in str(e.value)
    cell()  # it works as before

    @tenon.op("torch_cell.two")
    def two(x):
        return x, x

    tenon.torch.register(two, results=2)
    with pytest.raises(tenon.UsageError, match=r"as torch_cell.two\(x\), 2 results"):
        tenon.torch.register(two)


def test_a_gradient_of_torch_that_was_edited():
    @tenon.op("torch_cell.plain")
    def plain(x):
        return x * 2

    for factor in (2.0, 2.0, 7.0):
        op = tenon.torch.register(plain, gradient=lambda g, x: g * factor)
        x = torch.ones(2, requires_grad=True)
        torch.compile(lambda x: op(x).sum(), backend="tenon")(x).backward()
        assert x.grad.tolist() == [factor] * 2


def test_a_function_that_is_no_operator():
    """It was an AttributeError."""
    with pytest.raises(tenon.UsageError, match="not function: decorate") as e:
        tenon.torch.register(lambda x: x)
    assert e.value.code == "T0642"
