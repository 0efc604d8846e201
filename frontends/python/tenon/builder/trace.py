"""The tracer: values that are computed later.

Operations on arrays make nodes. While a function is traced (`tenon.compile`, `@tenon.op`), a node
goes into the graph of that trace at once. Otherwise it waits, and is computed together with others
when a value is read. In both cases the op itself infers the types, in the graph table of the
host, so a mistake is an exception at the line that made it.
"""

from __future__ import annotations

import sys
import threading

from tenon import _host, _native
from tenon._errors import UsageError
from tenon.builder.dtypes import DType, by_code, element

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeAlias

    Size: TypeAlias = "int | Dim"
    Attrs: TypeAlias = tuple[tuple[str, int, Any], ...]

# Kinds of attributes, as in sdk/tenon/abi/base.h.
I64, F64, STRING, I64S, F64S, STRINGS, DIMS, TYPES, BLOB, DTYPE = range(1, 11)
ATTR_KINDS = {"i64": I64, "f64": F64, "string": STRING, "i64s": I64S, "dims": DIMS, "dtype": DTYPE}

# Answers about sizes.
NO, YES, MAYBE = 0, 1, 2
# Relations that `GraphTrace.native.compare` takes, and expressions of `GraphTrace.native.dim`.
EQ, LT, LE, DIVISIBLE = 0, 1, 2, 3
ADD, SUB, MUL, FLOORDIV, MOD, MIN, MAX = 2, 3, 4, 5, 6, 7, 8


class SizeNeeded(Exception):
    """Python asked for the number of a symbolic size: the function is traced with numbers."""


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
        return self._binary(ADD, self, other)

    def __radd__(self, other: object) -> Size:
        return self._binary(ADD, other, self)

    def __sub__(self, other: object) -> Size:
        return self._binary(SUB, self, other)

    def __rsub__(self, other: object) -> Size:
        return self._binary(SUB, other, self)

    def __mul__(self, other: object) -> Size:
        return self._binary(MUL, self, other)

    def __rmul__(self, other: object) -> Size:
        return self._binary(MUL, other, self)

    def __floordiv__(self, other: object) -> Size:
        return self._binary(FLOORDIV, self, other)

    def __mod__(self, other: object) -> Size:
        return self._binary(MOD, self, other)

    def __neg__(self) -> Size:
        return self._binary(SUB, 0, self)

    def _decide(self, relation: int, a: object, b: object) -> bool:
        left, right = self.trace.raw(a), self.trace.raw(b)
        if left is None or right is None:
            return NotImplemented  # type: ignore[no-any-return]
        answer = self.trace.native.compare(relation, left, right)
        if answer == MAYBE:
            raise SizeNeeded
        return answer == YES

    def __eq__(self, other: object) -> bool:
        return self._decide(EQ, self, other)

    def __lt__(self, other: object) -> bool:
        return self._decide(LT, self, other)

    def __le__(self, other: object) -> bool:
        return self._decide(LE, self, other)

    def __gt__(self, other: object) -> bool:
        return self._decide(LT, other, self)

    def __ge__(self, other: object) -> bool:
        return self._decide(LE, other, self)

    def __bool__(self) -> bool:
        return not self._decide(EQ, self, 0)

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
        return a.trace.native.compare(EQ, a.raw, right)
    if isinstance(b, Dim):
        return same(b, a)
    return YES if a == b else NO


def smaller(a: Size, b: Size) -> Size:
    """The smaller of two sizes."""
    if isinstance(a, Dim):
        return a._binary(MIN, a, b)
    if isinstance(b, Dim):
        return b._binary(MIN, a, b)
    return min(a, b)


def larger(a: Size, b: Size) -> Size:
    """The larger of two sizes."""
    if isinstance(a, Dim):
        return a._binary(MAX, a, b)
    if isinstance(b, Dim):
        return b._binary(MAX, a, b)
    return max(a, b)


# Immutable: of a trace, waiting, or computed. Arrays are names of values (native/eager/values.h).
Value = _native.Value


# ---- Graphs under construction ----


class GraphTrace:
    """A graph that grows while a function is traced."""

    def __init__(
        self,
        name: str = "f",
        native: _native.Trace | None = None,
        outer: GraphTrace | None = None,
        lifts: bool = False,
    ):
        """`outer`: a trace whose values may be used; they become inputs of this graph. `lifts`: so do arrays
        that have values already, which are constants otherwise."""
        _host.open()
        self.outer = outer
        self.inputs: list[tuple[Value, Value]] = []
        """Values of outer traces, and the inputs of this graph that stand for them."""
        self.native = native if native is not None else _native.Trace(name)
        self._seen: dict[int, tuple[Value, Value]] = {}
        self.lifted: list[tuple[Value, Value]] | None = [] if lifts else None
        """Arrays with values, and the inputs of this graph that stand for them."""
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
        """The size of a number of the host: an int, or a `Dim` for an expression."""
        return raw if raw >= 0 else Dim(self, raw)

    def raw(self, size: object) -> int | None:
        """The host's number of a size; None for other objects. Negative ones are expressions."""
        if isinstance(size, Dim):
            if size.trace is not self and self._is_outer(size.trace):
                inner = self.size_from(size)
                return inner.raw if isinstance(inner, Dim) else inner
            return size.raw
        if not isinstance(size, int):
            return None
        return int(size) if size >= 0 else self.native.dim(SUB, 0, -size)

    def symbol(self, name: object, hint: int, text: str = "") -> Size:
        """The symbol of this name, made once. `text` is its name in the graph, if that is another one."""
        if name not in self.symbols:
            label = "".join(c if c.isalnum() else "_" for c in text) or str(name)
            self.symbols[name] = self.size(self.native.symbol(label, hint))
        return self.symbols[name]

    def attribute(self, kind: int, value: Any) -> Any:
        """The value of a node's attribute as users see it: sizes instead of the host's numbers."""
        if kind == DIMS:
            return tuple(map(self.size, value))
        if kind == TYPES:
            return tuple((dtype, tuple(map(self.size, dims))) for dtype, dims in value)
        return value

    def dim_text(self, raw: int) -> str:
        """A number of the host as text, such as "(n + 1)"."""
        if raw >= 0:
            return str(raw)
        op, a, b, constant, name = self.native.dim_parts(raw)
        if op == 0:
            return str(constant)
        if op == 1:
            return name
        left, right = self.dim_text(a), self.dim_text(b)
        if op in (MIN, MAX):
            return f"{'min' if op == MIN else 'max'}({left}, {right})"
        sign = {ADD: " + ", MUL: "*", FLOORDIV: " // ", MOD: " % "}[op]
        return f"{left}{sign}{right}" if op == MUL else f"({left}{sign}{right})"

    def wrap(self, result: tuple[int, str, tuple[int, ...]]) -> Value:
        """The value of what the host says of a result: its number, element type and sizes."""
        id, code, dims = result
        value = Value(by_code[code], tuple(map(self.size, dims)))
        value.trace, value.id = self, id
        return value

    def argument(self, dtype: DType, shape: Sequence[Size], name: str) -> Value:
        """Adds an argument of the graph."""
        raw = [s.raw if isinstance(s, Dim) else s for s in shape]
        return self.wrap(self.native.type_of(self.native.argument(dtype.code, raw, name)))

    def constant(self, dtype: DType, shape: Sequence[int], data: bytes) -> Value:
        """Adds a constant. `data` has its elements in row-major order."""
        return self.wrap(self.native.type_of(self.native.constant(dtype.code, list(shape), data)))

    def id_of(self, value: Value) -> int:
        """The number of a value in this graph; values from outside become constants."""
        if value.trace is self:
            return value.id
        if self._is_outer(value.trace):
            return self._input_for(value).id
        if value.trace is not None:
            raise UsageError(
                "this array belongs to another function that is being traced, or to one that has "
                "returned. Pass it as an argument, and return it as a result.",
                "T0627",
            )
        known = self._seen.get(id(value))
        if known is None:
            known = self._seen[id(value)] = (value, self._import(value))
        return self.id_of(known[1])

    def _is_outer(self, trace: GraphTrace | None) -> bool:
        outer = self.outer
        while outer is not None and trace is not None:
            if outer is trace:
                return True
            outer = outer.outer
        return False

    def _input_for(self, value: Value) -> Value:
        for known, inner in self.inputs:
            if known.trace is value.trace and known.id == value.id:
                return inner
        shape = [self.size_from(s) for s in value.shape]
        raw = [s.raw if isinstance(s, Dim) else s for s in shape]
        number = self.native.input(value.dtype.code, raw, f"captured{len(self.inputs)}")
        inner = self.wrap(self.native.type_of(number))
        self.inputs.append((value, inner))
        return inner

    def size_from(self, size: Size) -> Size:
        """A size of an outer trace in this one: a symbol for each expression."""
        if not isinstance(size, Dim) or size.trace is self:
            return size
        return self.symbol((id(size.trace), size.raw), -1, repr(size))

    def _import(self, value: Value) -> Value:
        evaluate((value,))
        if isinstance(value.data, (bool, int, float, complex)):
            return self.constant(value.dtype, (), element(value.dtype, value.data))
        outermost = self
        while outermost.outer is not None:
            outermost = outermost.outer
        if outermost.lifted is not None:
            return outermost._lift(value)
        shape = tuple(int(s) for s in value.shape)
        data = memoryview(value.data).cast("B").tobytes() if 0 not in shape else b""
        return self.constant(value.dtype, shape, data)

    def _lift(self, value: Value) -> Value:
        """The input that stands for an array with a value."""
        known = self._seen.get(id(value))
        if known is None:
            assert self.lifted is not None
            dims = [int(s) for s in value.shape]
            number = self.native.input(value.dtype.code, dims, f"lifted{len(self.lifted)}")
            known = self._seen[id(value)] = (value, self.wrap(self.native.type_of(number)))
            self.lifted.append(known)
        return known[1]

    def emit(
        self, op: str, operands: Sequence[Value | None], attrs: Attrs, regions: Sequence[int] = ()
    ) -> tuple[Value, ...]:  # fmt: skip
        """Adds a node. Its results have the types that the op infers. Raises UsageError if it has none."""
        if self.locate:
            self._locate()
        ids = [None if v is None else self.id_of(v) for v in operands]
        raw = [(name, kind, _raw_attr(kind, value)) for name, kind, value in attrs]
        try:
            made = self.native.node(op, ids, raw, regions)
        except UsageError as error:
            raise _of_ended(error) from None
        return tuple(map(self.wrap, made))

    def region(self, types: Sequence[Value], body: Callable[..., Sequence[Value]]) -> int:
        """A region for `emit`, with arguments of these values' types: what `body` makes of them."""
        return self.region_of(types, body)[0]

    def region_of(
        self, types: Sequence[Value], body: Callable[..., Sequence[Value]]
    ) -> tuple[int, Sequence[Value]]:
        """As `region`, and what the region yields."""
        number = self.native.begin_region()
        made: Sequence[Value] = ()
        try:
            made = body(*[self.argument(v.dtype, v.shape, "") for v in types])
        finally:
            self._end_region(made)
        return number, made

    def _end_region(self, made: Sequence[Value]) -> None:
        ids: list[int] = []
        try:
            ids = [self.id_of(v) for v in made]
        finally:
            try:
                self.native.end_region(ids)
            except UsageError as error:
                raise _of_ended(error) from None

    def _locate(self) -> None:
        line = user_line()
        if line is not None and line != self._line:
            self._line = line
            self.native.location(*line)


def _of_ended(error: UsageError) -> UsageError:
    """The same error; for users, a value of a region that has ended is one of another trace."""
    if error.code != "T0314":
        return error
    return UsageError(
        "this array belongs to a branch or to the body of a loop that has ended. Return it from "
        "there, and use the result.",
        "T0627",
    )


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
        _native.traces(1)
        return self.trace

    def __exit__(self, *error: object) -> None:
        _native.traces(-1)
        _local.traces.pop()


class in_pass:
    """`with in_pass():` this thread runs a pass, and compiles nothing, which would run it again."""

    def __enter__(self) -> None:
        _local.passes += 1
        _native.passes(1)

    def __exit__(self, *error: object) -> None:
        _local.passes -= 1
        _native.passes(-1)


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


def _infer(op: str, operands: Sequence[Value | None], attrs: Attrs) -> Any:
    """Types of the results, from the op itself; None if they depend on data."""
    trace = GraphTrace("infer")
    trace.locate = False
    given = [
        None if v is None else trace.argument(v.dtype, v.shape, f"a{i}")
        for i, v in enumerate(operands)
    ]
    results = trace.emit(op, given, attrs)
    if any(isinstance(s, Dim) for r in results for s in r.shape):
        return None
    return [(r.dtype, r.shape) for r in results]


_eager: tuple[Callable[..., tuple[Value, ...]], Callable[[], None]] | None = None


def compute_with(run_now: Callable[..., tuple[Value, ...]], forget: Callable[[], None]) -> None:
    """What computes operations at once whose results' sizes depend on data, and what makes it forget.

    It builds graphs with this module, so it puts itself here (`tenon._eager.flush`).
    """
    global _eager
    _eager = run_now, forget


generation = 0  # grows when an op is registered


def forget_types() -> None:
    """After an op was registered again: what was inferred may be different now."""
    global generation
    generation += 1
    _native.forget()
    if _eager is not None:
        _eager[1]()


def emit(op: str, operands: Sequence[Value | None], attrs: Attrs = ()) -> tuple[Value, ...]:
    """Adds a node to the trace of this thread, or lets it wait. Its results."""
    traces = _local.traces
    if traces:
        return traces[-1].emit(op, operands, attrs)
    found = _native.eager(op, operands, attrs)
    while found is None:  # again if another thread makes all be forgotten
        _native.make_room()
        _native.learn(op, operands, attrs, _infer(op, operands, attrs))
        found = _native.eager(op, operands, attrs)
    if isinstance(found, tuple):
        return found
    assert _eager is not None, "operations at once need tenon.xp"
    return _eager[0](op, operands, attrs)


def emit_spread(
    op: str, operands: tuple[Value, ...], shape: tuple[Any, ...], attrs: Attrs = ()
) -> Value:
    """A node that waits, whose operands are repeated to one shape first. Not while tracing."""
    found = _native.eager_spread(op, operands, shape, attrs)
    while found is None:
        _native.make_room()
        alike = [Value(operands[0].dtype, shape) for _ in operands]
        _native.learn(op, alike, attrs, _infer(op, alike, attrs))
        found = _native.eager_spread(op, operands, shape, attrs)
    return found


evaluate = _native.evaluate


def unknown(value: Value) -> UsageError:
    """The exception for reading a value of a trace."""
    name = value.trace.numbers.get(value.id) if value.trace is not None else None
    if name is not None:
        return UsageError(
            f"the number {name!r} is known only when the compiled program runs, and Python needs it "
            f"now, as for an axis, a shape or an if. tenon.compile(f, static=({name!r},)) makes it a "
            "constant, for each value of which there is a program.",
            "T0628",
        )
    if _local.passes:
        return UsageError(
            "a pass cannot look at the values of arrays: they are known when a program runs. "
            "graph.numpy(x) gives the elements of a constant.",
            "T0628",
        )
    return UsageError(
        "a function that is traced cannot look at the values of its arrays, as with float(x), "
        "bool(x), x.numpy() or an if on x: they are known when the compiled program runs. Use "
        "xp.where for a choice per element, tenon.cond or tenon.while_loop for one by a value, or compute "
        "this outside of the function.",
        "T0628",
    )
