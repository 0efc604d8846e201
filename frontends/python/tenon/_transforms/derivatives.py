"""Derivatives of functions of arrays: grad, vjp, jvp, linearize."""

from __future__ import annotations

from tenon import _native, xp
from tenon._errors import UsageError
from tenon._transforms.tracing import Traced, Tree, array_of, compiled, inlined, name_of
from tenon.builder import dtypes as dt
from tenon.builder import ops
from tenon.builder.trace import Dim, Value, active
from tenon.xp._array import Array, value_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    Function = Callable[..., Any]


def _places(argnums: int | Sequence[int], what: str) -> tuple[int, ...]:
    listed = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    if not listed or not all(isinstance(n, int) and n >= 0 for n in listed):
        raise UsageError(
            f"{what}: argnums is {argnums!r}; it must be a position or several, from 0 on", "T0663"
        )
    return listed


def require_float(array: Array, name: str, what: str) -> None:
    if not dt.is_floating(array.dtype):
        raise UsageError(
            f"{what}: {name} is {array.dtype.name}, and derivatives exist for floats and complex "
            "numbers only; convert it, or differentiate with respect to the other arguments",
            "T0663",
        )


def require_places(args: tuple[Any, ...], argnums: tuple[int, ...], what: str) -> None:
    """T0663 unless the call has all arguments that argnums names."""
    if max(argnums) >= len(args):
        raise UsageError(
            f"{what}: argnums names argument {max(argnums)}, but the call has {len(args)}, from 0 on",
            "T0663",
        )


def _chosen(args: tuple[Any, ...], argnums: tuple[int, ...], what: str) -> list[int]:
    """The leaves that belong to some arguments."""
    require_places(args, argnums, what)
    out: list[int] = []
    at = 0
    for i, arg in enumerate(args):
        count = len(Tree(arg).leaves)
        if i in argnums:
            out += range(at, at + count)
        at += count
    return out


def _nested(
    args: tuple[Any, ...], argnums: Any, chosen: Sequence[int], leaves: Sequence[Any]
) -> Any:
    """Derivatives, nested like the arguments that they belong to, in the order of argnums."""
    by_leaf = dict(zip(chosen, leaves))
    parts = []
    for n in (argnums,) if isinstance(argnums, int) else argnums:
        tree, first = Tree(args[n]), sum(len(Tree(a).leaves) for a in args[:n])
        parts.append(tree.build([by_leaf[first + i] for i in range(len(tree.leaves))]))
    return parts[0] if isinstance(argnums, int) else tuple(parts)


def _as_given(gradient: Array, given: Array) -> Array:
    """The gradient in the type that its argument has among arrays: a number has the default one."""
    if not given._weak:
        return gradient
    return Array(ops.convert(gradient._value, value_of(given).dtype))


def _is_pair(result: Tree) -> bool:
    structure = result.structure
    if not isinstance(structure, tuple) or structure[0] not in (tuple, list):
        return False
    return len(structure[1]) == 2


def value_and_grad(
    function: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Function:
    """A function that returns the value of `function` and its gradient.

    `function` returns one real number, or with has_aux a tuple of it and anything else. The result
    is `(value, gradient)`, with has_aux `((value, aux), gradient)`. The gradient is with respect to
    the arguments at the positions `argnums`, and nested like them. With respect to a complex argument
    x + iy it is d/dx + i d/dy, as in PyTorch: the direction in which the value grows. Raises T0663
    for arguments that are neither floats nor complex numbers and for results other than one real
    number; T0410 for an op without a derivative, with its line.
    """
    places = _places(argnums, "grad")

    def run(*args: Any) -> Any:
        chosen = _chosen(args, places, "grad")
        if not chosen:
            raise UsageError(
                f"grad: there is no array in argument {places[0]}; numbers in a frozen dataclass "
                "without arrays are constants: make them arrays, or name another argument",
                "T0663",
            )
        traced = Traced(function, name_of(function), args)
        for i in chosen:
            require_float(traced.given[i], f"argument {traced.tree.names[i].strip('_')}", "grad")
        aux = traced.result
        if has_aux and not _is_pair(aux):
            raise UsageError("grad: with has_aux the function must return (value, aux)", "T0663")
        if not has_aux and len(aux.leaves) != 1:
            raise UsageError(
                f"grad: the function returns {len(aux.leaves)} arrays, and the gradient is that of one "
                "number: return it alone, or use has_aux=True",
                "T0663",
            )
        value = traced.outputs()[0]
        if dt.is_complex(value.dtype):
            raise UsageError(
                f"grad: the function returns {value.dtype.name}{ops.shape_text(value.shape)}, and the "
                "gradient is that of one real number: return the real part or the magnitude; for the "
                "complex derivative of a holomorphic function use tenon.jvp, or "
                "tenon.jacfwd(f, holomorphic=True)",
                "T0663",
            )
        if value.shape != () or not dt.is_float(value.dtype):
            raise UsageError(
                f"grad: the function returns {value.dtype.name}{ops.shape_text(value.shape)}, and the "
                "gradient is that of one real number: sum it, or use tenon.vjp or tenon.jacrev",
                "T0663",
            )
        wrt = " ".join(f"x{i}" for i in chosen)
        made = traced.inline(f'grad{{wrt="{wrt}", of=y0}},cse,dce')
        count = len(traced.ids)
        slopes = [_as_given(g, traced.given[i]) for i, g in zip(chosen, made[count:])]
        return aux.build(made[:count]), _nested(args, argnums, chosen, slopes)

    return compiled(run, function, "value_and_grad")


def grad(function: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Function:
    """A function that returns the gradient of `function`, as `value_and_grad` does.

        g = tenon.grad(loss)(params, x)

    With has_aux it returns `(gradient, aux)`.
    """
    both = value_and_grad(function, argnums, has_aux)

    def run(*args: Any) -> Any:
        value, gradient = both(*args)
        return (gradient, value[1]) if has_aux else gradient

    return compiled(run, function, "grad")


def _check_like(given: Array, like: Array, what: str, name: str) -> Array:
    if given.dtype is not like.dtype and given._weak:
        given = xp.astype(given, like.dtype)
    if given.dtype is not like.dtype or not ops.same_shape(given.shape, like.shape):
        raise UsageError(
            f"{what}: {name} is {given.dtype.name}{ops.shape_text(given.shape)}, but its type must be "
            f"{like.dtype.name}{ops.shape_text(like.shape)}",
            "T0663",
        )
    return given


def _same_nesting(a: Tree, b: Tree, what: str) -> None:
    if a.structure != b.structure:
        raise UsageError(
            f"{what} must be nested like the arrays that they belong to: {len(a.leaves)} are needed, "
            f"{len(b.leaves)} given",
            "T0663",
        )


def _linear_map(
    function: Function, args: tuple[Any, ...], name: str, mode: str, chosen: list[int], more: Any
) -> tuple[Traced, list[Array]]:
    """The function's graph after `vjp` or `jvp`: (traced, outputs)."""
    traced = Traced(function, name, args)
    wrt = " ".join(f"x{i}" for i in chosen)
    for i in chosen:
        require_float(traced.given[i], f"argument {traced.tree.names[i].strip('_')}", mode)
    if mode == "jvp":
        given = [
            _check_like(array_of(t), traced.given[i], "jvp", "a tangent")
            for i, t in zip(chosen, more)
        ]
        return traced, traced.inline(f'jvp{{wrt="{wrt}"}},cse,dce', given)
    outputs = traced.outputs()
    floats = [i for i, v in enumerate(outputs) if dt.is_floating(v.dtype)]
    if not floats:
        raise UsageError("vjp: the function returns no array of floats or complex numbers", "T0663")
    cotangents = Tree(more)
    _same_nesting(traced.result, cotangents, "vjp: the cotangents")
    given = [
        _like_output(array_of(cotangents.leaves[i]), outputs[i], "vjp", "a cotangent")
        for i in floats
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
            f"{what}: {name} is {given.dtype.name}{ops.shape_text(given.shape)}, but its type must be "
            f"that of the result, {like.dtype.name}{ops.shape_text(like.shape)}",
            "T0663",
        )
    return given


def _float_leaves(args: tuple[Any, ...]) -> list[int]:
    leaves = [array_of(v) for v in Tree(args).leaves]
    return [i for i, a in enumerate(leaves) if dt.is_floating(a.dtype)]


def jvp(function: Function, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """The value of a function, and its derivative along tangents: forward mode.

    Returns `(function(*primals), tangents of the result)`. `tangents` is nested like `primals`, with
    arrays of the same types.
    """
    primals, tangents = tuple(primals), tuple(tangents)
    _same_nesting(Tree(primals), Tree(tangents), "jvp: the tangents")

    def run(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> Any:
        chosen = list(range(len(Tree(primals).leaves)))
        given = Tree(tangents).leaves
        traced, made = _linear_map(function, primals, name_of(function), "jvp", chosen, given)
        count = len(traced.ids)
        after = iter(made[count:])
        outputs = made[:count]
        out = [next(after) if dt.is_floating(v.dtype) else ops_zeros(v) for v in outputs]
        return traced.result.build(outputs), traced.result.build(out)

    out: tuple[Any, Any] = compiled(run, function, "jvp")(primals, tangents)
    return out


def ops_zeros(like: Array) -> Array:
    """Zeros of the type of an array: the tangent of an array that is not a float."""
    return Array(ops.like(like._value, 0))


def vjp(function: Function, *primals: Any) -> tuple[Any, Function]:
    """The value of a function, and a function that pulls cotangents back: reverse mode.

        y, pull = tenon.vjp(f, x, w)
        d_x, d_w = pull(ones)

    `pull` takes a cotangent for each array of the result, nested like the result. It returns a tuple
    with the cotangents of the primals, and None for arrays that are not floats. It is the adjoint of
    the derivative under the sum of the real parts of conj(a) b: a factor of tangents is a conjugate
    factor of cotangents. Outside of a compiled function each call of `pull` computes the function
    again, with the primals and the values around the function that it had; inside of one, it is
    computed once.
    """

    if active() is not None:
        return function(*primals), lambda cotangents: _pulled(function, primals, cotangents)
    held: list[_Held] = []

    def point(*primals: Any) -> Any:
        held.append(_Held(function, primals))
        return held[-1].value

    primals = tuple(_snapshot(p) for p in primals)
    value = compiled(point, function, "value")(*primals)
    again = held[-1]
    pulled = compiled(
        lambda p, cotangents: _pulled(again, p, cotangents), function, "vjp", fresh=False
    )
    return value, lambda cotangents: pulled(primals, cotangents)


def _pulled(function: Function, primals: tuple[Any, ...], cotangents: Any) -> Any:
    chosen = _float_leaves(primals)
    traced, made = _linear_map(function, primals, name_of(function), "vjp", chosen, cotangents)
    leaves: list[Any] = [None] * len(traced.given)
    for i, g in zip(chosen, made[len(traced.ids) :]):
        leaves[i] = _as_given(g, traced.given[i])
    return traced.tree.build(leaves)


class _Held:
    """A function of arrays as it was when it was traced, with the arrays around it that it used."""

    def __init__(self, function: Function, primals: tuple[Any, ...]):
        self.__name__ = name_of(function)
        traced = Traced(function, self.__name__, primals)
        self.result = traced.result
        self.graph = traced.transformed("dce")
        around = {inner.id: value for value, inner in traced.outer.lifted or ()}
        self.captured = [Array(around[outer.id]) for outer, _ in traced.trace.inputs]
        self.value = self.result.build(traced.inline("dce"))

    def __call__(self, *primals: Any) -> Any:
        given = [array_of(v) for v in Tree(primals).leaves]
        return self.result.build(inlined(self.graph, [*given, *self.captured]))


def _snapshot(primal: Any) -> Any:
    """Copies of the arrays, so that later writes change nothing here."""

    def copied(v: Any) -> Any:
        if isinstance(v, Array):
            return Array(v._value, v._weak)
        copy = getattr(v, "clone", None) or getattr(v, "copy", None)
        return v if copy is None else copy()

    tree = Tree(primal)
    return tree.build([copied(v) for v in tree.leaves])


def linearize(function: Function, *primals: Any) -> tuple[Any, Function]:
    """The value of a function, and the function of tangents that is its derivative there.

        y, push = tenon.linearize(f, x)
        d_y = push(t)

    The function itself runs once, in this call, which keeps the values that the derivative needs.
    `push` may be called any number of times and takes tangents as arguments, one for each primal.
    Only a loop that carries tangents computes its values again.
    """
    made: list[tuple[_native.Trace, list[Array]]] = []  # the map, and arrays like its tangents

    def point(*primals: Any) -> Any:
        traced = Traced(function, name_of(function), primals)
        for name, a in zip(traced.tree.names, traced.given):
            require_float(a, f"argument {name.strip('_')}", "linearize")
        wrt = " ".join(f"x{i}" for i in range(len(traced.given)))
        floats = [i for i, v in enumerate(traced.outputs()) if dt.is_floating(v.dtype)]
        if not floats:
            raise UsageError(
                "linearize: the function returns no array of floats or complex numbers", "T0663"
            )
        options = f'wrt="{wrt}", of="{" ".join(f"y{i}" for i in floats)}"'
        like = [Array(Value(a.dtype, a.shape), a._weak) for a in traced.given]
        made.append((traced.transformed(f"linearize{{{options}}},cse,dce"), like))
        outputs = traced.inline(f"linearize{{{options}, part=point}},cse,dce")
        count = len(traced.ids)
        return traced.result.build(outputs[:count]), outputs[count:]

    value, saved = compiled(point, function, "linearize")(*primals)
    results = Tree(value)

    def push(saved: Sequence[Array], tangents: Sequence[Any]) -> Any:
        graph, like = made[-1]
        given = [
            _check_like(array_of(t), a, "linearize", "a tangent") for t, a in zip(tangents, like)
        ]
        after = iter(inlined(graph, [*saved, *given]))
        leaves = [array_of(v) for v in results.leaves]
        return results.build(
            [next(after) if dt.is_floating(v.dtype) else ops_zeros(v) for v in leaves]
        )

    pushed = compiled(push, function, "linear map", fresh=False)

    def along(*tangents: Any) -> Any:
        tree = Tree(tangents)
        _same_nesting(Tree(primals), tree, "linearize: the tangents")
        return pushed(saved, tree.leaves)

    return value, along


def linear_transpose(function: Function, *primals: Any) -> Function:
    """The transposed function of a linear one: from cotangents of its result to those of its arguments.

    `primals` are arrays of the types of its arguments; their values are not used. A function that is
    not linear is differentiated at zero. For complex numbers the result is the adjoint, as for `vjp`.
    """
    zeros = tuple(
        Tree(p).build([xp.zeros_like(array_of(v)) for v in Tree(p).leaves]) for p in primals
    )

    def transposed(cotangents: Any) -> Any:
        return vjp(function, *zeros)[1](cotangents)

    return transposed
