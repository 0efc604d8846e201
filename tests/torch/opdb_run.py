"""Runs samples in child processes, so that one that dies or hangs is a verdict and not the end."""

from __future__ import annotations

import multiprocessing
import resource
import signal

from opdb_state import Key, State, named

PER_CHILD = 400
"""Samples per process: compiled programs stay in memory until it ends."""
SECONDS = 120
"""Processor time that a sample may take; eager mode takes milliseconds."""


def run(state: State, names: list[str], dtypes: list[str], ways: list[str], most: int) -> None:
    """All samples of the entries that the state has no verdict of."""
    import opdb_sample  # before children are made, which have it then

    jobs = [
        (entry, dtype)
        for entry, op in opdb_sample.ENTRIES.items()
        if named(entry, names)
        for dtype in dtypes
        if opdb_sample.supports(op, dtype)
    ]
    while jobs:
        jobs = _run_child(state, jobs, lambda *job: _samples(*job, ways, most))


def run_keys(state: State, keys: list[Key]) -> None:
    """These samples alone."""
    import opdb_sample  # noqa: F401

    wanted: dict[tuple[str, str], list[Key]] = {}
    for key in keys:
        wanted.setdefault((key.entry, key.dtype), []).append(key)
    jobs = list(wanted)
    while jobs:
        jobs = _run_child(state, jobs, lambda *job: _chosen(wanted[job]))


def _run_child(state: State, jobs, samples):
    """Runs jobs until the child ends. Returns those that are left, beginning with one that was cut."""
    context = multiprocessing.get_context("fork")
    mine, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_child, args=(theirs, jobs, samples, dict(state.verdicts)))
    child.start()
    theirs.close()
    begun, done = None, 0
    while True:
        try:
            message = mine.recv()
        except EOFError:
            break
        if message[0] == "begun":
            begun = message[1]
        elif message[0] == "verdict":
            state.add(*message[1:])
            begun = None
        else:
            done = message[1]
    child.join()
    mine.close()
    if begun is not None:
        hung = child.exitcode == -signal.SIGXCPU
        reason = (
            f"{SECONDS} s of processor time" if hung else f"the process ended with {child.exitcode}"
        )
        state.add(begun, "hang" if hung else "crash", reason)
    elif child.exitcode:  # between samples: making them ended the process
        done += 1
    return jobs[done:]


def _child(pipe, jobs, samples, known) -> None:
    """Sends ("begun", key), ("verdict", key, verdict, reason), ("done", jobs that are through)."""
    import opdb_sample

    opdb_sample.quiet()
    count = 0
    for i, job in enumerate(jobs):
        pipe.send(("done", i))
        for key, judge in samples(*job):
            if key in known:
                continue
            _allow(SECONDS)
            pipe.send(("begun", key))
            pipe.send(("verdict", key, *judge()))
            count += 1
            if count >= PER_CHILD:
                return
        opdb_sample.forget()
    pipe.send(("done", len(jobs)))


def _allow(seconds: int) -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    limit = int(used.ru_utime + used.ru_stime) + seconds
    resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))


def _samples(entry: str, dtype: str, ways: list[str], most: int):
    import opdb_sample

    for i, sample in opdb_sample.samples(entry, dtype, most):
        for way in ways:
            if way == "forward" or opdb_sample.has_gradient(entry, dtype):
                yield Key(entry, dtype, way, i), lambda: opdb_sample.verdict(entry, sample, way)


def _chosen(keys: list[Key]):
    import opdb_sample

    last = max(k.index for k in keys)
    for i, sample in opdb_sample.samples(keys[0].entry, keys[0].dtype, last + 1):
        for key in keys:
            if key.index == i:
                yield key, lambda: opdb_sample.verdict(key.entry, sample, key.way)
