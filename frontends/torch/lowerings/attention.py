"""Attention, forward and backward."""

from __future__ import annotations

import math

from tenon.builder import Value, emit, ops
from tenon.builder import dtypes as dt

from ..graph.node import Node
from ..graph.table import Unsupported, lowering

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tenon.builder import Size


def _scale(q: Value, scale: float | None) -> float:
    width = q.shape[-1]
    if scale is None and not isinstance(width, int):
        raise Unsupported("features of unknown number")
    return float(scale) if scale is not None else 1.0 / math.sqrt(width)


# Scores of one block of queries are at most as many as this, unless that makes too many blocks.
_SCORES_MOST = 1 << 21
_BLOCKS_MOST = 16


def _blocks(q: Value, k: Value) -> list[tuple[int, int | None]]:
    """Ranges of queries whose scores are in memory at the same time. One, if sizes are not known."""
    batch, heads, rows = q.shape[0], q.shape[1], q.shape[2]
    columns = k.shape[2]
    if not all(isinstance(s, int) for s in (batch, heads, rows, columns)):
        return [(0, None)]
    assert (
        isinstance(batch, int)
        and isinstance(heads, int)
        and isinstance(rows, int)
        and isinstance(columns, int)
    )
    total = batch * heads * rows * columns
    count = min(_BLOCKS_MOST, -(-total // _SCORES_MOST), -(-rows // 16))
    if count <= 1:
        return [(0, None)]
    step = -(-rows // count)
    step += -step % 16  # whole tiles
    return [(begin, min(begin + step, rows)) for begin in range(0, rows, step)]


def _rows(x: Value, begin: int, end: int | None) -> Value:
    return x if end is None else ops.slice_axis(x, 2, begin, end)


def _rows_of_mask(mask: Value | None, q: Value, begin: int, end: int | None) -> Value | None:
    """The part of a mask, which may have one row for all queries."""
    if mask is None or end is None:
        return mask
    return mask if mask.shape[2] == 1 else ops.slice_axis(mask, 2, begin, end)


def _of_rank_4(mask: Value | None) -> Value | None:
    return mask and ops.reshape(mask, (1,) * (4 - len(mask.shape)) + mask.shape)


def _joined(blocks: list[Value]) -> Value:
    return blocks[0] if len(blocks) == 1 else ops.concat(blocks, 2)


def _added(sum: Value | None, x: Value) -> Value:
    return x if sum is None else ops.one("add", sum, x)


def _repeated(x: Value, heads: Size) -> Value:
    """Keys or values with as many heads as queries have: each several times, where queries share it."""
    batch, own, *rest = x.shape
    if own == heads:
        return x
    if not isinstance(own, int) or not isinstance(heads, int):
        raise Unsupported("heads of unknown number")
    whole = (batch, own, heads // own, *rest)
    return ops.reshape(ops.broadcast_in(x, whole, (0, 1, 3, 4)), (batch, heads, *rest))


def _shared(x: Value, own: Size) -> Value:
    """Sums over the queries that share a head, of which there are `own`."""
    batch, heads, *rest = x.shape
    if own == heads:
        return x
    assert isinstance(own, int) and isinstance(heads, int)  # `_repeated` was here
    return ops.one("reduce_sum", ops.reshape(x, (batch, own, heads // own, *rest)), dims=(2,))


def _scores(
    q: Value, k: Value, mask: Value | None, scale: float, causal: bool, first: int = 0
) -> Value:
    """q k' scale, with the mask; -inf where a key is not seen. In f32 at least. q begins with row `first`."""
    wide = dt.float64 if q.dtype is dt.float64 else dt.float32
    q, k = ops.convert(q, wide), ops.convert(k, wide)
    turned = ops.transpose(k, (0, 1, 3, 2))
    out = ops.one("matmul", ops.one("mul", q, ops.like(q, scale)), turned)
    if causal:
        rows, columns = ops.iota(out.shape, 2, dt.int64), ops.iota(out.shape, 3, dt.int64)
        if first:
            rows = ops.one("add", rows, ops.like(rows, first))
        out = ops.select(ops.compare(columns, rows, 3), out, ops.like(out, -math.inf))
    if mask is None:
        return out
    if mask.dtype is dt.bool_:
        return ops.select(ops.broadcast_to(mask, out.shape), out, ops.like(out, -math.inf))
    return ops.one("add", out, ops.broadcast_to(ops.convert(mask, wide), out.shape))


@lowering("aten._scaled_dot_product_flash_attention_for_cpu.default")
def attention(
    n: Node, q: Value, k: Value, v: Value, dropout: float = 0.0, causal: bool = False, *,
    attn_mask: Value | None = None, scale: float | None = None,
) -> tuple[Value | None, ...]:  # fmt: skip
    if dropout:
        raise Unsupported("with dropout")
    factor, attn_mask = _scale(q, scale), _of_rank_4(attn_mask)
    operands = [q, k, v] if attn_mask is None else [q, k, v, attn_mask]
    blind = int(attn_mask is not None)  # a query that sees no key gives 0, as in eager mode
    given = ops.attrs(scale=factor, causal="first" if causal else "none", zero_blind=blind)
    out = emit("sdpa", operands, given)[0]
    if not n.is_read(1):
        return out, None
    k = _repeated(k, q.shape[1])
    logs = []
    for begin, end in _blocks(q, k):
        scores = _scores(
            _rows(q, begin, end), k, _rows_of_mask(attn_mask, q, begin, end), factor, causal, begin
        )
        logs.append(ops.one("logsumexp", scores, dims=(3,)))
    return out, _joined(logs)


@lowering("aten._scaled_dot_product_flash_attention_for_cpu_backward.default")
def attention_backward(
    n: Node, g: Value, q: Value, k: Value, v: Value, out: Value, logs: Value, dropout: float,
    causal: bool, *, attn_mask: Value | None = None, scale: float | None = None,
) -> tuple[Value, ...]:  # fmt: skip
    """The weights again from the saved log-sum-exp, then the product rule, a block of queries at a time.

    So the memory is that of the scores of one block. Sums over queries grow from block to block.
    """
    if dropout:
        raise Unsupported("with dropout")
    factor, one, attn_mask = _scale(q, scale), ops.one, _of_rank_4(attn_mask)
    wide = dt.float64 if q.dtype is dt.float64 else dt.float32
    turned = (0, 1, 3, 2)
    heads, own = q.shape[1], k.shape[1]
    k, v = (_repeated(ops.convert(t, wide), heads) for t in (k, v))
    to_q, to_k, to_v = [], None, None
    for begin, end in _blocks(q, k):
        q1, g1, out1 = (ops.convert(_rows(t, begin, end), wide) for t in (q, g, out))
        scores = _scores(q1, k, _rows_of_mask(attn_mask, q, begin, end), factor, causal, begin)
        logs1 = ops.convert(_rows(logs, begin, end), wide)
        weights = one("exp", one("sub", scores, ops.broadcast_in(logs1, scores.shape, (0, 1, 2))))
        unseen = ops.compare(scores, ops.like(scores, -math.inf), 0)
        weights = ops.select(unseen, ops.like(weights, 0.0), weights)
        to_v = _added(to_v, one("matmul", ops.transpose(weights, turned), g1))
        to_weights = one("matmul", g1, ops.transpose(v, turned))
        inner = one("reduce_sum", one("mul", g1, out1), dims=(3,))
        to_scores = one(
            "mul", weights, one("sub", to_weights, ops.broadcast_in(inner, scores.shape, (0, 1, 2)))
        )
        to_scores = one("mul", to_scores, ops.like(to_scores, factor))
        to_q.append(one("matmul", to_scores, k))
        to_k = _added(to_k, one("matmul", ops.transpose(to_scores, turned), q1))
    assert to_k is not None and to_v is not None  # there is a block
    return tuple(
        ops.convert(t, n.dtype) for t in (_joined(to_q), _shared(to_k, own), _shared(to_v, own))
    )
