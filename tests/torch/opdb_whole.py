"""All samples of the operator database against the list of the rest, in parts that go on where they were cut."""

from __future__ import annotations

import hashlib
import os
import pathlib

import opdb_lists as lists
from opdb_run import run
from opdb_state import State

DTYPES, WAYS = ["float32", "int64", "bool"], ["forward", "backward"]


def check(here: pathlib.Path, folder: pathlib.Path, part: str) -> int:
    """Runs part "1/2" of the entries, and compares. 77 without CHECK_FULL=1: it takes hours.

    Verdicts are kept in the folder, by what they depend on. Another build starts afresh.
    """
    if os.environ.get("CHECK_FULL", "0") in ("", "0"):
        print("skipped: the whole operator database takes hours (CHECK_FULL=1)")
        return 77
    number, count = map(int, part.split("/"))
    prefix = f"part_{number}_of_{count}_"
    path = folder / f"{prefix}{digest(here)}"
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob(f"{prefix}*"):
        if old != path:
            old.unlink()
    state = State(path)
    print(f"{path}: {len(state.verdicts)} verdicts from an earlier run", flush=True)
    run(state, _names()[number - 1 :: count], DTYPES, WAYS, 1 << 30)
    lists.report(state, [], False)
    return lists.check_state(here, state)


def _names() -> list[str]:
    """Entries, with all variants under one name."""
    from opdb_sample import ENTRIES

    return sorted({name.split("/")[0] for name in ENTRIES})


def digest(*folders: pathlib.Path) -> str:
    """Of what decides verdicts: PyTorch, the package, the core and the plugins, and what judges."""
    import tenon
    import torch

    package = pathlib.Path(tenon.__file__).parent
    libraries = package.parent.parent / "lib"
    files = [
        *package.rglob("*.py"),
        *package.glob("*.so"),
        *(f for folder in folders for f in folder.glob("opdb*.py")),
    ]
    files += [
        f
        for pattern in ("libtenon.so", "tenon/plugins.d/*")
        for f in libraries.glob(pattern)
        if f.is_file()
    ]
    made = hashlib.sha256(torch.__version__.encode())
    for file in sorted(files):
        made.update(file.name.encode() + hashlib.sha256(file.read_bytes()).digest())
    return made.hexdigest()[:16]
