"""Transforms of functions of arrays: derivatives, samples, branches and loops.

Each traces its function into a graph of its own, has a pass change that graph (`grad`, `vjp`, `jvp`,
`batch`), and copies the nodes into the trace around it.
"""
