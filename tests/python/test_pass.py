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
        np.testing.assert_allclose(
            tenon.load(TEXT.encode(), "cpu")(x)[0], np.full((2, 3), -2 * np.e), rtol=1e-6
        )
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


ATTRIBUTES = """tenon.tir 1
graph @g<n>(%x: f32[n, 6], %k: i64[n]) -> (y: f32[n, 2, 3], i: i32[n, 4], p: f32[n, 9], h: f32[n, 7], c: f32[2]) {
  %y = reshape(%x) {shape = dims [n, 2, 3]} : f32[n, 2, 3]
  %i = iota() {shape = dims [n, 4], dim = 1, dtype = i32} : i32[n, 4]
  %p = resize(%x) {sizes = dims [n, 9], scales = [1.0, 1.5]} : f32[n, 9]
  %h = one_hot(%k) {depth = dims [7]} : f32[n, 7]
  %c, %d = custom_call() {name = "f", results = types [f32[2], i64[]]} : f32[2], i64[]
  yield %y, %i, %p, %h, %c
}
"""


def test_attributes_of_every_kind() -> None:
    """Dims were the host's pointers as numbers, lists of floats too, element types codes."""

    def work(graph: Any) -> None:
        seen = {node.op: node.attrs for node in graph.nodes()}
        assert [str(size) for size in seen["reshape"]["shape"]] == ["n", "2", "3"]
        assert seen["reshape"]["shape"][1:] == (2, 3)
        assert seen["iota"]["dtype"] == "i32" and seen["iota"]["dim"] == 1
        assert seen["resize"]["scales"] == (1.0, 1.5)
        assert seen["custom_call"]["results"] == (("f32", (2,)), ("i64", ()))
        assert seen["custom_call"]["name"] == "f"
        assert len(list(graph.match("one_hot(_, depth=(7))"))) == 1
        assert not list(graph.match("reshape(_, shape=(-1, 2, 3))"))  # a size of a run

    in_a_pass(ATTRIBUTES, work)


PATTERNS = """tenon.tir 1
graph @g(%x: f32[2, 3], %z: f32[2, 3], %b: f32[3]) -> (y: f32[2, 3], w: f32[6, 3], v: f32[2, 3], s: f32[2, 3]) {
  %c = const f32[2, 3] splat 0.1
  %i = const f32[2, 3] splat -inf
  %u = const f32[2, 3] [1, 2, 3, 4, 5, 6]
  %0 = exp(%x) : f32[2, 3]
  %1 = mul(%0, %z) : f32[2, 3]
  %2 = mul(%0, %0) : f32[2, 3]
  %3 = mul(%2, %c) : f32[2, 3]
  %4 = max(%3, %i) : f32[2, 3]
  %5 = softmax(%4) {dim = 1} : f32[2, 3]
  %6 = concat(%5, %1, %x) {dim = 0} : f32[6, 3]
  %7 = mul(%x, %u) : f32[2, 3]
  %8 = layer_norm(%0, _, %b) {dim = 1} : f32[2, 3]
  yield %1, %6, %7, %8
}
"""


def in_a_pass(text: str, work: Any) -> str:
    """What a function of a graph makes of it, as a pass that goes away again."""
    made = tenon.graph_pass(after="canonicalize", name="python.once")(work)
    try:
        return made.apply(text)
    finally:
        made.remove()


def test_patterns_bind_values() -> None:
    def work(graph: Any) -> None:
        m, other = graph.match("mul(exp(x), y)")
        assert graph.producer(other["y"]).op == "exp"
        assert [n.op for n in m.nodes] == ["mul", "exp"] and m.node.op == "mul"
        assert set(m.values) == {"x", "y"} and m["x"].shape == (2, 3)
        assert graph.producer(m["x"]) is None and graph.producer(m["y"]) is None
        found = graph.producer(m.node.operands[0])
        assert found.op == "exp" and graph.producer(m.node.results[0]).op == "mul"
        with pytest.raises(KeyError):
            m["z"]
        (m,) = graph.match("mul(x, x)")  # one name is one value
        assert graph.producer(m["x"]).op == "exp"

    in_a_pass(PATTERNS, work)


@pytest.mark.parametrize(
    ("pattern", "count"),
    [
        ("mul(_, _)", 4), ("mul(a, b)", 4), ("mul(exp(x), exp(x))", 1), ("mul(x, 0.1)", 1), ("mul(x, 0.2)", 0), ("mul(0.1, x)", 0), ("mul(x, 1)", 0),
        ("max(_, -inf)", 1), ("max(_, inf)", 0), ("softmax(max(mul(mul(x, x), 0.1), -inf), dim=1)", 1),
        ("softmax(x, dim=1)", 1), ("softmax(x, dim=0)", 0), ("softmax(x, dimension=1)", 0), ("concat(a, b)", 0),
        ("concat(a, ...)", 1), ("concat(..., dim=0)", 1), ("concat(a, b, c, ...)", 1), ("concat(a, b, c, d, ...)", 0),
        ("concat(softmax(x), _, x)", 0), ("concat(softmax(_), _, x)", 1), ("exp(x, None)", 0), (" exp ( x ) ", 1), ("tan(x)", 0),
        ("layer_norm(x, None, bias)", 1), ("layer_norm(x, w, _)", 0), ("layer_norm(x, _, bias)", 1), ("layer_norm(x, None, None)", 0),
    ],
)  # fmt: skip
def test_patterns(pattern: str, count: int) -> None:
    def work(graph: Any) -> None:
        assert len(list(graph.match(pattern))) == count

    in_a_pass(PATTERNS, work)


def test_numbers_of_a_pattern_match_what_is_broadcast() -> None:
    counts: list[int] = []

    @tenon.graph_pass(after="legalize", name="python.broadcast")
    def counts_products(graph: Any) -> None:
        counts.extend(len(list(graph.match(p))) for p in ("mul(exp(x), 0.1)", "mul(exp(x), 0.5)"))

    try:
        tenon.compile(lambda x: xp.exp(x) * 0.1)(np.ones((2, 3), np.float32))
        assert counts[:2] == [1, 0]
    finally:
        counts_products.remove()


def test_a_match_sees_what_was_replaced_before() -> None:
    chain = """tenon.tir 1
graph @g(%x: f32[4]) -> (y: f32[4]) {
  %0 = neg(%x) : f32[4]
  %1 = neg(%0) : f32[4]
  %2 = neg(%1) : f32[4]
  %3 = exp(%2) : f32[4]
  yield %3
}
"""

    def pairs(graph: Any) -> None:
        for m in graph.match("neg(neg(x))"):
            m.node.replace(m["x"])

    def absolute(graph: Any) -> None:  # new nodes are not visited
        for m in graph.match("neg(x)"):
            with graph.before(m.node):
                m.node.replace(-xp.abs(m["x"]))

    def by_nodes(graph: Any) -> None:
        for node in graph.nodes("neg"):
            with graph.before(node):
                node.replace(xp.sin(node.operands[0]))

    # The middle one is x then, so the last two are not a pair any more.
    assert "%1 = neg(%x) : f32[4]\n  %2 = exp(%1)" in in_a_pass(chain, pairs)
    assert in_a_pass(chain, absolute).count("abs(") == 3
    text = in_a_pass(chain, by_nodes)
    assert text.count("sin(") == 3 and "neg(" not in text


@pytest.mark.parametrize(
    ("pattern", "at", "why"),
    [
        ("mul(exp(x), y", 14, "',' or '\\)' is expected, not the end"), ("mull(x)", 1, "no op mull; did you mean mul"),
        ("add(x, $)", 8, "begins nothing"), ("add(x y)", 7, "not y"), ("", 1, "name of an op"), ("add", 4, "not the end"),
        ("2", 1, "name of an op"), ("add(a.b)", 5, "has a dot"), ("add(x, dim=)", 12, "a number, a text"),
        ("add(dim=1, x)", 12, "operands are first"), ("add(..., x)", 10, "operands are first"), ("add(...,...)", 9, "nothing but"),
        ("add(x) y", 8, "is complete"), ("add(a=1, a=2)", 10, "twice"), ("add(a=(1, x))", 11, "a number is expected"),
        ("add(x, 'a')", 8, "an operand is expected"), ("add(x, add(y, nope(x)))", 15, "no op nope"), ("add(x, 'a)", 8, "begins"),
    ],
)  # fmt: skip
def test_a_bad_pattern_names_its_place(pattern: str, at: int, why: str) -> None:
    def work(graph: Any) -> None:
        graph.match(pattern)  # before anything is looked at

    with pytest.raises(tenon.UsageError, match=f"T0631.*at character {at}: .*{why}"):
        in_a_pass(TEXT, work)


def test_producers_of_arrays_from_elsewhere() -> None:
    ready, kept = xp.asarray([1.0]), []
    in_a_pass(TEXT, lambda graph: kept.extend(graph.nodes()[0].results))

    def work(graph: Any) -> None:
        assert graph.producer(ready) is None
        graph.producer(kept[0])

    with pytest.raises(tenon.UsageError, match="T0627"):
        in_a_pass(TEXT, work)


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
        with pytest.raises(
            tenon.UsageError,
            match=r"T0631: python.fails \(.*test_pass.py:\d+\): RuntimeError: mine",
        ):
            fails.apply(TEXT)
        with pytest.raises(tenon.UsageError):
            other_type.apply(TEXT)
        keeps.apply(TEXT)
        with pytest.raises(tenon.UsageError, match="T0630"):
            kept[0].nodes()
    finally:
        for made in (fails, other_type, keeps):
            made.remove()
