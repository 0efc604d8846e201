#!/usr/bin/env python3
"""The conformance runner and a plugin, both built with the thread sanitizer, run without a race.

    threads.py TENON MANIFEST LEVEL

Checks run in processes of their own, and their findings are written to files. Every check up to
LEVEL must pass, and no file may be written.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile


def main():
    tenon, manifest, level = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        report = folder / "report.json"
        options = [
            os.environ.get("TSAN_OPTIONS"),
            f"log_path={folder}/finding",
            "allocator_may_return_null=1",
        ]
        environment = {**os.environ, "TSAN_OPTIONS": ":".join(filter(None, options))}
        run = subprocess.run(
            [tenon, "conform", manifest, "--json", report, "--level", level, "--jobs", "2"],
            env=environment,
            capture_output=True,
            text=True,
        )
        findings = sorted(folder.glob("finding*"))
        for finding in findings:
            print(finding.read_text())
        found = (
            json.loads(report.read_text())
            if report.exists()
            else {"level": 0, "counts": {"failed": 1}}
        )
        print(run.stdout + run.stderr)
        return 1 if findings or found["counts"]["failed"] or found["level"] != int(level) else 0


sys.exit(main())
