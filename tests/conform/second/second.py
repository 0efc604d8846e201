#!/usr/bin/env python3
"""Runs the second set of mutants: each has to fail a check that names a requirement of its line in second.list.

    second.py --tenon build/bin/tenon --base build/lib/tenon/plugins.d/sim.plugin.json --include build/include [--only GLOB] [--jobs 2] [--full]

The good device is the one of --base; shim.cpp stands in front of its library. Prints each miss with what did fail. Without --full (or
CHECK_FULL=1 in the environment) one mutant of each requirement group and those that were missed once.
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
# Those that the first run missed, and one of each group.
FIXED_PART = {"good_is_a_tenth_of_a_second", "names_a_node_twice_in_a_claim", "loads_the_last_good_bytes", "offers_any_alias",
              "claims_every_other_time", "artifacts_are_kept", "sets_a_variable", "odd_offset_rounded", "failing_alloc_writes",
              "signals_at_submission", "nan_becomes_zero", "thread_takes_signals"}


def listed():
    for line in (HERE / "second.list").read_text().splitlines():
        if line and not line.startswith("#"):
            word, *requirements = line.split()
            yield word, requirements


def build(folder, base, include, compiler):
    # Its own copy of the C++ library: what the shim itself allocates is no part of what is judged.
    subprocess.run([compiler, "-std=c++20", "-O1", "-w", "-shared", "-fPIC", "-fvisibility=hidden", "-fno-sanitize=all", "-I", include,
                    str(HERE / "shim.cpp"), "-o", str(folder / "shim.so"), "-Wl,-z,now", "-static-libstdc++",
                    "-Wl,--exclude-libs,ALL", "-ldl", "-lpthread"], check=True)
    manifest = json.loads(pathlib.Path(base).read_text())
    manifest["library"] = "./shim.so"
    (folder / "shim.plugin.json").write_text(json.dumps(manifest))


def failures(options, folder, word, groups):
    """(requirement, check) of what failed, over the groups asked for. Mutants that hang are not waited for long; the good device has the time that
    the runner gives, however busy the machine is."""
    found = []
    for group in groups:
        answer = folder / f"{word}-{group}.json"
        environment = {**os.environ, "SECOND_MUTANT": word, "SECOND_BASE": options.library, "TENON_CACHE_DIR": str(folder / "cache")}
        limit = ["--limit", "20"] if word else []
        subprocess.run([options.tenon, "conform", str(folder / "shim.plugin.json"), "--filter", f"{group}.*", *limit, "--json", str(answer)],
                       env=environment, capture_output=True)
        report = json.loads(answer.read_text())
        found += [(c["requirement"], c["check"]) for c in report["checks"] if c["result"] == "fail"]
    return found


def main():
    parser = argparse.ArgumentParser()
    for name in ("tenon", "base", "include"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--compiler", default="clang++-19")
    parser.add_argument("--only", default="*")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--full", action="store_true", default=os.environ.get("CHECK_FULL") == "1")
    options = parser.parse_args()
    base = pathlib.Path(options.base).resolve()
    options.library = str(base.parent / json.loads(base.read_text())["library"])
    mutants = [m for m in listed() if fnmatch.fnmatch(m[0], options.only) and (options.full or options.only != "*" or m[0] in FIXED_PART)]
    missed = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        build(folder, base, options.include, options.compiler)
        sound = failures(options, folder, "", sorted({r[2] for _, requirements in mutants for r in requirements}))
        if sound:
            sys.exit(f"the base device itself fails {sound}")
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            runs = {word: pool.submit(failures, options, folder, word, sorted({r[2] for r in requirements})) for word, requirements in mutants}
            for word, requirements in mutants:
                found = runs[word].result()
                if not any(r in requirements for r, _ in found):
                    missed += 1
                    print(f"missed: {word} ({', '.join(requirements)}); failed: {', '.join(f'{r} {c}' for r, c in found) or 'nothing'}", flush=True)
    print(f"{len(mutants) - missed} of {len(mutants)} mutants caught")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
