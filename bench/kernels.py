#!/usr/bin/env python3
"""Single kernels against the bound of this machine: kernel, size, time, share of the bound.

  bench/kernels.py [--tenon build/bin/tenon] [--threads N] [--only NAME,...] [--against TENON] [--peers] [--json FILE]

Each row is a small graph that `tenon bench` runs; the time is the least of many runs, measured in
turn with the other build where --against names one. The bound is the larger of two times: that of
moving inputs and outputs once at the rate at which this machine streams so many bytes, and that of
the arithmetic at its peak of f32 multiply-adds (four times that for bytes). `tenon bench` measures
both in the same process. Rows of bytes and of weights of few bits need the package onnx. With
--peers, rows that torch or, for files, ONNX Runtime can run are measured there in turn, in as many
windows of as much time, after a first call that does not count; without the package, a row has no
peer. torch writes into memory that it has been given, where its functions can; its sort and its
running maximum make indices, too. ONNX Runtime may round x to bytes if weights have 8 bits: else it
widens them at every call.
"""

import argparse
import dataclasses
import json
import math
import pathlib
import subprocess
import sys
import tempfile
import time

WINDOWS, SECONDS = (
    3,
    1,
)  # in each of which a build or a peer is measured; `tenon bench` measures a second

BYTES = {"f32": 4, "bf16": 2, "i32": 4, "u32": 4, "i64": 8, "u8": 1, "i8": 1, "pred": 1}


@dataclasses.dataclass
class Row:
    name: str
    size: str
    model: str  # a graph as text, or the name of a function that writes ONNX
    gflop: float = 0.0  # of f32 multiply-adds and additions
    mbytes: float = 0.0  # moved at least


def mbytes(*tensors: tuple[str, int]) -> float:
    return sum(BYTES[dtype] * count for dtype, count in tensors) / 1e6


def graph(inputs: str, outputs: str, *lines: str) -> str:
    body = "\n".join("  " + line for line in lines)
    return f"tenon.tir 1\ngraph @kernel({inputs}) -> ({outputs}) {{\n{body}\n}}\n"


def lanes(name: str, op: str, constant: bool = False) -> Row:
    n = 1 << 20
    t = f"i32[{n}]"
    first = [f"%y = const {t} splat 7"] if constant else []
    inputs = f"%x: {t}" + ("" if constant else f", %y: {t}")
    text = graph(inputs, f"z: {t}", *first, f"%z = {op} : {t}", "yield %z")
    return Row(name, f"{n} i32", text, 0, mbytes(*[("i32", n)] * (2 if constant else 3)))


def softmax(masked: bool) -> Row:
    t = "f32[1536, 512]"
    keep = (
        [
            f"%low = const {t} splat -1e9",
            f"%zero = const {t} splat 0.0",
            "%above = compare(%x, %zero) {direction = 4} : pred[1536, 512]",
            f"%s = select(%above, %x, %low) : {t}",
        ]
        if masked
        else [f"%s = neg(%x) : {t}"]
    )
    text = graph(f"%x: {t}", f"y: {t}", *keep, f"%y = softmax(%s) {{dim = 1}} : {t}", "yield %y")
    return Row(
        "softmax, half of it masked" if masked else "softmax",
        "1536 x 512",
        text,
        0.02,
        mbytes(("f32", 2 * 1536 * 512)),
    )


def attention(name: str, heads: int, queries: int, keys: int, size: int, causal: bool) -> Row:
    q, k = f"f32[1, {heads}, {queries}, {size}]", f"f32[1, {heads}, {keys}, {size}]"
    text = graph(
        f"%q: {q}, %k: {k}, %v: {k}",
        f"y: {q}",
        f'%y = sdpa(%q, %k, %v) {{causal = "{"first" if causal else "none"}", scale = 0.125}} : {q}',
        "yield %y",
    )
    products = 4e-9 * heads * queries * keys * size * (0.5 if causal else 1)
    return Row(
        name,
        f"{heads} heads, {queries} of {keys}, {size}",
        text,
        products,
        mbytes(("f32", heads * size * 2 * (queries + keys))),
    )


def one(
    name: str, size: str, given: str, result: str, op: str, moved: float, extra: str = ""
) -> Row:
    outputs, left = f"y: {result}" + extra, "%y" + (", %i" if extra else "")
    types = result + (", " + extra.split(": ")[1] if extra else "")
    return Row(
        name,
        size,
        graph(f"%x: {given}", outputs, f"{left} = {op} : {types}", f"yield {left}"),
        0,
        moved,
    )


def channels_last_norm(points: int, groups: int, channels: int) -> Row:
    """A norm over groups of channels that are innermost, as after a convolution."""
    t, few = f"f32[{points}, {groups}, {channels}]", f"f32[{groups}]"
    spread = f"{{shape = dims [{points}, {groups}, {channels}], dims = [1]}} : {t}"
    text = graph(
        f"%x: {t}",
        f"y: {t}",
        f"%m = mean(%x) {{dims = [0, 2]}} : {few}",
        f"%mw = broadcast(%m) {spread}",
        f"%d = sub(%x, %mw) : {t}",
        f"%q = mul(%d, %d) : {t}",
        f"%v = mean(%q) {{dims = [0, 2]}} : {few}",
        f"%r = rsqrt(%v) : {few}",
        f"%rw = broadcast(%r) {spread}",
        f"%y = mul(%d, %rw) : {t}",
        "yield %y",
    )
    return Row(
        "norm of inner groups",
        f"{points} x {groups} x {channels}",
        text,
        0.001,
        mbytes(("f32", 2 * points * groups * channels)),
    )


def stack(operands: int) -> Row:
    n = 1 << 17
    inputs = ", ".join(f"%x{i}: f32[{n}]" for i in range(operands))
    tall = [
        f"%r{i} = reshape(%x{i}) {{shape = dims [{n}, 1]}} : f32[{n}, 1]" for i in range(operands)
    ]
    text = graph(
        inputs,
        f"y: f32[{n}, {operands}]",
        *tall,
        f"%y = concat({', '.join(f'%r{i}' for i in range(operands))}) {{dim = 1}} : f32[{n}, {operands}]",
        "yield %y",
    )
    return Row(f"stack of {operands}", f"{n} each", text, 0, mbytes(("f32", 2 * operands * n)))


ROWS = [
    Row(
        "product of bytes",
        "128 x 768 x 768",
        "product",
        2e-9 * 128 * 768 * 768 / 4,
        mbytes(("u8", 2 * 128 * 768 + 768 * 768)),
    ),
    Row(
        "convolution of bytes",
        "256 channels, 3 x 3, 14 x 14",
        "convolution",
        2e-9 * 256 * 256 * 9 * 196 / 4,
        mbytes(("u8", 2 * 256 * 196 + 256 * 256 * 9)),
    ),
    Row(
        "depthwise of bytes",
        "96 channels, 3 x 3, 56 x 56",
        "depthwise",
        2e-9 * 96 * 9 * 3136,
        mbytes(("u8", 2 * 96 * 3136)),
    ),
    lanes("division by a number", "div(%x, %y)", True),
    lanes("division", "div(%x, %y)"),
    lanes("remainder by a number", "rem(%x, %y)", True),
    Row(
        "remainder of floats",
        "1048576 f32",
        graph(
            "%x: f32[1048576], %y: f32[1048576]",
            "z: f32[1048576]",
            "%z = rem(%x, %y) : f32[1048576]",
            "yield %z",
        ),
        0,
        mbytes(("f32", 3 << 20)),
    ),
    lanes("shift", "shl(%x, %y)"),
    lanes("popcount", "popcount(%x)", True),
    softmax(False),
    softmax(True),
    attention("attention", 12, 512, 512, 64, False),
    attention("attention, causal", 12, 512, 512, 64, True),
    attention("attention of one query", 12, 1, 2048, 64, False),
    attention("attention of a UNet", 8, 4096, 4096, 40, False),
    Row(
        "weights of 8 bits",
        "1 x 4096 x 4096",
        "weights of 8 bits",
        2e-9 * 4096 * 4096,
        mbytes(("u8", 4096 * 4096), ("f32", 4096 * 130)),
    ),
    Row(
        "weights of 4 bits",
        "1 x 4096 x 4096",
        "weights of 4 bits",
        2e-9 * 4096 * 4096,
        mbytes(("u8", 4096 * 2048), ("f32", 4096 * 130)),
    ),
    Row(
        "weights of bf16",
        "1 x 4096 x 4096",
        "weights of bf16",
        2e-9 * 4096 * 4096,
        mbytes(("bf16", 4096 * 4096), ("f32", 4096 * 2)),
    ),
    Row(
        "group norm as exported",
        "8 groups of 8 x 64 x 64",
        "group norm as exported",
        0.001,
        mbytes(("f32", 2 << 18)),
    ),
    Row(
        "group norm",
        "8 groups of 8 x 64 x 64",
        graph(
            "%x: f32[1, 64, 64, 64], %s: f32[64], %b: f32[64]",
            "y: f32[1, 64, 64, 64]",
            "%y = group_norm(%x, %s, %b) {dim = 1, epsilon = 1e-5, groups = 8} : f32[1, 64, 64, 64]",
            "yield %y",
        ),
        0.001,
        mbytes(("f32", 2 << 18)),
    ),
    channels_last_norm(4096, 32, 5),
    channels_last_norm(1024, 32, 20),
    one(
        "sum over dims 0 and 2, short",
        "4096 x 32 x 5",
        "f32[4096, 32, 5]",
        "f32[32]",
        "reduce_sum(%x) {dims = [0, 2]}",
        mbytes(("f32", 4096 * 160)),
    ),
    one(
        "sum over outer dims",
        "64 x 256 x 64 of axes 0, 1",
        "f32[64, 256, 64]",
        "f32[64]",
        "reduce_sum(%x) {dims = [0, 1]}",
        mbytes(("f32", 1 << 20)),
    ),
    one(
        "sum over dims 0 and 2",
        "64 x 64 x 256",
        "f32[64, 64, 256]",
        "f32[64]",
        "reduce_sum(%x) {dims = [0, 2]}",
        mbytes(("f32", 1 << 20)),
    ),
    one(
        "cumsum along the last dim",
        "1024 x 1024",
        "f32[1024, 1024]",
        "f32[1024, 1024]",
        "cumsum(%x) {dim = 1}",
        mbytes(("f32", 2 << 20)),
    ),
    one(
        "cumsum of one row",
        "1048576",
        "f32[1048576]",
        "f32[1048576]",
        "cumsum(%x) {dim = 0}",
        mbytes(("f32", 2 << 20)),
    ),
    one(
        "running maximum, reversed",
        "1024 x 1024",
        "f32[1024, 1024]",
        "f32[1024, 1024]",
        "cummax(%x) {dim = 1, reverse = 1}",
        mbytes(("f32", 2 << 20)),
    ),
    one(
        "sum from the end",
        "1024 x 1024",
        "f32[1024, 1024]",
        "f32[1024, 1024]",
        "cumsum(%x) {dim = 1, reverse = 1}",
        mbytes(("f32", 2 << 20)),
    ),
    one(
        "reversed lines",
        "1024 x 1024",
        "f32[1024, 1024]",
        "f32[1024, 1024]",
        "reverse(%x) {dims = [1]}",
        mbytes(("f32", 2 << 20)),
    ),
    stack(6),
    stack(8),
    one(
        "bytes turned",
        "256 x 4096",
        "u8[256, 4096]",
        "u8[4096, 256]",
        "transpose(%x) {perm = [1, 0]}",
        mbytes(("u8", 2 << 20)),
    ),
    one(
        "sort, values only",
        "256 x 1024",
        "f32[256, 1024]",
        "f32[256, 1024]",
        "sort(%x) {dim = 1}",
        mbytes(("f32", 2 << 18)),
    ),
    one(
        "sort of one line, values only",
        "262144",
        "f32[262144]",
        "f32[262144]",
        "sort(%x) {dim = 0}",
        mbytes(("f32", 2 << 18)),
    ),
    one(
        "nearest upsampling",
        "64 x 64 x 64 twice",
        "f32[1, 64, 64, 64]",
        "f32[1, 64, 128, 128]",
        'resize(%x) {sizes = dims [1, 64, 128, 128], mode = "nearest", coordinates = "asymmetric", nearest = "floor"}',
        mbytes(("f32", 5 << 18)),
    ),
    one(
        "pixel shuffle",
        "64 x 128 x 128 by 2",
        "f32[16, 2, 2, 128, 128]",
        "f32[16, 128, 2, 128, 2]",
        "transpose(%x) {perm = [0, 3, 1, 4, 2]}",
        mbytes(("f32", 2 << 20)),
    ),
    Row(
        "elements taken",
        "1048576 of 65536",
        graph(
            f"%x: f32[65536], %i: i32[{1 << 20}]",
            f"y: f32[{1 << 20}]",
            f"%b = const i32[{1 << 20}] splat 65535",
            f"%j = and(%i, %b) : i32[{1 << 20}]",
            f"%y = take(%x, %j) : f32[{1 << 20}]",
            "yield %y",
        ),
        0,
        mbytes(("f32", 2 << 20)),
    ),
    Row(
        "random bits",
        "1048576 u32",
        graph(
            "%k: u32[2], %c: u64[]",
            f"y: u32[{1 << 20}]",
            f"%y = rng_bits(%k, %c) {{shape = dims [{1 << 20}]}} : u32[{1 << 20}]",
            "yield %y",
        ),
        0,
        mbytes(("u32", 1 << 20)),
    ),
    one(
        "top 50",
        "of 50257",
        "f32[1, 50257]",
        "f32[1, 50]",
        "top_k(%x) {dim = 1, k = [50]}",
        mbytes(("f32", 50257)),
        ", i: i64[1, 50]",
    ),
]


def save(
    path: pathlib.Path,
    nodes: list,
    inputs: list,
    outputs: list,
    parameters: dict,
    tensors: list | None = None,
) -> None:
    import numpy as np
    import onnx
    from onnx import helper, numpy_helper

    tensors = (tensors or []) + [
        numpy_helper.from_array(np.asarray(v), k) for k, v in parameters.items()
    ]
    made = helper.make_graph(nodes, "kernel", inputs, outputs, tensors)
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(made, opset_imports=imports, ir_version=10), path)


def write_onnx(kind: str, path: pathlib.Path) -> None:
    import numpy as np
    from onnx import TensorProto, helper

    rng = np.random.default_rng(0)
    value = helper.make_tensor_value_info
    if kind == "weights of bf16":
        # The upper halves of f32. ONNX Runtime widens them once, when it loads the file.
        n = 4096
        raw = (rng.standard_normal((n, n)).astype(np.float32).view(np.uint32) >> 16).astype(
            np.uint16
        )
        narrow = helper.make_tensor("w", TensorProto.BFLOAT16, (n, n), raw.tobytes(), raw=True)
        nodes = [
            helper.make_node("Cast", ["w"], ["wide"], to=TensorProto.FLOAT),
            helper.make_node("MatMul", ["x", "wide"], ["y"]),
        ]
        return save(
            path,
            nodes,
            [value("x", TensorProto.FLOAT, [1, n])],
            [value("y", TensorProto.FLOAT, [1, n])],
            {},
            [narrow],
        )
    if kind.startswith("weights"):
        bits, n = int(kind.split()[2]), 4096
        parameters = {
            "w": rng.integers(0, 256, (n, n // 32, 4 * bits), dtype=np.uint8),
            "s": np.full(n * n // 32, 0.01, np.float32),
        }
        nodes = [
            helper.make_node(
                "MatMulNBits",
                ["x", "w", "s"],
                ["y"],
                domain="com.microsoft",
                K=n,
                N=n,
                bits=bits,
                block_size=32,
                accuracy_level=4 if bits == 8 else 0,
            )
        ]
        return save(
            path,
            nodes,
            [value("x", TensorProto.FLOAT, [1, n])],
            [value("y", TensorProto.FLOAT, [1, n])],
            parameters,
        )
    if kind.startswith("group norm"):
        image = [1, 64, 64, 64]
        parameters = {
            "ones": np.ones(8, np.float32),
            "zeros": np.zeros(8, np.float32),
            "groups": np.array([1, 8, -1]),
            "image": np.array(image),
            "s": np.full((64, 1, 1), 1.5, np.float32),
            "b": np.full((64, 1, 1), 0.5, np.float32),
        }
        nodes = [
            helper.make_node("Reshape", ["x", "groups"], ["g"]),
            helper.make_node("InstanceNormalization", ["g", "ones", "zeros"], ["n"], epsilon=1e-5),
            helper.make_node("Reshape", ["n", "image"], ["i"]),
            helper.make_node("Mul", ["i", "s"], ["m"]),
            helper.make_node("Add", ["m", "b"], ["y"]),
        ]
        return save(
            path,
            nodes,
            [value("x", TensorProto.FLOAT, image)],
            [value("y", TensorProto.FLOAT, image)],
            parameters,
        )
    shapes = {
        "product": ([128, 768], [768, 768], [128, 768]),
        "convolution": ([1, 256, 14, 14], [256, 256, 3, 3], [1, 256, 14, 14]),
        "depthwise": ([1, 96, 56, 56], [96, 1, 3, 3], [1, 96, 56, 56]),
    }
    x, w, y = shapes[kind]
    parameters = {
        "xs": np.float32(0.02),
        "xz": np.uint8(128),
        "w": rng.integers(-128, 128, w).astype(np.int8),
        "ws": np.float32(0.01),
        "wz": np.int8(0),
        "ys": np.float32(0.5),
        "yz": np.uint8(120),
    }
    op, attributes = (
        ("QLinearMatMul", {})
        if kind == "product"
        else ("QLinearConv", {"pads": [1, 1, 1, 1], "group": 96 if kind == "depthwise" else 1})
    )
    node = helper.make_node(op, ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"], ["y"], **attributes)
    return save(
        path,
        [node],
        [value("x", TensorProto.UINT8, x)],
        [value("y", TensorProto.UINT8, y)],
        parameters,
    )


def peers_of(name: str):
    """What torch does in place of the row; None: torch has nothing like it."""
    import torch

    functional = torch.nn.functional
    sizes = {
        "attention": (12, 512, 512, 64),
        "attention, causal": (12, 512, 512, 64),
        "attention of one query": (12, 1, 2048, 64),
        "attention of a UNet": (8, 4096, 4096, 40),
    }
    if name in sizes:
        heads, queries, keys, size = sizes[name]
        q, k, v = (
            torch.randn(1, heads, queries, size),
            torch.randn(1, heads, keys, size),
            torch.randn(1, heads, keys, size),
        )
        return lambda: functional.scaled_dot_product_attention(
            q, k, v, is_causal="causal" in name, scale=0.125
        )
    square, flat, few = torch.randn(1024, 1024), torch.randn(1 << 20), torch.randn(1536, 512)
    image, ones, words, low = (
        torch.randn(1, 64, 64, 64),
        torch.ones(64),
        torch.randn(1, 50257),
        torch.tensor(-1e9),
    )
    short, line, table = torch.randn(256, 1024), torch.randn(262144), torch.randn(65536)
    places, pixels, data = (
        torch.randint(0, 65536, (1 << 20,)),
        torch.randn(16, 2, 2, 128, 128),
        torch.randint(0, 256, (256, 4096), dtype=torch.uint8),
    )
    other = torch.randn(1 << 20)
    parts = [flat[: 1 << 17].clone() for _ in range(8)]
    # Memory of the results.
    into = {
        "square": torch.empty_like(square),
        "flat": torch.empty_like(flat),
        "few": torch.empty_like(few),
        "masked": torch.empty_like(few),
        "short": torch.empty_like(short),
        "line": torch.empty_like(line),
        "six": torch.empty(1 << 17, 6),
        "eight": torch.empty(1 << 17, 8),
        "turned": torch.empty(4096, 256, dtype=torch.uint8),
        "pixels": torch.empty(16, 128, 2, 128, 2),
        "top": torch.empty(1, 50),
        "bits": torch.empty(1 << 20, dtype=torch.int32),
    }
    whole = {
        name: torch.empty(shape, dtype=torch.int64)
        for name, shape in (
            ("square", (1024, 1024)),
            ("short", (256, 1024)),
            ("line", (262144,)),
            ("top", (1, 50)),
        )
    }
    both = {name: (into[name], whole[name]) for name in whole}
    return {
        "softmax": lambda: torch.softmax(-few, 1, out=into["few"]),
        "softmax, half of it masked": lambda: torch.softmax(
            torch.where(few > 0, few, low, out=into["masked"]), 1, out=into["few"]
        ),
        "group norm": lambda: functional.group_norm(image, 8, ones, ones),
        "cumsum along the last dim": lambda: torch.cumsum(square, 1, out=into["square"]),
        "cumsum of one row": lambda: torch.cumsum(flat, 0, out=into["flat"]),
        "running maximum, reversed": lambda: torch.cummax(square.flip(1), 1, out=both["square"])[
            0
        ].flip(1),
        "sum from the end": lambda: torch.cumsum(square.flip(1), 1, out=into["square"]).flip(1),
        "reversed lines": lambda: square.flip(1),
        "stack of 6": lambda: torch.stack(parts[:6], 1, out=into["six"]),
        "stack of 8": lambda: torch.stack(parts, 1, out=into["eight"]),
        "bytes turned": lambda: into["turned"].copy_(data.t()),
        "sort, values only": lambda: torch.sort(short, 1, out=both["short"]),
        "sort of one line, values only": lambda: torch.sort(line, out=both["line"]),
        "nearest upsampling": lambda: functional.interpolate(image, scale_factor=2),
        "elements taken": lambda: torch.take(table, places, out=into["flat"]),
        "pixel shuffle": lambda: into["pixels"].copy_(pixels.permute(0, 3, 1, 4, 2)),
        "top 50": lambda: torch.topk(words, 50, out=both["top"]),
        "remainder of floats": lambda: torch.fmod(flat, other, out=into["flat"]),
        "random bits": lambda: into["bits"].random_(),
    }.get(name)


def peer_of(row: Row, model: pathlib.Path, threads: int):
    """A call of the peer, which was called once; None where there is none."""
    try:
        if model.suffix == ".onnx":
            import numpy as np
            import onnxruntime

            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = threads
            session = onnxruntime.InferenceSession(
                str(model), options, providers=["CPUExecutionProvider"]
            )
            rng = np.random.default_rng(0)
            feed = {
                i.name: rng.integers(0, 256, i.shape, dtype=np.uint8)
                if "uint8" in i.type
                else rng.standard_normal(i.shape).astype(np.float32)
                for i in session.get_inputs()
            }
            call = lambda: session.run(None, feed)  # noqa: E731
        else:
            import torch

            torch.set_num_threads(threads)
            call = peers_of(row.name)
    except ImportError:
        return None
    if call:
        call()
    return call


def window_ms(call, seconds: float) -> float:
    """The least of some seconds of calls, ten at least, as `tenon bench` does."""
    times, end = [], time.perf_counter() + seconds
    while len(times) < 10 or time.perf_counter() < end:
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return 1e3 * min(times)


def model_of(row: Row, folder: pathlib.Path) -> pathlib.Path:
    if row.model.startswith("tenon.tir"):
        path = folder / f"{ROWS.index(row)}.tir"
        path.write_text(row.model)
    else:
        path = folder / f"{row.model.replace(' ', '_')}.onnx"
        write_onnx(row.model, path)
    return path


def measure(tenon: str, model: pathlib.Path, threads: int, peaks: bool) -> dict:
    command = [tenon, "bench", str(model), "--device", "cpu", "--json", "--threads", str(threads)]
    done = subprocess.run(
        command + (["--top", "1"] if peaks else []), capture_output=True, text=True
    )
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip().splitlines()[0])
    return json.loads(done.stdout)


def bound_ms(row: Row, peaks: dict) -> float:
    streams = sorted(peaks["streams"], key=lambda s: s["bytes"])
    nearest = min(streams, key=lambda s: abs(math.log(s["bytes"] / (row.mbytes * 1e6))))
    rate = nearest["gigabytes_per_second"]
    return max(row.mbytes / rate, row.gflop / peaks["gflops"] * 1e3)


def measured(row: Row, folder: pathlib.Path, arguments: argparse.Namespace) -> dict:
    model = model_of(row, folder)
    call = peer_of(row, model, arguments.threads) if arguments.peers else None
    first, times, others, peers = None, [], [], []
    for _ in range(WINDOWS):
        found = measure(arguments.tenon, model, arguments.threads, first is None)
        first = first or found
        times.append(found["min_ms"])
        if arguments.against:
            others.append(measure(arguments.against, model, arguments.threads, False)["min_ms"])
        if call:
            peers.append(window_ms(call, SECONDS))
    bound = bound_ms(row, first["peaks"])
    out = {
        "kernel": row.name,
        "size": row.size,
        "ms": min(times),
        "bound_ms": bound,
        "of_bound": bound / min(times),
    }
    return (
        out
        | ({"against_ms": min(others)} if others else {})
        | ({"peer_ms": min(peers)} if peers else {})
    )


def line_of(result: dict) -> str:
    if "why" in result:
        return f"{result['kernel']:28} {result['size']:30} not run: {result['why']}"
    against = (
        f"  {result['against_ms']:9.3f} ms {result['against_ms'] / result['ms']:6.2f}x"
        if "against_ms" in result
        else ""
    )
    peer = (
        f"  peer {result['peer_ms']:9.3f} ms {result['peer_ms'] / result['ms']:6.2f}x"
        if "peer_ms" in result
        else ""
    )
    return f"{result['kernel']:28} {result['size']:30} {result['ms']:9.3f} ms {100 * result['of_bound']:5.0f} %{against}{peer}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tenon", default="build/bin/tenon")
    parser.add_argument("--against", help="another build, for the next column")
    parser.add_argument(
        "--peers", action="store_true", help="torch or ONNX Runtime, for a further column"
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", help="parts of names, separated by commas")
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    wanted = arguments.only.split(",") if arguments.only else [""]
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for row in ROWS:
            if not any(part in row.name for part in wanted):
                continue
            try:
                results.append(measured(row, pathlib.Path(folder), arguments))
            except (RuntimeError, ImportError) as why:
                results.append({"kernel": row.name, "size": row.size, "why": str(why)})
            print(line_of(results[-1]), flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")
    return 1 if any("why" in r for r in results) else 0


if __name__ == "__main__":
    sys.exit(main())
