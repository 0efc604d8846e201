"""Linear algebra. torch's packed factors and pivots are LAPACK's: pivots hold, for each row, the
row that it was exchanged with, counted from 1. Our ops give the resulting order of rows instead.
Results that are not read are not computed."""

from __future__ import annotations

import math

from tenon import builder
from tenon.builder import Value, emit, ops
from tenon.builder import dtypes as dt

from ..graph.node import Node, fake_of
from ..graph.table import Unsupported, lowering
from .control import assert_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from tenon.builder import Size

_TYPES = (dt.float32, dt.float64, dt.complex64, dt.complex128)


def _is_empty(*shapes: Sequence[Size]) -> bool:
    """Whether a shape is known to have no elements."""
    return any(isinstance(s, int) and s == 0 for shape in shapes for s in shape)


def _matrices(x: Value) -> Value:
    if x.dtype not in _TYPES:
        raise Unsupported(f"matrices of {x.dtype.name}")
    return x


def _unchecked(check_errors: bool) -> None:
    """What torch checks raises for a matrix that is singular, and a program has no such error."""
    if check_errors:
        raise Unsupported("errors that are checked")


def _results(op: str, *operands: Value, **given: Any) -> tuple[Value, ...]:
    return emit(op, operands, ops.attrs(**given) if given else ())


def _first(hit: Value) -> Value:
    """One more than the place of the first that holds along the last axis, or 0: LAPACK's info."""
    last = len(hit.shape) - 1
    if hit.shape[last] == 0:
        return ops.full(hit.shape[:-1], 0, dt.int32)
    number = ops.convert(hit, dt.int32)
    place = ops.convert(ops.one("argmax", number, dim=last), dt.int32)
    found = ops.one("reduce_max", number, dims=(last,))
    return ops.one("mul", found, ops.one("add", place, ops.like(place, 1)))


def _turned(x: Value) -> Value:
    n = len(x.shape)
    return ops.transpose(x, (*range(n - 2), n - 1, n - 2))


def _diagonal(x: Value) -> Value:
    n = len(x.shape)
    return ops.one("diagonal", x, dim1=n - 2, dim2=n - 1)


def _adjoint(x: Value) -> Value:
    x = _turned(x)
    return ops.one("conj", x) if dt.is_complex(x.dtype) else x


def _singular(n: Node, i: int, x: Value) -> Value | None:
    """The info of a factorisation, if result i is read."""
    return _info(_results("lu", x)[0]) if n.is_read(i) else None


def _info(packed: Value) -> Value:
    """The first pivot that is 0."""
    pivots = _diagonal(packed)
    return _first(ops.compare(pivots, ops.like(pivots, 0), 0))


# ---- Pivots ----


def _exchange(order: Value, i: Value, place: Value) -> Value:
    """Lists [stacks, rows] with the numbers at i [] and at place [stacks] exchanged."""
    at = ops.iota(order.shape, 1, dt.int64)
    spread = ops.broadcast_in(place, order.shape, (0,))
    here, there = _at(order, ops.broadcast_to(i, place.shape)), _at(order, place)
    first = ops.compare(at, ops.broadcast_to(i, order.shape), 0)
    moved = ops.select(ops.compare(at, spread, 0), ops.broadcast_in(here, order.shape, (0,)), order)
    return ops.select(first, ops.broadcast_in(there, order.shape, (0,)), moved)


def _at(order: Value, place: Value) -> Value:
    index = ops.reshape(place, (*place.shape, 1))
    return ops.reshape(ops.one("take_along", order, index, dim=1, mode="clip"), place.shape)


def _in_steps(
    n: Node, order: Value, given: Value, step: Callable[[Value, Value, Value], tuple[Value, ...]]
) -> tuple[Value, ...]:
    """A scan over places i: step(order, i, given[:, i]) gives the next order, and results."""
    numbers = ops.iota((given.shape[1],), 0, dt.int64)
    columns = _turned(given)
    types = [
        order,
        ops.reshape(ops.slice_axis(numbers, 0, 0, 1), ()),
        ops.reshape(ops.slice_axis(columns, 0, 0, 1), columns.shape[1:]),
    ]
    region = n.trace.region(types, step)
    return n.trace.emit("scan", [order, numbers, columns], ops.attrs(carry=1), [region])


def _flat(x: Value) -> tuple[Value, tuple[Size, ...]]:
    """Lists of all stacks, and the shape of the stacks."""
    *stack, length = x.shape
    if not all(isinstance(s, int) for s in x.shape):
        raise Unsupported("factors of unknown size")
    return ops.reshape(x, (math.prod(s for s in stack if isinstance(s, int)), length)), tuple(stack)


def _pivots_of(n: Node, order: Value, count: Size) -> Value:
    """LAPACK's pivots, of which there are `count`, for the order of the rows."""
    if _is_empty((*order.shape, count)):
        return ops.full((*order.shape[:-1], count), 0, dt.int32)
    flat, stack = _flat(order)

    def step(now: Value, i: Value, wanted: Value) -> tuple[Value, ...]:
        hit = ops.compare(now, ops.broadcast_in(wanted, now.shape, (0,)), 0)
        place = ops.convert(ops.one("argmax", ops.convert(hit, dt.int32), dim=1), dt.int64)
        return _exchange(now, i, place), place

    start = ops.iota(flat.shape, 1, dt.int64)
    places = _turned(_in_steps(n, start, ops.slice_axis(flat, 1, 0, count), step)[1])
    pivots = ops.convert(ops.one("add", places, ops.like(places, 1)), dt.int32)
    return ops.reshape(pivots, (*stack, count))


def _order_of(n: Node, pivots: Value, rows: Size) -> Value:
    """The order of the rows for LAPACK's pivots."""
    if _is_empty(pivots.shape):  # nothing is exchanged
        wanted = (*pivots.shape[:-1], rows)
        return ops.iota(wanted, len(wanted) - 1, dt.int64)
    flat, stack = _flat(ops.convert(pivots, dt.int64))
    start = ops.iota((flat.shape[0], rows), 1, dt.int64)

    def step(now: Value, i: Value, pivot: Value) -> tuple[Value, ...]:
        return (_exchange(now, i, ops.one("sub", pivot, ops.like(pivot, 1))),)

    return ops.reshape(_in_steps(n, start, flat, step)[0], (*stack, rows))


def _inverse(order: Value) -> Value:
    """Where each row went."""
    last = len(order.shape) - 1
    grid = (*order.shape, order.shape[-1])
    hit = ops.compare(
        ops.broadcast_in(order, grid, tuple(range(last + 1))), ops.iota(grid, last + 1, dt.int64), 0
    )
    return ops.convert(ops.one("argmax", ops.convert(hit, dt.int32), dim=last), dt.int64)


def _rows_at(x: Value, order: Value) -> Value:
    """Rows of matrices in an order; both have the same stacks."""
    index = ops.broadcast_in(order, x.shape, tuple(range(len(x.shape) - 1)))
    return ops.one("take_along", x, index, dim=len(x.shape) - 2, mode="clip")


def _permutation(order: Value, dtype: dt.DType) -> Value:
    """P with a = P L U: a 1 in column i at row order[i]."""
    last = len(order.shape)
    grid = (*order.shape, order.shape[-1])
    hit = ops.compare(
        ops.iota(grid, last - 1, dt.int64),
        ops.broadcast_in(order, grid, (*range(last - 1), last)),
        0,
    )
    return ops.convert(hit, dtype)


def _unpacked(packed: Value) -> tuple[Value, Value]:
    """L and U."""
    rows, columns = packed.shape[-2:]
    n, k = len(packed.shape), builder.smaller(rows, columns)
    lower = ops.one("tril_triu", ops.slice_axis(packed, n - 1, 0, k), upper=0, diagonal=-1)
    ones = ops.compare(
        ops.iota(lower.shape, n - 2, dt.int64), ops.iota(lower.shape, n - 1, dt.int64), 0
    )
    upper = ops.one("tril_triu", ops.slice_axis(packed, n - 2, 0, k), upper=1, diagonal=0)
    return ops.select(ones, ops.like(lower, 1), lower), upper


def _solved(packed: Value, order: Value, b: Value, adjoint: bool = False) -> Value:
    """x with a x = b, or a* x = b, for a = P L U. Stacks are repeated to one shape."""
    stack = ops.broadcast_shapes(packed.shape[:-2], b.shape[:-2])
    packed = ops.broadcast_to(packed, (*stack, *packed.shape[-2:]))
    order = ops.broadcast_to(order, (*stack, order.shape[-1]))
    b = ops.broadcast_to(b, (*stack, *b.shape[-2:]))
    if _is_empty(b.shape):
        return b
    if adjoint:
        b = ops.one("triangular_solve", packed, b, upper=1, form="adjoint")
        return _rows_at(
            ops.one("triangular_solve", packed, b, upper=0, unit=1, form="adjoint"), _inverse(order)
        )
    b = ops.one("triangular_solve", packed, _rows_at(b, order), upper=0, unit=1)
    return ops.one("triangular_solve", packed, b, upper=1)


# ---- LU ----


def _pivoted(pivot: bool) -> None:
    if not pivot:
        raise Unsupported("without pivots")


@lowering("aten.linalg_lu_factor_ex.default")
def lu_factor_ex(
    n: Node, x: Value, *, pivot: bool = True, check_errors: bool = False
) -> tuple[Value | None, ...]:
    _unchecked(check_errors)
    _pivoted(pivot)
    packed, order, _ = _results("lu", _matrices(x))
    pivots = _pivots_of(n, order, builder.smaller(*x.shape[-2:])) if n.is_read(1) else None
    return packed, pivots, _info(packed) if n.is_read(2) else None


@lowering("aten.linalg_lu.default")
def lu(n: Node, x: Value, *, pivot: bool = True) -> tuple[Value | None, ...]:
    _pivoted(pivot)
    packed, order, _ = _results("lu", _matrices(x))
    return (_permutation(order, x.dtype), *_unpacked(packed))


@lowering("aten.lu_unpack.default")
def lu_unpack(
    n: Node, packed: Value, pivots: Value, unpack_data: bool = True, unpack_pivots: bool = True
) -> tuple[Value | None, ...]:
    lower, upper = _unpacked(_matrices(packed)) if unpack_data else (None, None)
    order = _order_of(n, pivots, packed.shape[-2]) if unpack_pivots else None
    return order and _permutation(order, packed.dtype), lower, upper


@lowering("aten.linalg_lu_solve.default")
def lu_solve(
    n: Node, packed: Value, pivots: Value, b: Value, *, left: bool = True, adjoint: bool = False
) -> Value:
    order = _order_of(n, pivots, _matrices(packed).shape[-2])
    if left:
        return _solved(packed, order, b, adjoint)
    return _adjoint(_solved(packed, order, _adjoint(b), not adjoint))  # x a = b is a* x* = b*


def _factored_for_det(n: Node, i: int, x: Value) -> tuple[Value | None, Value | None]:
    """Results i and i + 1, the factors that the gradient of a determinant uses: torch factors the transpose of
    matrices that are dense and real."""
    if not (n.is_read(i) or n.is_read(i + 1)):
        return None, None
    fake = fake_of(n.node.args[0])
    packed, order, _ = _results(
        "lu", _turned(x) if fake.is_contiguous() and not fake.is_complex() else x
    )
    return packed, _pivots_of(n, order, x.shape[-1]) if n.is_read(i + 1) else None


@lowering("aten.linalg_cholesky_ex.default")
def cholesky_ex(
    n: Node, x: Value, *, upper: bool = False, check_errors: bool = False
) -> tuple[Value | None, ...]:
    _unchecked(check_errors)
    factor = _results("cholesky", _matrices(x), upper=upper)[0]
    if not n.is_read(1):
        return factor, None
    diagonal = _diagonal(factor)
    return factor, _first(ops.one("is_nan", diagonal))


@lowering("aten.linalg_inv_ex.default")
def inv_ex(n: Node, x: Value, *, check_errors: bool = False) -> tuple[Value | None, ...]:
    _unchecked(check_errors)
    return _results("inv", _matrices(x))[0], _singular(n, 1, x)


@lowering("aten._linalg_solve_ex.default")
def solve_ex(
    n: Node, a: Value, b: Value, *, left: bool = True, check_errors: bool = False
) -> tuple[Value | None, ...]:
    _unchecked(check_errors)
    packed, order, _ = _results("lu", _matrices(a))
    vector = left and (len(b.shape) == 1 or len(b.shape) == len(a.shape) - 1 == len(n.shape))
    if not left:  # x a = b is a* x* = b*
        x = _adjoint(_solved(packed, order, _adjoint(b), True))
    elif vector:
        x = n.reshape(_solved(packed, order, ops.reshape(b, (*b.shape, 1))))
    else:
        x = _solved(packed, order, b)
    pivots = _pivots_of(n, order, a.shape[-1]) if n.is_read(2) else None
    return x, packed, pivots, _info(packed) if n.is_read(3) else None


@lowering("aten._linalg_det.default")
def det(n: Node, x: Value) -> tuple[Value | None, ...]:
    return _results("det", _matrices(x))[0], *_factored_for_det(n, 1, x)


@lowering("aten._linalg_slogdet.default")
def slogdet(n: Node, x: Value) -> tuple[Value | None, ...]:
    return (*_results("slogdet", _matrices(x)), *_factored_for_det(n, 2, x))


@lowering("aten.linalg_qr.default")
def qr(n: Node, x: Value, mode: str = "reduced") -> tuple[Value | None, ...]:
    if mode not in ("reduced", "complete"):
        raise Unsupported("r alone, without a q")
    return _results("qr", _matrices(x), complete=mode == "complete")


@lowering("aten._linalg_svd.default")
def svd(
    n: Node,
    x: Value,
    full_matrices: bool = False,
    compute_uv: bool = True,
    *,
    driver: str | None = None,
) -> tuple[Value | None, ...]:
    u, s, vh = _results("svd", _matrices(x), full=full_matrices and compute_uv)
    return (u, s, vh) if compute_uv else (None, s, None)


@lowering("aten._linalg_eigh.default")
def eigh(n: Node, x: Value, UPLO: str = "L", compute_v: bool = True) -> tuple[Value | None, ...]:
    values, vectors = _results("eigh", _matrices(x), upper=UPLO.upper() == "U")
    return values, vectors if compute_v else None


@lowering("aten.linalg_eig.default")
def eig(n: Node, x: Value) -> tuple[Value | None, ...]:
    return _results("eig", _matrices(x))


@lowering("aten.linalg_solve_triangular.default")
def solve_triangular(
    n: Node, a: Value, b: Value, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Value:
    if not left:  # x a = b is a' x' = b'
        return _turned(
            solve_triangular(
                n, _turned(a), _turned(b), upper=not upper, unitriangular=unitriangular
            )
        )
    stack = ops.broadcast_shapes(_matrices(a).shape[:-2], b.shape[:-2])
    a = ops.broadcast_to(a, (*stack, *a.shape[-2:]))
    b = ops.broadcast_to(b, (*stack, *b.shape[-2:]))
    return _triangle_solved(a, b, upper=upper, unit=unitriangular)


# ---- Triangles ----


def _stacked(a: Value, b: Value) -> tuple[Value, Value]:
    stack = ops.broadcast_shapes(_matrices(a).shape[:-2], b.shape[:-2])
    return ops.broadcast_to(a, (*stack, *a.shape[-2:])), ops.broadcast_to(
        b, (*stack, *b.shape[-2:])
    )


def _triangle_solved(a: Value, b: Value, **given: Any) -> Value:
    return b if _is_empty(b.shape) else ops.one("triangular_solve", a, b, **given)


@lowering("aten.triangular_solve.default")
def triangular_solve(
    n: Node, b: Value, a: Value, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> tuple[Value | None, ...]:  # fmt: skip
    a, b = _stacked(a, b)
    form = "transposed" if transpose else "plain"
    x = _triangle_solved(a, b, upper=upper, unit=unitriangular, form=form)
    return x, a if n.is_read(1) else None


@lowering("aten.cholesky.default")
def cholesky(n: Node, x: Value, upper: bool = False) -> Value:
    """A call fails for a matrix that has none, and torch raises."""
    factor = _results("cholesky", _matrices(x), upper=upper)[0]
    diagonal = _diagonal(factor)
    assert_all(n, ops.one("not", ops.one("is_nan", diagonal)))
    return factor


def _from_cholesky(b: Value, factor: Value, upper: bool) -> Value:
    factor, b = _stacked(factor, b)
    first, second = ("adjoint", "plain") if upper else ("plain", "adjoint")
    b = _triangle_solved(factor, b, upper=upper, form=first)
    return _triangle_solved(factor, b, upper=upper, form=second)


@lowering("aten.cholesky_solve.default")
def cholesky_solve(n: Node, b: Value, factor: Value, upper: bool = False) -> Value:
    return _from_cholesky(b, factor, upper)


@lowering("aten.cholesky_inverse.default")
def cholesky_inverse(n: Node, factor: Value, upper: bool = False) -> Value:
    last = len(factor.shape) - 1
    ones = ops.compare(
        ops.iota(factor.shape, last - 1, dt.int64), ops.iota(factor.shape, last, dt.int64), 0
    )
    return _from_cholesky(ops.convert(ones, _matrices(factor).dtype), factor, upper)
