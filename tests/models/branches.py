#!/usr/bin/env python3
"""If with a known and with an unknown condition; integer inputs that determine shapes, fixed by
--value.

    python3 tests/models/branches.py --tenon build/bin/tenon
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save


def value(name, kind, dims):
    return helper.make_tensor_value_info(name, kind, dims)


def model(nodes, inputs, constants=()):
    graph = helper.make_graph(
        nodes,
        "g",
        inputs,
        [value("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in constants],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def branch(*nodes):
    return helper.make_graph(list(nodes), "branch", [], [value("t", TensorProto.FLOAT, None)])


X = value("x", TensorProto.FLOAT, ["n", 3])
# Both branches use values from outside; one of them, and a node after it, use the sizes of x.
DOUBLED = branch(helper.make_node("Mul", ["x", "two"], ["t"]))
MORE = branch(
    helper.make_node("Cast", ["shape"], ["s"], to=1),
    helper.make_node("ReduceSum", ["s"], ["sum"], keepdims=0),
    helper.make_node("Add", ["x", "sum"], ["t"]),
)
CHOSEN = model(
    [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("If", ["c"], ["z"], then_branch=DOUBLED, else_branch=MORE),
        helper.make_node("Cast", ["shape"], ["after"], to=1),
        helper.make_node("ReduceMax", ["after"], ["top"], keepdims=0),
        helper.make_node("Add", ["z", "top"], ["y"]),
    ],
    [value("c", TensorProto.BOOL, []), X],
    [("two", np.float32(2))],
)
KNOWN = model(
    [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "one"], ["width"]),
        helper.make_node("Equal", ["width", "three"], ["c"]),
        helper.make_node("If", ["c"], ["y"], then_branch=DOUBLED, else_branch=MORE),
    ],
    [X],
    [("two", np.float32(2)), ("one", np.int64(1)), ("three", np.int64(3))],
)
SHAPED = model(
    [helper.make_node("Reshape", ["x", "to"], ["y"])], [X, value("to", TensorProto.INT64, [2])]
)

# Branches that cannot be imported, or whose shapes do not fit these inputs.
FOREIGN = branch(
    helper.make_node("Frobnicate", ["x"], ["t"], name="the unknown", domain="ai.vendor")
)
MANY = branch(
    helper.make_node("Frobnicate", ["x"], ["s"], domain="ai.vendor"),
    helper.make_node("Blurb", ["s"], ["t"], domain="ai.vendor"),
)
MISFIT = branch(helper.make_node("Reshape", ["x", "five"], ["t"], name="the misfit"))
CONSTANTS = [
    ("two", np.float32(2)),
    ("one", np.int64(1)),
    ("three", np.int64(3)),
    ("rate", np.int64(16000)),
    ("five", np.array([5])),
]


def choosing(condition, inputs, then_branch, else_branch):
    """y of a branch; `condition` are the nodes that make `c`."""
    made = model(
        [
            *condition,
            helper.make_node("If", ["c"], ["y"], then_branch=then_branch, else_branch=else_branch),
        ],
        inputs,
        CONSTANTS,
    )
    del made.graph.output[:]
    made.graph.output.append(value("y", TensorProto.FLOAT, ["n", "m"]))
    return made


def by_width(then_branch, else_branch):
    """The condition follows from a constant dim, by a node."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "one"], ["width"]),
        helper.make_node("Equal", ["width", "three"], ["c"]),
    ]
    return choosing(nodes, [X], then_branch, else_branch)


def by_rate(then_branch, else_branch):
    """The condition follows from an input."""
    rate = value("rate_of_x", TensorProto.INT64, [])
    fixed = value("x", TensorProto.FLOAT, [2, 3])
    return choosing(
        [helper.make_node("Equal", ["rate_of_x", "rate"], ["c"])],
        [fixed, rate],
        then_branch,
        else_branch,
    )


def by_sum(then_branch, else_branch):
    """The condition is known only at run time."""
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
        helper.make_node("Greater", ["sum", "two"], ["c"]),
    ]
    return choosing(nodes, [X], then_branch, else_branch)


# Branches that give values of other types than DOUBLED.
FLAT = branch(helper.make_node("Reshape", ["x", "six"], ["t"]))
INTEGERS = branch(helper.make_node("Cast", ["x"], ["t"], to=TensorProto.INT64))
NARROW = branch(helper.make_node("Slice", ["x", "zero", "single", "axis"], ["t"]))
CONSTANTS += [
    ("six", np.array([6])),
    ("zero", np.array([0])),
    ("single", np.array([1])),
    ("axis", np.array([1])),
]


def called_in_branch():
    """A function with an unknown op, called in a branch and then outside of it."""
    call = helper.make_node("F", ["x"], ["t"], domain="own")
    made = by_rate(branch(call), DOUBLED)
    made.graph.node.append(helper.make_node("F", ["y"], ["z"], domain="own"))
    made.graph.node.append(helper.make_node("Other", ["z"], ["w"], domain="ai.vendor"))
    made.functions.append(
        helper.make_function(
            "own",
            "F",
            ["a"],
            ["b"],
            [helper.make_node("Frobnicate", ["a"], ["b"], domain="ai.vendor")],
            [helper.make_opsetid("", 17), helper.make_opsetid("ai.vendor", 1)],
        )
    )
    made.opset_import.append(helper.make_opsetid("own", 1))
    return made


def loop_of_two_conditions():
    """A body that the loop cannot end with."""
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["both"], ["go"]),
            helper.make_node("Identity", ["v"], ["w"]),
        ],
        "body",
        [
            value("i", TensorProto.INT64, []),
            value("c", TensorProto.BOOL, []),
            value("v", TensorProto.FLOAT, ["n", 3]),
        ],
        [value("go", TensorProto.BOOL, [2]), value("w", TensorProto.FLOAT, ["n", 3])],
    )
    return model(
        [helper.make_node("Loop", ["three", "", "x"], ["y"], name="the loop", body=body)],
        [X],
        [("three", np.int64(3)), ("both", np.array([True, True]))],
    )


class Test:
    def __init__(self, tenon):
        self.tenon, self.failed = tenon, 0

    def report(self, name, text):
        print(f"{'FAIL' if text else 'ok  '} {name}{': ' if text else ''}{text}")
        self.failed += bool(text)

    def run(self, proto, feeds, *options):
        """The output y, or the text of the failure."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "model.onnx"
            save(proto, str(path))
            command = [self.tenon, "run", str(path), "--output-dir", folder, *options]
            for name, array in feeds.items():
                np.save(f"{folder}/in_{name}.npy", array)
                command += ["--input", f"{name}={folder}/in_{name}.npy"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
            return np.load(f"{folder}/y.npy") if done.returncode == 0 else done.stderr.strip()[:500]

    def same(self, name, got, want):
        if isinstance(got, str):
            self.report(name, got)
        else:
            self.report(
                name,
                ""
                if got.shape == want.shape and np.array_equal(got, want)
                else f"{got} is not {want}",
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tenon", required=True)
    options = parser.parse_args()
    test = Test(options.tenon)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for device in ("reference", "cpu"):
        at = ("--device", device)
        test.same(
            f"then on {device}", test.run(CHOSEN, {"c": np.array(True), "x": x}, *at), 2 * x + 3
        )
        test.same(
            f"else on {device}", test.run(CHOSEN, {"c": np.array(False), "x": x}, *at), x + 5 + 3
        )
        test.same(f"known on {device}", test.run(KNOWN, {"x": x}, *at), 2 * x)
        test.same(
            f"fixed on {device}",
            test.run(SHAPED, {"x": x}, "--value", "to=3,-1", *at),
            x.reshape(3, 2),
        )
        test.same(
            f"not fixed on {device}",
            test.run(SHAPED, {"x": x, "to": np.array([3, 2])}, *at),
            x.reshape(3, 2),
        )
        wide, narrow = np.array(16000), np.array(8000)
        for name, other in (("unknown op", FOREIGN), ("misfit", MISFIT)):
            test.same(
                f"{name} after a shape on {device}",
                test.run(by_width(DOUBLED, other), {"x": x}, *at),
                2 * x,
            )
            test.same(
                f"{name} after an input on {device}",
                test.run(by_rate(DOUBLED, other), {"x": x, "rate_of_x": wide}, *at),
                2 * x,
            )
            test.same(
                f"{name} before an input on {device}",
                test.run(by_rate(other, DOUBLED), {"x": x, "rate_of_x": narrow}, *at),
                2 * x,
            )
            test.same(
                f"{name} after a fixed input on {device}",
                test.run(by_rate(DOUBLED, other), {"x": x}, "--value", "rate_of_x=16000", *at),
                2 * x,
            )
        for name, other in (
            ("another rank", FLAT),
            ("another type", INTEGERS),
            ("another size", NARROW),
        ):
            test.same(
                f"{name} after an input on {device}",
                test.run(by_rate(DOUBLED, other), {"x": x, "rate_of_x": wide}, *at),
                2 * x,
            )
    for name, other in (("ranks", FLAT), ("element types", INTEGERS)):
        got = test.run(by_sum(DOUBLED, other), {"x": x[:2]}, "--dim", "n=2")
        fits = isinstance(got, str) and "an output has one type" in got and "T0714" in got
        test.report(f"an output of different {name}", "" if fits else str(got))
    test.same(
        "branches of different sizes, the first",
        test.run(by_sum(DOUBLED, NARROW), {"x": x}, "--dim", "n=2"),
        2 * x,
    )
    test.same(
        "branches of different sizes, the second",
        test.run(by_sum(DOUBLED, NARROW), {"x": -x}, "--dim", "n=2"),
        -x[:, :1],
    )
    for name, got, wanted in (
        (
            "an unknown op is taken",
            test.run(by_rate(DOUBLED, FOREIGN), {"x": x, "rate_of_x": narrow}),
            "'the unknown'",
        ),
        ("an unknown op may be taken", test.run(by_sum(DOUBLED, FOREIGN), {"x": x}), "T0704"),
        (
            "a misfit is taken",
            test.run(by_rate(DOUBLED, MISFIT), {"x": x, "rate_of_x": narrow}),
            "the misfit",
        ),
        (
            "an unknown op may be taken in any size",
            test.run(by_sum(DOUBLED, FOREIGN), {"x": x}),
            "--dim L=N",
        ),
        (
            "a function of a branch and of the model",
            test.run(called_in_branch(), {"x": x, "rate_of_x": narrow}),
            "2 ops are not known",
        ),
        (
            "all unknown ops of a taken branch",
            test.run(by_width(MANY, DOUBLED), {"x": x}),
            "2 ops are not known",
        ),
        ("all unknown ops of both branches", test.run(by_sum(MANY, FOREIGN), {"x": x}), "'Blurb'"),
        ("a body of a node", test.run(loop_of_two_conditions(), {"x": x}), "'Loop'): its body"),
        ("a known unknown op", test.run(by_width(FOREIGN, DOUBLED), {"x": x}), "'Frobnicate'"),
    ):
        test.report(
            name, "" if isinstance(got, str) and wanted in got else f"{wanted} was expected: {got}"
        )
    for name, got, wanted in (
        ("does not fit", test.run(SHAPED, {"x": x, "to": np.array([4, 2])}), "T0713"),
        ("too few integers", test.run(SHAPED, {"x": x}, "--value", "to=3"), "T0714"),
        ("no such input", test.run(SHAPED, {"x": x}, "--value", "too=3,2"), "T0714"),
        ("no integers", test.run(SHAPED, {"x": x}, "--value", "to=3,b"), "T0714"),
    ):
        test.report(
            name, "" if isinstance(got, str) and wanted in got else f"{wanted} was expected: {got}"
        )
    return 1 if test.failed else 0


if __name__ == "__main__":
    sys.exit(main())
