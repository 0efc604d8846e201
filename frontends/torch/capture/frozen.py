"""The option `freezing`: parameters that are constants of a program."""

from __future__ import annotations

from tenon import UsageError

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from torch import fx


_MEMBERS = ("_modules", "_parameters", "_buffers")  # of torch.nn.Module


def checking(call: Callable[..., Any], frozen: dict[int, torch.Tensor]) -> Callable[..., Any]:
    """A call that fails once a parameter has changed. `frozen`: by place among the plain tensors."""
    states = {i: _state(value) for i, value in frozen.items()}

    def checked(*args: Any) -> Any:
        given = list(plain(args))
        if any(_state(given[i]) != state for i, state in states.items()):
            raise UsageError(
                "a parameter changed, which the option freezing made a constant: call torch._dynamo.reset() "
                "to compile again, or leave the option out",
                "T0641",
            )
        return call(*args)

    return checked


def _state(value: torch.Tensor) -> tuple[int, int, int]:
    """What differs where a parameter was replaced or written to."""
    return id(value), value.data_ptr(), 0 if value.is_inference() else value._version


def plain(values: Iterable[Any]) -> Iterator[Any]:
    """The values, with wrappers such as torchao's quantised weights taken apart as AOTAutograd does."""
    for value in values:
        if is_traceable_wrapper_subclass(value):
            yield from plain(getattr(value, name) for name in value.__tensor_flatten__()[0])
        else:
            yield value


def guard_identities(gm: fx.GraphModule, inputs: Iterable[Any], frozen: Iterable[int]) -> None:
    """Makes Dynamo compile again for other parameters, such as those of a second network of a class.

    The guards of Dynamo compare their shapes alone. `frozen`: places among the plain tensors.
    """
    from torch._dynamo.guards import GuardBuilder

    context = torch._guards.TracingContext.try_get()
    if context is None:  # Dynamo did not make this graph
        return
    for source in _sources(gm, inputs, set(frozen)):
        context.guards_context.dynamo_guards.add(source.make_guard(GuardBuilder.ID_MATCH))


def _sources(gm: fx.GraphModule, inputs: Iterable[Any], frozen: set[int]) -> Iterator[Any]:
    """Where Dynamo found the parameters, and the network that has them.

    Dynamo limits how often it compiles a function. Each network whose identity is a guard has a
    limit of its own; without that guard, all networks of a class share one.
    """
    placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
    place = 0
    for node, value in zip(placeholders, inputs):
        count = sum(1 for _ in plain([value]))
        source = getattr(node.meta.get("grapharg"), "source", None)
        if source is not None and not frozen.isdisjoint(range(place, place + count)):
            yield source
            if (network := _network(source)) is not None:
                yield network
        place += count


def _network(source: Any) -> Any:
    """The argument that is the network of a parameter, such as `self`. None for another argument."""
    root = source
    while hasattr(root, "base"):
        root = root.base
    is_module = source.name.startswith(tuple(f"{root.name}.{m}[" for m in _MEMBERS))
    return root if is_module and type(root).__name__ == "LocalSource" else None
