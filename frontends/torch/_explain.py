"""`tenon.torch.explain`: what became of a network."""

from __future__ import annotations

import torch

from ._backend import backend, watch
from ._split import Compiled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class Explanation:
    """What `torch.compile(backend="tenon")` makes of a network. Prints as text."""

    def __init__(self, graphs: list[Compiled], breaks: list[str], recompiles: list[str]):
        self.graphs = [
            {"kind": g.kind, "operators": g.nodes, "parts": len(g.parts), "in_torch": dict(g.refused)}
            for g in graphs
        ]
        """For each graph: "kind" (inference, forward, backward), its operators, the parts that became
        programs, and the operators that stay in torch, with reasons."""
        self.breaks = breaks
        """Where Dynamo broke the network, in its words."""
        self.recompiles = recompiles
        """The guards that failed, in Dynamo's words."""

    def __str__(self) -> str:
        lines = []
        for g in self.graphs:
            lines.append(f"{g['kind']}: {g['operators']} operators in {g['parts']} programs")
            for operator, reasons in g["in_torch"].items():
                lines.append(f"  in torch: {operator}: {'; '.join(reasons)}")
        lines += [f"break: {reason.splitlines()[0]}" for reason in self.breaks]
        lines += [f"compiled again: {reason.splitlines()[0]}" for reason in self.recompiles]
        return "\n".join(lines)

    __repr__ = __str__


def explain(net: Callable[..., Any], *args: Any, **kwargs: Any) -> Explanation:
    """Compiles a network, calls it with these arguments, and tells what became of it.

    The backward graph is compiled where results need gradients; parameters get none. What the
    network has compiled before stays as it is. Raises what the network raises.
    """
    from torch._dynamo.utils import graph_break_reasons

    net = getattr(net, "_orig_mod", net)

    def fresh(gm: Any, inputs: Any) -> Any:  # another backend for each call: Dynamo compiles anew
        return backend(gm, inputs)

    listed: list[Compiled] = []
    before = len(graph_break_reasons)
    watch.lists.append(listed)
    try:
        result = torch.compile(net, backend=fresh)(*args, **kwargs)
        _backward(result, net)
    finally:
        watch.lists.remove(listed)
    breaks = [str(b.reason) for b in graph_break_reasons[before:] if b.graph_break]
    return Explanation(listed, breaks, _failed_guards(net))


def _backward(result: Any, net: Any) -> None:
    """Runs the backward graphs, so that they are compiled."""
    from torch.utils import _pytree as pytree

    leaves = [t for t in pytree.tree_leaves(result) if isinstance(t, torch.Tensor) and t.requires_grad]
    parameters = [p for p in getattr(net, "parameters", list)() if p.requires_grad]
    if leaves and parameters:
        torch.autograd.grad([t.sum() for t in leaves], parameters, allow_unused=True)


def _failed_guards(net: Any) -> list[str]:
    from torch._dynamo import utils

    code = getattr(getattr(net, "forward", net), "__code__", None)
    failures = getattr(utils, "guard_failures", {})
    found = [str(f) for f in failures.get(code, ())] if code is not None else []
    return [f for f in found if "BACKEND_MATCH" not in f]  # this function's own doing
