"""Observes processes without the clock: on a busy machine they do the same things, only later."""

import os
import signal
import time

PATIENCE_SECONDS = 120  # only a guard against a hanging test


def waits_until(holds):
    """Waits until a condition holds; False if it never did."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def processor_seconds(pid):
    """Processor time that the process has used; 0 when it is gone."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def catches(pid, number):
    """Whether the process has a handler for the signal."""
    try:
        with open(f"/proc/{pid}/status") as file:
            caught = [line.split()[1] for line in file if line.startswith("SigCgt:")]
    except OSError:
        return False
    return bool(caught) and bool(int(caught[0], 16) >> (number - 1) & 1)


def is_at_work(pid, seconds):
    """Whether it has a handler for Ctrl-C and has used this many seconds of processor time."""
    return catches(pid, signal.SIGINT) and processor_seconds(pid) >= seconds
