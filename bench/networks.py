"""The networks that bench/models.py exports, in plain torch modules, with random weights that keep
activations sane.

Nothing here is trained. `settle` replaces training: one pass over random inputs sets the statistics
of every batch norm, so that activations stay near unit size at any depth and comparisons of outputs
are meaningful.
"""

import torch
from torch import nn
from torch.nn import functional as F


def conv_norm(inputs, outputs, kernel, stride=1, groups=1, activation=None):
    parts = [
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
    ]
    return nn.Sequential(*parts, *([activation()] if activation else []))


class Bottleneck(nn.Module):
    """1x1, 3x3 (carries the stride), 1x1 with four times the channels, added to the input or to its
    projection."""

    def __init__(self, inputs, width, stride):
        super().__init__()
        outputs = 4 * width
        self.body = nn.Sequential(
            conv_norm(inputs, width, 1, activation=nn.ReLU),
            conv_norm(width, width, 3, stride, activation=nn.ReLU),
            conv_norm(width, outputs, 1),
        )
        self.project = (
            conv_norm(inputs, outputs, 1, stride)
            if stride != 1 or inputs != outputs
            else nn.Identity()
        )

    def forward(self, x):
        return F.relu(self.body(x) + self.project(x))


class ResNet50(nn.Module):
    def __init__(self, classes=1000):
        super().__init__()
        self.stem = nn.Sequential(conv_norm(3, 64, 7, 2, activation=nn.ReLU), nn.MaxPool2d(3, 2, 1))
        blocks, channels = [], 64
        for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
            for i in range(count):
                blocks.append(Bottleneck(channels, width, stride if i == 0 else 1))
                channels = 4 * width
        self.blocks = nn.Sequential(*blocks)
        self.classifier = nn.Linear(channels, classes)

    def forward(self, x):
        x = self.blocks(self.stem(x))
        return self.classifier(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1))


class InvertedResidual(nn.Module):
    def __init__(self, inputs, outputs, stride, expansion):
        super().__init__()
        width = inputs * expansion
        parts = [conv_norm(inputs, width, 1, activation=nn.ReLU6)] if expansion != 1 else []
        parts += [
            conv_norm(width, width, 3, stride, groups=width, activation=nn.ReLU6),
            conv_norm(width, outputs, 1),
        ]
        self.body = nn.Sequential(*parts)
        self.adds = stride == 1 and inputs == outputs

    def forward(self, x):
        return x + self.body(x) if self.adds else self.body(x)


class MobileNetV2(nn.Module):
    def __init__(self, classes=1000):
        super().__init__()
        parts, channels = [conv_norm(3, 32, 3, 2, activation=nn.ReLU6)], 32
        for expansion, outputs, count, stride in (
            (1, 16, 1, 1),
            (6, 24, 2, 2),
            (6, 32, 3, 2),
            (6, 64, 4, 2),
            (6, 96, 3, 1),
            (6, 160, 3, 2),
            (6, 320, 1, 1),
        ):
            for i in range(count):
                parts.append(
                    InvertedResidual(channels, outputs, stride if i == 0 else 1, expansion)
                )
                channels = outputs
        parts.append(conv_norm(channels, 1280, 1, activation=nn.ReLU6))
        self.features = nn.Sequential(*parts)
        self.classifier = nn.Linear(1280, classes)

    def forward(self, x):
        return self.classifier(torch.flatten(F.adaptive_avg_pool2d(self.features(x), 1), 1))


class PointwiseSoftmax(nn.Module):
    """A chain of element-wise ops ending in a softmax over rows: bound by memory and by exp, not by
    contractions."""

    def __init__(self, columns=1024):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(columns) + 0.5)
        self.bias = nn.Parameter(torch.randn(columns))

    def forward(self, x):
        y = F.gelu(x * self.scale + self.bias)
        return torch.softmax(y * torch.sigmoid(x) - 0.5 * x, dim=-1)


class Mlp(nn.Module):
    def __init__(self, sizes=(64, 256, 256, 10)):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(sizes, sizes[1:]))

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = F.relu(layer(x))
        return self.layers[-1](x)


class EncoderLayer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.norm1 = nn.LayerNorm(width)
        self.norm2 = nn.LayerNorm(width)

    def attention(self, x):
        batch, length, width = x.shape
        q, k, v = (
            self.qkv(x)
            .reshape(batch, length, 3, self.heads, width // self.heads)
            .permute(2, 0, 3, 1, 4)
            .unbind(0)
        )
        scores = q @ k.transpose(-1, -2) * (width // self.heads) ** -0.5
        mixed = torch.softmax(scores, dim=-1) @ v
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Encoder(nn.Module):
    """A small transformer encoder whose batch and length may be symbolic."""

    def __init__(self, width=128, heads=4, depth=2):
        super().__init__()
        self.layers = nn.Sequential(*(EncoderLayer(width, heads) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        return self.norm(self.layers(x))


class MatMul(nn.Module):
    """x @ weight: the weight is a constant of the model, as in a network."""

    def __init__(self, k, n, dtype=torch.float32):
        super().__init__()
        self.weight = nn.Parameter((torch.randn(k, n) * k**-0.5).to(dtype))

    def forward(self, x):
        return x @ self.weight


class FirstOutput(nn.Module):
    """A transformers model as a function of its token ids and mask to its first output."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask):
        return self.model(input_ids=input_ids, attention_mask=attention_mask, return_dict=False)[0]


def bert(layers=12, attention="eager"):
    from transformers import BertConfig, BertModel

    config = BertConfig(num_hidden_layers=layers, attn_implementation=attention)
    return FirstOutput(BertModel(config, add_pooling_layer=False))


def gpt2(attention="eager"):
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(attn_implementation=attention, use_cache=False)
    return FirstOutput(GPT2LMHeadModel(config))


def settle(module, inputs):
    """Weights of convolutions by fan-in, batch norms by the statistics of one random batch;
    everything else keeps its own init."""
    norms = [m for m in module.modules() if isinstance(m, nn.BatchNorm2d)]
    for m in module.modules():
        if isinstance(m, nn.Conv2d):
            nn.init.kaiming_normal_(m.weight, mode="fan_in", nonlinearity="relu")
    for m in norms:
        nn.init.uniform_(m.weight, 0.6, 1.0)
        nn.init.normal_(m.bias, 0.0, 0.2)
        m.momentum = None  # averages everything
    if norms:
        module.train()
        with torch.no_grad():
            module(*inputs)
    return module.eval()
