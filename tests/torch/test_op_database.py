"""A fixed list of samples of PyTorch's operator database.

`op_database_samples.txt` has a line for each: entry, element type, number of the sample, and what
became of it.
"""

import logging
import pathlib

import pytest
import torch

pytest.importorskip("expecttest", reason="torch's database of operators imports it")

import op_database as database  # noqa: E402

LIST = pathlib.Path(__file__).with_name("op_database_samples.txt")


def listed():
    rows: dict[str, list[tuple[str, int, str]]] = {}
    for line in LIST.read_text().splitlines():
        if line and not line.startswith("#"):
            entry, dtype, number, verdict = line.split()
            rows.setdefault(entry, []).append((dtype, int(number), verdict))
    return sorted(rows.items())


# In groups, since a test for each sample would cost more than the samples.
GROUPS = [listed()[i : i + 40] for i in range(0, len(listed()), 40)]


@pytest.mark.parametrize("group", range(len(GROUPS)))
@pytest.mark.filterwarnings("ignore")
def test_samples(group):
    logging.disable(logging.INFO)
    entries = database.entries([name for name, _ in GROUPS[group]])
    problems = []
    for name, rows in GROUPS[group]:
        for dtype, number, expected in rows:
            problems += one(entries[name], name, dtype, number, expected)
        torch._dynamo.reset()
    logging.disable(logging.NOTSET)
    assert not problems, "\n".join(problems)


def one(op, name, dtype, number, expected):
    sample = next(s for i, s in database.samples(op, dtype, number + 1) if i == number)
    verdict, why = database.verdict(op, sample)
    order = ["tenon", "mixed", "torch"]
    good = verdict in order and order.index(verdict) <= order.index(expected)
    return [] if good else [f"{name} {dtype} {number}: {verdict} instead of {expected}: {why}"]
