"""The host of the process: started by the first use, with the plugins of Python's environment."""

from __future__ import annotations

import os
import sys

from tenon import _native
from tenon._native import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_opened = False


def plugin_folders() -> list[str]:
    """The folders `tenon_plugins` beside the packages on sys.path: what wheels of plugins install."""
    folders = (os.path.join(os.path.abspath(path), "tenon_plugins") for path in sys.path if path)
    return [folder for folder in dict.fromkeys(folders) if os.path.isdir(folder)]


def open() -> None:
    """Starts the host; later calls do nothing."""
    global _opened
    if _opened:
        return
    import atexit

    _native.open(plugin_folders())
    atexit.register(_native.end)
    _opened = True


def explain(what: str, filter: str = "") -> str:
    """What the host knows, as JSON: "plugins", "devices", "ops", "errors" and others."""
    open()
    return _native.explain(what, filter)


def devices() -> list[dict[str, Any]]:
    """The devices that can be used now, each as a dictionary.

    "name" is what `tenon.load(device=)` takes; "plugin", "description", "target", "memory_bytes"
    and others describe it. Opens the plugins that have devices.
    """
    import json

    rows: list[dict[str, Any]] = json.loads(explain("devices"))["devices"]
    return rows


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
