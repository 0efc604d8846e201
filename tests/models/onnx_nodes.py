#!/usr/bin/env python3
"""The node tests of the onnx package: values of every imported op against ONNX's own.

    pip install onnx numpy
    python3 tests/models/onnx_nodes.py [--tenon PATH] [--device reference] [--filter TEXT] [-v]

Each case of the package that uses only ops with an importer is run and compared within the case's
own tolerance. A case whose form is refused with the right code (T0704 unknown op, T0710 element
type, T0714 form, T0310 and T0312 operand of an op) is counted separately; any other wrong result
fails. In most of these models, shapes, axes and paddings are inputs, set when they run.
"""

import argparse
import collections
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import onnx

ROOT = pathlib.Path(__file__).resolve().parents[2]
REFUSALS = {"T0310", "T0312", "T0704", "T0710", "T0714", "T0124"}
# Cases whose result ONNX leaves open, or where Tenon has a rule of its own, with the reason.
OTHER_RULES = dict.fromkeys(
    (
        "test_bernoulli",
        "test_bernoulli_expanded",
        "test_bernoulli_double",
        "test_bernoulli_double_expanded",
        "test_bernoulli_seed",
        "test_bernoulli_seed_expanded",
    ),
    "random numbers, of a generator that ONNX leaves open",
)
OTHER_RULES |= dict.fromkeys(
    ("test_dft_inverse", "test_dft_inverse_opset19"),
    "expects rounding errors of 2e-7 where the exact result, and ours, is 0",
)


def cases():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        return collect_testcases(None)


def compare(case, name, got, want):
    want = np.asarray(want)
    if got.dtype != want.dtype and got.dtype.kind != "V":
        return f"{name} is {got.dtype}, expected {want.dtype}"
    if got.shape != want.shape:
        return f"{name} has shape {got.shape}, expected {want.shape}"
    if got.dtype.kind == "V":
        got = got.view(want.dtype)
    # In 16 bits, the last two units depend on intermediate rounding.
    rtol = max(case.rtol, {"bfloat16": 2**-6, "float16": 2**-9}.get(want.dtype.name, 0))
    with np.errstate(all="ignore"):
        got, want = got.astype(np.complex128), want.astype(np.complex128)
        fits = np.isclose(got, want, rtol=rtol, atol=case.atol, equal_nan=True)
    if fits.all():
        return ""
    at = np.unravel_index(np.argmin(fits), fits.shape) if fits.shape else ()
    return f"{name}{list(map(int, at))} is {got[at]}, expected {want[at]} ({(~fits).sum()} differ)"


def run(case, tenon, device):
    """("ok" | "refused" | "failed", text)."""
    # Cases of narrow types are stored as protos.
    inputs, outputs = (
        [onnx.numpy_helper.to_array(v) if isinstance(v, onnx.TensorProto) else v for v in side]
        for side in case.data_sets[0]
    )
    if any(isinstance(v, (list, dict)) or v is None for v in [*inputs, *outputs]):
        return "refused", "no tensors"
    if any(np.asarray(v).dtype.kind in "OUS" for v in [*inputs, *outputs]):
        return "refused", "strings"
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    feeds = {info.name: np.asarray(value) for info, value in zip(model.graph.input, inputs)}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        onnx.save(model, path)
        command = [tenon, "run", path, "--device", device, "--output-dir", folder]
        for i, (name, value) in enumerate(feeds.items()):
            file = os.path.join(folder, f"input{i}.npy")
            np.save(file, value)
            command += ["--input", f"{name}={file}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode != 0:
            codes = re.findall(r"\b[TP]\d{4}\b", done.stderr)
            kind = "refused" if codes and codes[0] in REFUSALS else "failed"
            return kind, f"exit status {done.returncode}: {done.stderr.strip()[:300]}"
        for info, want in zip(model.graph.output, outputs):
            file = re.sub(r"[^A-Za-z0-9_.-]", "_", info.name) + ".npy"
            wrong = compare(case, info.name, np.load(os.path.join(folder, file)), want)
            if wrong:
                return "failed", wrong
    return "ok", ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tenon", default=str(ROOT / "build/bin/tenon"))
    parser.add_argument("--device", default="reference")
    parser.add_argument("--filter", default="")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("-v", action="store_true", help="show refusals too")
    options = parser.parse_args()
    chosen = [c for c in cases() if options.filter in c.name and c.name not in OTHER_RULES]
    count = collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        tasks = [(c, pool.submit(run, c, options.tenon, options.device)) for c in chosen]
        for case, task in tasks:
            kind, text = task.result()
            count[kind] += 1
            if kind == "failed" or (options.v and kind == "refused"):
                print(f"{kind} {case.name}: {text}")
    print(f"{count['refused']} refused as not supported, {len(OTHER_RULES)} left out by rule")
    print(f"{count['ok']} passed, {count['failed']} failed")
    return 1 if count["failed"] or not count["ok"] else 0


if __name__ == "__main__":
    sys.exit(main())
