#!/usr/bin/env python3
"""Invalid sizes give errors that name the user's node, when the model is loaded or when it runs.

python3 tests/models/shape_errors.py --tenon build/bin/tenon
"""

import argparse
import subprocess
import sys
import tempfile

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save


def model(node, inputs, constants=(), rank=1):
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * rank)]
    values = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)
        for name, dims in inputs.items()
    ]
    graph = helper.make_graph(
        [node],
        "g",
        values,
        outputs,
        [numpy_helper.from_array(np.array(v), k) for k, v in constants],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def node(op, inputs, **attributes):
    return helper.make_node(op, inputs, ["y"], name="the_node", **attributes)


# name, model, shapes of a valid run (none: the model cannot be loaded), shapes of an invalid run, a
# part of the error
CASES = (
    (
        "reshape",
        model(node("Reshape", ["x", "shape"]), {"x": ["n"]}, [("shape", [2, 3])], 2),
        {"x": (6,)},
        {"x": (5,)},
        "T0608",
    ),
    (
        "reshape by -1",
        model(node("Reshape", ["x", "shape"]), {"x": ["n"]}, [("shape", [4, -1])], 2),
        {"x": (8,)},
        {"x": (9,)},
        "T0608",
    ),
    (
        "reshape of two",
        model(node("Reshape", ["x", "shape"]), {"x": ["n", "m"]}, [("shape", [2, 6])], 2),
        {"x": (3, 4)},
        {"x": (3, 5)},
        "T0607",
    ),
    (
        "broadcast",
        model(node("Add", ["a", "b"]), {"a": ["n"], "b": ["m"]}),
        {"a": (3,), "b": (3,)},
        {"a": (3,), "b": (4,)},
        "T0607",
    ),
    (
        "concat",
        model(node("Concat", ["a", "b"], axis=0), {"a": ["n", "p"], "b": ["m", "q"]}, rank=2),
        {"a": (1, 3), "b": (2, 3)},
        {"a": (1, 3), "b": (2, 4)},
        "T0607",
    ),
    (
        "matmul",
        model(node("MatMul", ["a", "b"]), {"a": [2, "n"], "b": ["m", 3]}, rank=2),
        {"a": (2, 3), "b": (3, 3)},
        {"a": (2, 3), "b": (4, 3)},
        "T0607",
    ),
    (
        "negative size",
        model(node("Pad", ["x", "pads"]), {"x": ["n"]}, [("pads", [-2, -3])]),
        {"x": (6,)},
        {"x": (4,)},
        "T0608",
    ),
    (
        "window of a convolution",
        model(
            node("Conv", ["x", "w"]), {"x": [1, 1, "n"]}, [("w", np.ones((1, 1, 3), np.float32))], 3
        ),
        {"x": (1, 1, 3)},
        {"x": (1, 1, 2)},
        "T0608",
    ),
    (
        "window of a padded convolution",
        model(
            node("Conv", ["x", "w"], pads=[1, 1], strides=[2]),
            {"x": [1, 1, "n"]},
            [("w", np.ones((1, 1, 5), np.float32))],
            3,
        ),
        {"x": (1, 1, 3)},
        {"x": (1, 1, 2)},
        "T0608",
    ),
    (
        "window of a pool",
        model(node("MaxPool", ["x"], kernel_shape=[2, 4]), {"x": [1, 2, "n", "m"]}, rank=4),
        {"x": (1, 2, 2, 4)},
        {"x": (1, 2, 2, 3)},
        "T0608",
    ),
    (
        "window of an average",
        model(node("AveragePool", ["x"], kernel_shape=[3]), {"x": ["b", 2, "n"]}, rank=3),
        {"x": (1, 2, 3)},
        {"x": (1, 2, 2)},
        "T0608",
    ),
    (
        "transposed convolution of nothing",
        model(
            node("ConvTranspose", ["x", "w"], strides=[2]),
            {"x": [1, 1, "n"]},
            [("w", np.ones((1, 1, 3), np.float32))],
            3,
        ),
        {"x": (1, 1, 1)},
        {"x": (1, 1, 0)},
        "T0608",
    ),
    (
        "transposed convolution cut away",
        model(
            node("ConvTranspose", ["x", "w"], pads=[2, 2]),
            {"x": [1, 1, "n"]},
            [("w", np.ones((1, 1, 3), np.float32))],
            3,
        ),
        {"x": (1, 1, 3)},
        {"x": (1, 1, 2)},
        "T0608",
    ),
    (
        "transposed convolution to a size",
        model(
            node("ConvTranspose", ["x", "w"], output_shape=[6]),
            {"x": [1, 1, "n"]},
            [("w", np.ones((1, 1, 3), np.float32))],
            3,
        ),
        {"x": (1, 1, 4)},
        {"x": (1, 1, 3)},
        "T0608",
    ),
    (
        "same padding of nothing",
        model(
            node("MaxPool", ["x"], kernel_shape=[3], strides=[2], auto_pad="SAME_UPPER"),
            {"x": [1, 2, "n"]},
            rank=3,
        ),
        {"x": (1, 2, 1)},
        {"x": (1, 2, 0)},
        "T0608",
    ),
    (
        "window rounded up",
        model(
            node("MaxPool", ["x"], kernel_shape=[4], strides=[2], ceil_mode=1),
            {"x": [1, 2, "n"]},
            rank=3,
        ),
        {"x": (1, 2, 3)},
        {"x": (1, 2, 2)},
        "T0608",
    ),
    (
        "reflection of nothing",
        model(node("Pad", ["x", "pads"], mode="reflect"), {"x": ["n"]}, [("pads", [1, 1])]),
        {"x": (2,)},
        {"x": (0,)},
        "T0608",
    ),
    (
        "window of frames without a dim",
        model(
            node("STFT", ["x", "step", "w", "length"]),
            {"x": [1, 8]},
            [("step", np.int64(2)), ("w", np.float32(1)), ("length", np.int64(4))],
            4,
        ),
        None,
        {"x": (1, 8)},
        "its window needs rank 1",
    ),
    (
        "signal of any length",
        model(
            node("STFT", ["x", "step", "", "length"]),
            {"x": [1, "n"]},
            [("step", np.int64(2)), ("length", np.int64(4))],
            4,
        ),
        None,
        {"x": (1, 8)},
        "--dim L=N",
    ),
    (
        "transform of any length",
        model(node("DFT", ["x"]), {"x": [1, "n", 1]}, rank=3),
        None,
        {"x": (1, 8, 1)},
        "--dim L=N",
    ),
    (
        "onesided inverse of real numbers",
        model(node("DFT", ["x"], inverse=1, onesided=1), {"x": [1, 5, 1]}, rank=3),
        None,
        {"x": (1, 5, 1)},
        "T0713",
    ),
    (
        "window of known sizes",
        model(
            node("Conv", ["x", "w"]), {"x": [1, 1, 2]}, [("w", np.ones((1, 1, 3), np.float32))], 3
        ),
        None,
        {"x": (1, 1, 2)},
        "T0713",
    ),
    (
        "reshape of known sizes",
        model(node("Reshape", ["x", "shape"]), {"x": [5]}, [("shape", [2, 3])], 2),
        None,
        {"x": (5,)},
        "T0713",
    ),
    (
        "broadcast of known sizes",
        model(node("Add", ["a", "b"]), {"a": [3], "b": [4]}),
        None,
        {"a": (3,), "b": (4,)},
        "T0713",
    ),
    (
        "negative size of known sizes",
        model(node("Pad", ["x", "pads"]), {"x": [4]}, [("pads", [-2, -3])]),
        None,
        {"x": (4,)},
        "T0713",
    ),
)


def run(tenon, path, feeds, device):
    with tempfile.TemporaryDirectory() as folder:
        command = [tenon, "run", path, "--device", device]
        for name, shape in feeds.items():
            np.save(f"{folder}/{name}.npy", np.ones(shape, np.float32))
            command += ["--input", f"{name}={folder}/{name}.npy"]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def check(tenon, proto, right, wrong, code, device):
    with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
        save(proto, file.name)
        if right is not None:
            done = run(tenon, file.name, right, device)
            if done.returncode != 0:
                return f"the right sizes fail: {done.stderr.strip()[:400]}"
        done = run(tenon, file.name, wrong, device)
    if done.returncode != 2:
        return f"exit status {done.returncode}: {done.stdout.strip()[:200]} {done.stderr.strip()[:400]}"
    if code not in done.stderr or "the_node" not in done.stderr:
        return f"the error does not hold {code} and the node's name: {done.stderr.strip()[:400]}"
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tenon", required=True)
    parser.add_argument("--devices", default="reference,cpu")
    options = parser.parse_args()
    failed = 0
    for name, proto, right, wrong, code in CASES:
        for device in options.devices.split(","):
            text = check(options.tenon, proto, right, wrong, code, device)
            print(f"{'FAIL' if text else 'ok  '} {name} on {device}{': ' if text else ''}{text}")
            failed += bool(text)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
