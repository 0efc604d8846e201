"""Services of the host for those who build graphs."""

from __future__ import annotations

from tenon._devices import device_text
from tenon._errors import near
from tenon._host import open
from tenon._native import hash_part, register_engine, sample, use_openmp
from tenon._progress import Progress, watched
from tenon.builder.trace import default_device

__all__ = [
    "Progress", "default_device", "device_text", "hash_part", "near", "open", "register_engine", "sample",
    "use_openmp", "watched",
]  # fmt: skip
