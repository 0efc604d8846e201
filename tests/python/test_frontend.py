"""`@tenon.frontend`: importers that are Python functions."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest
import tenon
from tenon import xp


@tenon.frontend("beads_test", extensions=[".beads", ".bds"])
def beads(source: Any) -> Any:
    """A line with the size, then a line for each operation."""
    first, *lines = source.text().splitlines()
    if not first.isdigit():
        source.fail(f"{first!r} is not a size", 1)
    wanted = source.option("factor", "1")
    x = source.input("x", "float32", (int(first) if int(first) else "n",))
    for number, line in enumerate(lines, 2):
        source.at(number)
        if line == "table":
            x = x + xp.asarray(np.arange(3, dtype=np.float32))
        elif line == "crash":
            raise RuntimeError("a mistake in the importer")
        elif not hasattr(xp, line):
            source.fail(f"there is no operation {line!r}")
        else:
            x = getattr(xp, line)(x)
    return {"y": x * float(wanted)}


def written(folder: pathlib.Path, text: str | bytes, name: str = "a.beads") -> pathlib.Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_a_file_becomes_a_model(tmp_path: pathlib.Path) -> None:
    x = np.array([1.0, 2.0, 3.0], np.float32)
    model = tenon.load(written(tmp_path, "3\nexp\ntable\n"))
    assert [p.name for p in model.inputs] == ["x"] and [p.name for p in model.outputs] == ["y"]
    np.testing.assert_allclose(model(x)["y"], np.exp(x) + np.arange(3), rtol=1e-6)
    named = tenon.load(written(tmp_path, "0\nsqrt\n", "b.bds"))
    for n in (1, 5):
        np.testing.assert_allclose(named(np.full(n, 4, np.float32))[0], np.full(n, 2))


def test_problems_are_reported_with_their_line(tmp_path: pathlib.Path) -> None:
    for text, message in (
        ("pearls\n", "T0661: .*a.beads:1: 'pearls' is not a size"),
        ("3\nexp\nnothing_such\n", "T0661: .*a.beads:3: there is no operation"),
        (b"3\n\xff\n", "T0661: .*a.beads:2: the file is not text"),
        ("3\ncrash\n", "T0631: beads_test .*test_frontend.py:.*a mistake in the importer"),
        ("2\ntable\n", "shapes"),
    ):
        with pytest.raises(tenon.Error, match=message):
            tenon.load(written(tmp_path, text))


def test_results_have_to_be_arrays(tmp_path: pathlib.Path) -> None:
    @tenon.frontend("nothing_test", extensions=[".nothing"])
    def nothing(source: Any) -> Any:
        return None

    with pytest.raises(tenon.Error, match="arrays are needed"):
        tenon.load(written(tmp_path, "", "a.nothing"))

    @tenon.frontend("nothing_test", extensions=[".nothing"])  # again
    def twice(source: Any) -> Any:
        source.input("x", xp.float32, (2,))
        return source.input("x", xp.float32, (2,))

    with pytest.raises(tenon.Error, match="is there already"):
        tenon.load(written(tmp_path, "", "a.nothing"))


def test_kept_arrays_are_refused(tmp_path: pathlib.Path) -> None:
    kept: list[Any] = []

    @tenon.frontend("keeping_test", extensions=[".keeping"])
    def keeping(source: Any) -> Any:
        kept.append(source.input("x", xp.float32, (2,)))
        return kept[0] * 2.0

    assert tenon.load(written(tmp_path, "", "a.keeping"))(np.ones(2, np.float32))[0].tolist() == [
        2,
        2,
    ]
    with pytest.raises(tenon.UsageError):
        kept[0].tolist()
    with pytest.raises(tenon.UsageError):
        kept[0] + 1.0


def test_names_and_extensions() -> None:
    for extensions in ([], ["beads"], ["."], [".a,.b"]):
        with pytest.raises(tenon.UsageError, match="extension"):
            tenon.frontend("other_test", extensions=extensions)
    with pytest.raises(tenon.Error):
        tenon.frontend("onnx", extensions=[".onnx"])(lambda source: None)
