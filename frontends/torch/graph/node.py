"""A node of torch's graph as its lowering sees it, and what lowerings share."""

from __future__ import annotations

from tenon import Error
from tenon.builder import Dim, GraphTrace, SizeNeeded, Value, ops
from tenon.builder import dtypes as dt

import torch
from torch import fx
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from .floats import Real
from .sizes import Whole, size_in
from .table import Unsupported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from tenon.builder import Size

    from .walk import Walk

DTYPES: dict[torch.dtype, dt.DType] = {
    torch.bool: dt.bool_, torch.int8: dt.int8, torch.int16: dt.int16, torch.int32: dt.int32,
    torch.int64: dt.int64, torch.uint8: dt.uint8, torch.uint16: dt.uint16, torch.uint32: dt.uint32,
    torch.uint64: dt.uint64, torch.float16: dt.float16, torch.bfloat16: dt.bfloat16,
    torch.float32: dt.float32, torch.float64: dt.float64, torch.complex64: dt.complex64,
    torch.complex128: dt.complex128,
}  # fmt: skip

# What a lowering may raise because a node is beyond it: the node stays in torch.
BEYOND = (
    Unsupported,
    Error,
    SizeNeeded,
    GuardOnDataDependentSymNode,
    TypeError,
    ValueError,
    OverflowError,
    NotImplementedError,
)


def dtype_of(dtype: torch.dtype) -> dt.DType:
    """Our element type. Unsupported if there is none."""
    found = DTYPES.get(dtype)
    if found is None:
        raise Unsupported(f"elements of {dtype} have no operators yet")
    return found


def fake_of(argument: Any) -> Any:
    """What torch knows of an argument: a tensor without data, a SymInt, or the argument itself."""
    return argument.meta.get("val") if isinstance(argument, fx.Node) else argument


class Node:
    """What a lowering is given besides its arguments."""

    def __init__(self, walk: Walk, node: fx.Node):
        self.walk = walk
        self.node = node
        self.trace = walk.trace
        self.fake: Any = node.meta.get("val")

    @property
    def result(self) -> torch.Tensor:
        """The (first) result, with torch's type."""
        fake = self.fake[0] if isinstance(self.fake, (tuple, list)) else self.fake
        assert isinstance(fake, torch.Tensor)
        return fake

    @property
    def fakes(self) -> Sequence[torch.Tensor]:
        """All results, with torch's types."""
        return self.fake if isinstance(self.fake, (tuple, list)) else (self.fake,)

    @property
    def dtype(self) -> dt.DType:
        """The element type of the (first) result."""
        return dtype_of(self.result.dtype)

    @property
    def shape(self) -> tuple[Size, ...]:
        """The sizes of the (first) result."""
        return self.shape_of(self.result)

    def shape_of(self, fake: torch.Tensor) -> tuple[Size, ...]:
        return tuple(size_in(self.trace, s) for s in fake.shape)

    def learn(self, x: Value, fake: torch.Tensor | None = None) -> Value:
        """A value of the (first) result's shape. Symbols of torch that data decides are known by its sizes."""
        fake = self.result if fake is None else fake
        self.trace.learn(fake.shape, x.shape)
        return ops.reshape(x, self.shape_of(fake))

    def is_read(self, i: int) -> bool:
        """Whether a node reads result i of several."""
        return any(user.args[1] == i for user in self.node.users)

    def to_result(self, x: Any) -> Value:
        """An operand in the type and the shape of the result."""
        return self.spread(x, self.dtype)

    def spread(self, x: Any, dtype: dt.DType, shape: tuple[Size, ...] | None = None) -> Value:
        """An operand in a type, repeated to a shape: that of the result unless given."""
        return ops.broadcast_to(self.typed(x, dtype), self.shape if shape is None else shape)

    def fitting(self, x: Any) -> Value:
        """An operand in the type and the shape of the result, which has the number."""
        return self.to_result(within(x, self.dtype))

    def typed(self, x: Any, dtype: dt.DType) -> Value:
        """A value or a number in a type; as torch computes, a number wraps."""
        if isinstance(x, Value):
            return ops.convert(x, dtype)
        if isinstance(x, Whole):
            return ops.convert(self.walk.whole(x.size), dtype)
        if isinstance(x, Dim):
            return ops.size_value(x, dtype)
        if isinstance(x, Real):
            if not dt.is_floating(dtype):
                raise Unsupported(f"a float that changes as {dtype.name}")
            return ops.convert(x.value, dtype)
        if isinstance(x, (bool, int, float, complex)):
            if isinstance(x, complex) and not dt.is_complex(dtype):
                raise Unsupported("a complex number with real operands")
            if dt.is_integer(dtype):
                low, high = dt.limits(dtype)
                assert not isinstance(x, complex)
                x = int(x) if low <= x <= high else _wrapped(int(x), dtype)
            return ops.scalar(x, dtype)
        raise Unsupported(f"{type(x).__name__} cannot be an operand")

    def is_beyond(self, x: Any) -> bool:
        """Whether the result's type of 16 bits may lack a number, or a tensor without axes of another type.

        torch takes such a factor or divisor in float32.
        """
        if wide(self.dtype) is self.dtype:
            return False
        if isinstance(x, Value):
            return not x.shape and x.dtype is not self.dtype and x.dtype is not dt.bool_
        if isinstance(x, (bool, int, float)):
            return torch.tensor(float(x), dtype=self.result.dtype).item() != x
        return not isinstance(x, complex)

    def common(self, *indices: int) -> dt.DType:
        """The type that torch computes in with these arguments."""
        fakes = [fake_of(self.node.args[i]) for i in indices]
        return dtype_of(promote_types(fakes))

    def reshape(self, x: Value) -> Value:
        """A value in the shape of the result."""
        return ops.reshape(x, self.shape)


def wide(dtype: dt.DType) -> dt.DType:
    """What torch computes in for results of a type: float32 for those of 16 bits."""
    return dt.float32 if dtype in (dt.float16, dt.bfloat16) else dtype


def added_up(kind: str, x: Value) -> Value:
    """An operand of what is put together at equal places: in float32 for types of 16 bits, where sums stop growing."""
    return ops.convert(x, wide(x.dtype)) if kind in ("add", "mul") else x


def within(x: Any, dtype: dt.DType) -> Any:
    """An operand. Unsupported for a number beyond the type, for which torch has rules by operator."""
    if isinstance(x, (int, float)) and dt.is_integer(dtype):
        low, high = dt.limits(dtype)
        if not low <= x <= high:
            raise Unsupported("a number beyond the element type")
    return x


def checked(x: Value, holds: Value) -> Value:
    """A value, in a call that fails where a condition of the same shape does not hold: eager mode then
    runs, and raises. It is the check of an index, which comes before anything is written.
    """
    zeros = ops.iota((1,), 0, dt.int64)
    index = ops.select(
        holds, ops.like(ops.convert(holds, dt.int64), 0), ops.like(ops.convert(holds, dt.int64), 1)
    )
    nothing = ops.one("take", zeros, index, dim=0, mode="in_bounds")
    return ops.one("add", x, ops.convert(nothing, x.dtype))


def checked_whole(x: Value, holds: Value) -> Value:
    """As `checked`, for a value of any type and one condition for all of it. Its bits stay as they are."""
    index = ops.select(holds, ops.scalar(0, dt.int64), ops.scalar(1, dt.int64))
    index = ops.reshape(index, (1,))
    return ops.reshape(
        ops.one("take", ops.reshape(x, (1, *x.shape)), index, dim=0, mode="in_bounds"), x.shape
    )


def _wrapped(x: int, dtype: dt.DType) -> int:
    x &= (1 << dtype.bits) - 1
    return x - (1 << dtype.bits) if dtype.kind == "signed integer" and x >> (dtype.bits - 1) else x


def promote_types(fakes: Sequence[Any]) -> torch.dtype:
    """torch's promotion of tensors and numbers."""
    from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes

    kind = ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT
    return elementwise_dtypes(*fakes, type_promotion_kind=kind)[1]


def from_zero(n: Node, index: Value, size: Size) -> Value:
    """Indices that are counted from 0; negative ones count from the end."""
    index = ops.convert(index, dt.int64)
    from_end = ops.one("add", index, n.spread(size, dt.int64, index.shape))
    return ops.select(ops.compare(index, ops.like(index, 0), 2), from_end, index)


def axis_of(axis: int, rank: int) -> int:
    """An axis counted from 0. torch's negative axes count from the end, and numbers have one axis."""
    return axis % max(rank, 1)


def constant(trace: GraphTrace, tensor: torch.Tensor) -> Value:
    """A tensor's elements as a constant."""
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        raise Unsupported(f"{type(tensor).__name__} is a kind of tensor of its own")
    dtype = dtype_of(tensor.dtype)
    shape = [int(s) for s in tensor.shape]
    if tensor.numel() == 0:
        return trace.constant(dtype, shape, b"")
    flat = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
    return trace.constant(dtype, shape, _bytes(flat))


def _bytes(flat: torch.Tensor) -> bytes:
    import ctypes

    return ctypes.string_at(flat.data_ptr(), flat.numel())
