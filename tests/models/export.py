#!/usr/bin/env python3
"""Writes the model files of this folder and their reference inputs and outputs.

    pip install torch==2.13.0 numpy onnx onnxruntime
    python3 tests/models/export.py

For each model NAME: NAME.onnx, NAME.in.INPUT.npy and NAME.out.OUTPUT.npy, the outputs computed by
onnxruntime. Weights are random with a fixed seed: these models test the way through the compiler,
not learning. The results are committed; running the tests needs no torch.
"""

import math
import pathlib

import numpy as np
import onnx
import onnxruntime
import torch
from torch import nn

HERE = pathlib.Path(__file__).resolve().parent
MAX_BYTES = 300_000


class Mlp(nn.Module):
    """Three linear layers with the two activations that most MLPs use."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 48), nn.GELU(), nn.Linear(48, 10)
        )

    def forward(self, x):
        return torch.log_softmax(self.layers(x), dim=-1)


class EncoderLayer(nn.Module):
    """A transformer encoder layer written out, so that softmax(x*scale+mask) is in the graph."""

    def __init__(self, width=64, heads=4, hidden=128):
        super().__init__()
        self.heads, self.head_width = heads, width // heads
        self.query, self.key, self.value, self.output = (nn.Linear(width, width) for _ in range(4))
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.feed_forward = nn.Sequential(
            nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width)
        )

    def split(self, x):
        batch, seq, _ = x.shape
        return x.reshape(batch, seq, self.heads, self.head_width).transpose(1, 2)

    def forward(self, x, mask):
        batch, seq, width = x.shape
        q, k, v = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        scores = q @ k.transpose(-1, -2) * (1.0 / math.sqrt(self.head_width)) + mask
        mixed = torch.softmax(scores, dim=-1) @ v
        mixed = mixed.transpose(1, 2).reshape(batch, seq, width)
        x = self.norm1(x + self.output(mixed))
        return self.norm2(x + self.feed_forward(x))


class Block(nn.Module):
    """conv-bn-relu-conv-bn with a shortcut, which is a strided 1x1 convolution when shapes
    change."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x):
        y = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(y)) + self.shortcut(x))


class ResidualCnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, padding=1, bias=True)
        self.blocks = nn.Sequential(Block(16, 16, 1), Block(16, 32, 2))
        self.narrow = nn.AvgPool2d(2)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(32, 10)

    def forward(self, image):
        x = torch.relu(self.stem(image))
        x = self.narrow(self.blocks(x))
        return self.head(torch.flatten(self.pool(x), 1))


class DecoderStep(nn.Module):
    """One token of a decoder: embedding, rotary positions, attention over the keys and values of
    the tokens before, gated layers, logits. The keys and values, longer by one, are results."""

    def __init__(self, words=96, width=32, heads=4, depth=2):
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.embedding = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(
            nn.ModuleDict(
                {
                    name: nn.Linear(a, b, bias=False)
                    for name, a, b in (
                        ("query", width, width),
                        ("key", width, width),
                        ("value", width, width),
                        ("output", width, width),
                        ("gate", width, 2 * width),
                        ("up", width, 2 * width),
                        ("down", 2 * width, width),
                    )
                }
            )
            for _ in range(depth)
        )
        self.head = nn.Linear(width, words, bias=False)

    def norm(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)

    def rotate(self, x, position):
        half = self.size // 2
        angle = position * torch.tensor([10000.0 ** (-i / half) for i in range(half)])
        a, b = x[..., :half], x[..., half:]
        return torch.cat((a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()), -1)

    def split(self, x):
        return x.reshape(1, 1, self.heads, self.size).transpose(1, 2)

    def forward(self, token, position, *past):
        x, now = self.embedding(token), []
        for i, block in enumerate(self.blocks):
            h = self.norm(x)
            key = self.rotate(self.split(block["key"](h)), position)
            keys = torch.cat((past[2 * i], key), 2)
            values = torch.cat((past[2 * i + 1], self.split(block["value"](h))), 2)
            query = self.rotate(self.split(block["query"](h)), position)
            seen = torch.softmax(query @ keys.transpose(-1, -2) * self.size**-0.5, -1) @ values
            x = x + block["output"](seen.transpose(1, 2).reshape(x.shape))
            h = self.norm(x)
            x = x + block["down"](nn.functional.silu(block["gate"](h)) * block["up"](h))
            now += [keys, values]
        return self.head(self.norm(x)), *now


def random_statistics(model, generator):
    """Gives batch norms statistics other than 0 and 1, which would hide a mistake."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            size = module.running_mean.shape
            module.running_mean.copy_(torch.randn(size, generator=generator) * 0.2)
            module.running_var.copy_(torch.rand(size, generator=generator) + 0.5)
            module.weight.data.copy_(torch.rand(size, generator=generator) + 0.5)
            module.bias.data.copy_(torch.randn(size, generator=generator) * 0.1)


def causal_mask(seq):
    return torch.triu(torch.full((seq, seq), -1e9), 1)


def export(name, model, inputs, dynamic, run_inputs, results=("y",)):
    path = HERE / f"{name}.onnx"
    random_statistics(model, torch.Generator().manual_seed(2))
    torch.onnx.export(
        model.eval(),
        tuple(inputs.values()),
        str(path),
        opset_version=17,
        input_names=list(inputs),
        output_names=list(results),
        dynamic_axes=dynamic,
        training=torch.onnx.TrainingMode.PRESERVE,
        do_constant_folding=False,
        dynamo=False,
    )
    onnx.checker.check_model(onnx.load(str(path)), full_check=True)
    assert path.stat().st_size < MAX_BYTES, (name, path.stat().st_size)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    feeds = {key: value.numpy() for key, value in run_inputs.items()}
    outputs = session.run(None, feeds)
    for key, value in feeds.items():
        np.save(HERE / f"{name}.in.{key}.npy", value)
    for info, value in zip(session.get_outputs(), outputs):
        np.save(HERE / f"{name}.out.{info.name}.npy", value)
    ops = sorted({node.op_type for node in onnx.load(str(path)).graph.node})
    print(f"{name}: {path.stat().st_size} bytes, ops {' '.join(ops)}")


@torch.no_grad()
def main():
    torch.manual_seed(1)
    torch.set_num_threads(1)
    x = torch.randn(5, 32)
    export("mlp", Mlp(), {"x": x}, {"x": {0: "batch"}, "y": {0: "batch"}}, {"x": x})

    # The layer is exported twice: with constant sizes, and with symbols, whose reshapes need
    # arithmetic.
    layer, x = EncoderLayer(), torch.randn(2, 24, 64)
    feeds = {"x": x, "mask": causal_mask(24)}
    export("encoder", layer, feeds, None, feeds)
    dynamic = {
        "x": {0: "batch", 1: "seq"},
        "mask": {0: "seq", 1: "seq"},
        "y": {0: "batch", 1: "seq"},
    }
    other = {"x": torch.randn(3, 17, 64), "mask": causal_mask(17)}
    export("encoder_dynamic", layer, feeds, dynamic, other)

    image = torch.randn(2, 3, 16, 16)
    export(
        "residual_cnn",
        ResidualCnn(),
        {"image": image},
        {"image": {0: "batch"}, "y": {0: "batch"}},
        {"image": image},
    )

    torch.manual_seed(5)
    past = [f"{kind}{layer}" for layer in range(2) for kind in ("keys", "values")]
    feeds = {
        "token": torch.tensor([[7]]),
        "position": torch.tensor(11.0),
        **{name: torch.randn(1, 4, 11, 8) for name in past},
    }
    results = ("y", *(f"{name}_now" for name in past))
    export("decoder", DecoderStep(), feeds, {name: {2: "past"} for name in past}, feeds, results)


if __name__ == "__main__":
    main()
