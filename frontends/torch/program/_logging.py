"""Logs of a compilation: components of `tenon.set_logs`, with lines of the user's program.

Guards, graph breaks and recompilations are Dynamo's. They are read at the end of each of its
compilations, when it knows all of them.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import threading

from tenon import UsageError, logs

import torch

from ..graph.source_locations import first_line, of_user, place_of, place_of_user, text_of
from ..graph.transfers import is_transfer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tenon import builder

    from torch import fx

    from .partition import Partition
    from .partitioner import Compiled

# TORCH_LOGS=output_code shows it, as it shows Inductor's code.
_output_code = torch._logging.getArtifactLogger("torch._dynamo.backends.tenon", "output_code")
_OF_DYNAMO = ("guards", "recompiles", "graph_breaks")


# ---- Of Dynamo ----


class _Seen(threading.local):
    """Contexts of graphs whose compilation has not ended."""

    def __init__(self) -> None:
        self.contexts: list[tuple[Any, str]] = []


_seen = _Seen()
_failures: dict[Any, int] = {}  # guards that failed and were logged, by code
_breaks = 0  # how many were logged


def watch_dynamo(gm: fx.GraphModule) -> None:
    """Called with each graph of Dynamo: logs what is known at the end of its compilation."""
    if not any(map(logs.is_enabled, _OF_DYNAMO)):
        return
    from torch._dynamo.callback import callback_handler
    from torch._guards import TracingContext

    if _at_end not in callback_handler.end_callbacks:  # a reset of Dynamo forgets it
        callback_handler.register_end_callback(_at_end)
    context = TracingContext.try_get()
    if context is not None and logs.is_enabled("guards"):
        _seen.contexts.append((context, first_line(gm.graph.nodes)))


def pass_over() -> None:
    """Skips events from before they were chosen."""
    global _breaks
    dynamo = sys.modules.get("torch._dynamo.utils")
    if dynamo is not None:
        _failures.update(
            {code: len(reasons) for code, reasons in list(dynamo.guard_failures.items())}
        )
        _breaks = len(dynamo.graph_break_reasons)


logs.when_chosen(pass_over)


def _at_end(args: Any) -> None:
    contexts, _seen.contexts = _seen.contexts, []
    for context, place in contexts:
        _log_guards(context, place)
    _log_recompiles()
    _log_breaks()


def _log_guards(context: Any, place: str) -> None:
    level = logging.DEBUG if logs.is_enabled("guards", logging.DEBUG) else logging.INFO
    for guard in context.guards_context.dynamo_guards:
        where = text_of(_frame(guard.user_stack)) if guard.user_stack else place
        for text in _texts(guard, level):
            logs.log("guards", f"{where}: {text}", level)
    fake_mode = context.fake_mode
    for guard in getattr(getattr(fake_mode, "shape_env", None), "guards", ()):
        logs.log("guards", f"{place}: sizes: {guard.expr}", level)


# Kinds of guards that people meet. The rest is about modules, hooks and imports.
_USUAL = (
    "TENSOR_MATCH",
    "EQUALS_MATCH",
    "CONSTANT_MATCH",
    "SEQUENCE_LENGTH",
    "GRAD_MODE",
    "DICT_KEYS_MATCH",
)


def _texts(guard: Any, level: int) -> list[str]:
    """A guard in words; nothing for one of the many that only `+guards` shows."""
    kind = guard.create_fn_name()
    if level > logging.DEBUG and (kind not in _USUAL or "torch" in guard.name):
        return []
    if kind == "TENSOR_MATCH":
        return [f"{guard.name} is a tensor of the same type, layout, and fixed sizes"]
    if kind == "GRAD_MODE":
        return ["gradients are on or off as now"]
    return [str(code) for code in guard.code_list or ()] or [
        f"{guard.name or 'the process'}: {kind}"
    ]


def _log_recompiles() -> None:
    from torch._dynamo.utils import guard_failures

    for code in [code for code in _failures if code not in guard_failures]:
        del _failures[code]
    for code, reasons in list(guard_failures.items()):
        new = [str(reason) for reason in reasons[_failures.get(code, 0) :]]
        _failures[code] = len(reasons)
        for reason in new:
            failed = guard_of(reason)
            if "BACKEND_MATCH" not in failed:
                place = text_of((code.co_filename, code.co_firstlineno))
                logs.log(
                    "recompiles",
                    f"{place}: {code.co_name} is compiled again, as this failed: {failed}",
                )


def guard_of(reason: str) -> str:
    """The guard that failed, without the number of the graph and the code that asked for it.

    "0/1: 2 <= args[0].size()[0] <= 15  # return F.conv2d(  # net.py:3 in forward" is the guard alone.
    """
    first = " ".join(reason.splitlines()[0].split())
    return re.sub(r"^\d+/\d+: ", "", first).partition(" # ")[0]


def _log_breaks() -> None:
    global _breaks
    from torch._dynamo.utils import graph_break_reasons

    new = graph_break_reasons[_breaks if _breaks <= len(graph_break_reasons) else 0 :]
    _breaks = len(graph_break_reasons)
    for reason in new:
        if reason.graph_break:
            logs.log("graph_breaks", break_text(reason))


def break_text(reason: Any) -> str:
    """A graph break of Dynamo, with the user's line."""
    place = text_of(_frame(reason.user_stack))
    why, *more = str(reason.reason).splitlines()
    if why.startswith("generic_jump"):  # Dynamo's name of it, without a word of explanation
        why = "a branch depends on the value of a tensor, or of a number that the graph computes"
    hints = [line.strip().removeprefix("Hint: ") for line in more if "Hint: Set " in line]
    return ". ".join([f"{place}: the graph ends here: {why}", *(h.rstrip(".") for h in hints)])


def _frame(stack: Any) -> tuple[str, int] | None:
    """The innermost line of a stack that is the user's."""
    return of_user((frame.filename, frame.lineno) for frame in stack or ())


# ---- Of graphs that were compiled ----


def log_compiled(made: Compiled, walk_ms: float, compile_ms: float) -> None:
    """What became of a graph: `dispatch`, `fusion` and `perf`, and torch's own `output_code`."""
    graph = f"{made.kind} graph of {first_line(made.gm.graph.nodes)}"
    if logs.is_enabled("dispatch"):
        _log_dispatch(graph, made)
    if logs.is_enabled("fusion"):
        for part in made.partitions:
            for line in kernels_of(part):
                logs.log("fusion", f"{graph}: {line}")
    if logs.is_enabled("perf"):
        _log_times(graph, made, walk_ms, compile_ms)
    if _output_code.isEnabledFor(logging.DEBUG):
        for part in made.partitions:
            _output_code.debug("%s", code_of(part, graph))


def code_of(part: Partition, graph: str) -> str:
    """The code of a program's kernels, as each device that knows it writes it."""
    assert part.program is not None
    devices = [row["device"] for row in json.loads(part.program.placement())["devices"]]
    texts = [f"Tenon's code of the {graph}"]
    for device in devices:
        try:
            texts.append(f"// {device}\n{part.program.dump_text(f'{device}/source')}")
        except UsageError as error:  # T0508: the device has no text
            texts.append(f"// {device}: {error}")
    return "\n".join(texts)


def _log_dispatch(graph: str, made: Compiled) -> None:
    programs = [_devices(part.program) for part in made.partitions if part.program is not None]
    logs.log(
        "dispatch",
        f"{graph}: {sizes(made.nodes, len(programs))}{': ' if programs else ''}{'; '.join(programs)}",
    )
    for node, reason in made.in_torch.items():
        logs.log("dispatch", f"{place_of(node)}: {node.target} stays in torch: {reason}")


def sizes(operators: int, programs: int) -> str:
    """ "3 operators in 1 program"."""
    counts = ((operators, "operator"), (programs, "program"))
    return " in ".join(f"{n} {word}{'' if n == 1 else 's'}" for n, word in counts)


def _devices(program: builder.Program) -> str:
    """ "31 nodes on cpu, 2 on sim (2 of 33 nodes on sim: add)"."""
    rows = json.loads(program.placement())["devices"]
    summary = program.summary().strip()
    counts = ", ".join(f"{row['nodes']} nodes on {row['device']}" for row in rows)
    return f"{counts} ({summary})" if summary else counts


def _log_times(graph: str, made: Compiled, walk_ms: float, compile_ms: float) -> None:
    counts = [p.program.counts() for p in made.partitions if p.program is not None]
    total = {
        name: int(sum(c[name] for c in counts))
        for name in ("kernels", "kernels_from_cache", "code_bytes")
    }
    logs.log(
        "perf",
        f"{graph}: {made.nodes} operators became graphs of Tenon in {walk_ms:.0f} ms and programs in {compile_ms:.0f} "
        f"ms: {total['kernels']} kernels, {total['kernels_from_cache']} from the cache, "
        f"{total['code_bytes'] / 1e6:.1f} MB of code",
    )
    if made.in_torch:
        logs.log(
            "perf", f"{graph}: calls are slower, as {len(made.in_torch)} operators stay in torch"
        )
    for node in filter(is_transfer, made.in_torch):
        reason = made.in_torch[node]
        logs.log("perf", f"{place_of_user(node)}: {node.target} stays in torch: {reason}")


def log_not_kept(gm: fx.GraphModule) -> None:
    place = first_line(gm.graph.nodes)
    logs.log(
        "cache",
        f"the graph of {place} is not kept on disk: parameters are constants, or it has operators of Tenon or "
        "floats that change",
    )


def kernels_of(part: Partition) -> list[str]:
    """A line for each kernel of a program: its device, name, and the lines of the user's program in it."""
    if part.program is None:
        return []
    data = json.loads(part.program.dump_text("report"))
    nodes = {node["node"]: node for node in data["graph"]["nodes"]}
    lines = []
    for segment in data["segments"]:
        for name, numbers in _launches(segment):
            places = [_place(nodes[n]) for n in numbers if n in nodes]
            where = ", ".join(dict.fromkeys(place for place in places if place)) or "no line"
            lines.append(f"{segment['device']} computes {name}: {where}")
    return lines


def _launches(segment: dict[str, Any]) -> list[tuple[str, list[int]]]:
    """The kernels of a segment, with nodes of the program. Graphs inside control flow are not named."""
    parts = [json.loads(line) for line in segment["kernels"].splitlines() if line]
    if not parts:
        return [(segment["why_not"], segment["nodes"])]
    found = []
    for part in parts:
        for step in part["steps"]:
            numbers = [segment["numbers"][n] for n in step["nodes"]] if len(parts) == 1 else []
            found.append((step["name"], numbers))
    return found


def nodes_of(part: Partition) -> list[dict[str, str]]:
    """Each node of a program: "op", "place" in the user's program or "", "device", "why" no other one took it."""
    if part.program is None:
        return []
    report = json.loads(part.program.dump_text("report"))
    places = {node["node"]: _place(node) for node in report["graph"]["nodes"]}
    rows = []
    for node in json.loads(part.program.placement())["nodes"]:
        refusals = [f"not {r['device']}: {r['reason']}" for r in node.get("refusals", ())]
        rows.append(
            {
                "op": node["op"],
                "place": places.get(node["node"], ""),
                "device": node["device"],
                "why": "; ".join(refusals),
            }
        )
    return rows


def _place(node: dict[str, Any]) -> str:
    """The line of a node, else its module, which its name begins with."""
    source, line = node.get("source"), node.get("line")
    if source and line:
        return text_of((source, line))
    modules = str(node.get("name", "")).strip("/").split("/")[:-1]
    return f"module {'.'.join(modules)}" if modules else ""
