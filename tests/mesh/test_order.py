"""What runs when, and what does not count: the order of operations, failures, forks, MPI's end."""

import os
import subprocess
from pathlib import Path

import pytest
from flavours import FLAVOURS, PYTHON, TENON

ORDER = Path(__file__).with_name("order.py")
LIBRARIES = {"openmpi": "libmpi.so.40", "mpich": "libmpich.so.12"}
DEBIAN = [f for f in FLAVOURS if f.name in LIBRARIES]


def check(flavour, count, kind, *words, **environment):
    command = [PYTHON, ORDER, kind, LIBRARIES[flavour.name], *words]
    done = flavour.run(count, command, timeout=60, TENON_COLLECTIVE_TIMEOUT="8", **environment)
    assert done.stdout.count("right\n") == count, done.stdout
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("kind", ["reading", "middle", "retry", "own"])
@pytest.mark.parametrize("flavour", DEBIAN, ids=lambda f: f.name)
def test_two(flavour, kind):
    check(flavour, 2, kind)


@pytest.mark.parametrize(
    "flavour", [f for f in DEBIAN if f.name == "openmpi"], ids=lambda f: f.name
)
@pytest.mark.parametrize("kind", ["uneven", "groups"])
def test_three(flavour, kind):
    check(flavour, 3, kind)


@pytest.mark.parametrize(
    "flavour", [f for f in DEBIAN if f.name == "openmpi"], ids=lambda f: f.name
)
def test_fork(flavour):
    check(flavour, 2, "fork")


MIXES = [(0, 1), (0, 4), (2, 3), (0, 2), (4, 3)]


@pytest.mark.parametrize(
    ("flavour", "mix"),
    [(f, m) for i, m in enumerate(MIXES) for k, f in enumerate(DEBIAN) if i % len(DEBIAN) == k],
    ids=lambda v: getattr(v, "name", v),
)
def test_mixed(flavour, mix):
    """Operations that were agreed on before, in another order in each process."""
    check(flavour, 2, "mixed", *mix)


@pytest.mark.parametrize("flavour", DEBIAN[:1], ids=lambda f: f.name)
def test_always(flavour):
    check(flavour, 2, "always", TENON_COLLECTIVE_CHECK="always")


@pytest.mark.skipif(not DEBIAN, reason="no MPI library is installed")
def test_launch_keeps_the_path(tmp_path):
    """The program is the one that the caller's PATH finds."""
    program = tmp_path / "python3"
    program.write_text("#!/bin/sh\necho ours\n")
    program.chmod(0o755)
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    environment = {**os.environ, **root, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        [TENON, "launch", "-n", "1", "--", "python3"],
        capture_output=True,
        text=True,
        env=environment,
        timeout=60,
    )
    assert done.stdout == "ours\n", done.stdout + done.stderr
