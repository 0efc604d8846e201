#!/usr/bin/env python3
"""Random integer products and convolutions of ONNX, exact on each instruction set of the cpu.

    python3 tests/models/quantised_products.py --tenon build/bin/tenon [--count 30] [--seed 1] [--isa NAME,...]

Bytes of all values and both signs; zero points at their limits, per channel, known and of a run;
odd sizes, strides, dilations, padding, groups and depthwise filters. Expected values are computed
in 64 bits with NumPy.
"""

import argparse
import dataclasses
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

TYPES = {"u8": (np.uint8, TensorProto.UINT8), "s8": (np.int8, TensorProto.INT8)}


@dataclasses.dataclass
class Case:
    node: onnx.NodeProto
    x: np.ndarray
    w: np.ndarray
    x_zero: np.ndarray
    w_zero: np.ndarray
    want: np.ndarray
    at_run: bool  # x_zero is an input


def numbers(rng: np.random.Generator, dtype: type, *shape: int) -> np.ndarray:
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max + 1, shape).astype(dtype)


def zero_of_x(rng: np.random.Generator, dtype: type) -> np.ndarray:
    limits = np.iinfo(dtype)
    return np.asarray(rng.choice([limits.min, limits.max, int(numbers(rng, dtype))]), dtype)


def zero_of_w(rng: np.random.Generator, dtype: type, channels: int) -> np.ndarray:
    middle = np.asarray(128 if dtype == np.uint8 else 0, dtype)
    return [middle, middle, numbers(rng, dtype), numbers(rng, dtype, channels)][rng.integers(4)]


def product(rng: np.random.Generator, x_type: type, w_type: type) -> Case:
    m, k, n = (int(v) for v in rng.integers(1, 90, 3))
    x, w = numbers(rng, x_type, m, k), numbers(rng, w_type, k, n)
    x_zero, w_zero = zero_of_x(rng, x_type), zero_of_w(rng, w_type, n)
    want = (x.astype(np.int64) - int(x_zero)) @ (w.astype(np.int64) - w_zero.astype(np.int64))
    return Case(
        helper.make_node("MatMulInteger", ["x", "w", "x_zero", "w_zero"], ["y"]),
        x,
        w,
        x_zero,
        w_zero,
        want,
        rng.random() < 0.3,
    )


def convolved(x: np.ndarray, w: np.ndarray, groups: int, stride: int, dilation: int) -> np.ndarray:
    """x with its padding."""
    inputs, outputs = w.shape[1], w.shape[0] // groups
    high, wide = (
        (x.shape[2 + d] - (w.shape[2 + d] - 1) * dilation - 1) // stride + 1 for d in (0, 1)
    )
    y = np.zeros((x.shape[0], w.shape[0], high, wide), np.int64)
    for g in range(groups):
        of_x, of_y = slice(g * inputs, (g + 1) * inputs), slice(g * outputs, (g + 1) * outputs)
        for i in range(w.shape[2]):
            for j in range(w.shape[3]):
                rows = slice(i * dilation, i * dilation + (high - 1) * stride + 1, stride)
                columns = slice(j * dilation, j * dilation + (wide - 1) * stride + 1, stride)
                y[:, of_y] += np.einsum(
                    "bchw,oc->bohw", x[:, of_x, rows, columns], w[of_y, :, i, j]
                )
    return y


def convolution(rng: np.random.Generator, x_type: type, w_type: type) -> Case:
    depthwise, groups = rng.random() < 0.25, int(rng.choice([1, 1, 2]))
    inputs, outputs = (groups * int(v) for v in rng.integers(1, 20, 2))
    if depthwise:
        groups = outputs = inputs
    size, dilation = [int(v) for v in rng.integers(1, 4, 2)], int(rng.integers(1, 3))
    image, pads = [int(v) for v in rng.integers(6, 13, 2)], [int(v) for v in rng.integers(0, 3, 4)]
    x, w = (
        numbers(rng, x_type, int(rng.integers(1, 3)), inputs, *image),
        numbers(rng, w_type, outputs, inputs // groups, *size),
    )
    x_zero, w_zero, stride = (
        zero_of_x(rng, x_type),
        zero_of_w(rng, w_type, outputs),
        int(rng.integers(1, 3)),
    )
    padded = np.pad(
        x.astype(np.int64) - int(x_zero), ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3]))
    )
    real = w.astype(np.int64) - w_zero.astype(np.int64).reshape(
        (-1, 1, 1, 1) if w_zero.ndim else ()
    )
    node = helper.make_node(
        "ConvInteger",
        ["x", "w", "x_zero", "w_zero"],
        ["y"],
        pads=pads,
        strides=[stride] * 2,
        dilations=[dilation] * 2,
        group=groups,
    )
    return Case(
        node,
        x,
        w,
        x_zero,
        w_zero,
        convolved(padded, real, groups, stride, dilation),
        rng.random() < 0.3,
    )


def write(case: Case, folder: pathlib.Path) -> list[str]:
    """The model and its inputs; the arguments that name them."""

    def element(array: np.ndarray) -> int:
        return next(number for dtype, number in TYPES.values() if dtype == array.dtype)

    inputs, kept = {"x": case.x}, {"w": case.w, "w_zero": case.w_zero}
    (inputs if case.at_run else kept)["x_zero"] = case.x_zero
    graph = helper.make_graph(
        [case.node],
        "case",
        [helper.make_tensor_value_info(n, element(a), a.shape) for n, a in inputs.items()],
        [helper.make_tensor_value_info("y", TensorProto.INT32, case.want.shape)],
        [numpy_helper.from_array(a, n) for n, a in kept.items()],
    )
    model = folder / "case.onnx"
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), model
    )
    arguments = [str(model)]
    for name, array in inputs.items():
        np.save(folder / f"{name}.npy", array)
        arguments += ["--input", f"{name}={folder / f'{name}.npy'}"]
    return arguments


def check(case: Case, tenon: str, isa: str) -> str:
    """What is wrong; nothing if nothing is."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        command = [
            tenon,
            "run",
            *write(case, folder),
            "--device",
            "cpu",
            "--output-dir",
            str(folder / "out"),
        ]
        done = subprocess.run(
            command, capture_output=True, text=True, env={**os.environ, "TENON_CPU_ISA": isa}
        )
        if done.returncode != 0:
            return done.stderr.strip()
        got = np.load(folder / "out" / "y.npy")
        wrong = int(np.sum(got != case.want.astype(np.int32)))
        return f"{wrong} of {got.size} numbers are wrong" if wrong else ""


def known(tenon: str, isa: str) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "one.tir"
        path.write_text(
            "tenon.tir 1\ngraph @one(%x: f32[1]) -> (y: f32[1]) {\n  %y = neg(%x) : f32[1]\n  yield %y\n}\n"
        )
        done = subprocess.run(
            [tenon, "run", str(path), "--device", "cpu", "--seed", "1"],
            capture_output=True,
            env={**os.environ, "TENON_CPU_ISA": isa},
        )
        return done.returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tenon", default="build/bin/tenon")
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--isa", default="avx512_bf16,avx512_vnni,avx512,avx2_vnni,avx2,baseline")
    arguments = parser.parse_args()
    sets = [isa for isa in arguments.isa.split(",") if known(arguments.tenon, isa)]
    if not sets:
        print(f"{arguments.tenon} runs on none of {arguments.isa}")
        return 1
    failures = 0
    for number in range(arguments.count):
        rng = np.random.default_rng([arguments.seed, number])
        x_type, w_type = (TYPES[list(TYPES)[rng.integers(2)]][0] for _ in range(2))
        case = (product if rng.random() < 0.4 else convolution)(rng, x_type, w_type)
        isa = sets[number % len(sets)]
        why = check(case, arguments.tenon, isa)
        if why:
            failures += 1
            print(
                f"case {number} of seed {arguments.seed} on {isa}, {case.node.op_type} {case.x.dtype}{list(case.x.shape)} "
                f"{case.w.dtype}{list(case.w.shape)}: {why}"
            )
    print(f"{arguments.count - failures} of {arguments.count} exact, on {', '.join(sets)}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
