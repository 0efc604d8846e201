"""Whole Jacobians: a derivative for each element."""

from __future__ import annotations

from tenon import xp
from tenon._errors import UsageError
from tenon._transforms.derivatives import jvp, require_float, require_places, vjp
from tenon._transforms.samples import vmap
from tenon._transforms.tracing import Tree, array_of, compiled
from tenon.builder import dtypes as dt
from tenon.xp._array import Array

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Function = Callable[..., Any]


def _basis(a: Array) -> Array:
    """One array of the type of `a` for each element, which is 1 there and 0 elsewhere."""
    count = 1
    for s in a.shape:
        count *= int(s)  # a row for each element: sizes must be numbers
    return xp.reshape(xp.eye(count, dtype=a.dtype), (count, *a.shape))


def _argument(args: tuple[Any, ...], argnums: int, what: str) -> Array:
    """The array at a position of the arguments. T0663 for a position that is none, or for a nested argument."""
    if not isinstance(argnums, int) or argnums < 0:
        raise UsageError(
            f"{what}: argnums is {argnums!r}; it must be one position, from 0 on: join several arguments to one "
            "array, or call it for each",
            "T0663",
        )
    require_places(args, (argnums,), what)
    value = args[argnums]
    if not any(leaf is value for leaf in Tree(value).leaves):
        raise UsageError(
            f"{what}: argument {argnums} is a {type(value).__name__}, but a Jacobian is that of one array: take "
            "that array as an argument of its own",
            "T0663",
        )
    return array_of(value)


def _require_type(a: Array, name: str, what: str, holomorphic: bool) -> None:
    """T0663 unless an array is complex with holomorphic, and real without it."""
    if dt.is_complex(a.dtype) == holomorphic:
        return
    advice = (
        "with holomorphic=True the argument and the results must be complex"
        if holomorphic
        else "a matrix of complex numbers holds the derivatives of a holomorphic function only: pass "
        "holomorphic=True if it is one, or take the real and the imaginary part as two arguments"
    )
    raise UsageError(f"{what}: {name} is {a.dtype.name}: {advice}", "T0663")


def jacfwd(function: Function, argnums: int = 0, holomorphic: bool = False) -> Function:
    """A function that returns the Jacobian with respect to one argument, an array: forward mode.

    Each array of the result becomes one with the axes of the result, then those of the argument.
    Cheaper than `jacrev` where the argument has fewer elements than the result. The argument is
    real. With holomorphic=True the argument and the results are complex, and entries are complex
    derivatives. A function has these if it does not use conj, abs, real or the like.
    """

    def run(*args: Any) -> Any:
        x = _argument(args, argnums, "jacfwd")
        require_float(x, f"argument {argnums}", "jacfwd")
        _require_type(x, f"argument {argnums}", "jacfwd", holomorphic)

        def along(tangent: Array) -> Any:
            def of_x(x: Array) -> Any:
                return function(*args[:argnums], x, *args[argnums + 1 :])

            return jvp(of_x, (x,), (tangent,))[1]

        columns = Tree(vmap(along)(_basis(x)))
        for c in columns.leaves if holomorphic else []:
            _require_type(c, "a result", "jacfwd", holomorphic)
        return columns.build([_columns(c, x) for c in columns.leaves])

    return compiled(run, function, "jacfwd")


def _columns(c: Array, x: Array) -> Array:
    """Moves the entries of the argument from the first axis to its axes, as the last ones."""
    return xp.reshape(xp.moveaxis(c, 0, -1), (*c.shape[1:], *x.shape))


def jacrev(function: Function, argnums: int = 0, holomorphic: bool = False) -> Function:
    """Like `jacfwd`, in reverse mode: cheaper where the result has fewer elements than the argument.

    Without holomorphic, a complex argument may have real results: each entry is then a gradient, as
    `grad` gives it.
    """

    def run(*args: Any) -> Any:
        x = _argument(args, argnums, "jacrev")
        require_float(x, f"argument {argnums}", "jacrev")

        def of_x(x: Array) -> Any:
            return function(*args[:argnums], x, *args[argnums + 1 :])

        result = Tree(of_x(x))
        rows = []
        for i, y in enumerate(result.leaves):
            y = array_of(y)
            if holomorphic or dt.is_complex(x.dtype) and dt.is_complex(y.dtype):
                for a, name in ((x, f"argument {argnums}"), (y, "a result")):
                    _require_type(a, name, "jacrev", holomorphic)

            def of_one(x: Array, i: int = i) -> Any:
                return array_of(Tree(of_x(x)).leaves[i])

            pull = vjp(of_one, x)[1]
            row = vmap(lambda ct, pull=pull: pull(ct)[0])
            rows.append(xp.reshape(_rows(row, x, y), (*y.shape, *x.shape)))
        return result.build(rows)

    return compiled(run, function, "jacrev")


def _rows(row: Function, x: Array, y: Array) -> Any:
    """The derivatives of each element of y. A pull gives conjugates, and only real parts for real x."""
    if not dt.is_complex(y.dtype):
        return row(_basis(y))
    if dt.is_complex(x.dtype):
        return xp.conj(row(_basis(y)))
    return row(_basis(y)) + 1j * row(1j * _basis(y))


def hessian(function: Function, argnums: int = 0) -> Function:
    """A function that returns the second derivatives with respect to one argument, a real array."""
    return jacfwd(jacrev(function, argnums), argnums)
