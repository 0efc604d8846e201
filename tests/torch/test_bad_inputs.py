"""Tensors with a state of their own, and networks that Dynamo breaks: right, or torch's own error."""

import logging
import threading

import pytest
import tenon.torch  # noqa: F401
import torch
from conftest import close
from torch import nn


def compiled(f, **options):
    return torch.compile(f, backend="tenon", **options)


def double(x):
    return x * 2 + 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.randn(3, dtype=torch.complex64).conj(),
        lambda: torch.randn(3, dtype=torch.complex64).conj().imag,
        lambda: torch._efficientzerotensor((3,)),
        lambda: torch.randn(3, requires_grad=True),
        lambda: nn.Parameter(torch.randn(3)),
        lambda: torch.randn(1, 3).expand(4, 3),
        lambda: torch.randn(6)[::2],
        lambda: torch.tensor(3.0),
        lambda: torch.randn(2, 0, 3),
        lambda: torch.ones(3, dtype=torch.bool),
        lambda: torch.ones(3, dtype=torch.uint8),
        lambda: torch.ones(3, dtype=torch.float16),
        lambda: torch.ones(3, dtype=torch.float8_e4m3fn).to(torch.float32),
    ],
)
def test_states(make):
    x = make()
    close(compiled(double)(x), double(x), 1e-3)


def test_meta_tensors():
    y = compiled(double)(torch.randn(3, device="meta"))
    assert y.device.type == "meta" and y.shape == (3,)


def test_sparse_tensors():
    x = torch.eye(3).to_sparse()
    f = lambda x: (x @ torch.ones(3, 2)) * 2  # noqa: E731
    close(compiled(f)(x), f(x))


def test_nested_tensors():
    x = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)
    close(compiled(torch.sin)(x).values(), torch.sin(x).values())


def test_tensor_subclasses():
    from torch.testing._internal.two_tensor import TwoTensor

    x = TwoTensor(torch.randn(3), torch.randn(3))
    y, z = compiled(double)(x), double(x)
    close([y.a, y.b], [z.a, z.b])


def test_overlapping_memory_that_is_mutated():
    def f(x):
        x.add_(1)
        return x.sum()

    a, b = torch.zeros(3).expand(2, 3), torch.zeros(3).expand(2, 3)
    for run, x in ((f, b), (compiled(f), a)):
        with pytest.raises(
            RuntimeError, match="more than one element|single memory location|overlap"
        ):
            run(x)


def test_parameters_that_are_replaced():
    net = nn.Linear(4, 4)
    f, x = compiled(net), torch.randn(2, 4)
    with torch.no_grad():
        close(f(x), net(x))
        net.weight.data = torch.randn(4, 4)
        close(f(x), net(x))
        net.weight.set_(torch.randn(4, 4))
        close(f(x), net(x))
        net.weight.mul_(2)
        close(f(x), net(x))


def test_backward_twice():
    x = torch.randn(3, requires_grad=True)
    y = compiled(lambda x: (x.sin() * x).sum())(x)
    y.backward(retain_graph=True)
    first = x.grad.clone()
    y.backward()
    close(x.grad, first * 2)
    z = compiled(lambda x: x.exp().sum())(x)
    z.backward()
    with pytest.raises(RuntimeError, match="second time"):
        z.backward()


def test_double_backward_is_refused():
    x = torch.randn(3, requires_grad=True)
    y = compiled(lambda x: (x**3).sum())(x)
    (g,) = torch.autograd.grad(y, x, create_graph=True)
    with pytest.raises(RuntimeError, match="double backward"):
        g.sum().backward()


def test_a_result_that_is_gone_before_backward():
    x = torch.randn(3, requires_grad=True)
    a, b = compiled(lambda x: (x.exp().sum(), x.sin()))(x)
    del b
    a.backward()
    close(x.grad, x.detach().exp())


def test_in_place_on_views():
    def f(x):
        y = x * 1
        y[1:].mul_(2)
        y.view(-1)[0] = 5
        return y, y.t()

    x = torch.randn(3, 3)
    close(compiled(f)(x), f(x))


def test_data_tricks():
    def f(x):
        y = x.clone()
        y.data.add_(1)
        return y * 2

    x = torch.randn(3)
    close(compiled(f)(x), f(x))


def test_hooks_and_custom_functions():
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 3  # not its derivative

    def run(wrap):
        net = nn.Linear(3, 3)
        nn.init.eye_(net.weight)
        seen = []
        net.register_forward_hook(lambda m, i, o: o * 2)
        net.weight.register_hook(lambda g: seen.append(g.sum().item()))
        x = torch.arange(6.0).view(2, 3).requires_grad_()
        wrap(lambda x: Twice.apply(net(x)).sum())(x).backward()
        return x.grad, seen

    close(run(compiled), run(lambda f: f))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x * 2 if x.sum() > 0 else x * 3,
        lambda x: x[x > 0] * 2,
        lambda x: x * x.max().item(),
        lambda x: torch.nonzero(x).sum(),
        lambda x: x.unique() * 2,
        lambda x: torch.tensor(x.tolist()) + 1,
        lambda x: [x.relu(), print("", end=""), x.sin()][2],
    ],
)
def test_networks_that_break(f):
    x = torch.tensor([1.5, -2.0, 3.0])
    close(compiled(f)(x), f(x))


# An `assert` becomes these where pytest does not rewrite it.
def positive(x):
    torch._assert_async((x > 0).all(), "not positive")
    return x * 2, x.sum()


def positive_after_a_write(x):
    x.add_(1)
    torch._assert_async((x > 0).all(), "not positive")
    return x > 1


def positive_next_to_torch(x):
    torch._assert_async((x > 0).all(), "not positive")
    return torch.linalg.matrix_exp(x.diag()) + 1


def positive_in_a_branch(x):
    def check(x):
        torch._assert_async((x > 0).all(), "not positive")
        return x * 2

    return torch.cond(x.numel() == x.isfinite().sum(), check, torch.relu, (x,))


def positive_number(x):
    torch._check(x.min().item() > 0, lambda: "not positive")
    return x * 2


@pytest.mark.parametrize(
    "f",
    [
        positive,
        positive_after_a_write,
        positive_next_to_torch,
        positive_in_a_branch,
        positive_number,
    ],
)
def test_assertions_are_checked(f, graphs):
    """They were dropped, and the call gave a result."""
    with torch._dynamo.config.patch(capture_scalar_outputs=True), torch.no_grad():
        run = compiled(f)
        close(run(torch.ones(3)), f(torch.ones(3)))
        with pytest.raises(RuntimeError, match="not positive|assertion failed"):
            run(torch.tensor([1.0, -2.0, 3.0]))
        close(run(torch.ones(3)), f(torch.ones(3)))
    assert any(g.partitions for g in graphs)


def test_an_assertion_is_part_of_the_program(graphs):
    x = torch.ones(3, requires_grad=True)
    run = compiled(lambda x: positive(x)[0].sin().sum())
    run(x).backward()
    close(x.grad, 2 * torch.cos(2 * x.detach()))
    with pytest.raises(RuntimeError, match="not positive"):
        run(-x)
    assert graphs and all(len(g.partitions) == 1 and not g.unsupported for g in graphs)


def test_no_grad_and_inference_mode():
    net, x = nn.Linear(3, 3), torch.randn(2, 3)
    f = compiled(net)
    with torch.inference_mode():
        y = f(x)
        close(y, net(x))
        assert y.is_inference()
    with torch.no_grad():
        assert not f(x).requires_grad
    assert f(x).requires_grad


def test_threads():
    f = compiled(lambda x: (x @ x).relu().sum(0))
    x = torch.randn(8, 8)
    expected, failed = (x @ x).relu().sum(0), []

    def work():
        try:
            for _ in range(20):
                close(f(x), expected)
        except BaseException as error:  # noqa: BLE001
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not failed


def test_a_call_that_fails_stays_in_torch(monkeypatch, caplog):
    """Whatever a program refuses when it runs, eager's result is the result."""
    from tenon.torch.program import partition

    f, x = compiled(double), torch.randn(3)
    close(f(x), double(x))

    def refuse(self, args, to):
        raise tenon.DeviceError("the device is gone", "T0609")

    monkeypatch.setattr(partition.Partition, "_run", refuse)
    close(f(x), double(x))
    assert "a call stays in torch" in caplog.text


@pytest.mark.parametrize(
    "f, x",
    [
        (lambda x: torch.tensor([6, 4]) // x, torch.tensor([1, 0])),
        (torch.linalg.cholesky, -torch.eye(3)),
        (lambda x: torch.arange(3)[x], torch.tensor([3])),
    ],
)
def test_an_error_of_torch_is_the_only_message(f, x, caplog):
    """A warning came before it, about an index of a gather that the user does not have."""
    with pytest.raises(Exception) as wanted:
        f(x)
    with caplog.at_level(logging.WARNING, "tenon.torch"):
        with pytest.raises(type(wanted.value)) as got:
            compiled(f)(x)
    assert str(got.value) == str(wanted.value)
    assert "stays in torch" not in caplog.text


def test_a_fork_after_use():
    """The child has no threads of ours: torch does it there."""
    import os

    f, x = compiled(double), torch.ones(4)
    f(x)
    child = os.fork()
    if child == 0:
        os._exit(0 if torch.equal(f(x), double(x)) else 1)
    assert os.waitpid(child, 0)[1] == 0
