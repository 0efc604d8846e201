#!/usr/bin/env python3
"""The sizes of every interface's table under each layout of this edition in
sdk/tenon/abi/CHANGELOG.md, for the conformance runner, which simulates hosts of that time.

    history.py --include sdk            compares; exits with 1 on a difference
    history.py --include sdk --bless    adds the newest layout to history.txt and writes sdk/tools/conform/subject/abi_history.inc

history.txt has a paragraph for each layout, in the order of CHANGELOG.md: `VERSION LAYOUT`, then
`ID SIZE` for each interface. Once an edition is closed, paragraphs are never changed: a release is
final. While it is open, it has only its newest layout.
"""

import argparse
import hashlib
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
HISTORY = HERE / "history.txt"
GENERATED = ROOT / "sdk" / "tools" / "conform" / "subject" / "abi_history.inc"
INTERFACE = re.compile(r'^#define TENON_(\w+)_ID "([\w.]+/\d+)"', re.M)
CHANGE = re.compile(r"^\| (\d+)\.(\d+) \|.*\(layout ([0-9a-f]{8})\) \|$", re.M)
VERSION = re.compile(r"^#define TENON_ABI_(?:MAJOR|MINOR) (\d+)u$", re.M)
OPEN = True  # this edition: no outside project builds on it yet
RECORD = re.compile(r"^(tenon_\w+) size (\d+)", re.M)


def interfaces():
    """(id, record of its table) from the headers. The record's name follows from the interface's,
    in one of four ways."""
    for header in sorted((ROOT / "sdk" / "tenon" / "abi").glob("*.h")):
        for name, id in INTERFACE.findall(header.read_text()):
            yield id, [f"tenon_{name.lower()}{ending}_t" for ending in ("_api", "", "s", "es")]


def sizes_now():
    """`ID SIZE` lines for the layout of layout.txt, sorted, and a list of problems."""
    layout = dict(RECORD.findall((HERE / "layout.txt").read_text()))
    lines, problems = [], []
    for id, names in interfaces():
        size = next((layout[name] for name in names if name in layout), None)
        lines.append(f"{id} {size}")
        if size is None:
            problems.append(
                f"no record of layout.txt is the table of {id}: call it one of {', '.join(names)}"
            )
    return sorted(lines), problems


def released():
    """(version, layout) of this edition in the order of CHANGELOG.md."""
    edition = ".".join(VERSION.findall((ROOT / "sdk/tenon/abi/base.h").read_text()))
    changes = CHANGE.findall((ROOT / "sdk/tenon/abi/CHANGELOG.md").read_text())
    layouts = [
        (edition, layout) for major, minor, layout in changes if f"{major}.{minor}" == edition
    ]
    return layouts[-1:] if OPEN else layouts


def paragraphs():
    text = HISTORY.read_text() if HISTORY.exists() else ""
    return [p.splitlines() for p in text.split("\n\n") if p.strip()]


def generated(history):
    out = [
        "// Written by tests/abi/history.py --bless: the tables of each layout that sdk/tenon/abi/CHANGELOG.md has."
    ]
    for number, lines in enumerate(history):
        out.append(f"constexpr TableSize kLayout{number}[] = {{")
        out += [f'    {{"{line.split()[0]}", {line.split()[1]}}},' for line in lines[1:]]
        out.append("};")
    out.append("constexpr AbiLayout kLayouts[] = {")
    for number, lines in enumerate(history):
        version, layout = lines[0].split()
        major, minor = version.split(".")
        out.append(f'    {{{major}, {minor}, "{layout}", kLayout{number}}},')
    out.append("};")
    return "\n".join(out) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--include", required=True)
    parser.add_argument("--bless", action="store_true")
    arguments = parser.parse_args()
    digest = hashlib.sha256((HERE / "layout.txt").read_bytes()).hexdigest()[:8]
    history = paragraphs()
    now, problems = sizes_now()
    wanted = released()
    if OPEN and arguments.bless:
        history = []
    if (
        arguments.bless
        and wanted
        and wanted[-1][1] == digest
        and [f"{v} {d}" for v, d in wanted[:-1]] == [h[0] for h in history]
    ):
        history.append([f"{wanted[-1][0]} {digest}"] + now)
        HISTORY.write_text("\n\n".join("\n".join(lines) for lines in history) + "\n")
    if arguments.bless:
        GENERATED.write_text(generated(history))
    if [h[0] for h in history] != [f"{v} {d}" for v, d in wanted]:
        problems.append(
            "history.txt has not the layouts of sdk/tenon/abi/CHANGELOG.md in their order; after a line for the newest layout: history.py --bless"
        )
    if history and (history[-1][0].split()[1] != digest or history[-1][1:] != now):
        problems.append(
            "the newest layout of history.txt is not that of layout.txt: history.py --bless adds it"
        )
    # Interfaces of the host that were taken back while the first edition is open: no plugin asked
    # for them.
    withdrawn = {"tenon.host.kernels/1"}
    for before, after in zip(history, history[1:]):
        old, new = (dict(line.split() for line in h[1:]) for h in (before, after))
        same_minor = before[0].split()[0] == after[0].split()[0]
        problems += [
            f"{id} shrank from {old[id]} to {new.get(id, 'nothing')} bytes within {before[0].split()[0]}: that needs a new version"
            for id in old
            if same_minor and id not in withdrawn and int(new.get(id, 0)) < int(old[id])
        ]
    if not GENERATED.exists() or GENERATED.read_text() != generated(history):
        problems.append(
            "sdk/tools/conform/subject/abi_history.inc is not what history.py --bless writes"
        )
    print("\n".join(problems) or f"{len(history)} layouts, {len(now)} interfaces")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
