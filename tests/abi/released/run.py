#!/usr/bin/env python3
"""Today's host loads and runs the plugin built against each layout that this edition of the ABI has
had, and refuses one of the first edition.

    run.py TENON

The oldest and the newest run all checks up to level 2; the others, whether each of their interfaces
works.
"""

import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
MANIFEST = {
    "schema": 1,
    "name": "released",
    "version": "0.1.0",
    "library": "./released.so",
    "provides": {
        "devices": ["released"],
        "kernels": ["released"],
        "ops": ["released_twice"],
        "passes": ["released-open"],
        "frontends": [{"name": "released", "extensions": [".rel"]}],
    },
}
# Checks that must pass, besides that nothing may fail: one for each interface.
WANTED = {
    "C.copy-round-trip",
    "F.values",
    "G.op-examples",
    "G.op-meanings",
    "G.pass-example",
    "G.frontend-tensors",
}


def conform(tenon, folder, *more):
    report = folder / "report.json"
    report.unlink(missing_ok=True)
    done = subprocess.run(
        [
            tenon,
            "conform",
            str(folder / "released.plugin.json"),
            "--jobs",
            "2",
            "--json",
            str(report),
            *more,
        ],
        capture_output=True,
        text=True,
    )
    if not report.exists():
        return {}, done.stdout + done.stderr
    return {
        c["check"]: c["result"] for c in json.loads(report.read_text())["checks"]
    }, done.stdout + done.stderr


def refuses_first_edition(tenon, folder):
    """Whether the host says why it does not load a plugin of ABI 0.1."""
    (folder / "released.so").write_bytes((HERE / "first_edition.so").read_bytes())
    (folder / "released.plugin.json").write_text(json.dumps(MANIFEST))
    done = subprocess.run(
        [tenon, "plugins", "explain", "released"],
        capture_output=True,
        text=True,
        env=dict(os.environ, TENON_PLUGIN_ADD=str(folder)),
    )
    said = done.stdout + done.stderr
    print(next((line.strip() for line in said.splitlines() if "first edition" in line), said))
    return "P0304" in said and "ABI 0.1, of the first edition; this host speaks 0.2" in said


def main():
    (tenon,) = sys.argv[1:]
    layouts = [
        line.split()[1]
        for line in (HERE.parent / "history.txt").read_text().splitlines()
        if line.startswith(tuple("0123456789"))
    ]
    missing = [layout for layout in layouts if not (HERE / f"{layout}.so").exists()]
    if missing:
        print(
            f"no binary of the layouts {', '.join(missing)}: tests/abi/released/build.py makes them"
        )
        return 1
    if platform.machine() != "x86_64" or platform.libc_ver()[0] != "glibc":
        print("the binaries are for x86-64 with glibc: nothing is run here")
        return 0
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for layout in layouts:
            (folder / "released.so").write_bytes((HERE / f"{layout}.so").read_bytes())
            (folder / "released.plugin.json").write_text(json.dumps(MANIFEST))
            asked = [["--filter", "C.copy-round-trip,F.values,G.*"]]
            if layout in (layouts[0], layouts[-1]):
                asked = [["--level", "2"], ["--filter", "F.values"]]  # of level 3
            results, said = {}, ""
            for more in asked:
                found, text = conform(tenon, folder, *more)
                results |= found
                said += text
            failed = sorted(c for c, result in results.items() if result == "fail")
            lacking = sorted(c for c in WANTED if results.get(c) != "pass")
            print(f"{layout}: {len(results)} checks, {len(failed)} failed")
            if failed or lacking:
                failures += 1
                print(f"{failed} fail, {lacking} do not pass:\n{said}")
        failures += not refuses_first_edition(tenon, folder)
    return 1 if failures else 0


sys.exit(main())
