"""The printers of sdk/debug/tenon_gdb.py, and dump(), in gdb.

    printers.py PROGRAM LIBRARIES

Skipped, with a reason and status 77, where gdb is missing or may not start programs.
"""

import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "sdk/debug/tenon_gdb.py"

# Commands at the stops, and the expected output of each: all of these lines, in this order.
EXPECTED = {
    "print graph": [
        "graph @pairs<n, m>, 2 nodes",
        "%sum = plus(%x, %x) : f32[n, 2*m]",
        "= reshape_to(%sum) : f32[2*m, n]",
        "yield = ",
    ],
    "print graph.dims_": ["2 symbols, ", "= n", "= 2*m"],
    "print kernel": [
        "kernel, 2 buffers, 1 stages",
        "b0 = f32[n0, 4] in",
        "stage 0 = Reduce over [i0 < n0] reduce [i1 < 4] into b1",
    ],
    "call graph.dump()": ["tenon.tir 1", "%0 = reshape_to(%sum) {shape = dims [2*m, n]}"],
    "call graph.dims_.dump(dim)": ["2*m"],
    "call kernel.dump()": ["kernel lead [] {", "stage 0 Reduce over [i0] reduce [i1]"],
    "tenon-dump graph": ["tenon.tir 1"],
    "tenon-dump kernel": ["kernel lead [] {"],
    "tenon-dump dim": ["tenon-dump takes a graph, a handle of the SDK or a kernel, not "],
    "continue": ["stop_with ("],
    "print dim ": ["2*m"],
    "print value": ["%x : f32[n, 2*m]"],
    "print node": ["reshape_to(%sum) : f32[2*m, n]"],
    "tenon-dump node": ["tenon.tir 1"],
    "tenon-dump node.graph_": ["tenon.tir 1"],
}
# Functions that only a debugger calls.
KEPT = {
    "libtenon.so": ["tenon::ir::Graph::dump() const", "tenon::ir::DimTable::dump(long) const"],
    "tenon/plugins.d/cpu.so": ["tenon::kernelgen::Kernel::dump() const"],
}


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def gdb(*arguments):
    command = ["gdb", "-nx", "-batch", "-ex", "set width 0", "-ex", "set debuginfod enabled off"]
    done = subprocess.run(
        [*command, *arguments],
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=240,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    return done.stdout


def at_stop(program):
    """The output of each command, by command."""
    arguments = []
    for command in (f"source {SCRIPT}", "break stop_here", "break stop_with", "run"):
        arguments += ["-ex", command]
    for command in EXPECTED:
        arguments += ["-ex", f"echo \\n=== {command}\\n", "-ex", command]
    arguments += ["-ex", "echo \\n=== \\n", "-ex", "kill", program]
    printed = gdb(*arguments)
    if "stop_here (" not in printed:
        # A container may forbid what debuggers need.
        if re.search(r"ptrace|Operation not permitted|Couldn't get registers", printed):
            skip(f"gdb may not start programs here: {printed.strip()}")
        sys.exit(f"the program did not stop:\n{printed}")
    parts = re.split(r"^=== (.*)$", printed, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2]))


def complaints(printed):
    for command, lines in EXPECTED.items():
        text = printed.get(command, "")
        at = 0
        for line in lines:
            found = text.find(line, at)
            if found < 0:
                yield f"`{command}` does not print `{line}` where it should, but:\n{text}"
                break
            at = found + len(line)


def kept(libraries):
    for library, functions in KEPT.items():
        text = gdb("-ex", "info functions ::dump(", str(libraries / library))
        yield from (f"{library} has lost {name}" for name in functions if name not in text)


def names_of_types():
    """DTYPES of the script equal those of the header."""
    header = (ROOT / "sdk/tenon/abi/base.h").read_text()
    block = header[header.index("#define TENON_DTYPE_NONE") :]
    block = block[: block.index("/* Reserved")]
    names = re.findall(r"^#define TENON_(\w+) \d+u", block, flags=re.M)
    wanted = [name.removeprefix("DTYPE_").lower() for name in names]
    row = re.search(r"^DTYPES = \((.*?)\)$", SCRIPT.read_text(), flags=re.M | re.S).group(1)
    if re.findall(r'"(\w+)"', row) != wanted:
        yield f"DTYPES of {SCRIPT.name} are not those of tenon/abi/base.h: {wanted}"


def main():
    program, libraries = sys.argv[1], pathlib.Path(sys.argv[2])
    wrong = list(names_of_types())
    if wrong:
        sys.exit("\n".join(wrong))
    if shutil.which("gdb") is None:
        skip("gdb is not installed")
    if "Python scripting is not supported" in gdb("-ex", "python print(1)"):
        skip("this gdb has no Python")
    wrong = [*kept(libraries), *complaints(at_stop(program))]
    if wrong:
        sys.exit("\n".join(wrong))
    print(f"{len(EXPECTED)} commands print what they should")


main()
