#!/usr/bin/env python3
"""The runner with plugins that attack it: it ends, reports correctly, stays within its memory, and
leaves none of their processes behind.

    hostile.py TENON INCLUDE COMPILER
"""
import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import busy  # noqa: E402

# The library's behaviour when it is opened. The check A.opens only opens it.
SOURCE = r"""
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>
#include <tenon/abi/plugin.h>
static int is(const char* word) { const char* set = getenv("CONFORM_HOSTILE"); return set != NULL && strcmp(set, word) == 0; }
static void all(const char* text) { for (int d = 3; d < 2048; ++d) (void)!write(d, text, strlen(text)); }
__attribute__((constructor)) static void opened(void) {
  if (is("closes_and_loops")) { for (int d = 3; d < 2048; ++d) close(d); for (;;) pause(); }
  if (is("loops")) for (;;) pause();
  if (is("odd_result")) { all("result z \n"); all("\nresult 9 \n"); _exit(0); }
  if (is("forges")) { all("result 0 \n"); _exit(0); }
  if (is("floods_output")) { char text[65536]; memset(text, 'x', sizeof(text)); for (;;) (void)!write(2, text, sizeof(text)); }
  if (is("floods_answers")) { char text[65536]; memset(text, 'x', sizeof(text) - 1); text[65535] = 0; for (;;) all(text); }
  if (is("forks") || is("forks_and_crashes")) {
    if (fork() == 0) { if (is("forks")) setsid(); prctl(PR_SET_NAME, getenv("CONFORM_LEFT")); for (;;) pause(); }
    if (is("forks_and_crashes")) abort();
  }
}
tenon_code_t tenon_plugin_query(uint32_t abi, const tenon_host_t* host, const tenon_plugin_t** out) {
  (void)abi, (void)host, (void)out;
  return TENON_UNIMPLEMENTED;
}
"""
MANIFEST = {"schema": 1, "name": "hostile", "version": "0.1.0", "library": "./hostile.so"}
# Seconds for A.opens: few for cases that never end by themselves, for the others more than a busy
# machine needs.
HANGS, ENDS = "2", "100"
# The behaviour, the result of A.opens, a part of its text, and the limit.
CASES = [
    ("nothing", "pass", "", ENDS),
    ("closes_and_loops", "fail", "no end after", HANGS),
    ("loops", "fail", "no end after", HANGS),
    ("odd_result", "fail", "ended with status 0", ENDS),
    ("forges", "fail", "ended with status 0", ENDS),
    ("floods_output", "fail", "it wrote: xxx", HANGS),
    ("floods_answers", "fail", "no end after", HANGS),
    ("forks", "pass", "", ENDS),
    ("forks_and_crashes", "fail", "signal 6", ENDS),
]
LEFT = f"left{os.getpid()}"  # name of processes that must not be left; at most 15 bytes
MEMORY_KIB = 500 << 10  # limit of the runner; a flood of two seconds exceeds it


def left(manifest):
    """Processes of that name, and checks, which have the manifest among their arguments."""
    numbers = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            ours = (process / "comm").read_text().strip() == LEFT or str(manifest).encode() in (process / "cmdline").read_bytes()
            if ours and "State:\tZ" not in (process / "status").read_text():
                numbers.append(process.name)
        except OSError:
            pass
    return numbers


def none_left(manifest):
    """Waits for killed processes to disappear."""
    return busy.waits_until(lambda: not left(manifest))


def hangs(process, runner):
    """A process other than the runner that has closed all but its first descriptors: the library is
    open in it."""
    try:
        return int(process) != runner and all(int(d.name) < 3 for d in pathlib.Path(f"/proc/{process}/fd").iterdir())
    except OSError:
        return False


def main():
    tenon, include, compiler = sys.argv[1:]
    problems = []

    def want(condition, what):
        if not condition:
            problems.append(what)

    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "hostile.c").write_text(SOURCE)
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", f"-I{include}", folder / "hostile.c", "-o", folder / "hostile.so", "-Wl,-z,now"],
                       check=True)
        manifest, report = folder / "hostile.plugin.json", folder / "report.json"
        manifest.write_text(json.dumps(MANIFEST))

        def command(*more):
            return [tenon, "conform", str(manifest), "--filter", "A.opens", *map(str, more)]

        def environment(word):
            return os.environ | {"CONFORM_HOSTILE": word, "CONFORM_LEFT": LEFT}

        for word, result, text, limit in CASES:
            run = subprocess.run(command("--json", report, "--limit", limit), env=environment(word), capture_output=True, text=True,
                                 timeout=300)
            found = json.loads(report.read_text())["checks"][0] if report.exists() else {}
            report.unlink(missing_ok=True)
            want(found.get("result") == result and text in found.get("text", ""), f"{word}: {found}\n{run.stdout}{run.stderr}")
            want(none_left(manifest), f"{word}: processes {left(manifest)} live on")
        most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        want(most < MEMORY_KIB, f"{most} KiB of memory were in use")

        # The check ends with the runner, however the runner ends.
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
            with subprocess.Popen(command("--limit", "100"), env=environment("closes_and_loops"), stdout=subprocess.DEVNULL) as run:
                want(busy.waits_until(lambda run=run: any(hangs(process, run.pid) for process in left(manifest))),
                     f"before {number!r} no check came to hang")
                run.send_signal(number)
            want(none_left(manifest), f"after {number!r} processes {left(manifest)} live on")

    print("\n".join(problems) or f"{len(CASES)} hostile plugins")
    return 1 if problems else 0


sys.exit(main())
