"""Layers of networks: norms, softmax, pooling, resizing."""

from __future__ import annotations

from tenon.builder import Value, emit, ops
from tenon.builder import dtypes as dt

from ..graph.node import Node, added_up, axis_of, wide
from ..graph.table import Unsupported, lowering
from .pool import average

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


@lowering(
    "aten._softmax.default",
    "aten._log_softmax.default",
    "aten.softmax.int",
    "aten.log_softmax.int",
    "aten._safe_softmax.default",
)
def softmax(n: Node, x: Value, dim: int, *rest: Any, **options: Any) -> Value:
    name = str(n.node.target)
    x = ops.convert(x, n.dtype)
    if not x.shape:
        return ops.like(x, 0.0 if "log" in name else 1.0)
    out = ops.one("log_softmax" if "log" in name else "softmax", x, dim=axis_of(dim, len(x.shape)))
    if "_safe" in name:  # a row without keys is 0
        out = ops.select(ops.one("is_nan", out), ops.like(out, 0.0), out)
    return out


@lowering("aten.native_layer_norm.default")
def layer_norm(
    n: Node, x: Value, shape: Sequence[Any], weight: Value | None, bias: Value | None, eps: float
) -> tuple[Value | None, ...]:
    first = len(x.shape) - len(shape)
    operands = [x, weight, bias]
    while operands[-1] is None:
        operands.pop()
    if any(v is not None and v.dtype is not x.dtype for v in operands):
        raise Unsupported("parameters of another type")
    out = emit("layer_norm", operands, ops.attrs(dim=first, epsilon=float(eps)))[0]
    if not n.is_read(1) and not n.is_read(2):
        return out, None, None
    over = tuple(range(first, len(x.shape)))
    inner = ops.convert(x, wide(x.dtype))
    average = ops.one("mean", inner, dims=over)
    rate = _rate(ops.one("var", inner, dims=over), eps)
    return out, _saved(n, 1, average), _saved(n, 2, rate)


def _rate(variance: Value, eps: float) -> Value:
    return ops.one("rsqrt", ops.one("add", variance, ops.like(variance, float(eps))))


def _saved(n: Node, i: int, value: Value) -> Value:
    """A statistic in the type and shape that torch saves it in."""
    from ..graph.node import dtype_of

    return ops.reshape(ops.convert(value, dtype_of(n.fakes[i].dtype)), n.shape_of(n.fakes[i]))


@lowering("aten.native_group_norm.default")
def group_norm(
    n: Node, x: Value, weight: Value | None, bias: Value | None, batch: Any, channels: Any, rest: Any,
    groups: int, eps: float,
) -> tuple[Value | None, ...]:  # fmt: skip
    scale = weight if weight is not None else n.spread(1, x.dtype, (x.shape[1],))
    shift = bias if bias is not None else n.spread(0, x.dtype, (x.shape[1],))
    out = ops.one("group_norm", x, scale, shift, groups=groups, dim=1, epsilon=float(eps))
    if not n.is_read(1) and not n.is_read(2):
        return out, None, None
    split = ops.reshape(
        ops.convert(x, wide(x.dtype)), (x.shape[0], groups, x.shape[1] // groups, *x.shape[2:])
    )
    over = tuple(range(2, len(split.shape)))
    average = ops.one("mean", split, dims=over)
    rate = _rate(ops.one("var", split, dims=over), eps)
    return out, _saved(n, 1, average), _saved(n, 2, rate)


@lowering("aten._native_batch_norm_legit_no_training.default")
def batch_norm(
    n: Node, x: Value, weight: Value | None, bias: Value | None, mean: Value, var: Value,
    momentum: float, eps: float,
) -> tuple[Value | None, ...]:  # fmt: skip
    channels = (x.shape[1],)
    scale = weight if weight is not None else n.spread(1, x.dtype, channels)
    shift = bias if bias is not None else n.spread(0, x.dtype, channels)
    operands = [x, scale, shift, mean, var]
    # Statistics of training under autocast are float32, and lose digits in a type of 16 bits.
    dtype = x.dtype if all(v.dtype is x.dtype for v in operands) else wide(x.dtype)
    out = ops.one(
        "batch_norm", *(ops.convert(v, dtype) for v in operands), dim=1, epsilon=float(eps)
    )
    out = ops.convert(out, n.dtype)
    if n.is_read(1) or n.is_read(2):
        raise Unsupported("saved statistics of inference")
    return out, None, None


# ---- Pooling ----


def window_numbers(given: Any, rank: int) -> tuple[int, ...]:
    given = [given] if isinstance(given, int) else list(given)
    if not all(isinstance(v, int) for v in given):
        raise Unsupported("windows of a size that is not known")
    return tuple(given) * rank if len(given) == 1 else tuple(given)


def _high(x: Value, out: Any, window: Any, stride: Any, low: Any, dilation: Any) -> tuple[int, ...]:
    """The border at the end that gives torch's size, which may round up."""
    high = []
    for i in range(len(window)):
        size, wanted = x.shape[len(x.shape) - len(window) + i], out[len(out) - len(window) + i]
        if not isinstance(size, int) or not isinstance(wanted, int):
            raise Unsupported("windows over sizes that are not known")
        need = (wanted - 1) * stride[i] + dilation[i] * (window[i] - 1) + 1 - size - low[i]
        high.append(need)
    return tuple(high)


def _cut(x: Value, high: tuple[int, ...]) -> tuple[Value, tuple[int, ...]]:
    """x without the elements at the end that no window reaches, and the borders that remain."""
    lead = len(x.shape) - len(high)
    for i, border in enumerate(high):
        if border < 0:
            x = ops.slice_axis(x, lead + i, 0, int(x.shape[lead + i]) + border)
    return x, tuple(max(h, 0) for h in high)


@lowering("aten.max_pool2d_with_indices.default", "aten.max_pool3d_with_indices.default")
def max_pool(
    n: Node,
    x: Value,
    window: Any,
    stride: Any = (),
    padding: Any = 0,
    dilation: Any = 1,
    ceil: bool = False,
) -> tuple[Value | None, ...]:
    rank = 2 if "2d" in str(n.node.target) else 3
    window = window_numbers(window, rank)
    stride = window_numbers(stride, rank) if stride else window
    low, dilation = window_numbers(padding, rank), window_numbers(dilation, rank)
    high = _high(x, n.shape, window, stride, low, dilation)
    batched = x if len(x.shape) == rank + 2 else ops.reshape(x, (1, *x.shape))
    given = ops.attrs(window=window, strides=stride, pad_low=low, pad_high=high, dilation=dilation)
    if not n.is_read(1):
        return n.reshape(emit("max_pool", (batched,), given)[0]), None
    return _pool_with_places(n, batched, window, stride, low, high, dilation)


def _pool_with_places(
    n: Node, x: Value, window: Any, stride: Any, low: Any, high: Any, dilation: Any
) -> tuple[Value, ...]:
    """Places are those of the whole tensor; torch counts within a channel."""
    ones, zeros = (1, 1), (0, 0)
    given = ops.attrs(
        window=ones + window, strides=ones + stride, pad_low=zeros + low, pad_high=zeros + high,
        dilation=ones + dilation,
    )  # fmt: skip
    best, place = emit("window_argmax", (x,), given)
    area = 1
    for size in x.shape[2:]:
        area = area * size  # type: ignore[assignment]
    inside = ops.one("floor_mod", place, n.spread(area, place.dtype, place.shape))
    return n.reshape(best), n.reshape(inside)


@lowering("aten.avg_pool2d.default", "aten.avg_pool1d.default", "aten.avg_pool3d.default")
def avg_pool(
    n: Node,
    x: Value,
    window: Any,
    stride: Any = (),
    padding: Any = 0,
    ceil: bool = False,
    count_pad: bool = True,
    divisor: Any = None,
) -> Value:
    rank = int(str(n.node.target).split("pool")[1][0])
    window = window_numbers(window, rank)
    stride = window_numbers(stride, rank) if stride else window
    low = window_numbers(padding, rank)
    high = _high(x, n.shape, window, stride, low, (1,) * rank)
    if divisor is not None or any(h > p for h, p in zip(high, low)) or not dt.is_float(x.dtype):
        return average(n, x, window, stride, low, count_pad, divisor)
    x, high = _cut(x, high)
    batched = x if len(x.shape) == rank + 2 else ops.reshape(x, (1, *x.shape))
    given = ops.attrs(
        window=window, strides=stride, pad_low=low, pad_high=high, count_pad=int(count_pad)
    )
    return n.reshape(emit("avg_pool", (batched,), given)[0])


@lowering(
    "aten._adaptive_avg_pool2d.default",
    "aten._adaptive_avg_pool3d.default",
    "aten.adaptive_avg_pool1d.default",
)
def adaptive_avg_pool(n: Node, x: Value, sizes: Sequence[Any]) -> Value:
    rank = len(sizes)
    if all(isinstance(s, int) and s == 1 for s in sizes):
        return n.reshape(ops.one("mean", x, dims=tuple(range(len(x.shape) - rank, len(x.shape)))))
    if not all(isinstance(s, int) for s in (*sizes, *x.shape[-rank:])):
        raise Unsupported("sizes that are not known")
    batched = x if len(x.shape) == rank + 2 else ops.reshape(x, (1, *x.shape))
    return n.reshape(ops.one("adaptive_pool", batched, sizes=tuple(sizes), kind="mean"))


# ---- Pixels and samples ----


@lowering("aten.pixel_shuffle.default")
def pixel_shuffle(n: Node, x: Value, factor: int) -> Value:
    *lead, channels, height, width = x.shape
    r = factor
    split = ops.reshape(x, (*lead, channels // (r * r), r, r, height, width))
    b = len(lead)
    moved = ops.transpose(split, [*range(b), b, b + 3, b + 1, b + 4, b + 2])
    return n.reshape(moved)


@lowering("aten.grid_sampler_2d.default", "aten.grid_sampler_3d.default")
def grid_sample(n: Node, x: Value, grid: Value, mode: int, padding: int, align: bool) -> Value:
    names = ("linear", "nearest", "cubic"), ("zeros", "border", "reflection")
    return ops.one(
        "grid_sample",
        x,
        grid,
        mode=names[0][mode],
        padding=names[1][padding],
        align_corners=int(align),
    )


@lowering("aten.embedding_dense_backward.default")
def embedding_backward(
    n: Node, g: Value, indices: Value, count: Any, padding: Any, scale: bool
) -> Value:
    if scale:
        raise Unsupported("with scale_grad_by_freq")
    width = g.shape[-1]
    rows: Any = 1
    for size in indices.shape:
        rows = rows * size
    flat = ops.reshape(ops.convert(indices, dt.int64), (rows,))
    updates = ops.reshape(g, (rows, width))
    if isinstance(padding, int) and padding >= 0:
        read = ops.compare(flat, ops.like(flat, padding), 1)
        updates = ops.select(
            ops.broadcast_in(read, updates.shape, (0,)), updates, ops.like(updates, 0.0)
        )
    from tenon.builder import I64S, STRING

    start = n.spread(0, wide(n.dtype))
    given = (
        ("index_map", I64S, (0,)),
        ("inserted_dims", I64S, (0,)),
        ("kind", STRING, "add"),
        ("mode", STRING, "in_bounds"),
        ("window_dims", I64S, (1,)),
    )
    return ops.convert(emit("scatter", (start, flat, added_up("add", updates)), given)[0], n.dtype)
