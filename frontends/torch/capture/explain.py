"""`tenon.torch.explain`: what became of a network."""

from __future__ import annotations

from tenon import UsageError
from tenon import report as pages

import torch

from ..program._logging import sizes
from ..program.partition import plain
from ..program.partitioner import Compiled
from .backend import backend
from .watch import watch

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Callable
    from typing import Any

    from ..program.partition import Partition


class Explanation:
    """What `torch.compile(backend="tenon")` makes of a network. Prints as text."""

    def __init__(
        self,
        graphs: list[Compiled],
        breaks: list[str],
        recompiles: list[str],
        name: str = "network",
    ):
        self._compiled = graphs
        self._name = name
        self.graphs = [
            {
                "kind": g.kind,
                "operators": g.nodes,
                "parts": len(g.partitions),
                "in_torch": dict(g.unsupported),
            }
            for g in graphs
        ]
        """For each graph: "kind" (inference, forward, backward), its operators, the parts that became
        programs, and the operators that stay in torch, with reasons."""
        self.breaks = breaks
        """Where Dynamo broke the network, in its words."""
        self.recompiles = recompiles
        """The guards that failed, in Dynamo's words."""

    def report(self, path: str | os.PathLike[str]) -> None:
        """Writes a page about the programs: one HTML file, for a browser, without a network.

        It shows what `Model.report` does, for each program of each graph: nodes are named by the
        modules of the network and have lines of its source, so that times are given by module. The
        inputs are those of `explain`. T0644 if no part of the network became a program.
        """
        pages.check_name(path)
        runs = [
            self._run(graph, part)
            for graph in self._compiled
            for part in graph.partitions
            if part.program is not None
        ]
        if not runs:
            raise UsageError(
                f"nothing of {self._name} became a program, so there is nothing to show", "T0644"
            )
        pages.write(path, pages.page_of(runs, parts=True))

    def _run(self, graph: Compiled, part: Partition) -> dict[str, Any]:
        assert part.program is not None
        number = f" {graph.partitions.index(part) + 1}" if len(graph.partitions) > 1 else ""
        inputs: pages.Inputs | None = None
        if part.kept_inputs is not None:
            inputs = tuple(map(plain, part.kept_inputs)), {}
        run = pages.run_of(part.program, f"{graph.kind}{number}", inputs)
        return {**run, "model": f"{self._name}, {run['label']}"}

    def __str__(self) -> str:
        lines = []
        for g in self.graphs:
            lines.append(f"{g['kind']}: {sizes(g['operators'], g['parts'])}")
            for operator, reasons in g["in_torch"].items():
                lines.append(f"  in torch: {operator}: {'; '.join(reasons)}")
        lines += [f"break: {reason.splitlines()[0]}" for reason in self.breaks]
        lines += [f"compiled again: {reason.splitlines()[0]}" for reason in self.recompiles]
        return "\n".join(lines)

    __repr__ = __str__


def explain(net: Callable[..., Any], *args: Any, **kwargs: Any) -> Explanation:
    """Compiles a network, calls it with these arguments, and reports what became of it.

    The backward graph is compiled where results need gradients; parameters get none. What the
    network has compiled before stays as it is. Raises what the network raises.
    """
    from torch._dynamo.utils import graph_break_reasons

    net = getattr(net, "_orig_mod", net)

    def fresh(gm: Any, inputs: Any) -> Any:  # another backend for each call: Dynamo compiles again
        return backend(gm, inputs)

    listed: list[Compiled] = _Watching()
    before = len(graph_break_reasons)
    watch.lists.append(listed)
    try:
        result = torch.compile(net, backend=fresh)(*args, **kwargs)
        _backward(result, net)
    finally:
        watch.lists.remove(listed)
    breaks = [str(b.reason) for b in graph_break_reasons[before:] if b.graph_break]
    return Explanation(
        listed, breaks, _failed_guards(net), getattr(net, "__name__", type(net).__name__)
    )


class _Watching(list[Compiled]):
    """Graphs as they are compiled, before their first call. Its inputs are kept for a page."""

    def append(self, graph: Compiled) -> None:
        super().append(graph)
        for part in graph.partitions:
            part.keeps_inputs = True


def _backward(result: Any, net: Any) -> None:
    """Runs the backward graphs, so that they are compiled."""
    from torch.utils import _pytree as pytree

    leaves = [
        t for t in pytree.tree_leaves(result) if isinstance(t, torch.Tensor) and t.requires_grad
    ]
    parameters = [p for p in getattr(net, "parameters", list)() if p.requires_grad]
    if leaves and parameters:
        torch.autograd.grad([t.sum() for t in leaves], parameters, allow_unused=True)


def _failed_guards(net: Any) -> list[str]:
    from torch._dynamo import utils

    code = getattr(getattr(net, "forward", net), "__code__", None)
    failures = getattr(utils, "guard_failures", {})
    found = [str(f) for f in failures.get(code, ())] if code is not None else []
    return [f for f in found if "BACKEND_MATCH" not in f]  # this function's own doing
