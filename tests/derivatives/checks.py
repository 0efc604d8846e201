"""What must hold of a function's derivatives and batches, whatever the function computes.

A chain is a list of transforms that a function goes through first. Each check is one program with
two results: how far both sides are apart, and how large that may be at most for a bound of 1.
"""

from __future__ import annotations

from typing import Any

import tenon
from tenon import xp
from tenon.builder import dtypes as dt
from tenon.builder import ops
from tenon.xp._array import Array, value_of

SAMPLES = 2
BOUND = 1e-11
CHAIN = ("jvp", "vjp", "batch")
CHECKS = ("adjoint", "adjoint", "samples", "samples", "symmetric")


def wave(like: Array, phase: float) -> Array:
    """Numbers of the shape of an array that have nothing to do with it."""
    value = value_of(like)
    if dt.is_complex(value.dtype):
        re = xp.real(like)
        return Array(ops.one("complex", value_of(wave(re, phase)), value_of(wave(re, phase + 2.1))))
    if not value.shape:
        return Array(ops.scalar(0.3 + 0.1 * phase, dt.float64))
    total = ops.full(value.shape, phase, dt.float64)
    for dim in range(len(value.shape)):
        place = ops.convert(ops.iota(value.shape, dim, dt.int64), dt.float64)
        total = ops.one("add", total, ops.one("mul", place, ops.like(place, 1.7 + dim)))
    return Array(ops.one("cos", total))


def waves(arrays: Any, phase: float) -> tuple[Array, ...]:
    return tuple(wave(a, phase + 0.7 * i) for i, a in enumerate(arrays))


def dots(a: Any, b: Any) -> tuple[Array, Array]:
    """The sum of the products, and of their absolute values: of complex numbers the real part of
    conj(a) b, so that a cotangent is the adjoint."""
    products = [_product(xp.asarray(x), y) for x, y in zip(a, b)]
    return _added(xp.sum(p) for p in products), _added(xp.sum(xp.abs(p)) for p in products)


def _product(x: Array, y: Array) -> Array:
    return xp.real(xp.conj(x) * y) if dt.is_complex(x.dtype) else x * y


def _added(parts: Any) -> Array:
    first, *rest = parts
    for part in rest:
        first = first + part
    return first  # type: ignore[no-any-return]


# ---- Transforms of functions from arrays to a tuple of arrays ----


def _jvp(f: Any, place: int) -> Any:
    return lambda *xs: tenon.jvp(f, xs, waves(xs, 1.0 + place))[1]


def _vjp(f: Any, place: int) -> Any:
    def pulled(*xs: Array) -> Any:
        ys, pull = tenon.vjp(f, *xs)
        return pull(waves(ys, 2.0 + place))

    return pulled


def _axes(count: int, place: int) -> tuple[int | None, ...]:
    """Which inputs have samples: the first one, and others by turns."""
    return tuple(0 if i == 0 or (i + place) % 2 else None for i in range(count))


def _samples(x: Array, place: int) -> list[Array]:
    return [x + wave(x, place + 3.0 * k) * 0.5 for k in range(SAMPLES)]


def _batch(f: Any, place: int) -> Any:
    def batched(*xs: Array) -> Any:
        axes = _axes(len(xs), place)
        given = [x if a is None else xp.stack(_samples(x, place)) for x, a in zip(xs, axes)]
        return tenon.vmap(f, in_axes=axes)(*given)

    return batched


TRANSFORMS = {"jvp": _jvp, "vjp": _vjp, "batch": _batch}


def through(chain: Any, f: Any) -> Any:
    for place, name in enumerate(chain):
        f = TRANSFORMS[name](f, place)
    return f


# ---- Checks ----


def adjoint(f: Any, xs: Any) -> tuple[Array, Array]:
    """<u, Jv> = <pull(u), v>."""
    tangents = waves(xs, 0.4)
    ys, pushed = tenon.jvp(f, xs, tangents)
    cotangents = waves(ys, 1.4)
    pulled = tenon.vjp(f, *xs)[1](cotangents)
    left, left_size = dots(cotangents, pushed)
    right, right_size = dots(pulled, tangents)
    return xp.abs(left - right), left_size + right_size


def samples(f: Any, xs: Any) -> tuple[Array, Array]:
    """vmap computes what a loop over the samples does."""
    axes = _axes(len(xs), 1)
    each = [[x] * SAMPLES if a is None else _samples(x, 5) for x, a in zip(xs, axes)]
    given = [e[0] if a is None else xp.stack(e) for e, a in zip(each, axes)]
    at_once = tenon.vmap(f, in_axes=axes)(*given)
    apart, size = [], []
    for k in range(SAMPLES):
        for whole, one in zip(at_once, f(*(e[k] for e in each))):
            apart.append(xp.sum(xp.abs(whole[k, ...] - one)))
            size.append(xp.sum(xp.abs(one)))
    return _added(apart), _added(size)


def symmetric(f: Any, xs: Any) -> tuple[Array, Array]:
    """<v, Hw> = <w, Hv> for the second derivatives H."""

    def number(*xs: Array) -> Array:
        ys = f(*xs)
        return dots(ys, waves(ys, 0.9))[0]

    gradient = tenon.grad(number, argnums=tuple(range(len(xs))))
    v, w = waves(xs, 0.4), waves(xs, 2.2)
    left, left_size = dots(v, tenon.jvp(gradient, xs, w)[1])
    right, right_size = dots(w, tenon.jvp(gradient, xs, v)[1])
    return xp.abs(left - right), left_size + right_size


def all_of(check: str, chain: Any, f: Any) -> Any:
    """The function of inputs that a check computes: (how far apart, of what)."""
    run = {"adjoint": adjoint, "samples": samples, "symmetric": symmetric}[check]
    return lambda *xs: run(through(chain, f), xs)
