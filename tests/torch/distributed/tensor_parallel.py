"""Networks whose parameters are split, as in PyTorch's test_tp_examples."""

from __future__ import annotations

import torch
import torch.distributed as dist
from common import (
    Block,
    Perceptron,
    close,
    compiled,
    mesh_of,
    same_gradients,
    same_parameters,
    scenario,
    train,
    twins,
)
from torch import nn
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)


def split(block: Block, mesh: torch.distributed.device_mesh.DeviceMesh) -> Block:
    """A block whose heads and hidden features are divided among the ranks."""
    plan = {name: ColwiseParallel() for name in ("q", "k", "v", "mlp.up")}
    plan |= {name: RowwiseParallel() for name in ("o", "mlp.down")}
    return parallelize_module(block, mesh, plan)


@scenario()
def perceptron_by_columns_and_rows() -> None:
    net, whole = twins(Perceptron())
    parallelize_module(net, mesh_of("tp"), {"up": ColwiseParallel(), "down": RowwiseParallel()})
    train(compiled(net, fullgraph=True), whole, lambda step: (torch.full((4, 8), 0.1 * step),) * 2)
    same_parameters(net, whole)


@scenario()
def attention_with_a_part_of_the_heads() -> None:
    net, whole = twins(nn.Sequential(Block(), Block()))
    for block in net:
        split(block, mesh_of("tp"))
    x = torch.randn(2, 5, 16)
    y = compiled(net, fullgraph=True)(x)
    y.square().mean().backward()
    wanted = whole(x)
    wanted.square().mean().backward()
    close(y, wanted)
    same_gradients(net, whole)


@scenario()
def norms_with_a_part_of_the_sequence() -> None:
    net, whole = twins(nn.Sequential(nn.LayerNorm(8), Perceptron()))
    parallelize_module(
        net,
        mesh_of("tp"),
        {
            "0": SequenceParallel(),
            "1": PrepareModuleInput(
                input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)
            ),
            "1.up": ColwiseParallel(),
            "1.down": RowwiseParallel(output_layouts=Replicate()),
        },
    )
    x = torch.randn(2, 6, 8)
    y = compiled(net)(x.chunk(2, 1)[dist.get_rank()])
    y.square().mean().backward()
    wanted = whole(x)
    wanted.square().mean().backward()
    close(y, wanted)
    same_gradients(net, whole)


@scenario()
def embedding_and_loss_with_a_part_of_the_words() -> None:
    net, whole = twins(nn.Sequential(nn.Embedding(12, 8), nn.Linear(8, 12, bias=False)))
    parallelize_module(
        net,
        mesh_of("tp"),
        {
            "0": RowwiseParallel(input_layouts=Replicate()),
            "1": ColwiseParallel(output_layouts=Shard(-1), use_local_output=False),
        },
    )
    words, wanted = torch.randint(0, 12, (6,)), torch.randint(0, 12, (6,))
    with loss_parallel():
        loss = nn.functional.cross_entropy(compiled(net)(words), wanted)
        loss.backward()
    whole_loss = nn.functional.cross_entropy(whole(words), wanted)
    whole_loss.backward()
    close(loss, whole_loss)
    same_gradients(net, whole)
