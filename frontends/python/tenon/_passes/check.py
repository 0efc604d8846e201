"""`Pass.check`: the examples of a pass, as tests."""

from __future__ import annotations

import numpy as np

from tenon.builder.dtypes import by_code

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tenon._pass import Pass


def texts(made: Pass, number: int, before: str, after: str) -> None:
    """AssertionError if the pass does not make the second text, or changes it again."""
    wanted = _normal(after)
    got = made.apply(before)
    assert got == wanted, f"{made.name}, example {number}: it gives\n{got}and not\n{wanted}"
    again = made.apply(after)
    assert again == wanted, f"{made.name}, example {number}: it changes its own result to\n{again}"


def _normal(text: str) -> str:
    """A text as it is printed."""
    from tenon import _native

    return _native.run_passes(text, "none")[0]


def values(name: str, number: int, before: str, after: str, size: int, tolerance: float) -> None:
    """AssertionError if two graphs do not compute the same from random inputs."""
    from tenon._model import load

    first, second = load(before.encode(), "cpu"), load(after.encode(), "cpu")
    random = np.random.default_rng(0)
    given = [_input(random, one, size) for one in first.inputs]
    for one, a, b in zip(first.outputs, first(*given), second(*given)):
        np.testing.assert_allclose(
            np.asarray(b), np.asarray(a), rtol=tolerance, atol=tolerance,
            err_msg=f"{name}, example {number}: another value of {one.name}",
        )  # fmt: skip


def _input(random: Any, given: Any, size: int) -> Any:
    shape = tuple(s if isinstance(s, int) else size for s in given.shape)
    dtype = np.dtype(by_code[given.dtype].name)
    if dtype.kind in "iu":
        return random.integers(0, 8, shape).astype(dtype)
    if dtype.kind == "b":
        return random.integers(0, 2, shape).astype(dtype)
    return random.standard_normal(shape).astype(dtype)
