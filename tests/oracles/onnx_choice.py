"""Which cases run: a fixed part in `./check`, and all in `./check --full`."""

from __future__ import annotations

import itertools
import random
import zlib

import onnx_cases
from onnx_cases import SIZES, STRIDES, TYPES, VALUES, Case
from onnx_run import RANDOM

PER_CHUNK = 24
FIXED = 4
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
    )
    return VALUES if template.origin.startswith(("float", "int")) and not narrows else ("own",)


def fixed(seed: str = "") -> list[list[Slot]]:
    """Four cases of each operator, and one of each earlier version from opset 7 on."""
    slots = []
    for names in _by_operator().values():
        for turn in range(FIXED):
            slots.append(_slot(names[turn % len(names)], turn, seed))
        older = {
            v: [n for n in names if v in onnx_cases.versions(n)]
            for n in names
            for v in onnx_cases.versions(n)
        }
        slots += [_older(v, having, seed) for v, having in sorted(older.items())]
    return _chunks(slots)


def _slot(name: str, turn: int, seed: str) -> Slot:
    draw = random.Random(f"{name} {turn} {seed}")
    kinds = [
        ["f16", "bf16"],
        ["i8", "i16", "i32", "i64", "u8", "bool"],
        ["f32", "f64"],
        list(TYPES),
    ][turn % 4]
    rest = [k for k in TYPES if k not in kinds]
    draw.shuffle(kinds)
    draw.shuffle(rest)
    sizes, values = list(SIZES), list(_values(name))
    draw.shuffle(sizes)
    draw.shuffle(values)
    first = Case(
        name, kinds[0], sizes[0], draw.choice(STRIDES), values[0], onnx_cases.opset_of(name)
    )
    others = [first._replace(type=k, size=s) for k in kinds + rest for s in (*sizes[:2], "own")]
    return (first, *others)


def _older(version: int, names: list[str], seed: str) -> Slot:
    draw = random.Random(f"{names[0]} {version} {seed}")
    return tuple(Case(name, kind, size, "plain", "own", version)
                 for name, kind, size in itertools.product(names, ("f32", "i64", "bool"), (draw.choice(("7", "own")), "own")))  # fmt: skip


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
