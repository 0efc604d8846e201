#!/usr/bin/env python3
"""Errors relative to a run in float64: the cpu device's are at most twice ONNX Runtime's.

    python3 tests/models/accuracy.py --tenon build/bin/tenon [--full] [--filter TEXT]

The reference device computes the graph in f64 after the pass widen-floats, for one form of each
network in forms/ and for the models of rapidocr-onnxruntime at small sizes. With --full, also the
four full-size networks of bench/models.py, against torch in double. Skipped, with a reason and
status 77, without onnxruntime.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

import forms
import numpy as np
import ocr
import shapes

HERE = pathlib.Path(__file__).resolve().parent
FACTOR = 2
WIDE = "widen-floats,dce,legalize,dce"
# Smaller errors mean nothing: a few roundings of f32, relative to the largest value.
FLOOR = 2**-20
FORMS = (
    "resnet_torchscript17_symbolic",
    "mobilenet_torchscript17_symbolic",
    "bert_torchscript17_symbolic",
    "gpt2_dynamo18_symbolic",
)
OCR = {ocr.DETECTOR: (1, 3, 32, 64), ocr.RECOGNISER: (1, 3, 48, 32), ocr.CLASSIFIER: (1, 3, 48, 32)}


def tenon_run(tenon, model, feeds, *options):
    with tempfile.TemporaryDirectory() as folder:
        command = [tenon, "run", str(model), "--no-fallback", "--output-dir", folder, *options]
        for name, value in feeds.items():
            np.save(f"{folder}/in_{name}.npy", value)
            command += ["--input", f"{name}={folder}/in_{name}.npy"]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=shapes.SECONDS, check=False
        )
        if done.returncode != 0:
            raise RuntimeError(
                f"{' '.join(options)}: exit status {done.returncode}: {done.stderr.strip()[:600]}"
            )
        return {
            p.stem: np.load(p)
            for p in pathlib.Path(folder).glob("*.npy")
            if not p.name.startswith("in_")
        }


def judge(got, theirs, exact):
    """A line for each output, and whether all are within the bound."""
    lines, good = [], True
    for name, value in exact.items():
        scale = max(np.abs(value).max(initial=0), 1e-30)
        mine, other = (
            float(np.abs(np.asarray(a[name], np.float64) - value).max(initial=0) / scale)
            for a in (got, theirs)
        )
        holds = mine <= max(FACTOR * other, FLOOR)
        good &= holds
        lines.append(
            f"{name}: {mine:.2e}, ONNX Runtime {other:.2e}{'' if holds else ': more than twice'}"
        )
    return lines, good


def onnx_run(onnxruntime, path, feeds):
    session = ocr.session(onnxruntime, path)
    names = {i.name for i in session.get_inputs()}
    values = session.run(None, {k: v for k, v in feeds.items() if k in names})
    return {o.name.replace("/", "_"): v for o, v in zip(session.get_outputs(), values)}


def small_cases():
    for form in FORMS:
        yield (
            form,
            forms.FORMS / f"{form}.onnx",
            forms.arrays(form.split("_", maxsplit=1)[0], "b", "in"),
        )
    models = ocr.package_models()
    if models is None:
        print("skipped: the models of rapidocr-onnxruntime, which is not installed")
        return
    rng = np.random.default_rng(9)
    for name, shape in OCR.items():
        yield name, models / f"{name}.onnx", {"x": ocr.page(rng, shape)}


def full_cases():
    """The full-size networks, with torch's outputs in double."""
    sys.path.insert(0, str(HERE.parents[1] / "bench"))
    try:
        import models
        import torch
    except ImportError as error:
        print(f"skipped: the networks at their sizes ({error})")
        return
    for name in ("resnet50", "mobilenetv2", "bert", "gpt2"):
        feeds = models.inputs(name)
        module = models.torch_module(name).double()
        wide = {
            k: v.double() if v.is_floating_point() else v
            for k, v in models.to_torch(name, feeds).items()
        }
        with torch.no_grad():
            exact = module(*wide.values()).numpy()
        yield name, models.export(name), feeds, {models.get(name).outputs[0]: exact}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tenon", required=True)
    parser.add_argument("--full", action="store_true", default=os.environ.get("CHECK_FULL") == "1")
    parser.add_argument("--filter", default="", help="only models whose name holds this")
    options = parser.parse_args()
    try:
        import onnxruntime
    except ImportError:
        print("skipped: onnxruntime is not installed")
        return ocr.SKIPPED
    failed = 0
    for name, path, feeds, *exact in [*small_cases(), *(full_cases() if options.full else ())]:
        if options.filter not in name:
            continue
        try:
            got = tenon_run(options.tenon, path, feeds, "--device", "cpu")
            wide = (
                exact[0]
                if exact
                else tenon_run(
                    options.tenon, path, feeds, "--device", "reference", "--passes", WIDE
                )
            )
            lines, good = judge(got, onnx_run(onnxruntime, path, feeds), wide)
        except RuntimeError as error:
            lines, good = [str(error)], False
        print(f"{'ok  ' if good else 'FAIL'} {name}: {'; '.join(lines)}", flush=True)
        failed += not good
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
