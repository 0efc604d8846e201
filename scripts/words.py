#!/usr/bin/env python3
"""Counts words that plain English avoids. Their counts, in scripts/words.txt, may only fall.

A word matches as a whole, in any case. A line in words.txt holds a count and a regular expression.

    words.py           each word: its count, its line in words.txt, and the files with the most of it
    words.py --lower   lowers the lines of words.txt to the counts
"""

import collections
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIST = "scripts/words.txt"  # is not counted: it holds each word
MOST_BYTES = 4_000_000  # of a text; larger files are data


def listed(root):
    """The words of the list with their allowed counts, in order."""
    for line in (root / LIST).read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            count, word = line.split(maxsplit=1)
            yield word, int(count)


def counts(root, files):
    """word -> file -> how often, over the files that are texts."""
    patterns = {word: re.compile(rf"\b(?:{word})\b") for word, _ in listed(root)}
    found = {word: collections.Counter() for word in patterns}
    for file in files:
        path = root / file
        if (
            file == LIST
            or file.startswith("venv/")
            or not path.is_file()
            or path.stat().st_size > MOST_BYTES
        ):
            continue
        data = path.read_bytes()
        if b"\0" in data[:8192]:
            continue
        text = data.decode(errors="replace").lower()
        for word, pattern in patterns.items():
            if not word.isalpha() or word in text:  # much faster than the expression
                found[word][file] += len(pattern.findall(text))
    return found


def check(root, files):
    """Yields (problem, is_failure): a count above its line fails, one below asks for a lower line."""
    found = counts(root, files)
    for word, allowed in listed(root):
        count = found[word].total()
        if count > allowed:
            yield (
                (
                    f"{LIST}: '{word}' occurs {count} times, more than {allowed}: use another word "
                    "(docs/guide/glossary.md); `git diff main` shows yours"
                ),
                True,
            )
        elif count < allowed:
            yield (
                (
                    f"{LIST}: '{word}' occurs {count} times: lower its line from {allowed} "
                    "(scripts/words.py --lower)"
                ),
                False,
            )


def lower(root, found):
    lines = []
    for line in (root / LIST).read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            count, word = line.split(maxsplit=1)
            line = f"{min(int(count), found[word].total()):5} {word}"
        lines.append(line)
    (root / LIST).write_text("\n".join(lines) + "\n")


def main():
    listing = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    found = counts(ROOT, sorted(listing.stdout.splitlines()))
    if sys.argv[1:] == ["--lower"]:
        lower(ROOT, found)
    for word, allowed in listed(ROOT):
        most = ", ".join(f"{file} {count}" for file, count in found[word].most_common(3) if count)
        print(f"{found[word].total():5} of {allowed:5}  {word:40}  {most}")


if __name__ == "__main__":
    main()
