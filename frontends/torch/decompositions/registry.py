"""The table of composites: operators that torch has no decomposition of, in terms of other operators of torch.

Each function has the schema of its operator and gives what it gives, to rounding; where equal
elements may come in any order, that of a stable sort. NotImplemented leaves the operator as it is.
"""

from __future__ import annotations

import torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_made: dict[str, Callable[..., Any]] = {}


def composite(*overloads: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Makes a function the decomposition of these overloads ("median.default")."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        for overload in overloads:
            _made[overload] = function
        return function

    return add


def composites() -> dict[Any, Callable[..., Any]]:
    """Those of the modules that were imported, by overload."""
    found = {}
    for name, function in _made.items():
        operator, overload = name.split(".")
        found[getattr(getattr(torch.ops.aten, operator), overload)] = function
    return found
