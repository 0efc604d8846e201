"""Strategies of hypothesis for the functions of the array API standard.

A case is (positional arguments, keyword arguments) as NumPy takes them; NumPy's functions of the same
names are the reference. What the standard leaves open (division of integers by zero, shifts beyond
the width, values that do not fit) is not drawn.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

FLOATS = ("float32", "float64")
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTEGERS = SIGNED + UNSIGNED
NUMERIC = INTEGERS + FLOATS
KINDS = {"float": FLOATS, "numeric": NUMERIC, "integer": INTEGERS, "bits": ("bool", *INTEGERS),
         "bool": ("bool",), "any": ("bool", *NUMERIC)}  # fmt: skip
SPECIAL = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -2.5,
    3.0,
    float("inf"),
    float("-inf"),
    float("nan"),
    1e-30,
    1e30,
)
# Few shapes: each new one compiles a program.
SHAPES = ((), (1,), (4,), (0,), (2, 3), (1, 3), (3, 1), (2, 0, 3), (2, 1, 3))


def elements(dtype: str, *, special: bool = True, low: int = -8, high: int = 8) -> Any:
    if dtype == "bool":
        return st.booleans()
    if dtype in INTEGERS:
        return st.integers(max(low, 0) if dtype in UNSIGNED else low, high)
    width = 32 if dtype == "float32" else 64
    plain = st.floats(-100, 100, width=width)
    return (
        st.one_of(plain, st.sampled_from([float(np.dtype(dtype).type(s)) for s in SPECIAL]))
        if special
        else plain
    )


def arrays(dtype: str, shapes: Any = SHAPES, **limits: Any) -> Any:
    shape = st.sampled_from(tuple(shapes))
    return shape.flatmap(
        lambda s: hnp.arrays(dtype, s, elements=elements(dtype, **limits), fill=st.nothing())
    )


@st.composite
def axes(draw: Any, ndim: int, none: bool = True) -> Any:
    """None, one axis, or several; counted from either end."""
    if ndim == 0:
        return None
    one = st.integers(-ndim, ndim - 1)
    several = st.lists(one, min_size=1, max_size=ndim, unique_by=lambda a: a % ndim).map(tuple)
    return draw(st.one_of(*([st.none()] if none else []), one, several))


@st.composite
def unary(draw: Any, dtype: str) -> Any:
    return (draw(arrays(dtype)),), {}


@st.composite
def binary(draw: Any, dtype: str, **limits: Any) -> Any:
    shapes = draw(st.sampled_from([(a, b) for a in SHAPES for b in SHAPES if _go_together(a, b)]))
    first = draw(arrays(dtype, [shapes[0]]))
    return (first, draw(arrays(dtype, [shapes[1]], **limits))), {}


def _go_together(a: Any, b: Any) -> bool:
    try:
        np.broadcast_shapes(a, b)
    except ValueError:
        return False
    return True


@st.composite
def divided(draw: Any, dtype: str) -> Any:
    (x, y), _ = draw(binary(dtype))
    return (x, y if dtype in FLOATS else np.where(y == 0, np.asarray(3, y.dtype), y)), {}


@st.composite
def shifted(draw: Any, dtype: str) -> Any:
    return draw(binary(dtype, low=0, high=7))


@st.composite
def power(draw: Any, dtype: str) -> Any:
    (x, y), _ = draw(binary(dtype, low=0, high=3))
    return (x, y), {}


@st.composite
def clipped(draw: Any, dtype: str) -> Any:
    x = draw(arrays(dtype))
    bound = st.one_of(st.none(), elements(dtype, special=False).map(np.dtype(dtype).type))
    low, high = draw(bound), draw(bound)
    if low is None and high is None:
        low = np.dtype(dtype).type(1)
    if low is not None and high is not None and low > high:
        low, high = high, low
    return (
        x,
        None if low is None else np.asarray(low),
        None if high is None else np.asarray(high),
    ), {}


@st.composite
def reduction(draw: Any, dtype: str, empty: bool = True) -> Any:
    x = draw(arrays(dtype, [s for s in SHAPES if empty or 0 not in s]))
    return (x,), {"axis": draw(axes(x.ndim)), "keepdims": draw(st.booleans())}


@st.composite
def nonempty_reduction(draw: Any, dtype: str) -> Any:
    return draw(reduction(dtype, empty=False))


@st.composite
def one_axis(draw: Any, dtype: str) -> Any:
    x = draw(arrays(dtype, [s for s in SHAPES if 0 not in s]))
    axis = draw(st.one_of(st.none(), st.integers(-x.ndim, x.ndim - 1)) if x.ndim else st.none())
    return (x,), {"axis": axis, "keepdims": draw(st.booleans())}


@st.composite
def cumulative(draw: Any, dtype: str) -> Any:
    x = draw(arrays(dtype, [s for s in SHAPES if s], special=False))
    return (x,), {
        "axis": draw(st.integers(-x.ndim, x.ndim - 1)),
        "include_initial": draw(st.booleans()),
    }


@st.composite
def along(draw: Any, dtype: str) -> Any:
    """An axis that is always given, of an array with axes."""
    x = draw(arrays(dtype, [s for s in SHAPES if s]))
    return (x,), {"axis": draw(st.integers(-x.ndim, x.ndim - 1))}


@st.composite
def sorted_(draw: Any, dtype: str) -> Any:
    x = draw(arrays(dtype, [s for s in SHAPES if s]))
    return (x,), {"axis": draw(st.integers(-x.ndim, x.ndim - 1)), "stable": True}


@st.composite
def differences(draw: Any, dtype: str) -> Any:
    (x,), options = draw(along(dtype))
    return (x,), {**options, "n": draw(st.integers(0, 2))}


@st.composite
def flipped(draw: Any, dtype: str) -> Any:
    x = draw(arrays(dtype))
    return (x,), {"axis": draw(axes(x.ndim))}


@st.composite
def rolled(draw: Any, dtype: str) -> Any:
    x = draw(arrays(dtype, [s for s in SHAPES if s]))
    axis = draw(axes(x.ndim))
    shift = (
        tuple(draw(st.integers(-5, 5)) for _ in axis)
        if isinstance(axis, tuple)
        else draw(st.integers(-5, 5))
    )
    return (x, shift), {"axis": axis}


@st.composite
def permuted(draw: Any, dtype: str) -> Any:
    x = draw(arrays(dtype))
    return (x, tuple(draw(st.permutations(range(x.ndim))))), {}


@st.composite
def moved(draw: Any, dtype: str) -> Any:
    x = draw(arrays(dtype, [s for s in SHAPES if s]))
    axis = st.integers(-x.ndim, x.ndim - 1)
    return (x, draw(axis), draw(axis)), {}


@st.composite
def reshaped(draw: Any, dtype: str) -> Any:
    x = draw(arrays(dtype))
    shapes = [(x.size,), (1, x.size), (x.size, 1), (-1,) if x.size else (0,), x.shape[::-1]]
    return (x, draw(st.sampled_from(shapes))), {}


@st.composite
def expanded(draw: Any, dtype: str) -> Any:
    x = draw(arrays(dtype))
    return (x,), {"axis": draw(st.integers(-x.ndim - 1, x.ndim))}


@st.composite
def squeezed(draw: Any, dtype: str) -> Any:
    x = draw(arrays(dtype, [(1,), (1, 3), (3, 1), (2, 1, 3)]))
    return (x, x.shape.index(1)), {}


@st.composite
def broadcast(draw: Any, dtype: str) -> Any:
    (x, y), _ = draw(binary(dtype))
    return (x, np.broadcast_shapes(x.shape, y.shape)), {}


@st.composite
def joined(draw: Any, dtype: str) -> Any:
    x = draw(arrays(dtype, [s for s in SHAPES if s]))
    axis = draw(st.one_of(st.none(), st.integers(-x.ndim, x.ndim - 1)))
    return ([x, draw(arrays(dtype, [x.shape])), x],), {"axis": axis}


@st.composite
def stacked(draw: Any, dtype: str) -> Any:
    x = draw(arrays(dtype))
    return ([x, draw(arrays(dtype, [x.shape]))],), {"axis": draw(st.integers(-x.ndim - 1, x.ndim))}


@st.composite
def tiled(draw: Any, dtype: str) -> Any:
    x = draw(arrays(dtype))
    return (x, tuple(draw(st.lists(st.integers(0, 3), max_size=3)))), {}


@st.composite
def repeated(draw: Any, dtype: str) -> Any:
    x = draw(arrays(dtype, [s for s in SHAPES if s]))
    axis = draw(st.one_of(st.none(), st.integers(-x.ndim, x.ndim - 1)))
    return (x, draw(st.integers(0, 3))), {"axis": axis}


@st.composite
def triangle(draw: Any, dtype: str) -> Any:
    x = draw(arrays(dtype, [s for s in SHAPES if len(s) > 1]))
    return (x,), {"k": draw(st.integers(-3, 3))}


@st.composite
def chosen(draw: Any, dtype: str) -> Any:
    (x, y), _ = draw(binary(dtype))
    mask = draw(
        arrays("bool", [draw(st.sampled_from([(), np.broadcast_shapes(x.shape, y.shape)]))])
    )
    return (mask, x, y), {}


@st.composite
def taken(draw: Any, dtype: str) -> Any:
    x = draw(arrays(dtype, [s for s in SHAPES if s and 0 not in s]))
    axis = draw(st.integers(-x.ndim, x.ndim - 1))
    size = x.shape[axis]
    at = draw(
        hnp.arrays(
            "int64",
            draw(st.sampled_from([(0,), (1,), (4,)])),
            elements=st.integers(-size, size - 1),
        )
    )
    return (x, at), {"axis": axis}


@st.composite
def taken_along(draw: Any, dtype: str) -> Any:
    x = draw(arrays(dtype, [s for s in SHAPES if s and 0 not in s]))
    axis = draw(st.integers(-x.ndim, x.ndim - 1))
    size = x.shape[axis]
    return (x, draw(hnp.arrays("int64", x.shape, elements=st.integers(0, size - 1)))), {
        "axis": axis
    }


@st.composite
def searched(draw: Any, dtype: str) -> Any:
    x = np.sort(draw(arrays(dtype, [(1,), (4,), (6,)], special=False)))
    return (x, draw(arrays(dtype, special=False))), {
        "side": draw(st.sampled_from(["left", "right"]))
    }


@st.composite
def unary_with_axes(draw: Any, dtype: str) -> Any:
    return (draw(arrays(dtype, [s for s in SHAPES if s])),), {}


@st.composite
def matrices(draw: Any, dtype: str) -> Any:
    pairs = [
        ((3,), (3,)),
        ((2, 3), (3,)),
        ((3,), (3, 4)),
        ((2, 3), (3, 2)),
        ((2, 2, 3), (3, 2)),
        ((1, 2, 3), (4, 3, 1)),
        ((2, 0), (0, 3)),
    ]
    a, b = draw(st.sampled_from(pairs))
    limits = {"special": False, "low": -3, "high": 3}
    return (draw(arrays(dtype, [a], **limits)), draw(arrays(dtype, [b], **limits))), {}


@st.composite
def vectors(draw: Any, dtype: str) -> Any:
    pairs = [((3,), (3,)), ((2, 3), (3,)), ((2, 3), (2, 3)), ((2, 1, 3), (4, 3)), ((2, 0), (2, 0))]
    a, b = draw(st.sampled_from(pairs))
    limits = {"special": False, "low": -3, "high": 3}
    return (draw(arrays(dtype, [a], **limits)), draw(arrays(dtype, [b], **limits))), {}


@st.composite
def tensors(draw: Any, dtype: str) -> Any:
    a, b, dims = draw(st.sampled_from([((2, 3), (3, 2), 1), ((2, 3), (2, 3), 2), ((2,), (3,), 0),
                                       ((2, 3, 4), (4, 3), ((1, 2), (1, 0)))]))  # fmt: skip
    limits = {"special": False, "low": -3, "high": 3}
    return (draw(arrays(dtype, [a], **limits)), draw(arrays(dtype, [b], **limits))), {"axes": dims}


@st.composite
def transposed(draw: Any, dtype: str) -> Any:
    return (draw(arrays(dtype, [s for s in SHAPES if len(s) > 1])),), {}


@st.composite
def casted(draw: Any, dtype: str) -> Any:
    x = draw(arrays(dtype, special=False, low=0, high=100))
    to = draw(st.sampled_from(KINDS["any"]))
    # What has no value of the other type is not defined by the standard.
    return (np.abs(x) if dtype in FLOATS else x, to), {}


# name: (kinds of elements, strategy)
CASES: dict[str, tuple[str, Any]] = {}


def _add(names: str, kind: str, strategy: Any) -> None:
    for name in names.split():
        CASES[name] = (kind, strategy)


_add("acos acosh asin asinh atan atanh cos cosh exp expm1 log log1p log2 log10 sin sinh sqrt tan tanh "
     "reciprocal signbit", "float", unary)  # fmt: skip
_add(
    "abs negative sign square positive ceil floor trunc round isfinite isinf isnan real conj",
    "numeric",
    unary,
)
_add("bitwise_invert", "bits", unary)
_add("logical_not", "bool", unary)
_add(
    "add subtract multiply maximum minimum less less_equal greater greater_equal", "numeric", binary
)
_add("equal not_equal", "any", binary)
_add("divide atan2 hypot copysign nextafter logaddexp", "float", binary)
_add("bitwise_and bitwise_or bitwise_xor", "bits", binary)
_add("logical_and logical_or logical_xor", "bool", binary)
_add("floor_divide remainder", "numeric", divided)
_add("bitwise_left_shift bitwise_right_shift", "integer", shifted)
_add("pow", "numeric", power)
_add("clip", "numeric", clipped)
_add("sum prod", "numeric", reduction)
_add("mean", "float", nonempty_reduction)
_add("std var", "float", nonempty_reduction)
_add("max min", "numeric", nonempty_reduction)
_add("all any count_nonzero", "any", reduction)
_add("argmax argmin", "numeric", one_axis)
_add("cumulative_sum cumulative_prod", "numeric", cumulative)
_add("sort argsort", "numeric", sorted_)
_add("diff", "numeric", differences)
_add("flip", "any", flipped)
_add("roll", "any", rolled)
_add("permute_dims", "any", permuted)
_add("moveaxis", "any", moved)
_add("reshape", "any", reshaped)
_add("expand_dims", "any", expanded)
_add("squeeze", "any", squeezed)
_add("broadcast_to", "any", broadcast)
_add("concat", "any", joined)
_add("stack", "any", stacked)
_add("unstack", "any", along)
_add("tile", "any", tiled)
_add("repeat", "any", repeated)
_add("tril triu", "any", triangle)
_add("where", "any", chosen)
_add("take", "any", taken)
_add("take_along_axis", "any", taken_along)
_add("searchsorted", "numeric", searched)
_add("nonzero", "any", unary_with_axes)
_add("unique_values unique_counts unique_inverse", "any", unary)
_add("isin", "integer", binary)
_add("matmul", "numeric", matrices)
_add("vecdot", "numeric", vectors)
_add("tensordot", "numeric", tensors)
_add("matrix_transpose", "any", transposed)
_add("ones_like zeros_like", "any", unary)
_add("astype", "any", casted)
