#!/usr/bin/env python3
"""Each mutant fails the check that must catch it: a good plugin with one fault in its code, its
link or its manifest. The good plugins pass. The runner itself survives plugins that attack it: it
ends, stays within its memory and leaves no process of a check running.

    mutants.py TENON INCLUDE COMPILER [--filter PART_OF_A_NAME|CHECK] [-v]

A line of mutants/BASE.list is a mutant of that base (bases.py):

    WORD CHECK [MARK...] [: TEXT]

WORD is the fault, CHECK the one check that must catch it, TEXT a part of what that check says.
The marks:

    hangs           the check never ends, so its end by the time limit counts. For other words it
                    does not: on a busy machine a good device may be late too.
    passes          nothing is wrong, or the fault is allowed, and the check passes
    not-caught-yet  the check misses it. If the check catches it, this test fails, so that marks
                    are removed when they are obsolete.
    ended-by-N      the runner gets signal N while the check hangs, and the check ends with it
"""

import argparse
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import bases

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import busy  # noqa: E402

MARK = re.compile(r"hangs|passes|not-caught-yet|ended-by-\d+")
# Seconds for a check that hangs. The others have the limits of the runner.
HANGS_SECONDS = 6
# Hanging checks sleep, so many of them may run at once.
HANGING = 8


@dataclasses.dataclass
class Mutant:
    base: bases.Base
    kind: str
    word: str
    check: str
    marks: set = dataclasses.field(default_factory=set)
    text: str = ""  # of the check's failure
    manifest: str = ""  # in place of the base's
    mode: tuple = ()  # file and mode
    link: tuple = ()  # flags of the compiler and the linker

    @property
    def name(self):
        return f"{self.kind} {self.word}"

    def wanted(self):
        return "pass" if self.marks & {"passes", "not-caught-yet"} else "fail"

    def signal(self):
        return next((int(m[9:]) for m in self.marks if m.startswith("ended-by-")), None)


def listed(base):
    path = bases.SOURCES / f"{base.name}.list"
    for number, line in enumerate(path.read_text().splitlines(), 1):
        head, _, text = line.partition(" : ")
        word, check, *marks = head.split()
        if any(not MARK.fullmatch(mark) for mark in marks):
            sys.exit(f"{path}:{number}: an unknown mark; the marks are {MARK.pattern}")
        mutant = Mutant(base, base.name, word, check, set(marks), text)
        if word == "op_taken_name":
            mutant.manifest = json.dumps(base.manifest).replace("mutant_sum", "add")
        yield mutant


def mutants():
    for base in bases.ALL:
        yield from listed(base)
    plain = bases.ALL[0]
    for word, (flags, link, check) in bases.LINK.items():
        yield Mutant(plain, "link", word, check, link=(flags, link))
    for word, (text, check) in bases.MANIFESTS.items():
        yield Mutant(plain, "manifest", word, check, manifest=text)
    for word, (file, mode, check) in bases.MODES.items():
        yield Mutant(plain, "mode", word, check, mode=(file, mode))


def build(options, base, folder, flags=(), link=bases.GOOD_LINK):
    folder.mkdir(mode=0o755)
    if "NEEDED_WITH_FOLDER" in link:
        helper = folder / "libhelper.so"
        command = [options.compiler, "-shared", "-x", "c", "/dev/null", "-o", helper]
        subprocess.run(command, check=True)
        link = [str(helper) if word == "NEEDED_WITH_FOLDER" else word for word in link]
    language = ["-std=gnu11"]
    if base.sources[0].endswith(".cpp"):
        language = ["-x", "c++", "-std=c++20"]
        exports = f"-Wl,--version-script={bases.SOURCES / 'exports.map'}"
        link = [*link, "-lstdc++", "-ldl", exports]
    common = ["-O1", "-w", "-fPIC", "-shared", "-fvisibility=hidden", f"-I{options.include}"]
    sources = [bases.SOURCES / source for source in base.sources]
    command = [options.compiler, *language, *common, *base.flags, *flags, *sources]
    command += ["-o", folder / "mutant.so", "-pthread", "-lm", *link]
    subprocess.run([str(word) for word in command], check=True)


def left(manifest):
    """Processes that have the manifest among their arguments: checks, and what they have forked."""
    numbers = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            ours = str(manifest).encode() in (process / "cmdline").read_bytes()
            if ours and "State:\tZ" not in (process / "status").read_text():
                numbers.append(process.name)
        except OSError:
            pass
    return numbers


def has_closed_all(process):
    """Whether it has only its first descriptors: closes_and_loops is open in it."""
    try:
        return all(int(d.name) < 3 for d in pathlib.Path(f"/proc/{process}/fd").iterdir())
    except OSError:
        return False


class Bench:
    def __init__(self, options, folder):
        self.options, self.folder, self.problems = options, folder, []
        self.environment = os.environ | {"TENON_CACHE_DIR": str(folder / "cache")}

    def command(self, base, folder, check="", hangs=False):
        made = [self.options.tenon, "conform", folder / "mutant.plugin.json", *base.more]
        made += ["--json", folder / "report.json", *(["--filter", check] if check else [])]
        made += ["--jobs", 1 if check else 2, *(["--limit", HANGS_SECONDS] if hangs else [])]
        return [str(word) for word in made]

    def run(self, base, folder, word, check="", hangs=False, signal=None):
        """The report, what was printed, and the memory used."""
        manifest, report = folder / "mutant.plugin.json", folder / "report.json"
        with open(folder / "printed", "w+") as printed:
            command = self.command(base, folder, check, hangs)
            environment = self.environment | {"CONFORM_MUTANT": word}
            run = subprocess.Popen(command, env=environment, stdout=printed, stderr=printed)
            if signal:
                hanging = busy.waits_until(
                    lambda: any(has_closed_all(p) for p in left(manifest) if int(p) != run.pid)
                )
                run.send_signal(signal)
            _, status, usage = os.wait4(run.pid, 0)
            run.returncode = os.waitstatus_to_exitcode(status)
            printed.seek(0)
            said = printed.read()
        if signal and not hanging:
            said += "no check came to hang"
        found = json.loads(report.read_text()) if report.exists() else {"checks": []}
        return found, said, usage.ru_maxrss

    def is_good(self, base, rows):
        """Whether nothing is wrong with the plugin as it is."""
        checks = "" if base.passes_all or base.holds else ",".join(sorted({m.check for m in rows}))
        found, said, _ = self.run(base, self.folder / base.name, "", checks)
        results = {c["check"]: c["result"] for c in found["checks"]}
        may_fail = {"F.core-set"} if base.holds else set()
        failed = [check for check, r in results.items() if r == "fail" and check not in may_fail]
        groups = {g["group"]: g["holds"] for g in found.get("groups", [])}
        group, level = base.holds or ("", 0)
        holds = not base.holds or (groups[group] and found["level"] == level)
        if results and not failed and holds:
            return True
        print(f"{base.name}, in which nothing is wrong, fails {failed}:\n{said}")
        return False

    def prepare(self, mutant, folder):
        if mutant.link:
            build(self.options, mutant.base, folder, *mutant.link)
        else:
            folder.mkdir(mode=0o755)
            shutil.copy(self.folder / mutant.base.name / "mutant.so", folder / "mutant.so")
        text = (mutant.manifest or json.dumps(mutant.base.manifest)).replace("FOLDER", str(folder))
        (folder / "mutant.plugin.json").write_text(text)
        if mutant.mode:
            (folder / mutant.mode[0]).chmod(mutant.mode[1])

    def try_one(self, mutant, folder):
        """What is wrong with the outcome, and what the runner printed."""
        self.prepare(mutant, folder)
        word = mutant.word if mutant.kind == mutant.base.name else ""
        hangs, signal = "hangs" in mutant.marks, mutant.signal()
        found, said, memory = self.run(mutant.base, folder, word, mutant.check, hangs, signal)
        check = found["checks"][0] if found["checks"] else {}
        result, text = check.get("result", "none"), check.get("text", "")
        problems = []
        if signal is None and result != mutant.wanted():
            problems.append(f"{mutant.check}: {result}, not {mutant.wanted()}")
        if mutant.text not in text or "no check came to hang" in said:
            problems.append(f"it does not say `{mutant.text}`: {text}")
        if result == "fail" and not hangs and text.startswith("no end after"):
            problems.append("only the time limit ended it")
        if memory > mutant.base.memory_kib:
            problems.append(f"the runner used {memory} KiB of memory")
        manifest = folder / "mutant.plugin.json"
        if not busy.waits_until(lambda: not left(manifest)):
            problems.append(f"processes {left(manifest)} live on")
        shutil.rmtree(folder)
        return problems, f"{result}: {text}\n{said}"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name in ("tenon", "include", "compiler"):
        parser.add_argument(name)
    parser.add_argument("--filter", default="")
    parser.add_argument("-v", action="store_true", help="print what the runner said")
    return parser.parse_args()


def main():
    options = arguments()
    chosen = [m for m in mutants() if options.filter in m.name or options.filter == m.check]
    failures = 0
    threads = concurrent.futures.ThreadPoolExecutor
    with (
        tempfile.TemporaryDirectory() as folder,
        threads(os.cpu_count()) as pool,
        threads(HANGING) as sleepers,
    ):
        bench = Bench(options, pathlib.Path(folder))
        used = [base for base in bases.ALL if any(m.base is base for m in chosen)]
        list(pool.map(lambda base: build(options, base, bench.folder / base.name), used))
        for base in used:
            manifest = bench.folder / base.name / "mutant.plugin.json"
            manifest.write_text(json.dumps(base.manifest))
        rows = {base.name: [m for m in chosen if m.base is base] for base in used}
        good = [] if options.filter else [pool.submit(bench.is_good, b, rows[b.name]) for b in used]
        tried = []
        for i, m in enumerate(chosen):
            threads_for_it = sleepers if "hangs" in m.marks else pool
            tried.append((m, threads_for_it.submit(bench.try_one, m, bench.folder / str(i))))
        for mutant, outcome in tried:
            problems, said = outcome.result()
            failures += bool(problems)
            if problems or options.v:
                print(f"{mutant.name}: {mutant.check}: {'; '.join(problems)}\n{said}", flush=True)
        failures += sum(not outcome.result() for outcome in good)
    print(f"{len(chosen)} mutants, {failures} problems")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
