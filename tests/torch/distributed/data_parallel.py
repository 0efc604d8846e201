"""DistributedDataParallel around and below compiled networks."""

from __future__ import annotations

import torch
import torch.distributed as dist
from common import Perceptron, compiled, same_gradients, same_parameters, scenario, train, twins
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def rows(step: int, each: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    """The rows of this rank, and those of all."""
    every = torch.randn(
        each * dist.get_world_size(), 8, generator=torch.Generator().manual_seed(step)
    )
    return every[dist.get_rank() * each :][:each], every


@scenario()
def compiled_around_it() -> None:
    net, whole = twins(Perceptron())
    train(compiled(DistributedDataParallel(net)), whole, rows)
    same_parameters(net, whole)


@scenario()
def compiled_inside_of_it() -> None:
    net, whole = twins(Perceptron())
    train(DistributedDataParallel(compiled(net), gradient_as_bucket_view=True), whole, rows)
    same_parameters(net, whole)


@scenario()
def gradients_that_are_added_up_first() -> None:
    net, whole = twins(Perceptron())
    parallel = DistributedDataParallel(net)
    step = compiled(parallel)
    with parallel.no_sync():
        step(rows(0)[0]).square().mean().backward()
    step(rows(1)[0]).square().mean().backward()
    for part in range(2):
        whole(rows(part)[1]).square().mean().backward()
    same_gradients(net, whole)


@scenario()
def several_buckets() -> None:
    net, whole = twins(nn.Sequential(*(Perceptron(8, 30_000) for _ in range(3))))
    train(compiled(DistributedDataParallel(net, bucket_cap_mb=2, static_graph=True)), whole, rows)
    same_parameters(net, whole)
