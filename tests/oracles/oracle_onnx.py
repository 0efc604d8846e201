"""Importers of ONNX operators against ONNX Runtime and onnx.reference, over types, sizes, strides, values and opsets.

    python3 oracle_onnx.py check                          # the fixed part, as `ctest -R oracle_onnx` does
    python3 oracle_onnx.py whole --folder FOLDER --part 1/2   # all cases, with CHECK_FULL=1; goes on where it was cut
    python3 oracle_onnx.py one "Add/test_add f16 size=7 strides=step values=wide opset=23"
    python3 oracle_onnx.py bless                          # writes known_onnx.txt and stays_onnx.txt

`--only TEXT` takes cases whose operator has the text, `--seed TEXT` makes another choice of cases.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import command

FOLDER = command.caches()

import onnx_choice  # noqa: E402
import onnx_run  # noqa: E402
from onnx_cases import Case  # noqa: E402
from onnx_run import Ready, Verdict  # noqa: E402


def first(slots: list[onnx_choice.Slot]) -> Iterator[Any]:
    """Finds the cases that an oracle takes, and runs them in the first process: cold, and from the cache."""
    group: dict[str, Ready] = {}  # two slots may come to the same case
    for slot in slots:
        yield "begun", f"{slot[0]}"
        made = next((r for case in slot if (r := onnx_run.ready(case))), None)
        if made is None:
            yield "count", "refused", 1
        else:
            group[str(made.case)] = made
            yield "count", f"by {made.oracle}", 1
    stays = ORACLE.stays.reasons
    for part in (
        [m for c, m in group.items() if c not in stays],
        *([m] for c, m in group.items() if c in stays),
    ):
        if part:
            yield "group", [str(made.case) for made in part]
            for verdict in run(part, ["cold", "warm"]):
                yield "verdict", verdict


def second(groups: list[list[str]]) -> Iterator[Any]:
    for names in groups:
        yield "begun", ", ".join(names)
        group = [made for name in names if (made := onnx_run.ready(Case.parse(name)))]
        for verdict in run(group, ["second"]):
            yield "verdict", verdict


def run(group: list[Ready], whens: list[str]) -> list[Verdict]:
    """The verdicts of a group. A group that fails is halved, until a case fails alone."""
    try:
        return list(onnx_run.run(group, whens))
    except Exception as error:
        if len(group) > 1:
            half = len(group) // 2
            found = run(group[:half], whens) + run(group[half:], whens)
            return found or [
                Verdict(
                    str(group[0].case),
                    whens[0],
                    f"a group of {len(group)} fails, no half of it: {error}",
                )
            ]
        code = onnx_run.refusal(error)
        text = " ".join(f"{type(error).__name__}: {error}".split())[:240]
        return [
            Verdict(
                str(group[0].case),
                whens[0],
                f"refused: {code}: {text}" if code else f"error: {text}",
            )
        ]


ORACLE = command.Oracle("onnx", first, second, onnx_choice.fixed, onnx_choice.whole, lambda text: [(Case.parse(text),)],
                        "is refused")  # fmt: skip

if __name__ == "__main__":
    sys.exit(command.main(ORACLE, __doc__, FOLDER))
