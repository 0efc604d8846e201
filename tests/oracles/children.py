"""Work in child processes: one that dies or hangs is a finding, and the rest goes on in another one."""

from __future__ import annotations

import multiprocessing
import resource
import signal
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any

SECONDS = 600
"""Processor time of a job."""
MEMORY = 12 << 30

Work = Callable[[Any], Iterator[Any]]


def run(jobs: Sequence[Any], work: Work, seconds: int = SECONDS) -> Iterator[tuple[int, str, Any]]:
    """Yields (job, "found", message) for what `work` yields, (job, "done", None), and (job, "died", why).

    All jobs run in one process until it dies; the next job begins in another one.
    """
    at = 0
    while at < len(jobs):
        for job, what, message in _child(jobs, at, work, seconds):
            at = job
            yield job, what, message
        at += 1


def _child(
    jobs: Sequence[Any], begin: int, work: Work, seconds: int
) -> Iterator[tuple[int, str, Any]]:
    context = multiprocessing.get_context("fork")
    mine, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_run, args=(theirs, jobs, begin, work, seconds))
    child.start()
    theirs.close()
    at, done = begin, begin - 1
    while done < len(jobs) - 1:
        try:
            at, what, message = mine.recv()
        except EOFError:
            break
        if what == "done":
            done = at
        yield at, what, message
    child.join()
    mine.close()
    if done < len(jobs) - 1:
        hung = child.exitcode == -signal.SIGXCPU
        yield (
            done + 1,
            "died",
            f"{seconds} s of processor time"
            if hung
            else f"the process ended with {child.exitcode}",
        )


def _run(pipe: Any, jobs: Sequence[Any], begin: int, work: Work, seconds: int) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.RLIM_INFINITY))
    for at in range(begin, len(jobs)):
        used = resource.getrusage(resource.RUSAGE_SELF)
        resource.setrlimit(
            resource.RLIMIT_CPU,
            (int(used.ru_utime + used.ru_stime) + seconds, resource.RLIM_INFINITY),
        )
        try:
            for message in work(jobs[at]):
                pipe.send((at, "found", message))
        except Exception:
            pipe.send((at, "died", traceback.format_exc(limit=-4)))
        pipe.send((at, "done", None))
