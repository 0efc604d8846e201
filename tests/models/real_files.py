#!/usr/bin/env python3
"""Forms of files that exporters and people produce: a recurrent voice detector with reflect
padding of symbolic length inside an If, a classifier with a dynamically quantised LSTM, a
transformer of fused ops alone, wrong declared shapes, sizes fixed at load, sizes that a model cannot
take. Outputs are compared with ONNX Runtime.

    python3 tests/models/real_files.py --tenon build/bin/tenon --devices reference,cpu

The networks of rapidocr-onnxruntime run with default random sizes, where the package is installed.
"""

import argparse
import logging
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import ocr
import onnx
import onnxruntime
from exact_runtime import exact_options
from onnx import TensorProto, helper, numpy_helper
from onnxruntime import quantization

RNG = np.random.default_rng(11)
TOLERANCE = 1e-4
MICROSOFT = "com.microsoft"
FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
value, node = helper.make_tensor_value_info, helper.make_node


def floats(*shape):
    return (RNG.random(shape) * 2 - 1).astype(np.float32)


def model(nodes, inputs, outputs, constants):
    graph = helper.make_graph(
        nodes, "g", inputs, outputs, [numpy_helper.from_array(v, k) for k, v in constants.items()]
    )
    return helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(MICROSOFT, 1)],
        ir_version=8,
    )


def fused(op, inputs, outputs, **attributes):
    return node(op, inputs, outputs, domain=MICROSOFT, **attributes)


def lstm_classifier():
    """Words of any number, an LSTM of both directions, classes; quantised by onnxruntime's tool."""
    wide, hidden = 12, 16
    constants = {
        "words": floats(30, wide),
        "w": floats(2, 4 * hidden, wide),
        "r": floats(2, 4 * hidden, hidden),
        "b": floats(2, 8 * hidden),
        "c": floats(2 * hidden, 5),
        "cb": floats(5),
        "shape": np.array([-1, 2 * hidden]),
    }
    nodes = [
        node("Gather", ["words", "ids"], ["e"]),
        node("Transpose", ["e"], ["steps"], perm=[1, 0, 2]),
        node(
            "LSTM",
            ["steps", "w", "r", "b"],
            ["", "last"],
            hidden_size=hidden,
            direction="bidirectional",
        ),
        node("Transpose", ["last"], ["turned"], perm=[1, 0, 2]),
        node("Reshape", ["turned", "shape"], ["flat"]),
        node("MatMul", ["flat", "c"], ["product"]),
        node("Add", ["product", "cb"], ["scores"]),
        node("Softmax", ["scores"], ["y"]),
    ]
    made = model(
        nodes,
        [value("ids", INT64, ["batch", "length"])],
        [value("y", FLOAT, ["batch", 5])],
        constants,
    )
    with tempfile.TemporaryDirectory() as folder:
        onnx.save(made, f"{folder}/f32.onnx")
        quantization.quantize_dynamic(
            f"{folder}/f32.onnx", f"{folder}/int8.onnx", weight_type=quantization.QuantType.QInt8
        )
        made = onnx.load(f"{folder}/int8.onnx")
    assert "DynamicQuantizeLSTM" in {n.op_type for n in made.graph.node}
    return made, [{"ids": RNG.integers(0, 30, shape)} for shape in ((2, 7), (1, 3))]


def fused_transformer():
    """A transformer as ONNX Runtime's optimiser leaves it: one layer for each kind of attention,
    after a convolution, with every fused op of the optimiser but those of blocked layouts."""
    wide, heads = 32, 2
    size, half = wide // heads, wide // heads // 2
    ids, constants, nodes = value("ids", TensorProto.INT32, ["batch", 6]), {}, []

    def weight(*shape):
        constants[f"w{len(constants)}"] = floats(*shape) * np.float32(0.3)
        return f"w{len(constants) - 1}"

    def add(op, inputs, outputs=1, **attributes):
        names = [f"{op}{len(nodes)}_{i}" for i in range(outputs)]
        nodes.append(fused(op, inputs, names, **attributes))
        return names[0] if outputs == 1 else names

    def skip(x, residual):
        return add(
            "SkipLayerNormalization", [x, residual, weight(wide), weight(wide), weight(wide)]
        )

    def linear(x):
        return add("FusedMatMul", [x, weight(wide, wide)], alpha=0.5, transB=1)

    x = add(
        "EmbedLayerNormalization",
        ["ids", "", weight(20, wide), weight(6, wide), "", weight(wide), weight(wide)],
        2,
    )[0]
    x = skip(add("Attention", [x, weight(wide, 3 * wide), weight(3 * wide)], num_heads=heads), x)
    x = skip(add("BiasGelu", [linear(x), weight(wide)]), x)
    x = skip(
        add(
            "MultiHeadAttention",
            [linear(x), linear(x), linear(x), weight(3 * wide)],
            num_heads=heads,
        ),
        x,
    )
    x = skip(add("FastGelu", [linear(x), weight(wide)]), x)
    constants |= {
        "at": np.array([0]),
        "seen": np.array(6, np.int32),
        "last": np.array([5, 5], np.int32),
    }
    cos, sin = weight(16, half), weight(16, half)
    q, k = (
        add("RotaryEmbedding", [linear(x), "at", cos, sin], num_heads=heads, rotary_embedding_dim=0)
        for _ in range(2)
    )
    seen = add(
        "GroupQueryAttention",
        [q, k, linear(x), "past", "past", "last", "seen"],
        3,
        num_heads=heads,
        kv_num_heads=heads,
    )[0]
    x = skip(add("QuickGelu", [linear(seen)], alpha=1.702), x)
    constants["image"] = np.array([0, 1, 6, wide])
    nodes.append(node("Reshape", [x, "image"], ["picture"]))
    add(
        "FusedConv",
        ["picture", weight(3, 1, 3, 3), weight(3)],
        activation="Relu",
        pads=[1, 1, 1, 1],
    )
    nodes[-1].output[0] = "y"
    made = model(
        nodes,
        [ids, value("past", FLOAT, ["batch", heads, 0, size])],
        [value("y", FLOAT, ["batch", 3, 6, wide])],
        constants,
    )
    return made, [
        {
            "ids": RNG.integers(0, 20, (2, 6)).astype(np.int32),
            "past": np.zeros((2, heads, 0, size), np.float32),
        }
    ]


def voice_detector():
    """Audio of any length in frames of a learned transform, by one of two strides; an LSTM that
    takes and gives its state; a probability."""
    hidden, bins = 6, 8
    constants = {
        "rate": np.array(16000),
        "w": floats(bins, 1, 16),
        "lw": floats(1, 4 * hidden, bins),
        "lr": floats(1, 4 * hidden, hidden),
        "lb": floats(1, 8 * hidden),
        "ow": floats(hidden, 1),
        "axis1": np.array([1]),
        "axis0": np.array([0]),
    }

    def branch(tag, low, high, stride):
        constants[f"pads{tag}"] = np.array([0, 0, low, 0, 0, high])
        return helper.make_graph(
            [
                node("Unsqueeze", ["audio", "axis1"], [f"a{tag}"]),
                node("Pad", [f"a{tag}", f"pads{tag}"], [f"p{tag}"], mode="reflect"),
                node("Conv", [f"p{tag}", "w"], [f"c{tag}"], strides=[stride]),
                node("Relu", [f"c{tag}"], [f"o{tag}"]),
            ],
            tag,
            [],
            [value(f"o{tag}", FLOAT, None)],
        )

    nodes = [
        node("Equal", ["sr", "rate"], ["wide"]),
        node(
            "If",
            ["wide"],
            ["frames"],
            then_branch=branch("T", 6, 10, 8),
            else_branch=branch("E", 3, 5, 4),
        ),
        node("Transpose", ["frames"], ["steps"], perm=[2, 0, 1]),
        node(
            "LSTM",
            ["steps", "lw", "lr", "lb", "", "h", "c"],
            ["all", "hn", "cn"],
            hidden_size=hidden,
        ),
        node("Squeeze", ["all", "axis1"], ["states"]),
        node("MatMul", ["states", "ow"], ["scores"]),
        node("ReduceMean", ["scores"], ["mean"], axes=[0], keepdims=0),
        node("Sigmoid", ["mean"], ["y"]),
    ]
    inputs = [
        value("audio", FLOAT, ["batch", "samples"]),
        value("sr", INT64, []),
        value("h", FLOAT, [1, "batch", hidden]),
        value("c", FLOAT, [1, "batch", hidden]),
    ]
    made = model(nodes, inputs, [value(o, FLOAT, None) for o in ("y", "hn", "cn")], constants)
    state = {"h": floats(1, 2, hidden), "c": floats(1, 2, hidden)}
    feeds = [
        {"audio": floats(2, n), "sr": np.array(rate), **state}
        for n, rate in ((64, 16000), (97, 16000), (40, 8000))
    ]
    return made, feeds


def text_model():
    """Embeddings and a pooled output; shapes are declared wrongly, as hand-edited files have them."""
    nodes = [
        node("Gather", ["table", "ids"], ["e"]),
        node("ReduceMean", ["e"], ["pooled"], axes=[1], keepdims=0),
        node("MatMul", ["pooled", "w"], ["y"]),
    ]
    made = model(
        nodes,
        [value("ids", INT64, ["batch", "length"])],
        [value("y", FLOAT, [1, 77, 9])],
        {"table": floats(20, 8), "w": floats(8, 4)},
    )
    made.graph.value_info.append(value("e", FLOAT, [3]))
    return made, [{"ids": RNG.integers(0, 20, (2, 5))}]


def padded(mode, opset_pads):
    made = model(
        [node("Pad", ["x", "p"], ["y"], mode=mode)],
        [value("x", FLOAT, ["n", "t"])],
        [value("y", FLOAT, None)],
        {"p": np.array(opset_pads)},
    )
    return made, [{"x": floats(2, 5)}, {"x": floats(1, 9)}]


def halves():
    """The branch of a network that halves its input five times and joins it again."""
    x, nodes = "x", []
    for i in range(5):
        nodes.append(node("MaxPool", [x], [f"d{i}"], kernel_shape=[1, 2], strides=[1, 2]))
        x = f"d{i}"
    nodes += [node("Resize", [x, "", "s"], ["up"], mode="nearest"), node("Add", ["up", "x"], ["y"])]
    return model(
        nodes,
        [value("x", FLOAT, [1, 1, 1, "width"])],
        [value("y", FLOAT, None)],
        {"s": np.array([1, 1, 1, 32], np.float32)},
    )


def drawn():
    """Random numbers of several ops; two of one kind, which must differ."""
    nodes = [
        node("RandomNormalLike", ["x"], ["a"], mean=1.0, scale=2.0),
        node("RandomNormalLike", ["x"], ["b"], mean=1.0, scale=2.0),
        node("RandomUniformLike", ["x"], ["u"], low=-1.0, high=3.0),
        node("RandomNormal", [], ["c"], shape=[4000], seed=3.0),
        node("RandomUniform", [], ["d"], shape=[2, 3], dtype=TensorProto.DOUBLE),
        node("Sigmoid", ["x"], ["half"]),
        node("Bernoulli", ["half"], ["e"], dtype=BOOL),
        node("Multinomial", ["x"], ["m"], sample_size=50, dtype=INT64),
    ]
    return model(
        nodes,
        [value("x", FLOAT, ["rows", "columns"])],
        [helper.make_empty_tensor_value_info(o) for o in "abucdem"],
        {},
    )


def wrong_numbers(y, again):
    """What is wrong with the numbers of drawn(), or nothing."""
    checks = {
        "the same at each call": all(np.array_equal(y[k], again[k]) for k in y),
        "two nodes differ": not np.array_equal(y["a"], y["b"]),
        "normal": abs(y["a"].mean() - 1) < 0.1 and abs(y["a"].std() - 2) < 0.1,
        "normal of a shape": abs(y["c"].std() - 1) < 0.1,
        "uniform": y["u"].min() >= -1 and y["u"].max() <= 3 and abs(y["u"].mean() - 1) < 0.1,
        "types": (y["d"].dtype, y["e"].dtype, y["m"].dtype) == (np.float64, np.bool_, np.int64),
        "bernoulli": abs(y["e"].mean() - 0.5) < 0.05,
        "multinomial": y["m"].shape == (40, 50) and y["m"].min() == 0 and y["m"].max() == 99,
    }
    return ", ".join(k for k, holds in checks.items() if not holds)


class Test:
    def __init__(self, options):
        self.tenon, self.devices, self.failed = options.tenon, options.devices.split(","), 0

    def report(self, name, text):
        print(f"{'FAIL' if text else 'ok  '} {name}{': ' if text else ''}{text}", flush=True)
        self.failed += bool(text)

    def run(self, path, folder, feeds, *options):
        command = [self.tenon, "run", str(path), "--output-dir", str(folder), *options]
        for k, array in feeds.items():
            np.save(f"{folder}/in_{k}.npy", array)
            command += ["--input", f"{k}={folder}/in_{k}.npy"]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    def agrees(self, name, made, all_feeds, said="", tolerance=TOLERANCE):
        onnxruntime.set_default_logger_severity(4)
        own = onnxruntime.InferenceSession(
            made.SerializeToString(), exact_options(), providers=["CPUExecutionProvider"]
        )
        for device in self.devices:
            for feeds in all_feeds:
                with tempfile.TemporaryDirectory() as folder:
                    path = pathlib.Path(folder) / "model.onnx"
                    onnx.save(made, str(path))
                    done = self.run(path, folder, feeds, "--device", device)
                    shape = [list(a.shape) for a in feeds.values()]
                    text = (
                        done.stderr.strip()[:500]
                        if done.returncode != 0
                        else ""
                        if said in done.stderr
                        else f"{said} not in {done.stderr}"
                    )
                    for output, want in (
                        zip(own.get_outputs(), own.run(None, feeds)) if not text else ()
                    ):
                        got = np.load(f"{folder}/{output.name}.npy")
                        if got.shape != want.shape or not np.abs(got - want).max(
                            initial=0
                        ) <= tolerance * max(np.abs(want).max(initial=0), 1e-6):
                            text = f"{output.name} differs: {got.shape}, {want.shape}"
                    self.report(f"{name} on {device} at {shape}", text)

    def draws(self):
        for device in self.devices:
            with tempfile.TemporaryDirectory() as folder:
                onnx.save(drawn(), f"{folder}/model.onnx")
                results = []
                for _ in range(2):
                    done = self.run(
                        f"{folder}/model.onnx",
                        folder,
                        {"x": np.zeros((40, 100), np.float32)},
                        "--device",
                        device,
                    )
                    if done.returncode == 0:
                        results.append({k: np.load(f"{folder}/{k}.npy") for k in "abucdem"})
                self.report(
                    f"random numbers on {device}",
                    wrong_numbers(*results) if len(results) == 2 else done.stderr[:400],
                )

    def says(self, name, made, status, parts, *options, feeds=None):
        with tempfile.TemporaryDirectory() as folder:
            path = made
            if not isinstance(made, pathlib.Path):
                path = pathlib.Path(folder) / "model.onnx"
                onnx.save(made, str(path))
            done = self.run(path, folder, feeds or {}, *options)
            text = done.stdout + done.stderr
            missing = [p for p in parts if p not in text]
            wrong = (
                f"exit status {done.returncode}: "
                if done.returncode != status
                else f"{missing} not in "
                if missing
                else ""
            )
            self.report(name, wrong and wrong + text[:500])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tenon", required=True)
    parser.add_argument("--devices", default="reference,cpu")
    options = parser.parse_args()
    logging.disable(logging.WARNING)  # of the tool that quantises
    test = Test(options)
    test.agrees("voice detector", *voice_detector())
    test.agrees("classifier with a quantised LSTM", *lstm_classifier(), tolerance=1e-2)
    test.agrees("transformer of fused ops", *fused_transformer())
    test.agrees(
        "text model of wrong shapes",
        *text_model(),
        said="is declared as [1, 77, 9], and its nodes give [batch, 4]",
    )
    for mode in ("reflect", "edge", "wrap"):
        test.agrees(f"pad {mode}", *padded(mode, [0, 3, 0, 4]))
    test.draws()
    pads = padded("reflect", [0, 1, 0, 1])[0]
    test.says(
        "a dim is fixed",
        pads,
        0,
        ["the model is compiled for t=6 alone", "random inputs with n=1", "f32[1, 8]"],
        "--seed",
        "1",
        "--dim",
        "t=6",
    )
    test.says(
        "two dims are fixed",
        pads,
        0,
        ["n=2, t=6 alone", "f32[2, 8]"],
        "--seed",
        "1",
        "--dim",
        "n=2",
        "--dim",
        "t=6",
    )
    test.says(
        "another dim", pads, 2, ["T0006", "no symbolic dim `m`"], "--seed", "1", "--dim", "m=6"
    )
    test.says(
        "no number", pads, 2, ["T0006", "`t=six` is not NAME=N"], "--seed", "1", "--dim", "t=six"
    )
    test.says(
        "random sizes that fit",
        halves(),
        0,
        ["random inputs with width=32", "f32[1, 1, 1, 32]"],
        "--seed",
        "1",
    )
    test.says(
        "a size that does not fit",
        halves(),
        2,
        ["T0607", "the dim `width` must be a multiple of 32, and is 40 by the input `x`"],
        feeds={"x": floats(1, 1, 1, 40)},
    )
    test.says(
        "a fixed size that does not fit",
        halves(),
        2,
        ["T0607", "the dim `width` must be a multiple of 32, and is 40 by --dim"],
        "--seed",
        "1",
        "--dim",
        "width=40",
    )
    models = ocr.package_models()
    if models is None:
        print("skip the networks of rapidocr-onnxruntime: the package is not installed")
    for name in ocr.SHAPES if models else ():
        test.says(
            f"{name} of random sizes",
            models / f"{name}.onnx",
            0,
            ["check:", "agrees with reference"],
            "--seed",
            "1",
            "--device",
            "cpu",
            "--check",
            "reference",
        )
    return 1 if test.failed else 0


if __name__ == "__main__":
    sys.exit(main())
