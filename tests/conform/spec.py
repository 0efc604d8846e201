#!/usr/bin/env python3
"""docs/spec/plugin.md, `tenon conform --list` and the mutants agree: each requirement has a check,
each check names one, and each check fails on something in the tree.

    spec.py SPEC TENON
"""

import json
import pathlib
import re
import subprocess
import sys

import mutants

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Requirements that the host or a layer checks are tested by these files.
SEEN = {"host": ["tests/hostile/plugins/run.py"], "layer": ["tests/layers/validation_test.cpp"]}
ROW = re.compile(r"^\| (R-[A-L]\d\d) \| (\w+) \| (.+) \|$")


def requirements(path):
    rows, sentences, problems = {}, {}, []
    for number, line in enumerate(open(path), 1):
        if not line.startswith("| R-"):
            continue
        match = ROW.match(line.rstrip("\n"))
        if match is None or match[2] not in ("runner", "host", "layer", "withdrawn"):
            problems.append(
                f"line {number} is not a row `| R-X00 | runner, host, layer or withdrawn | sentence |`: {line.strip()}"
            )
            continue
        if match[1] in rows:
            problems.append(f"{match[1]} is there twice")
        if not match[3].endswith((".", ".)")):
            problems.append(f"{match[1]} is not a sentence")
        rows[match[1]] = match[2]
        sentences[match[1]] = match[3]
    return rows, sentences, problems


def main():
    spec, tenon = sys.argv[1:]
    rows, sentences, problems = requirements(spec)
    listed = json.loads(
        subprocess.run(
            [tenon, "conform", "--list", "--json", "-"], check=True, capture_output=True, text=True
        ).stdout
    )
    named = {}
    for check in listed["checks"]:
        named.setdefault(check["requirement"], []).append(check["check"])
        if check["requirement"][2] != check["check"][0]:
            problems.append(f"{check['check']} is in another group than {check['requirement']}")
    problems += [
        f"`--list` says of {check['check']}: {check['sentence']}"
        for check in listed["checks"]
        if check["sentence"] != sentences.get(check["requirement"])
    ]
    names = [check["check"] for check in listed["checks"]]
    problems += [f"{name} is listed twice" for name in sorted(set(names)) if names.count(name) > 1]
    problems += [
        f"{r} is marked runner, and no check names it"
        for r, by in rows.items()
        if by == "runner" and r not in named
    ]
    problems += [
        f"{named[r]} name {r}, which is not marked runner" for r in named if rows.get(r) != "runner"
    ]
    for r, by in rows.items():
        if by in SEEN and not any(r in (ROOT / path).read_text() for path in SEEN[by]):
            problems.append(f"{r} is marked {by}, and none of {', '.join(SEEN[by])} names it")
    made = list(mutants.mutants())
    caught = {m.check for m in made if m.wanted() == "fail"}
    problems += [
        f"{name} is not seen to fail: no mutant names it"
        for name in names
        if name not in caught and name[0] != "L"
    ]
    problems += [
        f"{m.name} is for {m.check}, which does not exist" for m in made if m.check not in names
    ]
    count = {by: list(rows.values()).count(by) for by in ("runner", "host", "layer", "withdrawn")}
    print(
        "\n".join(problems)
        or f"{len(rows) - count['withdrawn']} requirements ({count}), {len(names)} checks, {len(made)} mutants"
    )
    return 1 if problems or not rows else 0


sys.exit(main())
