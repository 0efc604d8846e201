"""Every third entry of PyTorch's operator database with distributed tensors, on two ranks.

    python3 opdb_dtensor.py whole --folder FOLDER   # with CHECK_FULL=1; goes on where it was cut
    python3 opdb_dtensor.py run NAME...             # these entries, with what went wrong

The first sample of an entry, split along dims of even size, goes through Tenon. Its results must be
those of eager mode with distributed tensors, wherever `aot_eager` gives these. Verdicts: `equal`;
`refused`, where eager mode with distributed tensors fails or differs from ordinary ones; `untraced`,
where aot_eager fails or differs as well; `wrong`.
"""

# Reaches: frontends/torch
from __future__ import annotations

import argparse
import collections
import os
import pathlib
import random
import re
import sys
import tempfile
from functools import partial

try:
    import expecttest  # noqa: F401, which torch's database needs
    import torch
    import torch.distributed as dist
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)
if not dist.is_gloo_available():
    print("skipped: this PyTorch has no gloo")
    sys.exit(77)

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import opdb_sample  # noqa: E402
import opdb_whole  # noqa: E402
import ranks  # noqa: E402
from common import ALL, Scenario  # noqa: E402
from opdb_compare import difference, is_random_difference, tie_difference  # noqa: E402
from opdb_state import Key, State  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor  # noqa: E402
from torch.testing._internal import common_methods_invocations as definitions  # noqa: E402
from torch.utils import _pytree as pytree  # noqa: E402

RANKS = 2
AT_ONCE = 8
"""Entries for one start of a group of processes."""
BACKENDS = ("tenon", "aot_eager")
# Their vectors have free signs; samples come with a function that takes them away.
FREE_SIGNS = (*opdb_sample.FREE_SIGNS, "linalg.eigh")
ERROR = re.compile(r"[\w.]*(Error|Exception|Wrong|Unsupported)\b.*")
# So that more dims can be split.
definitions.L, definitions.M, definitions.S, definitions.XS = 24, 12, 4, 2


class Refused(Exception):
    """Eager mode cannot do it with distributed tensors."""


class Wrong(Exception):
    """Results differ."""


def distributed(mesh, value):
    """Split along the first dim that has equal parts."""
    if not isinstance(value, torch.Tensor):
        return value
    dims = [i for i, size in enumerate(value.shape) if size > 0 and size % RANKS == 0]
    return distribute_tensor(value, mesh, [Shard(dims[0]) if dims else Replicate()])


def results(function, given, of_results) -> list:
    """Whole tensors; random numbers begin at the same place each time."""
    torch.manual_seed(1)
    x, args, options = given
    made = pytree.tree_map_only(DTensor, DTensor.full_tensor, function(x, *args, **options))
    return pytree.tree_leaves(of_results(made))


def judged(entry: str, sample, got: list, expected: list, drawn: bool) -> str:
    name = opdb_sample.ENTRIES[entry].name
    if drawn or name in opdb_sample.UNDEFINED:
        return is_random_difference(got, expected, name in opdb_sample.UNDEFINED)
    problem = difference(got, expected)
    if problem and name in opdb_sample.TIES:
        problem = tie_difference(sample.input, got, expected)
    return problem


def run_entry(entry: str, backend: str) -> None:
    """What each rank does."""
    opdb_sample.quiet()
    operator = opdb_sample.ENTRIES[entry].op
    random.seed(0)  # some samples are drawn by it
    try:
        _, sample = next(opdb_sample.samples(entry, "float32", 1))
        given = (sample.input, tuple(sample.args), dict(sample.kwargs))
        signed = sample.output_process_fn_grad if entry in FREE_SIGNS else lambda made: made
        whole = results(operator, given, signed)
        drawn = torch.get_rng_state().ne(torch.manual_seed(1).get_state()).any().item()
        mesh = init_device_mesh("cpu", (RANKS,))
        parts = pytree.tree_map(partial(distributed, mesh), given)
        expected = results(operator, parts, signed)
        problem = judged(entry, sample, expected, whole, drawn)
    except Exception as error:
        raise Refused(f"{type(error).__name__}: {error}") from error
    if problem:
        raise Refused(problem)
    compiled = torch.compile(
        lambda x, *args, **options: operator(x, *args, **options), backend=backend
    )
    problem = judged(entry, sample, results(compiled, parts, signed), expected, drawn)
    if problem:
        raise Wrong(problem)


def outcome(texts: list[str]) -> tuple[str, str]:
    """Of what the ranks reported: "equal", "refused" or "failed", and why."""
    problems = [text for text in texts if text]
    refusals = [text for text in problems if "Refused: " in text]
    if not problems:
        return "equal", ""
    chosen = (refusals or [t for t in problems if t != "the process ended"] or problems)[0]
    if refusals:
        return "refused", chosen.split("Refused: ")[-1].strip()[:300]
    lines = [line for line in chosen.splitlines() if ERROR.match(line)]
    return "failed", (lines[-1] if lines else chosen)[:300]


def key_of(entry: str, backend: str) -> Key:
    return Key(entry, "float32", backend, 0)


def run(state: State, entries: list[str], backend: str) -> None:
    """All entries without a verdict, some at once."""
    left = [e for e in entries if key_of(e, backend) not in state.verdicts]
    for entry in left:
        ALL[f"{backend}.{entry}"] = Scenario(RANKS, partial(run_entry, entry, backend))
    while left:
        chosen, left = left[:AT_ONCE], left[AT_ONCE:]
        with tempfile.TemporaryDirectory() as folder:
            found = ranks.run(pathlib.Path(folder), RANKS, [f"{backend}.{e}" for e in chosen])
        for entry in chosen:
            state.add(key_of(entry, backend), *outcome(found[f"{backend}.{entry}"]))


def report(state: State, entries: list[str]) -> int:
    """Prints verdicts. 1 if any is wrong."""
    counts: collections.Counter = collections.Counter()
    for entry in entries:
        verdict, reason = state.verdicts[key_of(entry, "tenon")]
        if verdict == "failed":
            plain, _ = state.verdicts[key_of(entry, "aot_eager")]
            verdict = "wrong" if plain == "equal" else "untraced"
        counts[verdict] += 1
        if verdict in ("wrong", "untraced"):
            print(f"{verdict}: {entry}: {reason}")
    print(f"{len(entries)} entries:", dict(counts))
    return int(counts["wrong"] > 0)


def check(state: State, entries: list[str]) -> int:
    run(state, entries, "tenon")
    failed = [e for e in entries if state.verdicts[key_of(e, "tenon")][0] == "failed"]
    run(state, failed, "aot_eager")
    return report(state, entries)


def all_entries() -> list[str]:
    supported = [e for e, op in opdb_sample.ENTRIES.items() if opdb_sample.supports(op, "float32")]
    return supported[::3]


def whole(folder: pathlib.Path) -> int:
    if os.environ.get("CHECK_FULL", "0") in ("", "0"):
        print("skipped: a third of the operator database takes half an hour (CHECK_FULL=1)")
        return 77
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"dtensor_{opdb_whole.digest(HERE.parent, HERE)}"
    for old in folder.glob("dtensor_*"):
        if old != path:
            old.unlink()
    state = State(path)
    print(f"{path}: {len(state.verdicts)} verdicts from an earlier run", flush=True)
    return check(state, all_entries())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=("run", "whole"))
    parser.add_argument("--folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    given = parser.parse_intermixed_args()
    if given.what == "whole":
        if given.folder is None:
            sys.exit("opdb_dtensor.py: --folder FOLDER is needed")
        return whole(given.folder)
    with tempfile.TemporaryDirectory() as folder:
        return check(State(pathlib.Path(folder, "state")), given.names)


if __name__ == "__main__":
    sys.exit(main())
