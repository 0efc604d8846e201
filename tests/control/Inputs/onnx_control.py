"""If, Loop and Scan as exporters write them, through the onnx frontend: onnx_control.py FOLDER
[DEVICE OPTIONS...]"""

import pathlib
import subprocess
import sys

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

f32 = np.float32
vi = h.make_tensor_value_info


def const(name, value):
    return h.make_node("Constant", [], [name], value=nh.from_array(value))


def model(nodes, ins, outs):
    made = h.make_model(h.make_graph(nodes, "g", ins, outs), opset_imports=[h.make_opsetid("", 17)])
    made.ir_version = 8
    onnx.checker.check_model(made)
    return made


def rows(name, *dims):
    return vi(name, T.FLOAT, list(dims) or ["n", 4])


def branch(op, inputs, out):
    return h.make_graph([h.make_node(op, inputs, [out])], out, [], [rows(out)])


def branches(x):
    m = model(
        [
            h.make_node("ReduceSum", ["x"], ["s"], keepdims=0),
            const("z", np.array(0, f32)),
            h.make_node("Greater", ["s", "z"], ["p"]),
            h.make_node(
                "If",
                ["p"],
                ["y"],
                then_branch=branch("Mul", ["x", "x"], "t"),
                else_branch=branch("Neg", ["x"], "e"),
            ),
        ],
        [rows("x")],
        [rows("y")],
    )
    yield m, {"x": x}, {"y": x * x}
    yield m, {"x": -x}, {"y": x}
    # A condition on shapes is decided at import; the other branch would be invalid.
    wrong = h.make_graph(
        [h.make_node("MatMul", ["x", "x"], ["w"])], "w", [], [vi("w", T.FLOAT, None)]
    )
    yield (
        model(
            [
                const("p", np.array(True)),
                h.make_node(
                    "If", ["p"], ["y"], then_branch=branch("Neg", ["x"], "t"), else_branch=wrong
                ),
            ],
            [rows("x")],
            [rows("y")],
        ),
        {"x": x},
        {"y": -x},
    )


def loops(x):
    turn = [vi("i", T.INT64, []), vi("c", T.BOOL, [])]
    body = h.make_graph(
        [
            h.make_node("Add", ["v", "x"], ["v2"]),
            h.make_node("Identity", ["c"], ["c2"]),
            h.make_node("ReduceMax", ["v2"], ["s"], keepdims=0),
        ],
        "b",
        turn + [rows("v")],
        [vi("c2", T.BOOL, []), rows("v2"), vi("s", T.FLOAT, [])],
    )
    m = model(
        [const("t", np.array(True)), h.make_node("Loop", ["m", "t", "x"], ["y", "all"], body=body)],
        [vi("m", T.INT64, []), rows("x")],
        [rows("y"), vi("all", T.FLOAT, ["k"])],
    )
    for turns in (0, 1, 5):
        yield (
            m,
            {"m": np.array(turns), "x": x},
            {"y": (turns + 1) * x, "all": np.array([(k + 2) * x.max() for k in range(turns)], f32)},
        )
    body = h.make_graph(
        [
            h.make_node("Concat", ["v", "x"], ["v2"], axis=0),
            const("lim", np.array(4)),
            h.make_node("Less", ["i", "lim"], ["c2"]),
        ],
        "b",
        turn + [rows("v", "k", 4)],
        [vi("c2", T.BOOL, []), rows("v2", "k2", 4)],
    )
    yield (
        model(
            [const("t", np.array(True)), h.make_node("Loop", ["", "t", "x"], ["y"], body=body)],
            [rows("x")],
            [rows("y", "q", 4)],
        ),
        {"x": x},
        {"y": np.concatenate([x] * 6)},
    )
    body = h.make_graph(
        [
            const("one", np.array(1)),
            const("two", np.array(2)),
            h.make_node("Mod", ["i", "two"], ["r"]),
            h.make_node("Equal", ["r", "one"], ["odd"]),
            h.make_node(
                "If",
                ["odd"],
                ["v2"],
                then_branch=branch("Add", ["v", "x"], "a"),
                else_branch=branch("Sub", ["v", "x"], "b"),
            ),
            h.make_node("Identity", ["c"], ["c2"]),
            h.make_node("Identity", ["v2"], ["s"]),
        ],
        "b",
        turn + [rows("v")],
        [vi("c2", T.BOOL, []), rows("v2"), rows("s")],
    )
    yield (
        model(
            [const("m", np.array(3)), h.make_node("Loop", ["m", "", "x"], ["y", "all"], body=body)],
            [rows("x")],
            [rows("y"), rows("all", 3, "n", 4)],
        ),
        {"x": x},
        {"y": 0 * x, "all": np.stack([0 * x, x, 0 * x])},
    )


def scans(x):
    body = h.make_graph(
        [h.make_node("Add", ["s", "a"], ["s2"]), h.make_node("Mul", ["s2", "a"], ["o"])],
        "b",
        [rows("s", 4), rows("a", 4)],
        [rows("s2", 4), rows("o", 4)],
    )
    for back in (0, 1):
        m = model(
            [
                h.make_node(
                    "Scan",
                    ["h", "x"],
                    ["hf", "y"],
                    num_scan_inputs=1,
                    body=body,
                    scan_input_directions=[back],
                    scan_output_directions=[1 - back],
                    scan_output_axes=[1],
                )
            ],
            [rows("h", 4), rows("x")],
            [rows("hf", 4), rows("y", 4, "n")],
        )
        taken = x[::-1] if back else x
        out = np.cumsum(taken, axis=0, dtype=f32) * taken
        yield (
            m,
            {"h": np.zeros(4, f32), "x": x},
            {"hf": x.sum(0), "y": (out if back else out[::-1]).T},
        )


def main():
    folder, options = pathlib.Path(sys.argv[1]), sys.argv[2:]
    folder.mkdir(parents=True, exist_ok=True)
    x = np.random.default_rng(1).random((3, 4), dtype=f32)
    for number, (made, feeds, wanted) in enumerate([*branches(x), *loops(x), *scans(x)]):
        onnx.save(made, folder / "m.onnx")
        command = ["tenon", "run", folder / "m.onnx", "--output-dir", folder, *options]
        for name, value in feeds.items():
            np.save(folder / f"{name}.npy", value)
            command += ["--input", f"{name}={folder / name}.npy"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        for name, value in wanted.items():
            got = np.load(folder / f"{name}.npy")
            assert got.shape == value.shape and np.allclose(got, value, atol=1e-5), (
                number,
                name,
                got,
                value,
            )
    print("control flow agrees")


main()
