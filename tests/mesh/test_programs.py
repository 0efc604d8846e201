"""Every op that processes compute together, on every MPI library, against `stack-ranks`."""

import os
from pathlib import Path

import pytest
from flavours import FLAVOURS, PYTHON

PROGRAMS = Path(__file__).with_name("programs.py")
RANDOM = 100 if os.environ.get("CHECK_FULL") == "1" else 10


@pytest.mark.parametrize(
    ("flavour", "count"),
    [(f, n) for f in FLAVOURS for n in f.ranks],
    ids=lambda v: getattr(v, "name", v),
)
def test_programs(flavour, count):
    command = [PYTHON, PROGRAMS, "--ranks", count, "--random", RANDOM]
    done = flavour.run(count, command, timeout=1200)
    assert done.returncode == 0, done.stdout[-4000:]
    assert done.stdout.count(" programs, 0 wrong") == count


def test_libraries_are_here():
    if not FLAVOURS:
        pytest.skip("no MPI library is installed")
    assert {f.name for f in FLAVOURS} & {"openmpi", "mpich"}
