"""`@tenon.op`: operators whose meaning is a Python function."""

from __future__ import annotations

import functools
import inspect

from tenon import _host, _native
from tenon._errors import ERROR_KINDS, Error, UsageError, place
from tenon.builder import dtypes as dt
from tenon.builder import ops as _values
from tenon.builder import trace as _trace
from tenon.builder.trace import F64, I64, I64S, STRING, Dim, GraphTrace, SizeNeeded, Value, tracing
from tenon.xp._array import Array, operand_like, value_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

_KINDS = {"float": F64, "int": I64, "bool": I64, "str": STRING, "tuple": I64S, "list": I64S}
_NAMES = {F64: "float", I64: "int", STRING: "str", I64S: "tuple"}
_registered_ops: dict[str, Op] = {}


class Op:
    """An operator of this process. Made by `tenon.op`.

    Called with arrays and numbers, it is one node: at once, in functions that are traced, and in
    models whose frontend finds it by name.
    """

    def __init__(self, name: str, function: Callable[..., Any]):
        functools.update_wrapper(self, function)
        self.name = name
        self.function = function
        self.operands: list[str] = []
        self.attrs: dict[str, tuple[int, Any]] = {}
        """Kind and default of each argument that is not an array."""
        self._registered: object = None
        self.kernels: dict[str, dict[str, Any]] = {}  # by device, the element types
        self.results = 1
        self.derivative: Callable[..., Any] | None = None
        """The function of `gradient`, if there is one."""
        self.tangents: Callable[..., Any] | None = None
        """The function of `jvp`, if there is one."""
        for parameter in inspect.signature(function).parameters.values():
            self._add(parameter)
        if not self.operands:
            raise UsageError(f"{name} has no array among its arguments", "T0631")

    def __repr__(self) -> str:
        return f"<tenon.Op {self.signature}>"

    @property
    def signature(self) -> str:
        """Its name and arguments: "demo.scale_shift(x, a: float, b: float = 1.0)"."""
        parts = list(self.operands)
        for name, (kind, default) in self.attrs.items():
            text = f"{name}: {_NAMES[kind]}"
            parts.append(text if default is inspect.Parameter.empty else f"{text} = {default!r}")
        return f"{self.name}({', '.join(parts)})"

    def _add(self, parameter: inspect.Parameter) -> None:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise UsageError(f"{self.name}: *args and **kwargs: not yet", "T0629")
        kind = _kind_of(parameter.annotation)
        if kind is None:
            if self.attrs:
                raise UsageError(
                    f"{self.name}: the array {parameter.name!r} comes after a number; arrays are "
                    "first, and numbers have an annotation (a: float)",
                    "T0631",
                )
            self.operands.append(parameter.name)
        else:
            self.attrs[parameter.name] = kind, parameter.default

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        bound = inspect.signature(self.function).bind(*args, **kwargs)
        bound.apply_defaults()
        given = bound.arguments
        first = next((v for n in self.operands if isinstance(v := given[n], Array)), None)
        arrays = [
            given[n] if first is None else operand_like(given[n], first) for n in self.operands
        ]
        values = [value_of(a) for a in arrays]
        results = tuple(Array(v) for v in self.emit(values, given))
        return results[0] if len(results) == 1 else results

    def emit(self, operands: Sequence[Value], given: Mapping[str, Any]) -> tuple[Value, ...]:
        """Adds a node of this op to the active graph: its operands, and its attributes by name. Its results."""
        attrs = tuple(
            (name, kind, _attr(self.name, name, kind, given[name]))
            for name, (kind, _) in sorted(self.attrs.items())
        )
        return _trace.emit(self.name, operands, attrs)

    @staticmethod
    def registered(name: str) -> Op | None:
        """The op of this name that `tenon.op` registered in this process."""
        return _registered_ops.get(name)

    def kernel(
        self, device: str, *, dtypes: Sequence[str], results: int = 1
    ) -> Callable[[Callable[[], str]], Callable[[], str]]:
        """Adds a kernel in C++ for a device whose memory the host can access, such as "cpu".

            @scale_shift.kernel("cpu", dtypes=["f32"])
            def scale_shift_f32():
                return "void run(const float* x, float a, float b, float* out, int64_t n) {...}"

        The function returns the text of `run`: pointers to the operands, the attributes, pointers to
        the results, and the number of elements. It is freestanding C++ without headers, compiled in
        a helper process now, but run in this one. It is used where all operands and results have
        one shape and type; elsewhere, the function of the op is. UsageError T0631 with the
        compiler's words if it does not compile.
        """

        def add(source: Callable[[], str]) -> Callable[[], str]:
            from tenon import _kernels

            self.results = results
            _kernels.add(self, device, dtypes, source)
            return source

        return add

    def gradient(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Says what the derivative of the op is.

            @scale_shift.gradient
            def scale_shift_gradient(g, x, a, b):
                return g * a

        The function gets the gradient of each result, then the arguments of the op by the same
        names, and returns the gradient of each array among these: one, or a tuple; None where there
        is none. It is a function of arrays like that of the op: `tenon.grad` and `tenon.vjp` use it
        in place of the derivative of the op's function, `op.gradients` runs it, at once or in what
        is traced, and `tenon.opcheck` compares it with finite differences. That of a complex number
        is d/dre + i d/dim, so that factors are conjugates. T0660 for parameters that do not fit.
        """
        self._require_parameters(function, "a gradient takes the gradients of the results")
        self.derivative = function
        self._register()
        return function

    def jvp(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Says what the derivative of the op along tangents is: forward mode.

            @scale_shift.jvp
            def scale_shift_tangent(t, x, a, b):
                return t * a

        The function gets a tangent for each array among the arguments of the op, then these
        arguments, and returns a tangent for each result. `tenon.jvp` uses it in place of the
        derivative of the op's function; so does `tenon.grad`, if there is no `gradient`, for which
        the function must be linear in the tangents. T0660 for parameters that do not fit.
        """
        self._require_parameters(function, "a rule for tangents takes them")
        self.tangents = function
        self._register()
        return function

    def _require_parameters(self, function: Callable[..., Any], what: str) -> None:
        names = list(inspect.signature(function).parameters)
        mine = [*self.operands, *self.attrs]
        if len(names) <= len(mine) or names[len(names) - len(mine) :] != mine:
            raise UsageError(
                f"{self.name}: {what}, then {', '.join(mine)}; this one takes "
                f"{', '.join(names) or 'nothing'}",
                "T0660",
            )

    def _register(self) -> None:
        """Registers the op with what is known of it now."""
        attrs: list[tuple[str, int, bool, object]] = [
            (n, kind, default is inspect.Parameter.empty or kind == I64S, default)
            for n, (kind, default) in self.attrs.items()
        ]
        summary = (
            inspect.getdoc(self.function) or f"The Python function {self.function.__name__}."
        ).splitlines()[0]
        pull = self._pull if self.derivative is not None else None
        jvp = self._push if self.tangents is not None else None
        _native.register_op(
            self.name, summary, self.operands, attrs, self._infer, self._decompose, pull, jvp
        )
        _trace.forget_types()

    def _rule(
        self,
        native: _native.Trace,
        operands: list[int],
        attrs: dict[str, Any],
        given: list[int | None],
        like: list[int],
        run: Callable[..., Sequence[Any]],
    ) -> list[int | None]:
        """A rule in the host's graph: what `run` makes of tangents or cotangents; zeros for None."""
        trace = GraphTrace(self.name, native)
        values = [Array(trace.wrap(native.type_of(id))) for id in operands]
        with tracing(trace):
            filled = [
                Array(
                    _values.like(trace.wrap(native.type_of(other)), 0)
                    if id is None
                    else trace.wrap(native.type_of(id))
                )
                for id, other in zip(given, like)
            ]
            made = run(filled, values, attrs)
            return [None if v is None else trace.id_of(value_of(v)) for v in made]

    def _pull(
        self,
        native: _native.Trace,
        operands: list[int],
        results: list[int],
        attrs: dict[str, Any],
        cotangents: list[int | None],
    ) -> list[int | None]:
        def run(given: list[Array], values: list[Array], attrs: dict[str, Any]) -> Sequence[Any]:
            return self.gradients(tuple(given), *values, **attrs)

        return self._rule(native, operands, attrs, cotangents, results, run)

    def _push(
        self,
        native: _native.Trace,
        operands: list[int],
        results: list[int],
        attrs: dict[str, Any],
        tangents: list[int | None],
    ) -> list[int | None]:
        def run(given: list[Array], values: list[Array], attrs: dict[str, Any]) -> Sequence[Any]:
            assert self.tangents is not None
            made = self.tangents(*given, *values, *(attrs[n] for n in self.attrs))
            out = tuple(made) if isinstance(made, (tuple, list)) else (made,)
            if len(out) != len(results):
                raise UsageError(
                    f"{self.name}: its rule for tangents returned {len(out)} arrays, and the op has "
                    f"{len(results)} results",
                    "T0660",
                )
            return out

        return self._rule(native, operands, attrs, tangents, operands, run)

    def gradients(self, gradients: Any, /, *args: Any, **kwargs: Any) -> tuple[Array | None, ...]:
        """The gradients of the arrays among these arguments, for given ones of the results.

        `gradients` is an array for each result: one, or a tuple. T0660 if the op has no derivative,
        or if it gives another number, type or shape than the arguments have.
        """
        if self.derivative is None:
            raise UsageError(f"{self.name} has no derivative: @op.gradient adds one", "T0660")
        bound = inspect.signature(self.function).bind(*args, **kwargs)
        bound.apply_defaults()
        given = dict(bound.arguments)
        for name in self.operands:
            given[name] = Array(value_of(given[name]))
        listed = gradients if isinstance(gradients, (tuple, list)) else (gradients,)
        upstream = [Array(value_of(g)) for g in listed]
        try:
            made = self.derivative(*upstream, *(given[n] for n in (*self.operands, *self.attrs)))
        except TypeError as error:
            raise UsageError(f"{self.name}: its gradient: {error}", "T0660") from error
        out = tuple(made) if isinstance(made, (tuple, list)) else (made,)
        if len(out) != len(self.operands):
            raise UsageError(
                f"{self.name}: its gradient returned {len(out)} arrays, and there are "
                f"{len(self.operands)}: {', '.join(self.operands)}",
                "T0660",
            )
        for name, g in zip(self.operands, out):
            self._check_gradient(name, g, given[name])
        return out

    def _check_gradient(self, name: str, g: Any, x: Array) -> None:
        if g is None:
            return
        if (
            not isinstance(g, Array)
            or g.dtype is not x.dtype
            or not _values.same_shape(g.shape, x.shape)
        ):
            what = f"{g.dtype.name}{g.shape}" if isinstance(g, Array) else repr(g)
            raise UsageError(
                f"{self.name}: the gradient of {name} is {what}, and {name} is {x.dtype.name}{x.shape}",
                "T0660",
            )

    def build(self, operands: list[Value], attrs: dict[str, Any]) -> list[Value]:
        """The function on values of the active trace."""
        result = self.function(*(Array(v) for v in operands), **attrs)
        results = result if isinstance(result, (tuple, list)) else (result,)
        if not results or not all(isinstance(r, Array) for r in results):
            raise TypeError(f"it returned {result!r}: an array or a tuple of arrays is needed")
        return [r._value for r in results]

    def _infer(
        self, graph: _native.Trace, types: list[tuple[str, tuple[int, ...]]], attrs: dict[str, Any]
    ) -> list[tuple[str, list[int]]]:
        """Types of the results: those of a trace in a graph of its own, with sizes of the caller's."""
        trace = GraphTrace(self.name)
        back: dict[str, int] = {}  # symbols of the trace, and the sizes that they stand for
        made: dict[int, Any] = {}
        values = []
        for i, (code, dims) in enumerate(types):
            sizes = []
            for raw in dims:
                if raw < 0 and raw not in made:
                    made[raw] = trace.symbol(f"s{len(made)}", -1)
                    back[repr(made[raw])] = raw
                sizes.append(made[raw] if raw < 0 else raw)
            values.append(trace.argument(dt.by_code[code], sizes, f"x{i}"))
        with tracing(trace):
            results = self.build(values, attrs)
        return [(v.dtype.code, [_outer(trace, graph, back, s) for s in v.shape]) for v in results]

    def _decompose(
        self, native: _native.Trace, operands: list[int], attrs: dict[str, Any]
    ) -> list[int]:
        """The nodes of the function, where the host wants them."""
        trace = GraphTrace(self.name, native)
        values = [trace.wrap(native.type_of(id)) for id in operands]
        with tracing(trace):
            return [trace.id_of(v) for v in self.build(values, attrs)]


def _outer(trace: GraphTrace, graph: _native.Trace, back: dict[str, int], size: Any) -> int:
    if not isinstance(size, Dim):
        return int(size)
    op, a, b, constant, name = trace.native.dim_parts(size.raw)
    if op == 0:
        return constant
    if op == 1:
        if name not in back:
            raise ValueError(
                "the sizes of its results depend on values, which an op does not allow"
            )
        return back[name]
    left, right = (_outer(trace, graph, back, trace.size(d)) for d in (a, b))
    return graph.dim(op, left, right)


def _kind_of(annotation: Any) -> int | None:
    name = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    return _KINDS.get(name.partition("[")[0])


def _attr(op: str, name: str, kind: int, value: Any) -> Any:
    try:
        if kind == F64:
            return float(value)
        if kind == STRING:
            return str(value)
        if kind == I64S:
            return tuple(v.__index__() for v in value)
        return int(value) if isinstance(value, bool) else value.__index__()
    except (TypeError, AttributeError, ValueError):
        raise UsageError(
            f"{op}: {name} is {value!r}, and a number or text that is known now is needed", "T0631"
        ) from None


def located(error: Error) -> Error:
    """An error whose message begins with its place, as of a line in a file."""
    error.__dict__["located"] = True
    return error


def code_and_message(name: str, error: BaseException) -> tuple[int, str]:
    """An exception in a function that the host called, as code and message for the host."""
    if isinstance(error, Error) and "located" in error.__dict__:
        return 3, f"{error.code}: {error.args[0]}"
    if isinstance(error, SizeNeeded):
        return 12, f"T0632: {name} needs its sizes as numbers, and they are not known yet"
    if isinstance(error, Error):
        code = next((c for c, kind in _error_kinds().items() if type(error) is kind), 3)
        return code, f"{error.code}: {name}{place(error)}: {error.args[0]}"
    return 3, f"T0631: {name}{place(error)}: {type(error).__name__}: {error}"


def _error_kinds() -> dict[int, type[Error]]:
    return ERROR_KINDS


# ---- Content ----


class _Same:
    """An object whose meaning is its identity. Kept, so that no other one gets its address."""

    __slots__ = ("value",)

    def __init__(self, value: object):
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.value is other.value

    __hash__ = None  # type: ignore[assignment]


def _content(value: Any, seen: set[object], names: tuple[str, ...] = ()) -> object:
    """What decides the meaning of a function: code, defaults, and all of the user's that it names.

    Equal contents are one meaning. What may change, as a list does, equals nothing. Of a module it
    is what the module has under `names`.
    """
    if isinstance(value, (bool, int, float, complex, str, bytes, type(None), range, type(...))):
        return type(value), repr(value)
    if isinstance(value, (tuple, frozenset)):
        return type(value), tuple(_content(v, seen) for v in value)
    if isinstance(value, Array):
        return _Same(value._value)
    if _is_fixed(value):
        return _Same(value)
    key = (id(value), names if inspect.ismodule(value) else ())
    if key in seen:
        return "seen"
    if inspect.ismodule(value):
        seen.add(key)
        return _Same(value), tuple(_content(vars(value).get(n), seen, names) for n in names)
    if inspect.isfunction(value):
        seen.add(key)
        return _function_content(value, seen)
    return object()


def _function_content(function: Any, seen: set[object]) -> object:
    names = tuple(_names(function.__code__))
    cells = tuple(_content(_cell(c), seen, names) for c in function.__closure__ or ())
    globals = tuple(_content(function.__globals__.get(n), seen, names) for n in names)
    keywords = tuple((function.__kwdefaults__ or {}).items())
    defaults = _content((function.__defaults__, keywords), seen)
    return _code(function.__code__), defaults, cells, globals


def _is_fixed(value: Any) -> bool:
    """Whether it never changes: objects of Tenon, and functions and types of C."""
    if isinstance(value, (Op, dt.DType)):
        return True
    if inspect.isfunction(value) or inspect.isclass(value):
        own = (value.__module__ or "").partition(".")[0] == "tenon"
        return own or (inspect.isclass(value) and not value.__flags__ & _TYPE_CAN_CHANGE)
    if inspect.isbuiltin(value):
        return value.__self__ is None or inspect.ismodule(value.__self__)
    return inspect.isroutine(value) and not inspect.ismethod(value)


_TYPE_CAN_CHANGE = 1 << 9  # Py_TPFLAGS_HEAPTYPE


def _cell(cell: Any) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # assigned after the function was made
        return None


def _names(code: Any) -> list[str]:
    nested = [n for c in code.co_consts if inspect.iscode(c) for n in _names(c)]
    return [*code.co_names, *nested]


def _code(code: Any) -> object:
    constants = tuple(_code(c) if inspect.iscode(c) else repr(c) for c in code.co_consts)
    return code.co_code, constants, code.co_names, code.co_varnames


# ---- The decorator ----


def op(name: str, /) -> Callable[[Callable[..., Any]], Op]:
    """Registers an operator whose meaning is a function of arrays.

        @tenon.op("demo.scale_shift")
        def scale_shift(x, a: float, b: float):
            return x * a + b

    Arrays come first; arguments with the annotation float, int, bool, str or tuple are attributes.
    The function is traced whenever types have to be known or the op is taken apart, so it runs for
    any types and sizes that it makes sense for, on any device, and is fused with its neighbours. It
    must not depend on anything that changes. The name has a dot. Registered again, with the same
    content it stays the same op; with another one, or if it names what may change (a list, an
    object), it is a new op: what is built from then on, and compiled functions that are called, use
    it. Threads of Tenon call the function.

    Raises `UsageError` for names (T0320 and others) and arguments (T0631) that cannot be used.
    """

    def register(function: Callable[..., Any]) -> Op:
        _host.open()
        made = Op(name, function)
        content = _content(function, set()), tuple(made.operands), repr(made.attrs)
        known = _registered_ops.get(name)
        if known is not None and known._registered == content:
            return known
        made._register()
        made._registered = content
        _registered_ops[name] = made
        return made

    return register
