"""Ctrl-C during a long run: exit status 130 after little more work. An uninterrupted run would exit
with 0."""

import pathlib
import resource
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import busy  # noqa: E402

process = subprocess.Popen(
    ["tenon", "run", sys.argv[1], "--seed", "1", "--device", "reference"],
    stdout=subprocess.DEVNULL,
    stderr=subprocess.PIPE,
)
busy.waits_until(lambda: process.poll() is not None or busy.is_at_work(process.pid, 0.5))
if process.poll() is not None:
    sys.exit(f"it ended by itself with {process.returncode}: {process.stderr.read().decode()}")
before = busy.processor_seconds(process.pid)
process.send_signal(signal.SIGINT)
process.wait(timeout=busy.PATIENCE_SECONDS)
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
worked = usage.ru_utime + usage.ru_stime - before
print(f"exit {process.returncode} after {worked:.2f} s of the processor")
sys.exit(0 if process.returncode == 130 and worked < 9 else 1)
