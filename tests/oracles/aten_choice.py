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

# Results that are random, or whatever was in memory.
OTHERS = (
    "empty",
    "new_empty",
    "empty_like",
    "empty_strided",
    "empty_permuted",
    "new_empty_strided",
)
# Operators that read strides which they do not support, and give whatever was in memory.
PLAIN = {
    "_int_mm",
    "adaptive_max_pool3d_backward",
    "fractional_max_pool2d_backward",
    "fractional_max_pool3d_backward",
}
# Operators or templates whose results cannot be compared, with the reason.
UNDEFINED = {
    "aten.rsub.Tensor#0": "a product that eager mode rounds in its scalar loop only",
    "_weight_norm_interface_backward": "norms of another shape than the weight's",
    "_linalg_eigh": "vectors of any sign",
    "linalg_eig": "values in any order",
    "linalg_cholesky_ex": "a matrix that is not positive definite",
    "_reshape_alias": "strides that are not those of the tensor",
    "collapse_view": "torch.compile refuses it; graphs that torch.export made have it",
    "_embedding_bag_forward_only": "indices that torch reads without their strides, and sums of 16 bits",
    "_embedding_bag": "counts that torch leaves out where bags are empty",
}
RESIZED = {f"aten.upsample_nearest{rank}d.default" for rank in (1, 2, 3)}


# Overloads with a lowering or a decomposition of ours that have no template here: the module of
# tests/torch that has them, or why nothing can.
ELSEWHERE = {
    "_c10d_functional.all_gather_into_tensor.default": "test_processes",
    "_c10d_functional.all_reduce.default": "test_processes",
    "_c10d_functional.all_to_all_single.default": "test_processes",
    "_c10d_functional.broadcast.default": "test_processes",
    "_c10d_functional.reduce_scatter_tensor.default": "test_processes",
    "_c10d_functional.wait_tensor.default": "test_processes",
    "_c10d_functional_autograd.all_gather_into_tensor.default": "test_processes",
    "_c10d_functional_autograd.all_to_all_single.default": "test_processes",
    "_c10d_functional_autograd.reduce_scatter_tensor.default": "test_processes",
    "associative_scan": "test_control", "cond": "test_control", "map_impl": "test_control",
    "scan": "test_control", "while_loop": "test_control",
    "while_loop_stack_output": "test_control", "with_effects": "test_effects",
    "aten._embedding_bag_backward.default": "test_bags",
    "aten._embedding_bag_per_sample_weights_backward.default": "test_bags",
    "aten._grouped_mm.default": "test_grouped",
    "transformers.grouped_mm_fallback.default": "test_grouped",
    "aten._scaled_dot_product_flash_attention_for_cpu_backward.default": "test_saved",
    "aten._linalg_check_errors.default": "test_linalg",
    "aten.copy_.default": "test_aliases",
    "aten.empty_permuted.default": "its elements are whatever was in memory",
    "aten.sum.dim_DimnameList": "torch has no names of dims in a graph",
    "prims.normal.default": "its elements are random",
    "quantized_decomposed.choose_qparams_per_token.default": "test_quantised",
    "quantized_decomposed.dequantize_per_channel_group.default": "test_quantised",
    "quantized_decomposed.dequantize_per_tensor.tensor2": "test_quantised",
    "quantized_decomposed.quantize_per_channel_group.default": "test_quantised",
    "tenon_torch.one_hot.default": "test_backend",
}  # fmt: skip


def uncovered() -> dict[str, str]:
    """Overloads with a lowering or a decomposition of ours, but without a template or a line above."""
    from tenon.torch.decompositions import table
    from tenon.torch.decompositions.registry import composites
    from tenon.torch.lowerings import overloads

    table.table()  # imports the modules of composites
    known = {t.overload for t in aten_cases.templates().values()} | ELSEWHERE.keys()
    missing = {*map(str, overloads()), *map(str, composites())} - known
    return dict.fromkeys(missing, "it has no template: add one to aten_more.jsonl")


def is_undefined(name: str, template: Template) -> bool:
    operator = template.overload.split(".")[1]
    if template.overload in RESIZED:
        return len(template.args) > 2 or bool(
            template.kwargs
        )  # a random factor contradicts the size
    if "polynomial" in operator and "100000.0" in str(template.args):
        return True  # infinities that cancel
    if operator == "topk" and (
        template.args[4:] == [False] or template.kwargs.get("sorted") is False
    ):
        return True  # in any order
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


# What is nearly singular has any solution, and equal numbers make matrices singular.
SOLVES = (
    "linalg",
    "triangular",
    "svd",
    "cholesky",
    "lu_",
    "ormqr",
    "householder",
    "geqrf",
    "inverse",
)


def _values(template: Template) -> tuple[str, ...]:
    """Values of 1e-4 to 6e4 and whole integers make sense where the tensors were floats in the sample.

    A float beyond an integer's range has no value of it, in torch.
    """
    narrows = any(word in str(template) for word in ("'dtype': 'int", "'dtype': 'uint"))
    if any(word in template.overload for word in (*SOLVES, "fractional")):
        return ("own",)  # fractions stay between 0 and 1
    return VALUES if template.origin == "float32" and not narrows else ("own", "few")


def fixed(seed: str = "") -> list[list[Slot]]:
    """Chunks of the fixed part. Types, sizes, strides and values are chosen by the name of the call."""
    by_overload: dict[str, list[str]] = {}
    for name, template in chosen().items():
        by_overload.setdefault(template.overload, []).append(name)
    plain, data, five = [], [], []
    for names in by_overload.values():
        ordered, telling = by_difference(names)
        into = data if data_decides(chosen()[names[0]]) else plain
        is_series = any(word in names[0] for word in SERIES)
        turns = (0, 2) if is_series else range(max(len(TURNS), telling))
        for turn in turns:
            into.append(_slot(ordered[turn % len(ordered)], turn, seed))
            if turn == 1 and into[-1][0].size == "0":  # what it chooses shows with elements only
                into.append(_slot(into[-1][0].call, len(TURNS) + turn, seed))
        paired = [n for n in ordered if _is_paired(chosen()[n]) and not is_series]
        into += [_pair_slot(n, seed) for n in paired[:1]]
        into += [_whole_slot(n, seed) for n in _worded(ordered)]
        five += [_numbers_slot(n, seed) for n in _with_numbers(ordered)]
    return [c for part in (plain, data, five) for c in _chunks(part)]


def by_difference(names: list[str]) -> tuple[list[str], int]:
    """The templates of an overload, each the one that differs most from those before it.

    And how many of them bring a choice that none before had: a name, a truth, an argument left out.
    """
    left, seen, ordered, telling = list(names), set(), [], 0
    while left:
        best = max(left, key=lambda n: len(_features(n) - seen))
        new = _features(best) - seen
        telling = len(ordered) + 1 if any(f[1] == "choice" for f in new) else telling
        seen |= new
        ordered.append(best)
        left.remove(best)
    return ordered, telling


@functools.cache
def _features(name: str) -> frozenset[tuple[str, str, str]]:
    """What tells a template: of each argument whether it is given, ranks and types of tensors, values of the rest."""
    template = chosen()[name]
    found = {("origin", "", template.origin)}
    for i, argument in enumerate(template.operator._schema.arguments):
        given = i < len(template.args) or argument.name in template.kwargs
        value = template.args[i] if i < len(template.args) else template.kwargs.get(argument.name)
        if not given:
            value = argument.default_value if argument.has_default_value() else None
        if aten_cases.is_tensor(value):
            found.add((argument.name, "tensor", f"{value['t']} {len(value['s'])}"))
        elif value is None or isinstance(value, (bool, str)):
            found.add((argument.name, "choice", str(value)))
        elif isinstance(value, list) and aten_cases.tensors_in(value):
            found.add((argument.name, "tensors", str(len(value))))
        else:
            found.add((argument.name, "value", str(value)))
    return frozenset(found)


# Families that one function of ours makes, of floats: fewer cases cover them.
SERIES = ("bessel", "polynomial", "logspace", "linspace")
NARROW = ("f16", "bf16")
# Types, sizes and values of the first cases of an overload: where a narrow intermediate result shows by
# its range, where equal elements, halves and small integers decide, and where many elements show a rounding.
TURNS = (
    (NARROW, ("own", "7"), "wide"),
    (tuple(TYPES), SIZES, "few"),
    (NARROW, ("70000", "7"), "own"),
)
LATER = (("f32", *NARROW, "i32"), ("own", "7", "1"), "few")
PAIRS = (
    "f16+f32", "f32+f16", "bf16+f32", "f32+bf16", "f32+f64", "f16+i64", "i64+f16", "bf16+i32", "i32+f32", "i64+i32",
    "u8+i8", "i16+u8", "bool+f16", "f32+bool",
)  # fmt: skip


def _slot(name: str, turn: int, seed: str) -> Slot:
    draw = random.Random(f"{name} {turn} {seed}")
    kinds, sizes, values = TURNS[turn] if turn < len(TURNS) else LATER
    kinds, sizes, rest = list(kinds), list(sizes), [k for k in TYPES if k not in kinds]
    if any(word in name for word in SERIES):
        kinds, rest = ["f32"], []
    elif turn == 1:
        kinds = draw.choice((["i8", "i16", "i32", "i64", "u8", "bool"], ["f32", "f64"], kinds))
    for part in (kinds, sizes, rest) if turn != 2 else (kinds, rest):
        draw.shuffle(part)
    if any(word in name for word in SOLVES):
        sizes = ["own", "7"]
    values = values if values in _values(chosen()[name]) else "own"
    # A repeated element leaves no choice among few.
    strides = draw.choice([s for s in STRIDES if s != "spread" or values != "few"])
    first = Case(name, kinds[0], sizes[0], strides, values)
    if chosen()[name].overload.split(".")[1] in PLAIN:
        first = first._replace(strides="plain")
    others = [
        first._replace(type=k, size=s) for k in (*kinds, *rest[:3]) for s in (*sizes[:2], "own")
    ]
    return (first, *others, first._replace(size="own", type="f32"), Case(name, "f32"))


def _worded(ordered: list[str]) -> list[str]:
    """A template for each word of an argument, such as `rounding_mode="floor"`, which often has a rule for integers."""
    found: dict[tuple[str, str], str] = {}
    for name in ordered:
        template = chosen()[name]
        names = [a.name for a in template.operator._schema.arguments]
        for where, value in [*zip(names, template.args), *template.kwargs.items()]:
            if isinstance(value, str):
                found.setdefault((where, value), name)
    return list(dict.fromkeys(found.values()))


def _whole_slot(name: str, seed: str) -> Slot:
    """Integers of both signs, some of which do not divide each other."""
    draw = random.Random(f"{name} whole {seed}")
    kinds = ["i16", "i32", "i64"]
    draw.shuffle(kinds)
    sizes = [draw.choice(("own", "70000")), "own", "7"]
    return tuple(Case(name, kind, size) for kind in kinds for size in sizes)


def _is_paired(template: Template) -> bool:
    tensors = aten_cases.tensors_in([template.args, template.kwargs])
    return sum(t["t"] == "D" for t in tensors) > 1 and template.origin != "complex64"


def _pair_slot(name: str, seed: str) -> Slot:
    """Two types; some operators take no pair at all, so only few are tried."""
    draw = random.Random(f"{name} pair {seed}")
    kinds = list(PAIRS)
    draw.shuffle(kinds)
    values = "few" if "few" in _values(chosen()[name]) and draw.random() < 0.3 else "own"
    return tuple(Case(name, kind, draw.choice(("own", "7")), "plain", values) for kind in kinds)


def _with_numbers(ordered: list[str]) -> list[str]:
    """The templates with the most numbers that are floats, and that are integers."""
    found = []
    for kind in (float, int):
        counts = {n: _numbers(chosen()[n], kind) for n in ordered}
        most = max(counts.values())
        found += [n for n in ordered if most and counts[n] == most][:1]
    return list(dict.fromkeys(found))


def _numbers(template: Template, kind: type) -> int:
    places = aten_cases.numbers_of(template)
    given = [template.args[p] if isinstance(p, int) else template.kwargs[p] for p in places]
    return sum(isinstance(v, kind) for v in given)


def _numbers_slot(name: str, seed: str) -> Slot:
    draw = random.Random(f"{name} numbers {seed}")
    kinds = draw.choice((["f32", "f16"], ["f32", "bf16"], ["f64", "f32"], ["f16", "f32"]))
    kinds = ["f32"] if any(word in name for word in SERIES) else kinds
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
            _values(template),
            zlib.crc32(name.encode()) + i,
        )  # neighbouring types differ in all three
        is_plain = template.overload.split(".")[1] in PLAIN
        strides = "plain" if is_plain else STRIDES[turn % 4]
        found.append(Case(name, kind, SIZES[turn % 5], strides, values[turn // 4 % len(values)]))
    return found
