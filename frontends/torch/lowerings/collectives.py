"""Functional collectives: transfers between the ranks of a process group."""

from __future__ import annotations

from tenon.builder import Value, ops

from torch import fx

from ..graph.node import Node
from ..graph.table import Unsupported, lowering
from ..graph.transfers import is_wait

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


def _is_read(node: fx.Node) -> bool:
    return any(user.users if is_wait(user) else True for user in node.users)


def _transfer(n: Node, op: str, x: Value, group: str, **attrs: Any) -> Value:
    groups = n.walk.groups
    if groups is None:
        raise Unsupported("transfers between ranks are not part of such a program")
    if n.trace.depth or n.node.graph is not n.walk.graph:
        raise Unsupported("a collective in a loop or a choice")
    if not _is_read(n.node):  # as any node that nothing reads, it would not be computed
        raise Unsupported("nothing reads its result")
    if "kind" in attrs and x.dtype.code not in groups.combines.get(attrs["kind"], ()):
        raise Unsupported(f"a reduction of the kind {attrs['kind']} of {x.dtype.name}")
    mesh = groups.mesh_of(group)
    after = groups.order.after(n.node, x)
    made = ops.one(op, after, mesh=mesh, axes=mesh.partition("=")[0], **attrs)
    groups.order.add(n.node, made)
    return made


@lowering("_c10d_functional.all_reduce.default")
def all_reduce(n: Node, x: Value, kind: str, group: str) -> Value:
    return _transfer(n, "all_reduce", x, group, kind=kind)


@lowering(
    "_c10d_functional.all_gather_into_tensor.default",
    "_c10d_functional_autograd.all_gather_into_tensor.default",
)
def all_gather(n: Node, x: Value, count: int, group: str) -> Value:
    return _transfer(n, "all_gather", x, group, dim=0)


@lowering(
    "_c10d_functional.reduce_scatter_tensor.default",
    "_c10d_functional_autograd.reduce_scatter_tensor.default",
)
def reduce_scatter(n: Node, x: Value, kind: str, count: int, group: str) -> Value:
    return _transfer(n, "reduce_scatter", x, group, kind=kind, dim=0)


@lowering(
    "_c10d_functional.all_to_all_single.default",
    "_c10d_functional_autograd.all_to_all_single.default",
)
def all_to_all(n: Node, x: Value, taken: Sequence[Any], given: Sequence[Any], group: str) -> Value:
    """Equal parts alone."""
    parts = [*taken, *given]
    if any(not isinstance(p, int) or p != parts[0] for p in parts):
        raise Unsupported("parts of different sizes")
    return _transfer(n, "all_to_all", x, group, split_dim=0, concat_dim=0)


@lowering("_c10d_functional.broadcast.default")
def broadcast(n: Node, x: Value, source: int, group: str) -> Value:
    return _transfer(n, "broadcast_from", x, group, root=source)


@lowering("_c10d_functional.wait_tensor.default")
def wait(n: Node, x: Value) -> Value:
    """The program waits for its own transfers where it reads them, and knows no others."""
    source: Any = n.node.args[0]
    if source in n.walk.unsupported or source.op == "placeholder":
        raise Unsupported("it waits for a transfer of torch's")
    return x
