"""Whether the ranks of a process group compile the same collectives.

Each rank compiles alone. Where it has other transfers than the ranks that it meets in them, libraries
wait for ever, end the process, or sum what does not belong together. So a rank leaves the transfers
of each graph in the store of the processes, and reads what others left: of two ranks that differ, the
one that comes later always sees it. No rank waits for another one here: a rank may compile a graph more
often than the others, for a size of its own.
"""

from __future__ import annotations

import json
import logging
import os

from tenon import UsageError

import torch
from torch import fx

from ..graph.source_locations import first_line, place_of_user
from ..graph.transfers import is_transfer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

log = logging.getLogger("tenon.torch")

# What every rank gives as much of: sizes are compared. Other transfers have parts of any sizes.
_EVEN = ("all_reduce", "all_gather_into_tensor", "reduce_scatter_tensor", "broadcast")
_MOST = 1000
"""Compilations of one line that are compared."""


class Transfers:
    """The transfers of a graph, compared with those of the other ranks that compiled it."""

    def __init__(self, graph: fx.Graph, kind: str):
        self._left: list[_Left] = []
        by_group = _transfers(graph)
        if not by_group or not torch.distributed.is_initialized():
            return
        where = f"{kind} {os.path.basename(first_line(graph.nodes))}"
        for name, listed in by_group.items():
            group = torch.distributed.distributed_c10d._resolve_process_group(name)
            ranks = torch.distributed.get_process_group_ranks(group)
            self._left.append(_Left(where, ranks, listed))

    def check(self) -> None:
        """Raises in the first compilation of a line on both ranks, whose transfers meet.

        Later it warns, since another rank may have compiled the line more often.
        """
        for left in self._left:
            problem = left.difference()
            if problem and left.number == 0:
                raise UsageError(problem, "T0645")
            if problem:
                log.warning("%s; the ranks may wait for each other", problem)

    def explained(self, call: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
        """The call of the graph, where a transfer that fails says how another rank differs."""
        if not self._left:
            return call

        def run(args: list[Any]) -> Any:
            try:
                return call(args)
            except RuntimeError as error:
                for problem in filter(None, (left.difference() for left in self._left)):
                    error.add_note(f"T0645: {problem}")
                raise

        run._boxed_call = True  # type: ignore[attr-defined]
        return run


def _transfers(graph: fx.Graph) -> dict[str, list[list[str]]]:
    """By the name of a group: what is done, of what, and the line, in order."""
    found: dict[str, list[list[str]]] = {}
    for node in graph.nodes:
        if not is_transfer(node):
            continue
        names = [a for a in node.args if isinstance(a, str)]
        if names:
            operation = str(node.target).split(".")[1]
            what = " ".join([operation, *names[:-1]])
            found.setdefault(names[-1], []).append(
                [what, _operands(node, operation), place_of_user(node)]
            )
    return found


def _operands(node: fx.Node, operation: str) -> str:
    """Types and sizes of what is transferred; "*" for a size that calls decide."""
    texts = []
    for operand in node.all_input_nodes:
        fake = operand.meta.get("val")
        if isinstance(fake, torch.Tensor):
            sizes = fake.shape if operation.startswith(_EVEN) else ()
            texts.append(
                f"{str(fake.dtype)[6:]}{[d if isinstance(d, int) else '*' for d in sizes]}"
            )
    return ", ".join(texts).replace("'", "")


class _Left:
    """What this rank left in the store of a compilation, for those that it meets in the transfers."""

    def __init__(self, where: str, ranks: list[int], listed: list[list[str]]):
        self._where, self._ranks, self._listed = where, ranks, listed
        self._store = torch.distributed.distributed_c10d._get_default_store()
        self._rank = torch.distributed.get_rank()
        self.number = int(self._store.add(f"{self._key(self._rank, 0)}/count", 1)) - 1
        """Of the compilation, among those of the line."""
        if self.number < _MOST:
            self._store.set(self._key(self._rank, self.number), json.dumps(listed))

    def _key(self, rank: int, number: int) -> str:
        return f"tenon/{self._where}/{','.join(map(str, self._ranks))}/{number}/{rank}"

    def difference(self) -> str:
        """How the first rank that differs does, or nothing."""
        for other in self._ranks:
            key = self._key(other, self.number)
            if other == self._rank or not self._store.check([key]):
                continue
            found = _difference(self._listed, json.loads(self._store.get(key)), other)
            if found:
                return f"rank {self._rank} and rank {other} compile different collectives in {self._where}: {found}"
        return ""


def _difference(ours: list[list[str]], theirs: list[list[str]], other: int) -> str:
    """The first transfer that differs. A graph may end earlier on one rank, where Dynamo breaks it."""
    for i, (a, b) in enumerate(zip(ours, theirs)):
        if a[0] != b[0] or not _agree(a[1], b[1]):
            return f"number {i + 1} is {a[0]} of {a[1]} at {a[2]} here, and {b[0]} of {b[1]} at {b[2]} on rank {other}"
    return ""


def _agree(a: str, b: str) -> bool:
    """Whether types and sizes may be the same."""
    one, two = a.replace("[", " ").split(), b.replace("[", " ").split()
    return len(one) == len(two) and all(
        x == y or "*" in (x.strip("],"), y.strip("],")) for x, y in zip(one, two)
    )
