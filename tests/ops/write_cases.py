#!/usr/bin/env python3
"""Compares the last part of values.cases with what the files of cases/ give.

    write_cases.py                 fails where they differ
    write_cases.py --bless         writes the part again
    write_cases.py --print FILE    prints the calls of one file

Numbers may differ in their last digits: another processor or version of a package rounds
differently. --bless keeps lines that agree in this sense. A file that needs a package that is not
installed runs in .venv-torch, where PyTorch is. Without it the file is left out, and keeps its lines.
"""

# Reaches: tests/ops/cases
import pathlib
import re
import subprocess
import sys

import expected

TORCH = pathlib.Path(__file__).resolve().parents[2] / ".venv-torch/bin/python"
VALUES = pathlib.Path(__file__).resolve().parent / "values.cases"
BEGIN = "# ---- Below: written by write_cases.py; do not edit. ----"
NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|inf|nan)(?!\w)")


def parts(text):
    """What stands above the line BEGIN, and the lines of each file below it."""
    head, _, tail = text.partition(BEGIN + "\n")
    sections = {}
    for line in tail.splitlines():
        if line.startswith("# "):
            lines = sections.setdefault(line[2:], [])
        else:
            lines.append(line)
    return head, sections


def tolerance(line):
    names = set(re.findall(r"\b(\w+)\[", line.rpartition("->")[2]))
    return 2e-3 if names & {"f16", "bf16"} else 1e-5 if names & {"f32", "c64"} else 1e-12


def agree(line, other):
    """Whether two lines are the same but for the last digits of numbers with a fraction."""
    if NUMBER.sub("#", line) != NUMBER.sub("#", other):
        return False
    for a, b in zip(NUMBER.findall(line), NUMBER.findall(other)):
        if a != b and (
            "." not in a + b
            or not abs(float(a) - float(b)) <= tolerance(line) * max(1, abs(float(b)))
        ):
            return False
    return True


def kept(new, old):
    """The new lines; where an old one agrees, the old one."""
    return [next((line for line in old if agree(wanted, line)), wanted) for wanted in new]


def lines_of(path):
    """The lines of one file, by a Python that has its packages."""
    try:
        return expected.lines_of(expected.load(path), path.stem)
    except ModuleNotFoundError:
        if not TORCH.exists():
            raise
        done = subprocess.run([TORCH, __file__, "--print", path], capture_output=True, text=True)
        if done.returncode != 0:
            raise ModuleNotFoundError(done.stderr.strip().rpartition("\n")[2]) from None
        return done.stdout.splitlines()


def computed(old):
    """The sections that the files of cases/ give, and a line for each that is left out."""
    sections, notes = {}, []
    for path in expected.files():
        try:
            lines = lines_of(path)
        except ModuleNotFoundError as error:
            notes.append(f"{path.name} is left out: {error}")
            lines = old.get(path.name, [])
        sections[path.name] = kept(lines, old.get(path.name, []))
    return sections, notes


def main():
    if sys.argv[1:2] == ["--print"]:
        path = pathlib.Path(sys.argv[2])
        print(*expected.lines_of(expected.load(path), path.stem), sep="\n")
        return 0
    head, old = parts(VALUES.read_text())
    new, notes = computed(old)
    print(*notes, sep="\n", end="\n" if notes else "")
    text = (
        head
        + BEGIN
        + "\n"
        + "".join(
            f"# {name}\n" + "".join(f"{line}\n" for line in lines) for name, lines in new.items()
        )
    )
    if sys.argv[1:] == ["--bless"]:
        VALUES.write_text(text)
        return 0
    wrong = [name for name in sorted(old.keys() | new.keys()) if old.get(name) != new.get(name)]
    if text != VALUES.read_text():
        print(
            f"{VALUES} differs from {', '.join(wrong) or 'its form'}: run python3 tests/ops/write_cases.py --bless"
        )
        return 1
    print(f"{len(new)} files of cases/, {sum(map(len, new.values()))} calls")
    return 0


if __name__ == "__main__":
    sys.exit(main())
