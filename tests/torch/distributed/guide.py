"""The guide page "Several processes": its blocks as they are written, in two processes and in four."""

from __future__ import annotations

import pathlib
import re
from typing import Any
from unittest import mock

import torch.distributed as dist
from common import scenario

PAGE = pathlib.Path(__file__).resolve().parents[3] / "docs" / "guide" / "torch_processes.md"
FOUR = "(2, 2)"
"""What a block has that needs four processes."""


def run(ranks: int) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    assert sum(FOUR in block for block in blocks) == 1 and len(blocks) == 7
    names: dict[str, Any] = {}
    with mock.patch.object(dist, "init_process_group"):  # the group is there already
        for block in blocks:
            if ranks == 4 or FOUR not in block:
                exec(compile(block, str(PAGE), "exec"), names)  # noqa: S102, a page of ours


@scenario()
def blocks_in_two_processes() -> None:
    run(2)


@scenario(4)
def blocks_in_four_processes() -> None:
    run(4)
