#!/usr/bin/env python3
"""Writes the rows of the oracle that the files of tests/ops/cases give: `cpp` in MEANINGS.

    rows.py OUTPUT FILE...

The files are read and not run: the build has none of the packages that they import.
"""

import ast
import pathlib
import sys


def rows_of(path):
    """(op, C++) of one file."""
    for node in ast.parse(path.read_text()).body:
        if not isinstance(node, ast.Assign) or ast.unparse(node.targets[0]) != "MEANINGS":
            continue
        if not isinstance(node.value, ast.Dict):
            raise SystemExit(f"{path}:{node.lineno}: MEANINGS is not a dictionary as written")
        for op, call in zip(node.value.keys, node.value.values):
            for keyword in getattr(call, "keywords", []):
                if keyword.arg != "cpp":
                    continue
                if not isinstance(op, ast.Constant) or not isinstance(keyword.value, ast.Constant):
                    raise SystemExit(
                        f"{path}:{keyword.lineno}: the op and its `cpp` are not literals"
                    )
                yield op.value, keyword.value.value


def main():
    output, *files = map(pathlib.Path, sys.argv[1:])
    output.write_text(
        "".join(
            f'{{"{op}", [](double x) -> double {{ return {cpp}; }}}},  // {path.name}\n'
            for path in sorted(files)
            for op, cpp in rows_of(path)
        )
    )


if __name__ == "__main__":
    main()
