"""`srun` as the launcher, on one node of this machine, with CHECK_FULL=1."""

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
import slurm
from flavours import FLAVOURS, PYTHON, TENON
from test_command import MODEL, NAMES, simulated

FAULT = Path(__file__).with_name("fault.py")
LIBRARIES = {"pmi2": "mpich", "pmix": "openmpi"}
WAYS = [way for way, library in LIBRARIES.items() if library in {f.name for f in FLAVOURS}]
LIMIT = 5

pytestmark = [
    pytest.mark.skipif(os.environ.get("CHECK_FULL") != "1", reason="a minute: CHECK_FULL=1"),
    pytest.mark.skipif(bool(slurm.missing()), reason=slurm.missing() or "Slurm is here"),
]


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    with slurm.one_node(tmp_path_factory.mktemp("slurm")) as environment:
        yield environment


def srun(node, way, *words, options=(), **environment):
    return subprocess.run(
        ["srun", "-n", "2", f"--mpi={way}", *options, *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        env={**node, **environment},
    )


@pytest.mark.parametrize("way", WAYS)
def test_run(node, way, tmp_path):
    x = np.random.default_rng(0).integers(-9, 9, (2, 4, 6)).astype(np.float32)
    want = simulated(tmp_path, x)
    for rank in range(2):
        np.save(tmp_path / f"x-{rank}.npy", x[rank])
    words = ["run", MODEL, "--input", tmp_path / "x-{rank}.npy"]
    done = srun(node, way, TENON, *words, "--output-dir", tmp_path / "out-{rank}")
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("sum: f32[4, 6]") == 1  # rank 0 alone prints
    for rank in range(2):
        for name in NAMES:
            got = np.load(tmp_path / f"out-{rank}" / f"{name}.npy")
            np.testing.assert_array_equal(got, want[name][rank], f"{name} of rank {rank}")


@pytest.mark.parametrize(
    ("tasks", "machine", "count"), [("2", 0, 2), ("3(x2),2", 1, 3), ("3(x2),2", 2, 2)]
)
def test_processes_of_a_machine_share_its_threads(node, tasks, machine, count):
    named = [f"SLURM_STEP_TASKS_PER_NODE={tasks}", f"SLURM_NODEID={machine}", "TENON_LOGS=+mesh"]
    done = srun(node, WAYS[0], "env", *named, TENON, "run", MODEL, "--seed", 1)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count(f"{count} processes share this machine") == 2, done.stdout


def test_without_a_way(node):
    done = srun(node, "none", TENON, "run", MODEL, "--seed", 1)
    assert done.returncode != 0
    for text in ("T0902", "srun --mpi=pmix with Open MPI", "srun --mpi=pmi2 with MPICH"):
        assert text in done.stdout, done.stdout


@pytest.mark.skipif(len(WAYS) < 2, reason="two libraries are needed")
def test_library_of_another_kind(node):
    library = {"TENON_MPI_LIBRARY": "libmpich.so.12"}
    done = srun(node, "pmix", TENON, "run", MODEL, "--seed", 1, **library)
    assert done.returncode != 0
    assert "T0902" in done.stdout and "different kinds" in done.stdout, done.stdout


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("throw", ["a mistake of the user", "T0908", "rank 1, which has ended"]),
        ("hang", ["T0904", "rank 0", "tenon flight"]),
        ("op", ["T0905", "(sum)", "(max)"]),
        ("kill", ["Killed"]),
    ],
)
def test_fault(node, way, kind, says, tmp_path):
    limits = {"TENON_COLLECTIVE_TIMEOUT": str(LIMIT), "TENON_FLIGHT": str(tmp_path)}
    options = ["--kill-on-bad-exit"] if kind == "kill" else []
    done = srun(node, way, PYTHON, FAULT, kind, options=options, **limits)
    assert done.returncode != 0
    for text in says:
        assert text in done.stdout, done.stdout
