"""The examples of the guide page and the notebook, run as they are written."""

import importlib.util
import pathlib
import re
import shutil

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "guide" / "torch.md"


def run(page):
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.M | re.S)
    assert blocks
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(page), "exec"), names)


def test_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(PAGE)
    assert (tmp_path / "net.tpk").exists()


def test_training_with_other_libraries(tmp_path, monkeypatch):
    pytest.importorskip("accelerate")
    pytest.importorskip("transformers")
    monkeypatch.chdir(tmp_path)
    run(PAGE.with_name("torch_training.md"))


def test_notebook(tmp_path, monkeypatch):
    place = importlib.util.spec_from_file_location("cells", ROOT / "tests" / "python" / "cells.py")
    cells = importlib.util.module_from_spec(place)
    place.loader.exec_module(cells)
    notebook = shutil.copy(ROOT / "samples" / "notebooks" / "pytorch.ipynb", tmp_path)
    monkeypatch.chdir(tmp_path)
    assert cells.run(pathlib.Path(notebook)) == 6
    assert (tmp_path / "net.tpk").exists()
