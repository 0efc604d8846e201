#!/usr/bin/env python3
"""Runs the graphs of once_wrong/ on devices and compares with onnxruntime.

    python3 tests/models/once_wrong.py [--tenon PATH] [--runs cpu,sim] [--filter TEXT]

A run is DEVICE, or cpu:ISA:THREADS. An instruction set that this machine lacks is skipped with a
line.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime

HERE = pathlib.Path(__file__).resolve().parent
FOLDER = HERE / "once_wrong"
SECONDS = 120
# A fused chain may keep more precision than the graph's types: roundings to the output's type.
TOLERANCES = {np.dtype(np.float16): 2e-2, np.dtype(np.float32): 1e-4, np.dtype(np.float64): 1e-10}
SIZES = {"H": 5, "W": 3}


def inputs_of(path, model):
    saved = path.with_suffix(".npz")
    if saved.exists():
        return dict(np.load(saved))
    random = np.random.default_rng(1)
    arrays = {}
    for value in model.graph.input:
        tensor = value.type.tensor_type
        shape = [d.dim_value or SIZES.get(d.dim_param, 2) for d in tensor.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        low, high = (0, 2) if dtype == np.bool_ else (-3, 3)
        arrays[value.name] = random.uniform(low, high, shape).astype(dtype)
    return arrays


def expected_of(tenon, path, model, inputs):
    """onnxruntime's result; if it lacks a kernel, that of the cpu's baseline code. Most graphs do
    not need that."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    names = [value.name for value in model.graph.output]
    try:
        outputs = onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, inputs)
        return dict(zip(names, map(np.asarray, outputs)))
    except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented:
        return run(tenon, path, "cpu:baseline:1", inputs, names)


def difference(want, got):
    """What is wrong with an output, or nothing. Every element is judged by itself."""
    if want.shape != got.shape or want.dtype != got.dtype:
        return f"is {got.dtype}{got.shape}, expected {want.dtype}{want.shape}"
    a, b = want.astype(np.float64), got.astype(np.float64)
    finite = np.isfinite(a)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return "has other NaN or infinities"
    scale = np.abs(a[finite]).max(initial=1)
    worst = np.abs(a - b, where=finite, out=np.zeros_like(a)).max(initial=0)
    limit = TOLERANCES.get(want.dtype, 0) * scale
    return "" if worst <= limit else f"differs by {worst:.3g}"


def run(tenon, path, where, inputs, names):
    """Outputs by name. Raises RuntimeError with the command's message."""
    device, isa, threads = (where.split(":") + ["", ""])[:3]
    environment = dict(os.environ)
    if isa:
        environment.update(TENON_CPU_ISA=isa, TENON_NUM_THREADS=threads)
    with tempfile.TemporaryDirectory() as folder:
        command = [tenon, "run", str(path), "--device", device, "--output-dir", folder]
        for i, (name, array) in enumerate(inputs.items()):
            np.save(os.path.join(folder, f"in.{i}.npy"), array)
            command += ["--input", f"{name}={folder}/in.{i}.npy"]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=SECONDS, check=False, env=environment
        )
        if done.returncode != 0:
            raise RuntimeError(f"exit status {done.returncode}: {done.stderr.strip()[:600]}")
        return {
            name: np.load(os.path.join(folder, f"{name.replace('/', '_')}.npy")) for name in names
        }


def check(tenon, path, where, inputs, expected):
    """What is wrong, or nothing."""
    try:
        outputs = run(tenon, path, where, inputs, expected)
    except RuntimeError as error:
        return str(error)
    for name, want in expected.items():
        if wrong := difference(want, outputs[name]):
            return f"{name} {wrong}"
    return ""


def is_runnable(tenon, where):
    if ":" not in where:
        return True
    isa = where.split(":")[1]
    command = [tenon, "run", str(FOLDER / "stale_f16_cast.onnx"), "--seed", "1", "--device", "cpu"]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TENON_CPU_ISA": isa},
    )
    return done.returncode == 0 or "asks for" not in done.stderr


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tenon", default=str(HERE.parents[1] / "build/bin/tenon"))
    parser.add_argument("--runs", default="reference,cpu,sim")
    parser.add_argument("--filter", default="", help="only graphs whose name holds this")
    options = parser.parse_args()
    runs = []
    for where in options.runs.split(","):
        if is_runnable(options.tenon, where):
            runs.append(where)
        else:
            print(f"skip {where}: this machine lacks the instruction set")
    passed = failed = 0
    for path in sorted(p for p in FOLDER.glob("*.onnx") if options.filter in p.name):
        model = onnx.load(path)
        inputs = inputs_of(path, model)
        expected = expected_of(options.tenon, path, model, inputs)
        for where in runs:
            wrong = check(options.tenon, path, where, inputs, expected)
            if wrong:
                print(f"FAIL {path.stem} on {where}: {wrong}")
            passed, failed = passed + (not wrong), failed + bool(wrong)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
