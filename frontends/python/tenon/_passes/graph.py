"""The graph that a pass in Python sees: nodes, regions, values, notes."""

from __future__ import annotations

from collections.abc import MutableMapping

from tenon import _native, _pattern
from tenon._errors import UsageError
from tenon.builder.dtypes import DType, by_code, by_name
from tenon.builder.trace import (
    DIMS,
    F64,
    F64S,
    I64,
    I64S,
    STRING,
    STRINGS,
    GraphTrace,
    tracing,
)  # fmt: skip
from tenon.builder.trace import Value as HostValue
from tenon.xp._array import Array

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    Value = Array | Any  # or an array of NumPy, which becomes a constant

_AT_NODE, _AT_VALUE = 0, 1  # TENON_NOTED_*
_others: dict[str, DType] = {}  # types of the host alone, by code
_KINDS = {int: (I64, I64S), float: (F64, F64S), str: (STRING, STRINGS)}


def _kind_of(name: str, value: Any) -> tuple[int, Any]:
    """The kind of a note's attribute, and the value as the host takes it."""
    many = isinstance(value, (list, tuple))
    items = [v.item() if hasattr(v, "item") else v for v in (value if many else [value])]
    types = {int if isinstance(v, bool) else type(v) for v in items}
    if types == {int, float}:
        types = {float}
    found = _KINDS.get(next(iter(types), int)) if len(types) < 2 else None
    if found is None:
        raise UsageError(
            f"the note {name} is a number, a text, or a list of either, not {value!r}", "T0327"
        )
    return (found[1], items) if many else (found[0], items[0])


class Notes(MutableMapping):  # type: ignore[type-arg]
    """The notes of a node or a value by name: `node.notes["acme.bits"] = 4`.

    A note is a number, a text, or a list of either (a tuple when read). UsageError T0327 for another
    value, a name that is not `space.name`, or a name space that no plugin and no pass has; `user` and
    `python` are always there.
    """

    def __init__(self, native: _native.Trace, noted: int, index: int):
        self._native, self._noted, self._index = native, noted, index

    def _all(self) -> dict[str, Any]:
        return self._native.notes(self._noted, self._index)

    def __getitem__(self, name: str) -> Any:
        return self._all()[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self._native.set_note(self._noted, self._index, name, *_kind_of(name, value))

    def __delitem__(self, name: str) -> None:
        if name not in self._all():
            raise KeyError(name)
        self._native.erase_note(self._noted, self._index, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def __repr__(self) -> str:
        return repr(self._all())


class Node:
    """A node of a graph, while a pass runs: `op`, `operands` and `results` (arrays), `attrs`."""

    attrs: dict[str, Any]
    """Attributes by name. Lists are tuples, element types are their names ("f32"), and sizes are
    numbers, or what computes like one where a run decides it."""

    def __init__(self, graph: PassGraph, id: int):
        self._graph = graph
        self._id = id
        self.op, _, results, self._raw = graph._trace.native.node_parts(id)
        self.attrs = {name: graph._trace.attribute(*given) for name, given in self._raw.items()}
        self.results = [graph._array(v) for v in results]
        """Arrays without values."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Node) and (other._graph, other._id) == (self._graph, self._id)

    def __hash__(self) -> int:
        return hash((id(self._graph), self._id))

    @property
    def operands(self) -> list[Array | None]:
        """Arrays without values; None for an operand that is absent. As they are now: `replace` of
        an earlier node changes them."""
        operands = self._graph._trace.native.node_parts(self._id)[1]
        return [None if v is None else self._graph._array(v) for v in operands]

    @property
    def notes(self) -> Notes:
        """What passes left at this node, and what this one leaves."""
        return Notes(self._graph._trace.native, _AT_NODE, self._id)

    @property
    def region(self) -> Region | None:
        """The region that contains it; None once it is replaced."""
        found = self._graph._trace.native.node_place(self._id)[0]
        return None if found is None else Region(self._graph, found)

    @property
    def regions(self) -> list[Region]:
        """The bodies of control flow."""
        return [Region(self._graph, r) for r in self._graph._trace.native.node_place(self._id)[1]]

    @property
    def place(self) -> str:
        """Where it is in the user's program: "model.onnx: conv_1". Empty if that is not known."""
        return self._graph._trace.native.node_place(self._id)[2]

    def replace(self, *by: Value) -> None:
        """All uses of the results become uses of these arrays, and the node goes away.

        Arrays of NumPy become constants. New nodes take over the notes of this one. T0631 for another
        number of arrays; shapes and types have to agree.
        """
        if len(by) != len(self.results):
            raise UsageError(f"{self.op} has {len(self.results)} results, not {len(by)}", "T0631")
        native = self._graph._trace.native
        for old, new in zip(self.results, [self._graph._id_of(array) for array in by]):
            native.replace(old._value.id, new)
        self._graph._erased.update(self._with_inner(self._id))
        native.erase(self._id)

    def _with_inner(self, id: int) -> Iterator[int]:
        """A node and those of its regions, which are erased with it."""
        native = self._graph._trace.native
        yield id
        for region in native.node_place(id)[1]:
            for inner in native.region_parts(region)[2]:
                yield from self._with_inner(inner)

    def rebuilt(
        self, operands: Sequence[Value | None] | None = None, **attrs: Any
    ) -> Array | tuple[Array, ...]:
        """The results of the same op with other operands or attributes, in front of this node, and
        with its notes.

            m.node.replace(m.node.rebuilt([x, folded, bias], activation="relu"))

        T0631 for an attribute that the op does not have, or a node with regions.
        """
        return self._graph._rebuilt(self, operands, attrs)

    def __repr__(self) -> str:
        return f"<{self.op} {self.attrs}>"


class Region:
    """A graph's main region, or a body of control flow: `for inner in node.regions[0].nodes`."""

    def __init__(self, graph: PassGraph, id: int):
        self._graph = graph
        self._id = id

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Region) and (other._graph, other._id) == (self._graph, self._id)

    def __hash__(self) -> int:
        return hash((id(self._graph), self._id))

    def _parts(self) -> tuple[int | None, list[int], list[int], list[int]]:
        return self._graph._trace.native.region_parts(self._id)

    @property
    def node(self) -> Node | None:
        """The node whose body it is; None for the main region."""
        owner = self._parts()[0]
        return None if owner is None else Node(self._graph, owner)

    @property
    def parent(self) -> Region | None:
        """The region around it; None for the main region."""
        owner = self._parts()[0]
        found = None if owner is None else self._graph._trace.native.node_place(owner)[0]
        return None if found is None else Region(self._graph, found)

    @property
    def arguments(self) -> list[Array]:
        """Arrays without values."""
        return [self._graph._array(v) for v in self._parts()[1]]

    @property
    def nodes(self) -> list[Node]:
        """Its nodes in order, without those of regions inside."""
        return [Node(self._graph, n) for n in self._parts()[2]]

    @property
    def yields(self) -> list[Array]:
        """What it results in: the outputs of the graph, for the main region."""
        return [self._graph._array(v) for v in self._parts()[3]]

    def __repr__(self) -> str:
        return f"<region of {self.node.op}>" if self.node is not None else "<main region>"


class Use:
    """A use of a value: operand `index` of `node`, or the result `index` of `region` if node is None."""

    def __init__(self, node: Node | None, region: Region | None, index: int):
        self.node, self.region, self.index = node, region, index

    def __repr__(self) -> str:
        return f"<{self.index} of {self.node or self.region}>"


class Match:
    """A place where a pattern matches, from `PassGraph.match`. `match["x"]` is the value of a name."""

    def __init__(self, nodes: list[Node], values: dict[str, Array | None]):
        self.node = nodes[0]
        """The node of the outer op."""
        self.nodes = nodes
        """The nodes of all ops of the pattern, in the order of its text."""
        self.values = values
        """Arrays without values, by their names in the pattern; None for an absent operand."""

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def __repr__(self) -> str:
        return f"<match {self.node.op}: {', '.join(self.values)}>"


class PassGraph:
    """A graph, while a pass runs."""

    def __init__(self, native: _native.Trace, statistics: Sequence[str] = ()):
        self._trace = GraphTrace("pass", native)
        self._erased: set[int] = set()
        self._counts = dict.fromkeys(statistics, 0)

    def _array(self, id: int) -> Array:
        found = self._trace.native.type_of(id)
        code = found[1]
        if code in by_code:
            return Array(self._trace.wrap(found))
        # A type that arrays of Python do not have, such as i4 or a token.
        dtype = _others.setdefault(code, DType(code, code, "of the host", 8))
        made = HostValue(dtype, tuple(map(self._trace.size, found[2])))
        made.trace, made.id = self._trace, id
        return Array(made)

    def _id_of(self, array: Value) -> int:
        made = array if isinstance(array, Array) else self.constant(array)
        return self._trace.id_of(made._value)

    # ---- Reading ----

    @property
    def main(self) -> Region:
        """The region of the whole graph: its arguments are the inputs, its yields the outputs."""
        return Region(self, self._trace.native.main_region())

    def nodes(self, op: str | None = None) -> list[Node]:
        """The nodes in order, or those of an op. Nodes of bodies follow the node that has them."""
        every = (Node(self, id) for id in self._trace.native.nodes())
        return [node for node in every if op is None or node.op == op]

    def match(self, pattern: str, **where: Callable[[Array], bool]) -> Iterator[Match]:
        """The places where a pattern matches, in the order of the graph.

            for m in graph.match("log(exp(x))"):
                m.node.replace(m["x"])

        A pattern is an op with its operands:

        - other patterns for the ops that compute them, and `p | q` for either;
        - names that bind values (one name is one value wherever it stands), `#w` for a constant,
          `b?` for an operand that may be absent (`m["b"]` is None then);
        - `_` for anything, `None` for an absent operand, numbers for constants whose elements all
          equal them, and `...` at the end for further operands.

        `add{x, y}` takes its two operands in either order, `add|sub(x, y)` one op or the other, and
        `exp(x)!` is used only once. Attributes and notes follow by name with `=`, `!=`, `<`, `<=`,
        `>`, `>=`: `softmax(x, dim=1)`, `matmul(x, w, acme.bits<8)`. A function for a name must hold
        for its value: `match("mul(x, w)", w=lambda w: w.ndim == 1)`.

        The order of operands counts otherwise; after `canonicalize`, constants of commutative ops
        are the second operand. Values between the ops may have other uses, which keep their nodes
        alive.

        Each node is looked at when its turn comes, so replace while you iterate: what was replaced
        before is seen, and new nodes are not visited. UsageError T0631 with the place in the text for
        a pattern that cannot be read, or whose op does not exist.
        """
        parsed = _pattern.parse(pattern)
        _pattern.check_names(pattern, parsed, where)
        return self._matches(parsed, where)

    def _matches(
        self, pattern: _pattern.Op, where: Mapping[str, Callable[[Array], bool]]
    ) -> Iterator[Match]:
        native = self._trace.native
        for id in native.nodes():
            if id in self._erased:
                continue
            for found in _pattern.matches(native, id, pattern):
                values = {
                    name: None if value is None else self._array(value)
                    for name, value in found.values.items()
                }
                if all(_holds(test, values.get(name)) for name, test in where.items()):
                    yield Match([Node(self, n) for n in found.nodes], values)
                    break

    def producer(self, value: Array) -> Node | None:
        """The node that a value is a result of; None for inputs, constants and arrays from outside.

        T0627 for an array of another graph.
        """
        if value._value.trace is None:
            return None
        id = self._trace.native.producer(self._trace.id_of(value._value))
        return None if id is None else Node(self, id)

    def uses(self, value: Array) -> list[Use]:
        """All uses of a value, in no particular order."""
        found = self._trace.native.uses(self._trace.id_of(value._value))
        return [
            Use(
                None if node is None else Node(self, node),
                None if region is None else Region(self, region),
                index,
            )
            for node, region, index in found
        ]

    def numpy(self, value: Array) -> Any:
        """A constant as an array of NumPy over its memory, which cannot be written; None for others.

        Element types that NumPy lacks need the package ml_dtypes.
        """
        return self._trace.native.constant_array(self._trace.id_of(value._value))

    def notes(self, of: Array | Node) -> Notes:
        """The notes of a value, or of a node."""
        if isinstance(of, Node):
            return of.notes
        return Notes(self._trace.native, _AT_VALUE, self._trace.id_of(of._value))

    def text(self) -> str:
        """The graph as .tir."""
        return self._trace.native.text()

    # ---- Changing ----

    def constant(self, array: Any) -> Array:
        """A new constant with the elements of an array of NumPy, or of what NumPy makes one of."""
        import numpy as np

        given = np.ascontiguousarray(array).reshape(np.shape(array))
        dtype = by_name.get(given.dtype.name)
        if dtype is None:
            raise UsageError(f"constants have no element type {given.dtype}", "T0603")
        return Array(self._trace.constant(dtype, given.shape, given.tobytes()))

    def replace(self, value: Array, by: Value) -> None:
        """All uses of a value become uses of another one, such as a constant of other elements.

        Shapes and types have to agree.
        """
        self._trace.native.replace(self._trace.id_of(value._value), self._id_of(by))

    def before(self, node: Node) -> _Before:
        """`with graph.before(node):` operations on arrays become nodes in front of this one."""
        return _Before(self._trace, node)

    def count(self, statistic: str, amount: int = 1) -> None:
        """Adds to a statistic, which `graph_pass(statistics=...)` declares."""
        if statistic not in self._counts:
            raise UsageError(
                f"{statistic!r} is not declared: statistics={tuple(self._counts)!r}", "T0631"
            )
        self._counts[statistic] += amount

    def _rebuilt(
        self, node: Node, operands: Sequence[Value | None] | None, attrs: Mapping[str, Any]
    ) -> Array | tuple[Array, ...]:
        native = self._trace.native
        if native.node_place(node._id)[1]:
            raise UsageError(f"{node.op} has regions, which belong to one node", "T0631")
        raw = dict(node._raw)
        for name, value in attrs.items():
            if name not in raw:
                raise UsageError(f"{node.op} has no attribute {name!r}: {', '.join(raw)}", "T0631")
            kind = raw[name][0]
            sizes = kind == DIMS
            raw[name] = kind, [self._trace.raw(s) for s in value] if sizes else value
        given = native.node_parts(node._id)[1] if operands is None else [
            None if array is None else self._id_of(array) for array in operands
        ]  # fmt: skip
        native.before(node._id)
        made = native.node(node.op, given, [(name, *one) for name, one in raw.items()], ())
        arrays = tuple(self._array(result[0]) for result in made)
        if made:
            native.take_notes(_AT_NODE, native.producer(made[0][0]) or 0, node._id)
        return arrays[0] if len(arrays) == 1 else arrays


def _holds(test: Callable[[Array], bool], value: Array | None) -> bool:
    return value is not None and bool(test(value))


class _Before(tracing):
    def __init__(self, trace: GraphTrace, node: Node):
        super().__init__(trace)
        self._node = node

    def __enter__(self) -> GraphTrace:
        self.trace.native.before(self._node._id)
        return super().__enter__()
