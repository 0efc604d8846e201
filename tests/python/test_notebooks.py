"""The notebooks of samples/notebooks: every cell, in order, in a copy of the folder."""

from __future__ import annotations

import pathlib
import shutil

import cells
import pytest
from conftest import ROOT

FOLDER = ROOT / "samples" / "notebooks"
# The one of PyTorch is run by tests/torch, too, where PyTorch is installed.
NOTEBOOKS = sorted(path.name for path in FOLDER.glob("*.ipynb"))


@pytest.fixture
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """A copy of the samples, so that nothing is written into the tree."""
    for name in ("notebooks", "digits"):
        shutil.copytree(ROOT / "samples" / name, tmp_path / name)
    monkeypatch.chdir(tmp_path / "notebooks")
    return tmp_path / "notebooks"


def needs(name: str) -> None:
    if name == "pytorch.ipynb":
        pytest.importorskip("torch", reason="PyTorch is not installed")


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_cells(name: str, folder: pathlib.Path) -> None:
    needs(name)
    assert cells.run(folder / name) > 0


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_kernel(name: str, folder: pathlib.Path) -> None:
    needs(name)
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    notebook = nbformat.read(folder / name, as_version=4)
    nbformat.validate(notebook)
    nbclient.NotebookClient(notebook, timeout=240).execute()
