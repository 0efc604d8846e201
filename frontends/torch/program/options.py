"""The options of `torch.compile(backend="tenon", options={...})`."""

from __future__ import annotations

import functools

from tenon import UsageError, builder
from tenon.builder import dtypes as dt
from tenon.builder import host, ops

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


COMPARED = ("part", "all", "none")


class Options:
    """`device`: where it runs, as in `tenon.load`. `freezing`: parameters are constants of inference
    programs, which must not change any more. `stable`: programs for inference keep packed forms of
    parameters until these change. `compare`: how much of the parameters' memory each call compares
    for that, one of `COMPARED`. `deterministic`: the same bits on every instruction
    set. Names with a dot are options of devices ("cpu.opt").

    UsageError T0641 for others, and for other values.
    """

    def __init__(self, given: dict[str, Any] | None = None, mode: str | None = None):
        if mode not in (None, "default"):
            raise UsageError(
                f"the backend has no mode {mode!r}: modes are Inductor's; leave it out, and say what you want "
                'with options={"device": ..., "freezing": ...}',
                "T0641",
            )
        given = dict(given or {})
        self.device = host.device_text(given.pop("device", None))
        self.freezing = _switch(given, "freezing", False)
        self.stable = _switch(given, "stable", True)
        self.compare = given.pop("compare", COMPARED[0])
        if self.compare not in COMPARED:
            raise UsageError(
                f"the option compare is {self.compare!r}, and not one of {', '.join(COMPARED)}",
                "T0641",
            )
        self.deterministic = _switch(given, "deterministic", False)
        self.devices: list[tuple[str, str]] = [
            (k, str(given.pop(k))) for k in list(given) if "." in k
        ]
        if given:
            raise UsageError(
                f"the backend has no option {min(given)!r} (options: device, freezing, stable, compare, "
                "deterministic, and those of devices, such as cpu.opt)",
                "T0641",
            )

    def check(self) -> None:
        """Raises what a program with these options would: for an unknown device, or option of it."""
        if self.device or self.devices:
            _try(self.device or host.default_device(), tuple(self.devices))


def _switch(given: dict[str, Any], name: str, otherwise: bool) -> bool:
    value = given.pop(name, otherwise)
    if not isinstance(value, bool):
        raise UsageError(f"the option {name} is {value!r}, and not True or False", "T0641")
    return value


@functools.cache
def _try(device: str, options: tuple[tuple[str, str], ...]) -> None:
    trace = builder.GraphTrace("options")
    with builder.tracing(trace):
        y = ops.one("not", trace.argument(dt.bool_, (1,), "x"))
    graph = trace.native.finish([y.id], ["y"])
    builder.Program(graph, device, False, False, list(options), [])
