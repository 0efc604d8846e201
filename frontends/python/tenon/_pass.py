"""`@tenon.graph_pass`: passes over graphs, as Python functions."""

from __future__ import annotations

import functools
import inspect
import json

from tenon import _host, _native
from tenon._errors import UsageError
from tenon._passes.graph import PassGraph
from tenon._passes.watch import limited
from tenon.builder import trace as _trace
from tenon.builder.trace import F64, I64, STRING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    Names = str | Sequence[str]

_passes: dict[str, Pass] = {}
_OPTION_KINDS = {"int": I64, "float": F64, "str": STRING, int: I64, float: F64, str: STRING}


class Outcome:
    """What a pass made of a graph."""

    def __init__(self, text: str, report: Mapping[str, Any]):
        self.text = text
        """The graph as .tir."""
        self.statistics = {name: n for name, n in report["statistics"].items() if n != 0}
        """Those that are not 0."""
        self.ms = float(report["ms"])


class Pass:
    """A pass of this process. Made by `tenon.graph_pass`."""

    def __init__(
        self, name: str, function: Callable[..., None], after: Sequence[str], before: Sequence[str]
    ):
        functools.update_wrapper(self, function)
        self.name = name
        self.function = function
        self.after, self.before = tuple(after), tuple(before)
        self.options = _options_of(name, function)
        """Defaults by name: the arguments of the function after the graph."""
        self.given: dict[str, Any] = {}
        """What `configure` set."""
        self.statistics: tuple[str, ...] = ()
        self.examples: tuple[tuple[str, str], ...] = ()
        self.timeout = 0.0

    def __call__(self, graph: PassGraph, **options: Any) -> None:
        self.function(graph, **options)

    def _run(self, native: _native.Trace, options: dict[str, Any]) -> list[tuple[str, int]]:
        with _trace.in_pass():
            graph = PassGraph(native, self.statistics)
            limited(self.name, self.timeout, lambda: self.function(graph, **options))
            return list(graph._counts.items())

    def _call_text(self, options: Mapping[str, Any]) -> str:
        """As a pipeline has it: `python.f{limit="3"}`."""
        parts = [f'{name}="{_checked(self, name, value)}"' for name, value in options.items()]
        return self.name + ("{" + ",".join(parts) + "}" if parts else "")

    def outcome(self, text: str, **options: Any) -> Outcome:
        """Runs this pass alone on a graph in .tir, for tests: its text, statistics and time."""
        made, report = _native.run_passes(text, self._call_text({**self.given, **options}))
        return Outcome(made, json.loads(report)["passes"][0])

    def apply(self, text: str, **options: Any) -> str:
        """The text that `outcome` gives."""
        return self.outcome(text, **options).text

    def configure(self, **options: Any) -> None:
        """Later compilations run it with these options."""
        self._call_text(options)
        self.given.update(options)
        _set_pipeline()

    def check(self, *, values: bool = True, size: int = 4, tolerance: float = 1e-4) -> None:
        """Runs the examples. AssertionError if one gives another text, or changes values.

        Each example's graph must become the second text, which this pass must then leave alone. With
        `values`, both compute the same from random inputs; sizes that are not numbers are `size`.
        Not while other threads compile, since this pass is out of their pipeline for that time.
        """
        from tenon._passes import check

        assert self.examples, f"{self.name} has no examples: graph_pass(examples=[(before, after)])"
        for number, (before, after) in enumerate(self.examples):
            check.texts(self, number, before, after)
        if not values:
            return
        try:
            _set_pipeline(without=self.name)
            for number, (before, _) in enumerate(self.examples):
                check.values(self.name, number, before, self.apply(before), size, tolerance)
        finally:
            _set_pipeline()

    def remove(self) -> None:
        """Later compilations do not run it any more.

        UsageError T0631 while another pass is placed after or before it.
        """
        for other in _passes.values():
            if self.name in (*other.after, *other.before):
                raise UsageError(
                    f"{other.name} is placed by {self.name}: remove {other.name} first", "T0631"
                )
        if _passes.pop(self.name, None) is not None:
            _set_pipeline()

    def __repr__(self) -> str:
        return f"<pass {self.name}>"


def _options_of(name: str, function: Callable[..., None]) -> dict[str, tuple[int, Any]]:
    found: dict[str, tuple[int, Any]] = {}
    for parameter in list(inspect.signature(function).parameters.values())[1:]:
        kind = _OPTION_KINDS.get(parameter.annotation)
        if kind is None or parameter.default is inspect.Parameter.empty:
            raise UsageError(
                f"{name}: the option {parameter.name!r} needs a type (int, float or str) and a "
                "default, as in limit: int = 3",
                "T0631",
            )
        found[parameter.name] = kind, parameter.default
    return found


def _checked(made: Pass, name: str, value: Any) -> str:
    """An option as the text of a pipeline."""
    kind = made.options.get(name, (0, None))[0]
    types: dict[int, type | tuple[type, ...]] = {I64: int, F64: (int, float), STRING: str}
    right = types.get(kind)
    if right is None:
        names = ", ".join(made.options) or "none"
        raise UsageError(f"{made.name} has no option {name!r}: {names}", "T0631")
    if not isinstance(value, right) or isinstance(value, bool) or '"' in str(value):
        raise UsageError(f"{made.name}: {value!r} is not right for the option {name}", "T0631")
    return str(value)


# ---- Where they run ----


def _standard() -> list[str]:
    return str(json.loads(_host.explain("passes"))["standard"]).split(",")


def _position(names: Sequence[str], made: Pass) -> int:
    """Where it goes: after the first of each `after`, and before the next of each `before`."""
    for name in (*made.after, *made.before):
        if name not in names:
            raise UsageError(
                f"{made.name}: {name!r} is not one of the passes: {', '.join(dict.fromkeys(names))}",
                "T0631",
            )
    if not made.after:
        return min((names.index(name) for name in made.before), default=len(names))
    at = max(names.index(name) + 1 for name in made.after)
    for name in made.before:
        if name not in names[at:]:
            raise UsageError(
                f"{made.name}: there is no place after {', '.join(made.after)} and before {name}: "
                f"the passes are {', '.join(names)}",
                "T0631",
            )
    return at


def _pipeline() -> list[str]:
    names = _standard()
    calls = list(names)
    for made in _passes.values():
        at = _position(names, made)
        names.insert(at, made.name)
        calls.insert(at, made._call_text(made.given))
    return calls


def _set_pipeline(without: str = "") -> None:
    """`without`: a pass that is left out. Others may be placed by it."""
    calls = [call for call in _pipeline() if call.split("{")[0] != without]
    _native.set_pipeline(",".join(calls) if _passes else "")
    _trace.forget_types()


def _list(names: Names) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def graph_pass(
    *,
    after: Names = (),
    before: Names = (),
    name: str | None = None,
    statistics: Names = (),
    examples: Sequence[tuple[str, str]] = (),
    timeout: float = 60,
) -> Callable[[Callable[..., None]], Pass]:
    """Makes a function of a graph a pass that runs in every later compilation of this process.

        @tenon.graph_pass(after="canonicalize", before="fold", statistics="replaced")
        def fast_softmax(graph, dim: int = 1):
            for m in graph.match("softmax(x)"):
                with graph.before(m.node):
                    m.node.replace(tenon.xp.exp(m["x"]))
                graph.count("replaced")

    It runs once, as "python.NAME": after the first pass of each name in `after`, and before the next
    of each in `before`; `before` alone is before the first of them. They are passes of the standard
    pipeline or others of this process. UsageError T0631 if one does not exist, or there is no such
    place. Run again, as in a notebook, it replaces the earlier one.

    Arguments after the graph, with a type and a default, are options: `Pass.configure(dim=0)`.
    `statistics` are the names that `graph.count` adds to. `examples` are pairs of graphs in .tir,
    which `Pass.check` runs: before and after the pass.

    An exception in it fails the compilation with T0631, as does computing values in it, or taking
    longer than `timeout` seconds. Threads of Tenon call it, at the same time for different graphs.
    """

    def register(function: Callable[..., None]) -> Pass:
        _host.open()
        chosen = name or "python." + function.__name__.replace("_", "-")
        made = Pass(chosen, function, _list(after), _list(before))
        made.statistics, made.timeout = _list(statistics), timeout
        made.examples = tuple(examples)
        if not made.after and not made.before:
            raise UsageError(f"{chosen}: after= or before= says where it runs", "T0631")
        others = [call.split("{")[0] for call in _pipeline() if call.split("{")[0] != chosen]
        _position(others, made)
        doc = inspect.getdoc(function) or f"The Python function {function.__name__}."
        options = [(option, kind, str(value)) for option, (kind, value) in made.options.items()]
        example = made.examples[0] if made.examples else ("", "")
        _native.register_pass(
            chosen, doc.splitlines()[0], options, list(made.statistics), *example, made._run
        )
        _passes[chosen] = made
        _set_pipeline()
        return made

    return register
