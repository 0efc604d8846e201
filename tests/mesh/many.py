"""One of two processes that make many transfers: many.py COUNT. Rank 0 prints by how much memory grew."""

import os
import sys

import numpy as np
import tenon
from tenon import xp

PER_CALL = 5
PAGE = os.sysconf("SC_PAGE_SIZE")


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * PAGE


def main():
    count = int(sys.argv[1]) // PER_CALL
    mesh = tenon.mesh(data=2)

    @tenon.compile
    @tenon.manual(mesh)
    def step(x):
        half = tenon.all_reduce(xp.astype(x, xp.bfloat16))  # MPI has no such sum: it is composed
        parts = tenon.all_gather(tenon.reduce_scatter(x))
        moved = tenon.permute(tenon.all_to_all(x), [(0, 1), (1, 0)])
        return parts + moved + xp.astype(half, xp.float32)

    x = np.arange(64, dtype=np.float32) + mesh.rank
    want = np.asarray(step(x))
    before = 0
    for i in range(count):
        # The first tenth fills what the libraries keep.
        if i == count // 10:
            before = resident()
        y = step(x)
    assert np.array_equal(np.asarray(y), want)
    # In one piece: launchers mix what processes print.
    os.write(1, f"rank {mesh.rank}: {resident() - before} bytes\n".encode())


main()
