"""Nested arguments and results: tuples, lists, dicts and dataclasses of arrays.

A structure is hashable. It is a leaf, or (kind, parts, extra): a type with the structures of its
parts and, for dicts and dataclasses, their keys; or a constant ("value", "reference", "record").
"""

from __future__ import annotations

import dataclasses
import weakref
from typing import NamedTuple

from tenon._errors import UsageError
from tenon.builder.trace import Dim

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any


class _Leaf:
    """The place of an array in nested arguments or results."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "*"


_LEAF = _Leaf()


class Static(NamedTuple):
    """An argument of static=: a constant of the program."""

    name: str
    value: Any


def is_array(value: object) -> bool:
    if isinstance(value, type):  # numpy.float32 has a shape, too
        return False
    return (
        isinstance(value, (bool, int, float, complex, Dim))
        or hasattr(value, "__dlpack__")
        or (hasattr(value, "shape") and hasattr(value, "dtype"))
    )


def flatten(
    value: Any,
    leaves: list[Any],
    names: list[str],
    name: str,
    constant: Callable[[Any, str], Any],
) -> Any:
    """The structure of a value, hashable, with its arrays taken out."""
    if isinstance(value, Static):
        return constant(value.value, value.name)
    if is_array(value):
        leaves.append(value)
        names.append(name)
        return _LEAF
    if isinstance(value, (tuple, list)):
        parts = tuple(
            flatten(v, leaves, names, f"{name}_{i}", constant) for i, v in enumerate(value)
        )
        return type(value), parts, None
    if isinstance(value, dict):
        keys = tuple(value)
        parts = tuple(flatten(value[k], leaves, names, f"{name}_{k}", constant) for k in keys)
        return dict, parts, keys
    if is_node(value):
        fields = dataclasses.fields(value)
        parts = tuple(
            constant(getattr(value, f.name), f"{name}.{f.name}")
            if is_static(f)
            else flatten(getattr(value, f.name), leaves, names, f"{name}_{f.name}", constant)
            for f in fields
        )
        return type(value), parts, tuple(f.name for f in fields)
    return constant(value, name)


def constant(value: Any, name: str) -> Any:
    """The structure of a value that is part of the program. Its type counts: True is not 1."""
    try:
        hash(value)
    except TypeError:
        raise UsageError(
            f"argument {name} is a {type(value).__name__}: arrays, numbers, tuples, lists, dicts and "
            "dataclasses of them, and hashable values can be passed to a compiled function; arguments of static= "
            "are hashable",
            "T0601",
        ) from None
    return "value", (type(value),), value


class _Rebuilt:
    """An object that is known by its parts: all of these are equal. It is not kept alive."""

    __slots__ = ("reference",)

    def __init__(self, value: object):
        self.reference = weakref.ref(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Rebuilt)

    def __hash__(self) -> int:
        return 0

    def __call__(self) -> Any:
        return self.reference()


def is_static(field: dataclasses.Field[Any]) -> bool:
    """Whether a field of a dataclass is a constant: dataclasses.field(metadata={"static": True})."""
    return bool(field.metadata.get("static"))


def is_node(value: Any) -> bool:
    """Whether it is a dataclass whose fields are children: all are, but for frozen ones without an array.

    Those are constants, as other hashable values are.
    """
    if isinstance(value, type) or not dataclasses.is_dataclass(value):
        return False
    return not _is_record(value) or any(map(_has_array, children(value)))


def children(value: Any) -> list[Any]:
    """The fields of a dataclass that are not static."""
    return [getattr(value, f.name) for f in dataclasses.fields(value) if not is_static(f)]


def _has_array(value: Any) -> bool:
    if is_array(value):
        return not isinstance(value, (bool, int, float, complex, Dim))
    if isinstance(value, (tuple, list, dict)):
        return any(map(_has_array, value.values() if isinstance(value, dict) else value))
    return dataclasses.is_dataclass(value) and is_node(value)


def _is_record(value: Any) -> bool:
    """Whether it is a frozen dataclass, whose fields say all of it."""
    parameters = getattr(type(value), "__dataclass_params__", None)
    return parameters is not None and parameters.frozen and parameters.eq


def _record(value: Any, name: str) -> Any:
    fields = dataclasses.fields(value)
    parts = tuple(argument(getattr(value, f.name), f"{name}.{f.name}") for f in fields)
    return "record", (("value", (), type(value)), *parts), _Rebuilt(value)


def argument(value: Any, name: str) -> Any:
    """As _constant; but an object that is equal to itself only, such as self, is not kept alive.

    Nor is a frozen dataclass, and what its fields refer to in this way.
    """
    if _is_record(value):
        try:
            return _record(value, name)
        except TypeError:  # without a place for a weak reference
            pass
    by_identity: Any = object.__hash__
    if type(value).__hash__ is by_identity:
        try:
            return "reference", (), weakref.ref(value)
        except TypeError:  # without a place for it
            pass
    return constant(value, name)


def references(structure: Any) -> list[Any]:
    """The weak references in a structure."""
    if structure is _LEAF or structure[0] == "value":
        return []
    kind, parts, extra = structure
    return [extra] if kind == "reference" else [r for p in parts for r in references(p)]


def _dataclass(kind: Any, fields: Iterable[tuple[str, Any]]) -> Any:
    """An instance with these fields. What __init__ checks and computes was true of the first one."""
    made = object.__new__(kind)
    for name, value in fields:
        object.__setattr__(made, name, value)
    return made


def unflatten(structure: Any, leaves: Any) -> Any:
    if structure is _LEAF:
        return next(leaves)
    kind, parts, extra = structure
    if kind == "value":
        return extra
    if kind == "reference" or kind == "record":
        return extra()
    made = [unflatten(p, leaves) for p in parts]
    if kind is dict:
        return dict(zip(extra, made))
    if extra is not None:
        return _dataclass(kind, zip(extra, made))
    return kind(*made) if hasattr(kind, "_fields") else kind(made)
