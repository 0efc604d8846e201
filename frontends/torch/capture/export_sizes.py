"""What an exported program demands of the sizes of its inputs: ranges of dims, and guards of its trace.

They become constraints of the graph, which a call checks before it computes anything.
"""

from __future__ import annotations

import ast
import re

from tenon import UsageError, builder
from tenon.builder import tracing

import torch
from torch.utils import _pytree as pytree

from ..graph.node import BEYOND
from ..graph.size_constraints import at_most, below, differ, equal
from ..graph.sizes import size_in
from ..graph.table import Unsupported
from ..graph.walk import Walk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any, TypeAlias

    from tenon.builder import Size

    Program: TypeAlias = torch.export.ExportedProgram

# Bounds from here on are none: a size is less.
_NO_BOUND = 1 << 62


def names(program: Program) -> dict[str, str]:
    """Names of symbols: those of `torch.export.Dim`, and where they are lost, as in a file, INPUT_AXIS."""
    found: dict[str, str] = {}
    for name, fake in _inputs(program):
        for axis, size in enumerate(fake.shape):
            if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol:
                found.setdefault(str(size.node.expr), _name_of(size) or f"{name}_{axis}")
    twice = {n for n in found.values() if list(found.values()).count(n) > 1}
    return {symbol: name for symbol, name in found.items() if name not in twice}


def _inputs(program: Program) -> Iterator[tuple[str, torch.Tensor]]:
    given = set(program.graph_signature.user_inputs)
    for node in program.graph.nodes:
        if (
            node.op == "placeholder"
            and node.name in given
            and isinstance(node.meta.get("val"), torch.Tensor)
        ):
            yield node.name, node.meta["val"]


def _name_of(size: torch.SymInt) -> str | None:
    """The name that the user gave a dim."""
    known = getattr(size.node.shape_env, "source_name_to_debug_name", {})
    sources = getattr(size.node.shape_env, "var_to_sources", {}).get(size.node.expr, ())
    for source in sources:
        name = source.name() if callable(source.name) else source.name
        if re.fullmatch(r"[A-Za-z_]\w*", known.get(name, "")):
            return str(known[name])
    return None


def constrain(program: Program, walk: Walk) -> None:
    """Adds the ranges and guards of a program to its graph. UsageError T0640 for what a graph cannot check."""
    trace = walk.trace
    known = trace.symbols
    trace.native.location("torch.export: sizes", 0)
    with tracing(trace):
        for expression, bounds in program.range_constraints.items():
            if any(trace.names.get(str(s), str(s)) not in known for s in expression.free_symbols):
                continue  # a number that the program computes
            size = size_in(trace, expression)
            if bounds.lower > 0:
                at_most(int(bounds.lower), size)
            if bounds.upper < _NO_BOUND:
                at_most(size, int(bounds.upper))
        guards = getattr(program, "_guards_code", ())
        arguments = _arguments(program, walk) if guards else {}
        for guard in guards:
            try:
                _hold(ast.parse(guard, mode="eval").body, arguments)
            except (*BEYOND, ArithmeticError, AttributeError, LookupError, NameError) as error:
                raise UsageError(
                    f"the program holds only where {guard}, which a model cannot check", "T0640"
                ) from error


class _Sizes:
    """A tensor in a guard, of which only the sizes are known."""

    def __init__(self, sizes: Sequence[Size]):
        self._sizes = sizes

    def size(self) -> Sequence[Size]:
        return self._sizes


def _arguments(program: Program, walk: Walk) -> dict[str, Any]:
    """What guards call `L`: the arguments of the network, by name."""
    fakes = dict(_inputs(program))
    leaves = [
        _Sizes([size_in(walk.trace, s) for s in fakes[name].shape]) if name in fakes else name
        for name in program.graph_signature.user_inputs
    ]
    spec = program.call_spec.in_spec
    assert spec is not None
    args, kwargs = pytree.tree_unflatten(leaves, spec)
    signature = program.module_call_graph[0].signature
    named = dict(zip((signature and signature.forward_arg_names) or [], args))
    rest: dict[str, list[Any]] = {}  # torch lists `*args` as args_0, args_1
    for name, value in named.items():
        if counted := re.fullmatch(r"(\w+)_\d+", name):
            rest.setdefault(counted[1], []).append(value)
    return {**rest, **named, **kwargs}


def _hold(guard: ast.expr, arguments: dict[str, Any]) -> None:
    """Makes a guard a constraint."""
    if isinstance(guard, ast.BoolOp) and isinstance(guard.op, ast.And):
        for part in guard.values:
            _hold(part, arguments)
        return
    if not isinstance(guard, ast.Compare):
        raise Unsupported("no comparison")
    sides = [_value(side, arguments) for side in (guard.left, *guard.comparators)]
    for op, a, b in zip(guard.ops, sides, sides[1:]):
        _relations[type(op)](a, b)


def _value(side: ast.expr, arguments: dict[str, Any]) -> Size:
    code = compile(ast.Expression(side), "guard", "eval")
    made = eval(
        code, {"__builtins__": {}, "L": arguments, "max": builder.larger, "min": builder.smaller}
    )
    if not isinstance(made, (int, builder.Dim)):
        raise Unsupported("no size")
    return made


_relations: dict[type[ast.cmpop], Callable[[Any, Any], None]] = {
    ast.LtE: at_most, ast.GtE: lambda a, b: at_most(b, a), ast.Lt: below, ast.Gt: lambda a, b: below(b, a),
    ast.Eq: equal, ast.NotEq: differ,
}  # fmt: skip
