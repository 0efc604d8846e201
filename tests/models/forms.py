#!/usr/bin/env python3
"""Every form of tests/models/forms on a device, compared with onnxruntime's outputs: one
compilation for all its cases.

    python3 tests/models/forms.py --tool build/tests/model_shapes [--device cpu] [--filter TEXT]
"""

import argparse
import pathlib
import sys

import numpy as np
import shapes

FORMS = pathlib.Path(__file__).resolve().parent / "forms"


def arrays(network, case, side):
    return {
        p.name.split(".")[3]: np.load(p)
        for p in sorted(FORMS.glob(f"{network}.{case}.{side}.*.npy"))
    }


def check(tool, model, device):
    """What is wrong, or nothing."""
    network, form = model.stem.split("_", 1)
    cases = "ab" if form.endswith("symbolic") else "a"
    try:
        results, _ = shapes.run_many(
            tool, model, device, [arrays(network, case, "in") for case in cases]
        )
    except (RuntimeError, OSError) as error:
        return str(error)
    for case, got in zip(cases, results):
        text = shapes.wrong(got, arrays(network, case, "out"))
        if text:
            return f"case {case}: {text}"
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tool", required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--filter", default="", help="only files whose name holds this")
    options = parser.parse_args()
    passed = failed = 0
    for model in sorted(FORMS.glob("*.onnx")):
        if options.filter not in model.name:
            continue
        text = check(options.tool, model, options.device)
        print(
            f"{'FAIL' if text else 'ok  '} {model.stem} on {options.device}{': ' if text else ''}{text}"
        )
        passed, failed = passed + (not text), failed + bool(text)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
