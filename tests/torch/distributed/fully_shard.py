"""Sharded parameters (FSDP2), as in PyTorch's test_fully_shard_compile."""

from __future__ import annotations

import torch
from common import (
    Perceptron,
    close,
    compiled,
    full,
    mesh_of,
    same_gradients,
    same_parameters,
    scenario,
    train,
    twins,
)
from data_parallel import rows
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard


@scenario()
def a_whole_network() -> None:
    net, whole = twins(Perceptron())
    fully_shard(net, mesh=mesh_of("dp"))
    train(compiled(net), whole, rows)
    same_parameters(net, whole)


@scenario()
def layer_by_layer() -> None:
    for reshard in (True, False):
        net, whole = twins(nn.Sequential(*(Perceptron() for _ in range(3))))
        for i, layer in enumerate(net):
            net[i] = compiled(layer)
            fully_shard(net[i], mesh=mesh_of("dp"), reshard_after_forward=reshard)
        fully_shard(net, mesh=mesh_of("dp"), reshard_after_forward=reshard)
        train(net, whole, rows, optimizer=torch.optim.AdamW)
        same_parameters(net, whole, 1e-4)


@scenario()
def computed_in_bfloat16() -> None:
    net, eager = twins(Perceptron())
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for one in (net, eager):
        fully_shard(one, mesh=mesh_of("dp"), mp_policy=policy)
    mine, _ = rows(0)
    y, wanted = compiled(net)(mine), eager(mine)
    assert y.dtype is torch.bfloat16
    close(y.float(), wanted.float(), 2e-2)
    for out in (y, wanted):
        out.float().square().mean().backward()
    same_gradients(net, eager, 2e-2)


@scenario()
def gradients_that_are_added_up_first() -> None:
    net, whole = twins(Perceptron())
    fully_shard(net, mesh=mesh_of("dp"))
    step = compiled(net)
    for part in range(2):
        net.set_requires_gradient_sync(part == 1)
        step(rows(part)[0]).square().mean().backward()
        whole(rows(part)[1]).square().mean().backward()
    same_gradients(net, whole)
    close(full(net.up.weight), whole.up.weight)
