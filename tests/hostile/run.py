#!/usr/bin/env python3
"""Runs build/bin/tenon on every case of the hostile corpus and checks the result.

    python3 tests/hostile/run.py [--tenon PATH] [--filter TEXT] [--jobs N] [--keep FOLDER] [-v]

For every case: no signal, no hang (5 s of processor time unless the case says more, 30 s in all),
at most 1 GiB of resident memory, exit status 0 or 2, stderr valid UTF-8 without control characters,
and when the status is 2 one message that carries one stable code; no file written but the requested
outputs. The case has the expected outcome.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import make_onnx

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import busy  # noqa: E402

# Sanitizers are slower, need more memory, and reserve terabytes of address space.
SANITIZED = any(name in os.environ for name in ("ASAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS"))
SLOWER = 12.0 if SANITIZED else 1.0
# Of the clock, for cases that wait instead of working; generous, because the machine may be busy.
SECONDS = 120.0 if SANITIZED else 30.0
RESIDENT_BYTES = (8 << 30) if SANITIZED else (1 << 30)
ADDRESS_SPACE_BYTES = 16 << 30
STDERR_BYTES = 64 << 10
CODE = re.compile(r"\b[TP]\d{4}\b")
INTERNAL = (
    "Traceback",
    "terminate called",
    "Assertion",
    "AddressSanitizer",
    "runtime error:",
    "std::bad_alloc",
    "check failed",
)


def limit():
    if not SANITIZED:
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES, ADDRESS_SPACE_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def start(command, folder, out, err, environment):
    return subprocess.Popen(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=err,
        env=environment,
        preexec_fn=limit,
    )


def wait(process, seconds, stop):
    """Interrupts it after `stop` seconds of processor time, unless that is 0. Returns the exit
    status (negative: signal; None: still running at the end of its time), peak bytes and seconds of
    processor time."""
    end = time.monotonic() + seconds
    is_interrupted = not stop
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return process.returncode, usage.ru_maxrss * 1024, usage.ru_utime + usage.ru_stime
        if not is_interrupted and busy.is_at_work(process.pid, stop):
            process.send_signal(signal.SIGINT)
            is_interrupted = True
        if time.monotonic() > end:
            process.kill()
            os.wait4(process.pid, 0)
            process.returncode = -9
            return None, 0, seconds
        time.sleep(0.002)


def listing(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*"))


def judge(case, status, peak, seconds, stderr, outputs, stray):
    """What is wrong with the result, or nothing."""
    if status is None:
        yield f"hangs: no answer within {SECONDS:.0f} s"
        return
    if seconds > case.seconds * SLOWER:
        yield f"takes {seconds:.1f} s of processor time"
    if case.expect == "S":
        if status != 130:
            yield f"exit status {status} after an interrupt"
        status = None
    elif status not in (0, 2):
        yield f"exit status {status}" if status >= 0 else f"killed by signal {-status}"
    if peak > RESIDENT_BYTES:
        yield f"takes {peak >> 20} MiB"
    if stray:
        yield "leaves files: " + ", ".join(stray[:4])
    if len(stderr) > STDERR_BYTES:
        yield f"{len(stderr)} bytes on stderr"
    try:
        text = stderr.decode("utf-8")
    except UnicodeDecodeError as error:
        yield f"stderr is not UTF-8: {error}"
        return
    if re.search(r"[\x00-\x08\x0b-\x1f\x7f]", text):
        yield "control characters on stderr"
    for word in INTERNAL:
        if word in text:
            yield f"internal talk on stderr: {word!r}"
    allowed = case.expect.split("|")
    if status == 0 and "OK" not in allowed:
        yield "accepted"
    if status == 2:
        if allowed == ["OK"]:
            yield "refused"
        if not CODE.search(text):
            yield "no stable code on stderr"
        if "L" in allowed and "E" not in allowed and "limit" not in text:
            yield "the limit is not named"
        if not re.search(case.mentions, text, re.S):
            yield f"does not mention {case.mentions!r}"
    if status == 0:
        for name, tail in case.outputs.items():
            if not outputs.get(name, b"").endswith(tail):
                yield f"wrong values in output {name!r}"


def run(case, folder, tenon, cache):
    make_onnx.write(case, folder)
    out, err = folder.with_suffix(".stdout"), folder.with_suffix(".stderr")
    results = folder.with_suffix(".out")
    args = [*case.args] + (["--output-dir", str(results)] if case.outputs else [])
    environment = dict(
        os.environ, TENON_CACHE_DIR=str(cache), TENON_NUM_THREADS="1", HOME=str(cache)
    )
    before = listing(folder)
    with open(out, "wb") as stdout, open(err, "wb") as stderr:
        process = start([tenon, *args], folder, stdout, stderr, environment)
        status, peak, seconds = wait(process, SECONDS, case.stop)
    stray = [f for f in listing(folder) if f not in before]
    outputs = {
        n: (results / f"{n}.npy").read_bytes()
        for n in case.outputs
        if (results / f"{n}.npy").exists()
    }
    text = err.read_bytes()
    return case, list(judge(case, status, peak, seconds, text, outputs, stray)), text


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    root = pathlib.Path(__file__).resolve().parents[2]
    parser.add_argument("--tenon", default=str(root / "build/bin/tenon"))
    parser.add_argument("--filter", default="", help="only cases whose name holds this")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--keep", help="leave the files of all cases in this folder")
    parser.add_argument("-v", action="store_true", help="show every message")
    options = parser.parse_args()
    if not os.access(options.tenon, os.X_OK):
        sys.exit(f"{options.tenon} is not there: build it first, or give --tenon PATH")

    options.tenon = os.path.abspath(options.tenon)  # each case runs in a folder of its own
    place = pathlib.Path(options.keep or tempfile.mkdtemp(prefix="hostile."))
    place.mkdir(parents=True, exist_ok=True)
    cache = place / "cache"
    cache.mkdir(mode=0o700, exist_ok=True)
    chosen = [c for c in make_onnx.cases() if options.filter in c.name]
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        tasks = [pool.submit(run, c, place / c.name, options.tenon, cache) for c in chosen]
        for task in tasks:
            case, wrong, stderr = task.result()
            failed += bool(wrong)
            if wrong or options.v:
                print(
                    f"{'FAIL' if wrong else 'ok  '} {case.name} (expected {case.expect})"
                    f"{': ' if wrong else ''}{'; '.join(wrong)}"
                )
                print("     | " + repr(stderr[:400].decode("utf-8", "replace")))
    if not options.keep:
        shutil.rmtree(place, ignore_errors=True)
    print(f"{len(chosen) - failed} passed, {failed} failed")
    return 1 if failed or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
