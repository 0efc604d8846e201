"""Changes what each rule of an op builds, in at least five ways, and counts what the tests notice.

    PYTHONPATH=build/python .venv-jax/bin/python tests/derivatives/mutants.py build/tests/plugins/mutants
    ... --ops sort,sdpa --per 20       some ops, more changes of each rule

A mutant is (op, rule, change): the plugin in mutants/ does the change around each call of the rule,
and it only counts if the graph is valid and another one. The rules run first as they are: this finds
the possible changes, and which tests call which rules. Then the tests that concern a mutant run until
one fails. All is in one process on the reference.

Survivors are in survivors.txt with reasons. Fails below 97 %, and for a survivor that is not there.
"""

from __future__ import annotations

import argparse
import collections
import functools
import importlib
import os
import pathlib
import random
import re
import sys
import tempfile
import time
import warnings
import zlib
from typing import Any, NamedTuple

HERE = pathlib.Path(__file__).parent
REPOSITORY = HERE.parent.parent
SURVIVORS = HERE / "survivors.txt"
LEAST = 0.97
PROGRAMS = 400  # random ones
PROGRAMS_MOST = 40  # of one mutant


class Mutant(NamedTuple):
    op: str
    rule: str
    what: str

    def __str__(self) -> str:
        return f"{self.op}, {self.rule}, {self.what}"


class Test(NamedTuple):
    name: str
    run: Any


# ---- Tests ----


def of_module(module: Any) -> list[Test]:
    """The test functions of a module, with each of their parameters."""
    out = []
    for name, function in list(vars(module).items()):
        if not name.startswith("test_") or not callable(function):
            continue
        marks = [m for m in getattr(function, "pytestmark", []) if m.name == "parametrize"]
        for value in list(marks[0].args[1]) if marks else [None]:
            run = functools.partial(function, value) if marks else function
            out.append(Test(f"{module.__name__}: {name}" + (f" {value}" if marks else ""), run))
    return out


def of_rows() -> list[Test]:
    """The rows of JAX; it computes each only once."""
    import jax
    import test_jax_rows

    jit, kept = jax.jit, {}

    def once(row: Any) -> None:
        def remembered(f: Any) -> Any:
            def call(*operands: Any) -> Any:
                name = test_jax_rows.name_of(row)
                if name not in kept:
                    kept[name] = jit(f)(*operands)
                return kept[name]

            return call

        jax.jit = remembered
        test_jax_rows.test_row(row)

    names = map(test_jax_rows.name_of, test_jax_rows.ROWS)
    return [Test(n, functools.partial(once, r)) for n, r in zip(names, test_jax_rows.ROWS)]


def of_programs() -> list[Test]:
    import random_programs

    def check(seed: int) -> None:
        case = random_programs.Case(seed, random_programs.pending())
        problem = random_programs.outcome(case.program, case)
        assert not problem or random_programs.REFUSED in problem, problem

    return [Test(f"random {seed}", functools.partial(check, seed)) for seed in range(1, PROGRAMS)]


def tests() -> list[Test]:
    import test_scalars

    test_scalars.expected = functools.cache(test_scalars.expected)  # type: ignore[assignment]
    out = []
    for name in (
        "test_composites",
        "test_rules",
        "test_symbols",
        "test_scalars",
        "test_collectives",
    ):
        out += of_module(importlib.import_module(name))
    # Over one process nothing moves, so most changes there are none.
    out = [test for test in out if "one process" not in test.name.replace("_", " ")]
    return [*out, *of_rows(), *of_programs()]


def fails(test: Test) -> str:
    """What went wrong, in a line; "" if nothing."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            test.run()
    except Exception as error:
        return f"{type(error).__name__}: {error}".strip().splitlines()[0][:100]
    return ""


# ---- The plugin ----


def control(**options: Any) -> list[str]:
    """Runs the pass of the plugin: what it noted since the last time."""
    from tenon.builder import dtypes, trace

    trace.generation += 1  # no program is kept
    with tempfile.NamedTemporaryFile("r") as file:
        listed = ", ".join(
            f'{k}="{v}"' if isinstance(v, str) else f"{k}={v}" for k, v in options.items()
        )
        graph = trace.GraphTrace("mutants")
        x = graph.argument(dtypes.float64, (2,), "x")
        passes = f'mutants{{out="{file.name}"{", " + listed if listed else ""}}}'
        graph.native.transform([x.id], ["y"], passes)
        return file.read().splitlines()


class Seen:
    """What the tests do with the rules as they are."""

    def __init__(self, all_tests: list[Test], ops: set[str]):
        self.changes: dict[tuple[str, str], list[str]] = collections.defaultdict(list)
        self.tests: dict[tuple[str, ...], list[Test]] = collections.defaultdict(list)
        self.seconds: dict[str, float] = {}
        for line in control()[1:]:
            self._add(line)
        broken = []
        for test in all_tests:
            control(watch=1)
            begin = time.monotonic()
            problem = fails(test)
            self.seconds[test.name] = time.monotonic() - begin
            if problem:
                broken.append(f"{test.name}: {problem}")
            for line in control()[1:]:
                self._add(line, test)
        assert not broken, "tests fail without a change:\n" + "\n".join(broken)
        if ops:
            self.changes = {k: v for k, v in self.changes.items() if k[0] in ops}  # type: ignore[assignment]

    def _add(self, line: str, test: Test | None = None) -> None:
        op, rule, what = line.split("\t")
        if test is not None:
            self.tests[op, rule, what].append(test)
        if rule != "node":
            known = self.changes[op, rule]
            if what and what not in known:
                known.append(what)

    def concerned(self, mutant: Mutant) -> list[Test]:
        """Tests in which a rule is changed: those named after the op first, random ones last."""
        found = self.tests[mutant] or self.tests[mutant.op, "node", ""]
        word = re.compile(rf"\b{mutant.op}\b")
        found = sorted(found, key=lambda t: (not word.search(t.name), self.seconds[t.name]))
        programs = [t for t in found if t.name.startswith("random")]
        return [t for t in found if t not in programs] + programs[:PROGRAMS_MOST]


def chosen(op: str, rule: str, changes: list[str], count: int) -> list[Mutant]:
    """Changes of several kinds by turns, the same in each run."""
    numbers = random.Random(zlib.crc32(f"{op} {rule}".encode()))
    kinds: dict[str, list[str]] = collections.defaultdict(list)
    for what in sorted(changes):
        kinds["result" if "@result" in what else what.split()[0].split("@")[0]].append(what)
    groups = [numbers.sample(group, len(group)) for _, group in sorted(kinds.items())]
    numbers.shuffle(groups)
    out = []
    while len(out) < count and any(groups):
        out += [Mutant(op, rule, group.pop()) for group in groups if group]
    return out[:count]


def caught_by(mutant: Mutant, seen: Seen) -> tuple[str, int]:
    """What noticed a mutant, and how often the rule was changed."""
    changed = 0
    for test in seen.concerned(mutant):
        control(op=mutant.op, rule=mutant.rule, what=mutant.what)
        problem = fails(test)
        changed += int(control()[0])
        if problem and changed:
            return f"{test.name}: {problem}", changed
    return "", changed


# ---- The report ----


def place_of(op: str) -> str:
    """Where an op is declared: file and line."""
    for call in (rf'\bop\("{op}"', rf'return \w+\("{op}"', rf'"{op}"'):
        for path in sorted((REPOSITORY / "plugins/ops").glob("*.cpp")):
            for number, line in enumerate(path.read_text().splitlines(), 1):
                if re.search(call, line):
                    return f"{path.relative_to(REPOSITORY)}:{number}"
    return "?"


def reasons() -> dict[str, str]:
    """Known survivors: why no test can notice them."""
    lines = SURVIVORS.read_text().splitlines()
    return dict(line.split(": ", 1) for line in lines if line and line[0] != "#")  # type: ignore[misc]


class Report:
    """What became of the mutants; prints while they run."""

    def __init__(self, verbose: bool) -> None:
        self.verbose = verbose
        self.counts: collections.Counter[str] = collections.Counter()
        self.known, self.survived = reasons(), set[str]()
        self.unknown: list[str] = []

    def judge(self, op: str, rule: str, mutants: list[Mutant], seen: Seen) -> None:
        if not mutants:
            print(f"{op}, {rule}: no test calls it ({place_of(op)})", flush=True)
            self.unknown.append(f"{op}, {rule}: not called")
        caught = 0
        for mutant in mutants:
            by, changed = caught_by(mutant, seen)
            caught += bool(by)
            if self.verbose:
                print(f"    {mutant} ({changed}): {by}")
            if not by:
                self.survivor(
                    mutant, f"{changed} times, in {[t.name for t in seen.concerned(mutant)[:3]]}"
                )
        self.counts += collections.Counter(rules=1, mutants=len(mutants), caught=caught)
        print(f"{op}, {rule}: {caught} of {len(mutants)}", flush=True)

    def survivor(self, mutant: Mutant, where: str) -> None:
        self.survived.add(str(mutant))
        why = self.known.get(str(mutant))
        if why is None:
            self.unknown.append(str(mutant))
        reason = f": {why}" if why else ""
        print(f"  survives: {mutant} ({place_of(mutant.op)}){reason}\n    {where}", flush=True)

    def end(self, whole: bool) -> bool:
        """Whether all is as it should be. whole: all mutants were tried."""
        share = self.counts["caught"] / max(self.counts["mutants"], 1)
        print(f"{dict(self.counts)}: {share:.1%}")
        for line in self.unknown:
            print(f"not in {SURVIVORS.name}: {line}")
        stale = set(self.known) - self.survived if whole else set()
        for line in sorted(stale):
            print(f"noticed, or chosen no more: take it out of {SURVIVORS.name}: {line}")
        return share >= LEAST and not self.unknown and not stale


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("plugin", help="the folder of the plugin")
    parser.add_argument("--ops", default="", help="only these, separated by commas")
    parser.add_argument("--per", type=int, default=5, help="changes of one rule")
    parser.add_argument("--verbose", action="store_true", help="what notices each one")
    return parser.parse_args()


def set_up(plugin: str) -> None:
    os.environ.pop("CHECK_FULL", None)  # the same tests, and so the same mutants, everywhere
    os.environ |= {
        "TENON_DEVICE": "reference",
        "TENON_PLUGIN_ADD": str(pathlib.Path(plugin).resolve()),
    }
    # mpmath, which the environment of JAX does not have.
    sys.path += [str(p) for p in (REPOSITORY / ".venv/lib").glob("python*/site-packages")]
    sys.path.insert(0, str(HERE))


def main() -> int:
    args = options()
    set_up(args.plugin)
    begin = time.monotonic()
    seen = Seen(tests(), set(filter(None, args.ops.split(","))))
    print(f"{len(seen.seconds)} tests in {time.monotonic() - begin:.0f} s", flush=True)
    report = Report(args.verbose)
    for (op, rule), changes in sorted(seen.changes.items()):
        report.judge(op, rule, chosen(op, rule, changes, args.per), seen)
    is_good = report.end(whole=not args.ops and args.per == 5)
    print(f"{time.monotonic() - begin:.0f} s")
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
