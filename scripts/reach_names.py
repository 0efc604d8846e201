"""What tests name: files, folders, plugins and programs.

What a test names is in its command, its environment, its text and the targets that CMake says it
depends on. A comment `Reaches: A, B` in its text names more, and `Reaches only: A, B` says that the
text names other things without using them.
"""

import functools
import os
import re

from reach_tests import TEXT_TESTS, holds, read

ONLY = re.compile(r"^(?:#|//) Reaches only: .*$", re.M)


class Names:
    def __init__(self, tests):
        self.tests, self.graph = tests, tests.graph
        self.root, self.build = str(tests.root), str(tests.build)

    @functools.cache
    def texts(self, entry):
        """(part or None, text) of what a test consists of; Python's paths are joined by slashes."""
        if entry.parts:
            found = [(part, read(part)) for part in entry.parts]
        else:
            found = [(None, "\n".join(map(read, self.tests.sources(entry))))]
        return [
            (part, only.group() if (only := ONLY.search(text)) else text.replace('" / "', "/"))
            for part, text in found
        ]

    def of_file(self, path):
        """The tests that name a file of no program, or a folder that it lies in: (entry, part)."""
        words, pattern = self._pattern(path)
        found = [
            (entry, None)
            for entry in self.tests.entries.values()
            if not entry.parts and self._is_given(entry, path)
        ]
        for entry in self.tests.entries.values():
            for part, text in self.texts(entry):
                if any(word in text for word in words) and pattern.search(text):
                    found.append((entry, part))
        return found

    def _is_given(self, entry, path):
        """Whether a command or a program's macro has the file, or a folder around it. What lies
        directly below the root is what a compiler searches for headers."""
        macros = [
            word
            for program in self.tests.programs(entry)
            for word in self.graph.defined_paths(program)
        ]
        return path in macros or any(
            holds(word, path)
            and not holds(self.root + "/tests", word)
            and (os.path.dirname(word) != self.root or path.endswith((".h", ".hpp")))
            for word in entry.paths(self.root)
            if word != self.root
        )

    def _pattern(self, path):
        """Finds a file in a text: its path, or as much of its end as no other file has, or a folder
        that it lies in, which stands for the files in it. Returns words too, of which a text that
        matches has one."""
        name = os.path.relpath(path, self.root)
        folder, base = os.path.split(name)
        whole = [name] if "." in name or "/" in name else []
        ends = [
            end
            for end in (base, f"{os.path.basename(folder)}/{base}")
            if "." in base and self._is_unique(end)
        ]
        modules = [base.removesuffix(".py")] if base.endswith(".py") else []
        folders = self._folders(folder)
        choices = [rf"(?<![\w./-]){re.escape(word)}(?![\w-])" for word in whole]
        choices += [rf"(?<![\w.-]){re.escape(word)}(?![\w-])" for word in ends]
        choices += [rf"^\s*(?:from|import)\s+{word}\b" for word in modules]
        choices += [
            rf"(?<![\w.-]){re.escape(word)}(?!/?[\w.-])"
            if "/" in word
            else rf"[\"'/]{re.escape(word)}(?=[\"']|/[\"'*$])"
            for word in folders
        ]
        return whole + ends + modules + folders, re.compile("|".join(choices) or "(?!)", re.M)

    def _is_unique(self, end):
        return sum(("/" + name).endswith("/" + end) for name in self.graph.files) <= 1

    def _folders(self, folder):
        """The folders around a file that a text can stand for. A top folder whose files are built
        has tests by what is made of them."""
        found = []
        while folder not in ("", "tests", "docs", "scripts"):
            if "/" in folder or not self._is_built(folder):
                found.append(folder)
            folder = os.path.dirname(folder)
        return found

    @functools.cache
    def _is_built(self, folder):
        return any(holds(f"{self.root}/{folder}", name) for name in self.graph.users)

    def of_output(self, output):
        """The tests that name a plugin or a program, as (entry, part): by their own name, command,
        environment or targets; in their text; and the text tests with lines that name it."""
        name = os.path.basename(output).partition(".")[0].removeprefix("tenon-")
        token = re.compile(rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])")
        quoted = re.compile(
            rf"[\"',.]{name}[\"',:]|--devices?[ =]\S*{token.pattern}|LAYERS=\S*{token.pattern}"
            rf"|{token.pattern}\.(plugin\.json|so)\b|(#|//) Reaches[\w ]*: .*{token.pattern}"
        )
        strong, weak, lines = [], [], []
        for entry in self.tests.entries.values():
            by_itself = not entry.parts and self._names_itself(entry, token, output)
            for part, text in self.texts(entry):
                if not by_itself and name not in text:
                    continue
                if part and part.endswith(TEXT_TESTS):
                    commands = re.findall(r"^.*(?:RUN|REQUIRES):.*$", text, re.M)
                    lines += [(entry, part)] * any(map(token.search, commands))
                elif by_itself or quoted.search(text):
                    (strong if by_itself else weak).append((entry, part))
        return strong, weak, lines

    def _names_itself(self, entry, token, output):
        words = entry.words().replace(self.build, "").replace(self.root, "")
        loaded = [
            name for program in self.tests.programs(entry) for name in self.tests.loaded(program)
        ]
        return bool(token.search(words)) or output in loaded
