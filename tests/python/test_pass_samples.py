"""The passes of samples/graph_passes: their texts before and after."""

import importlib.util
import os
import pathlib
from typing import Any

import pytest

FOLDER = pathlib.Path(__file__).parents[2] / "samples" / "graph_passes"
SEPARATOR = "\n// -----\n"
SAMPLES: dict[str, tuple[tuple[str, ...], list[dict[str, int]]]] = {
    "fold_transposes": (("fold_transposes",), [{"folded": 1}]),
    "fold_batch_norm": (("fold_batch_norm",), [{"folded": 2}, {}]),
    "prune": (("prune",), [{"weights": 2, "zeros": 3}]),
    "quantise": (("choose", "quantise"), [{"chosen": 1, "quantised": 2}]),
    "count_flops": (("count_flops",), [{"loops": 2, "flops": 480}]),
}


def load(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", SAMPLES)
def test_text(name: str) -> None:
    names, statistics = SAMPLES[name]
    module = load(name)
    passes = [getattr(module, one) for one in names]
    made, counts = [], []
    try:
        for text in (FOLDER / f"{name}.tir").read_text().split(SEPARATOR):
            found: dict[str, int] = {}
            for one in passes:
                outcome = one.outcome(text)
                text = outcome.text
                found |= outcome.statistics
            made.append(text)
            counts.append(found)
    finally:
        for one in reversed(passes):
            one.remove()
    after = FOLDER / f"{name}.expected.tir"
    text = SEPARATOR[1:].join(made)
    if os.environ.get("TENON_BLESS") == "1":
        after.write_text(text)
    assert text == after.read_text()
    assert counts == statistics


@pytest.mark.parametrize("name", SAMPLES)
def test_length(name: str) -> None:
    assert len((FOLDER / f"{name}.py").read_text().splitlines()) <= 40
