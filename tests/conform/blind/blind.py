#!/usr/bin/env python3
"""Runs the sets of blind mutants, written from docs/spec/plugin.md and the headers alone. Each word
of second.list and third.list must fail a check of a requirement that its line names.

    blind.py --tenon build/bin/tenon --base build/lib/tenon/plugins.d/sim.plugin.json --include sdk [--only GLOB,...] [--jobs 2] [--full]

The good device is that of --base; SET.cpp is a shim in front of its library. Marks may follow the
requirements of a line:

    hangs           the fault makes a check wait forever, so a timeout counts as caught. It does not for other words, because on a busy
                    machine good devices may time out too.
    part            also runs without --full (or CHECK_FULL=1 in the environment), which runs all
    not-caught-yet  no check detects it yet. If it is caught, this test fails, so that marks are removed when they are obsolete.
"""
import argparse
import concurrent.futures
import fnmatch
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SETS = ("second", "third")
MARKS = {"hangs", "part", "not-caught-yet"}


class Mutant:
    def __init__(self, of, word, *rest):
        self.of, self.word = of, word
        self.requirements = [r for r in rest if r.startswith("R-")]
        self.marks = {r for r in rest if not r.startswith("R-")}
        if not self.requirements or self.marks - MARKS:
            sys.exit(f"{of}.list: the line of {word} has no requirement, or another mark than {', '.join(sorted(MARKS))}")


def listed():
    return [Mutant(of, *line.split()) for of in SETS for line in (HERE / f"{of}.list").read_text().splitlines() if line and line[0] != "#"]


def build(folder, of, base, include, compiler):
    # A separate copy of the C++ library, so that the shim's own allocations are not judged.
    folder.mkdir(mode=0o755)
    subprocess.run([compiler, "-std=c++20", "-O1", "-w", "-shared", "-fPIC", "-fvisibility=hidden", "-fno-sanitize=all", "-I", include,
                    str(HERE / f"{of}.cpp"), "-o", str(folder / "shim.so"), "-Wl,-z,now", "-static-libstdc++",
                    "-Wl,--exclude-libs,ALL", "-ldl", "-lpthread"], check=True)
    (folder / "shim.plugin.json").write_text(json.dumps(json.loads(base.read_text()) | {"library": "./shim.so"}))


class Bench:
    def __init__(self, options, folder):
        self.tenon, self.folder, base = options.tenon, folder, pathlib.Path(options.base).resolve()
        self.library = str(base.parent / json.loads(base.read_text())["library"])
        told = subprocess.run([self.tenon, "conform", "--list", "--json", "-"], check=True, capture_output=True, text=True)
        self.checks = {}
        for check in json.loads(told.stdout)["checks"]:
            self.checks.setdefault(check["requirement"], []).append(check["check"])

    def fails(self, of, check, word="", hangs=False):
        """The text of that check's failure on that mutant; None if it does not fail. The good
        device (no word) and mutants that do not hang get the runner's time limit, however busy the
        machine is."""
        answer = self.folder / f"{of}-{word}-{check}.json"
        environment = os.environ | {"BLIND_MUTANT": word, "BLIND_BASE": self.library, "TENON_CACHE_DIR": str(self.folder / "cache")}
        subprocess.run([self.tenon, "conform", str(self.folder / of / "shim.plugin.json"), "--filter", check, *(["--limit", "20"] if hangs else []),
                        "--json", str(answer)], env=environment, capture_output=True)
        (result,) = json.loads(answer.read_text())["checks"]
        counts = hangs or not word or not result.get("text", "").startswith("no end after")
        return result.get("text", "") if result["result"] == "fail" and counts else None

    def catch(self, mutant):
        """The first check of its requirements that fails on the mutant, or None."""
        names = [name for r in mutant.requirements for name in self.checks[r]]
        return next((name for name in names if self.fails(mutant.of, name, mutant.word, "hangs" in mutant.marks) is not None), None)


def main():
    parser = argparse.ArgumentParser()
    for name in ("tenon", "base", "include"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--compiler", default="clang++-19")
    parser.add_argument("--only", default="")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--full", action="store_true", default=os.environ.get("CHECK_FULL") == "1")
    parser.add_argument("-v", action="store_true", help="tell what caught each")
    options = parser.parse_args()
    mutants = [m for m in listed() if (any(fnmatch.fnmatch(m.word, glob) for glob in options.only.split(",")) if options.only else options.full or "part" in m.marks)]
    problems = []
    with tempfile.TemporaryDirectory() as name, concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        bench = Bench(options, pathlib.Path(name))
        chosen = sorted({m.of for m in mutants})
        list(pool.map(lambda of: build(bench.folder / of, of, pathlib.Path(options.base), options.include, options.compiler), chosen))
        asked = sorted({(m.of, check) for m in mutants for r in m.requirements for check in bench.checks[r]})
        sound = [(of, check, pool.submit(bench.fails, of, check)) for of, check in asked]
        caught = [(m, pool.submit(bench.catch, m)) for m in mutants]
        problems += [f"the good device of {of} fails {check}: {text.result()}" for of, check, text in sound if text.result() is not None]
        for mutant, found in caught:
            check, where = found.result(), f"{mutant.of}: {mutant.word} ({', '.join(mutant.requirements)})"
            if options.v:
                print(f"{where}: {check}", flush=True)
            if check is None and "not-caught-yet" not in mutant.marks:
                problems.append(f"{where} is not caught")
            if check is not None and "not-caught-yet" in mutant.marks:
                problems.append(f"{where} is caught by {check}: take the mark not-caught-yet away")
    print("\n".join([*problems, f"{len(mutants)} mutants, {len(problems)} problems"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
