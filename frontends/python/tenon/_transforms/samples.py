"""Functions of one sample on several at once: vmap."""

from __future__ import annotations

from tenon import xp
from tenon._errors import UsageError
from tenon._transforms.tracing import Traced, Tree, array_of, compiled, name_of
from tenon._tree import children, is_node
from tenon.builder.trace import Dim
from tenon.xp._array import Array

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Function = Callable[..., Any]


def vmap(function: Function, in_axes: Any = 0, out_axes: Any = 0) -> Function:
    """A function that works on several samples at once.

        per_sample = tenon.vmap(tenon.grad(loss), in_axes=(None, 0))

    `in_axes` names the axis of the samples of each argument, or None if all samples share it. It is
    one entry for all arguments, or a tuple with an entry for each, which may be nested like the
    argument. `out_axes` names the axes of the samples of the results. T0663 for arguments with
    different numbers of samples.
    """

    def run(*args: Any) -> Any:
        tree = Tree(args)
        axes = _axes_of(in_axes, args)
        given = [array_of(v) for v in tree.leaves]
        lanes = [axis is not None for axis in axes]
        moved = [a if axis is None else _to_front(a, axis) for a, axis in zip(given, axes)]
        sizes = [a.shape[0] for a, has in zip(moved, lanes) if has]
        if not sizes:
            raise UsageError(
                "vmap: no argument has samples: name an axis in an entry of in_axes", "T0663"
            )
        size = _one_size(sizes, tree, axes, given)
        traced = Traced(function, name_of(function), tree.build(moved), lanes)
        of = " ".join(f"x{i}" for i, has in enumerate(lanes) if has)
        text = str(traced.trace.size_from(size)) if isinstance(size, Dim) else str(size)
        made = traced.inline(f'batch{{of="{of}", size={text}}},cse,dce')
        outs = _out_axes(out_axes, traced.result)
        return traced.result.build([_from_front(a, axis) for a, axis in zip(made, outs)])

    return compiled(run, function, "vmap")


def _axes_of(in_axes: Any, args: tuple[Any, ...]) -> list[int | None]:
    """One axis per leaf."""
    per_argument = in_axes if isinstance(in_axes, (tuple, list)) else [in_axes] * len(args)
    if len(per_argument) != len(args):
        raise UsageError(
            f"vmap: in_axes has {len(per_argument)} entries for {len(args)} arguments", "T0663"
        )
    return [axis for entry, arg in zip(per_argument, args) for axis in spread_axes(entry, arg)]


def spread_axes(entry: Any, value: Any) -> list[int | None]:
    if entry is None or isinstance(entry, int):
        return [entry] * len(Tree(value).leaves)
    if isinstance(entry, dict) and isinstance(value, dict) and entry.keys() == value.keys():
        return [axis for key in value for axis in spread_axes(entry[key], value[key])]
    if isinstance(entry, (tuple, list)) and isinstance(value, (tuple, list)):
        if len(entry) == len(value):
            return [axis for e, v in zip(entry, value) for axis in spread_axes(e, v)]
    if type(entry) is type(value) and is_node(value):
        pairs = zip(children(entry), children(value))
        return [axis for e, v in pairs for axis in spread_axes(e, v)]
    raise UsageError(f"vmap: {entry!r} must be an axis, None, or nested like its argument", "T0663")


def _to_front(a: Array, axis: int) -> Array:
    rank = len(a.shape)
    if not -rank <= axis < rank:
        raise UsageError(
            f"vmap: an argument has {rank} axes, and in_axes names axis {axis}", "T0663"
        )
    return a if axis in (0, -rank) else xp.moveaxis(a, axis, 0)


def _from_front(a: Array, axis: int) -> Array:
    rank = len(a.shape)
    if not -rank <= axis < rank:
        raise UsageError(f"vmap: a result has {rank} axes, and out_axes names axis {axis}", "T0663")
    return a if axis in (0, -rank) else xp.moveaxis(a, 0, axis)


def _one_size(sizes: list[Any], tree: Tree, axes: list[int | None], given: list[Array]) -> Any:
    numbers = {s for s in sizes if isinstance(s, int)}
    if len(numbers) > 1:
        listed = ", ".join(
            f"{name.strip('_') or 'an argument'} {a.shape[axis]} along axis {axis}"
            for name, a, axis in zip(tree.names, given, axes)
            if axis is not None
        )
        raise UsageError(
            f"vmap: the arguments have different numbers of samples: {listed}", "T0663"
        )
    return next(iter(numbers)) if numbers else sizes[0]


def _out_axes(out_axes: Any, result: Tree) -> list[int]:
    if isinstance(out_axes, int):
        return [out_axes] * len(result.leaves)
    spread = spread_axes(out_axes, result.build(result.leaves))
    if not all(isinstance(axis, int) for axis in spread):
        raise UsageError(
            "vmap: out_axes must name an axis for every result, since every result has samples",
            "T0663",
        )
    return [axis for axis in spread if axis is not None]
