"""Types, shapes and errors of calls that have more than arrays, against array-api-strict.

Each line is a call. `x` and `y` have three elements, `m` is a matrix of 2 by 3; `d` and `e` are element
types, which all take their turn.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from tenon import xp
from test_xp_strict import ALL, BINARY, LATER, UNARY

strict = pytest.importorskip("array_api_strict", reason="array-api-strict is not installed")

ONE = """
asarray(x)                                   asarray([1, 0], dtype=d)                     asarray(x, copy=True)
asarray([True])                              asarray([1, 2])                              asarray([[1], [2, 3]])
asarray(1, dtype=d)                          asarray(x, copy=False)                       asarray([], dtype=d)
arange(3, dtype=d)                           arange(0, 6, 2, dtype=d)                     arange(3, 0, dtype=d)
arange(3)                                    arange(3, 0, -1, dtype=d)                    empty((2, 3), dtype=d)
empty_like(x)                                eye(2, 3, k=1, dtype=d)                      eye(2, k=-5, dtype=d)
full((2,), 1, dtype=d)                       full(2, True, dtype=d)                       full((), 1, dtype=d)
full(2, True)                                full(2, 1)                                   full_like(x, 1)
full_like(m, 1, dtype=xp.int8)               linspace(0, 1, 3, dtype=d)                   linspace(0, 1, 0, dtype=d)
ones(2, dtype=d)                             zeros((), dtype=d)                           zeros((2, 0), dtype=d)
ones(-1, dtype=d)                            zeros((2, -1), dtype=d)                      ones("a", dtype=d)
meshgrid(x)                                  meshgrid(x, x)                               meshgrid(x, x, indexing="ij")
meshgrid()                                   meshgrid(x, x, indexing="ab")                meshgrid(x, x, x)
tril(m)                                      triu(m, k=-1)                                tril(x)
triu(x)                                      tril(xp.ones((2, 2, 3), dtype=d), k=7)       from_dlpack(x)
broadcast_arrays(x, m)                       broadcast_arrays(m, i)                       broadcast_arrays(x)
broadcast_to(x, (2, 3))                      broadcast_to(x, (2,))                        broadcast_to(m, (3,))
broadcast_shapes((2, 1), (3,))               broadcast_shapes((2,), (3,))                 broadcast_to(x, (0, 3))
clip(x)                                      clip(x, 0, 1)                                clip(x, None, 1)
clip(x, x, x)                                clip(x, xp.zeros((2, 1), dtype=d))           clip(m, xp.zeros((2,), dtype=d))
take(x, i)                                   take(m, i, axis=1)                           take(m, i[:1], axis=-2)
take(m, i)                                   take(x, i, axis=1)                           take(x, xp.asarray([[0], [1]]))
take(x, b)                                   take(x, xp.asarray([], dtype=xp.int64))      take(x, xp.asarray([0.0]))
take_along_axis(x, i)                        take_along_axis(m, xp.asarray([[0], [1]]))   take_along_axis(m, xp.asarray([[0, 0, 1]]), axis=0)
take_along_axis(m, i)                        take_along_axis(m, xp.asarray([[0]]), axis=2)  take_along_axis(x, b)
tensordot(m, m)                              tensordot(m, m, axes=((0,), (0,)))           tensordot(m, m, axes=0)
tensordot(m, m, axes=1)                      tensordot(m, m, axes=((0,), (1,)))           tensordot(m, m, axes=3)
tensordot(x, m, axes=((0,), (1,)))           tensordot(m, m, axes=((0, 1), (0,)))         tensordot(m, m, axes=-1)
matmul(m, x)                                 matmul(x, x)                                 matmul(m, m)
matmul(x, xp.ones((), dtype=d))              vecdot(m, x)                                 vecdot(m, m, axis=0)
vecdot(m, x, axis=2)                         vecdot(x, xp.ones((2,), dtype=d))            matmul(xp.ones((2, 3, 1), dtype=d), xp.ones((3, 1, 2), dtype=d))
matrix_transpose(m)                          matrix_transpose(x)                          m.T
x.T                                          m.mT                                         x.mT
concat([x, x])                               concat((m, m), axis=1)                       concat([m, m], axis=None)
concat([m, x])                               concat([m, m], axis=2)                       concat([])
concat([m, xp.ones((2, 1), dtype=d)], axis=-1)   concat([m, xp.ones((2, 1), dtype=d)])    concat([x, x], axis=-2)
stack([x, x])                                stack([x, x], axis=1)                        stack([x, x], axis=-2)
stack([x, x], axis=2)                        stack([x, m])                                stack([])
expand_dims(x, axis=0)                       expand_dims(x, axis=-1)                      expand_dims(x, axis=2)
expand_dims(x, axis=-3)                      squeeze(xp.ones((1, 3), dtype=d), axis=0)    squeeze(m, axis=0)
squeeze(xp.ones((1, 3, 1), dtype=d), axis=(0, 2))   squeeze(m, axis=2)                    squeeze(xp.ones((1, 1), dtype=d), axis=(0, 0))
moveaxis(m, 0, 1)                            moveaxis(m, (0, 1), (1, 0))                  moveaxis(m, -1, 0)
moveaxis(m, 0, 2)                            moveaxis(m, (0, 0), (0, 1))                  moveaxis(m, (0, 1), (0,))
permute_dims(m, (1, 0))                      permute_dims(m, (0,))                        permute_dims(m, (0, 0))
permute_dims(m, (0, 2))                      permute_dims(m, (-1, 0))                     permute_dims(x, (0,))
repeat(x, 2)                                 repeat(m, 2, axis=0)                         repeat(m, 0, axis=-1)
repeat(m, 2)                                 repeat(m, 2, axis=2)                         repeat(x, -1)
repeat(x, xp.asarray([1, 0, 2]))             repeat(x, xp.asarray([1, 2]))                repeat(m, xp.asarray([1, 2]), axis=0)
reshape(m, (3, 2))                           reshape(m, (-1,))                            reshape(m, (4,))
reshape(m, (-1, -1))                         reshape(m, (-1, 4))                          reshape(m, (-1, 6), copy=True)
reshape(m, (1, 2, 3, 1))                     reshape(m, (0, -1))                          reshape(xp.ones((0, 3), dtype=d), (3, 0))
roll(x, 1)                                   roll(m, (1, 2), axis=(0, 1))                 roll(m, -7, axis=-1)
roll(m, 1, axis=2)                           roll(m, (1, 2), axis=(0,))                   roll(m, 5)
tile(x, (2,))                                tile(m, (2,))                                tile(x, (2, 2))
tile(x, ())                                  tile(x, (-1,))                               tile(m, (0, 1))
unstack(m)                                   unstack(m, axis=1)                           unstack(m, axis=2)
unstack(xp.ones((), dtype=d))                unstack(x, axis=-1)                          flip(m, axis=2)
flip(m)                                      flip(m, axis=(0, 1))                         flip(m, axis=-3)
where(b, x, x)                               where(x, x, x)                               where(b, x, 1)
where(b, x, True)                            where(b, x, 1.5)                             where(b, 1, x)
where(b, 1, 2)                               where(xp.asarray([True, False]), x, x)       where(b, m, x)
unique_all(x)                                unique_counts(x)                             unique_inverse(m)
unique_values(m)                             isin(x, x)                                   isin(m, x, invert=True)
isin(x, 1)                                   isin(1, x)                                   isin(1, 2)
conj(x)                                      real(x)                                      imag(x)
finfo(x).dtype                               iinfo(x).bits                                can_cast(x, xp.float64)
sum(m, axis=0)                               sum(m, axis=2)                               sum(m, axis=(0, 0))
sum(m, axis=(0, 1), keepdims=True)           sum(m, dtype=xp.int64)                       sum(m, axis=())
prod(m, dtype=xp.float32)                    max(m, axis=-3)                              min(xp.ones((0,), dtype=d))
max(xp.ones((0, 3), dtype=d), axis=1)        mean(m, axis=1, keepdims=True)               std(m, axis=0, correction=1)
var(m, axis=2)                               argmax(m)                                    argmax(m, axis=1, keepdims=True)
argmin(m, axis=2)                            argmax(xp.ones((0,), dtype=d))               sort(m, axis=0, descending=True)
sort(m, axis=2)                              argsort(x, stable=False)                     argsort(xp.ones((), dtype=d))
cumulative_sum(m)                            cumulative_sum(m, axis=1)                    cumulative_sum(x, include_initial=True)
cumulative_prod(m, axis=0, dtype=xp.float32)  cumulative_sum(m, axis=2)                    cumulative_prod(xp.ones((), dtype=d))
diff(x)                                      diff(m, axis=0, n=2)                         diff(x, n=-1)
diff(x, prepend=x)                           diff(m, axis=2)                              diff(m, n=4)
all(m, axis=1)                               any(m, axis=2)                               count_nonzero(m, axis=0, keepdims=True)
count_nonzero(m, axis=2)                     nonzero(xp.ones((), dtype=d))                nonzero(m)
searchsorted(x, m)                           searchsorted(m, x)                           searchsorted(x, x, side="both")
searchsorted(x, x, side="right")             searchsorted(x, x, sorter=xp.asarray([2, 1, 0]))   searchsorted(x, x, sorter=b)
x[0]                                         x[5]                                         x[-4]
x[i]                                         x[b]                                         x[None, ..., None]
x[1.0]                                       m[0, 0, 0]                                   m[:, ::2]
m[..., -1]                                   m[xp.asarray([True, False])]                 x[xp.asarray([True, False])]
x[()]                                        m[i[:1], 0]                                  m[::-1, 1:1]
"""

TWO = """
astype(x, e)                                 astype(x, e, copy=False)                     can_cast(x, e)
concat([x, y])                               stack([x, y])                                where(b, x, y)
isin(x, y)                                   clip(x, y)                                   clip(x, None, y)
clip(x, x, y)                                take(x, y)                                   take_along_axis(x, y)
tensordot(x, y, axes=1)                      meshgrid(x, y)                               broadcast_arrays(x, y)
full_like(x, 1, dtype=e)                     zeros_like(x, dtype=e)                       sum(x, dtype=e)
prod(x, dtype=e)                             cumulative_sum(x, dtype=e)                   cumulative_prod(x, dtype=e)
x[y]                                         repeat(x, y)                                 diff(x, append=y)
result_type(x, e)                            finfo(d).eps < finfo(e).eps                  roll(x, 1)[y]
"""

REFUSED = (TypeError, ValueError, IndexError)
# Where the standard leaves it open, or asks for less: what tenon.xp does.
OTHERS = {
    "arange(3, 0, dtype=d)": "refused for bool, whatever the number of elements",
    "take(x, xp.asarray([[0], [1]]))": "indices may have several axes",
    "tensordot(m, m, axes=-1)": "refused: a number of axes is not negative",
    "roll(m, (1, 2), axis=(0,))": "refused: each shift has its axis",
    "where(b, 1, 2)": "two numbers have the default type",
    "isin(x, x)": "other types than integers, too",
    "isin(m, x, invert=True)": "other types than integers, too",
    "isin(x, 1)": "other types than integers, too",
    "isin(1, x)": "other types than integers, too",
    "isin(x, y)": "other types than integers, too",
    "argsort(xp.ones((), dtype=d))": "refused, as sort is: there is no last axis",
    "x[()]": "fewer indices than axes",
    "clip(x, y)": "refused: bounds of a type that x's does not hold",
    "clip(x, None, y)": "refused: bounds of a type that x's does not hold",
    "clip(x, x, y)": "refused: bounds of a type that x's does not hold",
    "tensordot(x, y, axes=1)": "refused: types of several kinds",
    "diff(x, append=y)": "refused: types of several kinds",
    "sum(x, dtype=e)": "refused: numbers as bool",
    "prod(x, dtype=e)": "refused: numbers as bool",
    "cumulative_sum(x, dtype=e)": "refused: numbers as bool",
    "cumulative_prod(x, dtype=e)": "refused: numbers as bool",
}


def calls(text: str) -> list[str]:
    return [call for line in text.strip().splitlines() for call in re.split(r"  +", line.strip())]


def outcome(namespace: Any, call: str, names: dict[str, Any]) -> str:
    """Types and shapes of what a call gives, or that it is refused."""
    method = call[1:2] in ("[", ".")
    try:
        result = eval(call if method else f"xp.{call}", {"xp": namespace, **names})
    except REFUSED:
        return "refused"
    return described(result)


def described(result: Any) -> str:
    if isinstance(result, (tuple, list)):
        return f"({', '.join(map(described, result))})"
    if not hasattr(result, "shape"):
        return str(result).rpartition(".")[2]
    return f"{str(result.dtype).rpartition('.')[2]}{tuple(result.shape)}"


def names(namespace: Any, d: str, e: str) -> dict[str, Any]:
    first, second = getattr(namespace, d), getattr(namespace, e)
    return {
        "x": namespace.ones((3,), dtype=first), "m": namespace.ones((2, 3), dtype=first), "d": first, "e": second,
        "y": namespace.ones((3,), dtype=second), "i": namespace.asarray([0, 2], dtype=namespace.int64),
        "b": namespace.asarray([True, False, True]), "finfo": namespace.finfo,
    }  # fmt: skip


def agree(call: str, d: str, e: str) -> bool:
    """Whether both give the same; what is in OTHERS may be refused by one of them."""
    mine, theirs = (outcome(n, call, names(n, d, e)) for n in (xp, strict))
    assert mine == theirs or (call in OTHERS and "refused" in (mine, theirs)), (d, e)
    return mine == theirs


@pytest.mark.parametrize("call", calls(ONE))
def test_one_type(call: str) -> None:
    same = [agree(call, d, d) for d in ALL]
    assert all(same) == (call not in OTHERS), "OTHERS has what does not differ"


@pytest.mark.parametrize("call", calls(TWO))
def test_two_types(call: str) -> None:
    same = [agree(call, d, e) for d in ALL for e in ALL]
    assert all(same) == (call not in OTHERS), "OTHERS has what does not differ"


def test_no_function_is_left_out() -> None:
    functions = {
        n for n in strict.__all__ if callable(getattr(strict, n)) and not n.startswith("_")
    }
    named = set(re.findall(r"\b([a-z_0-9]+)\(", ONE + TWO))
    # isdtype: test_can_cast_and_kinds
    assert functions - named - set(UNARY) - set(BINARY) - LATER - {"isdtype"} == set()
