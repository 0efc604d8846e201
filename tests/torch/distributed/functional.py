"""Functional collectives in graphs, as in PyTorch's test_functional_api."""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as fc
from common import close, compiled, mesh_of, scenario


@scenario()
def reductions_of_each_kind_and_type() -> None:
    mesh = mesh_of("all")

    def f(x: torch.Tensor) -> list[torch.Tensor]:
        y = x * 2
        kinds = ["sum", "max", "min"]
        return [fc.all_reduce(y, kind, mesh) + 1 for kind in kinds]

    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.int64):
        x = (torch.arange(12).reshape(3, 4) * (dist.get_rank() + 1)).to(dtype)
        for a, b in zip(compiled(f, fullgraph=True)(x), f(x), strict=True):
            assert a.dtype is dtype
            close(a, b)


@scenario()
def gathered_and_scattered_along_dims() -> None:
    mesh = mesh_of("all")

    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        rows = fc.all_gather_tensor(x.sin(), 0, mesh)
        columns = fc.all_gather_tensor(x.cos(), 1, mesh)
        parts = fc.reduce_scatter_tensor(rows * 3, "sum", 0, mesh)
        return rows.exp(), columns.exp(), parts + 1

    x = torch.randn(4, 6) + dist.get_rank()
    for a, b in zip(compiled(f, fullgraph=True)(x), f(x), strict=True):
        close(a, b)


@scenario()
def uneven_parts_for_all() -> None:
    mesh, rank = mesh_of("all"), dist.get_rank()
    given = [1, 3] if rank == 0 else [2, 2]
    taken = [1, 2] if rank == 0 else [3, 2]

    def f(x: torch.Tensor) -> torch.Tensor:
        return fc.all_to_all_single(x * 2, taken, given, mesh).tanh()

    x = torch.randn(4, 3) + rank
    close(compiled(f, fullgraph=True)(x), f(x))


@scenario()
def gradients_through_collectives() -> None:
    mesh = mesh_of("all")

    def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        rows = fc.all_gather_tensor_autograd(x.tanh() @ w, 0, mesh)
        return fc.reduce_scatter_tensor_autograd(rows.square(), "sum", 0, mesh).sin()

    results = []
    for call in (compiled(f), f):
        x = (torch.arange(12.0).reshape(4, 3) / 12 + dist.get_rank()).requires_grad_()
        w = torch.linspace(-1, 1, 6).reshape(3, 2).requires_grad_()
        y = call(x, w)
        y.sum().backward()
        results.append((y, x.grad, w.grad))
    for a, b in zip(*results, strict=True):
        close(a, b)
