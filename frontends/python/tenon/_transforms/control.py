"""Control flow on values: branches and loops of a traced function, with derivatives and samples.

Each emits a node whose regions are the given functions, which may use arrays of the enclosing trace.
Outside of a trace each is compiled as a whole, once for its functions and types.
"""

from __future__ import annotations

from tenon import xp
from tenon._errors import UsageError
from tenon._transforms.regions import (
    CODE,
    Leaf,
    Region,
    common_length,
    emit_regions,
    nesting,
    paths,
    require_nesting,
    same_type,
    slice_type,
    type_text,
)
from tenon._transforms.tracing import Tree, array_of, at_once
from tenon.builder import dtypes as dt
from tenon.builder import ops
from tenon.builder.trace import DIMS, I64, Value
from tenon.xp._array import Array

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from tenon.builder.dtypes import DType


# ---- Branches ----


@at_once()
def cond(predicate: Any, true_fn: Any, false_fn: Any, /, *operands: Any) -> Any:
    """The result of one of two functions, chosen by a bool array without axes when the program runs.

        y = tenon.cond(x > 0, xp.sqrt, lambda x: 0 * x, x)

    Both functions take the operands and return arrays of the same types, nested in the same way.
    Only the chosen one is computed, in reverse mode too. T0664 names what differs.
    """
    chosen = array_of(predicate)
    if chosen.dtype is not dt.bool_ or chosen.shape != ():
        raise UsageError(
            f"cond: the predicate is {type_text(chosen._value)}, but it must be a bool without axes: "
            "compare it, or use xp.where for a choice per element",
            CODE,
        )
    named = [("false_fn", false_fn), ("true_fn", true_fn)]
    return _branch("cond", chosen, named, operands)


@at_once()
def switch(index: Any, functions: Sequence[Any], /, *operands: Any) -> Any:
    """The result of one of several functions, chosen by an integer, which is clamped to the range.

    Otherwise like `cond`.
    """
    chosen = array_of(index)
    if not dt.is_integer(chosen.dtype) or chosen.shape != ():
        raise UsageError(
            f"switch: the index is {type_text(chosen._value)}, but it must be an integer without axes: "
            "convert it with xp.astype",
            CODE,
        )
    if not functions:
        raise UsageError("switch: there are no functions: give at least one", CODE)
    if chosen.dtype not in (dt.int32, dt.int64):
        chosen = xp.astype(xp.clip(chosen, max=len(functions) - 1), dt.int32)
    named = [(f"function {i}", f) for i, f in enumerate(functions)]
    return _branch("switch", chosen, named, operands)


def _branch(
    what: str, index: Array, named: Sequence[tuple[str, Any]], operands: tuple[Any, ...]
) -> Any:
    """A switch over functions. Python numbers that one returns take the types of the others."""
    given = Tree(operands, "operand")

    def region(function: Any, wanted: Sequence[DType | None] = ()) -> Region:
        return Region((), lambda: function(*given.build(given.leaves)), wanted)

    made = [region(f) for _, f in named]
    for i in range(1, len(made)):
        _same_results(what, named, made, i)
    wanted = [_common(column) for column in zip(*(r.result.leaves for r in made))]
    for i, r in enumerate(made):
        fits = zip(r.result.leaves, wanted)
        if any(leaf.weak and t not in (None, leaf.value.dtype) for leaf, t in fits):
            made[i] = region(named[i][1], wanted)
    for i in range(1, len(made)):
        names = paths(made[0].result.tree.structure, "result")
        for name, a, b in zip(names, made[0].values, made[i].values):
            if not same_type(a, b):
                raise UsageError(
                    f"{what}: {name} of {named[0][0]} is "
                    f"{type_text(a)}, and that of {named[i][0]} is {type_text(b)}: the types must "
                    "be equal; convert one with xp.astype, or change its shape",
                    CODE,
                )
    tree = made[0].result.tree
    return (
        tree.build(emit_regions("switch", [index._value], made)) if tree.leaves else tree.build([])
    )


def _same_results(
    what: str, named: Sequence[tuple[str, Any]], made: Sequence[Region], i: int
) -> None:
    require_nesting(
        made[0].result.tree,
        made[i].result.tree,
        f"{what}: {named[0][0]} returns {{}}, and {named[i][0]} returns {{}}, with a star for each "
        "array: return the same nesting from all functions",
    )


def _common(column: Sequence[Leaf]) -> DType | None:
    """The element type that weak results take: that of the first strong one, or the widest."""
    strong = [leaf.value.dtype for leaf in column if not leaf.weak]
    if strong:
        return strong[0]
    own = sorted({leaf.value.dtype for leaf in column}, key=lambda d: (-d.bits, d.name))
    return next((d for d in own if all(leaf.fits(d) for leaf in column)), None)


# ---- Loops ----


class _Carry:
    """What a loop carries: its initial values, and their types, which the body has to keep."""

    def __init__(self, what: str, init: Any):
        self.what = what
        self.tree = Tree(init, "carry")
        self.leaves = [Leaf(v) for v in self.tree.leaves]
        self.values = [leaf.value for leaf in self.leaves]

    def build(self, values: Sequence[Array]) -> Any:
        return self.tree.build(values)

    @property
    def types(self) -> list[DType]:
        return [v.dtype for v in self.values]

    def adopt(self, body: Region, count: int) -> bool:
        """Gives initial Python numbers the types that the body returns. Returns whether any changed."""
        changed = False
        for i, leaf in enumerate(body.result.leaves[:count]):
            begin = self.leaves[i]
            if not begin.weak or leaf.weak or leaf.value.dtype is self.values[i].dtype:
                continue
            self.values[i] = begin.as_type(leaf.value.dtype)
            changed = changed or self.values[i].dtype is leaf.value.dtype
        return changed

    def check(self, body: Region, tree: Tree) -> None:
        """T0664 where an iteration changes a type or the nesting."""
        require_nesting(
            self.tree,
            tree,
            f"{self.what}: the carry begins as {{}}, and an iteration gives {{}}, with a star for each "
            "array: return the same nesting from the body",
        )
        names = paths(self.tree.structure, "carry")
        for name, begin, after in zip(names, self.values, body.values):
            if not same_type(begin, after):
                raise UsageError(
                    f"{self.what}: {name} begins as {type_text(begin)}, and an iteration "
                    f"gives {type_text(after)}: the body must keep the type; convert one of them",
                    CODE,
                )


def _carried_part(result: Any, what: str) -> tuple[Any, Any]:
    if not isinstance(result, tuple) or len(result) != 2:
        raise UsageError(
            f"{what}: the function returned {type(result).__name__}, but must return two values: the "
            "next carry, and the output of the iteration (None for none)",
            CODE,
        )
    return result


@at_once("length", "reverse")
def scan(
    f: Any, init: Any, xs: Any = None, /, length: Any = None, reverse: bool = False
) -> tuple[Any, Any]:
    """Runs `carry, y = f(carry, x)` for each slice of xs along the first axis.

        total, sums = tenon.scan(lambda c, x: (c + x, c + x), 0.0, xs)

    Returns the last carry, and the ys stacked along a new first axis. Carry, x and y may be nested.
    The carry keeps its types; Python numbers in init take the types that the first iteration
    returns. `length` is the number of iterations, needed where xs is None. With `reverse` the last
    slice comes first, and each y stays at the place of its slice. T0664 names what is wrong.
    """
    carry = _Carry("scan", init)
    cut = Tree(xs, "xs")
    slices = [array_of(v)._value for v in cut.leaves]
    size = common_length("scan", cut, slices, length)
    count = len(carry.values)

    def body(*values: Array) -> Any:
        x = cut.build(values[count:])
        return _carried_part(f(carry.build(values[:count]), x), "scan")

    def attempt() -> tuple[list[Value], Region, list[Tree]]:
        types = [*carry.values, *(slice_type(v) for v in slices)]
        made = Region(types, body, [*carry.types])
        parts = made.result.tree.build(made.result.tree.leaves)
        return types, made, [Tree(part, "y") for part in parts]

    types, made, trees = attempt()
    for _ in range(count):
        if len(trees[0].leaves) != count or not carry.adopt(made, count):
            break
        types, made, trees = attempt()
    made = _fitted(made, types, body, carry)
    carry.check(made, trees[0])
    attrs = (("carry", I64, count), ("length", DIMS, (size,)), ("reverse", I64, int(reverse)))
    out = emit_regions("scan", [*carry.values, *slices], [made], attrs)
    return carry.build(out[:count]), trees[1].build(out[count:])


def _fitted(made: Region, types: Sequence[Value], body: Any, carry: _Carry) -> Region:
    """The region, traced again if Python numbers that it returns must take the types of the carry."""
    leaves = made.result.leaves
    wanted: list[DType | None] = [*carry.types, *(None for _ in leaves[len(carry.values) :])]
    for leaf, t in zip(leaves, carry.types):
        if leaf.weak and t is not leaf.value.dtype and leaf.fits(t):
            return Region(types, body, wanted)
    return made


@at_once()
def while_loop(condition: Any, body: Any, init: Any, /) -> Any:
    """Runs `carry = body(carry)` as long as `condition(carry)`, a bool without axes, holds.

        root = tenon.while_loop(lambda y: xp.abs(y * y - x) > 1e-6, lambda y: (y + x / y) / 2, x)

    Returns the last carry, which may be nested and keeps its types. It is differentiable in both
    modes and needs no bound on its iterations for that; in reverse mode the loop keeps the values
    that each iteration began with. T0664 names what is wrong.
    """
    carry = _Carry("while_loop", init)

    def again(*values: Array) -> Any:
        return body(carry.build(values))

    made = Region(carry.values, again, [*carry.types])
    for _ in range(len(carry.values)):
        if len(made.result.tree.leaves) != len(carry.values):
            break
        if not carry.adopt(made, len(carry.values)):
            break
        made = Region(carry.values, again, [*carry.types])
    tree = made.result.tree
    made = _fitted(made, carry.values, again, carry)
    carry.check(made, tree)
    holds = Region(carry.values, lambda *values: condition(carry.build(values)))
    if [type_text(v) for v in holds.values] != ["bool()"]:
        listed = nesting(holds.result.tree.structure).replace("*", "{}")
        raise UsageError(
            "while_loop: the condition returns "
            + listed.format(*[type_text(v) for v in holds.values])
            + ", but must return one bool without axes",
            CODE,
        )
    return carry.build(emit_regions("while", carry.values, [holds, made]))


@at_once()
def fori_loop(lower: Any, upper: Any, body: Any, init: Any, /) -> Any:
    """Runs `carry = body(i, carry)` for each i in range(lower, upper). Returns the last carry.

    Bounds are Python integers or integer arrays without axes. With two Python integers the number of
    iterations is a constant of the program.
    """
    for name, bound in (("lower", lower), ("upper", upper)):
        b = array_of(bound)._value
        if not dt.is_integer(b.dtype) or b.shape != ():
            raise UsageError(
                f"fori_loop: {name} is {type_text(b)}, but it must be an integer without axes", CODE
            )
    if isinstance(lower, int) and isinstance(upper, int):
        first = ops.scalar(lower, dt.int64)

        def step(carry: Any, _: Any) -> Any:
            i, rest = carry
            return (i + 1, body(_number(i), rest)), None

        return scan(step, (Array(first), init), None, length=max(0, upper - lower))[0][1]
    last = xp.asarray(upper, dtype=dt.int64)
    return while_loop(
        lambda carry: carry[0] < last,
        lambda carry: (carry[0] + 1, body(_number(carry[0]), carry[1])),
        (xp.asarray(lower, dtype=dt.int64), init),
    )[1]


def _number(i: Array) -> Array:
    """An index that computes with arrays of any type, as a Python number does."""
    return Array(i._value, True)


@at_once()
def map(f: Any, xs: Any, /) -> Any:
    """f on each slice of xs along the first axis, one after another; the results are stacked.

    `tenon.vmap` computes all slices at once, in more memory.
    """
    return scan(lambda _, x: ((), f(x)), (), xs)[1]
