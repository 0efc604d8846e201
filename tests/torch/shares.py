#!/usr/bin/env python3
"""How much of a network Tenon runs: graphs, breaks, flops that stayed in torch, compilations.

    PYTHONPATH=build/python .venv-torch/bin/python tests/torch/shares.py [--json FILE] [NAME...]

A line for each network of `models.py`, `plain_networks.py` and `test_diffusers.py`. Flops are counted
by torch's formulas: all of a network where they pass its dispatcher, and Tenon's by the nodes of its
programs. The others stayed in torch, also those that Dynamo left out of its graphs.
"""

from __future__ import annotations

import argparse
import dataclasses
import json

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry, sdpa_flop


@dataclasses.dataclass
class Share:
    name: str
    graphs: int = 0
    parts: int = 0
    breaks: list[str] = dataclasses.field(default_factory=list)
    """Where Dynamo broke the network, in its words."""
    unsupported: list[str] = dataclasses.field(default_factory=list)
    """Operators that stayed in torch."""
    flops: int = 0
    in_torch: int = 0
    """Of these."""
    worst: float = 0.0
    """The largest difference from eager mode, by the largest number of its result."""

    @property
    def share(self) -> float:
        return 1 - self.in_torch / self.flops if self.flops else 1.0


def networks():
    """Name: a function that gives a network and its inputs by name or by position."""
    import models
    import plain_networks

    found = {**{f"transformers {k}": v for k, v in models.MODELS.items()}, **plain_networks.PLAIN}
    try:
        import test_diffusers as d
    except BaseException as error:  # pytest's own, where diffusers is not installed
        print(f"skipped: diffusers ({error})")
        return found
    return found | {f"diffusers {f.__name__}": f for f in (d.unet, d.autoencoder, d.transformer)}


def measured(name, make) -> Share:
    """One network: compiled, called twice, and compared with eager mode."""
    import tenon.torch  # noqa: F401
    from models import tensors
    from tenon.torch.capture.watch import watch

    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    torch.manual_seed(0)
    net, inputs = make()
    call = (lambda f: f(**inputs)) if isinstance(inputs, dict) else (lambda f: f(*inputs))
    made = Share(name)
    graphs: list = []
    watch.lists.append(graphs)
    try:
        compiled = torch.compile(net.eval(), backend="tenon")
        with torch.no_grad():
            call(compiled)
            made.flops, theirs = counted(lambda: call(net))
            ours, left, mine = _counted_inside(graphs, lambda: call(compiled))
            made.in_torch = max(made.flops - ours, left)
    finally:
        watch.lists.remove(graphs)
    made.graphs, made.parts = len(graphs), sum(len(g.partitions) for g in graphs)
    made.unsupported = sorted({op for g in graphs for op in g.unsupported})
    made.breaks = [reason.splitlines()[0] for reason in torch._dynamo.utils.counters["graph_break"]]
    made.worst = max(difference(a, b) for a, b in zip(tensors(mine), tensors(theirs), strict=True))
    return made


def _encoder_layer_flops(
    src, embed_dim, heads, qkv, qkv_bias, proj, proj_bias, *rest, out_val=None
):
    """Its products, whose inner operators do not pass the dispatcher: torch has no formula for it."""
    wide = rest[7].shape[0]
    batch, length = src.shape[:2]
    return 2 * batch * length * embed_dim * (4 * embed_dim + 2 * wide + 2 * length)


class _Flops(TorchDispatchMode):
    """Counts the flops of what passes torch's dispatcher, by torch's own formulas."""

    formulas = {
        torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: sdpa_flop,
        torch.ops.aten._transformer_encoder_layer_fwd: _encoder_layer_flops,
        **flop_registry,
    }

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        formula = self.formulas.get(func._overloadpacket)
        if formula is not None:
            self.count += formula(*args, **(kwargs or {}), out_val=result)
        return result


def counted(call):
    """Flops that pass torch's dispatcher, and the result."""
    with _Flops() as flops:
        result = call()
    return flops.count, result


def flops_of(gm):
    """Flops of the nodes of a graph."""
    count = 0
    for node in gm.graph.nodes:
        formula = _Flops.formulas.get(getattr(node.target, "overloadpacket", None))
        if formula is not None:
            args, kwargs = torch.fx.map_arg((node.args, dict(node.kwargs)), lambda n: n.meta["val"])
            count += formula(*args, **kwargs, out_val=node.meta["val"])
    return count


def _counted_inside(graphs, run):
    """Flops of the programs of these graphs in a call, those that pass torch's dispatcher while the graphs
    run, and the result. A mode is set during their calls alone: with one around all, Dynamo would not run
    them.
    """
    ours = left = 0

    def watched(graph, call):
        def counting(args):
            nonlocal ours, left
            ours += sum(flops_of(part.gm) for part in graph.partitions)
            flops, result = counted(lambda: call(args))
            left += flops
            return result

        return counting

    for graph in graphs:
        graph.call = watched(graph, graph.call)
    result = run()
    return ours, left, result


def difference(a, b) -> float:
    """The largest difference over the largest number of b. Infinite if infinities or NaNs differ."""
    if not b.numel():
        return 0.0
    a, b = a.double(), b.double()
    finite = b.isfinite()
    if not torch.allclose(
        a.where(~a.isfinite(), 0), b.where(~finite, 0), rtol=0, atol=0, equal_nan=True
    ):
        return float("inf")
    if not finite.any():
        return 0.0
    a, b = a[finite], b[finite]
    return ((a - b).abs().max() / b.abs().max().clamp(min=1e-30)).item()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json")
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    found = []
    for name, make in networks().items():
        if given.names and not any(n in name for n in given.names):
            continue
        made = measured(name, make)
        found.append(made)
        rest = f", in torch: {', '.join(made.unsupported)}" if made.unsupported else ""
        broken = f", broken by Dynamo: {'; '.join(made.breaks)}" if made.breaks else ""
        print(
            f"{name}: {made.graphs} graphs, {made.parts} programs, {100 * made.share:.2f} % of {made.flops / 1e6:.1f} Mflops, "
            f"differs by {made.worst:.1e}{rest}{broken}",
            flush=True,
        )
    if found:
        whole = sum(m.flops for m in found)
        print(
            f"{len(found)} networks, {sum(m.graphs == 1 for m in found)} of one graph, {100 - 100 * sum(m.in_torch for m in found) / max(whole, 1):.2f} % of all flops in Tenon"
        )
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump([dataclasses.asdict(m) | {"share": m.share} for m in found], file, indent=1)


if __name__ == "__main__":
    main()
