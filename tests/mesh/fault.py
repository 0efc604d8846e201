"""One of two processes, of which the second one does something wrong: fault.py KIND."""

import os
import signal
import sys
import time

import numpy as np
import tenon
from tenon import xp

mesh = tenon.mesh(data=2)


@tenon.manual(mesh)
def step(x):
    return tenon.all_reduce(x, "data")


@tenon.manual(mesh)
def other_step(x):
    return tenon.all_reduce(x, "data", "max")


def say(text):
    """In one piece: launchers mix what processes print."""
    os.write(1, f"{text}\n".encode())


def misbehave(kind, x):
    """What rank 1 does in place of its second step. Returns the operand and the step."""
    if kind == "throw":
        raise ValueError("a mistake of the user")
    if kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "interrupt":
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(60)
    if kind == "slow":
        time.sleep(3)
    if kind == "hang":
        time.sleep(1000)
    if kind == "end":
        sys.exit(0)
    if kind == "count":
        return np.ones((5, 4), np.float32), step
    if kind == "type":
        return np.ones((4, 4), np.float64), step
    return x, other_step if kind == "op" else step


def main():
    x = np.ones((4, 4), np.float32)
    assert float(xp.sum(step(x))) == 32
    chosen = misbehave(sys.argv[1], x) if mesh.rank == 1 else (x, step)
    try:
        say(f"{mesh.rank} {float(xp.sum(chosen[1](chosen[0])))}")
    except tenon.Error as error:
        say(f"rank {mesh.rank}: {error.code}: {error}")
        sys.exit(1)


main()
