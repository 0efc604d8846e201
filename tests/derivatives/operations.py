"""What each family of jax_rows.py computes: in Tenon, in JAX, and of which operands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import jax_rows
import numpy as np
from jax import lax
from tenon import xp
from tenon.builder import dtypes as dt
from tenon.builder import ops
from tenon.builder.trace import DIMS, Value, active
from tenon.xp._array import Array, value_of

Numbers = np.random.Generator
Made = tuple[Callable[..., Any], Callable[..., Any], list[Any]]  # Tenon's, JAX's, the operands


def emit(op: str, *operands: Any, dims: Any = None, **given: Any) -> Any:
    """A node. `dims`: attributes that are sizes."""
    attrs = ops.attrs(**given)
    attrs += tuple((name, DIMS, tuple(v)) for name, v in (dims or {}).items())
    trace = active()
    assert trace is not None
    made = trace.emit(op, [value_of(x) if isinstance(x, Array) else x for x in operands], attrs)
    return Array(made[0]) if len(made) == 1 else tuple(map(Array, made))


def _given(r: Numbers, shape: Any, low: float, high: float, dtype: str = "f64") -> Any:
    out = r.uniform(low, high, shape)
    return out + 1j * r.uniform(low, high, shape) if dtype == "c128" else out


def _default(r: Numbers, *shapes: Any) -> list[Any]:
    return [_given(r, s, *jax_rows.DEFAULT) for s in shapes]


def _distinct(r: Numbers, shape: Any) -> Any:
    """Numbers no two of which are equal."""
    count = int(np.prod(shape))
    return r.permutation(count).astype(np.float64).reshape(shape) * 0.5 - 1.0


def _integers(places: Any) -> Value:
    data = np.array(places, np.int64)
    trace = active()
    assert trace is not None
    return trace.constant(dt.int64, data.shape, data.tobytes())


# ---- Element by element ----

TENON_NAMES = {"round": "round_even"}  # halves do not occur


def element_wise(r: Numbers, op: str, shapes: Any, order: int, numbers: Any, dtype: str) -> Made:
    given = [_given(r, s, *numbers, dtype) for s in shapes]

    def ours(*x: Array) -> Any:
        shape: tuple[Any, ...] = ()
        for a in x:
            shape = ops.broadcast_shapes(shape, a.shape)
        return emit(TENON_NAMES.get(op, op), *(ops.broadcast_to(value_of(a), shape) for a in x))

    return ours, _one_sizes(getattr(lax, op)), given


def _one_sizes(f: Any) -> Any:
    """lax broadcasts whole dims only; sizes of 1 are repeated by NumPy's rule first."""

    def call(*x: Any) -> Any:
        shape = np.broadcast_shapes(*(a.shape for a in x))
        return f(*(jnp.broadcast_to(a, shape) for a in x))

    return call


def special(r: Numbers, op: str, value: float) -> Made:
    return lambda x: emit(op, x), getattr(lax, op), [np.array(value)]


def clamp(r: Numbers, shape: Any) -> Made:
    x = _default(r, shape)[0]
    low, high = x - 10, x + 10

    def ours(a, x, b):
        return emit("min", emit("max", a, x), b)

    return ours, lambda a, x, b: lax.clamp(a, x, b), [low, x, high]


def select(r: Numbers, shape: Any, predicate: Any) -> Made:
    chosen = r.integers(0, 2, predicate).astype(bool)

    def ours(x: Array, y: Array) -> Any:
        trace = active()
        assert trace is not None
        p = trace.constant(dt.bool_, chosen.shape, chosen.tobytes())
        return emit("select", p, x, y)

    return ours, lambda x, y: lax.select(np.asarray(chosen), x, y), _default(r, shape, shape)


# ---- Movement ----


def concat(r: Numbers, shape: Any, dim: int) -> Made:
    shapes = [(*shape[:dim], size, *shape[dim + 1 :]) for size in (3, 1, 4)]
    return (
        lambda *x: emit("concat", *x, dim=dim),
        lambda *x: lax.concatenate(x, dim),
        _default(r, *shapes),
    )


def split(r: Numbers, shape: Any, dim: int, sizes: Any) -> Made:
    whole = (*shape[:dim], sum(sizes), *shape[dim + 1 :])
    ends = np.cumsum(sizes)

    def ours(x: Array) -> Any:
        return tuple(
            Array(ops.slice_axis(value_of(x), dim, int(e - s), int(e))) for s, e in zip(sizes, ends)
        )

    return ours, lambda x: tuple(lax.split(x, sizes, dim)), _default(r, whole)


def broadcast(r: Numbers, shape: Any, out: Any, dims: Any) -> Made:
    def ours(x):
        return Array(ops.broadcast_in(value_of(x), out, dims))

    return ours, lambda x: lax.broadcast_in_dim(x, out, dims), _default(r, shape)


def reshape(r: Numbers, shape: Any, out: Any, perm: Any) -> Made:
    # Some of JAX's rows name more elements than there are; these are of the right number.
    out = (
        out
        if np.prod(out) == np.prod(shape)
        else (*out[:-1], int(np.prod(shape) // np.prod(out[:-1])))
    )

    def ours(x):
        return Array(ops.reshape(ops.transpose(value_of(x), perm) if perm else value_of(x), out))

    return ours, lambda x: lax.reshape(x, out, perm), _default(r, shape)


def pad(r: Numbers, shape: Any, pads: Any) -> Made:
    low, high, interior = zip(*pads) if pads else ((), (), ())

    def ours(x, v):
        return emit("pad", x, v, low=low, high=high, interior=interior)

    return ours, lambda x, v: lax.pad(x, v, pads), _default(r, shape, ())


def reverse(r: Numbers, shape: Any, dims: Any) -> Made:
    def ours(x):
        return Array(ops.one("reverse", value_of(x), dims=list(dims)))

    return ours, lambda x: lax.rev(x, dims), _default(r, shape)


def slice(r: Numbers, shape: Any, starts: Any, limits: Any, strides: Any) -> Made:
    def ours(x):
        return emit("slice", x, dims={"start": starts, "limit": limits}, stride=list(strides or ()))

    return ours, lambda x: lax.slice(x, starts, limits, strides), _default(r, shape)


def dynamic_slice(r: Numbers, shape: Any, starts: Any, sizes: Any) -> Made:
    def ours(x):
        return emit("dynamic_slice", x, _integers(starts), dims={"sizes": sizes})

    at = [max(s, 0) for s in starts]  # lax counts negative starts from the end
    return ours, lambda x: lax.dynamic_slice(x, at, sizes), _default(r, shape)


def dynamic_update_slice(r: Numbers, shape: Any, starts: Any, sizes: Any) -> Made:
    def ours(x, y):
        return emit("dynamic_update_slice", x, y, _integers(starts))

    at = np.array([max(s, 0) for s in starts])
    return ours, lambda x, y: lax.dynamic_update_slice(x, y, at), _default(r, shape, sizes)


def transpose(r: Numbers, shape: Any, perm: Any) -> Made:
    return (
        lambda x: emit("transpose", x, perm=perm),
        lambda x: lax.transpose(x, perm),
        _default(r, shape),
    )


# ---- Products ----


def dot(r: Numbers, left: Any, right: Any, contracted: Any, batch: Any) -> Made:
    (ca, cb), (ba, bb) = contracted, batch

    def ours(x, y):
        return emit("dot_general", x, y, a_contract=ca, b_contract=cb, a_batch=ba, b_batch=bb)

    return ours, lambda x, y: lax.dot_general(x, y, (contracted, batch)), _default(r, left, right)


def conv(r: Numbers, x: Any, w: Any, strides: Any, pads: Any, lhs: Any, rhs: Any) -> Made:
    return conv_groups(r, x, w, strides, pads, lhs, rhs, 1, 1)


def conv_groups(
    r: Numbers,
    x: Any,
    w: Any,
    strides: Any,
    pads: Any,
    lhs: Any,
    rhs: Any,
    groups: int,
    batches: int,
) -> Made:
    low, high = zip(*pads)

    def ours(x, w):
        return emit("conv", x, w, strides=strides, pad_low=low, pad_high=high, x_dilation=lhs,
                                 w_dilation=rhs, groups=groups, batch_groups=batches)  # fmt: skip

    def theirs(x, w):
        return lax.conv_general_dilated(x, w, strides, pads, lhs, rhs, feature_group_count=groups,
                                                       batch_group_count=batches)  # fmt: skip

    return ours, theirs, _default(r, x, w)


# ---- Reductions, lines, indices ----

REDUCTIONS = {"add": "reduce_sum", "max": "reduce_max", "min": "reduce_min", "mul": "reduce_prod"}
IDENTITIES = {"add": 0.0, "max": -np.inf, "min": np.inf, "mul": 1.0}


def reduce(r: Numbers, op: str, shape: Any, dims: Any) -> Made:
    x = _distinct(r, shape) if op in ("max", "min") else _given(r, shape, 0.5, 1.5)

    def ours(x):
        return Array(ops.one(REDUCTIONS[op], value_of(x), dims=list(dims)))

    def theirs(x):
        return lax.reduce(x, np.array(IDENTITIES[op], x.dtype), getattr(lax, op), dims)

    return ours, theirs, [x]


def window(
    r: Numbers, op: str, shape: Any, extents: Any, strides: Any, pads: Any, base: Any, dil: Any
) -> Made:
    low, high = zip(*pads)
    kind = {"add": "sum"}.get(op, op)

    def ours(x):
        return emit("reduce_window", x, kind=kind, window=extents, strides=strides, pad_low=low,
                              pad_high=high, base_dilation=base, dilation=dil)  # fmt: skip

    def theirs(x):
        return lax.reduce_window(
            x, IDENTITIES[op], getattr(lax, op), extents, strides, pads, base, dil
        )

    return ours, theirs, [_distinct(r, shape)]


def cumulative(r: Numbers, op: str, shape: Any, axis: int, reverse: int) -> Made:
    def ours(x):
        return emit(op, x, dim=axis, reverse=reverse)

    return (
        ours,
        lambda x: getattr(lax, op)(x, axis=axis, reverse=bool(reverse)),
        [_given(r, shape, *jax_rows.SMALL)],
    )


def sort(r: Numbers, shape: Any) -> Made:
    dim = len(shape) - 1
    return (
        lambda x: emit("sort", x, dim=dim),
        lambda x: lax.sort(x, dimension=dim),
        [_distinct(r, shape)],
    )


def sort_pairs(r: Numbers, shape: Any) -> Made:
    dim = len(shape) - 1

    def ours(k, v):
        return emit("sort", k, v, dim=dim)

    return (
        ours,
        lambda k, v: tuple(lax.sort_key_val(k, v, dim)),
        [_distinct(r, shape), *_default(r, shape)],
    )


def top_k(r: Numbers, shape: Any, k: int, axis: int) -> Made:
    axis %= len(shape)
    k = min(k, shape[axis])

    def ours(x):
        return emit("top_k", x, dims={"k": (k,)}, dim=axis)[0]

    return ours, lambda x: lax.top_k(x, k, axis=axis)[0], [_distinct(r, shape)]


def index_take(r: Numbers, shape: Any, indices: Any, axes: Any) -> Made:
    at = np.stack([np.array(i) % shape[a] for i, a in zip(indices, axes)], 1)
    kept = [d for d in range(len(shape)) if d not in axes]
    sizes = [1 if d in axes else shape[d] for d in range(len(shape))]

    def ours(x):
        return emit("gather", x, _integers(at), dims={"sizes": sizes}, collapsed_dims=axes, index_map=axes,
                              offset_dims=list(range(1, len(kept) + 1)), index_vector_dim=1)  # fmt: skip

    return (
        ours,
        lambda x: lax.index_take(x, [np.array(i) for i in indices], axes),
        [*_default(r, shape)],
    )


_MODES = {"clip": "clip", "fill": "fill", "in_bounds": "promise_in_bounds"}


def gather(
    r: Numbers, shape: Any, count: int, offset: Any, collapsed: Any, sizes: Any, mode: str, at: Any
) -> Made:
    places = np.array(at)[:, None]
    numbers = lax.GatherDimensionNumbers(offset, collapsed, (0,))

    def ours(x):
        return emit("gather", x, _integers(places), dims={"sizes": sizes}, offset_dims=offset,
                              collapsed_dims=collapsed, index_map=[0], index_vector_dim=1, mode=mode)  # fmt: skip

    def theirs(x):
        return lax.gather(x, places, numbers, sizes, mode=_MODES[mode], fill_value=0)

    return ours, theirs, _default(r, shape)


_SCATTERS = {
    "set": "scatter",
    "add": "scatter_add",
    "max": "scatter_max",
    "min": "scatter_min",
    "mul": "scatter_mul",
}


def scatter(
    r: Numbers,
    op: str,
    shape: Any,
    count: int,
    updates: Any,
    windows: Any,
    inserted: Any,
    mode: str,
    at: Any,
) -> Made:
    places = np.array(at)[:, None]
    numbers = lax.ScatterDimensionNumbers(windows, inserted, (0,))

    def ours(x, y):
        return emit("scatter", x, _integers(places), y, kind=op, window_dims=windows,
                                 inserted_dims=inserted, index_map=[0], index_vector_dim=1, mode=mode)  # fmt: skip

    def theirs(x, y):
        return getattr(lax, _SCATTERS[op])(
            x, places, y, numbers, mode=_MODES[mode], unique_indices=op in ("set", "mul")
        )

    return ours, theirs, _default(r, shape, updates)


# ---- Transforms, linear algebra ----


def fft(r: Numbers, kind: str, shape: Any, count: int) -> Made:
    dims = list(range(len(shape)))[-count:]
    lengths = shape[-count:]
    half = (*shape[:-1], shape[-1] // 2 + 1)

    def ours(x):
        return Array(ops.one("fft", value_of(x), kind=kind, dims=dims, lengths=list(lengths)))

    dtype = "f64" if kind == "rfft" else "c128"
    given = _given(r, half if kind == "irfft" else shape, *jax_rows.DEFAULT, dtype)
    theirs = getattr(jnp.fft, f"{kind}n")
    return ours, lambda x: theirs(x, lengths, dims), [given]


def linear_algebra(r: Numbers, op: str, shape: Any, dtype: str) -> Made:
    a = _given(r, shape, *jax_rows.SMALL, dtype) + 2 * np.eye(shape[-1])
    b = _given(r, (*shape[:-1], 2), *jax_rows.SMALL, dtype)
    if op.startswith("triangular"):
        kind = op.partition("_")[2]
        upper, unit = (1, 1) if kind == "upper_unit" else (0, 0)
        form = "plain" if unit else kind

        def ours(a, b):
            return emit("triangular_solve", a, b, upper=upper, unit=unit, form=form)

        def theirs(a, b):
            return lax.linalg.triangular_solve(
                a, b, left_side=True, lower=not upper, unit_diagonal=bool(unit),
                transpose_a=form != "plain", conjugate_a=form == "adjoint",
            )  # fmt: skip

        return ours, theirs, [a, b]
    if op == "solve":
        return lambda a, b: emit("solve", a, b), jnp.linalg.solve, [a, b]
    plain = {
        "inv": (lambda a: emit("inv", a), jnp.linalg.inv),
        "det": (lambda a: emit("det", a), jnp.linalg.det),
        "slogdet": (lambda a: emit("slogdet", a), lambda a: tuple(jnp.linalg.slogdet(a))),
        "qr": (lambda a: emit("qr", a), lambda a: tuple(jnp.linalg.qr(a))),
        "svdvals": (lambda a: emit("svd", a)[1], lambda a: jnp.linalg.svd(a)[1]),
    }
    if op in plain:
        return *plain[op], [a]
    # The others read one triangle, in JAX the mean of both: of these, both are the same.
    of_hermitian = {
        "cholesky": (lambda h: emit("cholesky", h), jnp.linalg.cholesky),
        "cholesky_upper": (
            lambda h: emit("cholesky", h, upper=1),
            lambda h: jnp.linalg.cholesky(h, upper=True),
        ),
        "eigvalsh": (lambda h: emit("eigh", h)[0], jnp.linalg.eigvalsh),
    }
    mine, other = of_hermitian[op]

    def ours_of_square(a):
        turned = xp.matrix_transpose(a)
        return mine(xp.matmul(a, turned if dtype == "f64" else xp.conj(turned)))

    return ours_of_square, lambda a: other(a @ jnp.conj(jnp.swapaxes(a, -1, -2))), [a]


def make(family: str, options: Any, r: Numbers) -> Made:
    """What a row computes."""
    turned = family in jax_rows.COMPLEX and options[-1] == "c128"
    ours, theirs, operands = globals()[family](r, *options[: -1 if turned else None])
    if turned:
        operands = [x + 1j * r.uniform(-1, 1, np.shape(x)) for x in operands]
    return ours, theirs, [np.asarray(x) for x in operands]
