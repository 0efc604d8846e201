#!/usr/bin/env python3
"""Writes the first part of values.cases: calls of most ops with the results of NumPy, SciPy or
ONNX's reference.

    python3 tests/ops/oracle.py > build/values.cases; diff tests/ops/values.cases build/values.cases

A new op gets a file in cases/ instead (README.md). This script shows where the values come from. It
needs numpy, onnx, scipy and torch. All cases draw from one random generator, so each depends on
those above it. Nothing here may look at Tenon's own code.
"""

import sys

import numpy as np
import scipy.special
import torch
from expected import NAMES, Random, Raw, call, through_onnx

f32, f64, i32, i64 = np.float32, np.float64, np.int32, np.int64
NUMBERS = Random(20240229)
RNG, floats, ints = NUMBERS.generator, NUMBERS.floats, NUMBERS.ints


def case(op, operands, results, **attrs):
    print(call(op, operands, results, **attrs))


def raw(op, operands, regions, *results, **attrs):
    """A case of an op with regions."""
    print(call(op, operands, results, regions, **attrs))


def unary():
    edge = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.3, -2.7, 100.0], f32)
    wide = np.array([-80.0, -5.0, -0.5, -1e-4, 1e-4, 0.75, 6.0, 80.0], f64)
    functions = {
        "neg": np.negative,
        "abs": np.abs,
        "floor": np.floor,
        "ceil": np.ceil,
        "trunc": np.trunc,
        "round_even": np.rint,
        "sqrt": np.sqrt,
        "rsqrt": lambda x: 1 / np.sqrt(x),
        "exp": np.exp,
        "expm1": np.expm1,
        "log": np.log,
        "log1p": np.log1p,
        "tanh": np.tanh,
        "logistic": scipy.special.expit,
        "erf": scipy.special.erf,
        "erfc": scipy.special.erfc,
    }
    with np.errstate(all="ignore"):
        for name, f in functions.items():
            case(name, [edge], f(edge.astype(f64)).astype(f32))
            case(name, [wide], f(wide))
        half = floats(6, dtype=np.float16)
        case("exp", [half], np.exp(half.astype(f32)).astype(np.float16))
        case("sqrt", [abs(half)], np.sqrt(abs(half).astype(f32)).astype(np.float16))
        for name, f in {"sin": np.sin, "cos": np.cos}.items():
            x = np.array([0.0, 0.5, -1.5, 3.0, 100.0, np.inf, np.nan], f32)
            case(name, [x], f(x.astype(f64)).astype(f32))
            case(name, [wide], f(wide))
        case("sign", [edge], np.sign(edge))
        x = np.array([-0.9, -0.1, 0.0, 0.5, 0.99], f64)
        case("erf_inv", [x], scipy.special.erfinv(x))
        x = np.array([0.1, 1.0, 2.5, 10.0, 50.0, -0.5], f64)
        case("lgamma", [x], scipy.special.gammaln(x))
        case("digamma", [x], scipy.special.digamma(x))
        for dtype in (np.int8, i32, i64, np.uint8):
            x = np.array([0, 1, 5, 127, 3], dtype)
            case("neg", [x], -x)
            case("not", [x], ~x)
            width = x.dtype.itemsize * 8
            case("clz", [x], np.array([width - int(v).bit_length() for v in x], dtype))
        x = np.array([-128, -1, 0, 7], np.int8)
        case("abs", [x], np.abs(x))
        case("sign", [x], np.sign(x))
        case("not", [np.array([True, False])], np.array([False, True]))
        for name, f in {"is_nan": np.isnan, "is_inf": np.isinf, "is_finite": np.isfinite}.items():
            case(name, [edge], f(edge))
            case(
                name,
                [np.array([1, np.nan, np.inf, -np.inf, 65504], np.float16)],
                f(np.array([1, np.nan, np.inf, -np.inf, 65504], np.float16)),
            )


def binary():
    a = np.array([1.5, -2.0, 0.0, -0.0, np.inf, np.nan, 7.25, -7.25], f32)
    b = np.array([2.0, 3.0, -0.0, 0.0, -np.inf, 1.0, 2.0, 2.0], f32)
    with np.errstate(all="ignore"):
        for name, f in {
            "add": np.add,
            "sub": np.subtract,
            "mul": np.multiply,
            "div": np.divide,
            "rem": np.fmod,
            "max": np.maximum,
            "min": np.minimum,
            "atan2": np.arctan2,
        }.items():
            case(name, [a, b], f(a, b))
            x, y = floats(2, 3, dtype=f64), floats(2, 3, dtype=f64)
            case(name, [x, y], f(x, y))
        x, y = (
            np.array([3.0, -1e200, 1e-200, 0.0, np.inf, np.nan, 1.0], f64),
            np.array([-4.0, 1e200, 1e-200, 0.0, np.nan, 1.0, 0.0], f64),
        )
        case("hypot", [x, y], np.hypot(x, y))
        x, y = (
            np.array([2.0, -2.0, 0.0, 9.0, 0.5, -8.0], f32),
            np.array([3.0, 3.0, 0.0, 0.5, -2.0, 1 / 3], f32),
        )
        case("pow", [x, y], np.power(x.astype(f64), y).astype(f32))
        case(
            "pow",
            [np.array([2, -3, 5], i32), np.array([10, 3, 0], i32)],
            np.array([1024, -27, 1], i32),
        )
        for dtype in (np.int8, i32, i64, np.uint8, np.uint32):
            low = 0 if np.dtype(dtype).kind == "u" else -9
            x, y = ints(7, low=low, dtype=dtype), ints(7, low=1, dtype=dtype)
            for name, f in {
                "add": np.add,
                "sub": np.subtract,
                "mul": np.multiply,
                "max": np.maximum,
                "min": np.minimum,
                "rem": np.fmod,
                "and": np.bitwise_and,
                "or": np.bitwise_or,
                "xor": np.bitwise_xor,
                "floor_div": np.floor_divide,
                "floor_mod": np.mod,
            }.items():
                case(name, [x, y], f(x, y))
            case("div", [x, y], np.trunc(x.astype(f64) / y).astype(dtype))
        x, y = (
            np.array([7.5, -7.5, 7.5, -7.5, 6.0], f32),
            np.array([2.0, 2.0, -2.0, -2.0, 3.0], f32),
        )
        case("floor_div", [x, y], np.floor_divide(x, y))
        case("floor_mod", [x, y], np.mod(x, y))
        x, y = np.array([1, -128, 5, 127], np.int8), np.array([3, 1, 7, 2], np.int8)
        case("shl", [x, y], np.left_shift(x, y))
        case("shr_arith", [x, y], np.right_shift(x, y))
        case(
            "shr_logical", [x, y], np.right_shift(x.view(np.uint8), y.view(np.uint8)).view(np.int8)
        )
        p, q = np.array([True, True, False, False]), np.array([True, False, True, False])
        for name, f in {
            "and": np.logical_and,
            "or": np.logical_or,
            "xor": np.logical_xor,
            "max": np.maximum,
            "min": np.minimum,
        }.items():
            case(name, [p, q], f(p, q))
        for d, f in enumerate(
            [np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal]
        ):
            case("compare", [a, b], f(a, b), direction=d)
            x, y = ints(6, low=-2, high=3, dtype=np.int8), ints(6, low=-2, high=3, dtype=np.int8)
            case("compare", [x, y], f(x, y), direction=d)
            case(
                "compare",
                [x.view(np.uint8), y.view(np.uint8)],
                f(x.view(np.uint8), y.view(np.uint8)),
                direction=d,
            )
        p, x, y = RNG.random((2, 3)) < 0.5, floats(2, 3), floats(2, 3)
        case("select", [p, x, y], np.where(p, x, y))
        case("select", [np.bool_(True), x, y], x)
        m, n = ints(2, 3, dtype=i64), ints(2, 3, dtype=i64)
        case("select", [p, m, n], np.where(p, m, n))


def conversions():
    x = np.array([0.0, 1.5, -1.5, 2.5, 126.7, -128.9, 3e9, -3e9, np.inf, -np.inf, np.nan], f32)

    def saturate(v, dtype):
        info = np.iinfo(dtype)
        v = np.trunc(np.nan_to_num(v.astype(f64), nan=0.0, posinf=1e30, neginf=-1e30))
        return np.array([min(max(int(t), info.min), info.max) for t in v], dtype)

    for dtype in (np.int8, np.int16, i32, i64, np.uint8, np.uint16, np.uint32):
        case("convert", [x], saturate(x, dtype), dtype=Raw(NAMES[np.dtype(dtype)]))
    with np.errstate(all="ignore"):
        case("convert", [x], x.astype(np.float16), dtype=Raw("f16"))
        case("convert", [x], x.astype(f64), dtype=Raw("f64"))
        case("convert", [x], x != 0, dtype=Raw("pred"))
        y = ints(6, low=-1000, high=1000, dtype=i32)
        for dtype in (np.int8, np.uint8, i64, np.uint16, f32, np.float16):
            case("convert", [y], y.astype(dtype), dtype=Raw(NAMES[np.dtype(dtype)]))
        case("convert", [np.array([True, False])], np.array([1, 0], f32), dtype=Raw("f32"))
        z = np.array([0.1, 1.0001, 65519.9, 65520.0, 5.96e-8, 2.9e-8, 6.1e-5], f64)
        case("convert", [z], z.astype(np.float16), dtype=Raw("f16"))
        w = np.array([1.9, -1.9, 255.0, 256.5, -257.0, 70000.25], f32)
        case("convert_wrap", [w], np.trunc(w).astype(i64).astype(np.uint8), dtype=Raw("u8"))
        case("convert_wrap", [w], np.trunc(w).astype(i64).astype(np.int16), dtype=Raw("i16"))
        v = floats(4)
        case("bitcast", [v], v.view(i32), dtype=Raw("i32"))
        case("bitcast", [v.view(np.uint32)], v, dtype=Raw("f32"))


def movement():
    x = floats(2, 3)
    case("broadcast", [x], np.broadcast_to(x, (4, 2, 3)), shape=[4, 2, 3])
    case("broadcast", [x], np.broadcast_to(x[:, None, :], (2, 2, 3)), shape=[2, 2, 3], dims=[0, 2])
    case("broadcast", [x[:, :1]], np.broadcast_to(x[:, :1], (2, 4)), shape=[2, 4])
    case("reshape", [x], x.reshape(3, 2), shape=[3, 2])
    case("reshape", [x], x.reshape(1, 6, 1), shape=[1, 6, 1])
    y = ints(2, 3, 4)
    case("transpose", [y], y.transpose(2, 0, 1), perm=[2, 0, 1])
    case("transpose", [x], x.T, perm=[1, 0])
    case("slice", [y], y[0:2, 1:3, 0:4:3], start=[0, 1, 0], limit=[2, 3, 4], stride=[1, 1, 3])
    case("slice", [x], x[1:1, :], start=[1, 0], limit=[1, 3])
    case(
        "pad", [x, f32(9)], np.pad(x, ((1, 0), (2, 1)), constant_values=9), low=[1, 2], high=[0, 1]
    )
    case("pad", [x, f32(0)], np.pad(x[:, 1:], ((0, 0), (0, 2))), low=[0, -1], high=[0, 2])
    spaced = np.zeros((2, 5), f32)
    spaced[:, ::2] = x
    case("pad", [x, f32(0)], spaced[:, 1:], low=[0, -1], high=[0, 0], interior=[0, 1])
    case("concat", [x, floats(0, 3), x], np.concatenate([x, x]), dim=0)
    case("concat", [y, y[:, :, :1]], np.concatenate([y, y[:, :, :1]], 2), dim=2)
    case("reverse", [y], y[::-1, :, ::-1], dims=[0, 2])
    case("iota", [], np.arange(4, dtype=i64), shape=[4])
    case(
        "iota",
        [],
        np.broadcast_to(np.arange(3, dtype=f32), (2, 3)),
        shape=[2, 3],
        dim=1,
        dtype=Raw("f32"),
    )
    case("dynamic_slice", [x, np.array([1, 1], i64)], x[1:2, 1:3], sizes=[1, 2])
    case("dynamic_slice", [x, np.array([5, -3], i32)], x[1:2, 0:2], sizes=[1, 2])
    u = floats(1, 2)
    z = x.copy()
    z[1:2, 1:3] = u
    case("dynamic_update_slice", [x, u, np.array([1, 7], i64)], z)
    case("dim_size", [x], np.int64(3), dim=1)
    case("tile", [x], np.tile(x, (2, 3)), repeats=[2, 3])
    case("split", [y], tuple(np.split(y, [1, 3], 2)), dim=2, sizes=[1, 2, 1])


def indexing():
    x = floats(4, 3)
    i = np.array([[3, 0], [1, 3]], i64)
    for axis in (0, 1):
        j = i % x.shape[axis]
        case("take", [x, j], np.take(x, j, axis), dim=axis)
    case("take", [x, np.int32(2)], x[2], dim=0)
    case("take", [x, np.array([-5, 99, 1], i64)], np.take(x, [0, 3, 1], 0), dim=0)
    filled = np.stack([np.zeros(3, f32), np.zeros(3, f32), x[1]])
    case("take", [x, np.array([-5, 99, 1], i64)], filled, dim=0, mode="fill")
    j = RNG.integers(0, 3, (4, 2))
    case("take_along", [x, j], np.take_along_axis(x, j, 1), dim=1)
    case("embedding", [x, i], x[i])
    case("one_hot", [np.array([0, 2, 5, 1], i32)], np.eye(6, 3, dtype=f32)[[0, 2, 5, 1]], depth=[3])
    case(
        "gather",
        [x, np.array([[3, 2], [0, 1]], i64)],
        x[[3, 0], [2, 1]],
        sizes=[1, 1],
        collapsed_dims=[0, 1],
        index_map=[0, 1],
        index_vector_dim=1,
    )
    case(
        "gather",
        [x, np.array([[2, 0], [9, 9]], i64)],
        np.stack([x[2:4, 0:2], x[2:4, 1:3]]),
        sizes=[2, 2],
        offset_dims=[1, 2],
        index_map=[0, 1],
        index_vector_dim=1,
    )
    b = floats(2, 3, 2)
    k = np.array([[2, 0], [1, 1]], i64)
    case(
        "gather",
        [b, k],
        np.stack([b[n][k[n]] for n in range(2)]),
        sizes=[1, 1, 2],
        offset_dims=[2],
        collapsed_dims=[1],
        index_map=[1],
        batch_dims=[0],
        index_batch_dims=[0],
    )
    u = floats(3, 3)
    rows = np.array([2, 0, 2], i64)
    for kind, f in {
        "add": np.add,
        "mul": np.multiply,
        "min": np.minimum,
        "max": np.maximum,
    }.items():
        y = x.copy()
        f.at(y, rows, u)
        case(
            "scatter", [x, rows, u], y, kind=kind, window_dims=[1], inserted_dims=[0], index_map=[0]
        )
    y = x.copy()
    for n, r in enumerate(rows):
        y[r] = u[n]
    case("scatter", [x, rows, u], y, window_dims=[1], inserted_dims=[0], index_map=[0])
    y = x.copy()
    y[[3, 0], [2, 1]] += u[0, :2]
    case(
        "scatter",
        [x, np.array([[3, 2], [0, 1]], i64), u[0, :2]],
        y,
        kind="add",
        inserted_dims=[0, 1],
        index_map=[0, 1],
        index_vector_dim=1,
    )
    y = x.copy()
    y[2:4, 1:3] = u[:2, :2]
    case(
        "scatter",
        [x, np.array([9, 9], i64), u[:2, :2]],
        y,
        mode="clip",
        window_dims=[0, 1],
        index_map=[0, 1],
        index_vector_dim=0,
    )


def reductions():
    x = floats(3, 4, 2)
    n = x.copy()
    n[1, 2, 0] = np.nan
    y = ints(3, 4, dtype=i32)
    for name, f in {
        "reduce_sum": np.sum,
        "reduce_prod": np.prod,
        "reduce_max": np.max,
        "reduce_min": np.min,
    }.items():
        for dims in ([0], [1, 2], [0, 1, 2], [2]):
            case(name, [x], f(x.astype(f64), axis=tuple(dims)).astype(f32), dims=dims)
        case(name, [n], f(n, axis=1), dims=[1])
        case(name, [y], f(y, axis=0).astype(i32), dims=[0])
        u = ints(5, low=0, high=255, dtype=np.uint8)
        case(
            name,
            [u],
            f(u, axis=0, **({"dtype": np.uint8} if name in ("reduce_sum", "reduce_prod") else {})),
            dims=[0],
        )
    case("reduce_sum", [floats(0, 2)], np.zeros(2, f32), dims=[0])
    case("reduce_max", [floats(0, 2)], np.full(2, -np.inf, f32), dims=[0])
    case("reduce_min", [np.zeros((0, 2), i32)], np.full(2, np.iinfo(i32).max, i32), dims=[0])
    half = np.full(3000, 1.0, np.float16)
    case("reduce_sum", [half], np.float16(3000), dims=[0])
    p = RNG.random((3, 4)) < 0.7
    case("reduce_and", [p], np.all(p, 1), dims=[1])
    case("reduce_or", [p], np.any(p, 0), dims=[0])
    case("reduce_and", [y], np.bitwise_and.reduce(y, 1), dims=[1])
    case("reduce_or", [y], np.bitwise_or.reduce(y, 1), dims=[1])
    t = np.array([[1, 3, 3, 0], [2, 2, 2, 2]], f32)
    for name, f in {"argmax": np.argmax, "argmin": np.argmin}.items():
        case(name, [x], f(x, 1), dim=1)
        case(name, [n], f(n, 1), dim=1)
        case(name, [t], f(t, 1), dim=1)
        case(name, [t], 3 - f(t[:, ::-1], 1), dim=1, last_index=1)
        case(name, [y], f(y, 0).astype(i32), dim=0, index_dtype=Raw("i32"))
    for name, f in {
        "cumsum": np.cumsum,
        "cumprod": np.cumprod,
        "cummax": np.maximum.accumulate,
        "cummin": np.minimum.accumulate,
    }.items():
        case(name, [x], f(x.astype(f64), axis=1).astype(f32), dim=1)
        case(name, [y], f(y, axis=0).astype(i32), dim=0)
        case(name, [x], f(x[::-1].astype(f64), axis=0)[::-1].astype(f32), dim=0, reverse=1)
    z = floats(4)
    case(
        "cumsum",
        [z],
        np.concatenate([[0], np.cumsum(z.astype(f64))[:-1]]).astype(f32),
        dim=0,
        exclusive=1,
    )
    case("mean", [x], x.astype(f64).mean((0, 2)).astype(f32), dims=[0, 2])
    case("var", [x], x.astype(f64).var(1).astype(f32), dims=[1])
    case("var", [x], x.astype(f64).var(1, ddof=1).astype(f32), dims=[1], correction=1)
    case("var", [x + 1000], (x + 1000).astype(f64).var(1).astype(f32), dims=[1])
    case(
        "logsumexp", [x * 50], scipy.special.logsumexp(x.astype(f64) * 50, 1).astype(f32), dims=[1]
    )
    case("logsumexp", [np.array([-np.inf, -np.inf], f32)], f32(-np.inf), dims=[0])
    for dim in (0, 1, 2):
        case("softmax", [x], scipy.special.softmax(x.astype(f64), dim).astype(f32), dim=dim)
        case("log_softmax", [x], scipy.special.log_softmax(x.astype(f64), dim).astype(f32), dim=dim)
    half = floats(2, 5, dtype=np.float16)
    case("softmax", [half], scipy.special.softmax(half.astype(f64), 1).astype(np.float16), dim=1)


def activations():
    x = np.array([-30.0, -4.0, -1.0, -0.5, -0.0, 0.0, 0.25, 1.0, 3.0, 30.0, np.nan], f32)
    d = x.astype(f64)
    with np.errstate(all="ignore"):
        case("relu", [x], np.maximum(x, 0))
        case("relu", [np.array([-3, 4], i32)], np.array([0, 4], i32))
        for name, op, attrs in [
            ("elu", "Elu", {"alpha": 0.5}),
            ("selu", "Selu", {}),
            ("celu", "Celu", {"alpha": 2.0}),
            ("softplus", "Softplus", {}),
            ("hard_sigmoid", "HardSigmoid", {}),
            ("hard_swish", "HardSwish", {}),
            ("mish", "Mish", {}),
            ("gelu", "Gelu", {}),
        ]:
            y = x[:-1]
            case(
                name,
                [y],
                through_onnx(op, [y.astype(f64) if name not in ("celu",) else y], **attrs).astype(
                    f32
                ),
                **attrs,
            )
        case(
            "gelu_tanh",
            [x[:-1]],
            through_onnx("Gelu", [x[:-1].astype(f64)], approximate="tanh").astype(f32),
        )
        case("silu", [x], (d * scipy.special.expit(d)).astype(f32))
        s = np.full_like(x, 0.25)
        case("prelu", [x, s], np.where(x >= 0, x, x * s))
        case("clamp", [x], np.clip(x, -1, 2), min=-1.0, max=2.0)
        case("clamp", [np.array([-5, 3, 9], i32)], np.array([0, 3, 6], i32), min=0.0, max=6.0)
        case("clamp", [x], np.maximum(x, 0), min=0.0)
        u = np.array([-0.99, -0.5, 0.0, 1e-3, 0.7], f64)
        w = np.array([-12.0, -1.5, 0.0, 1e-5, 0.25, 20.0], f64)
        for name, f, v in [
            ("tan", np.tan, w),
            ("asin", np.arcsin, u),
            ("acos", np.arccos, u),
            ("atan", np.arctan, w),
            ("sinh", np.sinh, w),
            ("cosh", np.cosh, w),
            ("asinh", np.arcsinh, w),
            ("acosh", np.arccosh, 1 + abs(w)),
            ("atanh", np.arctanh, u),
            ("exp2", np.exp2, w),
            ("log2", np.log2, abs(w)),
            ("log10", np.log10, abs(w)),
            ("square", np.square, w),
        ]:
            case(name, [v], f(v))
            case(name, [v.astype(f32)], f(v.astype(f32).astype(f64)).astype(f32))
        case("reciprocal", [x], (1 / d).astype(f32))
        big = np.array([-1e20, 1e20, 1e-20], f32)
        case("asinh", [big], np.arcsinh(big.astype(f64)).astype(f32))


def norms():
    x = floats(2, 4, 3)
    scale, bias = floats(3), floats(3)
    case(
        "layer_norm",
        [x, scale, bias],
        through_onnx("LayerNormalization", [x, scale, bias], axis=-1),
        dim=2,
    )
    s2, b2 = floats(4, 3), floats(4, 3)
    case(
        "layer_norm",
        [x, s2, b2],
        through_onnx("LayerNormalization", [x, s2, b2], axis=1, epsilon=0.1),
        dim=1,
        epsilon=0.1,
    )
    d = x.astype(f64)
    case(
        "layer_norm",
        [x],
        ((d - d.mean(2, keepdims=True)) / np.sqrt(d.var(2, keepdims=True) + 1e-5)).astype(f32),
        dim=2,
    )
    case(
        "rms_norm",
        [x, scale],
        (d / np.sqrt((d * d).mean(2, keepdims=True) + 1e-5) * scale).astype(f32),
        dim=2,
    )
    c = [floats(4), floats(4), floats(4), floats(4, low=0.1)]
    case("batch_norm", [x] + c, through_onnx("BatchNormalization", [x] + c))
    c = [floats(4), floats(4)]
    g = (d.reshape(2, 2, -1) - d.reshape(2, 2, -1).mean(2, keepdims=True)) / np.sqrt(
        d.reshape(2, 2, -1).var(2, keepdims=True) + 1e-5
    )
    case(
        "group_norm",
        [x] + c,
        (g.reshape(d.shape) * c[0][:, None] + c[1][:, None]).astype(f32),
        groups=2,
    )
    case("group_norm", [x] + c, through_onnx("InstanceNormalization", [x] + c), groups=4)


def contractions():
    a, b = floats(2, 3, 4), floats(2, 4, 5)
    for x, y in [
        (a, b),
        (a[0], b[0]),
        (a, b[0]),
        (a[0, 0], b),
        (a, b[0, :, 0]),
        (a[0, 0], b[0, :, 0]),
        (a[0], b),
        (a[:1], b),
        (a[:, None], b[None]),
    ]:
        case("matmul", [x, y], np.matmul(x.astype(f64), y).astype(f32))
    i, j = (
        ints(2, 3, low=-100, high=100, dtype=np.int8),
        ints(3, 2, low=-100, high=100, dtype=np.int8),
    )
    case("matmul", [i, j], i.astype(i32) @ j.astype(i32), dtype=Raw("i32"))
    case(
        "dot_general",
        [a, b],
        np.einsum("bij,bjk->bik", a.astype(f64), b).astype(f32),
        a_batch=[0],
        b_batch=[0],
        a_contract=[2],
        b_contract=[1],
    )
    case(
        "dot_general",
        [a, a],
        np.einsum("abc,dbc->ad", a.astype(f64), a).astype(f32),
        a_contract=[1, 2],
        b_contract=[1, 2],
    )
    x, y = floats(2), floats(3)
    case("dot_general", [x, y], np.outer(x, y))
    half = floats(2, 64, dtype=np.float16)
    case(
        "dot_general",
        [half, half],
        (half.astype(f64) @ half.astype(f64).T).astype(np.float16),
        a_contract=[1],
        b_contract=[1],
    )
    x, w, bias = floats(2, 3, 4), floats(4, 5), floats(5)
    y = x.astype(f64) @ w + bias
    case("linear", [x, w, bias], y.astype(f32))
    case(
        "linear",
        [x, w.T.copy(), bias],
        np.maximum(y, 0).astype(f32),
        transpose_w=1,
        activation="relu",
    )
    case("linear", [x, w], np.tanh(x.astype(f64) @ w).astype(f32), activation="tanh")


def windows():
    x, w = floats(2, 4, 6), floats(6, 4, 3)
    case("conv", [x, w], through_onnx("Conv", [x, w]))
    case(
        "conv",
        [x, w],
        through_onnx("Conv", [x, w], pads=[1, 2], strides=[2], dilations=[2]),
        pad_low=[1],
        pad_high=[2],
        strides=[2],
        w_dilation=[2],
    )
    x, w = floats(1, 4, 5, 6), floats(6, 2, 3, 2)
    case(
        "conv",
        [x, w],
        through_onnx("Conv", [x, w], group=2, pads=[1, 0, 1, 1], strides=[1, 2]),
        groups=2,
        pad_low=[1, 0],
        pad_high=[1, 1],
        strides=[1, 2],
    )
    d = floats(4, 1, 3, 3)
    case("conv", [x, d], through_onnx("Conv", [x, d], group=4), groups=4)
    w = floats(3, 4, 2, 2)
    y = through_onnx("Conv", [x, w])
    case(
        "conv",
        [x.transpose(0, 2, 3, 1).copy(), w.transpose(2, 3, 1, 0).copy()],
        y.transpose(0, 2, 3, 1).copy(),
        x_dims=[0, 3, 1, 2],
        w_dims=[3, 2, 0, 1],
        out_dims=[0, 3, 1, 2],
    )
    case("conv", [x, w], through_onnx("Conv", [x, w[:, :, ::-1, :].copy()]), reversal=[1, 0])
    t = floats(4, 3, 2, 2)
    case(
        "conv",
        [x, t.transpose(1, 0, 2, 3).copy()],
        through_onnx("ConvTranspose", [x, t], strides=[2, 2]),
        x_dilation=[2, 2],
        pad_low=[1, 1],
        pad_high=[1, 1],
        reversal=[1, 1],
    )
    xb, wb = floats(4, 2, 5), floats(6, 2, 2)
    halves = [
        through_onnx("Conv", [xb[2 * g : 2 * g + 2].copy(), wb[3 * g : 3 * g + 3].copy()])
        for g in range(2)
    ]
    case("conv", [xb, wb], np.concatenate(halves, 1), batch_groups=2)
    bias, residual = floats(3), floats(*y.shape)
    case("conv_bias", [x, w, bias], through_onnx("Conv", [x, w, bias]))
    case(
        "conv_bias",
        [x, w, bias, residual],
        np.maximum(through_onnx("Conv", [x, w, bias]) + residual, 0),
        activation="relu",
    )
    i = ints(1, 1, 5, dtype=i32)
    k = ints(1, 1, 2, dtype=i32)
    case("conv", [i, k], np.array([[np.correlate(i[0, 0], k[0, 0], "valid")]], i32))
    case(
        "max_pool",
        [x],
        through_onnx("MaxPool", [x], kernel_shape=[2, 3], strides=[2, 1], pads=[1, 0, 0, 1]),
        window=[2, 3],
        strides=[2, 1],
        pad_low=[1, 0],
        pad_high=[0, 1],
    )
    case(
        "max_pool",
        [x],
        through_onnx("MaxPool", [x], kernel_shape=[2, 2], dilations=[2, 2]),
        window=[2, 2],
        dilation=[2, 2],
    )
    for count in (0, 1):
        case(
            "avg_pool",
            [x],
            through_onnx(
                "AveragePool",
                [x],
                kernel_shape=[3, 2],
                strides=[2, 2],
                pads=[1, 1, 1, 0],
                count_include_pad=count,
            ),
            window=[3, 2],
            strides=[2, 2],
            pad_low=[1, 1],
            pad_high=[1, 0],
            count_pad=count,
        )
    case("global_avg_pool", [x], through_onnx("GlobalAveragePool", [x]))
    case("global_max_pool", [x], through_onnx("GlobalMaxPool", [x]))
    s = floats(5)
    case("reduce_window", [s], np.convolve(s, np.ones(3), "valid").astype(f32), window=[3])
    m = floats(4, 4)
    blocks = m.reshape(2, 2, 2, 2)
    case("reduce_window", [m], blocks.min((1, 3)), kind="min", window=[2, 2], strides=[2, 2])
    e = np.array([1, 2, 3], f32)
    case(
        "reduce_window",
        [e],
        np.array([1, 2, 2, 3, 3], f32),
        kind="max",
        window=[2],
        base_dilation=[2],
        pad_high=[1],
    )


def resampling():
    x = floats(1, 2, 3, 4)
    combos = [
        ("nearest", "half_pixel", {}),
        ("nearest", "asymmetric", {"nearest_mode": "floor"}),
        ("nearest", "align_corners", {"nearest_mode": "ceil"}),
        ("nearest", "pytorch_half_pixel", {"nearest_mode": "round_prefer_ceil"}),
        ("linear", "half_pixel", {}),
        ("linear", "align_corners", {}),
        ("linear", "asymmetric", {}),
        ("linear", "half_pixel_symmetric", {}),
        ("linear", "pytorch_half_pixel", {}),
        ("cubic", "half_pixel", {}),
        ("cubic", "asymmetric", {"cubic_coeff_a": -0.5}),
        ("cubic", "half_pixel", {"exclude_outside": 1}),
        ("linear", "half_pixel", {"antialias": 1}),
        ("cubic", "half_pixel", {"antialias": 1}),
    ]
    names = {
        "nearest_mode": "nearest",
        "cubic_coeff_a": "cubic",
        "exclude_outside": "exclude_outside",
        "antialias": "antialias",
    }
    for mode, coordinates, more in combos:
        for scales in ([1, 1, 0.6, 0.5], [1, 1, 2, 1.7]):
            y = through_onnx(
                "Resize",
                [x, None, np.array(scales, f32)],
                mode=mode,
                coordinate_transformation_mode=coordinates,
                **more,
            )
            case(
                "resize",
                [x],
                y.astype(f32),
                sizes=list(y.shape),
                scales=[float(f32(v)) for v in scales],
                mode=mode,
                coordinates=coordinates,
                **{names[k]: v for k, v in more.items()},
            )
    y = through_onnx(
        "Resize",
        [x, np.array([0, 0, 0.4, 0.6, 1, 1, 0.9, 1.2], f32), None, np.array([1, 2, 3, 3], i64)],
        mode="linear",
        coordinate_transformation_mode="tf_crop_and_resize",
        extrapolation_value=10.0,
    )
    case(
        "resize",
        [x],
        y.astype(f32),
        sizes=[1, 2, 3, 3],
        roi=[float(f32(v)) for v in [0, 0, 0.4, 0.6, 1, 1, 0.9, 1.2]],
        mode="linear",
        coordinates="tf_crop_and_resize",
        extrapolation=10.0,
    )
    x, w, bias = floats(1, 4, 3, 3), floats(4, 3, 2, 3), floats(6)
    import torch.nn.functional as F

    t = torch.from_numpy
    case(
        "conv_transpose",
        [x, w, bias],
        F.conv_transpose2d(
            t(x),
            t(w),
            t(bias),
            stride=(2, 1),
            padding=(1, 0),
            output_padding=(1, 0),
            groups=2,
            dilation=(1, 2),
        ).numpy(),
        strides=[2, 1],
        pad_low=[1, 0],
        pad_high=[1, 0],
        output_padding=[1, 0],
        groups=2,
        dilation=[1, 2],
    )
    w = floats(4, 2, 2, 2)
    case("conv_transpose", [x, w], F.conv_transpose2d(t(x), t(w), stride=2).numpy(), strides=[2, 2])
    q, k, v = floats(2, 4, 3, 5), floats(2, 2, 4, 5), floats(2, 2, 4, 6)
    attend = F.scaled_dot_product_attention
    case("sdpa", [q, k, v], attend(t(q), t(k), t(v), enable_gqa=True).numpy())
    k, v = floats(2, 4, 4, 5), floats(2, 4, 4, 6)
    case(
        "sdpa",
        [q, k, v],
        attend(t(q), t(k), t(v), is_causal=True, scale=0.3).numpy(),
        causal="first",
        scale=0.3,
    )
    mask = floats(2, 1, 3, 4)
    case("sdpa", [q, k, v, mask], attend(t(q), t(k), t(v), attn_mask=t(mask)).numpy())
    seen = RNG.random((1, 4, 3, 4)) < 0.6
    seen[..., 0] = True
    case("sdpa", [q, k, v, seen], attend(t(q), t(k), t(v), attn_mask=t(seen)).numpy())


def ordering():
    x = floats(3, 5)
    case("sort", [x], np.sort(x, 1), dim=1)
    case(
        "sort",
        [x, np.argsort(x, 0).argsort(0)],
        (-np.sort(-x, 0), np.arange(5 * 0 + 3)[::-1, None].repeat(5, 1)),
        dim=0,
        descending=[1],
    )
    a, b = ints(8, low=0, high=3), ints(8, low=0, high=3)
    place = np.lexsort([np.arange(8), -b, a])
    case("sort", [a, b, np.arange(8)], (a[place], b[place], place), keys=2, descending=[0, 1])
    for largest in (1, 0):
        values, where = torch.from_numpy(x).topk(3, 1, largest=bool(largest))
        case("top_k", [x], (values.numpy(), where.numpy()), k=[3], dim=1, largest=largest)
    x = floats(1, 2, 5, 4)
    values, where = torch.nn.functional.max_pool2d(
        torch.from_numpy(x), (3, 2), stride=(2, 1), padding=(1, 1), return_indices=True
    )
    where = where.numpy() + np.arange(2).reshape(1, 2, 1, 1) * 20
    case(
        "window_argmax",
        [x],
        (values.numpy(), where),
        window=[1, 1, 3, 2],
        strides=[1, 1, 2, 1],
        pad_low=[0, 0, 1, 1],
        pad_high=[0, 0, 1, 1],
    )


def control():
    """Regions are written as they stand; loops are run by Python and NumPy."""
    x = floats(3, 4)
    for p in (False, True):
        raw(
            "switch",
            [np.array(p), x],
            "(%a: f32[3, 4]) { %b = abs(%a) yield %b } (%c: f32[3, 4]) { %d = add(%c, %c) yield %d }",
            x + x if p else np.abs(x),
        )
    for i in (-3, 0, 1, 9):
        raw(
            "switch",
            [np.array(i, i64)],
            "{ %a = const f32[2] [1, 2] yield %a } { %b = const f32[2] [3, 4] yield %b }",
            np.array([1, 2] if i <= 0 else [3, 4], f32),
        )
    n, total = 0, np.zeros(4, f32)
    while total[0] < 10:
        n, total = n + 1, total + np.array([1, 2, 3, 4], f32)
    raw(
        "while",
        [np.array(0, i32), np.zeros(4, f32)],
        "(%i: i32[], %s: f32[4]) { %z = slice(%s) {start = [0], limit = [1]} %y = reshape(%z) {shape = []} %t = const f32[] 10 "
        "%c = compare(%y, %t) {direction = 2} yield %c } (%j: i32[], %r: f32[4]) { %o = const i32[] 1 %k = add(%j, %o) "
        "%u = const f32[4] [1, 2, 3, 4] %w = add(%r, %u) yield %k, %w }",
        np.array(n, i32),
        total,
    )
    xs = floats(5, 3)
    body = "(%a: f32[3], %b: f32[3]) { %c = add(%a, %b) %d = mul(%c, %b) yield %c, %d }"
    sums = np.cumsum(xs, axis=0, dtype=f32)
    raw("scan", [np.zeros(3, f32), xs], body, sums[-1], sums * xs, carry=1)
    back = np.cumsum(xs[::-1], axis=0, dtype=f32)[::-1]
    raw("scan", [np.zeros(3, f32), xs], body, back[0], back * xs, carry=1, reverse=1)
    wide = floats(4, 6)
    raw(
        "scan",
        [np.zeros(2, f32), wide],
        "(%a: f32[2], %b: f32[6]) { %c = slice(%b) {start = [1], limit = [3]} %d = add(%a, %c) yield %d, %d }",
        np.cumsum(wide[:, 1:3], axis=0, dtype=f32)[-1],
        np.cumsum(wide[:, 1:3], axis=0, dtype=f32),
        carry=1,
    )
    raw(
        "scan",
        [np.array(1, i64)],
        "(%a: i64[]) { %b = add(%a, %a) yield %b, %a }",
        np.array(64, i64),
        np.array([1, 2, 4, 8, 16, 32], i64),
        carry=1,
        length=[6],
    )
    case("assert", [np.array([True, True]), x], x, message="is sorted")
    raw("call", [x], "(%a: f32[3, 4]) { %b = neg(%a) yield %b, %a }", -x, x, name="minus")


def data_dependent():
    x = np.array([[0, 3, 0], [5, 0, 7]], f32)
    case("nonzero", [x], np.array(np.nonzero(x), i64))
    x, keep = floats(2, 4, 3), np.array([0, 1, 1, 0], bool)
    case("compress", [x, keep], np.compress(keep, x, 1), dim=1)
    case("dim_from_scalar", [np.array(5, i32)], np.zeros((5, 0), bool), lo=1, hi=9)
    x = ints(12, low=0, high=5)
    case("unique", [x], np.unique(x, return_index=True, return_inverse=True, return_counts=True))
    y, first, inverse, counts = np.unique(
        x, return_index=True, return_inverse=True, return_counts=True
    )
    order = np.argsort(first)
    case(
        "unique", [x], (y[order], first[order], np.argsort(order)[inverse], counts[order]), sorted=0
    )
    x = np.array([[1, 2], [0, 5], [1, 2]], f32)
    y, first, inverse, counts = np.unique(
        x, return_index=True, return_inverse=True, return_counts=True, axis=0
    )
    case("unique", [x], (y, first, inverse.reshape(-1), counts))
    line, values = np.sort(ints(7, low=0, high=9)), ints(2, 3, low=-1, high=11)
    for side in ("left", "right"):
        case(
            "searchsorted",
            [line, values],
            np.searchsorted(line, values, side),
            right=side == "right",
        )
    boxes = np.concatenate([floats(2, 6, 2, low=0, high=1), floats(2, 6, 2, low=1, high=2)], 2)
    scores = floats(2, 2, 6, low=0, high=1)
    for center in (0, 1):
        y = through_onnx(
            "NonMaxSuppression",
            [boxes, scores, np.array([3], i64), np.array([0.4], f32), np.array([0.2], f32)],
            center_point_box=center,
        )
        case(
            "nms",
            [boxes, scores],
            y,
            most=3,
            overlap=0.4,
            score=0.2,
            form="center" if center else "corners",
        )


def places():
    t = torch.from_numpy
    x, at, u = floats(3, 4), ints(2, 4, low=0, high=3, dtype=i64), floats(2, 4)
    for kind, name in (("add", "sum"), ("mul", "prod"), ("max", "amax"), ("min", "amin")):
        case(
            "scatter_elements",
            [x, at, u],
            t(x).scatter_reduce(0, t(at), t(u), name).numpy(),
            kind=kind,
        )
    at = np.array([[2, 0], [1, 3], [0, 1]], i64)
    y = x.copy()
    np.put_along_axis(y, at, u[:1, :2].repeat(3, 0), 1)
    case("scatter_elements", [x, at, u[:1, :2].repeat(3, 0)], y, dim=1)
    i, j, v = np.array([0, 2, 0], i64), np.array([1, 3, 1], i64), floats(3)
    y = x.copy()
    np.add.at(y, (i, j), v)
    case("index_put", [x, v, i, j], y, accumulate=1)
    x = floats(2, 3, 4)
    case("diagonal", [x], np.diagonal(x, 1, 1, 2), offset=1, dim1=1, dim2=2)
    case("diagonal", [x], np.diagonal(x, -1, 2, 0), offset=-1, dim1=2, dim2=0)
    case("tril_triu", [x], np.tril(x, 1), diagonal=1)
    case("tril_triu", [x], np.triu(x, -1), diagonal=-1, upper=1)
    case("roll", [x], np.roll(x, (2, -5), (0, 2)), dims=[0, 2], shifts=[2, -5])
    F = torch.nn.functional
    x, grid = floats(2, 2, 3, 4), floats(2, 3, 2, 2, low=-1.3, high=1.3)
    for mode, name in (("nearest", "nearest"), ("linear", "bilinear"), ("cubic", "bicubic")):
        for padding in ("zeros", "border", "reflection"):
            for corners in (0, 1):
                y = F.grid_sample(t(x), t(grid), name, padding, bool(corners)).numpy()
                case("grid_sample", [x, grid], y, mode=mode, padding=padding, align_corners=corners)
    x, grid = floats(1, 2, 2, 3, 2), floats(1, 2, 1, 2, 3, low=-1.1, high=1.1)
    case("grid_sample", [x, grid], F.grid_sample(t(x), t(grid), align_corners=False).numpy())
    x = floats(2, 3, 5, 4)
    y = F.unfold(t(x), (2, 3), dilation=(2, 1), padding=(1, 0), stride=(2, 1)).numpy()
    attrs = dict(window=[2, 3], dilation=[2, 1], pad_low=[1, 0], pad_high=[1, 0], strides=[2, 1])
    case("im2col", [x], y, **attrs)
    case(
        "col2im",
        [y],
        F.fold(t(y), (5, 4), (2, 3), dilation=(2, 1), padding=(1, 0), stride=(2, 1)).numpy(),
        image=[5, 4],
        **attrs,
    )
    x = floats(1, 8, 2, 3)
    case("pixel_shuffle", [x], F.pixel_shuffle(t(x), 2).numpy(), factor=2)
    case(
        "pixel_shuffle",
        [x],
        through_onnx("DepthToSpace", [x], blocksize=2, mode="DCR"),
        factor=2,
        order="blocks_first",
    )
    x = floats(1, 2, 4, 4)
    y, at = F.max_pool2d(t(x), 2, return_indices=True)
    z = F.max_unpool2d(y, at, 2).numpy()
    case(
        "max_unpool",
        [y.numpy(), at.numpy() + np.arange(2).reshape(1, 2, 1, 1) * 16],
        z,
        shape=[1, 2, 4, 4],
    )
    case("lp_pool", [x], F.lp_pool2d(t(x), 2, (2, 3), (1, 1)).numpy(), window=[2, 3])
    case(
        "lp_pool",
        [abs(x)],
        F.lp_pool2d(t(abs(x)), 3, 2, 2).numpy(),
        window=[2, 2],
        strides=[2, 2],
        p=3.0,
    )
    x = floats(1, 2, 5, 7)
    case("adaptive_pool", [x], F.adaptive_avg_pool2d(t(x), (3, 2)).numpy(), sizes=[3, 2])
    case(
        "adaptive_pool", [x], F.adaptive_max_pool2d(t(x), (2, 4)).numpy(), sizes=[2, 4], kind="max"
    )
    x = floats(2, 5, 3)
    case(
        "lrn",
        [x],
        F.local_response_norm(t(x), 3, 0.5, 0.6, 1.5).numpy(),
        size=3,
        alpha=0.5,
        beta=0.6,
        bias=1.5,
    )
    x, rois = floats(2, 2, 6, 6), np.array([[0, 0, 9, 9], [1.5, 2, 8, 4.5], [5, 5, 6, 6]], f32)
    where = np.array([0, 1, 0], i64)
    for mode, name in (("avg", "mean"), ("max", "max")):
        for ratio in (2, 0):
            y = through_onnx(
                "RoiAlign",
                [x, rois, where],
                output_height=3,
                output_width=2,
                sampling_ratio=ratio,
                spatial_scale=0.6,
                mode=mode,
            )
            case(
                "roi_align",
                [x, rois, where],
                y.astype(f32),
                sizes=[3, 2],
                samples=ratio,
                scale=float(f32(0.6)),
                kind=name,
            )


def equations_and_losses():
    for text, shapes in (
        ("ij,jk->ik", [(2, 3), (3, 4)]),
        ("bij,bjk", [(2, 2, 3), (2, 3, 2)]),
        ("ii->i", [(3, 3)]),
        ("...ij->...ji", [(2, 3, 4)]),
        ("i,j,k->kij", [(2,), (3,), (2,)]),
        ("ijk->j", [(2, 3, 2)]),
        ("b...d,b...d->b...", [(2, 1, 3), (2, 4, 3)]),
        ("iij,jk->ki", [(2, 2, 3), (3, 2)]),
    ):
        operands = [floats(*shape) for shape in shapes]
        case(
            "einsum",
            operands,
            np.einsum(text, *[o.astype(f64) for o in operands]).astype(f32),
            equation=text,
        )
    t, F = torch.from_numpy, torch.nn.functional
    x, target, weight = (
        floats(3, 4, 2),
        ints(3, 2, low=0, high=4, dtype=i64),
        floats(4, low=0.1, high=2),
    )
    for reduction in ("none", "sum", "mean"):
        y = F.nll_loss(t(x), t(target), t(weight), ignore_index=1, reduction=reduction).numpy()
        case("nll_loss", [x, target, weight], y, ignore=1, reduction=reduction)
        y = F.cross_entropy(t(x), t(target), reduction=reduction).numpy()
        case(
            "softmax_cross_entropy",
            [x, target],
            (y, F.log_softmax(t(x), 1).numpy()),
            reduction=reduction,
        )
    a, b = np.array([1, np.nan, -2, np.inf, 0.5], f32), np.array([np.nan, 2, -3, 1, 0.5], f32)
    case("fmax", [a, b], np.fmax(a, b))
    case("fmin", [a, b], np.fmin(a, b))
    x = np.array([-27, -0.001, 0, 8, 1e30, np.inf, -np.inf, np.nan, 0.3], f32)
    case("cbrt", [x], np.cbrt(x.astype(f64)).astype(f32))
    x, y, z = floats(5), floats(5), floats(5)
    case("fma", [x, y, z], (x.astype(f64) * y + z).astype(f32))
    case("swiglu", [x, y], (x.astype(f64) * scipy.special.expit(x.astype(f64)) * y).astype(f32))
    case("threshold", [x], F.threshold(t(x), 0.5, -7.0).numpy(), threshold=0.5, value=-7.0)
    a = np.array([0, -0.0, 1, -1, 1e-45, np.nan, 3, 2], f32)
    b = np.array([1, -1, 1, 0, 0, 1, np.inf, -np.inf], f32)
    case("next_after", [a, b], np.nextafter(a, b))
    case("next_after", [a.astype(f64), b.astype(f64)], np.nextafter(a.astype(f64), b.astype(f64)))
    x = floats(2, 6)
    case("glu", [x], F.glu(t(x), 1).numpy(), dim=1)
    x = floats(2, 3, 4)
    case("std", [x], np.std(x.astype(f64), (0, 2), ddof=1).astype(f32), dims=[0, 2], correction=1)
    for p in (0.0, 1.0, 2.0, 3.0, np.inf):
        case(
            "norm",
            [x],
            np.linalg.vector_norm(x.astype(f64), axis=(1, 2), ord=p).astype(f32),
            dims=[1, 2],
            p=float(p),
        )
    case("l2_normalize", [x], F.normalize(t(x), dim=1).numpy(), dims=[1])
    scale, bias, mean, var = floats(3), floats(3), floats(3), floats(3, low=0.5, high=2)
    running_mean, running_var = t(mean.copy()), t(var.copy())
    y = F.batch_norm(t(x), running_mean, running_var, t(scale), t(bias), True, 0.25).numpy()
    case(
        "batch_norm_train",
        [x, scale, bias, mean, var],
        (y, running_mean.numpy(), running_var.numpy()),
        momentum=0.75,
        correction=1,
    )


MASK = 0xFFFFFFFF


def philox(counter, key):
    """Philox 4x32-10 of Random123, by its definition."""
    c, k = [counter & MASK, counter >> 32 & MASK, 0, 0], list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [b >> 32 ^ c[1] ^ k[0], b & MASK, a >> 32 ^ c[3] ^ k[1], a & MASK]
        k = [k[0] + 0x9E3779B9 & MASK, k[1] + 0xBB67AE85 & MASK]
    return c


def threefry(counter, key):
    """Threefry 2x32-20 of Random123."""
    ks = [*key, key[0] ^ key[1] ^ 0x1BD11BDA]
    x, y = (counter & MASK) + ks[0] & MASK, (counter >> 32 & MASK) + ks[1] & MASK
    for i in range(20):
        r = (13, 15, 26, 6, 17, 29, 16, 24)[i % 8]
        x = x + y & MASK
        y = (y << r | y >> 32 - r) & MASK ^ x
        if i % 4 == 3:
            s = i // 4 + 1
            x, y = x + ks[s % 3] & MASK, y + ks[(s + 1) % 3] + s & MASK
    return [x, y]


def words(count, counter, key, generator=philox):
    out = []
    while len(out) < count:
        out += generator(counter, key)
        counter += 1
    return np.array(out[:count], np.uint32)


def random_numbers():
    # The known answers published with Random123.
    assert philox(0, (0, 0)) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    assert threefry(0, (0, 0)) == [0x6B200159, 0x99BA4EFE]
    assert threefry(MASK << 32 | MASK, (MASK, MASK)) == [0x1CB996FC, 0xBB002BE7]
    key, counter = np.array([7, 0xDEADBEEF], np.uint32), np.array(2**32 - 1, np.uint64)
    k, c = tuple(map(int, key)), int(counter)
    case("rng_bits", [key, counter], words(11, c, k), shape=[11])
    case(
        "rng_bits",
        [key, counter],
        words(6, c, k, threefry).reshape(2, 3),
        shape=[2, 3],
        algorithm="threefry2x32",
    )
    u = words(12, c, k)
    u01, centred = (u >> 8).astype(f32) * f32(2**-24), ((u >> 9) + 0.5) * 2.0**-23
    case(
        "uniform",
        [key, counter],
        (u01 * f32(5) - f32(2)).reshape(3, 4),
        shape=[3, 4],
        low=-2.0,
        high=3.0,
    )
    wide = words(6, c, k).astype(np.uint64)
    wide = wide[0::2] | wide[1::2] << np.uint64(32)
    case(
        "uniform",
        [key, counter],
        (wide >> np.uint64(11)).astype(f64) * 2.0**-53,
        shape=[3],
        dtype=Raw("f64"),
    )
    z = np.sqrt(2) * scipy.special.erfinv(2 * centred - 1) * 0.5 + 1
    case("normal", [key, counter], z.astype(f32), shape=[12], mean=1.0, std=0.5)
    p, x = floats(12, low=0, high=1), floats(12)
    case("bernoulli", [p, key, counter], u01 < p)
    case(
        "dropout",
        [x, key, counter],
        (np.where(u01 >= 0.3, x * (1 / 0.7), 0).astype(f32), u01 >= 0.3),
        rate=0.3,
    )
    p = floats(2, 5, low=0, high=1)
    sums = np.cumsum(p, 1)
    place = u01[:6].reshape(2, 3) * sums[:, -1:]
    case("multinomial", [p, key, counter], (sums[:, None, :] <= place[..., None]).sum(2), count=[3])
    wide = words(14, c, k).astype(np.uint64)
    case(
        "randperm",
        [key, counter],
        np.argsort(wide[0::2] | wide[1::2] << np.uint64(32), kind="stable"),
        length=[7],
    )


def steps_and_products():
    t = torch.from_numpy
    p, g = floats(4), floats(4)
    for nesterov in (False, True):
        x = torch.nn.Parameter(t(p.copy()))
        optimiser = torch.optim.SGD([x], 0.1, 0.9, weight_decay=0.01, nesterov=nesterov)
        for _ in range(2):
            before = [
                x.detach().numpy().copy(),
                optimiser.state[x].get("momentum_buffer", torch.zeros(4)).numpy().copy(),
            ]
            x.grad = t(g.copy())
            optimiser.step()
        after = (x.detach().numpy(), optimiser.state[x]["momentum_buffer"].numpy())
        case(
            "sgd_step",
            [before[0], g, before[1], np.array(0.1, f32)],
            after,
            momentum=0.9,
            weight_decay=0.01,
            nesterov=nesterov,
        )
    for name, kind in (("adam_step", torch.optim.Adam), ("adamw_step", torch.optim.AdamW)):
        x = torch.nn.Parameter(t(p.copy()))
        optimiser = kind([x], 0.1, weight_decay=0.02)
        for _ in range(3):
            state = optimiser.state[x]
            before = [x.detach().numpy().copy()] + [
                state.get(n, torch.zeros(4)).numpy().copy() for n in ("exp_avg", "exp_avg_sq")
            ]
            x.grad = t(g.copy())
            optimiser.step()
        state = optimiser.state[x]
        case(
            name,
            [before[0], g, *before[1:], np.array(0.1, f32), np.array(3, i64)],
            (x.detach().numpy(), state["exp_avg"].numpy(), state["exp_avg_sq"].numpy()),
            weight_decay=0.02,
        )
    x, scales, zeros = (
        floats(2, 8),
        floats(3, 2, low=0.1, high=1),
        ints(3, 2, low=0, high=16, dtype=np.uint8),
    )
    raw = ints(3, 8, low=0, high=16, dtype=np.uint8)
    packed = raw[:, 0::2] | raw[:, 1::2] << 4
    w = (raw.reshape(3, 2, 4).astype(f32) - zeros[..., None]) * scales[..., None]
    case("matmul_nbits", [x, packed, scales, zeros], x @ w.reshape(3, 8).T, group=4)
    raw = ints(3, 8, low=0, high=256, dtype=np.uint8)
    w = (raw.reshape(3, 2, 4).astype(f32) - 128) * scales[..., None]
    case(
        "matmul_nbits",
        [x, raw, scales],
        (x.astype(f64) @ w.reshape(3, 8).T).astype(f32),
        group=4,
        bits=8,
    )
    x, w, sizes = floats(6, 3), floats(3, 3, 2), np.array([2, 0, 3], i64)
    y = np.zeros((6, 2), f32)
    y[:2], y[2:5] = x[:2] @ w[0], x[2:5] @ w[2]
    case("ragged_dot", [x, w, sizes], y)
    table, indices, offsets = (
        floats(5, 3),
        ints(7, low=0, high=5, dtype=i64),
        np.array([0, 3, 3, 5], i64),
    )
    for kind in ("sum", "mean", "max"):
        y = torch.nn.functional.embedding_bag(t(indices), t(table), t(offsets), mode=kind).numpy()
        case("embedding_bag", [table, indices, offsets], y, kind=kind)
    x, w, bias = floats(1, 3, 5, 4), floats(6, 1, 3, 2), floats(6)
    y = torch.nn.functional.conv2d(t(x), t(w), t(bias), (2, 1), (1, 0), (1, 2), 3).numpy()
    case(
        "depthwise_conv",
        [x, w, bias],
        y,
        strides=[2, 1],
        pad_low=[1, 0],
        pad_high=[1, 0],
        dilation=[1, 2],
    )
    w, scale, mean, var = floats(4, 3, 2, 2), floats(4), floats(4), floats(4, low=0.5, high=2)
    y = torch.nn.functional.conv2d(t(x), t(w))
    y = (
        torch.nn.functional.batch_norm(y, t(mean), t(var), t(scale), t(bias[:4].copy()))
        .relu()
        .numpy()
    )
    case("conv_bn_act", [x, w, scale, bias[:4], mean, var], y, activation="relu")
    re, im = floats(2, 3), floats(2, 3)
    case("complex", [re, im], (re + 1j * im).astype(np.complex64))
    case("real", [(re + 1j * im).astype(np.complex128)], re.astype(f64))
    case("imag", [(re + 1j * im).astype(np.complex64)], im)
    case("barrier", [re, np.array([True, False])], (re, np.array([True, False])))


def complex_and_linalg():
    """Their own generator: the other families keep their numbers."""
    random = np.random.default_rng(20261123)

    def numbers(*shape, dtype=np.complex64):
        return (random.standard_normal(shape) + 1j * random.standard_normal(shape)).astype(dtype)

    z, w = numbers(6), numbers(6)
    for op, result in (
        ("add", z + w),
        ("sub", z - w),
        ("mul", z * w),
        ("div", z / w),
        ("pow", np.power(z, w)),
    ):
        case(op, [z, w], result)
    case("compare", [z, np.where(np.arange(6) < 3, z, w)], np.arange(6) < 3, direction=0)
    for op, function in (
        ("neg", np.negative),
        ("abs", np.abs),
        ("sign", np.sign),
        ("sqrt", np.sqrt),
        ("exp", np.exp),
        ("expm1", np.expm1),
        ("log", np.log),
        ("log1p", np.log1p),
        ("sin", np.sin),
        ("cos", np.cos),
        ("tanh", np.tanh),
        ("tan", np.tan),
        ("asin", np.arcsin),
        ("acos", np.arccos),
        ("atan", np.arctan),
        ("sinh", np.sinh),
        ("cosh", np.cosh),
        ("asinh", np.arcsinh),
        ("acosh", np.arccosh),
        ("atanh", np.arctanh),
        ("log2", np.log2),
        ("log10", np.log10),
        ("square", np.square),
        ("reciprocal", np.reciprocal),
        ("conj", np.conj),
        ("angle", np.angle),
    ):
        case(op, [z], function(z))
    m = numbers(2, 3, dtype=np.complex128)
    case("reduce_sum", [m], m.sum(1), dims=[1])
    case("reduce_prod", [m], m.prod(1), dims=[1])
    case("cumprod", [m], m.cumprod(1), dim=1)
    case("mean", [m], m.mean(0), dims=[0])
    case("matmul", [m, m.T.copy()], m @ m.T)
    case("transpose", [m], m.T.copy(), perm=[1, 0])
    case("convert", [m], m.astype(np.complex64), dtype=Raw("c64"))
    case("fft", [z], np.fft.fft(z).astype(np.complex64), dims=[0], lengths=[6])
    case(
        "fft",
        [m],
        np.fft.ifft(m, axis=0, norm="ortho"),
        kind="ifft",
        dims=[0],
        lengths=[2],
        norm="ortho",
    )
    case("fft", [m.real.copy()], np.fft.rfft(m.real), kind="rfft", dims=[1], lengths=[3])
    case("fft", [m], np.fft.irfft(m, n=5, axis=1), kind="irfft", dims=[1], lengths=[5])
    a = random.standard_normal((2, 3, 3))
    spd = a @ a.transpose(0, 2, 1) + 3 * np.eye(3)
    b = random.standard_normal((2, 3, 2))
    case("cholesky", [spd], np.linalg.cholesky(spd))
    case("triangular_solve", [np.tril(spd), b], np.linalg.solve(np.tril(spd), b))
    case("solve", [a, b], np.linalg.solve(a, b))
    case("inv", [spd], np.linalg.inv(spd))
    case("det", [a], np.linalg.det(a))
    case("slogdet", [a], tuple(np.linalg.slogdet(a)))
    q, r = np.linalg.qr(a)
    case("qr", [a], (q, r))
    order = np.array([2, 0, 1])
    lower, upper = (
        np.eye(3) + np.tril(np.full((3, 3), 0.25), -1),
        np.triu(np.arange(1.0, 10).reshape(3, 3)),
    )
    whole = np.empty((3, 3))
    whole[order] = lower @ upper
    case("lu", [whole], (np.tril(lower, -1) + upper, order, np.array(1, i32)))
    # Signs of vectors are free, so these are diagonal, where NumPy and we agree.
    case("eigh", [np.diag([3.0, 1.0, 2.0])], (np.array([1.0, 2, 3]), np.eye(3)[[1, 2, 0]].T.copy()))
    case("svd", [np.diag([3.0, 2.0, 1.0])], (np.eye(3), np.array([3.0, 2, 1]), np.eye(3)))
    case("eig", [np.diag([3.0, 2.0])], (np.array([3.0, 2], complex), np.eye(2, dtype=complex)))


def main():
    print("# Written by oracle.py; do not edit.")
    for family in (
        unary,
        binary,
        conversions,
        movement,
        indexing,
        reductions,
        activations,
        norms,
        contractions,
        windows,
        resampling,
        ordering,
        control,
        data_dependent,
        places,
        equations_and_losses,
        random_numbers,
        steps_and_products,
        complex_and_linalg,
    ):
        print(f"# {family.__name__}")
        family()


if __name__ == "__main__":
    sys.exit(main())
