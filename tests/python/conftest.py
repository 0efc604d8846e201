"""Models that the tests share. The package is the one of the build tree (PYTHONPATH)."""

import os
import pathlib

import pytest
import tenon

# Tests of processes that write nothing to standard error hold on a slow machine, too.
os.environ.setdefault("TENON_LOGS", "-progress")

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODELS = ROOT / "tests" / "models"


TEXT_ADD = (
    b"tenon.tir 1\n"
    b"graph @add<n>(%a: f32[n], %b: f32[n]) -> (c: f32[n]) {\n"
    b"  %c = add(%a, %b) : f32[n]\n"
    b"  yield %c\n"
    b"}\n"
)


@pytest.fixture(scope="session")
def mlp() -> tenon.Model:
    return tenon.load(MODELS / "mlp.onnx", "cpu")


@pytest.fixture(scope="session")
def add() -> tenon.Model:
    return tenon.load(TEXT_ADD, "cpu")


def identity(dtype: str, rank: int = 1) -> tenon.Model:
    """A model that gives its input back, on the reference device, which takes every type."""
    dims = ", ".join("abcdefgh"[:rank])
    symbols = "<" + dims + ">" if rank else ""
    type_ = f"{dtype}[{dims}]"
    return tenon.load(
        f"tenon.tir 1\ngraph @g{symbols}(%x: {type_}) -> (y: {type_}) {{\n  yield %x\n}}\n".encode(),
        "reference",
    )
