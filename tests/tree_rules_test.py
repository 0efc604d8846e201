#!/usr/bin/env python3
"""scripts/tree_rules.py reports breaches planted in a copy of the tree, and nothing else."""

# Reaches only: scripts/tree_rules.py, scripts/words.py
import contextlib
import io
import pathlib
import shutil
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
sys.dont_write_bytecode = True
import tree_rules  # noqa: E402

# (file, text appended to it, the rules' report)
BREACHES = [
    (
        "core/base/str.cpp",
        'const char* planted = "softmax";',
        "core/base/str.cpp: core names the op 'softmax'",
    ),
    (
        "core/base/str.cpp",
        'const char* planted = "fold add too";',
        "core/base/str.cpp: core names the op 'add'",
    ),
    (
        "core/base/limits.def",
        '// "relu"\nX("a // b", "relu")',
        "core/base/limits.def: core names the op 'relu'",
    ),
    (
        "core/session/compile/devices.cpp",
        'const char* planted = "cpu";',
        "core/session/compile/devices.cpp: core names the device 'cpu'",
    ),
    (
        "core/session/compile/devices.cpp",
        'const char* planted = "as in null:1";',
        "core/session/compile/devices.cpp: core names the device 'null'",
    ),
    (
        "core/session/compile/model.cpp",
        '#include "core/session/call/call.h"',
        "core/session/compile/model.cpp: core/session/compile may not include <core/session/call/call.h>",
    ),
    (
        "core/session/planted/planted.h",
        "",
        "core/session/README.md: planted/planted.h is not named",
    ),
    (
        "core/session/planted/planted.h",
        "",
        "core/session/planted/planted.h: the order of the rooms of core/session lacks planted",
    ),
    (
        "core/host/discovery/remedy.cpp",
        'const char* planted = "libfoo.so.1";',
        "core/host/discovery/remedy.cpp: core names the library 'libfoo.so'",
    ),
    (
        "core/host/discovery/remedy.cpp",
        "void planted_cuda();",
        "core/host/discovery/remedy.cpp: core names the library 'cuda'",
    ),
    (
        "core/host/discovery/remedy.cpp",
        "constexpr int kNvidia = 1;",
        "core/host/discovery/remedy.cpp: core names the vendor 'nvidia'",
    ),
    (
        "core/ir/serial/serial.cpp",
        "void write_onnx();",
        "core/ir/serial/serial.cpp: core names the format 'onnx'",
    ),
    (
        "sdk/tools/tenon/commands/run.cpp",
        '#include "core/base/str.h"',
        "sdk/tools/tenon/commands/run.cpp: sdk/tools may not include <core/base/str.h>",
    ),
    (
        "core/base/README.md",
        "`stattus.h` and `errors/*.hpp`",
        "core/base/README.md: there is no file `errors/*.hpp`",
    ),
    ("core/base/README.md", "", "core/base/README.md: there is no file `stattus.h`"),
    (
        "docs/guide/tir.md",
        "`sdk/tenon/abi/grapf.h`",
        "docs/guide/tir.md: there is no file `sdk/tenon/abi/grapf.h`",
    ),
    ("core/base/process/planted.h", "", "core/base/README.md: process/planted.h is not named"),
    ("core/planted/planted.cpp", "", "core/README.md: planted/planted.cpp is not named"),
    ("tests/models/planted.py", "", "tests/models/README.md: planted.py is not named"),
    (
        "plugins/ops/planted.cpp",
        "",
        "docs/generated/ops/README.md: planted.cpp is not named",
    ),  # a declaration
    ("plugins/ops/planted.h", "", "plugins/ops/README.md: planted.h is not named"),
    ("scripts/planted", "#!/bin/sh", "scripts/planted: it begins with #!, and is not executable"),
    (
        "docs/guide/planted.md",
        "# Planted\n\n" + "word " * 20 + "words",
        "docs/guide/planted.md:3: prose has more than 100 columns",
    ),
    (
        "plugins/null/null.c",
        '#include "core/base/str.h"',
        "plugins/null/null.c: plugins may not include <core/base/str.h>",
    ),
    # Python: rooms, circles (in a function, too), and names with an underscore.
    (
        "frontends/torch/graph/planted.py",
        "from tenon.torch.program import options",
        "frontends/torch/graph/planted.py:1: tenon.torch.graph may not import tenon.torch.program.options",
    ),
    (
        "frontends/torch/graph/planted.py",
        "",
        "frontends/torch/README.md: graph/planted.py is not named",
    ),
    (
        "frontends/torch/program/planted.py",
        "from ..capture.watch import watch",
        "frontends/torch/program/planted.py:1: tenon.torch.program may not import tenon.torch.capture.watch",
    ),
    (
        "frontends/torch/program/planted.py",
        "",
        "frontends/torch/README.md: program/planted.py is not named",
    ),
    (
        "frontends/torch/lowerings/planted.py",
        "from tenon import _native",
        "frontends/torch/lowerings/planted.py:1: tenon.torch.lowerings may not import tenon._native",
    ),
    (
        "frontends/torch/lowerings/planted.py",
        "",
        "frontends/torch/README.md: lowerings/planted.py is not named",
    ),
    (
        "frontends/python/tenon/builder/planted.py",
        "import tenon.xp",
        "frontends/python/tenon/builder/planted.py:1: tenon.builder may not import tenon.xp",
    ),
    (
        "frontends/python/tenon/builder/planted.py",
        "",
        "frontends/python/README.md: tenon/builder/planted.py is not named",
    ),
    (
        "frontends/python/tenon/_version.py",
        "def planted():\n    from tenon import report",
        "frontends/python/tenon/_version.py: imports in a circle: frontends/python/tenon/_version.py, frontends/python/tenon/report.py",
    ),
    (
        "scripts/reach_tests.py",
        "import reach_names",
        "scripts/reach_names.py: imports in a circle: scripts/reach_names.py, scripts/reach_tests.py",
    ),
    *(
        (
            f"frontends/torch/capture/planted_{i}.py",
            "",
            f"frontends/torch/README.md: capture/planted_{i}.py is not named",
        )
        for i in range(20)
    ),
    (
        "frontends/torch/capture/planted_0.py",
        "",
        "frontends/torch/capture: 31 modules, more than 30",
    ),
]
# Words that the copy's list gets, and never this file: it is a part of the tree that is counted.
MANY, FEW = "zz" + "many", "zz" + "few"
BREACHES += [
    (
        "scripts/words.txt",
        f"1 {MANY}",
        f"scripts/words.txt: '{MANY}' occurs 2 times, more than 1: use another word "
        "(docs/guide/glossary.md); `git diff main` shows yours",
    ),
    (
        "scripts/words.txt",
        f"2 {FEW}",
        f"note: scripts/words.txt: '{FEW}' occurs 1 times: lower its line from 2 (scripts/words.py --lower)",
    ),
    ("SECURITY.md", f"{MANY.title()}, {FEW}: {MANY}. x{MANY}", None),
]
# Only looks like a breach.
ALLOWED = [
    ("core/base/str.cpp", '// As "softmax" on cpu:0 does.'),
    ("core/base/str.cpp", 'const char* planted = "softmaxed, and not \\"taken\\"";'),
    (
        "core/base/README.md",
        "`NAME_test.cpp`, `errors/status.*`, `tenon/abi/graph.h`, `core/ir/graph.h`",
    ),
    (
        "docs/guide/op.md",
        "```\n"
        + "word " * 30
        + "\n```\n\n| "
        + "word " * 30
        + "|\n\n- ["
        + "word " * 30
        + "](op.md).",
    ),
    ("bench/README.md", "#!/bin/sh"),  # not at the beginning
    ("core/base/str_test.cpp", ""),  # tests the file that it is named after
    # For checkers of types alone; and the package around a module.
    ("frontends/python/tenon/_host.py", "if TYPE_CHECKING:\n    from tenon._model import Model"),
    (
        "frontends/torch/graph/sizes.py",
        "from tenon.builder import dtypes\nfrom tenon import UsageError, Tensor\nfrom . import table",
    ),
]


def report(root):
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
        shutil.copytree(
            ROOT,
            copy,
            ignore=shutil.ignore_patterns("build*", ".git", ".venv*", "venv", "__pycache__"),
            symlinks=True,
        )
        before, _ = report(copy)
        for name, text, *_ in BREACHES + ALLOWED:
            (copy / name).parent.mkdir(exist_ok=True)
            is_new = not (copy / name).exists()
            with (copy / name).open("a") as file:
                file.write("\n" * (not is_new) + text + "\n")
        lines, status = report(copy)
        new, expected = set(lines) - set(before), {line for _, _, line in BREACHES if line}
        wrong += [f"not reported: {line}" for line in sorted(expected - new)]
        wrong += [f"reported without a reason: {line}" for line in sorted(new - expected)]
        if status == 0:
            wrong.append("the exit status is 0")
        crowd = copy / "plugins/null/crowd"
        crowd.mkdir()
        for number in range(tree_rules.MOST_SOURCES + 1):
            (crowd / f"f{number}.h").touch()
        if (
            "plugins/null/crowd: 31 sources, more than 30: divide it into rooms"
            not in report(copy)[0]
        ):
            wrong.append("a folder of 31 sources is not reported")
        (crowd / "f0.h").unlink()
        if any(line.startswith("plugins/null/crowd: ") for line in report(copy)[0]):
            wrong.append("a folder of 30 sources is reported")
        for page in list((copy / "docs/generated/ops").glob("*.md"))[tree_rules.FEWEST_OPS // 2 :]:
            page.unlink()
        waiting = next(iter(tree_rules.WAITING))
        path = copy / waiting[0]
        path.write_text(path.read_text().replace(f'#include "{waiting[1]}"', ""))
        if not any("waits for nothing" in line for line in report(copy)[0]):
            wrong.append("a row of WAITING that nothing needs is not reported")
        if not any("fewer than" in line for line in report(copy)[0]):
            wrong.append("without most pages of ops nothing is reported")
    print("\n".join(wrong) or f"{len(BREACHES)} breaches are reported")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
