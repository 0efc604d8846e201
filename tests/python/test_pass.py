"""Passes as Python functions."""

from typing import Any

import numpy as np
import pytest

import tenon
from tenon import nn, xp

TEXT = """tenon.tir 1
graph @g(%x: f32[2, 3]) -> (y: f32[2, 3]) {
  %0 = softmax(%x) {dim = 1} : f32[2, 3]
  %1 = neg(%0) : f32[2, 3]
  yield %1
}
"""


def test_it_rewrites() -> None:
    @tenon.graph_pass(after="canonicalize")
    def doubles(graph: Any) -> None:
        """Doubles what a softmax gives."""
        for node in graph.nodes("softmax"):
            if node.attrs["dim"] != 1:
                continue
            with graph.before(node):
                node.replace(xp.exp(node.operands[0]) * 2)

    x = np.ones((2, 3), np.float32)

    @tenon.compile
    def f(x: Any) -> Any:
        return nn.softmax(x)

    try:
        text = doubles.apply(TEXT)
        assert "softmax" not in text
        assert text.index("exp(") < text.index("mul(") < text.index("neg(")
        np.testing.assert_allclose(f(x), np.full((2, 3), 2 * np.e), rtol=1e-6)
        np.testing.assert_allclose(tenon.load(TEXT.encode(), "cpu")(x)[0], np.full((2, 3), -2 * np.e), rtol=1e-6)
    finally:
        doubles.remove()
    np.testing.assert_allclose(f(x), np.full((2, 3), 1 / 3), rtol=1e-6)


def test_it_looks() -> None:
    seen: list[str] = []

    @tenon.graph_pass(after="legalize", name="python.looks")
    def looks(graph: Any) -> None:
        seen.extend(node.op for node in graph.nodes())

    try:
        tenon.compile(lambda x: xp.exp(x) + 1)(np.ones(3, np.float32))
        assert "exp" in seen
    finally:
        looks.remove()


def test_computing_values_inside_of_a_pass_is_refused() -> None:
    calls: list[str] = []
    ready = xp.asarray([1.0, 2.0, 3.0])
    doubled = tenon.compile(lambda x: x * 2)

    def with_body(body: Any) -> Any:
        @tenon.graph_pass(after="canonicalize", name="python.computes")
        def computes(graph: Any) -> None:
            calls.append("run")
            for node in graph.nodes("softmax"):
                body(graph, node)

        return computes

    def compiles(graph: Any, node: Any) -> None:
        doubled(ready)

    def at_once(graph: Any, node: Any) -> None:
        float(xp.sum(ready + 1))

    def sizes(graph: Any, node: Any) -> None:
        xp.nonzero(ready)

    def constant(graph: Any, node: Any) -> None:
        with graph.before(node):
            node.replace(node.operands[0] * ready)

    try:
        for body in (compiles, at_once, sizes):
            calls.clear()
            with pytest.raises(tenon.UsageError, match="T0631.*a pass cannot compute values"):
                with_body(body).apply(TEXT)
            assert calls == ["run"]
        made = with_body(constant)
        assert "mul(" in made.apply(TEXT)
    finally:
        with_body(constant).remove()
    assert float(xp.sum(ready + 1)) == 9


def test_mistakes() -> None:
    with pytest.raises(tenon.UsageError, match="T0631.*canonicalize"):
        tenon.graph_pass(after="nothing")(lambda graph: None)

    @tenon.graph_pass(after="dce")
    def fails(graph: Any) -> None:
        raise RuntimeError("mine")

    @tenon.graph_pass(after="dce")
    def other_type(graph: Any) -> None:
        for node in graph.nodes("neg"):
            with graph.before(node):
                node.replace(xp.sum(node.operands[0]))

    kept: list[Any] = []

    @tenon.graph_pass(after="dce")
    def keeps(graph: Any) -> None:
        kept.append(graph)

    try:
        with pytest.raises(tenon.UsageError, match=r"T0631: python.fails \(.*test_pass.py:\d+\): RuntimeError: mine"):
            fails.apply(TEXT)
        with pytest.raises(tenon.UsageError):
            other_type.apply(TEXT)
        keeps.apply(TEXT)
        with pytest.raises(tenon.UsageError, match="T0630"):
            kept[0].nodes()
    finally:
        for made in (fails, other_type, keeps):
            made.remove()
