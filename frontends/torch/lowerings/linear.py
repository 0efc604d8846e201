"""Products of matrices, and convolutions."""

from __future__ import annotations

from tenon.builder import Value, emit, ops
from tenon.builder import dtypes as dt

from ..graph.node import Node, wide
from ..graph.table import Unsupported, lowering

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


@lowering("aten.mm.default", "aten.bmm.default", "aten.matmul.default")
def matmul(n: Node, a: Value, b: Value) -> Value:
    return n.reshape(ops.one("matmul", _number(a), _number(b)))


def _number(x: Value) -> Value:
    if x.dtype is dt.bool_:
        raise Unsupported("of booleans")
    return x


@lowering("aten.mv.default", "aten.dot.default")
def vector_product(n: Node, a: Value, b: Value) -> Value:
    return _with_vector(a, b)


@lowering("aten.vdot.default")
def conjugate_product(n: Node, a: Value, b: Value) -> Value:
    return _with_vector(ops.one("conj", a) if dt.is_complex(a.dtype) else a, b)


def _with_vector(a: Value, b: Value) -> Value:
    contract = (len(a.shape) - 1,)
    given = ops.attrs(a_batch=(), a_contract=contract, b_batch=(), b_contract=(0,))
    return emit("dot_general", (_number(a), _number(b)), given)[0]


@lowering("aten.addmm.default", "aten.baddbmm.default", "aten.addmv.default", "aten.addbmm.default")
def addmm(n: Node, bias: Value, a: Value, b: Value, *, beta: Any = 1, alpha: Any = 1) -> Value:
    name = str(n.node.target).split(".")[1]
    if (
        name == "addmm"
        and len(bias.shape) == 1
        and alpha == 1
        and beta == 1
        and dt.is_float(n.dtype)
        and _same(bias, b)
    ):
        return ops.one("linear", a, b, bias)
    is_scaled = alpha != 1 or beta != 1 and beta != 0
    if is_scaled:  # a product that a type of 16 bits has not may be small once it is multiplied
        bias, a, b = (ops.convert(v, wide(n.dtype)) for v in (bias, a, b))
    if name == "addmv":
        product = _with_vector(a, b)
    else:
        product = ops.one("matmul", _number(a), _number(b))
        if name == "addbmm":
            product = ops.one("reduce_sum", product, dims=(0,))
    if alpha != 1:
        product = ops.one("mul", product, n.spread(alpha, product.dtype, product.shape))
    if beta == 0:
        return ops.convert(product, n.dtype)
    added = n.spread(bias, product.dtype)
    if beta != 1:
        added = ops.one("mul", added, n.spread(beta, product.dtype))
    return ops.convert(ops.one("add", product, added), n.dtype)


def _same(bias: Value, b: Value) -> bool:
    from tenon.builder import YES, same

    return same(bias.shape[0], b.shape[1]) == YES


@lowering("aten.linear.default")
def linear(n: Node, x: Value, w: Value, bias: Value | None = None) -> Value:
    operands = [x, w] if bias is None else [x, w, bias]
    if len(w.shape) != 2:
        raise Unsupported("weights that are no matrix")
    return ops.one("linear", *operands, transpose_w=1)


@lowering("aten._trilinear.default")
def trilinear(
    n: Node,
    a: Value,
    b: Value,
    c: Value,
    at_a: Any,
    at_b: Any,
    at_c: Any,
    over: Any,
    unroll: int = 1,
) -> Value:
    """The sum over some axes of three factors, each with new axes of size 1."""
    factors = []
    for x, at in ((a, at_a), (b, at_b), (c, at_c)):
        shape = list(x.shape)
        for axis in sorted(at):
            shape.insert(axis, 1)
        factors.append(ops.reshape(x, shape))
    whole = factors[0].shape
    for x in factors[1:]:
        whole = ops.broadcast_shapes(whole, x.shape)
    a, b, c = (ops.broadcast_to(x, whole) for x in factors)
    product = ops.one("mul", ops.one("mul", a, b), c)
    return n.reshape(ops.one("reduce_sum", product, dims=tuple(sorted(over))))


@lowering("aten._cdist_forward.default")
def distances(n: Node, a: Value, b: Value, p: float, mode: Any) -> Value:
    """The p-norm of each difference of a row of a and a row of b."""
    grid = (*n.shape, a.shape[-1])
    rank = len(grid)
    lead = tuple(range(rank - 3))
    skip = rank - 1 - len(a.shape)
    rows = ops.broadcast_in(a, grid, tuple(range(skip, rank - 2)) + (rank - 1,))
    others = rank - 1 - len(b.shape)
    columns = ops.broadcast_in(
        b, grid, tuple(i for i in lead if i >= others) + (rank - 2, rank - 1)
    )
    difference = ops.one("sub", rows, columns)
    return ops.one("norm", difference, dims=(rank - 1,), p=float(p))


@lowering("transformers.grouped_mm_fallback.default", "aten._grouped_mm.default")
def grouped_mm(
    n: Node, x: Value, w: Value, offs: Value | None = None, bias: Any = None, out_dtype: Any = None
) -> Value:
    """Rows in groups, each with a matrix of its own; `offs` has the ends of the groups."""
    if offs is None or bias is not None or len(x.shape) != 2 or len(w.shape) != 3:
        raise Unsupported("groups of another kind")
    ends = ops.convert(offs, dt.int64)
    groups = ends.shape[0]
    starts = ops.concat([n.spread(0, dt.int64, (1,)), ops.slice_axis(ends, 0, 0, groups - 1)], 0)
    return ops.convert(ops.one("ragged_dot", x, w, ops.one("sub", ends, starts)), n.dtype)


# ---- Convolutions ----


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
