#!/usr/bin/env python3
"""Sizes computed from symbolic dims: models of a few nodes, each compiled once for all sizes and
run at several, compared with ONNX Runtime.

    python3 tests/models/symbolic_sizes.py --tool build/tests/model_shapes [--devices reference,cpu] [--filter TEXT]

Sizes are chosen where rounding differs: 1, even and odd, multiples of a stride and their
neighbours.
"""

import argparse
import pathlib
import sys
import tempfile

import numpy as np
import onnx
import onnx.reference
import onnxruntime
import shapes
from onnx import TensorProto, helper, numpy_helper

onnxruntime.set_default_logger_severity(4)


class Case:
    """inputs: name -> dims, a text for a symbol; `sizes`: values of the symbols for each run."""

    def __init__(
        self,
        name,
        nodes,
        inputs,
        sizes,
        constants=None,
        opset=19,
        types=None,
        outputs=("y",),
        values=None,
        oracle="ort",
    ):
        self.name, self.sizes, self.inputs, self.types, self.values, self.oracle = (
            name,
            sizes,
            inputs,
            types or {},
            values or {},
            oracle,
        )
        infos = [
            helper.make_tensor_value_info(n, self.types.get(n, TensorProto.FLOAT), d)
            for n, d in inputs.items()
        ]
        graph = helper.make_graph(
            nodes,
            "g",
            infos,
            [helper.make_empty_tensor_value_info(o) for o in outputs],
            [numpy_helper.from_array(np.asarray(v), k) for k, v in (constants or {}).items()],
        )
        self.model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9
        )

    def feeds(self, size):
        rng = np.random.default_rng(5)
        out = {}
        for name, dims in self.inputs.items():
            if name in self.values:
                out[name] = np.asarray(self.values[name](size))
                continue
            shape = [size[d] if isinstance(d, str) else d for d in dims]
            dtype = helper.tensor_dtype_to_np_dtype(self.types.get(name, TensorProto.FLOAT))
            out[name] = (rng.random(shape) * 8 - 4).astype(dtype)
        return out


def node(op, inputs, outputs=("y",), **attributes):
    return helper.make_node(op, list(inputs), list(outputs), **attributes)


def image(sizes, channels=2):
    return {"x": ["n", channels, "h", "w"]}, [{"n": n, "h": h, "w": w} for n, h, w in sizes]


SMALL = [(1, 1, 1), (2, 2, 3), (1, 5, 4), (1, 7, 8), (2, 6, 9)]
WIDE = [(1, 3, 4), (2, 4, 3), (1, 5, 6), (1, 8, 7), (1, 9, 11)]


def pools():
    inputs, sizes = image(WIDE)
    for op in ("MaxPool", "AveragePool", "LpPool"):
        for window, stride in ((2, 2), (3, 2), (3, 3), (2, 3)):
            yield Case(
                f"{op} {window}/{stride} ceil",
                [node(op, ["x"], kernel_shape=[window] * 2, strides=[stride] * 2, ceil_mode=1)],
                inputs,
                sizes,
            )
        yield Case(
            f"{op} 3/2 ceil, pads",
            [node(op, ["x"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], ceil_mode=1)],
            inputs,
            sizes,
        )
        yield Case(
            f"{op} 3/2 ceil, uneven pads",
            [node(op, ["x"], kernel_shape=[3, 3], strides=[2, 2], pads=[0, 1, 1, 0], ceil_mode=1)],
            inputs,
            sizes,
        )
        for pad in ("SAME_UPPER", "SAME_LOWER"):
            for window, stride in ((2, 2), (3, 2), (3, 1), (2, 1), (5, 3)):
                yield Case(
                    f"{op} {window}/{stride} {pad}",
                    [
                        node(
                            op, ["x"], kernel_shape=[window] * 2, strides=[stride] * 2, auto_pad=pad
                        )
                    ],
                    *image(SMALL),
                )
        yield Case(
            f"{op} 2/2 VALID",
            [node(op, ["x"], kernel_shape=[2, 2], strides=[2, 2], auto_pad="VALID")],
            inputs,
            sizes,
        )
    yield Case(
        "MaxPool 3/2 dilated ceil",
        [
            node(
                "MaxPool", ["x"], kernel_shape=[2, 2], strides=[2, 2], dilations=[2, 2], ceil_mode=1
            )
        ],
        inputs,
        sizes,
    )
    for pad in ("SAME_UPPER", "NOTSET"):
        yield Case(
            f"MaxPool indices {pad}",
            [
                node(
                    "MaxPool",
                    ["x"],
                    ["y", "i"],
                    kernel_shape=[3, 3],
                    strides=[2, 2],
                    **({"ceil_mode": 1} if pad == "NOTSET" else {"auto_pad": pad}),
                )
            ],
            inputs,
            sizes,
            outputs=("y", "i"),
        )
    yield Case(
        "MaxPool indices by columns",
        [node("MaxPool", ["x"], ["y", "i"], kernel_shape=[2, 2], strides=[2, 2], storage_order=1)],
        inputs,
        sizes,
        outputs=("y", "i"),
    )
    for up in (0, 1):
        yield Case(
            f"AveragePool count pads ceil={up}",
            [
                node(
                    "AveragePool",
                    ["x"],
                    kernel_shape=[3, 3],
                    strides=[2, 2],
                    pads=[1, 1, 1, 1],
                    count_include_pad=1,
                    ceil_mode=up,
                )
            ],
            inputs,
            sizes,
        )
        yield Case(
            f"AveragePool count pads 4/3 ceil={up}",
            [
                node(
                    "AveragePool",
                    ["x"],
                    kernel_shape=[3, 3],
                    strides=[3, 3],
                    pads=[0, 0, 1, 1],
                    count_include_pad=1,
                    ceil_mode=up,
                )
            ],
            inputs,
            sizes,
        )
    yield Case(
        "AveragePool count pads SAME",
        [
            node(
                "AveragePool",
                ["x"],
                kernel_shape=[3, 3],
                strides=[2, 2],
                auto_pad="SAME_UPPER",
                count_include_pad=1,
            )
        ],
        *image(SMALL),
    )
    yield Case(
        "MaxPool of bytes ceil",
        [node("MaxPool", ["x"], kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)],
        inputs,
        sizes,
        types={"x": TensorProto.UINT8},
    )
    yield Case(
        "MaxPool 1d ceil, a chain",
        [
            node("MaxPool", ["x"], ["a"], kernel_shape=[2], strides=[2], ceil_mode=1),
            node("MaxPool", ["a"], ["y"], kernel_shape=[2], strides=[2], ceil_mode=1),
        ],
        {"x": ["n", 2, "l"]},
        [{"n": 1, "l": length} for length in (2, 3, 4, 5, 8, 9)],
    )
    yield Case("GlobalAveragePool", [node("GlobalAveragePool", ["x"])], *image(SMALL))


def convolutions():
    w = np.random.default_rng(1).random((3, 2, 3, 3)).astype(np.float32)
    for pad in ("SAME_UPPER", "SAME_LOWER"):
        for stride in (1, 2, 3):
            yield Case(
                f"Conv 3/{stride} {pad}",
                [node("Conv", ["x", "w"], strides=[stride] * 2, auto_pad=pad)],
                *image(SMALL),
                {"w": w},
            )
    for window, attributes in {
        "2/2": (2, dict(strides=[2, 2])),
        "2/2 groups": (2, dict(strides=[2, 2], group=2)),
        "3/2": (3, dict(strides=[2, 2])),
        "3/2 pads": (3, dict(strides=[2, 2], pads=[1, 1, 1, 1])),
        "3/2 pads more": (3, dict(strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1])),
        "4/2 pads": (4, dict(strides=[2, 2], pads=[1, 1, 1, 1])),
        "3/1": (3, {}),
        "3/1 dilated": (3, dict(dilations=[2, 2])),
        "1/2": (1, dict(strides=[2, 2])),
        "2/3": (2, dict(strides=[3, 3])),
        "3/2 SAME_UPPER": (3, dict(strides=[2, 2], auto_pad="SAME_UPPER")),
        "3/2 SAME_LOWER": (3, dict(strides=[2, 2], auto_pad="SAME_LOWER")),
        "3/2 VALID": (3, dict(strides=[2, 2], auto_pad="VALID")),
        "3/2 output_shape": (3, dict(strides=[2, 2], output_shape=[10, 12])),
    }.items():
        k, extra = attributes
        f = (
            np.random.default_rng(2)
            .random((2, 1 if "group" in extra else 3, k, k))
            .astype(np.float32)
        )
        b = np.arange(f.shape[1] * extra.get("group", 1)).astype(np.float32)
        sizes = [(1, 5, 6), (2, 5, 6), (1, 6, 7)] if "output_shape" in extra else SMALL
        yield Case(
            f"ConvTranspose {window}",
            [node("ConvTranspose", ["x", "f", "b"], **extra)],
            *image(sizes),
            {"f": f, "b": b},
        )
    f = np.random.default_rng(2).random((2, 2, 2, 2)).astype(np.float32)
    g = np.random.default_rng(2).random((2, 1, 2, 2)).astype(np.float32)
    inputs, sizes = image([(1, 2, 2), (2, 4, 6), (1, 8, 2)])
    yield Case(
        "U-Net: down, up, concat",
        [
            node("MaxPool", ["x"], ["a"], kernel_shape=[2, 2], strides=[2, 2]),
            node("ConvTranspose", ["a", "f"], ["u"], strides=[2, 2]),
            node("Concat", ["u", "x"], ["y"], axis=1),
        ],
        inputs,
        sizes,
        {"f": f},
    )
    yield Case(
        "U-Net of groups: down, up, add",
        [
            node("MaxPool", ["x"], ["a"], kernel_shape=[2, 2], strides=[2, 2]),
            node("ConvTranspose", ["a", "f"], ["u"], strides=[2, 2], group=2),
            node("Add", ["u", "x"], ["y"]),
        ],
        inputs,
        sizes,
        {"f": g},
    )
    w3 = np.random.default_rng(1).random((2, 2, 3, 3)).astype(np.float32)
    yield Case(
        "U-Net: conv of stride 2, transposed with more, add",
        [
            node("Conv", ["x", "w"], ["a"], strides=[2, 2], pads=[1, 1, 1, 1]),
            node(
                "ConvTranspose",
                ["a", "w"],
                ["u"],
                strides=[2, 2],
                pads=[1, 1, 1, 1],
                output_padding=[1, 1],
            ),
            node("Add", ["u", "x"], ["y"]),
        ],
        inputs,
        sizes,
        {"w": w3},
    )


def resizes():
    for mode in ("nearest", "linear", "cubic"):
        for coordinates in (
            "half_pixel",
            "half_pixel_symmetric",
            "pytorch_half_pixel",
            "align_corners",
            "asymmetric",
        ):
            for scale in (2.0, 1.5, 0.6, 1.3, 0.37):
                yield Case(
                    f"Resize {mode} {coordinates} {scale}",
                    [
                        node(
                            "Resize",
                            ["x", "", "s"],
                            mode=mode,
                            coordinate_transformation_mode=coordinates,
                        )
                    ],
                    *image(WIDE),
                    {"s": np.array([1, 1, scale, scale], np.float32)},
                    oracle="ort"
                    if (mode, coordinates) == ("cubic", "half_pixel_symmetric")
                    else "onnx",
                )
    for nearest in ("floor", "ceil", "round_prefer_ceil"):
        yield Case(
            f"Resize nearest {nearest} 1.5",
            [node("Resize", ["x", "", "s"], mode="nearest", nearest_mode=nearest)],
            *image(WIDE),
            {"s": np.array([1, 1, 1.5, 1.5], np.float32)},
        )
    for mode in ("linear", "cubic"):
        yield Case(
            f"Resize antialias {mode} 0.6",
            [node("Resize", ["x", "", "s"], mode=mode, antialias=1)],
            *image(WIDE),
            {"s": np.array([1, 1, 0.6, 0.6], np.float32)},
        )
    yield Case(
        "Resize cubic outside",
        [node("Resize", ["x", "", "s"], mode="cubic", exclude_outside=1)],
        *image(WIDE),
        {"s": np.array([1, 1, 1.5, 0.8], np.float32)},
    )
    yield Case(
        "Resize crop",
        [
            node(
                "Resize",
                ["x", "r", "s"],
                mode="linear",
                coordinate_transformation_mode="tf_crop_and_resize",
                extrapolation_value=9.0,
            )
        ],
        *image(WIDE),
        {
            "s": np.array([1, 1, 1.5, 0.8], np.float32),
            "r": np.array([0, 0, 0.1, 0.2, 1, 1, 0.8, 1.2], np.float32),
        },
        oracle="onnx",
    )
    for policy in ("not_larger", "not_smaller"):
        yield Case(
            f"Resize {policy}",
            [
                node(
                    "Resize",
                    ["x", "", "", "s"],
                    mode="linear",
                    keep_aspect_ratio_policy=policy,
                    axes=[2, 3],
                )
            ],
            *image(WIDE),
            {"s": [7, 5]},
        )
    yield Case(
        "Resize by another's shape",
        [node("Shape", ["z"], ["s"]), node("Resize", ["x", "", "", "s"], mode="linear")],
        {"x": ["n", 2, "h", "w"], "z": ["n", 2, "a", "b"]},
        [{"n": 1, "h": 3, "w": 4, "a": 7, "b": 2}, {"n": 2, "h": 1, "w": 5, "a": 1, "b": 5}],
    )
    two = {
        "two": np.array([2], np.int64),
        "z": np.array([0], np.int64),
        "e": np.array([2], np.int64),
        "end": np.array([4], np.int64),
    }
    yield Case(
        "Resize to twice the shape",
        [
            node("Shape", ["x"], ["s"]),
            node("Slice", ["s", "z", "e"], ["head"]),
            node("Slice", ["s", "e", "end"], ["tail"]),
            node("Mul", ["tail", "two"], ["more"]),
            node("Concat", ["head", "more"], ["all"], axis=0),
            node(
                "Resize",
                ["x", "", "", "all"],
                mode="nearest",
                coordinate_transformation_mode="asymmetric",
                nearest_mode="floor",
            ),
        ],
        *image(WIDE),
        two,
    )
    yield Case(
        "Resize as torch recomputes",
        [
            node("Shape", ["x"], ["s"]),
            node("Slice", ["s", "z", "e"], ["head"]),
            node("Slice", ["s", "e", "end"], ["tail"]),
            node("Cast", ["tail"], ["f"], to=TensorProto.FLOAT),
            node("Mul", ["f", "k"], ["g"]),
            node("Floor", ["g"], ["fl"]),
            node("Cast", ["fl"], ["more"], to=TensorProto.INT64),
            node("Concat", ["head", "more"], ["all"], axis=0),
            node(
                "Resize",
                ["x", "", "", "all"],
                mode="linear",
                coordinate_transformation_mode="half_pixel",
            ),
        ],
        *image(WIDE),
        {**two, "k": np.float32(1.7)},
    )
    yield Case(
        "Resize by scales of shapes",
        [
            node("Shape", ["x"], ["s"]),
            node("Shape", ["t"], ["q"]),
            node("Cast", ["s"], ["f"], to=TensorProto.FLOAT),
            node("Cast", ["q"], ["g"], to=TensorProto.FLOAT),
            node("Div", ["g", "f"], ["k"]),
            node("Resize", ["x", "", "k"], mode="linear"),
        ],
        {"x": ["n", 2, "h", "w"], "t": ["n", 2, "a", "b"]},
        [{"n": 1, "h": 4, "w": 4, "a": 8, "b": 2}, {"n": 2, "h": 2, "w": 5, "a": 6, "b": 5}],
    )
    for opset, op in ((9, "Upsample"), (10, "Resize")):
        for scale in (2.0, 1.5):
            yield Case(
                f"{op} {opset} {scale}",
                [node(op, ["x", "s"], mode="linear")],
                *image(WIDE),
                {"s": np.array([1, 1, scale, scale], np.float32)},
                opset=opset,
            )


def ranges():
    one = {
        "i": np.array(0, np.int64),
        "zero": np.array(0, np.int64),
        "one": np.array(1, np.int64),
        "two": np.array(2, np.int64),
        "minus": np.array(-1, np.int64),
        "three": np.array(3, np.int64),
    }
    length = [node("Shape", ["x"], ["s"]), node("Gather", ["s", "i"], ["n"])]
    sizes = [{"l": count} for count in (1, 2, 3, 4, 7)]
    for name, nodes in {
        "0..n": [node("Range", ["zero", "n", "one"])],
        "0..n by 2": [node("Range", ["zero", "n", "two"])],
        "1..n by 3": [node("Range", ["one", "n", "three"])],
        "n..0 by -1": [node("Range", ["n", "zero", "minus"])],
        "n-1..-1 by -1": [node("Sub", ["n", "one"], ["m"]), node("Range", ["m", "minus", "minus"])],
        "2..n": [node("Range", ["two", "n", "one"])],
        "0..9 by n": [node("Range", ["zero", "nine", "n"])],
        "n..3n by n": [node("Mul", ["n", "three"], ["m"]), node("Range", ["n", "m", "n"])],
        "-n..n": [node("Neg", ["n"], ["m"]), node("Range", ["m", "n", "one"])],
        "-n..0 by 2": [node("Neg", ["n"], ["m"]), node("Range", ["m", "zero", "two"])],
        "(n+1)/2": [
            node("Add", ["n", "one"], ["a"]),
            node("Div", ["a", "two"], ["m"]),
            node("Range", ["zero", "m", "one"]),
        ],
    }.items():
        yield Case(
            f"Range {name}",
            length + nodes,
            {"x": ["l"]},
            sizes,
            {**one, "nine": np.array(9, np.int64)},
        )
    for name, start, delta in (
        ("float 0..n by 0.5", 0, 0.5),
        ("float 0..n by 0.3", 0, 0.3),
        ("float n.. by -0.7", None, -0.7),
    ):
        nodes = length + [
            node("Cast", ["n"], ["f"], to=TensorProto.FLOAT),
            node("Range", ["f", "c", "d"] if start is None else ["c", "f", "d"]),
        ]
        yield Case(
            f"Range {name}",
            nodes,
            {"x": ["l"]},
            sizes,
            {**one, "c": np.float32(0), "d": np.float32(delta)},
        )
    yield Case(
        "Range int32",
        length + [node("Cast", ["n"], ["f"], to=TensorProto.INT32), node("Range", ["a", "f", "b"])],
        {"x": ["l"]},
        sizes,
        {**one, "a": np.array(0, np.int32), "b": np.array(2, np.int32)},
    )
    data = {"x": lambda s: np.array(s["v"], np.int64)}
    yield Case(
        "Range of data",
        [node("Range", ["zero", "x", "two"])],
        {"x": []},
        [{"v": v} for v in (0, 1, 4, 5)],
        one,
        types={"x": TensorProto.INT64},
        values=data,
    )
    yield Case(
        "Range of computed data",
        [node("Mul", ["x", "three"], ["m"]), node("Range", ["x", "m", "two"])],
        {"x": []},
        [{"v": v} for v in (0, 1, 4, 5)],
        one,
        types={"x": TensorProto.INT64},
        values=data,
    )
    yield Case(
        "Range of summed data",
        [node("ReduceSum", ["x"], ["m"], keepdims=0), node("Range", ["zero", "m", "two"])],
        {"x": ["l"]},
        [{"l": v} for v in (1, 4, 5)],
        one,
        types={"x": TensorProto.INT64},
        values={"x": lambda s: np.arange(s["l"], dtype=np.int64)},
    )
    yield Case(
        "Range, step of data",
        [node("Range", ["zero", "nine", "x"])],
        {"x": []},
        [{"v": v} for v in (1, 4, 9)],
        {**one, "nine": np.array(9, np.int64)},
        types={"x": TensorProto.INT64},
        values=data,
    )
    yield Case(
        "Range, positions",
        length
        + [
            node("Range", ["zero", "n", "one"], ["r"]),
            node("Cast", ["r"], ["f"], to=TensorProto.FLOAT),
            node("Add", ["x", "f"]),
        ],
        {"x": ["l"]},
        sizes,
        one,
    )


def movements():
    ints = {
        "i0": np.array([0]),
        "i1": np.array([1]),
        "i2": np.array([2]),
        "i3": np.array([3]),
        "m1": np.array([-1]),
        "m2": np.array([-2]),
        "big": np.array([1 << 60]),
    }
    shape = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "i0"], ["n"]),
        node("Gather", ["s", "i1"], ["m"]),
    ]
    inputs, sizes = (
        {"x": ["n", "m"]},
        [{"n": n, "m": m} for n, m in ((1, 2), (2, 4), (3, 6), (5, 2), (4, 8))],
    )

    def made(name, nodes, only=None, outputs=("y",)):
        return Case(name, shape + nodes, inputs, only or sizes, ints, outputs=outputs)

    yield made(
        "Reshape -1", [node("Concat", ["i2", "m1"], ["t"], axis=0), node("Reshape", ["x", "t"])]
    )
    yield made(
        "Reshape m/2",
        [
            node("Div", ["m", "i2"], ["h"]),
            node("Concat", ["n", "h", "m1"], ["t"], axis=0),
            node("Reshape", ["x", "t"]),
        ],
    )
    yield made(
        "Reshape n*m/2, 2",
        [
            node("Mul", ["n", "m"], ["p"]),
            node("Div", ["p", "i2"], ["h"]),
            node("Concat", ["h", "i2"], ["t"], axis=0),
            node("Reshape", ["x", "t"]),
        ],
    )
    yield made(
        "Reshape n, m-m/2+m/2",
        [
            node("Div", ["m", "i2"], ["h"]),
            node("Sub", ["m", "h"], ["q"]),
            node("Add", ["q", "h"], ["p"]),
            node("Concat", ["n", "p"], ["t"], axis=0),
            node("Reshape", ["x", "t"]),
        ],
    )
    yield made("Slice 1..n", [node("Slice", ["x", "i1", "n", "i0"])])
    yield made("Slice -2..", [node("Slice", ["x", "m2", "big", "i0"])])
    yield made(
        "Slice ..n/2", [node("Div", ["n", "i2"], ["h"]), node("Slice", ["x", "i0", "h", "i0"])]
    )
    yield made(
        "Slice m-2..", [node("Sub", ["m", "i2"], ["h"]), node("Slice", ["x", "h", "m", "i1"])]
    )
    yield made("Slice by 2", [node("Slice", ["x", "i0", "big", "i1", "i2"])])
    yield made("Slice 1.. by 3", [node("Slice", ["x", "i1", "big", "i1", "i3"])])
    yield made(
        "Slice back",
        [node("Sub", ["i0", "big"], ["lo"]), node("Slice", ["x", "m1", "lo", "i1", "m1"])],
    )
    yield made(
        "Slice back by 2",
        [node("Sub", ["i0", "big"], ["lo"]), node("Slice", ["x", "m1", "lo", "i1", "m2"])],
    )
    yield made("Slice from n on", [node("Slice", ["x", "n", "big", "i1"])])
    # Computed negative sizes count from the end, as constants do.
    few = [{"n": 2, "m": m} for m in (1, 2, 3, 4, 7)]
    less = [node("Sub", ["m", "i3"], ["h"])]
    yield made("Slice m-3..", less + [node("Slice", ["x", "h", "m", "i1"])], only=few)
    yield made("Slice ..m-3", less + [node("Slice", ["x", "i0", "h", "i1"])], only=few)
    yield made("Slice m-3..-1", less + [node("Slice", ["x", "h", "m1", "i1"])], only=few)
    yield made(
        "Slice by 2 from m-3", less + [node("Slice", ["x", "h", "big", "i1", "i2"])], only=few
    )
    yield made("Gather at m-3", less + [node("Gather", ["x", "h"], axis=1)], only=few[1:])
    yield made(
        "Where m-3 is -1",
        less
        + [
            node("Equal", ["h", "m1"], ["e"]),
            node("Where", ["e", "i2", "i1"], ["k"]),
            node("Concat", ["k", "i1"], ["t"], axis=0),
            node("Tile", ["x", "t"]),
        ],
        only=few,
    )
    yield made(
        "Tile max(m-3, -1)+1",
        less
        + [
            node("Max", ["h", "m1"], ["k"]),
            node("Add", ["k", "i1"], ["q"]),
            node("Concat", ["q", "i1"], ["t"], axis=0),
            node("Tile", ["x", "t"]),
        ],
        only=few,
    )
    yield made(
        "Tile (m-4)/2+3",
        [
            node("Add", ["i2", "i2"], ["four"]),
            node("Sub", ["m", "four"], ["h"]),
            node("Div", ["h", "i2"], ["k"]),
            node("Add", ["k", "i3"], ["q"]),
            node("Concat", ["q", "i1"], ["t"], axis=0),
            node("Tile", ["x", "t"]),
        ],
        only=few,
    )
    yield made(
        "Tile -m mod 3",
        [
            node("Neg", ["m"], ["h"]),
            node("Mod", ["h", "i3"], ["q"]),
            node("Concat", ["q", "i1"], ["t"], axis=0),
            node("Tile", ["x", "t"]),
        ],
        only=few,
    )
    yield made(
        "Split halves",
        [node("Split", ["x"], ["a", "b"], axis=1, num_outputs=2), node("Sub", ["a", "b"])],
    )
    yield made(
        "Split in two, uneven",
        [node("Split", ["x"], ["y", "b"], axis=0, num_outputs=2)],
        outputs=("y", "b"),
        only=[{"n": n, "m": 2} for n in (2, 3, 4, 5)],
    )
    yield made(
        "Split in three, uneven",
        [node("Split", ["x"], ["y", "b", "c"], axis=0, num_outputs=3)],
        outputs=("y", "b", "c"),
        only=[{"n": n, "m": 2} for n in (3, 5, 6, 8)],
    )
    yield made(
        "Split computed",
        [
            node("Div", ["m", "i2"], ["h"]),
            node("Sub", ["m", "h"], ["r"]),
            node("Concat", ["h", "r"], ["t"], axis=0),
            node("Split", ["x", "t"], ["y", "b"], axis=1),
        ],
        outputs=("y", "b"),
    )
    yield made(
        "Split 1 and the rest",
        [
            node("Sub", ["m", "i1"], ["r"]),
            node("Concat", ["i1", "r"], ["t"], axis=0),
            node("Split", ["x", "t"], ["y", "b"], axis=1),
        ],
        outputs=("y", "b"),
    )
    yield made("Tile n", [node("Concat", ["n", "i2"], ["t"], axis=0), node("Tile", ["x", "t"])])
    yield made(
        "Expand",
        [
            node("Unsqueeze", ["x", "i0"], ["u"]),
            node("Add", ["n", "m"], ["p"]),
            node("Concat", ["p", "n", "m"], ["t"], axis=0),
            node("Expand", ["u", "t"]),
        ],
    )
    yield made(
        "ConstantOfShape",
        [
            node("Mul", ["n", "m"], ["p"]),
            node("Concat", ["p", "n"], ["t"], axis=0),
            node("ConstantOfShape", ["t"]),
        ],
    )
    yield made(
        "Pad to even",
        [
            node("Mod", ["n", "i2"], ["r"]),
            node("Concat", ["i0", "i0", "r", "i0"], ["t"], axis=0),
            node("Pad", ["x", "t"]),
        ],
    )
    yield made(
        "Pad by n", [node("Concat", ["n", "i1", "i2", "n"], ["t"], axis=0), node("Pad", ["x", "t"])]
    )
    yield made(
        "Pad to 6",
        [
            node("Add", ["i3", "i3"], ["six"]),
            node("Sub", ["six", "n"], ["r"]),
            node("Concat", ["i0", "i0", "r", "i0"], ["t"], axis=0),
            node("Pad", ["x", "t"]),
        ],
    )
    yield made(
        "Pad or cut to 3",
        [
            node("Sub", ["i3", "n"], ["r"]),
            node("Concat", ["i0", "i0", "r", "i1"], ["t"], axis=0),
            node("Pad", ["x", "t"]),
        ],
    )
    for mode in ("reflect", "edge", "wrap"):
        yield made(
            f"Pad {mode}",
            [
                node("Concat", ["i1", "i1", "i1", "i0"], ["t"], axis=0),
                node("Pad", ["x", "t"], mode=mode),
            ],
            only=[{"n": n, "m": m} for n, m in ((2, 2), (3, 5), (4, 2))],
        )
    yield made(
        "Pad reflect to even",
        [
            node("Mod", ["m", "i3"], ["r"]),
            node("Concat", ["i0", "i0", "i0", "r"], ["t"], axis=0),
            node("Pad", ["x", "t"], mode="reflect"),
        ],
        only=[{"n": n, "m": m} for n, m in ((2, 3), (3, 5), (4, 7))],
    )
    yield made(
        "CenterCropPad",
        [
            node("Add", ["n", "i1"], ["p"]),
            node("Concat", ["p", "i3"], ["t"], axis=0),
            node("CenterCropPad", ["x", "t"]),
        ],
    )
    yield made(
        "TopK n/2",
        [node("Div", ["m", "i2"], ["h"]), node("TopK", ["x", "h"], ["y", "b"], axis=1)],
        outputs=("y", "b"),
    )
    yield made("Trilu", [node("Trilu", ["x"], upper=0)])
    yield made("Flatten", [node("Flatten", ["x"], axis=1)])
    x4, s4 = (
        {"x": ["n", 4, "h", "w"]},
        [{"n": 1, "h": h, "w": w} for h, w in ((2, 2), (4, 2), (6, 4))],
    )
    yield Case("DepthToSpace", [node("DepthToSpace", ["x"], blocksize=2)], x4, s4)
    yield Case("SpaceToDepth", [node("SpaceToDepth", ["x"], blocksize=2)], x4, s4)
    yield Case(
        "window partition",
        [  # as in Swin: [1, h, w, c] to [windows, 2, 2, c] and back
            node("Shape", ["x"], ["s"]),
            node("Gather", ["s", "i1"], ["h"]),
            node("Gather", ["s", "i2"], ["w"]),
            node("Div", ["h", "i2"], ["hh"]),
            node("Div", ["w", "i2"], ["ww"]),
            node("Concat", ["i1", "hh", "i2", "ww", "i2", "i3"], ["t"], axis=0),
            node("Reshape", ["x", "t"], ["a"]),
            node("Transpose", ["a"], ["b"], perm=[0, 1, 3, 2, 4, 5]),
            node("Concat", ["m1", "i2", "i2", "i3"], ["t2"], axis=0),
            node("Reshape", ["b", "t2"], ["c"]),
            node("Exp", ["c"], ["e"]),
            node("Concat", ["i1", "hh", "ww", "i2", "i2", "i3"], ["t3"], axis=0),
            node("Reshape", ["e", "t3"], ["f"]),
            node("Transpose", ["f"], ["g"], perm=[0, 1, 3, 2, 4, 5]),
            node("Concat", ["i1", "h", "w", "m1"], ["t4"], axis=0),
            node("Reshape", ["g", "t4"], ["k"]),
            node("Add", ["k", "x"]),
        ],
        {"x": [1, "h", "w", 3]},
        [{"h": h, "w": w} for h, w in ((2, 2), (4, 2), (6, 8))],
        ints,
    )
    yield Case(
        "pad to a multiple of 4 and cut again",
        [
            node("Shape", ["x"], ["s"]),
            node("Gather", ["s", "i1"], ["w"]),
            node("Sub", ["i0", "w"], ["neg"]),
            node("Add", ["i2", "i2"], ["four"]),
            node("Mod", ["neg", "four"], ["r"]),
            node("Concat", ["i0", "i0", "i0", "r"], ["p"], axis=0),
            node("Pad", ["x", "p"], ["a"]),
            node("Concat", ["i2", "m1", "four"], ["t"], axis=0),
            node("Reshape", ["a", "t"], ["b"]),
            node("Exp", ["b"], ["c"]),
            node("Concat", ["i2", "m1"], ["t2"], axis=0),
            node("Reshape", ["c", "t2"], ["d"]),
            node("Slice", ["d", "i0", "w", "i1"], ["e"]),
            node("Add", ["e", "x"]),
        ],
        {"x": [2, "w"]},
        [{"w": w} for w in (1, 3, 4, 5, 8)],
        ints,
    )


def places():
    yield Case(
        "GridSample",
        [node("GridSample", ["x", "g"])],
        {"x": ["n", 2, "h", "w"], "g": ["n", "a", "b", 2]},
        [{"n": 1, "h": 3, "w": 4, "a": 2, "b": 5}, {"n": 2, "h": 1, "w": 1, "a": 1, "b": 1}],
    )
    for corners in (0, 1):
        yield Case(
            f"AffineGrid corners={corners}",
            [node("Shape", ["x"], ["s"]), node("AffineGrid", ["t", "s"], align_corners=corners)],
            {"x": ["n", 2, "h", "w"], "t": ["n", 2, 3]},
            [{"n": n, "h": h, "w": w} for n, h, w in ((1, 2, 3), (2, 4, 2), (1, 5, 7))],
            opset=20,
        )
        yield Case(
            f"AffineGrid 3d corners={corners}",
            [node("Shape", ["x"], ["s"]), node("AffineGrid", ["t", "s"], align_corners=corners)],
            {"x": ["n", 2, "d", "h", "w"], "t": ["n", 3, 4]},
            [{"n": n, "d": d, "h": h, "w": w} for n, d, h, w in ((1, 2, 2, 3), (2, 3, 4, 2))],
            opset=20,
        )
    yield Case(
        "spatial transformer",
        [
            node("Shape", ["x"], ["s"]),
            node("AffineGrid", ["t", "s"], ["g"]),
            node("GridSample", ["x", "g"]),
        ],
        {"x": ["n", 2, "h", "w"], "t": ["n", 2, 3]},
        [{"n": n, "h": h, "w": w} for n, h, w in ((1, 2, 3), (2, 4, 2), (1, 5, 7))],
        opset=20,
    )
    yield Case(
        "MaxUnpool",
        [
            node("MaxPool", ["x"], ["a", "i"], kernel_shape=[2, 2], strides=[2, 2]),
            node("MaxUnpool", ["a", "i"], kernel_shape=[2, 2], strides=[2, 2]),
        ],
        *image([(1, 2, 2), (2, 4, 6)]),
    )
    yield Case(
        "MaxUnpool to a shape",
        [
            node("MaxPool", ["x"], ["a", "i"], kernel_shape=[2, 2], strides=[2, 2]),
            node("Shape", ["x"], ["s"]),
            node("MaxUnpool", ["a", "i", "s"], kernel_shape=[2, 2], strides=[2, 2]),
        ],
        *image([(1, 2, 2), (2, 4, 6)]),
    )
    yield Case("LRN", [node("LRN", ["x"], size=3)], *image(SMALL))
    yield Case(
        "InstanceNormalization",
        [node("InstanceNormalization", ["x", "a", "b"])],
        *image(WIDE),
        {"a": np.ones(2, np.float32), "b": np.zeros(2, np.float32)},
    )


def transforms():
    few = [{"n": n, "l": length} for n, length in ((1, 1), (2, 7), (1, 8), (2, 9), (1, 20))]
    for onesided in (0, 1):
        yield Case(
            f"DFT of 8 onesided={onesided}",
            [node("DFT", ["x", "eight"], axis=1, onesided=onesided)],
            {"x": ["n", "l", 1]},
            few,
            {"eight": np.int64(8)},
        )
    yield Case(
        "DFT of 8 complex",
        [node("DFT", ["x", "eight"], axis=1)],
        {"x": ["n", "l", 2]},
        few,
        {"eight": np.int64(8)},
    )
    yield Case(
        "STFT of the whole signal",
        [node("STFT", ["x", "step"])],
        {"x": ["n", 12, 1]},
        [{"n": 1}, {"n": 3}],
        {"step": np.int64(4)},
        oracle="onnx",
    )


def all_cases():
    for group in (pools, convolutions, resizes, ranges, movements, places, transforms):
        yield from group()


def expected(case, feeds):
    """ONNX Runtime's outputs; those of ONNX's reference where ONNX Runtime computes positions by
    another rule."""
    if case.oracle == "onnx":
        names = [o.name for o in case.model.graph.output]
        return dict(zip(names, onnx.reference.ReferenceEvaluator(case.model).run(None, feeds)))
    session = onnxruntime.InferenceSession(
        case.model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, feeds)))


def check(tool, case, device, folder):
    """What is wrong, or nothing."""
    path = pathlib.Path(folder) / "model.onnx"
    onnx.save(case.model, path)
    feeds = [case.feeds(size) for size in case.sizes]
    try:
        wanted = [expected(case, f) for f in feeds]
    except Exception as error:  # a size that ONNX Runtime refuses is not a case for this test
        return f"ONNX Runtime: {str(error)[:300]}"
    try:
        results, _ = shapes.run_many(tool, path, device, feeds)
    except RuntimeError as error:
        return str(error)
    for size, got, want in zip(case.sizes, results, wanted):
        text = shapes.wrong(got, want)
        if text:
            return f"{size}: {text}"
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tool", required=True)
    parser.add_argument("--devices", default="reference,cpu")
    parser.add_argument("--filter", default="", help="only cases whose name holds this")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    passed = failed = 0
    for case in all_cases():
        if options.filter not in case.name:
            continue
        for device in options.devices.split(","):
            with tempfile.TemporaryDirectory() as folder:
                text = check(options.tool, case, device, folder)
            if text or options.verbose:
                print(
                    f"{'FAIL' if text else 'ok  '} {case.name} on {device}{': ' if text else ''}{text}",
                    flush=True,
                )
            passed, failed = passed + (not text), failed + bool(text)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
