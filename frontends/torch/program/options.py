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

# What the modes of `torch.compile` stand for. torch documents them for Inductor: "reduce-overhead"
# records CUDA graphs, which tensors of the cpu do not have, and takes Python out of a call, of which a
# program has none between its kernels; "max-autotune" measures implementations.
MODES: dict[str, dict[str, Any]] = {
    "default": {},
    "reduce-overhead": {},
    "max-autotune": {"autotune": True},
    "max-autotune-no-cudagraphs": {"autotune": True},
}


def with_mode(options: dict[str, Any] | None, mode: str | None) -> dict[str, Any]:
    """The options that a mode and options mean together. UsageError T0641 for an unknown mode."""
    if mode is not None and mode not in MODES:
        raise UsageError(
            f"there is no mode {mode!r}{host.near(str(mode), MODES)} (modes: {', '.join(MODES)})",
            "T0641",
        )
    return {**(MODES[mode] if mode is not None else {}), **(options or {})}


class Options:
    """`device`: where it runs, as in `tenon.load`. `freezing`: parameters are constants of inference
    programs, which must not change any more. `stable`: programs for inference keep packed forms of
    parameters until these change. `compare`: how much of the parameters' memory each call compares
    for that, one of `COMPARED`. `deterministic`: the same bits on every instruction
    set. `autotune`: where implementations compete, they are measured. `collectives`: transfers between
    ranks are parts of programs; without, they stay in torch. `threads`: at most so many
    compute a call. Names with a dot are options of devices ("cpu.opt").

    UsageError T0641 for others, and for other values.
    """

    def __init__(self, given: dict[str, Any] | None = None):
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
        self.autotune = _switch(given, "autotune", False)
        self.collectives = _switch(given, "collectives", True)
        self.threads = _threads(given)
        self.devices: list[tuple[str, str]] = [
            (k, str(given.pop(k))) for k in list(given) if "." in k
        ]
        if given:
            name = min(map(str, given))
            raise UsageError(
                f"the backend has no option {name!r}{host.near(name, _NAMES)} (options: {', '.join(_NAMES)}, and "
                "those of devices, such as cpu.opt)",
                "T0641",
            )

    def check(self) -> None:
        """Raises what a program with these options would: for an unknown device, or option of it."""
        if self.device or self.devices:
            _try(self.device or host.default_device(), tuple(self.devices))


_NAMES = (
    "device", "freezing", "stable", "compare", "deterministic", "autotune", "collectives", "threads",
)  # fmt: skip


def _threads(given: dict[str, Any]) -> int:
    """At most so many threads; 0: all."""
    value = given.pop("threads", None)
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 1024:
        raise UsageError(
            f"the option threads is {value!r}, and not a number from 1 to 1024", "T0641"
        )
    return value


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
