#!/usr/bin/env python3
"""Imported ops over symbolic dims, where runs compute the sizes, compared with ONNX's reference and
ONNX Runtime.

    python3 tests/models/onnx_symbolic.py --tenon build/bin/tenon --devices reference,cpu
"""

import argparse
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnx.reference
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

RNG = np.random.default_rng(3)


def floats(*shape):
    return (RNG.random(shape) * 2 - 1).astype(np.float32)


def model(nodes, inputs, outputs, constants, opset):
    """`inputs`: name -> (array, which dims are symbolic)."""
    infos = [
        helper.make_tensor_value_info(
            name,
            helper.np_dtype_to_tensor_dtype(a.dtype),
            [f"{name}{i}" if s else d for i, (d, s) in enumerate(zip(a.shape, symbolic))],
        )
        for name, (a, symbolic) in inputs.items()
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        infos,
        [helper.make_empty_tensor_value_info(o) for o in outputs],
        [numpy_helper.from_array(v, k) for k, v in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def cases():
    """(name, nodes, inputs, outputs, constants, opset)"""
    x, seen = floats(1, 2, 5, 6), [1, 0, 1, 1]
    node = helper.make_node
    for mode, coordinates, scale in [
        ("nearest", "half_pixel", 2.0),
        ("nearest", "asymmetric", 1.5),
        ("nearest", "align_corners", 0.5),
        ("linear", "half_pixel", 1.5),
        ("linear", "align_corners", 2.0),
        ("linear", "pytorch_half_pixel", 0.5),
        ("linear", "half_pixel_symmetric", 1.5),
        ("cubic", "half_pixel", 1.5),
        ("cubic", "asymmetric", 2.0),
    ]:
        resize = node(
            "Resize",
            ["x", "", "s"],
            ["y"],
            mode=mode,
            coordinate_transformation_mode=coordinates,
            nearest_mode="floor" if coordinates == "asymmetric" else "round_prefer_floor",
        )
        yield (
            f"resize {mode} {coordinates} {scale}",
            [resize],
            {"x": (x, seen)},
            ["y"],
            {"s": np.array([1, 1, scale, scale], np.float32)},
            20,
        )
    sized = [node("Shape", ["z"], ["n"]), node("Resize", ["x", "", "", "n"], ["y"], mode="linear")]
    yield (
        "resize to another's size",
        sized,
        {"x": (x, seen), "z": (floats(1, 2, 9, 4), seen)},
        ["y"],
        {},
        20,
    )
    yield (
        "conv_transpose of blocks",
        [node("ConvTranspose", ["x", "w"], ["y"], strides=[2, 2])],
        {"x": (x, seen)},
        ["y"],
        {"w": floats(2, 3, 2, 2)},
        20,
    )
    yield (
        "conv_transpose",
        [
            node(
                "ConvTranspose",
                ["x", "w"],
                ["y"],
                strides=[2, 2],
                pads=[1, 1, 1, 1],
                output_padding=[1, 1],
            )
        ],
        {"x": (x, seen)},
        ["y"],
        {"w": floats(2, 3, 3, 3)},
        20,
    )
    yield (
        "top_k",
        [node("TopK", ["x", "k"], ["y", "i"], axis=2)],
        {"x": (x, seen)},
        ["y", "i"],
        {"k": np.array([3])},
        20,
    )
    yield (
        "grid_sample",
        [node("GridSample", ["x", "g"], ["y"], padding_mode="reflection")],
        {"x": (x, seen), "g": (floats(1, 4, 3, 2), [1, 1, 1, 0])},
        ["y"],
        {},
        20,
    )
    yield (
        "attention",
        [node("Attention", ["q", "k", "v"], ["y"], is_causal=1)],
        {
            "q": (floats(2, 4, 3, 8), [0, 0, 1, 0]),
            "k": (floats(2, 2, 5, 8), [0, 0, 1, 0]),
            "v": (floats(2, 2, 5, 8), [0, 0, 1, 0]),
        },
        ["y"],
        {},
        23,
    )
    yield (
        "einsum",
        [node("Einsum", ["a", "b"], ["y"], equation="bij,bkj->bik")],
        {"a": (floats(1, 8, 6), [1, 1, 1]), "b": (floats(1, 7, 6), [1, 1, 1])},
        ["y"],
        {},
        20,
    )
    for op, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4)):
        for lengths in (False, True):
            names = ["x", "w", "r", "b", "n" if lengths else "", "h"] + ["h", "p"] * (op == "LSTM")
            constants = {
                "w": floats(2, gates * 6, 4),
                "r": floats(2, gates * 6, 6),
                "b": floats(2, 2 * gates * 6),
                "h": floats(2, 3, 6),
            }
            if op == "LSTM":
                constants["p"] = floats(2, 18)
            if lengths:
                constants["n"] = np.array([5, 2, 3], np.int32)
            outputs = ["y", "yh"] + ["yc"] * (op == "LSTM")
            yield (
                f"{op} {lengths}",
                [node(op, names, outputs, hidden_size=6, direction="bidirectional", clip=0.7)],
                {"x": (floats(5, 3, 4), [1, 0, 0])},
                outputs,
                constants,
                17,
            )


def expected(name, made, feeds):
    if not name.startswith(("RNN", "GRU", "LSTM")):
        return onnx.reference.ReferenceEvaluator(made).run(None, feeds)
    for output in made.graph.output:  # ONNX's reference omits lengths and clipping
        output.type.tensor_type.elem_type = TensorProto.FLOAT
    return onnxruntime.InferenceSession(
        made.SerializeToString(), providers=["CPUExecutionProvider"]
    ).run(None, feeds)


def check(tenon, device, folder, name, made, feeds, wanted):
    path = os.path.join(folder, "model.onnx")
    onnx.save(made, path)
    command = [tenon, "run", path, "--device", device, "--output-dir", folder]
    for key, value in feeds.items():
        np.save(os.path.join(folder, f"{key}.npy"), value)
        command += ["--input", f"{key}={os.path.join(folder, key)}.npy"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        return done.stderr.strip()
    for info, want in zip(made.graph.output, wanted):
        got = np.load(os.path.join(folder, f"{info.name}.npy"))
        if got.shape != want.shape:
            return f"{info.name} has shape {got.shape}, expected {want.shape}"
        if not np.allclose(got, want, rtol=1e-5, atol=1e-5):
            return f"{info.name} differs by {np.abs(got - want).max()}"
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tenon", default="build/bin/tenon")
    parser.add_argument("--devices", default="reference,cpu")
    options = parser.parse_args()
    failed = count = 0
    for name, nodes, inputs, outputs, constants, opset in cases():
        made = model(nodes, inputs, outputs, constants, opset)
        feeds = {k: a for k, (a, _) in inputs.items()}
        wanted = expected(name, made, feeds)
        for device in options.devices.split(","):
            with tempfile.TemporaryDirectory() as folder:
                wrong = check(options.tenon, device, folder, name, made, feeds, wanted)
            count += 1
            if wrong:
                failed += 1
                print(f"{name} on {device}: {wrong}")
    print(f"{count - failed} of {count} agree")
    return 1 if failed or not count else 0


if __name__ == "__main__":
    sys.exit(main())
