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
    graph = helper.make_graph(nodes, "g", inputs, [value("y", TensorProto.FLOAT, None)],
                              [numpy_helper.from_array(np.asarray(v), k) for k, v in constants])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def branch(*nodes):
    return helper.make_graph(list(nodes), "branch", [], [value("t", TensorProto.FLOAT, None)])


X = value("x", TensorProto.FLOAT, ["n", 3])
# Both branches use values from outside; one of them, and a node after it, use the sizes of x.
DOUBLED = branch(helper.make_node("Mul", ["x", "two"], ["t"]))
MORE = branch(helper.make_node("Cast", ["shape"], ["s"], to=1), helper.make_node("ReduceSum", ["s"], ["sum"], keepdims=0),
              helper.make_node("Add", ["x", "sum"], ["t"]))
CHOSEN = model([helper.make_node("Shape", ["x"], ["shape"]), helper.make_node("If", ["c"], ["z"], then_branch=DOUBLED, else_branch=MORE),
                helper.make_node("Cast", ["shape"], ["after"], to=1), helper.make_node("ReduceMax", ["after"], ["top"], keepdims=0),
                helper.make_node("Add", ["z", "top"], ["y"])], [value("c", TensorProto.BOOL, []), X], [("two", np.float32(2))])
KNOWN = model([helper.make_node("Shape", ["x"], ["shape"]), helper.make_node("Gather", ["shape", "one"], ["width"]),
               helper.make_node("Equal", ["width", "three"], ["c"]),
               helper.make_node("If", ["c"], ["y"], then_branch=DOUBLED, else_branch=MORE)], [X],
              [("two", np.float32(2)), ("one", np.int64(1)), ("three", np.int64(3))])
SHAPED = model([helper.make_node("Reshape", ["x", "to"], ["y"])], [X, value("to", TensorProto.INT64, [2])])


class Test:
    def __init__(self, tenon):
        self.tenon, self.failed = tenon, 0

    def told(self, name, text):
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
            self.told(name, got)
        else:
            self.told(name, "" if got.shape == want.shape and np.array_equal(got, want) else f"{got} is not {want}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tenon", required=True)
    options = parser.parse_args()
    test = Test(options.tenon)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for device in ("reference", "cpu"):
        at = ("--device", device)
        test.same(f"then on {device}", test.run(CHOSEN, {"c": np.array(True), "x": x}, *at), 2 * x + 3)
        test.same(f"else on {device}", test.run(CHOSEN, {"c": np.array(False), "x": x}, *at), x + 5 + 3)
        test.same(f"known on {device}", test.run(KNOWN, {"x": x}, *at), 2 * x)
        test.same(f"fixed on {device}", test.run(SHAPED, {"x": x}, "--value", "to=3,-1", *at), x.reshape(3, 2))
        test.same(f"not fixed on {device}", test.run(SHAPED, {"x": x, "to": np.array([3, 2])}, *at), x.reshape(3, 2))
    for name, got, wanted in (("does not fit", test.run(SHAPED, {"x": x, "to": np.array([4, 2])}), "T0713"),
                              ("too few integers", test.run(SHAPED, {"x": x}, "--value", "to=3"), "T0714"),
                              ("no such input", test.run(SHAPED, {"x": x}, "--value", "too=3,2"), "T0714"),
                              ("no integers", test.run(SHAPED, {"x": x}, "--value", "to=3,b"), "T0714")):
        test.told(name, "" if isinstance(got, str) and wanted in got else f"{wanted} was expected: {got}")
    return 1 if test.failed else 0


if __name__ == "__main__":
    sys.exit(main())
