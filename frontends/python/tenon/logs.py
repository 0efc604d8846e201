"""Messages: the loggers "tenon.COMPONENT" of Python's `logging`, and the choice among them.

The host's own messages come here as well (`show`). TENON_LOGS decides which of them there are.
"""

from __future__ import annotations

import logging
import os
import sys

from tenon import _host, _native
from tenon._errors import UsageError, near

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

# By TENON_LOG_*.
_LEVELS = (logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG)

COMPONENTS = {
    "cache": "what was found in the caches on disk, and why not",
    "dispatch": "which devices run a graph, and what stays in torch",
    "fusion": "kernels, and the lines of the program that they compute",
    "graph_breaks": "where Dynamo breaks a network",
    "guards": "what a graph of Dynamo assumes, and must hold in later calls",
    "perf": "times of compilation, and what makes calls slow",
    "progress": "a line where a compilation takes over two seconds; the one that is logged if none is chosen",
    "recompiles": "which guard failed, so that a graph was compiled again",
}
"""The components of `set_logs`, and what each logs."""

_ALWAYS = {"progress": logging.INFO}  # levels of components that were not chosen, else WARNING
_chosen: dict[str, int] | None = None  # levels by component; None: TENON_LOGS, not read yet


def show(level: int, component: str, text: str) -> None:
    """Gives one message of the host to its logger. TENON_LOGS decides which messages there are, and
    for components of `set_logs` what was chosen last."""
    level = _LEVELS[min(level, 3)]
    if component in COMPONENTS and not is_enabled(component, level):
        return
    if level < logging.WARNING:
        _open(component, level)
    logging.getLogger(f"tenon.{component}").log(level, "%s", text)


def set_logs(*names: str) -> None:
    """Chooses what is logged about compiled networks: `tenon.set_logs("recompiles", "+cache")`.

    Names are those of components, each alone or several with commas between, as in TENON_LOGS:
    guards, recompiles, graph_breaks, fusion, dispatch, cache, perf, progress; "all" for all of them.
    `+name` logs more, `-name` errors only. Without names there are warnings only, and one line of
    `progress` where a compilation takes over two seconds. It holds from now on, also
    where `tenon.torch` is imported later, in place of what TENON_LOGS says of these components.
    Lines go to Python's `logging`, to loggers such as "tenon.cache", and to standard error if
    `logging` is not configured. T0643 for other names; then nothing changes.
    """
    global _chosen
    chosen: dict[str, int] = {}
    for name, level in _read(",".join(names)):
        if name != "all" and name not in COMPONENTS:
            raise UsageError(
                f"there is no component {name!r}{near(name, COMPONENTS)} (components: {', '.join(COMPONENTS)}, all)",
                "T0643",
            )
        chosen.update(dict.fromkeys(COMPONENTS if name == "all" else (name,), level))
    for name in _chosen or ():
        logging.getLogger(f"tenon.{name}").setLevel(logging.NOTSET)
    _choose(chosen)


def is_enabled(component: str, level: int = logging.INFO) -> bool:
    """Whether messages of this component and level are wanted. Ask before a text is made that takes long."""
    if _chosen is None:
        _choose(_of_environment())
    return level >= (_chosen or {}).get(component, _ALWAYS.get(component, logging.WARNING))


def log(component: str, text: str, level: int = logging.INFO) -> None:
    """Logs one message of a component, if it was chosen."""
    if is_enabled(component, level):
        if component in _ALWAYS:
            _open(component, level)
        logging.getLogger(f"tenon.{component}").log(level, "%s", text)


def host_opened() -> None:
    """The host is there: its cache is logged from now on, if that was chosen."""
    global _watched
    if not _watched and is_enabled("cache"):
        _watched = True
        _native.watch_cache()


_watched = False
_host.when_opened(host_opened)
_when_chosen: list[Callable[[], None]] = []


def when_chosen(function: Callable[[], None]) -> None:
    """Has a function called whenever components are chosen."""
    _when_chosen.append(function)


def _read(text: str) -> list[tuple[str, int]]:
    """Names and levels of a text such as "+cache,-perf,guards"."""
    signs = {"+": logging.DEBUG, "-": logging.ERROR}
    parts = [part.strip() for part in text.split(",") if part.strip()]
    return [(p[1:], signs[p[0]]) if p[0] in signs else (p, logging.INFO) for p in parts]


def _of_environment() -> dict[str, int]:
    chosen: dict[str, int] = {}
    for name, level in _read(os.environ.get("TENON_LOGS", "")):  # the host warns of unknown names
        chosen.update(
            dict.fromkeys(COMPONENTS if name == "all" else {name} & set(COMPONENTS), level)
        )
    return chosen


def _choose(chosen: dict[str, int]) -> None:
    global _chosen
    _chosen = chosen
    for name, level in chosen.items():
        _open(name, level)
    if _host.is_open():
        host_opened()
    for function in _when_chosen:
        function()


def _open(component: str, level: int) -> None:
    """Lets messages of this level pass, whatever the level of loggers above is."""
    logger = logging.getLogger(f"tenon.{component}")
    if logger.level == logging.NOTSET or logger.level > level:
        logger.setLevel(level)
    top = logging.getLogger("tenon")
    if not any(isinstance(handler, _ToStderr) for handler in top.handlers):
        top.addHandler(_ToStderr())


class _ToStderr(logging.Handler):
    """Writes as the command does, if `logging` is not configured."""

    def emit(self, record: logging.LogRecord) -> None:
        others = logging.getLogger("tenon").handlers + logging.getLogger().handlers
        if any(not isinstance(handler, _ToStderr) for handler in others):
            return
        kind = f"{record.levelname.lower()}: " if record.levelno >= logging.WARNING else ""
        component = record.name.removeprefix("tenon.")
        try:
            sys.stderr.write(f"tenon: {kind}[{component}] {record.getMessage()}\n")
        except (OSError, ValueError, AttributeError):  # closed, or none
            self.handleError(record)
