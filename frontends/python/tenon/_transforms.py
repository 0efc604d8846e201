"""Transforms of functions of arrays: derivatives and samples.

Each traces its function into a graph of its own, has a pass change that graph (`vjp`, `jvp`, `grad`,
`batch`), and copies the nodes into the trace around it. Arrays of that trace that the function uses
become inputs of the graph, so that derivatives of derivatives cannot be confused. Outside of a trace
the whole is a compiled function.
"""

from __future__ import annotations

import functools

from tenon import xp
from tenon._compile import Compiled, _constant, _flatten, _result_value, _unflatten
from tenon._errors import UsageError
from tenon.builder import dtypes as dt
from tenon.builder import ops
from tenon.builder.trace import Dim, GraphTrace, Value, active, tracing
from tenon.xp._array import Array, value_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    Function = Callable[..., Any]


class _Tree:
    """A nested argument or result: its arrays, and how they are nested."""

    def __init__(self, value: Any, name: str = ""):
        self.leaves: list[Any] = []
        self.names: list[str] = []
        self.structure = _flatten(value, self.leaves, self.names, name, _constant)

    def build(self, leaves: Sequence[Any]) -> Any:
        """The same nesting with other leaves."""
        return _unflatten(self.structure, iter(leaves))


def _array(value: Any) -> Array:
    return value if isinstance(value, Array) else xp.asarray(value)


def _trace_now() -> GraphTrace:
    trace = active()
    assert trace is not None
    return trace


class _Traced:
    """A function traced into a graph of its own, inside of the active trace."""

    def __init__(self, function: Function, name: str, args: tuple[Any, ...], lanes: Any = None):
        self.outer = _trace_now()
        self.tree = _Tree(args)
        self.given = [_array(v) for v in self.tree.leaves]
        self.trace = GraphTrace(name, outer=self.outer)
        self.lanes = lanes or [False] * len(self.given)
        self.arguments = [self._argument(i, a) for i, a in enumerate(self.given)]
        with tracing(self.trace):
            result = function(*self.tree.build(self.arguments))
            self.result = _Tree(result, "the result")
            self.ids = [self.trace.id_of(_result_value(v)) for v in self.result.leaves]

    def _argument(self, i: int, array: Array) -> Array:
        """An argument like an array of the trace around; without its first axis if it has samples."""
        shape = array.shape[1:] if self.lanes[i] else array.shape
        sizes = [self.trace.size_from(s) for s in shape]
        return Array(self.trace.argument(array.dtype, sizes, f"x{i}"), array._weak)

    def drop_result(self, keep: int) -> None:
        """Only the first results stay outputs of the graph."""
        self.ids = self.ids[:keep]

    def inline(self, passes: str, more: Sequence[Array] = ()) -> list[Array]:
        """Runs passes on the graph and copies it to the trace around. `more`: inputs that they add."""
        names = [f"y{i}" for i in range(len(self.ids))]
        self.trace.native.transform(self.ids, names, passes)
        given = [*(a._value for a in self.given), *(v for v, _ in self.trace.inputs)]
        given += [value_of(a) for a in more]
        ids = [self.outer.id_of(v) for v in given]
        made = self.outer.native.inline(self.trace.native, ids)
        return [Array(self.outer.wrap(r)) for r in made]


def _name(function: Any) -> str:
    return str(getattr(function, "__name__", "f"))


def _compiled(function: Function, like: Any, prefix: str) -> Function:
    """A function of arrays that runs in a trace; called elsewhere, it is compiled."""
    compiled = Compiled(function, None, None, True)

    @functools.wraps(like, updated=())
    def call(*args: Any) -> Any:
        return function(*args) if active() is not None else compiled(*args)

    call.__name__ = f"{prefix} of {_name(like)}"
    return call


def _places(argnums: int | Sequence[int], what: str) -> tuple[int, ...]:
    listed = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    if not listed or not all(isinstance(n, int) and n >= 0 for n in listed):
        raise UsageError(f"{what}: argnums is {argnums!r}; it is one position or several", "T0661")
    return listed


def _require_float(array: Array, name: str, what: str) -> None:
    if not dt.is_float(array.dtype):
        raise UsageError(
            f"{what}: {name} is {array.dtype.name}, and derivatives are taken by real floats; "
            "convert it, or leave it out of argnums",
            "T0661",
        )


def _chosen(args: tuple[Any, ...], argnums: tuple[int, ...], what: str) -> list[int]:
    """The leaves that belong to some arguments."""
    if max(argnums) >= len(args):
        raise UsageError(
            f"{what}: argnums names argument {max(argnums)}, and there are {len(args)}", "T0661"
        )
    out: list[int] = []
    at = 0
    for i, arg in enumerate(args):
        count = len(_Tree(arg).leaves)
        if i in argnums:
            out += range(at, at + count)
        at += count
    return out


def _nested(args: tuple[Any, ...], argnums: Any, leaves: Sequence[Any]) -> Any:
    """Derivatives, nested as the arguments that they belong to."""
    rest = iter(leaves)
    parts = []
    for n in (argnums,) if isinstance(argnums, int) else argnums:
        tree = _Tree(args[n])
        parts.append(tree.build([next(rest) for _ in tree.leaves]))
    return parts[0] if isinstance(argnums, int) else tuple(parts)


def value_and_grad(
    function: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Function:
    """A function that returns the value of `function` and its gradient.

    `function` returns one real number (with has_aux, a tuple of it and anything else). The gradient
    is by the arguments at the positions `argnums`, nested as they are: `(value, gradient)`, or
    `((value, aux), gradient)`. Raises T0661 for arguments that are no floats and results that are no
    number; T0410 for an op without a derivative, with its line.
    """
    places = _places(argnums, "grad")

    def run(*args: Any) -> Any:
        chosen = _chosen(args, places, "grad")
        traced = _Traced(function, _name(function), args)
        for i in chosen:
            _require_float(traced.given[i], f"argument {traced.tree.names[i].strip('_')}", "grad")
        aux = traced.result
        if has_aux and not (isinstance(aux.structure, tuple) and len(aux.structure[1]) == 2):
            raise UsageError("grad: with has_aux the function returns (value, aux)", "T0661")
        if not has_aux and len(aux.leaves) != 1:
            raise UsageError(
                f"grad: the function returns {len(aux.leaves)} arrays, and the gradient is that of one "
                "number: return it alone, or use has_aux=True",
                "T0661",
            )
        value = traced.trace.wrap(traced.trace.native.type_of(traced.ids[0]))
        if value.shape != () or not dt.is_float(value.dtype):
            raise UsageError(
                f"grad: the function returns {value.dtype.name}{ops.shape_text(value.shape)}, and the "
                "gradient is that of one real number: sum it, or use tenon.vjp or tenon.jacrev",
                "T0661",
            )
        wrt = " ".join(f"x{i}" for i in chosen)
        made = traced.inline(f'grad{{wrt="{wrt}", of=y0}},cse,dce')
        count = len(traced.ids)
        return aux.build(made[:count]), _nested(args, argnums, made[count:])

    return _compiled(run, function, "value_and_grad")


def grad(function: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Function:
    """A function that returns the gradient of `function`, as `value_and_grad` does.

        g = tenon.grad(loss)(params, x)

    With has_aux it returns `(gradient, aux)`.
    """
    both = value_and_grad(function, argnums, has_aux)

    def run(*args: Any) -> Any:
        value, gradient = both(*args)
        return (gradient, value[1]) if has_aux else gradient

    return _compiled(run, function, "grad")


def _check_like(given: Array, like: Array, what: str, name: str) -> Array:
    if given.dtype is not like.dtype and given._weak:
        given = xp.astype(given, like.dtype)
    if given.dtype is not like.dtype or not ops.same_shape(given.shape, like.shape):
        raise UsageError(
            f"{what}: {name} is {given.dtype.name}{ops.shape_text(given.shape)}, and it needs the type "
            f"{like.dtype.name}{ops.shape_text(like.shape)}",
            "T0661",
        )
    return given


def _same_nesting(a: _Tree, b: _Tree, what: str) -> None:
    if a.structure != b.structure:
        raise UsageError(
            f"{what}: there are {len(b.leaves)} arrays, nested in one way, and {len(a.leaves)} of them "
            "nested in the same way are needed",
            "T0661",
        )


def _linear_map(
    function: Function, args: tuple[Any, ...], name: str, mode: str, chosen: list[int], more: Any
) -> tuple[_Traced, list[Array]]:
    """The function's graph after `vjp` or `jvp`: (traced, outputs)."""
    traced = _Traced(function, name, args)
    wrt = " ".join(f"x{i}" for i in chosen)
    for i in chosen:
        _require_float(traced.given[i], f"argument {traced.tree.names[i].strip('_')}", mode)
    if mode == "jvp":
        given = [
            _check_like(_array(t), traced.given[i], "jvp", "a tangent")
            for i, t in zip(chosen, more)
        ]
        return traced, traced.inline(f'jvp{{wrt="{wrt}"}},cse,dce', given)
    outputs = [traced.trace.wrap(traced.trace.native.type_of(i)) for i in traced.ids]
    floats = [i for i, v in enumerate(outputs) if dt.is_float(v.dtype)]
    if not floats:
        raise UsageError("vjp: the function returns no array of real floats", "T0661")
    cotangents = _Tree(more)
    _same_nesting(traced.result, cotangents, "vjp: the cotangents")
    given = [
        _like_output(_array(cotangents.leaves[i]), outputs[i], "vjp", "a cotangent") for i in floats
    ]
    of = " ".join(f"y{i}" for i in floats)
    return traced, traced.inline(f'vjp{{wrt="{wrt}", of="{of}"}},cse,dce', given)


def _like_output(given: Array, like: Value, what: str, name: str) -> Array:
    if given._weak and given.dtype is not like.dtype:
        given = xp.astype(given, like.dtype)
    equal = len(given.shape) == len(like.shape) and all(
        isinstance(a, Dim) or isinstance(b, Dim) or a == b for a, b in zip(given.shape, like.shape)
    )
    if given.dtype is not like.dtype or not equal:
        raise UsageError(
            f"{what}: {name} is {given.dtype.name}{ops.shape_text(given.shape)}, and the result is "
            f"{like.dtype.name}{ops.shape_text(like.shape)}",
            "T0661",
        )
    return given


def _float_leaves(args: tuple[Any, ...]) -> list[int]:
    leaves = [_array(v) for v in _Tree(args).leaves]
    return [i for i, a in enumerate(leaves) if dt.is_float(a.dtype)]


def jvp(function: Function, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """The value of a function, and its derivative along tangents: forward mode.

    Returns `(function(*primals), tangents of the result)`. `tangents` is nested as `primals`, with
    arrays of the same types.
    """
    primals, tangents = tuple(primals), tuple(tangents)
    _same_nesting(_Tree(primals), _Tree(tangents), "jvp: the tangents")

    def run(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> Any:
        chosen = list(range(len(_Tree(primals).leaves)))
        given = _Tree(tangents).leaves
        traced, made = _linear_map(function, primals, _name(function), "jvp", chosen, given)
        count = len(traced.ids)
        after = iter(made[count:])
        outputs = made[:count]
        out = [next(after) if dt.is_float(v.dtype) else ops_zeros(v) for v in outputs]
        return traced.result.build(outputs), traced.result.build(out)

    out: tuple[Any, Any] = _compiled(run, function, "jvp")(primals, tangents)
    return out


def ops_zeros(like: Array) -> Array:
    """Zeros of the type of an array: the tangent of what is no float."""
    return Array(ops.like(like._value, 0))


def vjp(function: Function, *primals: Any) -> tuple[Any, Function]:
    """The value of a function, and a function that pulls cotangents back: reverse mode.

        y, pull = tenon.vjp(f, x, w)
        d_x, d_w = pull(ones)

    `pull` takes an array for each one of the result, nested as the result is, and returns the
    cotangents of the primals, as a tuple; None for arguments that are no floats.
    """

    def run(primals: tuple[Any, ...], cotangents: Any) -> Any:
        chosen = _float_leaves(primals)
        traced, made = _linear_map(function, primals, _name(function), "vjp", chosen, cotangents)
        leaves: list[Any] = [None] * len(traced.given)
        for i, g in zip(chosen, made[len(traced.ids) :]):
            leaves[i] = g
        return traced.tree.build(leaves)

    value = _compiled(lambda *args: function(*args), function, "value")(*primals)
    pulled = _compiled(run, function, "vjp")
    return value, lambda cotangents: pulled(primals, cotangents)


def linearize(function: Function, *primals: Any) -> tuple[Any, Function]:
    """The value of a function, and the function of tangents that is its derivative there."""
    value = _compiled(lambda *args: function(*args), function, "value")(*primals)
    return value, lambda *tangents: jvp(function, primals, tangents)[1]


def linear_transpose(function: Function, *primals: Any) -> Function:
    """The transposed function of a linear one: from cotangents of its result to those of its arguments.

    `primals` are arrays of the types of its arguments; their values do not count. A function that is
    not linear is differentiated at zero.
    """
    zeros = tuple(
        _Tree(p).build([xp.zeros_like(_array(v)) for v in _Tree(p).leaves]) for p in primals
    )

    def transposed(cotangents: Any) -> Any:
        return vjp(function, *zeros)[1](cotangents)

    return transposed


# ---- Samples ----


def vmap(function: Function, in_axes: Any = 0, out_axes: Any = 0) -> Function:
    """A function that works on several samples at once.

        per_sample = tenon.vmap(tenon.grad(loss), in_axes=(None, 0))

    `in_axes` says for each argument along which axis its samples are, or None for one that all
    samples share: one entry for all arguments, or a tuple with one for each, each of which may be
    nested as its argument. `out_axes` says it for the results. T0661 for arguments with different
    numbers of samples.
    """

    def run(*args: Any) -> Any:
        tree = _Tree(args)
        axes = _axes_of(in_axes, args)
        given = [_array(v) for v in tree.leaves]
        lanes = [axis is not None for axis in axes]
        moved = [a if axis is None else _to_front(a, axis) for a, axis in zip(given, axes)]
        sizes = [a.shape[0] for a, has in zip(moved, lanes) if has]
        if not sizes:
            raise UsageError(
                "vmap: no argument has samples: an entry of in_axes is an axis", "T0661"
            )
        size = _one_size(sizes, tree, axes, given)
        traced = _Traced(function, _name(function), tree.build(moved), lanes)
        of = " ".join(f"x{i}" for i, has in enumerate(lanes) if has)
        text = str(traced.trace.size_from(size)) if isinstance(size, Dim) else str(size)
        made = traced.inline(f'batch{{of="{of}", size={text}}},cse,dce')
        outs = _out_axes(out_axes, traced.result)
        return traced.result.build([_from_front(a, axis) for a, axis in zip(made, outs)])

    return _compiled(run, function, "vmap")


def _axes_of(in_axes: Any, args: tuple[Any, ...]) -> list[int | None]:
    """One axis per leaf."""
    per_argument = in_axes if isinstance(in_axes, (tuple, list)) else [in_axes] * len(args)
    if len(per_argument) != len(args):
        raise UsageError(
            f"vmap: in_axes has {len(per_argument)} entries for {len(args)} arguments", "T0661"
        )
    return [axis for entry, arg in zip(per_argument, args) for axis in _spread(entry, arg)]


def _spread(entry: Any, value: Any) -> list[int | None]:
    if entry is None or isinstance(entry, int):
        return [entry] * len(_Tree(value).leaves)
    if isinstance(entry, dict) and isinstance(value, dict) and entry.keys() == value.keys():
        return [axis for key in value for axis in _spread(entry[key], value[key])]
    if isinstance(entry, (tuple, list)) and isinstance(value, (tuple, list)):
        if len(entry) == len(value):
            return [axis for e, v in zip(entry, value) for axis in _spread(e, v)]
    raise UsageError(f"vmap: {entry!r} is no axis, and it is not nested as its argument", "T0661")


def _to_front(a: Array, axis: int) -> Array:
    rank = len(a.shape)
    if not -rank <= axis < rank:
        raise UsageError(
            f"vmap: an argument has {rank} axes, and in_axes names axis {axis}", "T0661"
        )
    return a if axis in (0, -rank) else xp.moveaxis(a, axis, 0)


def _from_front(a: Array, axis: int) -> Array:
    rank = len(a.shape)
    if not -rank <= axis < rank:
        raise UsageError(f"vmap: a result has {rank} axes, and out_axes names axis {axis}", "T0661")
    return a if axis in (0, -rank) else xp.moveaxis(a, 0, axis)


def _one_size(sizes: list[Any], tree: _Tree, axes: list[int | None], given: list[Array]) -> Any:
    numbers = {s for s in sizes if isinstance(s, int)}
    if len(numbers) > 1:
        listed = ", ".join(
            f"{name.strip('_') or 'an argument'} {a.shape[axis]} along axis {axis}"
            for name, a, axis in zip(tree.names, given, axes)
            if axis is not None
        )
        raise UsageError(
            f"vmap: the arguments have different numbers of samples: {listed}", "T0661"
        )
    return next(iter(numbers)) if numbers else sizes[0]


def _out_axes(out_axes: Any, result: _Tree) -> list[int]:
    if isinstance(out_axes, int):
        return [out_axes] * len(result.leaves)
    spread = _spread(out_axes, result.build(result.leaves))
    if not all(isinstance(axis, int) for axis in spread):
        raise UsageError(
            "vmap: every result has samples, so that out_axes has an axis for it", "T0661"
        )
    return [axis for axis in spread if axis is not None]


# ---- Jacobians ----


def _basis(a: Array) -> Array:
    """One array of the type of `a` for each element, which is 1 there and 0 elsewhere."""
    if any(isinstance(s, Dim) for s in a.shape):
        raise UsageError("a Jacobian needs sizes as numbers: one pass for each element", "T0661")
    count = 1
    for s in a.shape:
        count *= s
    return xp.reshape(xp.eye(count, dtype=a.dtype), (count, *a.shape))


def jacfwd(function: Function, argnums: int = 0) -> Function:
    """A function that returns the Jacobian of `function` by one argument, an array: forward mode.

    Each array of the result becomes one with the axes of the result, then those of the argument.
    Cheaper than `jacrev` where the argument has fewer elements than the result.
    """

    def run(*args: Any) -> Any:
        x = _array(args[argnums])
        _require_float(x, f"argument {argnums}", "jacfwd")

        def along(tangent: Array) -> Any:
            def of_x(x: Array) -> Any:
                return function(*args[:argnums], x, *args[argnums + 1 :])

            return jvp(of_x, (x,), (tangent,))[1]

        columns = _Tree(vmap(along)(_basis(x)))
        return columns.build([_columns(c, x) for c in columns.leaves])

    return _compiled(run, function, "jacfwd")


def _columns(c: Array, x: Array) -> Array:
    """From one entry of the argument first, to all of them last."""
    return xp.reshape(xp.moveaxis(c, 0, -1), (*c.shape[1:], *x.shape))


def jacrev(function: Function, argnums: int = 0) -> Function:
    """As `jacfwd`, by reverse mode: cheaper where the result has fewer elements than the argument."""

    def run(*args: Any) -> Any:
        x = _array(args[argnums])
        _require_float(x, f"argument {argnums}", "jacrev")

        def of_x(x: Array) -> Any:
            return function(*args[:argnums], x, *args[argnums + 1 :])

        result = _Tree(of_x(x))
        rows = []
        for i, y in enumerate(result.leaves):
            y = _array(y)

            def of_one(x: Array, i: int = i) -> Any:
                return _array(_Tree(of_x(x)).leaves[i])

            pull = vjp(of_one, x)[1]
            row = vmap(lambda ct, pull=pull: pull(ct)[0])(_basis(y))
            rows.append(xp.reshape(row, (*y.shape, *x.shape)))
        return result.build(rows)

    return _compiled(run, function, "jacrev")


def hessian(function: Function, argnums: int = 0) -> Function:
    """A function that returns the second derivatives of `function` by one argument, an array."""
    return jacfwd(jacrev(function, argnums), argnums)
