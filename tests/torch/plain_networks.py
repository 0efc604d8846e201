"""Ten plain networks, written in torch alone: one of each kind that people write themselves."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

PLAIN = {}


def network(function):
    PLAIN[function.__name__] = function
    return function


class Call(nn.Module):
    """Modules, and a function of them and the input."""

    def __init__(self, function, **modules):
        super().__init__()
        self.parts = nn.ModuleDict(modules)
        self.function = function

    def forward(self, *inputs):
        return self.function(self.parts, *inputs)


def linear(sizes, between=nn.ReLU):
    layers = [m for a, b in zip(sizes, sizes[1:]) for m in (nn.Linear(a, b), between())]
    return nn.Sequential(*layers[:-1])


def convolution(inputs, outputs, stride=1):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()
    )


@network
def perceptron():
    return nn.Sequential(linear((64, 128, 128, 10)), nn.LogSoftmax(-1)), (torch.randn(6, 64),)


@network
def convolutions():
    head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))
    return nn.Sequential(convolution(3, 16), nn.MaxPool2d(2), convolution(16, 32), head), (
        torch.randn(2, 3, 16, 16),
    )


@network
def residual():
    def f(parts, x):
        x = parts["stem"](x)
        x = x + parts["first"](x)
        return F.relu(parts["down"](x) + parts["second"](x)).mean((2, 3))

    net = Call(
        f,
        stem=convolution(3, 16),
        first=convolution(16, 16),
        second=convolution(16, 32, 2),
        down=nn.Conv2d(16, 32, 1, 2),
    )
    return net, (torch.randn(2, 3, 16, 16),)


@network
def unet():
    def f(parts, x):
        wide = parts["in"](x)
        narrow = parts["middle"](parts["down"](wide))
        up = F.interpolate(narrow, scale_factor=2, mode="bilinear", align_corners=False)
        return parts["out"](torch.cat([wide, up], 1))

    net = Call(
        f,
        **{
            "in": convolution(1, 8),
            "down": convolution(8, 16, 2),
            "middle": convolution(16, 16),
            "out": nn.Conv2d(24, 1, 1),
        },
    )
    return net, (torch.randn(2, 1, 16, 16),)


@network
def encoder():
    layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True, norm_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), (torch.randn(2, 9, 32),)


@network
def recurrent():
    """A gated unit, written out step by step."""

    def f(parts, x):
        state = x.new_zeros(x.shape[0], 24)
        rows = []
        for t in range(8):
            given, kept = parts["given"](x[:, t]).chunk(3, -1), parts["kept"](state).chunk(3, -1)
            reset, update = torch.sigmoid(given[0] + kept[0]), torch.sigmoid(given[1] + kept[1])
            state = (1 - update) * torch.tanh(given[2] + reset * kept[2]) + update * state
            rows.append(state)
        return torch.stack(rows, 1)

    return Call(f, given=nn.Linear(16, 72), kept=nn.Linear(24, 72)), (torch.randn(3, 8, 16),)


@network
def autoencoder():
    """The mean alone, so that nothing is at random."""

    def f(parts, x):
        mean, spread = parts["encoder"](x).chunk(2, -1)
        return torch.sigmoid(parts["decoder"](mean)), (
            1 + spread - mean.square() - spread.exp()
        ).sum(-1)

    return Call(f, encoder=linear((48, 64, 16), nn.GELU), decoder=linear((8, 64, 48), nn.GELU)), (
        torch.randn(5, 48),
    )


@network
def recommender():
    def f(parts, dense, ids):
        looked_up = [table(column) for table, column in zip(parts["tables"], ids.unbind(1))]
        rows = torch.stack([parts["bottom"](dense), *looked_up], 1)
        pairs = torch.bmm(rows, rows.transpose(1, 2)).flatten(1)
        return parts["top"](pairs)

    tables = nn.ModuleList(nn.Embedding(50, 16) for _ in range(3))
    net = Call(f, tables=tables, bottom=linear((13, 32, 16)), top=linear((16, 32, 1)))
    return net, (torch.randn(7, 13), torch.randint(0, 50, (7, 3)))


@network
def mixer():
    def f(parts, x):
        x = parts["patches"](x).flatten(2).transpose(1, 2)
        x = x + parts["tokens"](parts["first"](x).transpose(1, 2)).transpose(1, 2)
        return (x + parts["channels"](parts["second"](x))).mean(1)

    net = Call(
        f, patches=nn.Conv2d(3, 24, 4, 4), first=nn.LayerNorm(24), second=nn.LayerNorm(24),
        tokens=linear((16, 32, 16), nn.GELU), channels=linear((24, 48, 24), nn.GELU),
    )  # fmt: skip
    return net, (torch.randn(2, 3, 16, 16),)


@network
def sequence():
    """Dilated causal convolutions over time."""

    def f(parts, x):
        for i, layer in enumerate(parts["layers"]):
            x = x + F.silu(layer(F.pad(x, (2 * 2**i, 0))))
        return parts["out"](x)

    layers = nn.ModuleList(nn.Conv1d(12, 12, 3, dilation=2**i) for i in range(3))
    return Call(f, layers=layers, out=nn.Conv1d(12, 4, 1)), (torch.randn(2, 12, 20),)
