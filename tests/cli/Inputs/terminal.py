"""Runs a command on a terminal of its own, and prints what it wrote there, with \\r as a line end.
Usage: terminal.py COMMAND..."""
import os
import pty
import sys

written = b""


def read(descriptor):
    global written
    data = os.read(descriptor, 4096)
    written += data
    return b""


os.environ["TERM"] = "xterm"
sys.stdout.flush()
status = pty.spawn(sys.argv[1:], read)
sys.stdout.buffer.write(written.replace(b"\r\n", b"\n").replace(b"\r", b"\n"))
sys.exit(os.waitstatus_to_exitcode(status))
