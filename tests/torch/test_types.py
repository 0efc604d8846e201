"""mypy --strict on tenon.torch, with PyTorch's own types."""

import pathlib
import subprocess
import sys

import pytest

import tenon

pytest.importorskip("mypy", reason="mypy is not installed beside PyTorch")


def test_types(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), "-p", "tenon.torch"],
        cwd=pathlib.Path(tenon.__file__).parents[1], capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
