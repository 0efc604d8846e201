"""A graph of torch as a graph of ours: the walk over its nodes.

The walk knows no operator: rows of the table do (`_table.py`). It gives each row values, and checks
that the results have the types and sizes that torch gives the node.
"""

from __future__ import annotations

import math

import torch
from torch import fx
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from tenon import _dtypes as dt
from tenon import _ops
from tenon._errors import Error
from tenon._trace import NO, Dim, GraphTrace, SizeNeeded, Value, same, tracing

from . import _facts, _table
from ._floats import Number, Real, is_float
from ._places import line_of, name_of
from ._saved import Memory
from ._sizes import Numbers, Whole, has_found, is_found, may_be_negative, size_in
from ._table import Refused
from ._tracing import WalkTrace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from tenon._trace import Size

DTYPES: dict[torch.dtype, dt.DType] = {
    torch.bool: dt.bool_, torch.int8: dt.int8, torch.int16: dt.int16, torch.int32: dt.int32,
    torch.int64: dt.int64, torch.uint8: dt.uint8, torch.uint16: dt.uint16, torch.uint32: dt.uint32,
    torch.uint64: dt.uint64, torch.float16: dt.float16, torch.bfloat16: dt.bfloat16,
    torch.float32: dt.float32, torch.float64: dt.float64, torch.complex64: dt.complex64,
    torch.complex128: dt.complex128,
}  # fmt: skip

# What a row may raise because a node is beyond it: the node stays in torch.
BEYOND = (Refused, Error, SizeNeeded, GuardOnDataDependentSymNode, TypeError, ValueError, OverflowError, NotImplementedError)


def dtype_of(dtype: torch.dtype) -> dt.DType:
    """Our element type. Refused if there is none."""
    found = DTYPES.get(dtype)
    if found is None:
        raise Refused(f"elements of {dtype} have no operators yet")
    return found


def fake_of(argument: Any) -> Any:
    """What torch knows of an argument: a tensor without data, a SymInt, or the argument itself."""
    return argument.meta.get("val") if isinstance(argument, fx.Node) else argument


class Node:
    """What a row is given besides its arguments."""

    def __init__(self, walk: Walk, node: fx.Node):
        self.walk = walk
        self.node = node
        self.trace = walk.trace
        self.fake: Any = node.meta.get("val")

    @property
    def result(self) -> torch.Tensor:
        """The (first) result, with torch's type."""
        fake = self.fake[0] if isinstance(self.fake, (tuple, list)) else self.fake
        assert isinstance(fake, torch.Tensor)
        return fake

    @property
    def fakes(self) -> Sequence[torch.Tensor]:
        """All results, with torch's types."""
        return self.fake if isinstance(self.fake, (tuple, list)) else (self.fake,)

    @property
    def dtype(self) -> dt.DType:
        """The element type of the (first) result."""
        return dtype_of(self.result.dtype)

    @property
    def shape(self) -> tuple[Size, ...]:
        """The sizes of the (first) result."""
        return self.shape_of(self.result)

    def shape_of(self, fake: torch.Tensor) -> tuple[Size, ...]:
        return tuple(size_in(self.trace, s) for s in fake.shape)

    def learn(self, x: Value, fake: torch.Tensor | None = None) -> Value:
        """A value of the (first) result's shape. Symbols of torch that data decides are known by its sizes."""
        fake = self.result if fake is None else fake
        self.trace.learn(fake.shape, x.shape)
        return _ops.reshape(x, self.shape_of(fake))

    def is_read(self, i: int) -> bool:
        """Whether somebody reads result i of several."""
        return any(user.args[1] == i for user in self.node.users)

    def to_result(self, x: Any) -> Value:
        """An operand in the type and the shape of the result."""
        return self.spread(x, self.dtype)

    def spread(self, x: Any, dtype: dt.DType, shape: tuple[Size, ...] | None = None) -> Value:
        """An operand in a type, repeated to a shape: that of the result unless given."""
        return _ops.broadcast_to(self.typed(x, dtype), self.shape if shape is None else shape)

    def fitting(self, x: Any) -> Value:
        """An operand in the type and the shape of the result, which has the number."""
        return self.to_result(within(x, self.dtype))

    def typed(self, x: Any, dtype: dt.DType) -> Value:
        """A value or a number in a type; as torch computes, a number wraps."""
        if isinstance(x, Value):
            return _ops.convert(x, dtype)
        if isinstance(x, Whole):
            return _ops.convert(self.walk.whole(x.size), dtype)
        if isinstance(x, Dim):
            return _ops.size_value(x, dtype)
        if isinstance(x, Real):
            if not dt.is_floating(dtype):
                raise Refused(f"a float that changes as {dtype.name}")
            return _ops.convert(x.value, dtype)
        if isinstance(x, (bool, int, float, complex)):
            if isinstance(x, complex) and not dt.is_complex(dtype):
                raise Refused("a complex number beside real ones")
            if dt.is_integer(dtype):
                low, high = dt.limits(dtype)
                assert not isinstance(x, complex)
                x = int(x) if low <= x <= high else _wrapped(int(x), dtype)
            return _ops.scalar(x, dtype)
        raise Refused(f"{type(x).__name__} is no operand")

    def is_beyond(self, x: Any) -> bool:
        """Whether the result's type of 16 bits may lack a number, or a tensor without axes of another type.

        torch takes such a factor or divisor in float32.
        """
        if wide(self.dtype) is self.dtype:
            return False
        if isinstance(x, Value):
            return not x.shape and x.dtype is not self.dtype and x.dtype is not dt.bool_
        if isinstance(x, (bool, int, float)):
            return torch.tensor(float(x), dtype=self.result.dtype).item() != x
        return not isinstance(x, complex)

    def common(self, *indices: int) -> dt.DType:
        """The type that torch computes in with these arguments."""
        fakes = [fake_of(self.node.args[i]) for i in indices]
        return dtype_of(functools_reduce_result_type(fakes))

    def reshape(self, x: Value) -> Value:
        """A value in the shape of the result."""
        return _ops.reshape(x, self.shape)


def wide(dtype: dt.DType) -> dt.DType:
    """What torch computes in for results of a type: float32 for those of 16 bits."""
    return dt.float32 if dtype in (dt.float16, dt.bfloat16) else dtype


def added_up(kind: str, x: Value) -> Value:
    """An operand of what is put together at equal places: in float32 for types of 16 bits, where sums stop growing."""
    return _ops.convert(x, wide(x.dtype)) if kind in ("add", "mul") else x


def within(x: Any, dtype: dt.DType) -> Any:
    """An operand. Refused for a number beyond the type, for which torch has rules by operator."""
    if isinstance(x, (int, float)) and dt.is_integer(dtype):
        low, high = dt.limits(dtype)
        if not low <= x <= high:
            raise Refused("a number beyond the element type")
    return x


def checked(x: Value, holds: Value) -> Value:
    """A value, in a call that fails where a condition of the same shape does not hold: eager mode then
    runs, and raises. It is the check of an index, which comes before anything is written.
    """
    zeros = _ops.iota((1,), 0, dt.int64)
    index = _ops.select(holds, _ops.like(_ops.convert(holds, dt.int64), 0), _ops.like(_ops.convert(holds, dt.int64), 1))
    nothing = _ops.one("take", zeros, index, dim=0, mode="in_bounds")
    return _ops.one("add", x, _ops.convert(nothing, x.dtype))


def checked_whole(x: Value, holds: Value) -> Value:
    """As `checked`, for a value of any type and one condition for all of it. Its bits stay as they are."""
    index = _ops.select(holds, _ops.scalar(0, dt.int64), _ops.scalar(1, dt.int64))
    index = _ops.reshape(index, (1,))
    return _ops.reshape(_ops.one("take", _ops.reshape(x, (1, *x.shape)), index, dim=0, mode="in_bounds"), x.shape)


def _wrapped(x: int, dtype: dt.DType) -> int:
    x &= (1 << dtype.bits) - 1
    return x - (1 << dtype.bits) if dtype.kind == "signed integer" and x >> (dtype.bits - 1) else x


def functools_reduce_result_type(fakes: Sequence[Any]) -> torch.dtype:
    """torch's promotion of tensors and numbers."""
    from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes

    kind = ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT
    return elementwise_dtypes(*fakes, type_promotion_kind=kind)[1]


def axis_of(axis: int, rank: int) -> int:
    """An axis from 0 on; torch counts from behind, too, and numbers have one."""
    return axis % max(rank, 1)


class Walk:
    """One walk over a graph. `refused` has the nodes that stay in torch, with the reason."""

    def __init__(self, graph: fx.Graph, name: str = "torch"):
        self.graph = graph
        self.trace = WalkTrace(name)
        self.trace.locate = False
        self.values: dict[fx.Node, Any] = {}
        self.refused: dict[fx.Node, str] = {}
        self.inputs: list[fx.Node] = []
        self.memory: dict[fx.Node, Memory] = {}  # of inputs that a backward graph reads as views of it
        self.is_backward = name == "backward"
        self.constants: dict[str, torch.Tensor] = {}  # values of placeholders that never change
        self.keep_inputs = False  # also those that nobody reads
        self.assertions: list[Value] = []  # conditions that a call fails without
        self.places: dict[int, Value] = {}  # where masks are set, by their numbers
        self.random = 0  # how many streams of random numbers were drawn
        self.drawn: list[torch.SymInt | Number | None] = []  # further arguments: numbers of the call, None for the key
        self._wholes: dict[str, Value] = {}
        self._reals: dict[fx.Node, Value] = {}
        self._key: Value | None = None
        self._place: tuple[Any, str] | None = None

    def run(self) -> None:
        """Walks over all nodes."""
        with tracing(self.trace):
            for node in self.graph.nodes:
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
                self._refuse(node, error)

    def _placeholder(self, node: fx.Node) -> None:
        fake = node.meta.get("val")
        self.values[node] = Real(self, node) if is_float(fake) else fake
        if isinstance(fake, torch.Tensor) and not _is_token(node) and (node.users or self.keep_inputs):
            try:
                if node.name in self.constants:
                    self.values[node] = constant(self.trace, self.constants[node.name])
                    return
                self.values[node] = self._input(node, fake)
                self.inputs.append(node)
            except BEYOND as error:
                self._refuse(node, error)

    def _input(self, node: fx.Node, fake: torch.Tensor) -> Value:
        found = Memory.of(fake) if self.is_backward and fake.layout is torch.strided else None
        if found is None:
            return self._argument(fake, node.name)
        value = found.taken(self._argument(fake, node.name, found.shape))
        self.memory[node] = found
        return value

    def _argument(self, fake: torch.Tensor, name: str, shape: Sequence[int] | None = None) -> Value:
        if type(fake) is not torch.Tensor and type(fake).__name__ not in ("FakeTensor", "Parameter"):
            raise Refused(f"{type(fake).__name__} is a kind of tensor of its own")
        if fake.layout is not torch.strided or fake.is_quantized or fake.is_nested:
            raise Refused(f"a tensor of layout {fake.layout}")
        if fake.device.type != "cpu":
            raise Refused(f"a tensor on {fake.device}")
        sizes = [size_in(self.trace, s) for s in fake.shape] if shape is None else list(shape)
        return self.trace.argument(dtype_of(fake.dtype), sizes, name)

    def inline(self, gm: fx.GraphModule, operands: Sequence[Any]) -> list[Any]:
        """The results of a graph for these values, computed in this one. Refused if one of its nodes is."""
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
                if node in self.refused:
                    raise Refused(self.refused.pop(node))
            elif node.op == "call_function":
                try:
                    self.values[node] = self._call(node)
                except BEYOND as error:
                    raise Refused(f"{node.target} in its graph: {error}") from error
        (output,) = (n for n in gm.graph.nodes if n.op == "output")
        listed: Any = output.args[0]
        results: list[Any] = [self._read(n) for n in (listed if isinstance(listed, (tuple, list)) else [listed])]
        if not all(isinstance(v, Value) for v in results):
            raise Refused("a result that is no tensor")
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
                self._refuse(node, error)

    def _refuse(self, node: fx.Node, error: Exception) -> None:
        """The node becomes an argument, so that the walk finds out about the others."""
        self.refused[node] = (str(error) or type(error).__name__).split("\n")[0]
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
        if isinstance(fake, (torch.SymInt, torch.SymBool, torch.SymFloat)) or fake is None and not _has_effect(node):
            return fake  # sizes are known by their expressions
        if node.target is torch.ops.aten._assert_scalar.default:
            return _facts.claim(self, fake_of(node.args[0]))
        if node.target is _getitem:
            return self._item(node)
        found = _table.find(node.target)
        if found is None:
            raise Refused("the operator has no mapping")
        self._locate(node)
        args, kwargs = self._read(node.args), self._read(node.kwargs)
        return self._checked(node, found(Node(self, node), *args, **kwargs))

    def _element(self, node: fx.Node, fake: Any) -> torch.SymInt:
        """A symbol that is read from a tensor. It is an operand or a size."""
        x = self._read(node.args[0])
        if not is_found(fake) or not dt.is_integer(x.dtype):
            raise Refused(f"a number of {x.dtype.name}")
        self.trace.read[str(fake.node.expr)] = _ops.convert(_ops.reshape(x, ()), dt.int64)
        return fake  # type: ignore[no-any-return]

    def _item(self, node: fx.Node) -> Any:
        source: Any = node.args[0]
        index: Any = node.args[1]
        values = self.values[source]
        value = values[index] if isinstance(values, (tuple, list)) else values
        if value is None:
            raise Refused("this result is not computed")
        if isinstance(value, _Missing):
            raise Refused("it reads what stays in torch")
        return value

    def _read(self, argument: Any) -> Any:
        if isinstance(argument, fx.Node):
            value = self.values[argument]
            if isinstance(value, _Missing):
                raise Refused("it reads what stays in torch")
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
            raise Refused("a number that is known only when it runs")
        return value

    def _checked(self, node: fx.Node, result: Any) -> Any:
        fake = node.meta.get("val")
        if isinstance(fake, (tuple, list)):
            values = tuple(result)
            if len(values) != len(fake):
                raise Refused(f"the row gives {len(values)} results instead of {len(fake)}")
            return tuple(v and self._check(f, v) for f, v in zip(fake, values))
        return self._check(fake, result)

    def _check(self, fake: Any, value: Value) -> Value:
        if not isinstance(fake, torch.Tensor):
            return value
        if not isinstance(value, Value):
            raise Refused(f"the row gives {type(value).__name__}")
        if value.dtype is not dtype_of(fake.dtype):
            raise Refused(f"the row gives {value.dtype.name} instead of {fake.dtype}")
        self.trace.learn(fake.shape, value.shape)
        shape = [size_in(self.trace, s) for s in fake.shape]
        if len(shape) != len(value.shape) or any(same(a, b) == NO for a, b in zip(shape, value.shape)):
            raise Refused(f"the row gives {_ops.shape_text(value.shape)} instead of {tuple(fake.shape)}")
        return _ops.reshape(value, shape) if has_found(fake.shape) else value

    def _locate(self, node: fx.Node) -> None:
        line = line_of(node)
        place = (line, name_of(node))
        if place != self._place:
            self._place = place
            self.trace.native.location(*(line or ("", 0)), place[1])

    def key(self) -> Value:
        """The key of random numbers: an argument that each call draws anew."""
        if self.trace.depth:
            raise Refused("random numbers in a loop or a choice")
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
                raise Refused(f"the number {name}, of one that is read from a tensor")
            self.drawn.append(size)
            self._wholes[name] = self.trace.argument(dt.int64, (), f"tenon.number.{name}")
        return self._wholes[name]

    def real(self, node: fx.Node) -> Value:
        """A float of the call, as an argument of its own."""
        if node not in self._reals:
            if self.trace.depth or self.keep_inputs or node.graph is not self.graph:
                raise Refused("a number that is known only when it runs")
            placeholders = {n: i for i, n in enumerate(n for n in self.graph.nodes if n.op == "placeholder")}
            self.drawn.append(Number(node, placeholders))
            self._reals[node] = self.trace.argument(dt.float64, (), f"tenon.number.{node.name}")
        return self._reals[node]

    def counter(self) -> Value:
        """A counter apart from all others of this graph."""
        self.random += 1
        return _ops.scalar(self.random << 40, dt.uint64)

    def found(self, name: str) -> Value:
        """A symbol that data decides: a number that was read, or the first dim of a value without elements."""
        if name in self.trace.read:
            return self.trace.read[name]
        if name not in self.trace.found:
            raise Refused(f"the size {name} follows from nothing here")
        return _ops.full((self.trace.found[name], 0), False, dt.bool_)

    def asserted(self, results: Sequence[Value]) -> list[Value]:
        """The results of the program, in calls that fail where an assertion does not hold.

        The smallest result that is sure to have elements has the check, which costs a copy of it, else
        one that may have none. Refused if no result has elements.
        """
        made = list(results)
        if self.assertions:
            sizes = [_estimate(v) for v in made]
            i = min((i for i, size in enumerate(sizes) if size), key=sizes.__getitem__, default=None)
            if i is None:
                raise Refused("an assertion beside no result")
            holds = self.assertions[0]
            for other in self.assertions[1:]:
                holds = _ops.one("and", holds, other)
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
    known = ("aten._assert_tensor_metadata.", "aten.sym_constrain", "aten.sym_size", "<built-in function")
    return node.target is not _getitem and not name.startswith(known)


_UNSURE = 1 << 62


def _estimate(value: Value) -> int:
    """How many elements a value has. Those of which a call may have none are behind all others."""
    known = math.prod(s for s in value.shape if isinstance(s, int))
    return known if len(value.shape) == sum(isinstance(s, int) for s in value.shape) else known * _UNSURE


_getitem = __import__("operator").getitem


def constant(trace: GraphTrace, tensor: torch.Tensor) -> Value:
    """A tensor's elements as a constant."""
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        raise Refused(f"{type(tensor).__name__} is a kind of tensor of its own")
    dtype = dtype_of(tensor.dtype)
    shape = [int(s) for s in tensor.shape]
    if tensor.numel() == 0:
        return trace.constant(dtype, shape, b"")
    flat = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
    return trace.constant(dtype, shape, _bytes(flat))


def _bytes(flat: torch.Tensor) -> bytes:
    import ctypes

    return ctypes.string_at(flat.data_ptr(), flat.numel())
