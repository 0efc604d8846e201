#!/usr/bin/env python3
"""What the standard says and few models do: defaults of functions' attributes, reductions over no
axes, slices from before the start, sums in narrow floats, indices outside, division by 0. Values are
those of ONNX Runtime, or of NumPy in f64; what is wrong in a model is refused with a sentence.

    python3 tests/models/standard.py --tenon build/bin/tenon [--devices reference,cpu]
"""

import argparse
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnx.reference
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

MICROSOFT = "com.microsoft"
RNG = np.random.default_rng(3)
F32, I64 = np.float32, np.int64
node, value = helper.make_node, helper.make_tensor_value_info


def model(
    nodes,
    feeds,
    outputs=("y",),
    constants=None,
    opset=18,
    functions=(),
    domains=(),
    ir_version=10,
    symbolic=False,
):
    """A model whose inputs have the types of `feeds`; with `symbolic` none of their dims is known."""
    inputs = [
        value(
            k,
            helper.np_dtype_to_tensor_dtype(v.dtype),
            [f"{k}{i}" for i in range(v.ndim)] if symbolic else v.shape,
        )
        for k, v in feeds.items()
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        inputs,
        [helper.make_empty_tensor_value_info(o) for o in outputs],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in (constants or {}).items()],
    )
    opsets = [
        helper.make_opsetid("", opset),
        *(helper.make_opsetid(d, 1) for d in (MICROSOFT, *domains)),
    ]
    return helper.make_model(
        graph, opset_imports=opsets, functions=list(functions), ir_version=ir_version
    )


def runtime(made, feeds):
    session = ort.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, feeds)))


class Case:
    """A model, its inputs, and what is expected: arrays by name, words of an error, or ONNX Runtime's."""

    def __init__(self, name, made, feeds, want=None, refused=(), tolerance=1e-5):
        self.name, self.made, self.feeds, self.refused, self.tolerance = (
            name,
            made,
            feeds,
            refused,
            tolerance,
        )
        self.want = want if want is not None or refused else runtime(made, feeds)


def one(
    name,
    op,
    feeds,
    constants=None,
    want=None,
    refused=(),
    tolerance=1e-5,
    outputs=("y",),
    domain="",
    symbolic=False,
    opset=18,
    order=None,
    **attributes,
):
    """A case of a single node, whose operands are the inputs and then the constants."""
    operands = order or [*feeds, *(constants or {})]
    made = model(
        [node(op, operands, list(outputs), name="the node", domain=domain, **attributes)],
        feeds,
        [o for o in outputs if o],
        constants,
        symbolic=symbolic,
        opset=opset,
    )
    return Case(name, made, feeds, want, refused, tolerance)


# ---- Functions ----


def function(name, inputs, outputs, nodes, attributes=(), defaults=()):
    return helper.make_function(
        "own",
        name,
        inputs,
        outputs,
        nodes,
        [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)],
        attributes=list(attributes),
        attribute_protos=[helper.make_attribute(k, v) for k, v in defaults],
    )


def refers(made, name, outside, kind):
    made.attribute.append(onnx.AttributeProto(name=name, ref_attr_name=outside, type=kind))
    return made


def functions():
    x = {"x": RNG.standard_normal((2, 3)).astype(F32)}
    leaky = refers(node("LeakyRelu", ["a"], ["t"]), "alpha", "alpha", onnx.AttributeProto.FLOAT)
    soft = refers(node("Softmax", ["t"], ["b"]), "axis", "axis", onnx.AttributeProto.INT)
    inner = function("Inner", ["a"], ["b"], [leaky, soft], defaults=[("alpha", 0.4), ("axis", 0)])
    for said in ({}, {"alpha": 0.7}, {"axis": 1}, {"alpha": 0.2, "axis": 1}):
        made = model(
            [node("Inner", ["x"], ["y"], domain="own", **said)],
            x,
            functions=[inner],
            domains=["own"],
        )
        yield Case(f"defaults of a function, {said or 'all'}", made, x)
    # The outer function gives the inner one its own default, or what its caller gave.
    call = refers(
        node("Inner", ["a"], ["b"], domain="own"), "alpha", "slope", onnx.AttributeProto.FLOAT
    )
    outer = function("Outer", ["a"], ["b"], [call], defaults=[("slope", 0.3)])
    for said in ({}, {"slope": 0.9}):
        made = model(
            [node("Outer", ["x"], ["y"], domain="own", **said)],
            x,
            functions=[inner, outer],
            domains=["own"],
        )
        yield Case(f"a default through two functions, {said or 'all'}", made, x)
    optional = function(
        "Clipped", ["a", "low", "high"], ["b"], [node("Clip", ["a", "low", "high"], ["b"])]
    )
    made = model(
        [node("Clipped", ["x", "", "top"], ["y"], domain="own")],
        x,
        constants={"top": F32(0.1)},
        functions=[optional],
        domains=["own"],
    )
    yield Case("an input that a call leaves out", made, x)
    made = model(
        [node("Inner", ["x"], ["y"], domain="own", name="the node", alhpa=0.5)],
        x,
        functions=[inner],
        domains=["own"],
    )
    yield Case(
        "an attribute that a function has not",
        made,
        x,
        refused=["T0708", "'the node'", "'alhpa'", "does not declare"],
    )


# ---- Values ----


def reductions():
    x = {"x": np.array([[-3.0, 2.0, 0.5]], F32)}
    for op in (
        "ReduceL1",
        "ReduceL2",
        "ReduceSumSquare",
        "ReduceLogSum",
        "ReduceLogSumExp",
        "ReduceMean",
        "ReduceSum",
        "ReduceMax",
        "ReduceProd",
    ):
        there = {"x": np.abs(x["x"])} if op == "ReduceLogSum" else x
        yield one(f"{op} over no axes", op, there, noop_with_empty_axes=1)
        yield one(
            f"{op} over an empty list",
            op,
            there,
            {"axes": np.array([], I64)},
            noop_with_empty_axes=1,
            keepdims=0,
        )
        yield one(f"{op} over all", op, there, {"axes": np.array([], I64)}, keepdims=0)
    yield one(
        "a mean of no integers",
        "ReduceMean",
        {"x": np.zeros((0, 2), np.int32)},
        {"axes": np.array([0])},
        refused=["T0713", "no integers"],
    )


def narrow(op, x, exact, **attributes):
    """In f16 and bf16, against f64; squares leave the range of f16 or lose bf16's digits."""
    for kind, digits in ((np.float16, 2e-3), ("bfloat16", 1.6e-2)):
        if kind == "bfloat16":
            import ml_dtypes

            kind = ml_dtypes.bfloat16
        given = x.astype(kind)
        want = exact(given.astype(np.float64))
        cast = model(
            [
                node("Cast", ["x"], ["h"], to=helper.np_dtype_to_tensor_dtype(np.dtype(kind))),
                node(op, ["h", *attributes.pop("more", [])], ["z"], **attributes),
                node("Cast", ["z"], ["y"], to=TensorProto.FLOAT),
            ],
            {"x": x},
            opset=attributes.get("opset", 22),
        )
        yield Case(
            f"{op} in {np.dtype(kind).name}",
            cast,
            {"x": given.astype(F32)},
            want={"y": want.astype(F32)},
            tolerance=digits,
        )


def squares():
    x = np.full((1, 4, 64), 33.0, F32) * np.where(np.arange(64) % 2, 1, -1).astype(F32)
    large = np.full((2, 400), 300.0, F32)
    yield from narrow("ReduceL2", large[:1], lambda v: np.sqrt((v * v).sum(keepdims=True)))
    yield from narrow("ReduceLogSum", large, lambda v: np.log(v.sum(keepdims=True)))
    yield from narrow(
        "ReduceSumSquare",
        np.full((1, 700), 0.5, F32) + np.arange(700, dtype=F32) / 512,
        lambda v: (v * v).sum(keepdims=True),
    )
    yield from narrow(
        "ReduceLogSumExp",
        np.full((1, 300), 12.0, F32),
        lambda v: np.log(np.exp(v).sum(keepdims=True)),
    )
    yield from narrow(
        "ReduceL1", np.full((1, 3000), 1.01, F32), lambda v: np.abs(v).sum(keepdims=True)
    )
    yield from narrow(
        "LpNormalization", large, lambda v: v / np.sqrt((v * v).sum(-1, keepdims=True))
    )
    yield from narrow(
        "MeanVarianceNormalization",
        np.concatenate([large[:, :200] * 2, large[:, :200] * 3], 1).reshape(2, 1, 20, 20),
        lambda v: (v - v.mean((0, 2, 3), keepdims=True)) / v.std((0, 2, 3), keepdims=True),
    )
    yield from narrow(
        "LRN",
        np.full((1, 3, 4), 400.0, F32),
        lambda v: v / (1 + 1e-4 / 3 * v * v * np.array([2, 3, 2])[None, :, None]) ** 0.75,
        size=3,
    )
    yield from narrow("GlobalLpPool", x, lambda v: np.sqrt((v * v).sum(-1, keepdims=True)))
    yield from narrow(
        "LpPool",
        x,
        lambda v: np.sqrt((v * v).reshape(1, 4, 2, 32).sum(-1)),
        kernel_shape=[32],
        strides=[32],
    )


def resized_integers():
    """Cubic curves leave the range of their elements: rounded, and the nearest number of the type."""
    for kind in (np.uint8, np.int8, np.int32):
        x = {"x": np.array([[1, 7, 120, 3], [2, 100, 4, 120]], kind)}
        made = model(
            [node("Resize", ["x", "", "s"], ["y"], name="the node", mode="cubic")],
            x,
            constants={"s": np.array([2, 2.5], F32)},
            opset=19,
        )
        want = onnx.reference.ReferenceEvaluator(made).run(None, x)[0]
        yield Case(f"cubic resizing of {kind.__name__}", made, x, want={"y": want})


def slices():
    x = {"x": np.arange(12, dtype=F32).reshape(4, 3)}
    for start, end, step in (
        (-10, -20, -1),
        (-5, -100, -2),
        (-4, -20, -1),
        (-10, 2, -1),
        (9, -20, -3),
        (-10, 3, 1),
        (3, -10, -1),
    ):
        yield one(
            f"slice {start}:{end}:{step}",
            "Slice",
            x,
            {
                "s": np.array([start]),
                "e": np.array([end]),
                "a": np.array([0]),
                "t": np.array([step]),
            },
        )
    sizes = model(
        [node("Shape", ["x"], ["n"]), node("Slice", ["n", "s", "e", "a", "s"], ["y"])],
        x,
        constants={"s": np.array([-1]), "e": np.array([-9]), "a": np.array([0])},
    )
    yield Case("slice of a shape", sizes, x)


# ---- What a run refuses ----


def outside():
    x, u = RNG.standard_normal((3, 4)).astype(F32), np.ones((1, 4), F32)
    for at, words in ((3, ["3"]), (-4, [])):
        index = np.array([[0, 1, at, 2]])
        for symbolic in (False, True):
            feeds = {"x": x, "i": index, "u": u}
            yield one(
                f"ScatterElements at {at}{', symbolic' * symbolic}",
                "ScatterElements",
                feeds,
                refused=["the node", *words],
                symbolic=symbolic,
            )
        yield one(
            f"ScatterElements of a constant {at}",
            "ScatterElements",
            {"x": x, "u": u},
            {"i": index},
            refused=["the node"],
            order=["x", "i", "u"],
        )
        for reduction in ("none", "add"):
            feeds = {"x": x, "i": np.array([[1], [at]]), "u": np.ones((2, 4), F32)}
            yield one(
                f"ScatterND at {at}, {reduction}",
                "ScatterND",
                feeds,
                refused=["the node"],
                reduction=reduction,
            )
    yield one(
        "ScatterElements inside",
        "ScatterElements",
        {"x": x, "i": np.array([[0, -3, 2, -1]]), "u": u},
    )
    yield one(
        "ScatterND inside",
        "ScatterND",
        {"x": x, "i": np.array([[-1], [0]]), "u": np.ones((2, 4), F32)},
    )
    yield one(
        "TensorScatter beyond its cache",
        "TensorScatter",
        {"x": np.zeros((1, 3, 2), F32), "u": np.ones((1, 2, 2), F32), "at": np.array([2])},
        refused=["the node"],
        opset=24,
    )
    yield one(
        "a reversed sequence that is too long",
        "ReverseSequence",
        {"x": x, "n": np.array([3, 4, 2, 1])},
        refused=["the node"],
        time_axis=0,
        batch_axis=1,
    )
    yield one(
        "MaxUnpool outside",
        "MaxUnpool",
        {"x": np.ones((1, 1, 2), F32), "i": np.array([[[1, 4]]])},
        refused=["T0326", "the node"],
        kernel_shape=[2],
        strides=[2],
    )
    yield one(
        "MaxUnpool inside",
        "MaxUnpool",
        {"x": np.ones((1, 1, 2), F32), "i": np.array([[[1, 2]]])},
        kernel_shape=[2],
        strides=[2],
    )
    cache = np.ones((4, 2), F32)
    yield one(
        "a position beyond the caches",
        "RotaryEmbedding",
        {"x": np.ones((1, 1, 1, 4), F32), "p": np.array([[4]])},
        {"c": cache, "s": cache},
        refused=["the node"],
        order=["x", "c", "s", "p"],
        opset=23,
    )


def division():
    x = np.array([7, -7, 5, 0], np.int32)
    for op in ("Div", "Mod"):
        yield one(
            f"{op} by 0",
            op,
            {"a": x, "b": np.array([2, 0, 3, 1], np.int32)},
            refused=["T0326", "the node", "divided by 0"],
        )
        yield one(
            f"{op} by a constant 0",
            op,
            {"a": x},
            {"b": np.array(0, np.int32)},
            refused=["T0713", "the node", "by 0"],
        )
        yield one(f"{op} of integers", op, {"a": x, "b": np.array([2, 3, -3, 1], np.int32)})
    yield one("Div of floats by 0", "Div", {"a": x.astype(F32), "b": np.zeros(4, F32)})
    sizes = model(
        [node("Shape", ["x"], ["n"]), node("Div", ["n", "zero"], ["y"], name="the node")],
        {"x": x},
        constants={"zero": np.array([0])},
    )
    yield Case("a size by 0", sizes, {"x": x}, refused=["T0713", "the node", "by 0"])


# ---- Valid models that were refused ----


def valid():
    q = RNG.integers(0, 255, (4, 6), np.uint8)
    yield one("a negative scale", "DequantizeLinear", {"x": q}, {"s": F32(-0.5), "z": np.uint8(9)})
    yield one(
        "quantised by a negative scale",
        "QuantizeLinear",
        {"x": RNG.standard_normal((4, 6)).astype(F32)},
        {"s": F32(-0.05), "z": np.uint8(120)},
    )
    signed = RNG.integers(-128, 128, (6, 3), np.int8)
    product = model(
        [
            node("DequantizeLinear", ["x", "s", "z"], ["a"]),
            node("DequantizeLinear", ["w", "t", "o"], ["b"], axis=1),
            node("MatMul", ["a", "b"], ["y"]),
        ],
        {"x": q},
        constants={
            "s": F32(-0.5),
            "z": np.uint8(9),
            "w": signed,
            "t": np.array([0.1, -0.2, 0.3], F32),
            "o": np.zeros(3, np.int8),
        },
    )
    exact = ((q.astype(np.float64) - 9) * -0.5) @ (
        signed * np.array([0.1, -0.2, 0.3])
    )  # ONNX Runtime saturates in between
    yield Case("a product by negative scales", product, {"x": q}, want={"y": exact.astype(F32)})
    yield one(
        "a scale of 0 for one channel",
        "DequantizeLinear",
        {"x": q},
        {"s": np.array([1, -1, 0, 2, 3, 4], F32), "z": np.zeros(6, np.uint8)},
        axis=1,
    )
    feeds = {"x": RNG.standard_normal((5, 2, 3)).astype(F32)}
    weights = {
        "w": RNG.standard_normal((1, 16, 3)).astype(F32),
        "r": RNG.standard_normal((1, 16, 4)).astype(F32) / 3,
    }
    yield one(
        "coupled gates",
        "LSTM",
        feeds,
        weights,
        outputs=("y", "h", "c"),
        hidden_size=4,
        input_forget=1,
        tolerance=1e-4,
    )
    yield one(
        "a hidden size that is not the weights'",
        "LSTM",
        feeds,
        weights,
        hidden_size=5,
        refused=["T0713", "'hidden_size' is 5"],
    )
    lengths = one(
        "a sequence beyond its steps",
        "LSTM",
        {**feeds, "n": np.array([5, 6], np.int32)},
        weights,
        order=["x", "w", "r", "", "n"],
        refused=["the node", "sequence_lens"],
        hidden_size=4,
    )
    yield lengths
    for blocks, zeros in ((2, False), (2, True), (3, False)):
        k = 16 * blocks - (8 if blocks == 3 else 0)
        numbers = RNG.integers(0, 4, (3, 16 * blocks), np.uint8)
        zero = RNG.integers(0, 4, (3, blocks), np.uint8)
        packed = (
            sum(numbers[:, i::4] << (2 * i) for i in range(4))
            .reshape(3, blocks, 4)
            .astype(np.uint8)
        )
        padded = np.pad(zero, ((0, 0), (0, -blocks % 4)))
        packed_zero = sum(padded[:, i::4] << (2 * i) for i in range(4)).astype(np.uint8)
        scales = RNG.standard_normal((3, blocks)).astype(F32)
        real = (
            (numbers - np.repeat(zero if zeros else zero * 0 + 2, 16, 1).astype(F32))
            * np.repeat(scales, 16, 1)
        )[:, :k]
        x = RNG.standard_normal((2, k)).astype(F32)
        yield one(
            f"weights of 2 bits in {blocks} blocks{', zero points' * zeros}",
            "MatMulNBits",
            {"x": x},
            {"w": packed, "s": scales, **({"z": packed_zero} if zeros else {})},
            domain=MICROSOFT,
            K=k,
            N=3,
            bits=2,
            block_size=16,
            want={"y": x @ real.T},
        )
    x = {"x": RNG.standard_normal((2, 3)).astype(F32)}
    yield Case(
        "a newer IR version",
        model([node("Relu", ["x"], ["y"])], x, ir_version=2000),
        x,
        want={"y": np.maximum(x["x"], 0)},
    )


def grouped(past, lengths, now):
    """Attention over pasts of several lengths, in keys that are as many as the longest has."""
    batch, heads, size = len(lengths), 2, 8
    feeds = {
        "q": RNG.standard_normal((batch, now, 2 * heads * size)).astype(F32),
        "k": RNG.standard_normal((batch, now, heads * size)).astype(F32),
        "v": RNG.standard_normal((batch, now, heads * size)).astype(F32),
        "pk": RNG.standard_normal((batch, heads, past, size)).astype(F32),
        "pv": RNG.standard_normal((batch, heads, past, size)).astype(F32),
        "last": np.array(lengths, np.int32) + now - 1,
        "total": np.array(past + now, np.int32),
    }
    made = model(
        [
            node(
                "GroupQueryAttention",
                list(feeds),
                ["y", "nk", "nv"],
                domain=MICROSOFT,
                name="the node",
                num_heads=2 * heads,
                kv_num_heads=heads,
            )
        ],
        feeds,
        ["y", "nk", "nv"],
        symbolic=True,
    )
    for info in made.graph.input[:5]:
        info.type.tensor_type.shape.dim[-1].Clear()
        info.type.tensor_type.shape.dim[-1].dim_value = feeds[info.name].shape[-1]
        if info.name in ("pk", "pv"):
            info.type.tensor_type.shape.dim[1].Clear()
            info.type.tensor_type.shape.dim[1].dim_value = heads
    want = runtime(made, feeds)
    for name in ("nk", "nv"):  # ONNX Runtime leaves what is beyond a sample's keys as it was
        for b, length in enumerate(lengths):
            want[name][b, :, length + now :] = 0
    return Case(f"pasts of {lengths}, {now} more", made, feeds, want=want, tolerance=1e-4)


def choices():
    """Attributes that were read and not obeyed."""
    image = {"x": np.ones((1, 1, 4), F32)}
    yield one(
        "auto_pad with pads",
        "MaxPool",
        image,
        refused=["T0708", "'auto_pad' and 'pads'"],
        kernel_shape=[2],
        auto_pad="SAME_UPPER",
        pads=[1, 0],
    )
    yield one(
        "auto_pad with pads of 0",
        "MaxPool",
        image,
        kernel_shape=[2],
        auto_pad="SAME_UPPER",
        pads=[0, 0],
    )
    yield one(
        "a fraction of integers",
        "Gemm",
        {"a": np.ones((2, 3), np.int32), "b": np.ones((3, 2), np.int32)},
        refused=["T0713", "'alpha' and 'beta' of integers"],
        alpha=0.5,
    )
    yield one(
        "a norm of another power", "LpNormalization", image, refused=["T0708", "'p' is 3"], p=3
    )
    yield one(
        "a norm in f16",
        "LayerNormalization",
        image,
        {"s": np.ones(4, F32)},
        refused=["T0714", "'stash_type'"],
        stash_type=10,
    )
    yield one(
        "a softmax in f64",
        "Attention",
        {k: np.ones((1, 1, 2, 4), F32) for k in "qkv"},
        refused=["T0714", "softmax in f64"],
        opset=23,
        softmax_precision=11,
    )
    yield one(
        "dropout while training",
        "Dropout",
        image,
        refused=["T0714", "'is_test'"],
        opset=6,
        ratio=0.5,
    )


def everything():
    for family in (
        choices, functions, reductions, squares, resized_integers, slices, outside, division, valid,
    ):  # fmt: skip
        yield from family()
    yield grouped(5, [5, 5], 1)
    yield grouped(5, [5, 3], 1)
    yield grouped(4, [1, 4, 2], 1)


def run(tenon, device, case):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.onnx"
        onnx.save(case.made, str(path))
        command = [tenon, "run", str(path), "--device", device, "--output-dir", folder]
        for name, array in case.feeds.items():
            np.save(f"{folder}/in_{name}.npy", array)
            command += ["--input", f"{name}={folder}/in_{name}.npy"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode != 0:
            return done.stderr.strip()[:500]
        return {o.name: np.load(f"{folder}/{o.name}.npy") for o in case.made.graph.output}


def wrong(case, got):
    if case.refused:
        missing = (
            [w for w in case.refused if w not in got] if isinstance(got, str) else ["an error"]
        )
        return f"{missing} not in: {got}" if missing else ""
    if isinstance(got, str):
        return got
    for name, want in case.want.items():
        if got[name].shape != want.shape:
            return f"{name} is {got[name].shape}, expected {want.shape}"
        largest = np.abs(want[np.isfinite(want)]).max(initial=1e-6)
        if not np.allclose(
            got[name], want, rtol=case.tolerance, atol=case.tolerance * largest / 10, equal_nan=True
        ):
            return f"{name} is {got[name].ravel()[:6]}, expected {want.ravel()[:6]}"
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tenon", required=True)
    parser.add_argument("--devices", default="reference,cpu")
    parser.add_argument("--filter", default="")
    options = parser.parse_args()
    ort.set_default_logger_severity(4)
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        tasks = [
            (f"{case.name} on {device}", case, pool.submit(run, options.tenon, device, case))
            for case in everything()
            if options.filter in case.name
            for device in options.devices.split(",")
        ]
        for name, case, task in tasks:
            text = wrong(case, task.result())
            print(f"{'FAIL' if text else 'ok  '} {name}{': ' if text else ''}{text}")
            failed += bool(text)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
