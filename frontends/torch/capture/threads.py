"""Torch's threads, for Tenon's kernels."""

from __future__ import annotations

import ctypes
import functools
import os

from tenon import logs
from tenon.builder import host

import torch


@functools.cache
def share() -> bool:
    """Has the kernels of this process run on the threads of torch's OpenMP, so that they are as many as
    `torch.set_num_threads` says.

    After its work such a thread spins for some milliseconds, on the processor that a thread of Tenon's
    own would need. False: torch has another kind of threads, or none. Where `TENON_NUM_THREADS` is set,
    Tenon keeps its own. The host is open.
    """
    if not torch.backends.openmp.is_available():
        return False
    # The library is loaded: asking it for a symbol also asks those it needs, so this finds the runtime
    # that torch uses, of the several that a process may have.
    path = os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so")
    try:
        library = ctypes.CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_NOW)
        found = [
            ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0
            for name in ("GOMP_parallel", "omp_get_thread_num", "omp_get_max_threads")
        ]
    except (OSError, AttributeError) as error:
        logs.log(
            "perf", f"torch's threads were not found, so Tenon has threads of its own, too: {error}"
        )
        return False
    host.use_openmp(*found)
    return True
