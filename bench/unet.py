"""A diffusion UNet of the form of UNet2DConditionModel at half width, written as exporters of PyTorch
spell it: group norms as reshape, InstanceNormalization, reshape, scale and shift; attention as
products and a softmax. Random weights from a fixed seed, scaled so that values stay near 1.

Used by models.py. Needs numpy and onnx.
"""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

WIDTHS = (160, 320, 640, 640)
GROUPS, HEADS, LAYERS = 32, 8, 2
LATENT, TOKENS, TEXT = 64, 77, 384
EMBEDDING = 4 * WIDTHS[0]


class Writer:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.nodes, self.constants, self.shared = [], [], {}

    def op(self, kind, *inputs, **attributes):
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def constant(self, value):
        value = np.asarray(value)
        key = (value.dtype, value.shape, value.tobytes()) if value.size < 64 else None
        if key not in self.shared or key is None:
            name = f"c{len(self.constants)}"
            self.constants.append(numpy_helper.from_array(value, name))
            self.shared[key] = name
        return self.shared[key]

    def weight(self, shape, fan_in):
        return self.constant(self.rng.standard_normal(shape, np.float32) * np.float32(fan_in**-0.5))

    def near(self, centre, shape):
        return self.constant((centre + 0.1 * self.rng.standard_normal(shape)).astype(np.float32))

    def shape(self, *sizes):
        return self.constant(np.array(sizes, np.int64))

    def conv(self, x, inputs, outputs, kernel=3, stride=1):
        weight = self.weight((outputs, inputs, kernel, kernel), inputs * kernel * kernel)
        return self.op(
            "Conv",
            x,
            weight,
            self.near(0, outputs),
            kernel_shape=[kernel] * 2,
            pads=[kernel // 2] * 4,
            strides=[stride] * 2,
        )

    def linear(self, x, inputs, outputs, bias=True):
        y = self.op("MatMul", x, self.weight((inputs, outputs), inputs))
        return self.op("Add", self.near(0, outputs), y) if bias else y

    def silu(self, x):
        return self.op("Mul", x, self.op("Sigmoid", x))

    def group_norm(self, x, channels, size, epsilon=1e-5):
        rows = self.op("Reshape", x, self.shape(0, GROUPS, -1))
        rows = self.op(
            "InstanceNormalization",
            rows,
            self.constant(np.ones(GROUPS, np.float32)),
            self.constant(np.zeros(GROUPS, np.float32)),
            epsilon=epsilon,
        )
        y = self.op("Reshape", rows, self.shape(1, channels, size, size))
        return self.op(
            "Add", self.op("Mul", y, self.near(1, (channels, 1, 1))), self.near(0, (channels, 1, 1))
        )

    def layer_norm(self, x, width):
        return self.op(
            "LayerNormalization", x, self.near(1, width), self.near(0, width), axis=-1, epsilon=1e-5
        )

    def residual(self, x, time, inputs, outputs, size):
        y = self.conv(self.silu(self.group_norm(x, inputs, size)), inputs, outputs)
        added = self.linear(self.silu(time), EMBEDDING, outputs)
        y = self.op("Add", y, self.op("Unsqueeze", added, self.shape(2, 3)))
        y = self.conv(self.silu(self.group_norm(y, outputs, size)), outputs, outputs)
        return self.op("Add", x if inputs == outputs else self.conv(x, inputs, outputs, 1), y)

    def heads(self, x, length, width, order):
        return self.op(
            "Transpose",
            self.op("Reshape", x, self.shape(1, length, HEADS, width // HEADS)),
            perm=order,
        )

    def attention(self, x, other, width, other_width, length, other_length):
        root = self.constant(np.float32((width // HEADS) ** -0.25))
        q = self.heads(self.linear(x, width, width, False), length, width, [0, 2, 1, 3])
        k = self.heads(
            self.linear(other, other_width, width, False), other_length, width, [0, 2, 3, 1]
        )
        v = self.heads(
            self.linear(other, other_width, width, False), other_length, width, [0, 2, 1, 3]
        )
        scores = self.op("MatMul", self.op("Mul", q, root), self.op("Mul", k, root))
        y = self.op("MatMul", self.op("Softmax", scores, axis=-1), v)
        y = self.op(
            "Reshape", self.op("Transpose", y, perm=[0, 2, 1, 3]), self.shape(1, length, width)
        )
        return self.linear(y, width, width)

    def feed_forward(self, x, width):
        hidden = self.linear(x, width, 8 * width)
        value = self.op("Slice", hidden, self.shape(0), self.shape(4 * width), self.shape(2))
        gate = self.op("Slice", hidden, self.shape(4 * width), self.shape(8 * width), self.shape(2))
        erf = self.op("Erf", self.op("Div", gate, self.constant(np.float32(2**0.5))))
        gelu = self.op(
            "Mul",
            self.op("Mul", gate, self.op("Add", erf, self.constant(np.float32(1)))),
            self.constant(np.float32(0.5)),
        )
        return self.linear(self.op("Mul", value, gelu), 4 * width, width)

    def transformer(self, x, text, width, size):
        length = size * size
        y = self.conv(self.group_norm(x, width, size, 1e-6), width, width, 1)
        y = self.op(
            "Reshape", self.op("Transpose", y, perm=[0, 2, 3, 1]), self.shape(1, length, width)
        )
        a = self.layer_norm(y, width)
        y = self.op("Add", y, self.attention(a, a, width, width, length, length))
        y = self.op(
            "Add", y, self.attention(self.layer_norm(y, width), text, width, TEXT, length, TOKENS)
        )
        y = self.op("Add", y, self.feed_forward(self.layer_norm(y, width), width))
        y = self.op(
            "Transpose", self.op("Reshape", y, self.shape(1, size, size, width)), perm=[0, 3, 1, 2]
        )
        return self.op("Add", x, self.conv(y, width, width, 1))

    def time(self, step):
        half = WIDTHS[0] // 2
        angles = self.op(
            "Mul",
            self.op("Unsqueeze", step, self.shape(1)),
            self.constant(np.exp(-np.log(10000) * np.arange(half) / half).astype(np.float32)[None]),
        )
        y = self.op("Concat", self.op("Cos", angles), self.op("Sin", angles), axis=1)
        return self.linear(self.silu(self.linear(y, WIDTHS[0], EMBEDDING)), EMBEDDING, EMBEDDING)

    def down(self, x, time, text, size):
        width, skips = WIDTHS[0], [(x, WIDTHS[0])]
        for level, wider in enumerate(WIDTHS):
            for _ in range(LAYERS):
                x = self.residual(x, time, width, wider, size)
                width = wider
                if level + 1 < len(WIDTHS):
                    x = self.transformer(x, text, width, size)
                skips.append((x, width))
            if level + 1 < len(WIDTHS):
                x, size = self.conv(x, width, width, 3, 2), size // 2
                skips.append((x, width))
        return x, size, skips

    def up(self, x, time, text, size, skips):
        width = WIDTHS[-1]
        for level, wider in reversed(list(enumerate(WIDTHS))):
            for _ in range(LAYERS + 1):
                skip, more = skips.pop()
                x = self.residual(
                    self.op("Concat", x, skip, axis=1), time, width + more, wider, size
                )
                width = wider
                if level + 1 < len(WIDTHS):
                    x = self.transformer(x, text, width, size)
            if level > 0:
                size *= 2
                x = self.op(
                    "Resize",
                    x,
                    "",
                    self.constant(np.array([1, 1, 2, 2], np.float32)),
                    mode="nearest",
                    coordinate_transformation_mode="asymmetric",
                    nearest_mode="floor",
                )
                x = self.conv(x, width, width)
        return x

    def model(self):
        time = self.time("timestep")
        x, size, skips = self.down(self.conv("sample", 4, WIDTHS[0]), time, "text", LATENT)
        x = self.residual(x, time, WIDTHS[-1], WIDTHS[-1], size)
        x = self.residual(
            self.transformer(x, "text", WIDTHS[-1], size), time, WIDTHS[-1], WIDTHS[-1], size
        )
        x = self.up(x, time, "text", size, skips)
        x = self.conv(self.silu(self.group_norm(x, WIDTHS[0], LATENT)), WIDTHS[0], 4)
        self.nodes[-1].output[0] = "output"

        def value(name, *dims):
            return helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)

        graph = helper.make_graph(
            self.nodes,
            "unet",
            [
                value("sample", 1, 4, LATENT, LATENT),
                value("timestep", 1),
                value("text", 1, TOKENS, TEXT),
            ],
            [value("output", 1, 4, LATENT, LATENT)],
            self.constants,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def write(path, seed):
    onnx.save(Writer(seed).model(), path)
