#!/usr/bin/env python3
"""Builds plugin.c against the headers of every layout that has no binary here yet, for x86-64 Linux
with glibc.

    build.py [--compiler clang-19]

The headers of a layout are those of the first commit whose tests/abi/layout.txt has its digest. A
binary is never rebuilt: a release is final. `--now sdk` takes the newest layout from the tree
instead, before it was committed. Binaries of layouts that history.txt no longer has are removed.
first_edition.so is of ABI 0.1 and was built when that was the newest.
"""

import argparse
import hashlib
import os
import pathlib
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent


def git(*words):
    return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, check=True).stdout


def commits():
    """digest -> the first commit with this layout."""
    found = {}
    for commit in (
        git("log", "--reverse", "--format=%H", "--diff-filter=AM", "--", "tests/abi/layout.txt")
        .decode()
        .split()
    ):
        digest = hashlib.sha256(git("show", f"{commit}:tests/abi/layout.txt")).hexdigest()[:8]
        found.setdefault(digest, commit)
    return found


def export(commit, folder):
    target = folder / "tenon" / "abi"
    target.mkdir(parents=True)
    # The headers used to be in sdk/abi.
    for path in (
        git("ls-tree", "--name-only", commit, "sdk/tenon/abi/", "sdk/abi/").decode().split()
    ):
        if path.endswith(".h"):
            (target / os.path.basename(path)).write_bytes(git("show", f"{commit}:{path}"))


def build(compiler, include, target):
    subprocess.run(
        [
            compiler,
            "--target=x86_64-linux-gnu",
            "-std=gnu11",
            "-Os",
            "-w",
            "-fPIC",
            "-shared",
            "-fvisibility=hidden",
            "-s",
            "-fno-ident",
            "-Wl,-z,now",
            "-Wl,--build-id=none",
            f"-I{include}",
            str(HERE / "plugin.c"),
            "-o",
            str(target),
        ],
        check=True,
    )
    target.chmod(0o644)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--compiler", default="clang-19")
    parser.add_argument("--now")
    arguments = parser.parse_args()
    known = commits()
    layouts = [
        line.split()[1]
        for line in (HERE.parent / "history.txt").read_text().splitlines()
        if line.startswith(tuple("0123456789"))
    ]
    for binary in HERE.glob("*.so"):
        if binary.stem not in [*layouts, "first_edition"]:
            binary.unlink()
    for layout in layouts:
        target = HERE / f"{layout}.so"
        if target.exists():
            continue
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            if layout in known:
                export(known[layout], folder)
                build(arguments.compiler, folder, target)
            elif arguments.now and layout == layouts[-1]:
                build(arguments.compiler, arguments.now, target)
            else:
                raise SystemExit(f"no commit has the layout {layout}; give --now sdk")
        print(f"{target.name}: {target.stat().st_size} bytes")


main()
