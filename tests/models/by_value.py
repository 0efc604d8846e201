#!/usr/bin/env python3
"""Shapes, axes and counts as inputs of the model: one program for many values, the variants that it
compiles, and what it refuses.

    python3 tests/models/by_value.py --tenon build/bin/tenon --tool build/tests/model_shapes
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import shapes
from onnx import TensorProto, helper, numpy_helper, save

I64, F32 = TensorProto.INT64, TensorProto.FLOAT
KEPT = 8  # variants by value that are kept at a time
X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def ints(*numbers):
    return np.array(numbers, np.int64)


def model(nodes, inputs, rank, constants=(), dtype=F32):
    infos = [helper.make_tensor_value_info(name, t, dims) for name, t, dims in inputs]
    output = helper.make_tensor_value_info("y", dtype, [f"y{i}" for i in range(rank)])
    graph = helper.make_graph(
        nodes, "g", infos, [output], [numpy_helper.from_array(v, k) for k, v in constants]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def one(op, inputs, rank, **attributes):
    return model(
        [helper.make_node(op, [name for name, _, _ in inputs], ["y"], **attributes)], inputs, rank
    )


XS = ("x", F32, ["a", "b", "c"])


def product_of_reshaped():
    """y = reshape(x, to) w: an input that decides shapes, and one that a device packs."""
    nodes = [
        helper.make_node("Reshape", ["x", "to"], ["r"]),
        helper.make_node("MatMul", ["r", "w"], ["y"]),
    ]
    return model(nodes, [XS, ("to", I64, [2]), ("w", F32, [64, 48])], 2)


def many():
    """(name, model, runs as (feeds, y), whether a general program serves new values)"""
    targets = [
        (2, 12),
        (12, 2),
        (4, 6),
        (6, 4),
        (3, 8),
        (8, 3),
        (1, 24),
        (24, 1),
        (-1, 4),
        (0, -1),
        (2, 12),
    ]
    yield (
        "reshape",
        one("Reshape", [XS, ("to", I64, [2])], 2),
        [({"x": X, "to": ints(*t)}, X.reshape([2 if n == 0 else n for n in t])) for t in targets],
        True,
    )
    yield (
        "expand",
        one("Expand", [("x", F32, [1, "n"]), ("to", I64, [2])], 2),
        [
            ({"x": X[0, :1], "to": ints(n, 4)}, np.broadcast_to(X[0, :1], (n, 4)))
            for n in range(1, 12)
        ],
        True,
    )
    counts = model(
        [helper.make_node("Range", ["zero", "n", "one"], ["y"])],
        [("n", I64, [])],
        1,
        [("zero", np.int64(0)), ("one", np.int64(1))],
        I64,
    )
    yield (
        "range",
        counts,
        [({"n": np.array(n)}, np.arange(n)) for n in (3, 0, 7, 1, 9, 4, -2)],
        True,
    )
    yield (
        "tile",
        one("Tile", [XS, ("n", I64, [3])], 3),
        [({"x": X, "n": ints(1, n, 2)}, np.tile(X, (1, n, 2))) for n in range(0, 10)],
        True,
    )
    yield (
        "slice",
        one("Slice", [XS, ("from", I64, [1]), ("to", I64, [1])], 3),
        [
            ({"x": X[:, :, :], "from": ints(a), "to": ints(b)}, X[a:b])
            for a, b in [(0, 1), (0, 2), (1, 2), (-1, 2), (0, -1), (0, 9), (1, 9), (2, 9), (-2, -1)]
        ],
        True,
    )
    yield (
        "axes",
        one("ReduceSum", [XS, ("axes", I64, [1])], 3, keepdims=1),
        [({"x": X, "axes": ints(a)}, X.sum(a, keepdims=True)) for a in (0, 1, 2, -1, -2, -3, 0, 1)],
        False,
    )
    steps = [(a, b, s) for s in (1, 2, -1) for a, b in ((0, 9), (1, 9), (3, 0), (2, 1))]
    yield (
        "steps",
        one(
            "Slice",
            [
                ("x", F32, [2, 3, 4]),
                ("from", I64, [1]),
                ("to", I64, [1]),
                ("axes", I64, [1]),
                ("steps", I64, [1]),
            ],
            3,
        ),
        [
            (
                {"x": X, "from": ints(a), "to": ints(b), "axes": ints(2), "steps": ints(s)},
                X[:, :, a:b:s],
            )
            for a, b, s in steps
        ],
        False,
    )
    # A size computed from the input: the sum of its numbers.
    nodes = [
        helper.make_node("ReduceSum", ["n"], ["all"], keepdims=0),
        helper.make_node("Cast", ["all"], ["m"], to=I64),
        helper.make_node("Unsqueeze", ["m", "zero"], ["to"]),
        helper.make_node("Expand", ["x", "to"], ["y"]),
    ]
    yield (
        "computed",
        model(nodes, [("x", F32, [1]), ("n", TensorProto.INT32, [2])], 1, [("zero", ints(0))]),
        [
            (
                {"x": X[0, 0, :1], "n": np.array([k, 1], np.int32)},
                np.broadcast_to(X[0, 0, :1], (k + 1,)),
            )
            for k in range(7)
        ],
        True,
    )


def check_many(test, tool, device):
    for name, proto, runs, general in many():
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "model.onnx"
            save(proto, str(path))
            try:
                results, report = shapes.run_many(tool, path, device, [feeds for feeds, _ in runs])
            except RuntimeError as error:
                test.report(f"{name} on {device}", str(error))
                continue
        wrong = [
            shapes.wrong(got, {"y": np.ascontiguousarray(want)})
            for got, (_, want) in zip(results, runs)
        ]
        summary = report["by_value"]
        text = next((f"run {i}: {w}" for i, w in enumerate(wrong) if w), "")
        if not text and (summary["general"] is not general or len(summary["variants"]) > KEPT + 1):
            text = str(summary)
        if (
            not text
            and general
            and not any(v["for"] == "all other values" for v in summary["variants"])
        ):
            text = f"no general variant in {summary}"
        test.report(
            f"{name} on {device}: {summary['compiled']} compiled for {len(runs)} runs", text
        )


class Test:
    def __init__(self, tenon):
        self.tenon, self.failed = tenon, 0

    def report(self, name, text):
        print(f"{'FAIL' if text else 'ok  '} {name}{': ' if text else ''}{text}")
        self.failed += bool(text)

    def refused(self, name, proto, feeds, *words):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "model.onnx"
            save(proto, str(path))
            command = [self.tenon, "run", str(path), "--device", "cpu"]
            for key, array in feeds.items():
                np.save(f"{folder}/{key}.npy", array)
                command += ["--input", f"{key}={folder}/{key}.npy"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        missing = [w for w in words if w not in done.stderr]
        self.report(
            name,
            ""
            if done.returncode == 2 and not missing
            else f"{missing} is not in: {done.returncode} {done.stderr[:600]}",
        )


def check_refused(test):
    reshape = model(
        [helper.make_node("Reshape", ["x", "to"], ["y"], name="bad_one")], [XS, ("to", I64, [2])], 2
    )
    test.refused(
        "two of -1", reshape, {"x": X, "to": ints(-1, -1)}, "T0713", "bad_one", "to = [-1, -1]"
    )
    test.refused("does not fit", reshape, {"x": X, "to": ints(5, 5)}, "T0607", "bad_one")
    test.refused("a negative size", reshape, {"x": X, "to": ints(-3, 4)}, "T0713", "bad_one", "-3")
    loose = model(
        [helper.make_node("Expand", ["x", "to"], ["y"], name="big_one")],
        [("x", F32, [1]), ("to", I64, ["n"])],
        1,
    )
    test.refused(
        "too many values",
        loose,
        {"x": X[0, 0, :1], "to": np.ones(5000, np.int64)},
        "T0619",
        "big_one",
        "`to`",
        "5000",
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tenon", default="build/bin/tenon")
    parser.add_argument("--tool", default="build/tests/model_shapes")
    parser.add_argument(
        "--export",
        action="store_true",
        help="write the models in Inputs, which by_value_test.cpp and stable_test.cpp read",
    )
    parser.add_argument("--devices", default="reference,cpu")
    options = parser.parse_args()
    if options.export:
        inputs = pathlib.Path(__file__).with_name("Inputs")
        save(one("Reshape", [XS, ("to", I64, [2])], 2), str(inputs / "by_value.onnx"))
        save(product_of_reshaped(), str(inputs / "product_by_value.onnx"))
        return 0
    test = Test(options.tenon)
    for device in options.devices.split(","):
        check_many(test, options.tool, device)
    check_refused(test)
    return 1 if test.failed else 0


if __name__ == "__main__":
    sys.exit(main())
