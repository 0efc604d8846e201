"""What a process does, without a look at the clock: on a busy machine it does it later, and it does it all the same."""
import os
import signal
import time

PATIENCE_SECONDS = 120  # only a guard against a hanging test


def waits_until(holds):
    """False when it did not come to hold, however long it was waited for."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def processor_seconds(pid):
    """That the process has used; 0 when it is gone."""
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
    """It has a handler for Ctrl-C, and has worked for so many seconds of the processor."""
    return catches(pid, signal.SIGINT) and processor_seconds(pid) >= seconds
