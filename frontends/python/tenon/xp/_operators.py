"""The operators of arrays: functions of `tenon.xp` of the same meaning."""

from __future__ import annotations

from tenon import _native
from tenon.builder.trace import I64
from tenon.xp import _indexing
from tenon.xp._array import QUICK, Array

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

_OPERATORS = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide",
    "floordiv": "floor_divide", "mod": "remainder", "pow": "pow", "matmul": "matmul",
    "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
    "lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift",
    "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal",
    "gt": "greater", "ge": "greater_equal",
    "neg": "negative", "pos": "positive", "abs": "abs", "invert": "bitwise_invert",
}  # fmt: skip


def _item(x: Array, key: Any) -> Array:
    return Array(_indexing.get(x._value, key))


def install(functions: Mapping[str, Callable[..., Any]]) -> None:
    """Gives arrays their operators, from functions by name."""
    _native.set_operator("getitem", _native.quick_op("take", (("dim", I64, 0),), 7), _item)
    for name, function in _OPERATORS.items():
        _native.set_operator(name, QUICK.get(function, -1), functions[function])
