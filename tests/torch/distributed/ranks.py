"""Runs scenarios in several processes: one start of a process group serves many of them.

    python3 ranks.py FOLDER RANKS [NAME...]

A scenario is a function of `scenarios.py` and its modules; each rank calls it. Each rank writes a line
of JSON for each: its name, and what was wrong. Where one fails its process ends, since the other
ranks may wait for it, and the rest runs after another start.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import pathlib
import sys
import traceback
from datetime import timedelta

import scenarios
import torch
import torch.distributed as dist

SECONDS = 60
"""What a collective may take. A scenario takes a second or two."""


def run(folder: pathlib.Path, ranks: int, names: list[str]) -> dict[str, list[str]]:
    """What was wrong with each scenario, by rank; an empty text where nothing was."""
    found: dict[str, list[str]] = {}
    left = list(names)
    while left:
        done = _start(folder, ranks, left)
        found.update(done)
        left = left[len(done) :]
    return found


def _start(folder: pathlib.Path, ranks: int, names: list[str]) -> dict[str, list[str]]:
    for old in folder.glob("*"):
        old.unlink()
    context = multiprocessing.get_context("fork")
    children = [context.Process(target=_rank, args=(folder, r, ranks, names)) for r in range(ranks)]
    for child in children:
        child.start()
    for child in children:
        child.join(SECONDS * 5)
        if child.is_alive():
            child.kill()
    lines = [_lines(folder / f"{rank}.jsonl") for rank in range(ranks)]
    count = max(1, max(map(len, lines)))
    return {
        name: [texts.get(name, "the process ended") for texts in lines] for name in names[:count]
    }


def _lines(path: pathlib.Path) -> dict[str, str]:
    return dict(map(json.loads, path.read_text().splitlines())) if path.exists() else {}


def _rank(folder: pathlib.Path, rank: int, ranks: int, names: list[str]) -> None:
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder}/store",
        rank=rank,
        world_size=ranks,
        timeout=timedelta(seconds=SECONDS),
    )
    with (folder / f"{rank}.jsonl").open("w") as out:
        for name in names:
            problem = _problem(name)
            print(json.dumps([name, problem]), file=out, flush=True)
            if problem:
                os._exit(1)
    dist.destroy_process_group()


def _problem(name: str) -> str:
    torch._dynamo.reset()
    torch.manual_seed(0)
    try:
        scenarios.ALL[name].run()
    except Exception:
        return traceback.format_exc(limit=-6)
    return ""


def main() -> None:
    folder, ranks, *names = sys.argv[1:]
    names = names or [name for name, s in scenarios.ALL.items() if s.ranks == int(ranks)]
    print(json.dumps(run(pathlib.Path(folder), int(ranks), names)))


if __name__ == "__main__":
    main()
