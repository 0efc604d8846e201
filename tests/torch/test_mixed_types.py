"""Networks under autocast train as they do in torch."""

import copy

import pytest
import tenon.torch  # noqa: F401
import torch
from torch import nn


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    "net, shape",
    [
        (nn.Sequential(nn.Linear(16, 32), nn.LayerNorm(32), nn.Linear(32, 4)), (8, 16)),
        (nn.Sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), nn.Conv2d(8, 4, 3)), (2, 3, 8, 8)),
        (
            nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 4, 3)),
            (2, 3, 8, 8),
        ),
        (nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True), (2, 5, 16)),
    ],
)
def test_norms_train_under_autocast(net, shape, dtype, graphs):
    x = torch.randn(shape)
    gradients = []
    for backend in ("eager", "tenon"):
        one = copy.deepcopy(net)
        with torch.autocast("cpu", dtype):
            y = torch.compile(one, backend=backend)(x)
        assert y.dtype is (torch.float32 if isinstance(net, nn.TransformerEncoderLayer) else dtype)
        y.float().square().sum().backward()
        gradients.append([p.grad for p in one.parameters()])
    for mine, theirs in zip(*gradients):
        assert mine.dtype is theirs.dtype
        assert (mine - theirs).norm() <= 0.05 * theirs.norm() + 0.05
    assert not any("norm" in operator for graph in graphs for operator in graph.unsupported)
