"""Patterns of `PassGraph.match`: their text, and whether a value matches.

The grammar is one of its own, since names of ops may be words of Python (`and`, `not`).
"""

from __future__ import annotations

import functools
import math
import operator
import re

from tenon import _host, _native
from tenon._errors import UsageError
from tenon.builder.dtypes import by_code, element
from tenon.builder.trace import DIMS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

_TOKEN = re.compile(
    r"\s*(?:(?P<number>[+-]?(?:inf\b|nan\b|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?))"
    r"|(?P<name>[A-Za-z_][\w-]*(?:\.[\w-]+)*)|(?P<text>\"[^\"]*\"|'[^']*')"
    r"|(?P<sign>\.\.\.|!=|<=|>=|[(){},=<>|#?!]))"
)
_ABSENT, _REST = "None", "..."
_COMPARE = {
    "=": lambda a, b: _same(a, b),
    "!=": lambda a, b: not _same(a, b),
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


class Attr:
    """What an attribute or a note must be: one of some values, or compared with one."""

    def __init__(self, name: str, sign: str, values: list[Any]):
        self.name, self.sign, self.values = name, sign, values


class Op:
    """An op, or one of several, with patterns for its operands, and attributes that it must have."""

    def __init__(self, names: list[str]):
        self.names = names
        self.operands: list[Any] = []
        self.attrs: list[Attr] = []
        self.rest = False
        """More operands may follow."""
        self.commutes = False
        """The two operands may be in either order."""
        self.once = False
        """Its results have one use together."""


class Bind:
    """A name for a value."""

    def __init__(self, name: str, constant: bool, optional: bool):
        self.name, self.constant, self.optional = name, constant, optional


class Either:
    """The first of some patterns that matches."""

    def __init__(self, patterns: list[Any]):
        self.patterns = patterns


class Any_:
    """Any operand, also an absent one."""


class Absent:
    """No operand."""


class Found:
    """What a pattern has met so far, as numbers of the graph. Not changed: `bound` and `met` copy."""

    def __init__(self, values: dict[str, int | None], nodes: list[int]):
        self.values, self.nodes = values, nodes

    def bound(self, name: str, value: int | None) -> Found:
        return Found({**self.values, name: value}, self.nodes)

    def met(self, node: int) -> Found:
        return Found(self.values, [*self.nodes, node])


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

    def at_sign(self, *signs: str) -> bool:
        return self.kind == "sign" and self.token in signs

    def skip(self, sign: str) -> bool:
        if not self.at_sign(sign):
            return False
        self.advance()
        return True

    def whole(self) -> Op:
        if self.kind != "name":
            raise self.fail(f"the name of an op is expected, not {self.token}")
        made = self.op(self.names())
        if self.kind != "end":
            raise self.fail(f"the pattern is complete, and {self.token} follows")
        return made

    def names(self) -> list[tuple[str, int]]:
        """`a|b|c`, as names and their places. An op that follows `|` and has no list is left."""
        found = []
        while True:
            found.append((self.token, self.start))
            self.advance()
            before = self.at, self.start, self.kind, self.token
            if not self.skip("|"):
                return found
            if self.kind != "name":
                self.at, self.start, self.kind, self.token = before
                return found

    def op(self, names: list[tuple[str, int]]) -> Op:
        """What follows the name of an op."""
        made = Op([name for name, _ in names])
        made.commutes = self.at_sign("{")
        end = "}" if made.commutes else ")"
        if not made.commutes:
            self.expect("(", "'('")
        else:
            self.advance()
        for name, at in names:
            _check_op(name, self, at)
        while self.token != end:
            if made.rest and self.kind != "name":
                raise self.fail("nothing but attributes follows ...")
            if self.token == _REST:
                made.rest = True
                self.advance()
            else:
                self.item(made)
            if self.token != end:
                self.expect(",", f"',' or '{end}'")
        self.advance()
        if made.commutes and (len(made.operands) != 2 or made.rest):
            raise self.fail("{...} has two operands, which may be in either order")
        made.once = self.skip("!")
        return made

    def item(self, made: Op) -> None:
        """An operand, or an attribute after all operands."""
        at = self.start
        if self.kind == "name":
            names = self.names()
            if len(names) == 1 and self.at_sign(*_COMPARE):
                self.constraint(names[0][0], at, made)
                return
            first = self.named(names)
        else:
            first = self.term()
        if made.attrs or made.rest:
            raise self.fail("operands are first, then ..., then attributes", at)
        terms = [first]
        while self.skip("|"):
            terms.append(self.term())
        made.operands.append(first if len(terms) == 1 else Either(terms))

    def constraint(self, name: str, at: int, made: Op) -> None:
        sign = self.token
        if any(attr.name == name and "=" in (attr.sign, sign) for attr in made.attrs):
            raise self.fail(f"the attribute {name} is there twice", at)
        self.advance()
        values = [self.attribute()]
        while self.skip("|"):
            values.append(self.attribute())
        if sign != "=" and len(values) > 1:
            raise self.fail(f"{sign} compares with one value", at)
        made.attrs.append(Attr(name, sign, values))

    def term(self) -> Any:
        """An operand without its alternatives."""
        if self.skip("#"):
            if self.kind != "name":
                raise self.fail(f"the name of a constant is expected, not {self.token}")
            return self.named([self._one()], constant=True)
        if self.kind == "number":
            token = self.token
            self.advance()
            return _number(token)
        if self.kind != "name":
            raise self.fail(f"an operand is expected, not {self.token}")
        return self.named(self.names())

    def _one(self) -> tuple[str, int]:
        found = self.token, self.start
        self.advance()
        return found

    def named(self, names: list[tuple[str, int]], constant: bool = False) -> Any:
        first = len(names)  # of the names of ops, which follow those of values
        if self.at_sign("(", "{") and not constant:
            first = next((i for i, (name, _) in enumerate(names) if _is_op(name)), len(names) - 1)
        terms = [self.bind(name, at, constant) for name, at in names[:first]]
        if first < len(names):
            terms.append(self.op(names[first:]))
        return terms[0] if len(terms) == 1 else Either(terms)

    def bind(self, token: str, at: int, constant: bool) -> Any:
        if "." in token or "-" in token:
            raise self.fail(f"{token} cannot name a value: it has a dot or a dash", at)
        if token == "_" and not constant:
            return Any_()
        if token == _ABSENT:
            return Absent()
        return Bind(token, constant, self.skip("?"))

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


def _is_op(name: str) -> bool:
    import json

    return any(op["name"] == name for op in json.loads(_host.explain("ops", name))["ops"])


def _check_op(name: str, parser: _Parser, at: int) -> None:
    if _is_op(name):
        return
    import difflib
    import json

    names = [str(op["name"]) for op in json.loads(_host.explain("ops"))["ops"]]
    near = difflib.get_close_matches(name, names, 1)
    raise parser.fail(f"there is no op {name}" + (f"; did you mean {near[0]}?" if near else ""), at)


@functools.lru_cache(maxsize=256)
def parse(text: str) -> Op:
    """A pattern; UsageError T0631 with the place in the text."""
    return _Parser(text).whole()


def names_of(pattern: Any) -> set[str]:
    """The names that a pattern binds."""
    if isinstance(pattern, Bind):
        return {pattern.name}
    inner = pattern.operands if isinstance(pattern, Op) else getattr(pattern, "patterns", [])
    return set().union(*map(names_of, inner))


def check_names(text: str, pattern: Op, names: Iterable[str]) -> None:
    """UsageError T0631 for a name that the pattern does not bind."""
    known = names_of(pattern)
    for name in names:
        if name not in known:
            raise UsageError(
                f"the pattern {text!r} has no name {name!r}: {', '.join(sorted(known))}", "T0631"
            )


def matches(graph: _native.Trace, node: int, pattern: Op) -> Iterator[Found]:
    """The ways in which a node matches, the first alternatives first."""
    unbound: dict[str, int | None] = dict.fromkeys(names_of(pattern))
    for found in _node(graph, node, pattern, Found({}, [])):
        yield Found({**unbound, **found.values}, found.nodes)


def _node(graph: _native.Trace, node: int, pattern: Op, found: Found) -> Iterator[Found]:
    op, operands, results, attrs = graph.node_parts(node)
    if op not in pattern.names or not _right_count(operands, pattern):
        return
    if pattern.once and sum(len(graph.uses(result)) for result in results) != 1:
        return
    if not all(_attribute_is(graph, node, attrs, attr) for attr in pattern.attrs):
        return
    orders = [operands, operands[::-1]] if pattern.commutes else [operands]
    for order in orders:
        yield from _operands(graph, order, pattern.operands, found.met(node))


def _right_count(operands: list[int | None], pattern: Op) -> bool:
    missing = pattern.operands[len(operands) :]
    if not all(isinstance(p, Bind) and p.optional for p in missing):
        return False
    return pattern.rest or len(operands) <= len(pattern.operands)


def _attribute_is(
    graph: _native.Trace, node: int, attrs: dict[str, tuple[int, object]], wanted: Attr
) -> bool:
    if "." in wanted.name and wanted.name not in attrs:
        notes = graph.notes(0, node)
        return wanted.name in notes and _compared(0, notes[wanted.name], wanted)
    return wanted.name in attrs and _compared(*attrs[wanted.name], wanted)


def _compared(kind: int, value: Any, wanted: Attr) -> bool:
    """Sizes that a run decides are negative, and compare with no number."""
    if kind == DIMS and any(size < 0 for size in value):
        return False
    try:
        return any(bool(_COMPARE[wanted.sign](value, other)) for other in wanted.values)
    except TypeError:  # a text and a number
        return False


def _operands(
    graph: _native.Trace, values: list[int | None], patterns: list[Any], found: Found
) -> Iterator[Found]:
    if not patterns:
        yield found
        return
    for first in _value(graph, values[0] if values else None, patterns[0], found):
        yield from _operands(graph, values[1:], patterns[1:], first)


def _value(graph: _native.Trace, value: int | None, pattern: Any, found: Found) -> Iterator[Found]:
    if isinstance(pattern, Either):
        for one in pattern.patterns:
            yield from _value(graph, value, one, found)
    elif isinstance(pattern, Any_) or (isinstance(pattern, Absent) and value is None):
        yield found
    elif isinstance(pattern, Bind):
        yield from _bind(graph, value, pattern, found)
    elif value is not None and isinstance(pattern, Op):
        node = graph.producer(value)
        if node is not None:
            yield from _node(graph, node, pattern, found)
    elif (
        value is not None and not isinstance(pattern, Absent) and _is_number(graph, value, pattern)
    ):
        yield found


def _bind(graph: _native.Trace, value: int | None, pattern: Bind, found: Found) -> Iterator[Found]:
    if value is None and not pattern.optional:
        return
    if value is not None and pattern.constant and not graph.is_constant(value):
        return
    if pattern.name not in found.values:
        yield found.bound(pattern.name, value)
    elif found.values[pattern.name] == value:
        yield found


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


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float) and math.isnan(b):
        return math.isnan(a)
    return bool(a == b)
