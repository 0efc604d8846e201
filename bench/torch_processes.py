#!/usr/bin/env python3
"""What torch.compile costs a whole process: first calls with warm caches, and memory of training steps.

    PYTHONPATH=build/python .venv-torch/bin/python bench/torch_processes.py [--only NAME,...] [--rounds N] [--json FILE]

Each figure is of a fresh process, and peers take turns: eager mode, an AOT backend that compiles
nothing, Inductor, Tenon. Each peer has caches of its own, which an earlier process has filled; for
memory there is a first row of a process that compiles.

first call: seconds from torch.compile to the end of the first call, and beyond that of the empty
backend, which traces only. memory (MiB): growth of the process from before torch.compile, with the
network and its input there. "peak" is the largest while it runs the first steps, "step" the largest
of later steps, "rest" what is left between steps, and "libraries" the pages of libraries in it.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

PEERS = ("eager", "empty", "inductor", "tenon")
CASES = {"bert": "first", "gpt_4x256": "memory", "cnn": "memory"}
LATER_STEPS = 5


# ---- In a process of its own ----


def first_call(name, peer):
    import torch
    import torch_compile

    net, inputs = torch_compile.published()[name]()
    net.eval()
    torch.compile(torch_compile.chain, backend="eager")(torch.ones(2))  # Dynamo's own start
    begin = time.perf_counter()
    with torch.no_grad():
        torch_compile.peers()[peer](net)(*inputs)
    return {"seconds": time.perf_counter() - begin}


def status(key):
    """A line of /proc/self/status, in MiB."""
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(key + ":")) / 1024


def forget_peak():
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")


def libraries():
    """MiB of pages of libraries."""
    kib, inside = 0, False
    with open("/proc/self/smaps", encoding="utf-8") as file:
        for line in file:
            if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
                inside = re.search(r"\.so(\.[\d.]+)?$", line.rstrip()) is not None
            elif inside and line.startswith("Rss:"):
                kib += int(line.split()[1])
    return kib / 1024


def memory(name, peer):
    import torch
    import torch_compile

    make, shape = torch_compile.networks()[name]
    net, x = make().train(), torch.randn(shape)
    torch.compile(torch_compile.chain, backend="eager")(torch.ones(2))
    forget_peak()
    base, base_libraries = status("VmRSS"), libraries()
    step = torch_compile.runner("training", net, torch_compile.peers()[peer], (x,))
    for _ in range(2):
        step()
    found = {"peak": status("VmHWM") - base}
    forget_peak()
    found |= {"rest": status("VmRSS") - base, "libraries": libraries() - base_libraries}
    for _ in range(LATER_STEPS):
        step()
    return found | {"step": status("VmHWM") - base}


# ---- Of all ----


def run(name, kind, peer, folder):
    """The figures of one process, or None where the peer cannot run."""
    own = os.path.join(folder, peer)
    environment = {
        **os.environ,
        "TORCHINDUCTOR_CACHE_DIR": own,
        "TENON_CACHE_DIR": os.path.join(own, "tenon"),
    }
    command = [sys.executable, os.path.abspath(__file__), "--child", kind, name, peer]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        print(f"  {name} {peer}: not run ({last})", file=sys.stderr)
        return None
    return json.loads(done.stdout.splitlines()[-1])


def measure(name, kind, rounds):
    """(figures of the processes that compiled, medians of those after them), by peer."""
    with tempfile.TemporaryDirectory() as folder:
        cold = {peer: found for peer in PEERS if (found := run(name, kind, peer, folder))}
        rows = {peer: [] for peer in cold}
        for _ in range(rounds):
            for peer in cold:
                rows[peer].append(run(name, kind, peer, folder) or cold[peer])
    warm = {
        peer: {key: statistics.median(row[key] for row in list_) for key in list_[0]}
        for peer, list_ in rows.items()
    }
    return cold, warm


def show(name, kind, cold, warm):
    print(f"{name}: {'first call, s' if kind == 'first' else 'training, MiB'}")
    for title, found in (("compiles", cold), ("warm", warm)):
        for peer, row in found.items():
            cells = ", ".join(
                f"{key} {value:.2f}" if kind == "first" else f"{key} {value:.0f}"
                for key, value in row.items()
            )
            if kind == "first" and "empty" in found and peer not in ("eager", "empty"):
                cells += f", beyond tracing {row['seconds'] - found['empty']['seconds']:.2f}"
            print(f"  {title:8} {peer:9} {cells}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(CASES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json")
    parser.add_argument("--child", nargs=3)
    given = parser.parse_args()
    if given.child:
        kind, name, peer = given.child
        print(json.dumps({"first": first_call, "memory": memory}[kind](name, peer)))
        return
    found = {}
    for name in given.only:
        cold, warm = measure(name, CASES[name], given.rounds)
        show(name, CASES[name], cold, warm)
        found[name] = {"kind": CASES[name], "compiles": cold, "warm": warm}
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump(found, file, indent=1)


if __name__ == "__main__":
    main()
