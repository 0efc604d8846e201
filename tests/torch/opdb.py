"""PyTorch's operator database through AOTAutograd and Tenon, against eager mode.

    python3 opdb.py run --state FILE [--per-entry N] [--passes forward,backward] [--dtypes float32,int64,bool] [NAME...]
    python3 opdb.py report --state FILE [--verbose]
    python3 opdb.py bless [--grow] --state FILE   # writes opdb_rest.txt and opdb_samples.txt
    python3 opdb.py check [--state FILE]      # the fixed samples, or a whole state, against the lists
    python3 opdb.py whole --folder FOLDER --part 1/2   # half of all entries, with CHECK_FULL=1

Each sample has a verdict per pass (`opdb_sample.py`). The state is a file of lines; a run that was cut
goes on after them. Samples run in child processes: one that dies or hangs is a verdict.
"""

# Reaches: frontends/torch
from __future__ import annotations

import argparse
import pathlib
import sys

try:
    import expecttest  # noqa: F401, which torch's database needs
    import torch  # noqa: F401
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

import opdb_lists as lists  # noqa: E402
import opdb_whole  # noqa: E402
from opdb_run import run  # noqa: E402
from opdb_state import State  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=("run", "report", "bless", "check", "whole"))
    parser.add_argument("--state", type=pathlib.Path)
    parser.add_argument("--folder", type=pathlib.Path)
    parser.add_argument("--part", default="1/1")
    parser.add_argument("--per-entry", type=int, default=1 << 30)
    parser.add_argument("--passes", default="forward,backward")
    parser.add_argument("--dtypes", default="float32,int64,bool")
    parser.add_argument("--again", default="", help="verdicts that are tried again, with commas")
    parser.add_argument("--grow", action="store_true", help="bless although something became worse")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("names", nargs="*")
    return parser.parse_intermixed_args()


def main() -> int:
    given = parsed()
    if given.what == "whole":
        if given.folder is None:
            sys.exit("opdb.py: --folder FOLDER is needed")
        return opdb_whole.check(HERE, given.folder, given.part)
    if given.what == "check" and given.state is None:
        return lists.check_samples(HERE)
    if given.state is None:
        sys.exit("opdb.py: --state FILE is needed")
    state = State(given.state)
    if given.what == "run":
        state.forget([v for v in given.again.split(",") if v], given.names)
        run(state, given.names, given.dtypes.split(","), given.passes.split(","), given.per_entry)
    if given.what == "bless":
        return lists.bless(HERE, state, given.grow)
    if given.what == "check":
        return lists.check_state(HERE, state)
    lists.report(state, given.names, given.verbose)
    return 0


if __name__ == "__main__":
    sys.exit(main())
