"""tenon.xp.linalg: linear algebra (array API standard, extension "linalg").

The last two axes are matrices, all axes before them a stack. Singular matrices give infinities or
NaN, and matrices that are not positive definite NaN: arrays wait, so there is nothing to raise an
error in. Real and complex arrays of float32 and float64.
"""

from __future__ import annotations

import math
import numbers
import operator
from typing import NamedTuple

from tenon._errors import UnsupportedError
from tenon.builder import dtypes as dt
from tenon.builder import ops
from tenon.builder.dtypes import DType
from tenon.builder.trace import YES, Dim, Value, emit, same
from tenon.xp._array import Array, value_of
from tenon.xp._create import eye
from tenon.xp._elementwise import check
from tenon.xp._reduce import _kept, _wide
from tenon.xp._search import _numbers, matmul, matrix_transpose, tensordot, vecdot
from tenon.xp._shape import axes_of, axis_of
from tenon.xp._types import finfo

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal

__all__ = [
    "cholesky", "cross", "det", "diagonal", "eig", "eigh", "eigvals", "eigvalsh", "inv", "matmul",
    "matrix_norm", "matrix_power", "matrix_rank", "matrix_transpose", "outer", "pinv", "qr",
    "slogdet", "solve", "svd", "svdvals", "tensordot", "trace", "vecdot", "vector_norm",
]  # fmt: skip


class EigResult(NamedTuple):
    """What `eig` gives."""

    eigenvalues: Array
    eigenvectors: Array


class EighResult(NamedTuple):
    """What `eigh` gives."""

    eigenvalues: Array
    eigenvectors: Array


class QRResult(NamedTuple):
    """What `qr` gives."""

    Q: Array
    R: Array


class SlogdetResult(NamedTuple):
    """What `slogdet` gives."""

    sign: Array
    logabsdet: Array


class SVDResult(NamedTuple):
    """What `svd` gives."""

    U: Array
    S: Array
    Vh: Array


def _matrices(name: str, x: Array, square: bool = False) -> Value:
    v = value_of(x)
    check(f"linalg.{name}", "floating", v)
    if v.dtype.bits < 32:
        raise UnsupportedError(f"linalg.{name} of {v.dtype.name}: not yet", "T0629")
    if len(v.shape) < 2:
        raise ValueError(f"linalg.{name} needs at least 2 axes, this array has {len(v.shape)}")
    m, n = v.shape[-2:]
    if square and not isinstance(m, Dim) and not isinstance(n, Dim) and m != n:
        raise ValueError(f"linalg.{name} needs square matrices, these are {m} by {n}")
    return v


def _results(op: str, *operands: Value, **given: Any) -> list[Array]:
    return [Array(v) for v in emit(op, operands, ops.attrs(**given) if given else ())]


def _adjoint(v: Value) -> Value:
    turned = matrix_transpose(Array(v))._value
    return ops.one("conj", turned) if dt.is_complex(v.dtype) else turned


# ---- Factors ----


def cholesky(x: Array, /, *, upper: bool = False) -> Array:
    """L with x = L L*, or U with x = U* U; NaN where x is not positive definite."""
    return _results("cholesky", _matrices("cholesky", x, True), upper=upper)[0]


def qr(x: Array, /, *, mode: Literal["reduced", "complete"] = "reduced") -> QRResult:
    """x = Q R, Q with orthonormal columns and R upper triangular; Q is square if complete."""
    if mode not in ("reduced", "complete"):
        raise ValueError(f"mode={mode!r} is neither 'reduced' nor 'complete'")
    return QRResult(*_results("qr", _matrices("qr", x), complete=mode == "complete"))


def svd(x: Array, /, *, full_matrices: bool = True) -> SVDResult:
    """x = U diag(S) Vh, singular values in decreasing order."""
    return SVDResult(*_results("svd", _matrices("svd", x), full=full_matrices))


def svdvals(x: Array, /) -> Array:
    """The singular values in decreasing order."""
    return svd(x, full_matrices=False).S


# ---- Eigenvalues ----


def eigh(x: Array, /) -> EighResult:
    """Increasing eigenvalues and the eigenvectors of symmetric or Hermitian matrices."""
    return EighResult(*_results("eigh", _matrices("eigh", x, True)))


def eigvalsh(x: Array, /) -> Array:
    """The increasing eigenvalues of symmetric or Hermitian matrices."""
    return eigh(x).eigenvalues


def eig(x: Array, /) -> EigResult:
    """Complex eigenvalues, in no order, and the eigenvectors of any square matrices."""
    return EigResult(*_results("eig", _matrices("eig", x, True)))


def eigvals(x: Array, /) -> Array:
    """Complex eigenvalues in no order."""
    return eig(x).eigenvalues


# ---- Systems and determinants ----


def solve(x1: Array, x2: Array, /) -> Array:
    """X with x1 X = x2. x2 is a stack of matrices, or one vector; stacks repeat."""
    a, b = _numbers("solve", x1, x2)
    a = _matrices("solve", Array(a), True)
    vector = len(b.shape) == 1
    if not b.shape:
        raise ValueError("linalg.solve needs at least 1 axis on the right side")
    if vector:
        b = ops.reshape(b, (*b.shape, 1))
    if (
        not isinstance(a.shape[-1], Dim)
        and not isinstance(b.shape[-2], Dim)
        and a.shape[-1] != b.shape[-2]
    ):
        raise ValueError(f"{a.shape[-1]} columns on the left and {b.shape[-2]} rows on the right")
    stack = ops.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a = ops.broadcast_to(a, (*stack, *a.shape[-2:]))
    b = ops.broadcast_to(b, (*stack, *b.shape[-2:]))
    out = ops.one("solve", a, b)
    return Array(ops.reshape(out, out.shape[:-1]) if vector else out)


def inv(x: Array, /) -> Array:
    """The inverse of square matrices."""
    return _results("inv", _matrices("inv", x, True))[0]


def det(x: Array, /) -> Array:
    """The determinant of square matrices."""
    return _results("det", _matrices("det", x, True))[0]


def slogdet(x: Array, /) -> SlogdetResult:
    """The sign of the determinant and the logarithm of its magnitude."""
    return SlogdetResult(*_results("slogdet", _matrices("slogdet", x, True)))


def _threshold(s: Value, tolerance: Any, shape: tuple[Any, ...]) -> Value:
    """The size up to which singular values count as 0: relative to the largest, or max(m, n) eps."""
    if tolerance is None:
        m, n = shape[-2:]
        if isinstance(m, Dim) or isinstance(n, Dim):
            raise UnsupportedError("give rtol= for matrices whose size is known later", "T0629")
        tolerance = max(m, n) * finfo(s.dtype).eps
    largest = ops.one("reduce_max", s, dims=(len(s.shape) - 1,))
    if isinstance(tolerance, Array):
        limit = ops.convert(value_of(tolerance), s.dtype)
        whole = ops.broadcast_shapes(limit.shape, largest.shape)
        limit = ops.broadcast_to(limit, whole)
    else:
        limit = ops.like(largest, float(tolerance))
    out = ops.one("mul", largest, limit)
    return ops.broadcast_to(ops.reshape(out, (*out.shape, 1)), s.shape)


def pinv(x: Array, /, *, rtol: float | Array | None = None) -> Array:
    """The pseudo-inverse; singular values up to rtol times the largest count as 0."""
    v = _matrices("pinv", x)
    u, s, vh = (a._value for a in svd(Array(v), full_matrices=False))
    if v.shape[-1] == 0 or v.shape[-2] == 0:
        return Array(ops.full((*v.shape[:-2], v.shape[-1], v.shape[-2]), 0, v.dtype))
    keep = ops.compare(s, _threshold(s, rtol, v.shape), 4)
    factor = ops.select(keep, ops.one("reciprocal", s), ops.like(s, 0))
    weighted = ops.convert(factor, v.dtype)
    weighted = ops.reshape(weighted, (*weighted.shape[:-1], 1, weighted.shape[-1]))
    left = _adjoint(vh)
    left = ops.one("mul", left, ops.broadcast_to(weighted, left.shape))
    return Array(ops.one("matmul", left, _adjoint(u)))


def matrix_rank(x: Array, /, *, rtol: float | Array | None = None) -> Array:
    """How many singular values are above rtol times the largest, as int64."""
    v = _matrices("matrix_rank", x)
    if v.shape[-1] == 0 or v.shape[-2] == 0:
        return Array(ops.full(v.shape[:-2], 0, dt.int64))
    s = svdvals(Array(v))._value
    keep = ops.convert(ops.compare(s, _threshold(s, rtol, v.shape), 4), dt.int64)
    return Array(ops.one("reduce_sum", keep, dims=(len(s.shape) - 1,)))


def matrix_power(x: Array, n: int, /) -> Array:
    """x multiplied n times with itself; the inverse for negative n."""
    v = _matrices("matrix_power", x, True)
    n = operator.index(n)
    if n < 0:
        v, n = inv(Array(v))._value, -n
    if n == 0:
        one = eye(v.shape[-1], dtype=v.dtype)._value
        return Array(ops.broadcast_to(one, v.shape))
    out: Value | None = None
    while n:
        if n & 1:
            out = v if out is None else ops.one("matmul", out, v)
        n >>= 1
        if n:
            v = ops.one("matmul", v, v)
    assert out is not None
    return Array(out)


# ---- Diagonals and products ----


def diagonal(x: Array, /, *, offset: int = 0) -> Array:
    """The diagonals of matrices: offset 0 is the main one, above it positive."""
    v = value_of(x)
    if len(v.shape) < 2:
        raise ValueError(f"linalg.diagonal needs at least 2 axes, this array has {len(v.shape)}")
    n = len(v.shape)
    return Array(ops.one("diagonal", v, offset=offset, dim1=n - 2, dim2=n - 1))


def trace(x: Array, /, *, offset: int = 0, dtype: DType | None = None) -> Array:
    """Sums of diagonals; integers in 64 bits unless dtype says otherwise."""
    v = diagonal(x, offset=offset)._value
    check("linalg.trace", "numeric", v)
    return Array(ops.one("reduce_sum", _wide(v, dtype), dims=(len(v.shape) - 1,)))


def outer(x1: Array, x2: Array, /) -> Array:
    """All products of the elements of two vectors."""
    a, b = _numbers("outer", x1, x2)
    if len(a.shape) != 1 or len(b.shape) != 1:
        raise ValueError("linalg.outer takes arrays of one axis")
    shape = (*a.shape, *b.shape)
    return Array(ops.one("mul", ops.broadcast_in(a, shape, [0]), ops.broadcast_in(b, shape, [1])))


def cross(x1: Array, x2: Array, /, *, axis: int = -1) -> Array:
    """The cross product of vectors with 3 elements along an axis."""
    a, b = _numbers("cross", x1, x2)
    n = min(len(a.shape), len(b.shape))
    if axis >= n or axis < -n:
        raise ValueError(f"axis={axis} is not an axis of both arrays")
    shape = ops.broadcast_shapes(a.shape, b.shape)
    if a.shape[axis] != 3 or b.shape[axis] != 3:
        raise ValueError(f"sizes {a.shape[axis]} and {b.shape[axis]} along the axis: 3 is needed")
    a, b = ops.broadcast_to(a, shape), ops.broadcast_to(b, shape)
    at = axis_of(axis, len(shape))

    def element(v: Value, i: int) -> Value:
        return ops.slice_axis(v, at, i, i + 1)

    def product(i: int, j: int) -> Value:
        first = ops.one("mul", element(a, i), element(b, j))
        return ops.one("sub", first, ops.one("mul", element(a, j), element(b, i)))

    return Array(ops.concat([product(1, 2), product(2, 0), product(0, 1)], at))


# ---- Norms ----


def _magnitude(v: Value) -> Value:
    return ops.one("abs", v)


def _largest(v: Value, axes: tuple[int, ...]) -> Value:
    """The largest of magnitudes: 0 of none."""
    found = ops.one("reduce_max", v, dims=axes)
    return ops.one("max", found, ops.like(found, 0))


def _smallest(v: Value, axes: tuple[int, ...]) -> Value:
    """The smallest of magnitudes. ValueError of none."""
    if any(same(v.shape[a], 0) == YES for a in axes):
        raise ValueError("a norm that is the smallest value has none to take on an empty axis")
    return ops.one("reduce_min", v, dims=axes)


def vector_norm(
    x: Array,
    /,
    *,
    axis: int | tuple[int, ...] | None = None,
    keepdims: bool = False,
    ord: float = 2,
) -> Array:
    """The p-norm over axes, or the largest and smallest magnitude for ord=inf and -inf.

    ValueError for the smallest of none; other norms of none are 0.
    """
    v = value_of(x)
    check("linalg.vector_norm", "floating", v)
    axes = axes_of(axis, len(v.shape))
    if not isinstance(ord, numbers.Real):
        raise ValueError(f"linalg.vector_norm: ord={ord!r} is not a number")
    out = _norm(_magnitude(v), axes, ord)
    return Array(_kept(out, v, axes, keepdims))


def _norm(size: Value, axes: tuple[int, ...], ord: Any) -> Value:
    """The p-norm of magnitudes."""

    def total(value: Value) -> Value:
        return ops.one("reduce_sum", value, dims=axes) if axes else value

    if ord == math.inf:
        return _largest(size, axes) if axes else size
    if ord == -math.inf:
        return _smallest(size, axes) if axes else size
    if ord == 0:
        return total(ops.convert(ops.compare(size, ops.like(size, 0), 1), size.dtype))
    if ord == 1:
        return total(size)
    if ord == 2:
        return ops.one("sqrt", total(ops.one("square", size)))
    out = total(ops.one("pow", size, ops.like(size, float(ord))))
    return ops.one("pow", out, ops.like(out, 1.0 / ord))


def matrix_norm(
    x: Array, /, *, keepdims: bool = False, ord: float | Literal["fro", "nuc"] | None = "fro"
) -> Array:
    """Norms of matrices: "fro", "nuc" (the sum of singular values), 1, -1, 2, -2, inf, -inf.

    ValueError for the smallest of none; other norms of none are 0.
    """
    v = _matrices("matrix_norm", x)
    n = len(v.shape)
    axes = (n - 2, n - 1)
    if ord in ("fro", None):
        return vector_norm(Array(v), axis=axes, keepdims=keepdims)
    if ord in ("nuc", 2, -2):
        s = svdvals(Array(v))._value
        norm = {"nuc": 1, 2: math.inf, -2: -math.inf}[ord]
        return Array(_kept(_norm(s, (n - 2,), norm), v, axes, keepdims))
    if ord not in (1, -1, math.inf, -math.inf):
        raise ValueError(f"ord={ord!r} is not a norm of matrices")
    summed, left = (n - 2, n - 1) if ord in (1, -1) else (n - 1, n - 2)
    sums = ops.one("reduce_sum", _magnitude(v), dims=(summed,))
    at = left - 1 if summed < left else left
    reduced = _largest if ord > 0 else _smallest
    return Array(_kept(reduced(sums, (at,)), v, axes, keepdims))
