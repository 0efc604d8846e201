#!/usr/bin/env python3
"""scripts/tree_rules.py reports breaches planted in a copy of the tree, and nothing else."""
# Reaches only: scripts/tree_rules.py
import contextlib
import io
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
sys.dont_write_bytecode = True
import tree_rules  # noqa: E402

# (file, text appended to it, the rules' report)
BREACHES = [
    ("core/base/str.cpp", 'const char* planted = "softmax";', "core/base/str.cpp: core names the op 'softmax'"),
    ("core/base/str.cpp", 'const char* planted = "fold add too";', "core/base/str.cpp: core names the op 'add'"),
    ("core/base/limits.def", '// "relu"\nX("a // b", "relu")', "core/base/limits.def: core names the op 'relu'"),
    ("core/session/compile/devices.cpp", 'const char* planted = "cpu";', "core/session/compile/devices.cpp: core names the device 'cpu'"),
    ("core/session/compile/devices.cpp", 'const char* planted = "as in null:1";', "core/session/compile/devices.cpp: core names the device 'null'"),
    ("core/session/compile/model.cpp", '#include "core/session/call/call.h"',
     "core/session/compile/model.cpp: core/session/compile may not include <core/session/call/call.h>"),
    ("core/session/planted/planted.h", "", "core/session/README.md: planted/planted.h is not named"),
    ("core/session/planted/planted.h", "", "core/session/planted/planted.h: the order of the rooms of core/session lacks planted"),
    ("core/host/discovery/remedy.cpp", 'const char* planted = "libfoo.so.1";', "core/host/discovery/remedy.cpp: core names the library 'libfoo.so'"),
    ("core/host/discovery/remedy.cpp", "void planted_cuda();", "core/host/discovery/remedy.cpp: core names the library 'cuda'"),
    ("core/host/discovery/remedy.cpp", "constexpr int kNvidia = 1;", "core/host/discovery/remedy.cpp: core names the vendor 'nvidia'"),
    ("core/ir/serial/serial.cpp", "void write_onnx();", "core/ir/serial/serial.cpp: core names the format 'onnx'"),
    ("sdk/tools/tenon/commands/run.cpp", '#include "core/base/str.h"', "sdk/tools/tenon/commands/run.cpp: sdk/tools may not include <core/base/str.h>"),
    ("core/base/README.md", "`stattus.h` and `errors/*.hpp`", "core/base/README.md: there is no file `errors/*.hpp`"),
    ("core/base/README.md", "", "core/base/README.md: there is no file `stattus.h`"),
    ("docs/guide/tir.md", "`sdk/tenon/abi/grapf.h`", "docs/guide/tir.md: there is no file `sdk/tenon/abi/grapf.h`"),
    ("core/base/process/planted.h", "", "core/base/README.md: process/planted.h is not named"),
    ("core/planted/planted.cpp", "", "core/README.md: planted/planted.cpp is not named"),
    ("tests/models/planted.py", "", "tests/models/README.md: planted.py is not named"),
    ("scripts/planted", "#!/bin/sh", "scripts/planted: it begins with #!, and is not executable"),
    ("docs/guide/planted.md", "# Planted\n\n" + "word " * 20 + "words", "docs/guide/planted.md:3: prose has more than 100 columns"),
    ("plugins/null/null.c", '#include "core/base/str.h"', "plugins/null/null.c: plugins may not include <core/base/str.h>"),
]
# Only looks like a breach.
ALLOWED = [
    ("core/base/str.cpp", '// As "softmax" on cpu:0 does.'),
    ("core/base/str.cpp", 'const char* planted = "softmaxed, and not \\"taken\\"";'),
    ("core/base/README.md", "`NAME_test.cpp`, `errors/status.*`, `tenon/abi/graph.h`, `core/ir/graph.h`"),
    ("docs/guide/op.md", "```\n" + "word " * 30 + "\n```\n\n| " + "word " * 30 + "|\n\n- [" + "word " * 30 + "](op.md)."),
    ("bench/README.md", "#!/bin/sh"),  # not at the beginning
    ("core/base/str_test.cpp", ""),  # tests the file that it is named after
    ("plugins/ops/planted.cpp", ""),  # one file per family: matched by a pattern
]


def told(root):
    """The lines that the rules print about a tree, and their exit status."""
    tree_rules.ROOT = root
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        status = tree_rules.main()
    return out.getvalue().splitlines()[:-1], status


def main():
    sys.argv = sys.argv[:1]
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / "tree"
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns("build*", ".git", ".venv", "__pycache__"), symlinks=True)
        before, _ = told(copy)
        for name, text, *_ in BREACHES + ALLOWED:
            (copy / name).parent.mkdir(exist_ok=True)
            is_new = not (copy / name).exists()
            with (copy / name).open("a") as file:
                file.write("\n" * (not is_new) + text + "\n")
        lines, status = told(copy)
        new, expected = set(lines) - set(before), {line for _, _, line in BREACHES}
        wrong += [f"not told: {line}" for line in sorted(expected - new)]
        wrong += [f"told without a reason: {line}" for line in sorted(new - expected)]
        if status == 0:
            wrong.append("the exit status is 0")
        crowd = copy / "plugins/null/crowd"
        crowd.mkdir()
        for number in range(tree_rules.MOST_SOURCES + 1):
            (crowd / f"f{number}.h").touch()
        if "plugins/null/crowd: 31 sources, more than 30: divide it into rooms" not in told(copy)[0]:
            wrong.append("a folder of 31 sources is not reported")
        (crowd / "f0.h").unlink()
        if any(line.startswith("plugins/null/crowd: ") for line in told(copy)[0]):
            wrong.append("a folder of 30 sources is reported")
        for page in list((copy / "docs/generated/ops").glob("*.md"))[tree_rules.FEWEST_OPS // 2:]:
            page.unlink()
        waiting = next(iter(tree_rules.WAITING))
        path = copy / waiting[0]
        path.write_text(path.read_text().replace(f'#include "{waiting[1]}"', ""))
        if not any("waits for nothing" in line for line in told(copy)[0]):
            wrong.append("a row of WAITING that nothing needs is not told")
        if not any("fewer than" in line for line in told(copy)[0]):
            wrong.append("without most pages of ops nothing is told")
    print("\n".join(wrong) or f"{len(BREACHES)} breaches are told")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
