"""Resizing, kept whole where its sizes are known, so that it and its gradient run axis by axis.

torch takes it apart into lists of indices before autograd, and its gradient becomes sums at computed
places. Where a call knows the sizes, that stays.
"""

from __future__ import annotations

import contextlib
import functools
import threading

import torch
from torch._C import DispatchKey
from torch._C._functorch import peek_interpreter_stack
from torch._decomp import get_decompositions
from torch._decomp.decompositions import upsample_compute_output_size
from torch._dispatch.python import no_python_dispatcher

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

aten = torch.ops.aten

_NEAREST = [
    f"{kind}{axes}d"
    for kind in ("upsample_nearest", "_upsample_nearest_exact")
    for axes in (1, 2, 3)
]
_SMOOTH = ["upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d", "upsample_bicubic2d"]

_state = threading.local()


def _overloads() -> list[Any]:
    return [
        getattr(getattr(aten, name), overload)
        for name in (*_NEAREST, *_SMOOTH)
        for overload in ("default", "vec")
    ]


def _is_known(op: Any, x: torch.Tensor, *rest: Any) -> bool:
    """Whether all sizes and factors are plain numbers, and the elements some that are weighted."""
    given = [*x.shape[2:], *(v for r in rest for v in (r if isinstance(r, (list, tuple)) else [r]))]
    plain = all(v is None or isinstance(v, (bool, int, float)) for v in given)
    if any(isinstance(size, int) and size == 0 for size in x.shape):
        return False  # torch's check of the operator fails on itself where the batch is empty
    return plain and ("nearest" in op.__name__ or x.is_floating_point())


def unless_known(op: Any, decomposition: Callable[..., Any]) -> Callable[..., Any]:
    """A decomposition that leaves the operator whole where sizes are known."""

    def decomposed(*args: Any, **kwargs: Any) -> Any:
        if not _is_known(op, *args, *kwargs.values()):
            return decomposition(*args, **kwargs)
        return _with_sizes(op, *args, **kwargs) if op._overloadname == "vec" else NotImplemented

    return decomposed


def resizes() -> dict[Any, Callable[..., Any]]:
    """The decompositions of resizing for sizes that only a call knows."""
    backward = [getattr(aten, f"{name}_backward").default for name in (*_NEAREST, *_SMOOTH)]
    found = get_decompositions([*_overloads(), *backward])
    return {op: unless_known(op, how) for op, how in found.items() if not op._overloadname == "out"}


@contextlib.contextmanager
def kept_whole() -> Iterator[None]:
    """While AOTAutograd traces on this thread, resizing of known sizes is an operator with a gradient."""
    _install()
    before, _state.kept = getattr(_state, "kept", False), True
    try:
        yield
    finally:
        _state.kept = before


@functools.cache
def _install() -> None:
    for op in _overloads():
        for key in (DispatchKey.Autograd, DispatchKey.CompositeImplicitAutograd):
            before = op.py_kernels.get(key)
            if before is not None:
                op.py_kernels[key] = _choosing(op, key, before)
        op._dispatch_cache.clear()


def _with_sizes(op: Any, x: torch.Tensor, output_size: Any, *rest: Any, **named: Any) -> Any:
    """The overload with sizes in the place of the one with sizes or factors."""
    align, factors = [*rest, *named.values()][:-1], [*rest, *named.values()][-1]
    sizes = upsample_compute_output_size(x.shape, output_size, factors)
    factors = factors or [None] * len(sizes)
    overload = getattr(aten, op._opname).default
    return overload(x, sizes, *align, *factors)


def _is_kept() -> bool:
    """Whether AOTAutograd traces on this thread, and no transform of `torch.func` is under way, whose own
    dispatch needs torch's functions in Python."""
    return getattr(_state, "kept", False) and peek_interpreter_stack() is None


def _choosing(op: Any, key: DispatchKey, before: Callable[..., Any]) -> Callable[..., Any]:
    """torch's Python function for a key, or while resizing is kept whole its kernel in C++."""

    @functools.wraps(before)
    def chosen(*args: Any, **kwargs: Any) -> Any:
        if not _is_kept() or not _is_known(op, *args, *kwargs.values()):
            return before(*args, **kwargs)
        if op._overloadname == "vec":
            return _with_sizes(op, *args, **kwargs)
        if key is DispatchKey.CompositeImplicitAutograd:
            return NotImplemented
        with no_python_dispatcher():
            return op(*args, **kwargs)

    return chosen
