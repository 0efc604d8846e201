#!/usr/bin/env python3
"""Rules of the tree that a machine can check: who includes whom, and that core/ names no op, device or format.

Prints one line per violation and exits with 1. The table is architecture.md's section 3 in code.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCE = {".h", ".hpp", ".c", ".cpp"}

# room -> prefixes that its files may include from this tree (its own folder is always allowed)
MAY_INCLUDE = {
    "sdk/abi": ["tenon/abi/"],
    "sdk/cpp": ["tenon/abi/", "tenon/cpp/"],
    "sdk/kernelgen": ["tenon/abi/", "tenon/cpp/", "tenon/kernelgen/", "tenon/plan/"],
    "sdk/plan": ["tenon/abi/", "tenon/cpp/", "tenon/plan/"],
    "sdk/templates": ["tenon/"],
    "plugins": ["tenon/"],
    "passes": ["tenon/"],
    "frontends": ["tenon/"],
    "samples": ["tenon/"],
    "core/tools": ["tenon/abi/", "tenon/cpp/", "core/tools/"],
    "core/conform": ["tenon/abi/", "tenon/cpp/", "core/"],  # a program on top of the host, like the tools
    "core": ["tenon/abi/", "core/"],
}
# A third-party header may be seen only by these rooms.
ONLY_IN = {
    "boost/": ["core/host"],
    "nlohmann/": ["core/conform", "core/host", "core/tools"],
    "protozero/": ["frontends/onnx"],
    "CLI/": ["core/conform", "core/tools"],
    "clang/": ["plugins/cpu/compiler"],
    "llvm/": ["plugins/cpu/compiler"],
    "lld/": ["plugins/cpu/compiler"],
    "CL/": ["samples/opencl"],
}
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.M)
OURS = ("tenon/", "core/", "sdk/", "plugins/", "passes/", "frontends/")
# Formats and devices that core must not know. Op names come from the op files.
FORBIDDEN_IN_CORE = ["onnx", "npy", "cuda", "opencl", "pocl", "clang"]


def sources():
    for room in ("sdk", "core", "plugins", "passes", "frontends", "samples"):
        for path in sorted((ROOT / room).rglob("*")):
            if path.suffix in SOURCE and "template" not in path.parts:
                yield path


def room_of(relative):
    return max((r for r in MAY_INCLUDE if relative.startswith(r + "/")), key=len)


def check_includes(relative, text):
    room = room_of(relative)
    folder = relative.rsplit("/", 1)[0] + "/"
    name = relative.rsplit("/", 1)[1]
    is_test = name.endswith("_test.cpp") or name.startswith("test_")
    for header in INCLUDE.findall(text):
        if header.startswith(OURS):
            own = header.startswith("/".join(relative.split("/")[:2]) + "/")
            if not own and not any(header.startswith(p) for p in MAY_INCLUDE[room]):
                yield f"{relative}: {room} may not include <{header}>"
        for prefix, rooms in ONLY_IN.items():
            if header.startswith(prefix) and not is_test and not any(folder.startswith(r + "/") for r in rooms):
                yield f"{relative}: <{header}> belongs to {', '.join(rooms)} alone"


def op_names():
    """Names of declared ops, long enough not to be an English word of the core's own."""
    names = set()
    for path in (ROOT / "plugins/ops").rglob("*.cpp"):
        names |= set(re.findall(r'\bop\("([a-z0-9_]+)"\)', path.read_text(errors="replace")))
    return {n for n in names if "_" in n}


def strip_comments(text):
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)


def check_core_knows_nothing(relative, text, ops):
    if relative.endswith("_test.cpp"):
        return
    code = strip_comments(text)
    for word in FORBIDDEN_IN_CORE:
        if re.search(rf"(?<![a-z]){word}(?![a-z])", code, re.I):
            yield f"{relative}: core names '{word}'"
    for literal in re.findall(r'"([^"\\]*)"', code):
        if literal in ops:
            yield f"{relative}: core names the op '{literal}'"


def main():
    problems = []
    ops = op_names()
    for path in sources():
        relative = path.relative_to(ROOT).as_posix()
        text = path.read_text(errors="replace")
        problems += check_includes(relative, text)
        if relative.startswith("core/"):
            problems += check_core_knows_nothing(relative, text, ops)
    for line in problems:
        print(line)
    print(f"tree rules: {len(problems)} violations")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
