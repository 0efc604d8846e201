#!/usr/bin/env python3
"""Every element-wise op in every element type, over special values, against NumPy and mpmath,
within the accuracy that its declaration states.

    meanings.py TENON [DEVICE | cpu/ISA ...] [--op NAME] [--type TYPE] [--report]

The ops, their types and their accuracy come from the registry (`tenon ops --json`); their meanings
are in oracle.py and, for new ops, in tests/ops/cases. --report prints the largest error of each op, and where it occurs.
"""

# Reaches: tests/ops/cases
import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import judge
import numpy as np
import oracle
import values
from oracle import expected

# Attribute values to test; ops not listed here have none, are handled below, or are in
# tests/ops/cases.
ATTRIBUTES = {
    "elu": [{"alpha": 1.0}, {"alpha": 0.3}],
    "celu": [{"alpha": 1.0}, {"alpha": 0.3}],
    "selu": [{"alpha": 1.67326319217681884765625, "gamma": 1.05070102214813232421875}],
    "hard_sigmoid": [{"alpha": 0.2, "beta": 0.5}, {"alpha": 1 / 6, "beta": 0.5}],
    "threshold": [{"threshold": 0.0, "value": 0.0}, {"threshold": 1.5, "value": -7.0}],
    "clamp": [
        {"min": float("-inf"), "max": float("inf")},
        {"min": -10.7, "max": 100.9},
        {"min": 0.0, "max": 6.0},
        {"min": -1e30, "max": 1e30},
    ],
    "compare": [{"direction": d} for d in range(6)],
}
ATTRIBUTES |= {
    name: own.attributes for name, own in expected.meanings()[0].items() if any(own.attributes)
}
TYPES = ["pred", *values.INTS, *values.FLOATS]
EXACT = {"f32": 0.5, "f64": 0.5, "of": "result"}

Call = collections.namedtuple(
    "Call", "op operands attributes result"
)  # the declaration; names of graph inputs; attributes as written


def conversions_of(op, dtype):
    for to in TYPES:
        if op["name"] == "convert_wrap" and to not in values.INTS:
            continue
        if op["name"] == "bitcast" and (
            to == "pred" or values.bits_of(to) != values.bits_of(dtype)
        ):
            continue
        yield Call(op, ["x"], {"dtype": to}, to)


def gives_predicates(op):
    """Whether an op of numbers gives predicates, as its example shows."""
    call, _, results = op["examples"][0].partition("->")
    return results.strip().startswith("pred[") and not call.startswith(f"{op['name']}(pred[")


def calls_of(op, dtype):
    """The nodes that test one op in one type."""
    if op["attributes"] == ["dtype"]:
        yield from conversions_of(op, dtype)
        return
    names = {1: ["x"], 2: ["a", "b"], 3: ["u", "v", "w"]}[len(op["operands"])]
    if op["element_types"][0] == ["pred"]:
        names = ["p", "a", "b"]
    if op["attributes"] and op["name"] not in ATTRIBUTES:
        raise SystemExit(expected.no_meaning(op["name"], "values of attributes to test"))
    result = "pred" if gives_predicates(op) else dtype
    for attributes in ATTRIBUTES.get(op["name"], [{}]):
        yield Call(op, names, attributes, result)


def inputs_of(dtype):
    a, b = values.pairs(dtype)
    inputs = {"a": a, "b": b, "p": np.arange(len(a)) % 3 == 1}
    inputs["u"], inputs["v"], inputs["w"] = values.triples(dtype)
    inputs["x"] = np.array([False, True]) if dtype == "pred" else values.unary(dtype)
    return inputs


def written(attributes):
    return " {" + ", ".join(f"{k} = {v}" for k, v in attributes.items()) + "}" if attributes else ""


class Batch:
    """The calls of one element type as one graph, and their expected results."""

    def __init__(self, dtype, ops, folder):
        self.dtype, self.folder = dtype, folder / dtype
        self.calls = [
            c for op in ops if dtype in op["element_types"][-1] for c in calls_of(op, dtype)
        ]
        self.inputs = {
            k: v for k, v in inputs_of(dtype).items() if any(k in c.operands for c in self.calls)
        }
        self.folder.mkdir()
        for name, array in self.inputs.items():
            np.save(self.folder / f"{name}.npy", array)
        (self.folder / "graph.tir").write_text(self.text())
        self.wants = [self.want(c) for c in self.calls]

    def text(self):
        head = ", ".join(
            f"%{n}: {'pred' if n == 'p' else self.dtype}[{len(a)}]" for n, a in self.inputs.items()
        )
        results = [f"{c.result}[{len(self.inputs[c.operands[0]])}]" for c in self.calls]
        lines = [
            f"  %y{i} = {c.op['name']}({', '.join('%' + n for n in c.operands)})"
            f"{written(c.attributes)} : {r}"
            for i, (c, r) in enumerate(zip(self.calls, results))
        ]
        outs = ", ".join(f"y{i}: {r}" for i, r in enumerate(results))
        return "\n".join(
            [
                "tenon.tir 1",
                f"graph @meanings({head}) -> ({outs}) {{",
                *lines,
                "  yield " + ", ".join(f"%y{i}" for i in range(len(results))),
                "}",
                "",
            ]
        )

    def run(self, tenon, device):
        """The results on a device; None if the processor lacks the instructions."""
        kind, _, isa = device.partition("/")
        out = self.folder / device.replace("/", "_")
        env = dict(os.environ, **({"TENON_CPU_ISA": isa} if isa else {}))
        command = [
            tenon,
            "run",
            str(self.folder / "graph.tir"),
            "--device",
            kind,
            "--no-fallback",
            "--output-dir",
            str(out),
        ]
        command += [f"--input={n}={self.folder / (n + '.npy')}" for n in self.inputs]
        done = subprocess.run(command, env=env, capture_output=True, text=True)
        if "which this processor does not have" in done.stderr:
            return None
        if done.returncode != 0:
            raise SystemExit(f"{self.dtype} on {device}: {done.stderr}")
        return [np.load(out / f"y{i}.npy") for i in range(len(self.calls))]

    def operands(self, call):
        return [self.inputs[n] for n in call.operands]

    def want(self, call):
        """None if the results are judged from the operands alone."""
        name, operands = call.op["name"], self.operands(call)
        with np.errstate(all="ignore"):
            if name in ("convert", "convert_wrap"):
                want = oracle.converted(
                    operands[0], self.dtype, call.result, name == "convert_wrap"
                )
                return judge.rounded(want, call.result) if call.result in values.FLOATS else want
            if name == "bitcast" or name == "fma" and self.dtype in values.FLOATS:
                return None
            if call.op["accuracy"] == EXACT and call.result in values.FLOATS:
                return judge.rounded(
                    oracle.in_its_type(name, self.dtype, operands, call.attributes), self.dtype
                )
            return oracle.meaning(name, self.dtype, operands, call.attributes)

    def check(self, call, got, want):
        """Where the results are wrong, and the error of each in units, if that is measured."""
        if call.op["name"] == "bitcast":
            return np.any(judge.bytes_of(got) != judge.bytes_of(self.inputs["x"]), axis=1), None
        found = judge.elements(call.result, got)
        if call.result not in values.FLOATS:
            return found != want, None
        if call.op["accuracy"] == EXACT:
            return ~judge.same(found, want), None
        exact = [values.exact(self.dtype, x) for x in self.operands(call)]
        if want is None:
            return judge.rounded_once_or_twice(found, *exact, self.dtype), None
        if call.op["accuracy"] is None:
            raise SystemExit(f"{call.op['name']} states no accuracy")
        unit = judge.units(want, self.dtype, exact, call.op)
        return judge.wrong(found, want, self.dtype, unit), judge.errors(found, want, unit)

    def example(self, call, got, want, i):
        args = ", ".join(
            str(judge.elements("pred" if n == "p" else self.dtype, self.inputs[n])[i])
            for n in call.operands
        )
        text = f"{call.op['name']}{written(call.attributes)} of {self.dtype} at ({args}): "
        text += str(judge.elements(call.result, got)[i])
        return text + (f", not {want[i]}" if want is not None else "")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tenon")
    parser.add_argument("devices", nargs="*", default=["reference"])
    parser.add_argument("--op", action="append")
    parser.add_argument("--type", action="append", choices=TYPES)
    parser.add_argument("--report", action="store_true")
    arguments = parser.parse_args()
    listed = json.loads(
        subprocess.run(
            [arguments.tenon, "ops", "--json"], capture_output=True, text=True, check=True
        ).stdout
    )["ops"]
    ops = [op for op in listed if op["scalar"] and (not arguments.op or op["name"] in arguments.op)]
    failures, skipped, count = [], set(), 0
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="tenon_meanings_", dir=memory) as folder:
        for dtype in arguments.type or TYPES:
            batch = Batch(dtype, ops, pathlib.Path(folder))
            for device in arguments.devices:
                results = batch.run(arguments.tenon, device)
                if results is None:
                    skipped.add(device)
                    continue
                for call, want, got in zip(batch.calls, batch.wants, results):
                    bad, off = batch.check(call, got, want)
                    count += len(got)
                    bad = np.flatnonzero(bad)
                    if len(bad):
                        failures.append(
                            f"{device}: {len(bad)} of {len(got)}: "
                            + "; ".join(
                                batch.example(call, got, want, i)
                                for i in bad[[0, len(bad) // 2, -1]]
                            )
                        )
                    if arguments.report and off is not None:
                        i = int(np.argmax(off))
                        print(
                            f"{call.op['name']:12} {dtype:5} {device:13} {off[i]:.3f} ulp: "
                            + batch.example(call, got, want, i)
                        )
    print(
        "\n".join(
            failures
            + [
                f"{device}: this processor lacks its instructions, so it is left out"
                for device in sorted(skipped)
            ]
        )
    )
    print(f"{len(ops)} ops, {count} results, {len(failures)} calls wrong")
    return 1 if failures or not count else 0


sys.exit(main())
