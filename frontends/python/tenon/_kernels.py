"""`@op.kernel`: C++ text for an operator of Python."""

from __future__ import annotations

import itertools

from tenon import _native
from tenon._errors import UsageError
from tenon.builder import dtypes as dt
from tenon.builder import trace as _trace
from tenon.builder.trace import F64, I64

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tenon._op import Op

_TYPES = """typedef __INT8_TYPE__ int8_t; typedef __INT16_TYPE__ int16_t;
typedef __INT32_TYPE__ int32_t; typedef __INT64_TYPE__ int64_t;
typedef __UINT8_TYPE__ uint8_t; typedef __UINT16_TYPE__ uint16_t;
typedef __UINT32_TYPE__ uint32_t; typedef __UINT64_TYPE__ uint64_t;
"""
_C = {"pred": "bool", "f32": "float", "f64": "double"} | {
    d.code: f"{'u' if d.code[0] == 'u' else ''}int{d.bits}_t" for d in (*dt.SIGNED, *dt.UNSIGNED)
}
_numbers = itertools.count()


def add(op: Op, device: str, dtypes: Sequence[str], source: Callable[[], str]) -> None:
    """Compiles what `source` returns for each element type, and registers it."""
    for name, (kind, _) in op.attrs.items():
        if kind not in (I64, F64):
            raise UsageError(
                f"{op.name}: {name} is not a number, and kernels take only numbers", "T0631"
            )
    for dtype in dtypes:
        code = dt.parse(dtype).code
        if code not in _C:
            raise UsageError(f"{op.name}: kernels of {dtype} have no type in C++", "T0631")
        symbol = f"tenon_python_kernel_{next(_numbers)}"
        text = source()
        if not isinstance(text, str):
            raise UsageError(f"{op.name}: a kernel is a text, not {text!r}", "T0631")
        known = op.kernels.get(device, {}) | {code: None}
        _native.register_kernel(
            op.name, device, code, list(op.attrs), _text(op, code, symbol, text), symbol,
            list(known),
        )  # fmt: skip
        op.kernels[device] = known
    _trace.forget_types()


def _text(op: Op, code: str, symbol: str, text: str) -> str:
    """The user's text, and a function of one signature that calls its `run`."""
    c = _C[code]
    arguments = [f"(const {c}*)in[{i}]" for i in range(len(op.operands))]
    lines = []
    for i, (kind, _) in enumerate(op.attrs.values()):
        if kind == F64:
            lines.append(f"double a{i}; __builtin_memcpy(&a{i}, &attrs[{i}], 8);")
        else:
            lines.append(f"int64_t a{i} = attrs[{i}];")
        arguments.append(f"a{i}")
    arguments += [f"({c}*)out[{i}]" for i in range(op.results)] + ["n"]
    return (
        f'{_TYPES}namespace {{\n#line 1 "{op.name}"\n{text}\n}}\n'
        f'extern "C" void {symbol}(void* const* in, void* const* out, const int64_t* attrs, int64_t n) {{\n'
        f"  {' '.join(lines)}\n  run({', '.join(arguments)});\n}}\n"
    )
