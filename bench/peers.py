#!/usr/bin/env python3
"""Tenon against torch eager, ONNX Runtime and OpenVINO on the models of models.py: interleaved
rounds, outputs compared, peaks of the same minute.

    bench/peers.py [--quick] [--only NAME,...] [--threads 1,2] [--rounds 5] [--seconds 0.25] [--json FILE] [--skip PART,...]

Every runtime has a process of its own with the loaded model, and they measure rounds in rotating
order. Inputs are random (seed 1) and the same for all. One thread is pinned to one processor.
Outputs are compared as max|a-b| / max|b|; `f64` is the distance from the same network computed in
double. The bound is the larger of flops at the multiply-add peak and, if weights and tensors exceed
the caches, bytes at the read peak, both measured next to each model. A peer that is not installed is
"not run"; a model that a runtime refuses is "failed" with its reason.

Parts for --skip: models, start (cold compile, second start, depth), contention.
"""

import argparse
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import models

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
PEERS = ("tenon", "torch", "onnxruntime", "openvino")
CACHES = 32 << 20  # bytes that exceed any cache
START_MODELS = ("resnet50", "mobilenetv2", "bert", "gpt2")


# ---- Workers ----


class Worker:
    """A process that answers with lines of JSON. `info` is its first answer; `problem` is why it
    cannot measure, or empty."""

    def __init__(self, command, env=None, pinned=False):
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=env,
            preexec_fn=_pin if pinned else None,
        )
        self.info, self.problem = {}, ""

    def wait(self):
        line = self.process.stdout.readline()
        answer = json.loads(line) if line else {"failed": _complaint(self.process)}
        if answer.get("missing"):
            self.problem = "not run"
        elif "failed" in answer:
            self.problem = "failed: " + answer["failed"]
        return answer

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.wait()

    def stop(self):
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()


def _pin():
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def _complaint(process):
    lines = [x for x in process.stderr.read().splitlines() if "error" in x.lower()]
    return (lines or ["it ended without a word"])[0][:200]


class Peer:
    """A runtime with one model, in as many processes as it needs."""

    def __init__(self, kind, name, path, folder, threads, tenon, exact):
        self.kind, self.workers = kind, {}
        self.record = {}
        if kind == "tenon":
            inputs = [
                part
                for i in models.get(name).inputs
                for part in ("--input", f"{i.name}={folder}/in.{i.name}.npy")
            ]
            for n in threads:
                command = [tenon, "bench", path, "--serve", "--threads", str(n), *inputs]
                self.workers[n] = Worker(command, pinned=n == 1)
        else:
            command = [
                sys.executable,
                "-W",
                "ignore",
                os.path.join(HERE, "worker.py"),
                kind,
                name,
                path,
                folder,
            ]
            worker = Worker(command + (["exact"] if exact and kind == "torch" else []))
            self.workers = dict.fromkeys(threads, worker)

    def ready(self, exact):
        for worker in self.processes():
            worker.info = worker.wait()
            if exact and self.kind == "torch" and not worker.problem:
                worker.wait()
        info = self.workers[max(self.workers)].info
        self.record["setup"] = {
            k: v
            for k, v in info.items()
            if k in ("version", "load_ms", "compile_ms", "first_run_ms")
        }
        self.imported_rss = info.get("imported_rss_bytes", 0)

    def processes(self):
        return list({id(w): w for w in self.workers.values()}.values())

    def problem(self, threads):
        return self.workers[threads].problem

    def round(self, threads, seconds):
        worker = self.workers[threads]
        return worker.ask(f"{threads} {seconds}" if self.kind != "tenon" else str(seconds))

    def stop(self):
        for worker in self.processes():
            worker.stop()


# ---- Peaks ----


class Peaks:
    """The program peaks.cpp, built once for this machine."""

    def __init__(self, folder):
        self.program = os.path.join(folder, "peaks")
        compiler = next(
            (c for c in ("clang++-19", "clang++", "c++", "g++") if shutil.which(c)), None
        )
        if compiler is None:
            sys.exit("peers.py: no C++ compiler to build peaks.cpp with (clang++, c++ or g++)")
        subprocess.run(
            [
                compiler,
                "-O2",
                "-march=native",
                "-std=c++20",
                "-pthread",
                os.path.join(HERE, "peaks.cpp"),
                "-o",
                self.program,
            ],
            check=True,
        )

    def measure(self):
        return json.loads(
            subprocess.run([self.program], check=True, capture_output=True, text=True).stdout
        )


def best_peaks(several):
    return {n: {k: max(p[n][k] for p in several) for k in several[0][n]} for n in several[0]}


# ---- One model ----


def write_inputs(name, folder):
    import numpy as np

    for key, value in models.inputs(name).items():
        np.save(
            os.path.join(folder, f"in.{key}.npy"),
            value.view("V2") if value.dtype == np.uint16 else value,
        )


def tenon_outputs(tenon, name, path, folder):
    """Runs the model once through the command line. Returns the outputs in the model's order."""
    import numpy as np

    inputs = [
        part
        for i in models.get(name).inputs
        for part in ("--input", f"{i.name}={folder}/in.{i.name}.npy")
    ]
    out = os.path.join(folder, "tenon")
    result = subprocess.run(
        [tenon, "run", path, "--json", "--output-dir", out, *inputs], capture_output=True, text=True
    )
    if result.returncode != 0:
        return None
    names = [o["name"] for o in json.loads(result.stdout)["outputs"]]
    safe = [
        "".join(c if c.isascii() and (c.isalnum() or c in "_.-") else "_" for c in n) for n in names
    ]
    return [as_float(np, np.load(os.path.join(out, n + ".npy"))) for n in safe]


def as_float(np, array):
    if array.dtype.itemsize == 2 and array.dtype.kind == "V":
        return (array.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    return array


def saved_outputs(kind, folder):
    import numpy as np

    found = []
    while os.path.exists(os.path.join(folder, f"{kind}.{len(found)}.npy")):
        found.append(np.load(os.path.join(folder, f"{kind}.{len(found)}.npy")))
    return found or None


def distance(a, b):
    """Largest max|a-b| / max|b| over the outputs; infinite where they differ in shape or are not
    finite."""
    import numpy as np

    worst = 0.0
    for x, y in zip(a, b):
        if x.shape != y.shape or not np.isfinite(x).all():
            return float("inf")
        x, y = x.astype(np.float64), y.astype(np.float64)
        worst = max(worst, float(np.abs(x - y).max() / max(np.abs(y).max(), 1e-300)))
    return worst


def compare(outputs):
    errors = {}
    for a, b in (
        ("tenon", "onnxruntime"),
        ("tenon", "torch"),
        ("tenon", "openvino"),
        ("tenon", "exact"),
        ("onnxruntime", "exact"),
        ("openvino", "exact"),
        ("torch", "exact"),
    ):
        if outputs.get(a) and outputs.get(b):
            errors[f"{a}:{b}"] = distance(outputs[a], outputs[b])
    return errors


def traffic(name, path):
    """The least number of bytes that a run must move: weights, inputs and outputs of known size."""
    import math

    sizes = {"bfloat16": 2, "float32": 4, "int64": 8}
    tensors = sum(math.prod(i.sizes()) * sizes[i.dtype] for i in models.get(name).inputs)
    return os.path.getsize(path) + tensors * (2 if models.get(name).flops == 0 else 1)


def bound_ms(name, path, peaks):
    model = models.get(name)
    bf16 = model.inputs[0].dtype == "bfloat16" and peaks["bf16_gflops"] > 0
    compute = model.flops / (peaks["bf16_gflops" if bf16 else "f32_gflops"] * 1e6)
    moved = traffic(name, path)
    return max(
        compute,
        moved / (peaks["read_gbs" if model.flops else "triad_gbs"] * 1e6) if moved > CACHES else 0,
    )


def rounds_of(peers, threads, rounds, seconds):
    """Medians by peer, from rounds in rotating order. A pause lets the threads of the previous one
    go to sleep."""
    for peer in peers:
        if not peer.problem(threads):
            peer.round(threads, min(seconds, 0.05))
    times = {p.kind: [] for p in peers}
    rss = {}
    for r in range(rounds):
        for peer in peers[r % len(peers) :] + peers[: r % len(peers)]:
            if peer.problem(threads):
                continue
            time.sleep(0.02)
            answer = peer.round(threads, seconds)
            if not peer.problem(threads):
                times[peer.kind].append(answer)
                rss[peer.kind] = answer["rss_bytes"] - peer.imported_rss
    result = {}
    for peer in peers:
        if peer.problem(threads):
            result[peer.kind] = {"problem": peer.problem(threads)}
        else:
            found = times[peer.kind]
            result[peer.kind] = {
                "median_ms": statistics.median(a["median_ms"] for a in found),
                "min_ms": min(a["min_ms"] for a in found),
                "p99_ms": max(a["p99_ms"] for a in found),
                "rss_bytes": rss[peer.kind],
            }
    return result


def best_of(result, kinds=("onnxruntime", "openvino")):
    known = [result[k]["median_ms"] for k in kinds if k in result and "median_ms" in result[k]]
    return min(known) if known else None


def measure_model(name, path, args, peaks):
    exact = not args.quick and all(i.dtype != "bfloat16" for i in models.get(name).inputs)
    with tempfile.TemporaryDirectory() as folder:
        write_inputs(name, folder)
        outputs = {
            "tenon": tenon_outputs(args.tenon, name, path, folder)
        }  # also fills the kernel cache
        peers = [Peer(k, name, path, folder, args.threads, args.tenon, exact) for k in args.peers]
        rows = []
        try:
            for peer in peers:
                peer.ready(exact)
            for kind in (*PEERS[1:], "exact"):
                outputs[kind] = saved_outputs(kind, folder)
            errors = compare(outputs)
            for threads in args.threads:
                before = peaks.measure()
                result = rounds_of(peers, threads, args.rounds, args.seconds)
                found = best_peaks([before, peaks.measure()])
                row = {
                    "model": name,
                    "threads": threads,
                    "peaks": found.get(str(threads), {}),
                    "peers": result,
                    "errors": errors,
                    "setup": {p.kind: p.record["setup"] for p in peers},
                }
                if row["peaks"]:
                    row["bound_ms"] = bound_ms(name, path, row["peaks"])
                tenon = result.get("tenon", {}).get("median_ms")
                best = best_of(result)
                if tenon and best:
                    row["ratio"] = tenon / best
                rows.append(row)
        finally:
            for peer in peers:
                peer.stop()
    return rows


# ---- Starting ----


def read_ms(path):
    begin = time.perf_counter()
    with open(path, "rb") as f:
        while f.read(1 << 20):
            pass
    return (time.perf_counter() - begin) * 1e3


def bench_once(tenon, path, cache, inputs):
    begin = time.perf_counter()
    result = subprocess.run(
        [tenon, "bench", path, "--json", "--runs", "3", *inputs],
        capture_output=True,
        text=True,
        env={**os.environ, "TENON_CACHE_DIR": cache},
    )
    wall = (time.perf_counter() - begin) * 1e3
    if result.returncode != 0:
        lines = [x for x in result.stderr.splitlines() if "error" in x]
        return {"failed": (lines or [f"status {result.returncode}"])[0][:200]}
    return {**json.loads(result.stdout), "wall_ms": wall}


def measure_start(name, path, args):
    """Cold compile, and the time until the first output that a second start adds to reading the
    weights and computing."""
    with tempfile.TemporaryDirectory() as cache, tempfile.TemporaryDirectory() as folder:
        write_inputs(name, folder)
        inputs = [
            part
            for i in models.get(name).inputs
            for part in ("--input", f"{i.name}={folder}/in.{i.name}.npy")
        ]
        cold = bench_once(args.tenon, path, cache, inputs)
        if "failed" in cold:
            return {"model": name, **cold}
        warm = [bench_once(args.tenon, path, cache, inputs) for _ in range(3)]
        reading = min(read_ms(path) for _ in range(3))
        best = min(warm, key=lambda w: w["load_ms"] + w["compile_ms"] + w["first_run_ms"])
        first = best["load_ms"] + best["compile_ms"] + best["first_run_ms"]
        return {
            "model": name,
            "cold_compile_ms": cold["compile_ms"],
            "cold_weights_ms": cold["weights_ms"],
            "cold_load_ms": cold["load_ms"],
            "kernels": cold["kernels_compiled"] + cold["kernels_from_cache"],
            "warm_load_ms": best["load_ms"],
            "warm_compile_ms": best["compile_ms"],
            "warm_first_run_ms": best["first_run_ms"],
            "steady_ms": best["min_ms"],
            "read_ms": reading,
            "warm_extra_ms": first - best["min_ms"] - reading,
        }


# ---- Contention ----


def measure_contention(path, args):
    """MobileNetV2 on two threads, alone and while two processes are always busy."""
    name = "mobilenetv2"
    seconds = 0.5 if args.quick else 1.0
    with tempfile.TemporaryDirectory() as folder:
        write_inputs(name, folder)
        peers = [Peer(k, name, path, folder, [2], args.tenon, False) for k in args.peers]
        busy = []
        try:
            for peer in peers:
                peer.ready(False)
            alone = rounds_of(peers, 2, 2, seconds)
            busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
            time.sleep(0.2)
            contended = rounds_of(peers, 2, 2, seconds)
        finally:
            for process in busy:
                process.kill()
                process.wait()
            for peer in peers:
                peer.stop()
    rows = {}
    for kind in alone:
        if "median_ms" in alone[kind] and "median_ms" in contended[kind]:
            rows[kind] = {
                "alone_ms": alone[kind]["median_ms"],
                "contended_ms": contended[kind]["median_ms"],
                "slowdown": contended[kind]["median_ms"] / alone[kind]["median_ms"],
            }
        else:
            rows[kind] = alone[kind]
    return rows


# ---- The table ----


def cell(result, key="median_ms"):
    if "problem" in result:
        return result["problem"].split(":")[0]
    value = result[key]
    return f"{value:.4f}" if value < 1 else f"{value:.2f}"


def print_rows(rows, kinds):
    print(
        f"{'model':18} thr "
        + "".join(f"{k + ' ms':>16}" for k in kinds)
        + f"{'ratio':>8}{'of bound':>9}{'~ORT':>9}{'~torch':>9}{'f64 x ORT':>10}"
        + "".join(f"{k[:5] + ' MB':>9}" for k in kinds)
    )
    for row in rows:
        errors, exact = row["errors"], ""
        if errors.get("onnxruntime:exact") and "tenon:exact" in errors:
            exact = f"{errors['tenon:exact'] / errors['onnxruntime:exact']:.2f}"
        tenon = row["peers"].get("tenon", {}).get("median_ms")
        bound = f"{row['bound_ms'] / tenon * 100:.0f} %" if tenon and row.get("bound_ms") else ""
        print(
            f"{row['model']:18} {row['threads']:3} "
            + "".join(f"{cell(row['peers'][k]):>16}" for k in kinds)
            + f"{format(row['ratio'], '.2f') if 'ratio' in row else '':>8}{bound:>9}"
            + "".join(
                f"{format(errors[e], '.0e') if e in errors else '':>9}"
                for e in ("tenon:onnxruntime", "tenon:torch")
            )
            + f"{exact:>10}"
            + "".join(
                f"{row['peers'][k]['rss_bytes'] / 1e6:>9.0f}"
                if "rss_bytes" in row["peers"][k]
                else f"{'':>9}"
                for k in kinds
            )
        )
    for row in rows:
        for kind in kinds:
            problem = row["peers"][kind].get("problem", "")
            if problem.startswith("failed") and row["threads"] == rows[0]["threads"]:
                print(f"  {row['model']}, {kind} {problem}")


def print_peaks(rows):
    for threads in sorted({r["threads"] for r in rows}):
        found = [r["peaks"] for r in rows if r["threads"] == threads and r["peaks"]]
        if found:
            text = ", ".join(
                f"{k.rsplit('_', 1)[0]} {statistics.median(p[k] for p in found):.1f} ({min(p[k] for p in found):.1f} to "
                f"{max(p[k] for p in found):.1f})"
                for k in found[0]
            )
            print(
                f"peaks, {threads} thread(s), median and range over the models: {text}; GFLOPS and GB/s"
            )


def print_start(rows):
    print(
        f"\n{'start':18}{'cold compile ms':>16}{'kernels':>9}{'warm load':>11}{'compile':>9}{'first run':>11}{'steady':>9}{'read file':>11}"
        f"{'extra ms':>10}"
    )
    for r in rows:
        if "failed" in r:
            print(f"{r['model']:18} failed: {r['failed']}")
            continue
        print(
            f"{r['model']:18}{r['cold_compile_ms']:>16.0f}{r['kernels']:>9}{r['warm_load_ms']:>11.1f}{r['warm_compile_ms']:>9.1f}"
            f"{r['warm_first_run_ms']:>11.1f}{r['steady_ms']:>9.1f}{r['read_ms']:>11.1f}{r['warm_extra_ms']:>10.1f}"
        )
    by_name = {r["model"]: r for r in rows if "failed" not in r}
    if "bert" in by_name and "bert_24" in by_name:
        deep, shallow = (
            by_name[n]["cold_compile_ms"] - by_name[n]["cold_weights_ms"]
            for n in ("bert_24", "bert")
        )
        print(
            f"compile time of 24 layers over 12, weights aside: {deep:.0f} over {shallow:.0f} ms, {deep / shallow:.2f}"
        )


def print_contention(rows):
    print("\nMobileNetV2 next to two busy processes, two threads")
    for kind, r in rows.items():
        print(
            f"  {kind:14}"
            + (
                f"{r['alone_ms']:8.2f} ms alone, {r['contended_ms']:8.2f} ms contended: {r['slowdown']:.2f}x"
                if "slowdown" in r
                else r["problem"]
            )
        )


# ---- All ----


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tenon", default=os.path.join(ROOT, "build", "bin", "tenon"))
    parser.add_argument("--only", help="models, separated by commas (default: the headline ones)")
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--threads", help="default 1,2; with --quick 2")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seconds", type=float, help="of one round")
    parser.add_argument(
        "--quick", action="store_true", help="shorter rounds, two threads, no run in double"
    )
    parser.add_argument("--skip", default="", help="models, start, contention")
    parser.add_argument("--models-dir", help="of models.py")
    parser.add_argument("--opset", type=int, default=models.DEFAULT_OPSET)
    parser.add_argument("--exporter", choices=("torchscript", "dynamo"), default="torchscript")
    parser.add_argument("--attention", choices=("eager", "sdpa"), default="eager")
    parser.add_argument("--json")
    args = parser.parse_args()
    args.threads = [int(n) for n in (args.threads or ("2" if args.quick else "1,2")).split(",")]
    args.rounds = args.rounds or (3 if args.quick else 5)
    args.seconds = args.seconds if args.seconds is not None else (0.1 if args.quick else 0.25)
    args.peers = tuple(k for k in PEERS if k in args.peers.split(","))
    args.skip = args.skip.split(",")
    args.names = (
        [models.get(n).name for n in args.only.split(",")]
        if args.only
        else [m.name for m in models.MODELS.values() if m.headline]
    )
    return args


def path_of(name, args):
    try:
        return models.export(name, args.models_dir, args.opset, args.exporter, args.attention)
    except ImportError as error:
        print(f"{name}: not exported, {error}", file=sys.stderr)
        return None


def main():
    args = parse()
    record = {"schema": 1, "rows": [], "start": [], "contention": {}}
    started = time.time()
    paths = {n: path_of(n, args) for n in args.names}
    with tempfile.TemporaryDirectory() as folder:
        peaks = Peaks(folder)
        for name in [] if "models" in args.skip else args.names:
            if paths[name] is None:
                print(f"{name}: not run", file=sys.stderr)
                continue
            record["rows"] += measure_model(name, paths[name], args, peaks)
            print(f"{name}: measured", file=sys.stderr)
    if record["rows"]:
        print_rows(record["rows"], args.peers)
        print_peaks(record["rows"])
    if "start" not in args.skip:
        names = [n for n in START_MODELS if n in args.names] + (
            ["bert_24"] if "bert" in args.names and not args.quick else []
        )
        record["start"] = [
            measure_start(n, p, args) for n in names if (p := paths.get(n) or path_of(n, args))
        ]
        print_start(record["start"])
    if "contention" not in args.skip and paths.get("mobilenetv2"):
        record["contention"] = measure_contention(paths["mobilenetv2"], args)
        print_contention(record["contention"])
    record["seconds"] = time.time() - started
    print(
        f"\n{record['seconds']:.0f} s; ratio: Tenon's median over the better of ONNX Runtime's and "
        "OpenVINO's; MB: resident beyond the imports"
    )
    if args.json:
        with open(args.json, "w") as out:
            json.dump(record, out, indent=1)


if __name__ == "__main__":
    main()
