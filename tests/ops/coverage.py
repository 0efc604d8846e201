#!/usr/bin/env python3
"""Compares the ops of the registry with the planned set, and checks the table in docs/generated.

    tests/ops/coverage.py build/bin/tenon docs/generated/ops_coverage.md [--bless]

The planned names come from planned_ops.txt next to this file, the existing ops from `tenon ops`.
Fails if the table in the tree differs from the one that would be generated, or if the registry has
an op that the list does not name.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent


def registry(tenon):
    """Name -> whether it has (scalar, reference, decomposition), from the pages that tenon
    writes."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([tenon, "ops", "--markdown", "--output-dir", folder], check=True, capture_output=True)
        text = (pathlib.Path(folder) / "README.md").read_text()
    rows = re.findall(r"^\| \[(\w+)\]\([^)]*\) \|(?:[^|\\]|\\.)*\|([^|]*)\|([^|]*)\|([^|]*)\|", text, re.M)
    return {name: [cell.strip() for cell in cells] for name, *cells in rows}


def planned():
    """(family, [(name, [ops])])"""
    for line in (HERE / "planned_ops.txt").read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        family, names = line.split(": ")
        yield family, [(n.split("=")[0], n.split("=")[-1].split("+")) for n in names.split()]


def meaning(cells):
    kinds = [k for k, c in zip(("scalar program", "reference", "decomposition"), cells) if c]
    return ", ".join(kinds)


def table(ops):
    lines, have, all_, known = [], 0, 0, set()
    for family, names in planned():
        for name, parts in names:
            known.update(parts)
            missing = [p for p in parts if p not in ops]
            if not family.startswith("later"):
                all_ += 1
                have += not missing
            shown = ", ".join(f"[{p}](ops/{p}.md)" for p in parts if p in ops)
            how = meaning(ops[parts[0]]) if not missing else "not built yet"
            lines.append(f"| {family} | {name} | {shown} | {how} |")
    head = ["# Coverage of the op set", "",
            f"{have} of {all_} ops of the set are there, and {len(ops)} names in the registry. Written by",
            "`tests/ops/coverage.py` from the registry and `tests/ops/planned_ops.txt`; families that are `later` do not count.",
            "", "| family | op | offered as | meaning by |", "|---|---|---|---|"]
    return "\n".join(head + lines) + "\n", sorted(set(ops) - known)


def main():
    tenon, path = sys.argv[1], pathlib.Path(sys.argv[2])
    text, unnamed = table(registry(tenon))
    if unnamed:
        print(f"planned_ops.txt does not name: {', '.join(unnamed)}", file=sys.stderr)
        return 1
    if "--bless" in sys.argv:
        path.write_text(text)
    elif not path.exists() or path.read_text() != text:
        print(f"{path} is stale: run tests/ops/coverage.py {tenon} {path} --bless", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
