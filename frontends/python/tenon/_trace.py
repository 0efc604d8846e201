"""The tracer: values that are computed later.

Operations on arrays make nodes. While a function is traced (`tenon.compile`, `@tenon.op`), a node
goes into the graph of that trace at once. Otherwise it waits, and is computed together with others
when somebody reads a value. In both cases the op itself infers the types, in the graph table of the
host, so a mistake is an exception at the line that made it.
"""

from __future__ import annotations

import struct
import sys
import threading
import weakref

from tenon import _host, _native
from tenon._dtypes import DType, by_code, element
from tenon._errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, TypeAlias

    Size: TypeAlias = "int | Dim"
    Attrs: TypeAlias = tuple[tuple[str, int, Any], ...]

# Kinds of attributes, as in sdk/tenon/abi/base.h.
I64, F64, STRING, I64S, F64S, STRINGS, DIMS, TYPES, BLOB, DTYPE = range(1, 11)
ATTR_KINDS = {"i64": I64, "f64": F64, "string": STRING, "i64s": I64S, "dims": DIMS, "dtype": DTYPE}

NO, YES, MAYBE = 0, 1, 2
_EQ, _LT, _LE, _DIVISIBLE = 0, 1, 2, 3
_ADD, _SUB, _MUL, _FLOORDIV, _MOD, _MIN, _MAX = 2, 3, 4, 5, 6, 7, 8

NODES_MAX = 64
BYTES_MAX = 1 << 28


class SizeNeeded(Exception):
    """Python asked for the number behind a symbolic size: the function is traced with numbers."""


class Dim:
    """A size that is known when the program runs. Computes like an int.

    A comparison whose answer depends on the size, and `int(dim)`, end the trace; the function is
    then compiled for each size.
    """

    __slots__ = ("trace", "raw")

    def __init__(self, trace: GraphTrace, raw: int):
        self.trace = trace
        self.raw = raw

    def _binary(self, op: int, a: object, b: object) -> Size:
        left, right = self.trace.raw(a), self.trace.raw(b)
        if left is None or right is None:
            return NotImplemented  # type: ignore[no-any-return]
        return self.trace.size(self.trace.native.dim(op, left, right))

    def __add__(self, other: object) -> Size:
        return self._binary(_ADD, self, other)

    def __radd__(self, other: object) -> Size:
        return self._binary(_ADD, other, self)

    def __sub__(self, other: object) -> Size:
        return self._binary(_SUB, self, other)

    def __rsub__(self, other: object) -> Size:
        return self._binary(_SUB, other, self)

    def __mul__(self, other: object) -> Size:
        return self._binary(_MUL, self, other)

    def __rmul__(self, other: object) -> Size:
        return self._binary(_MUL, other, self)

    def __floordiv__(self, other: object) -> Size:
        return self._binary(_FLOORDIV, self, other)

    def __mod__(self, other: object) -> Size:
        return self._binary(_MOD, self, other)

    def __neg__(self) -> Size:
        return self._binary(_SUB, 0, self)

    def _decide(self, relation: int, a: object, b: object) -> bool:
        left, right = self.trace.raw(a), self.trace.raw(b)
        if left is None or right is None:
            return NotImplemented  # type: ignore[no-any-return]
        answer = self.trace.native.compare(relation, left, right)
        if answer == MAYBE:
            raise SizeNeeded
        return answer == YES

    def __eq__(self, other: object) -> bool:
        return self._decide(_EQ, self, other)

    def __lt__(self, other: object) -> bool:
        return self._decide(_LT, self, other)

    def __le__(self, other: object) -> bool:
        return self._decide(_LE, self, other)

    def __gt__(self, other: object) -> bool:
        return self._decide(_LT, other, self)

    def __ge__(self, other: object) -> bool:
        return self._decide(_LE, other, self)

    def __bool__(self) -> bool:
        return not self._decide(_EQ, self, 0)

    def __index__(self) -> int:
        raise SizeNeeded

    __int__ = __float__ = __index__
    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return self.trace.dim_text(self.raw)


def same(a: Size, b: Size) -> int:
    """YES, NO or MAYBE: whether two sizes are equal."""
    if isinstance(a, Dim):
        right = a.trace.raw(b)
        assert right is not None
        return a.trace.native.compare(_EQ, a.raw, right)
    if isinstance(b, Dim):
        return same(b, a)
    return YES if a == b else NO


def smaller(a: Size, b: Size) -> Size:
    """The smaller of two sizes."""
    if isinstance(a, Dim):
        return a._binary(_MIN, a, b)
    if isinstance(b, Dim):
        return b._binary(_MIN, a, b)
    return min(a, b)


def larger(a: Size, b: Size) -> Size:
    """The larger of two sizes."""
    if isinstance(a, Dim):
        return a._binary(_MAX, a, b)
    if isinstance(b, Dim):
        return b._binary(_MAX, a, b)
    return max(a, b)


class Value:
    """An immutable value: of a trace, waiting, or computed. Arrays are names of values."""

    __slots__ = ("dtype", "shape", "trace", "id", "node", "index", "data", "handles", "constant", "__weakref__")

    def __init__(self, dtype: DType, shape: tuple[Size, ...]):
        self.dtype = dtype
        self.shape = shape
        self.trace: GraphTrace | None = None
        self.id = -1
        self.node: _Node | None = None
        self.index = 0
        self.data: Any = None  # a tenon.Tensor, or a number of Python for an operand without axes
        self.handles = 0  # arrays that are names of it
        self.constant: Any = None  # the number, if all elements are this one


class _Node:
    """An operation that waits."""

    __slots__ = ("op", "attrs", "operands", "results", "count", "bytes", "size", "spread")

    def __init__(
        self,
        op: str,
        attrs: Attrs,
        operands: tuple[Value | None, ...],
        spread: tuple[int, ...] | None = None,
    ):
        self.op = op
        self.attrs = attrs
        self.operands = operands
        # Weak, so that what nobody needs goes at once, with the memory that it would read.
        self.results: list[weakref.ref[Value]] = []
        self.size = 0  # bytes of the results
        self.count = 1  # nodes that wait for it, itself included: a bound
        self.bytes = 0
        self.spread = spread  # the shape that all operands are repeated to first


# ---- Graphs under construction ----


class GraphTrace:
    """A graph that grows while a function is traced."""

    def __init__(self, name: str = "f", native: _native.Trace | None = None):
        _host.open()
        self.native = native if native is not None else _native.Trace(name)
        self._seen: dict[int, tuple[Value, Value]] = {}
        self._line: tuple[str, int] | None = None
        self.symbols: dict[object, Size] = {}
        self.locate = native is None
        self.numbers: dict[int, str] = {}  # arguments that are numbers: names of parameters by id
        self.narrowed: dict[tuple[int, DType], str] = {}  # by value and integer type: the line

    def narrow(self, value: Value, dtype: DType) -> None:
        """Notes that a number takes an integer type. Who runs the program checks the range."""
        line = user_line()
        self.narrowed.setdefault((value.id, dtype), f"{line[0]}:{line[1]}" if line else "")

    def size(self, raw: int) -> Size:
        return raw if raw >= 0 else Dim(self, raw)

    def raw(self, size: object) -> int | None:
        """The host's number of a size; None for what is none. Negative ones are expressions."""
        if isinstance(size, Dim):
            return size.raw
        if not isinstance(size, int):
            return None
        return int(size) if size >= 0 else self.native.dim(_SUB, 0, -size)

    def symbol(self, name: object, hint: int) -> Size:
        """The symbol of this name, made once."""
        if name not in self.symbols:
            self.symbols[name] = self.size(self.native.symbol(str(name), hint))
        return self.symbols[name]

    def dim_text(self, raw: int) -> str:
        if raw >= 0:
            return str(raw)
        op, a, b, constant, name = self.native.dim_parts(raw)
        if op == 0:
            return str(constant)
        if op == 1:
            return name
        left, right = self.dim_text(a), self.dim_text(b)
        if op in (_MIN, _MAX):
            return f"{'min' if op == _MIN else 'max'}({left}, {right})"
        sign = {_ADD: " + ", _MUL: "*", _FLOORDIV: " // ", _MOD: " % "}[op]
        return f"{left}{sign}{right}" if op == _MUL else f"({left}{sign}{right})"

    def wrap(self, result: tuple[int, str, tuple[int, ...]]) -> Value:
        id, code, dims = result
        value = Value(by_code[code], tuple(map(self.size, dims)))
        value.trace, value.id = self, id
        return value

    def argument(self, dtype: DType, shape: Sequence[Size], name: str) -> Value:
        raw = [s.raw if isinstance(s, Dim) else s for s in shape]
        return self.wrap(self.native.type_of(self.native.argument(dtype.code, raw, name)))

    def constant(self, dtype: DType, shape: Sequence[int], data: bytes) -> Value:
        return self.wrap(self.native.type_of(self.native.constant(dtype.code, list(shape), data)))

    def id_of(self, value: Value) -> int:
        """The number of a value in this graph; values from outside become constants."""
        if value.trace is self:
            return value.id
        if value.trace is not None:
            raise UsageError(
                "this array belongs to another function that is being traced, or to one that has "
                "returned. Pass it as an argument, and return it as a result.",
                "T0627",
            )
        known = self._seen.get(id(value))
        if known is None:
            known = self._seen[id(value)] = (value, self._import(value))
        return known[1].id

    def _import(self, value: Value) -> Value:
        evaluate((value,))
        if isinstance(value.data, (bool, int, float)):
            return self.constant(value.dtype, (), element(value.dtype, value.data))
        shape = tuple(int(s) for s in value.shape)
        data = memoryview(value.data).cast("B").tobytes() if 0 not in shape else b""
        return self.constant(value.dtype, shape, data)

    def emit(self, op: str, operands: Sequence[Value | None], attrs: Attrs) -> tuple[Value, ...]:
        if self.locate:
            self._locate()
        ids = [None if v is None else self.id_of(v) for v in operands]
        raw = [(name, kind, _raw_attr(kind, value)) for name, kind, value in attrs]
        return tuple(map(self.wrap, self.native.node(op, ids, raw)))

    def _locate(self) -> None:
        line = user_line()
        if line is not None and line != self._line:
            self._line = line
            self.native.location(*line)


def _raw_attr(kind: int, value: Any) -> Any:
    if kind == DIMS:
        return [s.raw if isinstance(s, Dim) else int(s) for s in value]
    if kind in (I64S, F64S):
        return list(value)
    return value.code if isinstance(value, DType) else value


def user_line() -> tuple[str, int] | None:
    """File and line of the innermost frame outside of this package."""
    frame = sys._getframe(1)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module != "tenon" and not module.startswith("tenon."):
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back  # type: ignore[assignment]
    return None


# ---- Which trace ----


class _Local(threading.local):
    def __init__(self) -> None:
        self.traces: list[GraphTrace] = []
        self.device = ""
        self.passes = 0  # passes in Python that are running


_local = _Local()


def active() -> GraphTrace | None:
    """The graph that this thread traces into, if any."""
    return _local.traces[-1] if _local.traces else None


class tracing:
    """`with tracing(trace):` all operations of this thread go into the trace."""

    def __init__(self, trace: GraphTrace):
        self.trace = trace

    def __enter__(self) -> GraphTrace:
        _local.traces.append(self.trace)
        return self.trace

    def __exit__(self, *error: object) -> None:
        _local.traces.pop()


class in_pass:
    """`with in_pass():` this thread runs a pass, and compiles nothing, which would run it again."""

    def __enter__(self) -> None:
        _local.passes += 1

    def __exit__(self, *error: object) -> None:
        _local.passes -= 1


def refuse_in_pass() -> None:
    """UsageError if this thread runs a pass."""
    if _local.passes:
        raise UsageError(
            "a pass cannot compute values: that compiles, which runs the pass again. Compute the "
            "array before the pass runs, and look at it once (x.tolist()), or write the operation "
            "inside of `with graph.before(node)`.",
            "T0631",
        )


def default_device() -> str:
    """The device of arrays that name none: TENON_DEVICE, or "cpu"."""
    import os

    return os.environ.get("TENON_DEVICE") or "cpu"


# ---- Waiting operations ----

_types: dict[object, list[tuple[DType, tuple[int, ...]]] | None] = {}


def _attrs_key(attrs: Attrs) -> Attrs:
    """Attributes as part of a key. Floats are their bits: 0.0 equals -0.0, and NaN not itself."""
    if not any(kind in (F64, F64S) for _, kind, _ in attrs):
        return attrs
    return tuple((name, kind, _float_bits(value)) for name, kind, value in attrs)


def _float_bits(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return tuple(map(_float_bits, value))
    return struct.pack("<d", value) if isinstance(value, float) else value


def _infer(op: str, operands: Sequence[Value | None], attrs: Attrs) -> Any:
    """Types of the results, from the op itself; None if they depend on data."""
    key = (op, _attrs_key(attrs), tuple(None if v is None else (v.dtype, v.shape) for v in operands))
    try:
        return _types[key]
    except KeyError:
        pass
    trace = GraphTrace("infer")
    trace.locate = False
    given = [
        None if v is None else trace.argument(v.dtype, v.shape, f"a{i}")
        for i, v in enumerate(operands)
    ]
    results = trace.emit(op, given, attrs)
    known: Any = [(r.dtype, r.shape) for r in results]
    if any(isinstance(s, Dim) for r in results for s in r.shape):
        known = None
    if len(_types) > 20000:
        _types.clear()
    _types[key] = known
    return known


generation = 0  # grows when an op is registered


def forget_types() -> None:
    """After an op was registered again: what was inferred may be different now."""
    global generation
    generation += 1
    _types.clear()
    _programs.clear()


def emit(op: str, operands: Sequence[Value | None], attrs: Attrs = ()) -> tuple[Value, ...]:
    """Adds a node to the trace of this thread, or lets it wait. Its results."""
    traces = _local.traces
    if traces:
        return traces[-1].emit(op, operands, attrs)
    types = _infer(op, operands, attrs)
    node = _Node(op, attrs, tuple(operands))
    return _wait(node, types) if types is not None else _run_now(node)


def emit_spread(op: str, operands: tuple[Value, ...], shape: tuple[Any, ...]) -> Value:
    """A node that waits, whose operands are repeated to one shape first. Not while tracing."""
    key = (op, operands[0].dtype, shape)
    types = _types.get(key)
    if types is None:
        alike = []
        for operand in operands:
            value = Value(operand.dtype, shape)
            value.data = operand.data
            alike.append(value)
        types = _types[key] = _infer(op, alike, ())
    return _wait(_Node(op, (), operands, shape), types)[0]


def _wait(node: _Node, types: Any) -> tuple[Value, ...]:
    """Results of a node that is computed later, or now if much waits."""
    count, size = 1, 0
    for operand in node.operands:
        if operand is None:
            continue
        if operand.trace is not None:
            raise UsageError(
                "this array was kept from a function that was traced and has returned. Return it "
                "from the function.",
                "T0627",
            )
        before = operand.node
        if before is not None:
            count += before.count
            size += before.bytes
    made: list[Value] = []
    for i, (dtype, shape) in enumerate(types):
        value = Value(dtype, shape)
        value.node, value.index = node, i
        node.results.append(weakref.ref(value))
        node.size += _bytes(value)
        made.append(value)
    size += node.size
    node.count, node.bytes = count, size
    results = tuple(made)
    if count >= NODES_MAX or size >= BYTES_MAX:
        node.count, node.bytes = _count(results[0])
        if node.count >= NODES_MAX or node.bytes >= BYTES_MAX:
            evaluate(results)
    return results


def _count(value: Value) -> tuple[int, int]:
    """How many nodes wait for this one, itself included, and the bytes of their results."""
    nodes: set[int] = set()
    stack, size = [value], 0
    while stack:
        node = stack.pop().node
        if node is None or id(node) in nodes:
            continue
        nodes.add(id(node))
        size += node.size
        stack.extend(v for v in node.operands if v is not None)
    return len(nodes), size


def _bytes(value: Value) -> int:
    total = value.dtype.bits // 8
    for size in value.shape:
        total *= size  # type: ignore[assignment]
    return total


def _run_now(node: _Node) -> tuple[Value, ...]:
    """An operation whose sizes depend on data is computed at once."""
    refuse_in_pass()
    operands = [v for v in node.operands if v is not None]
    evaluate(operands)
    trace = GraphTrace("eager")
    given = iter([trace.argument(v.dtype, v.shape, f"a{i}") for i, v in enumerate(operands)])
    results = trace.emit(
        node.op, [None if v is None else next(given) for v in node.operands], node.attrs
    )
    key = (node.op, _attrs_key(node.attrs), tuple((v.dtype, v.shape) for v in operands), default_device())
    program = _programs.get(key)
    if program is None:
        program = _programs[key] = _compile(trace, results)
    out = []
    for tensor in program.run_as(tuple(v.data for v in operands), {}, "tensor", []):
        value = Value(by_code[tensor.dtype], tensor.shape)
        value.data = tensor
        out.append(value)
    return tuple(out)


def _compile(trace: GraphTrace, results: Sequence[Value], device: str = "") -> _native.Program:
    names = [f"y{i}" for i in range(len(results))]
    graph = trace.native.finish([r.id for r in results], names)
    return _native.Program(graph, device or default_device(), False, False, [], [])


_programs: dict[object, _native.Program] = {}


class _Plan:
    """What is to be computed: nodes in order, what they read, and what somebody still names."""

    def __init__(self, wanted: Sequence[Value]):
        self.nodes: list[_Node] = []
        self.leaves: list[Value] = []
        self.outputs: list[Value] = []
        self._numbers: dict[int, int] = {}  # id of a value: its number in the key
        self._placed: set[int] = set()
        for value in wanted:
            self._visit(value)
        named = {id(v) for v in wanted}
        for node in self.nodes:
            for reference in node.results:
                result = reference()
                if result is not None and (result.handles or id(result) in named):
                    self.outputs.append(result)
        self.key = self._key()

    def _visit(self, root: Value) -> None:
        """Operands before nodes, without recursion."""
        stack = [root]
        while stack:
            value = stack[-1]
            node = value.node
            if value.data is not None or node is None:
                if id(value) not in self._numbers:
                    self._numbers[id(value)] = -1 - len(self.leaves)
                    self.leaves.append(value)
                stack.pop()
                continue
            if id(node) in self._placed:
                stack.pop()
                continue
            missing = [v for v in node.operands if v is not None and not self._known(v)]
            if missing:
                stack.extend(missing)
                continue
            self._place(node)
            stack.pop()

    def _known(self, value: Value) -> bool:
        return id(value) in self._numbers

    def _place(self, node: _Node) -> None:
        self._placed.add(id(node))
        for reference in node.results:
            value = reference()
            if value is not None:
                self._numbers.setdefault(id(value), len(self.nodes) * 16 + value.index)
        self.nodes.append(node)

    def _key(self) -> object:
        number = self._numbers
        nodes = tuple(
            (n.op, _attrs_key(n.attrs), n.spread, tuple([None if v is None else number[id(v)] for v in n.operands]))
            for n in self.nodes
        )
        leaves = tuple((v.dtype, v.shape) for v in self.leaves)
        return nodes, leaves, tuple(number[id(v)] for v in self.outputs), default_device()

    def program(self) -> _native.Program:
        found = _programs.get(self.key)
        if found is None:
            if len(_programs) >= 4096:
                _programs.clear()
            found = _programs[self.key] = self._build()
        return found

    def _build(self) -> _native.Program:
        trace = GraphTrace("eager")
        trace.locate = False
        made: dict[int, Value] = {}
        for i, leaf in enumerate(self.leaves):
            made[id(leaf)] = trace.argument(leaf.dtype, leaf.shape, f"a{i}")
        for node in self.nodes:
            operands = [None if v is None else made[id(v)] for v in node.operands]
            if node.spread is not None:
                operands = [v and _spread(trace, v, node.spread) for v in operands]
            for old, new in zip(node.results, trace.emit(node.op, operands, node.attrs)):
                value = old()
                if value is not None:
                    made.setdefault(id(value), new)
        return _compile(trace, [made[id(v)] for v in self.outputs])


def _spread(trace: GraphTrace, value: Value, shape: tuple[int, ...]) -> Value:
    if value.shape == shape:
        return value
    return trace.emit("broadcast", (value,), (("shape", DIMS, shape),))[0]


def evaluate(values: Sequence[Value]) -> None:
    """Computes values that wait, and all that they need, in one program."""
    pending = [v for v in values if v.data is None]
    if not pending:
        return
    for value in pending:
        if value.trace is not None:
            raise unknown(value)
    refuse_in_pass()
    plan = _Plan(pending)
    inputs = tuple(v.data for v in plan.leaves)
    results = plan.program().run_as(inputs, {}, "tensor", [])
    for value, tensor in zip(plan.outputs, results):
        value.data = tensor
        value.node = None


def unknown(value: Value) -> UsageError:
    """What to raise if somebody looks at a value of a trace."""
    name = value.trace.numbers.get(value.id) if value.trace is not None else None
    if name is not None:
        return UsageError(
            f"the number {name!r} is known only when the compiled program runs, and Python needs it "
            f"now, as for an axis, a shape or an if. tenon.compile(f, static=({name!r},)) makes it a "
            "constant, for each value of which there is a program.",
            "T0628",
        )
    return UsageError(
        "a function that is traced cannot look at the values of its arrays, as with float(x), "
        "bool(x), x.numpy() or an if on x: they are known when the compiled program runs. Use "
        "xp.where, or compute this outside of the function.",
        "T0628",
    )
