"""Which cases run: a fixed part in `./check`, and all in `./check --full`."""

from __future__ import annotations

import functools
import random
import zlib

import aten_cases
import torch
from aten_cases import SIZES, STRIDES, TYPES, VALUES, Case, Template

PER_CHUNK = 24
Slot = tuple[Case, ...]
"""Cases in order of preference: the first that eager mode takes runs."""
FIXED = (1, 2)
"""The least and the most cases of an overload in the fixed part, besides one whose numbers change."""

# Results that are random, or whatever was in memory.
OTHERS = (
    "empty",
    "new_empty",
    "empty_like",
    "empty_strided",
    "empty_permuted",
    "new_empty_strided",
)
# Operators or templates whose results cannot be compared, with the reason.
UNDEFINED = {
    "aten.rsub.Tensor#0": "a product that eager mode rounds in its scalar loop only",
    "_weight_norm_interface_backward": "norms of another shape than the weight's",
    "_linalg_eigh": "vectors of any sign",
    "linalg_eig": "values in any order",
    "linalg_cholesky_ex": "a matrix that is not positive definite",
    "_reshape_alias": "strides that are not those of the tensor",
    "collapse_view": "torch.compile refuses it; graphs that torch.export made have it",
    "bucketize": "limits that are not sorted",
    "_embedding_bag": "counts that torch leaves out where bags are empty",
}
RESIZED = {f"aten.upsample_nearest{rank}d.default" for rank in (1, 2, 3)}


def is_undefined(name: str, template: Template) -> bool:
    operator = template.overload.split(".")[1]
    if template.overload in RESIZED:
        return len(template.args) > 2 or bool(
            template.kwargs
        )  # a random factor contradicts the size
    return name in UNDEFINED or operator in UNDEFINED


def is_random(template: Template) -> bool:
    name = template.overload.split(".")[1]
    return (
        torch.Tag.nondeterministic_seeded in template.operator.tags
        or name in OTHERS
        or "normal" in name
    )


def data_decides(template: Template) -> bool:
    tags = template.operator.tags
    return torch.Tag.data_dependent_output in tags or torch.Tag.dynamic_output_shape in tags


@functools.cache
def chosen() -> dict[str, Template]:
    return {
        name: t
        for name, t in aten_cases.templates().items()
        if not is_random(t) and not is_undefined(name, t)
    }


def _values(template: Template, kind: str) -> tuple[str, ...]:
    """Values of 1e-4 to 6e4 and whole integers make sense where the tensors were floats in the sample.

    A float beyond an integer's range has no value of it, in torch.
    """
    narrows = any(word in str(template) for word in ("'dtype': 'int", "'dtype': 'uint"))
    solves = (
        "linalg" in template.overload or "triangular" in template.overload
    )  # what is nearly singular has any solution
    return VALUES if template.origin == "float32" and not narrows and not solves else ("own",)


def fixed(seed: str = "") -> list[list[Slot]]:
    """Chunks of the fixed part. Types, sizes, strides and values are chosen by the name of the call."""
    by_overload: dict[str, list[str]] = {}
    for name, template in chosen().items():
        by_overload.setdefault(template.overload, []).append(name)
    plain, data, five = [], [], []
    for names in by_overload.values():
        for i in range(min(max(FIXED[0], len(names)), FIXED[1])):
            name = names[i % len(names)]
            into = data if data_decides(chosen()[name]) else plain
            into.append(_slot(name, i, seed))
        with_numbers = [n for n in names if aten_cases.numbers_of(chosen()[n])]
        five += [_numbers_slot(n, seed) for n in with_numbers[:1]]
    return [c for part in (plain, data, five) for c in _chunks(part)]


def _slot(name: str, turn: int, seed: str) -> Slot:
    """The first case has a narrow float, a second one another type."""
    draw = random.Random(f"{name} {turn} {seed}")
    narrow, other = (
        ["f16", "bf16"],
        draw.choice((["i8", "i16", "i32", "i64", "u8", "bool"], ["f32", "f64"], list(TYPES))),
    )
    kinds = narrow if turn == 0 else other
    rest = [k for k in TYPES if k not in kinds]
    draw.shuffle(kinds)
    draw.shuffle(rest)
    sizes, strides = list(SIZES), list(STRIDES)
    draw.shuffle(sizes)
    values = list(_values(chosen()[name], kinds[0]))
    draw.shuffle(values)
    first = Case(name, kinds[0], sizes[0], draw.choice(strides), values[0])
    others = [first._replace(type=k, size=s) for k in kinds + rest[:3] for s in (*sizes[:2], "own")]
    return (first, *others, first._replace(size="own", type="f32"), Case(name, "f32"))


def _numbers_slot(name: str, seed: str) -> Slot:
    draw = random.Random(f"{name} numbers {seed}")
    kinds = draw.choice((["f32", "f16"], ["f16", "f32"], ["bf16", "f32"], ["f64", "f32"]))
    return tuple(Case(name, kind, numbers="five") for kind in (*kinds, "i64", "i32"))


def _chunks(slots: list[Slot]) -> list[list[Slot]]:
    return [slots[i : i + PER_CHUNK] for i in range(0, len(slots), PER_CHUNK)]


def whole() -> list[list[Slot]]:
    """Chunks of all cases: each template in each type, where sizes, strides and values take turns."""
    plain, data, five = [], [], []
    for name, template in chosen().items():
        into = data if data_decides(template) else plain
        for case in _of(name, template):
            into.append((case,))
        if aten_cases.numbers_of(template):
            five += [(Case(name, kind, numbers="five"),) for kind in ("f16", "bf16", "f32", "i64")]
    return [c for part in (plain, data, five) for c in _chunks(part)]


def _of(name: str, template: Template) -> list[Case]:
    found = []
    for i, kind in enumerate(TYPES):
        values, turn = (
            _values(template, kind),
            zlib.crc32(name.encode()) + i,
        )  # neighbouring types differ in all three
        found.append(
            Case(name, kind, SIZES[turn % 5], STRIDES[turn % 4], values[turn // 4 % len(values)])
        )
    return found
