"""`@tenon.graph_pass`: passes over graphs, as Python functions."""

from __future__ import annotations

import functools
import inspect

from tenon import _host, _native, _trace
from tenon._array import Array
from tenon._errors import UsageError
from tenon._trace import GraphTrace, tracing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_passes: dict[str, Pass] = {}


class Node:
    """A node of a graph, while a pass runs: `op`, `operands` and `results` (arrays), `attrs`."""

    def __init__(self, graph: PassGraph, id: int):
        self._graph = graph
        self._id = id
        self.op, operands, results, self.attrs = graph._trace.native.node_parts(id)
        self.operands = [None if v is None else graph._array(v) for v in operands]
        """Arrays without values; None for an operand that is absent."""
        self.results = [graph._array(v) for v in results]
        """Arrays without values."""

    def replace(self, *by: Array) -> None:
        """All uses of the results become uses of these arrays, and the node goes away.

        T0631 for another number of arrays; shapes and types have to agree.
        """
        if len(by) != len(self.results):
            raise UsageError(f"{self.op} has {len(self.results)} results, not {len(by)}", "T0631")
        trace = self._graph._trace
        for old, new in zip(self.results, by):
            trace.native.replace(old._value.id, trace.id_of(new._value))
        trace.native.erase(self._id)

    def __repr__(self) -> str:
        return f"<{self.op} {self.attrs}>"


class PassGraph:
    """A graph, while a pass runs."""

    def __init__(self, native: _native.Trace):
        self._trace = GraphTrace("pass", native)

    def _array(self, id: int) -> Array:
        return Array(self._trace.wrap(self._trace.native.type_of(id)))

    def nodes(self, op: str | None = None) -> list[Node]:
        """The nodes in order, or those of an op."""
        every = (Node(self, id) for id in self._trace.native.nodes())
        return [node for node in every if op is None or node.op == op]

    def before(self, node: Node) -> _Before:
        """`with graph.before(node):` operations on arrays become nodes in front of this one."""
        return _Before(self._trace, node)

    def text(self) -> str:
        """The graph as .tir."""
        return self._trace.native.text()


class _Before(tracing):
    def __init__(self, trace: GraphTrace, node: Node):
        super().__init__(trace)
        self._node = node

    def __enter__(self) -> GraphTrace:
        self.trace.native.before(self._node._id)
        return super().__enter__()


class Pass:
    """A pass of this process. Made by `tenon.graph_pass`."""

    def __init__(self, name: str, after: str, function: Callable[[PassGraph], None]):
        functools.update_wrapper(self, function)
        self.name = name
        self.after = after
        self.function = function

    def __call__(self, graph: PassGraph) -> None:
        self.function(graph)

    def _run(self, native: _native.Trace) -> None:
        with _trace.in_pass():
            self.function(PassGraph(native))

    def apply(self, text: str) -> str:
        """Runs this pass alone on a graph in .tir, and gives the graph back: for tests."""
        return _native.run_passes(text, self.name)

    def remove(self) -> None:
        """Later compilations do not run it any more."""
        if _passes.pop(self.name, None) is not None:
            _set_pipeline()


def _standard() -> list[str]:
    import json

    return str(json.loads(_host.explain("passes"))["standard"]).split(",")


def _set_pipeline() -> None:
    names = _standard()
    for made in _passes.values():
        names.insert(names.index(made.after) + 1, made.name)
    _native.set_pipeline(",".join(names) if _passes else "")
    _trace.forget_types()


def graph_pass(*, after: str, name: str | None = None) -> Callable[[Callable[[PassGraph], None]], Pass]:
    """Makes a function of a graph a pass that runs in every later compilation of this process.

        @tenon.graph_pass(after="canonicalize")
        def fast_softmax(graph):
            for node in graph.nodes("softmax"):
                with graph.before(node):
                    node.replace(tenon.xp.exp(node.operands[0]))

    It runs behind the first pass called `after` (UsageError if there is none in the standard
    pipeline), as "python.NAME". Run again, as in a notebook, it replaces the earlier one. An
    exception in it fails the compilation with T0631, as does computing values in it. Threads of
    Tenon call it, at the same time for different graphs.
    """

    def register(function: Callable[[PassGraph], None]) -> Pass:
        _host.open()
        if after not in _standard():
            raise UsageError(
                f"after={after!r} is none of the passes: {', '.join(dict.fromkeys(_standard()))}",
                "T0631",
            )
        chosen = name or "python." + function.__name__.replace("_", "-")
        made = Pass(chosen, after, function)
        doc = inspect.getdoc(function) or f"The Python function {function.__name__}."
        _native.register_pass(chosen, doc.splitlines()[0], made._run)
        _passes[chosen] = made
        _set_pipeline()
        return made

    return register
