"""Graphs after AOTAutograd in torch's own cache on disk, so that a second process does not trace them.

torch keeps an entry for each graph of Dynamo, and finds it by the graph, the types of its arguments
and its settings. The entry has our graphs of ATen, not our programs: those are rebuilt from
Tenon's cache of code. So an entry says nothing of devices, passes and plugins. A part of torch's key is
a digest of this package, whose table decides what the graphs look like.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import logging
import operator
import pathlib
from unittest import mock

from tenon import logs

import torch
from torch import fx
from torch._dynamo.convert_frame import compile_lock
from torch._functorch._aot_autograd.autograd_cache import BypassAOTAutogradCache
from torch._functorch._aot_autograd.schemas import SerializableAOTDispatchCompiler
from torch._inductor.output_code import OutputCode

from ..graph.input_names import INPUT
from ..graph.source_locations import MODULES, first_line, modules_of
from ..graph.transfers import is_transfer
from ..program.options import Options
from ..program.partitioner import Compiled, compile_graph
from . import kept_lines
from .watch import watch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

log = logging.getLogger("tenon.torch")


class Code(OutputCode):
    """A compiled graph as torch's cache has it: as a graph on disk, compiled when it is loaded."""

    def __init__(
        self, gm: fx.GraphModule, kind: str, options: dict[str, Any], stable: frozenset[str]
    ):
        super().__init__()
        self._gm: fx.GraphModule | None = gm
        self._bytes = b""
        self._kind = kind
        self._options = options
        self._stable = stable
        self._made: Compiled | None = None
        self._boxed_call = True

    def compile(self, constants: dict[str, torch.Tensor] | None = None) -> Compiled:
        assert self._gm is not None
        made = compile_graph(self._gm, Options(self._options), self._kind, constants, self._stable)
        self._made = made
        self._constant = bool(constants)
        for listed in watch.lists:
            listed.append(made)
        return made

    def __call__(self, inputs: Sequence[Any]) -> Any:
        assert self._made is not None
        return self._made.call(inputs)  # type: ignore[arg-type]

    def prepare_for_serialization(self) -> None:
        from torch.fx._graph_pickler import GraphPickler
        from torch.fx._graph_pickler import Options as PicklerOptions

        assert self._gm is not None and self._made is not None
        why_not = self._why_not()
        if why_not:
            logs.log("cache", f"{self._name()} is not kept on disk: {why_not}")
            raise BypassAOTAutogradCache(why_not)
        for node in self._gm.graph.nodes:
            node.meta[MODULES] = modules_of(
                node
            )  # torch's own has classes, which need not be importable
        kept_lines.note(self._gm)
        self._bytes = GraphPickler.dumps(
            self._gm, options=PicklerOptions(ops_filter=None, node_metadata_key_filter=_is_needed)
        )
        self._gm = self._made = None

    def _why_not(self) -> str:
        """Why the graph cannot be in torch's cache; empty if it can."""
        assert self._gm is not None and self._made is not None
        nodes = self._gm.graph.nodes
        if self._made.unsupported or self._constant:
            return "a graph that was split, or that has parameters as constants, is not kept"
        if any(_has_symbols(n.meta.get("val")) for n in nodes):
            return "a graph whose sizes change is not kept"
        if any("with_effects" in str(n.target) for n in nodes):
            return "a graph with effects is not kept: torch's entry loses its tokens"
        if any(map(is_transfer, nodes)):
            return (
                "a graph with transfers is not kept: torch would hide that the ranks differ in them"
            )
        if any(_is_object(self._gm, n) for n in nodes):
            return "a graph that holds an object, such as the mesh of a DTensor, is not kept: torch's entry loses it"
        return ""

    def _name(self) -> str:
        assert self._gm is not None
        return f"the {self._kind} graph of {first_line(self._gm.graph.nodes)}"

    def post_compile(
        self, example_inputs: Sequence[Any], constants: Any, graph_kwargs: Any
    ) -> None:
        if self._made is not None:
            return
        from torch._guards import detect_fake_mode
        from torch.fx._graph_pickler import GraphPickler

        mode = detect_fake_mode(example_inputs)
        if mode is None:
            raise BypassAOTAutogradCache("no mode of fake tensors to load a graph in")
        gm = GraphPickler.loads(self._bytes, mode)
        assert isinstance(gm, fx.GraphModule)
        gm.recompile()
        kept_lines.renew(gm)
        self._gm = gm
        logs.log("cache", f"{self._name()} comes from torch's cache on disk")
        self.compile()

    def set_triton_bundle(self, triton_bundle: Any) -> None:
        """Nothing to set: our programs have no Triton kernels."""


def _is_needed(key: str) -> bool:
    return key in ("val", "stack_trace", "tensor_meta", MODULES, INPUT, kept_lines.LINE)


def _has_symbols(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return any(map(_has_symbols, value))
    if isinstance(value, torch.Tensor):
        return value._has_symbolic_sizes_strides
    return isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool))


def _is_object(gm: fx.GraphModule, node: fx.Node) -> bool:
    """Whether it is an attribute that is neither a tensor nor a graph."""
    if node.op != "get_attr":
        return False
    held = operator.attrgetter(str(node.target))(gm)
    return not isinstance(held, (torch.Tensor, torch.nn.Module))


def keeping(compiler: Callable[[fx.GraphModule, Sequence[Any]], Code]) -> Any:
    """A compiler whose results torch keeps."""
    return SerializableAOTDispatchCompiler(Code, compiler)


@contextlib.contextmanager
def settings(options: dict[str, Any]) -> Iterator[None]:
    """torch's settings while it compiles, one graph at a time: entries that hold whole graphs, forward and
    backward at once.
    """
    tag = f"{torch.compiler.config.cache_key_tag}tenon {_digest()} {sorted(options.items())}"
    with (
        compile_lock,  # Dynamo's, which a caller may have
        torch._functorch.config.patch(
            bundled_autograd_cache=True, force_non_lazy_backward_lowering=True
        ),
        # We write to no saved tensor, so that one backward pass may follow another. With torch's own
        # setting (`donated_buffer`), it would have to be off in later calls, too.
        mock.patch(
            "torch._functorch._aot_autograd.graph_compile.collect_bw_donated_buffer_idxs",
            lambda *_: [],
        ),
        torch.compiler.config.patch(cache_key_tag=tag),
    ):
        yield


@functools.cache
def _digest() -> str:
    digest = hashlib.sha256()
    for file in sorted(pathlib.Path(__file__).parent.parent.rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]
