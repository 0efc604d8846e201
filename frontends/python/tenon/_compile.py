"""`tenon.compile`: functions of arrays as programs."""

from __future__ import annotations

import functools

from tenon import _dtypes as dt
from tenon import _host, _native, _trace
from tenon._array import Array, _is_number, _of_tensor
from tenon._errors import UnsupportedError, UsageError
from tenon._trace import GraphTrace, SizeNeeded, Value, tracing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, TypeAlias

    Shape: TypeAlias = tuple[int | str, ...]
    Types: TypeAlias = tuple[tuple[str, Shape, bool], ...]

PROGRAMS_MAX = 256


class _Leaf:
    """The place of an array in nested arguments or results."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "*"


_LEAF = _Leaf()


def _is_array(value: object) -> bool:
    return _is_number(value) or hasattr(value, "__dlpack__") or (
        hasattr(value, "shape") and hasattr(value, "dtype")
    )


def _flatten(value: Any, leaves: list[Any], names: list[str], name: str) -> Any:
    """The structure of a value, hashable, with its arrays taken out."""
    if _is_array(value):
        leaves.append(value)
        names.append(name)
        return _LEAF
    if isinstance(value, (tuple, list)):
        parts = tuple(_flatten(v, leaves, names, f"{name}_{i}") for i, v in enumerate(value))
        return type(value), parts, None
    if isinstance(value, dict):
        keys = tuple(value)
        parts = tuple(_flatten(value[k], leaves, names, f"{name}_{k}") for k in keys)
        return dict, parts, keys
    try:
        hash(value)
    except TypeError:
        raise UsageError(
            f"argument {name} is a {type(value).__name__}: arrays, numbers, tuples, lists, dicts of "
            "them, and hashable values can be passed to a compiled function",
            "T0601",
        ) from None
    return "value", (), value


def _unflatten(structure: Any, leaves: Any) -> Any:
    if structure is _LEAF:
        return next(leaves)
    kind, parts, extra = structure
    if kind == "value":
        return extra
    made = [_unflatten(p, leaves) for p in parts]
    if kind is dict:
        return dict(zip(extra, made))
    return kind(*made) if hasattr(kind, "_fields") else kind(made)


def _type_of(value: Any) -> tuple[str, Shape, bool]:
    """Element type, shape, and whether it is a number of Python."""
    if isinstance(value, Array):
        return value.dtype.code, value.shape, value._weak
    if isinstance(value, bool):
        return "pred", (), True
    if isinstance(value, int):
        return "i64", (), True
    if isinstance(value, float):
        return "f64", (), True
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape is None or dtype is None:
        tensor = _host.tensor(value)
        return tensor.dtype, tensor.shape, False
    return _codes.get(dtype) or _code_of(dtype), tuple(shape), False


_codes: dict[Any, str] = {}  # by types of other libraries


def _code_of(dtype: Any) -> str:
    name = str(dtype).rpartition(".")[2]
    known = dt.by_name.get(name) or dt.by_code.get(name)
    if known is None:
        raise UsageError(f"an array of {dtype} cannot be passed to a compiled function", "T0603")
    if not isinstance(dtype, str):  # Tenon's own names
        _codes[dtype] = known.code
    return known.code


class _Program:
    """A compiled trace: the program, and the structure of its results."""

    def __init__(self, native: _native.Program, structure: Any):
        self.native = native
        self.structure = structure

    def run(self, leaves: list[Any]) -> Any:
        wrap = any(isinstance(v, Array) for v in leaves)
        inputs = tuple(v._read() if isinstance(v, Array) else v for v in leaves)
        given = self.native.run_as(inputs, {}, "tensor" if wrap else "same", [])
        results = iter([_of_tensor(r) if wrap else r for r in given])
        return _unflatten(self.structure, results)


class Compiled:
    """A function that is traced and compiled when it is called. Made by `tenon.compile`."""

    def __init__(
        self,
        function: Callable[..., Any],
        device: str | None,
        dims: Mapping[str, Any] | None,
        fallback: bool,
    ):
        self.__name__ = "f"  # of callables without a name
        functools.update_wrapper(self, function)
        self._function = function
        self._device = device or ""
        self._dims = dict(dims or {})
        self._fallback = fallback
        self._exact: dict[object, _Program] = {}
        self._kinds: dict[object, _Kind] = {}
        self._generation = _trace.generation
        self.compilations = 0
        """How often it was compiled."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves: list[Any] = []
        names: list[str] = []
        structure = _flatten((args, kwargs), leaves, names, "")
        types = tuple(map(_type_of, leaves))
        if any(isinstance(v, Array) and v._value.trace is not None for v in leaves):
            return self._function(*args, **kwargs)  # inside of another trace
        if self._generation != _trace.generation:
            self._forget()
        program = self._exact.get((structure, types))
        if program is None:
            program = self._find(structure, types, names)
        try:
            return program.run(leaves)
        except UsageError:
            if (structure, types) in self._exact:
                raise
        # Sizes that do not go together: with numbers, the trace tells the line.
        program = self._exact[structure, types] = self._trace(structure, types, names, types)
        return program.run(leaves)

    def _forget(self) -> None:
        """An op has another meaning now, perhaps one that the function uses."""
        self._generation = _trace.generation
        self._exact.clear()
        self._kinds.clear()

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def _find(self, structure: Any, types: Types, names: list[str]) -> _Program:
        if len(self._exact) >= PROGRAMS_MAX:
            self._exact.clear()
        key = structure, tuple((dtype, len(shape), weak) for dtype, shape, weak in types)
        kind = self._kinds.setdefault(key, _Kind())
        for pattern, program in kind.programs:
            if _matches(pattern, types):
                return program
        wanted = kind.pattern(self._named(structure, types, names))
        kind.seen.append(types)
        if wanted != types and not kind.by_size:
            try:
                program = self._trace(structure, types, names, wanted)
                kind.programs.append((wanted, program))
                return program
            except (SizeNeeded, UnsupportedError) as error:
                if getattr(error, "code", "T0632") != "T0632":  # an op needs numbers
                    raise
                import logging

                kind.by_size = True
                logging.getLogger("tenon").info(
                    "%s is compiled for each size: it needs sizes as numbers", self.__name__
                )
        program = self._exact[structure, types] = self._trace(structure, types, names, types)
        return program

    def _named(self, structure: Any, types: Types, names: list[str]) -> Types:
        """The types with the symbols of dims=."""
        if not self._dims:
            return types
        given = self._by_leaf(structure, names)
        out = []
        for i, (dtype, shape, weak) in enumerate(types):
            symbols = given.get(i, ())
            out.append((dtype, tuple(_named_size(symbols, j, s) for j, s in enumerate(shape)), weak))
        return tuple(out)

    def _by_leaf(self, structure: Any, names: list[str]) -> dict[int, Any]:
        import inspect

        parameters = list(inspect.signature(self._function).parameters)
        unknown = set(self._dims) - set(parameters)
        if unknown:
            raise UsageError(f"dims: there is no argument {min(unknown)!r}", "T0602")
        out = {}
        for i, name in enumerate(names):
            kind, _, rest = name[1:].partition("_")  # "_0_2": the third positional one
            if kind == "0":  # below it, the parts of a tuple or dict
                first = parameters[min(int(rest.partition("_")[0]), len(parameters) - 1)]
            else:
                first = next((p for p in parameters if rest == p or rest.startswith(p + "_")), "")
            if first in self._dims:
                out[i] = self._dims[first]
        return out

    def _trace(self, structure: Any, types: Types, names: list[str], wanted: Types) -> _Program:
        trace = GraphTrace(self.__name__)
        arguments = []
        for i, ((dtype, sizes, weak), (_, shape, _)) in enumerate(zip(wanted, types)):
            dims = [
                trace.symbol(s, int(n)) if isinstance(s, str) else s for s, n in zip(sizes, shape)
            ]
            value = trace.argument(dt.by_code[dtype], dims, f"x{i}")
            arguments.append(Array(value, weak))
        args, kwargs = _unflatten(structure, iter(arguments))
        with tracing(trace):
            result = self._function(*args, **kwargs)
            leaves: list[Any] = []
            shape_of_result = _flatten(result, leaves, [], "the result")
            ids = [trace.id_of(_result_value(v)) for v in leaves]
        if not ids:
            raise UsageError(f"{self.__name__} returned no array", "T0601")
        graph = trace.native.finish(ids, [f"y{i}" for i in range(len(ids))])
        self.compilations += 1
        _trace.refuse_in_pass()
        native = _native.Program(graph, self._device, not self._fallback, False, [], [])
        return _Program(native, shape_of_result)


def _result_value(result: Any) -> Value:
    from tenon import xp

    return (result if isinstance(result, Array) else xp.asarray(result))._value


def _named_size(symbols: Any, axis: int, size: Any) -> Any:
    if isinstance(symbols, dict):
        return symbols.get(axis, size)
    return symbols[axis] if axis < len(symbols) and symbols[axis] is not None else size


def _matches(pattern: Types, types: Types) -> bool:
    """Whether a program with symbols fits. Sizes of one name are equal; 0 and 1 have programs of their own."""
    sizes: dict[str, int | str] = {}
    for (_, wanted, _), (_, shape, _) in zip(pattern, types):
        for w, s in zip(wanted, shape):
            if isinstance(w, str):
                if w.startswith("n_") and s in (0, 1) or sizes.setdefault(w, s) != s:
                    return False
            elif w != s:
                return False
    return True


class _Kind:
    """Calls that differ in sizes only."""

    def __init__(self) -> None:
        self.seen: list[Types] = []
        self.programs: list[tuple[Types, _Program]] = []
        self.by_size = False  # the function needs sizes as numbers

    def pattern(self, types: Types) -> Types:
        """The types, with symbols for sizes that have changed."""
        out = []
        for i, (dtype, shape, weak) in enumerate(types):
            sizes = tuple(
                f"n_{i}_{j}" if not isinstance(s, str) and self._changed(i, j, s) else s
                for j, s in enumerate(shape)
            )
            out.append((dtype, sizes, weak))
        return tuple(out)

    def _changed(self, leaf: int, axis: int, size: int) -> bool:
        """0 and 1 stay numbers: a size of 1 repeats, and others do not."""
        if size in (0, 1):
            return False
        return any(t[leaf][1][axis] not in (size, 0, 1) for t in self.seen)


def compile(
    function: Callable[..., Any] | None = None,
    /,
    *,
    device: str | None = None,
    dims: Mapping[str, Any] | None = None,
    fallback: bool = True,
) -> Any:
    """Makes a function of arrays a compiled one: `@tenon.compile`, or `tenon.compile(f)`.

        @tenon.compile
        def f(x, w):
            return tenon.nn.softmax(x @ w, axis=-1)

    The function runs once with arrays that have no values yet, and what it does with them is
    compiled. Arguments are arrays of tenon.xp, NumPy, torch or another library, numbers, and tuples,
    lists and dicts of them; the results are arrays of the same kind. Other hashable arguments are
    constants. A program is kept for each set of types. When sizes change, the second compilation
    has symbols in their place and serves all later ones, except for sizes 0 and 1, and unless the
    function needs them as numbers. Values of arguments never cause a compilation. Arrays from
    outside of the function are constants with the value that they had.

    `device` is as in `tenon.load`. `dims` names sizes that change, so that the first compilation
    has symbols: {"x": ("batch", None)}; sizes of one name are equal. `fallback=False` forbids nodes
    on other devices.

    Raises what the function raises, at its line; T0628 if it looks at values (an `if` on an
    array); T0627 if it keeps an array beyond its end. Any number of threads may call it.
    """
    if function is None:
        return lambda f: Compiled(f, device, dims, fallback)
    return Compiled(function, device, dims, fallback)
