"""`tenon.torch.explain`: what became of a network."""

from __future__ import annotations

import collections
import itertools

from tenon import UsageError
from tenon import report as pages

import torch
from torch import fx

from ..graph.input_names import input_name
from ..graph.source_locations import place_of
from ..program._logging import break_text, guard_of, nodes_of, sizes
from ..program.partition import plain
from ..program.partitioner import Compiled
from .backend import backend
from .watch import watch

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable
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
        options: dict[str, Any] | None = None,
    ):
        self._compiled = graphs
        self._name = name
        self._options = options or {}
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
        by_graph = [[n for part in g.partitions for n in nodes_of(part)] for g in graphs]
        self.nodes = [
            {"graph": g.kind, **node, "place": node["place"] or f"network {name}"}
            for g, nodes in zip(graphs, by_graph)
            for node in nodes
        ]
        """Each node of the programs: "graph" (its kind), "op", "place" (the line of the network, or its
        module), "device", and "why" no other device took it; empty where none was asked."""
        self._counts = [len(nodes) for nodes in by_graph]
        self.breaks = breaks
        """Where Dynamo broke the network: the line, and why in Dynamo's words."""
        self.recompiles = recompiles
        """The guards that failed, as Dynamo writes them."""

    def report(self, path: str | os.PathLike[str]) -> None:
        """Writes a page about the programs: one HTML file, for a browser, without a network.

        It shows what `Model.report` does, for each program of each graph: nodes are named by the
        modules of the network and have lines of its source, so that times are given by module, and
        parameters have their names. Operators that stay in torch are listed apart, with the times of
        their first call. The inputs are those of `explain`. T0644 if no part of the network became a program.
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
        _rename_inputs(run["program"]["graph"], part.input_names)
        in_torch = [
            {"op": str(node.target), "place": _place_in_torch(node), "us": 1e6 * seconds}
            for node, seconds in graph.times
        ]
        return {**run, "model": f"{self._name}, {run['label']}", "torch": in_torch}

    def __str__(self) -> str:
        lines, nodes = [], iter(self.nodes)
        for made, count in zip(self._compiled, self._counts):
            lines.append(f"{made.kind}: {sizes(made.nodes, len(made.partitions))}")
            lines += [
                f"  in torch: {node.target}: {reason} ({place_of(node)})"
                for node, reason in made.in_torch.items()
            ]
            named = {str(node.target) for node in made.in_torch}
            lines += [
                f"  in torch: {operator}: {'; '.join(reasons)}"
                for operator, reasons in made.unsupported.items()
                if operator not in named
            ]
            lines += _folded(itertools.islice(nodes, count))
        if not self.nodes:
            lines.append(f"nothing of {self._name} became a program: it runs in torch")
        elif "device" not in self._options:
            lines.append(
                "no other device was asked: options={'device': 'NAME,cpu'} asks NAME first, "
                "and tenon.devices() lists them"
            )
        lines += [f"break: {reason.splitlines()[0]}" for reason in self.breaks]
        lines += [f"compiled again: {reason.splitlines()[0]}" for reason in self.recompiles]
        return "\n".join(lines)

    __repr__ = __str__


def _folded(nodes: Iterable[dict[str, str]]) -> list[str]:
    """Neighbours of one line of the network, on one device, are one line of text."""
    lines = []
    for (place, device, why), group in itertools.groupby(
        nodes, lambda n: (n["place"], n["device"], n["why"])
    ):
        counts = collections.Counter(node["op"] for node in group)
        ops = ", ".join(op if count == 1 else f"{count} {op}" for op, count in counts.items())
        lines.append(f"  {place}: {ops} on {device}{f'  ({why})' if why else ''}")
    return lines


def explain(
    net: Callable[..., Any], *args: Any, options: dict[str, Any] | None = None, **kwargs: Any
) -> Explanation:
    """Compiles a network, calls it with these arguments, and reports what became of it.

    The backward graph is compiled where results need gradients; parameters get none. What the
    network has compiled before stays as it is. `options` are those of the backend. Raises what the network raises.
    """
    from torch._dynamo.utils import graph_break_reasons

    net = getattr(net, "_orig_mod", net)

    def fresh(gm: Any, inputs: Any) -> Any:  # another backend for each call: Dynamo compiles again
        return backend(gm, inputs, options=options)

    fresh.__name__ = "tenon"  # which messages of Dynamo name

    listed: list[Compiled] = _Watching()
    before = len(graph_break_reasons)
    watch.lists.append(listed)
    try:
        result = torch.compile(net, backend=fresh)(*args, **kwargs)
        _backward(result, net)
    finally:
        watch.lists.remove(listed)
    breaks = [break_text(b) for b in graph_break_reasons[before:] if b.graph_break]
    return Explanation(
        listed, breaks, _failed_guards(net), getattr(net, "__name__", type(net).__name__), options
    )


def _rename_inputs(graph: dict[str, Any], names: list[str]) -> None:
    """Gives the inputs of a page's graph the user's names."""
    known = dict(zip(graph["inputs"], names))
    for value in graph["values"]:
        value["name"] = known.get(value["value"], value["name"])


def _place_in_torch(node: fx.Node) -> str:
    """The line of a node; for the update of a buffer, which has none, the buffer."""
    target = node.args[0] if node.target is torch.ops.aten.copy_.default else None
    return f"update of {input_name(target)}" if isinstance(target, fx.Node) else place_of(node)


class _Watching(list[Compiled]):
    """Graphs as they are compiled, before their first call, of which a page has inputs and times."""

    def append(self, graph: Compiled) -> None:
        super().append(graph)
        graph.keeps_times = True
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
    return [guard_of(f) for f in found if "BACKEND_MATCH" not in f]  # this function's own doing
