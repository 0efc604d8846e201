"""The option `freezing`: parameters as constants of programs."""

import copy
import gc
import weakref

import pytest
import tenon
import torch
from conftest import close
from torch import nn


def compiled(f):
    return torch.compile(f, backend="tenon", options={"freezing": True})


def mlp():
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.LayerNorm(32), nn.Linear(32, 10))


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.ModuleList([nn.Linear(16, 8)])
        self.scale = nn.Buffer(torch.randn(8))

    def forward(self, x):
        return self.inner[0](x) * self.scale


@pytest.mark.parametrize(
    "change",
    [
        lambda net: net.weight.add_(1),
        lambda net: setattr(net.weight, "data", torch.ones(4, 4)),
    ],
)
def test_a_frozen_parameter_that_changes_is_an_error(change):
    net, x = nn.Linear(4, 4), torch.randn(2, 4)
    f = compiled(net)
    with torch.no_grad():
        close(f(x), net(x))
        close(f(x), net(x))
        change(net)
        with pytest.raises(tenon.UsageError, match="T0641.*freezing"):
            f(x)


def test_a_frozen_parameter_that_is_replaced():
    """It was an error."""
    net, x = nn.Linear(4, 4), torch.randn(2, 4)
    f = compiled(net)
    with torch.no_grad():
        close(f(x), net(x))
        net.weight = nn.Parameter(torch.ones(4, 4))
        close(f(x), net(x))


@pytest.mark.parametrize("make", [mlp, Scaled], ids=["of torch", "of the user"])
def test_frozen_networks_of_one_class(make):
    """The second one was an error, as if it were the first one with other parameters. There are more of
    them than the compilations that Dynamo allows a function."""
    nets, x = [make() for _ in range(10)], torch.randn(3, 16)
    f = [compiled(net) for net in nets]
    with torch.no_grad():
        for _ in range(2):
            for mine, net in zip(f, nets):
                close(mine(x), net(x))
    watched = weakref.ref(nets[0])
    del f, nets, mine, net
    gc.collect()
    assert watched() is None, "the compiled function keeps its network"


def test_buffers_that_a_frozen_network_changes():
    net = nn.BatchNorm1d(4)
    other, x = copy.deepcopy(net), torch.randn(8, 4)
    f = compiled(net)
    with torch.no_grad():
        for _ in range(3):
            close(f(x), other(x))
    close(list(net.buffers()), list(other.buffers()))
