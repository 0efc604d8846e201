"""Rows: linear algebra. Results that torch gives beside the answer (packed factors, LAPACK's pivots)
are not computed; a node whose user reads them stays in torch."""

from __future__ import annotations

from tenon import _dtypes as dt
from tenon import _ops
from tenon._trace import Value, emit

from ._lower import Node
from ._table import Refused, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_TYPES = (dt.float32, dt.float64, dt.complex64, dt.complex128)


def _matrices(x: Value) -> Value:
    if x.dtype not in _TYPES:
        raise Refused(f"matrices of {x.dtype.name}")
    return x


def _unchecked(check_errors: bool) -> None:
    """What torch checks raises for a matrix that is singular, and a program has no such error."""
    if check_errors:
        raise Refused("errors that are checked")


def _results(op: str, *operands: Value, **given: Any) -> tuple[Value, ...]:
    return emit(op, operands, _ops.attrs(**given) if given else ())


def _first(hit: Value) -> Value:
    """One more than the place of the first that holds along the last axis, or 0: LAPACK's info."""
    last = len(hit.shape) - 1
    if hit.shape[last] == 0:
        return _ops.full(hit.shape[:-1], 0, dt.int32)
    number = _ops.convert(hit, dt.int32)
    place = _ops.convert(_ops.one("argmax", number, dim=last), dt.int32)
    found = _ops.one("reduce_max", number, dims=(last,))
    return _ops.one("mul", found, _ops.one("add", place, _ops.like(place, 1)))


def _turned(x: Value) -> Value:
    n = len(x.shape)
    return _ops.transpose(x, (*range(n - 2), n - 1, n - 2))


def _diagonal(x: Value) -> Value:
    n = len(x.shape)
    return _ops.one("diagonal", x, dim1=n - 2, dim2=n - 1)


def _singular(n: Node, i: int, x: Value) -> Value | None:
    """The info of a factorisation, if result i is read: the first pivot that is 0."""
    if not n.is_read(i):
        return None
    pivots = _diagonal(_results("lu", x)[0])
    return _first(_ops.compare(pivots, _ops.like(pivots, 0), 0))


@row("aten.linalg_cholesky_ex.default")
def cholesky_ex(n: Node, x: Value, *, upper: bool = False, check_errors: bool = False) -> tuple[Value | None, ...]:
    _unchecked(check_errors)
    factor = _results("cholesky", _matrices(x), upper=upper)[0]
    if not n.is_read(1):
        return factor, None
    diagonal = _diagonal(factor)
    return factor, _first(_ops.one("is_nan", diagonal))


@row("aten.linalg_inv_ex.default")
def inv_ex(n: Node, x: Value, *, check_errors: bool = False) -> tuple[Value | None, ...]:
    _unchecked(check_errors)
    return _results("inv", _matrices(x))[0], _singular(n, 1, x)


def _solution(a: Value, b: Value) -> Value:
    """Of matrices with the same stacks, after repetition."""
    stack = _ops.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a = _ops.broadcast_to(a, (*stack, *a.shape[-2:]))
    return _ops.one("solve", a, _ops.broadcast_to(b, (*stack, *b.shape[-2:])))


@row("aten._linalg_solve_ex.default")
def solve_ex(n: Node, a: Value, b: Value, *, left: bool = True, check_errors: bool = False) -> tuple[Value | None, ...]:
    _unchecked(check_errors)
    if not left:  # x a = b is a' x' = b'; b is never a vector there
        return _turned(_solution(_turned(_matrices(a)), _turned(b))), None, None, _singular(n, 3, a)
    a = _matrices(a)
    vector = len(b.shape) == 1 or len(b.shape) == len(a.shape) - 1 and tuple(b.shape) == tuple(a.shape[:-1])
    if vector:
        b = _ops.reshape(b, (*b.shape, 1))
    x = _solution(a, b)
    return n.reshape(x) if vector else x, None, None, _singular(n, 3, a)


@row("aten._linalg_det.default")
def det(n: Node, x: Value) -> tuple[Value | None, ...]:
    return _results("det", _matrices(x))[0], None, None


@row("aten._linalg_slogdet.default")
def slogdet(n: Node, x: Value) -> tuple[Value | None, ...]:
    return (*_results("slogdet", _matrices(x)), None, None)


@row("aten.linalg_qr.default")
def qr(n: Node, x: Value, mode: str = "reduced") -> tuple[Value | None, ...]:
    if mode not in ("reduced", "complete"):
        raise Refused("r alone, without a q")
    return _results("qr", _matrices(x), complete=mode == "complete")


@row("aten._linalg_svd.default")
def svd(n: Node, x: Value, full_matrices: bool = False, compute_uv: bool = True, *, driver: str | None = None) -> tuple[Value | None, ...]:
    u, s, vh = _results("svd", _matrices(x), full=full_matrices and compute_uv)
    return (u, s, vh) if compute_uv else (None, s, None)


@row("aten._linalg_eigh.default")
def eigh(n: Node, x: Value, UPLO: str = "L", compute_v: bool = True) -> tuple[Value | None, ...]:
    values, vectors = _results("eigh", _matrices(x), upper=UPLO.upper() == "U")
    return values, vectors if compute_v else None


@row("aten.linalg_eig.default")
def eig(n: Node, x: Value) -> tuple[Value | None, ...]:
    return _results("eig", _matrices(x))


@row("aten.linalg_solve_triangular.default")
def solve_triangular(n: Node, a: Value, b: Value, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Value:
    if not left:  # x a = b is a' x' = b'
        return _turned(solve_triangular(n, _turned(a), _turned(b), upper=not upper, unitriangular=unitriangular))
    stack = _ops.broadcast_shapes(_matrices(a).shape[:-2], b.shape[:-2])
    a = _ops.broadcast_to(a, (*stack, *a.shape[-2:]))
    b = _ops.broadcast_to(b, (*stack, *b.shape[-2:]))
    return _ops.one("triangular_solve", a, b, upper=upper, unit=unitriangular)
