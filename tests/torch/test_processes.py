"""PyTorch's parallel features in several processes (distributed/): forward, gradients and steps as in one process.

Among the scenarios are the blocks of docs/guide/torch_processes.md.
"""

import json
import os
import pathlib
import subprocess
import sys
import time

import pytest
import torch.distributed

PLACE = pathlib.Path(__file__).parent / "distributed"
sys.path.insert(0, str(PLACE))
pytestmark = pytest.mark.skipif(
    not torch.distributed.is_gloo_available(), reason="this PyTorch has no gloo"
)
import scenarios  # noqa: E402

NAMES = {ranks: [n for n, s in scenarios.ALL.items() if s.ranks == ranks] for ranks in (0, 2, 4)}


def run(folder, ranks, *names):
    """What was wrong with each scenario, by rank."""
    command = [sys.executable, PLACE / "ranks.py", folder, str(ranks), *names]
    made = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
    assert made.returncode == 0, made.stderr[-2000:]
    return json.loads(made.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """All scenarios: one start for those of two processes, and one for those of four."""
    return {
        name: texts
        for ranks in (2, 4)
        for name, texts in run(tmp_path_factory.mktemp(f"ranks{ranks}"), ranks).items()
    }


@pytest.mark.parametrize("name", NAMES[2] + NAMES[4])
def test_scenario(name, found):
    assert not any(found[name]), "\n".join(found[name])


def test_a_second_start_with_torchs_cache(tmp_path, monkeypatch):
    """The first of the two leaves a mesh that the second one's graph holds: torch's entry of it would lose it."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    names = ["dtensor.placements_change_within_a_graph", "dtensor.sizes_that_change"]
    (tmp_path / "ranks").mkdir()
    for _ in range(2):
        found = run(tmp_path / "ranks", 2, *names)
        assert not any(text for texts in found.values() for text in texts), found


def test_ranks_that_differ(tmp_path):
    """One of the two at least says what differs, and the other one ends, too."""
    for name, texts in run(tmp_path, 2, *NAMES[0]).items():
        said = [t for t in texts if "compile different collectives in " in t]
        assert said and "mismatches.py:" in said[0] and "T0645" in said[0], (name, texts)
        assert all(texts), (name, texts)


def test_the_engine_can_be_disabled(tmp_path, monkeypatch):
    monkeypatch.setenv("TENON_PLUGINS_DISABLE", "python.torch")
    (texts,) = run(tmp_path, 2, "one_program.an_engine_that_is_disabled").values()
    assert not any(texts), texts


def test_a_rank_that_ends(tmp_path):
    """The other one says which rank waited, for what and at which line, long before the group's limit."""
    begin = time.monotonic()
    (texts,) = run(tmp_path, 2, "one_program.a_rank_that_ends").values()
    assert time.monotonic() - begin < 50
    assert texts[1] == "the process ended"
    for part in ("T0906", "rank 0", "all_reduce of f32", "one_program.py:"):
        assert part in texts[0], texts[0]
