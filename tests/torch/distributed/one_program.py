"""Transfers as parts of programs: which graphs are one program, what stays in torch, and who meets whom."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any
from unittest import mock

import tenon
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as fc
from common import Perceptron, close, compiled, mesh_of, same_gradients, scenario, twins
from tenon import logs
from tenon.torch.capture.watch import watch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

ALONE = 1
"""Scenarios of no number of ranks run alone: they need settings, or a process ends."""


@contextlib.contextmanager
def graphs() -> Iterator[list[Any]]:
    """What becomes of each graph inside."""
    listed: list[Any] = []
    watch.lists.append(listed)
    try:
        yield listed
    finally:
        watch.lists.remove(listed)


def reasons(graph: Any) -> str:
    return "; ".join(reason for listed in graph.unsupported.values() for reason in listed)


def split(width: int = 8, layers: int = 2) -> tuple[nn.Module, nn.Module]:
    net, whole = twins(nn.Sequential(*(Perceptron(width, 2 * width) for _ in range(layers))))
    plan = {"*.up": ColwiseParallel(), "*.down": RowwiseParallel()}
    return parallelize_module(net, mesh_of("tp"), plan), whole


@scenario()
def tensor_parallel_forward_and_backward() -> None:
    net, whole = split()
    x = torch.randn(4, 8)
    with graphs() as made:
        y = compiled(net, fullgraph=True)(x)
        y.square().mean().backward()
    whole(x).square().mean().backward()
    close(y, whole(x))
    same_gradients(net, whole)
    assert [g.kind for g in made] == ["forward", "backward"]
    for graph in made:
        assert len(graph.partitions) == 1 and not graph.unsupported, (graph.kind, reasons(graph))
        assert any("_c10d_functional.all_reduce" in str(n.target) for n in graph.gm.graph.nodes)


@scenario()
def the_option_that_keeps_them_in_torch() -> None:
    net, whole = split()
    x = torch.randn(4, 8)
    with graphs() as made, torch.no_grad():
        close(compiled(net, fullgraph=True, options={"collectives": False})(x), whole(x))
    assert len(made[0].partitions) > 1, reasons(made[0])
    assert "the option collectives is off" in reasons(made[0]), reasons(made[0])


@scenario()
def what_the_engine_does_not_combine() -> None:
    mesh = mesh_of("all")

    def f(x: torch.Tensor) -> torch.Tensor:
        largest = fc.all_reduce(x.sin() * 2, "max", mesh)
        return fc.all_reduce(largest.exp(), "sum", mesh) + 1

    x = torch.randn(3) + dist.get_rank()
    with graphs() as made, mock.patch.object(logs, "log") as log:
        tenon.set_logs("perf")
        close(compiled(f, fullgraph=True)(x), f(x))
        tenon.set_logs()
    assert len(made[0].partitions) == 2, reasons(made[0])
    said = [call.args[1] for call in log.call_args_list if call.args[0] == "perf"]
    wanted = "all_reduce.default stays in torch: a reduction of the kind max of float32"
    assert sum("one_program.py:" in text and wanted in text for text in said) == 1, said


def several(x: torch.Tensor, mesh: DeviceMesh) -> list[torch.Tensor]:
    """No value orders the first two."""
    wide = fc.all_reduce(x.exp().sin().cos(), "sum", mesh)
    rows = fc.all_gather_tensor(x * 2, 0, mesh)
    part = fc.reduce_scatter_tensor(rows + wide.sum(), "sum", 0, mesh)
    swapped = fc.all_to_all_single(part * 3, None, None, mesh)
    given = fc.broadcast(swapped + 1, 1, mesh)
    return [wide + 1, rows + 1, part + 1, swapped + 2, given * 2]


@scenario()
def a_rank_that_compiles_and_one_that_does_not() -> None:
    """The transfers are those of torch, in torch's order."""
    mesh = mesh_of("all")
    x = torch.linspace(0, 1, 12).reshape(4, 3) * (1 + dist.get_rank())
    wanted = several(x, mesh)
    with graphs() as made:
        f = compiled(several) if dist.get_rank() == 0 else several
        for _ in range(3):
            for a, b in zip(f(x, mesh), wanted, strict=True):
                close(a, b)
            dist.all_reduce(torch.ones(1))  # of torch, between two calls
    assert all(len(g.partitions) == 1 and not g.unsupported for g in made), list(map(reasons, made))
    assert bool(made) == (dist.get_rank() == 0)


def each_transfer(x: torch.Tensor, mesh: DeviceMesh) -> list[torch.Tensor]:
    rows = fc.all_gather_tensor(x * 2, 0, mesh)
    return [
        fc.all_reduce(x + 1, "sum", mesh) + 1,
        rows + 1,
        fc.reduce_scatter_tensor(rows + x.sum(), "sum", 0, mesh) + 1,
        fc.all_to_all_single(x * 3, None, None, mesh) + 1,
        fc.broadcast(x + 2, 1, mesh) + 1,
    ]


FULL = os.environ.get("CHECK_FULL", "0") not in ("", "0")
TYPES = [torch.float32, torch.bfloat16, torch.int32]
MORE_TYPES = [torch.float64, torch.float16, torch.int64, torch.int8, torch.uint8]


@scenario()
def each_transfer_in_each_type() -> None:
    """As eager mode, bit for bit: the values are small whole numbers."""
    mesh = mesh_of("all")
    for dtype in TYPES + (MORE_TYPES if FULL else []):
        for columns in (1, 3, 5000) if FULL else (3,):
            torch._dynamo.reset()
            x = (torch.arange(4 * columns).reshape(4, columns) % 5 + dist.get_rank()).to(dtype)
            with graphs() as made:
                found = compiled(each_transfer, fullgraph=True)(x, mesh)
            for a, b in zip(found, each_transfer(x, mesh), strict=True):
                assert a.dtype == b.dtype and torch.equal(a, b), (dtype, columns, a, b)
            assert len(made[0].partitions) == 1 and not made[0].unsupported, reasons(made[0])


@scenario(4)
def groups_of_some_ranks() -> None:
    """Each half of the ranks has its own group; the halves run another number of times."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    half, place = mesh["dp"].get_local_rank(), mesh["tp"].get_local_rank()

    def f(x: torch.Tensor) -> torch.Tensor:
        y = fc.all_reduce(x * 2, "sum", mesh["tp"])
        return y + 1

    with graphs() as made:
        g = compiled(f, fullgraph=True)
        for _ in range(1 + half):
            close(
                g(torch.full((3,), 1.0 + half + place)), torch.full((3,), 2 * (3.0 + 2 * half) + 1)
            )
    assert len(made[0].partitions) == 1 and not made[0].unsupported
    across = compiled(lambda x: fc.all_reduce(x + 1, "sum", mesh["dp"]) * 2, fullgraph=True)
    close(across(torch.full((2,), float(half))), torch.full((2,), 6.0))


@scenario(ALONE)
def an_engine_that_is_disabled() -> None:
    net, whole = split()
    x = torch.randn(4, 8)
    with graphs() as made, torch.no_grad():
        close(compiled(net, fullgraph=True)(x), whole(x))
    assert len(made[0].partitions) > 1 and "python.torch" in reasons(made[0]), reasons(made[0])


@scenario(ALONE)
def a_rank_that_ends() -> None:
    """The other one has an error before the time limit of the group, which names what it waited for."""
    mesh = mesh_of("all")
    f = compiled(lambda x: fc.all_reduce(x * 2, "sum", mesh) + 1)
    f(torch.ones(4, 3))
    if dist.get_rank() == 1:
        os._exit(9)
    f(torch.ones(4, 3))
