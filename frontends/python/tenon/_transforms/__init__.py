"""Transforms of functions of arrays: derivatives, samples, branches and loops.

A transform traces its function into a graph of its own, runs a pass on that graph (`grad`, `vjp`,
`jvp`, `linearize`, `batch`), and copies the nodes into the enclosing trace.
"""
