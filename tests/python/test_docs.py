"""The examples of the pages, run as they are written."""

import pathlib
import re
import shutil

import pytest
from conftest import ROOT


@pytest.mark.parametrize("page", ["README.md", "docs/guide/python.md"])
def test_page(page, tmp_path, monkeypatch):
    for name in ("digits.onnx", "example.npy"):
        shutil.copy(ROOT / "samples" / "digits" / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.M | re.S)
    assert blocks
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(pathlib.Path(page)), "exec"), names)
