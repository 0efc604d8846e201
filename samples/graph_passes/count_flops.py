"""What a loop computes: a note at each loop, and sums over the graph."""

import math
from typing import Any

import tenon

PRODUCTS = ("matmul", "dot_general", "linear")


def flops_of(node: Any) -> Any:
    """Operations on numbers of one node: a number, or what computes like one."""
    if node.op == "scan":
        return note(node)
    elements = math.prod(node.results[0].shape)
    return 2 * elements * node.operands[0].shape[-1] if node.op in PRODUCTS else elements


def note(loop: Any) -> Any:
    """Leaves at a loop what a step and all steps compute, where that is a number."""
    carried = loop.attrs["carry"]
    steps = loop.attrs["length"][0] if loop.attrs["length"] else loop.operands[carried].shape[0]
    step = sum(flops_of(node) for node in loop.regions[0].nodes)
    for name, value in (("python.step_flops", step), ("python.flops", steps * step)):
        if isinstance(value, int):
            loop.notes[name] = value
    return steps * step


@tenon.graph_pass(before="legalize", statistics=("loops", "flops"))
def count_flops(graph: Any) -> None:
    """Counts the operations of loops, those of loops inside of them included."""
    for loop in (node for node in graph.main.nodes if node.op == "scan"):
        graph.count("loops")
        total = note(loop)
        graph.count("flops", total if isinstance(total, int) else 0)
