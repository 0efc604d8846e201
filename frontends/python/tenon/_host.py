"""The host of the process: started by the first use, with the plugins of Python's environment."""

from __future__ import annotations

import builtins
import os
import sys

from tenon import _native
from tenon._native import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
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
