"""The engine `torch`: transfers of a program by the process groups of torch (tenon.collective/1).

A transfer is the call that torch itself makes for the operator, in the same group. So it has its place
among those that torch makes between programs, and a rank that runs the operator in torch meets it.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import re
from typing import NamedTuple

from tenon import DeviceError, Error
from tenon.builder import host

import torch

from ..graph.node import DTYPES
from ..graph.table import Unsupported
from ..graph.transfers import Groups

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .options import Options

# What gloo combines. A minimum or maximum of its may lose a NaN, and ours does not.
_WHOLE = ("i8", "u8", "i32", "i64")
_SUMS = ("f16", "bf16", "f32", "f64", *_WHOLE)
COMBINES = {"sum": _SUMS, "min": _WHOLE, "max": _WHOLE}
_OF_TORCH = {ours.code: theirs for theirs, ours in DTYPES.items()}

_groups: dict[str, str] = {}  # names of process groups, by the axes that they are


class Started(NamedTuple):
    """A transfer on its way. gloo's own threads move it on."""

    work: Any
    group: str
    to: torch.Tensor
    whole: torch.Tensor | None
    """Of a reduce_scatter: what `to` is a part of."""


def groups_of(options: Options) -> Groups:
    """What the transfers of a walk may use; `mesh_of` raises Unsupported where they stay in torch."""
    return Groups(functools.partial(_mesh_of, options), COMBINES)


def no_groups(why: str) -> Groups:
    """All transfers stay in torch."""

    def refuse(name: str) -> str:
        raise Unsupported(why)

    return Groups(refuse, COMBINES)


def _mesh_of(options: Options, name: str) -> str:
    if not options.collectives:
        raise Unsupported("the option collectives is off")
    if options.deterministic:
        raise Unsupported(
            "the order of its sums is the library's, and the program is deterministic"
        )
    problem = _registered()
    if problem:
        raise Unsupported(problem)
    group = _group(name)
    gloo = getattr(torch.distributed, "ProcessGroupGloo", None)
    if gloo is None or not isinstance(_on_cpu(group), gloo):
        raise Unsupported(f"the engine torch has gloo alone, and the group {name} another library")
    return f"{_axis(name)}={group.size()}"


def _axis(name: str) -> str:
    """The name of a group as that of an axis: letters and digits, not too many."""
    text = "torch_" + re.sub(r"\W", "_", name, flags=re.ASCII)[-40:]
    axis, number = text, 1
    while _groups.setdefault(axis, name) != name:
        number += 1
        axis = f"{text}_{number}"
    return axis


def _group(name: str) -> Any:
    return torch.distributed.distributed_c10d._resolve_process_group(name)  # type: ignore[arg-type]


def _on_cpu(group: Any) -> Any:
    try:
        return group._get_backend(torch.device("cpu"))
    except RuntimeError:  # it has none there
        return None


@functools.cache
def _registered() -> str:
    """Registers the engine. Why it cannot be: the user may have disabled it."""
    try:
        host.register_engine("torch", _Engine(), COMBINES["sum"], COMBINES["max"])
        return ""
    except Error as error:
        return str(error).split("\n")[0]


class _Engine:
    """What the native part calls, from any thread. A group is known by its name, since torch may make it again."""

    def group(self, axis: str) -> tuple[str, int, int] | None:
        name = _groups.get(axis)
        if name is None:
            return None
        group = _group(name)
        return name, group.rank(), group.size()

    def start(
        self, name: str, transfer: str, combine: str, dtype: str, peer: int, source: memoryview | None,
        target: memoryview,
    ) -> Started:  # fmt: skip
        kind = _OF_TORCH[dtype]
        to = torch.frombuffer(target, dtype=kind)
        own = to if source is None else torch.frombuffer(source, dtype=kind)
        whole = own.clone() if transfer == "reduce_scatter" else None
        try:
            work = _CALLS[transfer](
                _group(name), own if whole is None else whole, to, combine, peer
            )
        except Exception as error:
            raise _failed(name, error) from error
        return Started(work, name, to, whole)

    def test(self, started: Started) -> bool:
        if not started.work.is_completed():
            return False
        try:
            started.work.wait()  # it raises what failed
        except Exception as error:
            raise _failed(started.group, error) from error
        if started.whole is not None:
            group = _group(started.group)
            started.to.copy_(started.whole.chunk(group.size())[group.rank()])
        return True

    def wait(self, started: Started, timeout_ns: int) -> None:
        """Until it is over, or for so long; torch counts milliseconds. `test` says what failed."""
        with contextlib.suppress(RuntimeError):
            started.work.wait(datetime.timedelta(milliseconds=max(1, timeout_ns // 1_000_000)))

    def abort(self, name: str, reason: str) -> None:
        _group(name).abort()


def _failed(name: str, error: Exception) -> DeviceError:
    rank, ranks = torch.distributed.get_rank(), ""
    try:
        ranks = f" of the ranks {torch.distributed.get_process_group_ranks(_group(name))}"
    except (RuntimeError, ValueError):  # it was destroyed
        pass
    return DeviceError(f"rank {rank}, in the group {name}{ranks}: {error}", "T0906")


def _reduction(options: Any, combine: str) -> Any:
    options.reduceOp = getattr(torch.distributed.ReduceOp, combine.upper())
    return options


def _all_reduce(group: Any, own: Any, to: Any, combine: str, peer: int) -> Any:
    to.copy_(own)
    return group.allreduce([to], _reduction(torch.distributed.AllreduceOptions(), combine))


def _all_gather(group: Any, own: Any, to: Any, combine: str, peer: int) -> Any:
    return group._allgather_base(to, own)


def _reduce_scatter(group: Any, own: Any, to: Any, combine: str, peer: int) -> Any:
    """A combination of all, of which this rank keeps its part in `test`. Torch does the same with gloo, in a
    work that is over only once a thread waits for it."""
    return group.allreduce([own], _reduction(torch.distributed.AllreduceOptions(), combine))


def _all_to_all(group: Any, own: Any, to: Any, combine: str, peer: int) -> Any:
    """With the sizes, which torch has, too: gloo sends in another way without."""
    parts = [own.numel() // group.size()] * group.size()
    return group.alltoall_base(to, own, parts, parts)


def _broadcast(group: Any, own: Any, to: Any, combine: str, peer: int) -> Any:
    if own is not to:
        to.copy_(own)
    options = torch.distributed.BroadcastOptions()
    options.rootRank = peer
    return group.broadcast([to], options)


_CALLS: dict[str, Callable[..., Any]] = {
    "all_reduce": _all_reduce,
    "all_gather": _all_gather,
    "reduce_scatter": _reduce_scatter,
    "all_to_all": _all_to_all,
    "broadcast": _broadcast,
}
