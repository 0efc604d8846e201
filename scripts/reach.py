#!/usr/bin/env python3
"""Chooses the tests that a change can reach, for `./check --changed`.

    reach.py [BASE]              files that differ from BASE (main), committed or not
    reach.py --files FILE...     these files of the tree
    --build FOLDER               a configured build folder (build)

Writes FOLDER/reach: `CTestTestfile.cmake` with the chosen tests, so that `ctest --test-dir
FOLDER/reach` runs them, `targets` with what ninja has to build for them, and `left` with the tests
that the change reaches and that are left to ./check. reach_choice.py says how tests are chosen.
"""

import argparse
import os
import pathlib
import subprocess
import sys

sys.dont_write_bytecode = True
from reach_choice import Choice  # noqa: E402
from reach_graph import Graph  # noqa: E402
from reach_tests import Tests, holds  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent


def changed_files(base):
    def git(*words):
        run = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True)
        if run.returncode != 0:
            sys.exit(f"error: git {' '.join(words)}: {run.stderr.strip()}")
        return run.stdout.splitlines()

    since = git("merge-base", base, "HEAD")[0]
    untracked = git("ls-files", "--others", "--exclude-standard")
    return sorted(set(git("diff", "--name-only", "--no-renames", since) + untracked))


def read_tests(build, root=ROOT):
    return Tests(root, build, Graph(root, build))


def choose(files, tests):
    """The choice for some files of the tree, with the fixtures that the chosen tests need."""
    choice = Choice(tests)
    for name in files:
        choice.add(name)
    entries = choice.tests.entries
    needed = {
        fixture
        for name in choice.chosen
        for fixture in entries[name].property_list("FIXTURES_REQUIRED")
    }
    for entry in entries.values():
        if needed & set(entry.property_list("FIXTURES_SETUP")):
            choice.take(entry)
    choice.left -= {name for name in choice.chosen if choice.parts_of(entries[name]) is None}
    return choice


def command(choice, entry):
    """The command of an entry with its chosen parts in place of all of them."""
    parts = choice.parts_of(entry)
    if parts is None:
        return entry.command
    words = [word for word in entry.command if not any(holds(word, part) for part in entry.parts)]
    return words + parts


def statement(choice, entry):
    def quote(text):
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$") + '"'

    properties = {"WORKING_DIRECTORY": str(entry.folder)} | entry.properties
    properties.pop("END_TO_END_FILES", None)
    properties["LABELS"] = ";".join(label for label in entry.labels() if label != "full")
    pairs = " ".join(f'{key} "{value}"' for key, value in properties.items())
    words = " ".join(map(quote, command(choice, entry)))
    return (
        f"add_test([=[{entry.name}]=] {words})\n"
        f"set_tests_properties([=[{entry.name}]=] PROPERTIES {pairs})\n"
    )


def is_installed(choice, output):
    """Whether an output is a part of what users run: programs, libraries, plugins, pages."""
    edge = choice.graph.made_by[output]
    if not edge.is_program() and edge.rule != "CUSTOM_COMMAND":
        return False
    made_from = choice.graph.sources_of(output) or [""]
    others = [choice.root + "/tests", choice.root + "/bench", choice.build + "/tests"]
    return "/CMakeFiles/" not in output and not any(
        holds(folder, name) for folder in others for name in [output, *made_from]
    )


def targets(choice):
    """What ninja has to build: what the chosen tests use, and whatever else is made of the change,
    which must compile."""
    graph, tests = choice.graph, choice.tests
    installed = [output for output in graph.made_by if is_installed(choice, output)]
    users = {entry.name for entry, _ in choice.users_of_build}
    needed = set(choice.compiled)
    for name in choice.chosen:
        entry = tests.entries[name]
        built = tests.built_paths(entry, choice.parts_of(entry))
        if choice.build in built:
            return ["all"]
        needed |= {
            output
            for output, edge in graph.made_by.items()
            if edge.is_program() and any(holds(place, output) for place in built)
        }
        if name in users or entry.parts:
            needed |= set(installed)
    needed |= {
        link
        for output in needed
        for edge in graph.users.get(output, ())
        if edge.rule == "CMAKE_SYMLINK_LIBRARY"
        for link in edge.outputs
    }
    return sorted(os.path.relpath(output, choice.build) for output in needed)


def write(choice, folder):
    folder.mkdir(exist_ok=True)
    entries = [choice.tests.entries[name] for name in sorted(choice.chosen)]
    text = "".join(statement(choice, entry) for entry in entries)
    (folder / "CTestTestfile.cmake").write_text(text)
    (folder / "targets").write_text("".join(f"{name}\n" for name in targets(choice)))
    (folder / "left").write_text("".join(f"{name}\n" for name in sorted(choice.left)))


def describe(choice):
    for name in sorted(choice.chosen):
        entry = choice.tests.entries[name]
        parts = choice.parts_of(entry)
        print(f"  {name}" + (f": {len(parts)} of {len(entry.parts)} files" if parts else ""))
    if choice.left:
        print(f"left to ./check: {len(choice.left)} tests, which build/reach/left names")
    if choice.unreached:
        print(f"without a test: {', '.join(choice.unreached)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("base", nargs="?", default="main")
    parser.add_argument("--files", nargs="+")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    options = parser.parse_args()
    build = options.build.resolve()
    if not (build / "build.ninja").exists():
        sys.exit(f"error: {build} has no build.ninja: configure it with cmake -G Ninja")
    files = options.files or changed_files(options.base)
    choice = choose(files, read_tests(build))
    print(f"{len(files)} files changed; of {len(choice.tests.entries)} tests these are run:")
    describe(choice)
    write(choice, build / "reach")


if __name__ == "__main__":
    main()
