"""`tenon run` as one of several processes, `tenon launch`, `--simulate`, and what they refuse."""

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from flavours import FLAVOURS, TENON

MODEL = Path(__file__).parent / "Inputs/two.tir"
NAMES = ("sum", "all", "part", "swapped", "shifted", "root", "place")


def tenon(*words, **environment):
    return subprocess.run(
        [TENON, *map(str, words)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **environment},
    )


def simulated(folder, x):
    np.save(folder / "x.npy", x)
    done = tenon("run", MODEL, "--simulate", "--input", folder / "x.npy", "--output-dir", folder)
    assert done.returncode == 0, done.stderr
    return {name: np.load(folder / f"{name}.npy") for name in NAMES}


@pytest.fixture
def parts(tmp_path):
    """The inputs of two processes, and what each must get."""
    x = np.random.default_rng(0).integers(-9, 9, (2, 4, 6)).astype(np.float32)
    for rank in range(2):
        np.save(tmp_path / f"x-{rank}.npy", x[rank])
    want = simulated(tmp_path, x)
    np.testing.assert_array_equal(want["sum"][0], x.sum(0))
    np.testing.assert_array_equal(want["place"], [0, 1])
    return want


@pytest.mark.parametrize("flavour", FLAVOURS, ids=lambda f: f.name)
@pytest.mark.parametrize("kind", ["model", "package"])
def test_run(flavour, kind, parts, tmp_path):
    model = MODEL
    if kind == "package":
        model = tmp_path / "two.tpk"
        done = tenon("compile", MODEL, "-o", model)
        assert done.returncode == 0, done.stderr
    words = ["run", model, "--input", tmp_path / "x-{rank}.npy"]
    done = flavour.run(2, [TENON, *words, "--output-dir", tmp_path / "out-{rank}"])
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("sum: f32[4, 6]") == 1  # rank 0 alone prints
    for rank in range(2):
        for name in NAMES:
            got = np.load(tmp_path / f"out-{rank}" / f"{name}.npy")
            np.testing.assert_array_equal(got, parts[name][rank], f"{name} of rank {rank}")


@pytest.mark.skipif(not FLAVOURS, reason="no MPI library is installed")
def test_launch():
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    done = tenon("launch", "-n", 2, "--", TENON, "run", MODEL, "--seed", 1, **root)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("sum: f32[4, 6]") == 1


@pytest.mark.parametrize(
    "flavour", [f for f in FLAVOURS if f.name in ("standard", "intel")], ids=lambda f: f.name
)
def test_launch_by_an_installation_of_its_own(flavour):
    """The library is that of the first launcher in PATH, not the system's."""
    folder = Path(flavour.launcher[0]).parent
    path = {"PATH": f"{folder}:{os.environ['PATH']}"}
    done = tenon("launch", "-n", 2, "--", "sh", "-c", "echo $TENON_MPI_LIBRARY", **path)
    library = done.stdout.splitlines()[0]
    assert Path(library).resolve().is_relative_to(folder.parent.resolve()), done
    done = tenon("launch", "-n", 2, "--", TENON, "run", MODEL, "--seed", 1, **path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("sum: f32[4, 6]") == 1


def test_simulated_meshes():
    done = tenon("run", MODEL, "--seed", 1, "--simulate", "data=2")
    assert done.returncode == 0 and "sum: f32[2, 4, 6]" in done.stdout, done.stderr
    done = tenon("run", MODEL, "--seed", 1, "--simulate", "data=3")
    assert done.returncode == 2 and "T0901" in done.stderr
    assert "'data=2'" in done.stderr and "'data=3'" in done.stderr


@pytest.mark.parametrize(
    ("words", "environment", "says"),
    [
        (["run", MODEL, "--seed", 1], {}, ["T0902", "tenon launch -n 2"]),
        (["run", MODEL, "--seed", 1], {"TENON_ENGINE": "nccl"}, ["T0902", "nccl"]),
        (["run", MODEL, "--seed", 1], {"TENON_PLUGINS_DISABLE": "mpi"}, ["T0902"]),
        (["run", MODEL, "--seed", 1], {"TENON_PLUGINS_DISABLE": "mesh"}, ["T0903", "'data=2'"]),
        (["launch", "-n", 2], {}, ["T0004"]),
        (["launch", "-n", 0, "--", "true"], {}, ["T0004"]),
        (["launch", "-n", 2, "--engine", "sim", "--", "true"], {}, ["T0902", "sim"]),
        (["launch", "-n", 2, "--", "true"], {"TENON_PLUGINS_DISABLE": "mpi"}, ["T0902"]),
        (["flight", "/nowhere-at-all"], {}, ["T0101"]),
    ],
)
def test_refused(words, environment, says):
    done = tenon(*words, **environment)
    assert done.returncode != 0
    for text in says:
        assert text in done.stderr, done.stderr


@pytest.mark.parametrize("flavour", FLAVOURS[:2], ids=lambda f: f.name)
def test_other_number_of_processes(flavour):
    count = 1 if len(flavour.ranks) == 1 else 3
    done = flavour.run(count, [TENON, "run", MODEL, "--seed", 1])
    assert done.returncode != 0
    assert "T0901" in done.stdout and "'data=2'" in done.stdout, done.stdout


def test_library_of_another_kind():
    by_name = {f.name: f for f in FLAVOURS}
    if not {"openmpi", "mpich"} <= by_name.keys():
        pytest.skip("two libraries are needed")
    done = by_name["mpich"].run(
        2, [TENON, "run", MODEL, "--seed", 1], TENON_MPI_LIBRARY="libmpi.so.40"
    )
    assert done.returncode != 0
    assert "T0902" in done.stdout and "different kinds" in done.stdout, done.stdout


def test_number_of_simulated_ranks_that_is_none():
    """It counted as one simulated rank."""
    for text in ("x", "0", "65", "2 "):
        done = tenon("run", MODEL, "--seed", 1, TENON_MESH_SIMULATE=text)
        assert done.returncode != 0
        for part in (f"TENON_MESH_SIMULATE='{text}' is not a number", "T0902", "mpi: no launcher"):
            assert part in done.stderr, done.stderr


def test_library_that_is_not_there():
    for flavour in FLAVOURS[:1]:
        done = flavour.run(
            2, [TENON, "run", MODEL, "--seed", 1], TENON_MPI_LIBRARY="/no/libmpi.so.40"
        )
        assert done.returncode != 0
        assert "T0902" in done.stdout and "/no/libmpi.so.40" in done.stdout, done.stdout
