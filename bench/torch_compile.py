#!/usr/bin/env python3
"""torch.compile(backend="tenon") against eager mode and Inductor, interleaved in one process.

    PYTHONPATH=build/python .venv-torch/bin/python bench/torch_compile.py [--only NAME,...] [--rounds N] [--json FILE]

Small networks have rows for inference and for a training step (forward, backward, SGD), networks of
transformers with random weights for inference, and optimizers for a compiled step. First calls are
measured apart from Dynamo's tracing, which an empty backend shows. Peers that cannot run are "not
run": Inductor needs a C++ compiler. Ratios above 1 mean that Tenon is faster.
"""

from __future__ import annotations

import argparse
import copy
import json
import statistics
import sys
import time

import tenon.torch  # noqa: F401
import torch
from torch import nn


class Block(nn.Module):
    """A block of a transformer, causal."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.inner = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (
            self.qkv(self.first(x))
            .view(b, t, 3, self.heads, c // self.heads)
            .permute(2, 0, 3, 1, 4)
        )
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.inner(self.second(x))


class Residual(nn.Module):
    def __init__(self, channels: int):
        super().__init__()
        self.inner = nn.Sequential(
            nn.Conv2d(channels, channels, 3, 1, 1, bias=False), nn.BatchNorm2d(channels), nn.ReLU(),
            nn.Conv2d(channels, channels, 3, 1, 1, bias=False), nn.BatchNorm2d(channels),
        )  # fmt: skip

    def forward(self, x):
        return nn.functional.relu(x + self.inner(x))


def chain(x):
    """Twenty operations element by element."""
    for _ in range(5):
        x = torch.tanh(x * 1.5 + 0.5) - x.sigmoid()
    return x


def networks():
    """Name: (network, input)."""
    cnn = [nn.Conv2d(3, 32, 7, 2, 3), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    cnn += [Residual(32), Residual(32), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10)]
    return {
        "add_16": (lambda: None, (16,)),
        "mlp": (
            lambda: nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256)),
            (64, 256),
        ),
        "chain_1m": (lambda: None, (1 << 20,)),
        "gpt_4x256": (lambda: nn.Sequential(*[Block(256, 4) for _ in range(4)]), (8, 128, 256)),
        "cnn": (lambda: nn.Sequential(*cnn), (4, 3, 64, 64)),
        "linear_100": (lambda: nn.Sequential(*[nn.Linear(16, 16) for _ in range(50)]), (2, 16)),
    }


class Recommender(nn.Module):
    """As DLRM: tables of embeddings, their products in pairs, and two perceptrons."""

    def __init__(self, tables: int = 8, rows: int = 10000, width: int = 64):
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(rows, width, mode="sum") for _ in range(tables))
        self.bottom = nn.Sequential(nn.Linear(13, 256), nn.ReLU(), nn.Linear(256, width), nn.ReLU())
        pairs = (tables + 1) * tables // 2
        self.top = nn.Sequential(nn.Linear(pairs + width, 256), nn.ReLU(), nn.Linear(256, 1))

    def forward(self, dense, sparse):
        x = self.bottom(dense)
        parts = torch.stack([x] + [table(ids) for table, ids in zip(self.tables, sparse)], 1)
        products = parts @ parts.transpose(1, 2)
        i, j = torch.tril_indices(parts.shape[1], parts.shape[1], -1)
        return self.top(torch.cat([x, products[:, i, j]], 1))


def published():
    """Name: a function that makes a network of transformers, and its inputs."""
    import transformers as T

    ids = lambda batch, length: torch.randint(3, 1000, (batch, length))  # noqa: E731
    image = lambda: torch.randn(1, 3, 224, 224)  # noqa: E731
    gpt2 = lambda: T.GPT2LMHeadModel(T.GPT2Config())  # noqa: E731

    def decoding():
        net = gpt2().eval()
        with torch.no_grad():
            past = net(ids(1, 128), use_cache=True).past_key_values
        pairs = [(layer.keys, layer.values) for layer in past.layers]

        class Step(nn.Module):
            """One token after 128, with the keys and values before it as arguments."""

            def __init__(self):
                super().__init__()
                self.net = net

            def forward(self, token, *pairs):
                cache = T.DynamicCache(ddp_cache_data=list(zip(pairs[::2], pairs[1::2])))
                return self.net(token, past_key_values=cache, use_cache=True).logits

        return Step(), (ids(1, 1), *[t for pair in pairs for t in pair])

    return {
        "resnet50": lambda: (T.ResNetModel(T.ResNetConfig()), (image(),)),
        "mobilenet_v2": lambda: (T.MobileNetV2Model(T.MobileNetV2Config()), (image(),)),
        "bert": lambda: (T.BertModel(T.BertConfig()), (ids(1, 128),)),
        "vit": lambda: (T.ViTModel(T.ViTConfig()), (image(),)),
        "gpt2_prefill": lambda: (Plain(gpt2()), (ids(1, 128),)),
        "gpt2_decode": decoding,
        "unet": diffusion,
        "dlrm": lambda: (
            Recommender(),
            (torch.randn(128, 13), torch.randint(0, 10000, (8, 128, 4))),
        ),
    }


def diffusion():
    """A UNet of diffusers at half width with a latent of 32 x 32, one step."""
    from diffusers import UNet2DConditionModel

    net = UNet2DConditionModel(
        sample_size=32,
        block_out_channels=(160, 320, 640, 640),
        cross_attention_dim=384,
        attention_head_dim=8,
    )
    inputs = (torch.randn(1, 4, 32, 32), torch.tensor([7]), torch.randn(1, 77, 384))

    class Step(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net

        def forward(self, sample, timestep, text):
            return self.net(sample, timestep, text, return_dict=False)[0]

    return Step(), inputs


class Plain(nn.Module):
    """A language model without its cache."""

    def __init__(self, net: nn.Module):
        super().__init__()
        self.net = net

    def forward(self, ids):
        return self.net(ids, use_cache=False).logits


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, 1e-3, momentum=0.9),
    "adam": lambda p: torch.optim.Adam(p, 1e-3),
    "adamw": lambda p: torch.optim.AdamW(p, 1e-3),
    "adagrad": lambda p: torch.optim.Adagrad(p, 1e-3),
    "rmsprop": lambda p: torch.optim.RMSprop(p, 1e-3),
}


def peers():
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.compilers import nop

    return {
        "eager": lambda f: f,
        "empty": lambda f: torch.compile(f, backend=aot_autograd(fw_compiler=nop)),
        "inductor": lambda f: torch.compile(f, backend="inductor"),
        "inductor, frozen": lambda f: torch.compile(
            f, backend="inductor", options={"freezing": True}
        ),
        "tenon": lambda f: torch.compile(f, backend="tenon"),
        "tenon, not stable": lambda f: torch.compile(f, backend="tenon", options={"stable": False}),
        "tenon, frozen": lambda f: torch.compile(f, backend="tenon", options={"freezing": True}),
    }


def cases(only):
    for name, (make, shape) in networks().items():
        if only and name not in only:
            continue
        if name == "add_16":
            yield name, "inference", (lambda x, y: x + y), (torch.randn(shape), torch.randn(shape))
        elif name == "chain_1m":
            yield name, "inference", chain, (torch.randn(shape),)
        else:
            net = make()
            yield name, "inference", net.eval(), (torch.randn(shape),)
            if name != "linear_100":
                yield name, "training", make().train(), (torch.randn(shape),)

    for name, make in published().items():
        if not only or name in only:
            net, inputs = make()
            yield name, "inference", net.eval(), inputs
    for name, make in OPTIMIZERS.items():
        if not only or name in only:
            yield name, "step", nn.Sequential(*[Block(256, 4) for _ in range(4)]), (make,)


def runner(kind, f, wrap, inputs):
    """A function that does the work once."""
    if kind == "step":
        net = copy.deepcopy(f)
        for p in net.parameters():
            p.grad = torch.randn_like(p)
        return wrap(inputs[0](net.parameters()).step)
    if kind == "inference":
        compiled = wrap(f)

        def call():
            with torch.no_grad():
                return compiled(*inputs)

        return call
    net = copy.deepcopy(f)
    compiled = wrap(net)
    optimizer = torch.optim.SGD(net.parameters(), 1e-3)

    def step():
        optimizer.zero_grad()
        compiled(*inputs).square().mean().backward()
        optimizer.step()

    return step


def measure(kind, f, inputs, rounds):
    """First and steady times in seconds, by peer. Peers take turns."""
    calls, first = {}, {}
    for peer, wrap in peers().items():
        if ("frozen" in peer or "stable" in peer) and kind != "inference":
            continue
        torch._dynamo.reset()
        begin = time.perf_counter()
        try:
            call = runner(kind, f, wrap, inputs)
            call()
        except Exception as error:  # a peer that cannot run here
            print(f"  {peer}: not run ({type(error).__name__})", file=sys.stderr)
            continue
        first[peer] = time.perf_counter() - begin
        calls[peer] = call
    return first, steady(calls, rounds)


def steady(calls, rounds):
    times = {peer: [] for peer in calls}
    repeat = {}
    for peer, call in calls.items():
        call()
        begin = time.perf_counter()
        call()
        repeat[peer] = max(1, int(0.02 / max(time.perf_counter() - begin, 1e-7)))
    for _ in range(rounds):
        for peer, call in calls.items():
            begin = time.perf_counter()
            for _ in range(repeat[peer]):
                call()
            times[peer].append((time.perf_counter() - begin) / repeat[peer])
    return {peer: statistics.median(t) for peer, t in times.items()}


def row(name, kind, first, times):
    mine = min(times[p] for p in times if p.startswith("tenon"))
    others = [times[p] for p in times if not p.startswith("tenon") and p != "empty"]
    cells = [f"{p} {t * 1e6:.0f}" for p, t in times.items()]
    start = first["tenon"] - first.get("empty", 0)
    cells.append(f"best other / tenon {min(others) / mine:.2f}")
    cells.append(f"first call beyond tracing {start * 1e3:.0f} ms")
    if "inductor" in first and start > 0:
        cells.append(f"inductor's / ours {(first['inductor'] - first['empty']) / start:.1f}")
    print(f"{name} {kind} (us): " + ", ".join(cells), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", type=lambda text: text.split(","), default=[])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json")
    given = parser.parse_args()
    torch.manual_seed(0)
    torch.compile(chain, backend="eager")(torch.ones(2))  # Dynamo's own start
    found = []
    for name, kind, f, inputs in cases(given.only):
        torch._dynamo.reset()
        first, times = measure(kind, f, inputs, given.rounds)
        row(name, kind, first, times)
        found.append({"network": name, "kind": kind, "first_s": first, "steady_s": times})
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump({"torch": torch.__version__, "rows": found}, file, indent=1)


if __name__ == "__main__":
    main()
