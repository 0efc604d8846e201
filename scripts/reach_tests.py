"""The tests of a build folder: ctest's entries, and the files that one entry runs by themselves.

Entries come from the CTestTestfile.cmake files, which have the commands of programs that are not
built yet too, and properties of this tree's own:

    END_TO_END_FILES   of an entry with the label `end_to_end`: only these of its files are run
"""

import functools
import os
import pathlib
import re

STATEMENT = re.compile(r"^(add_test|set_tests_properties)\(\[=\[(.*?)\]=\]\s(.*)\)$", re.M)
STRING = re.compile(r'(?:(\w+)\s+)?"((?:[^"\\]|\\.)*)"', re.S)
TEXT_TESTS = (".tir", ".test")


def unescape(text):
    return re.sub(r"\\(.)", r"\1", text)


def split_list(text):
    return [unescape(item) for item in re.split(r"(?<!\\);", text) if item]


def holds(folder, path):
    """Whether a path is a folder or lies below it."""
    return path == folder or path.startswith(folder + "/")


@functools.cache
def read(path):
    path = pathlib.Path(path)
    return path.read_text(errors="replace") if path.is_file() else ""


class Entry:
    """One test of ctest. `parts` are files that can be run by themselves: of lit, of pytest."""

    def __init__(self, name, words, folder):
        self.name, self.folder, self.properties = name, folder, {}
        self.command = [unescape(word) for _, word in STRING.findall(words)]
        self.parts = []

    def set_properties(self, text):
        for key, value in STRING.findall(text):
            if key and key != "_BACKTRACE_TRIPLES":
                self.properties[key] = (
                    unescape(value) if key in ("TIMEOUT", "WORKING_DIRECTORY") else value
                )

    def property_list(self, key):
        return split_list(self.properties.get(key, ""))

    def labels(self):
        return self.property_list("LABELS")

    def environment(self):
        return [*self.property_list("ENVIRONMENT"), *self.property_list("ENVIRONMENT_MODIFICATION")]

    def words(self):
        """What the name, the command and the environment name, separated as in lists."""
        return " ".join([self.name, *self.command[1:], *self.environment()])

    def paths(self, below):
        """Paths below a folder that the command or the environment names."""
        found = []
        for word in self.command + self.environment():
            for piece in re.split(r"[=:;]", word):
                if piece == str(below) or piece.startswith(f"{below}/"):
                    found.append(piece)
        return found


class Tests:
    def __init__(self, root, build, graph):
        self.root, self.build, self.graph = root, build, graph
        self.entries = {}
        self._read_folder(build)
        for entry in self.entries.values():
            entry.parts = self._parts(entry)

    def _read_folder(self, folder):
        listed = folder / "CTestTestfile.cmake"
        if not listed.exists():
            return
        text = listed.read_text()
        for kind, name, words in STATEMENT.findall(text):
            if kind == "add_test":
                self.entries[name] = Entry(name, words, folder)
            else:
                self.entries[name].set_properties(words)
        for name in re.findall(r'^subdirs\("(.*)"\)$', text, re.M):
            self._read_folder(folder / name)

    def _parts(self, entry):
        """The files that lit or pytest finds in the folders of its command."""

        def is_part(name):
            base = os.path.basename(name)
            return (
                re.fullmatch(r"test_.*\.py|.*_test\.py", base)
                if "pytest" in entry.command
                else base.endswith(TEXT_TESTS) and "/Inputs/" not in name
            )

        if entry.command[0].rpartition("/")[2] != "lit" and "pytest" not in entry.command:
            return []
        ignored = {word.partition("=")[2] for word in entry.command if word.startswith("--ignore=")}
        named = [word for word in entry.command[1:] if word.startswith(str(self.root))]
        files = [str(self.root / name) for name in self.graph.files]
        excluded = self._excluded_by_lit() if "pytest" not in entry.command else set()
        return [
            name
            for name in files
            if is_part(name)
            and name not in ignored
            and not excluded & set(name.split("/"))
            and any(name == word or name.startswith(word + "/") for word in named)
        ]

    def _excluded_by_lit(self):
        excludes = re.search(
            r"^config\.excludes = \[(.*?)\]$", self._settings_of_lit(), re.M | re.S
        )
        return set(re.findall(r'"([^"]+)"', excludes.group(1)))

    def _settings_of_lit(self):
        return read(str(self.root / "tests/lit.cfg.py"))

    @functools.cached_property
    def substitutions(self):
        """What %fake_x of a text test stands for: the paths of the build folder in it."""
        append = re.compile(r'substitutions\.append\(\("(%\w+)", f"(.*)"\)\)')
        folder = re.compile(r"\{build\}/([\w/.-]+)")
        return {
            name: [str(self.build / path) for path in folder.findall(value)]
            for name, value in append.findall(self._settings_of_lit())
        }

    @functools.cache
    def scripts(self, entry):
        """The scripts of a command with those modules of their folders that they import."""
        if entry.parts:
            return []
        found, waiting = [], [path for path in entry.paths(self.root) if os.path.isfile(path)]
        while waiting:
            path = os.path.normpath(waiting.pop())
            if path in found or not path.startswith(f"{self.root}/tests/"):
                continue
            found.append(path)
            names = re.findall(r"[\w/]+\.(?:sh|py)\b", read(path))
            names += [
                name.replace(".", "/") + ".py"
                for name in re.findall(r"^\s*(?:from|import)\s+([\w.]+)", read(path), re.M)
            ]
            folders = [
                str(folder)
                for folder in pathlib.Path(path).parents
                if self.root / "tests" in [folder, *folder.parents]
            ]
            near = [os.path.join(folder, name) for name in names for folder in folders]
            waiting += [name for name in near if os.path.isfile(name)]
        return found

    @functools.cache
    def programs(self, entry):
        """The programs of the tests' own that a command runs."""
        return [path for path in entry.paths(self.build / "tests") if path in self.graph.made_by]

    @functools.cache
    def sources(self, entry):
        """The files that say what an entry does, apart from its parts."""
        made = [name for program in self.programs(entry) for name in self.graph.sources_of(program)]
        return self.scripts(entry) + [name for name in made if name.startswith(str(self.root))]

    def loaded(self, program):
        """What CMake says that a program depends on, without linking it."""
        return self.graph.made_by[program].order_only

    def lists(self, path, entry):
        """Whether a path is the CMakeLists.txt that a test comes from."""
        folder = os.path.relpath(os.path.dirname(path), self.root)
        return path.endswith("/CMakeLists.txt") and os.path.normpath(self.build / folder) == str(
            entry.folder
        )

    @functools.cache
    def folders(self, entry):
        """The folders that a test lies in."""
        listed = self.root / entry.folder.relative_to(self.build)
        files = entry.parts or self.sources(entry)
        return {os.path.dirname(name) for name in files} or {str(listed)}

    def built_paths(self, entry, parts=None):
        """The files and folders of the build that an entry uses: of its command, its environment,
        its programs' macros and the lines of its parts."""
        paths = set(entry.paths(self.build))
        if entry.parts:
            paths.discard(str(self.build))  # says where the build is, not what is used of it
        for program in self.programs(entry):
            paths |= {
                path
                for path in self.graph.defined_paths(program)
                if path.startswith(f"{self.build}/")
            }
        for part in entry.parts if parts is None else parts:
            paths |= self._paths_of_part(part)
        return paths

    @functools.cache
    def _paths_of_part(self, part):
        if not part.endswith(TEXT_TESTS):
            return set()
        text, paths = read(part), set()
        paths |= {str(self.build / path) for path in re.findall(r"%build/([\w/.-]+)", text)}
        for name, found in self.substitutions.items():
            if re.search(re.escape(name) + r"\b", text):
                paths |= set(found)
        return paths
