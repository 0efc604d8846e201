"""`flex_attention` in terms of other operators: scores, what the network makes of them, softmax, product.

It is torch's own definition for eager mode, over grids of indices, so the results are eager mode's. The
tables of a block mask only say which blocks a kernel may leave out: the mask function decides, as in
eager mode. All scores are in memory at once.
"""

from __future__ import annotations

import torch
from torch import fx

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def _flex_attention(*args: Any) -> Any:
    from torch._higher_order_ops.flex_attention import sdpa_dense

    return sdpa_dense(*args)


def take_apart(gm: fx.GraphModule) -> None:
    """Replaces the operator in a graph of Dynamo and in those inside it."""
    for module in gm.modules():
        if isinstance(module, fx.GraphModule) and any(
            [_replace(node) for node in module.graph.nodes]
        ):
            module.recompile()


def _replace(node: fx.Node) -> bool:
    if (
        node.op != "call_function"
        or node.target is not torch.ops.higher_order.flex_attention
        or node.kwargs
    ):
        return False
    node.target = _flex_attention
    return True
