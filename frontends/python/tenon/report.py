"""The page of a model: graph, kernels and times, in one HTML file. `Model.report` writes it."""

from __future__ import annotations

import functools
import json
import os

from tenon import _files, _native
from tenon._errors import Error, NotFoundError, UsageError
from tenon._version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias

    from tenon._model import Model

    Inputs: TypeAlias = tuple[tuple[object, ...], dict[str, object]]

_RUNS = 5  # as `tenon report` does
_LONG_US = 5e5
_PLACEHOLDER = "__TENON_REPORT_DATA__"


def _page() -> str:
    """The page of the installation, which is next to this package, or in the build tree."""
    here = os.path.dirname(os.path.abspath(__file__))
    for folder in (here, os.path.dirname(os.path.dirname(here))):
        path = os.path.join(folder, "share", "tenon", "report", "page.html")
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                return file.read()
    raise NotFoundError("share/tenon/report/page.html is missing: install all of Tenon", "P0603")


def _source(program: _native.Program, placement: dict[str, Any]) -> dict[str, str]:
    texts = {}
    for row in placement.get("devices", []):
        try:
            texts[row["device"]] = program.dump_text(f"{row['device']}/source")
        except Error:  # a device that shows no code; the page says so
            continue
    return texts


@functools.cache
def _peaks(threads: int) -> str:
    """The peak rates of the processor, measured once for each number of threads."""
    return _native.measure_peaks()


def _profiled(profile: Callable[[], str]) -> tuple[dict[str, Any], int]:
    """The events of several runs one after another, and how many those are. A single run may have met
    another process. Where a run takes seconds, it is the only one."""
    first = json.loads(profile())
    end = _end(first)
    if end - _begin(first) > _LONG_US:
        return first, 1
    for _ in range(_RUNS - 1):
        more = json.loads(profile())
        shift = end - _begin(more)
        for event in _timed(more):
            event["ts"] += shift
        first["traceEvents"] += _timed(more)
        end = _end(more)
    return first, _RUNS


def _timed(trace: dict[str, Any]) -> list[dict[str, Any]]:
    return [event for event in trace["traceEvents"] if "ts" in event]


def _begin(trace: dict[str, Any]) -> float:
    return min((event["ts"] for event in _timed(trace)), default=0)


def _end(trace: dict[str, Any]) -> float:
    return max((event["ts"] + event.get("dur", 0) for event in _timed(trace)), default=0)


def run_of(program: _native.Program, title: str, inputs: Inputs | None) -> dict[str, Any]:
    """What a page shows of one program. With inputs, it is run for its times."""
    placement = json.loads(program.placement())
    counts = program.counts()
    run: dict[str, Any] = {
        "label": title,
        "model": title,
        "device": ",".join(row["device"] for row in placement.get("devices", [])),
        "options": "",
        "placement": placement,
        "program": json.loads(program.dump_text("report")),
        "source": _source(program, placement),
    }
    info = {name: counts[name] for name in ("compile_ms",) if name in counts}
    if inputs is not None:
        args, kwargs = inputs
        run["events"], run["runs"] = _profiled(lambda: program.profile_texts(*args, **kwargs)[0])
        peaks = _peaks(_native.thread_count())
        if peaks:
            run["peaks"] = json.loads(peaks)
    if info:
        run["info"] = info
    return run


def page_of(runs: list[dict[str, Any]], parts: bool = False) -> bytes:
    """The whole page. `parts`: the runs are parts of one network, and not to be compared."""
    data = {"schema": 1, "tenon": __version__, "made": "", "parts": parts, "runs": runs}
    # Nothing in a model can then end the script element.
    text = json.dumps(data, allow_nan=False).replace("<", "\\u003c")
    return _page().replace(_PLACEHOLDER, text, 1).encode()


def page(model: Model, title: str, args: tuple[object, ...], kwargs: dict[str, object]) -> bytes:
    """The page of a model. With inputs, or for a model that takes none, it has times."""
    inputs = (args, kwargs) if args or kwargs or not model.inputs else None
    return page_of([run_of(model, title, inputs)])


def write(path: str | os.PathLike[str], data: bytes) -> None:
    """Writes a page, whole or not at all."""
    _files.write(path, data)


def check_name(path: str | os.PathLike[str]) -> None:
    """T0004 for a name that no browser would open as a page."""
    given = os.fspath(path)
    if not given.endswith(".html"):
        raise UsageError(f"the name {given!r} does not end in .html", "T0004")
