"""Control over derivatives: checkpoint, stop_gradient, and functions with rules of their own."""

from __future__ import annotations

import contextlib
import functools
import threading

from tenon import xp
from tenon._compile import Compiled
from tenon._errors import UsageError
from tenon._transforms.regions import (
    Region,
    Result,
    emit_regions,
    nesting,
    paths,
    same_type,
    type_text,
)
from tenon._transforms.tracing import Tree, array_of, compiled, name_of, positional
from tenon._tree import is_node
from tenon.builder import dtypes as dt
from tenon.builder import ops
from tenon.builder.trace import STRING, Value, active, emit
from tenon.xp._array import Array, value_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    Function = Callable[..., Any]

CODE = "T0665"
# A rule that uses its own function is traced once for each order of derivatives, up to this order.
# The next order is refused, because tracing would never end.
ORDERS_MAX = 3


def checkpoint(function: Function) -> Function:
    """The same function, but reverse mode keeps only its arguments.

        loss = tenon.grad(lambda w: xp.sum(tenon.checkpoint(block)(w, x)))

    Reverse mode computes the values inside again, which takes more time and less memory. Values and
    derivatives are the same.
    """

    def run(*args: Any) -> Any:
        return _call(lambda: function(*args), [], [_attr("kind", "remat")])

    return compiled(run, function, "checkpoint")


def stop_gradient(x: Any) -> Any:
    """The same arrays, with derivatives of zero. `x` may be nested."""
    tree = Tree(x)
    return tree.build([Array(emit("stop_gradient", (array_of(v)._value,))[0]) for v in tree.leaves])


def _attr(name: str, text: str) -> tuple[str, int, str]:
    return name, STRING, text


def _call(body: Callable[[], Any], regions: Sequence[Any], attrs: Any) -> Any:
    """A call without operands: the function uses values of the enclosing trace directly."""
    made = Region((), body)
    tree = made.result.tree
    if not tree.leaves:
        return tree.build([])
    return tree.build(emit_regions("call", [], [made, *regions], attrs))


def _is_float(v: Value) -> bool:
    return dt.is_floating(v.dtype)


class _Rules:
    """A function with derivatives of its own. Made by `custom_vjp` and `custom_jvp`."""

    def __init__(self, function: Function):
        functools.update_wrapper(self, function)
        self._function = function
        self._forward: Function | None = None
        self._backward: Function | None = None
        self._tangents: Function | None = None
        self._compiled = Compiled(self._traced, None, None, True, fresh=True)
        self._inside = threading.local()  # how many rules of it this thread is tracing

    def defvjp(self, forward: Function, backward: Function) -> None:
        """Sets the rule of reverse mode.

        `forward(*args)` returns `(result, saved)`; `backward(saved, cotangents)` returns a tuple with
        the cotangent of each argument, nested like it, with None for zero and for arrays that are
        not floats.
        """
        self._forward, self._backward = forward, backward
        self._compiled._forget()

    def defjvp(self, tangents: Function) -> Function:
        """Sets the rule of forward mode; without defvjp, reverse mode transposes it.

        `tangents(primals, tangents)` gets two tuples nested like the arguments and returns
        `(result, tangents of the result)`. The tangents of arrays that are not floats are None.
        """
        self._tangents = tangents
        self._compiled._forget()
        return tangents

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        args = positional(self._function, args, kwargs) if kwargs else args
        return self._traced(*args) if active() is not None else self._compiled(*args)

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def _traced(self, *args: Any) -> Any:
        name = name_of(self._function)
        if self._forward is None and self._tangents is None:
            raise UsageError(
                f"{name} has no rule: give it one by {name}.defvjp(forward, backward) or "
                f"{name}.defjvp(rule), or call the undecorated function",
                CODE,
            )
        call = _Call(self, name, args)
        return call.emit() if self._orders() < ORDERS_MAX else call.emit_refused()

    def _orders(self) -> int:
        return getattr(self._inside, "orders", 0)

    @contextlib.contextmanager
    def _tracing_rule(self) -> Iterator[None]:
        self._inside.orders = self._orders() + 1
        try:
            yield
        finally:
            self._inside.orders -= 1


class custom_vjp(_Rules):
    """A function with a rule of its own for reverse mode, which `defvjp` sets.

        @tenon.custom_vjp
        def clip_gradient(x):
            return x

        clip_gradient.defvjp(lambda x: (x, None), lambda saved, g: (xp.clip(g, -1, 1),))

    The rule also applies inside vmap, derivatives of derivatives and compile. It covers only the
    arguments: using another array that depends on the variables is an error (T0410). Forward mode is
    refused unless `defjvp` adds a rule for it. A rule may use the function itself; then derivatives
    of order 4 and above are refused. T0665 names a result of a rule that does not fit.
    """


class custom_jvp(_Rules):
    """A function with a rule of its own for forward mode, which `defjvp` sets.

        @tenon.custom_jvp
        def log1pexp(x):
            return xp.log1p(xp.exp(x))

        @log1pexp.defjvp
        def rule(primals, tangents):
            (x,), (t,) = primals, tangents
            return log1pexp(x), t * tenon.nn.sigmoid(x)

    Reverse mode transposes it, unless `defvjp` sets a rule for reverse mode. Otherwise like
    `custom_vjp`.
    """


class _Call:
    """One call of a function with rules, while it is traced."""

    def __init__(self, rules: _Rules, name: str, args: tuple[Any, ...]):
        self.rules = rules
        self.name = name
        self.tree = Tree(args)
        self.given = [value_of(array_of(v)) for v in self.tree.leaves]
        self.places = [
            p for i, arg in enumerate(args) for p in paths(Tree(arg).structure, f"argument {i}")
        ]

    def emit(self) -> Any:
        primal = Region(self.given, lambda *v: self.rules._function(*self.tree.build(v)))
        self.result = primal.result
        regions, both = [primal], []
        with self.rules._tracing_rule():
            if self.rules._forward is not None:
                regions += self._reverse(self.rules._forward)
                both.append("pull")
            if self.rules._tangents is not None:
                types = [*self.given, *filter(_is_float, self.given)]
                regions.append(Region(types, self._forward_mode))
                both.append("jvp")
        return self._node(regions, both[0] if len(both) == 1 else "both")

    def emit_refused(self) -> Any:
        """The function without its rules, which cannot be differentiated."""
        with self.rules._tracing_rule():
            primal = Region(self.given, lambda *v: self.rules._function(*self.tree.build(v)))
        self.result = primal.result
        return self._node([primal], "refused")

    def _node(self, regions: list[Region], rules: str) -> Any:
        attrs = [_attr("kind", "custom_deriv"), _attr("rules", rules), _attr("name", self.name)]
        if not self.result.leaves:
            return self.result.tree.build([])
        return self.result.tree.build(emit_regions("call", self.given, regions, attrs))

    def _pair(self, given: Any, rule: str) -> tuple[Any, Any]:
        if isinstance(given, tuple) and len(given) == 2:
            return given
        raise UsageError(
            f"{self.name}: {rule} returned {type(given).__name__}, but must return two values: the "
            f"result and {'what to save' if rule == 'forward' else 'its tangents'}",
            CODE,
        )

    # ---- Reverse ----

    def _reverse(self, forward: Function) -> list[Region]:
        saved: list[Tree] = []

        def first(*values: Array) -> Any:
            result, kept = self._pair(forward(*self.tree.build(values)), "forward")
            self._same_result(Result(result), "forward")
            saved.append(Tree(kept, "saved"))
            return [*Tree(result).leaves, *saved[-1].leaves]

        region = Region(self.given, first)
        kept = region.values[len(self.result.leaves) :]
        types = [*kept, *filter(_is_float, self.result.values)]
        return [region, Region(types, lambda *v: self._backward(saved[-1], v))]

    def _backward(self, saved: Tree, values: Sequence[Array]) -> list[Array]:
        kept, cotangents = values[: len(saved.leaves)], iter(values[len(saved.leaves) :])
        of_result = [next(cotangents) if _is_float(v) else None for v in self.result.values]
        assert self.rules._backward is not None
        made = self.rules._backward(saved.build(kept), self.result.tree.build(of_result))
        args = self.tree.build(self.given)
        if not isinstance(made, tuple) or len(made) != len(args):
            count = len(made) if isinstance(made, tuple) else type(made).__name__
            raise UsageError(
                f"{self.name}: backward returned {count}, but must return a tuple of {len(args)}: a "
                "cotangent for each argument",
                CODE,
            )
        out: list[Array] = []
        at = 0
        for i, (arg, cotangent) in enumerate(zip(args, made)):
            leaves = Tree(arg).leaves
            given = self._cotangents(cotangent, arg, f"the cotangent of argument {i}")
            for v, g in zip(leaves, given):
                if _is_float(v):
                    out.append(self._like(g, v, f"backward returned, for {self.places[at]},"))
                at += 1
        return out

    def _cotangents(self, given: Any, like: Any, what: str) -> Sequence[Any]:
        """One per array of an argument; None for zero."""
        tree = Tree(like)
        if given is None:
            return [None] * len(tree.leaves)
        return _spread(given, tree.structure, f"{self.name}: {what}")

    # ---- Forward ----

    def _forward_mode(self, *values: Array) -> list[Array]:
        count = len(self.given)
        tangents = iter(values[count:])
        along = [next(tangents) if _is_float(v) else None for v in self.given]
        assert self.rules._tangents is not None
        made = self.rules._tangents(self.tree.build(values[:count]), self.tree.build(along))
        result, of_result = self._pair(made, "the rule of defjvp")
        self._same_result(Result(result), "the rule of defjvp")
        given = _spread(of_result, self.result.tree.structure, f"{self.name}: the tangent")
        names = paths(self.result.tree.structure, "result")
        return [
            self._like(t, v, f"the rule of defjvp returned, as the tangent of {name},")
            for t, v, name in zip(given, self.result.values, names)
            if _is_float(v)
        ]

    # ---- What fits ----

    def _same_result(self, made: Result, rule: str) -> None:
        own = self.result
        if made.tree.structure != own.tree.structure:
            raise UsageError(
                f"{self.name}: {rule} returns {nesting(made.tree.structure)} as the result, and the "
                f"function returns {nesting(own.tree.structure)}, with a star for each array",
                CODE,
            )
        names = paths(own.tree.structure, "result")
        for name, a, b in zip(names, made.values, own.values):
            if not same_type(a, b):
                raise UsageError(
                    f"{self.name}: {rule} returns {type_text(a)} as {name}, and the function returns "
                    f"{type_text(b)}",
                    CODE,
                )

    def _like(self, given: Any, like: Value, what: str) -> Array:
        """A cotangent or tangent of a value's type; zeros for None."""
        if given is None:
            return Array(ops.like(like, 0))
        array = array_of(given)
        if array._weak or not isinstance(given, Array):
            array = xp.asarray(given, dtype=like.dtype)
        if not same_type(array._value, like):
            raise UsageError(
                f"{self.name}: {what} {type_text(array._value)}, but the type must be {type_text(like)}",
                CODE,
            )
        return array


def _spread(given: Any, structure: Any, what: str) -> list[Any]:
    """The entries of `given`, one for each array of a nesting; None stands for all below it."""
    if not isinstance(structure, tuple):
        if given is not None and (isinstance(given, (tuple, list, dict)) or is_node(given)):
            raise UsageError(f"{what} is a {type(given).__name__}, but must be one array", CODE)
        return [given]
    kind, parts, keys = structure
    if kind == "value":
        return []
    if given is None:
        return [v for p in parts for v in _spread(None, p, what)]
    is_dataclass = keys is not None and kind is not dict
    ok = type(given) is kind and (is_dataclass or len(given) == len(parts))
    if not ok or (kind is dict and tuple(given) != keys):
        raise UsageError(
            f"{what} must be nested as {nesting(structure)}, with a star for each array", CODE
        )
    entries = given.values() if kind is dict else given
    if is_dataclass:
        entries = [getattr(given, key) for key in keys or ()]
    return [v for entry, p in zip(entries, parts) for v in _spread(entry, p, what)]
