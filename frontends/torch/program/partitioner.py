"""A graph of torch as parts of ours and nodes that stay in torch."""

from __future__ import annotations

import logging
import operator
import time

from tenon import Cancelled

import torch
from torch import fx
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase
from torch.utils._python_dispatch import _disable_current_modes

from ..graph.node import BEYOND
from ..graph.transfers import Groups, are_chained, is_transfer
from ..graph.walk import Walk
from ..lowerings import find
from . import _logging, engine, progress
from .agreement import Transfers
from .partition import Partition

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .options import Options

log = logging.getLogger("tenon.torch")


class Compiled:
    """What became of a graph: `call` runs it, `partitions` are ours, `unsupported` says what stays in torch."""

    def __init__(self, kind: str, gm: fx.GraphModule):
        self.kind = kind
        self.gm = gm
        self.call: Callable[[list[Any]], Any] = _in_torch(gm, self)
        self.partitions: list[Partition] = []
        self.stable: frozenset[str] = frozenset()
        """Placeholders whose values rarely change."""
        self.unsupported: dict[str, list[str]] = {}
        """Reasons, by operator."""
        self.in_torch: dict[fx.Node, str] = {}
        """The nodes that stay in torch, with reasons."""
        self.keeps_times = False
        """Whether the next call fills `times`."""
        self.times: list[tuple[fx.Node, float]] = []
        """The nodes that ran in torch, with their seconds."""
        self.nodes = sum(n.op == "call_function" for n in gm.graph.nodes)

    def leave_in_torch(self, operator: str, reason: str, level: int = logging.INFO) -> None:
        reasons = self.unsupported.setdefault(operator, [])
        if reason not in reasons:
            reasons.append(reason)
            log.log(level, "%s graph: %s stays in torch: %s", self.kind, operator, reason)


def compile_graph(
    gm: fx.GraphModule, options: Options, kind: str, constants: dict[str, torch.Tensor] | None = None,
    stable: frozenset[str] = frozenset(),
) -> Compiled:  # fmt: skip
    """Makes programs of a graph after AOTAutograd. What has no mapping stays in torch.

    `constants` are values of placeholders, by name, that never change; `stable` are names of those
    whose values rarely do.
    """
    transfers = Transfers(gm.graph, kind)
    transfers.check()
    made = Compiled(kind, gm)
    made.stable = stable
    try:
        with _disable_current_modes():  # AOTAutograd's, in which every tensor must be a fake one
            begin = time.perf_counter()
            with progress.stage(lambda: f"the {kind} graph, {made.nodes} operators, is translated"):
                walk = _walk(made, options, constants or {})
            middle = time.perf_counter()
            with progress.kernels(f"the {kind} graph, {made.nodes} operators,"):
                _compile(made, options, walk)
                made.call = transfers.explained(made.call)
            end = time.perf_counter()
    except Cancelled:
        raise
    except BEYOND as error:
        made.leave_in_torch("the graph", _first_line(error), logging.WARNING)
        return made
    _logging.log_compiled(made, 1e3 * (middle - begin), 1e3 * (end - middle))
    return made


def _walk(made: Compiled, options: Options, constants: dict[str, torch.Tensor]) -> Walk:
    """Transfers are parts of several programs only where values order them: the order of programs is open."""
    graph = made.gm.graph
    walk = _walked(made, constants, engine.groups_of(options))
    if any(map(is_transfer, graph.nodes)) and _is_split(graph, walk) and not are_chained(graph):
        walk = _walked(made, constants, engine.no_groups(_UNORDERED))
    _note(made, walk)
    return walk


_UNORDERED = "its graph becomes several programs, and no values order its transfers"


def _walked(made: Compiled, constants: dict[str, torch.Tensor], groups: Groups) -> Walk:
    walk = Walk(made.gm.graph, made.kind)
    walk.constants = constants
    walk.groups = groups
    walk.run()
    return walk


def _is_split(graph: fx.Graph, walk: Walk) -> bool:
    return bool(walk.unsupported) or _odd_copies(graph)


def _compile(made: Compiled, options: Options, walk: Walk) -> None:
    if _is_split(made.gm.graph, walk):
        made.call = _split(made.gm, options, made, walk)
        return
    part = Partition(made.gm, options, walk, made.stable)
    made.call = part
    made.partitions.append(part)


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).split("\n")[0]


def _note(made: Compiled, walk: Walk) -> None:
    for node, reason in walk.unsupported.items():
        made.in_torch[node] = reason
        made.leave_in_torch(str(node.target), reason)


def _odd_copies(graph: fx.Graph) -> bool:
    """Whether there are copies to anything but inputs, or several to one of them."""
    targets = [n.args[0] for n in graph.nodes if n.target is torch.ops.aten.copy_.default]
    return any(t.op != "placeholder" for t in targets) or len(set(targets)) < len(targets)


def _in_torch(gm: fx.GraphModule, made: Compiled) -> Callable[[list[Any]], Any]:
    def call(args: list[Any]) -> Any:
        given = tuple(args)
        args.clear()
        if made.keeps_times:
            made.keeps_times = False
            return _Timed(gm, made.times).run(*given)
        return gm(*given)

    call._boxed_call = True  # type: ignore[attr-defined]
    return call


class _Timed(fx.Interpreter):
    """Runs a graph, and notes how long each node takes that is not ours."""

    def __init__(self, gm: fx.GraphModule, times: list[tuple[fx.Node, float]]):
        super().__init__(gm)
        self._times = times

    def run_node(self, n: fx.Node) -> Any:
        begin = time.perf_counter()
        made = super().run_node(n)
        if n.op == "call_function" and n.target is not operator.getitem:
            self._times.append((n, time.perf_counter() - begin))
        return made


class _Support(OperatorSupportBase):
    """What the walk computed. Copies to inputs, and numbers, stay outside."""

    def __init__(self, walk: Walk):
        self._walk = walk

    def is_node_supported(self, submodules: Any, node: fx.Node) -> bool:
        if node.op != "call_function" or node in self._walk.unsupported:
            return False
        if (
            isinstance(node.target, torch._ops.HigherOrderOperator)
            and node.target.name() != "with_effects"
        ):
            return False  # its graphs are not values, so a partition cannot get them as inputs
        if node.target is operator.getitem:
            return node.args[0] not in self._walk.unsupported and self.is_node_supported(
                submodules,
                node.args[0],  # type: ignore[arg-type]
            )
        fake = node.meta.get("val")
        if not isinstance(fake, (torch.Tensor, tuple, list)):
            return False
        return node.target is not torch.ops.aten.copy_.default and find(node.target) is not None


# Operators that are free in torch: a part of these alone is not worth a program.
_FREE = (
    "aten.view", "aten.t.", "aten.transpose", "aten.permute", "aten.expand", "aten.slice.", "aten.select.",
    "aten.unsqueeze", "aten.squeeze", "aten.alias", "aten.detach", "aten.split", "<built-in function getitem",
    "aten._unsafe_view", "aten.full", "aten.clone", "aten.empty", "aten.scalar_tensor", "aten.diagonal",
    "aten.unbind", "aten._to_copy", "_c10d_functional",
)  # fmt: skip


def _split(
    gm: fx.GraphModule, options: Options, made: Compiled, walk: Walk
) -> Callable[[list[Any]], Any]:
    partitioner = CapabilityBasedPartitioner(gm, _Support(walk), allows_single_node_partition=True)
    proposed = [p for p in partitioner.propose_partitions() if not _is_free(p.nodes)]
    whole = partitioner.fuse_partitions(proposed, prefix="tenon_")
    for name, module in list(whole.named_children()):
        if name.startswith("tenon_") and isinstance(module, fx.GraphModule):
            part = _partition(module, options, made)
            if part is not None:
                made.partitions.append(part)
                setattr(whole, name, _Module(part))
    whole.recompile()
    return _in_torch(whole, made)


def _is_free(nodes: Any) -> bool:
    return all(str(n.target).startswith(_FREE) for n in nodes)


def _partition(module: fx.GraphModule, options: Options, made: Compiled) -> Partition | None:
    try:
        walk = Walk(module.graph, made.kind)
        walk.groups = engine.groups_of(options)
        walk.run()
        if walk.unsupported:
            _note(made, walk)
            return None
        return Partition(module, options, walk, made.stable)
    except Cancelled:
        raise
    except BEYOND as error:
        made.leave_in_torch("a part of the graph", _first_line(error))
        return None


class _Module(torch.nn.Module):
    """A part in the place of the module that it was made of."""

    def __init__(self, part: Partition):
        super().__init__()
        self._part = part

    def forward(self, *args: Any) -> Any:
        made = self._part(list(args))
        return tuple(made) if isinstance(made, list) else made
