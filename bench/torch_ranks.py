#!/usr/bin/env python3
"""A tensor-parallel perceptron in two ranks with gloo: backend="tenon" with transfers as parts of its programs
and without, against aot_eager and eager mode, taking turns.

    PYTHONPATH=build/python .venv-torch/bin/python bench/torch_ranks.py [--width 64] [--layers 4] [--rounds 40]
"""

import argparse
import multiprocessing
import os
import statistics
import tempfile
import time

WAYS = {
    "tenon": {"backend": "tenon"},
    "tenon, collectives in torch": {"backend": "tenon", "options": {"collectives": False}},
    "aot_eager": {"backend": "aot_eager"},
    "eager": None,
}
CALLS = 10
"""In a turn."""


def network(args):
    import torch
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    torch.manual_seed(0)
    layers = []
    for _ in range(args.layers):
        up, down = (
            torch.nn.Linear(args.width, 4 * args.width),
            torch.nn.Linear(4 * args.width, args.width),
        )
        layers.append(torch.nn.Sequential(up, torch.nn.GELU(), down))
    net = torch.nn.Sequential(*layers)
    plan = {"*.0": ColwiseParallel(), "*.2": RowwiseParallel()}
    return parallelize_module(net, init_device_mesh("cpu", (2,)), plan)


def turn(call, x, backward):
    import torch

    begin = time.perf_counter()
    for _ in range(CALLS):
        if backward:
            call(x).square().mean().backward()
        else:
            with torch.no_grad():
                call(x)
    return (time.perf_counter() - begin) / CALLS


def rank(number, args, folder):
    import tenon.torch  # noqa: F401
    import torch
    import torch.distributed as dist

    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=number, world_size=2)
    net = network(args)
    x = torch.randn(args.rows, args.width)
    calls = {}
    for name, how in WAYS.items():
        torch._dynamo.reset()
        calls[name] = net if how is None else torch.compile(net, fullgraph=True, **how)
        turn(calls[name], x, args.backward)
    times = {name: [] for name in WAYS}
    for _ in range(args.rounds):
        for name, call in calls.items():
            dist.barrier()
            times[name].append(turn(call, x, args.backward))
    if number == 0:
        report(times)
    dist.destroy_process_group()


def report(times):
    best = {name: min(found) for name, found in times.items()}
    for name, found in times.items():
        print(
            f"{name:30} best {1e3 * best[name]:7.2f} ms, median {1e3 * statistics.median(found):7.2f} ms, "
            f"{best['aot_eager'] / best[name]:5.2f} times aot_eager"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name, value in (("width", 64), ("layers", 4), ("rows", 16), ("rounds", 40)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--backward", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        start = multiprocessing.get_context("spawn").Process
        children = [start(target=rank, args=(number, args, folder)) for number in range(2)]
        for child in children:
            child.start()
        for child in children:
            child.join()


if __name__ == "__main__":
    main()
