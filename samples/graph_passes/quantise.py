"""One pass chooses layers and leaves a note; another one quantises the weights of those layers."""

from typing import Any

import numpy as np
import tenon
from tenon import xp


@tenon.graph_pass(after="canonicalize", name="python.choose", statistics="chosen")
def choose(graph: Any, least: int = 6) -> None:
    """Notes 8 bits at products whose weight has at least so many elements."""
    for m in graph.match("matmul(_, #w)", w=lambda w: w.size >= least):
        m.node.notes["python.bits"] = 8
        graph.count("chosen")


@tenon.graph_pass(after="python.choose", name="python.quantise", statistics="quantised")
def quantise(graph: Any) -> None:
    """Makes the weights of noted products whole numbers of 8 bits, with a scale per column."""
    for m in graph.match("matmul(x, #w, python.bits=8)"):
        w = graph.numpy(m["w"])
        scale = np.abs(w).max(axis=-2, keepdims=True) / 127
        whole = np.round(w / np.where(scale == 0, 1, scale)).astype(np.int8)
        with graph.before(m.node):
            back = xp.astype(graph.constant(whole), xp.float32) * graph.constant(scale)
        m.node.replace(m.node.rebuilt([m["x"], back]))
        graph.count("quantised")
