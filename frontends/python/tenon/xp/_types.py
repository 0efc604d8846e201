"""tenon.xp: element types, and what the namespace can do."""

from __future__ import annotations

from dataclasses import dataclass

from tenon.builder import dtypes as dt
from tenon.builder import ops
from tenon.builder.dtypes import DType
from tenon.xp._array import Array, _fits, example, is_weak, value_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "__array_namespace_info__",
    "astype",
    "can_cast",
    "finfo",
    "iinfo",
    "isdtype",
    "result_type",
]


def astype(x: Array, dtype: DType, /, *, copy: bool = True, device: str | None = None) -> Array:
    """x in another element type. Floats are truncated to integers; what does not fit is not defined."""
    if device is not None:
        x.to_device(device)
    v = x._value if isinstance(x, Array) else value_of(x)
    wanted = dt.parse(dtype)
    if dt.is_complex(v.dtype) and wanted is not dt.bool_ and not dt.is_complex(wanted):
        raise TypeError(
            f"{v.dtype.name} does not become {wanted.name}: take xp.real(x) or xp.abs(x)"
        )
    return Array(ops.convert(v, wanted))


def can_cast(from_: DType | Array, to: DType, /) -> bool:
    """Whether a type promotes to another one."""
    given = from_.dtype if isinstance(from_, Array) else dt.parse(from_)
    wanted = dt.parse(to)
    return dt.promotions[given, wanted] is wanted


def result_type(*arrays_and_dtypes: Any) -> DType:
    """The type that arrays, types and numbers of Python promote to."""
    numbers = [a for a in arrays_and_dtypes if is_weak(a)]
    types = [
        a.dtype if isinstance(a, Array) else dt.parse(a)
        for a in arrays_and_dtypes
        if not is_weak(a)
    ]
    if not types:
        raise ValueError("result_type needs at least one array or type")
    found = types[0]
    for other in types[1:]:
        found = dt.promote(found, other)
    for number in numbers:
        kind = example(number)
        _fits(kind, found)
        if isinstance(kind, complex):
            found = dt.complex_of(found)
    return found


_KINDS = {
    "bool": (dt.bool_,),
    "signed integer": dt.SIGNED,
    "unsigned integer": dt.UNSIGNED,
    "integral": dt.SIGNED + dt.UNSIGNED,
    "real floating": dt.FLOATS,
    "complex floating": dt.COMPLEX,
    "numeric": dt.SIGNED + dt.UNSIGNED + dt.FLOATS + dt.COMPLEX,
}


def isdtype(dtype: DType, kind: Any) -> bool:
    """Whether a type is of a kind: "bool", "integral", "real floating", "numeric", ... or one of a tuple."""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    if isinstance(kind, str):
        if kind not in _KINDS:
            raise ValueError(f"there is no kind {kind!r}: {', '.join(_KINDS)}")
        return dtype in _KINDS[kind]
    return dtype is kind


@dataclass(frozen=True)
class IntegerInfo:
    """What `iinfo` returns for an integer type."""

    bits: int
    max: int
    min: int
    dtype: DType


@dataclass(frozen=True)
class FloatInfo:
    """What `finfo` returns for a floating-point type."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


def iinfo(type: DType | Array, /) -> IntegerInfo:
    """Limits of an integer type."""
    d = type.dtype if isinstance(type, Array) else dt.parse(type)
    if not dt.is_integer(d):
        raise TypeError(f"iinfo is for integer types, not {d.name}")
    low, high = dt.limits(d)
    return IntegerInfo(d.bits, high, low, d)


_FLOATS = {"f16": (10, 15), "bf16": (7, 127), "f32": (23, 127), "f64": (52, 1023)}


def finfo(type: DType | Array, /) -> FloatInfo:
    """Limits of a floating-point type; of complex types, those of the parts."""
    d = dt.part_of(type.dtype if isinstance(type, Array) else dt.parse(type))
    if d.code not in _FLOATS:
        raise TypeError(f"finfo is for floating-point types, not {d.name}")
    mantissa, exponent = _FLOATS[d.code]
    largest = (2.0 - 2.0**-mantissa) * 2.0**exponent
    return FloatInfo(d.bits, 2.0**-mantissa, largest, -largest, 2.0 ** (1 - exponent), d)


class Info:
    """What `__array_namespace_info__` gives (array API standard, "inspection")."""

    def capabilities(self) -> dict[str, Any]:
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 32}

    def default_device(self) -> str:
        from tenon.builder.trace import default_device

        return default_device()

    def devices(self) -> list[str]:
        from tenon import _host

        return [str(d["name"]) for d in _host.devices()]

    def _check(self, device: str | None) -> None:
        """All devices have the same types; one that is not there has none."""
        if device is not None and device not in self.devices():
            raise ValueError(
                f"there is no device {device!r} (devices: {', '.join(self.devices())})"
            )

    def default_dtypes(self, *, device: str | None = None) -> dict[str, DType]:
        self._check(device)
        return {
            "real floating": dt.default_float,
            "complex floating": dt.default_complex,
            "integral": dt.default_int,
            "indexing": dt.int64,
        }

    def dtypes(self, *, device: str | None = None, kind: Any = None) -> dict[str, DType]:
        self._check(device)
        listed = [d for d in dt.ALL if d not in (dt.float16, dt.bfloat16)]
        return {d.name: d for d in listed if kind is None or isdtype(d, kind)}


def __array_namespace_info__() -> Info:
    """Devices, types and abilities of this namespace."""
    return Info()
