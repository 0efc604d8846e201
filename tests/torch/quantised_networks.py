"""Ten small networks with random weights, each of the layers that one kind of network is made of,
and the ways in which PyTorch's tools quantise them."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.a, self.b = (nn.Conv2d(i, 8, 3, padding=1) for i in (3, 8, 8))

    def forward(self, x):
        x = F.relu(self.stem(x))
        return F.relu(self.b(F.relu(self.a(x))) + x).mean((2, 3))


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.one, self.three = (
            nn.Conv2d(3, 8, 3, padding=1),
            nn.Conv2d(8, 4, 1),
            nn.Conv2d(8, 4, 3, padding=1),
        )
        self.last = nn.Conv2d(16, 6, 1)

    def forward(self, x):
        x = F.leaky_relu(self.stem(x), 0.1)
        x = torch.cat([self.one(x), self.three(x), F.max_pool2d(x, 3, 1, 1)], 1)
        return self.last(x).mean((2, 3))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(32, 32) for _ in range(4))
        self.wide, self.narrow = nn.Linear(32, 64), nn.Linear(64, 32)
        self.first, self.second = nn.LayerNorm(32), nn.LayerNorm(32)

    def heads(self, x):
        return x.reshape(2, 8, 4, 8).transpose(1, 2)

    def forward(self, x):
        q, k, v = self.heads(self.q(x)), self.heads(self.k(x)), self.heads(self.v(x))
        seen = torch.softmax(q @ k.transpose(2, 3) / 8**0.5, -1) @ v
        x = self.first(x + self.out(seen.transpose(1, 2).reshape(2, 8, 32)))
        return self.second(x + self.narrow(F.gelu(self.wide(x))))


class Text(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.inner, self.out = (
            nn.Embedding(50, 32),
            nn.Linear(32, 64),
            nn.Linear(64, 32),
        )

    def forward(self, x):
        return torch.softmax(self.out(F.relu(self.inner(self.words(x).mean(1)))), -1)


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.up, self.down = nn.Linear(32, 64), nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, x):
        return x + self.down(F.silu(self.gate(x)) * self.up(x))


def mobile():
    return nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU6(), nn.Conv2d(16, 16, 3, padding=1, groups=16), nn.ReLU6(),
                         nn.Conv2d(16, 24, 1), nn.AvgPool2d(3, 2), nn.Conv2d(24, 8, 1))  # fmt: skip


def upsampling():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1),
        nn.ReLU(),
        nn.Upsample(scale_factor=2),
        nn.Conv2d(8, 2, 3, padding=1),
        nn.Tanh(),
    )


NETWORKS = {
    "mlp": (lambda: nn.Sequential(nn.Linear(32, 48), nn.ReLU(), nn.Linear(48, 40), nn.ReLU(), nn.Linear(40, 10)), (4, 32)),
    "convolutions": (lambda: nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, 2, 1), nn.ReLU(),
                                           nn.Flatten(), nn.Linear(256, 10)), (2, 3, 16, 16)),
    "residual": (Residual, (2, 3, 12, 12)),
    "mobile": (mobile, (2, 3, 12, 12)),
    "branches": (Branches, (2, 3, 10, 10)),
    "encoder": (Encoder, (2, 8, 32)),
    "upsampling": (upsampling, (1, 3, 8, 8)),
    "signals": (lambda: nn.Sequential(nn.Conv1d(4, 8, 5, 2), nn.ReLU(), nn.Conv1d(8, 8, 3, dilation=2), nn.Flatten(), nn.Linear(120, 6)),
                (2, 4, 41)),
    "text": (Text, (4, 9)),
    "gated": (Gated, (2, 5, 32)),
}  # fmt: skip


def network(name):
    """The network, and a function that draws its input."""
    make, shape = NETWORKS[name]
    draw = (lambda: torch.randint(0, 50, shape)) if name == "text" else (lambda: torch.randn(shape))
    return make().eval(), draw


def _pt2e(quantizer):
    def quantise(net, draw):
        from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

        prepared = prepare_pt2e(torch.export.export(net, (draw(),)).module(), quantizer())
        for _ in range(4):
            prepared(draw())
        return convert_pt2e(prepared)

    return quantise


def _x86(**given):
    def quantizer():
        from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

        return x86.X86InductorQuantizer().set_global(
            x86.get_default_x86_inductor_quantization_config(**given)
        )

    return quantizer


def _signed():
    """Everything in s8, weights with one scale per channel, by torch's own observers."""
    from torchao.quantization.pt2e import observer
    from torchao.quantization.pt2e.quantizer import QuantizationSpec
    from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

    config = x86.get_default_x86_inductor_quantization_config()
    activations = QuantizationSpec(
        dtype=torch.int8, quant_min=-128, quant_max=127, qscheme=torch.per_tensor_symmetric,
        observer_or_fake_quant_ctr=observer.HistogramObserver.with_args(eps=2**-12),
    )  # fmt: skip
    return x86.X86InductorQuantizer().set_global(
        type(config)(activations, activations, config.weight, config.bias, config.is_qat)
    )


def _weights(config):
    def quantise(net, draw):
        import torchao.quantization as ao

        ao.quantize_(net, config(ao))
        return net

    return quantise


# Those of the second kind change linear layers alone; groups of 32 need as many features.
FLOWS = {
    "static_u8": _pt2e(_x86()),
    "static_s8": _pt2e(_signed),
    "dynamic": _pt2e(_x86(is_dynamic=True)),
    "weights_8": _weights(lambda ao: ao.Int8WeightOnlyConfig()),
    "dynamic_8": _weights(lambda ao: ao.Int8DynamicActivationInt8WeightConfig()),
    "weights_4": _weights(
        lambda ao: ao.IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=ao.PerGroup(8))
    ),
    "dynamic_8_weights_4": _weights(
        lambda ao: ao.Int8DynamicActivationIntxWeightConfig(
            weight_dtype=torch.int4, weight_granularity=ao.PerGroup(8)
        )
    ),
}
