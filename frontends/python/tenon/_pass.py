"""`@tenon.graph_pass`: passes over graphs, as Python functions."""

from __future__ import annotations

import functools
import inspect

from tenon import _host, _native, _pattern
from tenon._errors import UsageError
from tenon.builder import trace as _trace
from tenon.builder.trace import GraphTrace, tracing
from tenon.xp._array import Array

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

_passes: dict[str, Pass] = {}


class Node:
    """A node of a graph, while a pass runs: `op`, `operands` and `results` (arrays), `attrs`."""

    attrs: dict[str, Any]
    """Attributes by name. Lists are tuples, element types are their names ("f32"), and sizes are
    numbers, or what computes like one where a run decides it."""

    def __init__(self, graph: PassGraph, id: int):
        self._graph = graph
        self._id = id
        self.op, _, results, attrs = graph._trace.native.node_parts(id)
        self.attrs = {name: graph._trace.attribute(*given) for name, given in attrs.items()}
        self.results = [graph._array(v) for v in results]
        """Arrays without values."""

    @property
    def operands(self) -> list[Array | None]:
        """Arrays without values; None for an operand that is absent. As they are now: `replace` of
        an earlier node changes them."""
        operands = self._graph._trace.native.node_parts(self._id)[1]
        return [None if v is None else self._graph._array(v) for v in operands]

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
        self._graph._erased.add(self._id)

    def __repr__(self) -> str:
        return f"<{self.op} {self.attrs}>"


class Match:
    """A place where a pattern matches, from `PassGraph.match`. `match["x"]` is the value of a name."""

    def __init__(self, nodes: list[Node], values: dict[str, Array]):
        self.node = nodes[0]
        """The node of the outer op."""
        self.nodes = nodes
        """The nodes of all ops of the pattern, in the order of its text."""
        self.values = values
        """Arrays without values, by their names in the pattern."""

    def __getitem__(self, name: str) -> Array:
        return self.values[name]

    def __repr__(self) -> str:
        return f"<match {self.node.op}: {', '.join(self.values)}>"


class PassGraph:
    """A graph, while a pass runs."""

    def __init__(self, native: _native.Trace):
        self._trace = GraphTrace("pass", native)
        self._erased: set[int] = set()

    def _array(self, id: int) -> Array:
        return Array(self._trace.wrap(self._trace.native.type_of(id)))

    def nodes(self, op: str | None = None) -> list[Node]:
        """The nodes in order, or those of an op."""
        every = (Node(self, id) for id in self._trace.native.nodes())
        return [node for node in every if op is None or node.op == op]

    def match(self, pattern: str) -> Iterator[Match]:
        """The places where a pattern matches, in the order of the graph.

            for m in graph.match("log(exp(x))"):
                m.node.replace(m["x"])

        A pattern is an op with its operands: other patterns for the ops that compute them, names
        that bind values (one name is one value wherever it stands), `_` for anything, `None` for an
        absent operand, numbers for constants whose elements all equal them, and `...` at the end for
        further operands. Attributes that have to have a value follow by name: `softmax(x, dim=1)`.
        The order of operands counts; after `canonicalize`, constants of commutative ops are the
        second operand. Values between the ops may have other uses, which keep their nodes alive.

        Each node is looked at when its turn comes, so replace while you iterate: what was replaced
        before is seen, and new nodes are not visited. UsageError T0631 with the place in the text for
        a pattern that cannot be read, or whose op does not exist.
        """
        parsed = _pattern.parse(pattern)
        return self._matches(parsed)

    def _matches(self, pattern: _pattern.Op) -> Iterator[Match]:
        native = self._trace.native
        for id in native.nodes():
            found = _pattern.Found()
            if id in self._erased or not _pattern.match_node(native, id, pattern, found):
                continue
            values = {name: self._array(value) for name, value in found.values.items()}
            yield Match([Node(self, n) for n in found.nodes], values)

    def producer(self, value: Array) -> Node | None:
        """The node that a value is a result of; None for inputs, constants and arrays from outside.

        T0627 for an array of another graph.
        """
        if value._value.trace is None:
            return None
        id = self._trace.native.producer(self._trace.id_of(value._value))
        return None if id is None else Node(self, id)

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


def graph_pass(
    *, after: str, name: str | None = None
) -> Callable[[Callable[[PassGraph], None]], Pass]:
    """Makes a function of a graph a pass that runs in every later compilation of this process.

        @tenon.graph_pass(after="canonicalize")
        def fast_softmax(graph):
            for node in graph.nodes("softmax"):
                with graph.before(node):
                    node.replace(tenon.xp.exp(node.operands[0]))

    It runs after the first pass called `after` (UsageError if there is none in the standard
    pipeline), as "python.NAME". Run again, as in a notebook, it replaces the earlier one. An
    exception in it fails the compilation with T0631, as does computing values in it. Threads of
    Tenon call it, at the same time for different graphs.
    """

    def register(function: Callable[[PassGraph], None]) -> Pass:
        _host.open()
        if after not in _standard():
            raise UsageError(
                f"after={after!r} is not one of the passes: {', '.join(dict.fromkeys(_standard()))}",
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
