#!/usr/bin/env python3
"""Tenon beside ONNX Runtime on the small models of the tree: interleaved rounds, medians, outputs compared.

    bench/peers.py [--threads 1] [--rounds 5] [--json FILE]

Tenon is measured by `tenon bench` in a process of its own, ONNX Runtime in a child process of this script, in turn, so that both
meet the same drift of the machine's clock. Inputs are random (seed 1). Outputs are compared once, on the same inputs. A peer that is not
installed is "not run".
"""
import argparse
import glob
import json
import os
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TENON = os.path.join(ROOT, "build", "bin", "tenon")
DIM = 8  # for symbolic dims

ORT_CHILD = r"""
import json, sys, time, statistics
import numpy as np, onnxruntime as ort
path, threads, dim, inputs, outputs = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5]
options = ort.SessionOptions()
options.intra_op_num_threads = threads
options.inter_op_num_threads = 1
session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
rng = np.random.default_rng(1)
feed = {}
for i in session.get_inputs():
    shape = [d if isinstance(d, int) else dim for d in i.shape]
    feed[i.name] = rng.standard_normal(shape).astype(np.float32)
    np.save(f"{inputs}/{i.name}.npy", feed[i.name])
results = session.run(None, feed)
for o, r in zip(session.get_outputs(), results):
    np.save(f"{outputs}/{o.name}.npy", r)
times = []
end = time.perf_counter() + 0.5
while len(times) < 20 or time.perf_counter() < end:
    begin = time.perf_counter()
    session.run(None, feed)
    times.append((time.perf_counter() - begin) * 1e3)
print(json.dumps({"median_ms": statistics.median(times), "names": [i.name for i in session.get_inputs()]}))
"""


def ort_round(model, threads, folder):
    command = [sys.executable, "-c", ORT_CHILD, model, str(threads), str(DIM), folder, folder + "/expected"]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        return None
    return json.loads(result.stdout.strip().splitlines()[-1])


def dim_options(names):
    return [part for name in names for part in ("--dim", f"{name}={DIM}")]


def tenon_round(model, threads, dims):
    result = subprocess.run([TENON, "bench", model, "--threads", str(threads), "--json", *dims], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"tenon bench {model}: {result.stderr}")
    return json.loads(result.stdout)


def agreement(model, folder, names):
    """Largest |a-b| / max|b| over all outputs, Tenon against ONNX Runtime on the same inputs."""
    import numpy as np
    command = [TENON, "run", model, "--output-dir", folder + "/got"]
    for name in names:
        command += ["--input", f"{name}={folder}/{name}.npy"]
    subprocess.run(command, check=True, capture_output=True)
    worst = 0.0
    for path in glob.glob(folder + "/expected/*.npy"):
        expected = np.load(path)
        got = np.load(os.path.join(folder, "got", os.path.basename(path)))
        worst = max(worst, float(np.abs(got - expected).max() / max(np.abs(expected).max(), 1e-30)))
    return worst


def symbols(model):
    """Names of the model's symbolic dims, from the model itself."""
    try:
        import onnx
    except ImportError:
        return []
    graph = onnx.load(model, load_external_data=False).graph
    return sorted({d.dim_param for i in graph.input for d in i.type.tensor_type.shape.dim if d.dim_param})


def measure(model, threads, rounds):
    dims = dim_options(symbols(model))
    row = {"model": os.path.basename(model), "threads": threads}
    tenon, ort = [], []
    with tempfile.TemporaryDirectory() as folder:
        for name in ("expected", "got"):
            os.mkdir(os.path.join(folder, name))
        for _ in range(rounds):
            tenon.append(tenon_round(model, threads, dims)["median_ms"])
            peer = ort_round(model, threads, folder)
            if peer:
                ort.append(peer["median_ms"])
        row["tenon_ms"] = statistics.median(tenon)
        row["onnxruntime_ms"] = statistics.median(ort) if ort else "not run"
        if ort:
            row["ratio"] = row["tenon_ms"] / row["onnxruntime_ms"]
            row["max_error"] = agreement(model, folder, peer["names"])
    return row


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json")
    args = parser.parse_args()
    models = [os.path.join(ROOT, "samples/digits/digits.onnx"), *sorted(glob.glob(os.path.join(ROOT, "tests/models/*.onnx")))]
    rows = [measure(m, args.threads, args.rounds) for m in models]
    for r in rows:
        ratio = f"{r['ratio']:.2f}x, max error {r['max_error']:.1e}" if "ratio" in r else "peer not run"
        print(f"{r['model']:24} {r['tenon_ms']:9.4f} ms   ONNX Runtime {r['onnxruntime_ms']!s:>22} ms   {ratio}")
    if args.json:
        with open(args.json, "w") as out:
            json.dump(rows, out, indent=1)


if __name__ == "__main__":
    main()
