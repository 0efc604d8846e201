"""A batch norm after a convolution is a convolution with other weights, whatever the batch is."""

from typing import Any

import numpy as np
import tenon

PATTERN = """batch_norm(conv_bias(x, #w, #b?, activation='none', x_dims=(), w_dims=(), out_dims=())!,
                        #scale, #shift, #mean, #var, dim=1)"""


@tenon.graph_pass(after="canonicalize", before="fold", statistics="folded")
def fold_batch_norm(graph: Any) -> None:
    """Folds batch_norm into the convolution before it."""
    for m in graph.match(PATTERN):
        w, scale, shift, mean, var = (
            graph.numpy(m[n]) for n in ("w", "scale", "shift", "mean", "var")
        )
        factor = scale / np.sqrt(var + m.node.attrs["epsilon"])
        bias = 0 if m["b"] is None else graph.numpy(m["b"])
        kernel = w * factor.reshape(-1, *[1] * (w.ndim - 1))
        conv = m.nodes[1]
        made = conv.rebuilt(
            [m["x"], kernel.astype(w.dtype), ((bias - mean) * factor + shift).astype(w.dtype)]
        )
        m.node.replace(made)
        graph.count("folded")
