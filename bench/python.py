#!/usr/bin/env python3
"""What a call from Python costs, compared with NumPy, torch and ONNX Runtime.

    PYTHONPATH=build/python python3 bench/python.py [--json FILE]

Each row is the best of rounds in which the candidates took turns, in microseconds (the import: in
milliseconds), with the quotient and its goal. A peer that is not installed is "not run".
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

import numpy as np
import tenon

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROUNDS = 15
ROUND_S = 0.02


def best(candidates):
    """The least time of one call of each, in microseconds."""
    counts = []
    for call in candidates:
        begin, n = time.perf_counter(), 0
        while time.perf_counter() - begin < ROUND_S:
            call()
            n += 1
        counts.append(max(n, 1))
    times = [float("inf")] * len(candidates)
    for _ in range(ROUNDS):
        for i, (call, n) in enumerate(zip(candidates, counts)):
            begin = time.perf_counter()
            for _ in range(n):
                call()
            times[i] = min(times[i], (time.perf_counter() - begin) / n * 1e6)
    return times


def module(name):
    try:
        return __import__(name)
    except ImportError:
        return None


def sum_of(count):
    """A model of `count` vectors that adds the first two."""
    inputs = ", ".join(f"%x{i}: f32[1]" for i in range(count))
    return tenon.load(
        f"tenon.tir 1\ngraph @sum({inputs}) -> (y: f32[1]) {{\n"
        "  %y = add(%x0, %x1) : f32[1]\n  yield %y\n}\n".encode(),
        "cpu",
    )


def import_ms(statement):
    """Median time of an import in a new process, by Python's own clock."""
    script = (
        f"import time; t = time.perf_counter(); {statement}; print((time.perf_counter() - t) * 1e3)"
    )
    runs = [
        float(subprocess.run([sys.executable, "-c", script], env=os.environ, capture_output=True,
                             text=True, check=True).stdout)
        for _ in range(9)
    ]  # fmt: skip
    return sorted(runs)[len(runs) // 2]


def one_op(rows):
    add, a = sum_of(2), np.ones(1, np.float32)
    t = tenon.tensor(a)
    ours, theirs = best([lambda: add(a, a), lambda: np.add(a, a)])
    rows.append(("one op on f32[1], NumPy", ours, "np.add", theirs, 2))
    (tensors,) = best([lambda: add(t, t)])
    rows.append(("the same on tenon.Tensor", tensors, "np.add", theirs, None))
    many, values = sum_of(102), [t] * 102
    few, all_ = best([lambda: add(t, t), lambda: many(*values)])
    rows.append(("100 stable parameters add", all_ - few, "", None, 1))
    torch = module("torch")
    if torch is None:
        return rows.append(("one op on f32[1], torch", None, "torch.add", None, 1.5))
    x = torch.ones(1)
    ours, theirs = best([lambda: add(x, x), lambda: torch.add(x, x)])
    return rows.append(("one op on f32[1], torch", ours, "torch.add", theirs, 1.5))


def mlp(rows):
    path = ROOT / "tests" / "models" / "mlp.onnx"
    x = np.load(ROOT / "tests" / "models" / "mlp.in.x.npy")
    model = tenon.load(path, "cpu")
    peer = module("onnxruntime")
    if peer is None:
        (ours,) = best([lambda: model(x)])
        return rows.append(("MLP, NumPy", ours, "onnxruntime", None, 0.5))
    options = peer.SessionOptions()
    options.intra_op_num_threads = len(os.sched_getaffinity(0))
    session = peer.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    ours, theirs = best([lambda: model(x), lambda: session.run(None, {"x": x})])
    assert model(x) is not None and model.last_run.copied_bytes == 0
    return rows.append(("MLP, NumPy", ours, "onnxruntime", theirs, 0.5))


def arrays(rows):
    """A chain of 20 eager operations, and one whose result is read."""
    from tenon import xp

    x = np.linspace(0, 1, 256, dtype=np.float32)
    mine, torch = xp.asarray(x), module("torch")
    theirs = torch.from_numpy(x.copy()) if torch else None

    def chain(value, read):
        for _ in range(10):
            value = value * 0.5 + 1.0
        return read(value)

    ours, numpy = best([lambda: chain(mine, np.asarray), lambda: chain(x, np.asarray)])
    rows.append(("20 eager ops on f32[256]", ours, "NumPy", numpy, None))
    peer = best([lambda: chain(theirs, lambda v: v.numpy())])[0] if torch else None
    rows.append(("20 eager ops on f32[256]", ours, "torch", peer, 0.4))
    small = xp.asarray(x[:1])
    ours = best([lambda: (small + small).item()])[0]
    tensor = theirs[:1] if torch else None
    peer = best([lambda: torch.add(tensor, tensor).item()])[0] if torch else None
    rows.append(("one eager op, read", ours, "torch.add().item()", peer, 2))


def growing(rows):
    """A step of a loop in which an array grows, once its programs have symbols (ADR 0049)."""
    from tenon import xp

    def step(value):
        value = xp.concat([value, value[-1:] + 1.0])
        value[-1].item()
        return value

    value = xp.zeros((1,))
    for _ in range(20):
        value = step(value)
    known, begin = tenon.eager_counts().compilations, time.perf_counter()
    for _ in range(200):
        value = step(value)
    took = (time.perf_counter() - begin) / 200 * 1e6
    compiled = tenon.eager_counts().compilations - known
    rows.append((f"a growing array, {compiled} compiled", took, "", None, None))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", help="write the rows to this file, too")
    options = parser.parse_args()
    rows = [("import tenon (ms)", import_ms("import tenon"), "", None, 20)]
    one_op(rows)
    mlp(rows)
    arrays(rows)
    growing(rows)
    for name, ours, peer, theirs, goal in rows:
        quotient = f"{ours / theirs:6.2f}" if ours and theirs else "      "
        shown = "not run" if ours is None else f"{ours:9.2f}"
        compared = f"{peer} {theirs:.2f}" if theirs else (f"{peer} not run" if peer else "")
        print(f"{name:28} {shown:>9}  {quotient}  {compared:24} goal {goal if goal else '-'}")
    if options.json:
        words = ("row", "tenon", "peer", "peer_time", "goal")
        pathlib.Path(options.json).write_text(
            json.dumps([dict(zip(words, row)) for row in rows], indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
