"""Products of matrices."""

from __future__ import annotations

from tenon.builder import Value, emit, ops
from tenon.builder import dtypes as dt

from ..graph.node import Node, wide
from ..graph.table import Unsupported, lowering

TYPE_CHECKING = False
if TYPE_CHECKING:
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
