"""Checks of operators: derivatives against finite differences, and what a kernel writes to."""

from __future__ import annotations

import inspect

import numpy as np

from tenon import _native, xp
from tenon._compile import compile
from tenon._errors import Error
from tenon._op import Op
from tenon.builder.trace import GraphTrace, default_device, tracing
from tenon.xp._array import Array, value_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ELEMENTS_MAX = 32
GUARD_BYTES = 4096  # on both sides of memory that a kernel gets
GUARD = 0xA5
WIDE = {"f": np.float64, "c": np.complex128}  # by the kind of an array's type
STEP = 1e-6  # near the cube root of float64's precision, where the two errors of a difference meet


def check_memory(op: Op, arrays: list[Any], attrs: dict[str, Any], expected: list[Any]) -> None:
    """AssertionError if a kernel of the op writes outside its results, or to its operands.

    The op alone is compiled for these shapes and runs in guarded memory.
    """
    trace = GraphTrace(op.name)
    values = [trace.argument(value_of(a).dtype, a.shape, n) for n, a in zip(op.operands, arrays)]
    with tracing(trace):
        made = op(*(Array(v) for v in values), **attrs)
        results = made if isinstance(made, tuple) else (made,)
        ids = [trace.id_of(r._value) for r in results]
    graph = trace.native.finish(ids, [f"y{i}" for i in range(len(ids))])
    program = _native.Program(graph, default_device(), False, False, [], [])
    given = [_Guarded(a.dtype, a.shape, a) for a in arrays]
    out = [_Guarded(e.dtype, e.shape) for e in expected]
    program.run_as(tuple(g.array for g in given), {}, "numpy", [g.array for g in out])
    for i, memory in enumerate(out):
        assert memory.whole(), f"{op.name}: a kernel writes outside of the memory of result {i}"
    for name, memory, array in zip(op.operands, given, arrays):
        unchanged = memory.whole() and memory.array.tobytes() == array.tobytes()
        assert unchanged, f"{op.name}: a kernel writes to the memory of its operand {name}"


class _Guarded:
    """An array with known bytes before and after it."""

    def __init__(self, dtype: Any, shape: tuple[int, ...], values: Any = 0):
        self._memory = np.full(
            int(np.prod(shape)) * dtype.itemsize + 2 * GUARD_BYTES, GUARD, np.uint8
        )
        self.array = self._memory[GUARD_BYTES:-GUARD_BYTES].view(dtype).reshape(shape)
        self.array[...] = values

    def whole(self) -> bool:
        sides = self._memory[:GUARD_BYTES], self._memory[-GUARD_BYTES:]
        return all(bool((side == GUARD).all()) for side in sides)


def check_gradient(op: Op, arrays: list[Any], attrs: dict[str, Any]) -> None:
    """AssertionError if the derivative is not that of the function.

    Both run in float64, or complex128: the sum of the results, with random weights, is
    differentiated. Integers have no derivative.
    """
    wide = [a.astype(WIDE.get(a.dtype.kind, a.dtype)) for a in arrays]
    random = np.random.default_rng(0)
    weights = [_weights(random, r) for r in _results(op, wide, attrs)]
    given = tuple(xp.asarray(w) for w in weights)
    found = op.gradients(given, *(xp.asarray(a) for a in wide), **attrs)
    for i, gradient in enumerate(found):
        if gradient is None:
            continue
        if wide[i].dtype.kind not in WIDE:
            raise AssertionError(
                f"{op.name}: {op.operands[i]} has no floating-point type, and a gradient"
            )
        _compare(op, i, np.asarray(gradient), wide, attrs, weights, random)


def _weights(random: Any, result: Any) -> Any:
    re = random.standard_normal(result.shape)
    return re + 1j * random.standard_normal(result.shape) if result.dtype.kind == "c" else re


def _results(op: Op, arrays: list[Any], attrs: dict[str, Any]) -> list[Any]:
    made = op.function(*(xp.asarray(a) for a in arrays), **attrs)
    return [np.asarray(r) for r in (made if isinstance(made, (tuple, list)) else (made,))]


def _compare(
    op: Op,
    i: int,
    gradient: Any,
    arrays: list[Any],
    attrs: dict[str, Any],
    weights: list[Any],
    random: Any,
) -> None:
    flat = arrays[i].reshape(-1)
    places = random.permutation(flat.size)[:ELEMENTS_MAX]

    def total(at: int, by: complex) -> float:
        moved = flat.copy()
        moved[at] += by
        changed = [*arrays[:i], moved.reshape(arrays[i].shape), *arrays[i + 1 :]]
        made = _results(op, changed, attrs)
        return float(sum((np.conj(w) * r).real.sum() for r, w in zip(made, weights)))

    for at in places:
        step = STEP * max(1.0, abs(flat[at]))
        expected = (total(at, step) - total(at, -step)) / (2 * step)
        if flat.dtype.kind == "c":
            expected += 1j * (total(at, 1j * step) - total(at, -1j * step)) / (2 * step)
        got = gradient.reshape(-1)[at]
        scale = max(1.0, abs(expected))
        assert abs(got - expected) <= 1e-4 * scale, (
            f"{op.name}: the gradient of {op.operands[i]} at {np.unravel_index(at, arrays[i].shape)} "
            f"is {got:.8g}, and finite differences give {expected:.8g}"
        )


def opcheck(op: Op, *args: Any, rtol: float = 1e-5, atol: float = 1e-6, **kwargs: Any) -> None:
    """Checks an op with these arguments: against its function, at once and compiled.

    Types and values have to be those that the function gives, so a kernel of the op is compared
    with its meaning. It may write to nothing but the memory of its results. Types are also inferred
    with symbols for all sizes. A derivative (`op.gradient`) is compared with finite differences of
    the function in float64, at up to 32 elements of each array: choose arguments at which it is
    smooth. Raises AssertionError with what differs, and what the op raises.
    """

    def listed(result: Any) -> list[Any]:
        return list(result) if isinstance(result, tuple) else [result]

    expected = [np.asarray(r) for r in listed(op.function(*args, **kwargs))]
    names = list(inspect.signature(op.function).parameters)
    given = dict(zip(names, args)) | kwargs
    arrays = [given[n] for n in op.operands]
    others = {n: given[n] for n in op.attrs if n in given}
    symbols = {
        n: tuple(f"{n}{i}" for i in range(np.ndim(np.asarray(a))))
        for n, a in zip(op.operands, arrays)
    }
    # First, for what writes elsewhere may break anything that runs later.
    check_memory(op, [np.asarray(a) for a in arrays], others, expected)
    at_once = [np.asarray(r) for r in listed(op(*args, **kwargs))]
    _compare_results(op, "at once", at_once, expected, rtol, atol)

    source = compile(lambda *xs: op(*xs, **others))
    _compare_results(
        op, "compiled", [np.asarray(r) for r in listed(source(*arrays))], expected, rtol, atol
    )
    trace = GraphTrace(op.name)
    values = [
        trace.argument(value_of(a).dtype, [trace.symbol(s, -1) for s in symbols[n]], n)
        for n, a in zip(op.operands, arrays)
    ]
    with tracing(trace):
        try:
            op(*(Array(v) for v in values), **others)
        except Error as error:
            if error.code != "T0632":  # it needs numbers, which is allowed
                raise
    if op.derivative is not None:
        check_gradient(op, [np.asarray(a) for a in arrays], others)


def _compare_results(op: Op, how: str, mine: Any, expected: Any, rtol: float, atol: float) -> None:
    assert len(mine) == len(expected), (
        f"{op.name} {how}: {len(mine)} results, {len(expected)} expected"
    )
    for i, (a, b) in enumerate(zip(mine, expected)):
        assert a.dtype == b.dtype and a.shape == b.shape, (
            f"{op.name} {how}: result {i} is {a.dtype}{a.shape}, and the function gives "
            f"{b.dtype}{b.shape}"
        )
        np.testing.assert_allclose(
            a, b, rtol=rtol, atol=atol, err_msg=f"{op.name} {how}, result {i}"
        )
