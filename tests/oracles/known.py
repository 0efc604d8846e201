"""Failures that are known: a list of cases that only shrinks.

Each line is the name of a case, a tab, and what is wrong. A case that is listed and passes is an error,
so that a mend takes its lines away.
"""

from __future__ import annotations

import pathlib


class Known:
    def __init__(self, path: pathlib.Path):
        self.path = path
        lines = path.read_text().splitlines() if path.exists() else []
        self.reasons = dict(
            line.split("\t", 1) for line in lines if line and not line.startswith("#")
        )

    def judge(self, ran: set[str], failed: dict[str, str]) -> list[str]:
        """What differs from the list, of the cases that ran."""
        new = [f"{case}: {why}" for case, why in sorted(failed.items()) if case not in self.reasons]
        mended = [case for case in sorted(self.reasons) if case in ran and case not in failed]
        return new + [f"{case}: passes now; take its line from {self.path.name}" for case in mended]

    def write(self, ran: set[str], failed: dict[str, str]) -> None:
        """The list after a run: what failed, and what did not run."""
        kept = {case: why for case, why in self.reasons.items() if case not in ran}
        lines = [
            f"{case}\t{' '.join(why.split())}" for case, why in sorted((kept | failed).items())
        ]
        head = "# Cases that fail, and how. The list only shrinks (known.py).\n"
        self.path.write_text(head + "".join(line + "\n" for line in lines))
