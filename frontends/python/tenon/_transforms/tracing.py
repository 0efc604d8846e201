"""Functions of arrays as graphs of their own: what derivatives, samples and control flow share.

A transform traces its function into a graph, runs a pass on that graph (`vjp`, `jvp`, `grad`,
`linearize`, `batch`), and copies the nodes into the enclosing trace. Arrays of that trace that the
function uses become inputs of the graph, so that the tangents of nested derivatives cannot be
confused. Outside of a trace the transformed function is compiled.
"""

from __future__ import annotations

import functools

from tenon import _native, xp
from tenon._compile import Compiled, _result_value
from tenon._errors import UsageError
from tenon._tree import constant, flatten, unflatten
from tenon.builder.trace import GraphTrace, Value, active, tracing
from tenon.xp._array import Array, _of_tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeVar

    Function = Callable[..., Any]
    F = TypeVar("F", bound=Function)


class Tree:
    """A nested argument or result: its arrays, and how they are nested."""

    def __init__(self, value: Any, name: str = ""):
        self.leaves: list[Any] = []
        self.names: list[str] = []
        self.structure = flatten(value, self.leaves, self.names, name, constant)

    def build(self, leaves: Sequence[Any]) -> Any:
        """The same nesting with other leaves."""
        return unflatten(self.structure, iter(leaves))


def array_of(value: Any) -> Array:
    return value if isinstance(value, Array) else xp.asarray(value)


def trace_now() -> GraphTrace:
    trace = active()
    assert trace is not None
    return trace


class Traced:
    """A function traced into a graph of its own, inside of the active trace."""

    def __init__(self, function: Function, name: str, args: tuple[Any, ...], lanes: Any = None):
        self.outer = trace_now()
        self.tree = Tree(args)
        self.given = [array_of(v) for v in self.tree.leaves]
        self.trace = GraphTrace(name, outer=self.outer)
        self.lanes = lanes or [False] * len(self.given)
        self.arguments = [self._argument(i, a) for i, a in enumerate(self.given)]
        with tracing(self.trace):
            result = function(*self.tree.build(self.arguments))
            self.result = Tree(result, "the result")
            self.ids = [self.trace.id_of(_result_value(v)) for v in self.result.leaves]

    def _argument(self, i: int, array: Array) -> Array:
        """An argument like an array of the enclosing trace; without its first axis if it has samples."""
        shape = array.shape[1:] if self.lanes[i] else array.shape
        sizes = [self.trace.size_from(s) for s in shape]
        return Array(self.trace.argument(array.dtype, sizes, f"x{i}"), array._weak)

    def drop_result(self, keep: int) -> None:
        """Only the first results stay outputs of the graph."""
        self.ids = self.ids[:keep]

    def outputs(self) -> list[Value]:
        """The types of the results."""
        return [self.trace.wrap(self.trace.native.type_of(i)) for i in self.ids]

    def inline(self, passes: str, more: Sequence[Array] = ()) -> list[Array]:
        """Runs passes on the graph and copies it to the enclosing trace. `more`: inputs that they add."""
        self._transform(self.trace.native, passes)
        given = [*(a._value for a in self.given), *(v for v, _ in self.trace.inputs)]
        return _copied(self.outer, self.trace.native, [*given, *(a._value for a in more)])

    def transformed(self, passes: str) -> _native.Trace:
        """A copy of the graph after passes, for `inlined`."""
        copy = self.trace.native.copy()
        self._transform(copy, passes)
        return copy

    def _transform(self, native: _native.Trace, passes: str) -> None:
        native.transform(self.ids, [f"y{i}" for i in range(len(self.ids))], passes)


def inlined(graph: _native.Trace, given: Sequence[Array]) -> list[Array]:
    """Copies a graph to the active trace, with these arrays as its inputs."""
    return _copied(trace_now(), graph, [a._value for a in given])


def _copied(trace: GraphTrace, graph: _native.Trace, given: Sequence[Value]) -> list[Array]:
    made = trace.native.inline(graph, [trace.id_of(v) for v in given])
    return [Array(trace.wrap(r)) for r in made]


def name_of(function: Any) -> str:
    return str(getattr(function, "__name__", "f"))


def _as_arrays(result: Any) -> Any:
    """The result with arrays of tenon.xp, which a call with only Python numbers does not return."""
    tree = Tree(result)
    if not any(isinstance(v, _native.Tensor) for v in tree.leaves):
        return result
    return tree.build([_of_tensor(v) if isinstance(v, _native.Tensor) else v for v in tree.leaves])


def positional(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """Arguments of a call by position. T0602 for those that have none."""
    import inspect

    try:
        bound = inspect.signature(function).bind(*args, **kwargs)
    except ValueError:  # of some functions in C
        rest = kwargs
    else:
        args, rest = bound.args, bound.kwargs
    if rest:
        raise UsageError(
            f"{name_of(function)}: {min(rest)} has no position in this call, and transforms take arguments by "
            "position: give those before it too, or bind it with functools.partial",
            "T0602",
        )
    return args


def compiled(function: Function, like: Any, prefix: str, fresh: bool = True) -> Function:
    """A function of arrays that runs in a trace; called elsewhere, it is compiled.

    `fresh`: it is traced at every call, as the function of a user may use values that change.
    """
    whole = Compiled(function, None, None, True, fresh=fresh)

    @functools.wraps(like, updated=())
    def call(*args: Any, **kwargs: Any) -> Any:
        given = positional(like, args, kwargs) if kwargs else args
        return function(*given) if active() is not None else _as_arrays(whole(*given))

    call.__name__ = f"{prefix} of {name_of(like)}"
    return call


def at_once(*static: str) -> Callable[[F], F]:
    """A decorator: the function works in a trace, and is compiled where it is called elsewhere.

    `static` as in `tenon.compile`. Functions among the arguments are traced at every call, as they may use
    values that change.
    """

    def decorate(function: F) -> F:
        whole: list[Compiled] = []

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if active() is not None:
                return function(*args, **kwargs)
            if not whole:
                whole.append(Compiled(function, None, None, True, static, fresh=True))
            return _as_arrays(whole[0](*args, **kwargs))

        return call  # type: ignore[return-value]

    return decorate
