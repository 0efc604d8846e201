#!/usr/bin/env python3
"""Atomic claims through `tenon run`: from the layer `patterns` in front of the simulated device,
which also compiles node by node, and from a device that takes nothing but whole patterns (the
mutant `graphs` of tests/conform). Results are the reference's, and placement lists what became of
each claim.

    patterns.py TENON INCLUDE C_COMPILER CXX_COMPILER
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

TENON, INCLUDE, CC, CXX = sys.argv[1:]
HERE = pathlib.Path(__file__).resolve().parent
MUTANTS = HERE.parent / "conform" / "mutants"

# Two patterns, the second of which reads the first; an op between them.
DENSE = """tenon.tir 1
graph @g(%x: f32[6, 40], %w: f32[40, 40], %b: f32[6, 40], %z: f32[6, 40]) -> (a: f32[6, 40], b: f32[6, 40]) {
  %0 = dot_general(%x, %w) {a_contract = [1], b_contract = [0]} : f32[6, 40]
  %1 = add(%0, %b) : f32[6, 40]
  %2 = max(%1, %z) : f32[6, 40]
  %3 = tanh(%2) : f32[6, 40]
  %4 = dot_general(%3, %w) {a_contract = [1], b_contract = [0]} : f32[6, 40]
  %5 = add(%4, %2) : f32[6, 40]
  %6 = max(%5, %z) : f32[6, 40]
  yield %6, %2
}
"""
SOFTMAX = """tenon.tir 1
graph @g(%x: f32[6, 40]) -> (a: f32[6, 40]) {
  %0 = softmax(%x) {dim = 1} : f32[6, 40]
  yield %0
}
"""


def build(folder):
    shared = [
        "-O1",
        "-fPIC",
        "-shared",
        "-fvisibility=hidden",
        "-Wl,-z,now",
        f"-I{INCLUDE}",
        "-pthread",
        "-lm",
    ]
    subprocess.run(
        [
            CC,
            "-std=gnu11",
            "-w",
            "-DGRAPHS",
            *sorted(MUTANTS.glob("async*.c")),
            "-o",
            folder / "async.so",
            *shared,
        ],
        check=True,
    )
    subprocess.run(
        [CXX, "-std=c++20", HERE / "patterns.cpp", "-o", folder / "patterns.so", *shared],
        check=True,
    )
    for name, provides in (
        ("async", {"devices": ["async"]}),
        ("patterns", {"layers": ["patterns"]}),
    ):
        manifest = {
            "schema": 1,
            "name": name,
            "version": "0.1.0",
            "library": f"./{name}.so",
            "provides": provides,
        }
        (folder / f"{name}.plugin.json").write_text(json.dumps(manifest))


class Runs:
    def __init__(self, folder):
        self.folder = folder
        os.environ["TENON_PLUGIN_ADD"] = str(folder)

    def raw(self, text, device, *more, layer=None):
        model = self.folder / "model.tir"
        model.write_text(text)
        variables = os.environ | (
            {"TENON_LAYERS": "patterns:" + layer} if layer is not None else {}
        )
        command = [TENON, "run", model, "--device", device, "--seed", "1", *more]
        return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=120)

    def nodes(self, text, device, layer=None):
        """The nodes of the placement, after the results were compared with the reference's."""
        done = self.raw(text, device, "--check", "reference", "--json", layer=layer)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["placement"]["nodes"]


def claims(nodes):
    """The ops of each atomic claim, in the order of the graph."""
    out = {}
    for node in nodes:
        if "claim" in node:
            out.setdefault(node["claim"], []).append(node["op"])
    return list(out.values())


PATTERN = ["dot_general", "add", "max"]


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        build(folder)
        runs = Runs(folder)

        # A device of patterns alone: each pattern is one compilation, the rest goes elsewhere.
        nodes = runs.nodes(DENSE, "async")
        assert claims(nodes) == [PATTERN, PATTERN], nodes
        assert [n["device"] for n in nodes if "claim" not in n] == ["cpu"], nodes
        shown = runs.raw(DENSE, "async", "--dump", "partition").stdout
        assert [line for line in shown.split("\n") if line.startswith("//")] == [
            "// segment 0 on async: 3 nodes",
            "// segment 1 on cpu: 1 nodes",
            "// segment 2 on async: 3 nodes",
        ], shown
        assert (
            runs.raw(DENSE, "async", "--no-fallback").stderr.count(
                "async: async: dot_general, add and max together"
            )
            == 1
        )

        # Next to single nodes of a compiling device: with them and without, cheap or dear.
        for layer in ("alone=1", "alone=0"):
            assert claims(runs.nodes(DENSE, "sim", layer)) == [PATTERN, PATTERN], layer
        assert claims(runs.nodes(DENSE, "sim", "alone=1,cost=1000000000")) == []
        assert claims(runs.nodes(DENSE, "sim", "alone=0,cost=1000000000")) == [PATTERN, PATTERN]

        # A path leaves the claim and comes back: it is refused, and the node between is named.
        torn = runs.nodes(DENSE, "sim", "alone=0,torn=1")
        reasons = {n["refusals"][0]["reason"] for n in torn if n["op"] in ("dot_general", "max")}
        assert claims(torn) == [] and reasons == {
            "it takes dot_general and max only together, and add lies on a path from one of them to another"
        }, torn

        # A node of it is elsewhere: not taken, and why.
        lost = runs.nodes(DENSE, "cpu,sim", "alone=0")
        assert claims(lost) == [] and {n["device"] for n in lost} == {"cpu"}, lost
        assert all(
            "only together, and another claim or device has one of them"
            in n["refusals"][0]["reason"]
            for n in lost
            if n["op"] in PATTERN
        ), lost

        # A claim that breaks the rules: nothing of the device is used, and the report names the rule.
        broken = runs.nodes(DENSE, "sim", "broken=1")
        assert all(
            "T0512" in n["refusals"][0]["reason"]
            and "names a node twice" in n["refusals"][0]["reason"]
            for n in broken
        ), broken

        # A device that does not compile what it claimed together: an error that names it.
        os.environ["CONFORM_MUTANT"] = "claims_together_what_it_cannot"
        refused = runs.raw(DENSE, "async")
        del os.environ["CONFORM_MUTANT"]
        assert (
            refused.returncode != 0 and "while compiling 3 nodes for device async" in refused.stderr
        ), refused

        # A composite that the user wrote: its own refusal is reported at each part that is refused.
        parts = runs.nodes(SOFTMAX, "sim", "without=exp")
        refusals = [n["refusals"][0] for n in parts if n["op"] == "exp"]
        whole = "softmax of f32 of rank 2: no code is generated for this op"
        assert refusals == [
            {
                "device": "sim",
                "code": 12,
                "reason": whole,
                "of": "softmax",
                "here": "no exp of this shape",
            }
        ], parts
        said = runs.raw(SOFTMAX, "sim", "--no-fallback", layer="without=exp").stderr
        assert (
            f"sim: {whole} (said of softmax, which was replaced by smaller ops; of this one: no exp of this shape)"
            in said
        ), said

        # A named device that takes nothing is reported, also if one other device took everything.
        idle = runs.raw(SOFTMAX, "async").stdout + runs.raw(SOFTMAX, "async").stderr
        assert (
            "placement: async takes none of 7 nodes: softmax: async: dot_general, add and max together"
            in idle
        ), idle
        second = runs.raw(SOFTMAX, "cpu,async")
        assert (
            "async takes none of 7 nodes: softmax: async: dot_general, add and max together"
            in second.stdout + second.stderr
        ), second
    print("atomic claims are taken whole or not at all")


if __name__ == "__main__":
    main()
