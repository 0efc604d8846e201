"""Types and errors of tenon.xp against array-api-strict, which implements the standard narrowly."""

from typing import Any

import pytest
from tenon import xp

strict = pytest.importorskip("array_api_strict", reason="array-api-strict is not installed")

ALL = [
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float32",
    "float64",
]
UNARY = [
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "bitwise_invert", "ceil", "cos", "cosh",
    "exp", "expm1", "floor", "isfinite", "isinf", "isnan", "log", "log10", "log1p", "log2",
    "logical_not", "negative", "positive", "reciprocal", "round", "sign", "signbit", "sin", "sinh",
    "sqrt", "square", "tan", "tanh", "trunc", "sum", "prod", "max", "min", "mean", "std", "var", "all",
    "any", "argmax", "argmin", "sort", "argsort", "cumulative_sum", "cumulative_prod", "nonzero",
    "count_nonzero", "diff", "unique_values", "zeros_like", "ones_like", "flip",
]  # fmt: skip
BINARY = [
    "add", "atan2", "bitwise_and", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift",
    "bitwise_xor", "copysign", "divide", "equal", "floor_divide", "greater", "greater_equal", "hypot",
    "less", "less_equal", "logaddexp", "logical_and", "logical_or", "logical_xor", "maximum",
    "minimum", "multiply", "nextafter", "not_equal", "pow", "remainder", "subtract", "matmul",
    "vecdot", "result_type", "searchsorted",
]  # fmt: skip


# Here array-api-strict lets NumPy choose a type for mixtures that the standard leaves open.
LOOSE = ("matmul", "vecdot", "searchsorted")


def outcome(call: Any) -> str:
    """The name of the type of a result, or that it is refused."""
    try:
        result = call()
    except TypeError:
        return "TypeError"
    result = result[0] if isinstance(result, tuple) else result
    dtype = str(getattr(result, "dtype", result)).rpartition(".")[2]
    return f"{dtype}{tuple(getattr(result, 'shape', ()))}"


def ones(namespace: Any, dtype: str) -> Any:
    return namespace.ones((3,), dtype=getattr(namespace, dtype))


@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str) -> None:
    for dtype in ALL:
        mine = outcome(lambda: getattr(xp, name)(ones(xp, dtype)))
        theirs = outcome(lambda: getattr(strict, name)(ones(strict, dtype)))
        assert mine == theirs, dtype


@pytest.mark.parametrize("name", BINARY)
def test_binary(name: str) -> None:
    for a in ALL:
        for b in ALL:
            mine = outcome(lambda: getattr(xp, name)(ones(xp, a), ones(xp, b)))
            mixed = outcome(lambda: strict.result_type(ones(strict, a), ones(strict, b)))
            if name in LOOSE and mixed == "TypeError":
                assert mine == "TypeError"
                continue
            theirs = outcome(lambda: getattr(strict, name)(ones(strict, a), ones(strict, b)))
            assert mine == theirs, (a, b)


@pytest.mark.parametrize("number", [True, 1, 1.0])
@pytest.mark.parametrize(
    "name", ["__add__", "__radd__", "__mul__", "__truediv__", "__and__", "__lt__", "__pow__"]
)
def test_numbers(name: str, number: Any) -> None:
    for dtype in ALL:

        def call(namespace: Any) -> Any:
            result = getattr(ones(namespace, dtype), name)(number)
            if result is NotImplemented:
                raise TypeError
            return result

        assert outcome(lambda: call(xp)) == outcome(lambda: call(strict)), dtype


def test_can_cast_and_kinds() -> None:
    kinds = ["bool", "signed integer", "unsigned integer", "integral", "real floating", "numeric"]
    for a in ALL:
        for b in ALL:
            mine = xp.can_cast(getattr(xp, a), getattr(xp, b))
            assert mine == strict.can_cast(getattr(strict, a), getattr(strict, b)), (a, b)
        for kind in kinds:
            assert xp.isdtype(getattr(xp, a), kind) == strict.isdtype(getattr(strict, a), kind)


def test_limits() -> None:
    for name in ALL[1:9]:
        mine, theirs = xp.iinfo(getattr(xp, name)), strict.iinfo(getattr(strict, name))
        assert (mine.bits, mine.min, mine.max) == (theirs.bits, theirs.min, theirs.max)
    for name in ALL[9:]:
        mine, theirs = xp.finfo(getattr(xp, name)), strict.finfo(getattr(strict, name))
        for field in ("bits", "eps", "max", "min", "smallest_normal"):
            assert float(getattr(mine, field)) == float(getattr(theirs, field))


LATER = {
    "ArrayAPIStrictDeprecationWarning", "ArrayAPIStrictFlags", "Device", "ALL_DEVICES", "Array",
    "get_array_api_strict_flags", "set_array_api_strict_flags", "reset_array_api_strict_flags",
}  # fmt: skip


def test_every_name_is_there() -> None:
    names = set(strict.__all__) - LATER
    assert [n for n in sorted(names) if not n.startswith("__") and not hasattr(xp, n)] == []
    for extension in ("linalg", "fft"):
        names = set(getattr(strict, extension).__all__)
        assert [n for n in sorted(names) if not hasattr(getattr(xp, extension), n)] == []
