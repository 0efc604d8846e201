"""Layers of transformers that torch computes as one operator where no gradient is asked for."""

from __future__ import annotations

import math

import torch.nn.functional as F

from .registry import composite

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from torch import Tensor


@composite("_native_multi_head_attention.default")
def multi_head_attention(
    query: Tensor, key: Tensor, value: Tensor, embed_dim: int, num_head: int, qkv_weight: Tensor,
    qkv_bias: Tensor, proj_weight: Tensor, proj_bias: Tensor, mask: Tensor | None = None,
    need_weights: bool = True, average_attn_weights: bool = True, mask_type: int | None = None,
) -> Any:  # fmt: skip
    hidden = _hidden(mask, mask_type)
    if hidden is NotImplemented or 0 in query.shape:  # torch has no weights of an empty query
        return NotImplemented
    weights, biases = qkv_weight.chunk(3), qkv_bias.chunk(3)
    q, k, v = (
        F.linear(x, w, b).unflatten(-1, (num_head, embed_dim // num_head)).transpose(1, 2)
        for x, w, b in zip((query, key, value), weights, biases)
    )
    seen: Any = None
    if hidden is None and not need_weights:
        mixed = F.scaled_dot_product_attention(q, k, v)
    else:
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        seen = (scores if hidden is None else scores.masked_fill(hidden, -math.inf)).softmax(-1)
        mixed = seen @ v
    out = F.linear(mixed.transpose(1, 2).flatten(2), proj_weight, proj_bias)
    if not need_weights:
        return out, None
    return out, seen.mean(1) if average_attn_weights else seen


def _hidden(mask: Tensor | None, kind: int | None) -> Any:
    """Which keys are not looked at. Any number but zero hides, as in torch: its masks of floats are 0 or -inf."""
    if mask is None:
        return None
    if kind == 1:  # of the keys of each sequence
        return (mask != 0)[:, None, None, :]
    return mask != 0 if kind in (0, 2) else NotImplemented


@composite("_transformer_encoder_layer_fwd.default")
def encoder_layer(
    src: Tensor, embed_dim: int, num_heads: int, qkv_weight: Tensor, qkv_bias: Tensor, proj_weight: Tensor,
    proj_bias: Tensor, use_gelu: bool, norm_first: bool, eps: float, norm_weight_1: Tensor,
    norm_bias_1: Tensor, norm_weight_2: Tensor, norm_bias_2: Tensor, ffn_weight_1: Tensor,
    ffn_bias_1: Tensor, ffn_weight_2: Tensor, ffn_bias_2: Tensor, mask: Tensor | None = None,
    mask_type: int | None = None,
) -> Any:  # fmt: skip
    if _hidden(mask, mask_type) is NotImplemented:
        return NotImplemented

    def attention(x: Tensor) -> Tensor:
        given = (x, x, x, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias)
        out: Tensor = multi_head_attention(*given, mask, False, True, mask_type)[0]
        return out

    def inner(x: Tensor) -> Tensor:
        wide = F.linear(x, ffn_weight_1, ffn_bias_1)
        return F.linear(F.gelu(wide) if use_gelu else F.relu(wide), ffn_weight_2, ffn_bias_2)

    x = src
    for step, weight, bias in (
        (attention, norm_weight_1, norm_bias_1),
        (inner, norm_weight_2, norm_bias_2),
    ):
        x = x + step(F.layer_norm(x, (embed_dim,), weight, bias, eps) if norm_first else x)
        x = x if norm_first else F.layer_norm(x, (embed_dim,), weight, bias, eps)
    return x
