"""A graph of torch as one program, and its calls."""

from __future__ import annotations

import logging

from tenon import Cancelled, Error, UsageError, builder, logs
from tenon.builder import Value, host, ops, tracing
from tenon.builder import dtypes as dt

import torch
from torch import fx
from torch.autograd import _profiler_enabled

from ..graph.floats import Number
from ..graph.input_names import input_name
from ..graph.saved import Memory
from ..graph.sizes import Numbers
from ..graph.source_locations import first_line
from ..graph.transfers import is_transfer
from ..graph.walk import Walk
from .parameter_cache import ParameterCache
from .results import Results

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from .options import Options

log = logging.getLogger("tenon.torch")

# Codes of failures that are known before a program writes anything: an index out of bounds, sizes that
# are not as the program needs them, and an argument that cannot be read.
_BEFORE = {"T0325", "T0607", "T0608", "T0624"}
# The code of an argument that cannot be read as it is.
_UNREADABLE = "T0624"

_nothing = torch.empty(0, dtype=torch.bool)


def _take(i: int) -> Callable[[Sequence[Any]], Any]:
    return lambda args: args[i]


def _taken_in(memory: Memory, i: int) -> Callable[[Sequence[Any]], Any]:
    return lambda args: memory.read(args[i])


def _sized(number: Callable[[Sequence[Any]], list[int]]) -> Callable[[Sequence[Any]], Any]:
    def size(args: Sequence[Any]) -> torch.Tensor:
        (found,) = number(args)
        if found < 0:
            raise UsageError(f"{found} is not a size", "T0608")
        return torch.empty((found, 0), dtype=torch.bool)

    return size


def _whole(number: Callable[[Sequence[Any]], list[int]]) -> Callable[[Sequence[Any]], Any]:
    return lambda args: torch.tensor(number(args)[0])


def _drawn(args: Sequence[Any]) -> torch.Tensor:
    """A key of random numbers, from torch's generator."""
    return torch.empty(2, dtype=torch.int32).random_().view(torch.uint32)


def plain(value: Any) -> Any:
    """A tensor whose memory has its elements: some are conjugated or negated, or without memory."""
    if not isinstance(value, torch.Tensor) or type(value) not in (torch.Tensor, torch.nn.Parameter):
        return value
    if value._is_zerotensor():
        return torch.zeros(value.shape, dtype=value.dtype)
    if value.is_neg() or value.is_conj() or value.requires_grad:
        return value.detach().resolve_conj().resolve_neg()
    return value


def _memory(tensor: torch.Tensor) -> Any:
    """An input as memory to write to, if its memory has its elements, each once."""
    if not tensor.is_contiguous() or tensor.is_neg() or tensor.is_conj() or not tensor.numel():
        return None
    # A step of an optimizer runs without gradients: then a parameter can be written to as it is.
    return tensor.detach() if torch.is_grad_enabled() and tensor.requires_grad else tensor


def _is_plain_memory(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether `_memory` gives each of these as it is. An optimizer has hundreds: no line of Python for each."""
    tensor = torch.Tensor
    return (
        not torch.is_grad_enabled()
        and all(map(tensor.is_contiguous, tensors))
        and all(map(tensor.numel, tensors))
        and not any(map(tensor.is_neg, tensors))
        and not any(map(tensor.is_conj, tensors))
    )


class Partition:
    """A graph that Tenon computes as one program. Called with a list of arguments, which it empties.

    Raises what `BEYOND` has where the graph cannot become a program.
    """

    def __init__(
        self, gm: fx.GraphModule, options: Options, walk: Walk, stable: frozenset[str] = frozenset()
    ):  # fmt: skip
        self.gm = gm
        self._options = options
        self.numbers: Numbers = walk.numbers()
        self.results = Results(gm.graph, self.numbers)
        self.input_names = [input_name(n) for n in walk.inputs]
        """What the user calls the first inputs of the program."""
        placeholders = self.results.placeholders
        self.memory = dict(walk.memory)
        self._readers: list[Callable[[Sequence[Any]], Any]] = [
            _taken_in(walk.memory[n], placeholders[n])
            if n in walk.memory
            else _take(placeholders[n])
            for n in walk.inputs
        ]
        written = {argument for argument, _ in self.results.updates}
        self._places = [
            i
            for i, n in enumerate(walk.inputs)
            if n.name in stable and placeholders[n] not in written
        ]
        self.program = (
            self._compile(walk)
            if self.results.bases or self.results.sizes or walk.assertions
            else None
        )
        self._kept = frozenset(self._places)
        self._plain = all(order is None for order in self.results.orders)
        self._given = self._targets()
        # Copied after the call: what the program does not write itself.
        self._copies = [(a, b) for a, b in self.results.updates if self._given.get(b) != a]
        # A call that fails because of an index runs in torch, which needs inputs as they were.
        self._in_place = not walk.trace.checks
        self._transfers = any(map(is_transfer, gm.graph.nodes))
        self._warned = False
        self.label = f"tenon::{walk.name} {first_line(gm.graph.nodes)}"  # of its rows in a profile
        self.keeps_inputs = False  # those of the first call, for a page
        self.kept_inputs: tuple[Any, ...] | None = None
        self._boxed_call = True

    def _compile(self, walk: Walk) -> builder.Program:
        with tracing(walk.trace):
            values = [self._output(walk, i) for i in range(len(self.results.bases))]
            if walk.lacks_place(values):  # an additional result, which is not read
                values.append(ops.scalar(True, dt.bool_))
            values += [walk.found(name) for name in reversed(self.results.sizes)]
            self._count = len(values)
            outputs = walk.asserted(values)
        self._readers += [self._reader(number) for number in walk.drawn]
        self._add_sizes(walk)
        if len(self._readers) == len(self._places):  # no tensor of torch's, as which results come
            walk.trace.argument(dt.bool_, (0,), "tenon.none")
            self._readers.append(lambda args: _nothing)
        names = [f"y{i}" for i in range(len(outputs))]
        self._graph = walk.trace.native.finish([v.id for v in outputs], names)
        readers = [self._readers[i] for i in self._places]
        self._parameter_cache = ParameterCache(readers, self._options.compare) if readers else None
        return self._built()

    def _reader(self, number: torch.SymInt | Number | None) -> Callable[[Sequence[Any]], Any]:
        if number is None:
            return _drawn
        if isinstance(number, Number):
            return number.reader()
        return _whole(self.numbers.function([number]))

    def _built(self) -> builder.Program:
        options = self._options
        device = options.device or host.default_device()
        places = {"stable_inputs": self._places} if self._parameter_cache is not None else {}
        program = builder.Program(
            self._graph, device, False, options.deterministic, options.devices, [],
            autotune=options.autotune, **places,
        )  # fmt: skip
        program.limit_threads(options.threads)
        return program

    def _inputs(self, args: Sequence[Any]) -> tuple[Any, ...]:
        """The arguments of the program. Where parameters keep changing, it becomes one that packs nothing."""
        stable = self._parameter_cache
        if stable is None:
            return tuple([read(args) for read in self._readers])
        tensors = stable(args)
        if stable.keeps_changing:
            logs.log(
                "perf",
                "parameters of an inference program keep changing: their packed forms are given up",
            )
            self._parameter_cache = None
            self.program = self._built()
            return self._inputs(args)
        rest = iter(tensors)
        listed: list[Any] = [
            None if i in self._kept else read(args) for i, read in enumerate(self._readers)
        ]
        for i in self._places:
            listed[i] = next(rest)
        return tuple(listed)

    def _output(self, walk: Walk, i: int) -> Value:
        node, order = self.results.bases[i], self.results.orders[i]
        value: Value = walk.values[node]
        return value if order is None else ops.transpose(value, order)

    def _add_sizes(self, walk: Walk) -> None:
        """Symbols that no dim of an argument is come as dims of arguments without elements."""
        fakes = [n.meta["val"] for n in walk.inputs]
        decided = Numbers(fakes).of_dims
        for name, size in list(walk.trace.symbols.items()):
            if name in decided:
                continue
            walk.trace.argument(dt.bool_, (size, 0), f"tenon.size.{name}")
            number = self.numbers.function([_Symbol(str(name))])
            self._readers.append(_sized(number))

    def _targets(self) -> dict[int, int]:
        """The argument whose memory a result of the program is written to."""
        found: dict[int, int] = {}
        for argument, base in self.results.updates:
            if self.results.orders[base] is None and base not in self.results.returned:
                found.setdefault(base, argument)
        return found

    def __call__(self, args: list[Any]) -> Any:
        given = tuple(args)
        args.clear()
        outs: Sequence[Any] = ()
        if self.program is not None:
            try:
                if _profiler_enabled():
                    with torch.profiler.record_function(self.label):
                        outs = self._run_with(given)
                else:
                    outs = self._run_with(given)
            except Error as error:
                return self._in_torch(given, error)
        for argument, base in self._copies:
            self._copy(given[argument], outs[base], self.results.orders[base])
        made = [make(given, outs) for make in self.results.makes]
        return made[0] if self.results.single else made

    def _in_torch(self, args: Sequence[Any], error: Error) -> Any:
        """A call that failed, by eager mode; not where it may have written to an input, or sent something."""
        if isinstance(error, Cancelled) or self._given and error.code not in _BEFORE:
            raise error
        if self._transfers:  # the other ranks would not repeat what the call has sent
            raise error
        logs.log("perf", f"a call ran in torch: {error}")
        # An error of torch says what the caller did, and needs no line of ours.
        made = self.gm(*args)
        log.log(
            logging.DEBUG if self._warned else logging.WARNING, "a call stays in torch: %s", error
        )
        self._warned = True
        return made

    def _run_with(self, given: Sequence[Any]) -> Sequence[Any]:
        """A call, and once more with tensors whose memory has their elements, where some have not."""
        try:
            return self._run(given, given)
        except Error as error:
            if error.code != _UNREADABLE:
                raise
        return self._run(tuple(map(plain, given)), given)

    def _run(self, args: Sequence[Any], to: Sequence[Any]) -> Sequence[Any]:
        """Reads arguments, and writes to inputs."""
        assert self.program is not None
        inputs = self._inputs(args)
        if self.keeps_inputs:
            self.kept_inputs, self.keeps_inputs = inputs, False
        if not self._given:
            return list(self.program.run_as(inputs, {}, "same", []))
        targets = [to[argument] for argument in self._given.values()]
        plain = _is_plain_memory(targets)
        memory: list[Any] = [None] * self._count
        for base, target in zip(self._given, targets):
            memory[base] = target if plain else _memory(target)
        try:
            outs = list(self.program.run_as(inputs, {}, "same", memory, in_place=self._in_place))
        except Error:
            if self._in_place:  # it may have written before it failed
                torch.autograd.graph.increment_version(targets)
            raise
        torch.autograd.graph.increment_version(targets)
        if not plain:
            for base, target in zip(self._given, targets):
                if memory[base] is None:
                    target.detach().copy_(outs[base])
        return outs

    @staticmethod
    def _copy(to: torch.Tensor, value: torch.Tensor, order: tuple[int, ...] | None) -> None:
        if order is not None:
            value = value.permute(tuple(order.index(d) for d in range(len(order))))
        with torch.no_grad():
            to.copy_(value)


class _Symbol(torch.SymInt):
    """A symbol by its name, as the size that `Numbers.function` takes."""

    def __init__(self, name: str):
        import sympy  # type: ignore[import-untyped,unused-ignore]

        self.node = type("Symbol", (), {"expr": sympy.Symbol(name)})()
