"""What is made of a file: ninja's edges, and the files that include it.

The graph is read from the text of `build.ninja`, and includes from the text of the sources, so a
folder that was only configured answers as one that was built.
"""

import collections
import functools
import os
import pathlib
import re
import subprocess

SOURCE = {".h", ".hpp", ".c", ".cpp", ".cxx", ".def", ".inc", ".in"}
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"\n]+)[>"]', re.M)
PROGRAM = re.compile(r"(EXECUTABLE|SHARED_LIBRARY|MODULE_LIBRARY)_LINKER__")


def split_words(text):
    """The words of a line of ninja, without its escapes."""
    words = re.split(r"(?<!\$) +", text.strip())
    return [re.sub(r"\$(.)", r"\1", word) for word in words if word]


class Edge:
    """One `build` statement. Files of the tree and of the build folder have absolute paths."""

    def __init__(self, line, folder):
        def paths(text):
            return [os.path.join(folder, word) for word in split_words(text)]

        outputs, inputs = re.split(r"(?<!\$): ?", line[len("build ") :], maxsplit=1)
        outputs = outputs.replace("${cmake_ninja_workdir}", "")
        rule, _, inputs = inputs.partition(" ")
        inputs, _, later = inputs.partition("||")
        explicit, _, implicit = inputs.partition(" |")
        self.rule = rule
        self.outputs = paths(outputs.replace(" | ", " "))
        self.explicit = paths(explicit)
        self.inputs = self.explicit + paths(implicit.lstrip("|"))
        self.order_only = paths(later)
        self.defines = ""

    def is_program(self):
        return bool(PROGRAM.search(self.rule))


def read_edges(build):
    edges = []
    for line in (build / "build.ninja").read_text().splitlines():
        if line.startswith("build "):
            edges.append(Edge(line, str(build)))
        elif line.startswith("  DEFINES = "):
            edges[-1].defines = line
    return edges


def tree_files(root):
    """The files of the tree, committed or not, relative to its root."""
    command = ["git", "-C", str(root), "ls-files", "-co", "--exclude-standard"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [name for name in listed.splitlines() if (root / name).is_file()]


class Graph:
    def __init__(self, root, build):
        self.root, self.build = root, build
        self.files = tree_files(root)
        edges = read_edges(build)
        self.configuring = next(set(e.inputs) for e in edges if e.rule == "RERUN_CMAKE")
        self.edges = [e for e in edges if e.rule not in ("phony", "RERUN_CMAKE") and e.inputs]
        self.made_by = {output: edge for edge in self.edges for output in edge.outputs}
        self.users, self.later_users = collections.defaultdict(list), collections.defaultdict(list)
        for edge in self.edges:
            for name in edge.inputs:
                self.users[name].append(edge)
            for name in edge.order_only:
                self.later_users[name].append(edge)
        self.includers = self._read_includes()

    def _read_includes(self):
        """Included file -> files that include it. A name that several files of other folders end
        with stands for all of them."""
        sources = [str(self.root / name) for name in self.files]
        sources += [
            name
            for edge in self.edges
            for name in edge.inputs + edge.outputs
            if name.startswith(str(self.build))
        ]
        sources = {name for name in sources if pathlib.PurePath(name).suffix in SOURCE}
        by_name = collections.defaultdict(list)
        for name in sources:
            by_name[os.path.basename(name)].append(name)
        includers = collections.defaultdict(set)
        for source in sources:
            if not os.path.exists(source):  # generated, and not made yet
                continue
            for name in INCLUDE.findall(pathlib.Path(source).read_text(errors="replace")):
                near = os.path.normpath(os.path.join(os.path.dirname(source), name))
                ending = "/" + re.sub(r"^(\.\./)+", "", name)
                found = (
                    [near]
                    if near in sources
                    else [path for path in by_name[os.path.basename(name)] if path.endswith(ending)]
                )
                for path in found:
                    includers[path].add(source)
        return includers

    def _configured(self, path):
        """What a file that CMake itself reads decides: the objects of the folders whose
        CMakeLists.txt is this file or names it."""
        if path not in self.configuring:
            return set()
        name, folders = os.path.basename(path), []
        if name == "CMakeLists.txt":
            folders.append(os.path.dirname(path))
        else:
            for lists in self.configuring:
                if lists.startswith(str(self.root)) and lists.endswith("/CMakeLists.txt"):
                    words = re.split(r"[\s()\"/;]", pathlib.Path(lists).read_text())
                    folders += [os.path.dirname(lists)] * (name in words)
        prefixes = tuple(
            f"{self.build}/{os.path.relpath(folder, self.root)}/CMakeFiles/".replace("/./", "/")
            for folder in folders
        )
        return {output for output in self.made_by if prefixes and output.startswith(prefixes)}

    def made_from(self, path, everything=False):
        """The outputs that change with a file. Programs and libraries that are loaded are among
        them, but what uses those only with `everything`."""
        found, waiting = set(), [str(self.root / path), *self._configured(str(self.root / path))]
        while waiting:
            name = waiting.pop()
            if name in found:
                continue
            found.add(name)
            waiting += self.includers.get(name, ())
            edge = self.made_by.get(name)
            if edge and edge.is_program() and not everything:
                continue
            later = self.later_users.get(name, []) if everything else []
            for user in self.users.get(name, []) + later:
                waiting += user.outputs
        return {name for name in found if name in self.made_by}

    def _objects(self, output):
        inputs = self.made_by[output].explicit if output in self.made_by else []
        return [self.made_by[name] for name in inputs if name in self.made_by]

    @functools.cache
    def sources_of(self, output):
        """The sources that a program names itself, without those of the libraries that it links."""
        return [name for made in self._objects(output) for name in made.explicit]

    @functools.cache
    def defined_paths(self, output):
        """Paths that a program's sources are compiled with, as macros."""
        return {
            path
            for made in self._objects(output)
            for path in re.findall(r'\\"(/[^"\\]+)\\"', made.defines)
        }
