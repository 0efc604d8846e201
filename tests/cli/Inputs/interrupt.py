"""Ctrl-C during a long run: exit status 130 about a second later. A run that went on would end by itself with 0. The limit
leaves room for a machine that is busy with something else."""
import signal
import subprocess
import sys
import time

process = subprocess.Popen(["tenon", "run", sys.argv[1], "--seed", "1", "--device", "reference"],
                           stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
time.sleep(1.0)
if process.poll() is not None:
    sys.exit(f"it ended by itself with {process.returncode}: {process.stderr.read().decode()}")
begin = time.monotonic()
process.send_signal(signal.SIGINT)
process.wait(timeout=10)
took = time.monotonic() - begin
print(f"exit {process.returncode} after {took:.2f} s")
sys.exit(0 if process.returncode == 130 and took < 9 else 1)
