"""What is logged: `tenon.set_logs` and TENON_LOGS, without PyTorch (see tests/torch)."""

from __future__ import annotations

import logging
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
import tenon

TEXT = (
    b"tenon.tir 1\ngraph @f(%x: f32[2]) -> (y: f32[2]) {\n  %0 = neg(%x) : f32[2]\n  yield %0\n}\n"
)
LOOKUP = re.compile(r"\S+ [0-9a-f]+ is (not )?in the cache")


@pytest.fixture(autouse=True)
def defaults() -> Iterator[None]:
    yield
    tenon.set_logs()


def test_components_are_chosen_and_given_up(caplog: pytest.LogCaptureFixture) -> None:
    tenon.set_logs("cache")
    tenon.load(TEXT, "cpu")
    lines = [r.getMessage() for r in caplog.records if r.name == "tenon.cache"]
    assert lines and all(LOOKUP.match(line) for line in lines), lines
    caplog.clear()
    tenon.set_logs("-cache", "dispatch, perf")
    tenon.load(TEXT, "cpu")
    assert not caplog.records
    assert logging.getLogger("tenon").level == logging.NOTSET


def test_all_and_unknown_names() -> None:
    from tenon import logs

    tenon.set_logs("all", "-fusion")
    assert (
        logs.is_enabled("guards")
        and not logs.is_enabled("fusion")
        and not logs.is_enabled("guards", logging.DEBUG)
    )
    with pytest.raises(
        tenon.UsageError, match=r"'cash': did you mean 'cache'\? \(components: cache, dispatch, "
    ) as e:
        tenon.set_logs("+perf,cash")
    assert e.value.code == "T0643"
    assert logs.is_enabled("guards") and not logs.is_enabled("perf", logging.DEBUG)
    tenon.set_logs()
    assert list(filter(logs.is_enabled, logs.COMPONENTS)) == ["progress"]


PROGRAM = f"""
import logging, sys
import tenon
if "configured" in sys.argv:
    logging.basicConfig(format="%(name)s|%(message)s")
if "first" in sys.argv:
    tenon.set_logs("cache")
tenon.load({TEXT!r}, "cpu")
if "later" in sys.argv:
    tenon.set_logs("cache")
    tenon.load({TEXT!r}, "cpu")
"""


@pytest.mark.parametrize("how", ["first", "later", "environment", "configured first"])
def test_where_it_is_logged(how: str, tmp_path: pathlib.Path) -> None:
    """On standard error, unless logging is configured; also if chosen before the host opens."""
    environment = {**os.environ, "TENON_LOGS": "cache,guards,perf" if how == "environment" else ""}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *how.split()],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    start = "tenon.cache|" if "configured" in how else "tenon: [cache] "
    lines = done.stderr.splitlines()
    assert lines and all(line.startswith(start) for line in lines), done.stderr
    assert all(LOOKUP.match(line.removeprefix(start)) for line in lines), done.stderr
