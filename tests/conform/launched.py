#!/usr/bin/env python3
"""The checks of engines as processes that a launcher has started: the engine `mpi`.

    launched.py TENON PLUGINS_FOLDER

A launcher connects the processes once, so each check has a job of its own. Every process must come to
the same outcome. Skips launchers that are not installed. Two processes of the last
launcher; with CHECK_FULL=1 two and three of each.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

FULL = os.environ.get("CHECK_FULL") == "1"
LAUNCHERS = {
    "mpirun.openmpi": ["--allow-run-as-root", "--oversubscribe"],
    "mpirun.mpich": [],
}
# Checks that hold another rank back, for which all must be in one process.
IN_ONE_PROCESS = {"open-refuses", "mismatch", "abort", "waits", "threads"}
SKIPPED = 77


def checks(tenon):
    listed = subprocess.run(
        [tenon, "conform", "--list", "--json", "-"], check=True, capture_output=True, text=True
    )
    names = [check["check"] for check in json.loads(listed.stdout)["checks"]]
    return [name for name in names if name.startswith("G.engine-")]


def outcomes(tenon, manifest, launcher, count, check, folder):
    """What each process says of a check, and what was printed."""
    # Each process writes its own report.
    script = f'"$0" conform "$1" --filter "$2" --json "{folder}/$$.json"'
    command = [launcher, *LAUNCHERS[launcher], "-n", str(count), "sh", "-c", script]
    run = subprocess.run(
        [*command, tenon, manifest, check], capture_output=True, text=True, timeout=300
    )
    reports = [json.loads(path.read_text()) for path in pathlib.Path(folder).glob("*.json")]
    return [r["checks"][0]["result"] for r in reports if r["checks"]], run.stdout + run.stderr


def main():
    tenon, plugins = sys.argv[1:]
    manifest = pathlib.Path(plugins) / "mpi.plugin.json"
    launchers = [name for name in LAUNCHERS if shutil.which(name)][0 if FULL else -1 :]
    if not launchers:
        print("no launcher is installed")
        return SKIPPED
    problems = done = 0
    for launcher in launchers:
        for count in (2, 3) if FULL else (2,):
            for check in checks(tenon):
                if check.removeprefix("G.engine-") in IN_ONE_PROCESS:
                    continue
                with tempfile.TemporaryDirectory() as folder:
                    found, said = outcomes(tenon, manifest, launcher, count, check, folder)
                done += 1
                if found != ["pass"] * count:
                    problems += 1
                    print(f"{launcher}, {count} processes, {check}: {found}\n{said}")
    print(f"{done} jobs, {problems} problems")
    return 1 if problems else 0


sys.exit(main())
