"""Functions as regions of nodes: their arguments and results, nested, with types that agree."""

from __future__ import annotations

from tenon import xp
from tenon._errors import UsageError
from tenon._transforms.tracing import Tree, trace_now
from tenon.builder import dtypes as dt
from tenon.builder import ops
from tenon.builder.trace import Value
from tenon.xp._array import Array, is_weak, value_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from tenon.builder.dtypes import DType
    from tenon.builder.trace import Size

CODE = "T0664"


def type_text(v: Value) -> str:
    """A type as users write it: "float32(2, 3)"."""
    return v.dtype.name + ops.shape_text(v.shape)


def same_type(a: Value, b: Value) -> bool:
    """Whether two values have one type. Sizes of which nothing is known count as equal."""
    return a.dtype is b.dtype and ops.same_shape(a.shape, b.shape)


def slice_type(v: Value) -> Value:
    """The type of one slice along the first axis."""
    return Value(v.dtype, v.shape[1:])


def nesting(structure: Any) -> str:
    """How arrays are nested, as text: "(*, {'a': *})", with a star for each array."""
    kind, parts, extra = ("*", (), None) if not isinstance(structure, tuple) else structure
    if kind == "*":
        return "*"
    if kind == "value":
        return repr(extra)
    inner = [nesting(p) for p in parts]
    if kind is dict:
        return "{" + ", ".join(f"{k!r}: {p}" for k, p in zip(extra or (), inner)) + "}"
    if kind is list:
        return "[" + ", ".join(inner) + "]"
    if extra is not None:  # a dataclass
        inner = [f"{k}={p}" for k, p in zip(extra, inner)]
        return f"{kind.__name__}({', '.join(inner)})"
    name = kind.__name__ if isinstance(kind, type) and kind is not tuple else ""
    return f"{name}({', '.join(inner)}{',' if len(inner) == 1 else ''})"


def paths(structure: Any, name: str) -> list[str]:
    """The place of each array, as text: "carry[0]['w']"."""
    if not isinstance(structure, tuple):
        return [name]
    kind, parts, extra = structure
    if kind == "value":
        return []
    keys = range(len(parts)) if extra is None else extra
    is_dataclass = extra is not None and kind is not dict
    names = [f"{name}.{key}" if is_dataclass else f"{name}[{key!r}]" for key in keys]
    return [p for inner, part in zip(names, parts) for p in paths(part, inner)]


class Leaf:
    """An array of a result or an initial carry. `weak`: it takes the type of its counterpart."""

    def __init__(self, given: Any):
        self.given = given
        self.weak = is_weak(given)
        self.value = value_of(given if isinstance(given, Array) else xp.asarray(given))

    def fits(self, dtype: DType) -> bool:
        """Whether a weak one can take an element type: its kind (int, float, complex) is not higher."""
        own = self.value.dtype
        if own is dt.bool_ or dtype is dt.bool_:
            return own is dtype
        if dt.is_complex(own):
            return dt.is_complex(dtype)
        return dt.is_floating(dtype) or not dt.is_floating(own)

    def as_type(self, dtype: DType) -> Value:
        """The value in the type that it takes."""
        if not self.weak or dtype is self.value.dtype or not self.fits(dtype):
            return self.value
        return value_of(xp.asarray(self.given, dtype=dtype))


class Result:
    """What a function returned inside a region."""

    def __init__(self, given: Any):
        self.tree = Tree(given, "result")
        self.leaves = [Leaf(v) for v in self.tree.leaves]

    @property
    def values(self) -> list[Value]:
        return [leaf.value for leaf in self.leaves]


class Region:
    """A region of the trace, made by a function of arrays."""

    def __init__(
        self,
        types: Sequence[Value],
        body: Callable[..., Any],
        wanted: Sequence[DType | None] = (),
    ):
        """`body` gets arrays of these types. `wanted`: element types for results that are weak."""
        self.result: Result

        def inside(*values: Value) -> list[Value]:
            self.result = Result(body(*map(Array, values)))
            leaves = self.result.leaves
            if len(wanted) != len(leaves):
                return self.result.values
            return [a.value if t is None else a.as_type(t) for a, t in zip(leaves, wanted)]

        self.values: Sequence[Value]
        self.number, self.values = trace_now().region_of(types, inside)


def emit_regions(
    op: str, operands: Sequence[Value], regions: Sequence[Region], attrs: Any = ()
) -> list[Array]:
    """The results of a node with regions."""
    made = trace_now().emit(op, operands, attrs, [r.number for r in regions])
    return [Array(v) for v in made]


def require_nesting(first: Tree, other: Tree, text: str) -> None:
    """T0664 where nestings differ. `text` has a {} for each."""
    if first.structure != other.structure:
        raise UsageError(text.format(nesting(first.structure), nesting(other.structure)), CODE)


def common_length(what: str, tree: Tree, values: Sequence[Value], given: Any) -> Size:
    """The size of the first axes, which must be equal. T0664 otherwise, or where there is none."""
    sizes: list[tuple[str, Size]] = [] if given is None else [("length", given)]
    for name, v in zip(paths(tree.structure, "xs"), values):
        if not v.shape:
            raise UsageError(
                f"{what}: {name} is a number without axes, but slices are taken along the "
                "first axis: give an array with one, or let the function use the number directly",
                CODE,
            )
        sizes.append((name, v.shape[0]))
    if not sizes:
        raise UsageError(f"{what}: there is nothing to go over: give xs, or length", CODE)
    numbers = {s for _, s in sizes if isinstance(s, int)}
    if len(numbers) > 1:
        listed = ", ".join(f"{name} {size}" for name, size in sizes)
        raise UsageError(f"{what}: the numbers of slices must be equal: {listed}", CODE)
    return next(iter(numbers)) if numbers else sizes[0][1]
