#!/usr/bin/env python3
"""Runs every model of this folder on the named devices and compares with onnxruntime's outputs.

    python3 tests/models/run.py [--tenon PATH] [--devices reference,cpu] [--filter TEXT]

The tolerance is that of `tenon run --check`: max|a-b| at most 1e-4 times max|b|.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
TOLERANCE = 1e-4
SECONDS = 120


def check(tenon, model, device):
    """What is wrong, or nothing."""
    inputs = sorted(HERE.glob(f"{model.stem}.in.*.npy"))
    expected = sorted(HERE.glob(f"{model.stem}.out.*.npy"))
    with tempfile.TemporaryDirectory() as folder:
        command = [tenon, "run", str(model), "--device", device, "--output-dir", folder]
        for path in inputs:
            command += ["--input", f"{path.name.split('.')[2]}={path}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        if done.returncode != 0:
            return f"exit status {done.returncode}: {done.stderr.strip()[:600]}"
        for path in expected:
            name = path.name.split(".")[2]
            want, got = np.load(path), np.load(os.path.join(folder, f"{name}.npy"))
            if want.shape != got.shape or want.dtype != got.dtype:
                return f"{name} is {got.dtype}{got.shape}, expected {want.dtype}{want.shape}"
            worst = np.abs(got.astype(np.float64) - want.astype(np.float64)).max(initial=0)
            if not worst <= TOLERANCE * np.abs(want).max(initial=0):
                return f"{name} differs by {worst:.3g}"
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tenon", default=str(HERE.parents[1] / "build/bin/tenon"))
    parser.add_argument("--devices", default="reference,cpu")
    parser.add_argument("--filter", default="", help="only models whose name holds this")
    options = parser.parse_args()
    passed = failed = 0
    models = [m for m in sorted(HERE.glob("*.onnx")) if options.filter in m.name]
    for model in models:
        for device in options.devices.split(","):
            wrong = check(options.tenon, model, device)
            print(
                f"{'FAIL' if wrong else 'ok  '} {model.stem} on {device}{': ' if wrong else ''}{wrong}"
            )
            passed, failed = passed + (not wrong), failed + bool(wrong)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
