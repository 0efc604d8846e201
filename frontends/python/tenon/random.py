"""Random numbers as functions of a key: equal keys give equal numbers, compiled, at once and on
every device.

    key = tenon.random.key(0)
    key, now = tenon.random.split(key)
    x = tenon.random.normal(now, (3, 4))

A key is a uint32 array of two words. Use it for one draw: `split` and `fold_in` make further ones,
whose numbers are independent. Under `vmap`, samples that share a key get the same numbers, and
samples with keys of their own get different ones. Draws are philox4x32-10, keys are threefry2x32.
"""

from __future__ import annotations

from tenon import xp
from tenon._errors import UsageError
from tenon._transforms.regions import type_text
from tenon.builder import dtypes as dt
from tenon.builder import ops
from tenon.builder.trace import DIMS, DTYPE, F64, STRING, Dim, Value, emit
from tenon.xp._array import Array, value_of
from tenon.xp._shape import axis_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from tenon.builder.dtypes import DType
    from tenon.builder.trace import Size

__all__ = [
    "bernoulli", "categorical", "fold_in", "key", "normal", "permutation", "split", "uniform",
]  # fmt: skip

CODE = "T0666"


# ---- Keys ----


def key(seed: int | Array, /) -> Array:
    """The key of a seed, an integer of 64 bits."""
    if isinstance(seed, int):
        if not -(2**63) <= seed < 2**64:
            raise UsageError(f"random.key: the seed {seed} does not fit 64 bits", CODE)
        words = [seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF]
        return xp.asarray(words, dtype=dt.uint32)
    given = value_of(xp.asarray(seed))
    if not dt.is_integer(given.dtype) or given.shape != ():
        raise UsageError(
            f"random.key: the seed is {type_text(given)}, and it is an integer without axes", CODE
        )
    wide = xp.astype(Array(given), dt.uint64)
    halves = xp.stack([wide & 0xFFFFFFFF, wide >> 32])
    return xp.astype(halves, dt.uint32)


def split(key: Array, num: int = 2, /) -> Array:
    """`num` new keys, along a new first axis. The old one is not used again."""
    (count,) = ops.shape_of(num)
    return Array(_words(_key(key, "split"), ops.scalar(0, dt.uint64), (count, 2)))


def fold_in(key: Array, data: int | Array, /) -> Array:
    """The key of an integer below 2^63, such as the number of a step. It differs from those of `split`."""
    given = _key(key, "fold_in")
    number = value_of(xp.asarray(data))
    if not dt.is_integer(number.dtype) or number.shape != ():
        raise UsageError(
            f"random.fold_in: the data is {type_text(number)}, and it is an integer without axes",
            CODE,
        )
    place = xp.astype(Array(number), dt.uint64) + 2**63
    return Array(_words(given, place._value, (2,)))


def _key(given: Any, what: str) -> Value:
    if isinstance(given, Array):
        v = given._value
        if v.dtype is dt.uint32 and len(v.shape) == 1 and v.shape[0] == 2:
            return v
        text = type_text(v)
    else:
        text = repr(given)
    raise UsageError(
        f"random.{what}: {text} is not a key: random.key(seed) makes one, of uint32(2,), and several "
        "keys go through tenon.vmap",
        CODE,
    )


def _words(key: Value, counter: Value, shape: tuple[Size, ...]) -> Value:
    attrs = (
        ("algorithm", STRING, "threefry2x32"),
        ("dtype", DTYPE, dt.uint32),
        ("shape", DIMS, shape),
    )
    return emit("rng_bits", (key, counter), attrs)[0]


def _drawn(op: str, key: Value, shape: tuple[Size, ...], dtype: DType, more: Any = ()) -> Array:
    attrs = (("dtype", DTYPE, dtype), *more, ("shape", DIMS, shape))
    return Array(emit(op, (key, ops.scalar(0, dt.uint64)), attrs)[0])


def _float(dtype: Any, what: str) -> DType:
    parsed = dt.parse(dtype)
    if not dt.is_float(parsed):
        raise UsageError(f"random.{what}: dtype is {parsed.name}, and it is a real float", CODE)
    return parsed


# ---- Distributions ----


def uniform(
    key: Array, shape: int | Sequence[Size] = (), dtype: Any = dt.float32, minval: Any = 0.0,
    maxval: Any = 1.0,
) -> Array:  # fmt: skip
    """Numbers that are spread evenly over [minval, maxval), which are numbers or arrays."""
    k, sizes, kind = _key(key, "uniform"), ops.shape_of(shape), _float(dtype, "uniform")
    if isinstance(minval, (int, float)) and isinstance(maxval, (int, float)):
        more = (("high", F64, float(maxval)), ("low", F64, float(minval)))
        return _drawn("uniform", k, sizes, kind, more)
    made: Array = _drawn("uniform", k, sizes, kind) * (maxval - minval) + minval
    return made


def normal(key: Array, shape: int | Sequence[Size] = (), dtype: Any = dt.float32) -> Array:
    """Numbers with a normal distribution of mean 0 and deviation 1."""
    return _drawn("normal", _key(key, "normal"), ops.shape_of(shape), _float(dtype, "normal"))


def bernoulli(key: Array, p: Any = 0.5, shape: int | Sequence[Size] | None = None) -> Array:
    """True with probability p. p is repeated to the shape, which is that of p if it is None."""
    k = _key(key, "bernoulli")
    v = value_of(xp.asarray(p))
    if shape is not None:
        v = ops.broadcast_to(v, ops.shape_of(shape))
    return Array(emit("bernoulli", (v, k, ops.scalar(0, dt.uint64)))[0])


def categorical(
    key: Array, logits: Array, axis: int = -1, shape: int | Sequence[Size] | None = None
) -> Array:
    """Classes with the probabilities softmax(logits) along an axis, as int64.

    `shape` is that of the result, and ends with the shape of logits without the axis, which it is if
    it is None.
    """
    k = _key(key, "categorical")
    scores = xp.moveaxis(xp.asarray(logits), axis_of(axis, len(value_of(logits).shape)), -1)
    batch = scores.shape[:-1]
    sizes = batch if shape is None else ops.shape_of(shape)
    if len(sizes) < len(batch) or not ops.same_shape(
        tuple(sizes[len(sizes) - len(batch) :]), batch
    ):
        raise UsageError(
            f"random.categorical: the shape is {ops.shape_text(sizes)}, and it ends with that of the "
            f"logits without the axis, {ops.shape_text(batch)}",
            CODE,
        )
    # The largest of logits with Gumbel noise has these probabilities.
    noise = -xp.log(-xp.log(_drawn("uniform", k, (*sizes, scores.shape[-1]), scores.dtype)))
    return xp.argmax(scores + noise, axis=-1)


def permutation(key: Array, x: int | Array, axis: int = 0) -> Array:
    """The numbers below x in random order; for an array, its slices along an axis."""
    k = _key(key, "permutation")
    array = None if isinstance(x, (int, Dim)) else xp.asarray(x)
    place = 0 if array is None else axis_of(axis, array.ndim)
    size = x if array is None else array.shape[place]
    attrs = (("dtype", DTYPE, dt.int64), ("length", DIMS, (size,)))
    order = Array(emit("randperm", (k, ops.scalar(0, dt.uint64)), attrs)[0])
    return order if array is None else xp.take(array, order, axis=place)
