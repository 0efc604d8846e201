#!/usr/bin/env python3
"""docs/spec/plugin.md and `tenon conform --list` say the same: each requirement marked `runner` has a check, and each check names one.

    spec.py SPEC TENON
"""
import json
import re
import subprocess
import sys

ROW = re.compile(r"^\| (R-[A-L]\d\d) \| (\w+) \| (.+) \|$")


def requirements(path):
    rows, problems = {}, []
    for number, line in enumerate(open(path), 1):
        if not line.startswith("| R-"):
            continue
        match = ROW.match(line.rstrip("\n"))
        if match is None or match[2] not in ("runner", "host", "text"):
            problems.append(f"line {number} is no row `| R-X00 | runner, host or text | sentence |`: {line.strip()}")
            continue
        if match[1] in rows:
            problems.append(f"{match[1]} is there twice")
        if not match[3].endswith("."):
            problems.append(f"{match[1]} is no sentence")
        rows[match[1]] = match[2]
    return rows, problems


def main():
    spec, tenon = sys.argv[1:]
    rows, problems = requirements(spec)
    listed = json.loads(subprocess.run([tenon, "conform", "--list", "--json", "-"], check=True, capture_output=True, text=True).stdout)
    named = {}
    for check in listed["checks"]:
        named.setdefault(check["requirement"], []).append(check["check"])
        if check["requirement"][2] != check["check"][0]:
            problems.append(f"{check['check']} is in another group than {check['requirement']}")
    names = [check["check"] for check in listed["checks"]]
    problems += [f"{name} is listed twice" for name in sorted(set(names)) if names.count(name) > 1]
    problems += [f"{r} is marked runner, and no check names it" for r, by in rows.items() if by == "runner" and r not in named]
    problems += [f"{named[r]} name {r}, which is not marked runner" for r in named if rows.get(r) != "runner"]
    print("\n".join(problems) or f"{len(rows)} requirements, {len(names)} checks")
    return 1 if problems or not rows else 0


sys.exit(main())
