"""tenon.xp.fft: Fourier transforms (array API standard, extension "fft").

Lengths are constants of the compiled program, so a compiled function is compiled for each. Arrays
of floats are taken where the standard asks for complex ones. norm: "backward" divides the inverse
by the number of elements, "forward" the other direction, "ortho" both by its root.
"""

from __future__ import annotations

import operator

from tenon.builder import dtypes as dt
from tenon.builder import ops
from tenon.builder.dtypes import DType
from tenon.builder.trace import I64S, STRING, Value, emit
from tenon.xp._array import Array, value_of
from tenon.xp._create import asarray
from tenon.xp._elementwise import check
from tenon.xp._shape import axes_of, roll

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = [
    "fft", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifftn", "ifftshift", "ihfft", "irfft",
    "irfftn", "rfft", "rfftfreq", "rfftn",
]  # fmt: skip

_SWAPPED = {"backward": "forward", "forward": "backward", "ortho": "ortho"}


def _length(size: Any) -> int:
    """A length as a number: a function whose sizes change is compiled for each of them."""
    length = operator.index(size)
    if length < 1:
        raise ValueError(f"a transform of {length} elements: at least 1 is needed")
    return length


def _resized(v: Value, axis: int, length: int) -> Value:
    """The first elements along an axis, followed by zeros if there are fewer."""
    size = v.shape[axis]
    if isinstance(size, int) and size < length:
        shape = (*v.shape[:axis], length - size, *v.shape[axis + 1 :])
        return ops.concat([v, ops.full(shape, 0, v.dtype)], axis)
    return v if size is length or size == length else ops.slice_axis(v, axis, 0, length)


def _axes(v: Value, s: Sequence[int] | None, axes: Sequence[int] | None) -> tuple[int, ...]:
    ndim = len(v.shape)
    if axes is not None:
        if s is not None and len(s) != len(axes):
            raise ValueError(f"s has {len(s)} lengths for {len(axes)} axes")
        return tuple(axes_of((a,), ndim)[0] for a in axes)
    if s is not None and len(s) > ndim:
        raise ValueError(f"s has {len(s)} lengths for an array of {ndim} axes")
    return tuple(range(0 if s is None else ndim - len(s), ndim))


def _transform(
    kind: str, x: Array, s: Sequence[int] | None, axes: Sequence[int] | None, norm: str
) -> Array:
    if norm not in _SWAPPED:
        raise ValueError(f"norm={norm!r} is not one of {', '.join(_SWAPPED)}")
    v = value_of(x)
    check(kind, "float" if kind == "rfft" else "floating", v)
    if v.dtype in (dt.float16, dt.bfloat16):
        v = ops.convert(v, dt.float32)
    if kind != "rfft":
        v = ops.convert(v, dt.complex_of(v.dtype))
    dims = _axes(v, s, axes)
    if not dims:
        if kind in ("rfft", "irfft"):
            raise ValueError("at least one axis is transformed")
        return Array(v)
    if s is not None:
        lengths = [_length(n) for n in s]
    else:
        lengths = [_length(v.shape[a]) for a in dims[:-1]]
        last = _length(v.shape[dims[-1]])
        lengths.append(_length(2 * (last - 1)) if kind == "irfft" else last)
    for i, (axis, n) in enumerate(zip(dims, lengths)):
        half = kind == "irfft" and i == len(dims) - 1
        v = _resized(v, axis, n // 2 + 1 if half else n)
    if len(set(dims)) < len(dims):
        raise ValueError(f"axes {dims} repeat an axis: transform it again instead")
    given = (
        ("dims", I64S, dims),
        ("kind", STRING, kind),
        ("lengths", I64S, tuple(lengths)),
        ("norm", STRING, norm),
    )
    return Array(emit("fft", (v,), given)[0])


def _one(n: int | None) -> list[int] | None:
    return None if n is None else [n]


def fft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Array:
    """The transform along an axis, of the first n elements or with zeros up to n."""
    return _transform("fft", x, _one(n), [axis], norm)


def ifft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Array:
    """The inverse of `fft`."""
    return _transform("ifft", x, _one(n), [axis], norm)


def fftn(
    x: Array,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
) -> Array:
    """The transform over several axes: those listed, or the last ones that s has lengths for."""
    return _transform("fft", x, s, axes, norm)


def ifftn(
    x: Array,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
) -> Array:
    """The inverse of `fftn`."""
    return _transform("ifft", x, s, axes, norm)


def rfft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Array:
    """The first n // 2 + 1 elements of the transform of real numbers; the others mirror them."""
    return _transform("rfft", x, _one(n), [axis], norm)


def irfft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Array:
    """The inverse of `rfft`: n real numbers, 2 (size - 1) unless n is given."""
    return _transform("irfft", x, _one(n), [axis], norm)


def rfftn(
    x: Array,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
) -> Array:
    """`rfft` along the last of several axes, then `fftn` over the others."""
    return _transform("rfft", x, s, axes, norm)


def irfftn(
    x: Array,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
) -> Array:
    """The inverse of `rfftn`."""
    return _transform("irfft", x, s, axes, norm)


def _conj(x: Array) -> Array:
    v = value_of(x)
    return Array(ops.one("conj", v) if dt.is_complex(v.dtype) else v)


def hfft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Array:
    """The transform, n real numbers, of a signal whose other half mirrors the given one."""
    return _transform("irfft", _conj(x), _one(n), [axis], _SWAPPED.get(norm, norm))


def ihfft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Array:
    """The inverse of `hfft`."""
    return _conj(_transform("rfft", x, _one(n), [axis], _SWAPPED.get(norm, norm)))


def _frequencies(n: int, half: bool, d: float, dtype: Any, device: str | None) -> Array:
    n = operator.index(n)
    if n < 1:
        raise ValueError(f"n is {n}: at least 1 is needed")
    index = range(n // 2 + 1) if half else [(i + n // 2) % n - n // 2 for i in range(n)]
    chosen = dt.default_float if dtype is None else dt.parse(dtype)
    return asarray([i / (n * d) for i in index], dtype=chosen, device=device)


def fftfreq(
    n: int, /, *, d: float = 1.0, dtype: DType | None = None, device: str | None = None
) -> Array:
    """The frequencies of `fft` for n samples at distances d."""
    return _frequencies(n, False, d, dtype, device)


def rfftfreq(
    n: int, /, *, d: float = 1.0, dtype: DType | None = None, device: str | None = None
) -> Array:
    """The frequencies of `rfft` for n samples at distances d."""
    return _frequencies(n, True, d, dtype, device)


def _shifted(x: Array, axes: int | Sequence[int] | None, forward: bool) -> Array:
    v = value_of(x)
    chosen = axes_of(axes if axes is None or isinstance(axes, int) else tuple(axes), len(v.shape))
    shifts = [_length(v.shape[a]) // 2 if v.shape[a] != 0 else 0 for a in chosen]
    if not chosen:
        return Array(v)
    return roll(Array(v), tuple(s if forward else -s for s in shifts), axis=chosen)


def fftshift(x: Array, /, *, axes: int | Sequence[int] | None = None) -> Array:
    """Moves frequency 0 to the middle."""
    return _shifted(x, axes, True)


def ifftshift(x: Array, /, *, axes: int | Sequence[int] | None = None) -> Array:
    """The inverse of `fftshift`."""
    return _shifted(x, axes, False)
