"""Complex numbers and their parts, Fourier transforms."""

from __future__ import annotations

from tenon.builder import I64S, STRING, Dim, Value, emit, ops
from tenon.builder import dtypes as dt

from ..graph.node import Node, axis_of
from ..graph.table import Unsupported, lowering

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

# By torch's number of a normalisation: 0 nothing, 1 the root, 2 the number of elements.
_FORWARD = ("backward", "ortho", "forward")
_INVERSE = ("forward", "ortho", "backward")


# ---- Parts ----


@lowering("aten.complex.default")
def complex_(n: Node, re: Value, im: Value) -> Value:
    part = dt.part_of(n.dtype)
    return ops.one("complex", n.spread(re, part), n.spread(im, part))


@lowering("aten.polar.default")
def polar(n: Node, size: Value, angle: Value) -> Value:
    part = dt.part_of(n.dtype)
    size, angle = n.spread(size, part), n.spread(angle, part)
    re, im = (ops.one("mul", size, ops.one(f, angle)) for f in ("cos", "sin"))
    return ops.one("complex", re, im)


@lowering("aten.real.default")
def real(n: Node, x: Value) -> Value:
    return ops.one("real", x) if dt.is_complex(x.dtype) else x


@lowering("aten.imag.default")
def imag(n: Node, x: Value) -> Value:
    return ops.one("imag", x)


@lowering(
    "aten._conj.default",
    "aten._conj_physical.default",
    "aten.conj_physical.default",
    "aten.conj.default",
)
def conj(n: Node, x: Value) -> Value:
    return ops.one("conj", x) if dt.is_complex(x.dtype) else x


@lowering("aten.resolve_conj.default", "aten.resolve_neg.default")
def resolved(n: Node, x: Value) -> Value:
    """Our values never wait for a conjugation."""
    return x


@lowering("aten.angle.default")
def angle(n: Node, x: Value) -> Value:
    if dt.is_complex(x.dtype):
        return ops.one("angle", x)
    x = n.to_result(x)
    below = ops.compare(x, ops.like(x, 0.0), 2)
    turn = ops.select(below, ops.like(x, 3.141592653589793), ops.like(x, 0.0))
    return ops.select(ops.one("is_nan", x), x, turn)


@lowering("aten.view_as_real.default", "aten.view_as_real_copy.default")
def view_as_real(n: Node, x: Value) -> Value:
    shape = (*x.shape, 1)
    parts = [ops.reshape(ops.one(part, x), shape) for part in ("real", "imag")]
    return ops.concat(parts, len(x.shape))


@lowering("aten.view_as_complex.default", "aten.view_as_complex_copy.default")
def view_as_complex(n: Node, x: Value) -> Value:
    last = len(x.shape) - 1
    parts = [ops.reshape(ops.slice_axis(x, last, i, i + 1), x.shape[:-1]) for i in range(2)]
    return ops.one("complex", *parts)


# ---- Fourier transforms ----


def _length(size: object) -> int:
    if isinstance(size, Dim) or not isinstance(size, int):
        raise Unsupported("a transform whose length is known only when it runs")
    return size


def _transform(
    x: Value, kind: str, dims: Sequence[int], lengths: Sequence[int], norm: str
) -> Value:
    if any(n < 1 for n in lengths):
        raise Unsupported("a transform of nothing")
    given = (
        ("dims", I64S, tuple(dims)),
        ("kind", STRING, kind),
        ("lengths", I64S, tuple(lengths)),
        ("norm", STRING, norm),
    )
    return emit("fft", (x,), given)[0]


def _axes(x: Value, dim: Sequence[int]) -> list[int]:
    return [axis_of(d, len(x.shape)) for d in dim]


@lowering("aten._fft_c2c.default")
def fft_c2c(n: Node, x: Value, dim: Sequence[int], normalization: int, forward: bool) -> Value:
    dims = _axes(x, dim)
    if not dims:
        return x
    lengths = [_length(x.shape[d]) for d in dims]
    norm = (_FORWARD if forward else _INVERSE)[normalization]
    return _transform(x, "fft" if forward else "ifft", dims, lengths, norm)


@lowering("aten._fft_r2c.default")
def fft_r2c(n: Node, x: Value, dim: Sequence[int], normalization: int, onesided: bool) -> Value:
    dims = _axes(x, dim)
    lengths = [_length(x.shape[d]) for d in dims]
    if not onesided:
        x = ops.convert(x, dt.complex_of(x.dtype))
    return _transform(x, "rfft" if onesided else "fft", dims, lengths, _FORWARD[normalization])


@lowering("aten._fft_c2r.default")
def fft_c2r(
    n: Node, x: Value, dim: Sequence[int], normalization: int, last_dim_size: object
) -> Value:
    dims = _axes(x, dim)
    lengths = [_length(x.shape[d]) for d in dims[:-1]] + [_length(last_dim_size)]
    half = lengths[-1] // 2 + 1
    if _length(x.shape[dims[-1]]) < half:
        raise Unsupported("a spectrum that is shorter than half of the signal")
    x = ops.slice_axis(x, dims[-1], 0, half)
    return _transform(x, "irfft", dims, lengths, _INVERSE[normalization])
