#!/usr/bin/env python3
"""The cost of manifests at start-up: the time of a small command without foreign manifests, and
with good and bad ones. Then the cost of vendors' devices that are not there: the time of `tenon
doctor`, which loads their plugins and asks each why, without and with them.

    bench/startup.py [--tenon build/bin/tenon] [--good 50] [--bad 50] [--runs 40]

Good ones are complete and name a library that is never opened, because nothing needs it. Bad ones
are broken in different ways: no JSON, wrong schema, wrong types, a library outside the folder,
another platform. Both commands run in turn; figures are medians of whole processes.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VENDORS = "cuda,rocm,intel,mps"
GRAPH = (
    "tenon.tir 1\ngraph @g(%a: f32[4]) -> (y: f32[4]) {\n  %y = neg(%a) : f32[4]\n  yield %y\n}\n"
)


def manifest(name, **more):
    return json.dumps(
        {
            "schema": 1,
            "name": name,
            "version": "1.0",
            "library": "./x.so",
            "abi": {"major": 0, "min_minor": 1},
            "provides": {"devices": [name]},
            **more,
        }
    )


def write_manifests(folder, good, bad):
    open(os.path.join(folder, "x.so"), "wb").close()
    breaks = (
        lambda i: "hello",
        lambda i: json.dumps({"schema": 99}),
        lambda i: manifest(f"bad{i}", abi={"major": "one"}),
        lambda i: manifest(f"bad{i}", library="../../x.so"),
        lambda i: manifest(f"bad{i}", platform={"os": "none"}),
    )
    texts = [manifest(f"good{i}") for i in range(good)] + [
        breaks[i % len(breaks)](i) for i in range(bad)
    ]
    for number, text in enumerate(texts):
        with open(os.path.join(folder, f"p{number}.plugin.json"), "w") as file:
            file.write(text)


def run_ms(command, environment):
    begin = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, **environment})
    return (time.perf_counter() - begin) * 1e3


def spent_ms(command, environment):
    """Processor time of a process, which a busy machine does not change much."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run_ms(command, environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1e3 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def absent_vendors(tenon, runs):
    """Wall and processor times in ms, without and with the vendors' plugins, in turn; what is said about them."""
    command, times = [tenon, "doctor"], {}
    for _ in range(runs + 2):
        for off in (VENDORS, ""):
            times.setdefault(("wall", off), []).append(
                run_ms(command, {"TENON_PLUGINS_DISABLE": off})
            )
            times.setdefault(("processor", off), []).append(
                spent_ms(command, {"TENON_PLUGINS_DISABLE": off})
            )
    said = subprocess.run(command, capture_output=True, text=True).stdout
    reasons = [
        line.strip()
        for line in said.splitlines()
        if line.split() and line.split()[0] in VENDORS.split(",") and "not here" in line
    ]
    return {key: statistics.median(values[2:]) for key, values in times.items()}, reasons


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tenon", default=os.path.join(ROOT, "build", "bin", "tenon"))
    parser.add_argument("--good", type=int, default=50)
    parser.add_argument("--bad", type=int, default=50)
    parser.add_argument("--runs", type=int, default=40)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as cache:
        write_manifests(folder, args.good, args.bad)
        graph = os.path.join(cache, "g.tir")
        with open(graph, "w") as file:
            file.write(GRAPH)
        command = [args.tenon, "run", graph, "--seed", "1", "--device", "reference"]
        without = {"TENON_CACHE_DIR": cache}
        with_folder = {**without, "TENON_PLUGIN_ADD": folder}
        times = {"none": [], "all": []}
        for _ in range(args.runs + 2):
            times["none"].append(run_ms(command, without))
            times["all"].append(run_ms(command, with_folder))
        none, every = (statistics.median(t[2:]) for t in times.values())
        listed = subprocess.run(
            [args.tenon, "plugins", "list"],
            capture_output=True,
            text=True,
            env={**os.environ, **with_folder},
        ).stdout
    print(
        f"without {none:.2f} ms, with {args.good} good and {args.bad} bad manifests {every:.2f} ms: {every - none:+.2f} ms"
    )
    print(f"good ones listed: {sum(f'good{i}' in listed for i in range(args.good))}")
    times, reasons = absent_vendors(args.tenon, args.runs)
    for kind in ("wall", "processor"):
        off, on = times[kind, VENDORS], times[kind, ""]
        print(
            f"doctor, {kind} time: without {VENDORS} {off:.2f} ms, with them {on:.2f} ms: {on - off:+.2f} ms"
        )
    print("\n".join(reasons))


if __name__ == "__main__":
    main()
