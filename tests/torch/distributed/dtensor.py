"""Distributed tensors in compiled functions, as in PyTorch's test_dtensor_compile."""

from __future__ import annotations

import torch
import torch.distributed as dist
from common import close, compiled, mesh_of, scenario
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor


@scenario()
def products_of_sharded_tensors() -> None:
    mesh = mesh_of("all")
    x, w = torch.randn(6, 8), torch.randn(8, 4)

    def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return (x @ w).relu() * 2

    a = distribute_tensor(x, mesh, [Shard(0)]).requires_grad_()
    b = distribute_tensor(w, mesh, [Replicate()]).requires_grad_()
    y = compiled(f, fullgraph=True)(a, b)
    y.sum().backward()
    x.requires_grad_(), w.requires_grad_()
    whole = f(x, w)
    whole.sum().backward()
    assert y.placements == (Shard(0),)
    for ours, theirs in ((y, whole), (a.grad, x.grad), (b.grad, w.grad)):
        close(ours, theirs)


@scenario()
def placements_change_within_a_graph() -> None:
    mesh = mesh_of("all")
    x = torch.randn(4, 6)

    def f(x: DTensor) -> DTensor:
        y = (x * 2).redistribute(mesh, [Replicate()]).exp()
        z = y.redistribute(mesh, [Shard(1)]).sum(1)
        return z.redistribute(mesh, [Replicate()]) + 1

    given = distribute_tensor(x, mesh, [Shard(0)])
    close(compiled(f, fullgraph=True)(given), (x * 2).exp().sum(1) + 1)


@scenario()
def made_of_local_parts_and_taken_apart() -> None:
    mesh, rank = mesh_of("all"), dist.get_rank()

    def f(local: torch.Tensor) -> torch.Tensor:
        partial = DTensor.from_local(local * 3, mesh, [Partial()], run_check=False)
        return partial.redistribute(mesh, [Replicate()]).to_local().cos()

    parts = [torch.linspace(0, 1, 12).reshape(3, 4) * (r + 1) for r in range(dist.get_world_size())]
    local = parts[rank].clone().requires_grad_()
    y = compiled(f, fullgraph=True)(local)
    y.sum().backward()
    whole = (sum(parts) * 3).requires_grad_()
    whole.cos().sum().backward()
    close(y, whole.cos())
    close(local.grad, whole.grad * 3)


@scenario()
def sizes_that_change() -> None:
    mesh = mesh_of("all")
    g = compiled(lambda x, w: (x @ w).sigmoid().sum(1), fullgraph=True)
    w = distribute_tensor(torch.randn(8, 6), mesh, [Shard(1)])
    for rows in (4, 6, 10, 3):
        x = torch.randn(rows, 8)
        y = g(distribute_tensor(x, mesh, [Replicate()]), w)
        close(y, (x @ w.full_tensor()).sigmoid().sum(1))
