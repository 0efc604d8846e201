"""`tenon.compile`: functions of arrays as programs."""

from __future__ import annotations

import functools
import weakref
from typing import NamedTuple

from tenon import _host, _native, xp
from tenon._devices import device_text
from tenon._errors import UnsupportedError, UsageError, flag, place
from tenon._tree import Static, argument, constant, flatten, references, unflatten
from tenon.builder import dtypes as dt
from tenon.builder import ops
from tenon.builder import trace as _trace
from tenon.builder.trace import Dim, GraphTrace, SizeNeeded, Value, tracing
from tenon.xp._array import Array, _of_tensor, value_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, TypeAlias

    Shape: TypeAlias = tuple["int | str | _Changed", ...]
    Types: TypeAlias = tuple[tuple[str, Shape, bool], ...]
    _Narrowed: TypeAlias = tuple[int, dt.DType, str]  # a number of the call, its type, the line

PROGRAMS_MAX = 256
KINDS_MAX = 256


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
    if isinstance(value, complex):
        return "c128", (), True
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

    def __init__(
        self,
        native: _native.Program,
        structure: Any,
        narrowed: list[_Narrowed],
        plain: list[int],
        lifted: list[Array],
        by_symbols: bool,
    ):
        self.native = native
        self.lifted = lifted  # further inputs
        self.by_symbols = by_symbols  # whether sizes of the call may differ from those of the trace
        self.structure = structure
        self.narrowed = narrowed
        self.plain = plain  # results that are numbers of Python

    def run(self, leaves: list[Any]) -> Any:
        for i, dtype, line in self.narrowed:
            _check_range(leaves[i], dtype, line)
        wrap = any(isinstance(v, Array) for v in leaves)
        inputs = tuple(v._read() if isinstance(v, Array) else v for v in (*leaves, *self.lifted))
        given = self.native.run_as(inputs, {}, "tensor" if wrap else "same", [])
        results = [_of_tensor(r) if wrap else r for r in given]
        for i in self.plain:
            results[i] = results[i].item()
        return unflatten(self.structure, iter(results))


def _check_range(number: int, dtype: dt.DType, line: str) -> None:
    try:
        dt.element(dtype, number)
    except OverflowError as error:
        raise OverflowError(f"{error} (at {line})") from None


class Compiled:
    """A function that is traced and compiled when it is called. Made by `tenon.compile`."""

    def __init__(
        self,
        function: Callable[..., Any],
        device: str | None,
        dims: Mapping[str, Any] | None,
        fallback: bool,
        static: Sequence[str] = (),
        fresh: bool = False,
    ):
        """`fresh`: the function is traced at every call, so that it may use what changes around it. Traces
        that are equal but for the values of arrays share a program."""
        self.__name__ = "f"  # of callables without a name
        functools.update_wrapper(self, function)
        self._function = function
        self._device = device_text(device)
        self._dims = {name: _symbols(name, given) for name, given in (dims or {}).items()}
        self._fallback = flag("fallback", fallback)
        self._static = frozenset((static,) if isinstance(static, str) else static)
        self._fresh = fresh
        self._programs: dict[bytes, _native.Program] = {}  # by graph, with fresh
        self._exact: dict[object, _Program] = {}
        self._kinds: dict[object, _Kind] = {}
        self._generation = _trace.generation
        self.compilations = 0
        """How often it was compiled."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves: list[Any] = []
        names: list[str] = []
        given = self._mark_static(args, kwargs) if self._static else (args, kwargs)
        structure = flatten(given, leaves, names, "", argument)
        types = tuple(map(_type_of, leaves))
        if any(isinstance(v, Array) and v._value.trace is not None for v in leaves):
            return self._function(*args, **kwargs)  # inside of another trace
        if self._generation != _trace.generation:
            self._forget()
        program = None if self._fresh else self._exact.get((structure, types))
        if program is None:
            program = self._find(structure, types, names)
        try:
            return program.run(leaves)
        except UsageError:
            if not program.by_symbols:
                raise
        # Sizes that do not go together: a trace with numbers finds the line.
        self._kind(structure, types).see(types)
        return self._numbers(structure, types, names).run(leaves)

    def _forget(self) -> None:
        """An op has another meaning now, perhaps one that the function uses."""
        self._generation = _trace.generation
        self._exact.clear()
        self._kinds.clear()
        self._programs.clear()

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def _find(self, structure: Any, types: Types, names: list[str]) -> _Program:
        if len(self._exact) >= PROGRAMS_MAX:
            self._exact.clear()
        kind = self._kind(structure, types)
        for pattern, program in kind.programs:
            if _matches(pattern, types):
                return program
        wanted = kind.pattern(self._named(types, names))
        kind.see(types)
        if wanted != types and not kind.by_size:
            try:
                program = self._trace(structure, types, names, wanted)
                if not self._fresh:
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
        return self._numbers(structure, types, names)

    def _numbers(self, structure: Any, types: Types, names: list[str]) -> _Program:
        program = self._trace_numbers(structure, types, names)
        if not self._fresh:
            self._exact[structure, types] = program
        return program

    def _kind(self, structure: Any, types: Types) -> _Kind:
        key = structure, tuple((dtype, len(shape), weak) for dtype, shape, weak in types)
        return self._kinds.get(key) or self._new_kind(key)

    def _new_kind(self, key: Any) -> _Kind:
        if len(self._kinds) >= KINDS_MAX:
            self._kinds.clear()
            self._exact.clear()
        for reference in references(key[0]):
            weakref.finalize(reference(), _drop, weakref.ref(self), key).atexit = False
        return self._kinds.setdefault(key, _Kind())

    def _drop(self, key: Any) -> None:
        """An object that was an argument is gone: these calls cannot be made again."""
        kind = self._kinds.pop(key, None)
        for types in kind.seen if kind is not None else ():
            self._exact.pop((key[0], types), None)

    def _named(self, types: Types, names: list[str]) -> Types:
        """The types with the symbols of dims=."""
        if not self._dims:
            return types
        given = self._by_leaf(names)
        out = []
        for i, (dtype, shape, weak) in enumerate(types):
            if i in given:
                shape = _named_sizes(self._parameter_of(names[i]), given[i], shape)
            out.append((dtype, shape, weak))
        return tuple(out)

    def _by_leaf(self, names: list[str]) -> dict[int, Any]:
        return {
            i: self._dims[parameter]
            for i, parameter in enumerate(self._parameter_of(name) for name in names)
            if parameter in self._dims
        }

    @functools.cached_property
    def _parameters(self) -> list[str]:
        """Names of the parameters, in order."""
        import inspect

        try:
            parameters = inspect.signature(self._function).parameters
        except ValueError:  # of some functions in C
            parameters = inspect.signature(lambda *args, **kwargs: None).parameters
        takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        for option, given in (("dims", self._dims), ("static", self._static)):
            unknown = set(given) - set(parameters)
            if unknown and not takes_any:
                raise UsageError(f"{option}: there is no argument {min(unknown)!r}", "T0602")
        if both := self._static & set(self._dims):
            raise UsageError(f"dims: {min(both)!r} is an argument of static=, no array", "T0602")
        return list(parameters)

    def _parameter_of(self, name: str) -> str:
        """The parameter to which the leaf of this name belongs."""
        kind, _, rest = name[1:].partition("_")  # "_0_2": the third positional one
        if kind == "0":  # below it, the parts of a tuple or dict
            return self._parameters[min(int(rest.partition("_")[0]), len(self._parameters) - 1)]
        fitting = (p for p in self._parameters if rest == p or rest.startswith(p + "_"))
        return max(fitting, key=len, default=rest)

    def _mark_static(self, args: tuple[Any, ...], kwargs: Any) -> tuple[tuple[Any, ...], Any]:
        """The arguments, with those of static= marked as constants."""
        first = zip(self._parameters, args)
        marked = [Static(n, v) if n in self._static else v for n, v in first]
        marked.extend(args[len(marked) :])
        named = {n: Static(n, v) if n in self._static else v for n, v in kwargs.items()}
        return tuple(marked), named

    def _trace_numbers(self, structure: Any, types: Types, names: list[str]) -> _Program:
        """A trace with all sizes of the call. Those that depend on values stay unknown."""
        try:
            return self._trace(structure, types, names, types)
        except SizeNeeded as error:
            raise UnsupportedError(
                f"{self.__name__}{place(error)} needs a size as a number that depends on values, "
                "such as that of x[x > 0] or of xp.unique_values(x), and is not known before the run. "
                "Use xp.where, or compute this outside of the compiled function.",
                "T0632",
            ) from None

    def _trace(self, structure: Any, types: Types, names: list[str], wanted: Types) -> _Program:
        trace = GraphTrace(self.__name__, lifts=self._fresh)
        arguments = []
        shape: Any
        for i, ((dtype, sizes, weak), (_, shape, _)) in enumerate(zip(wanted, types)):
            dims = [s if isinstance(s, int) else trace.symbol(s, n) for s, n in zip(sizes, shape)]
            value = trace.argument(dt.by_code[dtype], dims, f"x{i}")
            if weak:
                trace.numbers[value.id] = self._parameter_of(names[i])
            arguments.append(Array(value, weak))
        args, kwargs = unflatten(structure, iter(arguments))
        with tracing(trace):
            result = self._function(*args, **kwargs)
            leaves: list[Any] = []
            shape_of_result = flatten(result, leaves, [], "the result", constant)
            ids = [trace.id_of(_result_value(v)) for v in leaves]
            plain = [i for i, v in enumerate(leaves) if _is_plain(v)]
        if not ids:
            raise UsageError(f"{self.__name__} returned no array", "T0601")
        graph = trace.native.finish(ids, [f"y{i}" for i in range(len(ids))])
        native = self._program_of(graph)
        numbers = {a._value.id: i for i, a in enumerate(arguments) if a._weak}
        narrowed = [(numbers[id], d, at) for (id, d), at in trace.narrowed.items() if id in numbers]
        lifted = [Array(v) for v, _ in trace.lifted or ()]
        return _Program(native, shape_of_result, narrowed, plain, lifted, wanted != types)

    def _program_of(self, graph: _native.Graph) -> _native.Program:
        _trace.refuse_in_pass()
        key = graph.write() if self._fresh else b""
        known = self._programs.get(key)
        if known is not None:
            return known
        self.compilations += 1
        made = _native.Program(graph, self._device, not self._fallback, False, [], [])
        if self._fresh:
            if len(self._programs) >= PROGRAMS_MAX:
                self._programs.clear()
            self._programs[key] = made
        return made


def _drop(compiled: weakref.ref[Compiled], key: Any) -> None:
    found = compiled()
    if found is not None:
        found._drop(key)


def _is_plain(result: Any) -> bool:
    """Whether a result is a size or a number of Python, which stay numbers."""
    return type(result) in (bool, int, float, complex, Dim)


def _result_value(result: Any) -> Value:
    if type(result) in (float, complex):
        return ops.scalar(result, dt.float64 if type(result) is float else dt.complex128)
    return value_of(result if isinstance(result, Array) else xp.asarray(result))


def _symbols(name: str, given: Any) -> dict[int, str] | tuple[str | None, ...]:
    """The entry of dims= for an argument: names by axis, or a name or None for each axis."""
    by_axis = hasattr(given, "keys")
    listed = tuple(given) if isinstance(given, (tuple, list)) else ()
    made: Any = dict(given) if by_axis else listed
    names = made.values() if by_axis else made
    axes = made if by_axis else ()
    if made and all(isinstance(n, str) or (n is None and not by_axis) for n in names):
        if all(type(axis) is int and axis >= 0 for axis in axes):
            return made  # type: ignore[no-any-return]
    raise UsageError(
        f"dims: {name!r} is {given!r}; it is a name or None for each axis, as in ('batch', None), "
        "or names by axis, as in {0: 'batch'}",
        "T0602",
    )


def _named_sizes(name: str, symbols: Any, shape: Shape) -> Shape:
    """A shape with the symbols of dims= in it."""
    named = symbols if isinstance(symbols, dict) else dict(enumerate(symbols))
    if max(named) >= len(shape):
        raise UsageError(
            f"dims: {name!r} has {len(shape)} axes, and {symbols!r} names a further one", "T0602"
        )
    return tuple(named.get(axis) or size for axis, size in enumerate(shape))


def _matches(pattern: Types, types: Types) -> bool:
    """Whether a program with symbols fits. Sizes of one name are equal; 0 and 1 have programs of their own."""
    sizes: dict[str, Any] = {}
    for (_, wanted, _), (_, shape, _) in zip(pattern, types):
        for w, s in zip(wanted, shape):
            if isinstance(w, str):
                if sizes.setdefault(w, s) != s:
                    return False
            elif isinstance(w, _Changed):
                if s in (0, 1):
                    return False
            elif w != s:
                return False
    return True


class _Changed(NamedTuple):
    """The symbol of a size that has changed between calls. It is equal to no name of dims=."""

    leaf: int
    axis: int

    def __str__(self) -> str:
        return f"n.{self.leaf}.{self.axis}"


class _Kind:
    """Calls that differ in sizes only."""

    def __init__(self) -> None:
        self.seen: list[Types] = []
        self.programs: list[tuple[Types, _Program]] = []
        self.by_size = False  # the function needs sizes as numbers

    def see(self, types: Types) -> None:
        if types not in self.seen:
            self.seen.append(types)
            del self.seen[:-PROGRAMS_MAX]

    def pattern(self, types: Types) -> Types:
        """The types, with symbols for sizes that have changed."""
        out = []
        for i, (dtype, shape, weak) in enumerate(types):
            sizes = tuple(
                _Changed(i, j) if not isinstance(s, str) and self._changed(i, j, s) else s
                for j, s in enumerate(shape)
            )
            out.append((dtype, sizes, weak))
        return tuple(out)

    def _changed(self, leaf: int, axis: int, size: Any) -> bool:
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
    static: Sequence[str] = (),
    fallback: bool = True,
) -> Any:
    """Makes a function of arrays a compiled one: `@tenon.compile`, or `tenon.compile(f)`.

        @tenon.compile
        def f(x, w):
            return tenon.nn.softmax(x @ w, axis=-1)

    The function runs once with arrays that have no values yet, and what it does with them is
    compiled. Arguments are arrays of tenon.xp, NumPy, torch or another library, numbers, and tuples,
    lists, dicts and dataclasses of them; the results are arrays of the same kind, and sizes and
    numbers stay numbers. A field of a dataclass is a constant if it says so:
    dataclasses.field(metadata={"static": True}). Other hashable arguments are constants, among them
    frozen dataclasses without an array. Instances are made again from their fields, without
    __init__. A program is kept for each set of types. When sizes change, the second compilation
    has symbols in their place and serves all later ones, except for sizes 0 and 1, and unless the
    function needs them as numbers. Values of arguments never cause a compilation. Arrays from
    outside of the function are constants with the value that they had, and so are attributes of
    objects: for a method, those of self. A program of a method goes when the object does.

    `device` is as in `tenon.load`. `dims` names sizes that change, so that the first compilation
    has symbols: {"x": ("batch", None)}; sizes of one name are equal. `static` names arguments whose
    values are constants of a program: axes, shapes, flags. They are hashable, and another value
    compiles again. `fallback=False` forbids nodes
    on other devices.

    Raises what the function raises, at its line; T0628 if it looks at values (an `if` on an
    array); T0627 if it keeps an array beyond its end. Any number of threads may call it.
    """
    if function is None:
        return lambda f: Compiled(f, device, dims, fallback, static)
    return Compiled(function, device, dims, fallback, static)
