#!/usr/bin/env python3
"""Sizes and offsets of every record of sdk/tenon/tenon.h and sdk/tenon/abi, compared with layout.txt.

    layout.py --include sdk            compares; exits with 1 on a difference
    layout.py --include sdk --bless    writes layout.txt and prints what CHANGELOG.md must mention

A change of layout without a line in sdk/tenon/abi/CHANGELOG.md fails: the line must contain the
newest layout's digest.
"""

import argparse
import difflib
import hashlib
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ABI = HERE.parent.parent / "sdk" / "tenon" / "abi"
TABLE = HERE / "layout.txt"

RECORD = re.compile(r"^\s*0 \| (?:struct|union) (tenon_\w+)$")
FIELD = re.compile(r"^\s*(\d+) \|( +)(.*)$")
SIZE = re.compile(r"\[sizeof=(\d+), align=(\d+)")


def dump(include, compiler):
    headers = sorted(h.name for h in ABI.glob("*.h"))
    source = "".join(f"#include <tenon/abi/{h}>\n" for h in headers) + "#include <tenon/tenon.h>\n"
    return subprocess.run(
        [
            compiler,
            "-std=c11",
            "-I",
            include,
            "-fsyntax-only",
            "-Xclang",
            "-fdump-record-layouts-complete",
            "-x",
            "c",
            "-",
        ],
        input=source,
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def table(text):
    """Records with their own fields; fields of a nested record are listed under its name."""
    records = {}
    for block in text.split("*** Dumping AST Record Layout"):
        lines = [line for line in block.splitlines() if line.strip()]
        match = RECORD.match(lines[0]) if lines else None
        if not match:
            continue
        fields = []
        for line in lines[1:]:
            field = FIELD.match(line)
            if (
                field and len(field[2]) == 3
            ):  # three blanks: a field of this record; more: of a nested record
                fields.append(
                    f"  {field[1]:>4}  {field[3].rsplit(' ', 1)[-1]}: {field[3].rsplit(' ', 1)[0]}"
                )
        fields = [re.sub(r"\(unnamed at [^)]*\)", "(unnamed)", f) for f in fields]
        size = SIZE.search(block)
        records[match[1]] = [f"{match[1]} size {size[1]} align {size[2]}"] + fields
    return "".join("\n".join(records[name]) + "\n\n" for name in sorted(records))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--include", required=True)
    parser.add_argument("--compiler", default="clang-19")
    parser.add_argument("--bless", action="store_true")
    arguments = parser.parse_args()
    now = table(dump(arguments.include, arguments.compiler))
    digest = hashlib.sha256(now.encode()).hexdigest()[:8]
    if now.count("\n\n") < 20:
        print("layout.py found hardly any record: did clang change its output?")
        return 1
    if arguments.bless:
        TABLE.write_text(now)
        print(
            f"wrote {TABLE}; sdk/tenon/abi/CHANGELOG.md must have a line that says what changed and ends in (layout {digest}); then history.py --bless and released/build.py --now {arguments.include}"
        )
        return 0
    before = TABLE.read_text() if TABLE.exists() else ""
    failed = False
    if before != now:
        failed = True
        sys.stdout.writelines(
            difflib.unified_diff(
                before.splitlines(True), now.splitlines(True), "layout.txt", "headers"
            )
        )
        print(
            "\nThe layout of the ABI changed. If that is meant: run tests/abi/layout.py --include sdk --bless"
        )
    if f"layout {digest}" not in (ABI / "CHANGELOG.md").read_text():
        failed = True
        print(
            f"sdk/tenon/abi/CHANGELOG.md has no line for this layout: say what changed and end in (layout {digest})"
        )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
