"""One of several processes: order.py KIND. Prints "right" where everything is as it must be."""

import ctypes
import os
import sys
import time

import numpy as np
import tenon
from tenon import xp

ONES = np.ones(4, np.float32)


def say(text):
    """In one piece: launchers mix what processes print."""
    os.write(1, f"{text}\n".encode())


def code_of(call):
    try:
        call()
    except tenon.Error as error:
        return error.code
    return ""


def reading(mesh):
    """Processes read results in different orders, and some read none."""
    with tenon.manual(mesh):
        g, h = tenon.all_reduce(xp.asarray(ONES)), tenon.all_reduce(xp.asarray(100 * ONES))
        results = [g, h] if mesh.rank == 0 else [h, g]
        values = [float(v[0]) for v in results]
        unread = tenon.all_reduce(xp.asarray(ONES))
        if mesh.rank == 0:
            values.append(float(unread[0]))
        last = float(tenon.all_reduce(xp.asarray(ONES))[0])
    wanted = [2, 200, 2] if mesh.rank == 0 else [200, 2]
    assert values == wanted and last == 2, (values, last)


def middle(mesh):
    """A failure that is not the last operation of a program."""
    kind = "sum" if mesh.rank == 0 else "max"

    @tenon.compile
    @tenon.manual(mesh)
    def f(x):
        return tenon.all_gather(tenon.all_reduce(x, kind=kind))

    assert code_of(lambda: np.asarray(f(ONES))) == "T0905"


def retry(mesh):
    """An agreement that failed is none."""
    f = tenon.compile(tenon.manual(mesh)(lambda x: tenon.all_reduce(x)))
    x = ONES if mesh.rank == 0 else ONES.astype(np.int32)
    for _ in range(3):
        assert code_of(lambda: np.asarray(f(x))) == "T0905"
    assert float(np.asarray(f(ONES))[0]) == mesh.size


def always(mesh):
    """With TENON_COLLECTIVE_CHECK=always, each operation is checked."""
    f = tenon.compile(tenon.manual(mesh)(lambda x: tenon.all_reduce(x)))
    g = tenon.compile(tenon.manual(mesh)(lambda x: tenon.all_reduce(x, kind="max")))
    for h in (f, g):
        h(ONES)
    assert code_of(lambda: np.asarray((f if mesh.rank == 0 else g)(ONES))) == "T0905"


def mixed(mesh):
    """Processes that run different operations, both of which they have agreed on before."""
    functions = [
        lambda x: tenon.all_reduce(x),
        lambda x: tenon.all_reduce(x, kind="max"),
        lambda x: tenon.permute(x, [(0, 1)]),
        lambda x: tenon.permute(x, [(1, 0)]),
        lambda x: tenon.all_gather(x),
    ]
    compiled = [tenon.compile(tenon.manual(mesh)(f)) for f in functions]
    for _ in range(2):
        for f in compiled:
            np.asarray(f(ONES))
    a, b = map(int, sys.argv[3:])

    def differ():
        np.asarray(compiled[a if mesh.rank == 0 else b](ONES))
        np.asarray(compiled[0](ONES))  # finds what was sent before and not received

    begin = time.monotonic()
    found = code_of(differ)
    # A process that heard nothing else hears that the other one has ended.
    assert found == "T0905" or (mesh.rank == 0 and found == "T0908"), found
    assert time.monotonic() - begin < 5
    # Data may have been mixed, so there is no other transfer.
    assert code_of(lambda: np.asarray(compiled[0](ONES))) == "T0906"


def uneven(mesh):
    """Processes without a part in a move wait for each other later."""
    x = np.full(2, mesh.rank + 1, np.float32)
    with tenon.manual(mesh):
        for _ in range(3):
            tenon.permute(x, [(0, 1)])
        if mesh.rank == 0:
            time.sleep(1.5)
        got = float(tenon.permute(x, [(0, 1), (2, 0)])[0])
    assert got == {0: 3, 1: 1, 2: 0}[mesh.rank], got


def groups(mesh):
    """Groups along one axis have sizes of their own."""
    mesh = tenon.mesh(data=3, model=1)
    sizes = [2, 3, 4][mesh.rank]
    with tenon.manual(mesh):
        got = np.asarray(tenon.all_reduce(np.ones(sizes, np.float32), "model"))
    assert got.shape == (sizes,)


def fork(mesh):
    """A forked child ends without a word to the others."""
    child = os.fork()
    if child == 0:
        sys.exit(0)
    os.waitpid(child, 0)
    with tenon.manual(mesh):
        assert float(tenon.all_reduce(ONES)[0]) == mesh.size


def own(mesh):
    """A program that ends MPI itself."""
    library = ctypes.CDLL(sys.argv[2], mode=ctypes.RTLD_GLOBAL)
    with tenon.manual(mesh):
        assert float(tenon.all_reduce(ONES)[0]) == mesh.size
    assert library.MPI_Finalize() == 0


def main():
    if sys.argv[1] == "own":
        library = ctypes.CDLL(sys.argv[2], mode=ctypes.RTLD_GLOBAL)
        assert library.MPI_Init(None, None) == 0
    mesh = tenon.mesh(data=3 if sys.argv[1] in ("uneven", "groups") else 2)
    mesh.rank  # noqa: B018  connects the processes
    globals()[sys.argv[1]](mesh)
    say("right")


main()
