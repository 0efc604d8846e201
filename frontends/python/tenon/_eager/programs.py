"""Programs of flushes: from waiting operations to a graph, with numbers or symbols as sizes."""

from __future__ import annotations

import struct
from typing import NamedTuple

from tenon import _native
from tenon.builder import ops
from tenon.builder.dtypes import DType
from tenon.builder.trace import DIMS, GraphTrace, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any, TypeAlias

    from tenon._eager.families import Pattern
    from tenon.builder.trace import Attrs, Size

    # -1, -2, ...: leaves; (node, result); None: absent.
    Number: TypeAlias = "int | tuple[int, int] | None"
    FlushNode: TypeAlias = "tuple[str, Attrs, tuple[Size, ...] | None, tuple[Number, ...]]"

    class Flush(NamedTuple):
        """A plain tuple at run time."""

        nodes: list[FlushNode]  # in order
        leaves: list[tuple[DType, tuple[Size, ...]]]
        outputs: list[Number]  # empty: all results of the last node
        shapes: list[tuple[int, ...]]  # of the outputs; empty where they depend on data


_counts = [0, 0]  # compilations, and those with symbols


class EagerCounts(NamedTuple):
    """What operations at once have done in this process."""

    runs: int
    """How often waiting operations were computed."""
    compilations: int
    """How many programs were compiled for them."""
    with_symbols: int
    """How many of these serve more than one size."""


def eager_counts() -> EagerCounts:
    """How often waiting operations were computed, and how many programs were compiled for them.

    A loop over arrays that grow compiles two programs for each of its structures: one for the first
    sizes, and one for all that follow. Any thread may ask.
    """
    return EagerCounts(_native.flushes(), _counts[0], _counts[1])


def compile(
    flush: Flush, device: str, pattern: Pattern | None = None
) -> tuple[_native.Program, dict[str, int]]:
    """The program of a flush, and where the sizes are that a call has to give."""
    trace = GraphTrace("eager")
    trace.locate = False
    free: dict[str, int] = {}
    if pattern is not None:
        flush, free = _with_symbols(trace, flush, pattern)
    results = _build(trace, flush)
    names = [f"y{i}" for i in range(len(results))]
    graph = trace.native.finish([r.id for r in results], names)
    program = _native.Program(graph, device, False, False, [], [])
    _counts[0] += 1
    _counts[1] += pattern is not None
    return program, free


def _with_symbols(
    trace: GraphTrace, flush: Flush, pattern: Pattern
) -> tuple[Flush, dict[str, int]]:
    of_inputs = sum(len(shape) for _, shape in flush[1])
    free: dict[str, int] = {}
    sizes: list[Size] = []
    for at, (symbol, size) in enumerate(zip(pattern.symbols, pattern.sizes)):
        if symbol is None:
            sizes.append(size)
            continue
        name = f"s{symbol}"
        if at >= of_inputs and name not in trace.symbols:  # inputs come first
            free[name] = at
        sizes.append(trace.symbol(name, size))
    return with_sizes(flush, iter(sizes)), free


def _build(trace: GraphTrace, flush: Flush) -> list[Value]:
    """The nodes of a flush in a graph. Its outputs."""
    nodes, leaves, outputs, _ = flush
    given = [trace.argument(dtype, shape, f"a{i}") for i, (dtype, shape) in enumerate(leaves)]
    made: list[tuple[Value, ...]] = []

    def value(number: Number) -> Value | None:
        if number is None:
            return None
        return given[-1 - number] if isinstance(number, int) else made[number[0]][number[1]]

    for op, attrs, spread, numbers in nodes:
        operands = [value(n) for n in numbers]
        if spread is not None:
            operands = [v and _spread(trace, v, spread) for v in operands]
        made.append(trace.emit(op, operands, attrs))
    return [v for v in map(value, outputs) if v is not None] if outputs else list(made[-1])


def _spread(trace: GraphTrace, value: Value, shape: tuple[Size, ...]) -> Value:
    if ops.same_shape(value.shape, shape):
        return value
    return trace.emit("broadcast", (value,), (("shape", DIMS, shape),))[0]


def bits(value: Any) -> Any:
    """A key in which floats are their bits: 0.0 equals -0.0, and NaN not itself."""
    if isinstance(value, tuple):
        return tuple(map(bits, value))
    return struct.pack("<d", value) if isinstance(value, float) else value


def with_sizes(flush: Flush, sizes: Iterator[Size]) -> Flush:
    """The same flush with other sizes."""
    nodes, leaves, outputs, shapes = flush

    def some(old: Sequence[object]) -> tuple[Size, ...]:
        return tuple(next(sizes) for _ in old)

    new_leaves = [(dtype, some(shape)) for dtype, shape in leaves]
    new_nodes = []
    for op, attrs, spread, numbers in nodes:
        new_spread = None if spread is None else some(spread)
        new_attrs = tuple((n, k, some(v) if k == DIMS else v) for n, k, v in attrs)
        new_nodes.append((op, new_attrs, new_spread, numbers))
    made: Any = (new_nodes, new_leaves, outputs, shapes)
    return made  # type: ignore[no-any-return]
