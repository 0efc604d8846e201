"""The host of the process: started by the first use, with the plugins of Python's environment."""

from __future__ import annotations

import builtins
import functools
import os
import sys

from tenon import _native
from tenon._native import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

_opened = False
_when_opened: list[Callable[[], None]] = []


def when_opened(function: Callable[[], None]) -> None:
    """Has a function called when the host is started."""
    _when_opened.append(function)


def plugin_folders() -> list[str]:
    """Where wheels of plugins are: nothing of them is imported.

    These are the folders `tenon_plugins` next to the packages on sys.path, and the folders of the
    packages that entry points of the group `tenon.plugins` name.
    """
    paths = [os.path.abspath(path) for path in sys.path if path]
    folders = [os.path.join(path, "tenon_plugins") for path in paths]
    for package in _entry_points(paths):
        folders += _folders_of(package)
    return [folder for folder in dict.fromkeys(folders) if os.path.isdir(folder)]


def _entry_points(paths: list[str]) -> list[str]:
    """The packages that installed distributions name in the group `tenon.plugins`."""
    found: list[str] = []
    for path in paths:
        try:
            names = [
                name for name in os.listdir(path) if name.endswith((".dist-info", ".egg-info"))
            ]
        except OSError:  # a zip file, or nothing
            continue
        for name in sorted(names):
            try:
                with builtins.open(
                    os.path.join(path, name, "entry_points.txt"), encoding="utf-8"
                ) as file:
                    text = file.read()
            except (OSError, UnicodeDecodeError):
                continue
            if "tenon.plugins" in text:
                found += _values(text)
    return found


def _values(text: str) -> list[str]:
    """The values of the group in a file of entry points; none if the file cannot be parsed."""
    import configparser

    parser = configparser.ConfigParser(delimiters=("=",), interpolation=None)
    try:
        parser.read_string(text)
    except configparser.Error:
        return []
    if not parser.has_section("tenon.plugins"):
        return []
    return [value.partition(":")[0].strip() for _, value in parser.items("tenon.plugins")]


def _folders_of(package: str) -> list[str]:
    """The folders of a package, by its name with dots. Only its path is asked for."""
    import importlib.util

    top, *parts = package.split(".")
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return []
    if spec is None or spec.submodule_search_locations is None:
        return []
    return [os.path.join(folder, *parts) for folder in spec.submodule_search_locations]


def open() -> None:
    """Starts the host; later calls do nothing."""
    global _opened
    if _opened:
        return
    import atexit

    _native.open(plugin_folders())
    atexit.register(_native.end)
    _opened = True
    for function in _when_opened:
        function()


def is_open() -> bool:
    """Whether the host was started."""
    return _opened


def explain(what: str, filter: str = "") -> str:
    """What the host knows, as JSON: "plugins", "devices", "ops", "errors" and others."""
    open()
    return _native.explain(what, filter)


class Device(dict):  # type: ignore[type-arg]
    """What is known of a device: a dictionary, which prints as one line."""

    def __repr__(self) -> str:
        memory = f", {self['memory_bytes'] / 1e9:.1f} GB" if self.get("memory_bytes") else ""
        return f"<tenon device {self['name']}: {self['description']}{memory}>"


def devices() -> list[Device]:
    """The devices that can be used now, each as a dictionary, which prints as one line.

    "name" is what `tenon.load(device=)` takes; "plugin", "description", "target", "memory_bytes"
    and others describe it. "uuid" is the device's own name, or empty; "native_ordinal" the number
    that the vendor's libraries give it, or None. "exchange" has the kinds of handles of other
    libraries that it takes: {"memory": ["cuda.pointer"], "streams": ["cuda.stream"], "fences":
    ["cuda.event"]}. Opens the plugins that have devices.
    """
    import json

    return [Device(row) for row in json.loads(explain("devices"))["devices"]]


def first_present(names: Sequence[object]) -> str:
    """The first of several devices that this machine has. Says so where it is not the first one.

    UsageError T0004 for what is not a list of names, NotFoundError T0502 for a name that no plugin
    has, DeviceError T0503 if none is present.
    """
    from tenon._errors import UsageError

    listed = tuple(names)
    for name in listed:
        if not isinstance(name, str) or not name.strip() or "," in name:
            raise UsageError(
                f"a list device= has one name in each place, as in ['cuda', 'cpu'], and not {name!r}",
                "T0004",
            )
    if not listed:
        raise UsageError("device= is an empty list: leave it out, or name a device", "T0004")
    return _first_present(tuple(map(str, listed)))


@functools.cache
def _first_present(names: tuple[str, ...]) -> str:
    import logging

    from tenon import logs
    from tenon._errors import DeviceError

    open()
    absent: list[str] = []
    for name in names:
        try:
            Tensor(0, device=name)
        except DeviceError as error:
            if error.code != "T0503":
                raise
            absent.append(str(error.args[0]))
            continue
        if absent:
            logs.log("dispatch", f"device {name} is used: {'; '.join(absent)}", logging.WARNING)
        else:
            logs.log("dispatch", f"device {name} is used, the first of {', '.join(names)}")
        return name
    raise DeviceError(f"none of the devices is present: {'; '.join(absent)}", "T0503")


def set_num_threads(count: int | None) -> None:
    """Computes on so many threads of Tenon's own, from the next call on, in place of TENON_NUM_THREADS.

    None: as many as there are processors for this process, or in a process of PyTorch the threads of
    `torch.set_num_threads`. A model may use fewer: `tenon.load(path, threads=1)`. UsageError T0004
    for other numbers than 1 to 1024.
    """
    number = 0 if count is None else thread_number("count", count)
    open()
    _native.set_thread_count(number)


def get_num_threads() -> int:
    """How many threads compute, the calling one included."""
    open()
    return _native.thread_count()


def thread_number(name: str, value: object) -> int:
    """A number of threads, or T0004."""
    from tenon._errors import UsageError

    index = getattr(value, "__index__", None)
    number = index() if index is not None and not isinstance(value, bool) else 0
    if not 1 <= number <= 1024:
        raise UsageError(f"{name}={value!r} is not a number of threads from 1 to 1024", "T0004")
    return int(number)


def plugins() -> list[dict[str, Any]]:
    """All plugins that were found, used or not, each as a dictionary.

    "name", "version", "state", "provides", and "gates" with the reason if one is not used. Opens
    none.
    """
    import json

    rows: list[dict[str, Any]] = json.loads(explain("plugins"))["plugins"]
    return rows


def tensor(value: object, *, device: str | None = None, copy: bool = False) -> Tensor:
    """Makes a `tenon.Tensor` of an array or a number.

    Without `device` and `copy` it shares the memory of a dense array, which must not be changed as
    long as the tensor is used. `device` ("cpu", "sim:1") copies it there. Raises `tenon.Error` for
    what is not an array (T0624) and for devices that cannot be used (T0502, T0503).
    """
    open()
    return Tensor(value, device=device, copy=copy)


def restore_tensor(data: bytes, dtype: str, shape: tuple[int, ...]) -> Tensor:
    """A tensor of what a pickle holds."""
    open()
    return _native.tensor_of_bytes(data, dtype, shape)
