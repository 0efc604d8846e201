"""Which operators torch takes apart before we see them."""

from __future__ import annotations

import functools

import torch

from ..lowerings import find
from . import general, grid, layers, linalg, padding, special  # noqa: F401
from .foreach import foreach
from .registry import composites
from .resizes import resizes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

aten = torch.ops.aten

# Beyond torch's core table, what a network or its gradient may have.
_MORE = [
    aten._weight_norm_interface, aten._weight_norm_interface_backward, aten.std, aten.std_mean,
    aten.var_mean, aten.cudnn_batch_norm, aten.native_batch_norm, aten._native_batch_norm_legit,
    aten._native_batch_norm_legit_no_training, aten._native_batch_norm_legit_functional,
    aten.native_batch_norm_backward,
    aten.grid_sampler_2d, aten.log_sigmoid_forward, aten.native_group_norm, aten.softplus_backward,
    aten.prelu, aten.native_dropout, aten.dropout, aten.addr, aten.logaddexp, aten.nll_loss_forward,
    aten.nll_loss2d_forward, aten.huber_loss, aten.smooth_l1_loss, aten.smooth_l1_loss_backward,
    aten.soft_margin_loss, aten.soft_margin_loss_backward, aten.split_with_sizes_copy, aten.unfold_backward,
    aten.unfold_copy, aten.linalg_vector_norm, aten.native_layer_norm, aten.norm, aten.bucketize,
    aten.exponential, aten.cauchy, aten.log_normal, aten.normal, aten.adaptive_max_pool2d,
    aten.adaptive_max_pool3d, aten.tril_indices, aten.triu_indices, aten.dist, aten.ldexp,
    aten._batch_norm_with_update,
    aten._batch_norm_with_update_functional, aten.rrelu_with_noise_backward,
]  # fmt: skip


@functools.cache
def table() -> dict[Any, Callable[..., Any]]:
    """torch's decompositions, without those of operators that have a lowering."""
    from torch._decomp import core_aten_decompositions, get_decompositions

    found: dict[Any, Callable[..., Any]] = dict(core_aten_decompositions())
    found.update(get_decompositions(_MORE))
    found.update(composites())
    found.update(foreach())
    found = {op: how for op, how in found.items() if find(op) is None}
    return (
        found
        | resizes()
        | {
            op: _in_one_type(op)
            for op in (aten.native_layer_norm.default, aten.native_group_norm.default)
        }
    )


def _in_one_type(op: Any) -> Callable[..., Any]:
    """A norm whose parameters have another type than its operand, as autocast makes them, in float32.

    torch computes it so too and saves float32 statistics, though its fake tensors say otherwise.
    """

    def norm(x: torch.Tensor, *rest: Any) -> Any:
        mixed = any(isinstance(v, torch.Tensor) and v.dtype is not x.dtype for v in rest)
        if not mixed or x.dtype is torch.float64:
            return NotImplemented
        wide = [v.float() if isinstance(v, torch.Tensor) else v for v in rest]
        out, *saved = op(x.float(), *wide)
        return out.to(x.dtype), *saved

    return norm
