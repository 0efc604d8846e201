"""The guide page of arrays, run as it is written, and the table of the standard."""

import re

import xp_table
from conftest import ROOT


def test_page() -> None:
    page = ROOT / "docs" / "guide" / "arrays.md"
    names: dict[str, object] = {"__name__": "page"}
    for block in re.findall(r"^```python\n(.*?)^```", page.read_text(), re.M | re.S):
        exec(compile(block, page.name, "exec"), names)


def test_table() -> None:
    assert xp_table.PAGE.read_text() == xp_table.text(), "run tests/python/xp_table.py --bless"
