"""Rows of tenon.torch against eager PyTorch, over types, sizes, strides, values, and numbers that change.

    python3 oracle_torch.py check                          # the fixed part, as `ctest -R oracle_torch` does
    python3 oracle_torch.py whole --folder FOLDER --part 1/2   # all cases, with CHECK_FULL=1; goes on where it was cut
    python3 oracle_torch.py one "aten.add.Tensor#0 f16 size=7 strides=step values=wide numbers=fixed"
    python3 oracle_torch.py bless                          # writes known_torch.txt and stays_torch.txt

`--only TEXT` takes cases whose overload has the text, `--seed TEXT` makes another choice of cases.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import command

FOLDER = command.caches()
try:
    import torch  # noqa: F401
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

import aten_choice  # noqa: E402
import aten_run  # noqa: E402
from aten_cases import Case  # noqa: E402
from aten_run import Ready, Verdict  # noqa: E402


def first(slots: list[aten_choice.Slot]) -> Iterator[Any]:
    """Finds the cases that eager mode takes, and runs them in the first process."""
    aten_run.set_up()
    group: dict[str, Ready] = {}  # two slots may come to the same case
    for slot in slots:
        yield "begun", f"{slot[0]}"
        made = next((r for case in slot if (r := aten_run.ready(case))), None)
        if made is None:
            yield "count", "refused", 1
        else:
            group[str(made.case)] = made
    for part in parts(list(group.values())):
        yield "group", [str(made.case) for made in part]
        for verdict in run(part, aten_run.run_first):
            yield "verdict", verdict
        rounding = [made for made in part if aten_run.is_rounding(made.case)]
        for verdict in run(rounding, aten_run.run_rounded) if rounding else ():
            yield "verdict", verdict


def second(groups: list[list[str]]) -> Iterator[Any]:
    aten_run.set_up()
    for names in groups:
        yield "begun", ", ".join(names)
        group = [made for name in names if (made := aten_run.ready(Case.parse(name)))]
        before = aten_run.logged.from_cache
        for verdict in run(group, aten_run.run_second):
            yield "verdict", verdict
        yield (
            "count",
            "graphs from torch's cache in the second process",
            aten_run.logged.from_cache - before,
        )


def parts(group: list[Ready]) -> list[list[Ready]]:
    """The cases that Tenon computes, and those that stay in torch: a graph with these is not kept on disk."""
    stays = ORACLE.stays.reasons
    both = [[made for made in group if (str(made.case) in stays) == stay] for stay in (False, True)]
    return [part for part in both if part]


def run(group: list[Ready], way: Any) -> list[Verdict]:
    """The verdicts of a group. Where all of it fails or runs in torch, cases run without the one that is to blame."""
    try:
        found = list(way(group))
    except Exception as error:
        if len(group) == 1:
            text = f"{type(error).__name__}: {str(error).strip()[:200]}"
            return [Verdict(str(group[0].case), "all", f"error: {text}")]
        half = len(group) // 2
        found = run(group[:half], way) + run(group[half:], way)
        return found or [
            Verdict(
                str(group[0].case), "all", f"a group of {len(group)} fails, no half of it: {error}"
            )
        ]
    if len(group) == 1:
        return [v._replace(case=str(group[0].case)) for v in found]
    own = [v for v in found if v.case]
    if any(v.problem.startswith("ran in torch") for v in found):
        half = len(group) // 2
        return own + run(group[:half], way) + run(group[half:], way)
    refused = {v.problem.split(":")[1].strip() for v in found if not v.case}
    blamed = [made for made in group if made.template.overload in refused]
    rest = [made for made in group if made not in blamed]
    if not refused:
        return own
    again = [v for made in blamed or rest for v in run([made], way)]
    return own + again + (run(rest, way) if blamed and rest else [])


ORACLE = command.Oracle("torch", first, second, aten_choice.fixed, aten_choice.whole, lambda text: [(Case.parse(text),)],
                        "stays in torch", aten_choice.uncovered)  # fmt: skip

if __name__ == "__main__":
    sys.exit(command.main(ORACLE, __doc__, FOLDER))
