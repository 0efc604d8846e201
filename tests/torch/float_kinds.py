"""Functions of one line, each with a Python float in another role."""

import math

import torch
from torch.nn import functional as F

# Those whose float each call gives: one compilation for all values.
CHANGING = {
    "factor": lambda x, y, s: x * s,
    "divisor": lambda x, y, s: x / s,
    "dividend": lambda x, y, s: s / y,
    "term": lambda x, y, s: x + s,
    "subtracted": lambda x, y, s: s - x,
    "alpha of a sum": lambda x, y, s: torch.add(x, y, alpha=s),
    "alpha of a difference": lambda x, y, s: torch.sub(x, y, alpha=s),
    "floor divisor": lambda x, y, s: x // s,
    "modulus": lambda x, y, s: x % s,
    "fmod": lambda x, y, s: torch.fmod(x, s),
    "exponent": lambda x, y, s: y**s,
    "base": lambda x, y, s: s**x,
    "compared": lambda x, y, s: x < s,
    "clamp bound": lambda x, y, s: x.clamp(max=s),
    "both bounds": lambda x, y, s: x.clamp(-s, s),
    "hardtanh": lambda x, y, s: F.hardtanh(x, -s, s),
    "lerp weight": lambda x, y, s: torch.lerp(x, y, s),
    "addcmul": lambda x, y, s: torch.addcmul(x, y, x, value=s),
    "addcdiv": lambda x, y, s: torch.addcdiv(x, x, y, value=s),
    "slope": lambda x, y, s: F.leaky_relu(x, s),
    "elu": lambda x, y, s: F.elu(x, s),
    "threshold": lambda x, y, s: F.threshold(x, s, s),
    "softplus": lambda x, y, s: F.softplus(x, s),
    "hardshrink": lambda x, y, s: F.hardshrink(x, s),
    "fill value": lambda x, y, s: torch.full_like(x, s),
    "full": lambda x, y, s: torch.full((3,), s) + x[:3],
    "where": lambda x, y, s: torch.where(x > 0, x, s),
    "masked fill": lambda x, y, s: x.masked_fill(x > 0, s),
    "matrix factors": lambda x, y, s: torch.addmm(
        x.reshape(4, 4), y.reshape(4, 4), x.reshape(4, 4), beta=s, alpha=s
    ),
    "factor and bound": lambda x, y, s: (x * s).clamp(max=s * 2),
    "numbers of numbers": lambda x, y, s: x * (1 - 0.9**s) + math.sqrt(s),
    "masked scale": lambda x, y, s: torch.where(x > s, x * s, y / s),
    "number as a result": lambda x, y, s: (x + 1, s * 2),
}
# Those whose float is a double of torch's, or decides more than a value: one compilation for each.
FIXED = {
    "delta": lambda x, y, s: F.huber_loss(x, y, delta=s),
    "beta": lambda x, y, s: F.smooth_l1_loss(x, y, beta=s),
    "epsilon": lambda x, y, s: F.layer_norm(x, (16,), eps=s),
    "scale of attention": lambda x, y, s: F.scaled_dot_product_attention(
        x.reshape(1, 4, 4), y.reshape(1, 4, 4), x.reshape(1, 4, 4), scale=s
    ),
    "pad value": lambda x, y, s: F.pad(x, (1, 2), value=s),
    "number of nan": lambda x, y, s: torch.nan_to_num(x / 0 * 0, nan=s),
    "size": lambda x, y, s: torch.ones(int(s * 10)) + s,
}
VALUES = (0.1, 0.3, 0.45, 0.9, 2.5)


def operands():
    x = torch.linspace(-3, 3.7, 16)
    return x, x.flip(0).abs() + 0.25


def changing(x, y, s):
    """All of them in one graph."""
    return [f(x, y, s) for f in CHANGING.values()]


def fixed(x, y, s):
    return [f(x, y, s) for f in FIXED.values()]
