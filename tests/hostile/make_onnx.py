#!/usr/bin/env python3
"""The hostile corpus of models, weights and inputs: groups 1 to 4 and 9, and broken .npy files.

    python3 tests/hostile/make_onnx.py FOLDER          writes every case below FOLDER and lists them
    python3 tests/hostile/make_onnx.py --seeds FOLDER  writes small models for a fuzzer

cases() is the table that run.py runs. Each case has an expected outcome:

    E   a clean error: exit status 2, one message with a stable code, nothing written
    L   the same, and the message names the limit
    OK  exit status 0, and the case's values, if it has any
    E|OK, L|OK, E|L   either of the two; what is never allowed is the same for all
"""

import contextlib
import os
import pathlib
import re
import socket
import stat
import sys
import warnings
from dataclasses import dataclass, field

from wire import *  # noqa: F403  one vocabulary, used in nearly every line below

X = floats(1, 2, 3, 4, 5, 6)
RELU = [node("Relu", ["x"], ["y"])]
MIN64, MAX64 = -(1 << 63), (1 << 63) - 1


@dataclass
class Case:
    name: str
    expect: str
    files: dict = field(default_factory=dict)  # path -> bytes, or a function of the path
    args: list = field(default_factory=lambda: ["run", "model.onnx", "--seed", "1"])
    outputs: dict = field(default_factory=dict)  # output name -> the bytes its .npy ends with
    mentions: str = ""  # text that the message must contain
    seconds: float = 5.0  # of processor time
    stop: float = 0  # S: interrupted after this many seconds; must then end


def one(name, expect, body, **rest):
    return Case(name, expect, {"model.onnx": body}, **rest)


def plain(name, expect, nodes, initializers=(), mentions="", outputs=None, **rest):
    return one(
        name, expect, simple(nodes, initializers, **rest), mentions=mentions, outputs=outputs or {}
    )


def container():
    good = simple(RELU)
    yield one("001-empty", "E", b"")
    yield one("002-text", "E", b"this is not a model, only a line of text\n" * 20)
    for at in range(len(good)):
        # A cut between top-level fields may leave a complete model.
        yield one(f"003-cut-{at:04}", "E|OK" if at > 20 else "E", good[:at])
    for at in range(len(good)):
        flipped = bytearray(good)
        flipped[at] ^= 1 << (at * 5 % 8)
        yield one(f"004-flip-{at:04}", "E|OK", bytes(flipped))
    huge = varint((1 << 64) - 1)
    yield one("005-length-prefix", "E", number(1, 8) + varint(7 << 3 | 2) + huge + b"x" * 64)
    yield one("005-length-prefix-deep", "E", model(varint(1 << 3 | 2) + huge + b"x" * 64))
    yield one("006-groups", "E", good + varint(99 << 3 | 3) * 10000 + varint(99 << 3 | 4) * 10000)
    yield one("006-groups-open", "E", good + varint(99 << 3 | 3) * 10000)
    yield one("007-duplicate-scalar", "E|OK", number(1, 3) + good)
    yield plain("008-utf8-name", "E", [node("Relu", ["x"], ["y"], name=b"\xff\xfe\xc3\x28")])
    yield plain(
        "008-utf8-value",
        "E",
        [node("Relu", ["x"], [b"\xc3\x28"]), node("Relu", [b"\xc3\x28"], ["y"])],
    )
    yield plain(
        "009-nul-name", "E", [node("Relu", ["x"], [b"a\0b"]), node("Relu", [b"a\0b"], ["y"])]
    )
    yield plain(
        "010-name-1mb",
        "L",
        [node("Relu", ["x"], ["n" * (1 << 20)]), node("Relu", ["n" * (1 << 20)], ["y"])],
    )
    keys = b"".join(data(14, data(1, f"key{i}") + data(2, "v")) for i in range(100000))
    yield one("011-metadata", "OK", simple(RELU, more=keys))
    yield one("012-no-graph", "E", model(None))
    yield one("013-ir-version-0", "E", simple(RELU, ir_version=0))
    yield one("013-ir-version-missing", "E", simple(RELU, ir_version=None))
    yield one("014-opset-2-31", "E", simple(RELU, opsets=[opset(1 << 31)]))
    yield one("014-opset-0", "E", simple(RELU, opsets=[opset(0)]))
    yield one("014-opset-negative", "E", simple(RELU, opsets=[opset(-1)]))
    yield one(
        "015-unknown-domain",
        "E",
        simple(
            [node("Relu", ["x"], ["y"], domain="org.nowhere")],
            opsets=[opset(), opset(1, "org.nowhere")],
        ),
        mentions="org.nowhere",
    )
    yield one(
        "015-domain-not-imported", "E", simple([node("Relu", ["x"], ["y"], domain="org.nowhere")])
    )
    yield one("016-two-opsets", "E", simple(RELU, opsets=[opset(17), opset(13)]))
    yield one(
        "016-two-opsets-two-names", "E", simple(RELU, opsets=[opset(17), opset(13, "ai.onnx")])
    )
    yield one(
        "016-unknown-ops",
        "E",
        simple([node("Foo", ["x"], ["a"]), node("Bar", ["a"], ["y"])]),
        mentions="Foo.*Bar",
    )
    yield one(
        "016-terminal-codes",
        "E",
        simple([node("\x1b[31mFoo\n", ["x"], ["y"], name="a\x1b]0;t\x07\n")]),
    )


def through_constant(weights):
    """The weights as a Constant's attribute instead of an initializer."""
    return simple(
        [
            node("Constant", [], ["w"], [tensor_attribute("value", weights)]),
            node("Add", ["x", "w"], ["y"]),
        ]
    )


def through_branch(weights):
    """The weights inside the branches of an If."""
    branch = graph([node("Add", ["x", "w"], ["b"])], [], [typed("b")], [weights])
    return simple(
        [
            node(
                "If",
                ["c"],
                ["y"],
                [graph_attribute("then_branch", branch), graph_attribute("else_branch", branch)],
            )
        ],
        [tensor("c", BOOL, [], b"\1")],
    )


def through_function(weights):
    """The weights inside a function's body."""
    body = function(
        "F",
        ["a"],
        ["b"],
        [
            node("Constant", [], ["w"], [tensor_attribute("value", weights)]),
            node("Add", ["a", "w"], ["b"]),
        ],
    )
    return simple(
        [node("F", ["x"], ["y"], domain="own")], opsets=[opset(), opset(1, "own")], functions=[body]
    )


def symlink(target):
    return lambda path: os.symlink(target, path)


def hard_link(target):
    return lambda path: os.link(path.parent / target, path)


def unix_socket(path):
    # A socket's path is limited to 108 bytes, so bind by name, in its folder.
    here = os.getcwd()
    os.chdir(path.parent)
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(path.name)
    os.chdir(here)


def external_data():
    weights = {"sub/weights.bin": X, "outside.bin": X}
    special = {
        "020-symlink": {"m/link": symlink("../outside.bin")},
        "020-symlink-inside": {"m/w.bin": X, "m/link": symlink("w.bin")},
        "021-parent-symlink": {"m/link": symlink("../sub")},
        "022-hard-link": {"m/link": hard_link("../outside.bin")},
        "023-directory": {"m/link/x": b""},
        "024-fifo": {"m/link": os.mkfifo},
        "025-socket": {"m/link": unix_socket},
    }
    if os.geteuid() == 0:
        special["025-device"] = {
            "m/link": lambda path: os.mknod(path, stat.S_IFCHR | 0o644, os.makedev(1, 5))
        }
    where = {
        "017-parent": "../outside.bin",
        "018-sub-parent": "../m/../outside.bin",
        "019-absolute": "/etc/hostname",
        "026-proc-mem": "/proc/self/mem",
        "027-empty": "",
        "028-nul": "w.bin\0x",
        "029-backslashes": "..\\outside.bin",
        "029-dot": ".",
        "029-missing": "nowhere.bin",
        "029-long": "a" * 5000,
    }
    where |= dict.fromkeys(special, "link")
    where["021-parent-symlink"] = "link/weights.bin"
    forms = {
        "": lambda w: simple([node("Add", ["x", "w"], ["y"])], [w]),
        "-constant": through_constant,
        "-branch": through_branch,
        "-function": through_function,
    }
    for name, location in where.items():
        for form, build in forms.items():
            body = build(external("w", [2, 3], [("location", location)]))
            files = weights | {"m/w.bin": X} | special.get(name, {}) | {"m/model.onnx": body}
            yield Case(name + form, "E", files, ["run", "m/model.onnx", "--seed", "1"])

    def entries(name, expect, pairs, dims=(2, 3), file=X):
        for form, build in forms.items():
            # Functions and branches belong to later opsets, so a clean refusal is right too.
            outcome = "E|OK" if expect == "OK" and form in ("-branch", "-function") else expect
            yield Case(
                name + form,
                outcome,
                {"model.onnx": build(external("w", dims, pairs)), "w.bin": file},
            )

    at = ("location", "w.bin")
    yield from entries("030-good", "OK", [at])
    yield from entries(
        "030-good-offset", "OK", [at, ("offset", "8"), ("length", "24")], file=b"12345678" + X
    )
    yield from entries("030-offset-negative", "E", [at, ("offset", "-8")])
    yield from entries("031-offset-2-63", "E", [at, ("offset", str((1 << 63) - 8))])
    yield from entries("031-offset-10-30", "E", [at, ("offset", "1" + "0" * 30)])
    yield from entries("031-offset-text", "E", [at, ("offset", "0x10")])
    yield from entries("032-past-end", "E", [at, ("offset", "8"), ("length", "24")])
    yield from entries("032-file-short", "E", [at], file=X[:20])
    yield from entries("033-length-differs", "E", [at, ("length", "20")])
    yield from entries("034-two-locations", "E", [at, ("location", "../outside.bin")])
    yield from entries("034-no-location", "E", [("offset", "0")])
    yield from entries("035-unknown-key", "E", [at, ("__class__", "x")])
    sparse = (
        data(1, external("w", [2], [("location", "../outside.bin")]))
        + data(2, tensor("i", INT64, [2], longs(0, 1)))
        + number(3, 2)
        + number(3, 3)
    )
    body = model(
        graph([node("Add", ["x", "w"], ["y"])], [value("x", [2, 3])], [typed("y")], sparse=[sparse])
    )
    yield Case(
        "036-sparse",
        "E",
        {"m/model.onnx": body, "outside.bin": X},
        ["run", "m/model.onnx", "--seed", "1"],
    )
    yield one(
        "036-memory-only",
        "E",
        simple([node("Add", ["x", "w"], ["y"])], [tensor("w", FLOAT, [2, 3], None, number(14, 1))]),
    )


def shapes():
    def weights(name, expect, body):
        return plain(name, expect, [node("Add", ["x", "w"], ["y"])], [body])

    def shaped(name, expect, op, values, **attributes):
        return plain(
            name,
            expect,
            [node(op, ["x", "s"], ["y"], **attributes)],
            [tensor("s", INT64, [len(values)], longs(*values))],
        )

    yield weights("037-dims-2-64", "E|L", tensor("w", FLOAT, [1 << 32, 1 << 32]))
    yield weights("037-dims-2-64-raw", "E|L", tensor("w", FLOAT, [1 << 32, 1 << 32], X))
    yield weights("038-dim-negative", "E", tensor("w", FLOAT, [-4], X))
    yield plain(
        "038-input-empty-wide",
        "L",
        [node("Pad", ["x", "p"], ["y"], mode="reflect")],
        [tensor("p", INT64, [4], longs(0, 2 - (1 << 63), 0, 0))],
        inputs=[value("x", [0, MAX64])],
    )
    yield weights("038-dim-empty-wide", "L", tensor("w", FLOAT, [0, MAX64]))
    yield plain("038-input-negative", "E", RELU, inputs=[value("x", [-4, 3])])
    yield weights("039-data-short", "E", tensor("w", FLOAT, [2, 3], X[:20]))
    yield weights("039-data-short-floats", "E", tensor("w", FLOAT, [2, 3], None, data(4, X[:20])))
    yield weights("040-data-long", "E", tensor("w", FLOAT, [2, 3], X + X))
    yield weights("040-data-ragged", "E", tensor("w", FLOAT, [2, 3], None, data(4, X[:23])))
    yield plain("041-elements-2-40", "L", RELU, inputs=[value("x", [1 << 20, 1 << 20])])
    yield weights("042-dtype-999", "E", tensor("w", 999, [2, 3], X))
    yield plain("042-input-dtype-999", "E", RELU, inputs=[value("x", [2, 3], 999)])
    yield weights("042-dtype-0", "E", tensor("w", 0, [2, 3], X))
    yield weights(
        "043-field-disagrees",
        "E",
        tensor("w", FLOAT, [2, 3], None, data(7, bytes([1, 2, 3, 4, 5, 6]))),
    )
    yield weights("043-two-fields", "E", tensor("w", FLOAT, [2, 3], X, data(4, X)))
    yield weights("043-string-data", "E", tensor("w", STRING, [1], None, data(6, "abc")))
    yield plain(
        "044-int4",
        "E|OK",
        [node("Cast", ["w"], ["f"], to=FLOAT), node("Add", ["x", "f"], ["y"])],
        [tensor("w", INT4, [3], b"\x21\x03")],
        opsets=[opset(21)],
        ir_version=10,
    )
    yield weights("045-rank-1000", "L", tensor("w", FLOAT, [1] * 1000, X[:4]))
    yield plain("045-input-rank-1000", "L", RELU, inputs=[value("x", [1] * 1000)])
    yield plain(
        "045-unsqueeze-rank-1000",
        "E|L",
        [node("Unsqueeze", ["x", "s"], ["y"])],
        [tensor("s", INT64, [998], longs(*range(998)))],
    )

    def none(op, attributes=None, extra=(), dims=(0, 3), initializers=(), expect="OK", name=None):
        return plain(
            f"046-zero-{(name or op).lower()}",
            expect,
            [node(op, ["x", *extra], ["y"], **(attributes or {}))],
            initializers,
            inputs=[value("x", list(dims))],
        )

    for op in ("Relu", "Exp", "Sigmoid", "Identity", "Flatten", "Transpose", "Softmax", "Neg"):
        yield none(op)
    yield none("Softmax", dims=(3, 0), name="softmax-row")
    yield none("Add", extra=["x"])
    yield none("Concat", {"axis": 0}, ["x"])
    yield none("ReduceMean", {"axes": [1]})
    yield none("ReduceSum", extra=["s"], initializers=[tensor("s", INT64, [1], longs(0))])
    yield none("MatMul", extra=["w"], initializers=[tensor("w", FLOAT, [3, 2], X)])
    yield none(
        "MatMul",
        extra=["w"],
        dims=(2, 0),
        name="matmul-k",
        initializers=[tensor("w", FLOAT, [0, 2], b"")],
    )
    yield none("Gather", extra=["s"], dims=(2, 0), initializers=[tensor("s", INT64, [1], longs(1))])
    yield none(
        "Reshape", extra=["s"], initializers=[tensor("s", INT64, [2], longs(3, 0))], expect="E|OK"
    )
    yield none(
        "Conv",
        extra=["w"],
        dims=(0, 1, 4, 4),
        initializers=[tensor("w", FLOAT, [2, 1, 1, 1], floats(1, 2))],
    )
    yield none("MaxPool", {"kernel_shape": [2, 2]}, dims=(0, 1, 4, 4))
    yield none("ArgMax", {"axis": 1}, dims=(3, 0), expect="E", name="argmax-of-none")
    for dtype, letter, size in ((FLOAT, "f4", 4), (INT64, "i8", 8)):
        body = simple(
            [node("Add", ["x", "z"], ["y"])],
            inputs=[value("x", ["n"], dtype), value("z", ["n"], dtype)],
            outputs=[typed("y", dtype)],
        )
        yield Case(
            f"047-symbol-two-sizes-{letter}",
            "E",
            {
                "model.onnx": body,
                "a.npy": array("<" + letter, [2], bytes(2 * size)),
                "b.npy": array("<" + letter, [3], bytes(3 * size)),
            },
            ["run", "model.onnx", "--input", "x=a.npy", "--input", "z=b.npy"],
        )
    yield plain("048-dim-param-1mb", "L", RELU, inputs=[value("x", ["d" * (1 << 20)])])
    yield plain("048-dim-param-odd", "E|OK", RELU, inputs=[value("x", ['a b\n"\x1b', 3])])
    yield shaped("049-reshape-two", "E", "Reshape", [-1, -1])
    yield shaped("049-reshape-minus-two", "E", "Reshape", [-2, 3])
    yield shaped("049-reshape-count", "E", "Reshape", [4, 2])
    yield shaped("049-reshape-zero-far", "E", "Reshape", [2, 3, 0])
    yield shaped("050-reshape-overflow", "E|L", "Reshape", [1 << 32, 1 << 32])
    yield shaped("050-reshape-min", "E", "Reshape", [MIN64, 3])
    yield shaped("051-tile", "L", "Tile", [1 << 20, 1 << 20])
    yield shaped("051-tile-negative", "E", "Tile", [-1, 1])
    yield shaped("052-expand", "E|L", "Expand", [1 << 31, 1 << 31, 2, 3])
    yield shaped("052-expand-mismatch", "E", "Expand", [5, 7])
    yield plain(
        "053-constant-of-shape",
        "L",
        [node("ConstantOfShape", ["s"], ["y"])],
        [tensor("s", INT64, [2], longs(1 << 20, 1 << 20))],
    )
    yield plain(
        "053-constant-negative",
        "E",
        [node("ConstantOfShape", ["s"], ["y"])],
        [tensor("s", INT64, [1], longs(-5))],
    )

    def ranged(name, expect, start, limit, delta, result=None):
        scalars = [
            tensor(n, INT64, [], longs(v)) for n, v in (("a", start), ("b", limit), ("c", delta))
        ]
        return one(
            name,
            expect,
            simple([node("Range", ["a", "b", "c"], ["y"])], scalars, outputs=[typed("y", INT64)]),
            outputs={} if result is None else {"y": longs(*result)},
        )

    yield ranged("054-range-2-62", "L", 0, 1 << 62, 1)
    yield ranged("054-range-ends", "E|L", MIN64, MAX64, 1)
    yield ranged("054-range-delta-0", "E", 0, 5, 0)
    yield ranged("054-range-min-delta", "E|OK", 0, MIN64, MIN64)
    # A multiple of the step exceeds 64 bits; adding the start brings it back into range.
    wide = 3 << 61
    yield ranged("054-range-wide-steps", "OK", MIN64, MAX64, wide, range(MIN64, MAX64, wide))
    yield ranged("054-range-ends-down", "OK", MAX64, MIN64, -wide, range(MAX64, MIN64, -wide))
    yield shaped("055-pad", "E|L", "Pad", [-(1 << 62), 0, 1 << 62, 0])
    yield shaped("055-pad-count", "E", "Pad", [1, 1, 1])
    yield shaped("055-pad-away", "E", "Pad", [-3, 0, 0, 0])
    sparse = (
        data(1, tensor("w", FLOAT, [2], X[:8]))
        + data(2, tensor("i", INT64, [2], longs(0, 99)))
        + number(3, 2)
        + number(3, 3)
    )
    yield one(
        "056-sparse-index",
        "E",
        model(
            graph(
                [node("Add", ["x", "w"], ["y"])],
                [value("x", [2, 3])],
                [typed("y")],
                sparse=[sparse],
            )
        ),
    )


def windows():
    """Windows, resizing and cropping: each attribute and each operand at the limits of 64 bits."""

    def over(
        name,
        op,
        dims=(1, 1, 4),
        more=(),
        expect="E|L",
        inputs=(),
        version=18,
        outputs=("y",),
        **attributes,
    ):
        """`op` over x f32 [dims], then inputs (name, dtype, dims) and constants (name, values) in
        that order."""
        graph_inputs = [value("x", list(dims))] + [value(n, d, t) for n, t, d in inputs]
        constants = [
            tensor(n, INT64, [len(v)], longs(*v))
            if isinstance(v[0], int)
            else tensor(n, FLOAT, [len(v)], floats(*v))
            for n, v in more
            if n
        ]
        names = ["x"] + [i[0] for i in inputs] + [m[0] for m in more]
        return one(
            name,
            expect,
            simple(
                [node(op, names, list(outputs), **attributes)],
                constants,
                graph_inputs,
                opsets=[opset(version)],
            ),
        )

    for key, values in (
        ("kernel_shape", [MIN64]),
        ("strides", [0]),
        ("strides", [MAX64]),
        ("dilations", [MAX64]),
        ("pads", [MAX64, MAX64]),
        ("pads", [MIN64 + 1, -3]),
    ):
        for form in ({"auto_pad": "SAME_UPPER"}, {"ceil_mode": 1}, {}):
            attributes = {"kernel_shape": [3], **form, key: values}
            label = f"{key}-{values[0] % 97}-{'-'.join(form) or 'plain'}"
            # A padding computed by SAME replaces a given one.
            for op, short in (("LpPool", "lp"), ("MaxPool", "max")):
                yield over(f"057-{short}-pool-{label}", op, expect="E|L|OK", **attributes)
    yield over(
        "057-max-pool-columns",
        "MaxPool",
        (0, 1, 1 << 36, 1 << 36),
        outputs=("v", "y"),
        kernel_shape=[1, 1],
        storage_order=1,
    )
    weights = [("w", FLOAT, [1, 1, 3])]
    for label, attributes in (
        ("same", {"auto_pad": "SAME_UPPER", "dilations": [MAX64]}),
        ("shape", {"output_shape": [MIN64]}),
        ("stride", {"output_shape": [1], "strides": [MAX64]}),
        ("more", {"output_shape": [1], "output_padding": [MIN64]}),
        ("pads", {"pads": [MIN64, MAX64]}),
        ("few-pads", {"pads": [1]}),
    ):
        yield over(f"057-conv-transpose-{label}", "ConvTranspose", inputs=weights, **attributes)
    places = [("i", INT64, [1, 1, 4])]
    yield over(
        "057-max-unpool-strides", "MaxUnpool", inputs=places, kernel_shape=[1], strides=[MAX64]
    )
    yield over(
        "057-max-unpool-shape",
        "MaxUnpool",
        inputs=places,
        more=[("s", [1, 1, MIN64])],
        kernel_shape=[1],
    )
    for at in (4, 0):
        yield over(f"058-crop-{at}", "CenterCropPad", (at,), more=[("s", [MIN64])])
    for label, dims, scale in (
        ("infinite", (1,), float("inf")),
        ("nothing", (0,), float("inf")),
        ("large", (1,), 1e30),
        ("nan", (1,), float("nan")),
    ):
        yield over(f"059-resize-{label}", "Resize", dims, more=[("", ()), ("s", [scale])])
        yield over(f"059-upsample-{label}", "Upsample", dims, version=7, scales=[scale])
        yield over(f"059-upsample-symbolic-{label}", "Upsample", ("n",), version=7, scales=[scale])
    yield over("059-upsample-negative", "Upsample", (3,), version=7, scales=[-1.0])
    for label, dims, wanted in (("large", (1, 1000), [MAX64, 1]), ("nothing", (0, 10), [0, 1])):
        yield over(
            f"059-resize-aspect-{label}",
            "Resize",
            dims,
            more=[("", ()), ("", ()), ("s", wanted)],
            keep_aspect_ratio_policy="not_smaller",
        )


def known_numbers():
    """Integers tracked at import whose number is data-dependent."""

    def over(name, expect, nodes, initializers, dtype=INT64, n=5, **rest):
        return one(
            name,
            expect,
            simple(
                [node("Shape", ["x"], ["s"]), *nodes],
                initializers,
                [value("x", ["n"])],
                [typed("y", dtype)],
            ),
            args=["run", "model.onnx", "--seed", "1", "--dim", f"n={n}"],
            **rest,
        )

    def numbers(name, *values):
        return tensor(name, INT64, [len(values)], longs(*values))

    four, many = numbers("d", 1, 2, 3, 4), numbers("e", *range(2000))
    yield over(
        "060-slice-symbolic",
        "OK",
        [node("Slice", ["d", "s", "four"], ["y"])],
        [four, numbers("four", 4)],
        n=1,
        outputs={"y": longs(2, 3, 4)},
    )
    reshaped = [node("Reshape", ["d", "s"], ["r"])]
    last = [*reshaped, node("Slice", ["r", "last", "end"], ["y"])]
    yield over("060-slice-reshaped", "E", last, [four, numbers("last", -1), numbers("end", MAX64)])
    yield over(
        "060-slice-reshaped-fits",
        "OK",
        last,
        [four, numbers("last", -1), numbers("end", MAX64)],
        n=4,
        outputs={"y": longs(4)},
    )
    yield over(
        "060-slice-grown",
        "E|L",
        [
            *reshaped,
            node("Reshape", ["r", "to"], ["q"]),
            node("Slice", ["q", "zero", "end"], ["y"]),
        ],
        [four, numbers("to", 4000), numbers("zero", 0), numbers("end", MAX64)],
    )
    for op, dtype in (("Add", INT64), ("Less", BOOL)):
        yield over(
            f"060-{op.lower()}-reshaped",
            "E",
            [*reshaped, node("Reshape", ["e", "s"], ["q"]), node(op, ["r", "q"], ["y"])],
            [four, many],
            dtype=dtype,
        )
    yield one(
        "060-mean-postponed",
        "E|OK",
        simple(
            [
                node("NonZero", ["x"], ["z"]),
                node("Shape", ["z"], ["s"]),
                node("ReduceMean", ["s"], ["y"], axes=[0]),
            ],
            outputs=[typed("y", INT64)],
        ),
    )
    yield plain(
        "060-one-hot-nan",
        "E",
        [node("OneHot", ["i", "d", "v"], ["y"])],
        [tensor("d", FLOAT, [], floats(float("nan"))), tensor("v", FLOAT, [2], floats(0, 1))],
        inputs=[value("i", [3], INT64)],
    )
    for length in (6, "n"):
        heads = [value("q", [2, 4, 24]), value("k", [2, length, 26]), value("v", [2, length, 30])]
        yield one(
            f"060-attention-heads-{length}",
            "E",
            simple(
                [node("Attention", ["q", "k", "v"], ["y"], q_num_heads=3, kv_num_heads=3)],
                (),
                heads,
                opsets=[opset(23)],
            ),
            mentions="divided",
        )
    for at, dims in ((3, []), (3, [8]), (5, []), (6, []), (7, []), (7, [3])):
        names = ["x", "w", "r"] + [""] * (at - 3) + ["e"]
        inputs = [
            value("x", [3, 2, 2]),
            value("w", [1, 4, 2]),
            value("r", [1, 4, 1]),
            value("e", dims),
        ]
        yield plain(
            f"061-lstm-{at}-of-rank-{len(dims)}", "E", [node("LSTM", names, ["y"])], inputs=inputs
        )


def nested_if(depth):
    inner = graph([node("Relu", ["x"], ["b0"])], [], [typed("b0")])
    for level in range(1, depth + 1):
        out = f"b{level}"
        # Only one arm is deep, or the file would double with each level.
        leaf = graph([node("Relu", ["x"], ["l"])], [], [typed("l")])
        branch = [graph_attribute("then_branch", inner), graph_attribute("else_branch", leaf)]
        inner = graph([node("If", ["c"], [out], branch)], [], [typed(out)])
    final = f"b{depth}"
    return model(
        graph(
            [node("If", ["c"], ["y"], branch)],
            [value("x", [2, 3])],
            [typed("y")],
            [tensor("c", BOOL, [], b"\1")],
            name=final,
        )
    )


def growth():
    yield plain(
        "057-cycle",
        "E",
        [node("Add", ["x", "b"], ["a"]), node("Relu", ["a"], ["b"]), node("Relu", ["b"], ["y"])],
    )
    yield plain("057-cycle-self", "E", [node("Add", ["x", "y"], ["y"])])
    yield plain("058-twice", "E", [node("Relu", ["x"], ["y"]), node("Neg", ["x"], ["y"])])
    yield plain(
        "058-node-writes-input", "E", [node("Relu", ["x"], ["x"]), node("Neg", ["x"], ["y"])]
    )
    yield plain(
        "058-initializers-twice",
        "E",
        [node("Add", ["x", "w"], ["y"])],
        [tensor("w", FLOAT, [2, 3], X)] * 2,
    )
    yield plain("058-inputs-twice", "E", RELU, inputs=[value("x", [2, 3])] * 2)
    yield plain("059-undefined", "E", [node("Add", ["x", "nowhere"], ["y"])], mentions="nowhere")
    yield plain("059-undefined-output", "E", [node("Relu", ["x"], ["z"])])
    yield plain("059-no-nodes", "E", [])
    yield plain("059-missing-operand", "E", [node("Add", ["x"], ["y"])])
    yield plain("059-empty-operand", "E", [node("Add", ["x", ""], ["y"])])
    yield plain("059-extra-operand", "E", [node("Relu", ["x", "x"], ["y"])])
    yield plain("059-extra-result", "E", [node("Relu", ["x"], ["y", "z"])])
    yield plain("060-unsorted", "E|OK", [node("Relu", ["a"], ["y"]), node("Neg", ["x"], ["a"])])
    yield one("061-if-28", "L|OK|E", nested_if(28))
    yield one("062-if-10000", "L|E", nested_if(2000))
    own = [opset(), opset(1, "own")]
    call = [node("F", ["x"], ["y"], domain="own")]
    yield one(
        "063-recursion",
        "E",
        simple(
            call,
            opsets=own,
            functions=[function("F", ["a"], ["b"], [node("F", ["a"], ["b"], domain="own")])],
        ),
    )
    yield one(
        "064-mutual",
        "E",
        simple(
            call,
            opsets=own,
            functions=[
                function("F", ["a"], ["b"], [node("G", ["a"], ["b"], domain="own")]),
                function("G", ["a"], ["b"], [node("F", ["a"], ["b"], domain="own")]),
            ],
        ),
    )
    doubling = [function("F0", ["a"], ["b"], [node("Relu", ["a"], ["b"])])]
    for i in range(1, 25):
        doubling.append(
            function(
                f"F{i}",
                ["a"],
                ["b"],
                [
                    node(f"F{i - 1}", ["a"], ["c"], domain="own"),
                    node(f"F{i - 1}", ["c"], ["b"], domain="own"),
                ],
            )
        )
    yield one(
        "065-doubling",
        "L|E",
        simple([node("F24", ["x"], ["y"], domain="own")], opsets=own, functions=doubling),
    )
    yield from calls_of_calls(own)
    yield from small_and_long(own)
    chain = [
        node(
            "Relu",
            ["x" if i == 0 else f"v{i - 1}"],
            ["y" if i == 199999 else f"v{i}"],
            name=f"r{i}",
        )
        for i in range(200000)
    ]
    many = [function(f"F{i}", ["a"], ["b"], [node("Relu", ["a"], ["b"])]) for i in range(20000)]
    calls_of = [
        node(
            f"F{i}",
            ["x" if i == 0 else f"v{i - 1}"],
            ["y" if i == 19999 else f"v{i}"],
            domain="own",
        )
        for i in range(20000)
    ]
    yield one("065-functions-20000", "OK", simple(calls_of, opsets=own, functions=many))
    yield one(
        "065-function-twice",
        "E",
        simple(
            call,
            opsets=own,
            functions=[function("F", ["a"], ["b"], [node("Relu", ["a"], ["b"])])] * 2,
        ),
    )
    yield one(
        "067-outputs-50000",
        "OK|E|L",
        model(
            graph(
                [node("Relu", ["x"], [f"y{i}"]) for i in range(50000)],
                [value("x", [2])],
                [typed(f"y{i}") for i in range(50000)],
            )
        ),
    )
    # Reading takes less than a second; the rest is all passes, compilation and the run.
    yield one("066-relu-200000", "OK", simple(chain), seconds=20.0)
    yield plain("067-inputs-1m", "L", [node("Max", ["x"] * 1000000, ["y"])])
    body = graph(
        [node("Identity", ["c"], ["d"]), node("Relu", ["v"], ["w"])],
        [value("i", [], INT64), value("c", [], BOOL), value("v", [2, 3])],
        [typed("d", BOOL), typed("w")],
    )
    forever = [tensor("m", INT64, [], longs(MAX64)), tensor("t", BOOL, [], b"\1")]
    loop = node("Loop", ["m", "t", "x"], ["y"], [graph_attribute("body", body)])
    yield one("068-loop-forever", "S", simple([loop], forever), stop=1.0)
    clash = graph(
        [node("Identity", ["c"], ["d"]), node("Relu", ["v"], ["w"])],
        [value("i", [], INT64), value("c", [], BOOL), value("v", [2, 3])],
        [typed("d", BOOL), typed("w")],
        [tensor("v", FLOAT, [2, 3], X)],
    )
    yield plain(
        "070-body-clash",
        "E",
        [node("Loop", ["m", "t", "x"], ["y"], [graph_attribute("body", clash)])],
        [tensor("m", INT64, [], longs(2)), tensor("t", BOOL, [], b"\1")],
    )
    yield plain(
        "069-scan-lengths",
        "E",
        [
            node(
                "Scan",
                ["x", "w"],
                ["y"],
                [
                    graph_attribute(
                        "body",
                        graph(
                            [node("Add", ["a", "b"], ["s"])],
                            [value("a", [3]), value("b", [3])],
                            [typed("s")],
                        ),
                    )
                ],
                num_scan_inputs=2,
            )
        ],
        [tensor("w", FLOAT, [3, 3], X + X[:12])],
    )
    yield plain(
        "071-subgraph-on-add",
        "E",
        [node("Add", ["x", "x"], ["y"], [graph_attribute("body", body)])],
    )
    yield plain(
        "071-attribute-unknown",
        "E",
        [node("Relu", ["x"], ["y"], sharpness=3)],
        mentions="sharpness",
    )
    yield plain(
        "071-attribute-twice",
        "E",
        [node("Softmax", ["x"], ["y"], [attribute("axis", 1), attribute("axis", 0)])],
    )
    yield plain("071-attribute-type", "E", [node("Softmax", ["x"], ["y"], axis="one")])
    yield plain("071-attribute-missing", "E", [node("Cast", ["x"], ["y"])])
    yield plain("071-axis-far", "E", [node("Softmax", ["x"], ["y"], axis=7)])
    yield plain("071-axis-min", "E", [node("Softmax", ["x"], ["y"], axis=MIN64)])
    yield plain("071-perm-twice", "E", [node("Transpose", ["x"], ["y"], perm=[0, 0])])
    yield plain(
        "071-types-differ",
        "E",
        [node("Cast", ["x"], ["i"], to=INT64), node("Add", ["x", "i"], ["y"])],
    )
    yield plain(
        "071-shapes-differ",
        "E",
        [node("Add", ["x", "w"], ["y"])],
        [tensor("w", FLOAT, [2, 4], floats(*range(8)))],
    )
    yield plain(
        "071-matmul-differs",
        "E",
        [node("MatMul", ["x", "w"], ["y"])],
        [tensor("w", FLOAT, [4, 2], floats(*range(8)))],
    )
    yield plain(
        "071-concat-differs",
        "E",
        [node("Concat", ["x", "w"], ["y"], axis=0)],
        [tensor("w", FLOAT, [2, 4], floats(*range(8)))],
    )

    def conv(name, expect, **attributes):
        return plain(
            name,
            expect,
            [node("Conv", ["x", "w"], ["y"], **attributes)],
            [tensor("w", FLOAT, [1, 1, 3, 3], floats(*range(9)))],
            inputs=[value("x", [1, 1, 5, 5])],
        )

    yield conv("072-conv-good", "OK")
    yield conv("072-group-0", "E", group=0)
    yield conv("072-group-negative", "E", group=-1)
    yield conv("072-group-2", "E", group=2)
    yield conv("073-stride-0", "E", strides=[0, 1])
    yield conv("073-stride-count", "E", strides=[1])
    yield conv("073-stride-2-62", "E|L|OK", strides=[1 << 62, 1])
    yield conv("074-dilation-2-31", "E|L", dilations=[1 << 31, 1])
    yield conv("074-dilation-2-62", "E|L", dilations=[1 << 62, 1 << 62])
    yield conv("074-dilation-0", "E", dilations=[0, 1])
    yield plain(
        "075-kernel-large",
        "E|L",
        [node("Conv", ["x", "w"], ["y"])],
        [tensor("w", FLOAT, [1, 1, 3, 3], floats(*range(9)))],
        inputs=[value("x", [1, 1, 2, 2])],
    )
    yield conv("075-kernel-shape-lies", "E", kernel_shape=[2, 2])
    yield conv("076-pads-negative", "E", pads=[-9, 0, 0, 0])
    yield conv("076-pads-2-62", "E|L", pads=[1 << 62, 0, 1 << 62, 0])
    for kind in ("MaxPool", "AveragePool"):
        for name, attributes in (
            ("kernel-0", {"kernel_shape": [0, 2]}),
            ("kernel-2-40", {"kernel_shape": [1 << 40, 1 << 40]}),
            ("kernel-count", {"kernel_shape": [2]}),
            ("kernel-none", {}),
            ("auto-pad", {"kernel_shape": [2, 2], "auto_pad": "SOMEHOW"}),
        ):
            yield plain(
                f"075-{kind.lower()}-{name}",
                "E|L",
                [node(kind, ["x"], ["y"], **attributes)],
                inputs=[value("x", [1, 1, 5, 5])],
            )
    for name, sizes in (
        ("sum", [1, 1]),
        ("count", [1, 1, 1]),
        ("negative", [-1, 4]),
        ("overflow", [MIN64, MIN64]),
    ):
        yield plain(
            f"077-split-{name}",
            "E",
            [node("Split", ["x", "s"], ["y", "z"], axis=1)],
            [tensor("s", INT64, [len(sizes)], longs(*sizes))],
        )
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" + "abcdefgh"
    yield plain("078-einsum", "E|L", [node("Einsum", ["x"], ["y"], equation=letters + "->a")])
    yield from integers()


def doubled(first, levels):
    """F0, and functions that each call the previous one twice."""
    return [first] + [
        function(
            f"F{i}",
            ["a"],
            ["b"],
            [
                node(f"F{i - 1}", ["a"], ["c"], domain="own"),
                node(f"F{i - 1}", ["c"], ["b"], domain="own"),
            ],
        )
        for i in range(1, levels + 1)
    ]


def calls_of_calls(own):
    """Small functions that become large when they are inlined."""

    def call(name, nodes, functions, **rest):
        return one(name, "L", simple(nodes, opsets=own, functions=functions, **rest))

    # A function without nodes used to count as nothing: 2^60 calls of it.
    yield call(
        "065-empty-doubling",
        [node("F60", ["x"], ["y"], domain="own")],
        doubled(function("F0", ["a"], ["a"], []), 60),
    )
    # 2^63 nodes by the call and as many in its graph used to add up to 0.
    again = graph([node("F61", ["q"], ["z"], domain="own")], [], [])
    identity = [node("Identity", ["a"], ["b"])]
    four = [node("Identity", ["a"], [out]) for out in "bcde"]
    yield call(
        "065-doubling-wraps",
        [node("F61", ["x"], ["y"], [graph_attribute("g", again)], domain="own")],
        doubled(function("F0", ["a"], ["b"], four), 61),
    )
    # Each function used to be checked at a small depth, because those below it had been called
    # before: the stack overflowed.
    deep = [function("F0", ["a"], ["b"], identity)]
    deep += [
        function(f"F{i}", ["a"], ["b"], [node(f"F{i - 1}", ["a"], ["b"], domain="own")])
        for i in range(1, 18000)
    ]
    yield call(
        "065-functions-18000-deep",
        [
            node(f"F{i}", ["x"], ["y" if i == 17999 else f"v{i}"], domain="own")
            for i in range(59, 18000, 60)
        ],
        deep,
    )
    # Neither the 60 functions nor the 60 graphs in each are too deep alone, but together they are.
    nested = [function("F0", ["a"], ["y"], [node("Identity", ["a"], ["y"])])]
    for i in range(1, 60):
        inner, out = node(f"F{i - 1}", ["a"], ["w"], domain="own"), "w"
        for level in range(60):
            leaf = graph([node("Identity", ["a"], ["l"])], [], [typed("l", BOOL)])
            branch = [
                graph_attribute("then_branch", graph([inner], [], [typed(out, BOOL)])),
                graph_attribute("else_branch", leaf),
            ]
            out = "y" if level == 59 else f"o{level}"
            inner = node("If", ["a"], [out], branch)
        nested.append(function(f"F{i}", ["a"], ["y"], [inner]))

    # A graph that is given by reference and contains the reference to itself: the stack overflowed.
    def picks(out, name):
        leaf = graph([node("Identity", ["x"], [f"{out}l"])], [], [typed(f"{out}l")])
        true = node(
            "Constant",
            [],
            [f"{out}t"],
            [tensor_attribute("value", tensor("t", BOOL, [], b"\1"))],
            name=f"{out}t",
        )
        return [
            true,
            node(
                "If",
                [f"{out}t"],
                [out],
                [reference_attribute("then_branch", "g"), graph_attribute("else_branch", leaf)],
                name=name,
            ),
        ]

    given = graph(picks("u", "inner"), [], [typed("u")])
    yield one(
        "065-graph-by-reference",
        "E",
        simple(
            [node("F", ["x"], ["y"], [graph_attribute("g", given)], domain="own")],
            opsets=own,
            functions=[function("F", ["x"], ["y"], picks("y", "outer"))],
        ),
        mentions="from the caller",
    )
    yield call(
        "065-functions-and-ifs",
        [node("F59", ["t"], ["y"], domain="own")],
        nested,
        initializers=[tensor("t", BOOL, [], b"\1")],
        outputs=[typed("y", BOOL)],
    )


def small_and_long(own):
    """Small files that once took minutes or gigabytes to load."""

    def load(name, nodes, initializers=(), result=FLOAT, **rest):
        return Case(
            name,
            "OK",
            {"model.onnx": simple(nodes, initializers, outputs=[typed("y", result)], **rest)},
            ["opt", "model.onnx"],
        )

    # Each size uses the previous one twice.
    halves, numbers = [node("Shape", ["x"], ["d0"])], [tensor("two", INT64, [1], longs(2))]
    for i in range(22):
        halves += [
            node("Div", [f"d{i}", "two"], [f"a{i}"]),
            node("Mod", [f"d{i}", f"k{i}"], [f"b{i}"]),
            node("Add", [f"a{i}", f"b{i}"], [f"d{i + 1}"]),
        ]
        numbers.append(tensor(f"k{i}", INT64, [1], longs(1009 + i)))
    yield load(
        "081-dim-of-halves",
        [*halves, node("Identity", ["d22"], ["y"])],
        numbers,
        INT64,
        inputs=[value("x", ["n"])],
    )
    yield load(
        "081-shape-of-halves",
        [*halves, node("ConstantOfShape", ["d22"], ["y"])],
        numbers,
        inputs=[value("x", ["n"])],
    )
    # From only a few constants, because the operands of a size are evaluated at load.
    wide = [tensor("c", FLOAT, [1, 1, 1], floats(1))]
    many = [tensor("c", FLOAT, [4096], bytes(4096 * 4))]
    image = [tensor("c", FLOAT, [1, 64, 8, 8], bytes(4096 * 4))]
    for name, data_of, heavy in (
        ("einsum", many, [node("Einsum", ["c", "c", "c"], ["p"], equation="a,b,c->")]),
        (
            "max",
            wide,
            [node("MaxPool", ["c"], ["p"], kernel_shape=[1 << 30], pads=[0, (1 << 30) - 1])],
        ),
        (
            "average",
            wide,
            [
                node(
                    "AveragePool",
                    ["c"],
                    ["p"],
                    kernel_shape=[1 << 30],
                    pads=[0, (1 << 30) - 1],
                    count_include_pad=1,
                )
            ],
        ),
        (
            "lrn",
            image,
            [
                node("LRN", [f"n{i}" if i else "c"], [f"n{i + 1}" if i < 9 else "p"], size=65535)
                for i in range(10)
            ],
        ),
    ):
        yield load(
            f"082-fold-{name}",
            [
                *heavy,
                node("Cast", ["p"], ["i"], to=INT64),
                node("ReduceMax", ["i"], ["j"], keepdims=0),
                node("Reshape", ["j", "one"], ["k"]),
                node("ConstantOfShape", ["k"], ["y"]),
            ],
            [*data_of, tensor("one", INT64, [1], longs(1))],
        )
    # Each of 2^13 sizes depends on the input through all nodes before it.
    yield load(
        "083-sizes-of-sizes",
        [node("F13", ["x"], ["y"], domain="own")],
        (),
        INT64,
        inputs=[value("x", [1], INT64)],
        opsets=own,
        functions=doubled(
            function(
                "F0",
                ["a"],
                ["b"],
                [node("Abs", ["a"], ["b"]), node("ConstantOfShape", ["b"], ["u"])],
            ),
            13,
        ),
    )
    # 128 MiB of indices each.
    yield load(
        "084-pads-by-edge",
        [node("Pad", ["x", "p"], [f"y{i}" if i else "y"], mode="edge") for i in range(40)],
        [tensor("p", INT64, [2], longs(0, (1 << 24) - 1))],
        inputs=[value("x", [1])],
    )
    # Since then, more than 4,096 indices are computed in the run.
    for mode in ("edge", "reflect", "wrap"):
        for size, low, high in ((5000, 4999, 9), (5000, -7, 5000), (3, 2000, 3000)):
            period = size if mode == "wrap" else 2 * (size - 1)
            places = [
                min(max(at, 0), size - 1)
                if mode == "edge"
                else min(at % period, period - at % period)
                if mode == "reflect"
                else at % period
                for at in range(-low, size + high)
            ]
            yield plain(
                f"084-{mode}-{size}-{low}",
                "OK",
                [node("Pad", ["c", "p"], ["y"], mode=mode)],
                [
                    tensor("c", FLOAT, [size], floats(*range(size))),
                    tensor("p", INT64, [2], longs(low, high)),
                ],
                inputs=[],
                outputs={"y": floats(*places)},
                opsets=[opset(19)],
            )


def integers():
    low, all_ones = longs(MIN64), longs(-1)
    for form in ("folded", "run"):
        for name, op, a, b, expect, result in (
            ("079-min-by-minus-1", "Div", low, all_ones, "OK", low),
            ("079-min-mod-minus-1", "Mod", low, all_ones, "OK", longs(0)),
            ("080-by-0", "Div", longs(5), longs(0), "E", None),
            ("080-mod-0", "Mod", longs(5), longs(0), "E", None),
            ("079-add-wraps", "Add", low, all_ones, "OK", longs(MAX64)),
            ("079-mul-wraps", "Mul", low, all_ones, "OK", low),
        ):
            tensors = [tensor("a", INT64, [1], a), tensor("b", INT64, [1], b)]
            values = [value("a", [1], INT64), value("b", [1], INT64)]
            folded = form == "folded"
            body = simple(
                [node(op, ["a", "b"], ["y"])],
                tensors if folded else [],
                inputs=[] if folded else values,
                outputs=[typed("y", INT64)],
            )
            args = ["run", "model.onnx"]
            if not folded:
                args += ["--input", "a=a.npy", "--input", "b=b.npy"]
            yield Case(
                f"{name}-{form}",
                expect,
                {"model.onnx": body, "a.npy": array("<i8", [1], a), "b.npy": array("<i8", [1], b)},
                args,
                {"y": result} if result else {},
            )
    for op in ("Neg", "Abs"):
        yield one(
            f"079-{op.lower()}-min",
            "OK",
            simple(
                [node(op, ["a"], ["y"])],
                [tensor("a", INT64, [1], low)],
                inputs=[],
                outputs=[typed("y", INT64)],
            ),
            outputs={"y": low},
        )


ADD = simple([node("Add", ["x", "z"], ["y"])], inputs=[value("x", [2, 3]), value("z", [2, 3])])
GOOD = array("<f4", [2, 3], X)


def calls():
    def call(name, expect, x=GOOD, extra=(), body=ADD, outputs=None, mentions="", options=()):
        files = {"model.onnx": body, "x.npy": x, "z.npy": GOOD}
        args = ["run", "model.onnx", "--input", "x=x.npy", "--input", "z=z.npy", *options]
        return Case(
            name,
            expect,
            files,
            args if not extra else ["run", "model.onnx", *extra],
            outputs or {},
            mentions,
        )

    doubled = floats(2, 4, 6, 8, 10, 12)
    yield call("123-good", "OK", outputs={"y": doubled})
    yield call("123-missing", "E", extra=["--input", "x=x.npy"], mentions="z")
    yield call(
        "123-unknown-name", "E", mentions="x", extra=["--input", "xx=x.npy", "--input", "z=z.npy"]
    )
    yield call(
        "123-same-twice",
        "E",
        extra=["--input", "x=x.npy", "--input", "x=z.npy", "--input", "z=z.npy"],
    )
    yield call("123-no-file", "E", extra=["--input", "x=nowhere.npy", "--input", "z=z.npy"])
    yield call("123-no-equals", "E", extra=["--input", "x.npy"])
    yield call("124-dtype", "E", array("<i8", [2, 3], bytes(48)))
    yield call("124-dtype-f64", "E", array("<f8", [2, 3], bytes(48)))
    yield call("125-rank", "E", array("<f4", [6], X))
    yield call("125-shape", "E", array("<f4", [3, 2], X))
    symbolic = simple(
        [node("Add", ["x", "z"], ["y"])], inputs=[value("x", ["n", 3]), value("z", ["n", 3])]
    )
    yield call("126-symbols", "E", array("<f4", [1, 3], X[:12]), body=symbolic)
    yield call("126-symbols-good", "OK", body=symbolic, outputs={"y": doubled})
    yield call("127-misaligned", "OK", array("<f4", [2, 3], X, align=0), outputs={"y": doubled})
    turned = floats(1, 4, 2, 5, 3, 6)
    yield call(
        "128-fortran", "OK", array("<f4", [2, 3], turned, fortran=True), outputs={"y": doubled}
    )
    for name, index, expect in (
        ("2-40", 1 << 40, "E"),
        ("min", MIN64, "E"),
        ("minus-2", -2, "OK"),
        ("minus-3", -3, "E"),
        ("2", 2, "E"),
    ):
        gather = simple(
            [node("Gather", ["x", "i"], ["y"])], inputs=[value("x", [2, 3]), value("i", [1], INT64)]
        )
        yield Case(
            f"130-gather-{name}",
            expect,
            {"model.onnx": gather, "x.npy": GOOD, "i.npy": array("<i8", [1], longs(index))},
            ["run", "model.onnx", "--input", "x=x.npy", "--input", "i=i.npy"],
            {"y": X[:12]} if expect == "OK" else {},
        )
        folded = simple(
            [node("Gather", ["x", "i"], ["y"])], [tensor("i", INT64, [1], longs(index))]
        )
        yield one(f"130-gather-constant-{name}", expect, folded)
    odd = floats(float("nan"), float("inf"), float("-inf"), 1e-45, -0.0, 3e38)
    yield call("131-nan-inf", "OK", array("<f4", [2, 3], odd))
    yield call("dim-unknown", "E", extra=["--seed", "1", "--dim", "nowhere=3"])
    yield call("dim-negative", "E", extra=["--seed", "1", "--dim", "n=-3"], body=symbolic)
    yield call("dim-absurd", "E|L", extra=["--seed", "1", "--dim", f"n={1 << 50}"], body=symbolic)
    yield call("dim-text", "E", extra=["--seed", "1", "--dim", "n=many"], body=symbolic)
    yield Case("model-missing", "E", {}, ["run", "nowhere.onnx"])
    yield Case("model-folder", "E", {"model.onnx/x": b""})
    yield Case("model-fifo", "E", {"model.onnx": os.mkfifo})
    yield Case("model-extension", "E", {"model.pt": b"PK\3\4"}, ["run", "model.pt"])


def arrays():
    """Broken .npy files, each given as an input."""
    head = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"
    swapped = b"".join(X[i : i + 4][::-1] for i in range(0, 24, 4))
    table = [
        ("good", "OK", GOOD),
        ("empty", "E", b""),
        ("magic", "E", b"\x93NUMPX" + GOOD[6:]),
        ("text", "E", b"1 2 3\n4 5 6\n"),
        ("zip", "E", b"PK\3\4" + bytes(60)),
        ("pickle", "E", b"\x80\x04\x95" + bytes(40)),
        ("version-9", "E", npy(head, X, (9, 0))),
        ("version-0", "E", npy(head, X, (0, 0))),
        ("version-2", "OK", npy(head, X, (2, 0))),
        ("version-3", "OK", npy(head, X, (3, 0))),
        ("header-long", "E", npy(head, X, length=65535)),
        ("header-4gb", "E|L", npy(head, X, (2, 0), length=(1 << 32) - 1)),
        ("header-short", "E", npy(head, X, length=20)),
        ("header-0", "E", npy(head, X, length=0)),
        ("header-8mb", "L|E", npy(head + " " * (8 << 20), X, (2, 0))),
        ("data-short", "E", GOOD[:-1]),
        ("data-none", "E", GOOD[:-24]),
        ("data-long", "E|OK", GOOD + b"more"),
        ("object", "E", npy("{'descr': '|O', 'fortran_order': False, 'shape': (2, 3), }", X)),
        (
            "structured",
            "E",
            npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2, 3), }", X),
        ),
        ("unicode", "E", array("<U4", [2, 3], bytes(96))),
        ("big-endian", "E|OK", array(">f4", [2, 3], swapped)),
        ("dtype-f3", "E", array("<f3", [2, 3], X)),
        ("dtype-f999", "E", array("<f999", [2, 3], X)),
        ("dtype-empty", "E", array("", [2, 3], X)),
        ("shape-2-64", "E|L", array("<f4", [1 << 32, 1 << 32], X)),
        ("shape-10-30", "E|L", array("<f4", [10**30], X)),
        ("shape-2-62", "E|L", array("<f4", [1 << 62], X)),
        ("shape-negative", "E", array("<f4", [-2, -3], X)),
        ("shape-rank-1000", "E|L", array("<f4", [1] * 1000, X[:4])),
        ("shape-float", "E", npy(head.replace("(2, 3)", "(2.0, 3)"), X)),
        ("shape-text", "E", npy(head.replace("(2, 3)", "'six'"), X)),
        ("shape-list", "E", npy(head.replace("(2, 3)", "[2, 3]"), X)),
        ("shape-unclosed", "E", npy(head.replace("(2, 3), }", "(2, 3"), X)),
        ("shape-deep", "E", npy(head.replace("(2, 3)", "(" * 10000 + ")" * 10000), X)),
        ("code", "E", npy("__import__('os').system('touch pwned')", X)),
        ("key-missing", "E", npy("{'descr': '<f4', 'shape': (2, 3), }", X)),
        ("key-extra", "E", npy(head.replace("}", "'a': 1, }"), X)),
        ("key-twice", "E", npy(head.replace("}", "'shape': (2, 3), }"), X)),
        ("order-text", "E", npy(head.replace("False", "'no'"), X)),
        ("utf8", "E", npy(head.encode().replace(b"<f4", b"\xff\xfe"), X)),
        ("nul", "E", npy(head.encode().replace(b"<f4", b"<\0f4"), X)),
        ("escape", "E", npy(head.replace("<f4", "\x1b[31m"), X)),
        ("folder", "E", None),
        ("fifo", "E", os.mkfifo),
    ]
    table += [(f"cut-{at:03}", "E", GOOD[:at]) for at in range(0, len(GOOD), 7)]
    for name, expect, body in table:
        files = {"model.onnx": ADD, "z.npy": GOOD}
        files["x.npy/a" if body is None else "x.npy"] = b"" if body is None else body
        yield Case(
            f"npy-{name}",
            expect,
            files,
            ["run", "model.onnx", "--input", "x=x.npy", "--input", "z=z.npy"],
        )


def cases():
    for group, maker in (
        ("1", container),
        ("2", external_data),
        ("3", shapes),
        ("3", windows),
        ("3", known_numbers),
        ("4", growth),
        ("9", calls),
        ("9", arrays),
    ):
        for case in maker():
            case.name = f"g{group}-{case.name}"
            yield case


def write(case, folder):
    """Writes the files of a case below folder, which must not exist."""
    folder.mkdir(parents=True)
    late = []
    for name, body in case.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if callable(body):
            late.append((path, body))
        else:
            path.write_bytes(body)
    for path, make in late:  # links come after their targets
        make(path)


def write_seeds(folder):
    """Small models, one file each, as seeds for fuzzers; with the onnx package also its own tests
    of each op."""
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(ImportError), warnings.catch_warnings(action="ignore"):
        from onnx.backend.test.case.node import collect_testcases

        for case in collect_testcases(None):
            body = case.model.SerializeToString()
            if len(body) < 2048:
                (folder / f"{case.name}.onnx").write_bytes(body)
    for case in cases():
        body = next((b for n, b in case.files.items() if n.endswith(".onnx")), None)
        if isinstance(body, bytes) and len(body) < 2048 and not re.search("cut|flip", case.name):
            (folder / f"{case.name}.onnx").write_bytes(body)


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "--seeds":
        write_seeds(pathlib.Path(sys.argv[2]))
        sys.exit()
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for each in cases():
        write(each, pathlib.Path(sys.argv[1]) / each.name)
        print(f"{each.name}\t{each.expect}\ttenon {' '.join(each.args)}")
