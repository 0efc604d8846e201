"""The notebooks of samples/notebooks: every cell, in order, in a copy of the folder."""

from __future__ import annotations

import ast
import json
import pathlib
import shutil
from typing import Any

import pytest
from conftest import ROOT

FOLDER = ROOT / "samples" / "notebooks"
NOTEBOOKS = sorted(path.name for path in FOLDER.glob("*.ipynb"))


@pytest.fixture
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """A copy of the samples, so that nothing is written into the tree."""
    for name in ("notebooks", "digits"):
        shutil.copytree(ROOT / "samples" / name, tmp_path / name)
    monkeypatch.chdir(tmp_path / "notebooks")
    return tmp_path / "notebooks"


def run_cell(source: str, name: str, names: dict[str, Any]) -> Any:
    """Runs a cell, and shows its last expression in the way of a notebook."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, name, "exec"), names)
    if last is None:
        return None
    value = eval(compile(ast.Expression(last.value), name, "eval"), names)  # type: ignore[attr-defined]
    return getattr(value, "_repr_html_", value.__repr__)()


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_cells(name: str, folder: pathlib.Path) -> None:
    notebook = json.loads((folder / name).read_text())
    names: dict[str, Any] = {"__name__": "notebook"}
    cells = [c for c in notebook["cells"] if c["cell_type"] == "code"]
    assert cells and not any(c["outputs"] for c in cells), "outputs are not stored"
    for i, cell in enumerate(cells):
        run_cell("".join(cell["source"]), f"{name}, cell {i}", names)


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_kernel(name: str, folder: pathlib.Path) -> None:
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    notebook = nbformat.read(folder / name, as_version=4)
    nbformat.validate(notebook)
    nbclient.NotebookClient(notebook, timeout=240).execute()
