"""Arrays of the Python array API standard (2025.12), computed by Tenon.

    from tenon import xp

    x = xp.linspace(0.0, 1.0, 5)
    y = xp.sqrt(x) + 1              # waits
    print(y)                        # computes all that waits, in one program

The functions also take the arrays of functions that are traced (`tenon.compile`, `@tenon.op`).
Types promote as the standard says, and types of different kinds do not mix. The extensions are
`xp.fft` and `xp.linalg`. The default types are float32, int64 and complex64. All arrays are on one
device: TENON_DEVICE, else "cpu".
"""

from __future__ import annotations

import sys
from math import e, inf, nan, pi

from tenon._eager import flush as _flush  # computes what waits
from tenon.builder.dtypes import (
    DType,
    bfloat16,
    complex64,
    complex128,
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
from tenon.builder.dtypes import bool_ as bool
from tenon.xp import (
    _array,
    _create,
    _elementwise,
    _indexing,
    _operators,
    _reduce,
    _search,
    _shape,
    _types,
    fft,
    linalg,
)
from tenon.xp._array import Array
from tenon.xp._create import *
from tenon.xp._elementwise import *
from tenon.xp._reduce import *
from tenon.xp._search import *
from tenon.xp._shape import *
from tenon.xp._types import *

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    # Most functions are made from tables, which checkers of types do not read.
    def __getattr__(name: str) -> Any: ...


newaxis = None
API_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")
__array_api_version__ = "2025.12"

__all__ = [
    "API_VERSIONS", "Array", "DType", "__array_api_version__", "bfloat16", "bool", "complex128",
    "complex64", "e", "fft", "float16", "float32", "float64", "inf", "int16", "int32", "int64",
    "int8", "linalg", "nan", "newaxis", "pi", "uint16", "uint32", "uint64", "uint8",
]  # fmt: skip
for _module in (_create, _elementwise, _reduce, _search, _shape, _types):
    __all__ += _module.__all__

_array._above.namespace = sys.modules[__name__]
_array._above.put = _indexing.put
_operators.install(globals())
