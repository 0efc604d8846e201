"""Runs the code cells of notebooks, in order, as a notebook does. Needs nothing but Python.

python3 cells.py NOTEBOOK...    each in its folder
"""

from __future__ import annotations

import ast
import json
import os
import pathlib
import sys
from typing import Any


def run_cell(source: str, name: str, names: dict[str, Any]) -> Any:
    """Runs a cell, and shows its last expression in the way of a notebook."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, name, "exec"), names)
    if last is None:
        return None
    value = eval(compile(ast.Expression(last.value), name, "eval"), names)
    return getattr(value, "_repr_html_", value.__repr__)()


def run(path: pathlib.Path) -> int:
    """Runs a notebook in the current folder. How many cells it has."""
    names: dict[str, Any] = {"__name__": "notebook"}
    cells = [c for c in json.loads(path.read_text())["cells"] if c["cell_type"] == "code"]
    assert not any(c["outputs"] for c in cells), "outputs are not stored"
    for i, cell in enumerate(cells):
        run_cell("".join(cell["source"]), f"{path.name}, cell {i}", names)
    return len(cells)


if __name__ == "__main__":
    for notebook in [pathlib.Path(argument).resolve() for argument in sys.argv[1:]]:
        os.chdir(notebook.parent)
        print(f"{notebook.name}: {run(notebook)} cells")
