"""Which tests a change runs.

A file reaches a test *near* when the test's own program or script is made of it, when the test
names the plugin or the program that is made of it, or when it lies in the test's folder. Those
tests run. What is made of libtenon, and what loads the plugins that each compilation uses, is
nearly every test: of these the ones with the label `end_to_end` run, and the others are left to
./check. Tests with the label `full` or `random` run only for a change in their own folder, or in a
sample that they name.
"""

import collections
import functools
import os
import re

from reach_names import Names
from reach_tests import holds, read

# A plugin that more than few tests name in their text is one that tests use in passing, and one
# that many name is used by most of the others too.
FEW, MANY = 21, 40
# What a plugin offers that compilations use without its name: ops and passes.
UNNAMED = re.compile(r"\bTENON_(OPS|PASS)_ID\b")
PAGES = (".md", ".svg", ".png", ".ipynb")


def words_of(path):
    stem = os.path.basename(path).partition(".")[0]
    return set(re.split(r"_+", stem)) - {"", "test"}


class Choice:
    def __init__(self, tests):
        self.tests, self.graph, self.names = tests, tests.graph, Names(tests)
        self.root, self.build = str(tests.root), str(tests.build)
        self.chosen = collections.defaultdict(set)  # entry -> parts; itself: all of it
        self.left, self.unreached, self.compiled = set(), [], set()

    # What is chosen.

    def take(self, entry, part=None):
        self.chosen[entry.name].add(part or entry.name)

    def take_near(self, entry, path, part=None):
        own = (
            path in self.tests.sources(entry)
            or any(
                holds(folder, path) and holds(self.root + "/tests", folder)
                for folder in self.tests.folders(entry)
            )
            or holds(self.root + "/samples", path)
        )
        if {"full", "random"} & set(entry.labels()) and not own:
            self.left.add(entry.name)
        else:
            self.take(entry, part)

    def take_end_to_end(self, places):
        """Of these tests, as (entry, part), the ones to run for whatever reaches all of them."""
        for entry, part in places:
            files = entry.property_list("END_TO_END_FILES")
            if "end_to_end" in entry.labels() and (
                not files or any(f"/{name}" in part for name in files)
            ):
                self.take(entry, part)
            else:
                self.left.add(entry.name)

    def parts_of(self, entry):
        """What is run of an entry that was chosen: None for all of it."""
        parts = self.chosen[entry.name]
        return None if entry.name in parts or parts >= set(entry.parts) else sorted(parts)

    # How a file reaches tests.

    def add(self, name):
        """Chooses the tests of one file, whose path is relative to the root."""
        path = f"{self.root}/{name}"
        made = self.graph.made_from(name)
        of_core = any(map(self._is_core_library, made))
        before = self._size()
        self._own_tests(path)
        self._test_programs(path, made, of_core)
        if not self._python(path, made):
            self._room(path, made)
        for output in made:
            if self._is_installed_program(output):
                self.compiled.add(output)
                if not of_core:
                    self._named(path, output)
            elif not of_core and (output not in self.graph.users or self._is_program(output)):
                self.compiled.add(output)
        if of_core or (not made and path in self.graph.configuring):
            self.take_end_to_end(self.users_of_build)
        if before == self._size():
            self.unreached.append(name)

    def _size(self):
        return sum(map(len, self.chosen.values())), len(self.left)

    def _is_program(self, output):
        return self.graph.made_by[output].is_program()

    def _is_core_library(self, output):
        return "SHARED_LIBRARY" in self.graph.made_by[output].rule and not holds(
            self.build + "/tests", output
        )

    def _is_installed_program(self, output):
        return self._is_program(output) and not any(
            holds(f"{self.build}/{folder}", output) for folder in ("tests", "python")
        )

    @functools.cached_property
    def users_of_build(self):
        """The tests that use what is installed, the command, libtenon or plugins: (entry, part)."""

        def uses(entry):
            linked = [
                name
                for program in self.tests.programs(entry)
                for name in self.graph.made_by[program].inputs + self.tests.loaded(program)
            ]
            outside = [
                path
                for path in self.tests.built_paths(entry)
                if not holds(self.build + "/tests", path)
            ]
            return bool(outside) or any(
                name in self.graph.made_by and self._is_core_library(name) for name in linked
            )

        return [
            (entry, part)
            for entry in self.tests.entries.values()
            if uses(entry)
            for part in entry.parts or [None]
        ]

    def _own_tests(self, path):
        """A file of a test, and files that tests name or that lie in their folders."""
        used = False
        for entry in self.tests.entries.values():
            if path in entry.parts:
                self.take(entry, path)
                used = True
            elif path in self.tests.scripts(entry) or self.tests.lists(path, entry):
                self.take_near(entry, path)
                used = True
        # A script may be an input of the build, and tests name it too.
        if (
            used
            or path in self.graph.users
            and not path.endswith(".py")
            or path in self.graph.includers
        ):
            return
        named = self.names.of_file(path)
        if holds(self.root + "/tests", path) and not path.endswith(PAGES):
            nearest = self._nearest(path)
            named += nearest if not any(place in named for place in nearest) else []
        for entry, part in named:
            self.take_near(entry, path, part)

    def _in_folder(self, folder):
        return [
            (entry, part)
            for entry in self.tests.entries.values()
            for part in entry.parts or [None]
            if any(
                holds(folder, place)
                for place in ([os.path.dirname(part)] if part else self.tests.folders(entry))
            )
        ]

    def _nearest(self, path):
        """The tests that lie nearest around a file of the tests, for those that no test names."""
        top, folder = self.root + "/tests", os.path.dirname(path)
        while folder != top:
            found = self._in_folder(folder)
            if found:
                return found
            folder = os.path.dirname(folder)
        return [
            (entry, None)
            for entry in self.tests.entries.values()
            if entry.parts and top in entry.command
        ]

    def _test_programs(self, path, made, of_core):
        """The tests whose own programs are made of the file; of a file of core the unit tests."""
        own = [
            output
            for output in made
            if self._is_program(output) and holds(self.build + "/tests", output)
        ]
        for entry in self.tests.entries.values() if own else []:
            if of_core and "unit" not in entry.labels():
                continue  # they run much else
            for part in entry.parts or [None]:
                used = self.tests.built_paths(entry, [part] if part else [])
                used.update(*(self.tests.loaded(program) for program in self.tests.programs(entry)))
                if any(
                    holds(place, output)
                    for output in own
                    for place in used
                    if place.startswith(self.build + "/tests/")
                ):
                    self.take_near(entry, path, part)

    def _room(self, path, made):
        """The tests of a folder with the name of the file's room: tests/cpu, of plugins/cpu."""
        parts = os.path.dirname(os.path.relpath(path, self.root)).split("/")
        if parts[0] in ("tests", "docs", "bench", "scripts") or not made:
            return
        # Folders inside a room of core or a frontend are rooms of its own, whatever they are named.
        rooms = parts[1:2] if parts[0] in ("core", "frontends") else parts[1:]
        for room in rooms or parts:
            for entry, part in self._in_folder(f"{self.root}/tests/{room}"):
                if "pytest" not in entry.command:
                    self.take_near(entry, path, part)

    def _named(self, path, output):
        """The tests that name a plugin or a program; those end to end if many tests do."""
        strong, weak, lines = self.names.of_output(output)
        if len(strong) <= FEW:
            for entry, part in strong + lines:
                self.take_near(entry, path, part)
        if len(strong + weak) <= FEW:
            for entry, part in weak:
                self.take_near(entry, path, part)
        unnamed = any(UNNAMED.search(read(source)) for source in self.graph.sources_of(output))
        if unnamed or len(strong + weak) > MANY:
            self.take_end_to_end(self.users_of_build)

    def _python(self, path, made):
        """The tests that import a module, or the compiled one. Those that are named as it, those
        that name it, and the end-to-end ones. Returns whether it is one."""
        linked = self._linked_modules.get(path)
        if not linked and not any(holds(self.build + "/python", output) for output in made):
            return False
        own, stem = words_of(path), os.path.basename(path).rpartition(".")[0]
        importing = re.compile(rf"\btenon[\w.]*(\.| import .*\b){re.escape(stem)}\b")
        importers = self._importers(linked or "")
        for entry, part, text in importers:
            words = words_of(part or entry.name)
            if (
                (words and words <= own)
                or own <= words
                or (stem in text and importing.search(text))
            ):
                self.take_near(entry, path, part)
        self.take_end_to_end((entry, part) for entry, part, _ in importers)
        return True

    def _importers(self, module):
        """(entry, part, text) of the tests that may import a module of the build's packages: those
        that name its package, if that is not the package of all."""
        package = module.split("/")[:-1][:2]
        dotted = ".".join(package) if len(package) > 1 else ""
        found = []
        for entry in self.tests.entries.values():
            if self.build + "/python" in self.tests.built_paths(entry):
                for part, text in self.names.texts(entry):
                    shared = read(os.path.dirname(part) + "/conftest.py") if part else ""
                    if dotted in text + shared:
                        found.append((entry, part, text))
        return found

    @functools.cached_property
    def _linked_modules(self):
        """Python source -> its path below the folder of the build's packages."""
        found = {}
        for folder, _, names in os.walk(self.build + "/python", followlinks=True):
            for name in names:
                place = os.path.join(folder, name)
                found[os.path.realpath(place)] = os.path.relpath(place, self.build + "/python")
        return found
