"""Operators over lists of tensors, `_foreach_add` and its kin, as one operator for each tensor.

Optimizers of torch use them by `foreach=True`. In a graph the list is of no use: what is done to each
tensor becomes a part of one program.
"""

from __future__ import annotations

import torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from torch import Tensor

aten = torch.ops.aten

_PREFIX = "_foreach_"


def foreach() -> dict[Any, Callable[..., Any]]:
    """The decompositions, by overload: of all that return new tensors."""
    found: dict[Any, Callable[..., Any]] = {}
    for qualified in torch._C._dispatch_get_all_op_names():
        if not qualified.startswith(f"aten::{_PREFIX}"):
            continue
        name, _, overload_name = qualified.removeprefix("aten::").partition(".")
        overload = getattr(getattr(aten, name), overload_name or "default")
        # Factors in a tensor are read by torch itself, before there is a graph.
        reads = any(
            a.name == "scalars" and str(a.type) == "Tensor" for a in overload._schema.arguments
        )
        if not overload._schema.is_mutable and not reads:
            found[overload] = _of_each(overload, name.removeprefix(_PREFIX))
    return found


def _of_each(overload: Any, name: str) -> Callable[..., list[Tensor]]:
    """For each tensor what the operator without the prefix does. Lists have one element for each."""
    single = _SPECIAL.get(name) or getattr(aten, name)
    arguments = overload._schema.arguments
    listed = {a.name for a in arguments if str(a.type).startswith("List[")}

    def decomposed(*args: Any, **kwargs: Any) -> list[Tensor]:
        given = {a.name: a.default_value for a in arguments if a.has_default_value()}
        given |= {a.name: value for a, value in zip(arguments, args)} | kwargs
        lists = {key: list(value) for key, value in given.items() if key in listed}
        count = len(next(iter(lists.values())))
        results = []
        for i in range(count):
            values = {k: lists[k][i] if k in lists else v for k, v in given.items()}
            results.append(_call(single, name, arguments, values))
        return results

    return decomposed


def _call(single: Any, name: str, arguments: Any, values: dict[str, Any]) -> Tensor:
    by_place = [values[a.name] for a in arguments if not a.kwarg_only]
    by_name = {a.name: values[a.name] for a in arguments if a.kwarg_only}
    if name in ("addcmul", "addcdiv") and len(by_place) == 4:  # the factor has a name there
        by_name["value"] = by_place.pop()
    result: Tensor = single(*by_place, **by_name)
    return result


def _copy(to: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
    return source.to(to.dtype).expand_as(to).clone()


def _power_sum(x: Tensor, ord: float = 2, dtype: torch.dtype | None = None) -> Tensor:
    wide = x if dtype is None else x.to(dtype)
    return wide.abs().pow(ord).sum()


def _norm(x: Tensor, ord: float = 2, dtype: torch.dtype | None = None) -> Tensor:
    result: Tensor = torch.linalg.vector_norm(x, ord, dtype=dtype)
    return result


_SPECIAL: dict[str, Callable[..., Tensor]] = {
    "copy": _copy,
    "norm": _norm,
    "powsum": _power_sum,
    "zero": torch.zeros_like,
    "maximum": torch.clamp_min,
    "minimum": torch.clamp_max,
}
