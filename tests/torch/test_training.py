"""Training beyond a single step: compiled autograd, gradients that add up, another device, parameters that change."""

import logging
import warnings

import numpy as np
import pytest
import tenon.torch
import torch
from conftest import close
from tenon.torch.capture import backend
from tenon.torch.capture.watch import watch
from torch import nn


def network():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(6, 12), nn.GELU(), nn.Linear(12, 2))


def gradients(net):
    return [p.grad for p in net.parameters()]


def test_compiled_autograd(graphs):
    """The whole backward pass is one graph of ours."""
    one, two, x = network(), network(), torch.randn(5, 6)
    one(x).square().mean().backward()
    compiled = torch.compile(two, backend="tenon")
    with torch._dynamo.config.patch(compiled_autograd=True):

        @torch.compile(backend="tenon")
        def step(x):
            compiled(x).square().mean().backward()

        step(x)
    close(gradients(two), gradients(one))
    assert any(g.nodes > 8 and g.partitions and "inference" == g.kind for g in graphs)
    assert not any(g.unsupported for g in graphs)


def test_gradients_of_two_calls_add_up(graphs):
    one, two = network(), network()
    compiled = torch.compile(two, backend="tenon")
    batches = [torch.randn(5, 6) for _ in range(2)]
    for x in batches:
        one(x).square().mean().backward()
        compiled(x).square().mean().backward()
    close(gradients(two), gradients(one))
    first = [g.clone() for g in gradients(two)]
    compiled(batches[0]).square().mean().backward()
    assert all((a != b).any() for a, b in zip(gradients(two), first))
    assert [g.kind for g in graphs] == ["forward", "backward"]


def test_another_device():
    one, two, x = network(), network(), torch.randn(5, 6)
    compiled = torch.compile(two, backend="tenon", options={"device": "sim"})
    listed = []
    watch.lists.append(listed)
    try:
        for net in (one, compiled):
            net(x).square().mean().backward()
    finally:
        watch.lists.remove(listed)
    close(gradients(two), gradients(one))
    assert [g.kind for g in listed] == ["forward", "backward"]
    assert all("sim" in part.program.placement() for g in listed for part in g.partitions)


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.arange(4.0))

    def forward(self, x):
        return (x[..., None] * self.weight).sum(0)


def test_explain_shows_the_guard_that_failed():
    net = Scaled()
    compiled = torch.compile(net, backend="tenon")
    with torch.no_grad():
        compiled(torch.randn(5))
        compiled(torch.randn(7))
    explanation = tenon.torch.explain(net, torch.randn(7))
    assert any(
        "size mismatch" in guard and "expected 5, actual 7" in guard
        for guard in explanation.recompiles
    ), explanation.recompiles
    assert "compiled again: " in str(explanation)


def test_an_unknown_version_is_logged(monkeypatch, caplog):
    backend._log_version.cache_clear()
    monkeypatch.setattr(torch, "__version__", "9.1.0")
    with caplog.at_level(logging.WARNING, logger="tenon.torch"):
        backend._log_version()
        backend._log_version()
    monkeypatch.undo()
    backend._log_version.cache_clear()
    backend._log_version()
    lines = [r.getMessage() for r in caplog.records if r.name == "tenon.torch"]
    assert lines == ["torch 9.1.0 is not the tested version, which is 2.13"]


def test_a_parameter_that_is_resized():
    net = Scaled().requires_grad_(False)
    compiled = torch.compile(net, backend="tenon")
    x = torch.randn(3)
    for size in (4, 6, 2):
        net.weight.resize_(size).copy_(torch.arange(float(size)) + 1)
        close(compiled(x), net(x))


def test_memory_of_numpy_that_is_read_only():
    a = np.arange(6, dtype=np.float32)
    a.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # torch says once that it does not keep the memory read-only
        x = torch.from_numpy(a)
    close(
        torch.compile(lambda x: x * 2 + 1, backend="tenon")(x), torch.from_numpy(a.copy()) * 2 + 1
    )
    w = nn.Parameter(torch.ones(6))
    torch.compile(lambda x, w: (x * w).sum(), backend="tenon")(x, w).backward()
    close(w.grad, torch.from_numpy(a.copy()))
    assert a.tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    "shape, function",
    [
        ((2, 3, 8, 12), lambda x: nn.functional.max_pool2d(x, 2)),
        ((2, 3, 7, 9), lambda x: nn.functional.max_pool2d(x, (2, 4), ceil_mode=True)),
        ((2, 3, 9), lambda x: nn.functional.max_pool1d(x, 3)),
        ((1, 2, 6, 4, 8), lambda x: nn.functional.max_pool3d(x, 2)),
        ((2, 3, 6, 7), lambda x: nn.functional.pad(x, (2, 3, 0, 5), mode="reflect")),
        ((2, 3, 6, 7), lambda x: nn.functional.pad(x, (2, 0, 1, 9), mode="replicate")),
        ((2, 3, 6, 7), lambda x: nn.functional.pad(x, (2, 3, 1, 2), mode="circular")),
        ((2, 3, 6, 7), lambda x: nn.functional.pad(x, (-1, 3, 1, -2), mode="replicate")),
    ],
)
def test_gradients_of_tiles_and_borders(graphs, shape, function):
    """Nothing is scattered; equal elements and NaN among the largest have torch's choice."""
    torch._dynamo.reset()
    x = torch.randn(shape).round()
    x.view(-1)[5] = torch.nan
    one, two = x.clone().requires_grad_(), x.clone().requires_grad_()
    expected = function(one)
    got = torch.compile(function, backend="tenon")(two)
    given = torch.randn_like(expected)
    expected.backward(given)
    got.backward(given)
    close(got.nan_to_num(), expected.nan_to_num())
    close(two.grad, one.grad)
    assert not any(g.unsupported for g in graphs)
