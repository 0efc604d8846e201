"""Whatever goes wrong in one process, all of them come to an end, with a sentence that says why."""

import os
import subprocess
import time
from pathlib import Path

import pytest
from flavours import FLAVOURS, PYTHON, TENON

FAULT = Path(__file__).with_name("fault.py")
LIMIT = 4
# What each kind must say. A process that was killed says nothing: the launcher ends the others.
SAYS = {
    "throw": ["a mistake of the user", "T0908", "rank 1, which has ended"],
    "kill": [],
    "interrupt": [],
    "slow": ["has waited for", "0 32.0", "1 32.0"],
    "hang": ["T0904", "rank 0", "tenon flight"],
    "end": ["T0908", "rank 1, which has ended"],
    "count": ["T0905", "rank 1", "[5, 4] f32"],
    "type": ["T0905", "f32 along data", "[4, 4] f64"],
    "op": ["T0905", "(sum)", "(max)"],
}
FULL = os.environ.get("CHECK_FULL") == "1"
DEBIAN = [f for f in FLAVOURS if f.name in ("openmpi", "mpich")]
# The launcher of MPICH 5.0.2 forgets the status of a process that ends after another one, and its text.
FULL_FLAVOURS = [f for f in FLAVOURS if f.name != "standard"]
# The libraries take turns. `./check --full` has all kinds on all of them, and ten times on Debian's.
CASES = [
    (flavour, kind, 10 if FULL and flavour in DEBIAN else 1)
    for i, kind in enumerate(SAYS)
    for k, flavour in enumerate(FULL_FLAVOURS if FULL else DEBIAN)
    if FULL or i % len(DEBIAN) == k
]


def left_over():
    return subprocess.run(["pgrep", "-f", str(FAULT)], capture_output=True, text=True).stdout


@pytest.mark.parametrize(("flavour", "kind", "rounds"), CASES, ids=lambda v: getattr(v, "name", v))
def test_fault(flavour, kind, rounds, tmp_path):
    for _ in range(rounds):
        begin = time.monotonic()
        done = flavour.run(
            2,
            [PYTHON, FAULT, kind],
            timeout=30,
            TENON_COLLECTIVE_TIMEOUT=str(LIMIT),
            TENON_COLLECTIVE_WARN="1",
            TENON_FLIGHT=str(tmp_path),
        )
        took = time.monotonic() - begin
        for text in SAYS[kind]:
            assert text in done.stdout, done.stdout
        assert (done.returncode == 0) == (kind == "slow"), done.stdout
        # Starting two interpreters takes time, too.
        assert took < LIMIT + 5 + 20, f"{took:.1f} s"
        assert not left_over()


@pytest.mark.parametrize("flavour", DEBIAN[:1], ids=lambda f: f.name)
def test_flight(flavour, tmp_path):
    flavour.run(
        2,
        [PYTHON, FAULT, "hang"],
        timeout=60,
        TENON_COLLECTIVE_TIMEOUT="2",
        TENON_FLIGHT=str(tmp_path),
    )
    trace = tmp_path / "trace.json"
    done = subprocess.run(
        [TENON, "flight", tmp_path, "--trace", trace], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "2 processes, connected by mpi" in done.stdout
    assert "rank 0 is in transfer" in done.stdout
    assert "rank 1 has not started transfer" in done.stdout
    assert '"rank 1"' in trace.read_text()
    # A damaged file is named, and the others are read.
    (tmp_path / "rank-1.flight").write_bytes(b"TNFLIGHT" + b"\xff" * 400)
    done = subprocess.run([TENON, "flight", tmp_path], capture_output=True, text=True)
    assert done.returncode == 0
    assert "rank-1.flight" in done.stderr
    assert "no file of rank 1" in done.stdout
