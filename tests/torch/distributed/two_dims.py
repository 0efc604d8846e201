"""Tensor parallel and sharded at once, on four ranks, as in PyTorch's test_2d_parallel."""

from __future__ import annotations

import torch
from common import (
    Block,
    Perceptron,
    close,
    compiled,
    full,
    mesh_of,
    same_parameters,
    scenario,
    train,
    twins,
)
from tensor_parallel import split
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module


def rows(mesh: torch.distributed.device_mesh.DeviceMesh, shape: tuple[int, ...]):
    """The rows of this rank's row of the mesh, and those of all."""

    def inputs(step: int) -> tuple[torch.Tensor, torch.Tensor]:
        every = torch.randn(4, *shape, generator=torch.Generator().manual_seed(step))
        return every[2 * mesh["dp"].get_local_rank() :][:2], every

    return inputs


def perceptron(mesh: torch.distributed.device_mesh.DeviceMesh) -> tuple[nn.Module, nn.Module]:
    net, whole = twins(Perceptron())
    parallelize_module(net, mesh["tp"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
    return fully_shard(net, mesh=mesh["dp"]), whole


@scenario(4)
def steps_of_a_perceptron() -> None:
    mesh = mesh_of("dp", "tp")
    net, whole = perceptron(mesh)
    train(compiled(net), whole, rows(mesh, (8,)))
    same_parameters(net, whole)


@scenario(4)
def steps_of_a_transformer() -> None:
    mesh = mesh_of("dp", "tp")
    net, whole = twins(nn.Sequential(Block(), Block()))
    for i, block in enumerate(net):
        net[i] = compiled(split(block, mesh["tp"]))
        fully_shard(net[i], mesh=mesh["dp"])
    fully_shard(net, mesh=mesh["dp"])
    train(net, whole, rows(mesh, (5, 16)))
    same_parameters(net, whole)


@scenario(4)
def copies_of_shards() -> None:
    mesh = mesh_of("dp", "shard")
    net, whole = twins(Perceptron())
    fully_shard(net, mesh=mesh)
    rank = torch.distributed.get_rank()

    def inputs(step: int) -> tuple[torch.Tensor, torch.Tensor]:
        every = torch.randn(8, 8, generator=torch.Generator().manual_seed(step))
        return every[2 * rank :][:2], every

    train(compiled(net), whole, inputs)
    same_parameters(net, whole)


@scenario(4)
def the_state_of_all_ranks() -> None:
    mesh = mesh_of("dp", "tp")
    net, whole = perceptron(mesh)
    train(compiled(net), whole, rows(mesh, (8,)), steps=1)
    state = get_model_state_dict(net, options=StateDictOptions(full_state_dict=True))
    if torch.distributed.get_rank() == 0:
        for name, wanted in whole.state_dict().items():
            close(full(state[name]), wanted)
