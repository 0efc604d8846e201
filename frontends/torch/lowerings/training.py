"""Gradients and training norms that are worth one lowering."""

from __future__ import annotations

from tenon.builder import Value, ops
from tenon.builder import dtypes as dt

from ..graph.node import Node, axis_of, wide
from ..graph.table import Unsupported, lowering

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


@lowering("aten.threshold_backward.default")
def threshold_backward(n: Node, g: Value, x: Value, threshold: Any) -> Value:
    limit = ops.broadcast_to(n.typed(threshold, x.dtype), x.shape)
    return ops.select(ops.compare(x, limit, 3), ops.like(g, 0.0), g)


@lowering("aten._softmax_backward_data.default", "aten._log_softmax_backward_data.default")
def softmax_backward(n: Node, g: Value, y: Value, dim: int, dtype: Any) -> Value:
    if not g.shape or g.dtype is not n.dtype:
        raise Unsupported("of a single number, or into another type")
    dim, one = axis_of(dim, len(g.shape)), ops.one
    g, y = (ops.convert(v, wide(n.dtype)) for v in (g, y))
    kept = [i for i in range(len(g.shape)) if i != dim]
    if "log" in str(n.node.target):
        total = ops.broadcast_in(one("reduce_sum", g, dims=(dim,)), g.shape, kept)
        return ops.convert(one("sub", g, one("mul", one("exp", y), total)), n.dtype)
    weighed = one("mul", g, y)
    total = ops.broadcast_in(one("reduce_sum", weighed, dims=(dim,)), g.shape, kept)
    return ops.convert(one("sub", weighed, one("mul", y, total)), n.dtype)


@lowering("aten.nll_loss_forward.default")
def nll_loss(
    n: Node, x: Value, target: Value, weight: Value | None, reduction: int, ignore: int
) -> tuple[Value, ...]:
    """The loss, and the weight that it was divided by."""
    one = ops.one
    x = ops.convert(x, wide(n.dtype))
    weight = weight and ops.convert(weight, x.dtype)
    if len(x.shape) == 1:
        x, target = ops.reshape(x, (1, *x.shape)), ops.reshape(target, (1,))
    counted = ops.compare(target, ops.like(target, ignore), 1)
    index = ops.select(
        counted, ops.convert(target, dt.int64), ops.like(ops.convert(target, dt.int64), 0)
    )
    picked = one("take_along", x, ops.reshape(index, (*index.shape, 1)), dim=1, mode="in_bounds")
    scale = (
        n.spread(1, x.dtype, index.shape) if weight is None else one("take", weight, index, dim=0)
    )
    scale = ops.select(counted, scale, ops.like(scale, 0.0))
    losses = one("mul", one("neg", ops.reshape(picked, index.shape)), scale)
    losses = ops.select(counted, losses, ops.like(losses, 0.0))
    if reduction == 0:
        return n.reshape(ops.convert(losses, n.dtype)), n.spread(0, n.dtype, ())
    total, whole = one("reduce_sum", losses, dims=(0,)), one("reduce_sum", scale, dims=(0,))
    loss = one("div", total, whole) if reduction == 1 else total
    return ops.convert(loss, n.dtype), ops.convert(whole, n.dtype)


@lowering("aten.nll_loss_backward.default")
def nll_loss_backward(
    n: Node,
    g: Value,
    x: Value,
    target: Value,
    weight: Value | None,
    reduction: int,
    ignore: int,
    whole: Value,
) -> Value:
    one, dtype = ops.one, wide(n.dtype)
    g, whole = ops.convert(g, dtype), ops.convert(whole, dtype)
    weight = weight and ops.convert(weight, dtype)
    if len(x.shape) == 1:
        x, target = ops.reshape(x, (1, *x.shape)), ops.reshape(target, (1,))
    target = ops.convert(target, dt.int64)
    counted = ops.compare(target, ops.like(target, ignore), 1)
    index = ops.select(counted, target, ops.like(target, 0))
    scale = n.spread(1, dtype, index.shape) if weight is None else one("take", weight, index, dim=0)
    if reduction == 1:
        g = one("div", g, whole)
    each = one("neg", one("mul", ops.broadcast_to(g, index.shape), scale))
    each = ops.select(counted, each, ops.like(each, 0.0))
    here = ops.compare(ops.iota(x.shape, 1, dt.int64), ops.broadcast_in(index, x.shape, (0,)), 0)
    each = ops.convert(each, n.dtype)
    return n.reshape(
        ops.select(here, ops.broadcast_in(each, x.shape, (0,)), n.spread(0, n.dtype, x.shape))
    )


@lowering("aten._weight_norm_interface_backward.default")
def weight_norm_backward(
    n: Node, g: Value, v: Value, scale: Value, norms: Value, dim: int
) -> tuple[Value, ...]:
    """Of v scale / norm, where the norm is over all axes but one."""
    one, types = ops.one, (v.dtype, scale.dtype)
    over = tuple(i for i in range(len(v.shape)) if i != axis_of(dim, len(v.shape)))
    g, v, scale, norms = (ops.convert(t, wide(t.dtype)) for t in (g, v, scale, norms))
    inner = ops.reshape(one("reduce_sum", one("mul", g, v), dims=over), norms.shape)
    along = ops.broadcast_to(one("div", inner, one("square", norms)), v.shape)
    ratio = ops.broadcast_to(one("div", scale, norms), v.shape)
    made = one("mul", ratio, one("sub", g, one("mul", v, along))), one("div", inner, norms)
    return tuple(ops.convert(t, dtype) for t, dtype in zip(made, types))
