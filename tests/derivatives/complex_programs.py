"""The steps of random programs over c128: what programs.py has for real numbers.

Functions get arguments in which they stay small and where no branch is cut. Some are not holomorphic,
so that a conjugate that is missing or too much shows.
"""

from __future__ import annotations

from typing import Any

from tenon.builder import dtypes as dt
from tenon.builder import ops
from tenon.builder.trace import Value


def emit(op: str, *operands: Value | None, **given: Any) -> Value:
    return ops.one(op, *operands, **given)


def of_real(x: Value) -> Value:
    return ops.convert(x, dt.complex128)


def bounded(z: Value, most: float = 1.0) -> Value:
    """z / sqrt(1 + |z|^2)"""
    size = emit("abs", z)
    scale = emit("rsqrt", emit("add", emit("mul", size, size), ops.like(size, 1.0)))
    return emit("mul", z, of_real(emit("mul", scale, ops.like(scale, most))))


def _right(z: Value) -> Value:
    """To the right of 1."""
    return emit("add", bounded(z), ops.like(z, 2.0))


def _of(op: str, inside: Any) -> tuple[int, Any]:
    return 1, lambda z: emit(op, inside(z))


def _pair(z: Value, re: Value) -> Value:
    return emit("complex", re, emit("imag", z))


ELEMENT_WISE: dict[str, tuple[int, Any]] = {
    **{op: _of(op, lambda z: z) for op in ("neg", "conj")},
    **{op: _of(op, bounded) for op in (
        "sin", "cos", "tan", "sinh", "cosh", "tanh", "exp", "exp2", "expm1", "square")},
    **{op: _of(op, lambda z: bounded(z, 0.9)) for op in (
        "log1p", "asin", "acos", "atan", "asinh", "atanh")},
    **{op: _of(op, _right) for op in (
        "sqrt", "rsqrt", "log", "log2", "log10", "reciprocal", "acosh", "sign")},
    "add": (2, lambda x, y: emit("add", x, y)),
    "sub": (2, lambda x, y: emit("sub", x, y)),
    "mul": (2, lambda x, y: emit("mul", bounded(x), y)),
    "div": (2, lambda x, y: emit("div", x, _right(y))),
    "pow": (2, lambda x, y: emit("pow", _right(x), bounded(y))),
    "abs": (1, lambda z: _pair(z, emit("abs", _right(z)))),
    "angle": (1, lambda z: _pair(z, emit("angle", _right(z)))),
    "real": (2, lambda x, y: _pair(x, emit("mul", emit("sin", emit("real", x)), emit("cos", emit("real", y))))),
}  # fmt: skip
REDUCTIONS = ("reduce_sum", "reduce_prod", "mean")
ALONG = ("cumsum", "cumprod", "fft", "ifft", "parts")


def along(name: str, x: Value, dim: int) -> Value:
    """parts: a signal of real numbers, from the spectrum of another one."""
    if name == "cumprod":
        return emit(name, emit("cos", bounded(x)), dim=dim)
    if name == "cumsum":
        return emit(name, x, dim=dim)
    size = x.shape[dim]
    if not isinstance(size, int):
        return emit("conj", x)
    given = {"dims": [dim], "lengths": [size], "norm": "ortho"}
    if name in ("fft", "ifft"):
        return emit("fft", x, kind=name, **given)
    half = emit("fft", emit("real", x), kind="rfft", **given)
    back = emit("fft", emit("mul", half, bounded(half)), kind="irfft", **given)
    return emit("complex", emit("imag", x), back)
