#!/usr/bin/env python3
"""Compiles the checked-in table of layouts as static asserts in C++20, because both languages must
see the same records."""

import argparse
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--include", required=True)
    parser.add_argument("--compiler", default="clang++-19")
    arguments = parser.parse_args()
    headers = sorted(h.name for h in (HERE.parent.parent / "sdk" / "tenon" / "abi").glob("*.h"))
    lines = ["#include <cstddef>"] + [f"#include <tenon/abi/{h}>" for h in headers]
    lines.append("#include <tenon/tenon.h>")
    record = None
    for line in (HERE / "layout.txt").read_text().splitlines():
        if match := re.match(r"(tenon_\w+) size (\d+) align (\d+)", line):
            record = match[1]
            lines.append(
                f"static_assert(sizeof({record}) == {match[2]} && alignof({record}) == {match[3]});"
            )
        elif match := re.match(r"\s+(\d+)  (\w+): ", line):
            lines.append(f"static_assert(offsetof({record}, {match[2]}) == {match[1]});")
    result = subprocess.run(
        [
            arguments.compiler,
            "-std=c++20",
            "-fsyntax-only",
            "-I",
            arguments.include,
            "-x",
            "c++",
            "-",
        ],
        input="\n".join(lines) + "\n",
        text=True,
    )
    print(f"{len(lines)} asserts")
    return result.returncode


if __name__ == "__main__":
    sys.exit(main())
