"""What JAX tests of its own derivatives (tests/lax_autodiff_test.py), as data.

A row is (family, options). `operations.py` says what a family computes in both libraries. Facts were
taken over, such as ops, shapes and special values; ranges of numbers stand for JAX's generators.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

# Ranges of numbers: JAX's rand_default, rand_small, rand_positive, rand_not_small.
DEFAULT, SMALL, POSITIVE = (-3.0, 3.0), (-1.0, 1.0), (0.1, 3.0)

# (op, operands, highest order, range of the operands, types)
ELEMENT_WISE = [
    ("neg", 1, 2, DEFAULT, "f64 c128"),
    ("floor", 1, 2, (0.1, 0.4), "f64"),
    ("ceil", 1, 2, (0.1, 0.4), "f64"),
    ("round", 1, 2, (0.1, 0.4), "f64"),
    ("exp", 1, 2, SMALL, "f64 c128"),
    ("exp2", 1, 2, SMALL, "f64 c128"),
    ("expm1", 1, 2, DEFAULT, "f64 c128"),
    ("log", 1, 2, POSITIVE, "f64 c128"),
    ("log1p", 1, 2, POSITIVE, "f64 c128"),
    ("sinh", 1, 2, DEFAULT, "f64"),
    ("cosh", 1, 2, DEFAULT, "f64 c128"),
    ("tanh", 1, 2, DEFAULT, "f64 c128"),
    ("sin", 1, 2, DEFAULT, "f64 c128"),
    ("cos", 1, 2, DEFAULT, "f64 c128"),
    ("tan", 1, 2, (-1.3, 1.3), "f64 c128"),
    ("asin", 1, 2, (-0.95, 0.95), "f64"),
    ("acos", 1, 2, (-0.95, 0.95), "f64"),
    ("atan2", 2, 2, DEFAULT, "f64"),
    ("erf", 1, 2, SMALL, "f64"),
    ("erfc", 1, 2, SMALL, "f64"),
    ("erf_inv", 1, 2, (-0.95, 0.95), "f64"),
    ("real", 1, 2, DEFAULT, "c128"),
    ("imag", 1, 2, DEFAULT, "c128"),
    ("complex", 2, 2, DEFAULT, "f64"),
    ("conj", 1, 2, DEFAULT, "c128"),
    ("abs", 1, 2, POSITIVE, "f64 c128"),
    ("pow", 2, 2, POSITIVE, "f64 c128"),
    ("sqrt", 1, 2, POSITIVE, "f64"),
    ("sqrt", 1, 2, DEFAULT, "c128"),
    ("rsqrt", 1, 2, POSITIVE, "f64"),
    ("rsqrt", 1, 2, DEFAULT, "c128"),
    ("cbrt", 1, 2, (0.5, 3.0), "f64"),
    ("logistic", 1, 2, DEFAULT, "f64"),
    ("add", 2, 2, DEFAULT, "f64 c128"),
    ("sub", 2, 2, DEFAULT, "f64 c128"),
    ("mul", 2, 2, DEFAULT, "f64 c128"),
    ("div", 2, 1, (0.5, 3.0), "f64 c128"),
    ("max", 2, 2, DEFAULT, "f64"),
    ("min", 2, 2, DEFAULT, "f64"),
    # Not in JAX's table for these types, but with derivatives in JAX.
    ("sinh", 1, 2, DEFAULT, "c128"),
    ("asin", 1, 2, DEFAULT, "c128"),
    ("acos", 1, 2, DEFAULT, "c128"),
    ("atan", 1, 2, DEFAULT, "f64 c128"),
    ("asinh", 1, 2, DEFAULT, "f64 c128"),
    ("acosh", 1, 2, (1.1, 3.0), "f64 c128"),
    ("atanh", 1, 2, (-0.95, 0.95), "f64 c128"),
    ("square", 1, 2, DEFAULT, "f64 c128"),
    ("reciprocal", 1, 2, (0.5, 3.0), "f64 c128"),
]
# Not in the set of ops: bessel_i0e, bessel_i1e, and logistic of complex numbers.
SHAPES = [[(3,)], [(), (3, 4), (3, 1), (1, 4)], [(2, 3, 4), (2, 1, 4)]]

SPECIAL = [
    ("sinh", [0.0]),
    ("cosh", [0.0]),
    ("tanh", [0.0, 1000.0]),
    ("sin", [0.0, math.pi, math.pi / 2, math.pi / 4]),
    ("cos", [0.0, math.pi, math.pi / 2, math.pi / 4]),
    ("tan", [0.0]),
    ("asin", [0.0]),
    ("acos", [0.0]),
    ("atan", [0.0, 1000.0]),
    ("erf", [0.0, 10.0]),
    ("erfc", [0.0, 10.0]),
]

CONCAT = [(shape, dim) for shape in [(4,), (3, 4), (2, 3, 4)] for dim in range(len(shape))]
SPLIT = [(shape, dim, sizes) for shape, dim in CONCAT for sizes in ([3], [2, 4], [1, 0, 3])]

# (shape of x, shape of w, strides, low and high padding, dilations of x and of w)
CONV = [
    *(((b, i, 3, 4), (j, i, 1, 2), strides, pads, (1, 1), (1, 1))
      for b, i, j in itertools.product([2, 3], repeat=3)
      for strides in [(1, 1), (1, 2), (2, 1)]
      for pads in [((0, 0), (0, 0)), ((0, 0), (0, 1))]),
    *(((2, 3, 3, 4), (2, 3, 1, 2), strides, pads, dilation, (1, 1))
      for strides in [(1, 1), (1, 2), (2, 1)]
      for pads in [((0, 0), (0, 0)), ((-1, 0), (0, -1)), ((1, 0), (0, 1))]
      for dilation in [(1, 1), (2, 1)]),
    *(((4, 2, 1), (3, 2, 1), (1,), pads, lhs, rhs)
      for pads in [((1, 1),), ((0, 0),)] for lhs in [(1,), (2,)] for rhs in [(1,), (2,)]),
]  # fmt: skip
# (features of a group and batch of a group doubled, strides, dilations)
CONV_GROUPS = [
    (
        (b * batch, i * feature, 6, 7),
        (j * batch * feature, i, 1, 2),
        strides,
        pads,
        lhs,
        rhs,
        feature,
        batch,
    )
    for batch, feature in [(1, 1), (2, 1), (1, 2)]
    for b, i, j in [(1, 1, 2), (2, 2, 1)]
    for strides in [(1, 1), (2, 1)]
    for lhs in [(1, 1), (2, 1)]
    for rhs in [(1, 1), (2, 2)]
    for pads in [((0, 0), (0, 0)), ((1, 0), (0, 1)), ((0, -1), (0, 0))]
]

# (shapes, contracted dims, batch dims)
DOT = [
    ((2,), (2,), ((0,), (0,)), ((), ())),
    ((3, 2), (2,), ((1,), (0,)), ((), ())),
    ((2,), (2, 4), ((0,), (0,)), ((), ())),
    ((3, 2), (2, 4), ((1,), (0,)), ((), ())),
    ((3, 5), (2, 5), ((1,), (1,)), ((), ())),
    ((5, 3), (5, 2), ((0,), (0,)), ((), ())),
    ((3, 3, 2), (3, 2, 4), ((2,), (1,)), ((0,), (0,))),
    ((3, 5, 2), (2, 4, 5), ((2,), (0,)), ((1,), (2,))),
    ((7, 3, 5, 2), (2, 2, 4, 5), ((3,), (0,)), ((2,), (3,))),
]

BROADCAST = [
    ((2,), (2, 2), (0,)), ((2,), (2, 2), (1,)), ((2,), (2, 3), (0,)), ((), (2, 3), ()),
    ((2, 3), (2, 2, 3), (1, 2)), ((2, 3), (1, 2, 2, 3), (2, 3)), ((), (1, 2), ()),
]  # fmt: skip
RESHAPE = [
    ((3, 4), (12,), None), ((2, 1, 4), (8,), None), ((2, 2, 4), (2, 8), None), ((3, 4), (12,), (0, 1)),
    ((3, 4), (12,), (1, 0)), ((2, 1, 4), (8,), (0, 2, 1)), ((2, 1, 4), (8,), (2, 0, 1)),
    ((2, 2, 4), (2, 8), (0, 2, 1)), ((2, 2, 4), (2, 8), (2, 0, 1)),
]  # fmt: skip
PAD = [((), ()), ((2, 3), ((1, 2, 1), (0, 1, 0))), ((2, 3), ((-1, 0, 0), (-1, 0, 2)))]
REVERSE = [((3,), (0,)), ((2, 3), (0, 1))]
SELECT = [((), ()), ((3,), ()), ((3,), (3,)), ((2, 3), ()), ((2, 3), (2, 3))]
SLICE = [
    ((3,), (1,), (2,), None), ((7,), (4,), (7,), None), ((5,), (1,), (5,), (2,)), ((8,), (1,), (6,), (2,)),
    ((5, 3), (1, 1), (3, 2), None), ((5, 3), (1, 1), (3, 1), None), ((7, 5, 3), (4, 0, 1), (7, 1, 3), None),
    ((5, 3), (1, 1), (2, 1), (1, 1)), ((5, 3), (1, 1), (5, 3), (2, 1)), ((3, 3, 5), (0, 2, 0), (3, 2, 5), (1, 2, 1)),
]  # fmt: skip
DYNAMIC_SLICE = [((3,), (1,), (1,)), ((5, 3), (1, 1), (3, 1)), ((7, 5, 3), (4, 1, 0), (2, 0, 1))]
# An index that is out of range.
DYNAMIC_SLICE_OUTSIDE = [((5, 5), (-8, 0), (1, 5))]
TRANSPOSE = [((3, 4), (1, 0)), ((3, 4), (0, 1)), ((3, 4, 5), (2, 1, 0)), ((3, 4, 5), (1, 0, 2))]

REDUCE = [
    (op, shape, dims)
    for op in ("add", "max", "min", "mul")
    for shape, dims in [
        ((), ()), ((3, 4, 5), ()), ((3, 4, 5), (0,)), ((3, 4, 5), (1, 2)), ((3, 4, 5), (0, 2)),
        ((3, 4, 5), (0, 1, 2)), ((3, 1), (1,)), ((3, 0, 5), (1,)),
    ]
    if op in ("add", "mul") or all(shape)
]  # fmt: skip
# (op, shape, window, strides, low and high padding, dilations of x and of the window)
WINDOW = [
    (op, shape, window, strides, pads, base, dilation)
    for op in ("add", "max", "min")
    for shape, windows, all_strides, all_pads, bases, dilations in [
        ((4, 6), [(2, 1), (1, 2)], [(1, 1), (2, 1), (1, 2)], [((0, 0), (0, 0)), ((0, 3), (1, 2))],
         [(1, 1), (2, 3)], [(1, 1), (1, 2)]),
        ((3, 2, 4, 6), [(1, 1, 2, 1), (2, 1, 2, 1)], [(1, 2, 2, 1)], [((0, 1), (1, 0), (2, 3), (0, 2))],
         [(1, 1, 1, 1), (2, 1, 3, 2)], [(1, 1, 1, 1), (1, 2, 2, 1)]),
    ]
    for window in windows for strides in all_strides for pads in all_pads for base in bases
    for dilation in (dilations if op == "add" else dilations[:1])
]  # fmt: skip
CUMULATIVE = [
    (op, shape, axis, reverse)
    for op in ("cumsum", "cumprod")
    for shape in [(10,), (3, 4, 5)]
    for axis in range(len(shape))
    for reverse in (0, 1)
]
SORT = [(0,), (5,), (5, 7), (4, 9, 3)]
SORT_PAIRS = [(3,), (5, 3), (4, 9, 3)]
TOP_K = [
    (shape, k, axis) for shape in [(4,), (5, 5), (3, 1, 4)] for k in (1, 3) for axis in (0, -1)
]
INDEX_TAKE = [
    ((3, 4, 5), ((0, 2, 1),), (0,)),
    ((3, 4, 5), ((-1, -2),), (0,)),
    ((3, 4, 5), ((0, 2), (1, 3)), (0, 1)),
    ((3, 4, 5), ((0, 2), (1, 3)), (0, 2)),
]
# (shape, indices, offset dims, collapsed dims, sizes of the window); the mode and what lies outside
_GATHER = [((5,), 2, (), (0,), (1,)), ((10,), 3, (1,), (), (2,)), ((10, 5), 3, (1,), (0,), (1, 3))]
_INDICES = {2: [(0, 2), (4, 9), (-3, 1)], 3: [(0, 2, 1), (3, 3, 3), (-9, 12, 2)]}
GATHER = [
    (*row, mode, indices)
    for row in _GATHER
    for mode in ("clip", "fill", "in_bounds")
    for indices in _INDICES[row[1]][: 1 if mode == "in_bounds" else 3]
]
# (op, shape, indices, shape of the updates, window dims, inserted dims, mode, indices)
_SCATTER = [
    ((5,), 2, (2,), (), (0,)),
    ((10,), 3, (3, 2), (1,), ()),
    ((10, 5), 3, (3, 3), (1,), (0,)),
]
SCATTER = [
    (op, *row, mode, indices)
    for op in ("add", "set", "max", "min", "mul")
    for row in _SCATTER
    for mode in (("clip", "fill", "in_bounds") if op == "add" else ("fill",))
    # Places that several updates set have no derivative: there only different ones, apart by 2.
    for indices in (
        [(0, 2, 4)[: row[1]]] if op in ("set", "mul") or mode == "in_bounds" else _INDICES[row[1]]
    )
]


# (kind, shape of the signal, how many last dims)
FFT = [
    (kind, shape, count)
    for kind in ("fft", "ifft", "rfft", "irfft")
    for shape, count in [((5,), 1), ((6,), 1), ((2, 1), 1), ((3, 4), 2), ((2, 3, 4, 5), 3)]
]
LINEAR_ALGEBRA = [
    (op, shape, dtype)
    for op in (
        "cholesky", "cholesky_upper", "solve", "inv", "det", "slogdet", "qr", "eigvalsh", "svdvals",
        "triangular_plain", "triangular_transposed", "triangular_adjoint", "triangular_upper_unit",
    )
    for shape in [(1, 1), (3, 3), (2, 4, 4)]
    for dtype in ("f64", "c128")
]  # fmt: skip
# Families whose rows are there for complex numbers too, at the end of their options.
COMPLEX = (
    "concat", "split", "dot", "broadcast", "reshape", "pad", "reverse", "select", "slice",
    "dynamic_slice", "dynamic_update_slice", "transpose", "reduce", "cumulative", "index_take",
    "gather", "scatter",
)  # fmt: skip
REAL_ONLY = {(family, op) for family in ("reduce", "scatter") for op in ("max", "min")}
REAL_ONLY |= {("scatter", "mul")}


def rows() -> list[tuple[str, Any]]:
    """All rows: (family, options)."""
    out: list[tuple[str, Any]] = []
    for op, count, order, numbers, types in ELEMENT_WISE:
        for group in SHAPES:
            for shapes in itertools.combinations_with_replacement(group, count):
                out += [("element_wise", (op, shapes, order, numbers, t)) for t in types.split()]
    out += [("special", (op, value)) for op, values in SPECIAL for value in values]
    tables = {
        "concat": CONCAT, "split": SPLIT, "conv": CONV, "conv_groups": CONV_GROUPS, "dot": DOT,
        "broadcast": BROADCAST, "reshape": RESHAPE, "pad": PAD, "reverse": REVERSE, "select": SELECT,
        "slice": SLICE, "dynamic_slice": DYNAMIC_SLICE + DYNAMIC_SLICE_OUTSIDE,
        "dynamic_update_slice": DYNAMIC_SLICE + DYNAMIC_SLICE_OUTSIDE, "transpose": TRANSPOSE, "reduce": REDUCE,
        "window": WINDOW, "cumulative": CUMULATIVE, "sort": [(s,) for s in SORT],
        "sort_pairs": [(s,) for s in SORT_PAIRS], "top_k": TOP_K, "index_take": INDEX_TAKE, "gather": GATHER,
        "scatter": SCATTER, "clamp": [((),), ((2, 3),)], "fft": FFT, "linear_algebra": LINEAR_ALGEBRA,
    }  # fmt: skip
    for family, table in tables.items():
        out += [(family, row) for row in table]
    for family in COMPLEX:
        chosen = [row for row in tables[family] if (family, row[0]) not in REAL_ONLY]
        out += [(family, (*row, "c128")) for row in chosen[:: 1 if len(chosen) < 9 else 2]]
    return out
