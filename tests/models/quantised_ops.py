#!/usr/bin/env python3
"""Quantised ops one by one: integers exact, floats to f32's rounding, bad operands refused.

    python3 tests/models/quantised_ops.py --tenon build/bin/tenon [--devices reference,cpu] [-v]

Expected values come from ONNX Runtime, and for integer products from NumPy's exact integers, because
ONNX Runtime saturates in between on some machines (`exact_runtime.py`). Where rounding meets a tie that f32 decides, one
step is allowed (`steps`).
"""

import argparse
import concurrent.futures
import os
import subprocess
import sys
import tempfile

import ml_dtypes
import numpy as np
import onnx
import onnxruntime as ort
from exact_runtime import exact_options
from onnx import TensorProto, helper, numpy_helper

MICROSOFT = "com.microsoft"
RANDOM = np.random.default_rng(7)
OPSET = 21


def u8(*shape):
    return RANDOM.integers(0, 256, shape, dtype=np.uint8)


def s8(*shape):
    return RANDOM.integers(-128, 128, shape, dtype=np.int8)


def f32(*shape, scale=1.0):
    return (RANDOM.standard_normal(shape) * scale).astype(np.float32)


def positive(*shape, scale=0.05):
    return (RANDOM.random(shape) * scale + scale / 10).astype(np.float32)


def F(x):
    return np.float32(x)


def U(x):
    return np.uint8(x)


def S(x):
    return np.int8(x)


def proto(array, name):
    """An array, or (element type, dims, bytes or a list of int32_data), which need not fit."""
    if not isinstance(array, tuple):
        return numpy_helper.from_array(np.asarray(array), name)
    if isinstance(array[2], list):
        return TensorProto(name=name, data_type=array[0], dims=array[1], int32_data=array[2])
    return TensorProto(name=name, data_type=array[0], dims=array[1], raw_data=array[2])


class Case:
    """A node over operands: arrays of the run (`feeds`), else constants. None is an absent one."""

    def __init__(
        self,
        name,
        op,
        operands,
        *,
        domain="",
        feeds=(0,),
        want=None,
        steps=0,
        tolerance=1e-7,
        outputs=1,
        then=(),
        attributes=None,
        **more,
    ):
        self.name, self.want, self.steps, self.tolerance = name, want, steps, tolerance
        inputs = [f"i{i}" if o is not None else "" for i, o in enumerate(operands)]
        results = [f"o{i}" for i in range(outputs)]
        nodes = [
            helper.make_node(
                op, inputs, results, name="the node", domain=domain, **(attributes or more)
            ),
            *then,
        ]
        self.outputs = list(nodes[-1].output)
        self.feeds = {f"i{i}": np.asarray(operands[i]) for i in feeds}
        kinds = [
            helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
            for k, v in self.feeds.items()
        ]
        constants = [
            proto(o, f"i{i}") for i, o in enumerate(operands) if o is not None and i not in feeds
        ]
        graph = helper.make_graph(
            nodes, "g", kinds, [onnx.ValueInfoProto(name=o) for o in self.outputs], constants
        )
        imports = [helper.make_opsetid("", OPSET), helper.make_opsetid(MICROSOFT, 1)]
        self.model = helper.make_model(graph, opset_imports=imports, ir_version=10)

    def expected(self):
        if self.want is not None:
            return [
                np.asarray(w) for w in (self.want if isinstance(self.want, list) else [self.want])
            ]
        session = ort.InferenceSession(
            self.model.SerializeToString(), exact_options(), providers=["CPUExecutionProvider"]
        )
        return session.run(None, self.feeds)


def nibbles(values):
    """Numbers of 4 bits as ONNX packs them."""
    flat = np.asarray(values).astype(np.int64).ravel() & 15
    if flat.size % 2:
        flat = np.append(flat, 0)
    return (flat[0::2] | flat[1::2] << 4).astype(np.uint8).tobytes()


def linear_cases():
    """QuantizeLinear and DequantizeLinear. Halves fall on ties, far values saturate."""
    ties = np.concatenate([np.arange(-6, 6.5, 0.5), [-1e9, 1e9, 300, -300]]).astype(np.float32)
    for name, zero in (
        ("u8", U(3)),
        ("s8", S(-2)),
        ("u16", np.uint16(40000)),
        ("s16", np.int16(-5)),
    ):
        yield Case(f"quantise ties {name}", "QuantizeLinear", [ties, F(1), zero])
        yield Case(f"quantise {name}", "QuantizeLinear", [f32(40, scale=30), F(0.013), zero])
    yield Case("quantise without zero point", "QuantizeLinear", [f32(40, scale=30), F(0.3)])
    yield Case(
        "quantise to a named type",
        "QuantizeLinear",
        [f32(40, scale=30), F(0.3)],
        output_dtype=TensorProto.INT8,
    )
    yield Case(
        "quantise f16", "QuantizeLinear", [f32(40).astype(np.float16), np.float16(0.25), U(128)]
    )
    yield Case("quantise channels", "QuantizeLinear", [f32(2, 5, 4), positive(5), s8(5)], axis=1)
    yield Case(
        "quantise channels, axis -1", "QuantizeLinear", [f32(2, 5, 4), positive(4), u8(4)], axis=-1
    )
    yield Case(
        "quantise blocks",
        "QuantizeLinear",
        [f32(3, 8), positive(3, 2), u8(3, 2)],
        axis=1,
        block_size=4,
    )
    x = f32(3, 7)
    scale, zero = positive(3, 2), u8(3, 2)
    wide = [np.repeat(p, 4, 1)[:, :7] for p in (scale, zero)]
    yield Case(
        "quantise blocks, the last cut",
        "QuantizeLinear",
        [x, scale, zero],
        axis=1,
        block_size=4,
        want=np.clip(np.rint(x / wide[0]) + wide[1], 0, 255).astype(np.uint8),
    )
    yield Case(
        "quantise by com.microsoft", "QuantizeLinear", [f32(9), F(0.1), U(7)], domain=MICROSOFT
    )
    for name, q, zero in (
        ("u8", u8(30), U(99)),
        ("s8", s8(30), S(-7)),
        ("u16", u8(30).astype(np.uint16) * 250, np.uint16(300)),
        ("s16", s8(30).astype(np.int16) * 250, np.int16(-300)),
    ):
        yield Case(f"dequantise {name}", "DequantizeLinear", [q, F(0.07), zero])
    yield Case(
        "dequantise i32",
        "DequantizeLinear",
        [RANDOM.integers(-(2**31), 2**31, 30, dtype=np.int32), F(0.07)],
    )
    yield Case(
        "dequantise i32, zero point 0",
        "DequantizeLinear",
        [RANDOM.integers(-99, 99, 30, dtype=np.int32), F(0.07), np.int32(0)],
    )
    yield Case(
        "a zero point in int32_data",
        "DequantizeLinear",
        [s8(30), F(0.07), (TensorProto.INT8, [], [-128])],
    )
    yield Case("dequantise to f16", "DequantizeLinear", [u8(30), np.float16(0.07), U(3)])
    yield Case("dequantise channels", "DequantizeLinear", [s8(2, 5, 4), positive(5), s8(5)], axis=1)
    yield Case(
        "dequantise blocks",
        "DequantizeLinear",
        [u8(8, 3), positive(2, 3), u8(2, 3)],
        axis=0,
        block_size=4,
    )
    for count in (1, 6, 7):
        for kind, low, high in ((TensorProto.UINT4, 0, 16), (TensorProto.INT4, -8, 8)):
            q = RANDOM.integers(low, high, count)
            yield Case(
                f"dequantise {count} of type {kind}",
                "DequantizeLinear",
                [(kind, [count], nibbles(q)), F(0.5), (kind, [], nibbles([3]))],
                feeds=(),
                want=((q - 3) * F(0.5)).astype(np.float32),
            )
    q = RANDOM.integers(-8, 8, (4, 6))
    scale = f32(4, 2)
    yield Case(
        "dequantise blocks of i4 with scales of any sign",
        "DequantizeLinear",
        [(TensorProto.INT4, [4, 6], nibbles(q)), scale],
        feeds=(),
        axis=1,
        block_size=3,
        want=(q * np.repeat(scale, 3, 1)).astype(np.float32),
    )
    for kind, narrow in (
        (TensorProto.FLOAT8E4M3FN, ml_dtypes.float8_e4m3fn),
        (TensorProto.FLOAT8E5M2, ml_dtypes.float8_e5m2),
    ):
        every = np.arange(256, dtype=np.uint8)
        yield Case(
            f"dequantise every {narrow.__name__}",
            "DequantizeLinear",
            [(kind, [256], every.tobytes()), F(0.5)],
            feeds=(),
            want=every.view(narrow).astype(np.float32) * F(0.5),
        )
        x = np.concatenate(
            [f32(200, scale=20), f32(50, scale=1e-3), [0, 1e6, -1e6, 440, 464, 465, 1e-9]]
        ).astype(np.float32)
        top = float(ml_dtypes.finfo(narrow).max)
        back = helper.make_node("DequantizeLinear", ["o0", "i1", "i2"], ["y"])
        yield Case(
            f"through {narrow.__name__}",
            "QuantizeLinear",
            [x, F(0.5), (kind, [], b"\0")],
            then=[back],
            want=np.clip(x / F(0.5), -top, top).astype(narrow).astype(np.float32) * F(0.5),
        )
    for kind, low, high in ((TensorProto.UINT4, 0, 15), (TensorProto.INT4, -8, 7)):
        x = f32(3, 5, scale=9)
        back = helper.make_node("DequantizeLinear", ["o0", "i1", "i2"], ["y"])
        yield Case(
            f"through type {kind}",
            "QuantizeLinear",
            [x, F(1), (kind, [], nibbles([2]))],
            then=[back],
            want=(np.clip(np.rint(x) + 2, low, high) - 2).astype(np.float32),
        )
    for name, x in (
        ("", f32(50)),
        (" of zeros", np.zeros(5, np.float32)),
        (" of one sign", np.abs(f32(50)) + 1),
    ):
        yield Case("quantise dynamically" + name, "DynamicQuantizeLinear", [x], outputs=3)


def matmul(a, b, za=0, zb=0):
    return ((a.astype(np.int64) - za) @ (b.astype(np.int64) - zb)).astype(np.int32)


def requantised(sums, scale, zero, kind=np.uint8):
    info = np.iinfo(kind)
    return np.clip(
        np.rint(sums.astype(np.float32) * scale.astype(np.float32)) + zero, info.min, info.max
    ).astype(kind)


def product_cases():
    """Long sums of the largest numbers, in which pairs of u8 times s8 exceed 16 bits."""
    for name, a, b in (("u8u8", u8, u8), ("u8s8", u8, s8), ("s8u8", s8, u8), ("s8s8", s8, s8)):
        x, w = a(5, 300), b(300, 40)
        za, zb = a(1)[0], b(1)[0]
        yield Case(
            f"MatMulInteger {name}",
            "MatMulInteger",
            [x, w, za, zb],
            want=matmul(x, w, int(za), int(zb)),
        )
        yield Case(
            f"MatMulInteger {name} without zero points", "MatMulInteger", [x, w], want=matmul(x, w)
        )
        zeros = b(40)
        yield Case(
            f"MatMulInteger {name}, columns",
            "MatMulInteger",
            [x, w, za, zeros],
            want=matmul(x, w, int(za), zeros.astype(np.int64)),
        )
    big = [np.full((2, 700), 255, np.uint8), np.full((700, 33), 127, np.int8)]
    yield Case("MatMulInteger of the largest", "MatMulInteger", big, want=matmul(*big))
    x, w = u8(2, 3, 4, 16), s8(2, 3, 16, 5)
    yield Case(
        "MatMulInteger, batches",
        "MatMulInteger",
        [x, w, U(128)],
        feeds=(0, 1),
        want=matmul(x, w, 128),
    )
    x, w = u8(4, 70), s8(70, 33)
    for kind, zero in ((np.uint8, U(100)), (np.int8, S(3))):
        data = [u8, s8][kind is np.int8]
        a, b, scale = data(4, 70), s8(70, 33), positive(33)
        za = zero
        want = requantised(matmul(a, b, int(za)), F(0.02) * scale / F(0.4), int(zero), kind)
        yield Case(
            f"QLinearMatMul {kind.__name__}",
            "QLinearMatMul",
            [a, F(0.02), za, b, scale, np.zeros(33, np.int8), F(0.4), zero],
            want=want,
        )
    for pads, strides, group in (([1, 1, 1, 1], [1, 1], 1), ([0, 1, 2, 0], [2, 1], 2)):
        x, w, scale = u8(2, 4, 7, 6), s8(6, 4 // group, 3, 3), positive(6)
        bias = RANDOM.integers(-5000, 5000, 6, dtype=np.int32)
        options = {"pads": pads, "strides": strides, "group": group}
        yield Case(
            f"ConvInteger {pads}",
            "ConvInteger",
            [x, (x, w)[1].view(np.uint8), U(120), U(9)],
            **options,
        )
        yield Case(
            f"QLinearConv {pads}",
            "QLinearConv",
            [x, F(0.03), U(120), w, scale, np.zeros(6, np.int8), F(0.2), U(90), bias],
            **options,
        )
    x, w = u8(3, 50), s8(50, 20)
    yield Case(
        "MatMulIntegerToFloat",
        "MatMulIntegerToFloat",
        [x, w, F(0.02), positive(20), U(100), s8(20), f32(20)],
        domain=MICROSOFT,
    )
    yield Case(
        "DynamicQuantizeMatMul",
        "DynamicQuantizeMatMul",
        [f32(3, 50), w, positive(20), None, f32(20)],
        domain=MICROSOFT,
    )
    bias = RANDOM.integers(-5000, 5000, 20, dtype=np.int32)
    for name, more in (("", [F(0.3), U(100)]), (" to floats", [])):
        yield Case(
            "QGemm" + name,
            "QGemm",
            [x, F(0.02), U(100), w.T.copy(), positive(20), np.zeros(20, np.int8), bias, *more],
            domain=MICROSOFT,
            transB=1,
            alpha=1.0,
        )
    a, b = s8(3, 9).astype(np.int16) * 200, s8(9, 4).astype(np.int16) * 200
    yield Case("MatMulInteger16", "MatMulInteger16", [a, b], domain=MICROSOFT, want=matmul(a, b))


def float_cases():
    """com.microsoft's ops that compute in floats between the integers."""
    x, y = [u8(2, 6, 5, 5), F(0.03), U(110)], [u8(2, 6, 5, 5), F(0.05), U(90)]
    out = [F(0.04), U(100)]
    for op in ("QLinearAdd", "QLinearMul"):
        yield Case(op, op, [*x, *y, *out], domain=MICROSOFT, feeds=(0, 3), steps=1)
        yield Case(
            op + " of s8, broadcast",
            op,
            [s8(4, 5), F(0.11), S(0), s8(5), F(0.053), S(0), F(0.13), S(4)],
            domain=MICROSOFT,
            feeds=(0, 3),
            steps=1,
        )
    yield Case("QLinearSigmoid", "QLinearSigmoid", [*x, F(0.004), U(0)], domain=MICROSOFT, steps=1)
    yield Case(
        "QLinearLeakyRelu", "QLinearLeakyRelu", [*x, *out], domain=MICROSOFT, alpha=0.2, steps=1
    )
    for version in (12, 13):
        yield Case(
            f"QLinearSoftmax of opset {version}",
            "QLinearSoftmax",
            [*x, F(1 / 256), U(0)],
            domain=MICROSOFT,
            attributes={"axis": 1, "opset": version},
            steps=1,
        )
    mean = ((x[0].astype(np.float64) - 110) * 0.03).mean((2, 3))
    yield Case(
        "QLinearReduceMean",
        "QLinearReduceMean",
        [*x, *out],
        domain=MICROSOFT,
        axes=[2, 3],
        keepdims=0,
        steps=1,
        want=np.clip(np.rint(mean / 0.04) + 100, 0, 255).astype(np.uint8),
    )
    yield Case(
        "QLinearGlobalAveragePool",
        "QLinearGlobalAveragePool",
        [*x, *out],
        domain=MICROSOFT,
        steps=1,
    )
    yield Case(
        "QLinearGlobalAveragePool, channels last",
        "QLinearGlobalAveragePool",
        [u8(2, 5, 4, 6), *x[1:], *out],
        domain=MICROSOFT,
        channels_last=1,
        steps=1,
    )
    yield Case(
        "QLinearAveragePool",
        "QLinearAveragePool",
        [*x, *out],
        domain=MICROSOFT,
        kernel_shape=[3, 3],
        strides=[2, 2],
        pads=[1, 1, 1, 1],
        steps=1,
    )
    yield Case(
        "NhwcMaxPool",
        "NhwcMaxPool",
        [u8(2, 7, 6, 5)],
        domain=MICROSOFT,
        kernel_shape=[3, 2],
        strides=[2, 1],
        pads=[1, 0, 1, 1],
    )
    yield Case(
        "NhwcMaxPool of s8",
        "NhwcMaxPool",
        [s8(1, 9, 9, 3)],
        domain=MICROSOFT,
        kernel_shape=[3, 3],
        dilations=[2, 2],
        ceil_mode=1,
        strides=[2, 2],
        pads=[1, 1, 1, 1],
    )
    yield Case(
        "QLinearConcat",
        "QLinearConcat",
        [*out, *x, *y],
        domain=MICROSOFT,
        feeds=(2, 5),
        axis=1,
        steps=1,
    )
    yield Case(
        "QLinearWhere",
        "QLinearWhere",
        [u8(2, 6, 5, 5) > 99, *x, *y, *out],
        domain=MICROSOFT,
        feeds=(0, 1, 4),
        steps=1,
    )
    a, b = u8(9), u8(9)
    yield Case(
        "QLinearMul without zero points",
        "QLinearMul",
        [a, F(0.1), None, b, F(0.1), None, F(2.1)],
        domain=MICROSOFT,
        feeds=(0, 3),
        steps=1,
        want=np.rint(a.astype(np.float64) * b * 0.01 / 2.1).astype(np.uint8),
    )
    a, b = u8(4, 5), u8(5)
    yield Case(
        "MulInteger",
        "MulInteger",
        [a, U(3), b, U(200)],
        domain=MICROSOFT,
        feeds=(0, 2),
        want=(a.astype(np.int32) - 3) * (b.astype(np.int32) - 200),
    )
    a = s8(4, 5)
    yield Case(
        "ReduceSumInteger",
        "ReduceSumInteger",
        [a],
        domain=MICROSOFT,
        axes=[1],
        keepdims=0,
        want=a.astype(np.int32).sum(1, dtype=np.int32),
    )


def weight_cases():
    """Weights of 4 and 8 bits in blocks: one row and several, zero points of each kind, a last block that is not full."""
    for bits, rows, k, block in (
        (4, 1, 64, 32),
        (4, 5, 96, 16),
        (8, 3, 64, 32),
        (4, 2, 80, 32),
        (8, 2, 40, 16),
    ):
        n, blocks = 24, -(-k // block)
        w = u8(n, blocks, block * bits // 8)
        scales = f32(n, blocks, scale=0.1)
        packed = u8(n * ((blocks * bits + 7) // 8))
        order = np.arange(k, dtype=np.int32) // block
        attributes = {"K": k, "N": n, "bits": bits, "block_size": block}
        name = f"MatMulNBits {bits} bits, {rows} rows, {k} by {block}"
        yield Case(
            name,
            "MatMulNBits",
            [f32(rows, k), w, scales],
            domain=MICROSOFT,
            tolerance=1e-5,
            **attributes,
        )
        yield Case(
            name + ", zero points",
            "MatMulNBits",
            [f32(rows, k), w, scales, packed],
            domain=MICROSOFT,
            tolerance=1e-5,
            **attributes,
        )
        yield Case(
            name + ", bias",
            "MatMulNBits",
            [f32(rows, k), w, scales, None, None, f32(n)],
            domain=MICROSOFT,
            tolerance=1e-5,
            **attributes,
        )
        zeros = f32(n, blocks) + F(7)
        q = w.reshape(n, -1)
        q = np.stack([q & 15, q >> 4], 2).reshape(n, -1) if bits == 4 else q
        real = (q[:, :k] - np.repeat(zeros, block, 1)[:, :k]) * np.repeat(scales, block, 1)[:, :k]
        x = f32(rows, k)
        yield Case(
            name + ", real zero points",
            "MatMulNBits",
            [x, w, scales, zeros],
            domain=MICROSOFT,
            want=x @ real.T,
            tolerance=1e-5,
            **attributes,
        )
        turned = order[::-1].copy()
        real = (q[:, :k] - F(2 ** (bits - 1))) * scales[:, turned]
        yield Case(
            name + ", blocks in another order",
            "MatMulNBits",
            [x, w, scales, None, turned],
            domain=MICROSOFT,
            want=x @ real.T,
            tolerance=1e-5,
            **attributes,
        )
    for kind in (0, 1):
        yield Case(
            f"MatMulBnb4 of type {kind}",
            "MatMulBnb4",
            [f32(3, 40), u8(24 * 20), positive(15)],
            domain=MICROSOFT,
            K=40,
            N=24,
            block_size=64,
            quant_type=kind,
            tolerance=1e-5,
        )
    indices = np.array([[3, 0], [5, 3]])
    for zeros in (False, True):
        table = u8(6, 32)
        yield Case(
            f"GatherBlockQuantized of bytes, zero points {zeros}",
            "GatherBlockQuantized",
            [table, indices, f32(6, 4), *([u8(6, 2)] if zeros else [])],
            feeds=(1,),
            domain=MICROSOFT,
            block_size=16,
            quantize_axis=1,
            tolerance=1e-6,
        )
        q = RANDOM.integers(-8, 8, (6, 64))
        scale, zero = f32(6, 4), RANDOM.integers(-8, 8, (6, 4))
        operands = [
            (TensorProto.INT4, [6, 64], nibbles(q)),
            indices,
            scale,
            *([(TensorProto.INT4, [6, 4], nibbles(zero))] if zeros else []),
        ]
        real = (
            (q - np.repeat(zero if zeros else zero * 0, 16, 1)) * np.repeat(scale, 16, 1)
        ).astype(np.float32)
        yield Case(
            f"GatherBlockQuantized of i4, zero points {zeros}",
            "GatherBlockQuantized",
            operands,
            feeds=(1,),
            domain=MICROSOFT,
            block_size=16,
            quantize_axis=1,
            want=real[indices],
            tolerance=1e-6,
        )
    for name, scales in (("one scale", (2,)), ("a scale per row", (2, 64))):
        operands = [
            f32(6, 3, 10),
            s8(2, 10, 64),
            s8(2, 16, 64),
            f32(2, 128),
            None,
            None,
            None,
            None,
            positive(*scales, scale=0.01),
            np.zeros(scales, np.int8),
            positive(*scales, scale=0.01),
            np.zeros(scales, np.int8),
        ]
        yield Case(
            f"DynamicQuantizeLSTM, {name}",
            "DynamicQuantizeLSTM",
            operands,
            domain=MICROSOFT,
            outputs=3,
            hidden_size=16,
            direction="bidirectional",
            tolerance=1e-2,
        )


def border_cases():
    """Sizes where the cpu's integer kernels begin and end."""
    for channels in (1, 2, 3):  # too few for pairs that run along them
        x, w, scale = u8(1, channels, 8, 7), s8(5, channels, 3, 3), positive(5)
        yield Case(f"ConvInteger of {channels}", "ConvInteger", [x, w.view(np.uint8), U(120), U(9)])
        yield Case(
            f"QLinearConv of {channels}",
            "QLinearConv",
            [x, F(0.03), U(120), w, scale, np.zeros(5, np.int8), F(0.2), U(90)],
        )
    # 40,000 products of 255 and 255 leave i32; between DequantizeLinears the sum is one of floats.
    w = np.full((40000, 3), 255, np.uint8)
    then = [
        helper.make_node("Constant", [], ["w"], value=numpy_helper.from_array(w)),
        helper.make_node("Constant", [], ["s"], value=numpy_helper.from_array(np.asarray(F(1e-4)))),
        helper.make_node("DequantizeLinear", ["w", "s"], ["real"]),
        helper.make_node("MatMul", ["o0", "real"], ["y"]),
    ]
    yield Case(
        "a long sum between DequantizeLinears",
        "DequantizeLinear",
        [w.T[:1].copy(), F(1.0)],
        then=then,
        tolerance=3e-5,  # 40,000 equal terms, added one after another, round in one direction
        want=np.full((1, 3), 40000 * 255 * 255 * 1e-4, np.float32),
    )


def embedding_cases():
    ids, mask = (
        np.array([[3, 1, 4], [1, 5, 9]], np.int32),
        np.array([[1, 1, 0], [1, 1, 1]], np.int32),
    )
    tables = [u8(10, 8), u8(6, 8), u8(2, 8), u8(8), u8(8)]
    scales, zeros = [F(s) for s in positive(5)], [U(z) for z in u8(5)]
    for name, segments, kept in (
        ("", ids % 2, None),
        (", a mask", ids % 2, mask),
        (", no segments", None, mask),
    ):
        there = [k if segments is not None or i != 2 else None for i, k in enumerate(tables)]
        operands = [
            ids,
            segments,
            *there,
            kept,
            *[s if t is not None else None for s, t in zip(scales, there)],
            *[z if t is not None else None for z, t in zip(zeros, there)],
        ]
        yield Case(
            "QEmbedLayerNormalization" + name,
            "QEmbedLayerNormalization",
            operands,
            domain=MICROSOFT,
            outputs=2,
            tolerance=1e-5,
            epsilon=1e-5,
            feeds=[i for i in (0, 1, 7) if operands[i] is not None],
        )


def attention_cases():
    scale, zero = F(0.02), U(120)
    weights = [s8(24, 48), f32(48), scale, positive(48, scale=0.01)]
    for name, mask in (
        ("no mask", None),
        ("lengths", np.array([3, 5], np.int32)),
        ("a mask of keys", (u8(2, 5) > 90).astype(np.int32)),
        ("a mask of pairs", (u8(2, 5, 5) > 90).astype(np.int32)),
    ):
        operands = [u8(2, 5, 24), *weights, mask, zero, np.zeros(48, np.int8)]
        yield Case(
            f"QAttention, {name}",
            "QAttention",
            operands,
            domain=MICROSOFT,
            num_heads=2,
            tolerance=1e-5,
        )
    operands = [u8(2, 5, 24), *weights, None, zero, np.zeros(48, np.int8), f32(2, 2, 2, 3, 8)]
    yield Case(
        "QAttention, past, one direction",
        "QAttention",
        operands,
        feeds=(0, 8),
        domain=MICROSOFT,
        num_heads=2,
        unidirectional=1,
        outputs=2,
        tolerance=1e-5,
    )


def refused():
    """(case, the code and words of its error)."""
    x, zero = f32(4, 6), U(0)
    for scale, words in ((0, "is 0"), (np.nan, "nan"), (np.inf, "inf")):
        yield (
            Case(f"quantise by {scale}", "QuantizeLinear", [x, F(scale), zero]),
            ["T0720", "the node", words],
        )
        if scale != 0:
            yield (
                Case(f"dequantise by {scale}", "DequantizeLinear", [u8(4), F(scale), zero]),
                ["T0720", "the node", words],
            )
    yield (
        Case(
            "one scale of several is 0",
            "QuantizeLinear",
            [f32(4, 6), np.array([1, 1, 0, 1, 1, 1], np.float32)],
        ),
        ["T0720", "the node", "is 0"],
    )
    yield (
        Case(
            "a block's scale is NaN",
            "DequantizeLinear",
            [u8(4, 6), np.full((4, 2), np.nan, np.float32)],
            axis=1,
            block_size=3,
        ),
        ["T0720", "finite"],
    )
    yield (
        Case("no scale", "QLinearMatMul", [u8(2, 4), None, zero, u8(4, 2), F(1), zero, F(1), zero]),
        ["T0709", "the node", "input 1 is missing"],
    )
    yield (
        Case("a scale of integers", "QuantizeLinear", [x, np.int32(1), zero]),
        ["T0710", "the node", "scale"],
    )
    yield (
        Case("scales for another axis", "DequantizeLinear", [u8(4, 6), positive(5)], axis=1),
        ["T0713", "the node", "5 and 6"],
    )
    yield (
        Case("an axis beyond the rank", "DequantizeLinear", [u8(4, 6), positive(6)], axis=2),
        ["T0713", "axis 2"],
    )
    yield (
        Case("scales of rank 2 without blocks", "DequantizeLinear", [u8(4, 6), positive(4, 6)]),
        ["T0713", "rank 2"],
    )
    yield (
        Case(
            "blocks that do not fit the axis",
            "DequantizeLinear",
            [u8(4, 6), positive(4, 2)],
            axis=1,
            block_size=2,
        ),
        ["T0713", "blocks"],
    )
    yield (
        Case(
            "more blocks than the axis has",
            "DequantizeLinear",
            [u8(4, 6), positive(4, 4)],
            axis=1,
            block_size=2,
        ),
        ["T0713", "blocks"],
    )
    yield (
        Case(
            "a negative block size",
            "DequantizeLinear",
            [u8(4, 6), positive(4, 2)],
            axis=1,
            block_size=-3,
        ),
        ["T0708", "block_size"],
    )
    yield (
        Case("a zero point of another type", "DequantizeLinear", [u8(4), F(1), S(0)]),
        ["T0710", "zero point"],
    )
    yield (
        Case(
            "a product of i32",
            "MatMulInteger",
            [np.ones((2, 2), np.int32), np.ones((2, 2), np.int32)],
        ),
        ["T0710", "u8 or i8"],
    )
    odd = (TensorProto.UINT4, [3], b"\x21")
    yield (
        Case("4-bit numbers of odd length, cut", "DequantizeLinear", [odd, F(1)], feeds=()),
        ["T0711", "1 bytes of data", "need 2"],
    )
    for kind, name, value, limits in (
        (TensorProto.UINT8, "UINT8", 300, "0 to 255"),
        (TensorProto.UINT8, "UINT8", -1, "0 to 255"),
        (TensorProto.INT8, "INT8", 128, "-128 to 127"),
        (TensorProto.UINT16, "UINT16", 70000, "0 to 65535"),
        (TensorProto.INT16, "INT16", -32769, "-32768 to 32767"),
    ):
        beyond = Case(
            f"a zero point of {value} in {name}", "QuantizeLinear", [x, F(1), (kind, [], [value])]
        )
        yield (
            beyond,
            ["T0711", "'i2'", "the node", f"holds {value}", f"{name} has numbers from {limits}"],
        )
    yield (
        Case(
            "a weight's zero point beyond its type",
            "QLinearMatMul",
            [u8(2, 4), F(1), zero, s8(4, 2), F(1), (TensorProto.INT8, [2], [0, 200]), F(1), zero],
        ),
        ["T0711", "'i5'", "the node", "holds 200"],
    )
    sums = RANDOM.integers(-9, 9, (4, 6), dtype=np.int32)
    yield (
        Case("a zero point of sums", "DequantizeLinear", [sums, F(1), np.int32(5)]),
        ["T0720", "the node", "input 2, is 5", "must be 0"],
    )
    zeros = np.array([0, 0, -3, 0, 0, 0], np.int32)
    yield (
        Case("zero points of sums", "DequantizeLinear", [sums, positive(6), zeros], axis=1),
        ["T0720", "the node", "is -3"],
    )
    yield (
        Case("an output of 4 bits", "QuantizeLinear", [x, F(1), (TensorProto.INT4, [], b"\0")]),
        ["T0710", "'o0'", "i4"],
    )
    yield (
        Case(
            "3 bits",
            "MatMulNBits",
            [x, u8(4, 1, 3), f32(4)],
            domain=MICROSOFT,
            K=6,
            N=4,
            bits=3,
            block_size=16,
        ),
        ["T0714", "3 bits"],
    )
    yield (
        Case(
            "weights cut short",
            "MatMulNBits",
            [f32(2, 32), u8(4, 1, 15), f32(4)],
            domain=MICROSOFT,
            K=32,
            N=4,
            block_size=32,
        ),
        ["T0713", "weights"],
    )
    yield (
        Case(
            "no K",
            "MatMulNBits",
            [f32(2, 32), u8(4, 1, 16), f32(4)],
            domain=MICROSOFT,
            N=4,
            block_size=32,
        ),
        ["T0708", "'K'"],
    )


def run(tenon, device, case, folder):
    """The outputs, or the text of the failure."""
    path = f"{folder}/model.onnx"
    onnx.save(case.model, path)
    command = [tenon, "run", path, "--device", device, "--output-dir", folder]
    for name, array in case.feeds.items():
        np.save(f"{folder}/{name}.npy", array)
        command += ["--input", f"{name}={folder}/{name}.npy"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        return f"exit status {done.returncode}: {done.stderr.strip()[:400]}"
    return [np.load(f"{folder}/{name}.npy") for name in case.outputs]


def difference(case, got, want):
    if isinstance(got, str):
        return got
    for i, (g, w) in enumerate(zip(got, want)):
        if g.shape != w.shape or g.dtype != w.dtype:
            return f"output {i} is {g.dtype}{g.shape}, expected {w.dtype}{w.shape}"
        a, b = (
            np.nan_to_num(v.astype(np.float64), posinf=1e300, neginf=-1e300, nan=1e299)
            for v in (g, w)
        )
        far = a != b
        if g.dtype.kind in "iu":
            allowed = case.steps if far.mean() <= 0.1 else 0
        else:
            allowed = case.tolerance * np.abs(b[np.abs(b) < 1e299]).max(initial=0)
        if (np.abs(a - b)[far] > allowed).any():
            return (
                f"output {i} differs at {far.sum()} of {far.size} places, by {np.abs(a - b).max()}"
            )
    return ""


def check_refused(tenon, case, words, folder):
    got = run(tenon, "reference", case, folder)
    if not isinstance(got, str):
        return "accepted"
    missing = [word for word in ["exit status 2", *words] if word not in got]
    return f"without {missing}: {got}" if missing else ""


def shaped():
    """(case, words of the cpu's stages): weights stay narrow in memory, and integers run in pairs, here for avx2."""
    for bits in (4, 8):
        weights = Case(
            f"weights of {bits} bits",
            "MatMulNBits",
            [f32(1, 128), u8(96, 4, 4 * bits), f32(96, 4)],
            domain=MICROSOFT,
            K=128,
            N=96,
            bits=bits,
            block_size=32,
        )
        yield weights, f"in panels of {bits} bits since load"
    # Large enough for kernels of libraries, which would read them widened.
    large = Case(
        "many weights of 4 bits",
        "MatMulNBits",
        [f32(1, 1024), u8(1024, 32, 16), f32(1024, 32)],
        domain=MICROSOFT,
        K=1024,
        N=1024,
        bits=4,
        block_size=32,
    )
    yield large, "in panels of 4 bits since load"
    yield (
        Case("a product of bytes", "MatMulInteger", [u8(4, 64), s8(64, 96), U(9)]),
        "in panels of pairs since load",
    )
    yield (
        Case(
            "a convolution of bytes", "ConvInteger", [u8(1, 16, 9, 9), u8(32, 16, 3, 3), U(9), U(7)]
        ),
        "mma taps",
    )


def check_shape(tenon, case, words, folder):
    onnx.save(case.model, f"{folder}/model.onnx")
    done = subprocess.run(
        [
            tenon,
            "run",
            f"{folder}/model.onnx",
            "--device",
            "cpu",
            "--seed",
            "1",
            "--dump",
            "cpu/stages",
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "TENON_CPU_ISA": "avx2"},
    )
    return "" if words in done.stdout + done.stderr else f"without '{words}': {done.stderr[:300]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tenon", required=True)
    parser.add_argument("--devices", default="reference,cpu")
    parser.add_argument("--filter", default="")
    parser.add_argument("-v", action="store_true")
    options = parser.parse_args()
    tasks = []
    with (
        concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool,
        tempfile.TemporaryDirectory() as root,
    ):

        def submit(name, function):
            folder = f"{root}/{len(tasks)}"
            os.mkdir(folder)
            tasks.append((name, pool.submit(function, folder)))

        for case in (
            c
            for group in (
                linear_cases,
                product_cases,
                float_cases,
                weight_cases,
                embedding_cases,
                attention_cases,
                border_cases,
            )
            for c in group()
            if options.filter in c.name
        ):
            try:
                want = case.expected()
            except Exception as error:  # onnxruntime raises its own kinds
                submit(case.name, lambda folder, text=str(error)[:300]: f"onnxruntime: {text}")
                continue
            for device in options.devices.split(","):
                submit(
                    f"{case.name} {device}",
                    lambda folder, case=case, want=want, device=device: difference(
                        case, run(options.tenon, device, case, folder), want
                    ),
                )
        for case, words in refused():
            if options.filter in case.name:
                submit(
                    f"refused: {case.name}",
                    lambda folder, case=case, words=words: check_refused(
                        options.tenon, case, words, folder
                    ),
                )
        # Smaller instruction sets widen weights at load.
        for case, words in (
            shaped()
            if "cpu" in options.devices and os.environ.get("TENON_CPU_ISA") != "baseline"
            else ()
        ):
            if options.filter in case.name:
                submit(
                    f"shape: {case.name}",
                    lambda folder, case=case, words=words: check_shape(
                        options.tenon, case, words, folder
                    ),
                )
        failed = 0
        for name, task in tasks:
            text = task.result()
            failed += bool(text)
            if text or options.v:
                print(f"{'FAIL' if text else 'ok  '} {name}{': ' if text else ''}{text}")
    print(f"{len(tasks) - failed} passed, {failed} failed")
    return 1 if failed or not tasks else 0


if __name__ == "__main__":
    sys.exit(main())
