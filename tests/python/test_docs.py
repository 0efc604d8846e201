"""The examples of the pages, run as they are written."""

import pathlib
import re
import shutil

import pytest
from conftest import ROOT


@pytest.mark.parametrize(
    "page, folder",
    [
        ("README.md", "samples/digits"),
        ("docs/guide/python.md", "."),
        ("docs/guide/derivatives.md", "."),
        ("docs/guide/processes.md", "."),
    ],
)
def test_page(page, folder, tmp_path, monkeypatch):
    """Each page says where its reader stands: in the root of the tree, or in the model's folder."""
    (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    for name in ("digits.onnx", "example.npy"):
        shutil.copy(ROOT / "samples" / "digits" / name, tmp_path / folder)
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.M | re.S)
    assert blocks
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(pathlib.Path(page)), "exec"), names)
