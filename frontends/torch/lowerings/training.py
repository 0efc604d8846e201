"""Gradients and training norms that are worth one lowering."""

from __future__ import annotations

from tenon import _dtypes as dt
from tenon import _ops
from tenon._trace import Value

from ..graph.node import Node, axis_of, wide
from ..graph.table import Unsupported, lowering

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


@lowering("aten.threshold_backward.default")
def threshold_backward(n: Node, g: Value, x: Value, threshold: Any) -> Value:
    limit = _ops.broadcast_to(n.typed(threshold, x.dtype), x.shape)
    return _ops.select(_ops.compare(x, limit, 3), _ops.like(g, 0.0), g)


@lowering("aten._softmax_backward_data.default", "aten._log_softmax_backward_data.default")
def softmax_backward(n: Node, g: Value, y: Value, dim: int, dtype: Any) -> Value:
    if not g.shape or g.dtype is not n.dtype:
        raise Unsupported("of a single number, or into another type")
    dim, one = axis_of(dim, len(g.shape)), _ops.one
    g, y = (_ops.convert(v, wide(n.dtype)) for v in (g, y))
    kept = [i for i in range(len(g.shape)) if i != dim]
    if "log" in str(n.node.target):
        total = _ops.broadcast_in(one("reduce_sum", g, dims=(dim,)), g.shape, kept)
        return _ops.convert(one("sub", g, one("mul", one("exp", y), total)), n.dtype)
    weighed = one("mul", g, y)
    total = _ops.broadcast_in(one("reduce_sum", weighed, dims=(dim,)), g.shape, kept)
    return _ops.convert(one("sub", weighed, one("mul", y, total)), n.dtype)


@lowering("aten.nll_loss_forward.default")
def nll_loss(n: Node, x: Value, target: Value, weight: Value | None, reduction: int, ignore: int) -> tuple[Value, ...]:
    """The loss, and the weight that it was divided by."""
    one = _ops.one
    x = _ops.convert(x, wide(n.dtype))
    weight = weight and _ops.convert(weight, x.dtype)
    if len(x.shape) == 1:
        x, target = _ops.reshape(x, (1, *x.shape)), _ops.reshape(target, (1,))
    counted = _ops.compare(target, _ops.like(target, ignore), 1)
    index = _ops.select(counted, _ops.convert(target, dt.int64), _ops.like(_ops.convert(target, dt.int64), 0))
    picked = one("take_along", x, _ops.reshape(index, (*index.shape, 1)), dim=1, mode="in_bounds")
    scale = n.spread(1, x.dtype, index.shape) if weight is None else one("take", weight, index, dim=0)
    scale = _ops.select(counted, scale, _ops.like(scale, 0.0))
    losses = one("mul", one("neg", _ops.reshape(picked, index.shape)), scale)
    losses = _ops.select(counted, losses, _ops.like(losses, 0.0))
    if reduction == 0:
        return n.reshape(_ops.convert(losses, n.dtype)), n.spread(0, n.dtype, ())
    total, whole = one("reduce_sum", losses, dims=(0,)), one("reduce_sum", scale, dims=(0,))
    loss = one("div", total, whole) if reduction == 1 else total
    return _ops.convert(loss, n.dtype), _ops.convert(whole, n.dtype)


@lowering("aten.nll_loss_backward.default")
def nll_loss_backward(n: Node, g: Value, x: Value, target: Value, weight: Value | None, reduction: int, ignore: int, whole: Value) -> Value:
    one, dtype = _ops.one, wide(n.dtype)
    g, whole = _ops.convert(g, dtype), _ops.convert(whole, dtype)
    weight = weight and _ops.convert(weight, dtype)
    if len(x.shape) == 1:
        x, target = _ops.reshape(x, (1, *x.shape)), _ops.reshape(target, (1,))
    target = _ops.convert(target, dt.int64)
    counted = _ops.compare(target, _ops.like(target, ignore), 1)
    index = _ops.select(counted, target, _ops.like(target, 0))
    scale = n.spread(1, dtype, index.shape) if weight is None else one("take", weight, index, dim=0)
    if reduction == 1:
        g = one("div", g, whole)
    each = one("neg", one("mul", _ops.broadcast_to(g, index.shape), scale))
    each = _ops.select(counted, each, _ops.like(each, 0.0))
    here = _ops.compare(_ops.iota(x.shape, 1, dt.int64), _ops.broadcast_in(index, x.shape, (0,)), 0)
    each = _ops.convert(each, n.dtype)
    return n.reshape(_ops.select(here, _ops.broadcast_in(each, x.shape, (0,)), n.spread(0, n.dtype, x.shape)))


@lowering("aten._weight_norm_interface_backward.default")
def weight_norm_backward(n: Node, g: Value, v: Value, scale: Value, norms: Value, dim: int) -> tuple[Value, ...]:
    """Of v scale / norm, where the norm is over all axes but one."""
    one, types = _ops.one, (v.dtype, scale.dtype)
    over = tuple(i for i in range(len(v.shape)) if i != axis_of(dim, len(v.shape)))
    g, v, scale, norms = (_ops.convert(t, wide(t.dtype)) for t in (g, v, scale, norms))
    inner = _ops.reshape(one("reduce_sum", one("mul", g, v), dims=over), norms.shape)
    along = _ops.broadcast_to(one("div", inner, one("square", norms)), v.shape)
    ratio = _ops.broadcast_to(one("div", scale, norms), v.shape)
    made = one("mul", ratio, one("sub", g, one("mul", v, along))), one("div", inner, norms)
    return tuple(_ops.convert(t, dtype) for t, dtype in zip(made, types))
