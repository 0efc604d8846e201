"""Ranks that compile different collectives. Each of these scenarios ends with an error on one rank at least."""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as fc
from common import close, compiled, mesh_of, scenario

FAILS = 0
"""Scenarios of no number of ranks run alone, and their errors are read."""


@scenario(FAILS)
def another_size() -> None:
    mesh = mesh_of("all")
    rows = 4 + 2 * dist.get_rank()
    compiled(lambda x: fc.all_reduce(x * 2, "sum", mesh) + 1)(torch.ones(rows, 3))


@scenario(FAILS)
def another_type() -> None:
    mesh = mesh_of("all")
    dtype = torch.float64 if dist.get_rank() else torch.float32
    compiled(lambda x: fc.all_reduce(x * 2, "sum", mesh) + 1)(torch.ones(4, 3, dtype=dtype))


@scenario(FAILS)
def another_order() -> None:
    mesh, rank = mesh_of("all"), dist.get_rank()

    def f(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        if rank == 1:
            return fc.all_reduce(fc.all_gather_tensor(y, 0, mesh), "sum", mesh)
        return fc.all_gather_tensor(fc.all_reduce(y, "sum", mesh), 0, mesh)

    compiled(f)(torch.ones(4, 3))


@scenario()
def a_break_on_one_rank() -> None:
    """Graphs end in other places, and the transfers are the same: nothing is wrong."""
    mesh, rank = mesh_of("all"), dist.get_rank()

    def f(x: torch.Tensor) -> torch.Tensor:
        y = fc.all_reduce(x.sin(), "sum", mesh)
        if rank == 1:
            torch._dynamo.graph_break()
        return fc.all_gather_tensor(fc.all_reduce(y.cos(), "sum", mesh), 0, mesh) + 1

    x = torch.randn(4, 3)
    close(compiled(f)(x), f(x))
    close(compiled(f)(x + 1), f(x + 1))


@scenario()
def more_compilations_on_one_rank() -> None:
    """Rows of a rank may be as many as they like where parts of any size are gathered."""
    mesh, rank = mesh_of("all"), dist.get_rank()
    given = [[2, 2], [3, 1]]

    def f(x: torch.Tensor) -> torch.Tensor:
        taken = [given[r][rank] for r in range(2)]
        return fc.all_to_all_single(x * 2, taken, given[rank], mesh).exp()

    g = compiled(f, fullgraph=True)
    for columns in (3, 5, 1):
        x = torch.randn(4, columns)
        close(g(x), f(x))
