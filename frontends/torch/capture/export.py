"""`tenon.from_exported`: programs of `torch.export` as models."""

from __future__ import annotations

import os
import re
import warnings

from tenon import DataError, Model, NotFoundError, UsageError, builder
from tenon.builder import host, tracing

import torch

from ..decompositions.resizes import kept_whole
from ..decompositions.table import table
from ..graph.node import BEYOND
from ..graph.table import Unsupported
from ..graph.walk import Walk
from . import export_sizes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any


def from_exported(
    program: torch.export.ExportedProgram, device: str | Sequence[str] | None = None, *,
    options: Mapping[str, object] | None = None, fallback: bool = True, deterministic: bool = False,
    threads: int | None = None,
) -> Model:  # fmt: skip
    """Makes a `tenon.Model` of a program of `torch.export`.

        model = tenon.from_exported(torch.export.export(net, (x,), dynamic_shapes=...))
        model.save("net.tpk")                # runs without torch

    Inputs and results are the program's, in its order and by its names. Parameters are constants.
    Dynamic dims are symbols of the model. The other arguments are those of `tenon.load`. Raises
    `tenon.UsageError` T0640 for a node without mapping, and for a network
    that changes its buffers, since a model is immutable.
    """
    if not isinstance(program, torch.export.ExportedProgram):
        raise UsageError(
            f"{type(program).__name__} is not an exported program: "
            "tenon.from_exported(torch.export.export(net, (x,)))",
            "T0640",
        )
    host.open()
    host.device_text(device)
    graph = _graph_of(program)
    return builder.model_of(
        graph,
        device,
        options=options,
        fallback=fallback,
        deterministic=deterministic,
        threads=threads,
    )


def load(path: str | os.PathLike[str], **given: Any) -> Model:
    """A model of a file of `torch.export.save`. NotFoundError T0101, DataError T0640 for the file."""
    if not os.path.exists(path):  # torch would log a traceback of its own
        raise NotFoundError(f"there is no file {os.fspath(path)}", "T0101")
    try:
        program = torch.export.load(path)
    except Exception as error:  # of whatever torch reads it with
        reason = str(error).split("\n")[0]
        raise DataError(f"PyTorch cannot read {os.fspath(path)}: {reason}", "T0640") from error
    return from_exported(program, **given)


def _graph_of(program: torch.export.ExportedProgram) -> builder.Graph:
    with kept_whole(), warnings.catch_warnings():
        # torch copies objects of its own, and warns that their class is deprecated.
        warnings.filterwarnings("ignore", ".*LeafSpec.*is deprecated", FutureWarning)
        taken = program.run_decompositions(table())
    signature = taken.graph_signature
    graph = taken.graph_module.graph
    walk = Walk(graph, "exported")
    walk.constants = _constants(taken)
    walk.keep_inputs = True
    walk.trace.names = export_sizes.names(program)
    walk.run()
    for node, reason in walk.unsupported.items():
        raise UsageError(f"{node.target} cannot be taken: {reason}{_place(node)}", "T0640")
    export_sizes.constrain(program, walk)
    outputs = _outputs(signature, graph)
    try:
        with tracing(walk.trace):
            values = walk.asserted([_result(walk, node) for node in outputs])
        return walk.trace.native.finish([v.id for v in values], _names(outputs))
    except BEYOND as error:
        if isinstance(error, Unsupported):
            raise UsageError(f"the program cannot be taken: {error}", "T0640") from None
        raise


def _place(node: Any) -> str:
    lines = re.findall(r'File "([^"]+)", line (\d+)', node.meta.get("stack_trace") or "")
    return f" ({lines[-1][0]}:{lines[-1][1]})" if lines else ""


def _constants(program: Any) -> dict[str, torch.Tensor]:
    """Parameters, buffers and constants by the names of their placeholders."""
    from torch.export.graph_signature import InputKind

    found = {}
    for spec in program.graph_signature.input_specs:
        if spec.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
            tensor = program.state_dict.get(spec.target)
            found[spec.arg.name] = program.constants[spec.target] if tensor is None else tensor
        elif spec.kind not in (InputKind.USER_INPUT, InputKind.TOKEN):
            raise UsageError(f"inputs of the kind {spec.kind.name} cannot be taken", "T0640")
    return found


def _outputs(signature: Any, graph: Any) -> list[Any]:
    from torch.export.graph_signature import OutputKind

    (output,) = (n for n in graph.nodes if n.op == "output")
    listed = []
    for spec, node in zip(signature.output_specs, output.args[0]):
        if spec.kind is OutputKind.USER_OUTPUT:
            listed.append(node)
        elif spec.kind is not OutputKind.TOKEN:
            raise UsageError(
                f"the network changes {spec.target or spec.arg.name}, and a model is immutable: export "
                "it in evaluation mode, net.eval()",
                "T0640",
            )
    return listed


def _result(walk: Walk, node: Any) -> Any:
    value = walk.values.get(node)
    if value is None or not hasattr(value, "id"):
        raise Unsupported(f"the result {node} is not a tensor")
    return value


def _names(outputs: list[Any]) -> list[str]:
    names: list[str] = []
    for node in outputs:
        name = node.name
        names.append(name if name not in names else f"{name}.{len(names)}")
    return names
