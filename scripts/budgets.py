#!/usr/bin/env python3
"""The time budgets of ./check, in budgets.txt. They are in units, so that machines of different speeds
agree: one unit is the time to compile one file of the tree (UNIT_SOURCE), measured in the same run.

    budgets.py unit                   prints the seconds of a unit; needs build/compile_commands.json
    budgets.py report RECORDS         prints each stage above its budget, with the tests that grew
    budgets.py report RECORDS --fail  the same; exits with 1 if a stage took over 1.5 times its budget
    budgets.py record RECORDS         writes budgets.txt from this run, which must have had no caches

RECORDS is a file that ./check writes: a line `unit SECONDS`, then a line `SECONDS<tab>STAGE<tab>RESULTS`
for each stage. RESULTS is the JUnit file of ctest, or empty for a stage without tests.
"""

import argparse
import json
import math
import os
import pathlib
import re
import shlex
import subprocess
import sys
import time
import xml.etree.ElementTree as xml

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
UNIT_SOURCE = "core/ir/graph.cpp"
ROOM = 1.2  # a budget is the measured time and a fifth more: runs of one tree differ by a tenth
FAILS_AT = 1.5
GREW_SHOWN = 8
HEADER = f"""\
# The budgets of ./check's stages, and below each the tests of two units or more, in units: one unit is
# the time to compile {UNIT_SOURCE}. `scripts/budgets.py record` writes this file from a run
# without compiler caches. Raise a budget by hand, with the reason in the commit.
"""


def unit_seconds(commands):
    """The shortest of three compilations, without ccache. The shortest is the one that other processes
    disturbed least."""
    entry = next(
        c for c in json.loads(commands.read_text()) if c["file"].endswith("/" + UNIT_SOURCE)
    )
    words = shlex.split(entry["command"])
    words = words[
        next(
            i
            for i, word in enumerate(words)
            if re.search(r"clang\+\+|g\+\+|c\+\+", os.path.basename(word))
        ) :
    ]
    words[words.index("-o") + 1] = os.devnull
    times = []
    for _ in range(3):
        begin = time.monotonic()
        subprocess.run(words, cwd=entry["directory"], check=True)
        times.append(time.monotonic() - begin)
    return min(times)


def tests_of(results):
    """Test -> seconds, of ctest's JUnit file."""
    return {
        case.get("name"): float(case.get("time", 0))
        for case in xml.parse(results).getroot().iter("testcase")
    }


def read_records(path):
    """The unit in seconds, and stage -> (units, test -> units)."""
    first, *lines = path.read_text().splitlines()
    unit = float(first.split()[1])
    stages = {}
    for line in lines:
        seconds, stage, results = line.split("\t")
        tests = tests_of(results) if results and os.path.exists(results) else {}
        stages[stage] = (float(seconds) / unit, {name: s / unit for name, s in tests.items()})
    return unit, stages


def read_budgets(path):
    """stage -> (units, test -> units). Lines of tests are indented, below their stage."""
    budgets, tests = {}, {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = re.fullmatch(r"( *)(\S.*?) +(\d+(?:\.\d+)?)", line)
        if not match or (match[1] and not budgets):
            sys.exit(f"error: {path}:{number}: not a line 'STAGE UNITS' or '  TEST UNITS': {line}")
        if match[1]:
            tests[match[2]] = float(match[3])
        else:
            tests = {}
            budgets[match[2]] = (float(match[3]), tests)
    return budgets


def grew(measured, budgeted):
    """(test, units, budget) of the tests that grew most. A test without a line may take two units."""
    rows = [(name, units, budgeted.get(name, 2.0)) for name, units in measured.items()]
    rows = [row for row in rows if row[1] > row[2]]
    return sorted(rows, key=lambda row: row[2] - row[1])[:GREW_SHOWN]


def report(stages, budgets, fail):
    """Prints the stages above their budgets. Returns whether one is so far above that --fail fails."""
    failed = False
    for stage, (units, tests) in stages.items():
        if stage not in budgets:
            print(
                f"budget: stage '{stage}' has no budget: add a line to scripts/budgets.txt ({math.ceil(units * ROOM)} units)"
            )
            failed = failed or fail
            continue
        budget, budgeted = budgets[stage]
        if units <= budget:
            continue
        over = fail and units > FAILS_AT * budget
        failed = failed or over
        print(
            f"budget: stage '{stage}' took {units:.0f} units, its budget is {budget:.0f}"
            f"{f': more than {FAILS_AT} times, FAILED' if over else ''}"
        )
        for name, took, may in grew(tests, budgeted):
            print(
                f"budget:   {name} took {took:.1f} units, {took - may:.1f} more than its line says"
            )
    return failed


def record(stages):
    """The text of budgets.txt for this run."""
    lines = [HEADER]
    for stage, (units, tests) in stages.items():
        lines.append(f"{stage} {math.ceil(units * ROOM)}\n")
        for name, took in sorted(tests.items(), key=lambda row: -row[1]):
            if took >= 2:
                lines.append(f"  {name} {took * ROOM:.1f}\n")
    return "".join(lines)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("action", choices=["unit", "report", "record"])
    parser.add_argument("records", nargs="?", type=pathlib.Path)
    parser.add_argument("--budgets", type=pathlib.Path, default=HERE / "budgets.txt")
    parser.add_argument("--fail", action="store_true")
    options = parser.parse_args()
    if options.action == "unit":
        print(f"{unit_seconds(ROOT / 'build/compile_commands.json'):.3f}")
        return 0
    if options.records is None:
        parser.error("RECORDS is missing")
    unit, stages = read_records(options.records)
    if options.action == "record":
        options.budgets.write_text(record(stages))
        return 0
    print(f"budget: one unit took {unit:.2f} s")
    return 1 if report(stages, read_budgets(options.budgets), options.fail) else 0


if __name__ == "__main__":
    sys.exit(main())
