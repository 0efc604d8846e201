#!/usr/bin/env python3
"""Every operator that tenon.torch maps, forward and backward, against eager mode in one process.

    PYTHONPATH=build/python .venv-torch/bin/python bench/torch_ops.py [--only NAME,...] [--threads 1,2]
        [--sizes 0.2,2,20] [--bf16 2] [--seconds 0.4] [--slow 0.9] [--json FILE] [--list]

The cases are in torch_cases.py. Each has sizes at which eager mode's forward on one thread takes
about so many milliseconds. Calls take turns, and the least time counts. Forward is that of training
where there is a gradient. Results and gradients are compared with eager mode's. A ratio (x) above 1
means that Tenon is faster. What stayed in torch is named.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import pathlib
import re
import sys
import time
import warnings

import tenon.torch  # noqa: F401
import torch
from tenon.torch.capture.watch import watch
from torch_cases import CASES, Case

MOST_ROUNDS, LEAST_ROUNDS = 400, 7


def tensor_of(text: str, n: int, dtype: torch.dtype) -> torch.Tensor:
    """A tensor by its shape and kind; see torch_cases.py."""
    kind, _, dims = text.rpartition(":")
    fixed = [int(d) for d in dims.split(",") if d != "n"]
    grown = max(1, n // torch.Size(fixed).numel())
    shape = [grown if d == "n" else int(d) for d in dims.split(",")]
    if kind == "b":
        return torch.rand(shape) < 0.5
    if kind.startswith("i"):
        return torch.randint(0, int(kind[1:]), shape)
    made = {"": torch.randn, "p": torch.rand, "u": torch.rand}[kind](shape)
    if kind:
        made = made + 0.1 if kind == "p" else made * 1.8 - 0.9
    return made.to(dtype)


def inputs_of(case: Case, n: int, dtype: torch.dtype) -> list[torch.Tensor]:
    torch.manual_seed(0)
    made = [tensor_of(text, n, dtype) for text in case.shapes.split()]
    return [t.requires_grad_() if t.is_floating_point() else t for t in made]


def results_of(value) -> list[torch.Tensor]:
    found = value if isinstance(value, (list, tuple)) else [value]
    return [t for t in found if isinstance(t, torch.Tensor)]


class Calls:
    """Forward and backward of one function on the same inputs."""

    def __init__(self, function, inputs):
        self.function, self.inputs = function, inputs
        self.results = results_of(function(*inputs))
        torch.manual_seed(1)
        self.given = [torch.randn_like(r) for r in self.results if r.requires_grad]

    def gradients(self, results):
        wanted = [t for t in self.inputs if t.requires_grad]
        ends = [r for r in results if r.requires_grad]
        return torch.autograd.grad(ends, wanted, self.given, allow_unused=True)

    def timed(self) -> list[float]:
        """Seconds of forward, and of backward where there is one."""
        begin = time.perf_counter()
        results = self.function(*self.inputs)
        middle = time.perf_counter()
        if not self.given:
            return [middle - begin]
        self.gradients(results_of(results))
        return [middle - begin, time.perf_counter() - middle]


def sized(case: Case, seconds: float, dtype: torch.dtype) -> int:
    """How many elements eager mode's forward takes so long for, on one thread."""
    n = 1 << 12
    for _ in range(6):
        inputs = inputs_of(case, n, dtype)
        least = min(timed_once(case.call, inputs) for _ in range(4))
        wanted = int(n * min(64.0, max(1 / 64, (seconds - 2e-6) / max(least - 2e-6, 1e-7))))
        wanted = max(64, min(case.most, wanted))
        if abs(wanted - n) < n / 4:
            break
        n = wanted
    return -(-n // 1024) * 1024


def timed_once(call, inputs) -> float:
    begin = time.perf_counter()
    call(*inputs)
    return time.perf_counter() - begin


def difference(got, expected, dtype: torch.dtype) -> str:
    """What differs between results, or nothing."""
    for g, e in zip(got, expected):
        if (g is None) != (e is None):
            return "a gradient is missing"
        if g is None or g.numel() == 0:
            continue
        if g.shape != e.shape or g.dtype != e.dtype:
            return f"{g.dtype} {tuple(g.shape)} in place of {e.dtype} {tuple(e.shape)}"
        g, e = g.detach().double(), e.detach().double()
        bound = 2e-3 if dtype == torch.float32 else 6e-2
        finite = torch.where(e.isfinite(), e.abs(), 0).max()
        near = torch.isclose(g, e, rtol=bound, atol=float(bound * finite), equal_nan=True)
        if not near.all():
            return f"{int((~near).sum())} of {near.numel()} elements differ"
    return ""


def check(case: Case, eager: Calls, ours: Calls, dtype: torch.dtype) -> str:
    if case.kind == "random":
        return ""
    found = difference(ours.results, eager.results, dtype)
    if not found and eager.given:
        a, b = ours.gradients(ours.results), eager.gradients(eager.results)
        found = difference(a, b, dtype)
        found = found and f"backward: {found}"
    return found


def measured(calls: dict[str, Calls], seconds: float) -> dict[str, list[float]]:
    """The least seconds of each, taking turns."""
    times: dict[str, list[list[float]]] = {name: [c.timed()] for name, c in calls.items()}
    each = sum(sum(t[0]) for t in times.values())
    rounds = int(min(MOST_ROUNDS, max(LEAST_ROUNDS, seconds / each)))
    for _ in range(rounds):
        for name, c in calls.items():
            times[name].append(c.timed())
    return {name: [min(column) for column in zip(*t)] for name, t in times.items()}


def rows_of(case: Case, wanted_ms: float, dtype: torch.dtype, given) -> list[dict]:
    torch.set_num_threads(1)
    n = sized(case, wanted_ms / 1e3, dtype)
    inputs = inputs_of(case, n, dtype)
    n = max(t.numel() for t in inputs)
    torch._dynamo.reset()
    graphs: list = []
    watch.lists.append(graphs)
    try:
        eager = Calls(case.call, inputs)
        ours = Calls(torch.compile(case.call, backend="tenon", dynamic=False), inputs)
        problem = check(case, eager, ours, dtype)
    finally:
        watch.lists.remove(graphs)
    stays = sorted({op for g in graphs for op in g.unsupported})
    rows = []
    for threads in given.threads:
        torch.set_num_threads(threads)
        times = measured({"eager": eager, "tenon": ours}, given.seconds)
        for way, e, t in zip(("forward", "backward"), times["eager"], times["tenon"]):
            rows.append(
                {"op": case.name, "kind": case.kind, "pass": way, "type": str(dtype)[6:], "n": n}
                | {"ms": wanted_ms, "threads": threads, "eager_ms": e * 1e3, "tenon_ms": t * 1e3}
                | {"ratio": e / t, "in_torch": stays, "wrong": problem}
            )
    return rows


def line_of(row: dict) -> str:
    text = f"{row['op']:26} {row['pass']:8} {row['type']:8} n {row['n']:9} {row['threads']} thr"
    text += f"  eager {row['eager_ms']:8.3f}  tenon {row['tenon_ms']:8.3f} ms  x{row['ratio']:.2f}"
    text += f"  in torch: {', '.join(row['in_torch'])}" if row["in_torch"] else ""
    return text + (f"  WRONG: {row['wrong']}" if row["wrong"] else "")


def jobs(given):
    for case in CASES:
        if given.only and not any(re.fullmatch(p + ".*", case.name) for p in given.only):
            continue
        for ms in given.sizes:
            yield case, ms, torch.float32
        if any(not s.startswith(("i", "b")) for s in case.shapes.split()):
            for ms in given.bf16:
                yield case, ms, torch.bfloat16


def summary(rows: list[dict], failed: list[str], slow: float) -> None:
    counted = [r for r in rows if r["kind"] != "product"]
    below = sorted((r for r in counted if r["ratio"] < slow), key=lambda r: r["ratio"])
    print(f"\n{len(counted)} rows without products, {len(below)} below x{slow}:")
    for row in below:
        print(line_of(row))
    for line in failed:
        print(line)


def keep_memory() -> None:
    """Has the C library keep freed memory, so that large results of eager mode do not begin with page faults.

    They do or do not by what was freed before, which would be most of the time of a simple operator.
    """
    trim_threshold, mmap_threshold = -1, -3
    libc = ctypes.CDLL(None)
    libc.mallopt(mmap_threshold, 1 << 30)
    libc.mallopt(trim_threshold, (1 << 31) - 1)


def parsed() -> argparse.Namespace:
    numbers = lambda text: [float(v) for v in text.split(",") if v]  # noqa: E731
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", type=lambda t: t.split(","), help="starts of names, as patterns")
    parser.add_argument("--threads", type=lambda t: [int(v) for v in t.split(",")], default=[1, 2])
    parser.add_argument("--sizes", type=numbers, default=[0.2, 2.0, 20.0], help="milliseconds")
    parser.add_argument("--bf16", type=numbers, default=[2.0], help="milliseconds in bfloat16")
    parser.add_argument("--seconds", type=float, default=0.4, help="of a measurement")
    parser.add_argument("--slow", type=float, default=0.9)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--list", action="store_true", help="names of the cases")
    return parser.parse_args()


def main() -> int:
    given = parsed()
    warnings.simplefilter("ignore")
    keep_memory()
    if given.list:
        print("\n".join(case.name for case in CASES))
        return 0
    rows: list[dict] = []
    failed: list[str] = []
    for case, ms, dtype in jobs(given):
        try:
            rows += (new := rows_of(case, ms, dtype, given))
        except Exception as error:
            text = str(error).strip().splitlines() or [""]
            failed.append(f"{case.name} {dtype} {ms} ms: {type(error).__name__}: {text[0][:160]}")
            print(failed[-1], flush=True)
            continue
        for row in new:
            print(line_of(row), flush=True)
        if given.json:
            given.json.write_text(json.dumps(rows, indent=1) + "\n")
    summary(rows, failed, given.slow)
    return 1 if failed or any(r["wrong"] for r in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
