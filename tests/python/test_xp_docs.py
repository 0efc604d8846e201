"""The guide pages of arrays and of what Python adds, run as they are written, and the table of the
standard."""

import re

import pytest
import xp_table
from conftest import ROOT


@pytest.mark.parametrize("name", ["arrays", "python_op", "python_pass", "python_frontend"])
def test_page(name: str) -> None:
    page = ROOT / "docs" / "guide" / f"{name}.md"
    names: dict[str, object] = {"__name__": "page"}
    for block in re.findall(r"^```python\n(.*?)^```", page.read_text(), re.M | re.S):
        exec(compile(block, page.name, "exec"), names)


def test_table() -> None:
    assert xp_table.PAGE.read_text() == xp_table.text(), "run tests/python/xp_table.py --bless"
