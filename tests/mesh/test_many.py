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
    for _ in range(RUNS):
        took, problem = one_run(flavour)
        times.append(took)
        if problem:
            wrong[problem[-2000:]] += 1
    times.sort()
    print(
        f"{len(times)} runs, {wrong.total()} failures, {sum(times):.0f} s, median "
        f"{times[len(times) // 2]:.2f} s, longest {times[-1]:.2f} s"
    )
    assert not wrong, wrong


@pytest.mark.parametrize("flavour", FLAVOURS, ids=lambda f: f.name)
def test_memory_does_not_grow(flavour):
    done = flavour.run(2, [PYTHON, MANY, TRANSFERS], timeout=600)
    assert done.returncode == 0, done.stdout
    grown = [int(bytes_) for bytes_ in re.findall(r"rank \d: (-?\d+) bytes", done.stdout)]
    print(flavour.name, grown)
    assert len(grown) == 2 and max(grown) < GROWTH, done.stdout
