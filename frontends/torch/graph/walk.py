"""A graph of torch as a graph of ours: the walk over its nodes.

The walk knows no operator: lowerings of the table do (`table.py`). It gives each lowering values, and
checks that the results have the types and sizes that torch gives the node.
"""

from __future__ import annotations

import math
import operator

from tenon.builder import NO, Value, ops, same, tracing
from tenon.builder import dtypes as dt

import torch
from torch import fx

from .floats import Number, Real, is_float
from .node import BEYOND, Node, checked_whole, constant, dtype_of, fake_of
from .saved import Memory
from .size_constraints import claim
from .sizes import Numbers, Whole, has_found, is_found, may_be_negative, size_in
from .source_locations import line_of, line_of_user, name_of
from .table import Unsupported, find
from .tracing import WalkTrace
from .transfers import Groups, is_transfer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


class Walk:
    """One walk over a graph. `unsupported` has the nodes that stay in torch, with the reason."""

    def __init__(self, graph: fx.Graph, name: str = "torch"):
        self.graph = graph
        self.name = name
        self.trace = WalkTrace(name)
        self.trace.locate = False
        self.values: dict[fx.Node, Any] = {}
        self.unsupported: dict[fx.Node, str] = {}
        self.inputs: list[fx.Node] = []
        self.memory: dict[
            fx.Node, Memory
        ] = {}  # of inputs that a backward graph reads as views of it
        self.is_backward = name == "backward"
        self.constants: dict[str, torch.Tensor] = {}  # values of placeholders that never change
        self.keep_inputs = False  # also those that are not read
        self.assertions: list[Value] = []  # conditions that a call fails without
        self.places: dict[int, Value] = {}  # where masks are set, by their numbers
        self.groups: Groups | None = None  # that transfers between ranks may use
        self.random = 0  # how many streams of random numbers were drawn
        self.drawn: list[
            torch.SymInt | Number | None
        ] = []  # further arguments: numbers of the call, None for the key
        self._wholes: dict[str, Value] = {}
        self._reals: dict[fx.Node, Value] = {}
        self._key: Value | None = None
        self._place: tuple[Any, str] | None = None

    def run(self) -> None:
        """Walks over all nodes, the placeholders first: torch adds those of a part where they are read,

        and the tensors among them are arguments of the program before the numbers that a node reads.
        """
        with tracing(self.trace):
            for node in sorted(self.graph.nodes, key=lambda n: n.op != "placeholder"):
                if self.groups is not None:
                    self.groups.order.visit(node)
                self._visit(node)

    def _visit(self, node: fx.Node) -> None:
        if node.op == "placeholder":
            self._placeholder(node)
        elif node.op == "get_attr":
            self._attribute(node)
        elif node.op == "call_function":
            try:
                self.values[node] = self._call(node)
            except BEYOND as error:
                self._leave_in_torch(node, error)

    def _placeholder(self, node: fx.Node) -> None:
        fake = node.meta.get("val")
        self.values[node] = Real(self, node) if is_float(fake) else fake
        if (
            isinstance(fake, torch.Tensor)
            and not _is_token(node)
            and (node.users or self.keep_inputs)
        ):
            try:
                if node.name in self.constants:
                    self.values[node] = constant(self.trace, self.constants[node.name])
                    return
                self.values[node] = self._input(node, fake)
                self.inputs.append(node)
            except BEYOND as error:
                self._leave_in_torch(node, error)

    def _input(self, node: fx.Node, fake: torch.Tensor) -> Value:
        found = Memory.of(fake) if self.is_backward and fake.layout is torch.strided else None
        if found is None:
            return self._argument(fake, node.name)
        value = found.taken(self._argument(fake, node.name, found.shape))
        self.memory[node] = found
        return value

    def _argument(self, fake: torch.Tensor, name: str, shape: Sequence[int] | None = None) -> Value:
        if type(fake) is not torch.Tensor and type(fake).__name__ not in (
            "FakeTensor",
            "Parameter",
        ):
            raise Unsupported(f"{type(fake).__name__} is a kind of tensor of its own")
        if fake.layout is not torch.strided or fake.is_quantized or fake.is_nested:
            raise Unsupported(f"a tensor of layout {fake.layout}")
        if fake.device.type != "cpu":
            raise Unsupported(f"a tensor on {fake.device}")
        sizes = [size_in(self.trace, s) for s in fake.shape] if shape is None else list(shape)
        return self.trace.argument(dtype_of(fake.dtype), sizes, name)

    def inline(self, gm: fx.GraphModule, operands: Sequence[Any]) -> list[Any]:
        """The results of a graph for these values, computed in this one. Unsupported if one of its nodes is."""
        found, read = dict(self.trace.found), dict(self.trace.read)
        try:
            return self._inlined(gm, operands)
        finally:  # in the next copy of the graph they are others
            self.trace.found, self.trace.read = found, read

    def _inlined(self, gm: fx.GraphModule, operands: Sequence[Any]) -> list[Any]:
        given = iter(operands)
        for node in gm.graph.nodes:
            if node.op == "placeholder":
                self.values[node] = next(given)
            elif node.op == "get_attr":
                self._attribute(node, gm)
                if node in self.unsupported:
                    raise Unsupported(self.unsupported.pop(node))
            elif node.op == "call_function":
                try:
                    self.values[node] = self._call(node)
                except BEYOND as error:
                    raise Unsupported(f"{node.target} in its graph: {error}") from error
        (output,) = (n for n in gm.graph.nodes if n.op == "output")
        listed: Any = output.args[0]
        results: list[Any] = [
            self._read(n) for n in (listed if isinstance(listed, (tuple, list)) else [listed])
        ]
        if not all(isinstance(v, Value) for v in results):
            raise Unsupported("a result that is not a tensor")
        return results

    def _attribute(self, node: fx.Node, owner: Any = None) -> None:
        tensor: Any = self.graph.owning_module if owner is None else owner
        for part in str(node.target).split("."):
            tensor = getattr(tensor, part)
        self.values[node] = tensor
        if isinstance(tensor, torch.Tensor):
            try:
                self.values[node] = constant(self.trace, tensor)
            except BEYOND as error:
                self._leave_in_torch(node, error)

    def _leave_in_torch(self, node: fx.Node, error: Exception) -> None:
        """The node becomes an argument, so that the walk finds out about the others."""
        self.unsupported[node] = (str(error) or type(error).__name__).split("\n")[0]
        self.values[node] = self._stand_in(node.meta.get("val"), node.name)

    def _stand_in(self, fake: Any, name: str) -> Any:
        if isinstance(fake, (tuple, list)):
            return tuple(self._stand_in(f, f"{name}.{i}") for i, f in enumerate(fake))
        if not isinstance(fake, torch.Tensor):
            return fake
        try:
            return self._argument(fake, name)
        except BEYOND:
            return _Missing()

    def _call(self, node: fx.Node) -> Any:
        fake = node.meta.get("val")
        if is_float(fake):
            return Real(self, node)
        if node.target is torch.ops.aten._local_scalar_dense.default:
            return self._element(node, fake)
        if (
            isinstance(fake, (torch.SymInt, torch.SymBool, torch.SymFloat))
            or fake is None
            and not _has_effect(node)
        ):
            return fake  # sizes are known by their expressions
        if node.target is torch.ops.aten._assert_scalar.default:
            return claim(self, fake_of(node.args[0]))
        if node.target is operator.getitem:
            return self._item(node)
        found = find(node.target)
        if found is None:
            raise Unsupported("the operator has no mapping")
        self._locate(node)
        args, kwargs = self._read(node.args), self._read(node.kwargs)
        return self._checked(node, found(Node(self, node), *args, **kwargs))

    def _element(self, node: fx.Node, fake: Any) -> torch.SymInt:
        """A symbol that is read from a tensor. It is an operand or a size."""
        x = self._read(node.args[0])
        if not is_found(fake) or not dt.is_integer(x.dtype):
            raise Unsupported(f"a number of {x.dtype.name}")
        self.trace.read[str(fake.node.expr)] = ops.convert(ops.reshape(x, ()), dt.int64)
        return fake  # type: ignore[no-any-return]

    def _item(self, node: fx.Node) -> Any:
        source: Any = node.args[0]
        index: Any = node.args[1]
        values = self.values[source]
        value = values[index] if isinstance(values, (tuple, list)) else values
        if value is None:
            raise Unsupported("this result is not computed")
        if isinstance(value, _Missing):
            raise Unsupported("it reads what stays in torch")
        return value

    def _read(self, argument: Any) -> Any:
        if isinstance(argument, fx.Node):
            value = self.values[argument]
            if isinstance(value, _Missing):
                raise Unsupported("it reads what stays in torch")
            return self._number(value)
        if isinstance(argument, (list, tuple)):
            return [self._read(a) for a in argument]
        if isinstance(argument, dict):
            return {k: self._read(v) for k, v in argument.items()}
        return argument

    def _number(self, value: Any) -> Any:
        if isinstance(value, torch.SymInt):
            is_argument = not self.trace.depth and not self.keep_inputs and may_be_negative(value)
            is_whole = is_argument or str(value.node.expr) in self.trace.read
            return Whole(self.trace, value) if is_whole else size_in(self.trace, value)
        if isinstance(value, (torch.SymFloat, torch.SymBool)):
            raise Unsupported("a number that is known only when it runs")
        return value

    def _checked(self, node: fx.Node, result: Any) -> Any:
        fake = node.meta.get("val")
        if isinstance(fake, (tuple, list)):
            values = tuple(result)
            if len(values) != len(fake):
                raise Unsupported(f"the row gives {len(values)} results instead of {len(fake)}")
            return tuple(v and self._check(f, v) for f, v in zip(fake, values))
        return self._check(fake, result)

    def _check(self, fake: Any, value: Value) -> Value:
        if not isinstance(fake, torch.Tensor):
            return value
        if not isinstance(value, Value):
            raise Unsupported(f"the row gives {type(value).__name__}")
        if value.dtype is not dtype_of(fake.dtype):
            raise Unsupported(f"the row gives {value.dtype.name} instead of {fake.dtype}")
        self.trace.learn(fake.shape, value.shape)
        shape = [size_in(self.trace, s) for s in fake.shape]
        if len(shape) != len(value.shape) or any(
            same(a, b) == NO for a, b in zip(shape, value.shape)
        ):
            raise Unsupported(
                f"the row gives {ops.shape_text(value.shape)} instead of {tuple(fake.shape)}"
            )
        return ops.reshape(value, shape) if has_found(fake.shape) else value

    def _locate(self, node: fx.Node) -> None:
        line = line_of_user(node) if is_transfer(node) else line_of(node)
        place = (line, name_of(node))
        if place != self._place:
            self._place = place
            self.trace.native.location(*(line or ("", 0)), place[1])

    def key(self) -> Value:
        """The key of random numbers: an argument that is drawn in each call."""
        if self.trace.depth:
            raise Unsupported("random numbers in a loop or a choice")
        if self._key is None:
            self.drawn.append(None)
            self._key = self.trace.argument(dt.uint32, (2,), "tenon.key")
        return self._key

    def whole(self, size: torch.SymInt) -> Value:
        """An int of the call, as an argument of its own, or one that was read from a tensor."""
        name = str(size.node.expr)
        if name in self.trace.read:
            return self.trace.read[name]
        if name not in self._wholes:
            if any(str(s) in self.trace.read for s in size.node.expr.free_symbols):
                raise Unsupported(f"the number {name}, of one that is read from a tensor")
            self.drawn.append(size)
            self._wholes[name] = self.trace.argument(dt.int64, (), f"tenon.number.{name}")
        return self._wholes[name]

    def real(self, node: fx.Node) -> Value:
        """A float of the call, as an argument of its own."""
        if node not in self._reals:
            if self.trace.depth or self.keep_inputs or node.graph is not self.graph:
                raise Unsupported("a number that is known only when it runs")
            placeholders = {
                n: i for i, n in enumerate(n for n in self.graph.nodes if n.op == "placeholder")
            }
            self.drawn.append(Number(node, placeholders))
            self._reals[node] = self.trace.argument(dt.float64, (), f"tenon.number.{node.name}")
        return self._reals[node]

    def counter(self) -> Value:
        """A counter apart from all others of this graph."""
        self.random += 1
        return ops.scalar(self.random << 40, dt.uint64)

    def found(self, name: str) -> Value:
        """A symbol that data decides: a number that was read, or the first dim of a value without elements."""
        if name in self.trace.read:
            return self.trace.read[name]
        if name not in self.trace.found:
            raise Unsupported(f"the size {name} follows from nothing here")
        return ops.full((self.trace.found[name], 0), False, dt.bool_)

    def asserted(self, results: Sequence[Value]) -> list[Value]:
        """The results of the program, in calls that fail where an assertion does not hold.

        The smallest result that is sure to have elements has the check, which costs a copy of it, else
        one that may have none. Unsupported if no result has elements.
        """
        made = list(results)
        if self.assertions:
            sizes = [_estimate(v) for v in made]
            i = min(
                (i for i, size in enumerate(sizes) if size), key=sizes.__getitem__, default=None
            )
            if i is None:
                raise Unsupported("an assertion without a result")
            holds = self.assertions[0]
            for other in self.assertions[1:]:
                holds = ops.one("and", holds, other)
            made[i] = checked_whole(made[i], holds)
        return made

    def lacks_place(self, results: Sequence[Value]) -> bool:
        """Whether assertions would be checked in no call, or not in one whose results have no elements."""
        return bool(self.assertions) and not any(0 < _estimate(v) < _UNSURE for v in results)

    def numbers(self) -> Numbers:
        return Numbers([n.meta.get("val") for n in self.graph.nodes if n.op == "placeholder"])


class _Missing:
    """The value of a node that stays in torch and that no argument can stand for."""


def _is_token(node: fx.Node) -> bool:
    """Whether all that a placeholder does is to order effects. AOTAutograd gives None for it."""
    return bool(node.users) and all(
        isinstance(user.target, torch._ops.HigherOrderOperator)
        and user.target.name() == "with_effects"
        and node is user.args[0]
        for user in node.users
    )


def _has_effect(node: fx.Node) -> bool:
    """Whether a node without results is more than a claim about sizes and types, which torch's guards check."""
    name = str(node.target)
    if name.startswith("aten._assert_scalar."):
        return has_found((fake_of(node.args[0]),))
    known = (
        "aten._assert_tensor_metadata.",
        "aten.sym_constrain",
        "aten.sym_size",
        "<built-in function",
    )
    return node.target is not operator.getitem and not name.startswith(known)


_UNSURE = 1 << 62


def _estimate(value: Value) -> int:
    """How many elements a value has. One with unknown sizes, which may be empty in a call, has 0 or
    at least `_UNSURE`."""
    known = math.prod(s for s in value.shape if isinstance(s, int))
    return (
        known
        if len(value.shape) == sum(isinstance(s, int) for s in value.shape)
        else known * _UNSURE
    )
