#!/usr/bin/env python3
"""Every stable code in the sources is listed once in core/base/errors/error_codes.def, so that
`tenon explain` can explain it."""

import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROOMS = ("core", "sdk", "plugins", "passes", "frontends", "samples")


def main():
    table = re.findall(
        r"^TENON_ERROR\(([TP]\d{4}),", (ROOT / "core/base/errors/error_codes.def").read_text(), re.M
    )
    used = collections.defaultdict(set)
    for room in ROOMS:
        for path in (ROOT / room).rglob("*"):
            if path.suffix in (".h", ".hpp", ".c", ".cpp") and not path.name.endswith("_test.cpp"):
                for code in re.findall(r'"([TP]\d{4})(?::|")', path.read_text(errors="replace")):
                    used[code].add(path.relative_to(ROOT).as_posix())
    problems = [
        f"{code} is in error_codes.def twice"
        for code, n in collections.Counter(table).items()
        if n > 1
    ]
    problems += [
        f"{code} is not in error_codes.def: {', '.join(sorted(paths))}"
        for code, paths in sorted(used.items())
        if code not in table
    ]
    for line in problems:
        print(line)
    print(f"error codes: {len(table)} in the table, {len(used)} used, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
