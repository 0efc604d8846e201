#!/usr/bin/env python3
"""Every plugin of the build reaches its expected level.

    plugins.py TENON PLUGINS_FOLDER [LEVEL]

LEVEL: runs no checks beyond it; without it runs all, including those of kernels.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

# Faults that a check provokes on purpose are not findings of a sanitizer: allocations that cannot
# succeed, memory that is not reused at once, processes that end with open devices.
for variable in ("ASAN_OPTIONS", "TSAN_OPTIONS"):
    more = "allocator_may_return_null=1" + (
        ":quarantine_size_mb=8:detect_leaks=0" if variable[0] == "A" else ""
    )
    os.environ[variable] = ":".join(filter(None, [os.environ.get(variable), more]))


# Files for frontends that cannot write.
MODELS = pathlib.Path(__file__).resolve().parent.parent / "models"
ONEDNN = MODELS.parent / "onednn"
EXAMPLES = {
    "onnx.plugin.json": [MODELS / "mlp.onnx", MODELS / "encoder_dynamic.onnx"],
    "onednn.plugin.json": [ONEDNN / "products.tir", ONEDNN / "convolutions.tir"],
}
# Wins wherever it can compute, so that small examples reach it.
VARIABLES = {"onednn.plugin.json": {"TENON_ONEDNN": "first"}}


def level(tenon, manifest, folder, more, variables):
    """The level reached, and whether any check failed."""
    report = pathlib.Path(folder) / "report.json"
    run = subprocess.run(
        [tenon, "conform", manifest, "--json", report, *more],
        capture_output=True,
        text=True,
        env=os.environ | variables,
    )
    found = (
        json.loads(report.read_text()) if report.exists() else {"level": 0, "counts": {"failed": 1}}
    )
    return found["level"], found["counts"]["failed"], run.stdout + run.stderr


# Devices that compute, and those with queues; the others reach level 2.
# Without a GPU there is nothing to run kernels of cublaslt on; fake_cublaslt_conform has one.
LEVELS = {
    "cublaslt.plugin.json": 1,
    "cpu.plugin.json": 3,
    "reference.plugin.json": 3,
    "sim.plugin.json": 4,
    "cuda.plugin.json": 4,
    "intel.plugin.json": 4,
    "mps.plugin.json": 4,
    "rocm.plugin.json": 4,
}
# Plugins of hardware that a machine may lack, and what the runner says then: the plugin explains
# itself, and no more can be seen.
HARDWARE = {"cuda.plugin.json", "intel.plugin.json", "mps.plugin.json", "rocm.plugin.json"}
NO_DEVICE = "there is no device of this plugin in this machine"


def few_ops(tenon, plugins, folder):
    """A device that takes one op holds group E by that op, and one that takes nothing does not."""
    problems = 0
    for ops, wanted in (("reduce_sum", True), ("none", False)):
        os.environ["TENON_SIM_OPS"] = ops
        report = pathlib.Path(folder) / "few.json"
        run = subprocess.run(
            [
                tenon,
                "conform",
                pathlib.Path(plugins) / "sim.plugin.json",
                "--filter",
                "E.*",
                "--json",
                report,
            ],
            capture_output=True,
            text=True,
        )
        del os.environ["TENON_SIM_OPS"]
        group = next(g for g in json.loads(report.read_text())["groups"] if g["group"] == "E")
        if group["holds"] != wanted or group["failed"]:
            problems += 1
            print(f"sim with the ops {ops}: {group}\n{run.stdout}")
    return problems


def main():
    tenon, plugins, *limit = sys.argv[1:]
    more = ["--level", *limit] if limit else []
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        for manifest in sorted(pathlib.Path(plugins).glob("*.plugin.json")):
            examples = [f"--example={path}" for path in EXAMPLES.get(manifest.name, [])]
            reached, failed, said = level(
                tenon, manifest, folder, more + examples, VARIABLES.get(manifest.name, {})
            )
            missing = manifest.name in HARDWARE and NO_DEVICE in said
            wanted = min(
                1 if missing else LEVELS.get(manifest.name, 2), int(limit[0]) if limit else 4
            )
            print(f"{manifest.name}: level {reached}, {failed} checks failed")
            if reached != wanted or failed:
                failures += 1
                print(f"level {wanted} was expected:\n{said}")
        if not limit and (pathlib.Path(plugins) / "sim.plugin.json").exists():
            failures += few_ops(tenon, plugins, folder)
    return 1 if failures else 0


sys.exit(main())
