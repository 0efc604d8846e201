"""Transfers between ranks in a graph of ours: the groups that they may use, and their order.

A collective of ours is a function of the values of all ranks, so its order among others is open. Torch
runs those of a graph in the order of its nodes, and another rank may compile a graph that differs in
something else, or run it in torch. So each transfer here reads something of the one before it, unless
its operand depends on that one anyway.
"""

from __future__ import annotations

from tenon.builder import Value, ops
from tenon.builder.trace import emit

from torch import fx

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

NAMESPACES = ("_c10d_functional.", "_c10d_functional_autograd.")
_WAIT = "wait_tensor"


def is_transfer(node: fx.Node) -> bool:
    """Whether it starts a transfer."""
    name = str(node.target)
    return node.op == "call_function" and name.startswith(NAMESPACES) and _WAIT not in name


def is_wait(node: fx.Node) -> bool:
    return node.op == "call_function" and f".{_WAIT}." in str(node.target)


def are_chained(graph: fx.Graph) -> bool:
    """Whether each transfer of a graph reads what the one before it gave."""
    order = Order()
    for node in graph.nodes:
        order.visit(node)
        if is_transfer(node):
            if not order.follows(node):
                return False
            order.add(node, None)
    return True


class Order:
    """The transfers of a graph so far, and what depends on how many of them."""

    def __init__(self) -> None:
        self._known: dict[fx.Node, int] = {}  # how many of the first transfers a node depends on
        self._count = 0
        self._last: Value | None = None

    def visit(self, node: fx.Node) -> None:
        known = max((self._known.get(n, 0) for n in node.all_input_nodes), default=0)
        if known:
            self._known[node] = known

    def follows(self, node: fx.Node) -> bool:
        """Whether a node depends on all transfers so far."""
        return self._known.get(node, 0) == self._count

    def add(self, node: fx.Node, result: Value | None) -> None:
        self._count += 1
        self._known[node] = self._count
        self._last = result

    def after(self, node: fx.Node, x: Value) -> Value:
        """The operand of a transfer, which is there once the transfer before it is over."""
        last = self._last
        if last is None or self.follows(node):
            return x
        if last.shape and all(isinstance(s, int) and s > 0 for s in last.shape):
            one = [1] * len(last.shape)
            last = ops.slice_(last, [0] * len(one), one, one)
        return emit("barrier", (x, last))[0]


class Groups:
    """What the transfers of a walk may use. `mesh_of`: the mesh that a process group is, by its name.
    `combines`: types that are combined, by the kind of a reduction.
    """

    def __init__(
        self, mesh_of: Callable[[str], str], combines: dict[str, tuple[str, ...]]
    ):  # fmt: skip
        self.mesh_of = mesh_of
        self.combines = combines
        self.order = Order()
