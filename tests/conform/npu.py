#!/usr/bin/env python3
"""An NPU with sixteen faults to plant: a check of `tenon conform`, or a layer, sees each of them and
says where. The right NPU passes those checks, and with --whole it reaches level 4 as a device that
takes patterns alone.

    npu.py TENON INCLUDE COMPILER [--whole] [--only BUG]
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

import bases

HERE = pathlib.Path(__file__).resolve().parent
MANIFEST = bases.manifest("npu", {"devices": ["npu"]}) | {
    "library": "./npu.so",
    "environment": ["NPU_BUG"],
}
# The fault, the check that must see it, and a part of what that check says: the place.
BUGS = {
    "stride": ("E.atomic-claims", "conv, add, relu of net.tir"),
    "nowait": ("D.waits", "work that waits"),
    "stalecache": ("E.variations", "of net.tir, strides of 2 and 2"),
    "align512": ("E.variations", "of net.tir, "),
    "round": ("E.variations", "of quantised.tir, "),
    "race": ("E.queues-at-once", "one of four executions at once"),
    "leakbuf": ("C.free-gives-back", "buffers of 0 bytes"),
    "leakexe": ("E.every-byte", "executables were loaded and released"),
    "okonfail": ("D.waits-for-failed", "the signal of failed work gives OK"),
    "silentlimit": ("E.variations", "a last dim of 67"),
    "dtype": ("E.variations", "f64 for f32"),
    "dtype8": ("E.variations", "arguments of u8 for i8"),
    "tail": ("E.variations", "net.tir"),
    "earlysignal": (
        "D.failed-work",
        "a wait for the signal of a copy that leaves a buffer gives OK",
    ),
    "biasrow": ("E.variations", "dot_general, add of net.tir, a square result"),
    # Memory of less than the alignment it states. It cannot be mapped, and the NPU itself does not
    # need the alignment, so nothing shows it.
    "align64": ("E.variations", None),
}
# Faults that layers see while a program runs: the layers, and what they say.
LAYERS = {
    "nowait": ("jitter", "R-D03 is broken by the plugin"),
    "tail": ("validation:data=1", "R-E11 is broken by the plugin"),
    "race": ("validation:again=1", "R-E13 is broken by the plugin"),
}

NET = """tenon.tir 1
graph @net(%x: f32[2, 3, 17, 19]) -> (y: f32[2, 10]) {{
  %w1 = const f32[8, 3, 3, 3] [{w1}]
  %b1 = const f32[8] [{b1}]
  %w2 = const f32[16, 8, 3, 3] [{w2}]
  %b2 = const f32[16] [{b2}]
  %w3 = const f32[16, 10] [{w3}]
  %b3 = const f32[10] [{b3}]
  %0 = conv(%x, %w1) {{pad_high = [1, 1], pad_low = [1, 1]}} : f32[2, 8, 17, 19]
  %1 = broadcast(%b1) {{dims = [1], shape = dims [2, 8, 17, 19]}} : f32[2, 8, 17, 19]
  %2 = add(%0, %1) : f32[2, 8, 17, 19]
  %3 = relu(%2) : f32[2, 8, 17, 19]
  %4 = conv(%3, %w2) {{pad_high = [1, 1], pad_low = [1, 1], strides = [4, 4]}} : f32[2, 16, 5, 5]
  %5 = broadcast(%b2) {{dims = [1], shape = dims [2, 16, 5, 5]}} : f32[2, 16, 5, 5]
  %6 = add(%4, %5) : f32[2, 16, 5, 5]
  %7 = relu(%6) : f32[2, 16, 5, 5]
  %8 = reduce_sum(%7) {{dims = [2, 3]}} : f32[2, 16]
  %9 = dot_general(%8, %w3) {{a_contract = [1], b_contract = [0]}} : f32[2, 10]
  %10 = broadcast(%b3) {{dims = [1], shape = dims [2, 10]}} : f32[2, 10]
  %11 = add(%9, %10) : f32[2, 10]
  yield %11
}}
"""
QUANTISED = """tenon.tir 1
graph @quantised(%x: i8[5, 33]) -> (y: i8[5, 17]) {{
  %w = const i8[33, 17] [{w}]
  %z = const i16[5, 33] splat 3
  %s = const f32[5, 17] splat 0.004
  %zy = const f32[5, 17] splat -2
  %lo = const f32[5, 17] splat -128
  %hi = const f32[5, 17] splat 127
  %0 = convert(%x) {{dtype = i16}} : i16[5, 33]
  %1 = sub(%0, %z) : i16[5, 33]
  %2 = convert(%w) {{dtype = i16}} : i16[33, 17]
  %3 = dot_general(%1, %2) {{a_contract = [1], b_contract = [0], dtype = i32}} : i32[5, 17]
  %4 = convert(%3) {{dtype = f32}} : f32[5, 17]
  %5 = mul(%4, %s) : f32[5, 17]
  %6 = round_even(%5) : f32[5, 17]
  %7 = add(%6, %zy) : f32[5, 17]
  %8 = max(%7, %lo) : f32[5, 17]
  %9 = min(%8, %hi) : f32[5, 17]
  %10 = convert(%9) {{dtype = i8}} : i8[5, 17]
  yield %10
}}
"""


def write_examples(folder):
    numbers = random.Random(0)

    def floats(count):
        return ", ".join(f"{numbers.gauss(0, 0.3):.4f}" for _ in range(count))

    sizes = {"w1": 216, "b1": 8, "w2": 1152, "b2": 16, "w3": 160, "b3": 10}
    net = NET.format(**{name: floats(count) for name, count in sizes.items()})
    bytes_ = ", ".join(str(numbers.randint(-127, 127)) for _ in range(33 * 17))
    (folder / "net.tir").write_text(net)
    (folder / "quantised.tir").write_text(QUANTISED.format(w=bytes_))


def build(options, folder):
    command = [options.compiler, "-x", "c++", "-std=c++20", "-O1", "-w", "-fPIC", "-shared"]
    command += ["-fvisibility=hidden", f"-I{options.include}", HERE / "npu/npu.cpp"]
    command += ["-o", folder / "npu.so", f"-Wl,--version-script={bases.SOURCES / 'exports.map'}"]
    command += ["-pthread", "-lstdc++", "-lm", *bases.GOOD_LINK]
    subprocess.run([str(word) for word in command], check=True)
    (folder / "npu.plugin.json").write_text(json.dumps(MANIFEST))


class Bench:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder

    def run(self, bug, *command, **variables):
        environment = os.environ | {"NPU_BUG": bug, "TENON_CACHE_DIR": str(self.folder / "cache")}
        return subprocess.run(
            [self.options.tenon, *map(str, command)],
            capture_output=True,
            text=True,
            env=environment | variables,
        )

    def conform(self, bug, *more):
        """What the runner found, by check, the whole report, and what it printed."""
        report = self.folder / f"{bug or 'right'}.json"
        names = ("net.tir", "quantised.tir") if "E." in str(more) or not more else ()
        examples = [f"--example={self.folder / name}" for name in names]
        manifest = self.folder / "npu.plugin.json"
        page = report.with_suffix(".html")
        reports = ("--json", report, "--html", page)
        done = self.run(bug, "conform", manifest, *examples, *reports, *more)
        found = json.loads(report.read_text()) if report.exists() else {"checks": []}
        return {c["check"]: c for c in found["checks"]}, found, done.stdout + done.stderr

    def bug(self, bug):
        """What is wrong with what a check says of a fault."""
        check, text = BUGS[bug]
        found, _, said = self.conform(bug, "--filter", check, "--jobs", "1")
        wanted = "pass" if text is None else "fail"
        one = found.get(check, {"result": "none"})
        seen = one.get("text", "")
        if one["result"] == wanted and (text is None or text in seen):
            return ""
        return f"{bug}: {check} should {wanted} and say `{text}`: {one['result']}: {seen}\n{said}"

    def layer(self, bug):
        """What is wrong with what a layer says of a fault, and of the right NPU."""
        layer, text = LAYERS[bug]
        program = ["run", self.folder / "net.tir", "--device", "npu,cpu", "--seed", "1"]
        variables = {"TENON_LAYERS": layer, "TENON_PLUGIN_ADD": str(self.folder)}
        right = self.run("", *program, **variables)
        wrong = self.run(bug, *program, **variables)
        if right.returncode != 0 or "is broken" in right.stderr:
            return f"{layer} and the right NPU: {right.stdout}{right.stderr}"
        if text not in wrong.stderr or "'npu'" not in wrong.stderr:
            return f"{layer} does not say of {bug} `{text}`: {wrong.stdout}{wrong.stderr}"
        return ""

    def right(self):
        checks = ",".join(sorted({check for check, _ in BUGS.values()}))
        found, report, said = self.conform(
            "", *([] if self.options.whole else ["--filter", checks])
        )
        bad = [name for name, check in found.items() if check["result"] == "fail"]
        if bad or not found:
            return f"the right NPU fails {bad}:\n{said}"
        if self.options.whole and (report["level"] != 4 or not report["of_patterns"]):
            return f"the right NPU reaches level {report['level']}:\n{said}"
        patterns = report.get("patterns", [])
        few = [p for p in patterns if not 10 <= int(p["computed"]) <= 24]
        if len(patterns) != 4 or few:
            return f"there are 4 patterns, each in 10 to 24 variations: {patterns}"
        page = (self.folder / "right.html").read_text()
        order = ["npu 0.1.0: ", "What was computed", patterns[0]["inputs"], "What the words mean"]
        places = [page.find(text) for text in order]
        if -1 in places or places != sorted(places):
            return f"the page has {order} at {places}"
        print(f"the right NPU: {len(found)} checks in {report['seconds']:.0f} s")
        return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name in ("tenon", "include", "compiler"):
        parser.add_argument(name)
    parser.add_argument("--whole", action="store_true", help="all checks of the right NPU")
    parser.add_argument("--only", default="", help="this fault alone")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options, pathlib.Path(folder))
        build(options, bench.folder)
        write_examples(bench.folder)
        bugs = [options.only] if options.only else sorted(BUGS)
        problems = [] if options.only else [bench.right()]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            problems += pool.map(bench.bug, bugs)
            problems += pool.map(bench.layer, [bug for bug in bugs if bug in LAYERS])
    problems = [problem for problem in problems if problem]
    seen = sum(text is not None for _, text in BUGS.values())
    print("\n".join(problems) or f"{len(bugs)} faults, {seen} of them to be seen: all as listed")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
