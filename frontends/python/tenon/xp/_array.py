"""The array of tenon.xp: a name of a value, with the operators of the array API standard."""

from __future__ import annotations

from tenon import _host, _native
from tenon._errors import UnsupportedError
from tenon.builder import dtypes as dt
from tenon.builder import ops
from tenon.builder.dtypes import DType
from tenon.builder.trace import I64, Dim, Value, active, default_device, emit, emit_spread, unknown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from tenon.builder.trace import Attrs

    Scalar = bool | int | float | complex


class Array(_native.ArrayBase):
    """An array. Made by the functions of `tenon.xp`, as `xp.asarray([1.0, 2.0])`.

    Operations wait until a value is read (printing, `float(x)`, `numpy.asarray(x)`), and are
    computed together then. `x[i] = v` and `x += y` give this name a new value; other names of the
    old value, and views, do not change. Shapes and types are known at once, and mistakes are raised
    at the line that makes them. Safe to use from several threads, except for writes to one array.
    """

    __slots__ = ()
    __array_ufunc__ = None  # so that numpy_array + x is an array of tenon.xp, too

    # ---- What it is ----

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self._value.shape)

    @property
    def size(self) -> Any:
        """The number of elements."""
        total: Any = 1
        for s in self._value.shape:
            total = total * s
        return total

    @property
    def device(self) -> str:
        """The device on which it is computed."""
        return default_device()

    @property
    def T(self) -> Array:
        """The transpose of a matrix."""
        if self.ndim != 2:
            raise ValueError(
                f".T needs 2 axes, this array has {self.ndim}: use .mT or permute_dims"
            )
        return self.mT

    @property
    def mT(self) -> Array:
        """The transposes of a stack of matrices."""
        made: Array = _above.namespace.matrix_transpose(self)
        return made

    def __array_namespace__(self, *, api_version: str | None = None) -> ModuleType:
        xp: ModuleType = _above.namespace
        if api_version not in (None, *xp.API_VERSIONS):
            raise ValueError(f"tenon.xp has the versions {', '.join(xp.API_VERSIONS)} only")
        return xp

    def to_device(self, device: str, /, *, stream: object = None) -> Array:
        """The array itself: all arrays of a process are on one device (TENON_DEVICE)."""
        if stream is not None:
            raise ValueError("stream= is not used here: pass None")
        if device != self.device:
            raise UnsupportedError(
                f"arrays are on {self.device!r}; another device for one array: not yet. Set "
                "TENON_DEVICE, or use tenon.compile(device=...).",
                "T0629",
            )
        return self

    # ---- Reading ----

    def tensor(self) -> Any:
        """Its value, computed, as a `tenon.Tensor`."""
        data = self._read()
        if isinstance(data, (bool, int, float, complex)):
            _host.open()
            data = _tensor_of(dt.element(self.dtype, data), self.dtype, ())
            self._value.data = data
        return data

    def numpy(self) -> Any:
        """A read-only NumPy array of the same memory."""
        return self.tensor().numpy()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self.tensor().__array__(dtype, copy)

    def __dlpack__(self, **options: Any) -> Any:
        return self.tensor().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        if self._value.trace is not None:
            raise unknown(self._value)
        return (1, 0)

    def item(self) -> Scalar:
        """The only element, as a number of Python."""
        if self.size != 1:
            raise TypeError(
                f"only an array of one element is a number, this has shape {self.shape}"
            )
        return self._element()  # type: ignore[no-any-return]

    def tolist(self) -> Any:
        """The elements as nested lists."""
        return self.tensor().tolist()

    def _number(self, what: str) -> Any:
        if self.ndim != 0:
            raise TypeError(f"{what} needs an array without axes, this one has shape {self.shape}")
        return self.item()

    def __bool__(self) -> bool:
        return bool(self._number("bool(x)"))

    def __int__(self) -> int:
        return int(self._number("int(x)"))

    def __float__(self) -> float:
        return float(self._number("float(x)"))

    def __complex__(self) -> complex:
        return complex(self._number("complex(x)"))

    def __index__(self) -> int:
        if not dt.is_integer(self.dtype):
            raise TypeError(f"an index is an integer, not {self.dtype.name}")
        return int(self._number("an index"))

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array without axes has no length")
        return int(self.shape[0].__index__())

    def __iter__(self) -> Any:
        if not self.shape:
            raise TypeError("an array without axes cannot be iterated over")
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        if self._value.trace is not None:
            return f"Array(shape={self.shape}, dtype={self.dtype.name}, traced)"
        import math

        if math.prod(self.shape) > 1000:
            return f"Array(shape={self.shape}, dtype={self.dtype.name})"
        return f"Array({self.tolist()}, dtype={self.dtype.name})"

    def __format__(self, spec: str) -> str:
        return format(self._number("a format"), spec) if spec else str(self)

    def __reduce__(self) -> tuple[object, ...]:
        return _of_tensor, (self.tensor(),)

    def __copy__(self) -> Array:
        return Array(self._value, self._weak)

    def __deepcopy__(self, memo: object) -> Array:
        return Array(self._value, self._weak)

    # ---- Indexing ----

    def __setitem__(self, key: Any, value: Any) -> None:
        self._set(_above.put(self._value, key, operand_like(value, self)))


class _Above:
    """What arrays need of the modules above this one. `tenon.xp` fills it in."""

    namespace: Any
    put: Callable[[Value, Any, Array], Value]


_above = _Above()


def asarray(x: Any) -> Array:
    """`xp.asarray`, for objects other than arrays of `tenon.xp`."""
    return _above.namespace.asarray(x)  # type: ignore[no-any-return]


def _tensor_of(data: bytes, dtype: DType, shape: tuple[int, ...]) -> Any:
    return _native.tensor_of_bytes(data, dtype.code, shape)


def _of_tensor(tensor: Any) -> Array:
    value = Value(dt.by_code[tensor.dtype], tensor.shape)
    value.data = tensor
    return Array(value)


def _fits(number: Scalar, dtype: DType) -> None:
    """Checks that a Python number may be an array's operand: its kind is not above the array's."""
    kind = type(number).__name__
    if isinstance(number, bool):
        ok = dtype is dt.bool_
    elif isinstance(number, int):
        ok = dtype is not dt.bool_
    else:
        ok = dt.is_floating(dtype)
    if not ok:
        raise TypeError(
            f"a Python {kind} does not go with an array of {dtype.name}: convert the array with "
            "xp.astype(x, ...), or write a number of its kind"
        )


def _is_number(value: object) -> bool:
    return isinstance(value, (bool, int, float, complex))


def operand_like(value: Any, other: Array) -> Array:
    """The other operand of an array: an array, a number, or an array of another library."""
    if isinstance(value, Array):
        return Array(fitted(value, other.dtype)) if value._weak and not other._weak else value
    if _is_number(value):
        _fits(value, other.dtype)
        wide = dt.complex_of(other.dtype) if isinstance(value, complex) else other.dtype
        return Array(ops.scalar(value, wide))
    if isinstance(value, Dim):
        return Array(ops.size_value(value, other.dtype))
    return asarray(value)


def pair(x: Any, y: Any) -> tuple[Value, Value]:
    """Two operands in their common type, not yet of one shape."""
    if is_weak(x) and is_weak(y):
        return _weak_pair(x, y)
    if not isinstance(x, Array):
        if not isinstance(y, Array):
            x = asarray(x)
        else:
            x = operand_like(x, y)
    if not isinstance(y, Array):
        y = operand_like(y, x)
    a, b = x._value, y._value
    if a.dtype is b.dtype:
        return a, b
    if x._weak:
        a = fitted(x, b.dtype)
    elif y._weak:
        b = fitted(y, a.dtype)
    dtype = dt.promote(a.dtype, b.dtype)
    return ops.convert(a, dtype), ops.convert(b, dtype)


def is_weak(x: Any) -> bool:
    """Whether it takes the type of the other operand: numbers, and what is computed from them."""
    return x._weak if isinstance(x, Array) else isinstance(x, (bool, int, float, complex, Dim))


_WEAK_TYPES = (
    dt.bool_,
    dt.int64,
    dt.float64,
    dt.complex128,
)  # each goes with later ones, as in Python


def _weak_type(x: Any) -> DType:
    if isinstance(x, Array):
        return x.dtype
    if isinstance(x, complex):
        return dt.complex128
    return _WEAK_TYPES[0 if isinstance(x, bool) else 2 if isinstance(x, float) else 1]


def _weak_pair(x: Any, y: Any) -> tuple[Value, Value]:
    """Two numbers, of which a traced function was given at least one."""
    if not isinstance(x, Array) and not isinstance(y, Array):
        raise TypeError("one of two operands has to be an array")
    dtype = max(_weak_type(x), _weak_type(y), key=_WEAK_TYPES.index)
    return _weak_value(x, dtype), _weak_value(y, dtype)


def _weak_value(x: Any, dtype: DType) -> Value:
    if isinstance(x, Array):
        return ops.convert(x._value, dtype)
    return ops.size_value(x, dtype) if isinstance(x, Dim) else ops.scalar(x, dtype)


def weak_float(x: Any) -> Any:
    """The operand of a division: numbers that a traced function was given become floats."""
    if isinstance(x, Array) and x._weak and dt.is_integer(x.dtype):
        return Array(ops.convert(x._value, dt.float64), weak=True)
    return x


def example(x: Any) -> Scalar:
    """A number of the kind of a weak operand."""
    return {dt.bool_: True, dt.int64: 1, dt.float64: 1.0, dt.complex128: 1j}[_weak_type(x)]


def fitted(x: Array, dtype: DType) -> Value:
    """A weak array in the other operand's type. The range of integers is checked in each call."""
    _fits(example(x), dtype)
    if dt.is_complex(x.dtype):
        dtype = dt.complex_of(dtype)
    trace = x._value.trace
    if trace is not None and dt.is_integer(dtype):
        trace.narrow(x._value, dtype)
    return ops.convert(x._value, dtype)


def binary(op: str, x: Any, y: Any) -> Array:
    a, b = pair(x, y)
    return Array(spread(op, a, b), is_weak(x) and is_weak(y) and active() is not None)


def spread(op: str, a: Value, b: Value, attrs: Attrs = ()) -> Value:
    """The op on two operands of one type, repeated to a common shape."""
    shape = ops.broadcast_shapes(a.shape, b.shape)
    if active() is None:
        return emit_spread(op, (a, b), shape, attrs)
    return emit(op, (ops.broadcast_to(a, shape), ops.broadcast_to(b, shape)), attrs)[0]


def value_of(x: Any) -> Value:
    """The value of an argument: an array, or what asarray takes. Numbers have the default types."""
    if isinstance(x, Array):
        if x._weak and dt.is_floating(x.dtype):
            wanted = dt.default_complex if dt.is_complex(x.dtype) else dt.default_float
            return ops.convert(x._value, wanted)
        return x._value
    if _is_number(x) or isinstance(x, (list, tuple)):
        raise TypeError(f"an array is expected here, not {x!r}: xp.asarray makes one")
    return asarray(x)._value


def check_in_place(array: Array, result: Array, name: str) -> None:
    """TypeError if an operation in place would change the type."""
    if result.dtype is not array.dtype or not ops.same_shape(result.shape, array.shape):
        raise TypeError(
            f"the result is {result.dtype.name}{result.shape}, and an operation in place "
            f"keeps {array.dtype.name}{array.shape}: write x = x {name} y"
        )


# What the native quick path knows: (op, attributes), for which kinds of elements
# (native/eager/values.h).
_BOOL, _INTEGER, _FLOAT = 1, 2, 4
_NUMERIC = _INTEGER | _FLOAT
_QUICK_OPS: dict[str, tuple[str, int]] = {
    "add": ("add", _NUMERIC), "subtract": ("sub", _NUMERIC), "multiply": ("mul", _NUMERIC),
    "divide": ("div", _FLOAT), "floor_divide": ("floor_div", _NUMERIC),
    "remainder": ("floor_mod", _NUMERIC), "pow": ("pow", _NUMERIC), "maximum": ("max", _NUMERIC),
    "minimum": ("min", _NUMERIC), "atan2": ("atan2", _FLOAT), "hypot": ("hypot", _FLOAT),
    "bitwise_and": ("and", _BOOL | _INTEGER), "bitwise_or": ("or", _BOOL | _INTEGER),
    "bitwise_xor": ("xor", _BOOL | _INTEGER), "bitwise_left_shift": ("shl", _INTEGER),
    "logical_and": ("and", _BOOL), "logical_or": ("or", _BOOL), "logical_xor": ("xor", _BOOL),
    "negative": ("neg", _NUMERIC), "abs": ("abs", _NUMERIC), "sign": ("sign", _NUMERIC),
    "square": ("square", _NUMERIC), "bitwise_invert": ("not", _BOOL | _INTEGER),
    "logical_not": ("not", _BOOL),
}  # fmt: skip
_QUICK_OPS |= {
    name: (name, _FLOAT)
    for name in (
        "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "exp", "expm1", "log",
        "log1p", "log2", "log10", "sin", "sinh", "sqrt", "tan", "tanh", "reciprocal",
    )
}  # fmt: skip
QUICK = {name: _native.quick_op(op, (), kinds) for name, (op, kinds) in _QUICK_OPS.items()}
COMPARISONS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
"""In the order of the attribute `direction` of compare."""


def direction(name: str) -> Attrs:
    """The attributes of a comparison."""
    return (("direction", I64, COMPARISONS.index(name)),)


QUICK |= {
    name: _native.quick_op("compare", direction(name), _NUMERIC | (_BOOL if i < 2 else 0))
    for i, name in enumerate(COMPARISONS)
}
_native.set_array_type(Array, check_in_place, dt.int64)
