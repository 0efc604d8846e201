"""Services of the host for those who build graphs."""

from __future__ import annotations

from tenon._errors import device_text
from tenon._host import open
from tenon._native import hash_part, sample, use_openmp
from tenon.builder.trace import default_device

__all__ = ["default_device", "device_text", "hash_part", "open", "sample", "use_openmp"]
