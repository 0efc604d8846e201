"""Weights are transposed once, instead of at every run."""

from typing import Any

import numpy as np
import tenon


@tenon.graph_pass(after="canonicalize", statistics="folded")
def fold_transposes(graph: Any) -> None:
    """Folds transposes into the weights that they transpose."""
    for m in graph.match("transpose(#w)"):
        m.node.replace(np.transpose(graph.numpy(m["w"]), m.node.attrs["perm"]))
        graph.count("folded")
