"""Convolutions and their gradients."""

from __future__ import annotations

from tenon.builder import Value, emit, ops
from tenon.builder import dtypes as dt

from ..graph.node import Node
from ..graph.table import Unsupported, lowering

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


def _all(given: Sequence[int], rank: int) -> tuple[int, ...]:
    """One number for each spatial dim."""
    if not all(isinstance(v, int) for v in given):
        raise Unsupported("windows of a size that is not known")
    return tuple(given) if len(given) == rank else tuple(given) * rank


def _is_empty(x: Value) -> bool:
    return any(isinstance(s, int) and s == 0 for s in x.shape)


@lowering("aten.convolution.default")
def convolution(
    n: Node, x: Value, w: Value, bias: Value | None, stride: Any, padding: Any, dilation: Any,
    transposed: bool, output_padding: Any, groups: int,
) -> Value:  # fmt: skip
    rank = len(w.shape) - 2
    stride, padding, dilation = _all(stride, rank), _all(padding, rank), _all(dilation, rank)
    if _is_empty(x) or _is_empty(w):
        return _biased(n, n.spread(0, n.dtype), bias)
    if not dt.is_float(x.dtype):
        window = _Window(stride, padding, dilation, groups)
        return _biased(
            n, _transposed(n, x, w, window) if transposed else _plain(x, w, window), bias
        )
    operands = [x, w] if bias is None else [x, w, bias]
    if transposed and _in_tiles(x, w, _Window(stride, padding, dilation, groups), output_padding):
        return _biased(n, n.reshape(_spread_tiles(x, w)), bias)
    if transposed:
        given = ops.attrs(
            strides=stride, pad_low=padding, pad_high=padding, dilation=dilation,
            output_padding=_all(output_padding, rank), groups=groups,
        )  # fmt: skip
        return emit("conv_transpose", operands, given)[0]
    given = ops.attrs(
        strides=stride, pad_low=padding, pad_high=padding, w_dilation=dilation, groups=groups
    )
    return emit("conv_bias", operands, given)[0]


@lowering("aten.convolution_backward.default")
def convolution_backward(
    n: Node, g: Value, x: Value, w: Value, bias_sizes: Any, stride: Any, padding: Any, dilation: Any,
    transposed: bool, output_padding: Any, groups: int, mask: Sequence[bool],
) -> tuple[Value | None, ...]:  # fmt: skip
    rank = len(w.shape) - 2
    stride, padding, dilation = _all(stride, rank), _all(padding, rank), _all(dilation, rank)
    window = _Window(stride, padding, dilation, groups)
    if not all(isinstance(s, int) for v in (g, x, w) for s in v.shape[1:]):
        raise Unsupported("the gradient over sizes that are not known")
    if _is_empty(g) or _is_empty(x):
        raise Unsupported("without elements")
    to_x = to_w = to_bias = None
    if transposed and _in_tiles(x, w, window, output_padding):
        to_x, to_w = _from_tiles(g, x, w, mask)
        mask = (False, False, mask[2])
    if mask[0]:
        to_x = _forward(g, w, window, x) if transposed else _to_input(g, w, x, window)
    if mask[1]:
        to_w = _to_weights(x, g, w, window) if transposed else _to_weights(g, x, w, window)
    if mask[2]:
        to_bias = ops.one("reduce_sum", g, dims=tuple(i for i in range(len(g.shape)) if i != 1))
    return to_x, to_w, to_bias


class _Window:
    def __init__(self, stride: Any, padding: Any, dilation: Any, groups: int):
        self.stride, self.padding, self.dilation, self.groups = stride, padding, dilation, groups


def _biased(n: Node, x: Value, bias: Value | None) -> Value:
    return x if bias is None else ops.one("add", x, ops.broadcast_in(bias, n.shape, (1,)))


def _plain(x: Value, w: Value, window: _Window) -> Value:
    given = ops.attrs(
        strides=window.stride, pad_low=window.padding, pad_high=window.padding,
        w_dilation=window.dilation, groups=window.groups,
    )  # fmt: skip
    return emit("conv", (x, w), given)[0]


def _transposed(n: Node, x: Value, w: Value, window: _Window) -> Value:
    """A convolution that spreads x over the result, whose size has the output padding."""
    if not all(isinstance(s, int) for v in (x.shape, n.shape) for s in v[2:]):
        raise Unsupported("a transposed convolution over sizes that are not known")
    spatial = range(len(w.shape) - 2)
    reach = [window.dilation[i] * (int(w.shape[i + 2]) - 1) for i in spatial]
    low = tuple(reach[i] - window.padding[i] for i in spatial)
    high = tuple(
        int(n.shape[i + 2]) + reach[i] - (int(x.shape[i + 2]) - 1) * window.stride[i] - 1 - low[i]  # type: ignore[arg-type]
        for i in spatial
    )
    given = ops.attrs(
        x_dilation=window.stride, pad_low=low, pad_high=high, w_dilation=window.dilation,
        reversal=(1,) * len(reach), groups=window.groups,
    )  # fmt: skip
    return emit("conv", (x, _swapped(w, window.groups)), given)[0]


def _in_tiles(x: Value, w: Value, window: _Window, output_padding: Any) -> bool:
    """Whether each element spreads over a tile of its own: a product of matrices, and movement."""
    rank = len(w.shape) - 2
    return (
        all(isinstance(s, int) for s in x.shape[2:])
        and window.groups == 1
        and window.stride == tuple(w.shape[2:])
        and not any(window.padding)
        and set(window.dilation) == {1}
        and not any(_all(output_padding, rank))
    )


def _product(sizes: Sequence[Any]) -> Any:
    total: Any = 1
    for size in sizes:
        total = total * size
    return total


def _spread_tiles(x: Value, w: Value) -> Value:
    """[batch, filters, size 0, tile 0, ...] of x [batch, features, sizes] and w [features, filters, tiles]."""
    (batch, features, *sizes), (_, filters, *tiles) = x.shape, w.shape
    rank = len(sizes)
    rows = ops.transpose(ops.reshape(w, (features, filters * _product(tiles))), [1, 0])
    made = ops.one("matmul", rows, ops.reshape(x, (batch, features, _product(sizes))))
    split = ops.reshape(made, (batch, filters, *tiles, *sizes))
    order = [v for i in range(rank) for v in (2 + rank + i, 2 + i)]
    return ops.transpose(split, [0, 1, *order])


def _from_tiles(
    g: Value, x: Value, w: Value, mask: Sequence[bool]
) -> tuple[Value | None, Value | None]:
    """The gradients of x and w, from that of what tiles were spread over."""
    (batch, features, *sizes), (_, filters, *tiles) = x.shape, w.shape
    rank, count, within = len(sizes), _product(sizes), filters * _product(tiles)
    split = ops.reshape(g, (batch, filters, *(v for p in zip(sizes, tiles) for v in p)))
    order = [0, 1, *(3 + 2 * i for i in range(rank)), *(2 + 2 * i for i in range(rank))]
    each = ops.reshape(ops.transpose(split, order), (batch, within, count))
    to_x = to_w = None
    if mask[0]:
        made = ops.one("matmul", ops.reshape(w, (features, within)), each)
        to_x = ops.reshape(made, x.shape)
    if mask[1]:
        given = ops.attrs(a_batch=(), a_contract=(0, 2), b_batch=(), b_contract=(0, 2))
        flat = ops.reshape(x, (batch, features, count))
        to_w = ops.reshape(emit("dot_general", (flat, each), given)[0], w.shape)
    return to_x, to_w


def _forward(x: Value, w: Value, window: _Window, wanted: Value) -> Value:
    """The convolution whose gradient a transposed one is, cut to the wanted size."""
    spatial = range(len(w.shape) - 2)
    high = tuple(
        (int(wanted.shape[i + 2]) - 1) * window.stride[i] + window.dilation[i] * (int(w.shape[i + 2]) - 1)
        + 1 - int(x.shape[i + 2]) - window.padding[i]
        for i in spatial
    )  # fmt: skip
    given = ops.attrs(
        strides=window.stride, pad_low=window.padding, pad_high=high, w_dilation=window.dilation,
        groups=window.groups,
    )  # fmt: skip
    return emit("conv", (x, w), given)[0]


def _to_input(g: Value, w: Value, x: Value, window: _Window) -> Value:
    """Each element of the gradient spreads over the window that it came from."""
    spatial = range(len(w.shape) - 2)
    reach = [window.dilation[i] * (int(w.shape[i + 2]) - 1) for i in spatial]
    low = tuple(reach[i] - window.padding[i] for i in spatial)
    high = tuple(
        int(x.shape[i + 2]) - ((int(g.shape[i + 2]) - 1) * window.stride[i] + 1 + low[i] - reach[i])
        for i in spatial
    )
    given = ops.attrs(
        x_dilation=window.stride, pad_low=low, pad_high=high, w_dilation=window.dilation,
        reversal=(1,) * len(reach), groups=window.groups,
    )  # fmt: skip
    return emit("conv", (g, _swapped(w, window.groups)), given)[0]


def _swapped(w: Value, groups: int) -> Value:
    """[out, in / groups, ...] as [in, out / groups, ...]."""
    out, inner, *rest = w.shape
    if groups == 1:
        return ops.transpose(w, [1, 0, *range(2, len(w.shape))])
    split = ops.reshape(w, (groups, out // groups, inner, *rest))
    moved = ops.transpose(split, [0, 2, 1, *range(3, len(w.shape) + 1)])
    return ops.reshape(moved, (groups * inner, out // groups, *rest))


def _to_weights(g: Value, x: Value, w: Value, window: _Window) -> Value:
    """x against the gradient, with batch and features exchanged."""
    rank = len(w.shape)
    spatial = range(rank - 2)
    high = tuple(
        window.dilation[i] * (int(w.shape[i + 2]) - 1) + window.stride[i] * (int(g.shape[i + 2]) - 1) + 1
        - int(x.shape[i + 2]) - window.padding[i]
        for i in spatial
    )  # fmt: skip
    exchanged = (1, 0, *range(2, rank))
    given = ops.attrs(
        x_dims=exchanged, w_dims=exchanged, out_dims=exchanged, strides=window.dilation,
        w_dilation=window.stride, pad_low=window.padding, pad_high=high, batch_groups=window.groups,
    )  # fmt: skip
    return emit("conv", (x, g), given)[0]
