"""Graphs, built node by node: what a frontend in Python is made of.

    from tenon import builder
    from tenon.builder import dtypes, ops

    trace = builder.GraphTrace("example")
    x = trace.argument(dtypes.float32, (2, 3), "x")
    with builder.tracing(trace):
        y = ops.one("add", x, ops.like(x, 1.0))
    graph = trace.native.finish([y.id], ["y"])
    model = builder.model_of(graph, "cpu")

`dtypes` has the element types, `ops` functions that add nodes, and `host` services of the host. A
`Value` is immutable: an array of a graph under construction. A `Dim` is a size that calls decide.
"""

from __future__ import annotations

from tenon._model import model_of
from tenon._native import Graph, Program
from tenon.builder import dtypes, host, ops
from tenon.builder.trace import (
    ADD,
    DIMS,
    DIVISIBLE,
    DTYPE,
    EQ,
    F64,
    FLOORDIV,
    I64,
    I64S,
    LE,
    LT,
    MAX,
    MAYBE,
    MIN,
    MOD,
    MUL,
    NO,
    STRING,
    SUB,
    YES,
    Dim,
    GraphTrace,
    SizeNeeded,
    Value,
    active,
    emit,
    larger,
    same,
    smaller,
    tracing,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tenon.builder.trace import Attrs as Attrs
    from tenon.builder.trace import Size as Size

__all__ = [
    "ADD", "DIMS", "DIVISIBLE", "DTYPE", "EQ", "F64", "FLOORDIV", "I64", "I64S", "LE", "LT", "MAX", "MAYBE",
    "MIN", "MOD", "MUL", "NO", "STRING", "SUB", "YES", "Dim", "Graph", "GraphTrace", "Program", "SizeNeeded",
    "Value", "active", "dtypes", "emit", "host", "larger", "model_of", "ops", "same", "smaller", "tracing",
]  # fmt: skip
