#!/usr/bin/env python3
"""Devices of two vendors, made from the C template outside the tree, in one graph with two
simulated devices and the cpu. In any order of the names, the results are the reference's; losing
one vendor's device does not affect the others.

    vendors.py TENON TEMPLATE INCLUDE COMPILER
"""

import itertools
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

TENON, TEMPLATE, INCLUDE, COMPILER = sys.argv[1:]

# Ops of the template's device, of the simulated ones, and of the cpu.
OPS = ["add", "add", "mul", "sub", "max", "min"]
SIM_OPS = "0/mul,1/sub,0/max,1/max"


def make_vendor(folder, name):
    """A plugin made from the template, with another name."""
    source = folder / f"{name}.c"
    source.write_text((pathlib.Path(TEMPLATE) / "@NAME@.c").read_text().replace("@NAME@", name))
    subprocess.run(
        [
            COMPILER,
            "-std=c11",
            "-O1",
            "-fPIC",
            "-shared",
            "-fvisibility=hidden",
            "-Wl,-z,now",
            f"-I{INCLUDE}",
            source,
            "-o",
            folder / f"{name}.so",
        ],
        check=True,
    )
    manifest = json.loads(
        (pathlib.Path(TEMPLATE) / "manifest.json.in").read_text().replace("@NAME@", name)
    )
    (folder / f"{name}.plugin.json").write_text(json.dumps(manifest | {"library": f"./{name}.so"}))


def graph(seed, nodes):
    choose = random.Random(seed)
    lines = ["tenon.tir 1", "graph @g(%v0: f32[64], %v1: f32[64]) -> (a: f32[64], b: f32[64]) {"]
    for i in range(2, nodes + 2):
        lines.append(
            f"  %v{i} = {choose.choice(OPS)}(%v{choose.randrange(max(0, i - 6), i)}, %v{choose.randrange(i)}) : f32[64]"
        )
    return "\n".join(lines + [f"  yield %v{nodes + 1}, %v{nodes}", "}", ""])


def run(model, devices, **variables):
    command = [TENON, "run", model, "--device", devices, "--seed", "1", "--check", "reference"]
    return subprocess.run(
        command, env=os.environ | variables, capture_output=True, text=True, timeout=120
    )


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for vendor in ("acme", "zenith"):
            make_vendor(folder, vendor)
        os.environ |= {
            "TENON_PLUGIN_ADD": str(folder),
            "TENON_SIM_OPS": SIM_OPS,
            "TENON_SIM_LATENCY": "launch=0-2000,copy=0-1000",
        }
        orders = [
            "acme,sim,sim:1,zenith,cpu",
            "sim:1,zenith,sim",
            "zenith,acme,sim:1",
            "cpu,acme",
            "sim,cpu,zenith",
        ]
        for seed, order in zip(itertools.count(1), orders):
            model = folder / f"g{seed}.tir"
            model.write_text(graph(seed, 24))
            result = run(model, order)
            assert result.returncode == 0, f"{order}, seed {seed}: {result.stderr}"
        # Every named device took part.
        placement = folder / "g1.tir"
        placement.write_text(
            "tenon.tir 1\ngraph @g(%x: f32[4]) -> (y: f32[4]) {\n  %a = add(%x, %x) : f32[4]\n  %b = mul(%a, %x) : f32[4]\n"
            "  %c = sub(%b, %x) : f32[4]\n  %y = exp(%c) : f32[4]\n  yield %y\n}\n"
        )
        shown = subprocess.run(
            [TENON, "run", placement, "--device", "acme,sim,sim:1,cpu", "--dump", "partition"],
            capture_output=True,
            text=True,
        )
        for device in ("acme", "sim", "sim:1", "cpu"):
            assert f" on {device}: 1 node" in shown.stdout, shown.stdout + shown.stderr
        # The error names a lost device; without it, the same graph runs.
        lost = run(placement, "acme,sim,sim:1,cpu", TENON_SIM_FAULTS="1/lost=1")
        assert lost.returncode == 3 and "T0611" in lost.stderr and "`sim:1`" in lost.stderr, (
            lost.stderr
        )
        assert run(placement, "acme,sim,cpu", TENON_SIM_FAULTS="1/lost=1").returncode == 0
    print(f"{len(orders)} graphs on devices of four plugins")


if __name__ == "__main__":
    main()
