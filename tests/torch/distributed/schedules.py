"""Pipelines of compiled stages, as in PyTorch's test_schedule."""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.distributed as dist
from common import close, compiled, scenario
from torch import nn
from torch.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleLoopedBFS,
)

PARTS = 4
"""Of a batch."""


def layers(count: int) -> nn.Sequential:
    return nn.Sequential(*(nn.Sequential(nn.Linear(8, 8), nn.GELU()) for _ in range(count)))


def distance(y: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    return (y - wanted).square().mean()


def check(schedule: Any, places: list[int], count: int, is_last: bool) -> None:
    """Runs a batch, and compares losses and gradients of this rank's stages with the whole network's."""
    net = layers(count)
    whole, rank = copy.deepcopy(net), dist.get_rank()
    stages = [PipelineStage(compiled(net[i]), i, count, torch.device("cpu")) for i in places]
    runs = schedule(stages, PARTS, loss_fn=distance)
    x, wanted = torch.randn(8, 8), torch.randn(8, 8)
    losses: list[torch.Tensor] = []
    runs.step(
        *([x] if rank == 0 else []), **({"target": wanted, "losses": losses} if is_last else {})
    )
    loss = distance(whole(x), wanted)
    loss.backward()
    for i in places:
        for p, q in zip(net[i].parameters(), whole[i].parameters(), strict=True):
            close(p.grad, q.grad)
    if is_last:
        close(torch.stack(losses).mean(), loss)


def one_stage(schedule: Any) -> None:
    rank, count = dist.get_rank(), dist.get_world_size()
    check(lambda stages, *a, **k: schedule(stages[0], *a, **k), [rank], count, rank == count - 1)


@scenario()
def forward_then_backward() -> None:
    one_stage(ScheduleGPipe)


@scenario()
def one_forward_one_backward() -> None:
    one_stage(Schedule1F1B)


@scenario()
def interleaved_stages() -> None:
    rank, count = dist.get_rank(), dist.get_world_size()
    check(ScheduleInterleaved1F1B, [rank, rank + count], 2 * count, rank == count - 1)


@scenario()
def breadth_first() -> None:
    rank, count = dist.get_rank(), dist.get_world_size()
    check(ScheduleLoopedBFS, [rank, rank + count], 2 * count, rank == count - 1)
