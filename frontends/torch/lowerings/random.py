"""Random numbers: functions of a key that each call draws from torch's generator."""

from __future__ import annotations

from tenon.builder import DIMS, DTYPE, F64, Value, emit, ops
from tenon.builder import dtypes as dt

from ..graph.node import Node, wide
from ..graph.table import Unsupported, lowering

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def _drawn(n: Node, op: str, dtype: dt.DType, **numbers: float) -> Value:
    """Numbers in the shape of the result."""
    given = [(name, F64, float(value)) for name, value in numbers.items()]
    given += [("dtype", DTYPE, dtype), ("shape", DIMS, n.shape)]  # type: ignore[list-item]
    return emit(op, (n.walk.key(), n.walk.counter()), tuple(sorted(given, key=lambda a: a[0])))[0]


def _float(n: Node, op: str, **numbers: float) -> Value:
    if not dt.is_float(n.dtype):
        raise Unsupported(f"of {n.dtype.name}")
    return ops.convert(_drawn(n, op, wide(n.dtype), **numbers), n.dtype)


# Bits of a number in [0, 1) that the short types keep apart, so that none is rounded up to 1.
_BITS = {dt.bfloat16: 8, dt.float16: 11}


def _uniform(n: Node, low: float, high: float) -> Value:
    """Numbers from low on, below high."""
    if n.dtype not in _BITS:
        return _float(n, "uniform", low=low, high=high)
    one, steps = ops.one, 1 << _BITS[n.dtype]
    whole = one("floor", _drawn(n, "uniform", dt.float32, low=0, high=steps))
    spread = one("mul", whole, ops.like(whole, (float(high) - float(low)) / steps))
    return ops.convert(one("add", spread, ops.like(spread, float(low))), n.dtype)


def _own_generator(generator: Any) -> None:
    if generator is not None:
        raise Unsupported("with a generator of its own")


@lowering("aten.rand.default", "aten.rand_like.default")
def rand(n: Node, *rest: Any, **options: Any) -> Value:
    return _uniform(n, 0, 1)


@lowering("aten.randn.default", "aten.randn_like.default")
def randn(n: Node, *rest: Any, **options: Any) -> Value:
    return _float(n, "normal", mean=0, std=1)


@lowering("aten.uniform.default")
def uniform(n: Node, x: Value, low: float = 0, high: float = 1, *, generator: Any = None) -> Value:
    _own_generator(generator)
    return _uniform(n, low, high)


@lowering("aten.normal_functional.default")
def normal(n: Node, x: Value, mean: float = 0, std: float = 1, *, generator: Any = None) -> Value:
    _own_generator(generator)
    return _float(n, "normal", mean=mean, std=std)


@lowering("prims.normal.default")
def normal_of_shape(
    n: Node, shape: Any, *, mean: Any, std: Any, generator: Any = None, **options: Any
) -> Value:
    _own_generator(generator)
    return _float(n, "normal", mean=mean, std=std)


@lowering("aten.bernoulli.p", "aten.bernoulli.default")
def bernoulli(n: Node, x: Value, p: Any = None, *, generator: Any = None) -> Value:
    _own_generator(generator)
    drawn = _drawn(n, "uniform", dt.float64 if n.dtype is dt.float64 else dt.float32, low=0, high=1)
    below = ops.compare(drawn, n.spread(x if p is None else p, drawn.dtype), 2)
    return ops.convert(below, n.dtype)


@lowering("aten.native_dropout.default")
def dropout(n: Node, x: Value, p: float, train: bool | None = True) -> tuple[Value, ...]:
    if not train or p == 0:
        return x, ops.full(x.shape, True, dt.bool_)
    kept = ops.compare(
        _drawn(n, "uniform", dt.float32, low=0, high=1), n.spread(float(p), dt.float32), 5
    )
    factor = 0.0 if p == 1 else 1.0 / (1.0 - p)
    inner = ops.convert(x, wide(x.dtype))
    scaled = ops.convert(ops.one("mul", inner, ops.like(inner, factor)), x.dtype)
    return ops.select(kept, scaled, ops.like(x, 0.0)), kept


@lowering(
    "aten.randint.default",
    "aten.randint.low",
    "aten.randint_like.default",
    "aten.randint_like.low_dtype",
)
def randint(n: Node, *given: Any, **options: Any) -> Value:
    name = str(n.node.target)
    numbers = given[1:] if "like" in name else given[:-1]
    low, high = (0, numbers[0]) if len(numbers) == 1 else numbers
    if not all(isinstance(v, int) for v in (low, high)) or high - low >= 1 << 24:
        raise Unsupported("of a range of unknown or large size")
    unit = _drawn(n, "uniform", dt.float64, low=0, high=1)
    steps = ops.one("floor", ops.one("mul", unit, ops.like(unit, float(high - low))))
    return ops.convert(ops.one("add", steps, ops.like(steps, float(low))), n.dtype)
