"""The backend of `torch.compile`."""

from __future__ import annotations

import contextlib
import functools
import logging

from tenon.builder import host

import torch
from torch import fx

from ..decompositions.checked import keep_checks
from ..decompositions.flex import take_apart
from ..decompositions.resizes import kept_whole
from ..decompositions.table import table
from ..graph.floats import has_floats, kept
from ..graph.input_names import note_names
from ..graph.source_locations import first_line
from ..program import _logging, progress
from ..program.options import Options, with_mode
from ..program.parameter_cache import is_cacheable
from . import aot_cache
from .frozen import checking, guard_identities, plain
from .kept_lines import lines_of
from .register import has_registered
from .threads import share

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

log = logging.getLogger("tenon.torch")

TESTED = "2.13"


@functools.cache
def _log_version() -> None:
    if not torch.__version__.startswith(TESTED + "."):
        log.warning("torch %s is not the tested version, which is %s", torch.__version__, TESTED)


def backend(
    gm: fx.GraphModule, example_inputs: Sequence[Any], *, options: dict[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:  # fmt: skip
    """Compiles a graph of Dynamo: `torch.compile(net, backend="tenon", options={"device": "cpu"})`.

    Options are those of `Options`, and modes those of `MODES`; T0641 for others, and what `tenon.load`
    raises for a device. Forward and backward run in Tenon, and
    operators without mapping in torch, as the logger "tenon.torch" reports. Results, their strides,
    mutations and errors are those of eager mode.
    """
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.partitioners import min_cut_rematerialization_partition

    given = with_mode(options, mode)
    chosen = Options(given)
    host.open()
    chosen.check()
    _log_version()
    share()
    _logging.watch_dynamo(gm)

    keep_checks(gm)
    take_apart(gm)
    parameters, count = _parameters(gm, example_inputs)
    frozen = parameters if chosen.freezing else {}
    stable = {i: t for i, t in parameters.items() if chosen.stable and is_cacheable(t)}
    floats = has_floats(gm)
    # torch's key says nothing of what `register` got, such as a gradient, nor of the values of floats
    # that change, of which AOTAutograd may make constants.
    is_kept = not frozen and not has_registered(gm) and not floats
    if not is_kept:
        _logging.log_not_kept(gm)
    used: dict[int, torch.Tensor] = {}  # those that are constants of a program

    def compiler(kind: str) -> Any:
        def compile(graph: fx.GraphModule, inputs: Sequence[Any]) -> aot_cache.Code:
            note_names(graph.graph, gm.graph)
            names = _matching(graph, frozen, count) if kind == "inference" else {}
            constants = {name: frozen[i] for name, i in names.items()}
            used.update({i: frozen[i] for i in names.values()})
            known = _matching(graph, stable, count) if kind == "inference" else {}
            code = aot_cache.Code(graph, kind, given, frozenset(known))
            code.compile(constants)
            return code

        return aot_cache.keeping(compile) if is_kept else compile

    place = first_line(gm.graph.nodes)
    with (
        progress.watched(f"the graph of {place}, {_operators(gm)} operators,"),
        aot_cache.settings(given),
        lines_of(gm),
        kept() if floats else contextlib.nullcontext(),
        kept_whole(),
    ):
        made: Callable[..., Any] = aot_autograd(
            fw_compiler=compiler("forward"),
            bw_compiler=compiler("backward"),
            inference_compiler=compiler("inference"),
            decompositions=table(),
            partition_fn=min_cut_rematerialization_partition,
            keep_inference_input_mutations=True,
        )(gm, example_inputs)
    if not used:
        return made
    guard_identities(gm, example_inputs, used)
    return checking(made, used)


def _operators(gm: fx.GraphModule) -> int:
    return sum(n.op.startswith("call_") for n in gm.graph.nodes)


def _parameters(gm: fx.GraphModule, inputs: Sequence[Any]) -> tuple[dict[int, torch.Tensor], int]:
    """Parameters and buffers by place among the plain inputs of AOTAutograd's graph, and how many those are."""
    placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
    found: dict[int, torch.Tensor] = {}
    place = 0
    for node, value in zip(placeholders, inputs):
        static = node.meta.get("tensor_dict", {}).get("_dynamo_static_input_type")
        for part in plain([value]):
            if static is not None and type(part) in (torch.Tensor, torch.nn.Parameter):
                found[place] = part
            place += 1
    return found, place


def _matching(graph: fx.GraphModule, frozen: dict[int, torch.Tensor], count: int) -> dict[str, int]:
    """Their positions by names of AOTAutograd's graph, whose inputs are the same unless some are mutated."""
    nodes = [n for n in graph.graph.nodes if n.op == "placeholder"]
    if len(nodes) != count:
        return {}
    changed = {n.args[0] for n in graph.graph.nodes if n.target is torch.ops.aten.copy_.default}
    found = {}
    for i, value in frozen.items():
        fake = nodes[i].meta.get("val")
        same = (
            isinstance(fake, torch.Tensor)
            and fake.shape == value.shape
            and fake.dtype == value.dtype
        )
        if same and nodes[i] not in changed:
            found[nodes[i].name] = i
    return found
