"""Weights that are nearly nothing become nothing."""

from typing import Any

import numpy as np
import tenon


@tenon.graph_pass(after="canonicalize", statistics=("weights", "zeros"))
def prune(graph: Any, below: float = 0.01) -> None:
    """Sets weights of products and convolutions to 0 whose magnitude is below a bound."""
    for m in graph.match("matmul|linear|dot_general|conv|conv_bias(_, #w, ...)"):
        w = graph.numpy(m["w"])
        small = (np.abs(w) < below) & (w != 0)
        if small.any():
            graph.replace(m["w"], np.where(small, 0, w).astype(w.dtype))
            graph.count("weights")
            graph.count("zeros", int(small.sum()))
