"""Results that share memory in eager mode share it here, and what a call writes reaches its input."""

import logging

import pytest
import tenon.torch  # noqa: F401
import torch
from conftest import close


def compiled(f, **options):
    return torch.compile(f, backend="tenon", **options)


@pytest.mark.parametrize(
    "view",
    [
        lambda y: y[1:],
        lambda y: y[:, 1],
        lambda y: y.chunk(2)[1],
        lambda y: y.split([1, 3])[1].t(),
        lambda y: y.narrow(1, 1, 2),
        lambda y: y.unbind(1)[2],
        lambda y: y.diagonal(),
        lambda y: y.view(torch.int32),
        lambda y: y.unfold(0, 2, 2),
        lambda y: y.as_strided((2,), (1,), 3),
    ],
)
def test_a_part_of_an_intermediate_shares_its_memory(view):
    def f(x):
        y = x * 2
        return y, view(y)

    x = torch.randn(4, 4)
    a, b = compiled(f)(x)
    c, d = f(x)
    close([a, b], [c, d])
    for v in (b, d):
        v.zero_()
    close(a, c)


def test_a_view_that_is_written_after_a_break():
    def f(x):
        y = x * 2
        v = y[1:]
        torch._dynamo.graph_break()
        v.add_(100)
        return y

    x = torch.randn(4)
    close(compiled(f)(x), f(x))


def test_parts_of_one_intermediate_share_its_memory():
    def f(x):
        y = (x * 2).relu()
        return y[1:], y[:3].t()

    x = torch.rand(4, 4)
    a, b = compiled(f)(x)
    c, d = f(x)
    for v in (a, c):
        v.zero_()
    close([a, b], [c, d])


def test_parts_of_sizes_that_change():
    def f(x):
        y = x * 2
        return y, y[1:], y.chunk(2)[1], y.view(-1)[3:]

    g = compiled(f, dynamic=True)
    for count in (4, 6):
        x = torch.randn(count, 4)
        mine, theirs = g(x), f(x)
        close(mine, theirs)
        for results in (mine, theirs):
            results[1].zero_()
        close(mine, theirs)


PARTS = {
    "slice": lambda y: y[..., :3],
    "inner slice": lambda y: y[:, 1:3],
    "step": lambda y: y[:, ::2],
    "chunk": lambda y: y.chunk(2, 1)[0],
    "split": lambda y: y.split([1, y.shape[1] - 1], 1)[1],
    "column": lambda y: y[:, 1],
    "turned part": lambda y: y.transpose(0, 1)[1:4],
    "view of a part": lambda y: y[:, 1:5].unsqueeze(1),
    "part of the last axis, turned": lambda y: y[..., 1:4].transpose(0, 1),
}


@pytest.mark.parametrize("part", PARTS.values(), ids=list(PARTS))
@pytest.mark.parametrize("dynamic", [False, True])
def test_strides_of_parts(part, dynamic):
    """Where sizes change, such results were without gaps."""
    f = lambda x: part(x * 2)  # noqa: E731
    g = compiled(f, dynamic=dynamic)
    for rows in (6, 5) if dynamic else (6,):
        for x in (torch.randn(rows, 7), torch.randn(rows, 7).requires_grad_()):
            close(g(x), f(x))


def test_a_single_part_is_computed_alone(graphs):
    x = torch.randn(100, 4)
    y = compiled(lambda x: (x * 2)[1:3])(x)
    assert y.untyped_storage().nbytes() == 32


def add_one(x):
    x.add_(1)
    return x * 2


def test_an_input_with_the_negative_bit_is_written():
    make = lambda: torch.tensor([1 + 2j, 3 - 4j]).conj().imag  # noqa: E731
    x, y = make(), make()
    assert x.is_neg()
    close(compiled(add_one)(x), add_one(y))
    assert x.tolist() == y.tolist()


def test_an_index_too_large_is_an_error_of_torch():
    net = torch.nn.Embedding(4, 2)
    f = compiled(net)
    f(torch.tensor([1, 2]))
    with pytest.raises(IndexError):
        f(torch.tensor([1, 7]))
    f(torch.tensor([1, 3])).sum().backward()


def test_an_index_too_large_in_a_call_that_writes_to_an_input():
    def f(x, i):
        x.add_(1)
        return x[i]

    g, x = compiled(f), torch.zeros(3)
    g(x, torch.tensor([1]))
    with pytest.raises(IndexError):
        g(x, torch.tensor([7]))
    assert x.tolist() == [1, 1, 1]  # as it was before this call


def test_a_device_that_fails_while_it_trains(monkeypatch, caplog):
    """Training goes on in torch, and that is logged once."""
    from tenon.torch.program import partition

    f = compiled(lambda x: (x * x).sum())
    x = torch.ones(3, requires_grad=True)
    f(x).backward()

    def refuse(self, args, to):
        raise tenon.DeviceError("the device is gone", "T0609")

    monkeypatch.setattr(partition.Partition, "_run", refuse)
    with caplog.at_level(logging.WARNING, "tenon.torch"):
        for _ in range(3):
            x.grad = None
            f(x).backward()
    assert x.grad.tolist() == [2, 2, 2]
    assert caplog.text.count("a call stays in torch") == 2  # forward and backward


def test_a_call_that_may_have_written_is_not_repeated(monkeypatch):
    from tenon.torch.program import partition

    f, calls = compiled(add_one), []
    x = torch.tensor([1 + 2j]).conj().imag
    f(x)

    def fail(self, args, to):
        calls.append(args)
        raise tenon.DeviceError("the device is gone", "T0609")

    monkeypatch.setattr(partition.Partition, "_run", fail)
    with pytest.raises(tenon.DeviceError):
        f(x)
    assert len(calls) == 1
