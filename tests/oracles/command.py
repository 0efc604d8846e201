"""What both commands share: the two processes over chunks of cases, their tally, reports, and runs that go on."""

from __future__ import annotations

import argparse
import collections
import hashlib
import json
import os
import pathlib
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import children
from known import Known

HERE = pathlib.Path(__file__).resolve().parent
CHUNKS_AT_ONCE = 20
MOST_LINES = 1000


def caches() -> str:
    """A folder for the caches on disk of this run. Called before torch or tenon is imported."""
    folder = tempfile.mkdtemp(prefix="tenon_oracle_")
    os.environ["TENON_CACHE_DIR"] = f"{folder}/tenon"
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = f"{folder}/torch"
    return folder


class Tally:
    """What became of the cases of a run."""

    def __init__(self) -> None:
        self.ran: set[str] = set()
        self.failed: dict[str, str] = {}
        self.elsewhere: dict[str, str] = {}
        self.counts: collections.Counter[str] = collections.Counter()

    def fail(self, case: str, text: str) -> None:
        self.ran.add(case)
        self.failed.setdefault(case, text)

    def add(self, ran: Any, failed: Any, elsewhere: Any, counts: Any) -> None:
        self.ran.update(ran)
        self.failed.update(failed)
        self.elsewhere.update(elsewhere)
        self.counts.update(counts)


class Oracle(NamedTuple):
    """One of the two checks. `first` and `second` work on a chunk in the first and the second process.

    They yield ("begun", text), ("refused", case), ("group", cases) and ("verdict", (case, when, problem)).
    """

    name: str
    first: Callable[[Any], Iterator[Any]]
    second: Callable[[Any], Iterator[Any]]
    fixed: Callable[[str], list[Any]]
    whole: Callable[[], list[Any]]
    one: Callable[[str], Any]
    elsewhere: str
    """What a case is that the package leaves to others: "stays in torch", "is not supported"."""
    uncovered: Callable[[], dict[str, str]] = dict
    """Subjects without any case, and what to do about them."""

    @property
    def known(self) -> Known:
        return Known(HERE / f"known_{self.name}.txt")

    @property
    def stays(self) -> Known:
        return Known(HERE / f"stays_{self.name}.txt")


def run(oracle: Oracle, chunks: Sequence[Any], tally: Tally) -> None:
    groups: list[list[list[str]]] = [[] for _ in chunks]
    at_work = ""
    for at, what, message in children.run(chunks, oracle.first):
        if what == "found" and message[0] == "begun":
            at_work = message[1]
        elif what == "found" and message[0] == "group":
            groups[at].append(message[1])
            tally.ran.update(message[1])
            at_work = ", ".join(message[1])
        else:
            _note(tally, what, message, at_work)
    for _, what, message in children.run(groups, oracle.second):
        if what == "found" and message[0] == "begun":
            at_work = message[1]
        else:
            _note(tally, what, message, at_work)


def _note(tally: Tally, what: str, message: Any, at_work: str) -> None:
    if what == "died":
        tally.fail(f"({at_work})", f"died: {message}")
    elif what == "found" and message[0] == "count":
        tally.counts[message[1]] += message[2]
    elif what == "found":
        case, when, problem = message[1]
        if problem.startswith("refused:"):
            tally.elsewhere[case] = problem[9:]
        else:
            tally.fail(case, f"{when}: {problem}")


def report(oracle: Oracle, tally: Tally, known: Known, stays: Known | None) -> int:
    subjects = {case.split("#")[0].split("/")[0] for case in tally.ran}
    refused = tally.counts["refused"]
    print(
        f"{len(tally.ran)} cases of {len(subjects)} operators: {len(tally.failed)} fail, of {len(tally.elsewhere)} "
        f"the operator {oracle.elsewhere}; the oracle refuses {refused} more"
    )
    print(", ".join(f"{n} {what}" for what, n in sorted(tally.counts.items()) if what != "refused"))
    lines = known.judge(tally.ran, tally.failed)
    if stays is not None:
        lines += stays.judge(tally.ran, tally.elsewhere)
    for line in lines[:MOST_LINES]:
        print(f"FAIL {line}")
    if len(lines) > MOST_LINES:
        print(f"and {len(lines) - MOST_LINES} more")
    if lines:
        print(f'one of them alone: {sys.executable} {HERE}/oracle_{oracle.name}.py one "CASE"')
    return 1 if lines or not tally.ran else 0


def parsed(text: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=text.split("\n")[0])
    parser.add_argument("what", choices=("check", "whole", "one", "bless"))
    parser.add_argument("case", nargs="?", default="")
    parser.add_argument("--folder", type=pathlib.Path)
    parser.add_argument("--part", default="1/1")
    parser.add_argument("--only", default="", help="cases whose operator has this text")
    parser.add_argument("--seed", default="", help="another choice of cases in the fixed part")
    parser.add_argument("--verbose", action="store_true")
    return parser.parse_args()


def main(oracle: Oracle, text: str, folder: str) -> int:
    given = parsed(text)
    begin = time.monotonic()
    try:
        if given.what == "one":
            status = one(oracle, given.case)
        elif given.what == "whole":
            status = whole(oracle, given, folder)
        else:
            status = fixed(oracle, given)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{time.monotonic() - begin:.0f} s")
    return status


def one(oracle: Oracle, case: str) -> int:
    tally, none = Tally(), Known(HERE / "none")
    run(oracle, [oracle.one(case)], tally)
    return report(oracle, tally, none, none)


def fixed(oracle: Oracle, given: argparse.Namespace) -> int:
    tally, known, stays = Tally(), oracle.known, oracle.stays
    number, count = map(int, given.part.split("/"))
    run(oracle, _only(oracle.fixed(given.seed), given.only)[number - 1 :: count], tally)
    if given.verbose:
        for case, why in sorted(tally.elsewhere.items()):
            print(f"{oracle.elsewhere}: {case}: {why}")
    if given.what == "bless":
        known.write(tally.ran, tally.failed)
        stays.write(tally.ran, tally.elsewhere)
        known, stays = oracle.known, oracle.stays
    tally.failed.update(oracle.uncovered())
    return report(oracle, tally, known, stays)


def _only(chunks: list[Any], text: str) -> list[Any]:
    if not text:
        return chunks
    kept = [[slot for slot in chunk if text in slot[0].call] for chunk in chunks]
    return [chunk for chunk in kept if chunk]


def whole(oracle: Oracle, given: argparse.Namespace, folder: str) -> int:
    """All cases of a part. What ran is kept in the folder, by a digest of all that decides it."""
    if os.environ.get("CHECK_FULL", "0") in ("", "0"):
        print("skipped: all cases take hours (CHECK_FULL=1)")
        return 77
    number, count = map(int, given.part.split("/"))
    given.folder.mkdir(parents=True, exist_ok=True)
    prefix = f"{oracle.name}_{number}_of_{count}_"
    path = given.folder / f"{prefix}{_digest()}"
    for old in given.folder.glob(f"{prefix}*"):
        if old != path:
            old.unlink()
    tally = Tally()
    chunks = _only(oracle.whole(), given.only)[number - 1 :: count]
    done = _kept(path, tally)
    print(f"{path}: {done} of {len(chunks)} chunks from an earlier run", flush=True)
    for at in range(done, len(chunks), CHUNKS_AT_ONCE):
        part = Tally()
        run(oracle, chunks[at : at + CHUNKS_AT_ONCE], part)
        end = min(at + CHUNKS_AT_ONCE, len(chunks))
        with path.open("a") as out:
            out.write(
                json.dumps([end, sorted(part.ran), part.failed, part.elsewhere, part.counts]) + "\n"
            )
        tally.add(part.ran, part.failed, part.elsewhere, part.counts)
        shutil.rmtree(folder, ignore_errors=True)
        print(f"{end} of {len(chunks)} chunks, {len(tally.failed)} cases fail", flush=True)
    return report(oracle, tally, oracle.known, None)


def _kept(path: pathlib.Path, tally: Tally) -> int:
    done = 0
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            done, *parts = json.loads(line)
        except ValueError:  # the run was cut while it wrote
            break
        tally.add(*parts)
    return done


def _digest() -> str:
    """Of the package, the core and the plugins, and of the folder that judges."""
    import tenon

    package = pathlib.Path(tenon.__file__).parent
    libraries = package.parent.parent / "lib"
    files = [
        *package.rglob("*.py"),
        *package.glob("*.so"),
        *HERE.glob("*.py"),
        *HERE.glob("*.jsonl"),
    ]
    files += [
        f
        for pattern in ("libtenon.so", "tenon/plugins.d/*")
        for f in libraries.glob(pattern)
        if f.is_file()
    ]
    made = hashlib.sha256()
    for file in sorted(files):
        made.update(file.name.encode() + hashlib.sha256(file.read_bytes()).digest())
    return made.hexdigest()[:16]
