#!/usr/bin/env python3
"""Nodes of ONNX files that ops and importers of a plugin take, and what is said about nodes that
nothing takes, or that are wrong.

    python3 tests/models/plugin_ops.py --tenon build/bin/tenon --plugin build/tests/plugins/foreign
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, save

X = np.array([0.5, 1, 2, 4], np.float32)


def model(
    nodes, outputs=("y",), domains=(("acme", 1), ("com.acme", 2), ("org.acme", 1)), functions=()
):
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])],
        [helper.make_empty_tensor_value_info(o) for o in outputs],
    )
    opsets = [helper.make_opsetid("", 17)] + [helper.make_opsetid(*d) for d in domains]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8, functions=functions)


def node(op, domain, inputs=("x",), outputs=("y",), **attributes):
    return helper.make_node(op, list(inputs), list(outputs), domain=domain, name="it", **attributes)


def mish2(x):
    return x * np.tanh(np.log1p(np.exp(x))) + 1


def offset(*inputs, **attributes):
    return node("Offset", "com.acme", inputs or ("x",), **attributes)


FUNCTION = helper.make_function(
    "fun",
    "Scaled",
    ["x"],
    ["y"],
    [helper.make_node("Offset", ["x"], ["y"], domain="com.acme", shape=[1, 4])],
    [helper.make_opsetid("com.acme", 2)],
    ["scale"],
)
FUNCTION.node[0].attribute.append(helper.make_attribute_ref("scale", onnx.AttributeProto.FLOAT))

# name, model, what y is
RIGHT = [
    ("by its name", model([node("mish2", "acme")]), mish2(X)),
    ("by a declared name", model([offset(shape=[3, 4], scale=2, times=3)]), np.tile(6 * X, (3, 1))),
    ("with an optional input", model([offset("x", "x", shape=[1, 4])]), 2 * X[None]),
    ("with an absent input", model([offset("x", "", shape=[1, 4])]), X[None]),
    (
        "to an ONNX type",
        model([offset(shape=[1, 4], dtype=TensorProto.INT32, sign="minus")]),
        -X[None].astype(np.int32),
    ),
    ("to a named type", model([offset(shape=[1, 4], dtype="f64")]), X[None].astype(np.float64)),
    (
        "two results",
        model([node("Offset", "com.acme", outputs=["row", "y"], shape=[2, 4], scale=2.0)]),
        2 * X,
    ),
    (
        "by an importer",
        model([node("LogOf", "org.acme", base=4)]),
        (np.log(X) / np.log(4)).astype(np.float32),
    ),
    (
        "by a newer importer",
        model([node("LogOf", "org.acme")], domains=[("org.acme", 3)]),
        np.exp(X),
    ),
    (
        "in a function",
        model(
            [node("Scaled", "fun", scale=0.5)],
            domains=[("com.acme", 2), ("fun", 1)],
            functions=[FUNCTION],
        ),
        X[None] / 2,
    ),
]
# name, model, what the message has
WRONG = [
    (
        "a misspelt op",
        model([node("mish3", "acme")]),
        ["T0704", "'mish3' of domain 'acme'", "did you mean `mish2`?"],
    ),
    (
        "an unknown domain",
        model([node("Foo", "ai.vendor")], domains=[("ai.vendor", 1)]),
        ["T0704", "no plugin here", "TENON_PLUGIN_ADD"],
    ),
    (
        "a domain that is not imported",
        model([node("mish2", "acme")], domains=[]),
        ["T0704", "opset_import"],
    ),
    (
        "a domain that is too old",
        model([offset(shape=[1, 4])], domains=[("com.acme", 1)]),
        ["T0704", "'Offset' of domain 'com.acme', opset 1", "known from opset 2 on"],
    ),
    ("an op of ONNX, misspelt", model([node("Reluu", "")]), ["T0704", "did you mean `Relu`?"]),
    (
        "an op that ONNX does not have",
        model([node("Frobnicate", "")]),
        ["T0704", "ONNX has no operator of this name"],
    ),
    (
        "an op of ONNX on strings",
        model([node("StringNormalizer", "")]),
        ["T0704", "it works on strings, which Tenon does not have"],
    ),
    (
        "an op of ONNX that is not imported",
        model([node("DeformConv", "")]),
        ["T0704", "it is not imported yet"],
    ),
    (
        "an op of ONNX in a model of an old opset",
        model([node("Attention", "")]),
        ["T0704", "known from opset 23 on"],
    ),
    (
        "too many inputs",
        model([node("mish2", "acme", ["x", "x"])]),
        ["T0709", "'it'", "2 inputs, and takes 1"],
    ),
    ("a missing input", model([node("mish2", "acme", [""])]), ["T0709", "input 0 is missing"]),
    (
        "too many outputs",
        model([node("mish2", "acme", outputs=["y", "z"])]),
        ["T0709", "2 outputs", "gives 1"],
    ),
    (
        "an unknown attribute",
        model([node("mish2", "acme", beta=1.0)]),
        ["T0708", "no attribute 'beta'", "it has none"],
    ),
    ("a missing attribute", model([offset()]), ["T0708", "lacks the attribute 'shape'"]),
    (
        "an attribute of another kind",
        model([offset(shape=[1, 4], times=1.5)]),
        ["T0708", "'times' must be an integer"],
    ),
    (
        "a size below 0",
        model([offset(shape=[-1, 4])]),
        ["T0708", "'shape' must be a list of sizes"],
    ),
    (
        "an unknown element type",
        model([offset(shape=[1, 4], dtype=99)]),
        ["T0708", "'dtype' must be an element type"],
    ),
    ("a text that is not a choice", model([offset(shape=[1, 4], sign="times")]), ["'it'", "sign"]),
    ("a broken constraint", model([offset(shape=[1, 4], times=0)]), ["'it'", "C1", "times is 0"]),
    (
        "a wrong attribute of an importer",
        model([node("LogOf", "org.acme", bass=3)]),
        ["T0715", "'it'", "one integer, base"],
    ),
    ("an importer that gives nothing", model([node("Nothing", "org.acme")]), ["T0714", "output 0"]),
    (
        "a tensor for an importer",
        model([node("LogOf", "org.acme", base=helper.make_tensor("t", 1, [1], [1.0]))]),
        ["T0708", "tensor"],
    ),
]


def run(options, proto, device, folder):
    path = pathlib.Path(folder) / "model.onnx"
    save(proto, str(path))
    np.save(f"{folder}/x.npy", X)
    command = [
        options.tenon,
        "run",
        str(path),
        "--input",
        f"x={folder}/x.npy",
        "--device",
        device,
        "--output-dir",
        folder,
    ]
    environment = {**os.environ, "TENON_PLUGIN_ADD": options.plugin}
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, env=environment
    )


def right(options, proto, want, device):
    with tempfile.TemporaryDirectory() as folder:
        done = run(options, proto, device, folder)
        if done.returncode != 0:
            return done.stderr.strip()[:500]
        got = np.load(f"{folder}/y.npy")
        close = (
            got.shape == want.shape
            and got.dtype == want.dtype
            and np.allclose(got, want, rtol=1e-5, atol=1e-6)
        )
        return "" if close else f"{got.dtype}{got} is not {want.dtype}{want}"


def wrong(options, proto, parts):
    with tempfile.TemporaryDirectory() as folder:
        done = run(options, proto, "reference", folder)
        if done.stderr.count(folder) > 1:
            return f"the path is printed more than once: {done.stderr[:500]}"
        missing = [p for p in parts if p not in done.stderr]
        if done.returncode != 2:
            return f"exit status {done.returncode}: {done.stderr[:300]}"
        return f"{missing} not in: {done.stderr.strip()[:500]}" if missing else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tenon", required=True)
    parser.add_argument("--plugin", required=True)
    options = parser.parse_args()
    failed = 0
    results = [
        (f"{name} on {device}", right(options, proto, want, device))
        for device in ("reference", "cpu")
        for name, proto, want in RIGHT
    ]
    results += [(name, wrong(options, proto, parts)) for name, proto, parts in WRONG]
    for name, text in results:
        print(f"{'FAIL' if text else 'ok  '} {name}{': ' if text else ''}{text}")
        failed += bool(text)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
