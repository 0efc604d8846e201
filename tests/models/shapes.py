"""Runs one compiled model over many shapes through model_shapes; shared by the tests of this
folder."""

import json
import pathlib
import subprocess
import tempfile

import numpy as np

TOLERANCE = 1e-4  # as in `tenon run --check`: max|a-b| over max|b|
SECONDS = 600


def run_many(tool, model, device, cases):
    """Outputs by name for each case (arrays by input name), and the tool's report; one compilation
    for all."""
    with tempfile.TemporaryDirectory() as root:
        folders = []
        for i, feeds in enumerate(cases):
            folder = pathlib.Path(root) / str(i)
            folder.mkdir()
            for name, value in feeds.items():
                np.save(folder / f"{name}.npy", value)
            folders.append(folder)
        done = subprocess.run(
            [tool, str(model), device, *map(str, folders)],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"exit status {done.returncode}: {done.stderr.strip()[:600]}")
        results = [
            {p.name[4:-4]: np.load(p) for p in sorted(folder.glob("out.*.npy"))}
            for folder in folders
        ]
        return results, json.loads(done.stdout)


def difference(got, want):
    """max|a-b| over max|b|; infinite if shapes or types differ or an element is not a number."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return float("inf")
    wide = np.asarray(want, np.float64)
    worst = np.abs(np.asarray(got, np.float64) - wide).max(initial=0)
    return (
        float("inf") if np.isnan(worst) else float(worst / max(np.abs(wide).max(initial=0), 1e-30))
    )


def wrong(got, want, tolerance=TOLERANCE):
    """What is wrong with the outputs of one case, or nothing."""
    for name, value in want.items():
        if name not in got:
            return f"there is no output {name}"
        if got[name].shape != value.shape or got[name].dtype != value.dtype:
            return (
                f"{name} is {got[name].dtype}{got[name].shape}, expected {value.dtype}{value.shape}"
            )
        worst = difference(got[name], value)
        if not worst <= tolerance:
            return f"{name} differs by {worst:.3g} of its largest value"
    return ""
