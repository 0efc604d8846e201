"""The examples of the guide page and the notebook, run as they are written."""

import importlib.util
import pathlib
import re
import shutil

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "guide" / "torch.md"


def test_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    assert blocks and (tmp_path / "net.tpk").exists()


def test_notebook(tmp_path, monkeypatch):
    place = importlib.util.spec_from_file_location("cells", ROOT / "tests" / "python" / "cells.py")
    cells = importlib.util.module_from_spec(place)
    place.loader.exec_module(cells)
    notebook = shutil.copy(ROOT / "samples" / "notebooks" / "pytorch.ipynb", tmp_path)
    monkeypatch.chdir(tmp_path)
    assert cells.run(pathlib.Path(notebook)) == 6
    assert (tmp_path / "net.tpk").exists()
