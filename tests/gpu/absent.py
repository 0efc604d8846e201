#!/usr/bin/env python3
"""Where there is no GPU, the vendors' plugins load and say why in at most 5 ms together.

    tests/gpu/absent.py TENON

`tenon doctor` loads each of them and asks; it runs without and with them, in turn. What counts is the
processor time of the whole process, and the least of several runs, because the machine is busy."""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
import startup  # noqa: E402

RUNS, MOST_MS = 12, 5.0


def main():
    tenon = sys.argv[1]
    for name in ("LD_LIBRARY_PATH", "ZE_ENABLE_ALT_DRIVERS", "TENON_METAL"):
        os.environ.pop(name, None)
    said = subprocess.run([tenon, "doctor"], capture_output=True, text=True, check=True)
    for vendor in startup.VENDORS.split(","):
        if not any(
            line.split()[:3] == [vendor, "not", "here:"] and f"({vendor}: " in line
            for line in said.stdout.splitlines()
        ):
            print(f"skipped: {vendor} has a device here, or is not built\n{said.stdout}")
            return 77
    if said.stderr:
        print(f"doctor warns: {said.stderr}")
        return 1
    least = {"": 1e9, startup.VENDORS: 1e9}
    for _ in range(RUNS):
        for off in least:
            least[off] = min(
                least[off], startup.spent_ms([tenon, "doctor"], {"TENON_PLUGINS_DISABLE": off})
            )
    more = least[""] - least[startup.VENDORS]
    print(
        f"without the vendors' plugins {least[startup.VENDORS]:.2f} ms, with them {least['']:.2f} ms: {more:+.2f} ms"
    )
    return 1 if more > MOST_MS else 0


if __name__ == "__main__":
    sys.exit(main())
