#!/usr/bin/env python3
"""Compares the operators' pages, and the numbers of operators in other pages, with the registry.

    generated_docs.py TENON FOLDER            fails where they differ
    generated_docs.py TENON FOLDER --bless    writes the pages and the numbers again

The pages are those of `tenon ops --markdown`. The list also gets the file that declares each op,
found in the sources: the registry does not know it.
"""

import filecmp
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCES = ROOT / "plugins/ops"
# Pages with the number of operators: (page, what stands around the number).
COUNTS = [("README.md", r"(?<=^\| operators \| )\d+(?=, each with a )")]
BLESS = "run tests/generated_docs.py build/bin/tenon docs/generated/ops --bless"
ROW = re.compile(r"^\| \[(\w+)\]\(\1\.md\) \|", re.M)


def declares(text, op):
    """Whether a source declares an op: it has its name and an example, or its name in op()."""
    return f'op("{op}"' in text or f'"{op}"' in text and re.search(rf'"{op}\((?:\w+\[|\)|%)', text)


def files_of(ops):
    """Op -> the name of the file that declares it."""
    texts = {path.name: path.read_text() for path in sorted(SOURCES.glob("*.cpp"))}
    found = {}
    for op in ops:
        names = [name for name, text in texts.items() if declares(text, op)]
        if len(names) != 1:
            raise SystemExit(
                f"{op} seems to be declared in {', '.join(names) or 'no file'} of plugins/ops: "
                "a declaration has its name and an example as literals"
            )
        found[op] = names[0]
    return found


def with_files(text):
    """The list with a column for the file that declares each op."""
    files = files_of(ROW.findall(text))
    head, rule, *rows = text[text.index("| op |") :].splitlines()
    lines = [f"{head} declared in |", f"{rule}---|"]
    lines += [f"{row} `plugins/ops/{files[ROW.match(row)[1]]}` |" for row in rows]
    return text[: text.index("| op |")] + "\n".join(lines) + "\n"


def write_pages(tenon, folder):
    """Writes all pages; the number of ops."""
    subprocess.run([tenon, "ops", "--markdown", "--output-dir", folder], check=True)
    page = folder / "README.md"
    page.write_text(with_files(page.read_text()))
    return len(ROW.findall(page.read_text()))


def stale_counts(count):
    """(page, its text, its text with the number of ops) where these differ."""
    for name, pattern in COUNTS:
        text = (ROOT / name).read_text()
        right, places = re.subn(pattern, str(count), text, flags=re.M)
        if places != 1:
            raise SystemExit(
                f"{name} has {places} numbers of operators, not 1: correct COUNTS in tests/generated_docs.py"
            )
        if right != text:
            yield name, right


def differing(one, other):
    """The names of files that differ between two folders."""
    names = sorted({path.name for folder in (one, other) for path in folder.glob("*")})
    _, different, absent = filecmp.cmpfiles(one, other, names, shallow=False)
    return sorted(different + absent)


def main():
    tenon, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    with tempfile.TemporaryDirectory() as work:
        new = pathlib.Path(work) / "ops"
        new.mkdir()
        count = write_pages(tenon, new)
        counts = list(stale_counts(count))
        if sys.argv[3:] == ["--bless"]:
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(new, folder)
            for name, text in counts:
                (ROOT / name).write_text(text)
            return 0
        wrong = differing(folder, new)
        for name in wrong:
            subprocess.run(["diff", "-uN", folder / name, new / name])
        wrong = [f"{folder.name}/{name}" for name in wrong] + [name for name, _ in counts]
    print(
        f"{', '.join(wrong)}: differ from the registry, which has {count} operators: {BLESS}"
        if wrong
        else f"{count} operators"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
