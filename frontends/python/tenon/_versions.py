"""`tenon.show_versions`: what a report of a fault needs to name."""

from __future__ import annotations

import os
import sys

from tenon import _devices, _host
from tenon._version import __version__

# Packages that Tenon exchanges arrays or models with.
_PACKAGES = ("numpy", "torch", "onnx", "onnxruntime", "transformers", "accelerate", "torchao")


def show_versions() -> None:
    """Prints the versions of Tenon, Python and related packages, the devices with those that cannot be
    used and why, the plugins, and the variables TENON_*: for a report of a fault.

    It starts the host, imports no other package, and prints no values of other variables.
    """
    print(versions())


def versions() -> str:
    """The text of `show_versions`."""
    import json
    import platform

    lines = [
        f"tenon: {__version__}",
        f"python: {platform.python_version()} ({sys.executable})",
        f"system: {platform.platform()}, {os.cpu_count()} processors",
        f"threads: {_devices.get_num_threads()}",
    ]
    lines += [f"{name}: {version}" for name in _PACKAGES if (version := _version_of(name))]
    lines += [
        f"device: {device!r}"[:-1].replace("<tenon device ", "") for device in _host.devices()
    ]
    lines += [
        f"no device {row['name']}: {row['why']}"
        for row in json.loads(_host.explain("absent"))["absent"]
    ]
    plugins = [f"{p['name']} {p['version']} ({p['state']})" for p in _host.plugins()]
    lines.append(f"plugins: {', '.join(plugins)}")
    names = sorted(name for name in os.environ if name.startswith("TENON_"))
    lines += [f"{name}={os.environ[name]}" for name in names]
    return "\n".join(lines)


def _version_of(package: str) -> str:
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
