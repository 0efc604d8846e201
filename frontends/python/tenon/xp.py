"""Arrays of the Python array API standard (2025.12), computed by Tenon.

    from tenon import xp

    x = xp.linspace(0.0, 1.0, 5)
    y = xp.sqrt(x) + 1              # waits
    print(y)                        # computes all that waits, in one program

The functions also take the arrays of functions that are traced (`tenon.compile`, `@tenon.op`).
Types promote as the standard says, and types of different kinds do not mix. Complex numbers and the
extensions `linalg` and `fft` are not there yet. The default types are float32 and int64. All arrays
are on one device: TENON_DEVICE, else "cpu".
"""

from __future__ import annotations

from math import e, inf, nan, pi
from typing import Any

from tenon._array import Array
from tenon._dtypes import (
    DType,
    bfloat16,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from tenon._dtypes import bool_ as bool
from tenon._xp_create import *
from tenon._xp_elementwise import *
from tenon._xp_reduce import *
from tenon._xp_search import *
from tenon._xp_shape import *
from tenon._xp_types import *
from tenon._xp_types import not_yet as _not_yet

newaxis = None
API_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")
__array_api_version__ = "2025.12"

_LATER = ("complex64", "complex128", "linalg", "fft")


def __getattr__(name: str) -> Any:
    if name in _LATER:
        raise _NotYet(str(_not_yet(name)))
    raise AttributeError(f"tenon.xp has no {name!r}")


class _NotYet(AttributeError, NotImplementedError):
    """A part of the standard that is not there yet; hasattr() is false."""


__all__ = [
    "API_VERSIONS", "Array", "DType", "__array_api_version__", "bfloat16", "bool", "e", "float16",
    "float32", "float64", "inf", "int16", "int32", "int64", "int8", "nan", "newaxis", "pi",
    "uint16", "uint32", "uint64", "uint8",
]  # fmt: skip
from tenon import _xp_create, _xp_elementwise, _xp_reduce, _xp_search, _xp_shape, _xp_types

for _module in (_xp_create, _xp_elementwise, _xp_reduce, _xp_search, _xp_shape, _xp_types):
    __all__ += _module.__all__
