"""Ten small networks with random weights, as f32 models of ONNX, for quantised.py. Each is made of
the ops that one kind of real network is made of. Sizes are small; values are about 1."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper


class Net:
    """Collects nodes and weights; each method returns the name of its result."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.nodes, self.weights = [], []

    def weight(self, *shape, scale=None):
        name = f"w{len(self.weights)}"
        fan = np.prod(shape[1:]) if len(shape) > 1 else 1
        array = self.random.standard_normal(shape) * (scale or 1 / np.sqrt(fan))
        self.weights.append(numpy_helper.from_array(array.astype(np.float32), name))
        return name

    def constant(self, array):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def op(self, kind, *inputs, outputs=1, **attributes):
        names = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(
            helper.make_node(kind, list(inputs), names, f"{kind}_{len(self.nodes)}", **attributes)
        )
        return names[0] if outputs == 1 else names

    def linear(self, x, wide, out):
        return self.op(
            "Add",
            self.op("MatMul", x, self.weight(wide, out, scale=1 / np.sqrt(wide))),
            self.weight(out, scale=0.1),
        )

    def conv(self, x, wide, out, size=3, **attributes):
        group = attributes.get("group", 1)
        return self.op(
            "Conv",
            x,
            self.weight(out, wide // group, size, size),
            self.weight(out, scale=0.1),
            pads=[size // 2] * 4,
            kernel_shape=[size, size],
            **attributes,
        )

    def model(self, out, shape, kind=TensorProto.FLOAT):
        graph = helper.make_graph(
            self.nodes,
            "net",
            [helper.make_tensor_value_info("x", kind, shape)],
            [helper.make_tensor_value_info(out, TensorProto.FLOAT, None)],
            self.weights,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def mlp(n):
    x = n.op("Relu", n.op("Gemm", "x", n.weight(48, 32), n.weight(48, scale=0.1), transB=1))
    return n.op(
        "Gemm",
        n.op("Relu", n.linear(x, 48, 40)),
        n.weight(40, 10, scale=0.15),
        n.weight(10, scale=0.1),
    ), [4, 32]


def convolutions(n):
    x = n.op("MaxPool", n.op("Relu", n.conv("x", 3, 8)), kernel_shape=[2, 2], strides=[2, 2])
    x = n.op("Relu", n.conv(x, 8, 16, strides=[2, 2]))
    return n.op("Gemm", n.op("Flatten", x), n.weight(10, 256), n.weight(10, scale=0.1), transB=1), [
        2,
        3,
        16,
        16,
    ]


def residual(n):
    x = n.op("Relu", n.conv("x", 3, 8))
    x = n.op("Relu", n.op("Add", n.conv(n.op("Relu", n.conv(x, 8, 8)), 8, 8), x))
    return n.op("Flatten", n.op("GlobalAveragePool", x)), [2, 3, 12, 12]


def mobile(n):
    x = n.op("Clip", n.conv("x", 3, 16), n.constant(np.float32(0)), n.constant(np.float32(6)))
    x = n.op(
        "Clip", n.conv(x, 16, 16, group=16), n.constant(np.float32(0)), n.constant(np.float32(6))
    )
    x = n.op("AveragePool", n.conv(x, 16, 24, 1), kernel_shape=[3, 3], strides=[2, 2])
    gate = n.op("Sigmoid", n.conv(n.op("GlobalAveragePool", x), 24, 24, 1))
    return n.op("Mul", x, gate), [2, 3, 12, 12]


def encoder(n):
    def norm(x):
        return n.op(
            "LayerNormalization",
            x,
            n.constant(np.ones(32, np.float32)),
            n.constant(np.zeros(32, np.float32)),
            axis=-1,
        )

    shape = n.constant(np.array([2, 8, 4, 8]))
    q, k, v = (
        n.op("Transpose", n.op("Reshape", n.linear("x", 32, 32), shape), perm=[0, 2, 1, 3])
        for _ in range(3)
    )
    scores = n.op(
        "Div",
        n.op("MatMul", q, n.op("Transpose", k, perm=[0, 1, 3, 2])),
        n.constant(np.float32(8**0.5)),
    )
    seen = n.op("Transpose", n.op("MatMul", n.op("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
    x = norm(
        n.op("Add", n.linear(n.op("Reshape", seen, n.constant(np.array([2, 8, 32]))), 32, 32), "x")
    )
    hidden = n.linear(x, 32, 64)
    gelu = n.op("Mul", hidden, n.op("Sigmoid", n.op("Mul", hidden, n.constant(np.float32(1.702)))))
    return norm(n.op("Add", n.linear(gelu, 64, 32), x)), [2, 8, 32]


def branches(n):
    x = n.op("LeakyRelu", n.conv("x", 3, 8), alpha=0.1)
    parts = [
        n.conv(x, 8, 4, 1),
        n.conv(x, 8, 4, 3),
        n.op("MaxPool", x, kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    ]
    x = n.op("Concat", *parts, axis=1)
    low, high = n.op("Split", x, n.constant(np.array([6, 10])), outputs=2, axis=1)
    high = n.op("Pad", n.conv(high, 10, 6, 1), n.constant(np.array([0, 0, 0, 0, 0, 0, 0, 0])))
    return n.op("ReduceMean", n.op("Mul", low, high), axes=[2, 3], keepdims=0), [2, 3, 10, 10]


def upsampling(n):
    x = n.op("Relu", n.conv("x", 3, 8, strides=[2, 2]))
    x = n.op(
        "Resize",
        x,
        "",
        n.constant(np.array([1, 1, 2, 2], np.float32)),
        mode="nearest",
        nearest_mode="floor",
        coordinate_transformation_mode="asymmetric",
    )
    x = n.op(
        "Relu",
        n.op(
            "ConvTranspose",
            x,
            n.weight(8, 4, 2, 2, scale=0.2),
            n.weight(4, scale=0.1),
            strides=[2, 2],
            kernel_shape=[2, 2],
        ),
    )
    return n.op("Tanh", n.conv(x, 4, 2)), [1, 3, 8, 8]


def sequence(n):
    x = n.op("Transpose", "x", perm=[1, 0, 2])
    _, last, _ = n.op(
        "LSTM",
        x,
        n.weight(1, 64, 12, scale=0.3),
        n.weight(1, 64, 16, scale=0.3),
        n.weight(1, 128, scale=0.1),
        outputs=3,
        hidden_size=16,
    )
    return n.linear(n.op("Squeeze", last, n.constant(np.array([0]))), 16, 5), [3, 7, 12]


def text(n):
    x = n.op("Gather", n.weight(50, 32, scale=1), "x", axis=0)
    x = n.op("Relu", n.linear(n.op("ReduceMean", x, axes=[1], keepdims=0), 32, 64))
    return n.op("Softmax", n.linear(x, 64, 32), axis=-1), [4, 9]


def long_rows(n):
    x = n.op("Relu", n.linear("x", 320, 96))
    return n.op("MatMul", x, n.weight(96, 64, scale=0.1)), [3, 320]


NETWORKS = [
    mlp,
    convolutions,
    residual,
    mobile,
    encoder,
    branches,
    upsampling,
    sequence,
    text,
    long_rows,
]


def network(build):
    """The model and a function of a seed that makes its input."""
    n = Net(sum(build.__name__.encode()))
    out, shape = build(n)
    tokens = build is text
    model = n.model(out, shape, TensorProto.INT64 if tokens else TensorProto.FLOAT)

    def feed(seed):
        random = np.random.default_rng(seed)
        return {
            "x": random.integers(0, 50, shape)
            if tokens
            else random.standard_normal(shape).astype(np.float32)
        }

    return model, feed
