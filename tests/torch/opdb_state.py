"""Verdicts by sample, in a file of lines that only grows while a run goes on."""

from __future__ import annotations

import pathlib
from typing import NamedTuple

FAILURES = ("wrong", "error", "crash", "hang")
"""Verdicts that must not occur, from better to worse."""
RANKS = ("tenon", "mixed", "torch", *FAILURES)
OUTSIDE = ("refused", "untraced")
"""What eager mode, or AOTAutograd without Tenon, cannot do either."""


class Key(NamedTuple):
    """A sample of an entry in one pass; entries are named with their variant."""

    entry: str
    dtype: str
    way: str
    index: int


class State:
    """Verdicts that are known: `state[key] == (verdict, reason)`. One process writes."""

    def __init__(self, path: pathlib.Path):
        self.path = path
        self.verdicts: dict[Key, tuple[str, str]] = {}
        lines = path.read_text(errors="replace").splitlines() if path.exists() else []
        for line in lines:
            parts = line.split("\t")
            if len(parts) == 6 and parts[3].isdigit():
                self.verdicts[Key(parts[0], parts[1], parts[2], int(parts[3]))] = (
                    parts[4],
                    parts[5],
                )

    def add(self, key: Key, verdict: str, reason: str) -> None:
        self.verdicts[key] = (verdict, reason)
        with self.path.open("a") as out:
            out.write("\t".join((*map(str, key), verdict, " ".join(reason.split()))) + "\n")

    def forget(self, verdicts: list[str], names: list[str]) -> None:
        """So that samples with these verdicts run again; "all" means every one."""
        if not verdicts:
            return
        every = "all" in verdicts
        kept = {
            k: v
            for k, v in self.verdicts.items()
            if names and not named(k.entry, names) or not every and v[0] not in verdicts
        }
        self.verdicts = kept
        new = self.path.with_suffix(".new")
        new.write_text("".join("\t".join((*map(str, k), *v)) + "\n" for k, v in kept.items()))
        new.replace(self.path)


def named(entry: str, names: list[str]) -> bool:
    """Whether an entry, or its name without the variant, is among the names; none means all."""
    return not names or entry in names or entry.split("/")[0] in names
