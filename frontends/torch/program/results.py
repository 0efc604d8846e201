"""What a call gives back: which results a program computes, and how the others follow from them.

Inputs that are handed through, numbers, views at the end of the graph, and the order of the memory
of a result need no program.
"""

from __future__ import annotations

import collections
import itertools
import operator

import torch
from torch import fx
from torch._library.fake_class_registry import maybe_unwrap_fake_script_object

from ..graph.floats import Number, is_float
from ..graph.sizes import MAX, Numbers, expression

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    # From the arguments of a call and the results of its program to one result.
    Make = Callable[[Sequence[Any], Sequence[Any]], Any]

aten = torch.ops.aten

# Views that keep all elements, so that replaying them keeps no memory that is not needed.
_VIEWS = {
    aten.t.default, aten.transpose.int, aten.permute.default, aten.view.default,
    aten.unsqueeze.default, aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims,
    aten.expand.default, aten.alias.default, aten.detach.default,
}  # fmt: skip
# And such that leave some out: of inputs, whose memory is there anyway, and of what several results share.
_PARTS = {
    aten.slice.Tensor, aten.select.int, aten.split.Tensor, aten.split_with_sizes.default, aten.unbind.int,
    aten.diagonal.default, aten.unfold.default, aten.as_strided.default, aten.view.dtype,
}  # fmt: skip


def _is_view(node: fx.Node) -> bool:
    if node.target is operator.getitem:
        return _is_view(node.args[0])  # type: ignore[arg-type]
    return (node.target in _VIEWS or node.target in _PARTS) and not node.kwargs


def _chain(node: fx.Node) -> tuple[list[fx.Node], fx.Node]:
    """The views that lead to a node, the last first, and what they are views of."""
    steps: list[fx.Node] = []
    while _is_view(node):
        steps.append(node)
        node = node.args[0]  # type: ignore[assignment]
    return steps, node


def _written(result: Any) -> Any:
    """The input that a copy writes to; the node itself if it is not a copy."""
    while isinstance(result, fx.Node) and result.target is aten.copy_.default:
        result = result.args[0]
    return result


class Results:
    """The plan for the results of a graph.

    `bases` are the nodes whose values the program computes, each once, and `orders` the order of
    their axes in memory, or None. `updates` are placeholders whose memory gets a base: (number of
    the argument, number of the base). `sizes` are names of symbols that follow from no argument:
    after the bases, in reverse order, the program has an empty result for each, whose first dim is
    the size.
    """

    def __init__(self, graph: fx.Graph, numbers: Numbers):
        self.numbers = numbers
        self.placeholders = {
            n: i for i, n in enumerate(p for p in graph.nodes if p.op == "placeholder")
        }
        self.bases: list[fx.Node] = []
        self.orders: list[tuple[int, ...] | None] = []
        self.updates: list[tuple[int, int]] = []
        copies = [n for n in graph.nodes if n.target is aten.copy_.default]
        self._changed = {n.args[0]: n for n in copies}
        self.returned: set[int] = set()  # bases that are results, not only written to inputs
        for node in copies:
            self.updates.append((self.placeholders[node.args[0]], self._base(node.args[1])))
        (output,) = (n for n in graph.nodes if n.op == "output")
        listed = output.args[0]
        self.single = not isinstance(listed, (tuple, list))
        results = [_written(r) for r in ([listed] if self.single else listed)]
        nodes = {r for r in results if isinstance(r, fx.Node)}
        self._shared = collections.Counter(_chain(node)[1] for node in nodes)
        self.makes: list[Make] = [self._make(r) for r in results]

    @property
    def sizes(self) -> list[str]:
        return self.numbers.of_results

    def _base(self, node: fx.Node) -> int:
        if node not in self.bases:
            self.bases.append(node)
            self.orders.append(memory_order(node.meta["val"]))
        return self.bases.index(node)

    def _make(self, result: Any) -> Make:
        if not isinstance(result, fx.Node):
            return lambda args, outs: result
        fake = result.meta.get("val")
        if is_float(fake):
            real = Number(result, self.placeholders)
            return lambda args, outs: real(args)
        if isinstance(fake, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            self.numbers.find([fake])
            number = self.numbers.function([fake])
            return lambda args, outs: number(args, outs)[0]
        if result.op == "get_attr" and fake is None:  # an object, such as the mesh of a DTensor
            held: Any = operator.attrgetter(str(result.target))(result.graph.owning_module)
            held = maybe_unwrap_fake_script_object(held)
            return lambda args, outs: held
        steps, base = self._root(result)
        made = self._whole(base)
        for step in reversed(steps):
            made = self._replayed(made, step)
        return made

    def _root(self, node: fx.Node) -> tuple[list[fx.Node], fx.Node]:
        """The views to replay for a result, the last first, and the node that they start from."""
        steps, root = _chain(node)
        if root in self._changed:  # its memory changes under a view of it
            return [], node
        if root in self.placeholders or self._shared[root] > 1:
            return steps, root
        whole = list(itertools.takewhile(lambda step: step.target in _VIEWS, steps))
        return whole, whole[-1].args[0] if whole else node  # type: ignore[return-value]

    def _whole(self, base: fx.Node) -> Make:
        if base in self.placeholders:
            i = self.placeholders[base]
            return lambda args, outs: args[i]
        b = self._base(base)
        self.returned.add(b)
        order, fake = self.orders[b], base.meta["val"]
        back = None if order is None else tuple(order.index(d) for d in range(len(order)))

        def made(args: Any, outs: Any) -> Any:
            return outs[b] if back is None else outs[b].permute(back)

        return self._with_gaps(made, fake) if _is_odd(fake) else made

    def _with_gaps(self, made: Make, fake: torch.Tensor) -> Make:
        """A copy of a result in memory with the strides that torch gives it."""
        numbers = [*fake.shape, *fake.stride()]
        self.numbers.find(numbers)
        number, rank = self.numbers.function(numbers), fake.dim()

        def make(args: Sequence[Any], outs: Sequence[Any]) -> torch.Tensor:
            found = number(args, outs)
            return torch.empty_strided(found[:rank], found[rank:], dtype=fake.dtype).copy_(
                made(args, outs)
            )

        return make

    def _replayed(self, made: Make, step: fx.Node) -> Make:
        target: Any = step.target
        given = step.args[1:]
        flat: list[Any] = []
        shape = _flatten(given, flat)
        self.numbers.find(flat)
        number = self.numbers.function(flat)
        if all(isinstance(s, int) for s in flat):
            fixed = _unflatten(shape, iter(flat))
            return lambda args, outs: target(made(args, outs), *fixed)
        return lambda args, outs: target(
            made(args, outs), *_unflatten(shape, iter(number(args, outs)))
        )


def _flatten(value: Any, flat: list[Any]) -> Any:
    if isinstance(value, (tuple, list)):
        return [_flatten(v, flat) for v in value]
    if isinstance(value, fx.Node):
        value = value.meta["val"]
    if isinstance(value, (int, torch.SymInt)):
        flat.append(value)
        return ...
    return value


def _unflatten(shape: Any, flat: Any) -> Any:
    if shape is ...:
        return next(flat)
    return [_unflatten(s, flat) for s in shape] if isinstance(shape, list) else shape


def _hint(size: Any) -> int:
    if isinstance(size, int):
        return size
    return int(size.node.hint) if size.node.has_hint() else 2


def _dense_strides(sizes: Sequence[Any]) -> list[Any]:
    strides, step = [], expression(1)
    for size in reversed(sizes):
        strides.append(step)
        step = step * expression(size)
    return strides[::-1]


def _without_one(largest: Any) -> Any:
    rest = [e for e in largest.args if e != 1]
    return largest.func(*rest) if len(rest) > 1 else rest[0]


def _is_step(stride: Any, expected: Any) -> bool:
    """Whether a stride is this one where there are elements. torch steps over an axis of 0 as over one of 1."""
    found = expression(stride)
    return (
        found == expected
        or found.replace(lambda e: e.func in MAX and 1 in e.args, _without_one) == expected
    )


def _is_dense(fake: torch.Tensor, order: Sequence[int]) -> bool:
    """Whether the memory has the elements without gaps, with the axes in this order."""
    expected = _dense_strides([fake.shape[d] for d in order])
    return all(
        isinstance(fake.shape[d], int) and fake.shape[d] <= 1 or _is_step(fake.stride(d), e)
        for d, e in zip(order, expected)
    )


def memory_order(fake: Any) -> tuple[int, ...] | None:
    """The axes as they are in memory, if that is another order and without gaps; else None.

    Gaps between sizes that only a call knows are left out here: `Results` puts them in.
    """
    if (
        not isinstance(fake, torch.Tensor)
        or fake.layout is not torch.strided
        or any(_hint(s) == 0 for s in fake.shape)
    ):
        return None
    natural = tuple(range(fake.dim()))
    if _is_dense(fake, natural):
        return None
    # Of two equal strides the inner one is of the axis with one element.
    order = tuple(sorted(natural, key=lambda d: (-_hint(fake.stride(d)), -_hint(fake.shape[d]))))
    if _is_dense(fake, order):
        return order
    strides = [s for s in fake.stride() if not isinstance(s, int)]
    known = (
        strides and all(s.node.has_hint() for s in strides) and 0 not in map(_hint, fake.stride())
    )
    moved = [d for d in order if not (isinstance(fake.shape[d], int) and fake.shape[d] == 1)]
    return order if known and moved != sorted(moved) else None


def _is_odd(fake: torch.Tensor) -> bool:
    """Whether it has gaps, or no elements and strides of its own."""
    is_known = all(isinstance(s, int) for s in (*fake.shape, *fake.stride()))
    if is_known and 0 in fake.shape:
        return fake.stride() != torch.empty(fake.shape, device="meta").stride()
    if any(
        isinstance(st, int) and st == 0
        for st, s in zip(fake.stride(), fake.shape)
        if not _is_one(s)
    ):
        return False
    return not _is_dense(fake, memory_order(fake) or range(fake.dim()))


def _is_one(size: Any) -> bool:
    return isinstance(size, int) and size == 1
