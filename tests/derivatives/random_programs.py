"""Checks derivatives and batches of random programs on the reference, in f64.

    python3 tests/derivatives/random_programs.py --count 2000       what ./check runs
    python3 tests/derivatives/random_programs.py --seed 4711        one program, and its text

The seed determines everything. A program that fails is made smaller and printed.
"""

from __future__ import annotations

import argparse
import collections
import math
import os
import pathlib
import random
import sys
import time
from typing import Any

import checks
import tenon
from maker import Maker
from programs import N, Program
from shrink import shrink
from tenon.builder.trace import GraphTrace, tracing
from tenon.xp._array import value_of

# The one thing that is refused: a while under vmap whose samples end at different iterations, and
# whose values are collected, as its derivative needs.
REFUSED = "its samples end at different iterations"
REFUSED_MOST = 0.06  # of all programs
PENDING = pathlib.Path(__file__).with_name("pending.txt")


class Case:
    """A program, a chain of transforms and a check, all by a seed."""

    def __init__(self, seed: int, leave_out: frozenset[str]):
        self.seed = seed
        r = random.Random(seed * 2 + 1)
        self.program = Maker(seed, leave_out).program()
        self.check = r.choice(checks.CHECKS)
        most = 1 if self.check == "symmetric" else 2
        self.chain = [r.choice(checks.CHAIN) for _ in range(r.randint(0, most))]
        while self.chain.count("batch") > 1:
            self.chain.remove("batch")

    def __str__(self) -> str:
        return f"seed {self.seed}: {self.check} of {' of '.join([*reversed(self.chain), 'the program'])}"


def arguments(program: Program, seed: int) -> list[Any]:
    """Numbers for the inputs, as nested lists."""
    r = random.Random(seed)

    def number() -> complex:
        re = r.uniform(-1.5, 1.5)
        return complex(re, r.uniform(-1.5, 1.5)) if program.is_complex else re

    def numbers(sizes: list[int]) -> Any:
        return [numbers(sizes[1:]) for _ in range(sizes[0])] if sizes else number()

    return [numbers([N if s == "n" else s for s in shape]) for shape in program.inputs]


def error_of(program: Program, case: Case) -> tuple[float, bool]:
    """How far both sides are apart, in units of the bound, and whether "n" stayed a symbol."""
    import numpy

    dtype = numpy.complex128 if program.is_complex else numpy.float64
    inputs = [numpy.array(a, dtype=dtype) for a in arguments(program, case.seed)]
    dims = {
        f"x{i}": {d: "n" for d, s in enumerate(shape) if s == "n"}
        for i, shape in enumerate(program.inputs)
    }
    names = ", ".join(f"x{i}" for i in range(len(inputs)))
    run = checks.all_of(case.check, case.chain, program)
    f = eval(f"lambda {names}: run({names})", {"run": run})  # dims= goes by parameters
    compiled = tenon.compile(f, device="reference", dims={k: v for k, v in dims.items() if v})
    apart, size = (float(v) for v in compiled(*inputs))
    symbolic = not any(kind.by_size for kind in compiled._kinds.values())
    if not math.isfinite(apart) or not math.isfinite(size):
        return math.inf, symbolic
    return apart / (checks.BOUND * max(size, 1e-3)), symbolic


def text(program: Program) -> str:
    """The program as .tir."""
    trace = GraphTrace("program")
    dtype = tenon.xp.complex128 if program.is_complex else tenon.xp.float64
    with tracing(trace):
        given = []
        for i, shape in enumerate(program.inputs):
            sizes = [trace.symbol("n", N, "n") if s == "n" else s for s in shape]
            given.append(trace.argument(dtype, sizes, f"x{i}"))
        results = [trace.id_of(value_of(y)) for y in program(*map(tenon.xp._array.Array, given))]
        trace.native.transform(results, [f"y{i}" for i in range(len(results))], "dce")
    return trace.native.text()


def outcome(program: Program, case: Case) -> str:
    """ "" for a right one; otherwise what is wrong."""
    try:
        error, symbolic = error_of(program, case)
    except tenon.Error as failure:
        return str(failure)
    if not symbolic:
        return "the size n became a number"
    return "" if error <= 1 else f"{error:.3g} times the bound"


def kind_of(problem: str) -> str:
    """What a smaller program has to share."""
    if not problem:
        return "right"
    return problem.partition(" at ")[0] if problem[0].isalpha() else "wrong"


def report(case: Case, problem: str) -> None:
    small = shrink(case.program, lambda p: kind_of(outcome(p, case)) == kind_of(problem))
    print(f"FAILED {case}: {problem}\n  smaller: {outcome(small, case)}\n{text(small)}", flush=True)


def pending() -> frozenset[str]:
    """Ops that have no rules yet."""
    lines = PENDING.read_text().splitlines() if PENDING.exists() else []
    return frozenset(line.split()[0] for line in lines if line and not line.startswith("#"))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1, help="ten times as many with CHECK_FULL=1")
    parser.add_argument("--most", type=int, default=5, help="ends after so many failures")
    args = parser.parse_args()
    begin, leave_out = time.monotonic(), pending()
    counts: collections.Counter[str] = collections.Counter()
    count = args.count * (10 if args.count > 1 and os.environ.get("CHECK_FULL") == "1" else 1)
    for seed in range(args.seed, args.seed + count):
        case = Case(seed, leave_out)
        if args.count == 1:
            print(f"{case}\n{text(case.program)}")
        problem = outcome(case.program, case)
        if REFUSED in problem:
            counts["refused"] += 1
        elif problem:
            counts["failed"] += 1
            report(case, problem)
            if counts["failed"] >= args.most:
                break
        counts["all"] += 1
        counts[case.check] += 1
    seconds = time.monotonic() - begin
    print(f"{dict(counts)} in {seconds:.1f} s")
    too_many = counts["refused"] > REFUSED_MOST * max(counts["all"], 100)
    if too_many:
        print("too many programs are refused")
    return 1 if counts["failed"] or too_many else 0


if __name__ == "__main__":
    sys.exit(main())
