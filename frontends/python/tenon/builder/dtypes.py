"""Element types of arrays, and which type two of them promote to (array API standard)."""

from __future__ import annotations

import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    Scalar = bool | int | float | complex


class DType:
    """An element type. Compare with `is` or `==`; `code` is Tenon's own name ("f32")."""

    __slots__ = ("name", "code", "kind", "bits")

    def __init__(self, name: str, code: str, kind: str, bits: int):
        self.name = name
        self.code = code
        self.kind = kind
        """"bool", "signed integer", "unsigned integer", "real floating" or "complex floating"."""
        self.bits = bits

    def __repr__(self) -> str:
        return f"tenon.xp.{self.name}"

    def __reduce__(self) -> tuple[object, ...]:
        return parse, (self.code,)


bool_ = DType("bool", "pred", "bool", 8)
int8 = DType("int8", "i8", "signed integer", 8)
int16 = DType("int16", "i16", "signed integer", 16)
int32 = DType("int32", "i32", "signed integer", 32)
int64 = DType("int64", "i64", "signed integer", 64)
uint8 = DType("uint8", "u8", "unsigned integer", 8)
uint16 = DType("uint16", "u16", "unsigned integer", 16)
uint32 = DType("uint32", "u32", "unsigned integer", 32)
uint64 = DType("uint64", "u64", "unsigned integer", 64)
float16 = DType("float16", "f16", "real floating", 16)
bfloat16 = DType("bfloat16", "bf16", "real floating", 16)
float32 = DType("float32", "f32", "real floating", 32)
float64 = DType("float64", "f64", "real floating", 64)
complex64 = DType("complex64", "c64", "complex floating", 64)
complex128 = DType("complex128", "c128", "complex floating", 128)

SIGNED = (int8, int16, int32, int64)
UNSIGNED = (uint8, uint16, uint32, uint64)
FLOATS = (float16, bfloat16, float32, float64)
COMPLEX = (complex64, complex128)
ALL = (bool_, *SIGNED, *UNSIGNED, *FLOATS, *COMPLEX)

by_code = {d.code: d for d in ALL}
by_name = {d.name: d for d in ALL}

default_float = float32
default_int = int64
default_complex = complex64

_FORMATS = {
    "pred": "<?", "i8": "<b", "i16": "<h", "i32": "<i", "i64": "<q",
    "u8": "<B", "u16": "<H", "u32": "<I", "u64": "<Q",
    "f16": "<e", "f32": "<f", "f64": "<d", "c64": "<f", "c128": "<d",
}  # fmt: skip


def is_float(d: DType) -> bool:
    """Real floating."""
    return d.kind == "real floating"


def is_complex(d: DType) -> bool:
    """Complex floating."""
    return d.kind == "complex floating"


def is_floating(d: DType) -> bool:
    """Real or complex."""
    return is_float(d) or is_complex(d)


def part_of(d: DType) -> DType:
    """The type of the parts of complex numbers; real types stay."""
    return {complex64: float32, complex128: float64}.get(d, d)


def complex_of(d: DType) -> DType:
    """The complex type whose parts have this one, or at least as many bits; complex types stay."""
    if is_complex(d):
        return d
    return complex128 if d is float64 else complex64


def is_integer(d: DType) -> bool:
    """With a sign or without; no bool."""
    return d.kind in ("signed integer", "unsigned integer")


def limits(d: DType) -> tuple[int, int]:
    """The lowest and the highest value of an integer type."""
    if d.kind == "unsigned integer":
        return 0, (1 << d.bits) - 1
    return -(1 << (d.bits - 1)), (1 << (d.bits - 1)) - 1


def element(d: DType, value: Scalar) -> bytes:
    """One element, as in memory. Floats are rounded; OverflowError for integers out of range."""
    if is_complex(d):
        whole = complex(value)
        return _float(d, whole.real) + _float(d, whole.imag)
    if isinstance(value, complex):
        raise TypeError(f"{value} is not a value of {d.name}")
    if is_integer(d):
        low, high = limits(d)
        if not low <= int(value) <= high:
            raise OverflowError(
                f"{value} is not a value of {d.name}, which has values from {low} to {high}"
            )
        return struct.pack(_FORMATS[d.code], int(value))
    if d is bfloat16:
        return _bfloat16(float(value))
    if d is bool_:
        return struct.pack("<?", bool(value))
    return _float(d, float(value))


def _float(d: DType, value: float) -> bytes:
    try:
        return struct.pack(_FORMATS[d.code], value)
    except OverflowError:
        return struct.pack(_FORMATS[d.code], float("inf") if value > 0 else float("-inf"))


def _bfloat16(value: float) -> bytes:
    try:
        bits = int.from_bytes(struct.pack("<f", value), "little")
    except OverflowError:
        bits = 0x7F800000 if value > 0 else 0xFF800000
    if value != value:
        return (0x7FC0).to_bytes(2, "little")
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return (rounded & 0xFFFF).to_bytes(2, "little")


def _promote(a: DType, b: DType) -> DType | None:
    if a is b:
        return a
    if is_float(a) and is_float(b):
        if a.bits == b.bits:
            return float32  # float16 and bfloat16
        return a if a.bits > b.bits else b
    if is_complex(a) or is_complex(b):
        if not (is_floating(a) and is_floating(b)):
            return None
        x, y = complex_of(a), complex_of(b)
        return x if x.bits > y.bits else y
    if a.kind == b.kind and is_integer(a):
        return a if a.bits > b.bits else b
    if is_integer(a) and is_integer(b):
        signed, unsigned = (a, b) if a.kind == "signed integer" else (b, a)
        bits = max(signed.bits, unsigned.bits * 2)
        return None if bits > 64 else next(d for d in SIGNED if d.bits == bits)
    return None


promotions = {(a, b): _promote(a, b) for a in ALL for b in ALL}


def promote(a: DType, b: DType) -> DType:
    """The type that both convert to without loss. TypeError for types of different kinds."""
    found = promotions[a, b]
    if found is None:
        raise TypeError(
            f"{a.name} and {b.name} have no common type in the array API standard; "
            "convert one of them: xp.astype(x, ...)"
        )
    return found


def parse(value: object) -> DType:
    """A DType of what users write: a DType, "float32", "f32", or a NumPy type."""
    if isinstance(value, DType):
        return value
    if value is bool:
        return bool_
    if value is int:
        return default_int
    if value is float:
        return default_float
    if value is complex:
        return default_complex
    name = value if isinstance(value, str) else getattr(value, "name", None)
    if name is None:
        name = getattr(value, "__name__", "").rstrip("_")
    found = by_name.get(str(name)) or by_code.get(str(name))
    if found is None:
        raise TypeError(f"{value!r} is not an element type of tenon.xp")
    return found
