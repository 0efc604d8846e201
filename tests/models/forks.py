#!/usr/bin/env python3
"""Ifs whose branches differ in rank, as voice detectors have them: torch's squeeze of a dim of any
size, frames that are cut or not, nested, with a carried state. The condition follows from sizes, from
values, or from both. Compared with ONNX Runtime at three sizes each, from one compilation, without
hints.

    python3 tests/models/forks.py --tool build/tests/model_shapes [--devices reference,cpu]
"""

import argparse
import concurrent.futures
import os
import pathlib
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime as ort
import shapes
from onnx import TensorProto, helper, numpy_helper

RNG = np.random.default_rng(5)
F32, I64 = np.float32, np.int64
FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
node, value = helper.make_node, helper.make_tensor_value_info
empty = helper.make_empty_tensor_value_info


def floats(*shape):
    return RNG.standard_normal(shape).astype(F32)


def branch(name, nodes, output):
    return helper.make_graph(nodes, name, [], [empty(output)])


class Parts:
    """Nodes and constants of a model that grows, with names of its own."""

    def __init__(self):
        self.nodes, self.constants, self.count = [], {}, 0

    def name(self):
        self.count += 1
        return f"v{self.count}"

    def constant(self, array):
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(array)
        return name

    def add(self, op, *inputs, outputs=1, **attributes):
        names = [self.name() for _ in range(outputs)]
        self.nodes.append(node(op, list(inputs), names, **attributes))
        return names[0] if outputs == 1 else names

    def size(self, x, axis):
        """One dim of a value, as torch's exporter asks for it."""
        return self.add("Gather", self.add("Shape", x), self.constant(I64(axis)), axis=0)

    def choice(self, condition, then_nodes, else_nodes):
        """An If of two branches, each given as (nodes, output)."""
        return self.add(
            "If",
            condition,
            then_branch=branch("then", *then_nodes),
            else_branch=branch("else", *else_nodes),
        )

    def inner(self, op, *inputs, **attributes):
        """A node of a branch."""
        out = self.name()
        return node(op, list(inputs), [out], **attributes), out

    def squeezed(self, x, axis, condition=None):
        """torch's squeeze of a dim of any size: it goes away where it is 1."""
        if condition is None:
            condition = self.add("Equal", self.size(x, axis), self.constant(I64(1)))
        squeeze, a = self.inner("Squeeze", x, self.constant([axis]))
        same, b = self.inner("Identity", x)
        return self.choice(condition, ([squeeze], a), ([same], b))

    def model(self, inputs, outputs, functions=()):
        graph = helper.make_graph(
            self.nodes,
            "g",
            inputs,
            [empty(o) for o in outputs],
            [numpy_helper.from_array(v, k) for k, v in self.constants.items()],
        )
        opsets = [
            helper.make_opsetid("", 18),
            *([helper.make_opsetid("own", 1)] if functions else []),
        ]
        return helper.make_model(
            graph, opset_imports=opsets, functions=list(functions), ir_version=9
        )


AUDIO = value("x", FLOAT, ["batch", "samples"])


def squeezed_sum():
    """A squeeze, then a sum over the last dim and all that is left."""
    p = Parts()
    y = p.add("ReduceSum", p.add("Relu", p.squeezed("x", 1)), keepdims=0)
    return p.model([AUDIO], [y]), [{"x": floats(2, n)} for n in (1, 4, 7)]


def squeezed_back():
    """A squeeze whose dim is put back by a reshape to two dims."""
    p = Parts()
    y = p.add("Reshape", p.add("Mul", p.squeezed("x", 1), p.constant(F32(2))), p.constant([1, -1]))
    return p.model([AUDIO], [y]), [{"x": floats(3, n)} for n in (5, 1, 2)]


def two_squeezes():
    """Two dims of any size, each squeezed where it is 1: three cases."""
    p = Parts()
    first = p.squeezed("x", 1)
    count = p.add("Equal", p.size("x", 0), p.constant(I64(1)))
    squeeze, a = p.inner("Squeeze", first, p.constant([0]))
    same, b = p.inner("Identity", first)
    y = p.add("ReduceMax", p.choice(count, ([squeeze], a), ([same], b)), keepdims=0)
    return p.model([AUDIO], [y]), [{"x": floats(*s)} for s in ((1, 6), (4, 1), (3, 5))]


def longer_or_not():
    """Audio of more than 8 samples is cut into frames of 4, which have a dim of their own."""
    p = Parts()
    long = p.add("Greater", p.size("x", 1), p.constant(I64(8)))
    frames, a = p.inner("Reshape", "x", p.constant([-1, 2, 4]))
    same, b = p.inner("Identity", "x")
    y = p.add("ReduceMean", p.add("Abs", p.choice(long, ([frames], a), ([same], b))), keepdims=0)
    return p.model([AUDIO], [y]), [{"x": floats(2, n)} for n in (12, 8, 16)]


def of_rank_two():
    """Audio without a batch gets one: the test is of sizes, And and Not."""
    p = Parts()
    one = p.add("Equal", p.size("x", 0), p.constant(I64(1)))
    few = p.add("Less", p.size("x", 1), p.constant(I64(3)))
    both = p.add("And", one, p.add("Not", few))
    flat, a = p.inner("Reshape", "x", p.constant([-1]))
    same, b = p.inner("Identity", "x")
    made = p.choice(both, ([flat], a), ([same], b))
    return p.model([AUDIO], [p.add("ReduceSum", p.add("Mul", made, made), keepdims=0)]), [
        {"x": floats(*s)} for s in ((1, 5), (1, 2), (2, 4))
    ]


def by_value():
    """The condition is known only at run time; what follows takes either rank."""
    p = Parts()
    loud = p.add("Greater", p.add("ReduceMax", "x", keepdims=0), p.constant(F32(2)))
    flat, a = p.inner("Reshape", "x", p.constant([-1]))
    same, b = p.inner("Relu", "x")
    y = p.add("ReduceSum", p.add("Exp", p.choice(loud, ([flat], a), ([same], b))), keepdims=0)
    quiet = floats(2, 5) * F32(0.1)
    return p.model([AUDIO], [y, loud]), [
        {"x": quiet},
        {"x": quiet + F32(3)},
        {"x": floats(4, 3) * F32(0.1)},
    ]


def by_value_sizes():
    """The results of the branches have other sizes; so has the output of the model."""
    p = Parts()
    loud = p.add("Greater", p.add("ReduceSum", "x", keepdims=0), p.constant(F32(0)))
    pool, a = p.inner("ReduceSum", "x", p.constant([1]), keepdims=0)
    first, b = p.inner("Identity", "x")
    y = p.add(
        "Reshape", p.add("Sigmoid", p.choice(loud, ([pool], a), ([first], b))), p.constant([-1])
    )
    return p.model([AUDIO], [y]), [
        {"x": np.abs(floats(2, 5))},
        {"x": -np.abs(floats(2, 5))},
        {"x": np.abs(floats(6, 2))},
    ]


def two_values():
    """Two conditions that are known only at run time, one after the other: four ways."""
    p = Parts()
    now = "x"
    for axis, threshold in ((0, 1.0), (0, 2.0)):
        high = p.add("Greater", p.add("ReduceMax", "x", keepdims=0), p.constant(F32(threshold)))
        more, a = p.inner("Unsqueeze", now, p.constant([axis]))
        same, b = p.inner("Neg", now)
        now = p.choice(high, ([more], a), ([same], b))
    y = p.add("ReduceSum", p.add("Mul", now, now), keepdims=0)
    top = p.add("ReduceMax", now, keepdims=0)
    x = floats(2, 4)
    x /= np.abs(x).max()
    return p.model([AUDIO], [y, top]), [{"x": x * F32(k)} for k in (0.5, 1.5, 3)]


def nested_values():
    """An If of values in the branch of another: the ranks are three."""
    p = Parts()
    top = p.add("ReduceMax", "x", keepdims=0)
    high, higher = (p.add("Greater", top, p.constant(F32(k))) for k in (1, 2))
    flat, a = p.inner("Reshape", "x", p.constant([-1]))
    more, b = p.inner("Unsqueeze", "x", p.constant([0]))
    inside = node(
        "If",
        [higher],
        ["inside"],
        then_branch=branch("t", [flat], a),
        else_branch=branch("e", [more], b),
    )
    after, c = p.inner("Abs", "inside")
    same, d = p.inner("Identity", "x")
    made = p.choice(high, ([inside, after], c), ([same], d))
    x = np.abs(floats(3, 2))
    x /= x.max()
    return p.model([AUDIO], [p.add("ReduceMean", made, keepdims=0)]), [
        {"x": x * F32(k)} for k in (0.5, 1.5, 3)
    ]


def nested_sizes():
    """An If of sizes in the branch of another."""
    p = Parts()
    one = p.add("Equal", p.size("x", 1), p.constant(I64(1)))
    alone = p.add("Equal", p.size("x", 0), p.constant(I64(1)))
    squeeze, a = p.inner("Squeeze", "x", p.constant([1]))
    number, b = p.inner("Squeeze", "x", p.constant([0, 1]))
    inside = node(
        "If",
        [alone],
        ["inside"],
        then_branch=branch("t", [number], b),
        else_branch=branch("e", [squeeze], a),
    )
    same, d = p.inner("Identity", "x")
    after, c = p.inner("Neg", "inside")
    made = p.choice(one, ([inside, after], c), ([same], d))
    return p.model([AUDIO], [p.add("ReduceSum", made, keepdims=0)]), [
        {"x": floats(*s)} for s in ((1, 1), (4, 1), (2, 3))
    ]


def value_in_size():
    """A condition of values where a condition of sizes holds."""
    p = Parts()
    one = p.add("Equal", p.size("x", 0), p.constant(I64(1)))
    high = p.add("Greater", p.add("ReduceMax", "x", keepdims=0), p.constant(F32(1)))
    squeeze, a = p.inner("Squeeze", "x", p.constant([0]))
    more, b = p.inner("Unsqueeze", "x", p.constant([0]))
    inside = node(
        "If",
        [high],
        ["inside"],
        then_branch=branch("t", [squeeze], a),
        else_branch=branch("e", [more], b),
    )
    after, c = p.inner("Abs", "inside")
    same, d = p.inner("Identity", "x")
    made = p.choice(one, ([inside, after], c), ([same], d))
    x = floats(1, 4)
    x /= np.abs(x).max()
    return p.model([AUDIO], [p.add("ReduceSum", made, keepdims=0)]), [
        {"x": np.abs(x) * F32(3)},
        {"x": x * F32(0.5)},
        {"x": floats(2, 3)},
    ]


def detector():
    """Frames of a learned transform, squeezed where there is one; an LSTM that takes and gives its
    state; a probability for each sample of the batch."""
    p, hidden, bins = Parts(), 4, 6
    steps = p.add("Unsqueeze", "x", p.constant([1]))
    frames = p.add("Relu", p.add("Conv", steps, p.constant(floats(bins, 1, 8)), strides=[8]))
    # [batch, bins] where there is one frame, else [batch, bins, frames].
    squeezed = p.squeezed(frames, 2)
    shaped = p.add(
        "Reshape",
        squeezed,
        p.add(
            "Concat",
            p.add("Unsqueeze", p.size("x", 0), p.constant([0])),
            p.constant([bins, -1]),
            axis=0,
        ),
    )
    everything, hn, cn = p.add(
        "LSTM",
        p.add("Transpose", shaped, perm=[2, 0, 1]),
        p.constant(floats(1, 4 * hidden, bins)),
        p.constant(floats(1, 4 * hidden, hidden)),
        p.constant(floats(1, 8 * hidden)),
        "",
        "h",
        "c",
        outputs=3,
        hidden_size=hidden,
    )
    y = p.add(
        "Sigmoid",
        p.add(
            "ReduceMean",
            p.add("Squeeze", everything, p.constant([1])),
            p.constant([0, 2]),
            keepdims=0,
        ),
    )
    inputs = [
        AUDIO,
        value("h", FLOAT, [1, "batch", hidden]),
        value("c", FLOAT, [1, "batch", hidden]),
    ]
    return p.model(inputs, [y, hn, cn]), [
        {"x": floats(b, n), "h": floats(1, b, hidden), "c": floats(1, b, hidden)}
        for b, n in ((2, 8), (2, 24), (1, 16))
    ]


def state_by_value():
    """A state that is reset if a value says so; the new one has the rank of the old one."""
    p = Parts()
    stop = p.add("Less", p.add("ReduceMin", "h", keepdims=0), p.constant(F32(-3)))
    mean, a = p.inner("ReduceMean", "x", p.constant([1]), keepdims=0)
    same, b = p.inner("Identity", "x")
    seen = p.choice(stop, ([mean], a), ([same], b))
    total = p.add("ReduceSum", seen, keepdims=0)
    state = p.add("Tanh", p.add("Add", "h", total))
    inputs = [AUDIO, value("h", FLOAT, ["batch", 3])]
    return p.model(inputs, [state, total]), [
        {"x": floats(2, n), "h": floats(2, 3) * F32(k)} for n, k in ((4, 0.1), (6, 99), (1, 0.1))
    ]


def carried_in_loop():
    """A state that a loop carries, whose step takes one of two ranks in the middle."""
    p = Parts()
    step = Parts()
    step.count = 100
    high = step.add("Greater", step.add("ReduceMax", "s", keepdims=0), "limit")
    flat, a = step.inner("Reshape", "s", "minus")
    same, b = step.inner("Identity", "s")
    made = step.choice(high, ([flat], a), ([same], b))
    step.nodes += [
        node("ReduceMean", [made], ["mean"], keepdims=0),
        node("Add", ["s", "mean"], ["next"]),
        node("Identity", ["go"], ["again"]),
    ]
    body = helper.make_graph(
        step.nodes,
        "body",
        [value("i", INT64, []), value("go", BOOL, []), value("s", FLOAT, ["batch", "samples"])],
        [value("again", BOOL, []), value("next", FLOAT, ["batch", "samples"])],
    )
    p.constants |= {"limit": F32(1.5), "minus": np.array([-1]), "three": I64(3)}
    y = p.add("Loop", "three", "", "x", body=body)
    return p.model([AUDIO], [y]), [
        {"x": np.abs(floats(2, n)) * F32(k)} for n, k in ((3, 0.2), (5, 1), (2, 4))
    ]


def in_functions():
    """The squeeze is a function of two calls, as dynamo's exporter writes modules."""
    p = Parts()
    inner = Parts()
    condition = node("Equal", ["d", "one"], ["c"])
    squeeze, a = inner.inner("Squeeze", "a", "axis")
    same, b = inner.inner("Identity", "a")
    nodes = [
        node("Constant", [], ["one"], value_int=1),
        node("Constant", [], ["axis"], value_ints=[1]),
        node("Shape", ["a"], ["s"]),
        node("Gather", ["s", "one"], ["d"]),
        condition,
        node(
            "If",
            ["c"],
            ["b"],
            then_branch=branch("t", [squeeze], a),
            else_branch=branch("e", [same], b),
        ),
    ]
    squeezed = helper.make_function(
        "own", "Squeezed", ["a"], ["b"], nodes, [helper.make_opsetid("", 18)]
    )
    valued = helper.make_function(
        "own",
        "Valued",
        ["a"],
        ["b"],
        [
            node("Constant", [], ["minus"], value_ints=[-1]),
            node("Constant", [], ["zero"], value_float=0.0),
            node("ReduceSum", ["a"], ["t"], keepdims=0),
            node("Greater", ["t", "zero"], ["c"]),
            node(
                "If",
                ["c"],
                ["b"],
                then_branch=branch("t", [node("Reshape", ["a", "minus"], ["r"])], "r"),
                else_branch=branch("e", [node("Neg", ["a"], ["k"])], "k"),
            ),
        ],
        [helper.make_opsetid("", 18)],
    )
    p.nodes = [
        node("Squeezed", ["x"], ["q"], domain="own"),
        node("Valued", ["q"], ["w"], domain="own"),
        node("ReduceMax", ["w"], ["y"], keepdims=0),
    ]
    return p.model([AUDIO], ["y"], [squeezed, valued]), [
        {"x": floats(3, n) + F32(k)} for n, k in ((1, 2), (4, -2), (4, 2))
    ]


MODELS = [
    squeezed_sum,
    squeezed_back,
    two_squeezes,
    longer_or_not,
    of_rank_two,
    by_value,
    by_value_sizes,
    two_values,
    nested_values,
    nested_sizes,
    value_in_size,
    detector,
    state_by_value,
    carried_in_loop,
    in_functions,
]


# ---- What is refused ----


def ranks_of_output():
    p = Parts()
    loud = p.add("Greater", p.add("ReduceMax", "x", keepdims=0), p.constant(F32(2)))
    flat, a = p.inner("Reshape", "x", p.constant([-1]))
    same, b = p.inner("Identity", "x")
    return p.model([AUDIO], [p.add("Relu", p.choice(loud, ([flat], a), ([same], b)))])


def ranks_by_size():
    p = Parts()
    return p.model([AUDIO], [p.add("Relu", p.squeezed("x", 1))])


def many_ways():
    p = Parts()
    now = "x"
    for k in range(4):
        high = p.add("Greater", p.add("ReduceMax", "x", keepdims=0), p.constant(F32(k)))
        more, a = p.inner("Unsqueeze", now, p.constant([0]))
        same, b = p.inner("Identity", now)
        now = p.choice(high, ([more], a), ([same], b))
    return p.model([AUDIO], [p.add("ReduceSum", now, keepdims=0)])


REFUSED = [
    (ranks_of_output, ["T0714", "of rank 1 or f32 of rank 2", "an output has one type"]),
    (ranks_by_size, ["T0714", "the condition of", "follows from sizes", "--dim"]),
    (many_ways, ["T0714", "more than 8 times"]),
]


def expected(made, feeds):
    session = ort.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, feeds)))


def compared(tool, device, make):
    made, all_feeds = make()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.onnx"
        onnx.save(made, str(path))
        try:
            results, _ = shapes.run_many(tool, path, device, all_feeds)
        except RuntimeError as error:
            return str(error)
    for i, (got, feeds) in enumerate(zip(results, all_feeds)):
        if text := shapes.wrong(got, {k: np.asarray(v) for k, v in expected(made, feeds).items()}):
            return f"run {i}: {text}"
    return ""


def refused(tool, make, words):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.onnx"
        onnx.save(make(), str(path))
        try:
            shapes.run_many(tool, path, "reference", [{"x": floats(2, 3)}])
        except RuntimeError as error:
            missing = [w for w in words if w not in str(error)]
            return f"{missing} not in {error}" if missing else ""
    return "accepted"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tool", default="build/tests/model_shapes")
    parser.add_argument("--devices", default="reference,cpu")
    options = parser.parse_args()
    ort.set_default_logger_severity(4)
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        tasks = [
            (f"{make.__name__} on {device}", pool.submit(compared, options.tool, device, make))
            for make in MODELS
            for device in options.devices.split(",")
        ]
        tasks += [
            (make.__name__, pool.submit(refused, options.tool, make, words))
            for make, words in REFUSED
        ]
        for name, task in tasks:
            text = task.result()
            print(f"{'FAIL' if text else 'ok  '} {name}{': ' if text else ''}{text}")
            failed += bool(text)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
