"""Which cases run: a fixed part in `./check`, and all in `./check --full`."""

from __future__ import annotations

import functools
import itertools
import random
import zlib

import onnx_cases
from onnx_cases import SIZES, STRIDES, TYPES, VALUES, Case
from onnx_run import RANDOM

PER_CHUNK = 24
Slot = tuple[Case, ...]
"""Cases in order of preference: the first that an oracle takes runs."""

# What a branch or a body means depends on names of the whole model.
WITH_GRAPHS = ("If", "Loop", "Scan", "SequenceMap")


def _by_operator() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, template in onnx_cases.templates().items():
        if template.operator not in (*RANDOM, *WITH_GRAPHS):
            found.setdefault(template.operator, []).append(name)
    return found


def _values(name: str) -> tuple[str, ...]:
    """A float beyond an integer's range has no value of it."""
    template = onnx_cases.templates()[name]
    narrows = template.operator in (
        "Cast",
        "CastLike",
        "QuantizeLinear",
        "BitCast",
        "Range",
        "Attention",
        "MelWeightMatrix",
        "Bernoulli",
    )
    if template.operator in ("Det", "Inverse"):
        return ("own",)  # equal numbers make matrices singular
    is_number = template.origin.startswith(("float", "int"))
    return VALUES if is_number and not narrows else ("own", "few")


def fixed(seed: str = "") -> list[list[Slot]]:
    """Each template, at least `len(TURNS)` cases of each operator, pairs of types, and earlier versions from opset 7 on."""
    slots = []
    for names in _by_operator().values():
        ordered = by_difference(names)
        for turn in range(max(len(TURNS), len(ordered))):
            slots.append(_slot(ordered[turn % len(ordered)], turn, seed))
        slots += [_pair_slot(n, seed) for n in ordered if _others(n)][:2]
        for version in sorted({v for n in names for v in onnx_cases.versions(n)}):
            having = [n for n in names if version in onnx_cases.versions(n)]
            slots += [_older(version, part, seed) for part in _extremes(having)]
    return _chunks(slots)


def by_difference(names: list[str]) -> list[str]:
    """The templates of an operator, each the one that differs most from those before it."""
    left, seen, ordered = list(names), set(), []
    while left:
        best = max(left, key=lambda n: len(_features(n) - seen))
        seen |= _features(best)
        ordered.append(best)
        left.remove(best)
    return ordered


@functools.cache
def _features(name: str) -> frozenset[str]:
    template = onnx_cases.templates()[name]
    found = {f"{a.name} {a.ListFields()}" for a in template.node.attribute} | {
        f"{a.name} is given" for a in template.node.attribute
    }
    for i, given in enumerate(template.inputs):
        found.add(
            f"input {i} {given and given['t']} {given and len(given['s'])} {given and given.get('v')}"
        )
    return frozenset(found | {f"{len(template.node.output)} outputs"})


NARROW, INTEGERS = ("f16", "bf16"), ("i8", "i16", "i32", "i64", "u8", "bool")
# Types, sizes and values of the cases of an operator: where a narrow intermediate result shows by its
# range, where equal elements, halves and small integers decide, and where many elements show a rounding.
TURNS = (
    (NARROW, ("own", "7"), "wide"),
    (INTEGERS, SIZES, "few"),
    (NARROW, ("70000", "7"), "own"),
    (("f32", "f64"), SIZES, "few"),
    (tuple(TYPES), SIZES, "wide"),
    (NARROW, ("7", "own"), "few"),
)
TIES = ("ArgMax", "ArgMin", "TopK", "MaxPool", "Unique", "Hardmax")
"""Equal elements decide, so a case in two has them."""


def _slot(name: str, turn: int, seed: str) -> Slot:
    draw = random.Random(f"{name} {turn} {seed}")
    kinds, sizes, values = TURNS[turn % len(TURNS)]
    if turn >= len(TURNS):
        kinds, sizes, values = tuple(TYPES), ("own", "7"), draw.choice(VALUES)
    if onnx_cases.templates()[name].operator in TIES and turn % 2:
        sizes, values = ("7", "own"), "few"
    kinds, sizes, rest = list(kinds), list(sizes), [k for k in TYPES if k not in kinds]
    for part in (kinds, rest) if turn == 2 else (kinds, rest, sizes):
        draw.shuffle(part)
    values = values if values in _values(name) else "own"
    first = Case(name, kinds[0], sizes[0], draw.choice(STRIDES), values, onnx_cases.opset_of(name))
    others = [first._replace(type=k, size=s) for k in kinds + rest for s in (*sizes[:2], "own")]
    return (first, *others)


def _others(name: str) -> list[str]:
    """The types that inputs may have whose type does not follow from the open one."""
    template = onnx_cases.templates()[name]
    given = [
        i for i, v in enumerate(template.inputs) if v is not None and not template.is_constant(i)
    ]
    return [
        k for k in TYPES if k != "bool" and any(onnx_cases.is_open(template, i, k) for i in given)
    ]


def _pair_slot(name: str, seed: str) -> Slot:
    draw = random.Random(f"{name} pair {seed}")
    firsts, others = ["f16", "bf16", "f32", "i8", "i64"], _others(name)
    pairs = [f"{a}+{b}" for a, b in itertools.product(firsts, others)]
    draw.shuffle(pairs)
    values = "few" if "few" in _values(name) and draw.random() < 0.3 else "own"
    opset = onnx_cases.opset_of(name)
    return tuple(
        Case(name, pair, draw.choice(("own", "7")), "plain", values, opset) for pair in pairs
    )


def _extremes(names: list[str]) -> list[list[str]]:
    """The templates that leave most to defaults, at the highest rank first, and those that state most."""
    templates = onnx_cases.templates()

    def key(name: str) -> tuple[int, int]:
        t = templates[name]
        return len(t.node.attribute), -max((len(v["s"]) for v in t.inputs if v), default=0)

    least = sorted(names, key=key)
    most = sorted(names, key=lambda n: (-key(n)[0], key(n)[1]))
    return [least, most] if least[0] != most[0] else [least]


def _older(version: int, names: list[str], seed: str) -> Slot:
    draw = random.Random(f"{names[0]} {version} {seed}")
    size = draw.choice(("7", "own"))
    return tuple(Case(name, kind, s, "plain", "own", version)
                 for name, kind, s in itertools.product(names, ("f32", "f16", "i64", "bool"), dict.fromkeys((size, "own"))))  # fmt: skip


def _chunks(slots: list[Slot]) -> list[list[Slot]]:
    """Chunks whose cases share an opset, so that they share a model."""
    found: dict[tuple[str, int], list[Slot]] = {}
    for slot in slots:
        found.setdefault(
            (onnx_cases.templates()[slot[0].call].node.domain, slot[0].opset), []
        ).append(slot)
    return [
        part[i : i + PER_CHUNK]
        for _, part in sorted(found.items())
        for i in range(0, len(part), PER_CHUNK)
    ]


def whole() -> list[list[Slot]]:
    """Each template in each type, where sizes, strides and values take turns, and every earlier version in two types."""
    slots: list[Slot] = []
    for names in _by_operator().values():
        for name in names:
            slots += [(case,) for case in _of(name)]
    return _chunks(slots)


def _of(name: str) -> list[Case]:
    found: dict[Case, None] = {}
    opset, values = onnx_cases.opset_of(name), _values(name)
    for i, kind in enumerate(TYPES):
        turn = zlib.crc32(name.encode()) + i  # neighbouring types differ in all three
        found[
            Case(
                name,
                kind,
                SIZES[turn % 5],
                STRIDES[turn % 3],
                values[turn // 3 % len(values)],
                opset,
            )
        ] = None
        found[
            Case(name, kind, "own", STRIDES[(turn + 1) % 3], values[turn % len(values)], opset)
        ] = None
    for version, kind in itertools.product(onnx_cases.versions(name), ("f32", "i64")):
        found[Case(name, kind, "own", opset=version)] = None
    return list(found)
