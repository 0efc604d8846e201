#!/usr/bin/env python3
"""PP-OCRv4 from the package rapidocr-onnxruntime: ten shapes of each model with one compilation,
compared with ONNX Runtime.

    python3 tests/models/ocr.py --tool build/tests/model_shapes [--device cpu] [--filter TEXT]

Then the recogniser runs on 1,000 random shapes, during which memory may grow by 5 %.

Skipped, with a reason and status 77, without the package or without onnxruntime.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import shapes

SKIPPED = 77
GROWTH = 1.05  # limit for resident memory over random shapes
DETECTOR, RECOGNISER, CLASSIFIER = (
    "ch_PP-OCRv4_det_infer",
    "ch_PP-OCRv4_rec_infer",
    "ch_ppocr_mobile_v2.0_cls_infer",
)
# The detector's sides are multiples of 32, as its upsampling requires; the recogniser accepts any
# width from 8 on.
SHAPES = {
    DETECTOR: [
        (1, 3, 64, 64),
        (1, 3, 96, 64),
        (1, 3, 32, 160),
        (2, 3, 64, 96),
        (1, 3, 128, 128),
        (3, 3, 32, 32),
        (1, 3, 160, 96),
        (1, 3, 64, 224),
        (2, 3, 96, 96),
        (1, 3, 192, 64),
    ],
    RECOGNISER: [
        (1, 3, 48, 320),
        (1, 3, 48, 64),
        (2, 3, 48, 97),
        (1, 3, 48, 33),
        (3, 3, 48, 160),
        (1, 3, 48, 211),
        (4, 3, 48, 40),
        (1, 3, 48, 128),
        (2, 3, 48, 75),
        (1, 3, 48, 256),
    ],
    CLASSIFIER: [
        (n, 3, 48, w)
        for n, w in (
            (1, 192),
            (2, 192),
            (1, 96),
            (3, 128),
            (1, 160),
            (6, 192),
            (2, 64),
            (1, 224),
            (4, 96),
            (1, 256),
        )
    ],
}


def package_models():
    """The folder of the models; None without the package, which is not imported."""
    spec = importlib.util.find_spec("rapidocr_onnxruntime")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        models = pathlib.Path(folder) / "models"
        if models.is_dir():
            return models
    return None


def page(rng, shape):
    """White paper with dark strokes in lines. On noise the detector's output is 0 up to rounding,
    which would test nothing."""
    image = np.ones(shape, np.float32)
    for sample in image:
        for top in range(6, shape[2] - 10, 20):
            for left in range(4, shape[3] - 8, 7):
                height, width = rng.integers(4, 11), rng.integers(1, 5)
                sample[:, top : top + height, left : left + width] = -1
    return image + rng.standard_normal(shape, dtype=np.float32) * np.float32(0.05)


def session(onnxruntime, path):
    onnxruntime.set_default_logger_severity(3)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def cached_files(folder):
    return sum(len(files) for _, _, files in os.walk(folder))


def check(options, onnxruntime, path):
    """What is wrong, or nothing. Nothing may be compiled after the first shape: the cache must not
    grow."""
    reference = session(onnxruntime, path)
    rng = np.random.default_rng(7)
    cases = [{"x": page(rng, shape)} for shape in SHAPES[path.stem]]
    with tempfile.TemporaryDirectory() as cache:
        os.environ["XDG_CACHE_HOME"] = cache
        try:
            shapes.run_many(options.tool, path, options.device, cases[:1])
            files = cached_files(cache)
            results, report = shapes.run_many(options.tool, path, options.device, cases)
        except RuntimeError as error:
            return str(error)
        if cached_files(cache) != files or report["kernels_compiled"] != 0:
            return f"other shapes were compiled for: {report}, {cached_files(cache)} files in the cache after {files}"
    for feeds, got in zip(cases, results):
        want = {
            o.name.replace("/", "_"): v
            for o, v in zip(reference.get_outputs(), reference.run(None, feeds))
        }
        text = shapes.wrong(got, want)
        if text:
            return f"at {feeds['x'].shape}: {text}"
    return ""


def soak(options, path, runs):
    """What is wrong, or nothing. Compares memory after all random shapes with that after a quarter
    of them, when the plans per shape are full."""
    command = [
        options.tool,
        str(path),
        options.device,
        "--soak",
        str(runs),
        "5",
        "x:0=1..2",
        "x:2=48..48",
        "x:3=8..120",
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=shapes.SECONDS, check=False
    )
    if done.returncode != 0:
        return f"exit status {done.returncode}: {done.stderr.strip()[:600]}"
    report = json.loads(done.stdout)
    print(
        f"     {runs} random shapes: {report['warm_kb']} kB after a quarter, {report['end_kb']} kB at the end"
    )
    return "" if report["end_kb"] <= GROWTH * report["warm_kb"] else f"memory grew: {report}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tool", required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--filter", default="", help="only models whose name holds this")
    parser.add_argument(
        "--soak",
        type=int,
        default=1000,
        help="random shapes of the recogniser for the test of memory",
    )
    options = parser.parse_args()
    models = package_models()
    if models is None:
        print("skipped: rapidocr-onnxruntime is not installed")
        return SKIPPED
    try:
        import onnxruntime
    except ImportError:
        print("skipped: onnxruntime is not installed")
        return SKIPPED
    failed = 0
    for name in SHAPES:
        if options.filter not in name:
            continue
        text = check(options, onnxruntime, models / f"{name}.onnx")
        print(
            f"{'FAIL' if text else 'ok  '} {name} on {options.device}: {text or f'{len(SHAPES[name])} shapes'}",
            flush=True,
        )
        failed += bool(text)
    if options.filter in RECOGNISER:
        text = soak(options, models / f"{RECOGNISER}.onnx", options.soak)
        print(f"{'FAIL' if text else 'ok  '} memory of {RECOGNISER}{': ' if text else ''}{text}")
        failed += bool(text)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
