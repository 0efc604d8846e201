"""Patterns of `PassGraph.match`: their text, and whether a value matches.

The grammar is one of its own, since names of ops may be words of Python (`and`, `not`).
"""

from __future__ import annotations

import functools
import math
import re

from tenon import _host, _native
from tenon._errors import UsageError
from tenon.builder.dtypes import by_code, element
from tenon.builder.trace import DIMS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_TOKEN = re.compile(
    r"\s*(?:(?P<number>[+-]?(?:inf\b|nan\b|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?))"
    r"|(?P<name>[A-Za-z_]\w*(?:\.\w+)*)|(?P<text>\"[^\"]*\"|'[^']*')|(?P<sign>\.\.\.|[(),=]))"
)
_ABSENT, _REST = "None", "..."


class Op:
    """An op with patterns for its operands, and attributes that it must have."""

    def __init__(self, name: str, operands: list[Any], rest: bool, attrs: dict[str, Any]):
        self.name, self.operands, self.rest, self.attrs = name, operands, rest, attrs
        """`rest`: more operands may follow."""


class Found:
    """What a pattern has met so far, as numbers of the graph."""

    def __init__(self) -> None:
        self.values: dict[str, int] = {}
        self.nodes: list[int] = []


class _Parser:
    def __init__(self, text: str):
        self.text = text
        self.at = 0
        self.start = 0  # of the last token
        self.kind = self.token = ""
        self.advance()

    def fail(self, why: str, at: int | None = None) -> UsageError:
        place = self.start if at is None else at
        return UsageError(f"in the pattern {self.text!r}, at character {place + 1}: {why}", "T0631")

    def advance(self) -> None:
        found = _TOKEN.match(self.text, self.at)
        if found is None:
            rest = self.text[self.at :]
            self.start = self.at + len(rest) - len(rest.lstrip())
            if rest.strip():
                raise self.fail(f"{self.text[self.start]!r} begins nothing that a pattern has")
            self.kind, self.token = "end", "the end"
            return
        self.kind = found.lastgroup or ""
        self.token = found.group(self.kind)
        self.start, self.at = found.start(self.kind), found.end()

    def expect(self, sign: str, what: str) -> None:
        if self.token != sign or self.kind != "sign":
            raise self.fail(f"{what} is expected, not {self.token}")
        self.advance()

    def whole(self) -> Op:
        if self.kind != "name":
            raise self.fail(f"the name of an op is expected, not {self.token}")
        name, at = self.token, self.start
        self.advance()
        made = self.op(name, at)
        if self.kind != "end":
            raise self.fail(f"the pattern is complete, and {self.token} follows")
        return made

    def op(self, name: str, at: int) -> Op:
        """What follows the name of an op."""
        self.expect("(", "'('")
        _check_op(name, self, at)
        operands: list[Any] = []
        attrs: dict[str, Any] = {}
        rest = False
        while self.token != ")":
            if rest and self.kind != "name":
                raise self.fail("nothing but attributes follows ...")
            if self.token == _REST:
                rest = True
                self.advance()
            else:
                self.item(operands, attrs, rest)
            if self.token != ")":
                self.expect(",", "',' or ')'")
        self.advance()
        return Op(name, operands, rest, attrs)

    def item(self, operands: list[Any], attrs: dict[str, Any], rest: bool) -> None:
        """An operand, or an attribute after all operands."""
        kind, token, at = self.kind, self.token, self.start
        if kind not in ("name", "number"):
            raise self.fail(f"an operand is expected, not {token}")
        self.advance()
        if kind == "name" and self.token == "=":
            if token in attrs:
                raise self.fail(f"the attribute {token} is there twice", at)
            self.advance()
            attrs[token] = self.attribute()
            return
        if attrs or rest:
            raise self.fail("operands are first, then ..., then attributes", at)
        if kind == "number":
            operands.append(_number(token))
        elif self.token == "(" and self.kind == "sign":
            operands.append(self.op(token, at))
        elif "." in token:
            raise self.fail(f"{token} cannot name a value: it has a dot", at)
        else:
            operands.append(token)

    def attribute(self) -> Any:
        kind, token, at = self.kind, self.token, self.start
        if kind == "sign" and token == "(":
            return self.tuple()
        self.advance()
        if kind == "number":
            return _number(token)
        if kind == "text":
            return token[1:-1]
        if token in ("True", "False"):
            return token == "True"
        raise self.fail(
            f"a number, a text, True, False or a tuple of numbers is expected, not {token}", at
        )

    def tuple(self) -> tuple[Any, ...]:
        self.expect("(", "'('")
        items = []
        while self.token != ")":
            if self.kind != "number":
                raise self.fail(f"a number is expected, not {self.token}")
            items.append(_number(self.token))
            self.advance()
            if self.token != ")":
                self.expect(",", "',' or ')'")
        self.advance()
        return tuple(items)


def _number(token: str) -> int | float:
    return int(token) if token.lstrip("+-").isdigit() else float(token)


def _check_op(name: str, parser: _Parser, at: int) -> None:
    import json

    if any(op["name"] == name for op in json.loads(_host.explain("ops", name))["ops"]):
        return
    import difflib

    names = [str(op["name"]) for op in json.loads(_host.explain("ops"))["ops"]]
    near = difflib.get_close_matches(name, names, 1)
    raise parser.fail(f"there is no op {name}" + (f"; did you mean {near[0]}?" if near else ""), at)


@functools.lru_cache(maxsize=256)
def parse(text: str) -> Op:
    """A pattern; UsageError T0631 with the place in the text."""
    return _Parser(text).whole()


def match_node(graph: _native.Trace, node: int, pattern: Op, found: Found) -> bool:
    """Whether a node matches. What it binds is in `found`, which is of no use if it does not."""
    op, operands, _, attrs = graph.node_parts(node)
    if op != pattern.name or len(operands) < len(pattern.operands):
        return False
    if len(operands) > len(pattern.operands) and not pattern.rest:
        return False
    if not all(name in attrs and _is(*attrs[name], value) for name, value in pattern.attrs.items()):
        return False
    found.nodes.append(node)
    return all(_match_value(graph, v, p, found) for v, p in zip(operands, pattern.operands))


def _match_value(graph: _native.Trace, value: int | None, pattern: Any, found: Found) -> bool:
    if pattern == "_":
        return True
    if value is None or pattern == _ABSENT:
        return value is None and pattern == _ABSENT
    if isinstance(pattern, str):
        return found.values.setdefault(pattern, value) == value
    if isinstance(pattern, Op):
        node = graph.producer(value)
        return node is not None and match_node(graph, node, pattern, found)
    return _is_number(graph, value, pattern)


def _is_number(graph: _native.Trace, value: int, number: int | float) -> bool:
    """Whether all elements are this number, as the element type has it; also of a broadcast."""
    node = graph.producer(value)
    while node is not None:
        op, operands, _, _ = graph.node_parts(node)
        if op != "broadcast" or operands[0] is None:
            return False
        value = operands[0]
        node = graph.producer(value)
    found = graph.number(value)
    if found is None or _same(found, number):
        return found is not None
    dtype = by_code[graph.type_of(value)[1]]
    return isinstance(found, float) and element(dtype, found) == element(dtype, number)


def _is(kind: int, value: Any, wanted: Any) -> bool:
    """Whether an attribute has a value. Sizes that a run decides are negative, and equal no number."""
    if kind == DIMS and any(size < 0 for size in value):
        return False
    return _same(value, wanted)


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float) and math.isnan(b):
        return math.isnan(a)
    return bool(a == b)
