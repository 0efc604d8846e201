"""status.py STATUS COMMAND...: runs the command and fails unless it exits with exactly that
status."""

import subprocess
import sys

found = subprocess.run(sys.argv[2:]).returncode
if found != int(sys.argv[1]):
    sys.exit(f"exit status {found} instead of {sys.argv[1]}: {' '.join(sys.argv[2:])}")
