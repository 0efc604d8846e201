"""The backend of `torch.compile`."""

from __future__ import annotations

import functools
import logging
import threading

import torch
from torch import fx

from tenon import _host

from ._decompositions import table
from ._options import Options
from ._split import Compiled, compile_graph

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

log = logging.getLogger("tenon.torch")

TESTED = "2.13"


class _Watch(threading.local):
    """Who wants to know what becomes of graphs (`explain`)."""

    def __init__(self) -> None:
        self.lists: list[list[Compiled]] = []


watch = _Watch()


@functools.cache
def _tell_version() -> None:
    if not torch.__version__.startswith(TESTED + "."):
        log.warning("torch %s is not the tested version, which is %s", torch.__version__, TESTED)


def backend(gm: fx.GraphModule, example_inputs: Sequence[Any], *, options: dict[str, Any] | None = None, mode: str | None = None) -> Callable[..., Any]:
    """Compiles a graph of Dynamo: `torch.compile(net, backend="tenon", options={"device": "cpu"})`.

    Options are those of `Options`; T0641 for others. Forward and backward run in Tenon, and
    operators without mapping in torch, which the logger "tenon.torch" tells. Results, their strides,
    mutations and errors are those of eager mode.
    """
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.partitioners import min_cut_rematerialization_partition

    chosen = Options(options)
    _host.open()
    _tell_version()

    def compiler(kind: str) -> Callable[..., Any]:
        def compile(graph: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
            made = compile_graph(graph, chosen, kind)
            for listed in watch.lists:
                listed.append(made)
            return made.call

        return compile

    made: Callable[..., Any] = aot_autograd(
        fw_compiler=compiler("forward"),
        bw_compiler=compiler("backward"),
        inference_compiler=compiler("inference"),
        decompositions=table(),
        partition_fn=min_cut_rematerialization_partition,
        keep_inference_input_mutations=True,
    )(gm, example_inputs)
    return made
