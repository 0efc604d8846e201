"""Derivatives of functions of arrays: grad, vjp, jvp, linearize."""

from __future__ import annotations

from tenon import xp
from tenon._errors import UsageError
from tenon._transforms.tracing import Traced, Tree, array_of, compiled, name_of
from tenon.builder import dtypes as dt
from tenon.builder import ops
from tenon.builder.trace import Dim, Value
from tenon.xp._array import Array

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    Function = Callable[..., Any]


def _places(argnums: int | Sequence[int], what: str) -> tuple[int, ...]:
    listed = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    if not listed or not all(isinstance(n, int) and n >= 0 for n in listed):
        raise UsageError(f"{what}: argnums is {argnums!r}; it is one position or several", "T0663")
    return listed


def require_float(array: Array, name: str, what: str) -> None:
    if not dt.is_floating(array.dtype):
        raise UsageError(
            f"{what}: {name} is {array.dtype.name}, and derivatives are taken by floats and complex "
            "numbers; convert it, or leave it out of argnums",
            "T0663",
        )


def _chosen(args: tuple[Any, ...], argnums: tuple[int, ...], what: str) -> list[int]:
    """The leaves that belong to some arguments."""
    if max(argnums) >= len(args):
        raise UsageError(
            f"{what}: argnums names argument {max(argnums)}, and there are {len(args)}", "T0663"
        )
    out: list[int] = []
    at = 0
    for i, arg in enumerate(args):
        count = len(Tree(arg).leaves)
        if i in argnums:
            out += range(at, at + count)
        at += count
    return out


def _nested(args: tuple[Any, ...], argnums: Any, leaves: Sequence[Any]) -> Any:
    """Derivatives, nested as the arguments that they belong to."""
    rest = iter(leaves)
    parts = []
    for n in (argnums,) if isinstance(argnums, int) else argnums:
        tree = Tree(args[n])
        parts.append(tree.build([next(rest) for _ in tree.leaves]))
    return parts[0] if isinstance(argnums, int) else tuple(parts)


def value_and_grad(
    function: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Function:
    """A function that returns the value of `function` and its gradient.

    `function` returns one real number (with has_aux, a tuple of it and anything else). The gradient
    is by the arguments at the positions `argnums`, nested as they are: `(value, gradient)`, or
    `((value, aux), gradient)`. By a complex argument x + iy it is d/dx + i d/dy, as in PyTorch: the
    direction in which the value grows. Raises T0663 for arguments that are no floats or complex
    numbers and results that are no real number; T0410 for an op without a derivative, with its line.
    """
    places = _places(argnums, "grad")

    def run(*args: Any) -> Any:
        chosen = _chosen(args, places, "grad")
        traced = Traced(function, name_of(function), args)
        for i in chosen:
            require_float(traced.given[i], f"argument {traced.tree.names[i].strip('_')}", "grad")
        aux = traced.result
        if has_aux and not (isinstance(aux.structure, tuple) and len(aux.structure[1]) == 2):
            raise UsageError("grad: with has_aux the function returns (value, aux)", "T0663")
        if not has_aux and len(aux.leaves) != 1:
            raise UsageError(
                f"grad: the function returns {len(aux.leaves)} arrays, and the gradient is that of one "
                "number: return it alone, or use has_aux=True",
                "T0663",
            )
        value = traced.trace.wrap(traced.trace.native.type_of(traced.ids[0]))
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
        return aux.build(made[:count]), _nested(args, argnums, made[count:])

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
            f"{what}: {name} is {given.dtype.name}{ops.shape_text(given.shape)}, and it needs the type "
            f"{like.dtype.name}{ops.shape_text(like.shape)}",
            "T0663",
        )
    return given


def _same_nesting(a: Tree, b: Tree, what: str) -> None:
    if a.structure != b.structure:
        raise UsageError(
            f"{what}: there are {len(b.leaves)} arrays, nested in one way, and {len(a.leaves)} of them "
            "nested in the same way are needed",
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
    outputs = [traced.trace.wrap(traced.trace.native.type_of(i)) for i in traced.ids]
    floats = [i for i, v in enumerate(outputs) if dt.is_floating(v.dtype)]
    if not floats:
        raise UsageError("vjp: the function returns no array of floats", "T0663")
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
            f"{what}: {name} is {given.dtype.name}{ops.shape_text(given.shape)}, and the result is "
            f"{like.dtype.name}{ops.shape_text(like.shape)}",
            "T0663",
        )
    return given


def _float_leaves(args: tuple[Any, ...]) -> list[int]:
    leaves = [array_of(v) for v in Tree(args).leaves]
    return [i for i, a in enumerate(leaves) if dt.is_floating(a.dtype)]


def jvp(function: Function, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """The value of a function, and its derivative along tangents: forward mode.

    Returns `(function(*primals), tangents of the result)`. `tangents` is nested as `primals`, with
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
    """Zeros of the type of an array: the tangent of what is not a float."""
    return Array(ops.like(like._value, 0))


def vjp(function: Function, *primals: Any) -> tuple[Any, Function]:
    """The value of a function, and a function that pulls cotangents back: reverse mode.

        y, pull = tenon.vjp(f, x, w)
        d_x, d_w = pull(ones)

    `pull` takes an array for each one of the result, nested as the result is, and returns the
    cotangents of the primals, as a tuple; None for arguments that are no floats. It is the adjoint of
    the derivative under the sum of the real parts of conj(a) b: a factor of tangents is a conjugate
    factor of cotangents.
    """

    def run(primals: tuple[Any, ...], cotangents: Any) -> Any:
        chosen = _float_leaves(primals)
        traced, made = _linear_map(function, primals, name_of(function), "vjp", chosen, cotangents)
        leaves: list[Any] = [None] * len(traced.given)
        for i, g in zip(chosen, made[len(traced.ids) :]):
            leaves[i] = g
        return traced.tree.build(leaves)

    value = compiled(lambda *args: function(*args), function, "value")(*primals)
    pulled = compiled(run, function, "vjp")
    return value, lambda cotangents: pulled(primals, cotangents)


def linearize(function: Function, *primals: Any) -> tuple[Any, Function]:
    """The value of a function, and the function of tangents that is its derivative there."""
    value = compiled(lambda *args: function(*args), function, "value")(*primals)
    return value, lambda *tangents: jvp(function, primals, tangents)[1]


def linear_transpose(function: Function, *primals: Any) -> Function:
    """The transposed function of a linear one: from cotangents of its result to those of its arguments.

    `primals` are arrays of the types of its arguments; their values do not count. A function that is
    not linear is differentiated at zero. For complex numbers it is the adjoint, as of `vjp`.
    """
    zeros = tuple(
        Tree(p).build([xp.zeros_like(array_of(v)) for v in Tree(p).leaves]) for p in primals
    )

    def transposed(cotangents: Any) -> Any:
        return vjp(function, *zeros)[1](cotangents)

    return transposed
