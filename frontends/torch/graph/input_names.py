"""What the user calls an input of a graph: "conv.weight", "x", in place of AOTAutograd's "primals_3"."""

from __future__ import annotations

import re

from torch._functorch._aot_autograd import descriptors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from torch import fx

INPUT = "tenon_input"
"""The key of a placeholder's data that has its name."""


def note_names(graph: fx.Graph, of_dynamo: fx.Graph) -> None:
    """Notes at the inputs of a graph of AOTAutograd what those of Dynamo's graph are called."""
    names = [_name(n) for n in of_dynamo.nodes if n.op == "placeholder"]
    for node in graph.nodes:
        if node.op == "placeholder":
            found = _described(node.meta.get("desc"), names)
            if found:
                node.meta[INPUT] = found


def input_name(node: fx.Node) -> str:
    """The noted name, else the node's own."""
    return str(node.meta.get(INPUT, node.name))


def _described(desc: Any, names: Sequence[str]) -> str:
    """The name of what a description of AOTAutograd is about; empty where it is a value of the graph."""
    match desc:
        case descriptors.PlainAOTInput(idx=i):
            return names[i] if i < len(names) else ""
        case descriptors.SubclassGetAttrAOTInput(base=base, attr=attr):
            outer = _described(base, names)
            return f"{outer}.{attr}" if outer else ""
        case descriptors.TangentAOTInput(output=descriptors.PlainAOTOutput(idx=i)):
            return f"gradient of result {i}"
    return ""


def _name(node: fx.Node) -> str:
    source = getattr(node.meta.get("grapharg"), "source", None)
    if source is None:
        return str(node.name)
    text = source.name() if callable(source.name) else source.name
    return plain_name(text) or str(node.name)


def plain_name(source: str) -> str:
    """ "L['self']._modules['fc']._parameters['weight']" as "fc.weight", "L['x']" as "x"."""
    text = re.sub(r"^L\['\w+'\](?=\._(modules|parameters|buffers)\[)", "", source)
    text = re.sub(r"^[LG](?=\[)", "", text)
    text = re.sub(r"\._(modules|parameters|buffers)(?=\[)", "", text)
    text = re.sub(r"\[['\"]?([^\]'\"]+)['\"]?\]", r".\1", text)
    return text.strip(".")
