"""Many starts and many transfers, with CHECK_FULL=1: none hangs, and memory does not grow.

MESH_RUNS=NUMBER in the environment makes fewer runs.
"""

import collections
import os
import re
import subprocess
import time
from pathlib import Path

import pytest
from flavours import FLAVOURS, PYTHON, TENON

MANY = Path(__file__).with_name("many.py")
MODEL = Path(__file__).parent / "Inputs/two.tir"
RUNS = int(os.environ.get("MESH_RUNS", "2000"))
LIMIT, HANGS = 20, 120
SHOWN = 50
"""So many runs, and a line says how far it is."""
TRANSFERS = 100_000
GROWTH = 4 << 20
"""What a library may still keep for itself: 45 bytes a transfer."""

pytestmark = pytest.mark.skipif(
    os.environ.get("CHECK_FULL") != "1", reason="takes a quarter of an hour: CHECK_FULL=1"
)


def one_run(flavour):
    """Seconds, and what was wrong."""
    begin = time.monotonic()
    command = [TENON, "run", MODEL, "--seed", 1]
    try:
        done = flavour.run(2, command, timeout=HANGS, TENON_COLLECTIVE_TIMEOUT=str(LIMIT))
    except subprocess.TimeoutExpired:
        return HANGS, "it hangs"
    took = time.monotonic() - begin
    return took, done.stdout if done.returncode != 0 else ""


@pytest.mark.parametrize(
    "flavour", [f for f in FLAVOURS if f.name == "mpich"], ids=lambda f: f.name
)
def test_no_run_hangs(flavour):
    times, wrong = [], collections.Counter()
    for count in range(1, RUNS + 1):
        took, problem = one_run(flavour)
        times.append(took)
        if problem:
            wrong[problem[-2000:]] += 1
        if count in (RUNS, count // SHOWN * SHOWN):
            print(
                f"{count} runs, {wrong.total()} failures, {sum(times):.0f} s, longest "
                f"{max(times):.2f} s",
                flush=True,
            )
    assert not wrong, wrong


@pytest.mark.parametrize("flavour", FLAVOURS, ids=lambda f: f.name)
def test_memory_does_not_grow(flavour):
    done = flavour.run(2, [PYTHON, MANY, TRANSFERS], timeout=600)
    assert done.returncode == 0, done.stdout
    grown = [int(bytes_) for bytes_ in re.findall(r"rank \d: (-?\d+) bytes", done.stdout)]
    print(flavour.name, grown)
    assert len(grown) == 2 and max(grown) < GROWTH, done.stdout
