"""Functions that raise in eager mode for values of a tensor, kept whole until they are lowered.

AOTAutograd decomposes `one_hot` into a comparison, which gives zeros for a class out of range. Here
it becomes an operator in the graph of Dynamo, so that its lowering can check the classes.
"""

from __future__ import annotations

import functools

import torch
from torch import fx

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


@functools.cache
def _one_hot() -> Any:
    @torch.library.custom_op("tenon_torch::one_hot", mutates_args=())  # type: ignore[untyped-decorator,unused-ignore]
    def one_hot(x: torch.Tensor, num_classes: int) -> torch.Tensor:
        return torch.nn.functional.one_hot(x, num_classes)

    @one_hot.register_fake  # type: ignore[untyped-decorator,unused-ignore]
    def _(x: torch.Tensor, num_classes: int) -> torch.Tensor:
        return x.new_empty((*x.shape, num_classes))

    return torch.ops.tenon_torch.one_hot.default


def keep_checks(gm: fx.GraphModule) -> None:
    """Replaces such functions in a graph of Dynamo and in those inside it, such as branches and steps."""
    for module in gm.modules():
        if isinstance(module, fx.GraphModule) and any(
            [_keep_check(node) for node in module.graph.nodes]
        ):
            module.recompile()


def _keep_check(node: fx.Node) -> bool:
    """Whether a node was such a function, which it replaces."""
    if node.target is not torch._C._nn.one_hot:
        return False
    classes = node.kwargs.get("num_classes", node.args[1] if len(node.args) > 1 else -1)
    if isinstance(classes, int) and classes < 1:
        return False  # counted from the values, which Dynamo does not trace anyway
    x = node.args[0] if node.args else node.kwargs["input"]
    node.target, node.args, node.kwargs = _one_hot(), (x, classes), {}
    return True
