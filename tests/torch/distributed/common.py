"""What scenarios share: the table, small networks, and comparison with eager mode in one process."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import tenon.torch  # noqa: F401
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor


class Scenario(NamedTuple):
    ranks: int
    run: Callable[[], None]


ALL: dict[str, Scenario] = {}


def scenario(ranks: int = 2) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Adds a function to the table: each of so many ranks calls it."""

    def add(function: Callable[[], None]) -> Callable[[], None]:
        name = f"{function.__module__}.{function.__name__}"
        assert name not in ALL, name
        ALL[name] = Scenario(ranks, function)
        return function

    return add


def compiled(f: Any, **options: Any) -> Any:
    return torch.compile(f, backend="tenon", **options)


def mesh_of(*names: str) -> DeviceMesh:
    """One name: all ranks; two: two by the rest."""
    count = dist.get_world_size()
    shape = (count,) if len(names) == 1 else (2, count // 2)
    return init_device_mesh("cpu", shape, mesh_dim_names=names)


class Perceptron(nn.Module):
    def __init__(self, width: int = 8, hidden: int = 16):
        super().__init__()
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(nn.functional.gelu(self.up(x)))


class Block(nn.Module):
    """A transformer block; a rank may have a part of its heads."""

    def __init__(self, width: int = 16, heads: int = 4):
        super().__init__()
        self.size = width // heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.mlp = Perceptron(width, 2 * width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm1(x)
        q, k, v = (
            p(y).unflatten(-1, (-1, self.size)).transpose(1, 2) for p in (self.q, self.k, self.v)
        )
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x))


def twins(net: nn.Module) -> tuple[nn.Module, nn.Module]:
    """The network, and a copy that stays whole and eager."""
    return net, copy.deepcopy(net)


def full(x: torch.Tensor | None) -> torch.Tensor:
    assert x is not None
    return x.full_tensor() if isinstance(x, DTensor) else x


def close(a: torch.Tensor, b: torch.Tensor, tolerance: float = 1e-5) -> None:
    torch.testing.assert_close(full(a), full(b), rtol=tolerance, atol=tolerance)


def same_parameters(a: nn.Module, b: nn.Module, tolerance: float = 1e-5) -> None:
    for (name, p), (other, q) in zip(a.named_parameters(), b.named_parameters(), strict=True):
        assert name.replace("module.", "").replace("_orig_mod.", "") == other, (name, other)
        close(p.detach(), q.detach(), tolerance)


def same_gradients(a: nn.Module, b: nn.Module, tolerance: float = 1e-5) -> None:
    for p, q in zip(a.parameters(), b.parameters(), strict=True):
        close(full(p.grad), full(q.grad), tolerance)


def train(
    net: Any, whole: nn.Module, inputs: Any, steps: int = 3, optimizer: Any = torch.optim.SGD
) -> None:
    """Steps of both; a rank's network and the whole one get what `inputs` gives for each."""
    ours, theirs = optimizer(net.parameters(), lr=0.05), optimizer(whole.parameters(), lr=0.05)
    for step in range(steps):
        mine, all_of_it = inputs(step)
        for one, o, x in ((net, ours, mine), (whole, theirs, all_of_it)):
            o.zero_grad()
            one(x).square().mean().backward()
            o.step()
