"""Attention, forward and backward."""

from __future__ import annotations

import math

from tenon import _dtypes as dt
from tenon import _ops
from tenon._trace import Value, emit

from ._lower import Node
from ._table import Refused, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def _scale(q: Value, scale: float | None) -> float:
    width = q.shape[-1]
    if scale is None and not isinstance(width, int):
        raise Refused("features of unknown number")
    return float(scale) if scale is not None else 1.0 / math.sqrt(width)


def _scores(q: Value, k: Value, mask: Value | None, scale: float, causal: bool) -> Value:
    """q k' scale, with the mask; -inf where a key is not seen. In f32 at least."""
    wide = dt.float64 if q.dtype is dt.float64 else dt.float32
    q, k = _ops.convert(q, wide), _ops.convert(k, wide)
    turned = _ops.transpose(k, (0, 1, 3, 2))
    out = _ops.one("matmul", _ops.one("mul", q, _ops.like(q, scale)), turned)
    if causal:
        rows, columns = _ops.iota(out.shape, 2, dt.int64), _ops.iota(out.shape, 3, dt.int64)
        out = _ops.select(_ops.compare(columns, rows, 3), out, _ops.like(out, -math.inf))
    if mask is None:
        return out
    if mask.dtype is dt.bool_:
        return _ops.select(_ops.broadcast_to(mask, out.shape), out, _ops.like(out, -math.inf))
    return _ops.one("add", out, _ops.broadcast_to(_ops.convert(mask, wide), out.shape))


@row("aten._scaled_dot_product_flash_attention_for_cpu.default")
def attention(
    n: Node, q: Value, k: Value, v: Value, dropout: float = 0.0, causal: bool = False, *,
    attn_mask: Value | None = None, scale: float | None = None,
) -> tuple[Value | None, ...]:  # fmt: skip
    if dropout:
        raise Refused("with dropout")
    factor = _scale(q, scale)
    operands = [q, k, v] if attn_mask is None else [q, k, v, attn_mask]
    given = _ops.attrs(scale=factor, causal="first" if causal else "none")
    out = emit("sdpa", operands, given)[0]
    if not n.is_read(1):
        return out, None
    scores = _scores(q, k, attn_mask, factor, causal)
    return out, _ops.one("logsumexp", scores, dims=(3,))


@row("aten._scaled_dot_product_flash_attention_for_cpu_backward.default")
def attention_backward(
    n: Node, g: Value, q: Value, k: Value, v: Value, out: Value, logs: Value, dropout: float,
    causal: bool, *, attn_mask: Value | None = None, scale: float | None = None,
) -> tuple[Value, ...]:  # fmt: skip
    """The weights again from the saved log-sum-exp, then the product rule."""
    if dropout:
        raise Refused("with dropout")
    factor, one = _scale(q, scale), _ops.one
    scores = _scores(q, k, attn_mask, factor, causal)
    wide = scores.dtype
    g, out, q, k, v = (_ops.convert(t, wide) for t in (g, out, q, k, v))
    spread = _ops.broadcast_in(_ops.convert(logs, wide), scores.shape, (0, 1, 2))
    weights = one("exp", one("sub", scores, spread))
    unseen = _ops.compare(scores, _ops.like(scores, -math.inf), 0)
    weights = _ops.select(unseen, _ops.like(weights, 0.0), weights)
    turned = (0, 1, 3, 2)
    to_v = one("matmul", _ops.transpose(weights, turned), g)
    to_weights = one("matmul", g, _ops.transpose(v, turned))
    inner = one("reduce_sum", one("mul", g, out), dims=(3,))
    to_scores = one("mul", weights, one("sub", to_weights, _ops.broadcast_in(inner, scores.shape, (0, 1, 2))))
    to_scores = one("mul", to_scores, _ops.like(to_scores, factor))
    to_q = one("matmul", to_scores, k)
    to_k = one("matmul", _ops.transpose(to_scores, turned), q)
    return tuple(_ops.convert(t, n.dtype) for t in (to_q, to_k, to_v))
