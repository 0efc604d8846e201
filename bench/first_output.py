#!/usr/bin/env python3
"""Milliseconds from process start to the end of `tenon run` on the digits, with a cold and with a
warm cache; or of a package, with the time of its warm call.

    bench/first_output.py [--tenon build/bin/tenon] [--runs 20]
    bench/first_output.py --package bert.tpk          # made by `tenon compile`: also less a warm call

Times the whole process, so the figure is an upper bound of the time to the first output. The page
cache is warm after the first run.
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DIGITS = os.path.join(ROOT, "samples", "digits")


def run_ms(tenon, cache):
    command = [
        tenon,
        "run",
        os.path.join(DIGITS, "digits.onnx"),
        "--input",
        "image=" + os.path.join(DIGITS, "example.npy"),
    ]
    begin = time.perf_counter()
    subprocess.run(
        command, check=True, capture_output=True, env={**os.environ, "TENON_CACHE_DIR": cache}
    )
    return (time.perf_counter() - begin) * 1e3


def package_ms(tenon, package, runs):
    """Medians of a process that runs the package once, and of its warm calls, taken in turns."""
    whole, calls = [], []
    for _ in range(runs + 1):
        begin = time.perf_counter()
        subprocess.run([tenon, "run", package, "--seed", "1"], check=True, capture_output=True)
        whole.append((time.perf_counter() - begin) * 1e3)
        done = subprocess.run(
            [tenon, "bench", package, "--runs", "10", "--json"],
            check=True,
            capture_output=True,
            text=True,
        )
        calls.append(json.loads(done.stdout)["median_ms"])
    return statistics.median(whole[1:]), statistics.median(calls[1:])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tenon", default=os.path.join(ROOT, "build", "bin", "tenon"))
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--package", help="a program in a file, instead of the digits")
    args = parser.parse_args()
    if args.package:
        whole, call = package_ms(args.tenon, args.package, args.runs)
        print(
            f"process ms: median {whole:.1f}; warm call ms: median {call:.1f}; beyond it: {whole - call:.1f}"
        )
        return
    cold = []
    for _ in range(3):
        with tempfile.TemporaryDirectory() as cache:
            cold.append(run_ms(args.tenon, cache))
    with tempfile.TemporaryDirectory() as cache:
        run_ms(args.tenon, cache)
        warm = [run_ms(args.tenon, cache) for _ in range(args.runs)]
    print(f"cold ms: median {statistics.median(cold):.1f} of {len(cold)}")
    print(
        f"warm ms: median {statistics.median(warm):.1f}, min {min(warm):.1f}, max {max(warm):.1f} of {len(warm)}"
    )


if __name__ == "__main__":
    main()
