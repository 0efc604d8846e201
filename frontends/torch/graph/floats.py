"""Python floats that change between calls: arguments of a program.

Dynamo makes such a float an input of its graph, a tensor of float64, and a SymFloat of that. torch's
pass `tensorify_python_scalars` then makes tensors of those that arithmetic reads, and constants of
all others. Here all of them stay numbers: a lowering takes one as an operand, and each call computes it
in Python, as eager mode does. What asks for the number itself while a graph is made, such as an
argument of torch that is a double, makes it a constant with a guard, as torch does.
"""

from __future__ import annotations

import contextlib
from unittest import mock

import torch
from torch import fx
from torch._dynamo.exc import TensorifyScalarRestartAnalysis
from torch._dynamo.symbolic_convert import TensorifyState
from torch.utils._sympy.symbol import SymT, symbol_is_type

from .sizes import Numbers
from .table import Unsupported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from tenon.builder import Value

    from .walk import Walk

_item = torch.ops.aten._local_scalar_dense.default


class Real:
    """A float that each call gives. A lowering that needs to know it cannot have it."""

    __slots__ = ("_node", "_walk")

    def __init__(self, walk: Walk, node: fx.Node):
        self._walk = walk
        self._node = node

    @property
    def value(self) -> Value:
        """It as a value without axes, of float64."""
        return self._walk.real(self._node)

    def __bool__(self) -> bool:
        raise Unsupported("a number that is known only when it runs")


class Number:
    """A number that a graph computes from its arguments, in Python.

    A size in it, such as the number of elements of a tensor that the graph computes, is computed from
    sizes of arguments.
    """

    def __init__(self, node: fx.Node, placeholders: Mapping[fx.Node, int]):
        numbers = Numbers([n.meta.get("val") for n in placeholders])
        self._sizes: dict[fx.Node, Callable[[Sequence[Any]], list[int]]] = {}
        needed, todo = {node}, [node]
        while todo:
            at = todo.pop()
            if at in placeholders:
                continue
            if isinstance(at.meta.get("val"), torch.SymInt):
                self._sizes[at] = numbers.function([at.meta["val"]])
                continue
            if at.op != "call_function" or isinstance(at.meta.get("val"), torch.Tensor):
                raise Unsupported("a number of a tensor that the graph computes")
            todo += [n for n in at.all_input_nodes if n not in needed]
            needed.update(at.all_input_nodes)
        self._node, self._placeholders = node, placeholders
        self._steps = [n for n in node.graph.nodes if n in needed]

    def __call__(self, args: Sequence[Any]) -> Any:
        values: dict[fx.Node, Any] = {}
        for node in self._steps:
            if node in self._placeholders:
                values[node] = args[self._placeholders[node]]
                continue
            if node in self._sizes:
                (values[node],) = self._sizes[node](args)
                continue
            target: Any = node.target
            given, options = fx.node.map_arg((node.args, node.kwargs), values.__getitem__)
            values[node] = target(*given, **options)
        return values[self._node]

    def reader(self) -> Callable[[Sequence[Any]], torch.Tensor]:
        """From the arguments of a call to the number as a tensor."""
        source: Any = self._node.args[0] if self._node.target is _item else None
        i = self._placeholders.get(source)
        if i is not None and source.meta["val"].dtype is torch.float64:
            return lambda args: args[i].reshape(())
        return lambda args: torch.tensor(self(args), dtype=torch.float64)


def is_float(fake: Any) -> bool:
    """Whether a number of a graph is a float that its arguments decide."""
    return isinstance(fake, torch.SymFloat) and not any(
        symbol_is_type(s, (SymT.UNBACKED_FLOAT, SymT.UNBACKED_INT))
        for s in fake.node.expr.free_symbols
    )


def has_floats(gm: fx.GraphModule) -> bool:
    """Whether a graph of Dynamo has a float that may change."""
    return any(isinstance(n.meta.get("example_value"), torch.SymFloat) for n in gm.graph.nodes)


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """Floats stay numbers while AOTAutograd makes graphs, within `aot_cache.settings`."""
    with mock.patch("torch._functorch._aot_autograd.graph_compile.tensorify_python_scalars", _keep):
        yield


def _keep(gm: fx.GraphModule, shape_env: Any, fake_mode: Any) -> None:
    """Has Dynamo begin again where a float became a constant, or decides a size, with it as one."""
    fixed = {s for s, known in shape_env.replacements.items() if known.is_number}
    for node in gm.graph.nodes:
        fake = node.meta.get("val")
        sizes = fake.shape if isinstance(fake, torch.Tensor) else (fake,)
        for size in sizes:
            if isinstance(size, torch.SymInt):
                fixed |= size.node.expr.free_symbols
    names = {str(s) for s in fixed if symbol_is_type(s, SymT.FLOAT)}
    unknown = {name for name in names if not TensorifyState.should_specialize(name)}
    for name in unknown:
        TensorifyState.specialize(name)
    if unknown:
        raise TensorifyScalarRestartAnalysis
