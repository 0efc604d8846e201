"""Writes `aten_forms.jsonl`: calls of each operator that has a lowering or a decomposition of ours, made from its schema.

    PYTHONPATH=build/python .venv-torch/bin/python tests/oracles/aten_forms.py

Arguments are drawn by their types and names; of the calls that eager mode takes, those stay that
differ most in the arguments that are given, in ranks and in numbers. Samples of PyTorch's operator database run in
tests/torch; their numbers are mild, and each has one type and size.
"""

from __future__ import annotations

import functools
import json
import pathlib
import random
import signal
from typing import Any

import torch
import torch.ao.quantization.fx._decomposed  # noqa: F401, which defines operators
from tenon.torch.decompositions.foreach import foreach
from tenon.torch.decompositions.registry import composites
from tenon.torch.decompositions.table import table
from tenon.torch.lowerings import overloads

OUT = pathlib.Path(__file__).resolve().parent / "aten_forms.jsonl"
TRIES, PER_ROW = 400, 6
# Numbers that stand for names, which torch does not check everywhere.
ENUMS = {"normalization": 3, "reduction": 3, "mode": 2, "interpolation_mode": 2, "padding_mode": 2}
SHAPES = ([4, 5], [4, 5], [5], [5, 5], [2, 4, 5], [2, 3, 6, 6], [])
NUMBERS = (2, 3, 0.1, 0.7, 100000.0, -1.5, 0.001, 1)
# Those that check no ranks or no places, that eager mode alone has for lists of lists, or that write a place twice:
# their templates are in aten_more.jsonl.
HANDWRITTEN = ("_pdist_", "_cdist_backward", "replication_pad", "searchsorted.Tensor", "aten.put.",
               "embedding_dense_backward")  # fmt: skip
LEFT_OUT = (
    "out",
    "pin_memory",
    "layout",
    "device",
    "generator",
    "memory_format",
    "non_blocking",
    "implicit",
    "sparse",
    "requires_grad",
    "check_errors",
    "driver",
)


def tensor(name: str, draw: random.Random, shape: list[int], data: str) -> dict[str, Any]:
    """A template of a tensor. By its name it has places, truths, or data."""
    if draw.random() < 0.2:
        shape = draw.choice(SHAPES)
    if name in ("index", "indices", "target", "batch", "sorter", "pivots", "LU_pivots"):
        return {"t": "int64", "s": shape, "r": [0, 3]}
    if name in ("mask", "condition"):
        return {"t": "bool", "s": shape, "r": [0, 1]}
    if name in ("sorted_sequence", "boundaries"):
        return {"t": "D", "s": shape, "r": [-9, 9], "f": "s"}
    if name in ("weight", "var", "running_var", "abs"):
        return {"t": "D", "s": shape, "r": [0.1, 2]}
    return {
        "t": "D",
        "s": shape,
        "r": [-9, 9] if data == "int64" else draw.choice(([-9.0, 9.0], [0.01, 0.99])),
    }


def value(kind: str, name: str, draw: random.Random, shape: list[int], data: str) -> Any:
    """One argument by its type; ValueError where there is no idea."""
    rank = len(shape)
    if kind == "Tensor":
        return tensor(name, draw, shape, data)
    if kind == "List[Tensor]":
        return [tensor(name, draw, shape, data) for _ in range(2)]
    if kind == "List[number]":
        return [draw.choice(NUMBERS) for _ in range(2)]
    if kind == "List[Optional[Tensor]]":
        return [{"t": "int64", "s": [3], "r": [0, 3]}]
    if kind in ("number", "Scalar"):
        return draw.choice(NUMBERS[:2] if data == "int64" else NUMBERS)
    if kind == "float":
        return draw.choice((0.5, 0.1, 2.0, 0.001))
    if kind == "bool":
        return draw.random() < 0.5
    if kind == "str":
        return draw.choice(
            (
                "sum",
                "mean",
                "prod",
                "amax",
                "amin",
                "floor",
                "trunc",
                "L",
                "left",
                "right",
                "add",
                "multiply",
                "none",
                "tanh",
            )
        )
    if kind == "ScalarType":
        return {
            "dtype": draw.choice(
                ("D", "float32", "float16", "bfloat16", "float64", "int64", "int32", "bool")
            )
        }
    if name in ENUMS:
        return draw.randrange(ENUMS[name])
    if kind in ("int", "SymInt"):
        return (
            draw.choice((0, 1, -1))
            if "dim" in name or "axis" in name
            else draw.choice((1, 2, 3, 0, -1))
        )
    if kind.startswith("List"):
        return _list(name, draw, shape, rank)
    raise ValueError(kind)


def _list(name: str, draw: random.Random, shape: list[int], rank: int) -> Any:
    if name in ("size", "shape"):
        return draw.choice((shape, [1, *shape], [2, *shape], shape[::-1], [-1]))
    if name in ("dim", "dims", "axis", "axes", "dimension"):
        return draw.choice(([0], [-1], [0, 1], list(range(rank))[::-1]))
    if name in ("pad",):
        return draw.choice(([1, 2], [1, 2, 0, 1], [-1, 2]))
    return draw.choice(([1], [2], [1, 1], [2, 2], [3, 3], [0, 0], [1, 2]))


def call(operator: Any, draw: random.Random, data: str) -> tuple[list[Any], dict[str, Any]]:
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    shape, leaving = draw.choice(SHAPES), False
    for argument in operator._schema.arguments:
        kind = str(argument.real_type)
        optional = argument.has_default_value() or kind.startswith("Optional")
        if argument.name in LEFT_OUT or argument.has_default_value() and draw.random() < 0.4:
            leaving = True
            continue
        if kind.startswith("Optional["):
            kind = kind[9:-1]
        made = (
            None
            if optional and not argument.has_default_value() and draw.random() < 0.3
            else value(kind, argument.name, draw, shape, data)
        )
        if argument.kwarg_only or leaving:
            kwargs[argument.name] = made
        else:
            args.append(made)
    return args, kwargs


def takes(operator: Any, args: Any, kwargs: Any, data: str) -> bool:
    from aten_cases import Case, Maker, Template

    maker = Maker(
        Case("", {"float32": "f32", "int64": "i64"}[data]),
        Template(str(operator), args, kwargs, data),
    )
    try:
        with torch.no_grad():
            made, named = maker.arguments(0)
            operator(*made, **named)
    except Exception:
        return False
    return True


def forms(name: str) -> list[str]:
    """The calls of an overload that are kept."""
    operator: Any = torch.ops
    for part in name.split("."):
        operator = getattr(operator, part)
    if operator._schema.is_mutable:
        return []
    draw, found = random.Random(name), {}
    for turn in range(TRIES):
        data = "float32" if turn % 4 else "int64"
        try:
            args, kwargs = call(operator, draw, data)
        except ValueError:
            return []
        form = json.dumps(
            [[_form(v) for v in args], [[k, _form(v)] for k, v in sorted(kwargs.items())]]
        )
        if form not in found and takes(operator, args, kwargs, data):
            found[form] = json.dumps([name, args, kwargs, data])
    return list(_differing(found).values())


def _differing(found: dict[str, str]) -> dict[str, str]:
    """The forms that bring most that none before them has: ranks, types, names, truths, arguments left out."""
    left, seen, kept = dict(found), set(), {}
    while left and len(kept) < PER_ROW:
        best = max(left, key=lambda form: (len(_parts(form) - seen), -list(found).index(form)))
        seen |= _parts(best)
        kept[best] = left.pop(best)
    return kept


@functools.cache
def _parts(form: str) -> frozenset[str]:
    args, kwargs = json.loads(form)
    return frozenset([f"{i} {v}" for i, v in enumerate(args)] + [f"{k} {v}" for k, v in kwargs])


def _form(x: Any) -> Any:
    if isinstance(x, dict):
        return [x.get("t"), len(x.get("s", []))] if "t" in x else "type"
    if isinstance(x, list):
        return [len(x)] if not x or not isinstance(x[0], int) else x
    return x if isinstance(x, (float, bool, str)) or x is None else type(x).__name__


def decomposed() -> list[str]:
    """Overloads that we take apart; of those over lists, one in each kind of list."""
    table()  # imports the modules of composites
    lists = {"_foreach_add", "_foreach_addcdiv", "_foreach_clamp_max", "_foreach_lerp", "_foreach_norm", "_foreach_pow",
             "_foreach_exp", "_foreach_sub"}  # fmt: skip
    return [str(o) for o in composites()] + [
        str(o) for o in foreach() if str(o).split(".")[1] in lists
    ]


def main() -> None:
    signal.alarm(600)
    torch.set_num_threads(1)
    lines = []
    for name in sorted({*overloads(), *decomposed()}):
        if any(word in name for word in HANDWRITTEN):
            continue
        try:
            lines += forms(name)
        except AttributeError:  # the package that defines it is not loaded
            continue
    OUT.write_text("".join(line + "\n" for line in lines))


if __name__ == "__main__":
    main()
