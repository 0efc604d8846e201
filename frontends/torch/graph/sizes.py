"""Sizes of torch, which are expressions over symbols, as sizes of a trace and as numbers of a call."""

from __future__ import annotations

import functools

import sympy  # type: ignore[import-untyped,unused-ignore]
from tenon import builder
from tenon.builder import Dim, GraphTrace

import torch
from torch.utils._sympy import functions as sf
from torch.utils._sympy.symbol import SymT, symbol_is_type

from .table import Unsupported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from tenon.builder import Size

_FLOOR = {sf.FloorDiv, sf.CleanDiv}
_MOD = {sf.Mod, sf.PythonMod}
MAX = {sf.Max, sympy.Max}
_MIN = {sf.Min, sympy.Min}


def expression(size: Any) -> Any:
    """The expression of a number of torch's; one that is known as sympy's."""
    if isinstance(size, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return size.node.expr
    return sympy.sympify(size)


def is_found(size: Any) -> bool:
    """Whether a SymInt is one symbol that the graph computes: how many places of a mask are set."""
    if not isinstance(size, torch.SymInt):
        return False
    e = size.node.expr
    return bool(e.is_Symbol) and symbol_is_type(e, SymT.UNBACKED_INT)


def has_found(sizes: Sequence[Any]) -> bool:
    """Whether a symbol that some graph computes is in one of these sizes, or conditions on them."""
    symbols = [
        s
        for size in sizes
        if isinstance(size, (torch.SymInt, torch.SymBool))
        for s in size.node.expr.free_symbols
    ]
    return any(symbol_is_type(s, SymT.UNBACKED_INT) for s in symbols)


def size_in(trace: GraphTrace, size: Any) -> Size:
    """A SymInt as a size of the trace. Unsupported for an expression that a graph does not have."""
    if isinstance(size, int):
        return size
    return in_graph(trace, expression(size))


def in_graph(trace: GraphTrace, expression: Any) -> Size:
    """An expression over symbols as a size of the trace. Unsupported for one that a graph does not have."""
    converted: Size = _convert(trace, expression)
    return converted


def _convert(trace: GraphTrace, e: Any) -> Any:
    if e.is_Integer:
        return int(e)
    if e.is_Symbol:
        if symbol_is_type(e, (SymT.FLOAT, SymT.UNBACKED_FLOAT)):
            raise Unsupported(f"the float {e} is not a size")
        return trace.symbol(str(e), -1)
    if e.is_Pow and e.exp.is_Integer and 0 < int(e.exp) < 8:
        return functools.reduce(lambda a, b: a * b, [_convert(trace, e.base)] * int(e.exp))
    parts = [_convert(trace, a) for a in e.args]
    kind = type(e)
    if e.is_Add:
        return _sum(trace, e)
    if e.is_Mul:
        return functools.reduce(lambda a, b: a * b, parts)
    if kind in _FLOOR:
        return _divided(trace, *parts)
    if kind in _MOD:
        return _modulo(trace, *parts)
    if kind in MAX:
        return functools.reduce(builder.larger, parts)
    if kind in _MIN:
        return functools.reduce(builder.smaller, parts)
    if kind is sf.ModularIndexing:
        return _modulo(trace, _divided(trace, parts[0], parts[1]), parts[2])
    raise Unsupported(f"the size {e} is none that a graph can express")


def _sum(trace: GraphTrace, e: Any) -> Any:
    """Terms with a negative factor are subtracted: sizes have no negative numbers."""
    plus: Any = None
    minus: Any = None
    for term in e.args:
        factor, _ = term.as_coeff_Mul()
        if factor.is_negative:
            part = _convert(trace, -term)
            minus = part if minus is None else minus + part
        else:
            part = _convert(trace, term)
            plus = part if plus is None else plus + part
    if minus is None:
        return plus
    return (0 if plus is None else plus) - minus


def _divided(trace: GraphTrace, a: Any, b: Any) -> Any:
    if isinstance(a, Dim):
        return a // b
    return _through(trace, builder.FLOORDIV, a, b) if isinstance(b, Dim) else a // b


def _modulo(trace: GraphTrace, a: Any, b: Any) -> Any:
    if isinstance(a, Dim):
        return a % b
    return _through(trace, builder.MOD, a, b) if isinstance(b, Dim) else a % b


def _through(trace: GraphTrace, op: int, a: Any, b: Any) -> Any:
    left, right = trace.raw(a), trace.raw(b)
    assert left is not None and right is not None
    return trace.size(trace.native.dim(op, left, right))


class Whole(Dim):
    """An int of a call that may be negative: an operand by its value, and a size where a lowering takes it for one."""

    __slots__ = ("size", "_made")

    def __init__(self, trace: GraphTrace, size: torch.SymInt):
        self.trace = trace
        self.size = size
        self._made: int | None = None

    @property
    def raw(self) -> int:  # type: ignore[override]
        if self._made is None:
            made = self.trace.raw(size_in(self.trace, self.size))
            assert made is not None
            self._made = made
        return self._made


def may_be_negative(size: torch.SymInt) -> bool:
    """Whether a symbol of it may be, as an int that a function is given: dims of tensors are not."""
    ranges = size.node.shape_env.var_to_range
    return any(s in ranges and ranges[s].lower < 0 for s in size.node.expr.free_symbols)


def _found(result: torch.Tensor) -> int:
    return result.shape[0] if result.dim() else int(result)


class Numbers:
    """The values of a call's symbols, from its arguments.

    `fakes` are the arguments with torch's types: tensors, SymInts, numbers. A symbol that is an
    argument, or a dim of one, has a value in every call. `of_results` are names of symbols that the
    program computes: result -1 - i has number i as its first dim, or is it.
    """

    def __init__(self, fakes: Sequence[Any]):
        self.of_results: list[str] = []
        self.of_dims: dict[str, tuple[int, int]] = {}
        self.of_arguments: dict[str, int] = {}
        for i, fake in enumerate(fakes):
            if isinstance(fake, torch.SymInt):
                e = fake.node.expr
                if e.is_Symbol:
                    self.of_arguments.setdefault(str(e), i)
            elif isinstance(fake, torch.Tensor):
                self._add_dims(i, fake)

    def _add_dims(self, i: int, fake: torch.Tensor) -> None:
        for axis, size in enumerate(fake.shape):
            if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol:
                self.of_dims.setdefault(str(size.node.expr), (i, axis))

    def find(self, sizes: Sequence[Any]) -> None:
        """Makes symbols of these sizes that no argument has results of the program."""
        for symbol in (s for size in sizes for s in expression(size).free_symbols):
            name = str(symbol)
            given = name in self.of_arguments or name in self.of_dims or name in self.of_results
            if not given and symbol_is_type(symbol, SymT.UNBACKED_INT):
                self.of_results.append(name)

    def function(self, sizes: Sequence[Any]) -> Callable[..., list[int]]:
        """A function from the arguments of a call, and the results of its program, to the numbers of these sizes."""
        if all(isinstance(s, int) for s in sizes):
            fixed = [int(s) for s in sizes]
            return lambda args, outs=(): fixed
        from torch.utils._sympy.printers import PythonPrinter

        printer = PythonPrinter()
        expressions = [expression(s) for s in sizes]
        names = sorted({str(s) for e in expressions for s in e.free_symbols})
        texts = ", ".join(printer.doprint(e) for e in expressions)
        given = ", ".join(self._source(name) for name in names)
        code = f"lambda args, outs=(): (lambda {', '.join(names)}: [{texts}])({given})"
        import math

        function: Callable[..., list[int]] = eval(
            code, {"math": math, "torch": torch, "_found": _found}
        )
        return function

    def _source(self, name: str) -> str:
        if name in self.of_arguments:
            return f"args[{self.of_arguments[name]}]"
        if name in self.of_dims:
            i, axis = self.of_dims[name]
            return f"args[{i}].shape[{axis}]"
        if name in self.of_results:
            return f"_found(outs[{-1 - self.of_results.index(name)}])"
        raise Unsupported(f"the size {name} follows from no argument")
