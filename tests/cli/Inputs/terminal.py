"""Runs a command on a terminal of its own, and prints what it writes there. Usage: terminal.py
COMMAND..."""

import os
import pty
import sys

os.environ["TERM"] = "xterm"
sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))
