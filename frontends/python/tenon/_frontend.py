"""`@tenon.frontend`: importers of file formats, as Python functions."""

from __future__ import annotations

import functools

from tenon import _host, _native
from tenon._errors import UsageError
from tenon._op import located
from tenon.builder import dtypes as dt
from tenon.builder.trace import GraphTrace, tracing
from tenon.xp._array import Array, value_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, NoReturn


class Source:
    """A file, while an importer reads it."""

    def __init__(self, trace: GraphTrace, name: str, data: bytes, options: dict[str, str]):
        self._trace = trace
        self._options = options
        self._asked: set[str] = set()
        self._inputs: set[str] = set()
        self._line = 0
        self.name = name
        """The path, as the user gave it: for messages."""
        self.data = data
        """What the file has, as bytes."""

    def text(self) -> str:
        """The file as text in UTF-8. T0661 if it is not UTF-8."""
        try:
            return self.data.decode()
        except UnicodeDecodeError as error:
            self.fail(
                f"the file is not text in UTF-8: {error}", self.data[: error.start].count(b"\n") + 1
            )

    def option(self, name: str, default: str = "") -> str:
        """An option that the user gave with the file. Options that are never asked for are refused."""
        self._asked.add(name)
        return self._options.get(name, default)

    def at(self, line: int) -> None:
        """What is built from now on comes from this line of the file, counted from 1."""
        self._line = line
        self._trace.native.location(self.name, line)

    def fail(self, message: str, line: int = 0) -> NoReturn:
        """Refuses the file: T0661, with the file and the line, or the one of `at`."""
        line = line or self._line
        place = f"{self.name}:{line}" if line else self.name
        raise located(UsageError(f"{place}: {message}", "T0661"))

    def input(self, name: str, dtype: Any, shape: Sequence[int | str]) -> Array:
        """A new input of the model. A text is the name of a size that calls decide."""
        if not name or name in self._inputs:
            self.fail(f"the input {name!r} is there already" if name else "an input has no name")
        self._inputs.add(name)
        sizes = []
        for size in shape:
            if isinstance(size, str):
                sizes.append(self._trace.symbol(size, -1))
            elif isinstance(size, int) and not isinstance(size, bool) and size >= 0:
                sizes.append(size)
            else:
                self.fail(f"the size {size!r} of the input {name!r} is neither a number nor a name")
        return Array(self._trace.argument(dt.parse(dtype), sizes, name))


def _outputs(name: str, result: Any) -> dict[str, Any]:
    if isinstance(result, dict):
        named = {str(k): v for k, v in result.items()}
    else:
        listed = result if isinstance(result, (tuple, list)) else (result,)
        named = {"y" if len(listed) == 1 else f"y{i}": v for i, v in enumerate(listed)}
    if not named or not all(isinstance(v, Array) for v in named.values()):
        raise TypeError(
            f"{name} returned {result!r}: arrays are needed, alone or in a dict by name"
        )
    return named


class Frontend:
    """An importer of this process. Made by `tenon.frontend`."""

    def __init__(self, name: str, extensions: Sequence[str], function: Callable[[Source], Any]):
        functools.update_wrapper(self, function)
        self.name = name
        self.extensions = tuple(extensions)
        self.function = function

    def __call__(self, source: Source) -> Any:
        return self.function(source)

    def _load(self, path: str, data: bytes, options: dict[str, str]) -> _native.Trace:
        trace = GraphTrace(self.name)
        trace.locate = False
        source = Source(trace, path, data, options)
        with tracing(trace):
            outputs = _outputs(self.name, self.function(source))
            values = [value_of(v) for v in outputs.values()]
        unknown = sorted(set(options) - source._asked)
        if unknown:
            asked = ", ".join(sorted(source._asked)) or "none"
            source.fail(f"the format {self.name} has no option {unknown[0]!r}; it has {asked}")
        trace.native.finish_for_host([trace.id_of(v) for v in values], list(outputs))
        return trace.native


def frontend(
    name: str, /, *, extensions: Sequence[str]
) -> Callable[[Callable[[Source], Any]], Frontend]:
    """Registers an importer of a file format that is a function of the file.

        @tenon.frontend("beads", extensions=[".beads"])
        def beads(source):
            size, *ops = source.text().split()
            x = source.input("x", "float32", (int(size),))
            for op in ops:
                x = getattr(tenon.xp, op)(x)
            return {"y": x}

    `tenon.load` and everything else that reads models in this process then takes files with one of
    these extensions. The function gets a `Source`, makes the inputs with `source.input`, computes
    with arrays, and returns the outputs by name, or an array, or several. Arrays from elsewhere
    (NumPy's through `xp.asarray`) become constants. It is called from any thread, for files from
    anywhere: check counts before you allocate, and refuse with `source.fail(message, line)`.
    Registered again under a name, it replaces the other one.

    Raises `UsageError` T0662 for extensions that are none, and what the host says of names that are
    taken (P0909).
    """
    for extension in extensions:
        if not extension.startswith(".") or "," in extension or len(extension) < 2:
            raise UsageError(f"{extension!r} is not a file extension, such as '.beads'", "T0662")
    if isinstance(extensions, str) or not extensions:
        raise UsageError("extensions= is a list, such as ['.beads']", "T0662")

    def register(function: Callable[[Source], Any]) -> Frontend:
        _host.open()
        made = Frontend(name, extensions, function)
        _native.register_frontend(name, ",".join(extensions), made._load)
        return made

    return register
