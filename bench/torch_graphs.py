#!/usr/bin/env python3
"""Graph networks of PyG trained by torch.compile(backend="tenon"), eager mode and Inductor, taking turns.

    PYTHONPATH=build/python .venv-torch/bin/python bench/torch_graphs.py [--only NAME,...] [--rounds N]
        [--nodes N] [--edges N] [--threads N] [--json FILE]

A step is forward, loss, backward and SGD of two layers over a random graph, in one process. Times are
minima of interleaved rounds. Inductor is "not run" where there is no C++ compiler. Ratios above 1 mean
that Tenon is faster.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
import time

import tenon.torch  # noqa: F401
import torch
from torch import nn

FEATURES, HIDDEN, CLASSES = 64, 64, 16


class Network(nn.Module):
    """Two layers over the edges of a graph."""

    def __init__(self, first: nn.Module, second: nn.Module):
        super().__init__()
        self.first, self.second = first, second

    def forward(self, x, edges):
        return self.second(self.first(x, edges).relu(), edges)


def networks():
    """Name: a function that makes a network."""
    import torch_geometric.nn as G

    def perceptron(inner, out):
        return nn.Sequential(nn.Linear(inner, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, out))

    def two(make):
        return lambda: Network(make(FEATURES, HIDDEN), make(HIDDEN, CLASSES))

    heads = 4
    return {
        "gcn": two(G.GCNConv),
        "sage": two(G.SAGEConv),
        "gat": lambda: Network(
            G.GATConv(FEATURES, HIDDEN // heads, heads), G.GATConv(HIDDEN, CLASSES)
        ),
        "gin": two(lambda inner, out: G.GINConv(perceptron(inner, out))),
        "edge": two(lambda inner, out: G.EdgeConv(perceptron(2 * inner, out))),
    }


def peers():
    return {
        "eager": lambda f: f,
        "inductor": lambda f: torch.compile(f, backend="inductor"),
        "tenon": lambda f: torch.compile(f, backend="tenon"),
    }


def random_graph(nodes: int, edges: int):
    """Features, edges and classes."""
    torch.manual_seed(1)
    x, ends = torch.randn(nodes, FEATURES), torch.randint(0, nodes, (2, edges))
    return x, ends, torch.randint(0, CLASSES, (nodes,))


def step_of(net: nn.Module, compiled, data):
    optimizer = torch.optim.SGD(net.parameters(), 1e-2)

    def step():
        x, edges, classes = data
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(compiled(x, edges), classes)
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    return step


def measure(make, data, rounds: int):
    """Seconds of a step by peer, or why it did not run, and the largest difference of a loss."""
    net, steps, losses, times = make(), {}, {}, {}
    for name, compiled in peers().items():
        torch._dynamo.reset()
        own = copy.deepcopy(net)
        step = step_of(own, compiled(own), data)
        try:
            losses[name] = [step() for _ in range(3)]
        except Exception as error:  # a peer that cannot run
            times[name] = f"not run: {type(error).__name__}"
            continue
        steps[name] = step
    measured = {name: [] for name in steps}
    for _ in range(rounds):
        for name, step in steps.items():
            start = time.perf_counter()
            step()
            measured[name].append(time.perf_counter() - start)
    times.update({name: min(found) for name, found in measured.items()})
    apart = max(abs(a - b) for a, b in zip(losses["eager"], losses["tenon"]))
    return times, apart


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--nodes", type=int, default=10000)
    parser.add_argument("--edges", type=int, default=100000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    data, rows = random_graph(args.nodes, args.edges), {}
    only = set(filter(None, args.only.split(",")))
    print(
        f"{'network':8} {'eager':>9} {'inductor':>9} {'tenon':>9}  against the better  loss apart"
    )
    for name, make in networks().items():
        if only and name not in only:
            continue
        torch.manual_seed(0)
        times, apart = measure(make, data, args.rounds)
        rows[name] = times
        shown = [f"{t * 1e3:6.2f} ms" if isinstance(t, float) else t for t in
                 (times["eager"], times["inductor"], times["tenon"])]  # fmt: skip
        better = min(t for peer, t in times.items() if peer != "tenon" and isinstance(t, float))
        print(
            f"{name:8} {' '.join(shown)}  x{better / times['tenon']:.2f}  {apart:.1e}", flush=True
        )
    if args.json:
        with open(args.json, "w") as out:
            json.dump(rows, out, indent=1)


if __name__ == "__main__":
    sys.exit(main())
