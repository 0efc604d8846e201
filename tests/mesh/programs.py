"""Programs of several processes, against what `stack-ranks` computes of all ranks in one process.

    mpirun -n N python3 programs.py [--random COUNT]

Every process runs the same programs twice: as one of N processes, and as all N of them on a
simulated mesh. It compares its part. The exit status is 1 if any differs.
"""

import argparse
import os
import random
import sys

import numpy as np
import tenon
from tenon import xp

TYPES = ("float32", "bfloat16", "float16", "float64", "int8", "int32", "int64", "uint8", "bool")
SIZES = (0, 1, 7, 5000)


def meshes(count):
    """Axes of meshes with so many ranks."""
    yield {"data": count}
    for first in range(2, count):
        if count % first == 0:
            yield {"data": first, "model": count // first}
    yield {"one": 1, "data": count}


def values(rng, shape, dtype):
    """Small whole numbers, so that sums are exact in every type and order."""
    drawn = rng.integers(-3, 4, shape)
    if dtype == "bool":
        return drawn > 0
    return np.abs(drawn) if dtype.startswith("u") else drawn


def as_array(value, dtype):
    return xp.astype(xp.asarray(value), getattr(xp, dtype))


class Check:
    def __init__(self, size):
        self.size = size
        self.count = self.wrong = 0

    def same(self, what, axes, function, stacked):
        real, all_ranks = tenon.mesh(**axes), tenon.mesh(**axes, simulate=True)
        rank = real.rank
        got = tenon.manual(real)(function)(stacked[rank])
        want = tenon.manual(all_ranks)(function)(stacked)
        self.count += 1
        for i, (a, b) in enumerate(zip(got, want)):
            a, b = np.asarray(xp.astype(a, xp.float64)), np.asarray(xp.astype(b, xp.float64))[rank]
            if a.shape != b.shape or not np.array_equal(a, b, equal_nan=True):
                self.wrong += 1
                print(f"rank {rank}: {what}, result {i}: {a} and not {b}", file=sys.stderr)


def every_op(axes, names, rows):
    """All ops along some axes."""

    def function(x):
        count = tenon.axis_size(names)
        out = [
            tenon.all_gather(x, names, 1),
            tenon.all_to_all(x, names, 0, 1),
            tenon.all_to_all(x, names, 1, 0),
            tenon.permute(x, [(i, (i + 1) % count) for i in range(count)], names),
            tenon.permute(x, [(count - 1, 0)], names),
            tenon.broadcast_from(x, count - 1, names),
            tenon.axis_index(names),
        ]
        if x.dtype != xp.bool:
            for kind in ("sum", "min", "max"):
                out += [tenon.all_reduce(x, names, kind), tenon.reduce_scatter(x, names, 1, kind)]
        return out

    return function


def chosen_axes(axes):
    for name in axes:
        yield (name,)
    if len(axes) > 1:
        yield tuple(reversed(axes))


def check_ops(check, rng):
    for axes in meshes(check.size):
        for dtype in TYPES:
            for columns in SIZES if dtype == "float32" else (7,):
                data = values(rng, (check.size, check.size, columns * check.size), dtype)
                for names in chosen_axes(axes):
                    what = f"{dtype}, {columns} columns, along {names} of {axes}"
                    check.same(what, axes, every_op(axes, names, columns), as_array(data, dtype))


def check_nan(check):
    data = np.ones((check.size, 4), np.float32)
    data[0, 1], data[-1, 2] = np.nan, np.inf

    def function(x):
        return [tenon.all_reduce(x, kind=k) for k in ("min", "max", "sum")]

    check.same("NaN", {"data": check.size}, function, xp.asarray(data))


def check_gradient(check, rng):
    def function(x):
        def loss(x):
            y = tenon.all_gather(x * x, "data", 0)
            return xp.sum(tenon.reduce_scatter(y, "data", 0) * tenon.all_reduce(x, kind="max"))

        return [tenon.grad(loss)(x)]

    data = rng.integers(-3, 4, (check.size, 4, 3)).astype(np.float32)
    check.same("a gradient", {"data": check.size}, function, xp.asarray(data))


def random_program(source, axes):
    """Some steps in a row on an array whose dims stay multiples of the number of ranks."""
    steps = []
    for _ in range(source.randint(2, 6)):
        names = tuple(source.sample(list(axes), source.randint(1, len(axes))))
        steps.append((source.randrange(6), names, source.randrange(2)))

    def function(x):
        seen = []
        for kind, names, dim in steps:
            if kind == 0:
                x = tenon.all_reduce(x, names) * 0.25
            elif kind == 1:
                x = tenon.reduce_scatter(tenon.all_gather(x, names, dim), names, 1 - dim)
                x = tenon.all_to_all(x, names, dim, 1 - dim) * 0.25
            elif kind == 2:
                count = tenon.axis_size(names)
                x = x + tenon.permute(x, [(i, (i + 1) % count) for i in range(count)], names)
            elif kind == 3:
                x = tenon.broadcast_from(x, 0, names) - x
            elif kind == 4:
                x = x * xp.astype(tenon.axis_index(names), x.dtype)
            else:
                x = tenon.all_reduce(x, names, "max")
            seen.append(x)
        return seen

    return function


def check_random(check, count, seed):
    source = random.Random(seed)
    rng = np.random.default_rng(seed)
    for i in range(count):
        axes = source.choice(list(meshes(check.size)))
        side = check.size * check.size
        data = rng.integers(-4, 5, (check.size, side, side)).astype(np.float32)
        check.same(f"random program {i}", axes, random_program(source, axes), xp.asarray(data))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--random", type=int, default=10)
    options = parser.parse_args()
    check = Check(options.ranks)
    rng = np.random.default_rng(1)
    check_ops(check, rng)
    check_nan(check)
    check_gradient(check, rng)
    check_random(check, options.random, 1)
    # In one piece: launchers mix what processes print.
    os.write(1, f"{check.count} programs, {check.wrong} wrong\n".encode())
    return 1 if check.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
